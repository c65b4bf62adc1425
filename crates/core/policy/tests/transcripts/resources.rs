//! Countable resources: jobs wait for them, hold them until their end, and are not starved of them.

use crate::script::check;

#[test]
fn a_job_waits_for_what_another_has() {
    check(
        "
        > machine 4
        > set resources=gpu:2,licence:1
        > submit 1 rgpu:1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 rgpu:2,licence:1
        > why 2
        it asks for 2 of the resource gpu, of which 1 of 2 are free; job 1 holds the rest [priority 10, cores asked for 1, slots used 1 of 6, resources asked for gpu=2,licence=1, waited 0.0 s, position in the queue 1, goes first in 600 s, waits for the resource gpu, of it free 1 of 2, jobs that have it 1] change: job 1 must end
        > submit 3 rlicence:1
        3 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 4
        4 start primary 2 p10: a home core was free (3 of 6 slots used)
        > exit 1
        > why 2
        it asks for 1 of the resource licence, of which 0 of 1 are free; job 3 holds the rest [priority 10, cores asked for 1, slots used 2 of 6, resources asked for gpu=2,licence=1, waited 0.0 s, position in the queue 1, goes first in 600 s, waits for the resource licence, of it free 0 of 1, jobs that have it 3] change: job 3 must end
        > exit 3
        2 start primary 0 p10: a home core was free (2 of 6 slots used)
        > why 2
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 2 of 6, resources asked for gpu=2,licence=1, since its start 0.0 s, PUs 0] change: its end, or `pinfold suspend 2`
        > exit 2
        ",
    );
}

#[test]
fn a_suspended_job_keeps_what_it_has() {
    check(
        "
        > machine 2
        > set resources=gpu:1
        > submit 1 rgpu:1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > suspend 1
        1 freeze: a user or operator asked for it
        > submit 2 rgpu:1
        > why 2
        it asks for 1 of the resource gpu, of which 0 of 1 are free; job 1 holds the rest [priority 10, cores asked for 1, slots used 0 of 3, resources asked for gpu=1, waited 0.0 s, position in the queue 1, goes first in 600 s, waits for the resource gpu, of it free 0 of 1, jobs that have it 1] change: job 1 must end
        > resume 1
        1 thaw: a user or operator asked for it
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 3 slots used)
        ",
    );
}

/// What a job had that is to begin anew is for others meanwhile, and what one had whose start failed.
#[test]
fn one_that_waits_again_has_nothing() {
    check(
        "
        > machine 2
        > set resources=gpu:1
        > slow
        > submit 1 rgpu:1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 rgpu:1
        > fail 1 start
        2 start primary 0 p10: a home core was free (1 of 3 slots used)
        > exit 2
        > +2
        1 start primary 0 p10: an earlier try failed: EIO
        ",
    );
}

/// A resource that became scarcer than what jobs have is waited for; one that became fewer than a job asks for, too.
#[test]
fn there_may_be_less_than_before() {
    check(
        "
        > machine 4
        > set resources=gpu:2
        > submit 1 rgpu:1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 rgpu:1
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 rgpu:2
        > submit 4 rgpu:1
        > set resources=gpu:1
        > exit 1
        > why 3
        it asks for 2 of the resource gpu, and the host has 1 now [priority 10, cores asked for 1, slots used 1 of 6, resources asked for gpu=2, waited 0.0 s, position in the queue 1, goes first in 600 s, waits for the resource gpu, of it free 0 of 1] change: the host must have more of it (`resources.gpu`), or a job must ask for less
        > why 4
        it asks for 1 of the resource gpu, of which 0 of 1 are free; job 2 holds the rest [priority 10, cores asked for 1, slots used 1 of 6, resources asked for gpu=1, waited 0.0 s, position in the queue 2, goes first in 600 s, waits for the resource gpu, of it free 0 of 1, jobs that have it 2] change: job 2 must end
        > exit 2
        4 start primary 0 p10: a home core was free (1 of 6 slots used)
        > set resources=gpu:2
        > exit 4
        3 start primary 0 p10: a home core was free (1 of 6 slots used)
        ",
    );
}

/// Once it has waited too long, nobody after it gets what it waits for; those that want none go on.
#[test]
fn what_a_job_waited_too_long_for_is_kept() {
    check(
        "
        > machine 4
        > set resources=gpu:2
        > submit 1 rgpu:1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 rgpu:2
        > submit 3 rgpu:1
        3 start primary 1 p10: a home core was free (2 of 6 slots used)
        > +600
        > submit 4 rgpu:1 p16
        > exit 1
        > why 4
        what is free of the resource gpu is kept for job 2, which is before it and waited long enough [priority 16, cores asked for 1, slots used 1 of 6, resources asked for gpu=1, waited 0.0 s, position in the queue 2, goes first in 600 s, waits for the resource gpu, of it free 1 of 2] change: job 2 must have started
        > submit 5
        5 start primary 0 p10: a home core was free (2 of 6 slots used)
        > exit 3
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > exit 2
        4 start primary 1 p16: a home core was free (2 of 6 slots used)
        ",
    );
}

#[test]
fn jobs_that_are_found_again_have_theirs() {
    check(
        "
        > machine 2
        > set resources=gpu:1
        > adopt 1 rgpu:1 / primary 0
        > adopt 2 rgpu:1
        > tick
        1 weigh primary p10: found again after a restart of the daemon
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 3 slots used)
        ",
    );
}

