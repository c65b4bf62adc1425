//! A job that gets every slot.

use crate::script::check;

#[test]
fn freezes_backfillers_then_lower_primaries_the_newest_first() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > submit 4 exclusive p12
        3 freeze: the exclusive job 4 takes every slot
        2 freeze: the exclusive job 4 takes every slot
        1 freeze: the exclusive job 4 takes every slot
        4 start exclusive 0-1 p12: the exclusive job 4 takes every slot
        > why 4
        it has the whole host to itself [priority 12, cores asked for 1, slots used 3 of 3, since its start 0.0 s, PUs 0-1] change: its end
        > why 1
        the exclusive job 4 took every slot; it returns when it can, but the exclusive job 4 has the whole host [priority 10, cores asked for 1, slots used 3 of 3, since its start 0.0 s, frozen for 0.0 s, position in the queue 1, goes first in 600 s] change: job 4 must end
        > submit 5 p16
        > why 5
        the exclusive job 4 has the whole host [priority 16, cores asked for 1, slots used 3 of 3, waited 0.0 s, position in the queue 1, goes first in 600 s] change: job 4 must end
        > exit 4
        1 bind 1: the exclusive job ended
        1 thaw: the exclusive job ended
        2 weigh backfill p10: the exclusive job ended
        2 bind 0: the exclusive job ended
        2 thaw: the exclusive job ended
        5 start primary 0 p16: a home core was free (1 of 3 slots used)
        > exit 5
        2 weigh primary p10: job 5 ended and left its home core to the oldest backfiller
        3 thaw: the exclusive job ended
        ",
    );
}

#[test]
fn waits_for_who_may_not_be_frozen_and_nothing_else_starts() {
    check(
        "
        > machine 2
        > submit 1 nosuspend
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 exclusive p12
        > submit 4
        > why 3
        it is next, and jobs that may not be frozen for an exclusive job still run [priority 12, cores asked for 1, slots used 2 of 3, waited 0.0 s, position in the queue 1, goes first in 600 s] change: job 1 must end
        > why 4
        the exclusive job 3 is before it and waits for the whole host [priority 10, cores asked for 1, slots used 2 of 3, waited 0.0 s, position in the queue 2, goes first in 600 s] change: job 3 must have run, or be held
        > exit 1
        2 freeze: the exclusive job 3 takes every slot
        3 start exclusive 0-1 p12: the exclusive job 3 takes every slot
        > exit 3
        2 thaw: the exclusive job ended
        4 start primary 0 p10: a home core was free (2 of 3 slots used)
        ",
    );
}

#[test]
fn waits_for_primaries_of_its_own_priority() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > submit 4 exclusive
        > exit 1
        3 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        > exit 2
        > why 4
        it is next, and jobs that may not be frozen for an exclusive job still run [priority 10, cores asked for 1, slots used 1 of 3, waited 0.0 s, position in the queue 1, goes first in 600 s] change: job 3 must end
        > exit 3
        4 start exclusive 0-1 p10: the exclusive job 4 takes every slot
        > exit 4
        ",
    );
}

#[test]
fn runs_at_its_turn() {
    check(
        "
        > machine 2
        > set factor=1000 preemption=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3 p12
        > submit 4 exclusive
        > exit 1
        3 start primary 0 p12: a home core was free (2 of 2 slots used)
        > exit 3
        > exit 2
        4 start exclusive 0-1 p10: the exclusive job 4 takes every slot
        ",
    );
}

#[test]
fn suspended_it_lets_others_run() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 exclusive p12
        1 freeze: the exclusive job 2 takes every slot
        2 start exclusive 0-1 p12: the exclusive job 2 takes every slot
        > suspend 2
        2 freeze: a user or operator asked for it
        1 thaw: the exclusive job ended
        > resume 2
        1 freeze: the exclusive job 2 takes every slot
        2 thaw: a user or operator asked for it
        > exit 2
        1 thaw: the exclusive job ended
        ",
    );
}

#[test]
fn waits_for_starts_to_be_answered() {
    check(
        "
        > machine 2
        > slow
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 exclusive p12
        > started 1
        1 freeze: the exclusive job 2 takes every slot
        2 start exclusive 0-1 p12: the exclusive job 2 takes every slot
        > started 2
        > cancel 1
        1 thaw: a user or operator asked for it
        1 signal 15: a user or operator asked for it
        > exit 1
        > exit 2
        ",
    );
}
