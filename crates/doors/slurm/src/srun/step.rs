//! A step: numbered tasks of a command within a job, awaited together.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use pinfold_sys::procfs::Proc;
use pinfold_sys::ready::{self, Wanted};
use pinfold_sys::signals::{self, Signals};
use pinfold_sys::spawn::{self, Reaped};

use crate::batch_step::{KILL_FOLLOWS, KILL_WAIT, below};
use crate::home::Step;
use crate::launch;
use crate::request::Request;
use crate::say;
use crate::trouble::{Trouble, failed_to_execute};
use crate::units::now_s;

use super::labelled::Readers;
use super::streams::Streams;
use super::{ENTERED, LABELLED, TASK, journal};

/// Signals passed on to the tasks.
const PASSED_ON: &[&str] = &["HUP", "INT", "QUIT", "TERM", "USR1", "USR2", "ALRM", "CHLD"];

/// The job of a step.
pub(super) struct Of {
    pub job: u64,
    pub member: Option<(u64, u32)>,
    pub spool: PathBuf,
    pub host: String,
}

/// The number of tasks, and the cores of each; `None` if the job has fewer cores. A step without options inherits the
/// job's cores per task as far as they fit.
fn sizes(request: &Request, variable: impl Fn(&str) -> Option<String>) -> Option<(u32, u32)> {
    let told = |name: &str| variable(name).and_then(|text| text.parse::<u32>().ok());
    let tasks =
        request.ntasks.or(request.ntasks_per_node).or_else(|| told("SLURM_NTASKS")).unwrap_or(1).max(1);
    let there = told("SLURM_CPUS_ON_NODE").unwrap_or(u32::MAX);
    let fits = |each: &u32| tasks.saturating_mul(*each) <= there;
    let asked = request.cpus_per_task.or_else(|| told("SRUN_CPUS_PER_TASK"));
    let each = asked.or_else(|| told("SLURM_CPUS_PER_TASK").filter(fits)).unwrap_or(1).max(1);
    fits(&each).then_some((tasks, each))
}

/// The tasks' directory, if it differs from this process's.
fn directory(request: &Request) -> Option<&str> {
    request.directory.as_deref().filter(|_| std::env::var_os(ENTERED).is_none())
}

/// The most numbered steps of a job.
const STEPS_MAX: u32 = 100_000;

/// The step's number: the first unused number of the job. Numbers are given out in order, so a binary search finds
/// it: a job may have thousands of steps.
fn number(spool: &Path, job: u64) -> u32 {
    let file = |step: u32| spool.join(format!("step-{job}-{step}"));
    let (mut free, mut after) = (0, STEPS_MAX);
    while free < after {
        let middle = free + (after - free) / 2;
        if file(middle).exists() { free = middle + 1 } else { after = middle }
    }
    // Another step may take the number at the same moment. If files cannot be written, this number is as good as any.
    let is_mine = |step: &u32| {
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(file(*step));
        !made.is_err_and(|error| error.kind() == ErrorKind::AlreadyExists)
    };
    (free..STEPS_MAX).find(is_mine).unwrap_or(0)
}

