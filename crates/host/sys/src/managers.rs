//! The workload manager of a process, by kernel facts: the names that workload managers give to their control groups,
//! and the processes above it. Its environment does not count, as the process may change it.
//!
//! Absent here: the consequences, and managers that leave no mark in the kernel.

use std::collections::BTreeMap;

use crate::adoptee::Processes;
use crate::procfs::{Proc, ProcessStat};

/// The most ancestors that are read.
const ANCESTORS_MAX: usize = 64;

const GRID_ENGINE: &str = "Grid Engine";

/// The workload manager of a process, with its job's number if known; `None` also for a vanished process.
#[must_use]
pub fn of_process(proc: &Proc, pid: u32) -> Option<String> {
    let groups = proc.text(&format!("{pid}/cgroup")).ok().flatten()?;
    of_groups(&groups).or_else(|| of_ancestors(proc, pid))
}

/// As [`of_process`], for several processes: their ancestors are read once, however many descend from them.
#[must_use]
pub fn of_processes<'a>(
    proc: &Proc,
    all: &Processes,
    these: impl IntoIterator<Item = &'a ProcessStat>,
) -> BTreeMap<u32, String> {
    let (mut found, mut others) = (BTreeMap::new(), Vec::new());
    for stat in these {
        let Some(groups) = proc.text(&format!("{}/cgroup", stat.pid)).ok().flatten() else { continue };
        match of_groups(&groups) {
            Some(manager) => drop(found.insert(stat.pid, manager)),
            None => others.push(stat),
        }
    }
    let parents = others.iter().map(|stat| stat.parent);
    let below = all.nearest(parents, |above| is_shepherd(proc, above.pid).then_some(()));
    others.retain(|stat| below.contains_key(&stat.parent));
    found.extend(others.into_iter().map(|stat| (stat.pid, GRID_ENGINE.to_owned())));
    found
}

/// Parses `/proc/PID/cgroup`.
fn of_groups(text: &str) -> Option<String> {
    text.lines().filter_map(|line| line.splitn(3, ':').nth(2)).find_map(of_group)
}

/// Parses a path: Slurm's `slurm/uid_N/job_M` (first generation) and `slurmstepd.scope/job_M`, with the host's name
/// possible in either; HTCondor's `htcondor/condor_...slotN@...`; OpenPBS's `pbs_jobs.service/jobid/M`; Torque's
/// `torque/M`; LSF's `lsf/CLUSTER/job.M.N`.
fn of_group(path: &str) -> Option<String> {
    let names: Vec<&str> = path.split('/').collect();
    let numbered = |name: &str, prefix: &str| {
        let number = name.strip_prefix(prefix)?;
        let ends = number.find(|c: char| !c.is_ascii_digit()).unwrap_or(number.len());
        (ends > 0).then(|| number[..ends].to_owned())
    };
    for (place, name) in names.iter().enumerate() {
        let next = |steps: usize| names.get(place + steps).copied().unwrap_or_default();
        let slurm = match () {
            () if name.ends_with("slurmstepd.scope") => numbered(next(1), "job_"),
            () if name.starts_with("slurm") => {
                numbered(next(1), "uid_").and_then(|_| numbered(next(2), "job_"))
            }
            () => None,
        };
        if let Some(job) = slurm {
            return Some(format!("Slurm {job}"));
        }
        match *name {
            name if name.starts_with("condor")
                && (name.contains("slot") || names[..place].contains(&"htcondor")) =>
            {
                return Some("HTCondor".to_owned());
            }
            name if name.starts_with("pbs_jobs") && next(1) == "jobid" && !next(2).is_empty() => {
                return Some(format!("PBS {}", next(2)));
            }
            "torque" if next(1).starts_with(|c: char| c.is_ascii_digit()) => {
                return Some(format!("PBS {}", next(1)));
            }
            "lsf" => {
                if let Some(job) = numbered(next(2), "job.") {
                    return Some(format!("LSF {job}"));
                }
            }
            _ => {}
        }
    }
    None
}

