//! The cold memory of running jobs.

use crate::script::check;

#[test]
fn who_gets_on_without_a_part_gives_it_up_instead_of_standing_still() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=8000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > +1 memory free=820 swap=8000 1:90 2:90 1~0 2~0
        > +1 memory free=640 swap=8000 1:180 2:180 1~0 2~0
        2 page out 11: memory would run short within 4 s: this shows whether it runs as well with a little less
        > +1 memory free=471 swap=7989 1:270 2:259+11 1~0 2~0
        > +1 memory free=291 swap=7989 1:360 2:349+11 1~0 2~0
        > why 2
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 2 of 4, since its start 4.0 s, PUs 1, in swap, not refaulted 11 MiB] change: its end, or `pinfold suspend 2`
        > +1 memory free=111 swap=7989 1:450 2:439+11 1~0 2~0
        2 page out 79: the running jobs need 200 MiB and 111 MiB are free
        > +1 memory free=71 swap=7849 1:540 2:389+151 1~0 2~0
        2 page out 79: the running jobs need 200 MiB and 71 MiB are free
        > +1 memory free=71 swap=7659 1:630 2:299+341 1~0 2~0
        2 page out 79: the running jobs need 210 MiB and 71 MiB are free
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        ",
    );
}

#[test]
fn who_waits_for_what_went_out_is_left_alone_and_all_it_holds_counts() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=8000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > +1 memory free=820 swap=8000 1:90 2:90 1~0 2~0
        > +1 memory free=640 swap=8000 1:180 2:180 1~0 2~0
        2 page out 11: memory would run short within 4 s: this shows whether it runs as well with a little less
        > +1 memory free=460 swap=8000 1:270 2:270 1~0 2~600
        > +1 memory free=280 swap=8000 1:360 2:360 1~0 2~0
        > +1 memory free=100 swap=8000 1:450 2:450 1~0 2~0
        2 freeze: memory runs short: 100 MiB free, growing by 180 MiB a second; job 1 goes first
        ",
    );
}

#[test]
fn nobody_is_tried_who_may_not_be_or_fills_memory_fast_or_of_whom_nothing_is_told() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=8000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 nosuspend
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > submit 4
        4 start primary 3 p10: a home core was free (4 of 4 slots used)
        > +1 memory free=720 swap=8000 1:50 2:50 3:110 4:70 1~0 2~0 3~0
        > +1 memory free=440 swap=8000 1:100 2:100 3:220 4:140 1~0 2~0 3~0
        ",
    );
}

/// Of three that run the youngest is tried and misses what went out: the other of its kind is not tried.
#[test]
fn the_like_of_one_who_misses_a_little_are_left_alone_too() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=8000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 k1
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > +1 memory free=600 swap=8000 1:100 2:150 3:150 1~0 2~0 3~0
        > +1 memory free=420 swap=8000 1:140 2:220 3:220 1~0 2~0 3~0
        3 page out 13: memory would run short within 4 s: this shows whether it runs as well with a little less
        > +1 memory free=240 swap=8000 1:180 2:290 3:290 1~0 2~0 3~600
        > +0.3 memory free=186 swap=8000 1:192 2:311 3:311 1~0 2~0 3~0
        ",
    );
}
