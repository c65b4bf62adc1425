//! Identifies the workload manager's job of an environment by the variables in the managers' public manuals.
//!
//! | manager | manual |
//! | --- | --- |
//! | Slurm | sbatch(1), srun(1), "OUTPUT ENVIRONMENT VARIABLES" |
//! | Grid Engine | qsub(1), "ENVIRONMENTAL VARIABLES" |
//! | HTCondor | Users' Manual, "Extra Environment Variables HTCondor sets for Jobs" |
//! | OpenPBS, Torque | qsub(1B); Torque Administrator Guide, "Exported batch environment variables" |
//! | LSF | Reference, "Environment variables set for job execution" |
//! | LoadLeveler | Using and Administering, "Run-time environment variables" |
//! | NetworkComputer | User Guide, "Job environment variables" |
//!
//! A process can change its environment, so the result is only a claim of its user.

use pinfold_proto::ExternalName;

/// A job identified by its environment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dispatched {
    /// Its name.
    pub external: ExternalName,
    /// Its processors (PUs) on this host, if the environment names a number.
    pub pus: Option<u32>,
    /// Its name by its user, or by its manager from the program.
    pub title: Option<String>,
}

/// The value of a variable.
pub type Get<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The variables of a manager.
struct Known {
    /// The first part of the name.
    word: &'static str,
    /// Variables that must all be set.
    needs: &'static [&'static str],
    /// Makes the job's name in the manager from the variables.
    id: fn(Get<'_>) -> Option<String>,
    /// Variables with the number of processors on this host; the first valid number counts.
    pus: &'static [&'static str],
    /// The variable with the title of the job.
    title: &'static str,
}

/// The most characters of a job's name.
const TITLE_MAX: usize = 64;

/// Ordered, because Torque and Slurm's wrappers also set PBS variables.
const KNOWN: [Known; 8] = [
    Known {
        word: "slurm",
        needs: &["SLURM_JOB_ID"],
        id: |get| {
            let job = number(&get("SLURM_JOB_ID")?)?;
            let step = get("SLURM_STEP_ID").and_then(|step| number(&step));
            Some(format!("{job}.{}", step.unwrap_or_else(|| "batch".to_owned())))
        },
        pus: &["SLURM_CPUS_ON_NODE"],
        title: "SLURM_JOB_NAME",
    },
    Known {
        word: "sge",
        needs: &["JOB_ID", "SGE_TASK_ID"],
        id: |get| with_task(&get("JOB_ID")?, get("SGE_TASK_ID"), '.'),
        pus: &["NSLOTS"],
        title: "JOB_NAME",
    },
    Known {
        word: "condor",
        needs: &["_CONDOR_JOB_AD"],
        id: |get| {
            // Set by the wrapper from the job's ad.
            let id = get("PINFOLD_CONDOR_ID")?;
            let (cluster, process) = id.split_once('.')?;
            Some(format!("{}.{}", number(cluster)?, number(process)?))
        },
        pus: &["OMP_NUM_THREADS"],
        title: "PINFOLD_CONDOR_NAME",
    },
    Known {
        word: "torque",
        needs: &["PBS_JOBID", "PBS_VERSION"],
        id: |get| Some(get("PBS_JOBID")?.split('.').next()?.to_owned()),
        pus: &["PBS_NUM_PPN", "PBS_NP"],
        title: "PBS_JOBNAME",
    },
    Known {
        word: "pbs",
        needs: &["PBS_JOBID"],
        id: |get| Some(get("PBS_JOBID")?.split('.').next()?.to_owned()),
        pus: &["NCPUS", "OMP_NUM_THREADS"],
        title: "PBS_JOBNAME",
    },
    Known {
        word: "lsf",
        needs: &["LSB_JOBID"],
        id: |get| {
            let job = number(&get("LSB_JOBID")?)?;
            let index = get("LSB_JOBINDEX").and_then(|index| number(&index)).filter(|index| index != "0");
            Some(index.map_or_else(|| job.clone(), |index| format!("{job}[{index}]")))
        },
        pus: &["LSB_DJOB_NUMPROC", "LSB_MAX_NUM_PROCESSORS"],
        title: "LSB_JOBNAME",
    },
    Known {
        word: "loadleveler",
        needs: &["LOADL_STEP_ID"],
        id: |get| get("LOADL_STEP_ID"),
        pus: &["LOADL_TOTAL_TASKS", "OMP_NUM_THREADS"],
        title: "LOADL_JOB_NAME",
    },
    Known {
        word: "networkcomputer",
        needs: &["VOV_JOBID"],
        id: |get| number(&get("VOV_JOBID")?),
        pus: &["VOV_JOBCORES"],
        title: "",
    },
];

