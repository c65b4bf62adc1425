//! `pinfold run`: a job in the foreground.
//!
//! The command stays in this process's group, on the same terminal, so the terminal's own signals (Ctrl-C, Ctrl-Z, a
//! change of size) reach it directly; only signals to this process alone are passed on: from another process, and the
//! terminal's hang-up where this process leads the session.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::os::fd::BorrowedFd;
use std::process::ExitCode as ProcessExit;
use std::time::{Duration, Instant};

use clap::Args;
use pinfold_profile::report::with_dates_here;
use pinfold_proto::{End, ExitCode};
use pinfold_sys::ready::Wanted;
use pinfold_sys::signals::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};
use pinfold_sys::spawn::{self, Reaped, Side};

use crate::holds;
use crate::job::{self, JobOptions, part};
use crate::keeper::{Keeper, Told, ended_by_signal, send_signal};
use crate::launch::LaunchPlan;
use crate::notify;
use crate::print::say;
use pinfold_client::{Dial, Failure};

#[derive(Debug, Clone, Args)]
pub(crate) struct RunArgs {
    /// Run the command unmanaged if no daemon can be reached or started
    #[arg(long)]
    pub fallback: bool,
    /// Tell a command or URL when the job has ended: the JSON of `report --json` on the command's standard input, or by POST
    #[arg(long, value_name = "COMMAND|URL")]
    pub notify: Option<String>,
    #[command(flatten)]
    pub options: JobOptions,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}

const TICKET: u64 = 1;

/// The status of a command that ran into its timeout, as of `timeout(1)`.
pub(crate) const TIMED_OUT: u8 = 124;

/// Signals that are passed on to the command.
const PASSED_ON: &[i32] = &[SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGALRM, SIGWINCH];

/// How long the end of a job may take to be on disk before the rest is left to a process in the background.
const RECORDED_WITHIN: Duration = Duration::from_millis(500);

/// The same for a job with a limit of its own: the exit status depends on the cause of its end, which the daemon knows.
const LIMIT_TOLD_WITHIN: Duration = Duration::from_secs(30);

/// How long that process tries before it gives the status up.
const DELIVER_WITHIN: Duration = Duration::from_secs(600);

/// The wait before a message on a terminal, and before a message without a terminal, where standard error is the job's
/// too.
const WORD_AFTER: Duration = Duration::from_secs(1);
const WORD_WITHOUT_TERMINAL_AFTER: Duration = Duration::from_secs(10);

/// Work done beside a job in the foreground while it runs.
pub(crate) trait Beside {
    /// The time until the next work, unless an event happens before.
    fn due(&self) -> Option<Duration>;
    /// The descriptor to watch for input.
    fn watched(&self) -> Option<BorrowedFd<'_>>;
    /// Does it, after each wait; with the number of the job, if its command runs.
    fn tend(&mut self, running: Option<u64>);
}

/// No work beside the job.
pub(crate) struct Alone;

impl Beside for Alone {
    fn due(&self) -> Option<Duration> {
        None
    }

