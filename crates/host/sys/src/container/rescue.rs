//! Lets go of every job that any pinfold left behind: no daemon is needed, none is asked.
//!
//! Purpose: fail open. Frozen groups are thawed, bounds on memory and processors lifted, the idle class left, and
//! stopped processes of jobs continued: marked processes and their descendants. Empty groups that no daemon uses are
//! removed. Owner of state: none. Absent here: killing anything.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use rustix::fd::AsFd;
use rustix::io::Errno;

use super::WEIGHT_MAX;
use super::drift::weight_file;
use super::grouped::members_below;
use super::levels::TOP;
use super::mark;
use super::marks::mark_of;
use super::process;
use crate::cgroup::{CgroupError, Generation, Group, GroupRemoval};
use crate::mode::{Facts, Hierarchy, Roots, Via, probe};
use crate::procfs::Proc;

const ROOT: u32 = 0;
/// Groups this deep below the top of a hierarchy are looked at; managers nest a handful of levels.
const DEPTH_MAX: usize = 12;

/// An object that was released, or that failed to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rescued {
    /// The group or process.
    pub object: String,
    /// The operation on it.
    pub done: &'static str,
    /// The error of a failed operation.
    pub failure: Option<String>,
}

impl fmt::Display for Rescued {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.failure {
            None => write!(f, "{}: {}", self.object, self.done),
            Some(failure) => write!(f, "{}: not {}: {failure}", self.object, self.done),
        }
    }
}

/// The result of a rescue.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rescue {
    /// Released objects. Objects without a restriction are not mentioned.
    pub rescued: Vec<Rescued>,
    /// Instances with a living daemon, which are left alone.
    pub alive: BTreeSet<String>,
    /// Instances among `alive` that belong to other users only: this process cannot release them.
    pub of_others: BTreeSet<String>,
    /// Whether an instance in `alive` is root's.
    pub is_roots_alive: bool,
}

/// Releases everything that instances without a living daemon hold. A mark shows a living daemon; the mark of a user
/// other than root counts for groups and processes of that user alone. Without control groups there is no mark, and
/// every stopped job is released.
#[must_use]
pub fn rescue(roots: &Roots) -> Rescue {
    rescue_which(roots, None)
}

/// Releases everything that an instance holds, even if its daemon lives, as the guard does after its daemon's death.
/// Reports other living instances.
#[must_use]
pub fn rescue_instance(roots: &Roots, instance: &str) -> Rescue {
    rescue_which(roots, Some(instance))
}

fn rescue_which(roots: &Roots, instance: Option<&str>) -> Rescue {
    let facts = probe(roots);
    let mut search =
        Search { roots, user: facts.user, instance, rescued: Vec::new(), alive: BTreeSet::new() };
    for hierarchy in &facts.hierarchies {
        if let Ok(Some(top)) = Group::open(&hierarchy.mount, roots.fake.clone()) {
            search.look_below(&top, hierarchy, DEPTH_MAX);
        }
    }
    search.wake_stopped(&facts);
    let is_roots_alive = search.alive.iter().any(|(owner, _)| *owner == ROOT);
    let (own, others): (BTreeSet<_>, BTreeSet<_>) =
        search.alive.into_iter().partition(|(owner, _)| [ROOT, *owner].contains(&facts.user));
    let names = |of: BTreeSet<(u32, String)>| of.into_iter().map(|(_, name)| name).collect::<BTreeSet<_>>();
    let (own, others) = (names(own), names(others));
    let of_others = others.difference(&own).cloned().collect();
    Rescue {
        rescued: search.rescued,
        alive: own.into_iter().chain(others).collect(),
        of_others,
        is_roots_alive,
    }
}

struct Search<'a> {
    roots: &'a Roots,
    /// The user of this process.
    user: u32,
    /// Only this instance; `None`: all.
    instance: Option<&'a str>,
    rescued: Vec<Rescued>,
    /// Instances with a living daemon, with the owners of their groups: any user can give any name to a group.
    alive: BTreeSet<(u32, String)>,
}

