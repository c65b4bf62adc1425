//! The family of a job without a group: its member processes and their use of processor time.
//!
//! Members are the processes that entered and their descendants, plus every process of the job's user with the job and the
//! instance in its environment: a process that lost its parent has no ancestor in the job, but keeps its environment. Owner
//! of state: the list of members and the ledger of processor time. Absent here: any change to a process, and certainty: a
//! process without living parents that lives for less than a scan of the host (some milliseconds) may be missed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::marks::{Mark, look_at_all, mark_of};
use super::measure::{Detail, Measure, Sums, memory_of_processes};
use crate::cgroup::Events;
use crate::procfs::{Proc, ProcError, ProcessStat, ticks_to_us};

/// The most scans while new members keep appearing.
const ROUNDS_MAX: usize = 64;

/// The time for which a scan of the host serves the samples of several jobs.
const LOOK_HOLDS: Duration = Duration::from_millis(20);

/// The kernel lists children by thread. Children of a process with more threads than this are found by a scan of the host.
const ASKED_THREADS_MAX: u64 = 1_024;

/// The last look at every process of the host.
#[derive(Debug, Default)]
pub(super) struct Look {
    ended: Option<Instant>,
    all: Vec<(ProcessStat, Option<Mark>)>,
}

impl Look {
    /// The last scan, or a new scan if the last is too old.
    fn recent(&mut self, proc: &Proc) -> Result<&[(ProcessStat, Option<Mark>)], ProcError> {
        if self.ended.is_none_or(|at| at.elapsed() > LOOK_HOLDS) {
            self.all = look_at_all(proc)?;
            self.ended = Some(Instant::now());
        }
        Ok(&self.all)
    }
}

/// The members of a job.
#[derive(Debug)]
pub(super) struct Family {
    job: u64,
    instance: String,
    /// The user of the job: environments of other users' processes are not trusted.
    user: Option<u32>,
    known: BTreeMap<u32, ProcessStat>,
    /// Processor time of members that are gone and that no living member inherited, in clock ticks.
    gone_user_ticks: u64,
    gone_system_ticks: u64,
    /// User and system time of the processes before they joined the job, in clock ticks.
    pub(super) before_ticks: (u64, u64),
}

impl Family {
    pub(super) fn new(job: u64, instance: &str) -> Self {
        Self {
            job,
            instance: instance.to_owned(),
            user: None,
            known: BTreeMap::new(),
            gone_user_ticks: 0,
            gone_system_ticks: 0,
            before_ticks: (0, 0),
        }
    }

    /// Adds the process with this number and start time; `false`: it has ended.
    pub(super) fn take_in(&mut self, proc: &Proc, pid: u32, start_ticks: u64) -> Result<bool, ProcError> {
        let its = |stat: &ProcessStat| stat.start_ticks == start_ticks && !stat.is_ended();
        let Some(stat) = proc.stat(pid)?.filter(its) else { return Ok(false) };
        if self.user.is_none() {
            let user = proc.status(pid)?.map(|status| status.user);
            // Read while the number was still its own.
            if proc.stat(pid)?.filter(its).is_none() {
                return Ok(false);
            }
            self.user = user;
        }
        self.known.insert(pid, stat);
        Ok(true)
    }

    /// Leaves out the process that started then, which has ended.
    pub(super) fn forget(&mut self, pid: u32, start_ticks: u64) {
        self.known.retain(|&known, stat| known != pid || stat.start_ticks != start_ticks);
    }

    /// Drops processes of other users: any user can write a job's number into the environment of a process.
    pub(super) fn belongs_to(&mut self, proc: &Proc, user: u32) {
        self.user = Some(user);
        self.known.retain(|&pid, _| is_of(proc, pid, user));
    }

    /// Adds a process if its environment names this job.
    pub(super) fn take_in_if_marked(&mut self, proc: &Proc, pid: u32) -> Result<(), ProcError> {
        let Some(stat) = proc.stat(pid)? else { return Ok(()) };
        if mark_of(proc, pid)?.is_some_and(|mark| mark.is(self.job, &self.instance)) {
            self.take_in(proc, pid, stat.start_ticks)?;
        }
        Ok(())
    }

    /// All members that have not ended, ascending: descendants and marked processes.
    pub(super) fn scan_all(&mut self, proc: &Proc) -> Result<Vec<u32>, ProcError> {
        for _ in 0..ROUNDS_MAX {
            if !self.scan_once(proc)? {
                break;
            }
        }
        Ok(self.living().map(|stat| stat.pid).collect())
    }

