//! Used vouchers: each voucher is valid once. Their hashes stay in memory until the vouchers expire; vouchers signed
//! before this process began are refused, for their use is unknown.
//!
//! The number kept has bounds by user of a host, by host, and in total, so that endless requests of a user do not shut
//! out other users.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

/// The most kept of a user of a host: eight in a second, over the ten minutes of a voucher's life.
const OF_USER_MAX: usize = 5_000;

/// The most kept of a host.
const OF_HOST_MAX: usize = 25_000;

/// The most kept of all hosts, some 40 MB.
const SEEN_MAX: usize = 200_000;

/// Why a voucher is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unseen {
    /// The voucher was used before.
    Used,
    /// Too many vouchers are kept.
    Many {
        /// The exceeded bound.
        of: Whose,
        /// The bound.
        most: usize,
        /// The time until the next voucher is accepted, in microseconds.
        after_us: u64,
    },
}

/// The scope of an exceeded bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Whose {
    /// This user on this host.
    User,
    /// All users of this host.
    Host,
    /// All hosts.
    All,
}

/// Used vouchers.
#[derive(Debug, Default)]
pub struct Seen(Mutex<All>);

#[derive(Debug, Default)]
struct All {
    /// Vouchers by the key of the host.
    hosts: BTreeMap<Vec<u8>, OfHost>,
    count: usize,
    next: u64,
}

/// Expiry in microseconds since the Unix epoch, and the voucher's number.
type End = (u64, u64);

#[derive(Debug, Default)]
struct OfHost {
    /// The statements' hashes.
    used: BTreeSet<[u8; 32]>,
    /// Hash and user by expiry: vouchers that have not expired are not visited.
    ends: BTreeMap<End, ([u8; 32], u32)>,
    by_user: BTreeMap<u32, BTreeSet<End>>,
}

impl OfHost {
    fn add(&mut self, end: End, hash: [u8; 32], user: u32) {
        self.used.insert(hash);
        self.ends.insert(end, (hash, user));
        self.by_user.entry(user).or_default().insert(end);
    }

    /// Forgets expired vouchers; returns their number.
    fn forget_old(&mut self, now_us: u64) -> usize {
        let before = self.ends.len();
        while let Some(first) = self.ends.first_entry().filter(|first| first.key().0 <= now_us) {
            let (end, (hash, user)) = first.remove_entry();
            self.used.remove(&hash);
            if let Some(of_user) = self.by_user.get_mut(&user) {
                of_user.remove(&end);
                if of_user.is_empty() {
                    self.by_user.remove(&user);
                }
            }
        }
        before - self.ends.len()
    }

    /// When the next voucher expires, of a user if named.
    fn first_us(&self, user: Option<u32>) -> Option<u64> {
        let first = match user {
            None => self.ends.first_key_value().map(|(end, _)| end),
            Some(user) => self.by_user.get(&user).and_then(BTreeSet::first),
        };
        first.map(|end| end.0)
    }
}

impl Seen {
    /// Uses up a voucher by the host's key and the statement; a second signature of a statement is no second voucher.
    pub(super) fn use_up(
        &self,
        (key, user): (&[u8], u32),
        statement: &str,
        now_us: u64,
        until_us: u64,
    ) -> Result<(), Unseen> {
        let hash: [u8; 32] = Sha256::new().chain_update(statement).finalize().into();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.hosts.get(key).is_some_and(|host| host.used.contains(&hash)) {
            return Err(Unseen::Used);
        }
        while let Some((of, most)) = all.full(key, user) {
            if all.forget_old(of, key, now_us) == 0 {
                let after_us = all.first_us(of, key, user).saturating_sub(now_us);
                return Err(Unseen::Many { of, most, after_us });
            }
        }
        let end = (until_us, all.next);
        all.hosts.entry(key.to_vec()).or_default().add(end, hash, user);
        all.next += 1;
        all.count += 1;
        Ok(())
    }
}

impl All {
    /// The scope and the size of an exceeded bound.
    fn full(&self, key: &[u8], user: u32) -> Option<(Whose, usize)> {
        let host = self.hosts.get(key);
        let of_host = host.map_or(0, |host| host.used.len());
        let of_user = host.and_then(|host| host.by_user.get(&user)).map_or(0, BTreeSet::len);
        let bounds = [
            (Whose::User, of_user, OF_USER_MAX),
            (Whose::Host, of_host, OF_HOST_MAX),
            (Whose::All, self.count, SEEN_MAX),
        ];
        bounds.into_iter().find(|(_, count, most)| count >= most).map(|(of, _, most)| (of, most))
    }

