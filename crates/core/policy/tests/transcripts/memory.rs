//! Memory: who waits for it, who is frozen for want of it, and who returns.

use crate::script::check;

#[test]
fn known_needs_are_admitted_as_far_as_they_fit() {
    check(
        "
        > machine 4
        > memory free=1000 swap=0
        > submit 1 m400
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 m500
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 m200
        > submit 4 m100
        > why 3
        it is expected to need 200 MiB of memory and 100 MiB are left for it [priority 10, cores asked for 1, slots used 2 of 6, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 200 MiB, memory at most 200 MiB, memory for jobs 1000 MiB, memory free 1000 MiB, memory counted for other jobs 900 MiB] change: job 2 or job 1 must end or need less
        > exit 1
        3 start primary 0 p10: a home core was free (2 of 6 slots used)
        4 start primary 2 p10: a home core was free (3 of 6 slots used)
        ",
    );
}

/// The figures add up, and what is to end suffices: one of those that hold enough, all that are needed together, or all
/// that run.
#[test]
fn it_is_said_what_must_end_for_memory() {
    check(
        "
        > machine 4
        > memory free=21700 swap=0
        > submit 1 m1000
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 m1000
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 m3000
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > submit 4 m18000
        > why 4
        it is expected to need 17.5 GiB of memory and 16.3 GiB are left for it [priority 10, cores asked for 1, slots used 3 of 6, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 17.5 GiB, memory at most 17.5 GiB, memory for jobs 21.1 GiB, memory free 21.1 GiB, memory counted for other jobs 5000 MiB] change: job 3 must end or need less
        > submit 5 m20000
        > cancel 4
        4 drop: a user or operator asked for it
        > why 5
        it is expected to need 19.5 GiB of memory and 16.3 GiB are left for it [priority 10, cores asked for 1, slots used 3 of 6, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 19.5 GiB, memory at most 19.5 GiB, memory for jobs 21.1 GiB, memory free 21.1 GiB, memory counted for other jobs 5000 MiB] change: jobs 3 and 2, or others that hold as much, must end or need less
        > submit 6 m22000
        > cancel 5
        5 drop: a user or operator asked for it
        > why 6
        it is expected to need 21.4 GiB of memory, more than the 21.1 GiB that jobs may have: nothing may run beside it [priority 10, cores asked for 1, slots used 3 of 6, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 21.4 GiB, memory at most 21.4 GiB, memory for jobs 21.1 GiB, memory free 21.1 GiB, memory counted for other jobs 5000 MiB] change: jobs 3, 2 and 1 must end, as well as any that starts before it
        > cancel 6
        6 drop: a user or operator asked for it
        > submit 7 m17500
        > why 7
        it is expected to need 17.0 GiB of memory and 16.3 GiB are left for it [priority 10, cores asked for 1, slots used 3 of 6, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 17.0 GiB, memory at most 17.0 GiB, memory for jobs 21.1 GiB, memory free 21.1 GiB, memory counted for other jobs 5000 MiB] change: job 3 or any of 2 others must end or need less
        ",
    );
}

#[test]
fn what_is_learned_counts_more_than_what_was_asked() {
    check(
        "
        > machine 4
        > memory free=1000 swap=1000
        > submit 1 m900 k1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 m900 k1
        > learned 1 300 400
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 m900 k1
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > submit 4 m900 k1
        ",
    );
}

/// One small run does not make others small that say that they are large: neither is what is admitted beside it, nor does
/// the next start early, while the first holds little yet. After five runs it does.
#[test]
fn what_was_asked_counts_until_there_is_evidence_for_less() {
    check(
        "
        > machine 4
        > memory free=1000 swap=4000
        > learned 1 50 100 1
        > submit 1 m700 k1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 m700 k1
        > +2 memory free=950 swap=4000 1:50
        > why 2
        it is expected to need 700 MiB of memory and 300 MiB are left for it [priority 10, cores asked for 1, slots used 1 of 6, memory asked for 700 MiB, memory its class needed 50 MiB, memory counted by the request, at least, until 5 runs of its class have ended (1 so far), waited 2.0 s, position in the queue 1, goes first in 598 s, memory expected 700 MiB, memory at most 700 MiB, memory for jobs 1000 MiB, memory free 950 MiB, memory counted for other jobs 700 MiB] change: job 1 must end or need less
        > learned 1 50 100 4
        > learned 1 50 100 5
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > why 2
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 2 of 6, memory asked for 700 MiB, memory its class needed 50 MiB, memory counted by the runs of its class that ended, since its start 0.0 s, PUs 1] change: its end, or `pinfold suspend 2`
        ",
    );
}