    /// Scans every process of the host once; returns whether the members changed. A scan misses a process that starts
    /// behind its position, but then it saw the parent or saw it vanish, which counts as a change: only a scan without
    /// a change is complete.
    pub(super) fn scan_once(&mut self, proc: &Proc) -> Result<bool, ProcError> {
        let before = self.identities();
        let (everybody, members) = self.among(proc, &look_at_all(proc)?, BTreeMap::new());
        self.settle(&everybody, &members);
        Ok(self.identities() != before)
    }

    /// The members that have not ended, ascending, from a scan that several jobs share, so that the cost does not grow
    /// with jobs times processes. The next scan finds processes that started since.
    pub(super) fn sampled(&mut self, proc: &Proc, look: &mut Look) -> Result<Vec<u32>, ProcError> {
        // A process that joined after the scan is absent from it, yet alive.
        let mut known = BTreeMap::new();
        for &pid in self.known.keys() {
            known.insert(pid, proc.stat(pid)?);
        }
        let (mut everybody, mut members) = self.among(proc, look.recent(proc)?, known);
        // A new member's time is read after its parent's inherited time: if the member ended in between, the next
        // sample counts the inherited time. The reverse order would count it twice.
        let new: Vec<u32> = members.iter().copied().filter(|pid| !self.known.contains_key(pid)).collect();
        for pid in new {
            let same = |now: &ProcessStat| {
                everybody.get(&pid).is_some_and(|seen| seen.start_ticks == now.start_ticks)
            };
            match proc.stat(pid)?.filter(same) {
                Some(now) => drop(everybody.insert(pid, now)),
                None => drop(members.remove(&pid)),
            }
        }
        self.settle(&everybody, &members);
        Ok(self.living().map(|stat| stat.pid).collect())
    }

    /// All processes by number, and the members among them. A reading in `later` overrides the scan; `None`: gone.
    fn among(
        &self,
        proc: &Proc,
        all: &[(ProcessStat, Option<Mark>)],
        later: BTreeMap<u32, Option<ProcessStat>>,
    ) -> (BTreeMap<u32, ProcessStat>, BTreeSet<u32>) {
        let mut everybody = BTreeMap::new();
        let mut marked = BTreeSet::new();
        for (stat, mark) in all {
            if mark.as_ref().is_some_and(|mark| mark.is(self.job, &self.instance))
                && self.user.is_none_or(|user| is_of(proc, stat.pid, user))
            {
                marked.insert(stat.pid);
            }
            everybody.insert(stat.pid, *stat);
        }
        for (pid, stat) in later {
            match stat {
                Some(stat) => everybody.insert(pid, stat),
                None => everybody.remove(&pid),
            };
        }
        let mut members = self.descendants_among(&everybody);
        members.extend(marked);
        (everybody, members)
    }

    fn identities(&self) -> Vec<(u32, u64)> {
        self.known.values().map(|stat| (stat.pid, stat.start_ticks)).collect()
    }

    /// Members reached from known members, without a scan of the host where the kernel lists children.
    fn scan_known(&mut self, proc: &Proc) -> Result<Vec<u32>, ProcError> {
        let mut seen = BTreeMap::new();
        let mut waiting: Vec<u32> = self.known.keys().copied().collect();
        while let Some(pid) = waiting.pop() {
            if seen.contains_key(&pid) {
                continue;
            }
            let Some(stat) = proc.stat(pid)? else { continue };
            if self.known.get(&pid).is_some_and(|known| known.start_ticks != stat.start_ticks) {
                continue;
            }
            if stat.threads > ASKED_THREADS_MAX {
                self.scan_once(proc)?;
                return Ok(self.living().map(|stat| stat.pid).collect());
            }
            seen.insert(pid, stat);
            waiting.extend(proc.children(pid)?.unwrap_or_default());
        }
        let members = seen.keys().copied().collect();
        self.settle(&seen, &members);
        Ok(self.living().map(|stat| stat.pid).collect())
    }

    /// Members that had not ended at the last look.
    pub(super) fn living(&self) -> impl Iterator<Item = &ProcessStat> {
        self.known.values().filter(|stat| !stat.is_ended())
    }

    /// Whether any member has not ended. Scans the host only if no known member lives.
    pub(super) fn is_populated(&mut self, proc: &Proc) -> Result<bool, ProcError> {
        Ok(!self.scan_known(proc)?.is_empty() || !self.scan_all(proc)?.is_empty())
    }

    /// Whether any member has not ended, and whether all living members are stopped.
    pub(super) fn events(&mut self, proc: &Proc) -> Result<Events, ProcError> {
        self.scan_all(proc)?;
        let populated = self.living().next().is_some();
        Ok(Events { populated, frozen: self.living().all(ProcessStat::is_at_rest) })
    }

