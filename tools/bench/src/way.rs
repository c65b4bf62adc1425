//! The ways to run a list of jobs that are compared: by hand, with a peer, with pinfold.
//!
//! Each takes shell commands and returns when all have ended. Their success is read from the journal, not from the
//! launcher. Owns the launcher's processes; the jobs' processes belong to the launcher.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::daemon::{Binaries, Daemon, Freeze};
use crate::hyperqueue::{HyperQueue, Lines};
use crate::managed::{Managed, Manager, Sent};
use crate::spooler::Spooler;
use crate::workload::quote;

/// A way to run jobs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Way {
    /// A number of jobs at a time, the next as soon as a job ends, like `xargs -P`.
    Native {
        /// Jobs at a time.
        slots: usize,
    },
    /// As `Native`, with the jobs beyond `normal` started by `chrt --idle`.
    Idle {
        /// Slots of the normal class.
        normal: usize,
        /// Slots of the idle class.
        idle: usize,
    },
    /// GNU parallel.
    Parallel {
        /// Jobs at a time.
        slots: usize,
    },
    /// GNU parallel with its slots beyond `normal` at nice 19.
    ParallelNice {
        /// Slots of usual niceness.
        normal: usize,
        /// Slots at nice 19.
        niced: usize,
    },
    /// Task-spooler (`tsp`).
    Spooler {
        /// Jobs at a time.
        slots: usize,
    },
    /// HyperQueue, a server and a worker.
    HyperQueue {
        /// Cores of the worker, and so tasks at a time.
        slots: usize,
    },
    /// GNU parallel that suspends the youngest job when less memory than this is available.
    ParallelSuspend {
        /// Jobs at a time.
        slots: usize,
        /// Half of the available memory below which it suspends, MiB, as its option requires.
        half_mib: u64,
    },
    /// GNU parallel that starts a job only with this much free, and kills the youngest (to be run again) below half.
    ParallelFree {
        /// Jobs at a time.
        slots: usize,
        /// MiB.
        mib: u64,
    },
    /// As `Native`, beside earlyoom, which kills the largest job when less memory than this is available; killed jobs are
    /// run again.
    Earlyoom {
        /// Jobs at a time.
        slots: usize,
        /// MiB.
        mib: u64,
    },
    /// `pinfold batch` under a daemon of its own.
    Pinfold {
        /// The vCPU factor.
        factor: f64,
    },
    /// The same when it has run the same commands before.
    PinfoldAgain {
        /// The vCPU factor.
        factor: f64,
    },
    /// The same as `Pinfold` with a budget of memory, and its knowledge of each job's needs.
    PinfoldWithin {
        /// The vCPU factor.
        factor: f64,
        /// MiB of the budget.
        budget_mib: u64,
        /// Its knowledge.
        knows: Knows,
    },
    /// A workload manager, with pinfold or without.
    Managed {
        /// Which.
        manager: Manager,
        /// The number of jobs on the host.
        sent: Sent,
        /// MiB reported to pinfold as the host's memory, if less than the host has.
        budget_mib: Option<u64>,
    },
}

/// Knowledge of each job's peak of memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Knows {
    Nothing,
    /// The user's statement by `--mem`, MiB.
    Told(u64),
    /// The peak in an earlier run of the same commands.
    Before,
}