/// What is known of a class counts where it needs more than was asked for, from the first run on.
#[test]
fn what_was_asked_is_no_more_than_a_floor() {
    check(
        "
        > machine 4
        > memory free=1000 swap=0
        > learned 1 600 700 1
        > submit 1 m100 k1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 m100 k1
        ",
    );
}

#[test]
fn a_job_larger_than_memory_runs_alone() {
    check(
        "
        > machine 2
        > memory free=1000 swap=4000
        > submit 1 m3000
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 m10
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 3 slots used)
        ",
    );
}

#[test]
fn growth_freezes_the_youngest_before_memory_is_short() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=700 swap=2000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > +1 memory free=670 swap=2000 1:10 2:10 3:10
        > +1 memory free=370 swap=2000 1:110 2:110 3:110
        > +0.5 memory free=220 swap=2000 1:160 2:160 3:160
        3 freeze: memory runs short: 220 MiB free, growing by 300 MiB a second; job 1 goes first
        > why 3
        memory ran short, and job 1 goes before it [priority 10, cores asked for 1, slots used 2 of 4, since its start 2.5 s, frozen for 0.0 s, memory for jobs 700 MiB, memory free 220 MiB, memory it holds 160 MiB, of it in swap, besides 0 MiB, times frozen for memory 1] change: 360 MiB of memory that running jobs do not need; it returns by itself
        > submit 4
        > why 4
        memory runs short, and nothing new starts meanwhile [priority 10, cores asked for 1, slots used 2 of 4, waited 0.0 s, position in the queue 1, goes first in 600 s, memory for jobs 700 MiB, memory free 220 MiB] change: memory that running jobs do not need
        > +0.5 memory free=120 swap=2000 1:210 2:210 3:160
        3 page out 79: the running jobs need 214 MiB and 120 MiB are free
        > +0.5 memory free=120 swap=2000 1:260 2:210 3:110+50
        3 page out 74: the running jobs need 194 MiB and 120 MiB are free
        > +0.5 memory free=120 swap=2000 1:310 2:210 3:60+100
        3 page out 60: the running jobs need 180 MiB and 120 MiB are free
        > exit 1
        3 thaw: memory suffices again: 430 MiB free, 100 MiB to come back from swap
        4 start primary 0 p10: a home core was free (3 of 4 slots used)
        > +1 memory free=420 swap=2000 2:210 3:60+100
        > +1 memory free=320 swap=2000 2:210 3:160
        ",
    );
}

#[test]
fn what_stands_still_is_paged_out_for_who_runs() {
    check(
        "
        > machine 2
        > set factor=1000
        > memory free=1000 swap=2000
        > submit 1 m900
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 m100
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=200 swap=2000 1:400 2:400
        2 freeze: memory runs short: 200 MiB free, growing by 0 MiB a second; job 1 goes first
        > +1 memory free=50 swap=2000 1:500 2:450
        2 page out 70: the running jobs need 120 MiB and 50 MiB are free
        > +0.5 memory free=50 swap=2000 1:500 2:450
        2 page out 36: the running jobs need 86 MiB and 50 MiB are free
        > +0.5 memory free=100 swap=1900 1:550 2:350+100
        > +0.5 memory free=100 swap=1800 1:650 2:250+200
        2 page out 70: the running jobs need 170 MiB and 100 MiB are free
        > exit 1
        2 thaw: memory suffices again: 750 MiB free, 200 MiB to come back from swap
        > +1 memory free=800 swap=1800 2:250+200
        ",
    );
}

#[test]
fn without_swap_nothing_is_paged_out_and_the_first_goes_on() {
    check(
        "
        > machine 2
        > set factor=1000
        > memory free=1000 swap=0
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=800 swap=0 1:100 2:100
        > +1 memory free=500 swap=0 1:250 2:250
        > +0.5 memory free=290 swap=0 1:355 2:355
        2 freeze: memory runs short: 290 MiB free, growing by 340 MiB a second; job 1 goes first
        > +1 memory free=190 swap=0 1:455 2:355
        > +1 memory free=100 swap=0 1:545 2:355
        > exit 1
        2 thaw: memory suffices again: 645 MiB free
        ",
    );
}

