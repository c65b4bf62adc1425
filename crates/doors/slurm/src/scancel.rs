//! `scancel`: ends or signals jobs or steps.

use std::ffi::OsString;
use std::io::BufRead as _;

use pinfold_client::Failure;
use pinfold_proto::ExitCode;
use pinfold_proto::wire::Verb;
use pinfold_sys::peer::own_name;
use pinfold_sys::procfs::Proc;
use pinfold_sys::signals;

use crate::batch_step::{KILL_FOLLOWS, below, is_step};
use crate::cluster::Cluster;
use crate::getopt::{Given, Order, parse};
use crate::jobs::Job;
use crate::options;
use crate::request::cluster as only_cluster;
use crate::say;
use crate::select::{self, Named};
use crate::squeue::{is_here, states};
use crate::state::State;
use crate::trouble::{INVALID_JOB, Trouble, words};
use crate::units::now_s;
use crate::users::users_that_exist;

/// The selected jobs and the action. Names, accounts, partitions and QOS are taken literally: a job called `a,b` is
/// neither `a` nor `b`.
#[derive(Debug, Default)]
struct Asked {
    account: Option<String>,
    partition: Option<String>,
    qos: Option<String>,
    name: Option<String>,
    users: Option<Vec<String>>,
    states: Option<Vec<State>>,
    /// Whether the requested nodes include this host.
    here: Option<bool>,
    signal: Option<i32>,
    batch: bool,
    full: bool,
    quiet: bool,
    verbose: bool,
    confirm: bool,
    help: Option<&'static str>,
}

/// Variables and their options; switches accept only `true` and `t`.
const ENVIRONMENT: &[(&str, &str)] = &[
    ("SCANCEL_ACCOUNT", "account"),
    ("SCANCEL_BATCH", "batch"),
    ("SCANCEL_FULL", "full"),
    ("SCANCEL_INTERACTIVE", "interactive"),
    ("SCANCEL_NAME", "name"),
    ("SCANCEL_PARTITION", "partition"),
    ("SCANCEL_QOS", "qos"),
    ("SCANCEL_STATE", "state"),
    ("SCANCEL_USER", "user"),
    ("SCANCEL_VERBOSE", "verbose"),
];

const SWITCHES: &[&str] = &["batch", "full", "interactive", "verbose"];

impl Asked {
    /// Options win over variables.
    fn of(given: &[Given], variable: impl Fn(&str) -> Option<String>) -> Result<Self, Trouble> {
        let mut asked = Self::default();
        for (name, option) in ENVIRONMENT {
            let Some(value) = variable(name).filter(|value| !value.is_empty()) else { continue };
            let is_off = || !["true", "t"].iter().any(|on| value.eq_ignore_ascii_case(on));
            if !SWITCHES.contains(option) || !is_off() {
                asked.take(option, &value)?;
            }
        }
        if let Some(wckey) = variable("SCANCEL_WCKEY").filter(|value| !value.is_empty()) {
            return Err(Trouble::new(format!("SCANCEL_WCKEY={wckey}: jobs have no wckey here; unset it")));
        }
        for option in given {
            asked.take(&option.name, option.value.as_deref().unwrap_or_default())?;
        }
        Ok(asked)
    }

    fn take(&mut self, option: &str, value: &str) -> Result<(), Trouble> {
        let text = || Some(value.to_owned());
        match option {
            "account" => self.account = text(),
            "partition" => self.partition = text(),
            "qos" => self.qos = text(),
            "name" | "jobname" => self.name = text(),
            "user" => self.users = Some(users_that_exist(value, "Invalid user name")?),
            "me" => self.users = Some(vec![own_name()]),
            "state" => self.states = states(value)?,
            "nodelist" => self.here = Some(is_here(value)),
            "clusters" => only_cluster(value)?,
            "signal" => {
                let number = signals::number(value);
                self.signal = Some(number.ok_or_else(|| format!("Unknown job signal: {value}"))?);
            }
            "batch" => self.batch = true,
            "full" => self.full = true,
            "interactive" => self.confirm = true,
            "quiet" => self.quiet = true,
            "verbose" => self.verbose = true,
            "help" => self.help = Some("help"),
            "usage" => self.help = Some("usage"),
            "version" => self.help = Some("version"),
            _ => {}
        }
        Ok(())
    }

    fn filters(&self) -> bool {
        self.account.is_some()
            || self.partition.is_some()
            || self.qos.is_some()
            || self.name.is_some()
            || self.users.is_some()
            || self.states.is_some()
            || self.here.is_some()
    }

