//! On which host a job that waits at the head of the queue would fit first.
//!
//! A table for each recently requested size has the estimated time at which every host will have room. Between two requests
//! few hosts change, and only their entries are updated: updating all would make a run's cost grow with jobs times hosts.

use std::collections::BTreeSet;

use crate::Micros;
use crate::hosts::Host;

/// Sizes of which a table is kept.
const TABLES: usize = 24;
/// Changes kept for each host. A table that missed more is built anew.
const CHANGES_PER_HOST: usize = 4;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Tables {
    tables: Vec<Table>,
    /// Hosts that changed, the latest at the end,
    changes: Vec<u32>,
    /// and how many changes were forgotten before.
    forgotten: u64,
    questions: u64,
}

#[derive(Debug)]
struct Table {
    processors: u32,
    memory: u64,
    /// When each host is believed to have room; 0: it has now.
    at_us: Vec<Micros>,
    order: BTreeSet<(Micros, u32)>,
    /// The changes that it has seen,
    seen: u64,
    /// and the last question that it answered.
    asked: u64,
}

impl Tables {
    /// Something started or ended on a host.
    pub(crate) fn changed(&mut self, host: u32) {
        if !self.tables.is_empty() {
            self.changes.push(host);
        }
    }

    /// The host with the earliest estimated time at which these slots and this memory are free, the lowest of several.
    pub(crate) fn first(&mut self, hosts: &[Host], slots: u32, processors: u32, memory: u64) -> u32 {
        if hosts.len() == 1 {
            return 0;
        }
        if self.changes.len() > CHANGES_PER_HOST * hosts.len() {
            self.forget(hosts.len());
        }
        self.questions += 1;
        let end = self.forgotten + self.changes.len() as u64;
        let same = |table: &Table| table.processors == processors && table.memory == memory;
        let place = match self.tables.iter().position(same) {
            Some(place) => place,
            None => self.add(hosts, slots, processors, memory),
        };
        let table = &mut self.tables[place];
        if table.seen < self.forgotten {
            *table = Table::new(hosts, slots, processors, memory);
        } else {
            let from = usize::try_from(table.seen - self.forgotten).unwrap_or(usize::MAX);
            for &host in self.changes.get(from..).unwrap_or_default() {
                table.look_at(hosts, slots, host);
            }
        }
        (table.seen, table.asked) = (end, self.questions);
        table.order.first().map_or(0, |&(_, host)| host)
    }

    fn add(&mut self, hosts: &[Host], slots: u32, processors: u32, memory: u64) -> usize {
        if self.tables.len() == TABLES
            && let Some(oldest) = (0..TABLES).min_by_key(|&place| self.tables[place].asked)
        {
            self.tables.swap_remove(oldest);
        }
        let mut table = Table::new(hosts, slots, processors, memory);
        table.seen = self.forgotten + self.changes.len() as u64;
        self.tables.push(table);
        self.tables.len() - 1
    }

    /// Keeps the later half of the changes.
    fn forget(&mut self, hosts: usize) {
        let gone = self.changes.len().saturating_sub(CHANGES_PER_HOST * hosts / 2);
        self.changes.drain(..gone);
        self.forgotten += gone as u64;
    }
}

impl Table {
    fn new(hosts: &[Host], slots: u32, processors: u32, memory: u64) -> Self {
        let at_us: Vec<Micros> =
            hosts.iter().map(|host| host.fits_at(slots, processors, memory, 0).0).collect();
        let order = at_us.iter().copied().zip(0..).collect();
        Self { processors, memory, at_us, order, seen: 0, asked: 0 }
    }

    fn look_at(&mut self, hosts: &[Host], slots: u32, host: u32) {
        let at = &mut self.at_us[host as usize];
        let now = hosts[host as usize].fits_at(slots, self.processors, self.memory, 0).0;
        if *at != now {
            self.order.remove(&(*at, host));
            self.order.insert((now, host));
            *at = now;
        }
    }
}
