//! Cores that are set aside, and the jobs in them.

use crate::script::check;

#[test]
fn a_set_has_its_own_cores_and_its_own_queue() {
    check(
        "
        > machine 4/db:2,3
        > submit 1 sdb
        1 start primary 2 p10: enough cores of its set db were free
        > submit 2 sdb
        2 start primary 3 p10: enough cores of its set db were free
        > submit 3 sdb
        > submit 4 c2
        4 start primary 0-1 p10: a home core was free (2 of 3 slots used)
        > submit 5 primary
        > why 3
        it is next, and its set db has not 1 core free (0 are) [priority 10, cores asked for 1, slots used 2 of 3, waited 0.0 s, position in the queue 1, goes first in 600 s, cores of the set free 0 of 2] change: job 1 or job 2 must end
        > why 5
        it is next, and no home core is free for it (0 are) [priority 10, cores asked for 1, slots used 2 of 3, waited 0.0 s, position in the queue 1, goes first in 600 s] change: a home core: job 4 must end
        > exit 1
        3 start primary 2 p10: enough cores of its set db were free
        > exit 4
        5 start primary 0 p10: a home core was free (1 of 3 slots used)
        > why 3
        it runs in the set db, whose cores only jobs in it have [priority 10, cores asked for 1, slots used 1 of 3, since its start 0.0 s, PUs 2] change: its end
        ",
    );
}

#[test]
fn whoever_is_on_cores_that_are_set_aside_goes_elsewhere() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > machine 2/db:1
        2 weigh backfill p10: its cores are set aside as db
        2 bind 0: its cores are set aside as db
        > submit 3 sdb
        3 start primary 1 p10: enough cores of its set db were free
        > machine 2
        3 weigh backfill p10: the PUs it was bound to are gone or no longer allowed
        3 bind 0: the PUs it was bound to are gone or no longer allowed
        2 weigh primary p10: a home core fell free
        2 bind 1: a home core fell free
        > why 3
        it is a backfiller, for no home core is free: it runs in the cycles that primaries leave [priority 10, cores asked for 1, slots used 3 of 3, since its start 0.0 s, PUs 0, backfillers before it 0] change: a home core: job 2 or job 1 must end
        > exit 1
        3 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        ",
    );
}

#[test]
fn an_exclusive_job_has_the_host_but_not_the_sets() {
    check(
        "
        > machine 3/db:2
        > submit 1 sdb
        1 start primary 2 p10: enough cores of its set db were free
        > submit 2 exclusive
        2 start exclusive 0-1 p10: the exclusive job 2 takes every slot
        > submit 3
        > exit 1
        > submit 4 sdb exclusive
        4 start primary 2 p10: enough cores of its set db were free
        > why 3
        the exclusive job 2 has the whole host [priority 10, cores asked for 1, slots used 3 of 3, waited 0.0 s, position in the queue 1, goes first in 600 s] change: job 2 must end
        ",
    );
}

#[test]
fn a_set_that_shrinks_is_shared_until_somebody_leaves() {
    check(
        "
        > machine 4/db:2,3
        > submit 1 sdb
        1 start primary 2 p10: enough cores of its set db were free
        > submit 2 sdb
        2 start primary 3 p10: enough cores of its set db were free
        > machine 3/db:2
        2 bind 2: the usable PUs of its cores changed
        > exit 1
        > machine 2
        2 bind 0: the PUs it was bound to are gone or no longer allowed
        > submit 3 sdb
        > why 3
        its set db has no cores now [priority 10, cores asked for 1, slots used 1 of 3, waited 0.0 s] change: `pinfold set-aside db` again
        > machine 3/db:2
        2 bind 2: the usable PUs of its cores changed
        ",
    );
}

#[test]
fn memory_promised_to_a_set_stays_free_for_it() {
    check(
        "
        > machine 4/db:3+600
        > submit 1 m100
        1 start primary 0 p10: a home core was free (1 of 5 slots used)
        > memory free=900 swap=0 1:100
        > submit 2 m500
        > why 2
        it is expected to need 500 MiB of memory and 300 MiB are left for it [priority 10, cores asked for 1, slots used 1 of 5, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 500 MiB, memory at most 500 MiB, memory for jobs 1000 MiB, memory free 900 MiB, memory counted for other jobs 700 MiB] change: job 1 must end or need less
        > submit 3 m500 sdb
        3 start primary 3 p10: enough cores of its set db were free
        > submit 4 m200
        4 start primary 1 p10: a home core was free (2 of 5 slots used)
        ",
    );
}

#[test]
fn jobs_in_sets_are_held_suspended_and_found_again() {
    check(
        "
        > machine 2/db:1
        > adopt 1 sdb / primary 1
        > submit 2 sdb
        1 weigh primary p10: found again after a restart of the daemon
        > suspend 1
        1 freeze: a user or operator asked for it
        2 start primary 1 p10: enough cores of its set db were free
        > resume 1
        > exit 2
        1 thaw: a user or operator asked for it
        > set schedule=off
        > submit 3 sdb
        3 start primary 1 p10: enough cores of its set db were free
        > submit 4
        4 start primary 0 p10: scheduling is off, jobs start at once
        > set schedule=on
        > set affinity=off
        ",
    );
}

#[test]
fn a_set_that_is_there_again_has_no_backfillers() {
    check(
        "
        > machine 2/s:1
        > submit 1 ss
        1 start primary 1 p10: enough cores of its set s were free
        > submit 2
        2 start primary 0 p10: a home core was free (1 of 2 slots used)
        > machine 1
        1 weigh backfill p10: the PUs it was bound to are gone or no longer allowed
        1 bind 0: the PUs it was bound to are gone or no longer allowed
        > machine 2/s:1
        1 weigh primary p10: the usable PUs of its cores changed
        1 bind 1: the usable PUs of its cores changed
        ",
    );
}

#[test]
fn without_affinity_jobs_in_a_set_are_on_all_of_it() {
    check(
        "
        > machine 4/s:2,3
        > submit 1 ss
        1 start primary 2 p10: enough cores of its set s were free
        > submit 2
        2 start primary 0 p10: a home core was free (1 of 3 slots used)
        > set affinity=off
        2 bind 0-1: a user or operator asked for it
        1 bind 2-3: a user or operator asked for it
        > set affinity=on
        2 bind 0: a user or operator asked for it
        1 bind 2: a user or operator asked for it
        ",
    );
}
