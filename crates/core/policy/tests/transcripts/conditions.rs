//! What keeps jobs from their start beside slots: other jobs that must be over first, and a host that is drained.

use crate::script::check;

#[test]
fn a_job_starts_after_those_it_waits_for() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 a1,2,77
        > why 3
        it was asked to start after jobs 1 and 2 [priority 10, cores asked for 1, slots used 2 of 3, waited 0.0 s, jobs it waits for 2] change: job 1 must be over
        > exit 1
        > exit 2
        3 start primary 0 p10: a home core was free (1 of 3 slots used)
        ",
    );
}

#[test]
fn a_job_that_was_struck_off_is_over_too() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1 held
        > submit 2 a1
        > submit 3 a2
        > cancel 1
        1 drop: a user or operator asked for it
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > cancel 2
        2 signal 15: a user or operator asked for it
        ",
    );
}

#[test]
fn a_gated_job_waits_for_its_caller_and_does_not_expire_meanwhile() {
    check(
        "
        > machine 1
        > set factor=1000
        > submit 1 gated t5
        > why 1
        its client lets it start later [priority 10, cores asked for 1, slots used 0 of 1, waited 0.0 s] change: its time, or the end of other jobs
        > +100 tick
        > gate 1 open
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > gate 1 closed
        > submit 2 gated a1
        > gate 2 open
        > gate 2 closed
        > exit 1
        > submit 3
        3 start primary 0 p10: a home core was free (1 of 1 slots used)
        > cancel 2
        2 drop: a user or operator asked for it
        > submit 4 t5 gated
        > gate 4 open
        > +6 tick
        4 drop refused: it waited longer than its time-to-live of 5 s
        ",
    );
}

#[test]
fn after_a_restart_those_that_are_gone_are_over() {
    check(
        "
        > machine 2
        > adopt 5 a3,4
        > adopt 4 / primary 1
        > adopt 6 a3
        > tick
        4 weigh primary p10: found again after a restart of the daemon
        6 start primary 0 p10: a home core was free (2 of 3 slots used)
        > exit 4
        5 start primary 1 p10: a home core was free (2 of 3 slots used)
        ",
    );
}

#[test]
fn a_drained_host_starts_nothing_and_lets_the_rest_go_on() {
    check(
        "
        > machine 1
        > set factor=1000 preemption=hard
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > set drain=on
        > submit 2
        > why 2
        the host is drained: nothing new starts [priority 10, cores asked for 1, slots used 1 of 1, waited 0.0 s] change: `pinfold admin undrain`
        > suspend 1
        1 freeze: a user or operator asked for it
        > resume 1
        1 thaw: a user or operator asked for it
        > exit 1
        > set drain=off
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        ",
    );
}

#[test]
fn what_a_job_needs_can_be_told_later() {
    check(
        "
        > machine 2
        > memory free=1000 swap=0
        > submit 1 m700
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 m700
        > need 2 300
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        ",
    );
}

#[test]
fn directories_in_memory_have_room() {
    check(
        "
        > machine 2
        > set factor=4000 tmp=10
        > submit 1 backfill d6
        1 start backfill 0 p10: it asked to be a backfiller and a slot was free (1 of 8 slots used)
        > submit 2 backfill d5
        > submit 3 backfill d4
        3 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 8 slots used)
        > submit 4 backfill
        4 start backfill 0 p10: it asked to be a backfiller and a slot was free (3 of 8 slots used)
        > exit 3
        > exit 1
        2 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 8 slots used)
        > set tmp=3
        > submit 5 backfill d4
        > exit 2
        5 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 8 slots used)
        ",
    );
}

/// A large one is passed by small ones until it has waited too long; who needs none is not held up by it.
#[test]
fn a_large_directory_in_memory_is_not_passed_for_ever() {
    check(
        "
        > machine 2
        > set factor=4000 tmp=10
        > submit 1 backfill d6
        1 start backfill 0 p10: it asked to be a backfiller and a slot was free (1 of 8 slots used)
        > submit 2 backfill d8
        > submit 3 backfill d4
        3 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 8 slots used)
        > +599
        > exit 3
        > submit 4 backfill d4
        4 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 8 slots used)
        > +1
        > exit 4
        > submit 5 backfill p16 d1
        > why 5
        job 2 waited too long for its --tmp, and no other job gets one before it [priority 16, cores asked for 1, slots used 1 of 8, waited 0.0 s, position in the queue 2, goes first in 600 s, memory for --tmp 10 MiB, of it free 4 MiB] change: job 2 must start
        > submit 6 backfill
        6 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 8 slots used)
        > why 2
        its --tmp of 8 MiB does not fit beside those of other jobs: `tmp.total` leaves 4 MiB [priority 10, cores asked for 1, slots used 2 of 8, waited 600.0 s, position in the queue 1, goes first it waited too long, memory for --tmp 10 MiB, of it free 4 MiB] change: job 1 must end, or a larger `tmp.total`
        > exit 1
        2 start backfill 0 p10: it asked to be a backfiller and a slot was free (2 of 8 slots used)
        5 start backfill 0 p16: it asked to be a backfiller and a slot was free (3 of 8 slots used)
        ",
    );
}

/// One that would have room without the directories of its own user's jobs keeps those of that user back, and nobody
/// else's.
#[test]
fn a_large_directory_in_memory_waits_for_its_owners_alone() {
    check(
        "
        > machine 2
        > set factor=4000 tmp=10
        > submit 1 o1 backfill d1
        1 start backfill 0 p10: it asked to be a backfiller and a slot was free (1 of 8 slots used)
        > submit 2 o1 backfill d10
        > +601
        > submit 3 o2 backfill d8
        3 start backfill 1 p10: it asked to be a backfiller and a slot was free (2 of 8 slots used)
        > exit 3
        > submit 4 o1 backfill d1
        > exit 1
        2 start backfill 0 p10: it asked to be a backfiller and a slot was free (1 of 8 slots used)
        > exit 2
        4 start backfill 0 p10: it asked to be a backfiller and a slot was free (1 of 8 slots used)
        ",
    );
}
