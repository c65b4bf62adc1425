//! Candidates for adoption: processes that another program started. Reads only.
//!
//! Absent here: rights and sense of an adoption (the daemon), and the adoption itself (`container`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::cgroup::{CgroupError, Group};
use crate::container::grouped_members;
use crate::container::levels::TOP;
use crate::mode::{Hierarchy, Roots};
use crate::procfs::{Proc, ProcError, ProcessStat};

/// The facts about a process that decide on its adoption.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    /// Its real user.
    pub user: u32,
    /// Whether it also has another user's rights, or only root's (a set-user-id program).
    pub mixed: bool,
    /// Whether it is a thread of the kernel's.
    pub kernel: bool,
    /// Whether it is in another PID namespace than the observer: in a container of some other software.
    pub nested: bool,
}

/// Reads the facts about a process; `None`: it is gone.
///
/// # Errors
/// When the file is there and cannot be read.
pub fn standing(proc: &Proc, pid: u32) -> Result<Option<Standing>, ProcError> {
    Ok(proc.text(&format!("{pid}/status"))?.as_deref().and_then(parse_standing))
}

/// Parses `/proc/PID/status` (proc(5)). `Kthread` came with Linux 6.8; before, a kernel thread has no memory of its
/// own, as an ended process.
fn parse_standing(text: &str) -> Option<Standing> {
    let mut standing = Standing::default();
    let (mut users, mut told, mut sized, mut ended) = (None, None, false, false);
    for (key, value) in text.lines().filter_map(|line| line.split_once(':')) {
        match key {
            "Uid" => {
                let all: Vec<u32> =
                    value.split_ascii_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
                standing.user = *all.first()?;
                standing.mixed = all.iter().any(|&user| user != standing.user);
                users = Some(all.len());
            }
            // Its numbers, from the reading namespace down to its own.
            "NSpid" => standing.nested = value.split_ascii_whitespace().count() > 1,
            "Kthread" => told = Some(value.trim() == "1"),
            "VmSize" => sized = true,
            "State" => ended = value.trim_start().starts_with(['Z', 'X']),
            _ => {}
        }
    }
    standing.kernel = told.unwrap_or(!sized && !ended);
    users.map(|_| standing)
}

/// The workload manager that started a process, by its environment: a hint, as a process may change its environment. A
/// job submitted with Slurm's commands has Slurm's variables and is pinfold's.
#[must_use]
pub fn manager(environ: &[u8]) -> Option<&'static str> {
    let value = |name: &str| {
        environ
            .split(|byte| *byte == 0)
            .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
    };
    let job = value("SLURM_JOB_ID");
    let ours =
        value("SLURM_CLUSTER_NAME") == Some(b"pinfold") || (job.is_some() && job == value("PINFOLD_JOB_ID"));
    let managers =
        [("SLURM_JOB_ID", "Slurm"), ("_CONDOR_JOB_AD", "HTCondor"), ("SGE_TASK_ID", "Grid Engine")];
    let is = |name: &str, manager: &str| value(name).is_some() && !(ours && manager == "Slurm");
    managers.into_iter().find(|(name, manager)| is(name, manager)).map(|(_, manager)| manager)
}

/// The instance and the job of a process, by its environment.
#[must_use]
pub fn mark_of_a_job(environ: &[u8]) -> Option<(String, u64)> {
    crate::container::parse_mark(environ).map(|mark| (mark.instance, mark.job))
}

/// The instance and the job of the group of a process, by `/proc/PID/cgroup`.
#[must_use]
pub fn group_of_a_job(text: &str) -> Option<(String, u64)> {
    groups_of_jobs(text).into_iter().next()
}

/// All groups of jobs around a process, in each hierarchy the outermost first: a daemon within a job has its own jobs'
/// groups below the job's.
#[must_use]
pub fn groups_of_jobs(text: &str) -> Vec<(String, u64)> {
    let paths = text.lines().filter_map(|line| line.splitn(3, ':').nth(2));
    let of_path = |path: &str| {
        let names: Vec<&str> = path.split('/').collect();
        let named = |three: &[&str]| {
            let job = three[2].strip_prefix("job-").filter(|_| three[0] == TOP)?.parse().ok()?;
            Some((three[1].to_owned(), job))
        };
        names.windows(3).filter_map(named).collect::<Vec<_>>()
    };
    paths.flat_map(of_path).collect()
}

