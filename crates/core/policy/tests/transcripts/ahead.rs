//! What the jobs that run are about to hold, and which is suspended for that in time.

use crate::script::check;

/// What is above the usual is safe to give, for swap takes the other: so both run on, until one of them has passed it.
#[test]
fn who_is_known_is_believed_to_stop_where_its_kind_does() {
    check(
        "
        > machine 2
        > set factor=1000
        > learned 1 500 1000
        > memory free=1024 swap=4000
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=424 swap=4000 1:300 2:300
        > +0.5 memory free=144 swap=4000 1:440 2:440
        > +0.2 memory free=14 swap=4000 1:505 2:505
        > +0.1 memory free=4 swap=4000 1:500 2:520
        2 freeze: memory runs short: 4 MiB free, growing by 525 MiB a second; job 1 goes first
        ",
    );
}

/// Two would fit, but what the third holds is not in swap by then. No job is suspended twice for that.
#[test]
fn who_grows_faster_than_others_can_be_moved_stands_still_before_ram_is_full() {
    check(
        "
        > machine 3
        > set factor=1000
        > memory free=1000 swap=4000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 3 slots used)
        > +1 memory free=700 swap=4000 1:100 2:100 3:100
        > +1 memory free=0 swap=4000 1:300 2:200 3:500
        3 freeze: memory runs short: 0 MiB free, growing by 700 MiB a second; job 1 goes first
        2 freeze: memory runs short: 0 MiB free, growing by 300 MiB a second; job 1 goes first
        > +10 memory free=200 swap=4000 1:100 2:200 3:500
        2 thaw: memory suffices again: 200 MiB free
        > +1 memory free=100 swap=4000 1:100 2:300 3:500
        > +1 memory free=0 swap=4000 1:100 2:400 3:500
        3 page out 79: the running jobs need 120 MiB and 0 MiB are free
        ",
    );
}

/// That others of its kind hold so much by now does not say that it stops there.
#[test]
fn who_is_behind_others_of_its_kind_grows_on_beyond_them() {
    check(
        "
        > machine 2
        > set factor=1000
        > memory free=1000 swap=0
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=800 swap=0 1:110 2:90
        > +1 memory free=390 swap=0 1:310 2:300
        2 freeze: memory runs short: 390 MiB free, growing by 410 MiB a second; job 1 goes first
        ",
    );
}

/// Job 1 may need 700 of 2000, and nothing takes what the other holds; it is not known at once where that stops.
#[test]
fn nothing_starts_before_who_was_to_stand_still_was_looked_at() {
    check(
        "
        > machine 8
        > set factor=1000
        > learned 1 200 700
        > memory free=2000 swap=0
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 8 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 8 slots used)
        > +1 memory free=800 swap=0 1:100 2:1100
        > +1 memory free=650 swap=0 1:100 2:1250
        2 freeze: memory runs short: 650 MiB free, growing by 150 MiB a second; job 1 goes first
        > submit 3 m40
        > +0.1 memory free=640 swap=0 1:100 2:1260
        > +0.2 memory free=640 swap=0 1:100 2:1260
        3 start primary 1 p10: a home core was free (2 of 8 slots used)
        ",
    );
}

/// Job 1 may need 1500 of 2000, and either of the others comes to hold 400.
#[test]
fn who_was_not_looked_at_since_it_started_is_as_large_as_usual() {
    check(
        "
        > machine 8
        > set factor=1000
        > learned 1 1000 1500
        > learned 2 400 450
        > memory free=2000 swap=0
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 8 slots used)
        > submit 2 k2
        2 start primary 1 p10: a home core was free (2 of 8 slots used)
        > submit 3 k2
        > why 3
        with it, the others could not all be paged out for the job that goes first [priority 10, cores asked for 1, slots used 2 of 8, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 400 MiB, memory at most 450 MiB, memory for jobs 2000 MiB, memory free 2000 MiB] change: more swap (`pinfold doctor`), or job 2 or job 1 must end or need less
        ",
    );
}

/// Job 1, of which nothing is known, grows into the room that job 2 would need: 2 would be the first to be suspended,
/// and 3 after it.
#[test]
fn nothing_starts_that_would_have_to_stand_still_at_once() {
    check(
        "
        > machine 2
        > set factor=2000
        > learned 1 150 160
        > memory free=1000 swap=4000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > +1 memory free=800 swap=4000 1:200
        > +1 memory free=400 swap=4000 1:600
        > submit 2 k1
        > why 2
        it is expected to need 150 MiB of memory, and those that run are about to grow into all but 0 MiB [priority 10, cores asked for 1, slots used 1 of 4, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 150 MiB, memory at most 160 MiB, memory for jobs 1000 MiB, memory free 400 MiB] change: they stop growing, or job 1 must end or need less
        > submit 3 k1
        > +1 memory free=400 swap=4000 1:600
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > +1 memory free=350 swap=4000 1:600 2:50
        ",
    );
}

/// Either of the two would fit, but not both; the first has no slot yet when the second is looked at.
#[test]
fn who_returns_in_one_step_with_another_is_held_against_it() {
    check(
        "
        > machine 3
        > set factor=1000
        > learned 1 100 120
        > memory free=500 swap=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 k1
        3 start primary 2 p10: a home core was free (3 of 3 slots used)
        > +1 memory free=50 swap=1000 1:450 2:0 3:0
        3 freeze: memory runs short: 50 MiB free, growing by 0 MiB a second; job 1 goes first
        2 freeze: memory runs short: 50 MiB free, growing by 0 MiB a second; job 1 goes first
        > +1 memory free=50 swap=1000 1:450 2:0 3:0
        > +1 memory free=150 swap=1000 1:350 2:0 3:0
        2 thaw: memory suffices again: 150 MiB free
        > +1 memory free=50 swap=1000 1:350 2:100 3:0
        > exit 1
        3 thaw: memory suffices again: 400 MiB free
        ",
    );
}
