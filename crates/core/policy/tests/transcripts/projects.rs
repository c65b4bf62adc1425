//! Cores and memory that are a project's own: lent while it does not want them, taken back when it does, from those
//! who borrowed them.

use crate::script::check;

#[test]
fn what_is_lent_comes_back_at_once() {
    check(
        "
        > machine 2
        > set projects=web:1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3 jweb p1
        2 weigh backfill p10: it was lent, and project web takes it back for job 3
        2 bind 0: it was lent, and project web takes it back for job 3
        3 start primary 1 p1: jobs of project web have 1 of the 1 cores that are theirs
        > why 3
        it is a primary: it has home cores that no other primary has [priority 1, cores asked for 1, slots used 3 of 3, project web, cores of its own 1, 1 used, since its start 0.0 s, PUs 1] change: its end, or `pinfold suspend 3`
        > why 2
        it is a backfiller, for no home core is free: it runs in the cycles that primaries leave [priority 10, cores asked for 1, slots used 3 of 3, project none, cores of its own 1, 1 used, since its start 0.0 s, PUs 0, backfillers before it 0] change: a home core: job 3 or job 1 must end
        > exit 3
        2 weigh primary p10: job 3 ended and left its home core to the oldest backfiller
        2 bind 1: job 3 ended and left its home core to the oldest backfiller
        ",
    );
}

#[test]
fn within_its_own_nobody_pays() {
    check(
        "
        > machine 2
        > set projects=web:1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 jweb p1
        2 start primary 1 p1: a home core was free (2 of 3 slots used)
        > submit 3 p16
        1 weigh backfill p10: job 3 of priority 16 took its place
        3 start primary 0 p16: a home core was free (3 of 3 slots used)
        > submit 4 jweb p16
        2 freeze: job 4 of priority 16 took its place
        4 start primary 1 p16: a home core was free (3 of 3 slots used)
        > why 4
        it is a primary: it has home cores that no other primary has [priority 16, cores asked for 1, slots used 3 of 3, project web, cores of its own 1, 1 used, since its start 0.0 s, PUs 1] change: its end, or `pinfold suspend 4`
        > exit 2
        > exit 1
        ",
    );
}

#[test]
fn without_a_slot_left_a_borrower_stands_still() {
    check(
        "
        > machine 3
        > set projects=web:2 factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 nosuspend
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start primary 2 p10: a home core was free (3 of 3 slots used)
        > submit 4 jweb
        3 freeze: it was lent, and project web takes it back for job 4
        4 start primary 2 p10: jobs of project web have 1 of the 2 cores that are theirs
        > why 3
        its slot was lent to it, and was reclaimed for job 4; it returns when it can, but it is next, and all 3 slots are taken [priority 10, cores asked for 1, slots used 3 of 3, project none, cores of its own 1, 2 used, 1 of them borrowed, since its start 0.0 s, frozen for 0.0 s, position in the queue 1, goes first in 600 s] change: a slot: job 4 or any of 2 others must end, `pinfold set 3 --priority 11`, or `pinfold suspend 4`
        > submit 5 jweb
        1 freeze: it was lent, and project web takes it back for job 5
        5 start primary 0 p10: jobs of project web have 2 of the 2 cores that are theirs
        > why 5
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 3 of 3, project web, cores of its own 2, 2 used, since its start 0.0 s, PUs 0] change: its end, or `pinfold suspend 5`
        > exit 4
        1 bind 2: a slot is free again
        1 thaw: a slot is free again
        > exit 5
        3 bind 0: a slot is free again
        3 thaw: a slot is free again
        ",
    );
}

#[test]
fn a_wide_job_takes_from_several() {
    check(
        "
        > machine 4
        > set projects=web:3,lab:1 factor=1000
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 jlab
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 jlab p12
        3 start primary 2 p12: a home core was free (3 of 4 slots used)
        > submit 4 p14
        4 start primary 3 p14: a home core was free (4 of 4 slots used)
        > submit 5 jweb c3
        2 freeze: it was lent, and project web takes it back for job 5
        1 freeze: it was lent, and project web takes it back for job 5
        4 freeze: it was lent, and project web takes it back for job 5
        5 start primary 0-1,3 p10: jobs of project web have 3 of the 3 cores that are theirs
        > exit 5
        4 thaw: a slot is free again
        1 thaw: a slot is free again
        2 thaw: a slot is free again
        ",
    );
}

