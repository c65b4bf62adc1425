//! The cores and who is on them.
//!
//! Owns the machine, its grid, the reservations, who has a slot, and what is known of idleness, interference and
//! shapes. Absent: the jobs themselves.

use std::collections::BTreeSet;

use crate::api::{JobId, Machine, Ran};
use crate::cores::evenness::FairTail;
use crate::cores::grid::Grid;
use crate::cores::idleness::Idleness;
use crate::cores::load::OtherLoad;
use crate::cores::reservation::Reservation;
use crate::cores::running::RunningSet;
use crate::cores::trials::Trials;
use crate::cores::waits::Interference;
use crate::jobs::{Key, Live};

/// See the module's page.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub(crate) struct Host {
    pub(super) machine: Machine,
    pub(super) grid: Grid,
    /// Reserved cores, by name.
    pub(super) reservations: Vec<Reservation>,
    /// Jobs with a slot of the host's.
    pub(super) running: RunningSet,
    /// The exclusive job that has the host to itself.
    pub(super) exclusive: Option<JobId>,
    /// Slots taken by the running set.
    pub(super) used: usize,
    /// Which classes of jobs run faster apart.
    pub(super) trials: Trials,
    pub(super) idleness: Idleness,
    pub(super) interference: Interference,
    pub(super) evenness: FairTail,
    /// What processes use that are no jobs.
    #[serde(default)]
    pub(super) others: OtherLoad,
    /// Parents of other jobs that use no core, as last told.
    #[serde(default)]
    pub(super) idle: BTreeSet<JobId>,
    /// Jobs that run without slots, which they lent to nested jobs.
    #[serde(default)]
    pub(super) lent: BTreeSet<JobId>,
    /// Who has a slot, or where, changed since [`Self::take_touched`] was asked.
    #[serde(default)]
    pub(super) touched: bool,
}

impl Host {
    /// A job that has started has another priority.
    pub(crate) fn set_priority(&mut self, live: &Live, priority: u8) {
        if let Some(before) = live.key.filter(|_| live.aside.is_none()) {
            self.running.remove(&before);
            self.running.insert(&Key { priority, ..before });
        }
        self.evenness.touch();
    }

    /// Takes in which parents of other jobs use no core.
    pub(crate) fn set_idle(&mut self, jobs: Vec<JobId>) {
        self.idle = jobs.into_iter().collect();
    }

    /// Takes in how idle each core was.
    pub(crate) fn sample(&mut self, idle_milli: &[u16]) {
        self.grid.sample(idle_milli);
    }

    /// A job is over whose cores lay one way from its start to its end.
    pub(crate) fn ran(&mut self, ran: Ran) {
        self.trials.ended(ran);
    }

    /// Who has a slot, or where, changed: what follows from that is to be looked at again.
    pub(crate) fn touch(&mut self) {
        self.touched = true;
        self.evenness.touch();
    }

    /// Whether who has a slot, or where, changed since this was last asked.
    pub(crate) fn take_touched(&mut self) -> bool {
        std::mem::take(&mut self.touched)
    }

    pub(crate) fn machine(&self) -> &Machine {
        &self.machine
    }

    pub(crate) fn grid(&self) -> &Grid {
        &self.grid
    }

    pub(crate) fn reservations(&self) -> &[Reservation] {
        &self.reservations
    }

    /// Number of cores that jobs outside of sets can ever have: those of now, of sets that pass, and of neighbours.
    pub(crate) fn cores_in_time(&self) -> usize {
        let passing = self.reservations.iter().filter(|set| set.passes);
        self.grid.len() + passing.map(|set| set.cores.len()).sum::<usize>() + self.machine.neighbours_cores
    }

    pub(crate) fn idle(&self) -> &BTreeSet<JobId> {
        &self.idle
    }

    pub(crate) fn lent(&self) -> &BTreeSet<JobId> {
        &self.lent
    }

    pub(crate) fn running(&self) -> &RunningSet {
        &self.running
    }

    pub(crate) fn exclusive(&self) -> Option<JobId> {
        self.exclusive
    }

    pub(crate) fn used(&self) -> usize {
        self.used
    }

    pub(crate) fn trials(&self) -> &Trials {
        &self.trials
    }

    pub(crate) fn others(&self) -> &OtherLoad {
        &self.others
    }

    pub(crate) fn interference(&self) -> &Interference {
        &self.interference
    }
}
