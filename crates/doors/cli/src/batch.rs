//! `pinfold batch`: each line of a file a job; waits for all.
//!
//! The work is done by a keeper in a session of its own, so that the jobs outlive this command: when this command is
//! killed, running jobs go on to their end and are recorded, and waiting jobs are withdrawn. This process only passes
//! signals on and waits for the keeper.
//!
//! Lines: `args`, `inputs`, `template`, `lines`, `feed` (lines that come later), `order`, `detach`. Starts:
//! `at_once`, `slots`, `pace`, `direct` (without a shell).
//! Output: `sink`, `ordered`, `spool`, `printer`, `shown`, `joblog`. The end: `ending`, `outcome`, `answer`;
//! `proxy` is the typed command.

use std::cell::RefCell;
use std::io::{IsTerminal, PipeReader};
use std::os::unix::ffi::OsStrExt;
use std::process::ExitCode as ProcessExit;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime};

use pinfold_proto::wire::ErrorCode;
use pinfold_proto::{End, ExitCode, JobSpec};
use pinfold_sys::own;
use pinfold_sys::ready::{self, Wanted};
use pinfold_sys::signals::{SIGCHLD, Signals};
use pinfold_sys::spawn::{self, Side};

use crate::input::Feed;
use crate::job;
use crate::keeper::{Keeper, Told};
use crate::launch::LaunchPlan;
use crate::progress::Progress;
use crate::shell;
use crate::successor;
use pinfold_client::{Dial, Failure};

mod answer;
mod args;
mod at_once;
mod detach;
mod direct;
mod ending;
mod feed;
mod inputs;
mod joblog;
mod lines;
mod order;
mod ordered;
mod outcome;
mod pace;
mod printer;
mod proxy;
mod shown;
mod sink;
mod slots;
mod spool;
mod template;

pub(crate) use args::BatchArgs;
pub(crate) use inputs::end_options;

use answer::Answer;
use args::Halt;
use direct::plan_of;
use joblog::JobLog;
use lines::Lines;
use outcome::Outcome;
use pace::Pace;
use printer::Printer;
use proxy::proxy;
use sink::Sink;
use slots::Slots;

/// How many jobs are with the daemon at once. Enough for it to choose among, few enough for a list of any
/// length to cost neither side much.
const WINDOW: usize = 512;

/// The most files that a batch has open, beside the files of its lines,
const FILES: usize = 16;
/// and how many for a line that runs or starts.
const FILES_OF_LINE: usize = 5;

/// The pause before a line that found the queue full is asked for again.
const QUEUE_FULL_PAUSE: Duration = Duration::from_millis(200);

/// Exit codes of a shell that does not understand a line (2), or cannot execute or find its command.
const SHELL_FAILS: [i32; 3] = [2, 126, 127];

/// Runs the lines; succeeds only if all do.
pub(crate) fn batch(dial: Dial, args: &BatchArgs) -> Result<ProcessExit, Failure> {
    if args.detach
        && let Some((name, socket)) = successor::keeps()
    {
        return detach::keep_anew(successor::dial_of(&socket, &dial), args, &name);
    }
    let (lines, feed) = Lines::of_args(args, shell::of(args.shell.as_deref())?)?;
    if args.dry_run {
        return lines.print().map(|()| ProcessExit::SUCCESS);
    }
    if args.detach {
        return detach::detach(dial, args, lines);
    }
    let lines = Rc::new(RefCell::new(lines));
    let mut sink = Sink::of(args, sink::is_seen())?;
    let slots = Rc::default();
    let mut plan = plan_of(&args.options, &lines, &sink, &slots)?;
    let done = match args.log() {
        Some((log, _)) if args.resume || args.resume_failed => {
            joblog::done(log, &lines.borrow(), args.resume_failed)?
        }
        _ => Vec::new(),
    };
    let log = args.log().map(|(log, added)| JobLog::open(log, added));
    let log = log.transpose()?;
    // Found out now rather than when all is done.
    let answer = Answer::of(args)?;
    let mut order = {
        let mut client = plan.connect(&dial)?;
        plan.resolve(&mut client)?;
        let lines = lines.borrow();
        if args.in_order || args.shuf { lines.as_they_are() } else { lines.longest_first(&mut client)? }
    };
    order.retain(|index| done.binary_search(index).is_err());
    if args.keep_order {
        let mut tickets: Vec<u64> = order.iter().copied().map(ticket).collect();
        tickets.sort_unstable();
        sink.keep_order(tickets)?;
    }
    let pipe = |error: std::io::Error| Failure::doing("failed to make a keeper", &error);
    let signals = Signals::block(&[&[SIGCHLD][..], &proxy::HEARD].concat()).map_err(pipe)?;
    let (alive, hold) = std::io::pipe().map_err(pipe)?;
    match spawn::fork_away().map_err(pipe)? {
        Side::Child => {
            drop((hold, signals));
            let printer = Printer::new().map_err(pipe)?;
            Batch::new(
                dial.clone(),
                args,
                plan,
                Work { lines, feed, slots, order, sink, printer, log, answer },
            )?
            .run(dial, &alive)
        }
        Side::Parent(keeper) => {
            drop(alive);
            Ok(proxy(keeper, &signals))
        }
    }
}