#[test]
fn a_job_that_may_not_be_frozen_is_not() {
    check(
        "
        > machine 2
        > set factor=1000
        > memory free=1000 swap=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 nosuspend
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3
        > +1 memory free=800 swap=1000 1:100 2:100
        > +1 memory free=400 swap=1000 1:300 2:300
        > +1 memory free=100 swap=1000 1:450 2:450
        ",
    );
}

#[test]
fn a_thrashing_host_freezes_without_prediction_too() {
    check(
        "
        > machine 2
        > set factor=1000 prediction=off
        > memory free=1000 swap=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=20 swap=800 1:490+100 2:490+100 stalled=700
        2 freeze: memory runs short: 20 MiB free, growing by 0 MiB a second; job 1 goes first
        > +0.5 memory free=20 swap=800 1:490+100 2:490+100 stalled=700
        2 page out 79: the running jobs need 120 MiB and 20 MiB are free
        > +0.6 memory free=20 swap=800 1:490+100 2:490+100 stalled=700
        2 page out 79: the running jobs need 120 MiB and 20 MiB are free
        ",
    );
}

#[test]
fn switched_off_it_does_nothing_and_lets_all_go() {
    check(
        "
        > machine 2
        > set factor=1000
        > memory free=1000 swap=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=800 swap=1000 1:100 2:100
        > +1 memory free=200 swap=1000 1:400 2:400
        2 freeze: memory runs short: 200 MiB free, growing by 600 MiB a second; job 1 goes first
        > set governor=off
        2 thaw: memory suffices again: 200 MiB free
        > +1 memory free=10 swap=1000 1:500 2:490
        ",
    );
}

#[test]
fn suspended_and_cancelled_while_frozen_for_memory() {
    check(
        "
        > machine 3
        > set factor=1000
        > memory free=1000 swap=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 3 slots used)
        > +1 memory free=700 swap=1000 1:100 2:100 3:100
        > +1 memory free=300 swap=1000 1:250 2:225 3:225
        3 freeze: memory runs short: 300 MiB free, growing by 400 MiB a second; job 1 goes first
        > suspend 2
        2 freeze: a user or operator asked for it
        > exit 1
        3 thaw: memory suffices again: 550 MiB free
        > cancel 3
        3 signal 15: a user or operator asked for it
        > resume 2
        2 thaw: a user or operator asked for it
        ",
    );
}

#[test]
fn jobs_that_grow_in_step_are_frozen_youngest_first_and_nobody_takes_their_place() {
    check(
        "
        > machine 2
        > set factor=2000
        > memory free=2048 swap=6000
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 k1
        3 start backfill 0 p10: no home core was free but a slot was (3 of 4 slots used)
        > submit 4 k1
        4 start backfill 1 p10: no home core was free but a slot was (4 of 4 slots used)
        > submit 5 k1
        > +1 memory free=1400 swap=6000 1:300 2:300 3:2 4:10
        > +0.55 memory free=1100 swap=6000 1:460 2:460 3:3 4:12
        4 freeze: memory runs short: 1100 MiB free, growing by 587 MiB a second; job 1 goes first
        > +0.1 memory free=1040 swap=6000 1:490 2:490 3:3 4:12
        3 freeze: memory runs short: 1040 MiB free, growing by 586 MiB a second; job 1 goes first
        > +0.1 memory free=980 swap=6000 1:520 2:520 3:3 4:12
        > +0.1 memory free=920 swap=6000 1:550 2:550 3:3 4:12
        ",
    );
}

#[test]
fn without_prediction_what_was_learned_lets_nobody_pass_one_that_stands_still() {
    check(
        "
        > machine 2
        > set factor=2000 prediction=off
        > memory free=1000 swap=1000
        > learned 1 100 100
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > +1 memory free=200 swap=1000 1:400 2:400
        > +1 memory free=0 swap=1000 1:500 2:500
        2 freeze: memory runs short: 0 MiB free, growing by 200 MiB a second; job 1 goes first
        > +0.5 memory free=100 swap=1000 1:500 2:400
        > submit 3 k1
        ",
    );
}