/// Runs a step to its end; returns the highest status of its tasks.
pub(super) fn run(of: &Of, request: &Request, words: &[OsString]) -> Result<u8, Trouble> {
    let (tasks, each) = sizes(request, |name| std::env::var(name).ok()).ok_or_else(|| {
        let job = of.job;
        format!("Unable to create step for job {job}: More processors requested than permitted")
    })?;
    if let Some(directory) = directory(request).filter(|it| !Path::new(it).is_dir()) {
        return Err(Trouble::new(format!("Unable to chdir to {directory}: No such file or directory")));
    }
    let mut running = Running::new(|| number(&of.spool, of.job), request.label)?;
    let (step, began) = (running.step, now_s());
    let bind = request.cpu_bind.as_deref().filter(|bind| binds(bind));
    let started = match bind {
        Some(bind) => running.start_bound(of, request, words, (tasks, each), bind),
        None => running.start(of, request, words, (tasks, each)),
    };
    let (ended, cut_by) = running.attend(&started, request.kill_on_bad_exit, Some(&of.host));
    started?;
    let worst = worst(&ended, cut_by);
    let signal = ended.iter().find_map(|reaped| reaped.signal).unwrap_or(0);
    let name = Path::new(&words[0]).file_name().unwrap_or(&words[0]).to_string_lossy().into_owned();
    let micros = |us: u64| std::time::Duration::from_micros(us).as_secs_f64();
    let record = Step {
        job: of.job,
        step,
        name: request.name.clone().unwrap_or(name),
        ntasks: tasks,
        cpus: tasks * each,
        started_s: began,
        ended_s: now_s(),
        exit_code: ended.iter().filter_map(|reaped| reaped.exit_code).max().unwrap_or(0),
        signal,
        cpu_s: ended.iter().map(|it| micros(it.cpu_user_us + it.cpu_system_us)).sum(),
        rss_peak_bytes: ended.iter().map(|it| it.rss_peak_bytes).max().unwrap_or(0),
    };
    if let Err(error) = journal().add_step(&record) {
        say::error("srun", &format!("what step {}.{step} used could not be kept: {error}", of.job));
    }
    Ok(worst)
}

/// Runs a task bound by pinfold to its end, with labelled output.
pub(super) fn run_labelled(task: u32, mut command: Command, program: &Path) -> Result<u8, Trouble> {
    let mut running = Running::new(|| 0, true)?;
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = running.spawn(command, task).map_err(|error| failed_to_execute(program, &error));
    let (ended, cut_by) = running.attend(&started, false, None);
    started.map(|()| worst(&ended, cut_by))
}

/// Blocks the signals that are passed on to the tasks.
fn block() -> Result<Signals, Trouble> {
    let numbers: Vec<i32> = PASSED_ON.iter().filter_map(|name| signals::number(name)).collect();
    Ok(Signals::block(&numbers).map_err(|error| error.to_string())?)
}

/// Whether a value of `--cpu-bind` binds.
fn binds(value: &str) -> bool {
    let quiet = |word: &str| matches!(word, "" | "q" | "quiet" | "v" | "verbose" | "none" | "no" | "help");
    !value.split(',').all(quiet)
}

fn status(reaped: &Reaped) -> u8 {
    let code = reaped.exit_code.unwrap_or_else(|| 128 + reaped.signal.unwrap_or(0));
    u8::try_from(code & 0xff).unwrap_or(1)
}

/// The highest status of the tasks, and of a signal after which their output was read no further.
fn worst(ended: &[Reaped], cut_by: Option<i32>) -> u8 {
    let cut = cut_by.map(|signal| u8::try_from(128 + signal).unwrap_or(1));
    ended.iter().map(status).chain(cut).max().unwrap_or(0)
}

struct Running {
    step: u32,
    /// The task of each process.
    pids: BTreeMap<u32, u32>,
    readers: Readers,
    label: bool,
    arrived: Signals,
    /// When surviving tasks are killed.
    kill_at: Option<Instant>,
}

impl Running {
    /// Blocks signals before the step's number is taken: a signal that ended this process would orphan started tasks.
    /// Also before the readers start, because a thread without the block could receive and drop SIGCHLD.
    fn new(step: impl FnOnce() -> u32, label: bool) -> Result<Self, Trouble> {
        let arrived = block()?;
        let readers = Readers::new().map_err(|error| error.to_string())?;
        Ok(Self { step: step(), pids: BTreeMap::new(), readers, label, arrived, kill_at: None })
    }

