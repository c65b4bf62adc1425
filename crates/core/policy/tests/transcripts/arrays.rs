//! Arrays of which only so many members may have started at once.

use crate::script::check;

#[test]
fn no_more_members_start_than_their_array_lets() {
    check(
        "
        > machine 4
        > set factor=1000
        > submit 1 x1:2
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 x1:2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 x1:2
        > submit 4 x1:2
        > why 3
        of its array 1 at most 2 may have started at once, and 2 have [priority 10, cores asked for 1, slots used 2 of 4, waited 0.0 s, position in the queue 1, members of its array that have started 2, of at most 2] change: the member that is job number 1 must end, or the other one
        > submit 5
        5 start primary 2 p10: a home core was free (3 of 4 slots used)
        > exit 5
        > exit 2
        3 start primary 1 p10: a home core was free (2 of 4 slots used)
        > exit 1
        4 start primary 0 p10: a home core was free (2 of 4 slots used)
        ",
    );
}

/// A frozen member has started: what it did is not done yet.
#[test]
fn a_suspended_member_counts() {
    check(
        "
        > machine 2
        > submit 1 x1:1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 x1:1
        > suspend 1
        1 freeze: a user or operator asked for it
        > why 2
        of its array 1 at most 1 may have started at once, and 1 has [priority 10, cores asked for 1, slots used 0 of 3, waited 0.0 s, position in the queue 1, members of its array that have started 1, of at most 1] change: the member that is job number 1 must end
        > resume 1
        1 thaw: a user or operator asked for it
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 3 slots used)
        ",
    );
}

/// Neither a held member nor one that finds no room keeps those behind it from starting.
#[test]
fn a_member_that_cannot_start_holds_no_other_up() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1 c2 x1:1
        1 start primary 0-1 p10: a home core was free (2 of 2 slots used)
        > submit 2 x1:1 held
        > submit 3 c2 x1:1
        > submit 4 x1:1
        > submit 5
        > machine 1
        1 weigh backfill p10: the PUs it was bound to are gone or no longer allowed
        1 bind 0: the PUs it was bound to are gone or no longer allowed
        > exit 1
        4 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 4
        5 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

/// What a member waits for is its own array: only from when it is next does its time count.
#[test]
fn waiting_for_its_own_array_gives_no_right() {
    check(
        "
        > machine 1
        > set factor=2000 preemption=off
        > submit 1 x1:1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 p3 x1:1
        > wakeup
        never
        > submit 9
        9 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > +700
        > submit 3 p12
        > exit 1
        9 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        3 start backfill 0 p12: no home core was free but a slot was (2 of 2 slots used)
        > wakeup
        600000 ms
        > submit 4 p12
        > +600
        > exit 3
        2 start backfill 0 p3: no home core was free but a slot was (2 of 2 slots used)
        ",
    );
}

/// One whose start failed waits again, and another may have its turn.
#[test]
fn a_start_that_failed_gives_its_place_back() {
    check(
        "
        > machine 2
        > slow
        > submit 1 x1:1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 x1:1
        > fail 1 start
        2 start primary 0 p10: a home core was free (1 of 3 slots used)
        > +2
        > exit 2
        1 start primary 0 p10: an earlier try failed: EIO
        ",
    );
}

/// After a restart the waiting ones are known before the running ones; the number holds all the same.
#[test]
fn a_restart_changes_nothing() {
    check(
        "
        > machine 4
        > adopt 3 x1:2
        > adopt 4 x1:2
        > adopt 1 x1:2 / primary 0
        > adopt 2 x1:2 / primary 1
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        2 weigh primary p10: found again after a restart of the daemon
        > exit 1
        3 start primary 0 p10: a home core was free (2 of 6 slots used)
        > cancel 4
        4 drop: a user or operator asked for it
        > exit 2
        > exit 3
        ",
    );
}

/// It holds whether or not jobs are scheduled, and in a set of cores.
#[test]
fn without_scheduling_and_in_sets() {
    check(
        "
        > machine 4/a:2,3
        > submit 1 sa x1:1
        1 start primary 2 p10: enough cores of its set a were free
        > submit 2 sa x1:1
        > submit 3 sa
        3 start primary 3 p10: enough cores of its set a were free
        > exit 1
        2 start primary 2 p10: enough cores of its set a were free
        > set schedule=off
        2 bind 2-3: scheduling is off, jobs start at once
        3 bind 2-3: scheduling is off, jobs start at once
        > submit 4 x2:1
        4 start primary 0-1 p10: scheduling is off, jobs start at once
        > submit 5 x2:1
        > submit 6
        6 start primary 0-1 p10: scheduling is off, jobs start at once
        > exit 4
        5 start primary 0-1 p10: scheduling is off, jobs start at once
        ",
    );
}