impl Search<'_> {
    /// Whether the rescue releases an object of these users.
    fn concerns(&self, instance: &str, owners: &[u32]) -> bool {
        let lives = |owner: &u32| self.alive.contains(&(*owner, instance.to_owned()));
        self.instance.map_or_else(|| !owners.iter().any(lives), |only| only == instance)
    }

    /// Whether an instance's groups may hold a process: empty groups of another user are left to that user and to root,
    /// as only they can change them.
    fn may_hold_somebody(&self, own: &Group, owner: u32) -> bool {
        [ROOT, owner].contains(&self.user) || members_below(own).map_or(true, |pids| !pids.is_empty())
    }

    /// Leaves an instance with a living daemon alone, unless the caller named it.
    fn look_for_daemon(&mut self, instance: &str, own: &Group, owner: u32) {
        if self.instance != Some(instance) && mark::lives(&self.roots.run, instance, own) {
            self.alive.insert((owner, instance.to_owned()));
        }
    }

    /// Finds every group named `pinfold`, wherever a manager delegated it, and releases the groups below.
    fn look_below(&mut self, group: &Group, hierarchy: &Hierarchy, depth: usize) {
        for name in group.children().unwrap_or_default() {
            let Ok(Some(child)) = group.child(&name) else { continue };
            if name == TOP {
                for instance in child.children().unwrap_or_default() {
                    let Ok(Some(own)) = child.child(&instance) else { continue };
                    let Some(owner) = own.owner() else { continue };
                    self.look_for_daemon(&instance, &own, owner);
                    if !self.concerns(&instance, &[owner]) {
                        continue;
                    }
                    // All other groups lack these PUs, even while the job's groups are empty.
                    end_partitions(&own, &mut self.rescued);
                    if self.may_hold_somebody(&own, owner) {
                        release(&own, &child, hierarchy, &mut self.rescued);
                        self.release_below(&own, hierarchy, depth);
                        self.remove_unused(&child, &instance, &own, owner);
                    }
                }
                // Busy as long as any instance is left.
                let _ = group.remove(TOP, false);
            } else if depth > 0 && child.has_children() {
                self.look_below(&child, hierarchy, depth - 1);
            }
        }
    }

    fn release_below(&mut self, group: &Group, hierarchy: &Hierarchy, depth: usize) {
        for name in group.children().unwrap_or_default() {
            let Ok(Some(child)) = group.child(&name) else { continue };
            // A group without members holds no process; a living daemon may keep it for its next job.
            if members_below(&child).is_ok_and(|pids| pids.is_empty()) {
                continue;
            }
            release(&child, group, hierarchy, &mut self.rescued);
            if depth > 0 {
                self.release_below(&child, hierarchy, depth - 1);
            }
        }
    }

    /// Removes the groups of an instance without processes and daemon. A guard leaves them to the next daemon, which
    /// reads the use of jobs that ended meanwhile.
    fn remove_unused(&mut self, top: &Group, instance: &str, own: &Group, owner: u32) {
        let used = self.instance.is_some() || members_below(own).map_or(true, |pids| !pids.is_empty());
        // Its last process may just have ended.
        if used || ![ROOT, owner].contains(&self.user) {
            return;
        }
        let removed = mark::while_alone(&self.roots.run, instance, own, || top.remove(instance, true));
        let failure = match removed {
            Some(Ok(GroupRemoval::Gone)) => None,
            Some(Ok(GroupRemoval::Busy)) | None => return,
            Some(Err(error)) => Some(words(&error)),
        };
        let object = own.path().display().to_string();
        self.rescued.push(Rescued { object, done: "removed, as nobody uses it", failure });
    }

    /// Processes of jobs without groups are stopped by signal.
    fn wake_stopped(&mut self, facts: &Facts) {
        let Ok(proc) = Proc::open(&self.roots.proc) else { return };
        let stat =
            |pid: u32| proc.stat(pid).ok().flatten().filter(|stat| stat.is_at_rest() && !stat.is_ended());
        let (mut woken, mut instances) = (Vec::new(), BTreeMap::new());
        // The first process belongs to no job, whatever its environment says.
        for pid in proc.pids().unwrap_or_default().into_iter().filter(|pid| *pid > 1) {
            let Some(found) = stat(pid) else { continue };
            let Some(instance) = instance_of(&proc, pid, &mut instances) else { continue };
            // Root's daemon has jobs of all users, another daemon only jobs of its own user.
            let Ok(Some(status)) = proc.status(pid) else { continue };
            if !self.concerns(&instance, &[ROOT, status.user]) {
                continue;
            }
            let Ok(Some(handle)) = process::open(pid) else { continue };
            // The number may have changed hands before the handle was opened.
            if stat(pid).is_none_or(|now| now.start_ticks != found.start_ticks) {
                continue;
            }
            let failure = match process::signal(handle.as_fd(), libc::SIGCONT) {
                Ok(process::Reached::Yes | process::Reached::Gone) => None,
                Ok(process::Reached::Forbidden) => Some(format!("user {} may not signal it", facts.user)),
                Err(errno) => Some(errno.to_string()),
            };
            woken.push(Rescued { object: format!("process {pid}"), done: "resumed", failure });
        }
        self.rescued.extend(woken);
    }
}