    /// Starts the tasks, up to the first failure.
    fn start(
        &mut self,
        of: &Of,
        request: &Request,
        words: &[OsString],
        (tasks, each): (u32, u32),
    ) -> Result<(), Trouble> {
        for task in 0..tasks {
            let streams = Streams::open(of, request, task, self.step)?;
            let mut command = streams.command(Path::new(&words[0]))?;
            command.args(&words[1..]);
            self.dress(&mut command, request, (tasks, each), &of.host);
            command.env("SLURM_PROCID", task.to_string()).env("SLURM_LOCALID", task.to_string());
            streams.give(&mut command, self.label);
            self.spawn(command, task).map_err(|error| {
                say::error("srun", &format!("{}: task {task}: Exited with exit code 2", of.host));
                failed_to_execute(Path::new(&words[0]), &error)
            })?;
        }
        Ok(())
    }

    /// Starts a task.
    fn spawn(&mut self, mut command: Command, task: u32) -> io::Result<()> {
        self.arrived.spare(&mut command);
        let mut child = command.spawn()?;
        self.pids.insert(child.id(), task);
        self.readers.read(&mut child, task)
    }

    /// Signals each running task.
    fn send(&self, signal: i32) {
        self.pids.keys().for_each(|&pid| signals::send(pid, signal));
    }

    /// Through `pinfold run`, which binds tasks to the job's cores.
    fn start_bound(
        &mut self,
        of: &Of,
        request: &Request,
        words: &[OsString],
        (tasks, each): (u32, u32),
        bind: &str,
    ) -> Result<(), Trouble> {
        let own = std::env::current_exe().map_err(|error| error.to_string())?;
        let streams = Streams::open(of, request, 0, self.step)?;
        let mut command = streams.command(&launch::pinfold()?)?;
        command.arg("run").args([
            format!("--ntasks={tasks}"),
            format!("--cpus-per-task={each}"),
            format!("--cpu-bind={bind}"),
        ]);
        command.arg("--").arg(own).arg(TASK).args(words);
        self.dress(&mut command, request, (tasks, each), &of.host);
        // Each task labels its own lines, because only tasks know their numbers.
        self.label = false;
        streams.give(&mut command, false);
        if request.label && request.output.is_none() {
            command.env(LABELLED, "1");
        }
        self.spawn(command, 0).map_err(|error| failed_to_execute(Path::new("pinfold"), &error))
    }

    fn dress(&self, command: &mut Command, request: &Request, (tasks, each): (u32, u32), host: &str) {
        crate::environment::export_step(command, request.export.as_deref());
        command.env_remove(ENTERED);
        if let Some(directory) = directory(request) {
            command.current_dir(directory);
        }
        for name in ["SLURM_STEP_ID", "SLURM_STEPID"] {
            command.env(name, self.step.to_string());
        }
        for name in ["SLURM_NTASKS", "SLURM_NPROCS", "SLURM_STEP_NUM_TASKS", "SLURM_TASKS_PER_NODE"] {
            command.env(name, tasks.to_string());
        }
        command.env("SLURM_STEP_TASKS_PER_NODE", tasks.to_string());
        command.env("SLURM_STEP_NUM_NODES", "1").env("SLURM_STEP_NODELIST", host);
        command.env("SLURM_SRUN_COMM_HOST", host).env("SLURM_LAUNCH_NODE_IPADDR", "127.0.0.1");
        if request.cpus_per_task.is_some() {
            command.env("SLURM_CPUS_PER_TASK", each.to_string());
        }
        if let Some(tasks) = request.ntasks_per_node {
            command.env("SLURM_NTASKS_PER_NODE", tasks.to_string());
        }
    }