impl fmt::Display for Way {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Native { slots } => write!(out, "native, {slots} at a time"),
            Self::Idle { normal, idle } => write!(out, "native, {normal} + {idle} idle class"),
            Self::Parallel { slots } => write!(out, "GNU parallel -j{slots}"),
            Self::ParallelNice { normal, niced } => {
                write!(out, "GNU parallel, {normal} + {niced} at nice 19")
            }
            Self::Spooler { slots } => write!(out, "task-spooler -S {slots}"),
            Self::HyperQueue { slots } => write!(out, "HyperQueue, {slots} cores"),
            Self::ParallelSuspend { slots, .. } => write!(out, "GNU parallel -j{slots} --memsuspend"),
            Self::ParallelFree { slots, .. } => write!(out, "GNU parallel -j{slots} --memfree"),
            Self::Earlyoom { slots, .. } => write!(out, "native, {slots} at a time, earlyoom, retried"),
            Self::Pinfold { factor } | Self::PinfoldWithin { factor, knows: Knows::Nothing, .. } => {
                write!(out, "pinfold, factor {factor}")
            }
            Self::PinfoldWithin { factor, knows: Knows::Told(_), .. } => {
                write!(out, "pinfold, factor {factor}, --mem")
            }
            Self::PinfoldAgain { factor } | Self::PinfoldWithin { factor, knows: Knows::Before, .. } => {
                write!(out, "pinfold, factor {factor}, again")
            }
            Self::Managed { manager, sent, .. } => write!(out, "{}", sent.title(*manager)),
        }
    }
}

/// The inputs of a way.
#[derive(Debug)]
pub(crate) struct Batch<'a> {
    /// A shell command per job.
    pub(crate) lines: &'a [String],
    /// Directory for the launcher's own files.
    pub(crate) scratch: &'a Path,
    /// The memory group in which launchers without a budget of their own run their jobs.
    pub(crate) group: Option<&'a Path>,
    /// The daemon's state directory, when it is to outlive the run.
    pub(crate) state: Option<&'a Path>,
    /// Set when the run is to be given up: start nothing more.
    pub(crate) give_up: &'a AtomicBool,
}

/// A prepared way, before the clock starts.
#[derive(Debug)]
pub(crate) struct Ready {
    way: Way,
    lines: Vec<String>,
    file: PathBuf,
    daemon: Option<Daemon>,
    hyperqueue: Option<Mutex<HyperQueue>>,
    managed: Option<Mutex<Managed>>,
    /// The process of HyperQueue or a workload manager, to be ended while it is being waited for.
    peer: Option<Pid>,
}

impl Way {
    /// Whether it measures the manager.
    pub(crate) fn is_pinfold(self) -> bool {
        match self {
            Self::Pinfold { .. } | Self::PinfoldAgain { .. } | Self::PinfoldWithin { .. } => true,
            Self::Managed { sent, .. } => sent == Sent::Pinfold,
            _ => false,
        }
    }

    /// Whether its jobs run in the memory group for launchers without a budget of their own: a workload manager's job stays
    /// in the manager's groups, also with pinfold.
    fn is_bounded(self) -> bool {
        matches!(self, Self::Managed { .. }) || !self.is_pinfold()
    }

    /// Whether jobs that are killed are run again.
    pub(crate) fn retries(self) -> bool {
        matches!(self, Self::Earlyoom { .. })
    }

    /// Whether a run learns from earlier runs.
    pub(crate) fn remembers(self) -> bool {
        matches!(self, Self::PinfoldAgain { .. } | Self::PinfoldWithin { knows: Knows::Before, .. })
    }