/// The instance of a process: named by its environment, or by that of its nearest ancestor with a mark, as programs
/// that clear their environment were stopped with the job. `known`: the results for other processes.
fn instance_of(proc: &Proc, pid: u32, known: &mut BTreeMap<u32, Option<String>>) -> Option<String> {
    let (mut line, mut at) = (Vec::new(), pid);
    let found = loop {
        if at <= 1 {
            break None;
        }
        if let Some(known) = known.get(&at) {
            break known.clone();
        }
        if let Ok(Some(mark)) = mark_of(proc, at) {
            break Some(mark.instance);
        }
        line.push(at);
        // Numbers may be given again meanwhile, but no process is looked at twice.
        known.insert(at, None);
        at = proc.stat(at).ok().flatten().map_or(0, |stat| stat.parent);
    };
    known.extend(line.into_iter().chain([at]).map(|pid| (pid, found.clone())));
    found
}

/// Ends the partitions of an instance's jobs: the jobs' groups first, as a group cannot release PUs that a group below
/// it has.
fn end_partitions(instance: &Group, rescued: &mut Vec<Rescued>) {
    for name in instance.children().unwrap_or_default() {
        if let Ok(Some(job)) = instance.child(&name) {
            let done = "given the PUs back to all that it had to itself";
            lift(&job, "cpuset.cpus.partition", "member", done, rescued);
            lift(&job, "cpuset.cpus.exclusive", "\n", "left no PUs to itself", rescued);
        }
    }
    lift(instance, "cpuset.cpus.exclusive", "\n", "left no PUs to itself", rescued);
}

fn lift(group: &Group, file: &str, free: &str, done: &'static str, rescued: &mut Vec<Rescued>) {
    let Ok(Some(have)) = group.read(file) else { return };
    if is_free(&have, free) {
        return;
    }
    let failure = match group.write(file, free) {
        Ok(()) => None,
        // The group was removed meanwhile and holds no process.
        Err(error) if matches!(error.errno(), Some(Errno::NOENT | Errno::NODEV)) => return,
        Err(error) => Some(words(&error)),
    };
    rescued.push(Rescued { object: group.path().display().to_string(), done, failure });
}

/// The failed operation with its cause.
fn words(error: &CgroupError) -> String {
    error.errno().map_or(error.to_string(), |errno| format!("{error}: {errno}"))
}

/// The usual weight, if a group has the highest weight, as jobs have while they are frozen.
fn hurries(group: &Group, via: Via) -> Option<String> {
    let (file, most) = weight_file(via, WEIGHT_MAX);
    let have = group.read_number(file).ok().flatten()?;
    (have == most).then(|| weight_file(via, 100).1.to_string())
}

/// Lifts the restrictions of a group. The order matters: bounds go before the thaw, or a job would wake into them.
fn release(group: &Group, above: &Group, hierarchy: &Hierarchy, rescued: &mut Vec<Rescued>) {
    let mut lift = |file: &str, free: &str, done: &'static str| lift(group, file, free, done, rescued);
    match hierarchy.generation {
        Generation::V2 => {
            lift("memory.max", "max", "lifted the bound on memory");
            lift("memory.high", "max", "lifted the throttle on memory");
            lift("memory.low", "0", "took the protection of its memory away");
            lift("memory.swap.max", "max", "lifted the bound on swap");
            lift("cpu.max", "max", "lifted the quota of processor time");
            lift("cpu.idle", "0", "taken out of the idle class");
            if let Some(usual) = hurries(group, Via::V2) {
                lift("cpu.weight", &usual, "given the usual weight");
            }
            if let Ok(Some(all)) = above.read("cpuset.cpus.effective") {
                lift("cpuset.cpus", all.trim(), "unbound from its PUs");
            }
            if let Ok(Some(all)) = above.read("cpuset.mems.effective") {
                lift("cpuset.mems", all.trim(), "unbound from its NUMA nodes");
            }
            lift("cgroup.freeze", "0", "thawed");
        }
        Generation::V1 => {
            // Memory and swap together first, as the bound on memory alone may never exceed it.
            lift("memory.memsw.limit_in_bytes", "-1", "lifted the bound on memory and swap");
            lift("memory.limit_in_bytes", "-1", "lifted the bound on memory");
            lift("cpu.cfs_quota_us", "-1", "lifted the quota of processor time");
            lift("cpu.idle", "0", "taken out of the idle class");
            if let Some(usual) = hurries(group, Via::V1) {
                lift("cpu.shares", &usual, "given the usual weight");
            }
            if let Ok(Some(all)) = above.read("cpuset.cpus") {
                lift("cpuset.cpus", all.trim(), "unbound from its PUs");
            }
            if let Ok(Some(all)) = above.read("cpuset.mems") {
                lift("cpuset.mems", all.trim(), "unbound from its NUMA nodes");
            }
            lift("freezer.state", "THAWED", "thawed");
        }
    }
}