    /// Known members that are still the same processes, and all their descendants.
    fn descendants_among(&self, everybody: &BTreeMap<u32, ProcessStat>) -> BTreeSet<u32> {
        let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for stat in everybody.values() {
            children.entry(stat.parent).or_default().push(stat.pid);
        }
        let same = |pid: &u32, known: &ProcessStat| {
            everybody.get(pid).is_some_and(|now| now.start_ticks == known.start_ticks)
        };
        let mut waiting: Vec<u32> =
            self.known.iter().filter(|(pid, known)| same(pid, known)).map(|(pid, _)| *pid).collect();
        let mut members = BTreeSet::new();
        while let Some(pid) = waiting.pop() {
            if members.insert(pid) {
                waiting.extend(children.get(&pid).into_iter().flatten());
            }
        }
        members
    }

    /// Takes over a new reading and books the time of members that are gone.
    ///
    /// A parent that waits for a child inherits the child's time, with the time that the child had inherited. The time of a
    /// gone member is therefore expected in its nearest living ancestor among the members. The part that the ancestor did
    /// not inherit since the last reading (it ignored its children, or has no living ancestor) is booked here.
    fn settle(&mut self, now: &BTreeMap<u32, ProcessStat>, members: &BTreeSet<u32>) {
        let mut orphaned: BTreeMap<Option<u32>, (u64, u64)> = BTreeMap::new();
        let survives = |pid: u32, before: &ProcessStat| {
            members.contains(&pid) && now.get(&pid).is_some_and(|stat| stat.start_ticks == before.start_ticks)
        };
        for (pid, before) in &self.known {
            if survives(*pid, before) {
                continue;
            }
            let mut heir = before.parent;
            let heir = loop {
                match self.known.get(&heir) {
                    Some(stat) if survives(heir, stat) => break Some(heir),
                    // A process cannot be its own ancestor, but a number may come round; the parent of an older
                    // process cannot be younger.
                    Some(stat) if stat.start_ticks <= before.start_ticks && stat.parent != heir => {
                        heir = stat.parent
                    }
                    _ => break None,
                }
            };
            let sum = orphaned.entry(heir).or_default();
            sum.0 = sum.0.saturating_add(before.user_ticks + before.children_user_ticks);
            sum.1 = sum.1.saturating_add(before.system_ticks + before.children_system_ticks);
        }
        for (heir, (user, system)) in orphaned {
            let grown = |of: fn(&ProcessStat) -> u64| {
                let pair = heir.and_then(|heir| Some((now.get(&heir)?, self.known.get(&heir)?)));
                pair.map_or(0, |(now, before)| of(now).saturating_sub(of(before)))
            };
            let (user_grown, system_grown) =
                (grown(|stat| stat.children_user_ticks), grown(|stat| stat.children_system_ticks));
            self.gone_user_ticks = self.gone_user_ticks.saturating_add(user.saturating_sub(user_grown));
            self.gone_system_ticks =
                self.gone_system_ticks.saturating_add(system.saturating_sub(system_grown));
        }
        self.known = members.iter().filter_map(|pid| Some((*pid, *now.get(pid)?))).collect();
    }

    /// The members' use. [`Detail::Totals`] reads descendants only; [`Detail::Processes`] scans the host and also finds
    /// members that lost their parent.
    pub(super) fn measure(&mut self, proc: &Proc, detail: Detail) -> Result<Measure, ProcError> {
        let pids = match detail {
            Detail::Totals | Detail::Left => self.scan_known(proc)?,
            Detail::Processes => self.scan_all(proc)?,
        };
        let mut measure = self.measured(proc, &pids)?;
        if detail == Detail::Processes {
            Sums::over(proc, &pids)?.into_measure(&mut measure);
        }
        Ok(measure)
    }

    /// The members' use as of the last scan, which found these processes alive; without sums over processes.
    pub(super) fn measured(&self, proc: &Proc, pids: &[u32]) -> Result<Measure, ProcError> {
        let mut user = self.gone_user_ticks;
        let mut system = self.gone_system_ticks;
        for stat in self.known.values() {
            user = user.saturating_add(stat.user_ticks).saturating_add(stat.children_user_ticks);
            system = system.saturating_add(stat.system_ticks).saturating_add(stat.children_system_ticks);
        }
        let mut measure = Measure {
            cpu_user_us: ticks_to_us(user.saturating_sub(self.before_ticks.0)),
            cpu_system_us: ticks_to_us(system.saturating_sub(self.before_ticks.1)),
            processes: u64::try_from(pids.len()).unwrap_or(u64::MAX),
            ..Measure::default()
        };
        memory_of_processes(proc, pids, &mut measure)?;
        Ok(measure)
    }
}

/// Whether a process was started by this user.
fn is_of(proc: &Proc, pid: u32, user: u32) -> bool {
    proc.status(pid).ok().flatten().is_some_and(|status| status.user == user)
}

#[cfg(test)]
mod tests;