    /// Why this way cannot be used here, or `None`.
    pub(crate) fn missing(self, binaries: Option<&Binaries>) -> Option<&'static str> {
        match self {
            Self::Native { .. } => None,
            Self::Idle { .. } => (!installed("chrt")).then_some("chrt is not installed"),
            Self::Parallel { .. }
            | Self::ParallelNice { .. }
            | Self::ParallelSuspend { .. }
            | Self::ParallelFree { .. } => {
                (!installed("parallel")).then_some("GNU parallel is not installed")
            }
            Self::Earlyoom { .. } => (!installed("earlyoom")).then_some("earlyoom is not installed"),
            Self::Spooler { .. } => (!installed("tsp")).then_some("task-spooler is not installed"),
            Self::HyperQueue { .. } => {
                HyperQueue::python().is_none().then_some("HyperQueue is not installed")
            }
            Self::Pinfold { .. } | Self::PinfoldAgain { .. } | Self::PinfoldWithin { .. } => {
                binaries.is_none().then_some("pinfold and pinfoldd are not built")
            }
            Self::Managed { manager, sent, .. } => manager.missing(sent, binaries),
        }
    }

    /// Prepares files and daemons, outside the measured time.
    pub(crate) fn prepare(self, batch: &Batch<'_>, binaries: Option<&Binaries>) -> anyhow::Result<Ready> {
        let file = batch.scratch.join("commands");
        // A way without a budget of its own runs its jobs in the group with the limit.
        let within = |line: &String| match batch.group.filter(|_| self.is_bounded()) {
            Some(group) => format!("echo $$ > {}/cgroup.procs && exec {line}", quote(group)),
            None => line.clone(),
        };
        let lines: Vec<String> = batch.lines.iter().map(within).collect();
        std::fs::write(&file, lines.join("\n") + "\n").context("failed to write the commands")?;
        let daemon = match self {
            Self::Pinfold { factor } | Self::PinfoldAgain { factor } => {
                let binaries = binaries.context("pinfold and pinfoldd are not built")?;
                let settings = [format!("slots.factor={factor}")];
                Some(Daemon::start(binaries, batch.scratch, batch.state, &settings)?)
            }
            Self::PinfoldWithin { factor, budget_mib, .. } => {
                let binaries = binaries.context("pinfold and pinfoldd are not built")?;
                let settings = [format!("slots.factor={factor}"), format!("host.memory={budget_mib}MiB")];
                Some(Daemon::start(binaries, batch.scratch, batch.state, &settings)?)
            }
            Self::Managed { sent: Sent::Pinfold, budget_mib, .. } => {
                let binaries = binaries.context("pinfold and pinfoldd are not built")?;
                let memory = budget_mib.map(|mib| format!("host.memory={mib}MiB"));
                let settings: Vec<String> =
                    std::iter::once("slots.factor=2".to_owned()).chain(memory).collect();
                Some(Daemon::start(binaries, batch.scratch, batch.state, &settings)?)
            }
            _ => None,
        };
        let managed = match self {
            Self::Managed { manager, sent, .. } => {
                Some(Managed::start(manager, sent, batch.scratch, daemon.as_ref())?)
            }
            _ => None,
        };
        let hyperqueue = match self {
            Self::HyperQueue { slots } => Some(HyperQueue::start(batch.scratch, slots)?),
            _ => None,
        };
        let peer = hyperqueue.as_ref().and_then(HyperQueue::pid).or(managed.as_ref().and_then(Managed::pid));
        let (hyperqueue, managed) = (hyperqueue.map(Mutex::new), managed.map(Mutex::new));
        Ok(Ready { way: self, lines, file, daemon, hyperqueue, managed, peer })
    }
}