/// All processes of the host, read once, so that questions about descent cost no further reading.
#[derive(Debug, Default)]
pub struct Processes {
    everybody: BTreeMap<u32, ProcessStat>,
    children: BTreeMap<u32, Vec<u32>>,
}

impl Processes {
    /// Reads the present processes. A process forked meanwhile may be missed; a caller that needs all reads again until
    /// nothing new appears.
    ///
    /// # Errors
    /// When `/proc` cannot be read.
    pub fn read(proc: &Proc) -> Result<Self, ProcError> {
        let mut all = Self::default();
        for pid in proc.pids()? {
            if let Some(stat) = proc.stat(pid)? {
                all.children.entry(stat.parent).or_default().push(pid);
                all.everybody.insert(pid, stat);
            }
        }
        Ok(all)
    }

    /// The parent of a process that was there.
    #[must_use]
    pub fn parent(&self, pid: u32) -> Option<u32> {
        self.everybody.get(&pid).map(|stat| stat.parent)
    }

    /// The start of a process, in clock ticks since the host's boot, which tells it from a later process with its number.
    #[must_use]
    pub fn start_ticks(&self, pid: u32) -> Option<u64> {
        self.everybody.get(&pid).map(|stat| stat.start_ticks)
    }

    /// The number of processes.
    #[must_use]
    pub fn count(&self) -> usize {
        self.everybody.len()
    }

    /// These processes and all their descendants: the named processes first. Ended processes are left out.
    #[must_use]
    pub fn tree(&self, named: &[u32]) -> Vec<ProcessStat> {
        let (mut seen, mut found) = (BTreeSet::new(), Vec::new());
        let mut at = 0;
        let mut waiting = named.to_vec();
        while let Some(&pid) = waiting.get(at) {
            at += 1;
            let Some(stat) = self.everybody.get(&pid) else { continue };
            if seen.insert(pid) {
                waiting.extend(self.children.get(&pid).into_iter().flatten());
                // An ended process may have living children; children that it left to another parent are not found here.
                found.extend((!stat.is_ended()).then_some(*stat));
            }
        }
        found
    }

    /// The value that `of` has for each of these processes, or else for its nearest ancestor. `of` is called once for
    /// each process, however long the lines of descent are, and however many meet.
    pub fn nearest<T: Copy>(
        &self,
        pids: impl IntoIterator<Item = u32>,
        mut of: impl FnMut(&ProcessStat) -> Option<T>,
    ) -> BTreeMap<u32, T> {
        let mut seen: BTreeMap<u32, Option<T>> = BTreeMap::new();
        for pid in pids {
            let (mut line, mut found) = (Vec::new(), None);
            let mut at = self.everybody.get(&pid);
            while let Some(stat) = at {
                // Processes read at different moments need not form a tree: a cycle ends here as well.
                if let Some(known) = seen.get(&stat.pid) {
                    found = *known;
                    break;
                }
                found = of(stat);
                seen.insert(stat.pid, found);
                line.push(stat.pid);
                if found.is_some() {
                    break;
                }
                // A parent is no younger than its child; a younger process has a reused number.
                let is_older = |above: &&ProcessStat| above.start_ticks <= stat.start_ticks;
                at = self.everybody.get(&stat.parent).filter(is_older);
            }
            seen.extend(line.into_iter().map(|below| (below, found)));
        }
        seen.into_iter().filter_map(|(pid, found)| Some((pid, found?))).collect()
    }
}

/// [`Processes::tree`] of the present processes.
///
/// # Errors
/// When `/proc` cannot be read.
pub fn tree(proc: &Proc, named: &[u32]) -> Result<Vec<ProcessStat>, ProcError> {
    Ok(Processes::read(proc)?.tree(named))
}

