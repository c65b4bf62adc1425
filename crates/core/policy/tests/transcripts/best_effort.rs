//! Jobs that asked for no more than others leave, beside jobs that come to have cores of their own.

use crate::script::check;

#[test]
fn a_primary_of_any_priority_takes_the_slot_of_the_lowest_and_newest() {
    check(
        "
        > machine 2
        > submit 1 backfill p16
        1 start backfill 0 p16: it asked to be a backfiller and a slot was free (1 of 3 slots used)
        > submit 2 backfill
        2 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 3 slots used)
        > submit 3 backfill
        3 start backfill 0 p10: it asked to be a backfiller and a slot was free (3 of 3 slots used)
        > submit 4 primary p2
        3 freeze: job 4 of priority 2 took its place
        4 start primary 0 p2: a home core was free (3 of 3 slots used)
        > why 3
        job 4 took its slot, which it had for what others leave; it returns when it can, but it is next, and all 3 slots are taken [priority 10, cores asked for 1, slots used 3 of 3, since its start 0.0 s, frozen for 0.0 s, position in the queue 1, goes first in 600 s] change: a slot: job 4 or any of 2 others must end, or `pinfold suspend 4`
        > exit 4
        3 thaw: a slot is free again
        > submit 5 p1
        3 freeze: job 5 of priority 1 took its place
        5 start primary 0 p1: a home core was free (3 of 3 slots used)
        > submit 6 p1
        2 freeze: job 6 of priority 1 took its place
        6 start primary 1 p1: a home core was free (3 of 3 slots used)
        > submit 7 p1
        > exit 5
        7 start primary 0 p1: a home core was free (3 of 3 slots used)
        > exit 6
        2 thaw: a slot is free again
        > exit 7
        3 thaw: a slot is free again
        ",
    );
}

#[test]
fn one_that_waits_first_in_line_holds_no_primary_up() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > submit 1 backfill p8
        1 start backfill 0 p8: it asked to be a backfiller and a slot was free (1 of 1 slots used)
        > submit 2 backfill p16
        > submit 3 primary p2
        1 freeze: job 3 of priority 2 took its place
        3 start primary 0 p2: a home core was free (1 of 1 slots used)
        > exit 3
        2 start backfill 0 p16: it asked to be a backfiller and a slot was free (1 of 1 slots used)
        ",
    );
}

#[test]
fn an_exclusive_job_waits_for_none_of_them() {
    check(
        "
        > machine 2
        > set preemption=off
        > submit 1 backfill p16
        1 start backfill 0 p16: it asked to be a backfiller and a slot was free (1 of 3 slots used)
        > submit 2 backfill
        2 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 3 slots used)
        > submit 3 backfill
        3 start backfill 0 p10: it asked to be a backfiller and a slot was free (3 of 3 slots used)
        > submit 4 exclusive
        3 freeze: the exclusive job 4 takes every slot
        2 freeze: the exclusive job 4 takes every slot
        1 freeze: the exclusive job 4 takes every slot
        4 start exclusive 0-1 p10: the exclusive job 4 takes every slot
        > exit 4
        1 thaw: the exclusive job ended
        2 thaw: the exclusive job ended
        3 thaw: the exclusive job ended
        > +700
        > submit 5 backfill p16
        > submit 6 exclusive p1
        3 freeze: the exclusive job 6 takes every slot
        2 freeze: the exclusive job 6 takes every slot
        1 freeze: the exclusive job 6 takes every slot
        6 start exclusive 0-1 p1: the exclusive job 6 takes every slot
        > exit 6
        1 thaw: the exclusive job ended
        2 bind 0: the exclusive job ended
        2 thaw: the exclusive job ended
        5 start backfill 1 p16: it asked to be a backfiller and a slot was free (2 of 3 slots used)
        ",
    );
}

#[test]
fn with_hard_preemption_none_takes_a_slot_from_others() {
    check(
        "
        > machine 2
        > set factor=1000 preemption=hard
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 p2
        2 start primary 1 p2: a home core was free (2 of 2 slots used)
        > submit 3 backfill p16
        > exit 1
        3 start backfill 0 p16: it asked to be a backfiller and a slot was free (2 of 2 slots used)
        > submit 4 p3
        3 freeze: job 4 of priority 3 took its place
        4 start primary 0 p3: a home core was free (2 of 2 slots used)
        > submit 5 backfill
        > exit 2
        3 bind 1: a slot is free again
        3 thaw: a slot is free again
        > exit 4
        5 start backfill 0 p10: it asked to be a backfiller and a slot was free (2 of 2 slots used)
        ",
    );
}

#[test]
fn one_that_may_not_be_frozen_keeps_its_slot() {
    check(
        "
        > machine 2
        > set factor=500
        > submit 1 backfill nosuspend
        1 start backfill 0 p10: it asked to be a backfiller and a slot was free (1 of 1 slots used)
        > submit 2 primary p16
        > submit 3 exclusive
        > exit 1
        2 start primary 0 p16: a home core was free (1 of 1 slots used)
        > exit 2
        3 start exclusive 0-1 p10: the exclusive job 3 takes every slot
        ",
    );
}

#[test]
fn a_running_job_changes_its_class() {
    check(
        "
        > machine 1
        > set factor=2000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > class 1 backfill
        1 weigh backfill p10: a user or operator asked for it
        2 weigh primary p10: a home core fell free
        > why 1
        it asked to be a backfiller: it runs in the cycles that primaries leave [priority 10, cores asked for 1, slots used 2 of 2, since its start 0.0 s, PUs 0] change: its end
        > submit 3
        > class 1 primary
        > exit 2
        1 weigh primary p10: job 2 ended and left its home core to the oldest backfiller
        3 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > class 3 backfill
        > class 3 exclusive
        ",
    );
}