impl Ready {
    /// Runs all jobs and returns when all have ended, with the launcher's own report.
    pub(crate) fn run(&self, batch: &Batch<'_>) -> anyhow::Result<Value> {
        match self.way {
            Way::Native { slots } => refilled(batch, &self.lines, (slots, 0), 1).map(|()| Value::Null),
            Way::Idle { normal, idle } => {
                refilled(batch, &self.lines, (normal, idle), 1).map(|()| Value::Null)
            }
            Way::Earlyoom { slots, mib } => {
                let _killer = Earlyoom::start(mib)?;
                refilled(batch, &self.lines, (slots, 0), RETRIES).map(|()| Value::Null)
            }
            Way::Parallel { slots } => parallel(batch, &self.file, slots, &[]).map(|()| Value::Null),
            Way::ParallelNice { normal, niced } => {
                // `{%}` is the number of the slot, from 1 on; `{}` the line, quoted as a single word.
                let command = format!(
                    "if [ {{%}} -gt {normal} ]; then exec nice -n 19 sh -c {{}}; else exec sh -c {{}}; fi"
                );
                parallel(batch, &self.file, normal + niced, &[command.as_str()]).map(|()| Value::Null)
            }
            Way::ParallelSuspend { slots, half_mib } => {
                parallel(batch, &self.file, slots, &["--memsuspend", &format!("{half_mib}M")])
                    .map(|()| Value::Null)
            }
            Way::ParallelFree { slots, mib } => {
                let options = ["--memfree", &format!("{mib}M"), "--retries", "50"];
                parallel(batch, &self.file, slots, &options).map(|()| Value::Null)
            }
            Way::Spooler { slots } => spooler(batch, slots).map(|()| Value::Null),
            Way::HyperQueue { .. } => {
                let queue = self.hyperqueue.as_ref().context("HyperQueue is not up")?;
                let mut queue = queue.lock().expect("nobody panicked with it");
                queue.run(&self.file, Lines::Shell).map(|()| Value::Null)
            }
            Way::Managed { .. } => {
                let managed = self.managed.as_ref().context("the workload manager is not up")?;
                let mut managed = managed.lock().expect("nobody panicked with it");
                managed.run(&self.file).map(|()| Value::Null)
            }
            Way::Pinfold { .. } | Way::PinfoldAgain { .. } | Way::PinfoldWithin { .. } => {
                let daemon = self.daemon.as_ref().context("the daemon is not up")?;
                let claim = match self.way {
                    Way::PinfoldWithin { knows: Knows::Told(mib), .. } => Some(mib),
                    _ => None,
                };
                pinfold(batch, daemon, &self.file, claim)
            }
        }
    }

    /// Asks the launcher to drop waiting jobs and to end running jobs.
    pub(crate) fn give_up(&self) {
        if let Some(daemon) = &self.daemon {
            daemon.cancel_all();
        }
        if let Some(peer) = self.peer {
            // A vanished process needs no signal.
            let _ = kill_process(peer, Signal::TERM);
        }
    }

    /// A `pinfold` command for this way's daemon, if it has a daemon.
    pub(crate) fn command(&self) -> Option<Command> {
        self.daemon.as_ref().map(Daemon::command)
    }

    /// The pids of processes with an orderly end on request: the daemon, and a workload manager.
    pub(crate) fn orderly(&self) -> Vec<i32> {
        let daemon = self.daemon.as_ref().and_then(Daemon::pid);
        let managed = self.peer.filter(|_| self.managed.is_some()).map(Pid::as_raw_nonzero);
        daemon.into_iter().chain(managed.map(std::num::NonZero::get)).collect()
    }

    /// The freezes of jobs for memory by the daemon.
    pub(crate) fn freezes(&self) -> Vec<Freeze> {
        self.daemon.as_ref().map(Daemon::freezes).unwrap_or_default()
    }

    /// Stops the processes that `prepare` started, and returns leftovers.
    pub(crate) fn finish(self) -> anyhow::Result<Vec<PathBuf>> {
        // The manager ends its jobs, and the daemon has to see that.
        drop(self.managed);
        self.daemon.map_or(Ok(Vec::new()), Daemon::stop)
    }
}

/// Whether `program` is in the search path.
pub(crate) fn installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}

/// The most runs of a job that is killed, also as GNU parallel's option.
const RETRIES: u32 = 50;

/// An earlyoom of our own.
#[derive(Debug)]
struct Earlyoom(std::process::Child);