/// The processes in a control group and in all groups below, ascending. `path`: a directory, or the path within its
/// hierarchy as in `/proc/PID/cgroup`, then of any hierarchy of this host. `None`: the group does not exist.
///
/// # Errors
/// When the group cannot be read.
pub fn group_members(
    hierarchies: &[Hierarchy],
    roots: &Roots,
    path: &Path,
) -> Result<Option<Vec<u32>>, CgroupError> {
    let inside = |hierarchy: &Hierarchy| {
        let rest =
            path.strip_prefix(&hierarchy.mount).unwrap_or_else(|_| path.strip_prefix("/").unwrap_or(path));
        let named = rest.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        // The top is the whole host.
        (named && rest.components().next().is_some()).then(|| hierarchy.mount.join(rest))
    };
    let mut found: Option<Vec<u32>> = None;
    for hierarchy in hierarchies {
        let Some(group) = inside(hierarchy) else { continue };
        if let Some(group) = Group::open(&group, roots.fake.clone())? {
            found.get_or_insert_default().extend(grouped_members(&group)?);
        }
    }
    if let Some(pids) = &mut found {
        pids.sort_unstable();
        pids.dedup();
        // Processes of another PID namespace show as 0.
        pids.retain(|&pid| pid > 0);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::cgroup::Generation;

    fn status(lines: &str) -> Option<Standing> {
        parse_standing(lines)
    }

    #[test]
    fn the_standing_of_a_process_is_parsed() {
        let plain =
            "Name:\tsh\nState:\tS (sleeping)\nUid:\t7\t7\t7\t7\nNSpid:\t12\nKthread:\t0\nVmSize:\t  9 kB\n";
        assert_eq!(status(plain), Some(Standing { user: 7, ..Standing::default() }));
        let older = plain.replace("Kthread:\t0\n", "");
        assert_eq!(status(&older), status(plain));
        let thread = older.replace("VmSize:\t  9 kB\n", "");
        assert!(status(&thread).is_some_and(|standing| standing.kernel));
        let ended = thread.replace("S (sleeping)", "Z (zombie)");
        assert!(status(&ended).is_some_and(|standing| !standing.kernel));
        assert!(status(&plain.replace("Kthread:\t0", "Kthread:\t1")).is_some_and(|standing| standing.kernel));
        assert!(
            status(&plain.replace("NSpid:\t12", "NSpid:\t12\t1")).is_some_and(|standing| standing.nested)
        );
        assert!(status(&plain.replace("7\t7\t7\t7", "7\t0\t0\t0")).is_some_and(|standing| standing.mixed));
        assert_eq!(status("Name:\tsh\n"), None);
        assert_eq!(status("Uid:\tseven\n"), None);
    }

    #[test]
    fn managers_and_jobs_of_processes_are_recognized() {
        assert_eq!(manager(b"A=1\0SLURM_JOB_ID=3\0"), Some("Slurm"));
        assert_eq!(manager(b"SLURM_JOB_ID=3\0PINFOLD_JOB_ID=3\0"), None);
        assert_eq!(manager(b"SLURM_JOB_ID=3\0PINFOLD_JOB_ID=4\0"), Some("Slurm"));
        assert_eq!(manager(b"SLURM_JOB_ID=3\0SLURM_CLUSTER_NAME=pinfold\0"), None);
        assert_eq!(manager(b"SLURM_JOB_IDS=3\0X_CONDOR_JOB_AD=x"), None);
        let mark = b"PINFOLD_JOB_ID=12\0PINFOLD_INSTANCE=i1\0";
        assert_eq!(mark_of_a_job(mark), Some(("i1".to_owned(), 12)));
        assert_eq!(mark_of_a_job(b"PINFOLD_JOB_ID=12\0"), None);
        let of = |text: &str| group_of_a_job(text).map(|(instance, job)| format!("{instance} {job}"));
        assert_eq!(of("4:memory:/\n0::/own/pinfold/i1/job-3/below\n").as_deref(), Some("i1 3"));
        assert_eq!(of("4:cpu,cpuacct:/pinfold/i2/job-4\n0::/\n").as_deref(), Some("i2 4"));
        assert_eq!(of("0::/pinfold/i1\n"), None);
        assert_eq!(of("0::/home/job-3\n"), None);
        let all = groups_of_jobs("5:x:/pinfold/i1/job-3/pinfold/i2/job-1\n0::/pinfold/pinfold/i1/job-4\n");
        let all: Vec<String> = all.iter().map(|(instance, job)| format!("{instance} {job}")).collect();
        assert_eq!(all, ["i1 3", "i2 1", "i1 4"]);
    }

    /// A `/proc` of processes with their parents and states.
    fn proc(all: &[(u32, u32, char)]) -> (tempfile::TempDir, Proc) {
        let root = tempfile::tempdir().unwrap();
        for (pid, parent, state) in all {
            let dir = root.path().join(pid.to_string());
            fs::create_dir(&dir).unwrap();
            let rest = "0 ".repeat(17);
            // Fields 5 to 21, then the start and two sizes.
            fs::write(dir.join("stat"), format!("{pid} (a) b) {state} {parent} {rest}{} 0 0", pid * 10))
                .unwrap();
        }
        let proc = Proc::open(root.path()).unwrap();
        (root, proc)
    }

    #[test]
    fn a_tree_has_all_below_and_none_beside() {
        let all = [(1, 0, 'S'), (5, 1, 'S'), (6, 5, 'S'), (7, 6, 'Z'), (8, 6, 'R'), (9, 1, 'S'), (4, 8, 'S')];
        let (_root, proc) = proc(&all);
        let all = Processes::read(&proc).unwrap();
        let pids = |named: &[u32]| all.tree(named).iter().map(|stat| stat.pid).collect::<Vec<_>>();
        assert_eq!(pids(&[5]), [5, 6, 8, 4]);
        assert_eq!(pids(&[8, 5]), [8, 5, 4, 6]);
        assert_eq!(pids(&[9, 77]), [9]);
        assert_eq!(pids(&[]), [0; 0]);
        assert_eq!((all.tree(&[9])[0].start_ticks, all.count()), (90, 7));
    }

    #[test]
    fn each_of_a_deep_line_is_asked_once() {
        // A child, an unrelated process, a process with its parent's number reused, and two that are each other's parents.
        let chain = (1..=500).map(|pid| (pid, pid - 1, 'S'));
        let others = [(600, 500, 'S'), (601, 700, 'S'), (700, 450, 'S'), (800, 801, 'S'), (801, 800, 'S')];
        let (_root, proc) = proc(&chain.chain(others).collect::<Vec<_>>());
        let all = Processes::read(&proc).unwrap();
        let mut asked = BTreeMap::new();
        let found = all.nearest((1..=900).rev(), |stat| {
            *asked.entry(stat.pid).or_insert(0) += 1;
            (stat.pid % 100 == 0).then_some(stat.pid)
        });
        assert!(asked.len() == all.count() && asked.values().all(|&times| times == 1), "{asked:?}");
        let of = |pid: u32| found.get(&pid).copied();
        assert_eq!(
            [of(500), of(499), of(200), of(199), of(99)],
            [Some(500), Some(400), Some(200), Some(100), None]
        );
        assert_eq!(
            [of(600), of(601), of(700), of(801), of(900)],
            [Some(600), None, Some(700), Some(800), None]
        );
    }

    #[test]
    fn groups_by_directory_and_by_path() {
        let root = tempfile::tempdir().unwrap();
        for (group, pids) in [("a", "5\n3\n"), ("a/b", "7\n5\n0\n"), ("c", "")] {
            fs::create_dir_all(root.path().join(group)).unwrap();
            fs::write(root.path().join(group).join("cgroup.procs"), pids).unwrap();
        }
        let all = [Hierarchy {
            generation: Generation::V2,
            mount: root.path().to_owned(),
            base: String::new(),
            delegated: false,
            controllers: Vec::new(),
            writable: true,
            files: Vec::new(),
        }];
        let members = |path: &Path| group_members(&all, &Roots::default(), path).unwrap();
        assert_eq!(members(Path::new("/a")), Some(vec![3, 5, 7]));
        assert_eq!(members(Path::new("a/b")), Some(vec![5, 7]));
        assert_eq!(members(&root.path().join("a")), Some(vec![3, 5, 7]));
        assert_eq!(members(Path::new("/c")), Some(Vec::new()));
        for none in ["/", "", "/gone", "/a/../c"] {
            assert_eq!(members(Path::new(none)), None, "{none:?}");
        }
        assert_eq!(members(root.path()), None, "the top is the whole host");
    }
}
