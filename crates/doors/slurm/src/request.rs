//! The request of sbatch, srun and salloc, from their options.
//!
//! Absent here: the tables of options (`options`), and submission (`launch`).

use crate::getopt::Given;
use crate::jobs::CLUSTER;
use crate::units::{Toward, limit_s, memory_bytes, moment};
use crate::warning::Warning;

/// See the module's page.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Request {
    pub account: String,
    pub array: Option<String>,
    pub begin_s: Option<f64>,
    pub comment: String,
    pub cpus_per_task: Option<u32>,
    pub dependency: String,
    pub directory: Option<String>,
    pub error: Option<String>,
    pub exclusive: bool,
    pub export: Option<String>,
    pub hold: bool,
    pub input: Option<String>,
    /// The job in which a step is to run.
    pub jobid: Option<String>,
    pub kill_on_bad_exit: bool,
    pub label: bool,
    /// Unsaid, or unlimited, or so many seconds.
    pub limit_s: Option<Option<u64>>,
    pub cpu_bind: Option<String>,
    pub mem: Option<Memory>,
    pub name: Option<String>,
    pub ntasks: Option<u32>,
    pub ntasks_per_node: Option<u32>,
    pub append: Option<bool>,
    pub output: Option<String>,
    pub parsable: bool,
    pub partition: String,
    pub qos: String,
    pub quiet: bool,
    /// `--requeue` or `--no-requeue`, if given.
    pub requeue: Option<bool>,
    pub test_only: bool,
    pub verbose: u32,
    pub wait: bool,
    pub warning: Option<Warning>,
    pub wrap: Option<String>,
    pub help: Option<&'static str>,
}

/// Requested memory, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// On the host; 0: all memory.
    Node(u64),
    /// Per CPU.
    Cpu(u64),
}

impl Request {
    /// Adds options; later options win.
    ///
    /// # Errors
    /// In Slurm's words, for an invalid value or an absent feature.
    pub(crate) fn take(&mut self, given: &[Given], host: &str) -> Result<(), String> {
        given.iter().try_for_each(|option| self.take_one(option, host))
    }

    fn take_one(&mut self, given: &Given, host: &str) -> Result<(), String> {
        let name = given.name.as_str();
        let value = || given.value.clone().unwrap_or_default();
        match name {
            "account" => self.account = value(),
            "array" => self.array = Some(array(&value())?),
            "begin" => {
                let at = moment(&value(), Toward::Next);
                self.begin_s = Some(at.ok_or_else(|| format!("Invalid --begin specification: {}", value()))?);
            }
            "chdir" => self.directory = Some(value()),
            "clusters" => cluster(&value())?,
            "comment" => self.comment = value(),
            "cpus-per-task" => self.cpus_per_task = Some(count("--cpus-per-task", &value())?),
            "dependency" => self.dependency = value(),
            "error" => self.error = Some(value()),
            "exclusive" => self.exclusive = !matches!(value().as_str(), "user" | "mcs" | "topo" | "no"),
            "export" => self.export = Some(value()),
            "hold" => self.hold = true,
            "input" => self.input = Some(value()).filter(|file| file != "none"),
            "job-name" => self.name = Some(value()),
            "jobid" => self.jobid = Some(value()),
            "kill-on-bad-exit" => self.kill_on_bad_exit = given.value.as_deref() != Some("0"),
            "label" => self.label = true,
            "mem" => self.mem = Some(Memory::Node(memory("--mem", &value())?)),
            "mem-per-cpu" => self.mem = Some(Memory::Cpu(memory("--mem-per-cpu", &value())?)),
            "cpu-bind" => self.cpu_bind = Some(value()),
            "mpi" => mpi(&value())?,
            "nodelist" => only_host(&value(), host)?,
            "exclude" if value().split(',').any(|it| it == host) => {
                return Err("Requested node configuration is not available".to_owned());
            }
            "nodes" => nodes(&value())?,
            "ntasks" => self.ntasks = Some(count("--ntasks", &value())?),
            "ntasks-per-node" => self.ntasks_per_node = Some(count("--ntasks-per-node", &value())?),
            "open-mode" => {
                self.append = Some(match value().as_str() {
                    "append" | "a" => true,
                    "truncate" | "t" => false,
                    other => return Err(format!("Invalid --open-mode specification: {other}")),
                });
            }
            "output" => self.output = Some(value()),
            "parsable" => self.parsable = true,
            "partition" => self.partition = value(),
            "qos" => self.qos = value(),
            "quiet" => self.quiet = true,
            "requeue" => self.requeue = Some(true),
            "no-requeue" => self.requeue = Some(false),
            "signal" => self.warning = Some(value().parse()?),
            "test-only" => self.test_only = true,
            "time" => {
                let limit = limit_s(&value()).ok_or_else(|| {
                    let text = value();
                    format!(
                        "Invalid --time specification: {text}: minutes, M:S, H:M:S, D-H, D-H:M or D-H:M:S of at most \
                         36600 days, or UNLIMITED"
                    )
                })?;
                self.limit_s = Some(limit);
            }
            "verbose" => self.verbose += 1,
            // For srun the option is a number of seconds.
            "wait" => self.wait = given.value.is_none(),
            "wrap" => self.wrap = Some(value()),
            "help" => self.help = Some("help"),
            "usage" => self.help = Some("usage"),
            "version" => self.help = Some("version"),
            _ => {}
        }
        Ok(())
    }

