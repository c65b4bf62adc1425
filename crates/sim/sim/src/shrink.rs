//! Reduces a failing episode until each remaining item is needed: of dozens of jobs, disturbances and kinds of faults
//! mostly a handful. The rest is written as a text that plays it again.
//!
//! The search is Zeller's delta debugging (2002): leave halves out, then quarters, and so on; it ends when no single item
//! can be left out. Removing an item changes all later random numbers, so the rest is a smaller history that breaks the
//! same promise, not a piece of the first.

use crate::only::Item;
use crate::violation::Violation;

pub use crate::only::{Fault, NotOnly, Only};

/// The most histories played in a search.
const TRIES_MAX: u32 = 3_000;

/// Reduces an episode with these jobs and disturbances that broke `violation`'s promise: the rest breaks it too, and would
/// not without any of its items. `play` returns the broken promise of a smaller episode.
pub fn shrink(
    jobs: u64,
    upsets: u64,
    violation: &Violation,
    mut play: impl FnMut(&Only) -> Option<Violation>,
) -> Only {
    let all: Vec<Item> = (1..=jobs)
        .map(Item::Job)
        .chain((0..upsets).map(Item::Upset))
        .chain(Fault::ALL.map(Item::Fault))
        .collect();
    let mut tries = 0;
    let kept = minimal(all, |items| {
        tries += 1;
        tries <= TRIES_MAX && play(&Only::of(items)).is_some_and(|found| found.rule == violation.rule)
    });
    Only::of(&kept)
}

/// The smallest part of `all` found that `fails`, as `all` does.
fn minimal<T: Copy>(mut all: Vec<T>, mut fails: impl FnMut(&[T]) -> bool) -> Vec<T> {
    let mut pieces = 2;
    while !all.is_empty() {
        let size = all.len().div_ceil(pieces);
        let mut smaller = None;
        for start in (0..all.len()).step_by(size) {
            let rest: Vec<T> = all
                .iter()
                .enumerate()
                .filter(|(at, _)| !(start..start + size).contains(at))
                .map(|(_, &x)| x)
                .collect();
            if fails(&rest) {
                smaller = Some(rest);
                break;
            }
        }
        match smaller {
            Some(rest) => {
                all = rest;
                pieces = pieces.saturating_sub(1).max(2);
            }
            None if size == 1 => break,
            None => pieces = (pieces * 2).min(all.len()),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_needed_items_are_left() {
        let mut tries = 0;
        let all: Vec<u32> = (0..500).collect();
        let left = minimal(all, |some| {
            tries += 1;
            [3, 77, 402].iter().all(|needed| some.contains(needed))
        });
        assert_eq!(left, [3, 77, 402]);
        assert!(tries < 150, "{tries}");
        assert_eq!(minimal(vec![1, 2, 3], |_| true), []);
        assert_eq!(minimal(vec![1, 2, 3], |some| some.len() == 3), [1, 2, 3]);
        // Of two that do, a single item is left.
        assert_eq!(minimal((0..10).collect(), |some| some.contains(&4) || some.contains(&8)), [8]);
    }
}
