//! What is remembered of classes of jobs, user by user: no user makes others' classes be forgotten.
//!
//! A user has half of the places at most. For a new class the one that was looked up for change longest ago is forgotten:
//! the user's own where the user has its half, else one of the user who has the most places. Owns the order of use. Absent:
//! what is remembered, which is the caller's.

use std::collections::{BTreeMap, BTreeSet};

use crate::api::Key;

/// Values by class, of at most `MOST` classes.
#[derive(Debug, Clone, serde::Serialize, serde::Deserialize)]
pub(crate) struct Remembered<V, const MOST: usize> {
    /// With the turn in which each was changed last.
    values: BTreeMap<Key, (V, u64)>,
    /// The classes of each user, that which was changed longest ago first.
    turns: BTreeMap<(u32, u64), u64>,
    /// How many each user has,
    counts: BTreeMap<u32, usize>,
    /// and the users by that.
    users: BTreeSet<(usize, u32)>,
    turn: u64,
}

impl<V, const MOST: usize> Default for Remembered<V, MOST> {
    fn default() -> Self {
        Self {
            values: BTreeMap::new(),
            turns: BTreeMap::new(),
            counts: BTreeMap::new(),
            users: BTreeSet::new(),
            turn: 0,
        }
    }
}

impl<V, const MOST: usize> Remembered<V, MOST> {
    /// What is known of a class.
    pub(crate) fn get(&self, key: Key) -> Option<&V> {
        self.values.get(&key).map(|(value, _)| value)
    }

    /// What is known of a class, to be changed, if anything is. That is no use of it: it is forgotten in its turn.
    pub(crate) fn peek_mut(&mut self, key: Key) -> Option<&mut V> {
        self.values.get_mut(&key).map(|(value, _)| value)
    }

    /// What is known of a class, to be changed; made for it if nothing is, for which another may be forgotten.
    pub(crate) fn of(&mut self, key: Key, new: impl FnOnce() -> V) -> &mut V {
        self.turn += 1;
        if let Some((_, turn)) = self.values.get(&key) {
            self.turns.remove(&(key.0, *turn));
        } else {
            self.make_place(key.0);
            self.count(key.0, |count| count + 1);
        }
        self.turns.insert((key.0, self.turn), key.1);
        let (value, turn) = self.values.entry(key).or_insert_with(|| (new(), 0));
        *turn = self.turn;
        value
    }

    /// Takes in what is known of a class now; gives what was.
    pub(crate) fn insert(&mut self, key: Key, value: V) -> Option<V> {
        if self.values.contains_key(&key) {
            return Some(std::mem::replace(self.of(key, || unreachable!("it is there")), value));
        }
        self.of(key, || value);
        None
    }

    /// Forgets a class.
    pub(crate) fn remove(&mut self, key: Key) -> Option<V> {
        let (value, turn) = self.values.remove(&key)?;
        self.turns.remove(&(key.0, turn));
        self.count(key.0, |count| count - 1);
        Some(value)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.values.len()
    }

    fn make_place(&mut self, user: u32) {
        let own = self.counts.get(&user).copied().unwrap_or(0);
        let largest = self.users.last().map(|&(_, user)| user);
        let from = if own >= MOST.div_ceil(2) { Some(user) } else { largest };
        if (own < MOST.div_ceil(2) && self.values.len() < MOST) || from.is_none() {
            return;
        }
        let Some(from) = from else { return };
        let oldest = self.turns.range((from, 0)..=(from, u64::MAX)).next().map(|(_, &class)| class);
        oldest.and_then(|class| self.remove((from, class)));
    }

    fn count(&mut self, user: u32, change: impl FnOnce(usize) -> usize) {
        let old = self.counts.get(&user).copied().unwrap_or(0);
        self.users.remove(&(old, user));
        let new = change(old);
        if new == 0 {
            self.counts.remove(&user);
        } else {
            self.counts.insert(user, new);
            self.users.insert((new, user));
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_user_loses_the_oldest_of_its_own() {
        let mut known: Remembered<u64, 8> = Remembered::default();
        known.insert((1, 7), 70);
        for class in 0..1_000 {
            known.insert((2, class), class);
        }
        assert_eq!((known.len(), known.get((1, 7))), (5, Some(&70)));
        assert!((996..1_000).all(|class| known.get((2, class)) == Some(&class)));
        // What was changed lately stays.
        *known.of((2, 996), || 0) += 1;
        known.insert((2, 1_000), 0);
        assert_eq!((known.get((2, 996)), known.get((2, 997))), (Some(&997), None));
    }

    #[test]
    fn who_has_the_most_makes_place_for_others() {
        let mut known: Remembered<(), 8> = Remembered::default();
        for (user, class) in (1..=2).flat_map(|user| (0..4).map(move |class| (user, class))) {
            known.insert((user, class), ());
        }
        known.insert((3, 0), ());
        known.insert((3, 1), ());
        let of = |user| (0..4).filter(|&class| known.get((user, class)).is_some()).count();
        assert_eq!((of(1), of(2), of(3)), (3, 3, 2));
    }

    proptest! {
        /// Whatever is asked for, there are so many at most, and the orders hold the same classes.
        #[test]
        fn the_bounds_hold(steps in prop::collection::vec((0u32..4, 0u64..12, 0u8..3), 0..200)) {
            let mut known: Remembered<u64, 6> = Remembered::default();
            for (user, class, what) in steps {
                match what {
                    0 => _ = known.remove((user, class)),
                    1 => _ = known.insert((user, class), class),
                    _ => *known.of((user, class), || class) = class,
                }
                prop_assert!(known.len() <= 6);
                prop_assert_eq!(known.turns.len(), known.len());
                prop_assert_eq!(known.counts.values().sum::<usize>(), known.len());
                prop_assert_eq!(known.users.len(), known.counts.len());
                prop_assert!(known.counts.values().all(|&count| (1..=3).contains(&count)));
                let agrees = known.values.iter().all(|(key, (value, turn))| {
                    *value == key.1 && known.turns.get(&(key.0, *turn)) == Some(&key.1)
                });
                prop_assert!(agrees);
            }
        }
    }
}