    /// The number of tasks.
    pub(crate) fn tasks(&self) -> u32 {
        self.ntasks.or(self.ntasks_per_node).unwrap_or(1).max(1)
    }

    /// The number of cores for all tasks.
    pub(crate) fn cores(&self) -> u32 {
        self.tasks().saturating_mul(self.cpus_per_task.unwrap_or(1).max(1))
    }

    /// Expected memory, in bytes.
    pub(crate) fn memory_bytes(&self) -> Option<u64> {
        match self.mem? {
            Memory::Node(bytes) => Some(bytes),
            Memory::Cpu(bytes) => Some(bytes.saturating_mul(self.cores().into())),
        }
    }

    /// The time limit in seconds, if any.
    pub(crate) fn limit(&self) -> Option<u64> {
        self.limit_s.flatten()
    }

    /// Adds options from the environment: `SBATCH_ACCOUNT` and others.
    ///
    /// # Errors
    /// As for options.
    pub(crate) fn take_environment(
        &mut self,
        prefix: &str,
        host: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<(), String> {
        for (name, option) in ENVIRONMENT {
            if let Some(value) = variable(&format!("{prefix}{name}")).filter(|value| !value.is_empty()) {
                let value = Some(value).filter(|_| !VALUELESS.contains(option));
                self.take_one(&Given { name: (*option).to_owned(), value }, host)?;
            }
        }
        Ok(())
    }
}

/// Variables behind `SBATCH_`, `SLURM_` (srun) or `SALLOC_`, and their options.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("ACCOUNT", "account"),
    ("ARRAY_INX", "array"),
    ("CLUSTERS", "clusters"),
    ("EXCLUSIVE", "exclusive"),
    ("OPEN_MODE", "open-mode"),
    ("PARTITION", "partition"),
    ("QOS", "qos"),
    ("REQUEUE", "requeue"),
    ("NO_REQUEUE", "no-requeue"),
    ("SIGNAL", "signal"),
    ("TIMELIMIT", "time"),
    ("WAIT", "wait"),
    ("INPUT", "input"),
    ("OUTPUT", "output"),
    ("ERROR", "error"),
    ("EXPORT", "export"),
    ("JOB_NAME", "job-name"),
    ("MEM_PER_CPU", "mem-per-cpu"),
    ("MEM_PER_NODE", "mem"),
];

const VALUELESS: &[&str] = &["exclusive", "requeue", "no-requeue", "wait"];

fn count(option: &str, text: &str) -> Result<u32, String> {
    let count = text.parse::<u32>().ok().filter(|&count| (1..=65_536).contains(&count));
    count.ok_or_else(|| format!("Invalid numeric value \"{text}\" for {option}."))
}

/// Refuses MPI launch plugins of srun: MPI's own launcher starts the processes.
fn mpi(name: &str) -> Result<(), String> {
    match name {
        "none" | "" => Ok(()),
        other => Err(format!(
            "--mpi={other}: not supported on a single host of pinfold's; within the job call `mpirun -n TASKS PROGRAM`"
        )),
    }
}

fn memory(option: &str, text: &str) -> Result<u64, String> {
    memory_bytes(text).ok_or_else(|| {
        format!(
            "Invalid {option} specification: {text}: a number with K, M, G or T below 8388608T (without: M)"
        )
    })
}

/// `MIN[-MAX]`, of which a single node must suffice.
fn nodes(text: &str) -> Result<(), String> {
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| text.parse::<u64>().ok();
    match (number(least), number(most)) {
        (Some(least), Some(most)) if least > most => Err(invalid_nodes(text)),
        (Some(0 | 1), Some(1..)) => Ok(()),
        (Some(2..), Some(_)) => {
            Err("Batch job submission failed: Requested node configuration is not available \
                                     (there is one node)"
                .to_owned())
        }
        _ => Err(invalid_nodes(text)),
    }
}

fn invalid_nodes(text: &str) -> String {
    format!("\"{text}\" is not a valid node count")
}

fn only_host(list: &str, host: &str) -> Result<(), String> {
    let short = |name: &str| name.split('.').next().unwrap_or(name).to_owned();
    match list.split(',').all(|name| name == "localhost" || short(name) == short(host)) {
        true => Ok(()),
        false => Err(format!("Batch job submission failed: Invalid node name specified: {list}")),
    }
}

