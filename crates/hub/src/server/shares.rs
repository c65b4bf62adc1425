//! Shares of what the hub has little of: so much of it in all, and so much for one of those that ask. A share is given back
//! when it is dropped; nobody waits for one.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why there is no share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// The one that asks has as much as one may have.
    Own,
    /// All together have as much as there is.
    All,
}

/// See the module's page.
#[derive(Debug)]
pub struct Shares {
    of_one_max: usize,
    all_max: usize,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    /// Nobody has a share of nothing.
    of: BTreeMap<String, usize>,
}

impl Shares {
    /// So much for one, and so much for all together.
    #[must_use]
    pub fn new(of_one_max: usize, all_max: usize) -> Self {
        Self { of_one_max, all_max, taken: Mutex::default() }
    }

    /// Takes a share of this size for one that asks.
    ///
    /// # Errors
    /// When it would be too much; then nothing is taken.
    pub fn take(self: &Arc<Self>, of: &str, size: usize) -> Result<Share, Full> {
        let mut taken = self.taken();
        let (all, own) = (taken.all.saturating_add(size), taken.of.get(of).copied().unwrap_or(0));
        let own = own.saturating_add(size);
        if own > self.of_one_max {
            return Err(Full::Own);
        }
        if all > self.all_max {
            return Err(Full::All);
        }
        taken.all = all;
        if own > 0 {
            taken.of.insert(of.to_owned(), own);
        }
        drop(taken);
        Ok(Share { shares: Arc::clone(self), of: of.to_owned(), size })
    }

    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A share, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    of: String,
    size: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        taken.all = taken.all.saturating_sub(self.size);
        if let Some(own) = taken.of.get_mut(&self.of) {
            *own = own.saturating_sub(self.size);
            if *own == 0 {
                taken.of.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaves_some_for_others_and_what_is_dropped_is_free() {
        let shares = Arc::new(Shares::new(4, 10));
        let refused = |of: &str, size: usize| shares.take(of, size).err();
        let first = shares.take("ann", 3);
        assert_eq!(refused("ann", 2), Some(Full::Own));
        let second = shares.take("ann", 1);
        let others = [shares.take("bea", 4), shares.take("cyn", 2)];
        assert_eq!((refused("dee", 1), refused("ann", 1)), (Some(Full::All), Some(Full::Own)));
        assert_eq!(refused("ann", usize::MAX), Some(Full::Own));
        drop(first);
        assert_eq!((refused("dee", 3), refused("dee", 4)), (None, Some(Full::All)));
        drop((second, others));
        let taken = shares.taken();
        assert!(taken.all == 0 && taken.of.is_empty(), "{taken:?}");
    }
}
