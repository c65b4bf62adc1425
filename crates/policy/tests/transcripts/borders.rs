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
