//! Who goes first for memory, and when another does.

use crate::script::check;

#[test]
fn who_stood_still_for_very_long_goes_before_one_that_does_not_end() {
    check(
        "
        > machine 2
        > set factor=1000
        > memory free=1000 swap=2000
        > submit 1 p11
        1 start primary 0 p11: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +6 memory free=100 swap=2000 1:600 2:300
        > +1 memory free=0 swap=2000 1:700 2:300
        2 freeze: memory runs short: 0 MiB free, growing by 100 MiB a second; job 1 goes first
        > +60 memory free=100 swap=1800 1:900 2:0+300
        > why 2
        memory ran short, and job 1 goes before it [priority 10, cores asked for 1, slots used 1 of 2, since its start 67.0 s, frozen for 60.0 s, memory for jobs 1000 MiB, memory free 100 MiB, memory it holds 0 MiB, of it in swap, besides 300 MiB, times frozen for memory 1, goes first for memory in 1140 s, if swap takes the others] change: 300 MiB of memory that running jobs do not need; it returns by itself
        > +1139 memory free=100 swap=1800 1:900 2:0+300
        > +1 memory free=100 swap=1800 1:900 2:0+300
        2 thaw: memory suffices again: 100 MiB free, 300 MiB to come back from swap
        > +1 memory free=0 swap=1900 1:850+50 2:150+150
        1 freeze: memory runs short: 0 MiB free, growing by 0 MiB a second; job 2 goes first
        "
    );
    // Without room for the holder in swap it has to go on waiting.
    check(
        "
        > machine 2
        > set factor=1000
        > memory free=1000 swap=0
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 m600
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +6 memory free=100 swap=0 1:600 2:300
        2 freeze: memory runs short: 100 MiB free, growing by 0 MiB a second; job 1 goes first
        > +700 memory free=100 swap=0 1:600 2:300
        > +700 memory free=100 swap=0 1:600 2:300
        ",
    );
}

/// Whoever may never be frozen goes on in any case: beside it nobody is to stall for ever because he goes first.
#[test]
fn the_token_passes_to_who_may_never_be_frozen_when_all_stall() {
    check(
        "
        > machine 2
        > set prediction=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 nosuspend
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > memory free=100 swap=4000 1:600 2:300
        > +1.0 memory free=0 swap=3500 stalled=800 1:600+300 2:400+200
        > +1.1 memory free=0 swap=3400 stalled=800 1:600+350 2:400+250
        > +0.5 memory free=0 swap=3400 stalled=800 1:600+350 2:400+250
        1 freeze: memory runs short: 0 MiB free, growing by 269 MiB a second; job 2 goes first
        > +1.0 memory free=0 swap=3400 stalled=300 1:600+350 2:400+250
        1 page out 79: the running jobs need 317 MiB and 0 MiB are free
        > exit 2
        1 thaw: memory suffices again: 400 MiB free, 350 MiB to come back from swap
        ",
    );
}

/// So it is where the kernel says nothing of stalls, only later.
#[test]
fn a_long_shortage_is_taken_for_a_stall_where_nobody_tells_of_stalls() {
    check(
        "
        > machine 2
        > set prediction=off
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 nosuspend
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > memory free=100 swap=4000 1:600 2:300
        > +1 memory free=0 swap=3500 1:600+300 2:400+200
        > +9 memory free=0 swap=3400 1:600+350 2:400+250
        > +0.5 memory free=20 swap=3400 1:590+350 2:390+250
        > +1 memory free=0 swap=3400 1:600+350 2:400+250
        > +9.9 memory free=0 swap=3400 1:600+350 2:400+250
        > +0.1 memory free=0 swap=3400 1:600+350 2:400+250
        > +0.5 memory free=0 swap=3400 1:600+350 2:400+250
        1 freeze: memory runs short: 0 MiB free, growing by 0 MiB a second; job 2 goes first
        ",
    );
}

/// Two whose patience ends together do not take it from each other with what they have in swap.
#[test]
fn who_came_back_runs_for_a_while_before_the_next_goes_first() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=1000 swap=2000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > +6 memory free=400 swap=2000 1:100 2:250 3:250
        > +1 memory free=0 swap=2000 1:400 2:300 3:300
        3 freeze: memory runs short: 0 MiB free, growing by 400 MiB a second; job 1 goes first
        2 freeze: memory runs short: 0 MiB free, growing by 350 MiB a second; job 1 goes first
        > +60 memory free=100 swap=1400 1:900 2:0+300 3:0+300
        > +540 memory free=100 swap=1400 1:900 2:0+300 3:0+300
        2 thaw: memory suffices again: 100 MiB free, 300 MiB to come back from swap
        > +1 memory free=0 swap=1500 1:850+50 2:150+150 3:0+300
        1 freeze: memory runs short: 0 MiB free, growing by 0 MiB a second; job 2 goes first
        > +10 memory free=100 swap=1100 1:600+300 2:300 3:0+300
        > +30 memory free=100 swap=1100 1:600+300 2:300 3:0+300
        3 thaw: memory suffices again: 100 MiB free, 300 MiB to come back from swap
        > +30 memory free=100 swap=1100 1:600+300 2:300 3:0+300
        1 page out 79: the running jobs need 220 MiB and 100 MiB are free
        ",
    );
}

/// One that stood still for long in a set gets the token: it waits for cores of its set, not for any.
#[test]
fn who_holds_the_token_in_a_set_returns_there() {
    check(
        "
        > slow
        > machine pack:2,core:1,pu:1/b:1
        > adopt 1 sb yapart
        > memory free=0 swap=0 stalled=500
        1 start primary 1 p10: enough cores of its set b were free
        > adopt 2 sb / primary any frozen
        > +600 started 1
        > exit 1
        2 weigh primary p10: memory suffices again: 0 MiB free
        2 bind 1: memory suffices again: 0 MiB free
        2 thaw: memory suffices again: 0 MiB free
        ",
    );
}
