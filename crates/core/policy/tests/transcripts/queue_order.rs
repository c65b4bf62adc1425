//! Who is next: priority, length, arrival, age; and who leaves the queue without a start.

use crate::script::check;

#[test]
fn priority_then_arrival() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > submit 3 p12
        > submit 4 p12
        > submit 5 p3
        > exit 1
        3 start primary 0 p12: a home core was free (1 of 1 slots used)
        > exit 3
        4 start primary 0 p12: a home core was free (1 of 1 slots used)
        > exit 4
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 2
        5 start primary 0 p3: a home core was free (1 of 1 slots used)
        ",
    );
}

/// With one unknown length among them: first come, first served.
#[test]
fn the_longest_first_if_all_lengths_are_known() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 e5
        > submit 3 e50
        > submit 4 e20
        > exit 1
        3 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 3
        4 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 5
        > exit 4
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > exit 2
        5 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

#[test]
fn who_waited_ten_minutes_goes_first() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 p3
        > submit 3 p12
        > wakeup
        600000 ms
        > +600
        > submit 4 p16
        > why 2
        it is next, and the only slot is taken [priority 3, cores asked for 1, slots used 1 of 1, waited 600.0 s, position in the queue 1, goes first it waited too long] change: a slot: job 1 must end, or `pinfold suspend 1`
        > exit 1
        2 start primary 0 p3: a home core was free (1 of 1 slots used)
        > exit 2
        3 start primary 0 p12: a home core was free (1 of 1 slots used)
        ",
    );
}

/// ... but never in less than 10 s.
#[test]
fn who_waited_ten_times_its_length_goes_first() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 p3 e2
        > submit 3 p4 e0
        > wakeup
        10000 ms
        > +10
        > wakeup
        10000 ms
        > submit 5 p16
        > exit 1
        3 start primary 0 p4: a home core was free (1 of 1 slots used)
        > +10
        > submit 6 p16
        > exit 3
        2 start primary 0 p3: a home core was free (1 of 1 slots used)
        ",
    );
}

#[test]
fn an_aged_job_is_not_frozen_again_for_another() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=hard
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 p3
        > +600
        > exit 1
        2 start primary 0 p3: a home core was free (1 of 1 slots used)
        > submit 3 p16
        > exit 2
        3 start primary 0 p16: a home core was free (1 of 1 slots used)
        ",
    );
}

/// The depth counts for each core, and a job that starts at once does not wait.
#[test]
fn a_full_queue_refuses() {
    check(
        "
        > machine 2
        > set depth=1 factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3
        > submit 4 held
        > submit 5
        5 drop refused: the queue is full (2 jobs wait)
        > exit 1
        3 start primary 0 p10: a home core was free (2 of 2 slots used)
        > submit 6
        > submit 7
        7 drop refused: the queue is full (2 jobs wait)
        ",
    );
}

#[test]
fn who_waits_too_long_expires() {
    check(
        "
        > machine 1
        > set factor=1000 ttl=30
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > submit 3 t5
        > submit 4 held
        > wakeup
        5000 ms
        > +5
        3 drop refused: it waited longer than its time-to-live of 5 s
        > wakeup
        25000 ms
        > +25
        2 drop refused: it waited longer than its time-to-live of 30 s
        > release 4
        > wakeup
        30000 ms
        > +29
        > exit 1
        4 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

#[test]
fn a_held_job_waits_until_it_is_released() {
    check(
        "
        > machine 2
        > submit 1 held
        > why 1
        it is held until it is released [priority 10, cores asked for 1, slots used 0 of 3, waited 0.0 s] change: `pinfold release 1`
        > release 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > hold 1
        > submit 2 held
        > withdraw 2
        2 drop: its client is gone
        > submit 3 held
        > cancel 3
        3 drop: a user or operator asked for it
        ",
    );
}

#[test]
fn a_changed_priority_changes_the_order() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > submit 3
        > priority 3 11
        > priority 1 16
        1 weigh primary p16: its priority is now 16
        > exit 1
        3 start primary 0 p11: a home core was free (1 of 1 slots used)
        ",
    );
}

/// What it waited before it was held gives no right to go first.
#[test]
fn who_was_held_has_to_wait_anew() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2 p3
        > +600
        > hold 2
        > release 2
        > submit 3
        > exit 1
        3 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

#[test]
fn who_ends_in_the_moment_of_its_expiry_has_ended() {
    check(
        "
        > machine 1
        > set factor=1000 ttl=30
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > +30 exit 2
        ",
    );
}
