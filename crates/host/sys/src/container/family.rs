//! Which processes belong to a job where no group holds it, and what its members have used.
//!
//! Members are the processes that entered and their descendants, plus every process whose environment names job and
//! instance and whose user is the job's: one whose parent ended is nobody's descendant any more, but it keeps the
//! environment it was started with. Owner of state: the list of members and the ledger of processor time. Absent here:
//! any change to a process, and certainty: a process whose parents are all gone and that lives for less than a look at
//! the host takes (some milliseconds) may be missed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use super::marks::{Mark, look_at_all, mark_of};
use super::measure::{Detail, Measure, Sums, memory_of_processes};
use crate::cgroup::Events;
use crate::procfs::{Proc, ProcError, ProcessStat, ticks_to_us};

/// How often a scan is repeated while new members keep appearing.
const ROUNDS_MAX: usize = 64;

/// So long a look at every process of the host serves the samples of several jobs.
const LOOK_HOLDS: Duration = Duration::from_millis(20);

/// Children are listed by thread. Of a process with more threads than this, a look at every process of the host finds them.
const ASKED_THREADS_MAX: u64 = 1_024;

/// The last look at every process of the host.
#[derive(Debug, Default)]
pub(super) struct Look {
    ended: Option<Instant>,
    all: Vec<(ProcessStat, Option<Mark>)>,
}

impl Look {
    /// What it found, or what a new one does if it is too old.
    fn recent(&mut self, proc: &Proc) -> Result<&[(ProcessStat, Option<Mark>)], ProcError> {
        if self.ended.is_none_or(|at| at.elapsed() > LOOK_HOLDS) {
            self.all = look_at_all(proc)?;
            self.ended = Some(Instant::now());
        }
        Ok(&self.all)
    }
}

/// The members of one job.
#[derive(Debug)]
pub(super) struct Family {
    job: u64,
    instance: String,
    /// Whose processes they are: what the environment of another user's process says is not believed.
    user: Option<u32>,
    known: BTreeMap<u32, ProcessStat>,
    /// Processor time of members that are gone and that no living member has inherited, in clock ticks.
    gone_user_ticks: u64,
    gone_system_ticks: u64,
    /// User and system time that its processes had used before they were its, in clock ticks.
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

    /// Adds the process that started then; `false`: it has ended.
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

    /// Leaves out processes that are not this user's: anybody can write a job's number into the environment of a process.
    pub(super) fn belongs_to(&mut self, proc: &Proc, user: u32) {
        self.user = Some(user);
        self.known.retain(|&pid, _| is_of(proc, pid, user));
    }

    /// Adds a process if its environment says that it is ours.
    pub(super) fn take_in_if_marked(&mut self, proc: &Proc, pid: u32) -> Result<(), ProcError> {
        let Some(stat) = proc.stat(pid)? else { return Ok(()) };
        if mark_of(proc, pid)?.is_some_and(|mark| mark.is(self.job, &self.instance)) {
            self.take_in(proc, pid, stat.start_ticks)?;
        }
        Ok(())
    }

    /// All members that have not ended, ascending: descendants and those marked by their environment.
    pub(super) fn scan_all(&mut self, proc: &Proc) -> Result<Vec<u32>, ProcError> {
        for _ in 0..ROUNDS_MAX {
            if !self.scan_once(proc)? {
                break;
            }
        }
        Ok(self.living().map(|stat| stat.pid).collect())
    }

    /// One look at every process of the host; says whether the members changed. A process born behind the reading
    /// hand is missed by this look, but then its parent was seen here or vanished, which counts as a change: so
    /// only a look that changed nothing is to be believed.
    pub(super) fn scan_once(&mut self, proc: &Proc) -> Result<bool, ProcError> {
        let before = self.identities();
        let (everybody, members) = self.among(proc, &look_at_all(proc)?, BTreeMap::new());
        self.settle(&everybody, &members);
        Ok(self.identities() != before)
    }

    /// The members that have not ended, ascending, by a look at the host that several jobs share: what such a job costs
    /// does not grow with the processes of the host times the jobs. One that was born since is found by the next look.
    pub(super) fn sampled(&mut self, proc: &Proc, look: &mut Look) -> Result<Vec<u32>, ProcError> {
        // One that was taken in after that look is none that is gone.
        let mut known = BTreeMap::new();
        for &pid in self.known.keys() {
            known.insert(pid, proc.stat(pid)?);
        }
        let (mut everybody, mut members) = self.among(proc, look.recent(proc)?, known);
        // What a new member used is read after what its parent inherited: if it ended in between, the next sample has it
        // from there. The other way round it would count twice.
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

    /// These processes by number, and which of them are members. What was read `later` counts more; `None`: gone.
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

    /// Members reached from those known, without a look at every process of the host where the kernel lists children.
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

    /// Whether any member has not ended. Only if none of those known lives, every process of the host is looked at.
    pub(super) fn is_populated(&mut self, proc: &Proc) -> Result<bool, ProcError> {
        Ok(!self.scan_known(proc)?.is_empty() || !self.scan_all(proc)?.is_empty())
    }

    /// Whether any member has not ended, and whether all of those are stopped.
    pub(super) fn events(&mut self, proc: &Proc) -> Result<Events, ProcError> {
        self.scan_all(proc)?;
        let populated = self.living().next().is_some();
        Ok(Events { populated, frozen: self.living().all(ProcessStat::is_at_rest) })
    }

    /// Known members that are still the same processes, and everything below them.
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
    /// A parent that waits for a child inherits the child's time, and what the child had inherited. So the time of
    /// a member that is gone is looked for in its nearest living ancestor among the members: as far as what that
    /// one inherited since the last reading does not cover it (it ignored its children, or there is no such
    /// ancestor), it is booked here.
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

    /// What the members use and have used. With [`Detail::Totals`] only descendants are looked at; members that
    /// lost their parent are found with [`Detail::Processes`], which looks at every process of the host.
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

    /// What the members used as of the last look, which found these alive; without what is summed over them.
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
