//! Backfillers go where it is idler.

use crate::script::check;

#[test]
fn after_a_second_of_evidence() {
    check(
        "
        > machine 3
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 5 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 5 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 5 slots used)
        > submit 4
        4 start backfill 0 p10: no home core was free but a slot was (4 of 5 slots used)
        > idle 0 100 900
        > +0.5
        > idle 0 100 900
        > +0.5
        > idle 0 100 900
        4 bind 2: another core was idler by 90.0%
        > +0.1
        > idle 0 900 900
        > +2
        > idle 0 900 900
        ",
    );
}

#[test]
fn a_small_gap_is_none() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > idle 100 350
        > +1
        > idle 100 350
        > +1
        > idle 100 351
        > +0.5
        > idle 100 300
        > +0.5
        > idle 100 400
        > +1
        > idle 100 400
        3 bind 1: another core was idler by 30.0%
        ",
    );
}

#[test]
fn never_to_a_core_with_as_many_backfillers() {
    check(
        "
        > machine 2
        > set factor=2000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 4 slots used)
        > submit 4
        4 start backfill 1 p10: no home core was free but a slot was (4 of 4 slots used)
        > idle 0 900
        > +1
        > idle 0 900
        > exit 4
        > +1
        > idle 0 900
        > +1
        > idle 0 900
        3 bind 1: another core was idler by 90.0%
        ",
    );
}

/// Nobody else is there: it is busy with its own work.
#[test]
fn alone_on_a_core_it_stays() {
    check(
        "
        > machine 2
        > submit 1 backfill
        1 start backfill 0 p10: it asked to be a backfiller and a slot was free (1 of 3 slots used)
        > idle 0 1000
        > +1
        > idle 0 1000
        ",
    );
}

#[test]
fn a_new_backfiller_goes_to_the_idlest() {
    check(
        "
        > machine 3
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 5 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 5 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 5 slots used)
        > idle 100 500 300
        > submit 4
        4 start backfill 1 p10: no home core was free but a slot was (4 of 5 slots used)
        > set factor=2500
        > submit 5 c2
        5 start backfill 0,2 p10: no home core was free but a slot was (6 of 8 slots used)
        ",
    );
}