#[test]
fn an_exclusive_job_gives_way_to_a_project_and_waits_for_it() {
    check(
        "
        > machine 2
        > set projects=web:1
        > submit 1 exclusive
        1 start exclusive 0-1 p10: the exclusive job 1 takes every slot
        > submit 2
        > submit 3 jweb
        1 freeze: it was lent, and project web takes it back for job 3
        3 start primary 0 p10: jobs of project web have 1 of the 1 cores that are theirs
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > why 1
        its slot was lent to it, and was reclaimed for job 3; it returns when it can, but it is next, and jobs that may not be frozen for an exclusive job still run [priority 10, cores asked for 1, slots used 2 of 3, project none, cores of its own 1, 1 used, since its start 0.0 s, frozen for 0.0 s, position in the queue 1, goes first in 600 s, passed over by 1 of at most 8] change: jobs 3 and 2 must end
        > exit 2
        > exit 3
        1 thaw: a slot is free again
        ",
    );
}

#[test]
fn a_longer_job_of_the_project_is_not_passed_for_ever() {
    check(
        "
        > machine 2
        > set projects=web:2 factor=1000
        > submit 1 jweb
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3 jweb c2
        > why 3
        it is next, and all 2 slots are taken [priority 10, cores asked for 2, slots used 2 of 2, project web, cores of its own 2, 1 used, waited 0.0 s, position in the queue 1, goes first in 600 s] change: 2 more slots: enough of jobs 2 and 1 must end
        > exit 1
        2 freeze: it was lent, and project web takes it back for job 3
        3 start primary 0-1 p10: jobs of project web have 2 of the 2 cores that are theirs
        ",
    );
}

#[test]
fn a_host_that_shrinks_leaves_each_its_part() {
    check(
        "
        > machine 4
        > set projects=web:2,lab:2 factor=1000
        > submit 1 jweb
        1 start primary 0 p10: a home core was free (1 of 4 slots used)
        > submit 2 jweb
        2 start primary 1 p10: a home core was free (2 of 4 slots used)
        > submit 3 jlab
        3 start primary 2 p10: a home core was free (3 of 4 slots used)
        > submit 4 jlab
        4 start primary 3 p10: a home core was free (4 of 4 slots used)
        > machine 0,1
        4 freeze: only 2 slots are left
        2 freeze: only 2 slots are left
        3 bind 1: the PUs it was bound to are gone or no longer allowed
        > machine 4
        4 thaw: a slot is free again
        2 bind 2: a slot is free again
        2 thaw: a slot is free again
        ",
    );
}

#[test]
fn projects_come_while_jobs_run() {
    check(
        "
        > machine 2
        > set factor=1000
        > submit 1 jweb
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 2 slots used)
        > submit 3
        > submit 4 jweb
        > set projects=web:2
        2 freeze: it was lent, and project web takes it back for job 4
        4 start primary 1 p10: jobs of project web have 2 of the 2 cores that are theirs
        > set projects=
        ",
    );
}

#[test]
fn memory_is_lent_as_far_as_swap_takes_it_back() {
    check(
        "
        > machine 4
        > set projects=web::600
        > submit 1 m100
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > memory free=900 swap=0 1:100
        > submit 2 m400
        > why 2
        it is expected to need 400 MiB of memory and 300 MiB are left for it [priority 10, cores asked for 1, slots used 1 of 6, project none, cores of its own 4, 1 used, memory of its own 400 MiB, 100 MiB used, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 400 MiB, memory at most 400 MiB, memory for jobs 1000 MiB, memory free 900 MiB, memory kept for other projects 600 MiB, memory counted for other jobs 100 MiB] change: job 1 must end or need less
        > submit 3 m500 jweb
        3 start primary 1 p10: a home core was free (2 of 6 slots used)
        > exit 3
        > memory free=900 swap=1000 1:100
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        ",
    );
}