/// Where jobs are not scheduled they wait for resources all the same: nobody could give two the same.
#[test]
fn without_scheduling_they_are_counted_too() {
    check(
        "
        > machine 1
        > set schedule=off resources=gpu:1
        > submit 1 rgpu:1
        1 start primary any p10: scheduling is off, jobs start at once
        > submit 2 rgpu:1
        > submit 3
        3 start primary any p10: scheduling is off, jobs start at once
        > exit 1
        2 start primary any p10: scheduling is off, jobs start at once
        ",
    );
}

/// One in a reservation that lacks a resource lets others have its cores.
#[test]
fn in_a_reservation_others_go_on() {
    check(
        "
        > machine 3/a:1
        > set resources=gpu:1
        > submit 1 rgpu:1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2 sa rgpu:1
        > submit 3 sa
        3 start primary 1 p10: enough cores of its set a were free
        > exit 3
        > exit 1
        2 start primary 1 p10: enough cores of its set a were free
        ",
    );
}

/// What its own user's jobs have and it waits for is kept from that user's jobs, however long it waited, and from nobody
/// else's: that user alone decides how long this lasts.
#[test]
fn one_that_waits_for_its_owners_jobs_keeps_nothing_from_others() {
    check(
        "
        > machine 4
        > set resources=gpu:4
        > submit 1 o1 rgpu:1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 o1 rgpu:4
        > +601
        > submit 3 o2 rgpu:3
        3 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 4 o2 rgpu:1
        > exit 3
        4 start primary 1 p10: a home core was free (2 of 6 slots used)
        > exit 4
        > submit 5 o1 rgpu:1
        > why 5
        what is free of the resource gpu is kept for job 2, which is before it and waited long enough [priority 10, cores asked for 1, slots used 1 of 6, resources asked for gpu=1, waited 0.0 s, position in the queue 2, goes first in 600 s, waits for the resource gpu, of it free 3 of 4] change: job 2 must have started
        > exit 1
        2 start primary 0 p10: a home core was free (1 of 6 slots used)
        > exit 2
        5 start primary 0 p10: a home core was free (1 of 6 slots used)
        ",
    );
}

/// The same where one lacks cores alone: nothing that is free is kept idle for it.
#[test]
fn one_that_lacks_its_owners_cores_keeps_no_resource_from_others() {
    check(
        "
        > machine 4
        > set factor=1000 resources=gpu:1
        > submit 1 o1 c3
        1 start primary 0-2 p10: a home core was free (3 of 4 slots used)
        > submit 2 o1 c2 rgpu:1
        > +601
        > submit 3 o2 rgpu:1
        3 start primary 3 p10: a home core was free (4 of 4 slots used)
        > exit 3
        > submit 4 o1 rgpu:1
        > exit 1
        2 start primary 0-1 p10: a home core was free (2 of 4 slots used)
        > exit 2
        4 start primary 0 p10: a home core was free (1 of 4 slots used)
        ",
    );
}

/// And where it lacks cores of a set.
#[test]
fn one_that_lacks_its_owners_cores_of_a_set_keeps_no_resource_from_others() {
    check(
        "
        > machine 5/a:2,3/b:4
        > set factor=1000 resources=gpu:1
        > submit 1 o1 sa
        1 start primary 2 p10: enough cores of its set a were free
        > submit 2 o1 sa c2 rgpu:1
        > submit 11 o1 sa
        11 start primary 3 p10: enough cores of its set a were free
        > exit 11
        > submit 12 o1 sa
        12 start primary 3 p10: enough cores of its set a were free
        > exit 12
        > submit 13 o1 sa
        13 start primary 3 p10: enough cores of its set a were free
        > exit 13
        > submit 14 o1 sa
        14 start primary 3 p10: enough cores of its set a were free
        > exit 14
        > submit 15 o1 sa
        15 start primary 3 p10: enough cores of its set a were free
        > exit 15
        > submit 16 o1 sa
        16 start primary 3 p10: enough cores of its set a were free
        > exit 16
        > submit 17 o1 sa
        17 start primary 3 p10: enough cores of its set a were free
        > exit 17
        > submit 18 o1 sa
        18 start primary 3 p10: enough cores of its set a were free
        > exit 18
        > submit 3 o2 sb rgpu:1
        3 start primary 4 p10: enough cores of its set b were free
        > exit 3
        > exit 1
        2 start primary 2-3 p10: enough cores of its set a were free
        ",
    );
}

/// One that could not have what it asks for beside its user's other job, whatever all others hold, waits for that job.
#[test]
fn what_never_fits_beside_its_owners_keeps_nothing_from_others() {
    check(
        "
        > machine 4
        > set resources=gpu:4
        > submit 1 o1 rgpu:1
        1 start primary 0 p10: a home core was free (1 of 6 slots used)
        > submit 2 o2 rgpu:1
        2 start primary 1 p10: a home core was free (2 of 6 slots used)
        > submit 3 o1 rgpu:4
        > +601
        > submit 4 o2 rgpu:2
        4 start primary 2 p10: a home core was free (3 of 6 slots used)
        > exit 1
        > submit 5 o2 rgpu:1
        > exit 2
        > exit 4
        3 start primary 0 p10: a home core was free (1 of 6 slots used)
        > exit 3
        5 start primary 0 p10: a home core was free (1 of 6 slots used)
        ",
    );
}