    /// Forgets expired vouchers of a host or of all, and returns their number.
    fn forget_old(&mut self, of: Whose, key: &[u8], now_us: u64) -> usize {
        let forgotten = if of == Whose::All {
            let forgotten = self.hosts.values_mut().map(|host| host.forget_old(now_us)).sum();
            self.hosts.retain(|_, host| !host.ends.is_empty());
            forgotten
        } else {
            self.hosts.get_mut(key).map_or(0, |host| host.forget_old(now_us))
        };
        self.count -= forgotten;
        forgotten
    }

    fn first_us(&self, of: Whose, key: &[u8], user: u32) -> u64 {
        let host = self.hosts.get(key);
        let first = match of {
            Whose::User => host.and_then(|host| host.first_us(Some(user))),
            Whose::Host => host.and_then(|host| host.first_us(None)),
            Whose::All => self.hosts.values().filter_map(|host| host.first_us(None)).min(),
        };
        first.unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn many(of: Whose, most: usize, after_us: u64) -> Result<(), Unseen> {
        Err(Unseen::Many { of, most, after_us })
    }

    #[test]
    fn each_is_good_once() {
        let seen = Seen::default();
        let use_up = |key: u8, statement: &str, now_us| seen.use_up((&[key], 7), statement, now_us, 100);
        assert_eq!(use_up(1, "a", 1), Ok(()));
        assert_eq!(use_up(1, "a", 2), Err(Unseen::Used));
        assert_eq!(use_up(2, "a", 2), Ok(()));
        assert_eq!(use_up(1, "b", 2), Ok(()));
        assert_eq!(use_up(1, "a", 99), Err(Unseen::Used));
    }

    #[test]
    fn who_asks_without_end_keeps_no_other_user_and_no_other_host_from_asking() {
        let seen = Seen::default();
        let use_up = |key: u8, user: u32, statement: usize, now_us: u64| {
            seen.use_up((&[key], user), &format!("{user} {statement}"), now_us, now_us + 100)
        };
        for statement in 0..OF_USER_MAX {
            assert_eq!(use_up(1, 7, statement, 10), Ok(()));
        }
        assert_eq!(use_up(1, 7, OF_USER_MAX, 30), many(Whose::User, OF_USER_MAX, 80));
        assert_eq!(use_up(1, 7, 0, 30), Err(Unseen::Used), "those that were used stay used");
        assert_eq!(use_up(1, 8, 0, 30), Ok(()), "another user of the host");
        // A host vouches for invented users.
        let last =
            (9..).take_while(|&user| (0..OF_USER_MAX).all(|one| use_up(1, user, one, 30).is_ok())).last();
        assert_eq!(last, Some(11));
        assert_eq!(use_up(1, 1_000, 0, 40), many(Whose::Host, OF_HOST_MAX, 70));
        assert_eq!(use_up(2, 7, 0, 40), Ok(()), "another host");
        // The old ones are forgotten.
        assert_eq!(use_up(1, 7, OF_USER_MAX, 110), Ok(()));
        assert_eq!(use_up(1, 1_000, 0, 111), Ok(()));
    }

    #[test]
    fn all_together_are_bounded() {
        let seen = Seen::default();
        let use_up = |statement: usize, now_us| {
            let (key, user) =
                (u8::try_from(statement % 10).unwrap(), u32::try_from(statement % 100).unwrap());
            seen.use_up((&[key], user), &statement.to_string(), now_us, 100)
        };
        assert!((0..SEEN_MAX).all(|statement| use_up(statement, 1).is_ok()));
        assert_eq!(use_up(SEEN_MAX, 60), many(Whose::All, SEEN_MAX, 40));
        // Those of other hosts, too.
        assert_eq!(seen.use_up((&[99], 1), "a", 60, 100), many(Whose::All, SEEN_MAX, 40));
        assert_eq!(seen.use_up((&[99], 1), "a", 100, 200), Ok(()));
        assert_eq!(use_up(SEEN_MAX, 100), Ok(()));
        assert_eq!(seen.0.lock().unwrap().count, 2);
    }

    #[test]
    fn those_that_are_old_are_forgotten_in_whatever_order_they_came() {
        let mut host = OfHost::default();
        // The clock was set back once.
        for (number, until_us) in (0..).zip([50, 60, 40, 70]) {
            host.add((until_us, number), [u8::try_from(number).unwrap(); 32], 7);
        }
        assert_eq!(
            (host.first_us(None), host.first_us(Some(7)), host.first_us(Some(8))),
            (Some(40), Some(40), None)
        );
        assert_eq!((host.forget_old(39), host.forget_old(60)), (0, 3));
        assert_eq!((host.used.len(), host.ends.len(), host.by_user[&7].len()), (1, 1, 1));
        assert_eq!(host.forget_old(70), 1);
        assert!(host.used.is_empty() && host.by_user.is_empty());
    }
}
