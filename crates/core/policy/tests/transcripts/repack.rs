//! Jobs that make room for a wider one.

use crate::script::check;

#[test]
fn the_smaller_one_makes_room_for_a_wide_one() {
    check(
        "
        > machine pack:2,numa:1,core:2,pu:1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > submit 4
        4 start primary 3 p10: a home core was free (4 of 6 slots used)
        > exit 2
        > exit 4
        > memory free=4000 swap=0 1:100 3:50
        > submit 5 c2
        3 bind 1: it made room, so that job 5 has its cores at one NUMA node (50 MiB change nodes)
        5 start primary 2-3 p10: a home core was free (4 of 6 slots used)
        ",
    );
}

#[test]
fn nobody_moves_more_memory_than_it_is_worth() {
    check(
        "
        > machine pack:2,numa:1,core:2,pu:1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > submit 4
        4 start primary 3 p10: a home core was free (4 of 6 slots used)
        > exit 2
        > exit 4
        > memory free=4000 swap=0 1:900 3:800
        > submit 5 c2
        5 start primary 1,3 p10: a home core was free (4 of 6 slots used)
        > exit 5
        > submit 6 c2 e100
        3 bind 1: it made room, so that job 6 has its cores at one NUMA node (800 MiB change nodes)
        6 start primary 2-3 p10: a home core was free (4 of 6 slots used)
        ",
    );
}

#[test]
fn nobody_makes_room_twice_in_a_minute() {
    check(
        "
        > machine pack:3,numa:1,core:2,pu:1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 9 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 9 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 9 slots used)
        > submit 4
        4 start primary 3 p10: a home core was free (4 of 9 slots used)
        > submit 5
        5 start primary 4 p10: a home core was free (5 of 9 slots used)
        > submit 6
        6 start primary 5 p10: a home core was free (6 of 9 slots used)
        > exit 2
        > exit 4
        > submit 7 c2
        1 bind 3: it made room, so that job 7 has its cores at one NUMA node
        7 start primary 0-1 p10: a home core was free (6 of 9 slots used)
        > exit 6
        > exit 7
        > submit 8
        8 start primary 5 p10: a home core was free (4 of 9 slots used)
        > submit 9
        9 start primary 0 p10: a home core was free (5 of 9 slots used)
        > exit 8
        > submit 10 c2
        9 bind 5: it made room, so that job 10 has its cores at one NUMA node
        10 start primary 0-1 p10: a home core was free (6 of 9 slots used)
        > exit 3
        > exit 5
        > submit 11 c2
        11 start primary 2,4 p10: a home core was free (6 of 9 slots used)
        > +61 exit 11
        > submit 12 c2
        1 bind 4: it made room, so that job 12 has its cores at one NUMA node
        12 start primary 2-3 p10: a home core was free (6 of 9 slots used)
        ",
    );
}
