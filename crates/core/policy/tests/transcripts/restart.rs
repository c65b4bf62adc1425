//! A new daemon finds jobs again.

use crate::script::check;

#[test]
fn what_fits_is_kept() {
    check(
        "
        > set factor=1500
        > machine 2
        > adopt 1 / primary 1
        > adopt 2 / backfill 1
        > adopt 3
        > adopt 4 held
        > wakeup
        0 ms
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        2 weigh primary p10: a home core fell free
        2 bind 0: a home core fell free
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > wakeup
        never
        > why 1
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 3 of 3, since its start 0.0 s, PUs 1] change: its end, or `pinfold suspend 1`
        ",
    );
}

#[test]
fn nothing_starts_before_all_are_known() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > adopt 7 p16
        > adopt 8 / primary 0
        > tick
        8 weigh primary p10: found again after a restart of the daemon
        > exit 8
        7 start primary 0 p16: a home core was free (1 of 1 slots used)
        ",
    );
}

#[test]
fn conflicting_homes_are_put_right() {
    check(
        "
        > machine 2
        > adopt 1 / primary 0
        > adopt 2 / primary 0
        > adopt 3 / primary 5
        > tick
        3 weigh backfill p10: put right after a restart of the daemon
        3 bind 0: put right after a restart of the daemon
        1 weigh primary p10: found again after a restart of the daemon
        2 weigh primary p10: put right after a restart of the daemon
        2 bind 1: put right after a restart of the daemon
        ",
    );
}

/// ... unless a user suspended it.
#[test]
fn what_was_frozen_returns() {
    check(
        "
        > machine 2
        > adopt 1 / primary 0 frozen
        > adopt 2 / primary 1 frozen suspended
        > adopt 3 / backfill 0 suspended
        > tick
        3 freeze: put right after a restart of the daemon
        1 weigh primary p10: put right after a restart of the daemon
        1 thaw: put right after a restart of the daemon
        > why 2
        a user or operator suspended it [priority 10, cores asked for 1, slots used 1 of 3, since its start 0.0 s, frozen for 0.0 s] change: `pinfold resume 2`
        ",
    );
}

#[test]
fn an_exclusive_job_keeps_the_host() {
    check(
        "
        > machine 2
        > adopt 1 / primary 0
        > adopt 2 exclusive p12 / exclusive 0-1
        > adopt 3 / primary 1 frozen
        > tick
        1 freeze: the exclusive job 2 takes every slot
        2 weigh exclusive p12: found again after a restart of the daemon
        > exit 2
        1 weigh primary p10: the exclusive job ended
        1 thaw: the exclusive job ended
        3 weigh primary p10: put right after a restart of the daemon
        3 thaw: put right after a restart of the daemon
        ",
    );
}

#[test]
fn too_many_for_the_slots() {
    check(
        "
        > machine 1
        > set factor=1000
        > adopt 1 / primary 0
        > adopt 2 / backfill 0
        > tick
        2 freeze: only 1 slot is left
        1 weigh primary p10: found again after a restart of the daemon
        > exit 1
        2 weigh primary p10: a slot is free again
        2 thaw: a slot is free again
        ",
    );
}

#[test]
fn without_affinity() {
    check(
        "
        > machine 2
        > set affinity=off
        > adopt 1 / primary any
        > adopt 2 / backfill any
        > tick
        1 weigh primary p10: put right after a restart of the daemon
        2 weigh primary p10: put right after a restart of the daemon
        ",
    );
}

/// It could go to both cores behind its cache; it is one backfiller still, and keeps what it had.
#[test]
fn a_backfiller_that_moves_freely_is_kept() {
    check(
        "
        > machine pack:1,numa:1,l3:2,core:2,pu:1
        > adopt 1 / primary 0
        > adopt 2 backfill / backfill 0-1
        > adopt 3 backfill / backfill 0-3
        > tick
        2 weigh backfill p10: found again after a restart of the daemon
        3 weigh backfill p10: put right after a restart of the daemon
        3 bind 2-3: put right after a restart of the daemon
        1 weigh primary p10: found again after a restart of the daemon
        ",
    );
}

/// The kernel held a process that was not the job's; its keeper says that it waits. Who is to start after it goes on
/// waiting, and its core is free.
#[test]
fn what_was_taken_for_running_waits_again() {
    check(
        "
        > machine 1
        > set factor=1000
        > adopt 1 / primary 0
        > adopt 2 a1
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        > adopt 1
        > wakeup
        0 ms
        > tick
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

/// ... and the other way round: it was let go, and nobody noted it in time.
#[test]
fn what_was_taken_for_waiting_runs() {
    check(
        "
        > machine 1
        > set factor=1000
        > adopt 1 held
        > adopt 2 a1
        > tick
        > adopt 1 / primary 0
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

/// One that had its turn does not expire, nor does one for the time for which it was not to start.
#[test]
fn what_was_kept_from_waiting_did_not_wait() {
    check(
        "
        > machine 1
        > set factor=1000
        > +1000
        > adopt 1 / primary 0
        > adopt 2 t60 ago:900 z1
        > adopt 3 t60 ago:900 anew
        > adopt 4 t60 ago:900
        4 drop refused: it waited longer than its time-to-live of 60 s
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        > +61
        3 drop refused: it waited longer than its time-to-live of 60 s
        ",
    );
}

/// How long a member waited for others than those of its array is not forgotten.
#[test]
fn members_of_an_array_go_on_ageing() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > +1000
        > adopt 1 / primary 0
        > adopt 2 p3 x2:1 ago:900 room:650
        > adopt 3 p12 ago:60
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        > exit 1
        2 start primary 0 p3: a home core was free (1 of 1 slots used)
        ",
    );
    // One of its members may have made room later than those that are over.
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > +1000
        > adopt 1 / primary 0
        > adopt 4 p3 x2:1 ago:900 room:100
        > adopt 5 p3 x2:1 ago:900 room:650
        > adopt 3 p12 ago:60
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        > exit 1
        3 start primary 0 p12: a home core was free (1 of 1 slots used)
        ",
    );
}

/// One that an earlier scheduler had ended to be requeued: those that follow it wait on, and it does not rest, for nobody knows
/// whether memory was short.
#[test]
fn one_that_was_to_be_requeued_begins_anew_at_once() {
    check(
        "
        > machine 1
        > set factor=1000
        > adopt 1 / primary 0
        > adopt 2 a1
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        > requeued 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}
