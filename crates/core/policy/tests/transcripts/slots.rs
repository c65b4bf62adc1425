//! Slots, homes and backfill: who starts where, and what a primary's end brings.

use crate::script::check;

#[test]
fn a_slot_is_refilled_in_the_step_in_which_it_frees() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > submit 4
        > submit 5
        > exit 2
        3 weigh primary p10: job 2 ended and left its home core to the oldest backfiller
        3 bind 1: job 2 ended and left its home core to the oldest backfiller
        4 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > exit 1
        4 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        5 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > exit 5
        > exit 3
        > exit 4
        ",
    );
}

#[test]
fn factor_zero_holds_everything() {
    check(
        "
        > machine 2
        > set factor=0
        > submit 1
        > why 1
        the slot factor holds everything [priority 10, cores asked for 1, slots used 0 of 0, waited 0.0 s, position in the queue 1, goes first in 600 s] change: a larger `slots.factor`
        > set factor=500
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > why 1
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 1 of 1, since its start 0.0 s, PUs 0] change: its end, or `pinfold suspend 1`
        ",
    );
}

#[test]
fn without_backfill_only_cores_are_slots() {
    check(
        "
        > machine 2
        > set backfill=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3
        > submit 4 backfill
        > exit 1
        3 start primary 0 p10: a home core was free (2 of 2 slots used)
        > exit 2
        4 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 2 slots used)
        > set backfill=on
        ",
    );
}

/// A backfiller by its own wish stays one; a primary by its own wish waits for a home.
#[test]
fn classes_as_asked() {
    check(
        "
        > machine 2
        > submit 1 backfill
        1 start backfill 0 p10: it asked to be a backfiller and a slot was free (1 of 3 slots used)
        > submit 2 backfill
        2 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 3 slots used)
        > submit 3 backfill
        3 start backfill 0 p10: it asked to be a backfiller and a slot was free (3 of 3 slots used)
        > exit 1
        > submit 4
        4 start primary 0 p10: a home core was free (3 of 3 slots used)
        > submit 5 primary
        3 freeze: job 5 of priority 10 took its place
        5 start primary 1 p10: a home core was free (3 of 3 slots used)
        > exit 2
        3 thaw: a slot is free again
        > submit 6
        > submit 7 primary
        > why 7
        all 3 slots are taken and 1 job is before it in the queue [priority 10, cores asked for 1, slots used 3 of 3, waited 0.0 s, position in the queue 2, goes first in 600 s] change: a slot: job 5 or any of 2 others must end, `pinfold set 7 --priority 11`, or `pinfold suspend 5`
        > exit 4
        6 start primary 0 p10: a home core was free (3 of 3 slots used)
        ",
    );
}

#[test]
fn a_wide_job_takes_as_many_slots_as_cores() {
    check(
        "
        > machine 4
        > submit 1 c3
        1 start primary 0-2 p10: a home core was free (3 of 6 slots used)
        > submit 2 c2
        2 start backfill 0,3 p10: no home core was free but a slot was (5 of 6 slots used)
        > submit 3 c2
        > why 3
        it is next, and it takes 2 slots and 1 of 6 are free [priority 10, cores asked for 2, slots used 5 of 6, waited 0.0 s, position in the queue 1, goes first in 600 s] change: a slot: job 2 or job 1 must end, `pinfold set 3 --priority 11`, or `pinfold suspend 2`
        > exit 1
        2 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        3 start primary 1-2 p10: a home core was free (4 of 6 slots used)
        > submit 4 c5
        4 drop refused: it asks for 5 cores and the machine has 4 for jobs
        ",
    );
}

/// The oldest backfiller is too wide for one core, the next is not.
#[test]
fn promotion_takes_the_oldest_that_fits() {
    check(
        "
        > machine 3
        > set factor=2000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > submit 4 c2
        4 start backfill 0-1 p10: no home core was free but a slot was (5 of 6 slots used)
        > submit 5
        5 start backfill 2 p10: no home core was free but a slot was (6 of 6 slots used)
        > exit 2
        5 weigh primary p10: job 2 ended and left its home core to the oldest backfiller
        5 bind 1: job 2 ended and left its home core to the oldest backfiller
        > exit 1
        > exit 3
        4 weigh primary p10: job 3 ended and left its home core to the oldest backfiller
        4 bind 0,2: job 3 ended and left its home core to the oldest backfiller
        ",
    );
}

