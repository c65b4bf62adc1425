//! The lists of countable resources that waiting jobs ask for: many ask for the same, and a number stands for each list.
//! Absent: what is free of them (`resources`).

use std::collections::BTreeMap;

use crate::api::Amount;

/// The lists of resources that jobs in the queues ask for, each by a number that stands in [`Demand`].
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct WantedLists {
    /// Found anew after a state was read: then a list may have two numbers for a while, which changes nothing.
    #[serde(skip)]
    numbers: BTreeMap<Vec<Amount>, u64>,
    /// Each with how many jobs ask for it.
    lists: BTreeMap<u64, (Vec<Amount>, usize)>,
}

impl WantedLists {
    /// A job with this list enters a queue; gives the list's number, 0 where it is empty.
    pub(super) fn join(&mut self, list: &[Amount]) -> u64 {
        if list.is_empty() {
            return 0;
        }
        if let Some(&number) = self.numbers.get(list)
            && let Some((_, jobs)) = self.lists.get_mut(&number)
        {
            *jobs += 1;
            return number;
        }
        let number = self.lists.last_key_value().map_or(0, |(&number, _)| number) + 1;
        self.numbers.insert(list.to_vec(), number);
        self.lists.insert(number, (list.to_vec(), 1));
        number
    }

    /// A job leaves its queue.
    pub(super) fn leave(&mut self, number: u64) {
        let Some((_, jobs)) = self.lists.get_mut(&number) else { return };
        *jobs -= 1;
        if *jobs == 0
            && let Some((list, _)) = self.lists.remove(&number)
            && self.numbers.get(&list) == Some(&number)
        {
            self.numbers.remove(&list);
        }
    }

    pub(super) fn list(&self, number: u64) -> &[Amount] {
        self.lists.get(&number).map_or(&[], |(list, _)| list)
    }
}