    fn watched(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn tend(&mut self, _running: Option<u64>) {}
}

/// Runs the command as a job; ends with its status.
pub(crate) fn run(dial: Dial, args: &RunArgs) -> Result<ProcessExit, Failure> {
    part::of_unless(&dial, args.fallback)?;
    let plan = LaunchPlan::of_command(&args.options, &args.command, job::environment(), false)?;
    in_foreground(dial, plan, args, &mut Alone)
}

/// Runs the command of this plan as a job; ends with its status.
pub(crate) fn in_foreground(
    dial: Dial,
    mut plan: LaunchPlan,
    args: &RunArgs,
    beside: &mut dyn Beside,
) -> Result<ProcessExit, Failure> {
    let not_executable = |error| Failure::new(ExitCode::NotExecutable, error);
    // Found out now rather than in the queue.
    plan.program(TICKET).map_err(not_executable)?;
    if let Some(job) = part::known() {
        part::check(job, &args.options)?;
        return Err(in_place(&mut plan));
    }
    // Tasks must hear first on which PUs they lie.
    let early = !plan.wants_layout();
    let kept = match args.options.asks_daemon() || holds::is_to_be_checked(&args.options) {
        true => dial.connect().and_then(|mut client| {
            holds::check(Some(&mut client), &args.options)?;
            plan.resolve(&mut client)
        }),
        false => Ok(()),
    };
    let kept = kept.and_then(|()| plan.keeper(dial, PASSED_ON, 1, early.then_some(TICKET)));
    let (mut keeper, welcome) = match kept {
        Err(failure) if args.fallback && failure.without_daemon => {
            say(&format!("{failure}; the command runs unmanaged (--fallback)"));
            return Err(in_place(&mut plan));
        }
        kept => kept?,
    };
    for warning in &welcome.warnings {
        say(&format!("warning: {warning}"));
    }
    if !early {
        plan.lay_on(&welcome.cpus)?;
        keeper.submit(TICKET, plan.spec);
    }
    let mut number = None;
    let reaped = until_ended(&mut keeper, job::may_be_ended(&args.options), beside, &mut number)?;
    let limited = args.options.timeout.is_some() || args.options.cpu_limit.is_some();
    let end = until_recorded(&mut keeper, limited);
    if let (Some(command), Some(job)) = (&args.notify, number) {
        let dial = Dial::new(Some(keeper.socket()), true);
        notify::of_job(command, &dial, job).unwrap_or_else(|failure| say(&failure.message));
    }
    Ok(ProcessExit::from(match end {
        Some(end) if end.is_limit() => TIMED_OUT,
        _ => status(&reaped),
    }))
}

/// Becomes the command, in this process's own place; comes back only with why that cannot be.
fn in_place(plan: &mut LaunchPlan) -> Failure {
    if let Err(failure) = plan.lay_inside() {
        return failure;
    }
    match plan.program(TICKET) {
        Ok(program) => Failure::new(ExitCode::NotExecutable, spawn::become_now(&program)),
        Err(error) => Failure::new(ExitCode::NotExecutable, error),
    }
}

/// Waits for the end of the command; `number` gets the number of the job.
fn until_ended(
    keeper: &mut Keeper,
    requeue: bool,
    beside: &mut dyn Beside,
    number: &mut Option<u64>,
) -> Result<Reaped, Failure> {
    let asked = Instant::now();
    // Killed, perhaps to be begun anew: the daemon decides.
    let mut killed = None;
    // When to ask why it waits; `None`: that was asked, or it waits no more.
    let mut asks = Some(asked + word_after());
    let mut told_to_end = false;
    loop {
        let asks_in = asks.map(|at| at.saturating_duration_since(Instant::now()));
        let due = asks_in.into_iter().chain(beside.due()).min();
        let told = keeper.wait(beside.watched().into_iter().map(Wanted::borrowed).collect(), due);
        for told in told {
            match told {
                Told::Queued { job, .. } => *number = Some(job),
                Told::Started { .. } => asks = None,
                Told::Ended { reaped, .. } if job::may_begin_anew(requeue, &reaped) => killed = Some(reaped),
                Told::Ended { reaped, .. } => {
                    // The signal was for all of the job, whichever of its processes heard it.
                    if told_to_end && ended_by_signal(&reaped) {
                        number.iter().for_each(|&job| keeper.cancel(job, 0));
                    }
                    return Ok(reaped);
                }
                Told::Again { reason, .. } => {
                    killed = None;
                    say(&format!("{reason}; it is requeued and runs again later"));
                }
                Told::Recorded { .. } if killed.is_some() => return Ok(killed.expect("just looked at")),
                Told::Refused { reason, code, .. } => return Err(Failure::refused(code, reason)),
                Told::Signal(arrived) => match keeper.running_pid(TICKET) {
                    Some(pid) => {
                        if !arrived.to_group {
                            send_signal(pid, arrived.signal);
                        }
                        keeper.interrupted(TICKET);
                        told_to_end = true;
                    }
                    None if arrived.signal == SIGWINCH => {}
                    // The job has ended already, perhaps by this very signal; its end is told next.
                    None if keeper.waiting().is_empty() => {}
                    None => return Ok(withdrawn(keeper, arrived.signal)),
                },
                Told::Why(view) if keeper.running_pid(TICKET).is_none() => {
                    say(&format!(
                        "job {0} waits: {1} (pinfold why {0})",
                        view.job,
                        with_dates_here(&view.cause)
                    ));
                }
                Told::Lost if keeper.running_pid(TICKET).is_none() => {
                    say("the daemon is gone; the job waits until there is one again");
                }
                Told::Away if keeper.running_pid(TICKET).is_none() => say(&keeper.away()),
                Told::Found { another: true } if keeper.running_pid(TICKET).is_none() => {
                    say("another daemon is there instead; the job waits there from now on");
                }
                Told::Recorded { .. } | Told::Lost | Told::Away | Told::Found { .. } | Told::Why(_) => {}
            }
        }
        if asks.is_some_and(|at| at <= Instant::now()) {
            asks = None;
            keeper.ask_why(TICKET);
        }
        beside.tend(number.filter(|_| keeper.running_pid(TICKET).is_some()));
    }
}

/// The wait of a job before its reason is printed.
fn word_after() -> Duration {
    if std::io::stderr().is_terminal() { WORD_AFTER } else { WORD_WITHOUT_TERMINAL_AFTER }
}

/// The user gave up before the job started.
fn withdrawn(keeper: &mut Keeper, signal: i32) -> Reaped {
    let name = pinfold_sys::signals::name(signal).map_or_else(|| signal.to_string(), str::to_owned);
    keeper.withdraw(TICKET, &format!("its client was ended by {name} before the job started"));
    keeper.wait(vec![], Some(Duration::ZERO));
    Reaped {
        pid: 0,
        exit_code: None,
        signal: Some(signal),
        cpu_user_us: 0,
        cpu_system_us: 0,
        rss_peak_bytes: 0,
        io_read_bytes: 0,
        io_write_bytes: 0,
        faults_minor: 0,
        faults_major: 0,
        switches_voluntary: 0,
        switches_forced: 0,
    }
}

/// Waits a moment for the daemon to have the job's end on disk, and gives the recorded end. If the daemon is away, a
/// process in the background hands the end over when it is back, and the shell gets its status without delay. A job
/// with a limit of its own is waited for longer, as long as the daemon is there.
fn until_recorded(keeper: &mut Keeper, limited: bool) -> Option<End> {
    let mut end = wait_recorded(keeper, RECORDED_WITHIN, |_| true);
    if limited && end.is_none() {
        end = wait_recorded(keeper, LIMIT_TOLD_WITHIN, |keeper| keeper.alone_for().is_none());
    }
    if keeper.pending() > 0 && matches!(spawn::fork_away(), Ok(Side::Child)) {
        let _ = spawn::null_streams();
        wait_recorded(keeper, DELIVER_WITHIN, |_| true);
    }
    end
}

/// The recorded cause of the job's end, if the daemon tells it within the limit and while the wait is worth it.
fn wait_recorded(keeper: &mut Keeper, limit: Duration, worth: impl Fn(&Keeper) -> bool) -> Option<End> {
    let deadline = Instant::now() + limit;
    let mut found = None;
    while keeper.pending() > 0 && worth(keeper) {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            break;
        }
        for told in keeper.wait(vec![], Some(left)) {
            if let Told::Recorded { end, .. } = told {
                found = end;
            }
        }
    }
    found
}

/// The exit status of a command: its own, or 128+N.
pub(crate) fn status(reaped: &Reaped) -> u8 {
    let code = reaped.exit_code.unwrap_or_else(|| 128 + reaped.signal.unwrap_or(0));
    u8::try_from(code & 0xff).expect("masked to eight bits")
}