#[test]
fn memory_that_was_lent_is_paged_out_for_its_project() {
    check(
        "
        > machine 4
        > set projects=web::600
        > submit 1 m100
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > memory free=900 swap=1000 1:100
        > submit 2 m700
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > memory free=200 swap=1000 1:100 2:700
        > submit 3 m500 jweb
        2 freeze: memory was lent to it, and project web takes 300 MiB back for job 3
        > why 2
        memory was lent to it, and a project wants it back [priority 10, cores asked for 1, slots used 1 of 6, project none, cores of its own 4, 1 used, memory of its own 400 MiB, 800 MiB used, 400 MiB of it borrowed, since its start 0.0 s, frozen for 0.0 s, memory for jobs 1000 MiB, memory free 200 MiB, memory it holds 700 MiB, of it in swap, besides 0 MiB, times frozen for memory 1] change: 700 MiB of memory that running jobs do not need; it returns by itself
        > why 3
        it is expected to need 500 MiB of memory, 200 MiB are left for it, and others borrowed what is its project's own [priority 10, cores asked for 1, slots used 1 of 6, project web, memory of its own 600 MiB, 0 MiB used, waited 0.0 s, position in the queue 1, goes first in 600 s, memory expected 500 MiB, memory at most 500 MiB, memory for jobs 1000 MiB, memory free 200 MiB, memory counted for other jobs 800 MiB] change: what they borrowed is moved to swap
        > +0.1 memory free=200 swap=1000 1:100 2:700
        2 page out 79: the running jobs need 520 MiB and 200 MiB are free
        > +1.0 memory free=300 swap=900 1:100 2:600+100
        2 page out 79: the running jobs need 520 MiB and 300 MiB are free
        > +1.0 memory free=400 swap=800 1:100 2:500+200
        2 page out 79: the running jobs need 520 MiB and 400 MiB are free
        > +1.0 memory free=550 swap=650 1:100 2:350+350
        3 start primary 1 p10: a home core was free (2 of 6 slots used)
        > +1.0 memory free=350 swap=650 1:100 2:350+350 3:200
        > exit 3
        2 thaw: memory suffices again: 550 MiB free, 350 MiB to come back from swap
        > +1.0 memory free=550 swap=650 1:100 2:350+350
        > +9.0 memory free=550 swap=650 1:100 2:350+350
        ",
    );
}

/// By its size class it would be passed over: that goes up to 512 MiB.
#[test]
fn a_job_starts_on_memory_of_its_own_past_one_that_does_not_fit() {
    check(
        "
        > machine 4
        > set projects=web::600
        > submit 1 m100
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > memory free=900 swap=1000 1:100
        > submit 2 m395
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > memory free=505 swap=1000 1:100 2:395
        > submit 3 m700
        > submit 4 m500 jweb
        4 start primary 2 p10: a home core was free (3 of 6 slots used)
        ",
    );
}

#[test]
fn who_is_expected_to_come_to_more_than_its_own_gives_way_before_it_does() {
    check(
        "
        > machine 4
        > set projects=web::600
        > submit 1 m100
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > memory free=900 swap=1000 1:100
        > submit 2 m700
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > memory free=800 swap=1000 1:100 2:100
        > submit 3 m500 jweb
        2 freeze: memory was lent to it, and project web takes 300 MiB back for job 3
        3 start primary 1 p10: a home core was free (2 of 6 slots used)
        > +1.0 memory free=400 swap=1000 1:100 2:100 3:400
        > +9.0 memory free=400 swap=1000 1:100 2:100 3:400
        > why 2
        memory ran short, and job 1 goes before it [priority 10, cores asked for 1, slots used 2 of 6, project none, cores of its own 4, 1 used, memory of its own 400 MiB, 200 MiB used, since its start 10.0 s, frozen for 10.0 s, memory for jobs 1000 MiB, memory free 400 MiB, memory it holds 100 MiB, of it in swap, besides 0 MiB, times frozen for memory 1] change: 700 MiB of memory that running jobs do not need; it returns by itself
        > exit 3
        2 thaw: memory suffices again: 800 MiB free
        > +9.0 memory free=800 swap=1000 1:100 2:100
        ",
    );
}

