//! The last jobs of a list share cores evenly, and nobody else pays for it.

use crate::script::check;

#[test]
fn once_none_of_a_list_waits_its_backfillers_share_evenly() {
    check(
        "
        > machine 1
        > set factor=2000
        > submit 1 l7
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 l7
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        2 weigh backfill p10 even: none of its list waits any more: those left of it share the cores evenly
        > submit 3 l7
        2 weigh backfill p10: it is no more one of the last of its list: it runs in the cycles that primaries leave
        > submit 4 l7
        > exit 1
        2 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        3 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > exit 2
        3 weigh primary p10: job 2 ended and left its home core to the oldest backfiller
        4 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        4 weigh backfill p10 even: none of its list waits any more: those left of it share the cores evenly
        > why 4
        it is one of the last of its list: they share the cores evenly [priority 10, cores asked for 1, slots used 2 of 2, since its start 0.0 s, PUs 0] change: its end, or a job that waits or is of another list
        > exit 3
        4 weigh primary p10: job 3 ended and left its home core to the oldest backfiller
        > exit 4
        ",
    );
}

#[test]
fn a_job_that_waits_ends_it_and_so_does_one_of_another_list() {
    check(
        "
        > machine 1
        > set factor=3000
        > submit 1 l7
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 l7
        2 start backfill 0 p10: no home core was free but a slot was (2 of 3 slots used)
        2 weigh backfill p10 even: none of its list waits any more: those left of it share the cores evenly
        > submit 3 l8
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > submit 4 l7
        2 weigh backfill p10: it is no more one of the last of its list: it runs in the cycles that primaries leave
        > exit 4
        2 weigh backfill p10 even: none of its list waits any more: those left of it share the cores evenly
        > exit 1
        2 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        > exit 2
        3 weigh primary p10: job 2 ended and left its home core to the oldest backfiller
        ",
    );
}

#[test]
fn who_asked_for_a_class_or_has_another_priority_is_no_part_of_it() {
    check(
        "
        > machine 1
        > set factor=3000
        > submit 1 l7 primary
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 l7
        2 start backfill 0 p10: no home core was free but a slot was (2 of 3 slots used)
        > exit 1
        2 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        > submit 3 l7 backfill
        3 start backfill 0 p10: it asked to be a backfiller and a slot was free (2 of 3 slots used)
        > submit 4 l7
        4 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        4 weigh backfill p10 even: none of its list waits any more: those left of it share the cores evenly
        > priority 4 9
        4 weigh backfill p9: its priority is now 9
        > priority 4 10
        4 weigh backfill p10 even: its priority is now 10
        > priority 2 11
        4 weigh backfill p10: it is no more one of the last of its list: it runs in the cycles that primaries leave
        2 weigh primary p11: its priority is now 11
        ",
    );
}

#[test]
fn where_primaries_are_protected_nobody_shares_with_them() {
    check(
        "
        > machine 1
        > set factor=2000
        > submit 1 l7
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 l7
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        2 weigh backfill p10 even: none of its list waits any more: those left of it share the cores evenly
        > set protect=200
        2 freeze: primaries are protected, and leave room for 0 backfillers
        > set protect=0
        2 thaw: a slot is free again
        ",
    );
}

#[test]
fn it_is_told_again_after_a_failure_and_after_a_restart() {
    check(
        "
        > machine 1
        > set factor=2000
        > submit 1 l7
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 l7
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        2 weigh backfill p10 even: none of its list waits any more: those left of it share the cores evenly
        > fail 2 weigh backfill 10 even
        > +2
        2 weigh backfill p10 even: an earlier try failed: EIO
        ",
    );
    check(
        "
        > machine 1
        > set factor=2000
        > adopt 1 l7 / primary 0
        > adopt 2 l7 / backfill 0
        > tick
        2 weigh backfill p10 even: found again after a restart of the daemon
        1 weigh primary p10: found again after a restart of the daemon
        ",
    );
}
