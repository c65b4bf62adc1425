//! Jobs that may not go beyond certain PUs, when the cores there are others' or gone.

use crate::script::check;

/// It waits, and those behind it do not wait for it.
#[test]
fn a_job_that_is_shut_out_holds_nobody_up() {
    check(
        "
        > machine 3/a:0,1
        > set factor=1000
        > submit 1 primary w0-1
        > why 1
        it may be on PUs 0-1 only, where 0 cores are for jobs now, and it asks for 1 [priority 10, cores asked for 1, slots used 0 of 1, waited 0.0 s, cores it may be on 0] change: cores there that are set aside must be given back, or those that are gone must return
        > submit 2
        2 start primary 2 p10: a home core was free (1 of 1 slots used)
        > submit 3
        > exit 2
        3 start primary 2 p10: a home core was free (1 of 1 slots used)
        > submit 4 w0 backfill
        > exit 3
        > machine 3
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        4 start backfill 0 p10: it asked to be a backfiller and a slot was free (2 of 3 slots used)
        ",
    );
}

/// One that has started goes on where there is room, and is back inside when it can.
#[test]
fn a_job_that_runs_goes_on() {
    check(
        "
        > machine 3
        > submit 1 primary w0
        1 start primary 0 p10: a home core was free (1 of 5 slots used)
        > suspend 1
        1 freeze: a user or operator asked for it
        > machine 3/a:0
        > submit 2
        2 start primary 1 p10: a home core was free (1 of 3 slots used)
        > resume 1
        1 weigh backfill p10: a user or operator asked for it
        1 bind 2: a user or operator asked for it
        1 thaw: a user or operator asked for it
        > machine 3
        1 weigh primary p10: a home core fell free
        1 bind 0: a home core fell free
        ",
    );
}

/// What waited for another cause while scheduling was off is shut out when it is on again, and the other way round.
#[test]
fn a_border_holds_from_when_scheduling_is_on() {
    check(
        "
        > machine 0,2,3
        > set schedule=off
        > submit 1 x1:1
        1 start primary any p10: scheduling is off, jobs start at once
        > submit 2 c2 w0-1 x1:1
        > set schedule=on
        1 bind 0: a user or operator asked for it
        > exit 1
        > machine 4
        2 start primary 0-1 p10: a home core was free (2 of 6 slots used)
        > machine 0,2,3
        2 weigh backfill p10: the PUs it was bound to are gone or no longer allowed
        2 bind 0,2: the PUs it was bound to are gone or no longer allowed
        > exit 2
        > submit 3 c2 w0-1
        > set schedule=off
        3 start primary any p10: scheduling is off, jobs start at once
        ",
    );
}

/// A job that may be on one core only, which another has, holds back nothing but that core.
#[test]
fn a_job_that_waits_for_a_certain_core_leaves_the_others() {
    check(
        "
        > machine 4
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 o1 primary w0
        > +601
        > submit 3
        3 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 4 c2
        4 start primary 2-3 p10: a home core was free (4 of 4 slots used)
        > submit 5
        > exit 1
        2 start primary 0 p10: a home core was free (4 of 4 slots used)
        > exit 3
        5 start primary 1 p10: a home core was free (4 of 4 slots used)
        ",
    );
}

/// What has fallen free of the cores that it waits for is left to it, and a slot for each.
#[test]
fn a_job_that_waits_for_certain_cores_keeps_those_that_are_free() {
    check(
        "
        > machine 4
        > set factor=1000
        > submit 1 primary w0
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 primary w1
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 o1 primary c2 w0-1
        > +601
        > exit 2
        > submit 4
        4 start primary 2 p10: a home core was free (2 of 4 slots used)
        > submit 5 primary
        5 start primary 3 p10: a home core was free (3 of 4 slots used)
        > submit 6
        > why 6
        job 3 is before it, was passed over long enough, and waits for certain home cores: until it has them others start on other home cores only [priority 10, cores asked for 1, slots used 3 of 4, waited 0.0 s, position in the queue 2, goes first in 600 s] change: job 3 must have started, or another home core must fall free
        > exit 4
        6 start primary 2 p10: a home core was free (3 of 4 slots used)
        > exit 1
        3 start primary 0-1 p10: a home core was free (4 of 4 slots used)
        ",
    );
}

/// A backfiller would get the core as soon as it falls free: none starts meanwhile.
#[test]
fn no_backfiller_starts_before_a_job_that_waits_for_a_certain_core() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 o1 primary w0
        > +601
        > submit 3
        3 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 4
        > exit 1
        2 start primary 0 p10: a home core was free (2 of 3 slots used)
        4 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        ",
    );
}

/// Where its own user's job has the core that user's jobs alone wait; a job of that user elsewhere is in nobody's way.
#[test]
fn a_certain_core_that_its_owners_have_holds_up_its_owners_alone() {
    check(
        "
        > machine 2
        > submit 1 o1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 o1 primary w0
        > +601
        > submit 3 o2
        3 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 4 o1
        > why 4
        job 2 is before it, was passed over long enough, and gets the next slots [priority 10, cores asked for 1, slots used 2 of 3, waited 0.0 s, position in the queue 2, goes first in 600 s] change: job 2 must have started
        > submit 5 o2
        5 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > submit 6 o3
        > why 6
        all 3 slots are taken and 2 jobs are before it in the queue [priority 10, cores asked for 1, slots used 3 of 3, waited 0.0 s, position in the queue 3, goes first in 600 s] change: a slot: job 5 or any of 2 others must end, `pinfold set 6 --priority 11`, or `pinfold suspend 5`
        ",
    );
    check(
        "
        > machine 2
        > submit 1 o2
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 o1
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 o1 primary w0
        > +601
        > submit 4 o3
        > exit 1
        3 start primary 0 p10: a home core was free (2 of 3 slots used)
        4 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        ",
    );
}

/// Cores that other users' daemons have now count for a refusal, and `why` names them: on the host, inside a border, in a
/// set, and for an isolated job.
#[test]
fn a_job_waits_for_cores_that_other_users_have() {
    check(
        "
        > machine 0,/a:1 +1
        > set factor=1000
        > submit 1 c3
        1 drop refused: it asks for 3 cores and the machine has 2 for jobs
        > submit 2 c2
        > why 2
        it asks for 2 cores, and 1 core is with other users while they have jobs [priority 10, cores asked for 2, slots used 0 of 1, waited 0.0 s, cores that other users have 1] change: the jobs of other users must end
        > submit 3 w2
        > why 3
        it asks for 1 core, and 1 core is with other users while they have jobs [priority 10, cores asked for 1, slots used 0 of 1, waited 0.0 s, cores that other users have 1] change: the jobs of other users must end
        > submit 4 c2 sa
        > why 4
        it asks for 2 cores, and 1 core is with other users while they have jobs [priority 10, cores asked for 2, slots used 0 of 1, waited 0.0 s, cores that other users have 1] change: the jobs of other users must end
        > submit 5 sisolated-5
        > why 5
        it asks for 1 core, and 1 core is with other users while they have jobs [priority 10, cores asked for 1, slots used 0 of 1, waited 0.0 s, cores that other users have 1] change: the jobs of other users must end
        > submit 6
        6 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 6
        > machine 0,2/a:1,3
        4 start primary 1,3 p10: enough cores of its set a were free
        2 start primary 0,2 p10: a home core was free (2 of 2 slots used)
        > exit 2
        3 start primary 2 p10: a home core was free (1 of 2 slots used)
        > submit 7 c3
        7 drop refused: it asks for 3 cores and the machine has 2 for jobs
        ",
    );
}
