//! How many tokens there are, and which of them are lost: a killed client never writes its tokens back.
//!
//! A jobserver's tokens do not name their holder. Known are the number of tokens with clients, and the most that live
//! clients could hold. Where the first is larger for [`LOST_AFTER`] without a break, the difference is written off, and
//! new tokens take its place. A token that comes back after all is surplus, and is taken out again.
//!
//! Owner of state: the number of tokens in being. Absent here: the FIFO, processes, the clock.

use std::time::{Duration, Instant};

/// How long more tokens must be with clients than these could hold. A client has a token for a moment before its command
/// is a process, and after that.
pub(super) const LOST_AFTER: Duration = Duration::from_secs(3);

/// The tokens seen at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// Tokens that no client holds.
    pub free: u32,
    /// How many the clients that live could hold at most.
    pub could_be_held: u32,
}

/// The change that brings the tokens to their target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Put this many more.
    Put(u32),
    /// Take this many, as far as no client holds them; the rest as they come back.
    Take(u32),
    /// No change.
    Keep,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// Tokens in being: free, or with a client that lives.
    issued: u32,
    /// Since when more were with clients than these could hold, and by how many at least ever since.
    excess: Option<(Instant, u32)>,
    /// Tokens written off so far.
    #[cfg(test)]
    lost: u32,
}

impl Ledger {
    /// Tokens that clients hold, when `free` are free.
    pub(super) fn with_clients(&self, free: u32) -> u32 {
        self.issued.saturating_sub(free)
    }

    /// How many tokens there are beyond `target`.
    pub(super) fn over(&self, target: u32) -> u32 {
        self.issued.saturating_sub(target)
    }

    /// How many tokens were written off.
    #[cfg(test)]
    pub(super) fn lost(&self) -> u32 {
        self.lost
    }

    /// Takes in the seen tokens, and gives the change that leads to `target` tokens.
    pub(super) fn look(&mut self, now: Instant, seen: Seen, target: u32) -> Change {
        // Tokens that were written off came back, or a client wrote a token that it never had.
        self.issued = self.issued.max(seen.free);
        self.write_off(now, seen);
        match target.cmp(&self.issued) {
            std::cmp::Ordering::Greater => Change::Put(target - self.issued),
            std::cmp::Ordering::Less => Change::Take(self.issued - target),
            std::cmp::Ordering::Equal => Change::Keep,
        }
    }

    fn write_off(&mut self, now: Instant, seen: Seen) {
        let excess = self.with_clients(seen.free).saturating_sub(seen.could_be_held);
        self.excess = match self.excess {
            _ if excess == 0 => None,
            None => Some((now, excess)),
            Some((since, least)) => Some((since, least.min(excess))),
        };
        if let Some((since, least)) = self.excess
            && now.saturating_duration_since(since) >= LOST_AFTER
        {
            self.issued -= least;
            #[cfg(test)]
            (self.lost += least);
            self.excess = None;
        }
    }

    /// The pool got this many tokens.
    pub(super) fn put(&mut self, count: u32) {
        self.issued = self.issued.saturating_add(count);
    }

    /// The pool lost this many tokens.
    pub(super) fn taken(&mut self, count: u32) {
        self.issued = self.issued.saturating_sub(count);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A jobserver with injected counts: tokens lie free or are with clients, which may die.
    struct Room {
        ledger: Ledger,
        began: Instant,
        now: Duration,
        free: u32,
        held: u32,
        orphaned: u32,
    }

    impl Room {
        fn new() -> Self {
            let (began, now) = (Instant::now(), Duration::ZERO);
            Self { ledger: Ledger::default(), began, now, free: 0, held: 0, orphaned: 0 }
        }

        fn look(&mut self, target: u32) -> Change {
            self.now += Duration::from_secs(1);
            let seen = Seen { free: self.free, could_be_held: self.held };
            let change = self.ledger.look(self.began + self.now, seen, target);
            match change {
                Change::Put(count) => {
                    self.free += count;
                    self.ledger.put(count);
                }
                Change::Take(count) => {
                    let count = count.min(self.free);
                    self.free -= count;
                    self.ledger.taken(count);
                }
                Change::Keep => {}
            }
            change
        }

        fn acquire(&mut self, count: u32) {
            let count = count.min(self.free);
            (self.free, self.held) = (self.free - count, self.held + count);
        }

        fn release(&mut self, count: u32) {
            let count = count.min(self.held);
            (self.free, self.held) = (self.free + count, self.held - count);
        }

        fn die(&mut self, count: u32) {
            let count = count.min(self.held);
            (self.held, self.orphaned) = (self.held - count, self.orphaned + count);
        }
    }

    #[test]
    fn tokens_follow_the_target() {
        let mut room = Room::new();
        assert_eq!(room.look(7), Change::Put(7));
        assert_eq!(room.look(7), Change::Keep);
        room.acquire(5);
        // Two are free and go at once; the rest goes as it comes back.
        assert_eq!(room.look(3), Change::Take(4));
        assert_eq!((room.free, room.held), (0, 5));
        room.release(1);
        assert_eq!(room.look(3), Change::Take(2));
        room.release(4);
        assert_eq!(room.look(3), Change::Take(1));
        assert_eq!((room.free, room.held), (3, 0));
        assert_eq!(room.look(4), Change::Put(1));
        assert_eq!(room.ledger.lost(), 0);
    }

    #[test]
    fn what_a_killed_client_held_comes_back() {
        let mut room = Room::new();
        room.look(7);
        room.acquire(5);
        room.look(7);
        room.die(2);
        let looks: Vec<Change> = (0..5).map(|_| room.look(7)).collect();
        assert_eq!(looks, [Change::Keep, Change::Keep, Change::Keep, Change::Put(2), Change::Keep]);
        assert_eq!((room.free, room.held, room.ledger.lost()), (4, 3, 2));
    }

    #[test]
    fn a_token_that_was_given_up_too_early_is_taken_out_again() {
        let mut room = Room::new();
        room.look(2);
        room.acquire(1);
        room.die(1);
        (0..4).for_each(|_| _ = room.look(2));
        assert_eq!((room.free, room.ledger.lost()), (2, 1));
        // Its holder lived, unseen, and writes it back.
        room.free += 1;
        assert_eq!(room.look(2), Change::Take(1));
        assert_eq!(room.free, 2);
    }

    #[test]
    fn a_moment_without_a_command_is_no_loss() {
        let mut room = Room::new();
        room.look(3);
        room.acquire(3);
        for _ in 0..10 {
            // A command is over, and its client has not written its token back yet.
            room.die(1);
            assert_eq!(room.look(3), Change::Keep);
            assert_eq!(room.look(3), Change::Keep);
            (room.held, room.orphaned) = (room.held + 1, room.orphaned - 1);
            assert_eq!(room.look(3), Change::Keep);
        }
        assert_eq!(room.ledger.lost(), 0);
    }

    proptest! {
        /// Whatever clients do, once they are quiet there are as many tokens as there should be.
        #[test]
        fn the_number_of_tokens_is_what_it_should_be(
            steps in proptest::collection::vec((0u32..12, 0u8..4, 0u32..6), 0..60),
            target in 0u32..12,
        ) {
            let mut room = Room::new();
            for (target, kind, count) in steps {
                match kind {
                    0 => room.acquire(count),
                    1 => room.release(count),
                    2 => room.die(count),
                    _ => {}
                }
                room.look(target);
            }
            room.release(u32::MAX);
            (0..10).for_each(|_| _ = room.look(target));
            prop_assert_eq!(room.free, target);
        }
    }
}