/// Grid Engine does not always make a group: each of its jobs has a shepherd above it, a process of root's.
fn of_ancestors(proc: &Proc, pid: u32) -> Option<String> {
    let mut at = pid;
    for _ in 0..ANCESTORS_MAX {
        at = proc.stat(at).ok().flatten()?.parent;
        if at <= 1 {
            return None;
        }
        if is_shepherd(proc, at) {
            return Some(GRID_ENGINE.to_owned());
        }
    }
    None
}

/// Whether a process is Grid Engine's shepherd of a job.
fn is_shepherd(proc: &Proc, pid: u32) -> bool {
    let text = |file: &str| proc.text(&format!("{pid}/{file}")).ok().flatten().unwrap_or_default();
    pid > 1 && text("comm").trim() == "sge_shepherd" && is_roots(&text("status"))
}

/// Whether a process is root's by any of its users; a shepherd takes its administrator's rights at times, and comes back.
fn is_roots(status: &str) -> bool {
    let users = status.lines().find_map(|line| line.strip_prefix("Uid:"));
    users.is_some_and(|users| users.split_ascii_whitespace().any(|user| user == "0"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn jobs_are_known_by_their_groups() {
        for (path, want) in [
            ("/slurm/uid_1000/job_12/step_0/task_0", Some("Slurm 12")),
            ("/slurm_node7/uid_1000/job_12", Some("Slurm 12")),
            ("/system.slice/slurmstepd.scope/job_12/step_batch/user/task_0", Some("Slurm 12")),
            ("/system.slice/node7_slurmstepd.scope/job_7", Some("Slurm 7")),
            ("/system.slice/slurmstepd.scope/system", None),
            ("/slurm/uid_1000", None),
            ("/slurm/uid_x/job_12", None),
            ("/htcondor/condor_var_lib_condor_execute_slot1_2@host", Some("HTCondor")),
            ("/system.slice/condor.service/condor_slot1@host", Some("HTCondor")),
            ("/system.slice/condor.service", None),
            ("/pbs_jobs.service/jobid/12.server", Some("PBS 12.server")),
            ("/pbs_jobs.service/jobid", None),
            ("/torque/12.server", Some("PBS 12.server")),
            ("/lsf/cluster1/job.12.3456.789", Some("LSF 12")),
            ("/user.slice/user-1000.slice/session-3.scope", None),
            ("/", None),
        ] {
            assert_eq!(of_group(path).as_deref(), want, "{path}");
            assert_eq!(of_groups(&format!("4:memory:/\n0::{path}\n")).as_deref(), want, "{path}");
        }
    }

    #[test]
    fn grid_engine_is_known_by_a_shepherd_of_roots() {
        let root = tempfile::tempdir().unwrap();
        for (pid, parent, name, user) in [
            (5, 1, "sge_shepherd", 0),
            (6, 5, "sh", 7),
            (8, 6, "a", 7),
            (9, 1, "sge_shepherd", 7),
            (10, 9, "b", 7),
        ] {
            let dir = root.path().join(pid.to_string());
            fs::create_dir(&dir).unwrap();
            fs::write(dir.join("stat"), format!("{pid} ({name}) S {parent} {}3 0 0", "0 ".repeat(17)))
                .unwrap();
            fs::write(dir.join("comm"), format!("{name}\n")).unwrap();
            fs::write(dir.join("status"), format!("Name:\t{name}\nUid:\t{user}\t{user}\t{user}\t{user}\n"))
                .unwrap();
            fs::write(dir.join("cgroup"), "0::/\n").unwrap();
        }
        let proc = Proc::open(root.path()).unwrap();
        assert_eq!(of_process(&proc, 8).as_deref(), Some("Grid Engine"));
        assert_eq!(of_process(&proc, 6).as_deref(), Some("Grid Engine"));
        assert_eq!(of_process(&proc, 10), None, "anybody may call a process so");
        assert_eq!(of_process(&proc, 11), None);
        let all = Processes::read(&proc).unwrap();
        let found = of_processes(&proc, &all, &all.tree(&[5, 9]));
        assert_eq!(found.into_keys().collect::<Vec<_>>(), [6, 8], "together as one by one");
    }
}
