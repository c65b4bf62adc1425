//! Assigns processes to jobs and adds up their usage: births, ends and samples in, rows out. Pure.
//!
//! A process belongs to the job of the process that forked it. A keeper forks the first process of a job, which may
//! fork others before the daemon learns its job: so each child of a keeper begins a *tree*, and [`Census::bind`]
//! assigns the tree to a job, with all its events so far. Samples fill gaps: an unknown process in a job's container
//! is added.
//!
//! Process numbers are reused. The kernel reports events of the same number in order, so an end belongs to the oldest
//! process of that number that has not ended; see `ends` for late ends.
//!
//! Rows are bounded: of processes that lived for less than [`SHORT_US`] only the first [`SHORT_KEPT`] of a job have
//! rows of their own, of others the first [`LONG_KEPT`]; the rest is added up by command. Sums are complete. Owner of
//! state: [`Census`]. Absent here: the event sources, clocks, the store.

mod ends;
mod member;
mod roll;
mod trees;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pinfold_proto::row::{Counts, ProcessRow, ProcessShare, ProcessSource, ProcessUsage};

use member::Member;
use roll::Roll;
use trees::Tree;

/// Shorter-lived processes are added up by command, beyond the first [`SHORT_KEPT`].
pub const SHORT_US: u64 = 1_000_000;
/// So many short-lived processes of a job have rows of their own.
pub const SHORT_KEPT: u64 = 200;
/// Longer-lived processes of a job with rows of their own.
pub const LONG_KEPT: u64 = 5_000;
/// Most living processes listed singly.
pub const LIVING_TOLD: usize = 4_096;
/// Most commands distinguished in sums; further commands are added up together.
pub const COMMANDS_KEPT: usize = 100;
/// The command name of that sum.
pub const OTHERS: &str = "(others)";

/// Births and ends known beside samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// None, or incomplete: samples decide.
    Nothing,
    /// All kernel events so far. An unknown or missing process may only be ahead of its event, so a sample's finding
    /// counts the second time.
    All,
    /// A part of the kernel events: the event of an unknown or missing process may be in the rest.
    InPart,
}

/// Consecutive samples that must miss a process before it counts as ended without an end event. A single miss may be
/// a race between sample and event.
const MISSED_MAX: u8 = 2;

/// The end of a thread, or of a whole process if the source reports no threads.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct End {
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Whether the process ends with this thread.
    pub is_last: bool,
    /// Its exit code.
    pub exit_code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// The kernel's name of it; empty: not reported.
    pub name: String,
    /// How long the process lived, in microseconds; 0: not reported.
    pub lived_us: u64,
    /// Usage of the thread; `None`: not reported.
    pub used: Option<ProcessUsage>,
}

/// A process in a sample.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// The process.
    pub pid: u32,
    /// Its parent.
    pub parent: u32,
    /// Its command line, if read in this sample.
    pub command: Option<String>,
    /// When it started.
    pub started_us: u64,
    /// Threads now.
    pub threads: u64,
    /// Its usage so far.
    pub used: ProcessUsage,
}

/// See the module's page.
#[derive(Debug, Default)]
pub struct Census {
    /// By number; `None` marks a process of no job that reuses a member's number.
    members: BTreeMap<u32, VecDeque<Option<Member>>>,
    trees: BTreeMap<u64, Tree>,
    jobs: BTreeMap<u64, Roll>,
    keepers: BTreeMap<u32, Keeper>,
    next_tree: u64,
    /// Rows in unassigned trees.
    unclaimed: usize,
    /// Whether lost events may concern processes with a birth not yet read.
    has_gap: bool,
}

/// A process that forks the first processes of jobs.
#[derive(Debug)]
struct Keeper {
    /// A process may keep jobs on several connections.
    connections: u32,
    /// The first tree number after registration: earlier trees grew from another process with its number.
    trees_before: u64,
    /// Whether its end would be reported.
    traced: bool,
}

