//! `pinfold batch`: each line of a file a job; waits for all.
//!
//! The work is done by a keeper in a session of its own, so that the jobs outlive this command: when it is
//! killed, what runs goes on to its end and is recorded, and what waits is withdrawn. This process only
//! passes signals on and waits for the keeper.

use std::io::{IsTerminal, PipeReader, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::ExitCode as ProcessExit;
use std::rc::Rc;
use std::time::{Duration, Instant};

use clap::Args;
use pinfold_proto::view::{BatchResultView, BatchView, VERSION};
use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{ExitCode, JobSpec};
use pinfold_sys::signals::{SIGCHLD, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGTERM, Signals};
use pinfold_sys::spawn::{self, Side};

use crate::client::Dial;
use crate::failure::Failure;
use crate::job::{self, JobOptions};
use crate::keeper::{Keeper, Told, send_signal, send_signal_to_group};
use crate::launch::LaunchPlan;
use crate::progress::Progress;
use crate::submit::files;

mod direct;
mod lines;
mod order;

use direct::Direct;
use lines::{Lines, shell};

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    #[command(flatten)]
    pub options: JobOptions,
    /// Print the results as one JSON object
    #[arg(long)]
    pub json: bool,
    /// Show no progress
    #[arg(short, long)]
    pub quiet: bool,
    /// Begin the lines in the order of the file; otherwise, when each of them or its like was run before, the longest
    /// first
    #[arg(long)]
    pub in_order: bool,
    /// A file of shell commands, one a line (blank lines and those that begin with # are skipped); - for
    /// standard input
    #[arg(value_name = "FILE|-")]
    pub file: PathBuf,
}

/// How many jobs are with the daemon at once. Enough for it to choose among, few enough for a list of any
/// length to cost neither side much.
const WINDOW: usize = 512;

/// How long a line that found the queue full waits before it is asked for again.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(200);

/// Runs the lines; succeeds only if all do.
pub(crate) fn batch(dial: Dial, args: &BatchArgs) -> Result<ProcessExit, Failure> {
    let lines = Rc::new(Lines::read(&args.file)?);
    let mut plan = plan_of(&args.options, &lines)?;
    let order = {
        let mut client = plan.connect(&dial)?;
        if args.in_order { lines.as_they_are() } else { lines.longest_first(&mut client)? }
    };
    let pipe = |error: std::io::Error| Failure::doing("failed to make a keeper", &error);
    let signals = Signals::block(&[SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT]).map_err(pipe)?;
    let (alive, hold) = std::io::pipe().map_err(pipe)?;
    match spawn::fork_away().map_err(pipe)? {
        Side::Child => {
            drop((hold, signals));
            Batch::new(dial, args, plan, lines, order)?.run(&alive)
        }
        Side::Parent(keeper) => {
            drop(alive);
            Ok(proxy(keeper, &signals))
        }
    }
}

/// How a line is started: by a shell, unless the shell would only execute it.
fn plan_of(options: &JobOptions, lines: &Rc<Lines>) -> Result<LaunchPlan, Failure> {
    let (lines, direct) = (lines.clone(), Direct::of_environment());
    let command = Box::new(move |ticket| {
        let line = lines.line(index(ticket));
        direct.program(line).unwrap_or_else(|| ("/bin/sh".into(), shell(line)))
    });
    let mut plan = LaunchPlan::of_many(options, command)?;
    // Standard input is nobody's in particular, so no job gets it.
    plan.outputs = Rc::new(|_| Ok([files::null(), None, None]));
    Ok(plan)
}

/// Passes signals on to the keeper until it ends, then ends as it did.
fn proxy(keeper: u32, signals: &Signals) -> ProcessExit {
    use rustix::event::{PollFd, PollFlags, poll};
    loop {
        let _ = poll(&mut [PollFd::new(signals, PollFlags::IN)], None);
        while let Some(arrived) = signals.next() {
            if arrived.signal != SIGCHLD {
                send_signal(keeper, arrived.signal);
            }
        }
        // A private daemon that was started from here is a child as well.
        while let Some(reaped) = spawn::reap() {
            if reaped.pid == keeper {
                return ProcessExit::from(crate::run::status(&reaped));
            }
        }
    }
}

/// What is known of one line.
#[derive(Debug, Clone, Default)]
struct Outcome {
    job: Option<u64>,
    asked: Option<Instant>,
    started: Option<Instant>,
    ended: Option<Instant>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    cpu_us: u64,
    suspended_us: u64,
    memory_peak_bytes: u64,
    reason: Option<String>,
}

impl Outcome {
    fn failed(&self) -> bool {
        self.exit_code != Some(0)
    }
}

struct Batch {
    keeper: Keeper,
    lines: Rc<Lines>,
    /// What all lines ask for.
    spec: JobSpec,
    named: bool,
    may_be_ended: bool,
    json: bool,
    outcomes: Vec<Outcome>,
    /// Indexes of the lines, as they are to be asked for.
    order: Vec<usize>,
    /// Place in `order` of the next line to ask for.
    next: usize,
    /// Lines that found the queue full, to be asked for again.
    again: Vec<usize>,
    again_at: Option<Instant>,
    began: Instant,
    progress: Progress,
    /// The signal that asked for the end, and how often.
    ending: Option<(i32, u32)>,
    /// Whether the command that wanted the result is gone.
    orphaned: bool,
}

