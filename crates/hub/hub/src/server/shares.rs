//! Shares of scarce resources. A share counts under several names at once, each with a bound: the requester, its group,
//! and all. A drop returns the share; a request for a share never waits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A name that a share counts under, and the bound of the name.
pub type Bound<'a> = (&'a str, usize);

/// A bound would be exceeded: its index, of the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full(pub usize);

/// See the module's page.
#[derive(Debug, Default)]
pub struct Shares {
    /// Names with shares of zero are absent.
    taken: Mutex<BTreeMap<String, usize>>,
}

impl Shares {
    /// Takes a share of this size under all of these distinct names.
    ///
    /// # Errors
    /// When a name's bound would be exceeded; then no share is taken.
    pub fn take(self: &Arc<Self>, bounds: &[Bound<'_>], size: usize) -> Result<Share, Full> {
        let mut taken = self.taken();
        let passes = |&(of, most): &Bound<'_>| size > left(&taken, of, most);
        if let Some(at) = bounds.iter().position(passes) {
            return Err(Full(at));
        }
        let of: Vec<String> = bounds.iter().filter(|_| size > 0).map(|(of, _)| (*of).to_owned()).collect();
        for name in &of {
            *taken.entry(name.clone()).or_default() += size;
        }
        drop(taken);
        Ok(Share { shares: Arc::clone(self), of, size })
    }

    /// The free amount under a name.
    #[must_use]
    pub fn left(&self, (of, most): Bound<'_>) -> usize {
        left(&self.taken(), of, most)
    }

    fn taken(&self) -> MutexGuard<'_, BTreeMap<String, usize>> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn left(taken: &BTreeMap<String, usize>, of: &str, most: usize) -> usize {
    most.saturating_sub(taken.get(of).copied().unwrap_or(0))
}

/// A share, until it is dropped.
#[derive(Debug)]
pub struct Share {
    shares: Arc<Shares>,
    of: Vec<String>,
    size: usize,
}

impl Drop for Share {
    fn drop(&mut self) {
        let mut taken = self.shares.taken();
        for name in &self.of {
            if let Some(own) = taken.get_mut(name) {
                *own = own.saturating_sub(self.size);
                if *own == 0 {
                    taken.remove(name);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_leaves_some_for_others_and_what_is_dropped_is_free() {
        let shares = Arc::new(Shares::default());
        let take = |of: &str, size: usize| shares.take(&[(of, 4), ("all", 10)], size);
        let refused = |of: &str, size: usize| take(of, size).err();
        let first = take("ann", 3);
        assert_eq!(refused("ann", 2), Some(Full(0)));
        let second = take("ann", 1);
        let others = [take("bea", 4), take("cyn", 2)];
        assert_eq!((refused("dee", 1), refused("ann", 1)), (Some(Full(1)), Some(Full(0))));
        assert_eq!(refused("ann", usize::MAX), Some(Full(0)));
        drop(first);
        assert_eq!((refused("dee", 3), refused("dee", 4)), (None, Some(Full(1))));
        drop((second, others));
        assert!(shares.taken().is_empty(), "{shares:?}");
    }

    #[test]
    fn what_is_refused_counts_under_no_name() {
        let shares = Arc::new(Shares::default());
        let _all = shares.take(&[("all", 10)], 9).unwrap();
        assert_eq!(shares.take(&[("ann", 4), ("host", 8), ("all", 10)], 2).err(), Some(Full(2)));
        assert_eq!((shares.left(("ann", 4)), shares.left(("host", 8)), shares.left(("all", 10))), (4, 8, 1));
        // A share of nothing is no entry.
        let nothing = shares.take(&[("ann", 4)], 0).unwrap();
        assert_eq!(shares.taken().len(), 1, "{nothing:?}");
    }
}
