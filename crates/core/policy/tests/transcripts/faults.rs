//! Actions that could not be carried out.

use crate::script::check;

#[test]
fn a_failed_start_is_tried_again_later_and_holds_nobody_up() {
    check(
        "
        > machine 1
        > set factor=1000
        > slow
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 1 slots used)
        > submit 2
        > fail 1 start
        2 start primary 0 p10: a home core was free (1 of 1 slots used)
        > why 1
        its start failed: EIO [priority 10, cores asked for 1, slots used 1 of 1, waited 0.0 s, failed starts 1] change: it is started again in 1.0 s, or ended with `pinfold cancel 1`
        > wakeup
        1000 ms
        > +1
        > started 2
        > exit 2
        1 start primary 0 p10: an earlier try failed: EIO
        > fail 1 start
        > wakeup
        2000 ms
        > +2
        1 start primary 0 p10: an earlier try failed: EIO
        > exit 1
        ",
    );
}

#[test]
fn a_job_that_was_cancelled_or_withdrawn_is_not_started_again() {
    check(
        "
        > machine 3
        > slow
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 5 slots used)
        > cancel 1
        > fail 1 start
        1 drop: a user or operator asked for it
        > submit 2
        2 start primary 0 p10: a home core was free (1 of 5 slots used)
        > withdraw 2
        > fail 2 start
        2 drop: its client is gone
        > submit 3
        3 start primary 0 p10: a home core was free (1 of 5 slots used)
        > suspend 3
        > fail 3 start
        > resume 3
        > +1
        3 start primary 0 p10: an earlier try failed: EIO
        ",
    );
}

#[test]
fn a_failed_action_is_tried_again_once_a_second_while_it_is_wanted() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > submit 2
        2 start primary 1 p10: a home core was free (2 of 3 slots used)
        > submit 3
        3 start backfill 0 p10: no home core was free but a slot was (3 of 3 slots used)
        > exit 1
        3 weigh primary p10: job 1 ended and left its home core to the oldest backfiller
        > fail 3 weigh primary 10
        > why 3
        it is a primary: it has home cores that no other primary has [priority 10, cores asked for 1, slots used 2 of 3, since its start 0.0 s, last failure EIO, PUs 0] change: its end, or `pinfold suspend 3`
        > wakeup
        1000 ms
        > +0.5
        > +0.5
        3 weigh primary p10: an earlier try failed: EIO
        > fail 3 weigh primary 10
        > suspend 3
        3 freeze: a user or operator asked for it
        > wakeup
        1000 ms
        > +1
        > fail 3 freeze
        > +0.2
        > resume 3
        3 weigh primary p10: a user or operator asked for it
        3 thaw: a user or operator asked for it
        > wakeup
        800 ms
        > +0.8
        ",
    );
}

#[test]
fn a_failure_of_what_is_no_longer_wanted_is_forgotten() {
    check(
        "
        > machine 2
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 3 slots used)
        > suspend 1
        1 freeze: a user or operator asked for it
        > resume 1
        1 thaw: a user or operator asked for it
        > fail 1 freeze
        > wakeup
        never
        > fail 1 bind 1
        > wakeup
        never
        ",
    );
}

#[test]
fn a_signal_is_sent_until_it_arrives() {
    check(
        "
        > machine 1
        > submit 1
        1 start primary 0 p10: a home core was free (1 of 2 slots used)
        > cancel 1
        1 signal 15: a user or operator asked for it
        > fail 1 signal
        > wakeup
        1000 ms
        > +1
        1 signal 15: an earlier try failed: EIO
        > exit 1
        ",
    );
}