#[test]
fn when_memory_runs_short_borrowers_stand_still_first() {
    check(
        "
        > machine 4
        > set projects=web::600
        > submit 1 m100
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > memory free=900 swap=1000 1:100
        > submit 2 m300
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 jweb m100
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > memory free=400 swap=1000 1:100 2:400 3:100
        > +1.0 memory free=200 swap=1000 1:100 2:600 3:100
        > +1.0 memory free=50 swap=1000 1:100 2:650 3:200
        2 freeze: memory runs short: 50 MiB free, growing by 225 MiB a second; job 1 goes first
        ",
    );
}

#[test]
fn one_of_the_same_project_that_stands_still_goes_first() {
    check(
        "
        > machine 4
        > set projects=web::600
        > submit 1 m100
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > memory free=900 swap=2000 1:100
        > submit 2 m100
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 jweb m100
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > memory free=500 swap=2000 1:100 2:250 3:150
        > +1.0 memory free=0 swap=1500 1:100 2:500 3:300+450
        3 freeze: memory runs short: 0 MiB free, growing by 850 MiB a second; job 1 goes first
        2 freeze: memory runs short: 0 MiB free, growing by 250 MiB a second; job 1 goes first
        > +0.3 memory free=0 swap=1350 1:100 2:650 3:150+600
        3 page out 18: the running jobs need 18 MiB and 0 MiB are free
        > +0.1 memory free=100 swap=1250 1:100 2:550+100 3:150+600
        > submit 4 jweb
        > why 4
        job 3 is suspended for lack of memory, and this one would keep it from resuming [priority 10, cores asked for 1, slots used 1 of 6, project web, memory of its own 600 MiB, 750 MiB used, 150 MiB of it borrowed, waited 0.0 s, position in the queue 1, goes first in 600 s, memory for jobs 900 MiB, memory free 100 MiB] change: job 3 must go on first
        ",
    );
}

/// What is suspended for it is in its way, as the others are expected to come to hold more than they do.
#[test]
fn what_was_lent_is_paged_out_for_who_is_held_against_expected_needs() {
    check(
        "
        > machine 6
        > set factor=1000 projects=web::300
        > learned 1 73 100
        > memory free=374 swap=1500
        > submit 1 k1 jweb
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 k1 jweb
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 k1 jweb
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > submit 4 k1
        4 start primary 3 p10: a home core was free (4 of 6 slots used)
        > submit 5 k1
        5 start primary 4 p10: a home core was free (5 of 6 slots used)
        > +1 memory free=319 swap=1500 1:11 2:11 3:11 4:11 5:11
        > submit 6 k1 jweb
        5 freeze: memory was lent to it, and project web takes 64 MiB back for job 6
        > +0.1 memory free=319 swap=1500 1:11 2:11 3:11 4:11 5:11
        5 page out 4: the running jobs need 323 MiB and 319 MiB are free
        > +1 memory free=329 swap=1490 1:11 2:11 3:11 4:11 5:1+10
        6 start primary 4 p10: a home core was free (5 of 6 slots used)
        > +1 memory free=329 swap=1490 1:11 2:11 3:11 4:11 5:1+10 6:0
        ",
    );
}

/// It does not fit itself, and with what it needs those without a project would have more than is theirs.
#[test]
fn nobody_waits_on_memory_of_its_own_for_who_could_only_borrow_it() {
    check(
        "
        > machine 4
        > set projects=web::600
        > submit 1 m100 jweb
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 m365
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > memory free=880 swap=2000 1:60 2:60
        > submit 3 m500
        3 start primary 2 p10: a home core was free (3 of 6 slots used)
        > memory free=860 swap=2000 1:60 2:60 3:20
        > suspend 3
        3 freeze: a user or operator asked for it
        > resume 3
        > submit 4 m500 jweb
        > +1 memory free=860 swap=2000 1:60 2:60 3:20
        4 start primary 2 p10: a home core was free (3 of 6 slots used)
        ",
    );
}