    /// Waits for the tasks and the rest of their output. If a start failed, the other tasks are ended. Without a
    /// host, failures are not reported. Returns the endings, and the signal after which output is read no further: a
    /// task's leftover process may keep a pipe open for ever.
    fn attend(
        mut self,
        started: &Result<(), Trouble>,
        kill_others: bool,
        host: Option<&str>,
    ) -> (Vec<Reaped>, Option<i32>) {
        if started.is_err() {
            self.send(signals::SIGTERM);
            self.kill_at = Some(Instant::now() + KILL_WAIT);
        }
        self.readers.are_all();
        let mut ended = Vec::new();
        loop {
            let mut cut_by = self.hear();
            while let Some(reaped) = spawn::reap() {
                let Some(task) = self.pids.remove(&reaped.pid) else { continue };
                if status(&reaped) != 0 {
                    host.into_iter().for_each(|host| told(&reaped, task, host));
                    if kill_others {
                        self.send(signals::SIGTERM);
                    }
                }
                ended.push(reaped);
            }
            if self.kill_at.is_some_and(|at| at <= Instant::now()) {
                self.kill_at = Some(Instant::now() + KILL_WAIT);
                kill_all();
                cut_by = cut_by.or(Some(signals::SIGKILL));
            }
            let mut wanted = vec![Wanted::input(&self.arrived)];
            if self.pids.is_empty() {
                match self.readers.are_done() {
                    true => return (ended, None),
                    false if cut_by.is_some() => return (ended, cut_by),
                    false => wanted.push(Wanted::end(&self.readers)),
                }
            }
            let left = self.kill_at.map(|at| at.saturating_duration_since(Instant::now()));
            let _ = ready::wait(wanted, left);
        }
    }

    /// Passes on arrived signals; returns a signal that arrived after all tasks ended.
    fn hear(&mut self) -> Option<i32> {
        let mut last = None;
        while let Some(signal) = self.arrived.next() {
            if signal.word == KILL_FOLLOWS {
                self.kill_at.get_or_insert_with(|| Instant::now() + KILL_WAIT);
            }
            if signal.signal == signals::SIGCHLD {
                continue;
            }
            last = Some(signal.signal).filter(|_| self.pids.is_empty());
            // The terminal's signals to the foreground group reach the tasks directly.
            if !signal.to_group {
                self.send(signal.signal);
            }
        }
        last
    }
}

/// Kills the tasks and all their descendants.
fn kill_all() {
    let Ok(proc) = Proc::open(Path::new("/proc")) else { return };
    below(&proc, std::process::id()).into_iter().for_each(|pid| signals::send(pid, signals::SIGKILL));
}

fn told(reaped: &Reaped, task: u32, host: &str) {
    let how = match (reaped.exit_code, reaped.signal) {
        (Some(code), _) => format!("Exited with exit code {code}"),
        (None, Some(signals::SIGKILL)) => "Killed".to_owned(),
        (None, Some(signals::SIGTERM)) => "Terminated".to_owned(),
        (None, signal) => {
            let name = signal.and_then(signals::name).unwrap_or("unknown");
            format!("Terminated by signal SIG{name}")
        }
    };
    say::error("srun", &format!("{host}: task {task}: {how}"));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_their_cores() {
        let check =
            |ntasks: Option<u32>, cpus: Option<u32>, said: &[(&str, &str)], want: Option<(u32, u32)>| {
                let request = Request { ntasks, cpus_per_task: cpus, ..Request::default() };
                let variable =
                    |name: &str| said.iter().find(|(known, _)| *known == name).map(|it| it.1.to_owned());
                assert_eq!(sizes(&request, variable), want, "{ntasks:?} {cpus:?} {said:?}");
            };
        let job = [("SLURM_NTASKS", "1"), ("SLURM_CPUS_PER_TASK", "4"), ("SLURM_CPUS_ON_NODE", "4")];
        check(None, None, &job, Some((1, 4)));
        check(None, Some(2), &job, Some((1, 2)));
        // Four tasks have one of the job's cores each: nobody asked for four each.
        check(Some(4), None, &job, Some((4, 1)));
        check(Some(2), Some(4), &job, None);
        check(Some(5), None, &job, None);
        let own = [job[1], job[2], ("SRUN_CPUS_PER_TASK", "2")];
        check(Some(2), None, &own, Some((2, 2)));
        check(Some(4), None, &own, None);
        check(None, None, &[], Some((1, 1)));
    }

    #[test]
    fn steps_are_numbered_in_order() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!((0..70).map(|_| number(dir.path(), 7)).collect::<Vec<_>>(), (0..70).collect::<Vec<_>>());
        assert_eq!(number(dir.path(), 8), 0, "of another member");
    }
}
