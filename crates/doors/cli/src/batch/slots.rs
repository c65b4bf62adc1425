//! The slots of a batch: each line that runs has the lowest number, from 1, that no other line has.

use std::collections::BTreeMap;

/// The slots of running lines, by their tickets.
#[derive(Debug, Default)]
pub(super) struct Slots(BTreeMap<u64, u32>);

impl Slots {
    /// The slot of a line; a line without a slot gets the lowest.
    pub(super) fn of(&mut self, ticket: u64) -> u32 {
        let free = |slot: &u32| self.0.values().all(|taken| taken != slot);
        let lowest = (1..).find(free).unwrap_or_default();
        *self.0.entry(ticket).or_insert(lowest)
    }

    /// A line runs no longer.
    pub(super) fn free(&mut self, ticket: u64) {
        self.0.remove(&ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_that_is_free_is_taken_again() {
        let mut slots = Slots::default();
        assert_eq!([7, 8, 9, 8].map(|ticket| slots.of(ticket)), [1, 2, 3, 2]);
        slots.free(8);
        assert_eq!([10, 11, 7].map(|ticket| slots.of(ticket)), [2, 4, 1]);
    }
}