impl Batch {
    fn new(
        dial: Dial,
        args: &BatchArgs,
        mut plan: LaunchPlan,
        lines: Rc<Lines>,
        order: Vec<usize>,
    ) -> Result<Self, Failure> {
        let (mut keeper, welcome) = plan.keeper(dial, &[SIGINT, SIGTERM, SIGHUP, SIGQUIT], 0, None)?;
        welcome.warnings.iter().for_each(|warning| crate::run::say(&format!("warning: {warning}")));
        let slots = usize::try_from(welcome.slots).unwrap_or(1);
        // As many children wait ready-made as may be started at once, so that a slot that falls free is
        // filled without a round trip.
        keeper.set_prefork(slots.clamp(1, 64) + 2);
        let count = lines.places.len();
        let show = !args.quiet && !args.json && std::io::stderr().is_terminal();
        Ok(Self {
            keeper,
            outcomes: vec![Outcome::default(); count],
            lines,
            spec: plan.spec,
            named: args.options.name.is_some(),
            may_be_ended: job::may_be_ended(&args.options),
            json: args.json,
            order,
            next: 0,
            again: Vec::new(),
            again_at: None,
            began: Instant::now(),
            progress: Progress::new(show, count),
            ending: None,
            orphaned: false,
        })
    }

    fn run(mut self, alive: &PipeReader) -> Result<ProcessExit, Failure> {
        self.began = Instant::now();
        self.fill();
        while self.keeper.pending() > 0 || !self.again.is_empty() {
            let pause = self.again_at.map(|at| at.saturating_duration_since(Instant::now()));
            let timeout = [pause, self.progress.due()].into_iter().flatten().min();
            let watched = [alive.as_fd()];
            let told = self.keeper.wait(if self.orphaned { &[] } else { &watched }, timeout);
            told.into_iter().for_each(|told| self.hear(told));
            if !self.orphaned && hung_up(alive) {
                self.orphan();
            }
            self.fill();
            self.show_progress();
            if self.ending.is_some() && self.keeper.only_news_for_nobody() {
                // Told to end, and no daemon is there to hear how the jobs did.
                break;
            }
        }
        self.progress.clear();
        let view = self.view();
        let shown = if self.json { print_json(&view) } else { print_table(&view) };
        if let Some((signal, _)) = self.ending {
            return Ok(ProcessExit::from(u8::try_from(128 + signal).unwrap_or(255)));
        }
        shown.map_err(|error| Failure::doing("standard output", &error))?;
        Ok(ProcessExit::from(if view.failed == 0 { ExitCode::Done.code() } else { ExitCode::Failed.code() }))
    }

    /// Asks for more lines while the window has room.
    fn fill(&mut self) {
        if self.ending.is_some() || self.orphaned {
            return;
        }
        if self.again_at.is_some_and(|at| at <= Instant::now()) {
            self.again_at = None;
            let again = std::mem::take(&mut self.again);
            again.into_iter().for_each(|index| self.ask(index));
        }
        while self.again_at.is_none() && self.next < self.order.len() && self.keeper.pending() < WINDOW {
            let index = self.order[self.next];
            self.next += 1;
            self.outcomes[index].asked = Some(Instant::now());
            if self.lines.line(index).as_bytes().contains(&0) {
                self.outcomes[index].reason = Some("the line holds a NUL byte".to_owned());
                continue;
            }
            self.ask(index);
        }
    }