#[test]
fn a_resumed_job_waits_for_the_memory_that_it_needs() {
    check(
        "
        > machine 2
        > set factor=1000
        > memory free=1000 swap=2000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +5 memory free=400 swap=2000 1:50 2:550
        > suspend 2
        2 freeze: a user or operator asked for it
        > +6 memory free=400 swap=1500 1:550 2:50+500
        > +6 memory free=400 swap=1500 1:550 2:50+500
        > resume 2
        > why 2
        memory ran short, and job 1 goes before it [priority 10, cores asked for 1, slots used 1 of 2, since its start 17.0 s, frozen for 0.0 s, memory for jobs 1000 MiB, memory free 400 MiB, memory it holds 50 MiB, of it in swap, besides 500 MiB, times frozen for memory 0] change: 550 MiB of memory that running jobs do not need; it returns by itself
        > exit 1
        2 thaw: memory suffices again: 950 MiB free, 500 MiB to come back from swap
        ",
    );
}

#[test]
fn nobody_grows_into_what_the_token_holder_is_known_to_need() {
    check(
        "
        > machine 2
        > set factor=1000
        > learned 1 300 600
        > memory free=1000 swap=0
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=700 swap=0 1:150 2:150
        > +5 memory free=600 swap=0 1:200 2:200
        > +5 memory free=400 swap=0 1:300 2:300
        > +1 memory free=300 swap=0 1:350 2:350
        > +0.5 memory free=240 swap=0 1:380 2:380
        2 freeze: memory runs short: 240 MiB free, growing by 106 MiB a second; job 1 goes first
        > +5 memory free=20 swap=0 1:600 2:380
        > exit 1
        2 thaw: memory suffices again: 620 MiB free
        ",
    );
}

#[test]
fn nobody_returns_who_had_to_stand_still_again_at_once() {
    check(
        "
        > machine 2
        > set factor=1000
        > learned 1 300 600
        > memory free=1000 swap=0
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=700 swap=0 1:150 2:150
        > +5 memory free=600 swap=0 1:200 2:200
        > +5 memory free=400 swap=0 1:300 2:300
        > +1 memory free=300 swap=0 1:350 2:350
        > +0.5 memory free=240 swap=0 1:380 2:380
        2 freeze: memory runs short: 240 MiB free, growing by 106 MiB a second; job 1 goes first
        > +1 memory free=230 swap=0 1:390 2:380
        > +5 memory free=220 swap=0 1:400 2:380
        > +20 memory free=220 swap=0 1:400 2:380
        > exit 1
        2 thaw: memory suffices again: 620 MiB free
        ",
    );
}

#[test]
fn who_starts_second_in_a_moment_is_held_against_the_needs_of_the_first() {
    check(
        "
        > machine 2
        > set factor=1000
        > learned 1 300 900
        > memory free=1000 swap=0
        > submit 1 c2
        1 start primary 0-1 p10: a home core was free (2 of 2 slots used)
        > submit 2 k1
        > submit 3 k1
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 2 slots used)
        > why 3
        with it, the others could not all be paged out for the job that goes first [priority 10, cores asked for 1, slots used 1 of 2, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 300 MiB, memory at most 900 MiB, memory for jobs 1000 MiB, memory free 1000 MiB] change: more swap (`pinfold doctor`), or job 2 must end or need less
        ",
    );
}

#[test]
fn when_nothing_else_helps_the_youngest_that_allows_it_begins_anew() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=700 swap=0
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 requeue
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > +1 memory free=670 swap=0 1:10 2:10 3:10
        > +1 memory free=370 swap=0 1:110 2:110 3:110
        > +0.5 memory free=220 swap=0 1:160 2:160 3:160
        3 freeze: memory runs short: 220 MiB free, growing by 300 MiB a second; job 1 goes first
        > +0.5 memory free=100 swap=0 1:250 2:160 3:160
        2 freeze: memory runs short: 100 MiB free, growing by 215 MiB a second; job 1 goes first
        > +0.5 memory free=20 swap=0 1:330 2:160 3:160
        2 requeue: memory could be had in no other way (60 MiB more needed, nobody left to freeze, no swap); it goes back in the queue, time 1 of at most 3
        > +0.5 memory free=20 swap=0 1:330 2:160 3:160
        > requeued 2
        > why 2
        it waits to be begun anew: it was ended because memory could be had in no other way [priority 10, cores asked for 1, slots used 1 of 4, waited 4.0 s, times put back in the queue 1] change: it is next in 5.0 s, as soon as memory suffices for what it held
        > +6 memory free=50 swap=0 1:460 3:160
        > exit 1
        3 thaw: memory suffices again: 510 MiB free
        2 start primary 0 p10: it is requeued: it was ended because memory could be had in no other way
        ",
    );
}

