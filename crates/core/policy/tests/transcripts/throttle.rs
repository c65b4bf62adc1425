//! Memory: the growth of one job is slowed before any is frozen, and when it ends.

use crate::script::check;

/// Two jobs of which nothing is known grow; there is room for two seconds, but not for more.
const TWO_GROW: &str = "
        > machine 2
        > set factor=1000 steers=on
        > memory free=1000 swap=2000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=960 swap=2000 1:20 2:20
        1 protect 32: it goes first for memory
        > +1 memory free=760 swap=2000 1:120 2:120
        1 protect 128: it goes first for memory
        > +1 memory free=560 swap=2000 1:220 2:220
        1 protect 256: it goes first for memory
        > +1 memory free=360 swap=2000 1:320 2:320
        2 slow after 60: memory would run short in two seconds: 360 MiB free, and it grows by 100 MiB a second; job 1 goes first
        1 protect 512: it goes first for memory
";

#[test]
fn the_youngest_that_grows_is_slowed_before_anybody_stands_still() {
    check(&format!(
        "{TWO_GROW}
        > why 2
        it runs, but grows only as fast as its pages can be moved out: memory is getting short, and job 1 goes first [priority 10, cores asked for 1, slots used 2 of 2, since its start 4.0 s, PUs 1, memory for jobs 1000 MiB, memory free 360 MiB, memory it holds 320 MiB, throttled for 0.0 s] change: memory that the others do not need; 10 s after it was throttled it goes on or is suspended
        > +1 memory free=200 swap=2000 1:400 2:400
        > exit 1
        2 let grow: it goes first for memory now
        2 protect 512: it goes first for memory
        "
    ));
}

#[test]
fn who_is_slowed_grows_again_when_there_is_room_and_when_it_stands_still() {
    check(&format!(
        "{TWO_GROW}
        > +1 memory free=355 swap=2000 1:320 2:325
        > +1 memory free=350 swap=2000 1:220 2:330
        > +1 memory free=450 swap=2000 1:120 2:330
        2 let grow: memory suffices for its growth again
        "
    ));
    check(&format!(
        "{TWO_GROW}
        > suspend 2
        2 let grow: it stays suspended instead
        2 freeze: a user or operator asked for it
        "
    ));
    check(&format!(
        "{TWO_GROW}
        > set governor=off
        2 let grow: memory is not governed any more
        1 protect 0: another job goes first for memory
        "
    ));
}

/// All that runs stalls, for it reads back what the kernel moved out while it was slowed; memory is not short for that.
#[test]
fn who_was_slowed_finds_its_pages_in_swap_as_one_that_returns_does() {
    check(&format!(
        "{TWO_GROW}
        > +1 memory free=350 swap=1900 1:320 2:330+100
        > exit 1
        2 let grow: it goes first for memory now
        2 protect 512: it goes first for memory
        > +0.5 memory free=600 swap=1900 2:330+100 stalled=900
        > submit 3
        3 start primary 0 p10: a home core was free (2 of 2 slots used)
        "
    ));
}

/// One that grows by 10 MiB a second is slowed with 18 MiB left, which leaves 10 MiB when it comes to its bound.
const ONE_GROWS: &str = "
        > machine 2
        > set factor=1000 steers=on
        > memory free=128 swap=512
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=58 swap=512 2:70
        > +1 memory free=48 swap=512 2:80
        > +1 memory free=38 swap=512 2:90
        > +1 memory free=28 swap=512 2:100
        > +1 memory free=18 swap=512 2:110
        2 slow after 8: memory would run short in two seconds: 18 MiB free, and it grows by 10 MiB a second; job 1 goes first
        > +0.9 memory free=10 swap=512 2:118
";

