//! What users and operators say to jobs.

use crate::script::check;

#[test]
fn a_suspended_job_frees_its_slot_and_returns_when_one_is_free() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > suspend 1
        1 freeze: a user or operator asked for it
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > why 1
        a user or operator suspended it [priority 10, cores asked for 1, slots used 1 of 1, since its start 0.0 s, frozen for 0.0 s] change: `pinfold resume 1`
        > resume 1
        > why 1
        it was resumed; it returns when it can, but it is next, and the only slot is taken [priority 10, cores asked for 1, slots used 1 of 1, since its start 0.0 s, frozen for 0.0 s, position in the queue 1, goes first in 600 s] change: a slot: job 2 must end, `pinfold set 1 --priority 11`, or `pinfold suspend 2`
        > exit 2
        1 thaw: a user or operator asked for it
        > suspend 1
        1 freeze: a user or operator asked for it
        > resume 1
        1 thaw: a user or operator asked for it
        ",
    );
}

#[test]
fn a_suspension_counts_more_than_all_else() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=hard
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 p12
        1 freeze: job 2 of priority 12 took its place
        2 start primary 0 p12: a home core was free (1 of 1 slots used)
        > suspend 1
        > exit 2
        > priority 1 16
        > resume 1
        1 weigh primary p16: a user or operator asked for it
        1 thaw: a user or operator asked for it
        ",
    );
}

#[test]
fn a_backfiller_takes_the_home_of_the_suspended() {
    check(
        "
        > machine 1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > suspend 1
        1 freeze: a user or operator asked for it
        2 weigh primary p10: a home core fell free
        > resume 1
        1 weigh backfill p10: a user or operator asked for it
        1 thaw: a user or operator asked for it
        ",
    );
}

/// ... and a job that goes on regardless needs a slot after a few seconds.
#[test]
fn cancel_thaws_before_the_signal() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > suspend 1
        1 freeze: a user or operator asked for it
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > cancel 1
        1 thaw: a user or operator asked for it
        1 signal 15: a user or operator asked for it
        > why 1
        it was thawed without a slot to receive a signal [priority 10, cores asked for 1, slots used 1 of 1, since its start 0.0 s] change: its end, or a few seconds: then it needs a slot to go on
        > wakeup
        5000 ms
        > +5
        1 freeze: only 1 slot is left
        > why 1
        it was cancelled while frozen, went on, and has no slot; it returns when it can, but it is next, and the only slot is taken [priority 10, cores asked for 1, slots used 1 of 1, since its start 5.0 s, frozen for 0.0 s, position in the queue 1, goes first in 600 s] change: a slot: job 2 must end, `pinfold set 1 --priority 11`, or `pinfold suspend 2`
        > exit 2
        1 thaw: a slot is free again
        > cancel 1
        1 signal 15: a user or operator asked for it
        > exit 1
        ",
    );
}

#[test]
fn what_comes_before_the_start_is_answered_takes_effect_after() {
    check(
        "
        > machine 2
        > slow
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > suspend 1
        > started 1
        1 freeze: a user or operator asked for it
        > submit 2
        2 start primary 0 p10: a home core was free (1 of 3 slots used)
        > cancel 2
        > priority 2 3
        > started 2
        2 weigh primary p3: a user or operator asked for it
        2 signal 15: a user or operator asked for it
        > submit 3
        3 start primary 1 p10: a home core was free (2 of 3 slots used)
        > withdraw 3
        > started 3
        > resume 1
        2 weigh backfill p3: job 1 of priority 10 took its place
        1 thaw: a user or operator asked for it
        ",
    );
}

#[test]
fn a_priority_may_change_while_the_job_runs() {
    check(
        "
        > machine 1
        > set preemption=hard factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > priority 1 3
        1 weigh primary p3: its priority is now 3
        > submit 2
        1 freeze: job 2 of priority 10 took its place
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > priority 1 12
        2 freeze: job 1 of priority 12 took its place
        1 weigh primary p12: a slot is free again
        1 thaw: a slot is free again
        > exit 2
        ",
    );
}