/// Whether a setting already imposes nothing.
fn is_free(have: &str, free: &str) -> bool {
    let (have, free) = (have.trim(), free.trim());
    // An empty set of PUs takes the parent group's. The quota file holds the period too; and the first generation shows
    // `no bound` as the largest number of whole pages that fits into 63 bits.
    have == free
        || have.is_empty()
        || free == "max" && have.starts_with("max ")
        || free == "-1" && have.parse::<u64>().is_ok_and(|bytes| bytes >= (1 << 62))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Command, Stdio};

    use super::*;
    use crate::container::{INSTANCE_VARIABLE, JOB_VARIABLE};

    /// A program that clears its environment is stopped with its job, and must not stay so.
    #[test]
    fn a_stopped_process_without_an_environment_is_its_parents() {
        let instance = format!("rescued-{}", std::process::id());
        let mut shell = Command::new("sh")
            .args(["-c", "env -i sleep 1000 & echo $!; wait"])
            .env(JOB_VARIABLE, "7")
            .env(INSTANCE_VARIABLE, &instance)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let child: u32 = line.trim().parse().unwrap();
        let (roots, proc) = (Roots::default(), Proc::open(&Roots::default().proc).unwrap());
        let handles = [child, shell.id()].map(|pid| process::open(pid).unwrap().unwrap());
        let signal = |signal| {
            for handle in &handles {
                process::signal(handle.as_fd(), signal).unwrap();
            }
        };
        // It has its own, empty environment once it has executed its program.
        while mark_of(&proc, child).unwrap().is_some() {
            std::thread::yield_now();
        }
        signal(libc::SIGSTOP);
        let is_stopped = |pid: u32| proc.stat(pid).unwrap().unwrap().is_at_rest();
        while !is_stopped(child) || !is_stopped(shell.id()) {
            std::thread::yield_now();
        }
        let woken = |instance: &str| -> BTreeSet<String> {
            let (rescued, alive) = (Vec::new(), BTreeSet::new());
            let mut search = Search { roots: &roots, user: ROOT, instance: Some(instance), rescued, alive };
            search.wake_stopped(&probe(&roots));
            search.rescued.into_iter().map(|one| one.object).collect()
        };
        assert_eq!(woken("another"), BTreeSet::new());
        let both = [child, shell.id()].map(|pid| format!("process {pid}"));
        assert_eq!(woken(&instance), both.into());
        signal(libc::SIGKILL);
        shell.wait().unwrap();
    }

    /// Its daemon and its guard were killed, and its groups are empty.
    #[test]
    fn bounds_of_another_user_that_hold_nobody_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("pinfold/main");
        std::fs::create_dir_all(&own).unwrap();
        let write = |file: &str, text: &str| std::fs::write(own.join(file), text).unwrap();
        write("memory.low", "4096\n");
        // Marks of daemons of this host are none of its.
        let run = tempfile::tempdir().unwrap();
        let roots = Roots { run: run.path().to_owned(), ..Roots::default() };
        let top = Group::open(dir.path(), None).unwrap().unwrap();
        let hierarchy = Hierarchy {
            generation: Generation::V2,
            mount: dir.path().to_owned(),
            base: String::new(),
            delegated: false,
            controllers: Vec::new(),
            writable: true,
            files: Vec::new(),
        };
        let owner = top.owner().unwrap();
        let done_with = |user: u32, members: &str, exclusive: &str| -> Vec<&str> {
            write("cgroup.procs", members);
            write("memory.low", "4096\n");
            write("cpuset.cpus.exclusive", exclusive);
            let (rescued, alive) = (Vec::new(), BTreeSet::new());
            let mut search = Search { roots: &roots, user, instance: None, rescued, alive };
            search.look_below(&top, &hierarchy, 1);
            search.rescued.into_iter().filter(|one| one.failure.is_none()).map(|one| one.done).collect()
        };
        let done = |user: u32, members: &str| done_with(user, members, "\n");
        let lifted = ["took the protection of its memory away"];
        assert_eq!(done(owner + 1, ""), [""; 0]);
        assert_eq!(done(owner + 1, "1\n"), lifted, "it is tried where somebody is held");
        assert_eq!(done(owner, ""), lifted);
        assert_eq!(done(ROOT, ""), lifted);
        assert_eq!(done_with(owner + 1, "", "2-3\n"), ["left no PUs to itself"], "all others lack them");
    }

    #[test]
    fn settings_without_a_restriction_are_left_alone() {
        for (have, free, want) in [
            ("max\n", "max", true),
            ("max 100000\n", "max", true),
            ("50000 100000\n", "max", false),
            ("9223372036854771712\n", "-1", true),
            ("1048576\n", "-1", false),
            ("-1\n", "-1", true),
            ("\n", "0-3", true),
            ("0-1\n", "0-3", false),
        ] {
            assert_eq!(is_free(have, free), want, "{have:?} against {free:?}");
        }
    }
}
