//! The thread that clears directories: which is next, and when one is tried again.
//!
//! Absent: what a step does (`sys::scratch`), and what follows when a directory is gone (the module above).

use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant as Moment};

use pinfold_policy::JobId;
use pinfold_proto::quantity::show_size;
use pinfold_sys::scratch::{Cleared, Clearing, Scratch};
use pinfold_topo::backoff::Backoff;

use super::Kind;
use crate::core::in_full;
use crate::core::reports::Reporter;

/// How many entries a step removes at most.
const ENTRIES_A_STEP: usize = 4096;
/// After so many steps with a directory it is left for a while.
const STEPS_AT_ONCE: u32 = 64;
/// How long: at first, twice as long each time, and at most.
const PAUSE_FIRST: Duration = Duration::from_millis(250);
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A directory that is to be cleared.
#[derive(Debug)]
pub(super) struct Order {
    pub job: JobId,
    pub kind: Kind,
    pub scratch: Scratch,
}

/// What the thread says of one.
#[derive(Debug)]
pub(crate) struct Word {
    pub job: JobId,
    pub kind: Kind,
    pub said: Said,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Gone,
    /// It is not gone, and why; it is tried again.
    Left(String),
}

/// What came of a step, in words for what is left.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Gone,
    More,
    /// There is nothing to be done just now.
    Stuck(String),
}

/// One directory in the queue.
#[derive(Debug)]
struct Item<T> {
    what: T,
    steps: u32,
    pause: Backoff,
    /// When it is tried again, since the thread began.
    due: Duration,
}

/// Directories in the order in which they have their turn.
#[derive(Debug)]
struct Queue<T> {
    items: VecDeque<Item<T>>,
}

impl<T> Queue<T> {
    fn push(&mut self, what: T, now: Duration) {
        self.items.push_back(Item { what, steps: 0, pause: Backoff::new(PAUSE_FIRST, PAUSE_MAX), due: now });
    }

    /// How long nothing is to be done; `None`: until there is an order.
    fn rests_for(&self, now: Duration) -> Option<Duration> {
        self.items.iter().map(|item| item.due.saturating_sub(now)).min()
    }

    /// Takes a step with the next one that is due; gives it with what is to be said.
    fn turn(&mut self, now: Duration, step: impl FnOnce(&mut T) -> Step) -> Option<(T, Said)>
    where
        T: Clone,
    {
        let at = self.items.iter().position(|item| item.due <= now)?;
        let mut item = self.items.remove(at)?;
        let said = match step(&mut item.what) {
            Step::Gone => return Some((item.what, Said::Gone)),
            Step::More => {
                item.steps += 1;
                (item.steps >= STEPS_AT_ONCE)
                    .then(|| "there is more in it than was removed so far".to_owned())
            }
            Step::Stuck(why) => Some(why),
        };
        let told = said.map(|why| {
            (item.steps, item.due) = (0, now + item.pause.pause());
            (item.what.clone(), Said::Left(why))
        });
        self.items.push_back(item);
        told
    }
}

/// The thread's life.
pub(super) fn obey(orders: &Receiver<Order>, tell: &Reporter<Word>) {
    let begun = Moment::now();
    let mut directories: Vec<(Order, Clearing)> = Vec::new();
    let mut queue: Queue<(JobId, Kind)> = Queue { items: VecDeque::new() };
    loop {
        let order = match queue.rests_for(begun.elapsed()) {
            None => orders.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(rest) => orders.recv_timeout(rest),
        };
        match order {
            Ok(order) => {
                queue.push((order.job, order.kind), begun.elapsed());
                directories.push((order, Clearing::default()));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        let place = |all: &[(Order, Clearing)], (job, kind): (JobId, Kind)| {
            all.iter().position(|(order, _)| (order.job, order.kind) == (job, kind))
        };
        let done = queue.turn(begun.elapsed(), |&mut key| match place(&directories, key) {
            Some(at) => step(&mut directories[at]),
            None => Step::Gone,
        });
        let Some(((job, kind), said)) = done else { continue };
        if said == Said::Gone
            && let Some(at) = place(&directories, (job, kind))
        {
            directories.swap_remove(at);
        }
        if !tell.say(Word { job, kind, said }) {
            return;
        }
    }
}

fn step((order, clearing): &mut (Order, Clearing)) -> Step {
    match order.scratch.clear_step(order.job.0, clearing, ENTRIES_A_STEP) {
        Ok(Cleared::Gone) => Step::Gone,
        Ok(Cleared::More) => Step::More,
        Ok(Cleared::Held(bytes)) => {
            Step::Stuck(format!("files of it are open, which hold {}", show_size(bytes)))
        }
        Err(error) => Step::Stuck(in_full(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(names: &[char]) -> Queue<char> {
        let mut queue = Queue { items: VecDeque::new() };
        names.iter().for_each(|&name| queue.push(name, Duration::ZERO));
        queue
    }

    #[test]
    fn they_have_their_turns_one_after_the_other() {
        let mut queue = queue(&['a', 'b', 'c']);
        let mut seen = String::new();
        for _ in 0..7 {
            let said = queue.turn(Duration::ZERO, |&mut name| {
                seen.push(name);
                if name == 'b' { Step::Gone } else { Step::More }
            });
            assert_eq!(said.is_some(), seen.ends_with('b'), "{seen}");
        }
        assert_eq!(seen, "abcacac");
    }

    #[test]
    fn what_does_not_end_is_tried_again_with_growing_pauses() {
        let mut queue = queue(&['a']);
        let (mut now, mut pauses) = (Duration::ZERO, Vec::new());
        for _ in 0..12 {
            let mut steps = 0;
            while queue.turn(now, |_| Step::More).is_none() {
                steps += 1;
                assert!(steps < STEPS_AT_ONCE, "it is left after so many steps");
            }
            assert_eq!(queue.turn(now, |_| Step::Gone), None, "nothing is done during the pause");
            let rest = queue.rests_for(now).expect("it is in the queue");
            pauses.push(rest);
            now += rest;
        }
        assert!(pauses.windows(2).all(|two| two[1] == (two[0] * 2).min(PAUSE_MAX)), "{pauses:?}");
        assert_eq!((pauses[0], pauses[11]), (PAUSE_FIRST, PAUSE_MAX));
        assert_eq!(queue.turn(now, |_| Step::Gone), Some(('a', Said::Gone)));
        assert_eq!(queue.rests_for(now), None);
    }

    #[test]
    fn one_that_is_stuck_does_not_keep_others() {
        let mut queue = queue(&['a', 'b']);
        let why = || Step::Stuck("why".to_owned());
        assert_eq!(queue.turn(Duration::ZERO, |_| why()), Some(('a', Said::Left("why".to_owned()))));
        for _ in 0..3 {
            assert_eq!(
                queue.turn(Duration::ZERO, |name| if *name == 'b' { Step::More } else { why() }),
                None
            );
        }
    }
}
