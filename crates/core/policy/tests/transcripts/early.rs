//! Who starts beside jobs that have not come to need what they are expected to yet.

use crate::script::check;

#[test]
fn who_fits_for_now_starts_and_its_like_follow_once_it_gets_on_with_little() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=8000
        > learned 1 600 600
        > submit 1 k1 m600
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > +0.5 memory free=950 swap=8000 1:50 1~0
        > submit 2 k1 m600
        > why 2
        it is expected to need 600 MiB of memory and 400 MiB are left for it [priority 10, cores asked for 1, slots used 1 of 4, memory asked for 600 MiB, memory its class needed 600 MiB, memory counted by the runs of its class that ended, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 600 MiB, memory at most 600 MiB, memory for jobs 1000 MiB, memory free 950 MiB, memory counted for other jobs 600 MiB] change: job 1 must end or need less
        > +1 memory free=900 swap=8000 1:100 1~0
        2 start primary 1 p10: memory suffices for now: the 600 MiB that it needs are free, though the running jobs may come to lack 200 MiB
        > +1 memory free=850 swap=8000 1:150 2:0 1~0 2~0
        > +1 memory free=730 swap=8000 1:210 2:60 1~0 2~0
        > +1 memory free=610 swap=8000 1:270 2:120 1~0 2~0
        > +1 memory free=490 swap=8000 1:330 2:180 1~0 2~0
        > submit 3 k1 m600
        > +1 memory free=381 swap=7989 1:390 2:229+11 1~0 2~0
        2 page out 14: memory would run short within 4 s: this shows whether it runs as well with a little less
        > +1 memory free=261 swap=7989 1:450 2:289+11 1~0 2~0
        2 page out 79: the next to start lacks 444 MiB, and this one holds so much that it does not use
        > +0.5 memory free=280 swap=7910 1:480 2:240+90 1~0 2~0
        2 page out 79: the next to start lacks 156 MiB, and this one holds so much that it does not use
        > +0.5 memory free=290 swap=7831 1:510 2:200+160 1~0 2~0
        2 page out 42: the next to start lacks 42 MiB, and this one holds so much that it does not use
        > +0.5 memory free=320 swap=7752 1:540 2:140+250 1~0 2~0
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > +0.5 memory free=360 swap=7652 1:570 2:70+350 1~0 2~0
        ",
    );
}

#[test]
fn who_started_early_stands_still_first_and_its_like_wait_for_a_while() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=8000
        > learned 1 600 600
        > learned 2 500 500
        > learned 3 80 80
        > submit 1 k1 m600
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > +1 memory free=950 swap=8000 1:50
        > +1 memory free=900 swap=8000 1:100
        > submit 2 k2 m500
        2 start primary 1 p10: memory suffices for now: the 500 MiB that it needs are free, though the running jobs may come to lack 100 MiB
        > submit 3 k3 m80
        3 start primary 2 p10: memory suffices for now: the 80 MiB that it needs are free, though the running jobs may come to lack 80 MiB
        > +1 memory free=500 swap=8000 1:300 2:200
        > +1 memory free=150 swap=8000 1:480 2:370
        2 freeze: memory runs short: 150 MiB free, growing by 350 MiB a second; job 1 goes first
        > +1 memory free=10 swap=8000 1:600 2:390
        2 page out 79: the running jobs need 157 MiB and 10 MiB are free
        > exit 1
        2 thaw: memory suffices again: 610 MiB free
        > +1 memory free=600 swap=8000 2:400
        > exit 2
        > submit 4 k1 m600
        4 start primary 0 p10: a home core was free (2 of 4 slots used)
        > +2 memory free=900 swap=8000 4:100
        > submit 5 k2 m500
        > +30 memory free=900 swap=8000 4:100
        5 start primary 1 p10: memory suffices for now: the 500 MiB that it needs are free, though the running jobs may come to lack 180 MiB
        ",
    );
}

#[test]
fn nobody_starts_early_who_could_not_be_moved_out_of_the_way_again() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=400
        > learned 1 600 600
        > learned 2 500 500
        > submit 1 k1 m600
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > +2 memory free=900 swap=400 1:100
        > submit 2 k2 m500
        > memory free=900 swap=8000 1:100
        2 start primary 1 p10: memory suffices for now: the 500 MiB that it needs are free, though the running jobs may come to lack 100 MiB
        ",
    );
}

#[test]
fn nobody_starts_early_who_may_never_stand_still() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=8000
        > submit 1 k1 m600
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > +2 memory free=900 swap=8000 1:100
        > submit 2 k2 m500 nosuspend
        > memory free=900 swap=8000 1:100
        ",
    );
}
