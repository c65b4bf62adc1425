//! Who lies close together and who apart.

use crate::script::check;

/// As asked, or as the settings say; two that lie apart do not meet behind a cache while there is another.
#[test]
fn who_says_how_lies_so() {
    check(
        "
        > machine pack:1,numa:1,l3:4,core:2,pu:1
        > submit 1 c2
        1 start primary 0-1 p10: a home core was free (2 of 12 slots used)
        > submit 2 c2 yapart
        2 start primary 2,4 p10: a home core was free (4 of 12 slots used)
        > why 2
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 2, slots used 4 of 12, its cores lie apart on 2 L3s: as asked (--place), since its start 0.0 s, PUs 2,4] change: its end, or `pinfold suspend 2`
        > submit 3 c1 yapart
        3 start primary 6 p10: a home core was free (5 of 12 slots used)
        > exit 1
        > submit 4 c2 yapart
        4 start primary 0,3 p10: a home core was free (5 of 12 slots used)
        > set place=apart
        > exit 2
        > submit 5 c2
        5 start primary 1,4 p10: a home core was free (5 of 12 slots used)
        > why 5
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 2, slots used 5 of 12, its cores lie apart on 2 L3s: as `cpu.place` says, since its start 0.0 s, PUs 1,4] change: its end, or `pinfold suspend 5`
        > submit 6 c2 yclose
        6 start primary 2,5 p10: a home core was free (7 of 12 slots used)
        ",
    );
}

/// Five close together, then every other one apart until that is decided.
#[test]
fn a_kind_that_runs_faster_apart_is_laid_apart() {
    check(
        "
        > machine pack:1,numa:1,l3:2,core:2,pu:1
        > submit 1 c2 k7
        1 start primary 0-1 p10: a home core was free (2 of 6 slots used)
        > why 1
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 2, slots used 2 of 6, its cores lie close together on 1 L3: nothing like it ran yet, since its start 0.0 s, PUs 0-1] change: its end, or `pinfold suspend 1`
        > ran 7 close 10000
        > ran 7 close 10010
        > ran 7 close 9990
        > ran 7 close 10020
        > exit 1
        > submit 2 c2 k7
        2 start primary 0-1 p10: a home core was free (2 of 6 slots used)
        > why 2
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 2, slots used 2 of 6, its cores lie close together on 1 L3: 4 runs of 5 close together before it is tried apart, since its start 0.0 s, PUs 0-1] change: its end, or `pinfold suspend 2`
        > ran 7 close 9980
        > exit 2
        > submit 3 c2 k7
        3 start primary 0,2 p10: a home core was free (2 of 6 slots used)
        > exit 3
        > submit 4 c2 k7
        4 start primary 0-1 p10: a home core was free (2 of 6 slots used)
        > ran 7 apart 9000
        > ran 7 apart 9010
        > ran 7 apart 8990
        > ran 7 apart 9000
        > exit 4
        > submit 5 c2 k7
        5 start primary 0,2 p10: a home core was free (2 of 6 slots used)
        > why 5
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 2, slots used 2 of 6, its cores lie apart on 2 L3s: both are tried (5 close together, 4 apart), since its start 0.0 s, PUs 0,2] change: its end, or `pinfold suspend 5`
        > ran 7 apart 9005
        > exit 5
        > submit 6 c2 k7
        6 start primary 0,2 p10: a home core was free (2 of 6 slots used)
        > why 6
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 2, slots used 2 of 6, its cores lie apart on 2 L3s: apart, its class is 10.0 % [9.8, 10.2] faster (5 close together, 5 apart); tried again in 200 runs, since its start 0.0 s, PUs 0,2] change: its end, or `pinfold suspend 6`
        > submit 7 c2 k8
        7 start primary 1,3 p10: a home core was free (4 of 6 slots used)
        ",
    );
}

/// Who says more of its cores than a number, or is in a set, is not tried; nor is anybody where nothing can be chosen.
#[test]
fn who_cannot_lie_otherwise_is_not_tried() {
    check(
        "
        > machine 4
        > ran 7 close 10000
        > ran 7 close 10000
        > ran 7 close 10000
        > ran 7 close 10000
        > ran 7 close 10000
        > submit 1 c2 k7
        1 start primary 0-1 p10: a home core was free (2 of 6 slots used)
        > submit 2 c2 k7
        2 start primary 2-3 p10: a home core was free (4 of 6 slots used)
        > why 2
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 2, slots used 4 of 6, since its start 0.0 s, PUs 2-3] change: its end, or `pinfold suspend 2`
        > machine pack:1,numa:1,l3:2,core:2,pu:1
        > exit 1
        > exit 2
        > submit 3 c2 k7 w0-1
        3 start primary 0-1 p10: a home core was free (2 of 6 slots used)
        > submit 4 c2 k7 backfill
        4 start backfill 2-3 p10: it asked to be a backfiller and a slot was free (4 of 6 slots used)
        ",
    );
}