/// A backfiller that rises takes the home that a new job of its priority would take, at once, and gives it back when it
/// falls; one that falls by itself loses its home to who goes before it now.
#[test]
fn homes_follow_the_priorities_of_running_jobs() {
    for preemption in ["hard", "soft"] {
        check(&format!(
            "
            > machine 2
            > set preemption={preemption} factor=2000
            > submit 1
            1 start primary 0 p10: a home core was free (1 of 4 slots used)
            > submit 2
            2 start primary 1 p10: a home core was free (2 of 4 slots used)
            > submit 3
            3 start backfill 0 p10: no home core was free but a slot was (3 of 4 slots used)
            > priority 3 12
            2 weigh backfill p10: job 3 of priority 12 took its place
            2 bind 0: job 3 of priority 12 took its place
            3 weigh primary p12: its priority is now 12
            3 bind 1: its priority is now 12
            > priority 3 9
            3 weigh backfill p9: job 2 of priority 10 took its place
            3 bind 0: job 2 of priority 10 took its place
            2 weigh primary p10: a home core fell free
            2 bind 1: a home core fell free
            "
        ));
    }
}

/// Where nobody takes anything from others, a priority that changes takes nothing either.
#[test]
fn without_preemption_homes_stay() {
    check(
        "
        > machine 1
        > set preemption=off factor=2000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start backfill 0 p10: no home core was free but a slot was (2 of 2 slots used)
        > priority 2 12
        2 weigh backfill p12: its priority is now 12
        > priority 1 3
        1 weigh primary p3: its priority is now 3
        ",
    );
}

/// One that asked for idle cycles takes nobody's home, and a wide one takes no more than it needs.
#[test]
fn a_priority_takes_what_a_new_job_would_take() {
    check(
        "
        > machine 3
        > set preemption=hard factor=2000
        > submit 1 p5
        1 start primary 0 p5: a home core was free (1 of 6 slots used)
        > submit 2 p6
        2 start primary 1 p6: a home core was free (2 of 6 slots used)
        > submit 3 p7
        3 start primary 2 p7: a home core was free (3 of 6 slots used)
        > submit 4 p4 c2
        4 start backfill 0-1 p4: no home core was free but a slot was (5 of 6 slots used)
        > submit 5 backfill p1
        5 start backfill 2 p1: it asked to be a backfiller and a slot was free (6 of 6 slots used)
        > priority 5 16
        5 weigh backfill p16: its priority is now 16
        > priority 4 16
        1 weigh backfill p5: job 4 of priority 16 took its place
        2 weigh backfill p6: job 4 of priority 16 took its place
        4 weigh primary p16: its priority is now 16
        ",
    );
}

#[test]
fn strangers_are_ignored() {
    check(
        "
        > machine 1
        > exit 9
        > started 9
        > suspend 9
        > cancel 9
        > fail 9 freeze
        > withdraw 9
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 1
        > started 1
        > withdraw 1
        ",
    );
}

#[test]
fn who_may_not_be_suspended_goes_on_beyond_the_slots_after_a_signal() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1 nosuspend
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > suspend 1
        1 freeze: a user or operator asked for it
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > cancel 1
        1 thaw: a user or operator asked for it
        1 signal 15: a user or operator asked for it
        > +5
        2 freeze: only 1 slot is left
        > why 1
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 1 of 1, since its start 5.0 s, PUs 0] change: its end, or `pinfold suspend 1`
        > exit 2
        ",
    );
}

#[test]
fn who_is_to_begin_anew_waits_again_without_a_rest() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > again 2
        > +1 tick
        > again 1
        1 requeue: a user or operator asked for it
        > again 1
        > requeued 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > suspend 1
        1 freeze: a user or operator asked for it
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > again 1
        1 requeue: a user or operator asked for it
        > requeued 1
        > why 1
        it is held until it is released [priority 10, cores asked for 1, slots used 1 of 1, waited 1.0 s] change: `pinfold release 1`
        > release 1
        > exit 2
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}
