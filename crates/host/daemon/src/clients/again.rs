//! Requests that are tried again a little later, since what they ask for could not be read in time.
//!
//! What processes were started with is read by threads aside, which the loop waits for by moments only: on a busy host such
//! a thread may be late although nothing holds it up. Each further try costs as much as the first, and its user pays for it as
//! for the first, so that a turn of the loop has few of them. There are a few tries, each
//! after twice the time, and two requests of a user wait at most. A process may end meanwhile, and another get its number:
//! which one was named is kept from the first try on.

use crate::core::ConnectionId;
use pinfold_proto::wire::Request;

/// How long it takes until the first further try, in microseconds.
const PAUSE_US: u64 = 50_000;
/// So many further tries there are: the last one 3.15 s after the first.
const TRIES: u32 = 6;
/// So many requests wait, and so many of one user.
const WAITING_MAX: usize = 64;
const WAITING_OF_A_USER_MAX: usize = 2;

/// One that waits.
#[derive(Debug)]
pub(crate) struct Waiting {
    pub(crate) id: ConnectionId,
    pub(crate) request: Request,
    /// How often it was tried.
    pub(crate) tried: u32,
    /// When the process that it names started, in clock ticks since the host came up.
    pub(crate) start_ticks: Option<u64>,
    uid: u32,
    at_us: u64,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Again {
    waiting: Vec<Waiting>,
    /// What the request at hand asks for was not read in time,
    late: bool,
    /// how often it was tried,
    tried: u32,
    /// and when the process that it names started, as far as that was looked at.
    start_ticks: Option<u64>,
}

impl Again {
    /// Begins with the first try of a request, or a further one: with the start of the process that was named then.
    pub(crate) fn begin(&mut self, tried: u32, start_ticks: Option<u64>) {
        (self.late, self.tried, self.start_ticks) = (false, tried, start_ticks);
    }

    /// Whether the process that the request at hand names is the one that it named at its first try: what has the number
    /// now started then, in clock ticks since the host came up.
    pub(crate) fn is_still(&mut self, start_ticks: u64) -> bool {
        *self.start_ticks.get_or_insert(start_ticks) == start_ticks
    }

    /// Whether something was not read in time for it.
    pub(crate) fn note(&mut self, late: bool) {
        self.late |= late;
    }

    /// Whether this user's request at hand may wait for another try.
    pub(crate) fn may_wait(&self, uid: u32) -> bool {
        let own = self.waiting.iter().filter(|waiting| waiting.uid == uid).count();
        self.tried <= TRIES && own < WAITING_OF_A_USER_MAX && self.waiting.len() < WAITING_MAX
    }

    /// Lets the request at hand wait for another try, if something was not read in time; says whether it waits.
    pub(crate) fn put_off(&mut self, now_us: u64, (id, uid): (ConnectionId, u32), request: Request) -> bool {
        let waits = self.late && self.may_wait(uid);
        if waits {
            let at_us = now_us + (PAUSE_US << self.tried.saturating_sub(1));
            self.waiting.push(Waiting {
                id,
                request,
                tried: self.tried,
                start_ticks: self.start_ticks,
                uid,
                at_us,
            });
        }
        waits
    }

    /// When the next one is to be tried.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.waiting.iter().map(|waiting| waiting.at_us).min()
    }

    /// Those whose time has come and that `may` be tried in this turn of the loop, the longest due first. The others stay due.
    pub(crate) fn due(&mut self, now_us: u64, mut may: impl FnMut(&Waiting) -> bool) -> Vec<Waiting> {
        self.waiting.sort_by_key(|waiting| waiting.at_us);
        self.waiting.extract_if(.., |waiting| waiting.at_us <= now_us && may(waiting)).collect()
    }

    /// A connection is gone, and what it asked for with it.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.waiting.retain(|waiting| waiting.id != id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put_off(again: &mut Again, now_us: u64, id: u64, uid: u32, tried: u32) -> bool {
        again.begin(tried, None);
        again.note(true);
        again.put_off(now_us, (ConnectionId(id), uid), Request::Part)
    }

    #[test]
    fn one_is_tried_a_few_times_each_after_twice_the_time() {
        let (mut again, mut now_us, mut tried) = (Again::default(), 0, 1);
        while put_off(&mut again, now_us, 7, 5, tried) {
            now_us = again.due_us().unwrap();
            assert!(again.due(now_us - 1, |_| true).is_empty());
            let due = again.due(now_us, |_| true);
            assert_eq!(
                due.iter().map(|one| (one.id, one.tried)).collect::<Vec<_>>(),
                [(ConnectionId(7), tried)]
            );
            tried += 1;
        }
        assert_eq!((now_us, tried), (3_150_000, TRIES + 1));
        assert_eq!(again.due_us(), None);
    }

    #[test]
    fn a_user_has_two_that_wait_and_what_was_read_in_time_waits_not() {
        let mut again = Again::default();
        assert!(put_off(&mut again, 0, 1, 5, 1) && put_off(&mut again, 0, 2, 5, 1));
        assert!(!put_off(&mut again, 0, 3, 5, 1), "it is refused");
        assert!(put_off(&mut again, 0, 4, 6, 1), "another user's waits");
        again.forget(ConnectionId(1));
        assert!(put_off(&mut again, 0, 3, 5, 1), "there is room again");
        again.begin(1, None);
        assert!(!again.put_off(0, (ConnectionId(9), 9), Request::Part), "it is refused for another cause");
        let others = (100..200).filter(|&uid| put_off(&mut again, 0, u64::from(uid), uid, 1)).count();
        assert_eq!(others + 3, WAITING_MAX);
    }

    #[test]
    fn another_process_that_got_the_number_is_not_the_one_that_was_named() {
        let mut again = Again::default();
        again.begin(1, None);
        assert!(again.is_still(700) && again.is_still(700), "it is looked at");
        again.note(true);
        assert!(again.put_off(0, (ConnectionId(1), 5), Request::Part));
        // Another request comes in between, which names another process.
        again.begin(1, None);
        assert!(again.is_still(900));
        let waiting = again.due(PAUSE_US, |_| true).remove(0);
        again.begin(waiting.tried + 1, waiting.start_ticks);
        assert!(again.is_still(700) && !again.is_still(900));
        again.note(true);
        assert!(again.put_off(0, (ConnectionId(1), 5), Request::Part), "and so at each further try");
        assert_eq!(again.due(u64::MAX, |_| true)[0].start_ticks, Some(700));
    }

    #[test]
    fn what_may_not_be_tried_in_a_turn_stays_due_and_comes_in_order() {
        let mut again = Again::default();
        for (at_us, uid) in [(30, 7), (10, 8), (20, 9)] {
            assert!(put_off(&mut again, at_us, u64::from(uid), uid, 1));
        }
        let mut order = Vec::new();
        while let Some(due_us) = again.due_us() {
            assert!(due_us <= PAUSE_US + 30, "it is due at once");
            // One in a turn.
            let mut left = 1;
            let due = again.due(PAUSE_US + 30, |_| std::mem::take(&mut left) == 1);
            order.extend(due.iter().map(|one| one.id.0));
        }
        assert_eq!(order, [8, 9, 7]);
    }
}