    fn ask(&mut self, index: usize) {
        let line = self.lines.places[index].0;
        let spec = job::of_line(&self.spec, self.named, &shell(self.lines.line(index)), line);
        self.keeper.submit(ticket(index), spec);
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Queued { ticket, job } => self.outcome(ticket).job = Some(job),
            Told::Started { ticket, at } => self.outcome(ticket).started = Some(at),
            Told::Ended { ticket, reaped, at } => {
                let outcome = self.outcome(ticket);
                outcome.ended = Some(at);
                outcome.exit_code = reaped.exit_code;
                outcome.signal = reaped.signal;
                outcome.cpu_us = reaped.cpu_user_us + reaped.cpu_system_us;
                let failed = outcome.failed();
                // One that may be begun anew is counted when its end is on disk.
                if !job::may_begin_anew(self.may_be_ended, &reaped) {
                    self.progress.ended(failed);
                }
            }
            Told::Recorded { ticket, suspended_us, memory_peak_bytes } => {
                let outcome = self.outcome(ticket);
                outcome.suspended_us = suspended_us;
                outcome.memory_peak_bytes = memory_peak_bytes;
                if outcome.signal == Some(SIGKILL) && self.may_be_ended {
                    self.progress.ended(true);
                }
            }
            Told::Again { ticket, .. } => {
                let outcome = self.outcome(ticket);
                (outcome.started, outcome.ended, outcome.exit_code, outcome.signal) =
                    (None, None, None, None);
                outcome.cpu_us = 0;
                if self.ending.is_some() || self.orphaned {
                    self.keeper.withdraw(ticket, "the batch was told to end before the job began anew");
                }
            }
            Told::Refused { ticket, code: ErrorCode::QueueFull, .. }
                if self.ending.is_none() && !self.orphaned =>
            {
                self.again.push(index(ticket));
                self.again_at = Some(Instant::now() + QUEUE_FULL_PAUSE);
            }
            Told::Refused { ticket, reason, .. } => {
                self.outcome(ticket).reason = Some(reason);
                self.progress.ended(true);
            }
            Told::Signal(arrived) => self.end(arrived.signal),
            Told::Lost => {
                self.progress.note("the daemon is gone; running jobs go on, the others wait for it")
            }
            Told::Away => {
                let words = self.keeper.away();
                self.progress.note(&words);
            }
            Told::Found { another: false } => self.progress.note("the daemon is back"),
            Told::Found { another: true } => {
                self.progress.note("another daemon is there instead; waiting jobs wait there from now on");
            }
        }
    }

    fn outcome(&mut self, ticket: u64) -> &mut Outcome {
        &mut self.outcomes[index(ticket)]
    }

    /// The user wants it to end: waiting jobs are withdrawn, running ones get the signal, and from the third
    /// time on SIGKILL.
    fn end(&mut self, signal: i32) {
        let times = self.ending.map_or(1, |(_, times)| times + 1);
        self.ending = Some((signal, times));
        self.withdraw_waiting("the batch was told to end before the job started");
        let sent = if times >= 3 { SIGKILL } else { signal };
        let running: Vec<(u64, u32)> = self.keeper.running().collect();
        for (ticket, pid) in running {
            send_signal_to_group(pid, sent);
            self.keeper.interrupted(ticket);
        }
        self.progress.note(match times {
            1 => "ending: running jobs got the signal, waiting ones are withdrawn",
            2 => "the signal was sent again; once more kills",
            _ => "killed what was left",
        });
    }

    /// The command that wanted the result was killed: what runs goes on, the rest is not started.
    fn orphan(&mut self) {
        self.orphaned = true;
        self.withdraw_waiting("the batch command was killed before the job started");
        let _ = spawn::null_streams();
    }

    fn withdraw_waiting(&mut self, reason: &str) {
        for ticket in self.keeper.waiting() {
            if self.keeper.withdraw(ticket, reason) {
                self.outcome(ticket).reason = Some(reason.to_owned());
            }
        }
        for index in std::mem::take(&mut self.again) {
            self.outcomes[index].reason = Some(reason.to_owned());
        }
        self.again_at = None;
        for &index in &self.order[self.next..] {
            self.outcomes[index].reason = Some(reason.to_owned());
        }
        self.next = self.order.len();
    }

    fn show_progress(&mut self) {
        let running = self.keeper.running_count();
        self.progress.show(running, self.began.elapsed());
    }

    fn view(&self) -> BatchView {
        let last = self.outcomes.iter().filter_map(|outcome| outcome.ended).max();
        let result = |(outcome, place): (&Outcome, &(u64, std::ops::Range<usize>))| {
            let between = |from: Option<Instant>, to: Option<Instant>| match (from, to) {
                (Some(from), Some(to)) => to.saturating_duration_since(from).as_secs_f64(),
                _ => 0.0,
            };
            BatchResultView {
                job: outcome.job,
                line: place.0,
                exit_code: outcome.exit_code,
                signal: outcome.signal,
                queued_s: between(outcome.asked, outcome.started),
                wall_s: between(outcome.started, outcome.ended),
                suspended_s: pinfold_proto::view::seconds(outcome.suspended_us),
                cpu_s: pinfold_proto::view::seconds(outcome.cpu_us),
                memory_peak_bytes: outcome.memory_peak_bytes,
                reason: outcome.reason.clone(),
            }
        };
        let results: Vec<BatchResultView> =
            self.outcomes.iter().zip(&self.lines.places).map(result).collect();
        let failed = self.outcomes.iter().filter(|outcome| outcome.failed()).count();
        BatchView {
            version: VERSION,
            jobs: results.len() as u64,
            failed: failed as u64,
            makespan_s: last.map_or(0.0, |last| last.saturating_duration_since(self.began).as_secs_f64()),
            results,
        }
    }
}

fn ticket(index: usize) -> u64 {
    index as u64
}

fn index(ticket: u64) -> usize {
    usize::try_from(ticket).expect("tickets are indexes of lines")
}

/// Whether the other end of the pipe is closed: its owner, the command the user typed, is gone.
fn hung_up(alive: &PipeReader) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut fds = [PollFd::new(alive, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut fds, Some(&now)).is_ok() && fds[0].revents().contains(PollFlags::HUP)
}

fn print_json(view: &BatchView) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    serde_json::to_writer(&mut out, view)?;
    writeln!(out)?;
    out.flush()
}

fn print_table(view: &BatchView) -> std::io::Result<()> {
    let mut out = std::io::BufWriter::new(std::io::stderr().lock());
    pinfold_profile::report::write_batch(view, &mut out)?;
    out.flush()
}