/// The lines to run, and the places of their outputs and results.
struct Work {
    lines: Rc<RefCell<Lines>>,
    /// Where more lines come from; `None`: all are here.
    feed: Option<Feed>,
    slots: Rc<RefCell<Slots>>,
    /// Indexes of the lines, as they are to be asked for.
    order: Vec<usize>,
    sink: Sink,
    printer: Printer,
    log: Option<JobLog>,
    answer: Answer,
}

impl Work {
    /// The files to wait for until more of the outputs, or of the log, is taken.
    fn unread(&self) -> impl Iterator<Item = Wanted<'_>> {
        self.printer.wanted().into_iter().chain(self.log.as_ref().and_then(JobLog::wanted))
    }
}

struct Batch {
    keeper: Keeper,
    work: Work,
    /// The request that all lines share.
    spec: JobSpec,
    named: bool,
    may_be_ended: bool,
    outcomes: Vec<Outcome>,
    /// How many lines are with the daemon at once.
    window: usize,
    pace: Pace,
    /// How often a line is tried.
    tries: u32,
    halt: Option<Halt>,
    failures: u32,
    /// Whether the batch gave up (`--halt`).
    halted: bool,
    /// When lines that were told to end and run on are killed.
    kill_at: Option<Instant>,
    /// Place in `order` of the next line to ask for.
    next: usize,
    /// Lines that found the queue full, or failed and are tried again.
    again: Vec<usize>,
    again_at: Option<Instant>,
    began: Instant,
    progress: Progress,
    /// The signal that asked for the end, and how often.
    ending: Option<(i32, u32)>,
    /// Whether the command that wanted the result is gone.
    orphaned: bool,
    /// Whether the output of a line could not be printed.
    lost: bool,
}

impl Batch {
    fn new(dial: Dial, args: &BatchArgs, mut plan: LaunchPlan, work: Work) -> Result<Self, Failure> {
        let (mut keeper, welcome) = plan.keeper(dial, &proxy::HEARD, 0, None)?;
        welcome.warnings.iter().for_each(|warning| crate::print::say(&format!("warning: {warning}")));
        let slots = usize::try_from(welcome.slots).unwrap_or(1);
        // A ready child for each job that may start at once, so that a free slot is filled without a round trip.
        keeper.set_prefork(if work.lines.borrow().name_slots() { 0 } else { slots.clamp(1, 64) + 2 });
        let of_slots = work.slots.clone();
        let slot = move |ticket| ("PINFOLD_SLOT".to_owned(), of_slots.borrow_mut().of(ticket).to_string());
        keeper.own_variable = Some(Box::new(slot));
        let show = !args.quiet && std::io::stderr().is_terminal() && !work.sink.writes_through() || args.eta;
        let count = work.lines.borrow().count();
        let files = usize::try_from(own::raise_file_limit()).unwrap_or(usize::MAX);
        let window = (files.saturating_sub(FILES) / FILES_OF_LINE).clamp(1, WINDOW);
        let window = args.jobs.map_or(window, |jobs| jobs.lines(welcome.cpus.len()).min(window));
        Ok(Self {
            keeper,
            outcomes: vec![Outcome::default(); count],
            progress: Progress::new(show, work.order.len(), work.feed.is_some()),
            work,
            spec: plan.spec,
            named: args.options.name.is_some(),
            may_be_ended: job::may_be_ended(&args.options),
            window,
            pace: Pace::new(args.delay),
            tries: args.retries,
            halt: args.halt,
            failures: 0,
            halted: false,
            kill_at: None,
            next: 0,
            again: Vec::new(),
            again_at: None,
            began: Instant::now(),
            ending: None,
            orphaned: false,
            lost: false,
        })
    }