    fn wants(&self, job: &Job) -> bool {
        let is = |said: &Option<String>, value: &str| said.as_ref().is_none_or(|said| said == value);
        let qos = if job.label.qos.is_empty() { "normal" } else { &job.label.qos };
        is(&self.account, &job.label.account)
            && is(&self.partition, job.partition())
            && is(&self.qos, qos)
            && is(&self.name, &job.name)
            && self.users.as_ref().is_none_or(|users| users.contains(&job.user))
            && self.states.as_ref().is_none_or(|states| states.contains(&job.state))
            // A waiting job uses no host yet.
            && self.here.is_none_or(|here| here && job.has_node())
    }
}

/// The part of a job that is ended or signalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The whole job; options decide the receivers of a signal.
    Whole,
    /// The script's shell.
    Script,
    /// A step by its number.
    Step(u32),
}

impl Part {
    /// The part behind a job's number.
    fn of(named: &Named) -> Result<Self, Trouble> {
        match named.step.as_deref() {
            None => Ok(Self::Whole),
            Some("batch") => Ok(Self::Script),
            Some(step) => {
                let number = step.parse().map_err(|_| format!("Invalid job id {}", named.text))?;
                Ok(Self::Step(number))
            }
        }
    }

    fn shown(self, job: &Job) -> String {
        match self {
            Self::Whole => job.shown(),
            Self::Script => format!("{}.batch", job.shown()),
            Self::Step(step) => format!("{}.{step}", job.shown()),
        }
    }
}

/// Ends or signals jobs or steps.
///
/// # Errors
/// In scancel's words. Ended and unknown jobs are no error.
pub(crate) fn scancel(arguments: &[OsString]) -> Result<u8, Trouble> {
    let (given, operands) =
        parse(&options::scancel(), arguments, Order::Free).map_err(say::usage("scancel"))?;
    let asked = Asked::of(&given, |name| std::env::var(name).ok())?;
    if let Some(what) = asked.help {
        return say::help("scancel", what, &options::scancel());
    }
    if operands.is_empty() && !asked.filters() {
        return Err(Trouble::new("No job identification provided"));
    }
    let mut named: Vec<(Named, Part)> = Vec::new();
    for word in &operands {
        let text = word.to_string_lossy();
        for name in select::names(&text).map_err(|_| format!("Invalid job id {text}"))? {
            let part = Part::of(&name)?;
            named.push((name, part));
        }
    }
    let failed = |failure: Failure| Trouble::new(words(&failure));
    let mut cluster = Cluster::connect().map_err(failed)?;
    let jobs = match named.is_empty() {
        // Other users' jobs are ended only on explicit request, even for root.
        true => {
            let own = own_name();
            let jobs = cluster.jobs(false).map_err(failed)?.into_iter();
            let jobs = jobs.filter(|job| asked.users.is_some() || job.user == own);
            jobs.map(|job| (job, Part::Whole)).collect()
        }
        false => live(&mut cluster, &named, &asked)?,
    };
    let mut status = 0;
    // In reverse order, so that waiting jobs, which are later, do not start in place of ended jobs.
    for (job, part) in jobs.into_iter().rev().filter(|(job, _)| asked.wants(job)) {
        if asked.confirm && !is_confirmed(&job, part)? {
            continue;
        }
        if let Err(failure) = end(&mut cluster, &job, part, &asked) {
            if failure.code == ExitCode::NoDaemon {
                return Err(failed(failure));
            }
            if failure.message.contains("over already") {
                continue;
            }
            status = 1;
            if !asked.quiet {
                let shown = part.shown(&job);
                say::error("scancel", &format!("Kill job error on job id {shown}: {}", words(&failure)));
            }
        }
    }
    Ok(status)
}

/// Whether the user confirms. End of input means no.
fn is_confirmed(job: &Job, part: Part) -> Result<bool, Trouble> {
    loop {
        let (shown, name) = (part.shown(job), pinfold_proto::text::plain(&job.name));
        say::out(&format!("Cancel job_id={shown} name={name} partition={} [y/n]? ", job.partition()))?;
        let mut answer = String::new();
        match std::io::stdin().lock().read_line(&mut answer) {
            Ok(0) | Err(_) => return Ok(false),
            Ok(_) => {}
        }
        match answer.trim().to_ascii_lowercase().as_str() {
            "y" | "yes" => return Ok(true),
            "n" | "no" => return Ok(false),
            _ => {}
        }
    }
}