impl Census {
    /// Registers a keeper connection of this process, which forks the first processes of jobs.
    pub fn keeper(&mut self, pid: u32) {
        let new = Keeper { connections: 0, trees_before: self.next_tree, traced: !self.has_gap };
        self.keepers.entry(pid).or_insert(new).connections += 1;
    }

    /// Closes a keeper's connection; the last one removes the keeper.
    pub fn keeper_gone(&mut self, pid: u32) {
        let Some(keeper) = self.keepers.get_mut(&pid) else { return };
        keeper.connections -= 1;
        if keeper.connections == 0 {
            self.keepers.remove(&pid);
        }
    }

    /// Continues a job of an earlier daemon: its `total` processes, the ended processes known, and the last row
    /// number.
    pub fn resume(&mut self, job: u64, total: u64, last_number: u64, known: &[ProcessRow]) {
        let roll = self.jobs.entry(job).or_default();
        known.iter().for_each(|row| roll.sum.add(&row.used));
        // The end of a process in the meantime went unreported.
        roll.uncounted += 1;
        roll.total = roll.total.max(total);
        roll.next_number = roll.next_number.max(last_number);
        roll.long_kept = roll.long_kept.max(last_number.min(LONG_KEPT));
    }

    /// A process was forked.
    pub fn born(&mut self, pid: u32, parent: u32, at_us: u64) {
        let is_traced = !self.has_gap;
        if let Some(member) = self.last_mut(pid)
            && !member.heard
        {
            (member.heard, member.traced) = (true, is_traced);
            member.row.parent = Some(parent);
            member.row.started_us = member.row.started_us.or(Some(at_us));
            return;
        }
        let tree = match self.last(parent).map(|member| member.tree) {
            Some(tree) => tree,
            None if self.keepers.contains_key(&parent) => self.plant(None, at_us),
            None => {
                // A process of no job; the marker keeps the next end of this number from the older process.
                if let Some(generations) = self.members.get_mut(&pid) {
                    generations.push_back(None);
                }
                return;
            }
        };
        self.enter(pid, Some(parent), tree, Some(at_us));
        if let Some(member) = self.last_mut(pid) {
            (member.heard, member.traced) = (true, is_traced);
        }
    }

    /// Assigns the tree that begins with this process to the job.
    pub fn bind(&mut self, pid: u32, job: u64, now_us: u64) {
        self.jobs.entry(job).or_default();
        match self.last(pid).map(|member| member.tree) {
            Some(tree) => self.claim(tree, job),
            None => {
                let tree = self.plant(Some(job), now_us);
                self.enter(pid, None, tree, None);
            }
        }
    }

    /// Events were lost beyond the events reported so far: only the newest process of each number can still be
    /// followed.
    pub fn lost(&mut self, now_us: u64) {
        let doubtful: Vec<u32> =
            self.members.iter().filter(|(_, all)| all.len() > 1).map(|(pid, _)| *pid).collect();
        // A lost birth may have reused an ended number.
        self.jobs.values_mut().for_each(|roll| roll.over.clear());
        self.untrace();
        for pid in doubtful {
            while self.members.get(&pid).is_some_and(|all| all.len() > 1) {
                self.pop(&End { pid, is_last: true, ..End::default() }, now_us);
            }
            if self.members.get(&pid).is_some_and(|all| all.iter().all(Option::is_none)) {
                self.members.remove(&pid);
            }
        }
        // No sample covers unassigned processes, so they would stay until their number is reused.
        self.drop_unclaimed(|_| true);
    }

