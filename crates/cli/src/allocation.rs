//! What a workload manager gave to this process, as its environment and its affinity tell: the job that is asked for
//! stays within that, and ends when the workload manager ends who asked for it. What control groups bound is looked up by
//! the daemon, which need not take a client's word for it. Absent here: how a job is kept to it.

use std::ffi::OsString;
use std::sync::OnceLock;

use pinfold_proto::Allocation;
use pinfold_sys::discover;
use pinfold_topo::CpuSet;

use crate::job;

/// The variables by which a job of each is known: one that all of them are there says so, the last is its number.
const MANAGERS: [(&str, &[&str]); 3] = [
    ("Slurm", &["SLURM_JOB_ID"]),
    ("HTCondor", &["_CONDOR_JOB_AD"]),
    ("Grid Engine", &["SGE_ROOT", "SGE_TASK_ID", "JOB_ID"]),
];

/// That of this process.
pub(crate) fn own() -> Option<Allocation> {
    static OWN: OnceLock<Option<Allocation>> = OnceLock::new();
    // The PUs of a part of a job are those that pinfold gave it.
    let cpus = || if job::inside_any() { None } else { discover::allowed().ok() };
    OWN.get_or_init(|| read(|name| std::env::var_os(name), cpus)).clone()
}

fn read(
    variable: impl Fn(&str) -> Option<OsString>,
    cpus: impl Fn() -> Option<CpuSet>,
) -> Option<Allocation> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty());
    let there = |(_, names): &&(&str, &[&str])| names.iter().all(|name| value(name).is_some());
    let (manager, names) = MANAGERS.iter().find(there)?;
    let number = names.last().and_then(|name| value(name)).and_then(|value| value.into_string().ok());
    // HTCondor tells a file's name and no number.
    let number =
        number.filter(|number| number.len() <= 20 && number.bytes().all(|byte| byte.is_ascii_digit()));
    let manager = number.map_or_else(|| (*manager).to_owned(), |number| format!("{manager} {number}"));
    Some(Allocation {
        manager: Some(manager),
        cpus: cpus().map(|cpus| cpus.to_string()),
        memory_bytes: None,
        memory_group: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], want: Option<&str>) {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let cpus = || "0-1".parse().ok();
        let found = read(variable, cpus);
        assert_eq!(found.as_ref().and_then(|found| found.manager.as_deref()), want, "with {variables:?}");
        assert_eq!(found.and_then(|found| found.cpus), want.map(|_| "0-1".to_owned()), "with {variables:?}");
    }

    #[test]
    fn workload_managers_are_known_by_their_variables() {
        check(&[], None);
        check(&[("SLURM_JOB_ID", "")], None);
        check(&[("SLURM_JOB_ID", "12")], Some("Slurm 12"));
        check(&[("SLURM_JOB_ID", "12; rm")], Some("Slurm"));
        check(&[("_CONDOR_JOB_AD", "/var/lib/condor/execute/dir_1/.job.ad")], Some("HTCondor"));
        check(&[("JOB_ID", "3")], None);
        check(&[("JOB_ID", "3"), ("SGE_ROOT", "/r"), ("SGE_TASK_ID", "undefined")], Some("Grid Engine 3"));
    }
}
