//! Vouchers that were used: each is good once. They are kept in memory until they would be too old anyway, as hashes; those
//! that were signed before this process began are refused, for it cannot know which of them were used.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use sha2::{Digest as _, Sha256};

/// The most that are kept, some 10 MB. More in ten minutes than people and their scripts ask for.
const SEEN_MAX: usize = 100_000;

/// Why a voucher is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unseen {
    /// It was used.
    Used,
    /// There are too many to be told apart.
    Many,
}

/// Those that were used.
#[derive(Debug, Default)]
pub struct Seen {
    /// By hash, until when each is kept, in microseconds since the Unix epoch.
    used: Mutex<BTreeMap<[u8; 32], u64>>,
}

impl Seen {
    /// Uses a voucher up, by its key and its statement; another signature of the same makes it no other.
    pub(super) fn use_up(
        &self,
        key: &[u8],
        statement: &str,
        now_us: u64,
        until_us: u64,
    ) -> Result<(), Unseen> {
        let hash: [u8; 32] = Sha256::new().chain_update(key).chain_update(statement).finalize().into();
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if used.contains_key(&hash) {
            return Err(Unseen::Used);
        }
        if used.len() >= SEEN_MAX {
            used.retain(|_, until| *until > now_us);
        }
        if used.len() >= SEEN_MAX {
            return Err(Unseen::Many);
        }
        used.insert(hash, until_us);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_good_once_and_their_number_is_bounded() {
        let seen = Seen::default();
        let use_up = |key: u8, statement: &str, now_us| seen.use_up(&[key], statement, now_us, 100);
        assert_eq!(use_up(1, "a", 1), Ok(()));
        assert_eq!(use_up(1, "a", 2), Err(Unseen::Used));
        assert_eq!(use_up(2, "a", 2), Ok(()));
        assert_eq!(use_up(1, "b", 2), Ok(()));
        for number in 3..SEEN_MAX {
            assert_eq!(use_up(0, &number.to_string(), 3), Ok(()));
        }
        assert_eq!(use_up(0, "more", 100 - 1), Err(Unseen::Many));
        assert_eq!(use_up(1, "a", 99), Err(Unseen::Used));
        assert_eq!(use_up(0, "more", 100), Ok(()), "the old ones are forgotten");
    }
}