#[test]
fn a_backfiller_on_the_freed_core_keeps_its_binding() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > exit 1
        3 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        ",
    );
}

#[test]
fn a_wide_job_is_passed_over_a_bounded_number_of_times() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3 c2
        > submit 11
        > submit 12
        > submit 13
        > submit 14
        > submit 15
        > submit 16
        > submit 17
        > submit 18
        > submit 19
        > submit 20
        > exit 2
        11 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 11
        12 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 12
        13 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 13
        14 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 14
        15 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 15
        16 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 16
        17 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 17
        18 start primary 1 p10: a home core was free (2 of 2 slots used)
        > why 3
        it is next, and all 2 slots are taken [priority 10, cores asked for 2, slots used 2 of 2, waited 0.0 s, position in the queue 1, goes first in 600 s, passed over by 8 of at most 8] change: 2 more slots: enough of jobs 18 and 1 must end
        > why 19
        job 3 is before it, was passed over long enough, and gets the next slots [priority 10, cores asked for 1, slots used 2 of 2, waited 0.0 s, position in the queue 2, goes first in 600 s] change: job 3 must have started
        > exit 18
        > why 3
        it is next, and it takes 2 slots and 1 of 2 are free [priority 10, cores asked for 2, slots used 1 of 2, waited 0.0 s, position in the queue 1, goes first in 600 s, passed over by 8 of at most 8] change: a slot: job 1 must end, `pinfold set 3 --priority 11`, or `pinfold suspend 1`
        > exit 1
        3 start primary 0-1 p10: a home core was free (2 of 2 slots used)
        > exit 3
        19 start primary 0 p10: a home core was free (1 of 2 slots used)
        20 start primary 1 p10: a home core was free (2 of 2 slots used)
        ",
    );
}

/// ... but not when the machine shrinks while it waits.
#[test]
fn who_asks_for_more_than_the_machine_is_refused() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1 c3
        1 drop refused: it asks for 3 cores and the machine has 2 for jobs
        > submit 2
        2 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 3 c2
        > machine 1
        > exit 2
        > why 3
        it asks for 2 cores and the machine has 1 for jobs now [priority 10, cores asked for 2, slots used 0 of 1, waited 0.0 s, position in the queue 1, goes first in 600 s] change: 2 cores must be allowed to pinfold
        > machine 2
        3 start primary 0-1 p10: a home core was free (2 of 2 slots used)
        ",
    );
}

/// Cores that are kept for a while come back: who needs them as well waits, and is in nobody's way until then.
#[test]
fn who_asks_for_cores_that_come_back_waits() {
    check(
        "
        > machine 3/a:2
        > set factor=1000
        > submit 1 c3
        1 drop refused: it asks for 3 cores and the machine has 2 for jobs
        > machine 3/~a:2
        > submit 2 c4
        2 drop refused: it asks for 4 cores and the machine has 3 for jobs
        > submit 3 c3
        > why 3
        it asks for 3 cores and the machine has 2 for jobs now [priority 10, cores asked for 3, slots used 0 of 2, waited 0.0 s, position in the queue 1, goes first in 600 s] change: jobs with cores to themselves must end, or idle sets go (`pinfold sets`)
        > submit 4
        4 start primary 0 p10: a home core was free (1 of 2 slots used)
        > exit 4
        > machine 3
        3 start primary 0-2 p10: a home core was free (3 of 3 slots used)
        ",
    );
}

/// It may go to any core behind the cache of the one where it was put; one that named its PUs may not.
#[test]
fn a_backfiller_moves_freely_behind_its_cache() {
    check(
        "
        > machine pack:1,numa:1,l3:2,core:2,pu:1
        > set factor=1500
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > submit 4
        4 start primary 3 p10: a home core was free (4 of 6 slots used)
        > submit 5
        5 start backfill 0-1 p10: no home core was free but a slot was (5 of 6 slots used)
        > submit 6
        6 start backfill 2-3 p10: no home core was free but a slot was (6 of 6 slots used)
        > why 5
        it is a backfiller, for no home core is free: it runs in the cycles that primaries leave [priority 10, cores asked for 1, slots used 6 of 6, since its start 0.0 s, PUs 0-1, backfillers before it 0] change: a home core: job 4 or any of 3 others must end
        > exit 1
        5 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        5 bind 0: job 1 ended and left its home core to the oldest backfiller
        ",
    );
}
