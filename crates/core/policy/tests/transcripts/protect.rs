//! How many backfillers there are where primaries are protected: as many as what is left has room for.

use crate::script::check;

#[test]
fn backfillers_come_one_by_one_and_go_at_once() {
    check(
        "
        > machine 4
        > set factor=2000 protect=200
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > submit 4
        4 start primary 3 p10: a home core was free (4 of 4 slots used)
        > submit 5
        > submit 6
        > why 5
        it is next, and all 4 slots are taken [priority 10, cores asked for 1, slots used 4 of 4, waited 0.0 s, backfillers allowed 0 of 4: not known how many cores are idle, 0.8 of that are kept free (`cpu.protect`), position in the queue 1, goes first in 600 s] change: a slot: job 4 or any of 3 others must end, `pinfold set 5 --priority 11`, or `pinfold suspend 4`
        > +1 idle 600 600 600 600
        > +1 idle 600 600 600 600
        > +1 idle 600 600 600 600
        5 start backfill 0 p10: no home core was free but a slot was (5 of 5 slots used)
        > +1 idle 100 600 600 600 +500
        > +1 idle 100 600 600 600 +500
        5 bind 1: another core was idler by 50.0%
        6 start backfill 0 p10: no home core was free but a slot was (6 of 6 slots used)
        > why 6
        it is a backfiller, for no home core is free: it runs in the cycles that primaries leave [priority 10, cores asked for 1, slots used 6 of 6, since its start 0.0 s, PUs 0, backfillers before it 1] change: a home core: job 4 or any of 3 others must end
        > +1 idle 900 900 900 900 +500
        > +1 idle 900 900 900 900 +500
        > +1 idle 0 0 0 0 +300
        > +1 idle 0 0 0 0
        6 freeze: primaries are protected, and leave room for 1 backfillers
        > +1 idle 0 0 0 0
        > why 6
        primaries are protected, and what they leave of the cores has no room for it; it returns when it can, but it is next, and all 5 slots are taken [priority 10, cores asked for 1, slots used 5 of 5, since its start 5.0 s, frozen for 1.0 s, backfillers allowed 1 of 4: 1.8 cores are idle, 0.8 of that are kept free (`cpu.protect`), position in the queue 1, goes first in 599 s] change: a slot: job 5 or any of 4 others must end, `pinfold set 6 --priority 11`, or `pinfold suspend 5`
        > +1 idle 0 0 0 0
        > +1 idle 0 0 0 0
        5 freeze: primaries are protected, and leave room for 0 backfillers
        > set protect=0
        5 bind 0: a slot is free again
        5 thaw: a slot is free again
        6 bind 1: a slot is free again
        6 thaw: a slot is free again
        ",
    );
}

#[test]
fn protection_set_while_jobs_run_holds_at_once() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > +1 idle 0 100 +100
        > set protect=1000
        3 freeze: primaries are protected, and leave room for 0 backfillers
        > why 3
        primaries are protected, and what they leave of the cores has no room for it; it returns when it can, but it is next, and all 2 slots are taken [priority 10, cores asked for 1, slots used 2 of 2, since its start 1.0 s, frozen for 0.0 s, backfillers allowed 0 of 1: 0.2 cores are idle, 2.0 of that are kept free (`cpu.protect`), position in the queue 1, goes first in 600 s] change: a slot: job 2 or job 1 must end, `pinfold set 3 --priority 11`, or `pinfold suspend 2`
        > set protect=0
        3 bind 1: a slot is free again
        3 thaw: a slot is free again
        ",
    );
}