#[test]
fn who_is_held_at_its_bound_does_not_stand_still_for_what_it_would_grow_by() {
    // What it gets beyond its bound it gives from its own; after ten seconds there is no room for its growth still.
    check(&format!(
        "{ONE_GROWS}
        > +1 memory free=10 swap=510 2:118+2
        > +1 memory free=10 swap=508 2:118+4
        > +5 memory free=10 swap=506 2:118+6
        > submit 3
        > +2 memory free=10 swap=506 2:118+6
        > +0.2 memory free=10 swap=506 2:118+6
        2 let grow: it stays suspended instead
        2 freeze: memory runs short: 10 MiB free, growing by 10 MiB a second; job 1 goes first
        "
    ));
    // It is let go where there is room again.
    check(&format!(
        "{ONE_GROWS}
        > +1 memory free=10 swap=510 2:118+2
        > +1 memory free=70 swap=510 2:58+2
        2 let grow: memory suffices for its growth again
        "
    ));
}

#[test]
fn who_is_held_at_its_bound_stands_still_when_that_is_not_enough() {
    // Another grows.
    check(&format!(
        "{ONE_GROWS}
        > +1 memory free=10 swap=510 1:0 2:118+2
        > +1 memory free=4 swap=508 1:6 2:118+4
        2 let grow: it stays suspended instead
        1 protect 8: it goes first for memory
        2 freeze: memory runs short: 4 MiB free, growing by 16 MiB a second; job 1 goes first
        "
    ));
    // The kernel does not hold it.
    check(&format!(
        "{ONE_GROWS}
        > +0.5 memory free=5 swap=512 2:123
        2 let grow: it stays suspended instead
        2 freeze: memory runs short: 5 MiB free, growing by 10 MiB a second; job 1 goes first
        "
    ));
    // All stall.
    check(&format!(
        "{ONE_GROWS}
        > +1 memory free=10 swap=510 stalled=900 2:118+2
        > +1 memory free=10 swap=508 stalled=900 2:118+4
        2 let grow: it stays suspended instead
        2 freeze: memory runs short: 10 MiB free, growing by 10 MiB a second; job 1 goes first
        "
    ));
}

#[test]
fn what_the_kernel_does_not_do_is_asked_for_again_or_left() {
    check(&format!(
        "{TWO_GROW}
        > fail 2 slow 160
        > +0.6 memory free=180 swap=2000 1:410 2:410
        2 freeze: memory runs short: 180 MiB free, growing by 237 MiB a second; job 1 goes first
        "
    ));
    check(&format!(
        "{TWO_GROW}
        > suspend 2
        2 let grow: it stays suspended instead
        2 freeze: a user or operator asked for it
        > fail 2 grow
        > +0.5
        > +0.6
        2 let grow: it stays suspended instead
        "
    ));
}

#[test]
fn nobody_is_slowed_whose_pages_have_nowhere_to_go() {
    check(
        "
        > machine 2
        > set factor=1000 steers=on
        > memory free=1000 swap=0
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=960 swap=0 1:20 2:20
        1 protect 32: it goes first for memory
        > +1 memory free=760 swap=0 1:120 2:120
        1 protect 128: it goes first for memory
        > +1 memory free=560 swap=0 1:220 2:220
        1 protect 256: it goes first for memory
        > +1 memory free=360 swap=0 1:320 2:320
        1 protect 512: it goes first for memory
        > +0.9 memory free=180 swap=0 1:410 2:410
        2 freeze: memory runs short: 180 MiB free, growing by 200 MiB a second; job 1 goes first
        ",
    );
    // Its page cache is somewhere to begin with, makes room for as much within the bound, and is used up.
    check(
        "
        > machine 2
        > set factor=1000 steers=on
        > memory free=1000 swap=0
        > submit 1 m300
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        1 protect 512: it goes first for memory
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > +1 memory free=680 swap=0 1:300 2:20+0+90
        > +1 memory free=530 swap=0 1:300 2:170+0+90
        > +1 memory free=380 swap=0 1:300 2:320+0+90
        > +1 memory free=230 swap=0 1:300 2:470+0+90
        2 slow after 0: memory would run short in two seconds: 230 MiB free, and it grows by 150 MiB a second; job 1 goes first
        > +1 memory free=200 swap=0 1:300 2:500+0+2
        2 let grow: a throttle is of no use: neither swap nor page cache is left to take its pages
        "
    );
}
