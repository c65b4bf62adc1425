//! Checkpoints: who writes down what it has done before it is ended for memory.

use crate::script::check;

#[test]
fn who_can_writes_down_what_it_has_done_before_it_is_ended() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=700 swap=0
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 checkpoint
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > +1 memory free=670 swap=0 1:10 2:10
        > +1 memory free=370 swap=0 1:150 2:150
        > +0.5 memory free=220 swap=0 1:250 2:200
        2 freeze: memory runs short: 220 MiB free, growing by 286 MiB a second; job 1 goes first
        > +0.2 memory free=200 swap=0 1:300 2:200
        2 checkpoint: memory will soon be had in no other way (4917 MiB more needed within 30 s, nobody left to freeze, no swap)
        > why 2
        its checkpoint is being written, for memory will soon be had in no other way [priority 10, cores asked for 1, slots used 1 of 4, since its start 2.7 s, times begun anew from a checkpoint 0] change: its checkpoint command's end, in 70 s at most: then it goes back in the queue
        > checkpointed 2
        2 requeue: its checkpoint is written; it goes back in the queue, to go on from there
        > requeued 2
        > why 2
        it waits to be begun anew: it has written down what it had done, and was ended because memory could be had in no other way [priority 10, cores asked for 1, slots used 1 of 4, waited 2.7 s, times put back in the queue 1] change: it is next in 5.0 s, as soon as memory suffices for what it held
        > exit 1
        > +6 memory free=700 swap=0
        2 start primary 0 p10: it is requeued: it has written down what it had done, and was ended because memory could be had in no other way
        ",
    );
}

#[test]
fn who_could_not_write_it_down_stands_still_again() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=700 swap=0
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 checkpoint
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > +1 memory free=670 swap=0 1:10 2:10
        > +1 memory free=370 swap=0 1:150 2:150
        > +0.5 memory free=220 swap=0 1:250 2:200
        2 freeze: memory runs short: 220 MiB free, growing by 286 MiB a second; job 1 goes first
        > +0.2 memory free=200 swap=0 1:300 2:200
        2 checkpoint: memory will soon be had in no other way (4917 MiB more needed within 30 s, nobody left to freeze, no swap)
        > checkpointed 2 exit code 3
        2 freeze: its checkpoint failed (exit code 3), so it is only suspended
        > +0.2 memory free=150 swap=0 1:350 2:200
        > why 2
        memory ran short, and job 1 goes before it [priority 10, cores asked for 1, slots used 1 of 4, since its start 2.9 s, frozen for 0.4 s, memory for jobs 700 MiB, memory free 150 MiB, memory it holds 200 MiB, of it in swap, besides 0 MiB, times frozen for memory 1] change: 453 MiB of memory that running jobs do not need; it returns by itself
        > exit 1
        2 thaw: memory suffices again: 500 MiB free
        > +1 memory free=500 swap=0 2:200
        ",
    );
}

#[test]
fn nobody_writes_who_would_grow_by_more_meanwhile_than_the_others_can_lack() {
    check(
        "
        > machine 2
        > set factor=1000
        > learned 1 300 600
        > memory free=1000 swap=0
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 k1 checkpoint
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=700 swap=0 1:150 2:150
        > +5 memory free=600 swap=0 1:200 2:200
        > +5 memory free=400 swap=0 1:300 2:300
        > +1 memory free=300 swap=0 1:350 2:350
        > +0.5 memory free=215 swap=0 1:380 2:405
        2 freeze: memory runs short: 215 MiB free, growing by 123 MiB a second; job 1 goes first
        > +0.5 memory free=175 swap=0 1:420 2:405
        > +2 memory free=45 swap=0 1:550 2:405
        > +2 memory free=1 swap=0 1:594 2:405
        > +1 memory free=1 swap=0 1:594 2:405
        > exit 1
        2 thaw: memory suffices again: 595 MiB free
        ",
    );
}

#[test]
fn nobody_is_let_go_on_to_write_whom_there_is_no_time_for() {
    check(
        "
        > machine 4
        > set factor=1000
        > memory free=700 swap=0
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 checkpoint
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > +1 memory free=670 swap=0 1:10 2:10
        > +1 memory free=370 swap=0 1:150 2:150
        > +0.5 memory free=10 swap=0 1:490 2:200
        2 freeze: memory runs short: 10 MiB free, growing by 446 MiB a second; job 1 goes first
        > +0.1 memory free=10 swap=0 1:490 2:200
        > +0.1 memory free=10 swap=0 1:490 2:200
        2 checkpoint: memory will soon be had in no other way (8460 MiB more needed within 30 s, nobody left to freeze, no swap)
        > +3 memory free=10 swap=0 1:490 2:200
        > exit 1
        2 thaw: memory suffices again: 500 MiB free
        ",
    );
}

#[test]
fn who_writes_goes_on_while_nothing_else_can_make_room() {
    check(
        "
        > machine 2
        > set factor=1000 budget=1000
        > learned 1 600 700
        > memory free=1000 swap=0
        > submit 1 k1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 checkpoint
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=700 swap=0 1:150 2:150
        > set factor=1000 budget=500
        > +1 memory free=650 swap=0 1:175 2:175
        2 freeze: memory runs short: 150 MiB free, growing by 50 MiB a second; job 1 goes first
        > +0.2 memory free=640 swap=0 1:180 2:180
        2 checkpoint: memory will soon be had in no other way (280 MiB more needed within 30 s, nobody left to freeze, no swap)
        > +3 memory free=500 swap=0 1:260 2:240
        > +1 memory free=450 swap=0 1:300 2:250
        > checkpointed 2
        2 requeue: its checkpoint is written; it goes back in the queue, to go on from there
        > requeued 2
        ",
    );
}