    /// A sample of a job: all living processes, ascending, and the processes that were read.
    pub fn sampled(&mut self, job: u64, alive: &[u32], seen: &[Seen], told: Told, now_us: u64) {
        let roll = self.jobs.entry(job).or_default();
        let before = std::mem::take(&mut roll.unknown);
        roll.still_listed(alive, seen, told != Told::Nothing);
        let mut unknown = BTreeSet::new();
        for &pid in alive {
            match self.last(pid).map(|member| member.tree) {
                Some(tree) => self.claim(tree, job),
                None if self.jobs.get(&job).is_some_and(|roll| roll.over.contains_key(&pid)) => {}
                None if told == Told::InPart => {}
                None if told == Told::All && !before.contains(&pid) => drop(unknown.insert(pid)),
                None => {
                    let tree = self.plant(Some(job), now_us);
                    self.enter(pid, None, tree, None);
                }
            }
        }
        self.jobs.entry(job).or_default().unknown = unknown;
        for seen in seen {
            if let Some(member) = self.last_mut(seen.pid) {
                member.see(seen);
            }
        }
        self.miss(job, alive, told, now_us);
    }

    /// The PSS of a living process at that time. A reading from before its start belongs to an earlier process of its
    /// number.
    pub fn divided(&mut self, pid: u32, bytes: u64, at_us: u64) {
        let Some(member) = self.last_mut(pid) else { return };
        if member.row.started_us.is_none_or(|started_us| started_us <= at_us) {
            let peak_bytes = member.row.share.map_or(bytes, |share| share.peak_bytes.max(bytes));
            member.row.share = Some(ProcessShare { time_us: at_us, bytes, peak_bytes });
        }
    }

    /// Ends processes that samples no longer see.
    fn miss(&mut self, job: u64, alive: &[u32], told: Told, now_us: u64) {
        let missed_max = match told {
            Told::Nothing => 1,
            Told::InPart => return,
            Told::All => MISSED_MAX,
        };
        for pid in self.pids(job) {
            let Some(Some(member)) = self.members.get_mut(&pid).and_then(VecDeque::front_mut) else {
                continue;
            };
            let is_alive = alive.binary_search(&pid).is_ok();
            // A living process may be missing from listings made just before its birth, even twice. Its end will be
            // reported.
            let may_be_later = told == Told::All
                && member.row.started_us.is_some_and(|at_us| at_us.saturating_add(SHORT_US) > now_us);
            member.missed = if is_alive || may_be_later { 0 } else { member.missed.saturating_add(1) };
            if member.missed >= missed_max {
                self.pop(&End { pid, is_last: true, ..End::default() }, now_us);
            }
        }
    }

    /// The living processes of a job.
    fn pids(&self, job: u64) -> Vec<u32> {
        let trees = self.jobs.get(&job).into_iter().flat_map(|roll| &roll.trees);
        trees.filter_map(|tree| self.trees.get(tree)).flat_map(|tree| &tree.pids).copied().collect()
    }

    /// How many processes the job has had so far.
    #[must_use]
    pub fn total(&self, job: u64) -> u64 {
        self.jobs.get(&job).map_or(0, |roll| roll.total)
    }

    /// Totals of all processes of a job; living processes as of the last sample. Waits and context switches appear
    /// once no process lives, and only if the kernel reported each process.
    #[must_use]
    pub fn counts(&self, job: u64) -> Counts {
        let Some(roll) = self.jobs.get(&job) else { return Counts::default() };
        let mut sum = roll.sum;
        let living = self.pids(job);
        for &pid in &living {
            self.last(pid).iter().for_each(|member| sum.add(&member.row.used));
        }
        let is_whole = living.is_empty() && roll.ended > 0 && roll.uncounted == 0;
        // The kernel's records count calls in multiples of 1,024, so a small number shows as 0.
        let told = |figure: u64| Some(figure).filter(|&figure| figure > 0);
        let counted = |figure: u64| Some(figure).filter(|_| is_whole);
        Counts {
            io_read_calls: told(sum.io_read_calls),
            io_write_calls: told(sum.io_write_calls),
            faults_minor: told(sum.faults_minor),
            faults_major: told(sum.faults_minor).map(|_| sum.faults_major),
            switches_voluntary: counted(sum.switches_voluntary),
            switches_forced: counted(sum.switches_forced),
            waited_us: counted(sum.waited_us),
        }
    }