    fn run(mut self, dial: Dial, alive: &PipeReader) -> Result<ProcessExit, Failure> {
        self.began = Instant::now();
        self.fill();
        while self.keeper.pending() > 0
            || !self.again.is_empty()
            || self.has_more()
            || self.work.feed.is_some()
        {
            let pause = self.again_at.map(|at| at.saturating_duration_since(Instant::now()));
            let kill = self.kill_at.map(|at| at.saturating_duration_since(Instant::now()));
            let apart = self.pace.left(Instant::now()).filter(|_| self.has_more());
            let timeout = [pause, self.progress.due(), kill, apart].into_iter().flatten().min();
            let alive_still = (!self.orphaned).then(|| Wanted::input(alive));
            let feed = self.work.feed.iter().filter(|_| self.wants_lines()).map(Wanted::input);
            let others = alive_still.into_iter().chain(self.work.unread()).chain(feed);
            let told = self.keeper.wait(others.collect(), timeout);
            told.into_iter().for_each(|told| self.hear(told));
            self.work.log.iter_mut().for_each(JobLog::write);
            self.print();
            if !self.orphaned && ready::is_hung_up(alive) {
                self.orphan();
            }
            self.kill_late_lines();
            self.read_on();
            self.fill();
            self.progress.show(self.keeper.running_count(), self.began.elapsed());
            if self.ending.is_some() && self.keeper.only_news_for_nobody() {
                // The batch was told to end, and no daemon is there to report the jobs' ends.
                self.over_without_word();
                break;
            }
        }
        if self.ending.is_some() || self.halted {
            self.await_leftovers(dial);
        }
        self.progress.clear();
        if !self.orphaned {
            self.told_lost(|work| work.sink.print_due(&work.lines.borrow(), true, &mut work.printer));
        }
        self.drain(alive, false);
        let view = outcome::view(&self.outcomes, &self.work, self.began);
        let shown = self.work.answer.print(&view);
        if view.results.iter().any(|line| line.exit_code.is_some_and(|code| SHELL_FAILS.contains(&code))) {
            let shell = self.work.lines.borrow().shell.clone();
            self.progress.note(&format!("the lines were run by {} (--shell)", shell.display()));
        }
        self.drain(alive, true);
        if let Some((signal, _)) = self.ending {
            return Ok(ProcessExit::from(u8::try_from(128 + signal).unwrap_or(255)));
        }
        shown?;
        let done = view.failed == 0 && !self.lost;
        Ok(ProcessExit::from(if done { ExitCode::Done.code() } else { ExitCode::Failed.code() }))
    }

    /// Asks for more lines while the window has room.
    fn fill(&mut self) {
        if self.is_over_early() {
            return;
        }
        if self.again_at.is_some_and(|at| at <= Instant::now()) {
            self.again_at = None;
            let again = std::mem::take(&mut self.again);
            again.into_iter().for_each(|index| self.ask(index));
        }
        while self.again_at.is_none() && self.has_more() && self.has_room() {
            let index = self.work.order[self.next];
            self.next += 1;
            self.outcomes[index].asked = Some(Instant::now());
            if self.work.lines.borrow().line(index).as_bytes().contains(&0) {
                self.outcomes[index].reason = Some("the line holds a NUL byte".to_owned());
                continue;
            }
            self.ask(index);
        }
    }

    /// Whether lines are left that were not asked for.
    fn has_more(&self) -> bool {
        self.next < self.work.order.len()
    }

    /// Whether the next line may be asked for. If lines are kept apart, a single line waits at a time: each starts a
    /// fixed time after the line before.
    fn has_room(&self) -> bool {
        let apart = self.pace.is_set()
            && (self.pace.left(Instant::now()).is_some() || !self.keeper.waiting().is_empty());
        !apart && self.keeper.pending() < self.window && !self.work.printer.is_far_behind()
    }

    fn ask(&mut self, index: usize) {
        let spec = {
            let lines = self.work.lines.borrow();
            job::of_line(&self.spec, self.named, &lines.command(index), lines.places[index].0)
        };
        self.outcomes[index].attempts += 1;
        self.keeper.submit(ticket(index), spec);
    }

