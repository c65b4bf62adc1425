//! Process trees: each begins with a child of a keeper, or with a process found in a job's container, and grows by
//! forks. A tree lives as long as its processes, and has no job until a job claims it.

use std::collections::BTreeSet;

use pinfold_proto::row::ProcessRow;

use super::Census;
use super::roll::{Roll, add};

/// How long an unclaimed tree is kept, in microseconds, once no job runs.
pub(super) const UNCLAIMED_US: u64 = 10_000_000;
/// Most rows of ended processes in unclaimed trees, some 400 bytes each; further rows are added up by tree. The bound
/// matters because any user can have a keeper that forks for no job.
pub(super) const UNCLAIMED_KEPT: usize = 10_000;

/// A process and its descendants.
#[derive(Debug)]
pub(super) struct Tree {
    pub(super) job: Option<u64>,
    pub(super) since_us: u64,
    /// Ended processes of an unclaimed tree.
    pub(super) over: Vec<ProcessRow>,
    /// The sum of further ended processes.
    pub(super) rest: Option<Box<ProcessRow>>,
    pub(super) born: u64,
    /// Its living processes.
    pub(super) pids: BTreeSet<u32>,
}

impl Census {
    /// Drops trees not claimed in time.
    pub fn sweep(&mut self, now_us: u64) {
        self.drop_unclaimed(|tree| tree.since_us + UNCLAIMED_US < now_us);
    }

    /// Drops the unclaimed trees that match.
    pub(super) fn drop_unclaimed(&mut self, is_meant: impl Fn(&Tree) -> bool) {
        let unclaimed = self.trees.iter().filter(|(_, tree)| tree.job.is_none() && is_meant(tree));
        let dropped: BTreeSet<u64> = unclaimed.map(|(id, _)| *id).collect();
        if dropped.is_empty() {
            return;
        }
        dropped.iter().for_each(|tree| self.remove_tree(*tree));
        self.members.retain(|_, generations| {
            generations.retain(|member| member.as_ref().is_none_or(|one| !dropped.contains(&one.tree)));
            generations.iter().any(Option::is_some)
        });
    }

    pub(super) fn job_of(&self, tree: u64) -> Option<&Roll> {
        self.jobs.get(&self.trees.get(&tree)?.job?)
    }

    pub(super) fn plant(&mut self, job: Option<u64>, now_us: u64) -> u64 {
        self.next_tree += 1;
        if let Some(job) = job {
            self.jobs.entry(job).or_default().trees.insert(self.next_tree);
        }
        let (over, rest) = (Vec::new(), None);
        let tree = Tree { job, since_us: now_us, over, rest, born: 0, pids: BTreeSet::new() };
        self.trees.insert(self.next_tree, tree);
        self.next_tree
    }

    /// Forgets a tree of which no process is followed any more.
    pub(super) fn remove_tree(&mut self, tree: u64) {
        let Some(of) = self.trees.remove(&tree) else { return };
        self.unclaimed -= of.over.len();
        if let Some(roll) = of.job.and_then(|job| self.jobs.get_mut(&job)) {
            roll.trees.remove(&tree);
        }
    }

    /// Gives an unclaimed tree to a job.
    pub(super) fn claim(&mut self, tree: u64, job: u64) {
        let Some(of) = self.trees.get_mut(&tree) else { return };
        if of.job.is_some() {
            return;
        }
        of.job = Some(job);
        let roll = self.jobs.entry(job).or_default();
        roll.trees.insert(tree);
        let before = roll.next_number;
        roll.next_number += of.born;
        roll.total += of.born;
        self.unclaimed -= of.over.len();
        for mut row in std::mem::take(&mut of.over) {
            row.number += before;
            roll.keep(row, job);
        }
        if let Some(mut rest) = of.rest.take() {
            rest.number += before;
            roll.keep_sum(*rest, job);
        }
        for pid in &of.pids {
            for member in self.members.get_mut(pid).into_iter().flatten().flatten() {
                if member.tree == tree {
                    member.row.number += before;
                }
            }
        }
    }

    pub(super) fn file(&mut self, tree: u64, row: ProcessRow) {
        let Some(of) = self.trees.get_mut(&tree) else { return };
        match of.job {
            Some(job) => self.jobs.entry(job).or_default().keep(row, job),
            None if self.unclaimed < UNCLAIMED_KEPT => {
                self.unclaimed += 1;
                of.over.push(row);
            }
            None => match &mut of.rest {
                Some(rest) => add(rest, &row),
                None => of.rest = Some(Box::new(row)),
            },
        }
    }
}