    /// Waits and context switches of a living process so far.
    pub fn counted(&mut self, pid: u32, waited_us: u64, voluntary: u64, forced: u64) {
        let Some(member) = self.last_mut(pid) else { return };
        member.row.counted = true;
        if member.row.source == ProcessSource::Unseen {
            member.row.source = ProcessSource::Running;
        }
        let used = &mut member.row.used;
        used.waited_us = used.waited_us.max(waited_us);
        used.switches_voluntary = used.switches_voluntary.max(voluntary);
        used.switches_forced = used.switches_forced.max(forced);
    }

    /// The job's rows that are new or changed since the last call; each replaces the row of its number.
    pub fn changed(&mut self, job: u64) -> Vec<ProcessRow> {
        let Some(roll) = self.jobs.get_mut(&job) else { return Vec::new() };
        let mut rows = std::mem::take(&mut roll.ready);
        for (row, changed) in roll.folds.values_mut() {
            if std::mem::take(changed) {
                rows.push(row.clone());
            }
        }
        rows
    }

    /// The known living processes of a job; processes beyond [`LIVING_TOLD`] are added up.
    #[must_use]
    pub fn living(&self, job: u64) -> Vec<ProcessRow> {
        let known = self.pids(job);
        let mut members = known.iter().filter_map(|&pid| self.last(pid));
        let mut rows: Vec<ProcessRow> = members
            .by_ref()
            .take(LIVING_TOLD)
            .map(|member| ProcessRow { job, ..member.row.clone() })
            .collect();
        if let Some(first) = members.next() {
            let mut rest = ProcessRow { job, command: OTHERS.to_owned(), parent: None, ..first.row.clone() };
            members.for_each(|member| roll::add(&mut rest, &member.row));
            rows.push(rest);
        }
        rows
    }

    /// Ends all processes of an ended job.
    pub fn close(&mut self, job: u64, now_us: u64) {
        for pid in self.pids(job) {
            self.pop(&End { pid, is_last: true, ..End::default() }, now_us);
        }
    }

    /// Returns the last rows of an ended job, and forgets the job.
    pub fn finish(&mut self, job: u64, now_us: u64) -> Vec<ProcessRow> {
        self.close(job, now_us);
        let rows = self.changed(job);
        let trees = self.jobs.remove(&job).map(|roll| roll.trees).unwrap_or_default();
        trees.into_iter().for_each(|tree| self.remove_tree(tree));
        rows
    }

    /// Whether there are no jobs and no keepers' trees.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.jobs.is_empty() && self.trees.is_empty()
    }

    fn last(&self, pid: u32) -> Option<&Member> {
        self.members.get(&pid)?.back()?.as_ref()
    }

    fn last_mut(&mut self, pid: u32) -> Option<&mut Member> {
        self.members.get_mut(&pid)?.back_mut()?.as_mut()
    }

    fn enter(&mut self, pid: u32, parent: Option<u32>, tree: u64, started_us: Option<u64>) {
        let Some(of) = self.trees.get_mut(&tree) else { return };
        of.born += 1;
        of.pids.insert(pid);
        let number = match of.job.and_then(|job| self.jobs.get_mut(&job)) {
            Some(roll) => {
                roll.unknown.remove(&pid);
                roll.over.remove(&pid);
                roll.enter()
            }
            // Counted from the start of its tree; the job's own numbers are added when the tree is assigned.
            None => of.born,
        };
        let row = ProcessRow {
            number,
            pid,
            parent,
            count: 1,
            started_us,
            source: ProcessSource::Unseen,
            ..ProcessRow::default()
        };
        let member = Member {
            tree,
            row,
            ended: ProcessUsage::default(),
            ended_threads: 0,
            heard: false,
            traced: false,
            missed: 0,
        };
        // Capacity of a single member of some 400 bytes, because numbers are rarely shared.
        let generations = self.members.entry(pid).or_insert_with(|| VecDeque::with_capacity(1));
        generations.push_back(Some(member));
    }
}

#[cfg(test)]
mod tests;
