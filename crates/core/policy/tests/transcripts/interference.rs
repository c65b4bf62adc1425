//! Primaries that wait for a core with backfillers beside them.

use crate::script::check;

/// Three windows of five seconds; then its slot is nobody's for a minute, and after the second time for two.
#[test]
fn the_youngest_backfiller_gives_way() {
    check(
        "
        > machine 1
        > set factor=3000 hold_back=on
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start backfill 0 p10: no home core was free but a slot was (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > +1 idle 0 1:200
        > +5 idle 0 1:200
        > +5 idle 0 1:200
        > +5 idle 0 1:200
        3 freeze: job 1 waited 20.0 % of the time for a core beside it, 0.0 % is usual
        > why 3
        job 1 waited for a core more than is usual, with this one beside it; it stays suspended for 60 s more [priority 10, cores asked for 1, slots used 2 of 2, since its start 16.0 s, frozen for 0.0 s] change: that time, or `cpu.guard=off`
        > submit 4
        > +59 idle 0 1:0
        > +1 idle 0 1:0
        3 thaw: a slot is free again
        > +5 idle 0 1:200
        > +5 idle 0 1:200
        > +5 idle 0 1:200
        3 freeze: job 1 waited 20.0 % of the time for a core beside it, 0.0 % is usual
        > why 4
        it is next, and all 2 slots are taken [priority 10, cores asked for 1, slots used 2 of 2, waited 75.0 s, no more backfillers for 120 s (`cpu.guard`), position in the queue 1, goes first in 525 s] change: a slot: job 2 or job 1 must end, `pinfold set 4 --priority 11`, or `pinfold suspend 2`
        > set hold_back=off
        3 thaw: a slot is free again
        ",
    );
}

/// What a job waits without any backfiller is its own.
#[test]
fn what_is_usual_is_no_reason() {
    check(
        "
        > machine 1
        > set factor=2000 hold_back=on
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > +1 idle 0 1:700
        > +5 idle 0 1:720
        > +5 idle 0 1:680
        > +5 idle 0 1:700
        > submit 2
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > +5 idle 0 1:720
        > +5 idle 0 1:720
        > +5 idle 0 1:720
        > +5 idle 0 1:720
        > +5 idle 0 1:900
        > +5 idle 0 1:900
        > +5 idle 0 1:900
        2 freeze: job 1 waited 90.0 % of the time for a core beside it, 69.6 % is usual
        ",
    );
}

/// Whoever may not be frozen is not, and one behind another cache is in nobody's way.
#[test]
fn only_who_is_beside_it_and_may_be_frozen() {
    check(
        "
        > machine pack:2,numa:1,core:1,pu:1
        > set factor=2000 hold_back=on
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 nosuspend
        3 start backfill 0 p10: no home core was free but a slot was (3 of 4 slots used)
        > submit 4
        4 start backfill 1 p10: no home core was free but a slot was (4 of 4 slots used)
        > +1 idle 0 0 1:300 2:0
        > +5 idle 0 0 1:300 2:0
        > +5 idle 0 0 1:300 2:0
        > +5 idle 0 0 1:300 2:0
        > +5 idle 0 0 1:300 2:300
        > +5 idle 0 0 1:300 2:300
        > +5 idle 0 0 1:300 2:300
        4 freeze: job 2 waited 30.0 % of the time for a core beside it, 0.0 % is usual
        ",
    );
}

/// Free slots are no reason to come back at once, nor for another to take its place.
#[test]
fn nobody_takes_its_place() {
    check(
        "
        > machine pack:3,numa:1,core:2,pu:2
        > set factor=2000 hold_back=on
        > submit 1 c6 primary
        1 start primary 0-11 p10: a home core was free (6 of 12 slots used)
        > submit 2
        2 start backfill 0-3 p10: no home core was free but a slot was (7 of 12 slots used)
        > +1 idle 0 0 1:600
        > +5 idle 0 0 1:600
        > +5 idle 0 0 1:600
        > +5 idle 0 0 1:600
        2 freeze: job 1 waited 60.0 % of the time for a core beside it, 0.0 % is usual
        > submit 3
        > wakeup
        60000 ms
        > +60
        2 thaw: a slot is free again
        3 start backfill 4-7 p10: no home core was free but a slot was (8 of 12 slots used)
        ",
    );
}

/// The primary is over before that: no job is suspended for it any more.
#[test]
fn for_as_long_as_it_is_there() {
    check(
        "
        > machine 1
        > set factor=2000 hold_back=on
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > +1 idle 0 1:600
        > +5 idle 0 1:600
        > +5 idle 0 1:600
        > +5 idle 0 1:600
        2 freeze: job 1 waited 60.0 % of the time for a core beside it, 0.0 % is usual
        > exit 1
        2 weigh primary p10: a slot is free again
        2 thaw: a slot is free again
        ",
    );
}

/// Whoever shares its core evenly with a primary is its like; beside another primary all is as ever.
#[test]
fn where_some_share_evenly_the_others_are_watched() {
    check(
        "
        > machine pack:2,numa:1,core:1,pu:1
        > set factor=2000 hold_back=on
        > submit 1 l7
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 l7
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 l7
        3 start backfill 0 p10: no home core was free but a slot was (3 of 4 slots used)
        3 weigh backfill p10 even: none of its list waits any more: those left of it share the cores evenly
        > submit 4
        4 start backfill 1 p10: no home core was free but a slot was (4 of 4 slots used)
        > +1 idle 0 0 1:300 2:300
        > +5 idle 0 0 1:300 2:300
        > +5 idle 0 0 1:300 2:300
        > +5 idle 0 0 1:300 2:300
        4 freeze: job 2 waited 30.0 % of the time for a core beside it, 0.0 % is usual
        ",
    );
}

/// Who takes the primary's home ends that in the same step.
#[test]
fn when_the_primary_gives_its_home_up_nobody_stands_still_for_it() {
    check(
        "
        > machine 2
        > set factor=2000 hold_back=on
        > submit 1 nosuspend
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 nosuspend
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 4 slots used)
        > submit 4 nosuspend
        4 start backfill 1 p10: no home core was free but a slot was (4 of 4 slots used)
        > +1 idle 0 0 1:600 2:0
        > +5 idle 0 0 1:600 2:0
        > +5 idle 0 0 1:600 2:0
        > +5 idle 0 0 1:600 2:0
        3 freeze: job 1 waited 60.0 % of the time for a core beside it, 0.0 % is usual
        > submit 5 c2 p12
        > exit 4
        > exit 2
        1 weigh backfill p10: job 5 of priority 12 took its place
        3 bind 1: a slot is free again
        3 thaw: a slot is free again
        5 start primary 0-1 p12: a home core was free (3 of 3 slots used)
        ",
    );
}