#[test]
fn who_will_hold_the_token_later_is_asked_for_too() {
    check(
        "
        > machine 4
        > set factor=1000
        > learned 1 300 900
        > learned 2 50 100
        > memory free=1000 swap=0
        > submit 1 k2
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 k1
        > why 3
        with it, the others could not all be paged out for the job that goes first [priority 10, cores asked for 1, slots used 2 of 4, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 300 MiB, memory at most 900 MiB, memory for jobs 1000 MiB, memory free 1000 MiB] change: more swap (`pinfold doctor`), or job 2 or job 1 must end or need less
        > submit 4 k2
        > exit 1
        > exit 2
        3 start primary 0 p10: a home core was free (1 of 4 slots used)
        4 start primary 1 p10: a home core was free (2 of 4 slots used)
        ",
    );
}

#[test]
fn a_newcomer_that_goes_before_others_must_find_room_for_all_that_it_may_need() {
    check(
        "
        > machine 4
        > set factor=1000
        > learned 1 300 900
        > memory free=1000 swap=0
        > submit 1 m200
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 m200
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > +1 memory free=600 swap=0 1:200 2:200
        > submit 3 k1 p11
        > exit 1
        3 start primary 0 p11: a home core was free (2 of 4 slots used)
        ",
    );
}

#[test]
fn nobody_grows_into_what_a_later_token_holder_may_need() {
    check(
        "
        > machine 4
        > set factor=1000
        > learned 1 100 700
        > learned 2 50 100
        > memory free=1000 swap=0
        > submit 1 k2
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 k1
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 k1
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > +1 memory free=800 swap=0 1:50 2:100 3:50
        > +5 memory free=650 swap=0 1:50 2:150 3:150
        > +5 memory free=550 swap=0 1:50 2:150 3:250
        > +2 memory free=510 swap=0 1:50 2:150 3:290
        3 freeze: memory runs short: 510 MiB free, growing by 20 MiB a second; job 1 goes first
        > exit 1
        > exit 2
        3 thaw: memory suffices again: 710 MiB free
        ",
    );
}

/// A freeze can take its time, and a job that is to be suspended grows until then.
#[test]
fn nothing_starts_while_one_that_is_to_stand_still_grows() {
    check(
        "
        > machine 4
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 m500
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > memory free=550 swap=0 1:50 2:400
        > +1 memory free=250 swap=0 1:300 2:450
        2 freeze: memory runs short: 250 MiB free, growing by 300 MiB a second; job 1 goes first
        > +0.5 memory free=220 swap=0 1:300 2:480
        > submit 3 m50
        > why 3
        memory runs short, and nothing new starts meanwhile [priority 10, cores asked for 1, slots used 1 of 6, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 50 MiB, memory at most 50 MiB, memory for jobs 1000 MiB, memory free 220 MiB] change: memory that running jobs do not need
        > +0.1 memory free=220 swap=0 1:300 2:480
        3 start primary 1 p10: a home core was free (2 of 6 slots used)
        ",
    );
}

/// A start leaves a suspended job all the room that it needs to return, its margin included.
#[test]
fn a_start_leaves_the_margin_that_a_suspended_job_returns_with() {
    check(
        "
        > machine 8
        > memory free=1000 swap=4000
        > submit 1 m10
        1 start primary 0 p10: a home core was free (1 of 12 slots used)
        > submit 2 m290
        2 start primary 1 p10: a home core was free (2 of 12 slots used)
        > submit 3 m400
        3 start primary 2 p10: a home core was free (3 of 12 slots used)
        > +1 memory free=600 swap=4000 1:10 2:290 3:100
        > +1 memory free=0 swap=4000 1:10 2:290 3:400
        3 freeze: memory runs short: 0 MiB free, growing by 300 MiB a second; job 1 goes first
        > +0.5 memory free=300 swap=4000 1:10 2:290 3:400
        > +0.1 memory free=300 swap=4000 1:10 2:290 3:400
        > submit 4 m300
        > why 4
        job 3 is suspended for lack of memory, and this one would keep it from resuming [priority 10, cores asked for 1, slots used 2 of 12, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 300 MiB, memory at most 300 MiB, memory for jobs 1000 MiB, memory free 300 MiB] change: job 3 must go on first
        > +2 memory free=300 swap=4000 1:10 2:290 3:400
        3 thaw: memory suffices again: 300 MiB free
        4 start primary 3 p10: a home core was free (4 of 12 slots used)
        ",
    );
}
