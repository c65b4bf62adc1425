//! The random numbers of an episode, all from a single seed.

use rand_core::{RngCore, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// The source of chance. The generator is named so that a seed means the same history for ever.
#[derive(Debug, Clone)]
pub struct Dice(Pcg64Mcg);

impl Dice {
    /// The dice of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// A number from 0 to `bound - 1`; 0 if `bound` is 0. The bias of the remainder is below 2^-40 for the
    /// bounds used here.
    pub fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.0.next_u64() % bound }
    }

    /// A number from `low` to `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Whether an event of this probability, in thousandths, occurs.
    pub fn chance(&mut self, permille: u32) -> bool {
        self.below(1000) < u64::from(permille)
    }

    /// A random item.
    ///
    /// # Panics
    /// If there are none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        assert!(!items.is_empty(), "there is something to pick from");
        let index = self.below(items.len() as u64);
        items[usize::try_from(index).expect("below a usize")]
    }

    /// A number around `mean`: most below it, some far above, none above ten times it; at least 1.
    pub fn around(&mut self, mean: u64) -> u64 {
        let spread = self.pick(&[1, 2, 5, 10, 10, 20, 40, 100]);
        (mean * self.between(1, spread) / 10).max(1)
    }
}
