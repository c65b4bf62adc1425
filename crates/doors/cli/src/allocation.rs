//! The allocation of this process by a workload manager, as its environment, its own files and the affinity tell: the
//! requested job stays within that allocation, and ends when the workload manager ends the calling process. The daemon
//! itself looks up the bounds of control groups and need not trust a client. Absent here: the enforcement, and requests
//! to a workload manager that the manager does not enforce.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use pinfold_proto::Allocation;
use pinfold_proto::quantity::parse_size;
use pinfold_sys::discover;
use pinfold_topo::CpuSet;

use pinfold_client::dial;

/// Bytes read at most of a file named by a variable.
const FILE_MAX_BYTES: u64 = 1 << 20;

/// The workload managers with known jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manager {
    Slurm,
    Condor,
    GridEngine,
}

impl Manager {
    const ALL: [Self; 3] = [Self::Slurm, Self::Condor, Self::GridEngine];

    fn name(self) -> &'static str {
        match self {
            Self::Slurm => "Slurm",
            Self::Condor => "HTCondor",
            Self::GridEngine => "Grid Engine",
        }
    }

    /// Whether Slurm's variables belong to a job of pinfold.
    fn is_pinfold_s(value: impl Fn(&str) -> Option<OsString>) -> bool {
        let job = value("SLURM_JOB_ID");
        value("SLURM_CLUSTER_NAME").is_some_and(|name| name == "pinfold")
            || (job.is_some() && job == value("PINFOLD_JOB_ID"))
    }

    /// The variables that each of its jobs has.
    fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Slurm => &["SLURM_JOB_ID"],
            Self::Condor => &["_CONDOR_JOB_AD"],
            Self::GridEngine => &["SGE_ROOT", "SGE_TASK_ID", "JOB_ID"],
        }
    }
}

/// The allocation of this process.
pub(crate) fn own() -> Option<Allocation> {
    static OWN: OnceLock<Option<Allocation>> = OnceLock::new();
    // Inside a job of pinfold, PUs and memory come from pinfold.
    let part = dial::inside_any();
    let cpus = || if part { None } else { discover::allowed().ok() };
    let file = |path: &Path| if part { None } else { small_file(path) };
    OWN.get_or_init(|| read(|name| std::env::var_os(name), file, cpus)).clone()
}

fn small_file(path: &Path) -> Option<String> {
    let file = std::fs::File::open(path).ok()?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut std::io::Read::take(file, FILE_MAX_BYTES), &mut text).ok()?;
    Some(text)
}

fn read(
    variable: impl Fn(&str) -> Option<OsString>,
    file: impl Fn(&Path) -> Option<String>,
    cpus: impl Fn() -> Option<CpuSet>,
) -> Option<Allocation> {
    let value = |name: &str| variable(name).filter(|value| !value.is_empty());
    // A job that was asked for in Slurm's words has its variables, and is none of Slurm's.
    let ours = Manager::is_pinfold_s(value);
    let there = |manager: &Manager| {
        manager.variables().iter().all(|name| value(name).is_some()) && !(ours && *manager == Manager::Slurm)
    };
    let manager = Manager::ALL.into_iter().find(there)?;
    let text = |name: &str| value(name).and_then(|value| value.into_string().ok());
    let (mut cpus, mut memory_bytes) = (cpus(), None);
    let number = match manager {
        Manager::Slurm => text("SLURM_JOB_ID").filter(|text| is_number(text)),
        Manager::Condor => {
            let ad = value("_CONDOR_JOB_AD").and_then(|path| file(Path::new(&path))).unwrap_or_default();
            let number = |key: &str| setting(&ad, key).filter(|text| is_number(text));
            number("ClusterId").zip(number("ProcId")).map(|(cluster, process)| format!("{cluster}.{process}"))
        }
        Manager::GridEngine => {
            let config = value("SGE_JOB_SPOOL_DIR").map(|path| PathBuf::from(path).join("config"));
            let config = config.and_then(|path| file(&path)).unwrap_or_default();
            memory_bytes = grid_memory(&config);
            // Grid Engine binds by affinity, unless told to leave binding to the job. The variable may come from
            // elsewhere.
            if setting(&config, "binding").is_some_and(|binding| binding.starts_with("env_")) {
                let named = text("SGE_BINDING").and_then(|list| listed(&list));
                cpus = within(cpus, named);
            }
            let task = text("SGE_TASK_ID").filter(|text| is_number(text));
            let task = task.map(|task| format!(".{task}")).unwrap_or_default();
            text("JOB_ID").filter(|text| is_number(text)).map(|job| job + &task)
        }
    };
    let manager = number.map_or_else(|| manager.name().to_owned(), |it| format!("{} {it}", manager.name()));
    Some(Allocation {
        manager: Some(manager),
        cpus: cpus.map(|cpus| cpus.to_string()),
        memory_bytes,
        memory_group: None,
        limits: Vec::new(),
    })
}