impl Earlyoom {
    /// Kills when less than `mib` is available, whatever the free swap; preferably a job of this benchmark.
    fn start(mib: u64) -> anyhow::Result<Self> {
        let kib = (mib << 10).to_string();
        let mut command = Command::new("earlyoom");
        command.args(["-M", &kib, "-s", "100", "-r", "0", "--prefer", "^pinfold-load"]);
        // No other process on the host.
        command.args(["--avoid", "^([^p]|p[^i]|pi[^n]|pin[^f])"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self).context("failed to start earlyoom")
    }
}

impl Drop for Earlyoom {
    fn drop(&mut self) {
        // A child that was not waited for has its pid still.
        let _gone = self.0.kill().and_then(|()| self.0.wait());
    }
}

/// A thread per slot, each blocked in the wait for its job: a slot is refilled the moment it frees. A job that fails is run
/// up to `tries` times.
fn refilled(
    batch: &Batch<'_>,
    lines: &[String],
    (normal, idle): (usize, usize),
    tries: u32,
) -> anyhow::Result<()> {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        let slots: Vec<_> = (0..normal + idle)
            .map(|slot| {
                let next = &next;
                scope.spawn(move || -> anyhow::Result<()> {
                    while !batch.give_up.load(Ordering::Relaxed) {
                        let Some(line) = lines.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                        for _ in 0..tries {
                            let mut command = if slot < normal {
                                Command::new("sh")
                            } else {
                                let mut command = Command::new("chrt");
                                command.args(["--idle", "0", "sh"]);
                                command
                            };
                            // The status is in the journal.
                            let status = command.args(["-c", line]).stdin(Stdio::null()).status();
                            let over = status.context("failed to run sh")?.success();
                            if over || batch.give_up.load(Ordering::Relaxed) {
                                break;
                            }
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        slots.into_iter().try_for_each(|slot| slot.join().expect("a slot does not panic"))
    })
}

fn parallel(batch: &Batch<'_>, file: &Path, slots: usize, options: &[&str]) -> anyhow::Result<()> {
    let input = std::fs::File::open(file).context("failed to open the commands")?;
    let output = Command::new("parallel")
        .args(["--will-cite", &format!("-j{slots}")])
        .args(options)
        // Its own files go where the run's files go, and are removed with them.
        .env("HOME", batch.scratch)
        .env("TMPDIR", batch.scratch)
        .stdin(input)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .output()
        .context("failed to run GNU parallel")?;
    // 1-101 is the number of failed jobs, for which the journal is more exact; above that parallel itself failed.
    match output.status.code() {
        Some(code) if code <= 101 => Ok(()),
        _ => bail!("GNU parallel ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr)),
    }
}

fn spooler(batch: &Batch<'_>, slots: usize) -> anyhow::Result<()> {
    let spooler = Spooler::start(batch.scratch, slots)?;
    let mut numbers = Vec::new();
    for line in batch.lines {
        numbers.push(spooler.queue(&["sh", "-c", line])?);
    }
    for number in &numbers {
        spooler.wait(number)?;
        if batch.give_up.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(())
}

fn pinfold(batch: &Batch<'_>, daemon: &Daemon, file: &Path, claim_mib: Option<u64>) -> anyhow::Result<Value> {
    let output = daemon
        .command()
        .args(["batch", "--json"])
        .args(claim_mib.map(|mib| format!("--mem={mib}MiB")))
        .arg(file)
        // Output files of jobs, where pinfold makes them, go where the run's files go.
        .current_dir(batch.scratch)
        .stdin(Stdio::null())
        .output()
        .context("failed to run pinfold batch")?;
    let view: Value = serde_json::from_slice(&output.stdout).with_context(|| {
        format!("pinfold batch ended with {}: {}", output.status, String::from_utf8_lossy(&output.stderr))
    })?;
    let jobs = view["jobs"].as_u64().and_then(|jobs| usize::try_from(jobs).ok());
    if jobs != Some(batch.lines.len()) {
        bail!("pinfold batch reports {} jobs of {}", view["jobs"], batch.lines.len());
    }
    // The reported failures must agree with its own exit status: 0 only if all succeeded.
    if (view["failed"] == 0) != output.status.success() {
        bail!("pinfold batch ended with {} and reports {} failed jobs", output.status, view["failed"]);
    }
    Ok(view)
}
