//! The queues: the host's, one for each reservation, and the arrays whose members stand in them.

use crate::api::Amount;
use crate::jobs::Entry;
use crate::queue::arrays::Arrays;
use crate::queue::order::Queue;
use crate::queue::wanted::WantedLists;

/// See the module's page.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Queues {
    host: Queue,
    /// Of the reservations, in their order.
    reserved: Vec<Queue>,
    pub(super) arrays: Arrays,
    /// The countable resources that those that stand in them ask for.
    #[serde(default)]
    pub(super) wanted: WantedLists,
}

impl Queues {
    pub(crate) fn host(&self) -> &Queue {
        &self.host
    }

    /// The queue of a reservation, by its place among all; `None`: the host's.
    pub(crate) fn of(&self, at: Option<usize>) -> &Queue {
        at.map_or(&self.host, |at| &self.reserved[at])
    }

    /// All queues: the host's, then those of the reservations in their order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &Queue> {
        std::iter::once(&self.host).chain(&self.reserved)
    }

    /// There are so many reservations now; nobody stands in their queues.
    pub(crate) fn renew_reserved(&mut self, count: usize) {
        self.reserved = (0..count).map(|_| Queue::default()).collect();
    }

    /// A new job is to stand in a queue and asks for these resources.
    pub(crate) fn ask_for(&mut self, entry: &mut Entry, resources: &[Amount]) {
        entry.shape.resources = self.wanted.join(resources);
    }

    pub(crate) fn insert(&mut self, at: Option<usize>, entry: &Entry) {
        self.of_mut(at).insert(entry);
        if let Some(array) = entry.shape.array {
            self.arrays.enqueued(array, entry.job);
        }
    }

    pub(super) fn remove(&mut self, at: Option<usize>, entry: &Entry) {
        self.of_mut(at).remove(entry);
        if let Some(array) = entry.shape.array {
            self.arrays.dequeued(array, entry.job);
        }
    }

    fn of_mut(&mut self, at: Option<usize>) -> &mut Queue {
        at.map_or(&mut self.host, |at| &mut self.reserved[at])
    }

    pub(crate) fn arrays(&self) -> &Arrays {
        &self.arrays
    }

    pub(crate) fn arrays_mut(&mut self) -> &mut Arrays {
        &mut self.arrays
    }
}
