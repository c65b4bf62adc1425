//! The machine and the settings change while jobs run.

use crate::script::check;

#[test]
fn lost_cores_move_their_jobs_and_cost_slots() {
    check(
        "
        > machine 4
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > submit 4
        4 start primary 3 p10: a home core was free (4 of 6 slots used)
        > submit 5
        5 start backfill 0 p10: no home core was free but a slot was (5 of 6 slots used)
        > submit 6
        6 start backfill 1 p10: no home core was free but a slot was (6 of 6 slots used)
        > machine 0,2
        6 freeze: only 3 slots are left
        5 freeze: only 3 slots are left
        4 freeze: only 3 slots are left
        2 weigh backfill p10: the PUs it was bound to are gone or no longer allowed
        2 bind 0: the PUs it was bound to are gone or no longer allowed
        > why 4
        slots became fewer than running jobs; it returns when it can, but it is next, and all 3 slots are taken [priority 10, cores asked for 1, slots used 3 of 3, since its start 0.0 s, frozen for 0.0 s, position in the queue 1, goes first in 600 s] change: a slot: job 3 or any of 2 others must end, `pinfold set 4 --priority 11`, or `pinfold suspend 3`
        > why 3
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 3 of 3, since its start 0.0 s, PUs 2] change: its end, or `pinfold suspend 3`
        > machine 4
        2 weigh primary p10: a home core fell free
        2 bind 1: a home core fell free
        4 thaw: a slot is free again
        5 thaw: a slot is free again
        6 thaw: a slot is free again
        ",
    );
}

#[test]
fn a_core_may_lose_one_of_its_pus() {
    check(
        "
        > machine 0-1,2-3
        > submit 1
        1 start primary 0-1 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 2-3 p10: a home core was free (2 of 3 slots used)
        > machine 0,2-3
        1 bind 0: the usable PUs of its cores changed
        > machine 0-1,2-3
        1 bind 0-1: the usable PUs of its cores changed
        ",
    );
}

#[test]
fn more_cores_are_filled_at_once() {
    check(
        "
        > machine 1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > submit 3
        > submit 4
        > machine 2
        2 weigh primary p10: a home core fell free
        2 bind 1: a home core fell free
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        ",
    );
}

#[test]
fn the_last_job_and_those_not_to_be_suspended_keep_running() {
    check(
        "
        > machine 4
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 nosuspend
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 p12
        3 start primary 2 p12: a home core was free (3 of 6 slots used)
        > submit 4
        4 start primary 3 p10: a home core was free (4 of 6 slots used)
        > set factor=0
        4 freeze: no slot is left
        1 freeze: no slot is left
        > why 1
        slots became fewer than running jobs; it returns when it can, but the slot factor holds everything [priority 10, cores asked for 1, slots used 2 of 0, since its start 0.0 s, frozen for 0.0 s, position in the queue 1, goes first in 600 s] change: a larger `slots.factor`
        > exit 3
        > exit 2
        > set factor=1000
        1 thaw: a slot is free again
        4 thaw: a slot is free again
        ",
    );
}

#[test]
fn without_any_core_nothing_is_bound() {
    check(
        "
        > machine 1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > machine
        1 weigh backfill p10: the PUs it was bound to are gone or no longer allowed
        1 bind any: the PUs it was bound to are gone or no longer allowed
        > submit 2
        > why 2
        the machine has no core for jobs [priority 10, cores asked for 1, slots used 1 of 0, waited 0.0 s, position in the queue 1, goes first in 600 s] change: a core must be allowed to pinfold again
        > machine 1
        1 weigh primary p10: the PUs it was bound to are gone or no longer allowed
        1 bind 0: the PUs it was bound to are gone or no longer allowed
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        ",
    );
}

#[test]
fn a_running_job_wider_than_the_host_takes_all_of_it() {
    check(
        "
        > machine 4
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 c3 primary
        2 start primary 1-3 p10: a home core was free (4 of 4 slots used)
        > machine 2
        2 freeze: only 2 slots are left
        > submit 3
        3 start primary 1 p10: a home core was free (2 of 2 slots used)
        > exit 1
        > machine 4
        2 bind 0,2-3: a slot is free again
        2 thaw: a slot is free again
        ",
    );
}

#[test]
fn affinity_off_binds_nobody() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > set affinity=off
        3 bind any: a user or operator asked for it
        1 bind any: a user or operator asked for it
        2 bind any: a user or operator asked for it
        > exit 1
        3 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        > submit 4
        4 start backfill any p10: no home core was free but a slot was (3 of 3 slots used)
        > set affinity=on
        4 bind 0: a user or operator asked for it
        2 bind 1: a user or operator asked for it
        3 bind 0: a user or operator asked for it
        ",
    );
}

#[test]
fn schedule_off_starts_everyone() {
    check(
        "
        > machine 2
        > set factor=1000 preemption=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 exclusive
        > submit 3 held
        > submit 4 p12 c2
        > set schedule=off
        1 bind any: scheduling is off, jobs start at once
        4 start primary any p12: scheduling is off, jobs start at once
        2 start primary any p10: scheduling is off, jobs start at once
        > why 1
        scheduling is off, every job runs [priority 10, cores asked for 1, slots used 4 of 2, since its start 0.0 s, PUs any] change: `schedule` must be on again
        > submit 5
        5 start primary any p10: scheduling is off, jobs start at once
        > set schedule=on
        5 freeze: only 2 slots are left
        2 freeze: only 2 slots are left
        1 freeze: only 2 slots are left
        4 bind 0-1: a user or operator asked for it
        ",
    );
}

#[test]
fn backfill_off_freezes_backfillers() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > set backfill=off
        3 freeze: only 2 slots are left
        > set backfill=on
        3 thaw: a slot is free again
        ",
    );
}