    fn hear(&mut self, told: Told) {
        match told {
            Told::Queued { ticket, job } => {
                self.work.sink.keep(self.keeper.socket(), job, ticket, &self.work.lines.borrow());
                self.outcome(ticket).job = Some(job);
            }
            Told::Started { ticket, at } => {
                self.pace.has_started(at);
                let outcome = self.outcome(ticket);
                outcome.started = Some(at);
                outcome.started_at = SystemTime::now().checked_sub(at.elapsed());
            }
            Told::Ended { ticket, reaped, at } => {
                self.work.slots.borrow_mut().free(ticket);
                let anew = job::may_begin_anew(self.may_be_ended, &reaped);
                let outcome = self.outcome(ticket);
                outcome.ended = Some(at);
                outcome.exit_code = reaped.exit_code;
                outcome.signal = reaped.signal;
                outcome.end = None;
                outcome.cpu_us = reaped.cpu_user_us + reaped.cpu_system_us;
                self.has_ended(ticket, anew);
            }
            Told::Recorded { ticket, suspended_us, memory_peak_bytes, end } => {
                let outcome = self.outcome(ticket);
                outcome.end = end;
                outcome.suspended_us = suspended_us;
                outcome.memory_peak_bytes = memory_peak_bytes;
                if !outcome.is_over && !outcome.to_be_tried_again {
                    self.over(ticket);
                }
                if self.outcome(ticket).to_be_tried_again {
                    self.try_again(ticket);
                }
            }
            Told::Again { ticket, .. } => {
                let outcome = self.outcome(ticket);
                (outcome.started, outcome.ended, outcome.exit_code, outcome.signal) =
                    (None, None, None, None);
                outcome.cpu_us = 0;
                if self.is_over_early() {
                    const WHY: &str = "the batch was told to end before the job began anew";
                    self.outcome(ticket).never_starts(WHY.to_owned());
                    self.keeper.withdraw(ticket, WHY);
                }
            }
            Told::Refused { ticket, code: ErrorCode::QueueFull, .. } if !self.is_over_early() => {
                self.outcome(ticket).attempts -= 1;
                self.ask_later(ticket);
            }
            Told::Refused { ticket, reason, .. } => {
                self.work.slots.borrow_mut().free(ticket);
                self.outcome(ticket).never_starts(reason);
                self.progress.ended(true);
                self.count_failure();
            }
            Told::Signal(arrived) => self.signal(arrived.signal),
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
            // A batch asks for no reasons.
            Told::Why(_) => {}
        }
    }

    /// Whether no more lines are started, though there are some.
    fn is_over_early(&self) -> bool {
        self.ending.is_some() || self.orphaned || self.halted
    }

    /// The command of a line ended. Unless that settles the line's outcome, the line is over when its end is on disk: a
    /// killed job may be begun anew, and a job that exited with 0 may have been told to end. A job that had not started
    /// gets no further report.
    fn has_ended(&mut self, ticket: u64, may_begin_anew: bool) {
        let outcome = self.outcome(ticket);
        let (started, failed) = (outcome.started.is_some(), outcome.failed());
        if !started && self.has_tries_left(ticket) {
            // Its own process was killed while it waited.
            self.ask_later(ticket);
        } else if !started || (failed && !may_begin_anew) {
            self.over(ticket);
        } else if !failed && !self.has_tries_left(ticket) {
            self.show(ticket);
        }
    }

    /// A line that its user or an operator cancelled is not wanted any more.
    fn has_tries_left(&self, ticket: u64) -> bool {
        let outcome = &self.outcomes[index(ticket)];
        outcome.attempts < self.tries && outcome.end != Some(End::Cancelled) && !self.is_over_early()
    }

    /// Asks for a line once more, a little later.
    fn ask_later(&mut self, ticket: u64) {
        self.again.push(index(ticket));
        self.again_at = Some(Instant::now() + QUEUE_FULL_PAUSE);
    }

    /// A line ended: it is tried again, or reported and counted.
    fn over(&mut self, ticket: u64) {
        let again = self.has_tries_left(ticket);
        let outcome = self.outcome(ticket);
        let failed = outcome.failed();
        if failed && again {
            outcome.to_be_tried_again = true;
            return;
        }
        outcome.is_over = true;
        self.show(ticket);
        self.log(ticket);
        // A truncated output is found when it is shown.
        let failed = self.outcome(ticket).failed();
        self.progress.ended(failed);
        if failed {
            self.count_failure();
        }
    }

    fn try_again(&mut self, ticket: u64) {
        self.outcome(ticket).to_be_tried_again = false;
        if !self.has_tries_left(ticket) {
            // Ended or cancelled on request: the last try was the last.
            return self.over(ticket);
        }
        let outcome = self.outcome(ticket);
        (outcome.started, outcome.ended) = (None, None);
        self.ask(index(ticket));
    }

    fn outcome(&mut self, ticket: u64) -> &mut Outcome {
        &mut self.outcomes[index(ticket)]
    }
}

fn ticket(index: usize) -> u64 {
    index as u64
}

fn index(ticket: u64) -> usize {
    usize::try_from(ticket).expect("tickets are indexes of lines")
}
