//! Cores that processes which are no jobs use are handed out less.

use crate::script::check;

#[test]
fn who_runs_goes_on_and_fewer_start() {
    check(
        "
        > machine 4
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > others 2000
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3
        > why 3
        it is next, and 2 of 4 slots are free, and 2 of these are not handed out, as 2 cores are used by processes that are no jobs [priority 10, cores asked for 1, slots used 2 of 4, waited 0.0 s, slots left to other processes 2: other processes use 2.0 cores (`host.other_load`), position in the queue 1, goes first in 600 s] change: a slot: job 2 or job 1 must end, or the load of other processes must fall, `pinfold set 3 --priority 11`, or `pinfold suspend 2`
        > others off
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        ",
    );
}

/// However busy the host is, half of its slots are handed out.
#[test]
fn never_below_half_of_the_slots() {
    check(
        "
        > machine 3
        > set factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > others 9000
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        > others 1000
        > exit 1
        3 start primary 0 p10: a home core was free (2 of 3 slots used)
        ",
    );
}

/// However busy the host is, one job runs, and a wide one in its turn.
#[test]
fn never_below_one_slot() {
    check(
        "
        > machine 2
        > set factor=1000
        > others 9000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2 c2
        > submit 3
        > exit 1
        2 start primary 0-1 p10: a home core was free (2 of 2 slots used)
        > exit 2
        3 start primary 0 p10: a home core was free (1 of 2 slots used)
        > suspend 3
        3 freeze: a user or operator asked for it
        > resume 3
        3 thaw: a user or operator asked for it
        ",
    );
}

/// Nobody is frozen for others' load; a job of higher priority takes a lower one's slot as on a full host, and no more.
#[test]
fn preemption_takes_slot_for_slot() {
    check(
        "
        > machine 2
        > set factor=1000 preemption=hard
        > submit 1 p5
        1 start primary 0 p5: a home core was free (1 of 2 slots used)
        > submit 2 p6
        2 start primary 1 p6: a home core was free (2 of 2 slots used)
        > others 1000
        > submit 3 p9
        1 freeze: job 3 of priority 9 took its place
        3 start primary 0 p9: a home core was free (2 of 2 slots used)
        > exit 3
        ",
    );
}