/// Whether a list of clusters is this cluster.
pub(crate) fn cluster(list: &str) -> Result<(), String> {
    match list.split(',').find(|name| *name != CLUSTER && *name != "all") {
        None => Ok(()),
        Some(other) => Err(format!("No cluster '{other}' known by database.")),
    }
}

fn array(text: &str) -> Result<String, String> {
    // Slurm accepts its own display form `[0-3]%2` for `0-3%2`.
    let text = &text.replace(['[', ']'], "");
    let spec = text.parse::<pinfold_proto::array::ArraySpec>();
    spec.map_err(|error| format!("Batch job submission failed: Invalid job array specification: {error}"))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::getopt::{Order, parse, words_of};
    use crate::options;

    fn asked(line: &str) -> Result<Request, String> {
        let words: Vec<OsString> = words_of(line.as_bytes());
        let (given, _) = parse(&options::sbatch(), &words, Order::Strict)?;
        let mut request = Request::default();
        request.take(&given, "h1.site")?;
        Ok(request)
    }

    #[test]
    fn requests_of_engines_are_read() {
        let snakemake = asked(
            "--parsable --job-name 3e-4 --output '/w/a b/%j.log' --export=ALL --comment rule_x -A acc -p cpu -t 10 \
             --mem 1000 --ntasks=1 --cpus-per-task=2 -D /w --wrap=\"echo 'x y'\"",
        );
        let request = snakemake.expect("an ordinary call");
        assert!(request.parsable && request.output.as_deref() == Some("/w/a b/%j.log"));
        assert_eq!(
            (request.cores(), request.memory_bytes(), request.limit()),
            (2, Some(1000 << 20), Some(600))
        );
        assert_eq!(request.wrap.as_deref(), Some("echo 'x y'"));
        let nextflow =
            asked("-J nf-x -o /w/.command.log --no-requeue --signal B:USR2@30 -c 4 -t 01:00:00 --mem 2048M");
        let request = nextflow.expect("an ordinary call");
        assert_eq!(request.warning, Some(Warning { shell_only: true, signal: 12, before_s: 30 }));
        let parsl = asked("--nodes=1 --time=30 --ntasks-per-node=2 --exclusive --mem=4g --cpus-per-task=3");
        let request = parsl.expect("an ordinary call");
        assert_eq!((request.cores(), request.exclusive), (6, true));
        assert_eq!(asked("--time=0:90 --mem=5").expect("Toil's").limit(), Some(90));
        let none = asked("--gpus-per-node=0 --gres=gpu:0 --array=[0-3]%2").expect("none is asked for");
        assert_eq!(none.array.as_deref(), Some("0-3%2"));
    }

    #[test]
    fn requests_of_variables_are_read() {
        let mut request = Request::default();
        let variables = [("SBATCH_MEM_PER_NODE", "2G"), ("SBATCH_TIMELIMIT", "5"), ("SBATCH_EXCLUSIVE", "1")];
        let get = |name: &str| variables.iter().find(|(known, _)| *known == name).map(|it| it.1.to_owned());
        request.take_environment("SBATCH_", "h1", get).expect("values");
        assert_eq!(
            (request.mem, request.limit(), request.exclusive),
            (Some(Memory::Node(2 << 30)), Some(300), true)
        );
    }

    #[test]
    fn absent_features_are_refused() {
        let check = |line: &str, words: &str| {
            let error = asked(line).expect_err(line);
            assert!(error.contains(words), "{line}: {error}");
        };
        check("-N 2", "node configuration is not available");
        check("-N 2-4", "node configuration is not available");
        check("-N x", "not a valid node count");
        check("--gres=gpu:1", "Invalid generic resource (gres) specification");
        check("--gpus 1", "gres");
        check("-w other", "Invalid node name specified");
        check("-x h1.site", "node configuration is not available");
        check("-M other", "No cluster 'other'");
        check("-t 5x", "Invalid --time specification");
        check("--mem=5x", "Invalid --mem specification");
        check("-n 0", "Invalid numeric value \"0\"");
        check("-a 1-", "Invalid job array specification");
        check("--signal=FOO@3", "Invalid --signal specification");
        check("--begin=never", "Invalid --begin specification");
        check("-C gpu", "Invalid feature specification");
        check(
            "--mem-per-cpu=9999999T",
            "Invalid --mem-per-cpu specification: 9999999T: a number with K, M, G or T below",
        );
        check("-t 99999999999-23:59:59", "Invalid --time specification: 99999999999-23:59:59: minutes, M:S");
        assert!(asked("-N 1-4 --gres=none -w h1 -M pinfold").is_ok());
    }
}