/// The living jobs among the named jobs.
fn live(cluster: &mut Cluster, named: &[(Named, Part)], asked: &Asked) -> Result<Vec<(Job, Part)>, Trouble> {
    let failed = |failure: Failure| Trouble::new(words(&failure));
    let names: Vec<Named> = named.iter().map(|(name, _)| name.clone()).collect();
    let mut jobs = Vec::new();
    for ((name, part), numbers) in named.iter().zip(select::members(cluster, &names).map_err(failed)?) {
        let found = cluster.named(&numbers).map_err(failed)?;
        let before = jobs.len();
        jobs.extend(found.into_iter().filter(|job| !job.state.is_over()).map(|job| (job, *part)));
        if jobs.len() == before && asked.verbose {
            say::error("scancel", &format!("Kill job error on job id {}: {INVALID_JOB}", name.text));
        }
    }
    Ok(jobs)
}

fn end(cluster: &mut Cluster, job: &Job, part: Part, asked: &Asked) -> Result<(), Failure> {
    if asked.verbose {
        let shown = part.shown(job);
        let what = match (asked.signal, part) {
            (Some(signal), Part::Step(_)) => format!("Signal {signal} to step {shown}"),
            (Some(signal), _) => format!("Signal {signal} to job {shown}"),
            (None, Part::Step(_)) => format!("Terminating step {shown}"),
            (None, _) => format!("Terminating job {shown}"),
        };
        say::info("scancel", &what);
    }
    if let Part::Step(step) = part {
        return end_step(job, step, asked.signal);
    }
    let signal = match asked.signal {
        Some(signal) if part == Part::Script => {
            to_parts(job, signal, true);
            return Ok(());
        }
        Some(signal) if signal != signals::SIGKILL && !asked.full => {
            to_parts(job, signal, asked.batch);
            return Ok(());
        }
        Some(signal) => signal,
        None => 0,
    };
    if signal == 0 || signal == signals::SIGKILL {
        // Recorded before the end, so that every observer of the end sees the cause.
        let _ = cluster.home.cancelled(job.job, now_s());
    }
    cluster.control(job.job, Verb::Cancel { signal })
}

/// Signals or ends the tasks of a step; the rest of the job continues.
fn end_step(job: &Job, step: u32, signal: Option<i32>) -> Result<(), Failure> {
    let Ok(proc) = Proc::open(std::path::Path::new("/proc")) else { return Ok(()) };
    let Some(srun) = step_process(&proc, &job.pids, step) else {
        let text = "Invalid job step specified: it is over or was never there";
        return Err(Failure::new(ExitCode::Failed, text));
    };
    match signal {
        // Killing `srun` itself would leave its tasks behind.
        Some(signals::SIGKILL) => {
            below(&proc, srun).into_iter().for_each(|pid| signals::send(pid, signals::SIGKILL));
        }
        Some(signal) => signals::send(srun, signal),
        // `srun` kills its tasks in time: this process does not wait, and a helper process could be part of the same
        // job.
        None => signals::send_with(srun, signals::SIGTERM, KILL_FOLLOWS),
    }
    Ok(())
}

/// The `srun` of a step: its children have the step's number in their environment.
fn step_process(proc: &Proc, pids: &[u32], step: u32) -> Option<u32> {
    let wanted = format!("SLURM_STEP_ID={step}");
    let is_of = |pid: u32| {
        let environ = proc.environ(pid).ok().flatten().unwrap_or_default();
        environ.split(|&byte| byte == 0).any(|variable| variable == wanted.as_bytes())
    };
    pids.iter().copied().filter(|&pid| is_step(proc, pid)).find(|&pid| {
        let children = proc.children(pid).ok().flatten().unwrap_or_default();
        children.into_iter().any(is_of)
    })
}

/// To the script's shell alone, or to the steps and not to the shell, as Slurm does.
fn to_parts(job: &Job, signal: i32, batch: bool) {
    let Ok(proc) = Proc::open(std::path::Path::new("/proc")) else { return };
    let to: Vec<u32> = match batch {
        true => shell(&proc, &job.pids).into_iter().collect(),
        false => job.pids.iter().copied().filter(|&pid| is_step(&proc, pid)).collect(),
    };
    to.into_iter().for_each(|pid| signals::send(pid, signal));
}

/// The process of the script: the first process of the job, or its child if the first is `pinfold-slurm`.
fn shell(proc: &Proc, pids: &[u32]) -> Option<u32> {
    let stat = |pid: u32| proc.stat(pid).ok().flatten();
    let first =
        pids.iter().copied().find(|&pid| stat(pid).is_some_and(|stat| !pids.contains(&stat.parent)))?;
    let name = proc.text(&format!("{first}/comm")).ok().flatten().unwrap_or_default();
    match name.trim() {
        // The kernel keeps fifteen characters.
        "pinfold-slurm" => proc.children(first).ok().flatten()?.first().copied(),
        _ => Some(first),
    }
}