fn is_number(text: &str) -> bool {
    (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The value of `key = value`, a line of a text.
fn setting<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let parts = text.lines().filter_map(|line| line.split_once('='));
    parts
        .map(|(name, value)| (name.trim(), value.trim()))
        .find(|(name, _)| *name == key)
        .map(|(_, value)| value)
}

/// PUs as Grid Engine lists them, with blanks between.
fn listed(text: &str) -> Option<CpuSet> {
    let numbers: Vec<&str> = text.split_whitespace().collect();
    numbers.join(",").parse().ok().filter(|cpus: &CpuSet| !cpus.is_empty())
}

/// The named PUs among `cpus`; names of no PU in `cpus` are ignored.
fn within(cpus: Option<CpuSet>, named: Option<CpuSet>) -> Option<CpuSet> {
    let (Some(all), Some(named)) = (&cpus, &named) else { return cpus.or(named) };
    let both = all.intersection(named);
    if both.is_empty() { cpus } else { Some(both) }
}

/// The bound of `h_vmem` on this host, from the file that Grid Engine's keeper of the job goes by: for each slot,
/// unless the file says for the job. Grid Engine ends a job when its processes together exceed that address space, so
/// the same bound can hold for their memory.
fn grid_memory(config: &str) -> Option<u64> {
    let each = setting(config, "h_vmem").and_then(grid_size)?;
    if setting(config, "h_vmem_is_consumable_job").is_some_and(|whole| whole != "0") {
        return Some(each);
    }
    let slots = setting(config, "host_slots").and_then(|slots| slots.parse::<u64>().ok()).unwrap_or(1);
    each.checked_mul(slots.max(1))
}

/// A size in Grid Engine's words: small letters are powers of 1000, capitals powers of 1024. `INFINITY` gives `None`.
fn grid_size(text: &str) -> Option<u64> {
    let bytes =
        parse_size(text).or_else(|_| parse_size(&format!("{text}B"))).ok().filter(|&bytes| bytes > 0)?;
    let power = match text.chars().last() {
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        _ => 0,
    };
    // Below 2^63 * 10^12, which is below 2^128.
    u64::try_from((u128::from(bytes) * 1000_u128.pow(power)) >> (10 * power)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: &str = "/spool/active_jobs/3.1/config";
    const GRID: [(&str, &str); 4] = [
        ("JOB_ID", "3"),
        ("SGE_ROOT", "/r"),
        ("SGE_TASK_ID", "undefined"),
        ("SGE_JOB_SPOOL_DIR", "/spool/active_jobs/3.1"),
    ];

    /// What is found by these variables where a file says that.
    fn found(variables: &[(&str, &str)], (path, text): (&str, &str)) -> Option<Allocation> {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let file = |asked: &Path| (asked == Path::new(path)).then(|| text.to_owned());
        read(variable, file, || "0-3".parse().ok())
    }

    #[track_caller]
    fn check(variables: &[(&str, &str)], want: Option<&str>) {
        let found = found(variables, ("", ""));
        assert_eq!(found.as_ref().and_then(|found| found.manager.as_deref()), want, "with {variables:?}");
        assert_eq!(found.as_ref().and_then(|found| found.memory_bytes), None, "with {variables:?}");
        assert_eq!(found.and_then(|found| found.cpus), want.map(|_| "0-3".to_owned()), "with {variables:?}");
    }

    #[test]
    fn workload_managers_are_known_by_their_variables() {
        check(&[], None);
        check(&[("SLURM_JOB_ID", "")], None);
        check(&[("SLURM_JOB_ID", "12")], Some("Slurm 12"));
        check(&[("SLURM_JOB_ID", "12"), ("SLURM_CLUSTER_NAME", "c1")], Some("Slurm 12"));
        check(&[("SLURM_JOB_ID", "12"), ("SLURM_CLUSTER_NAME", "pinfold")], None);
        check(&[("SLURM_JOB_ID", "12"), ("PINFOLD_JOB_ID", "12")], None);
        check(&[("SLURM_JOB_ID", "12"), ("PINFOLD_JOB_ID", "3")], Some("Slurm 12"));
        check(&[("SLURM_JOB_ID", "12; rm")], Some("Slurm"));
        check(&[("_CONDOR_JOB_AD", "/var/lib/condor/execute/dir_1/.job.ad")], Some("HTCondor"));
        check(&[("JOB_ID", "3")], None);
        check(&GRID, Some("Grid Engine 3"));
        check(&[("JOB_ID", "3"), ("SGE_ROOT", "/r"), ("SGE_TASK_ID", "7")], Some("Grid Engine 3.7"));
    }

    #[test]
    fn a_job_of_htcondor_is_named_by_its_ad() {
        let named = |ad: &str| {
            let found = found(&[("_CONDOR_JOB_AD", "/x/.job.ad")], ("/x/.job.ad", ad));
            found.and_then(|found| found.manager).unwrap_or_default()
        };
        assert_eq!(named("Args = \"ClusterId = 3\"\nClusterId = 12\nProcId = 0\n"), "HTCondor 12.0");
        assert_eq!(named("ClusterId = 12\n"), "HTCondor");
        assert_eq!(named("ClusterId = -1\nProcId = 0\n"), "HTCondor");
    }

    #[track_caller]
    fn check_memory(config: &str, want: Option<u64>) {
        let found = found(&GRID, (CONFIG, config)).expect("its variables are there");
        assert_eq!(found.memory_bytes, want, "{config:?}");
    }

    #[test]
    fn memory_under_grid_engine_is_that_of_all_slots() {
        const MIB: u64 = 1 << 20;
        check_memory("", None);
        check_memory("h_vmem=INFINITY\nhost_slots=2\n", None);
        check_memory("h_vmem=0\n", None);
        check_memory("s_vmem=1M\nh_vmem=96M\nh_vmem_is_consumable_job=0\nhost_slots=2\n", Some(192 * MIB));
        check_memory("h_vmem=96M\nh_vmem_is_consumable_job=1\nhost_slots=2\n", Some(96 * MIB));
        check_memory("h_vmem=100663296.000000\nhost_slots=none\n", Some(96 * MIB));
        check_memory("h_vmem=1.5g\nhost_slots=1\n", Some(1_500_000_000));
        check_memory("h_vmem=9000000000G\nhost_slots=1\n", None);
    }

    #[test]
    fn pus_that_grid_engine_only_names() {
        let cpus = |binding: &str, named: &str| {
            let variables = [&GRID[..], &[("SGE_BINDING", named)]].concat();
            found(&variables, (CONFIG, &format!("binding={binding}\n"))).and_then(|found| found.cpus)
        };
        assert_eq!(cpus("env_explicit:0,0:ScSC", "0 2").as_deref(), Some("0,2"));
        assert_eq!(cpus("env_linear:1:0,0", "2 9").as_deref(), Some("2"));
        assert_eq!(cpus("env_explicit:0,0:ScSC", "9").as_deref(), Some("0-3"), "none of them");
        assert_eq!(cpus("env_explicit:0,0:ScSC", "some").as_deref(), Some("0-3"));
        // It bound, or did not, and the variable came with the process that asked for the job.
        assert_eq!(cpus("explicit:0,0:ScSC", "2").as_deref(), Some("0-3"));
        assert_eq!(cpus("NULL", "2").as_deref(), Some("0-3"));
    }
}
