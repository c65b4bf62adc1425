//! `scancel`: ends jobs, or signals them.

use std::ffi::OsString;

use pinfold_proto::wire::Verb;
use pinfold_sys::peer::own_name;
use pinfold_sys::procfs::Proc;

use crate::batch_step::is_step;
use crate::cluster::Cluster;
use crate::getopt::{Given, Order, parse};
use crate::jobs::Job;
use crate::options;
use crate::request::cluster as only_cluster;
use crate::say;
use crate::select::{self, Named};
use crate::squeue::{list, states, users};
use crate::state::State;
use crate::trouble::{INVALID_JOB, Trouble, words};
use crate::units::now_s;

#[derive(Debug, Default)]
struct Asked {
    accounts: Option<Vec<String>>,
    partitions: Option<Vec<String>>,
    qos: Option<Vec<String>>,
    names: Option<Vec<String>>,
    users: Option<Vec<String>>,
    states: Option<Vec<State>>,
    signal: Option<i32>,
    batch: bool,
    full: bool,
    quiet: bool,
    verbose: bool,
    help: Option<&'static str>,
}

impl Asked {
    fn of(given: &[Given]) -> Result<Self, Trouble> {
        let mut asked = Self::default();
        for option in given {
            let value = option.value.clone().unwrap_or_default();
            match option.name.as_str() {
                "account" => asked.accounts = Some(list(&value)),
                "partition" => asked.partitions = Some(list(&value)),
                "qos" => asked.qos = Some(list(&value)),
                "name" | "jobname" => asked.names = Some(list(&value)),
                "user" => asked.users = Some(users(&value)),
                "me" => asked.users = Some(vec![own_name()]),
                "state" => asked.states = states(&value)?,
                "clusters" => only_cluster(&value)?,
                "signal" => {
                    let number = pinfold_sys::signals::number(&value);
                    asked.signal = Some(number.ok_or_else(|| format!("Unknown job signal: {value}"))?);
                }
                "batch" => asked.batch = true,
                "full" => asked.full = true,
                "quiet" => asked.quiet = true,
                "verbose" => asked.verbose = true,
                "help" => asked.help = Some("help"),
                "usage" => asked.help = Some("usage"),
                "version" => asked.help = Some("version"),
                _ => {}
            }
        }
        Ok(asked)
    }

    fn filters(&self) -> bool {
        self.accounts.is_some()
            || self.partitions.is_some()
            || self.qos.is_some()
            || self.names.is_some()
            || self.users.is_some()
            || self.states.is_some()
    }

    fn wants(&self, job: &Job) -> bool {
        let of = |list: &Option<Vec<String>>, value: &str| {
            list.as_ref().is_none_or(|list| list.iter().any(|one| one == value))
        };
        of(&self.accounts, &job.label.account)
            && of(&self.partitions, job.partition())
            && of(&self.qos, &job.label.qos)
            && of(&self.names, &job.name)
            && of(&self.users, &job.user)
            && self.states.as_ref().is_none_or(|states| states.contains(&job.state))
    }
}

/// Ends jobs, or signals them.
///
/// # Errors
/// In scancel's words. What is over, or unknown, is none.
pub(crate) fn scancel(arguments: &[OsString]) -> Result<u8, Trouble> {
    let (given, operands) =
        parse(&options::scancel(), arguments, Order::Free).map_err(say::usage("scancel"))?;
    let asked = Asked::of(&given)?;
    if let Some(what) = asked.help {
        return say::help("scancel", what, &options::scancel());
    }
    if operands.is_empty() && !asked.filters() {
        return Err(Trouble::new("No job identification provided"));
    }
    let mut named: Vec<Named> = Vec::new();
    for word in &operands {
        let text = word.to_string_lossy();
        named.extend(select::names(&text).map_err(|_| format!("Invalid job id {text}"))?);
    }
    let failed = |failure: pinfold_client::Failure| Trouble::new(words(&failure));
    let mut cluster = Cluster::connect().map_err(failed)?;
    let jobs = match named.is_empty() {
        // Nobody ends what is not his own without saying so, root neither.
        true => {
            let own = own_name();
            let jobs = cluster.jobs(false).map_err(failed)?;
            jobs.into_iter().filter(|job| asked.users.is_some() || job.user == own).collect()
        }
        false => live(&mut cluster, &named, &asked)?,
    };
    let mut status = 0;
    // Those that wait are later ones: none of them is to start in the place of one that ends.
    for job in jobs.into_iter().rev().filter(|job| asked.wants(job)) {
        if let Err(failure) = end(&mut cluster, &job, &asked) {
            if failure.code == pinfold_proto::ExitCode::NoDaemon {
                return Err(failed(failure));
            }
            if failure.message.contains("over already") {
                continue;
            }
            status = 1;
            if !asked.quiet {
                say::error(
                    "scancel",
                    &format!("Kill job error on job id {}: {}", job.shown(), words(&failure)),
                );
            }
        }
    }
    Ok(status)
}

/// Those of the named ones that are not over.
fn live(cluster: &mut Cluster, named: &[Named], asked: &Asked) -> Result<Vec<Job>, Trouble> {
    let failed = |failure: pinfold_client::Failure| Trouble::new(words(&failure));
    let mut jobs = Vec::new();
    for (name, numbers) in named.iter().zip(select::members(cluster, named).map_err(failed)?) {
        let found = cluster.named(&numbers).map_err(failed)?;
        let before = jobs.len();
        jobs.extend(found.into_iter().filter(|job| !job.state.is_over()));
        if jobs.len() == before && asked.verbose {
            say::error("scancel", &format!("Kill job error on job id {}: {INVALID_JOB}", name.text));
        }
    }
    Ok(jobs)
}

fn end(cluster: &mut Cluster, job: &Job, asked: &Asked) -> Result<(), pinfold_client::Failure> {
    if asked.verbose {
        let what = match asked.signal {
            Some(signal) => format!("Signal {signal} to job {}", job.shown()),
            None => format!("Terminating job {}", job.shown()),
        };
        say::info("scancel", &what);
    }
    let signal = match asked.signal {
        Some(signal) if signal != pinfold_sys::signals::SIGKILL && !asked.full => {
            to_parts(job, signal, asked.batch);
            return Ok(());
        }
        Some(signal) => signal,
        None => 0,
    };
    if signal == 0 || signal == pinfold_sys::signals::SIGKILL {
        // Before it is over, so that nobody sees it over and does not know why.
        let _ = cluster.home.cancelled(job.job, now_s());
    }
    cluster.control(job.job, Verb::Cancel { signal })
}

/// To the script's shell alone, or to the steps and not to the shell, as Slurm does.
fn to_parts(job: &Job, signal: i32, batch: bool) {
    let Ok(proc) = Proc::open(std::path::Path::new("/proc")) else { return };
    let to: Vec<u32> = match batch {
        true => shell(&proc, &job.pids).into_iter().collect(),
        false => job.pids.iter().copied().filter(|&pid| is_step(&proc, pid)).collect(),
    };
    to.into_iter().for_each(|pid| pinfold_sys::signals::send(pid, signal));
}

/// The process of the script: the first of the job, or where that is one of ours its child.
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