/// The job of an environment; `None`: no known manager.
#[must_use]
pub fn identify(get: Get<'_>) -> Option<Dispatched> {
    let set = |name: &str| get(name).filter(|value| !value.is_empty());
    let there = |known: &&Known| known.needs.iter().all(|name| set(name).is_some());
    let known = KNOWN.iter().find(there)?;
    let external = format!("{}:{}", known.word, (known.id)(&set)?).parse().ok()?;
    let pus = known.pus.iter().find_map(|name| set(name)?.parse::<u32>().ok()).filter(|&pus| pus > 0);
    let title = set(known.title).map(|name| title(&name)).filter(|name| !name.is_empty());
    Some(Dispatched { external, pus, title })
}

/// A job's title without control characters.
fn title(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(TITLE_MAX).collect()
}

fn number(text: &str) -> Option<String> {
    let digits = (1..=20).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    digits.then(|| text.to_owned())
}

/// A job's number, with its task's number if any.
fn with_task(job: &str, task: Option<String>, between: char) -> Option<String> {
    let job = number(job)?;
    let task = task.and_then(|task| number(&task));
    Some(task.map_or_else(|| job.clone(), |task| format!("{job}{between}{task}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(variables: &[(&str, &str)], want: Option<(&str, Option<u32>)>) {
        let get = |name: &str| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        };
        let found = identify(&get).map(|found| (found.external.to_string(), found.pus));
        assert_eq!(found, want.map(|(name, pus)| (name.to_owned(), pus)), "{variables:?}");
    }

    /// Each as a job of that manager finds it, by its manual.
    #[test]
    fn each_managers_environment() {
        check(&[], None);
        check(&[("SLURM_JOB_ID", "12"), ("SLURM_CPUS_ON_NODE", "4")], Some(("slurm:12.batch", Some(4))));
        check(&[("SLURM_JOB_ID", "12"), ("SLURM_STEP_ID", "0")], Some(("slurm:12.0", None)));
        let grid = [("JOB_ID", "17"), ("SGE_TASK_ID", "undefined"), ("NSLOTS", "2")];
        check(&grid, Some(("sge:17", Some(2))));
        check(&[("JOB_ID", "17"), ("SGE_TASK_ID", "3")], Some(("sge:17.3", None)));
        let condor =
            [("_CONDOR_JOB_AD", "/x/.job.ad"), ("PINFOLD_CONDOR_ID", "12.0"), ("OMP_NUM_THREADS", "1")];
        check(&condor, Some(("condor:12.0", Some(1))));
        check(&condor[..1], None);
        check(&[("PBS_JOBID", "9.server"), ("NCPUS", "2")], Some(("pbs:9", Some(2))));
        check(&[("PBS_JOBID", "9[3].server")], Some(("pbs:9[3]", None)));
        let torque = [("PBS_JOBID", "9.server"), ("PBS_VERSION", "TORQUE-6.1.1"), ("PBS_NUM_PPN", "8")];
        check(&torque, Some(("torque:9", Some(8))));
        check(
            &[("LSB_JOBID", "7"), ("LSB_JOBINDEX", "0"), ("LSB_DJOB_NUMPROC", "4")],
            Some(("lsf:7", Some(4))),
        );
        check(&[("LSB_JOBID", "7"), ("LSB_JOBINDEX", "2")], Some(("lsf:7[2]", None)));
        check(&[("LOADL_STEP_ID", "node1.5.0")], Some(("loadleveler:node1.5.0", None)));
        check(&[("VOV_JOBID", "33"), ("VOV_JOBCORES", "2")], Some(("networkcomputer:33", Some(2))));
    }

    #[test]
    fn invalid_names_are_none() {
        check(&[("SLURM_JOB_ID", "12; rm -rf /")], None);
        check(&[("SLURM_JOB_ID", "")], None);
        check(&[("PBS_JOBID", "$(id)")], None);
        check(&[("LOADL_STEP_ID", "a b")], None);
        check(&[("JOB_ID", "17"), ("SGE_TASK_ID", "1"), ("NSLOTS", "many")], Some(("sge:17.1", None)));
    }

    #[test]
    fn a_name_is_text_of_bounded_length() {
        let of = |name: &str| {
            let name = name.to_owned();
            let get = |key: &str| match key {
                "JOB_ID" | "SGE_TASK_ID" => Some("1".to_owned()),
                "JOB_NAME" => Some(name.clone()),
                _ => None,
            };
            identify(&get).expect("a job").title
        };
        assert_eq!(of("align 2"), Some("align 2".to_owned()));
        assert_eq!(of("a\nb\u{1b}[2J"), Some("ab[2J".to_owned()));
        assert_eq!(of("\n"), None);
        assert_eq!(of(""), None);
        assert_eq!(of(&"\u{fc}".repeat(300)).map(|name| name.chars().count()), Some(TITLE_MAX));
    }
}
