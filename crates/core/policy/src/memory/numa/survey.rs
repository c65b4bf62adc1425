//! All groups and free nodes as they are at one moment, with the room in each: read once for all questions that placing a
//! job has, so that the work grows with the nodes and jobs, and not with their product. Read only.
//!
//! Sums are kept in 128 bits and capped at the end, so that they are what the same sums in any order would be.

use crate::api::JobId;
use crate::cores::binding;
use crate::jobs::Job;
use crate::memory::numa::groups::{NodeGroup, Nodes, Wild};
use crate::memory::numa::placement;
use crate::rooms::Rooms;

/// A group of nodes, or a node that is in none.
#[derive(Debug, Clone, Copy)]
pub(super) struct Part<'a> {
    /// Its first node, or its only one.
    node: u32,
    /// `None`: the node is in no group.
    pub(super) group: Option<&'a NodeGroup>,
    /// What its nodes can still give to jobs, without what its jobs have there.
    pub(super) free: u128,
    /// That, and what its jobs have there.
    pub(super) usable: u64,
    /// What its jobs may come to need.
    pub(super) taken: u64,
    /// What jobs that are bound to no nodes may still take and look for here first,
    pub(super) wanted: u64,
    /// and the part of that which it has no room for.
    pub(super) spilled: u64,
}

impl<'a> Part<'a> {
    fn of(rooms: &Rooms, node: u32, group: Option<&'a NodeGroup>, wild: &Wild) -> Self {
        let mut part = Self { node, group, free: 0, usable: 0, taken: 0, wanted: 0, spilled: 0 };
        part.free = part.nodes().map(|node| u128::from(rooms.nodes.free_on(node))).sum();
        let held: u128 = match group {
            Some(group) => {
                part.taken = placement::taken(rooms, &group.jobs);
                group.jobs.iter().map(|&job| u128::from(rooms.nodes.held_on(job, &group.nodes))).sum()
            }
            None => 0,
        };
        part.usable = capped(part.free + held);
        part.wanted =
            part.nodes().filter_map(|node| wild.get(&node)).fold(0, |sum, &more| sum.saturating_add(more));
        part.spilled = part.wanted.saturating_sub(part.room());
        part
    }

    /// Its nodes, ascending.
    pub(super) fn nodes(&self) -> impl Iterator<Item = u32> + use<'a> {
        let alone = self.group.is_none().then_some(self.node);
        self.group.into_iter().flat_map(|group| &group.nodes).copied().chain(alone)
    }

    /// How many nodes it has.
    pub(super) fn count(&self) -> usize {
        self.group.map_or(1, |group| group.nodes.len())
    }

    /// What it has left beyond what its jobs may come to need, in bytes.
    pub(super) fn room(&self) -> u64 {
        self.usable.saturating_sub(self.taken)
    }

    /// The same as a group of its own.
    pub(super) fn to_group(self) -> NodeGroup {
        let alone = || NodeGroup { nodes: Nodes::from([self.node]), ..NodeGroup::default() };
        self.group.cloned().unwrap_or_else(alone)
    }
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Survey<'a> {
    pub(super) rooms: &'a Rooms,
    /// The groups by their first node, then the other nodes.
    pub(super) parts: Vec<Part<'a>>,
    wild: Wild,
    /// What jobs that are bound to no nodes may take of parts that are not those of their cores: what is spilled of all.
    spilled: u128,
}

impl<'a> Survey<'a> {
    /// As all is now, but that `except` takes nothing.
    pub(super) fn of(rooms: &'a Rooms, except: Option<JobId>) -> Self {
        let wild = wild(rooms, except);
        let groups = &rooms.nodes.chunks;
        let mut grouped: Vec<u32> = groups.iter().flat_map(|group| &group.nodes).copied().collect();
        grouped.sort_unstable();
        let mut parts =
            Vec::with_capacity(groups.len() + rooms.nodes.nodes.len().saturating_sub(grouped.len()));
        for group in groups {
            let first = group.nodes.first().copied().unwrap_or(0);
            parts.push(Part::of(rooms, first, Some(group), &wild));
        }
        let alone = rooms.nodes.nodes.keys().filter(|node| grouped.binary_search(node).is_err());
        parts.extend(alone.map(|&node| Part::of(rooms, node, None, &wild)));
        let spilled = parts.iter().map(|part| u128::from(part.spilled)).sum();
        Self { rooms, parts, wild, spilled }
    }

    /// How much may be taken of a part by jobs that are bound to no nodes: the kernel gives pages beside the cores as long
    /// as it has any there, and then from wherever it has some.
    pub(super) fn taken_by_others(&self, part: &Part<'_>) -> u64 {
        self.reach(u128::from(part.wanted), u128::from(part.spilled))
    }

    /// The same, of some nodes of a part.
    pub(super) fn taken_within(&self, part: &Part<'_>, nodes: &Nodes) -> u64 {
        let wanted = nodes.iter().filter_map(|node| self.wild.get(node)).map(|&more| u128::from(more)).sum();
        self.reach(wanted, u128::from(part.spilled))
    }

    /// The same, where so much is looked for first, and so much of all that is spilled is spilled from there itself.
    pub(super) fn reach(&self, wanted: u128, spilled: u128) -> u64 {
        capped(wanted + (self.spilled - spilled))
    }

    /// Whether a part has room for so much more, also when jobs that are bound to no nodes have taken what they may need.
    pub(super) fn has_room(&self, part: &Part<'_>, claim: u64) -> bool {
        part.room() >= claim.saturating_add(self.taken_by_others(part))
    }
}

/// A sum, as one that saturates has it.
pub(super) fn capped(sum: u128) -> u64 {
    u64::try_from(sum).unwrap_or(u64::MAX)
}

/// What jobs may still take that are bound to no nodes, by the node of their first core; not of `except`.
fn wild(rooms: &Rooms, except: Option<JobId>) -> Wild {
    let mut wild = Wild::new();
    let mut bound = rooms.nodes.bound().into_iter().peekable();
    // Both are by number.
    let unbound = |job: &&Job| {
        while bound.next_if(|bound| *bound < job.id()).is_some() {}
        bound.next_if_eq(&job.id()).is_none() && Some(job.id()) != except
    };
    for job in rooms.jobs.running().filter(unbound) {
        let more = placement::need(rooms, job).unwrap_or(0).saturating_sub(job.held.total());
        if more == 0 {
            continue;
        }
        let home = binding::cpus_of(&rooms.cores, &rooms.settings, job)
            .first()
            .and_then(|pu| rooms.nodes.node_of.get(&pu));
        // One that may go anywhere has no home; the first node is as good as any.
        if let Some(&home) = home.or_else(|| rooms.nodes.nodes.keys().next()) {
            let all = wild.entry(home).or_default();
            *all = all.saturating_add(more);
        }
    }
    wild
}

#[cfg(test)]
pub(crate) mod tests;
