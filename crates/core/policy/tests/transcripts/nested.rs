//! Nested jobs, and parents that wait for nested jobs.

use crate::script::check;

/// At any depth, each job in its turn; an idle parent has its slot back when a nested job ends, and before other jobs.
#[test]
fn an_idle_parent_lends_its_slot_to_jobs_of_its_own() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > submit 3 u1
        > why 3
        the only slot is taken and 1 job is before it in the queue [priority 10, cores asked for 1, slots used 1 of 1, waited 0.0 s, position in the queue 2, goes first in 600 s] change: a slot: job 1 must be idle for some seconds, and lends its slot then
        > waits 1
        1 weigh backfill p10: job 3 of priority 10 took its place
        3 start primary 0 p10: a home core was free (1 of 1 slots used)
        > why 1
        it runs, and its slots are lent to jobs that were submitted from within it [priority 10, cores asked for 1, slots used 1 of 1, since its start 0.0 s] change: it has them back as soon as so many are free
        > submit 4 u3
        > waits
        > waits 1 3
        3 weigh backfill p10: job 4 of priority 10 took its place
        4 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 4
        1 weigh primary p10: job 4 ended and left its home core to the oldest backfiller
        > submit 5 u3
        1 weigh backfill p10: job 5 of priority 10 took its place
        5 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 5
        1 weigh primary p10: job 5 ended and left its home core to the oldest backfiller
        > exit 3
        > submit 6 u1
        1 weigh backfill p10: job 6 of priority 10 took its place
        6 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 6
        1 weigh primary p10: job 6 ended and left its home core to the oldest backfiller
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

/// Another user's idle parent lends nothing; a slot that is free counts with the lent ones.
#[test]
fn a_job_is_lent_slots_of_its_own_user_only() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1 o1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 o2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3 o1 u1 c2
        > submit 4 o1
        > waits 1 2
        > why 3
        it is next, and all 2 slots are taken; each job that runs is idle and waits for a job that was submitted from within it [priority 10, cores asked for 2, slots used 2 of 2, waited 0.0 s, position in the queue 1, goes first in 600 s] change: job 1, from within which this job was submitted, must end: `pinfold cancel 1`
        > exit 2
        4 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 4
        1 weigh backfill p10: job 3 of priority 10 took its place
        3 start primary 0-1 p10: a home core was free (2 of 2 slots used)
        ",
    );
}

/// The jobs of two parents need more than each parent lends: those of one user lend to one of them.
#[test]
fn parents_of_one_user_lend_to_one_job() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3 u1 c2
        > submit 4 u2 c2
        > waits 1 2
        1 weigh backfill p10: job 3 of priority 10 took its place
        2 weigh backfill p10: job 3 of priority 10 took its place
        3 start primary 0-1 p10: a home core was free (2 of 2 slots used)
        > exit 3
        2 bind 0: job 4 of priority 10 took its place
        1 bind 1: job 4 of priority 10 took its place
        4 start primary 0-1 p10: a home core was free (2 of 2 slots used)
        > exit 1
        > exit 4
        2 weigh primary p10: job 4 ended and left its home core to the oldest backfiller
        ",
    );
}

/// An exclusive parent lends nothing; `why` says that no job will start.
#[test]
fn a_circle_is_named() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1 exclusive
        1 start exclusive 0-1 p10: the exclusive job 1 takes every slot
        > submit 2 u1
        > waits 1
        > why 2
        the exclusive job 1 has the whole host; each job that runs is idle and waits for a job that was submitted from within it [priority 10, cores asked for 1, slots used 2 of 2, waited 0.0 s, position in the queue 1, goes first in 600 s] change: job 1, from within which this job was submitted, must end: `pinfold cancel 1`
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 2 slots used)
        ",
    );
}

/// Where slots become fewer than running jobs, parents lend theirs before a job is frozen.
#[test]
fn parents_lend_where_slots_become_fewer() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 u1
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > machine 1
        2 weigh backfill p10: the PUs it was bound to are gone or no longer allowed
        2 bind 0: the PUs it was bound to are gone or no longer allowed
        > exit 2
        > exit 1
        ",
    );
}

/// The keeper of a nested job is frozen with the parent.
#[test]
fn no_job_freezes_the_one_that_it_is_within() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 u1 p16
        > why 2
        it is next, and the only slot is taken [priority 16, cores asked for 1, slots used 1 of 1, waited 0.0 s, position in the queue 1, goes first in 600 s] change: a slot: job 1 must be idle for some seconds, and lends its slot then
        ",
    );
}
