//! What a job of higher priority takes from one of lower.

use crate::script::check;

#[test]
fn soft_takes_the_home_core_and_freezes_the_surplus() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 p12
        2 weigh backfill p10: job 3 of priority 12 took its place
        2 bind 0: job 3 of priority 12 took its place
        3 start primary 1 p12: a home core was free (3 of 3 slots used)
        > submit 4 p12
        2 freeze: job 4 of priority 12 took its place
        1 weigh backfill p10: job 4 of priority 12 took its place
        4 start primary 0 p12: a home core was free (3 of 3 slots used)
        > exit 3
        1 weigh primary p10: job 3 ended and left its home core to the oldest backfiller
        1 bind 1: job 3 ended and left its home core to the oldest backfiller
        2 thaw: a slot is free again
        > exit 1
        2 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        2 bind 1: job 1 ended and left its home core to the oldest backfiller
        ",
    );
}

/// Jobs 1 and 2 keep their slots: job 3 has no home core, and goes before the jobs of its priority that have.
#[test]
fn soft_freezes_a_job_without_a_home_core_first() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > submit 4 p10
        > submit 5 p12
        3 freeze: job 5 of priority 12 took its place
        2 weigh backfill p10: job 5 of priority 12 took its place
        2 bind 0: job 5 of priority 12 took its place
        5 start primary 1 p12: a home core was free (3 of 3 slots used)
        > submit 6 p16 c2
        2 freeze: job 6 of priority 16 took its place
        1 freeze: job 6 of priority 16 took its place
        5 weigh backfill p12: job 6 of priority 16 took its place
        5 bind 0: job 6 of priority 16 took its place
        6 start primary 0-1 p16: a home core was free (3 of 3 slots used)
        ",
    );
}

/// A best-effort job takes no slot of a job that is none; a job that may not be suspended keeps its slot; a waiting job
/// whose priority is raised takes a slot like a new job.
#[test]
fn soft_takes_slots_for_a_raised_job_and_none_for_a_best_effort_job() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1 nosuspend p3
        1 start primary 0 p3: a home core was free (1 of 2 slots used)
        > submit 2 p5
        2 start primary 1 p5: a home core was free (2 of 2 slots used)
        > submit 3 backfill p16
        > submit 4 primary p7
        2 freeze: job 4 of priority 7 took its place
        4 start primary 1 p7: a home core was free (2 of 2 slots used)
        > submit 5 p6
        > priority 5 9
        4 freeze: job 5 of priority 9 took its place
        5 start primary 1 p9: a home core was free (2 of 2 slots used)
        > why 3
        it is next, and all 2 slots are taken [priority 16, cores asked for 1, slots used 2 of 2, waited 0.0 s, position in the queue 1, goes first in 600 s] change: a slot: job 1 or job 5 must end, or `pinfold suspend 5`
        > why 2
        job 4 of higher priority took its slot; it returns when it can, but all 2 slots are taken and 2 jobs are before it in the queue [priority 5, cores asked for 1, slots used 2 of 2, since its start 0.0 s, frozen for 0.0 s, position in the queue 3, goes first in 600 s] change: a slot: job 1 or job 5 must end, or `pinfold suspend 5`
        ",
    );
}

#[test]
fn hard_takes_the_slot_of_the_lowest_and_newest() {
    check(
        "
        > machine 2
        > set factor=1000 preemption=hard
        > submit 1 p8
        1 start primary 0 p8: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3
        1 freeze: job 3 of priority 10 took its place
        3 start primary 0 p10: a home core was free (2 of 2 slots used)
        > submit 4 p12
        3 freeze: job 4 of priority 12 took its place
        4 start primary 0 p12: a home core was free (2 of 2 slots used)
        > why 1
        job 3 of higher priority took its slot; it returns when it can, but all 2 slots are taken and 1 job is before it in the queue [priority 8, cores asked for 1, slots used 2 of 2, since its start 0.0 s, frozen for 0.0 s, position in the queue 2, goes first in 600 s] change: a slot: job 2 or job 4 must end, `pinfold set 1 --priority 11`, or `pinfold suspend 2`
        > exit 2
        3 bind 1: a slot is free again
        3 thaw: a slot is free again
        > exit 4
        1 thaw: a slot is free again
        ",
    );
}

#[test]
fn hard_takes_a_home_like_soft_when_a_slot_is_free() {
    check(
        "
        > machine 2
        > set preemption=hard
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 p12
        2 weigh backfill p10: job 3 of priority 12 took its place
        2 bind 0: job 3 of priority 12 took its place
        3 start primary 1 p12: a home core was free (3 of 3 slots used)
        > submit 4 p12
        2 freeze: job 4 of priority 12 took its place
        1 weigh backfill p10: job 4 of priority 12 took its place
        4 start primary 0 p12: a home core was free (3 of 3 slots used)
        > submit 5 p12
        1 freeze: job 5 of priority 12 took its place
        5 start backfill 0 p12: no home core was free but a slot was (3 of 3 slots used)
        ",
    );
}

#[test]
fn off_takes_nothing() {
    check(
        "
        > machine 2
        > set preemption=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 p12
        3 start backfill 0 p12: no home core was free but a slot was (3 of 3 slots used)
        > submit 4 p12
        > exit 1
        3 weigh primary p12: job 1 ended and left its home core to the oldest backfiller
        4 start backfill 0 p12: no home core was free but a slot was (3 of 3 slots used)
        ",
    );
}

#[test]
fn who_may_not_be_suspended_keeps_its_slot_but_not_its_home() {
    check(
        "
        > machine 2
        > set preemption=hard
        > submit 1 nosuspend
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 nosuspend
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 nosuspend
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > submit 4 p12
        > exit 3
        2 weigh backfill p10: job 4 of priority 12 took its place
        2 bind 0: job 4 of priority 12 took its place
        4 start primary 1 p12: a home core was free (3 of 3 slots used)
        > submit 5 p12
        > submit 6 p12
        ",
    );
}

/// Job 4 alone makes room enough, so 1, lower still, keeps its slot.
#[test]
fn a_wide_job_freezes_no_more_than_it_needs() {
    check(
        "
        > machine 4
        > set factor=1000 preemption=hard
        > submit 1 p5
        1 start primary 0 p5: a home core was free (1 of 4 slots used)
        > submit 4 p6 c3
        4 start primary 1-3 p6: a home core was free (4 of 4 slots used)
        > submit 5 p12 c3
        4 freeze: job 5 of priority 12 took its place
        5 start primary 1-3 p12: a home core was free (4 of 4 slots used)
        > submit 6 p12 c2
        ",
    );
}

#[test]
fn the_frozen_return_before_equals_and_after_higher() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=hard
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 p12
        1 freeze: job 2 of priority 12 took its place
        2 start primary 0 p12: a home core was free (1 of 1 slots used)
        > submit 3
        > submit 4 p11
        > exit 2
        4 start primary 0 p11: a home core was free (1 of 1 slots used)
        > exit 4
        1 thaw: a slot is free again
        > exit 1
        3 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

#[test]
fn a_job_that_is_starting_is_not_frozen() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=hard
        > slow
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 p12
        > started 1
        1 freeze: job 2 of priority 12 took its place
        2 start primary 0 p12: a home core was free (1 of 1 slots used)
        ",
    );
}
