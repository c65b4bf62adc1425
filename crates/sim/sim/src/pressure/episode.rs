//! A seed's history of a host under pressure: jobs come, all end, and the host was never slower than jobs in sequence.

use std::collections::BTreeMap;

use pinfold_policy::{Command, Event, FrozenBy, JobId, SLOW_FOR, State};

use crate::dice::Dice;
use crate::only::Only;
use crate::pressure::host::{Happening, Host};
use crate::pressure::mutant::Mutant;
use crate::pressure::options::{Options, Regime, Task};
use crate::pressure::world::TICK_US;
use crate::shrink::shrink as cut_down;
use crate::violation::Violation;

/// The most crashes. After each crash all suspended jobs continue, and pages that the token holder had read back from a
/// slow device go out again: if that takes longer than a daemon lives, no job would ever end.
const CRASHES_MAX: u64 = 100;
/// The permitted excess of the makespan over the serial bound, in any case,
const SLACK_US: u64 = 20_000_000;
/// in thousandths of the bound,
const SLACK_MILLI: u64 = 100;
/// and for each crash, beside the time to restore memory.
const CRASH_US: u64 = 5_000_000;
/// The time after a decision in which the world may differ from it: a freeze takes up to half a second, and a failed freeze
/// is retried after a second.
const ASTRAY_US: u64 = 5_000_000;
/// The permitted page-out of the token holder, in KiB: orders from before it got the token.
const TOKEN_PAGED: u64 = 4 << 10;
/// The permitted delay of a throttle's end: readings come at least every second, and some are lost.
const SLOW_SLACK_US: u64 = 10_000_000;

/// The result of an episode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// FNV-1a over the codes and figures of all decisions and their times.
    pub hash: u64,
    /// Decisions made.
    pub decisions: u64,
    /// Times the daemon was killed.
    pub crashes: u64,
    /// The regime of knowledge.
    pub regime: Regime,
    /// Jobs in all,
    pub jobs: u64,
    /// and jobs that the kernel killed, where that could not be avoided.
    pub lost: u64,
    /// The end of the last job, in microseconds.
    pub makespan_us: u64,
    /// The serial bound on the end, in us.
    pub bound_us: u64,
    /// Time in which all jobs waited for memory, in microseconds.
    pub stalled_us: u64,
    /// The number of times that a throttled job was held at its bound for a second.
    pub felt: u64,
    /// The number of actions of each sort.
    pub tally: BTreeMap<&'static str, u64>,
}

/// An episode in which a promise was broken.
#[derive(Debug, Clone, thiserror::Error)]
#[error("episode {seed} under pressure, of {options:?}: {violation}")]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Its options.
    pub options: Box<Options>,
    /// The broken promise.
    pub violation: Violation,
    /// The number of disturbances before.
    pub upsets: u64,
    /// The history up to there, when it was asked for.
    pub trace: Vec<String>,
}

/// Plays the episode of `seed`, with a mistake built in if wanted; `traced`: keeps the history.
///
/// # Errors
/// If a promise was broken.
pub fn run(seed: u64, mutant: Option<Mutant>, traced: bool) -> Result<Outcome, Box<Failure>> {
    run_only(seed, mutant, traced, &Only::default())
}

/// The same with a part of its jobs, disturbances and kinds of faults.
///
/// # Errors
/// If a promise was broken.
pub fn run_only(
    seed: u64,
    mutant: Option<Mutant>,
    traced: bool,
    only: &Only,
) -> Result<Outcome, Box<Failure>> {
    let mut dice = Dice::new(seed);
    let mut options = Options::draw(&mut dice);
    options.let_some_begin_anew(&mut Dice::new(!seed));
    options.let_some_checkpoint(&mut Dice::new(seed.rotate_left(16)));
    options.let_some_steer(&mut Dice::new(seed.rotate_left(32)));
    options.let_budget_change(&mut Dice::new(!seed.rotate_left(32)));
    options.let_some_share(&mut Dice::new(seed.rotate_left(48)));
    options.keep(only);
    let mut host = Host::new(dice, options.clone(), serial_us(&options), mutant);
    host.only = only.clone();
    host.trace = traced.then(Vec::new);
    played(seed, host)
}

/// Plays an episode with these options instead of the seed's; random numbers during the episode are the seed's.
///
/// # Errors
/// If a promise was broken.
pub fn run_with(seed: u64, options: Options) -> Result<Outcome, Box<Failure>> {
    let serial_us = serial_us(&options);
    played(seed, Host::new(Dice::new(seed), options, serial_us, None))
}

fn played(seed: u64, mut host: Host) -> Result<Outcome, Box<Failure>> {
    match play(&mut host) {
        Ok(()) => Ok(Outcome {
            hash: host.hash.0,
            decisions: host.decisions,
            crashes: host.crashes,
            regime: host.options.regime,
            jobs: host.options.tasks.len() as u64,
            lost: host.world.lost.len() as u64,
            makespan_us: host.world.now_us(),
            bound_us: host.serial_us,
            stalled_us: host.world.stalled_us,
            felt: host.world.felt,
            tally: std::mem::take(&mut host.tally),
        }),
        Err(violation) => {
            let trace = host.trace.take().unwrap_or_default();
            let options = Box::new(host.options);
            Err(Box::new(Failure { seed, options, violation, upsets: host.upsets, trace }))
        }
    }
}

/// The smallest part of an episode that was found to break the same promise.
#[must_use]
pub fn shrink(failure: &Failure, mutant: Option<Mutant>) -> Only {
    let jobs = failure.options.tasks.len() as u64;
    cut_down(jobs, failure.upsets, &failure.violation, |only| {
        run_only(failure.seed, mutant, false, only).err().map(|smaller| smaller.violation)
    })
}

fn play(host: &mut Host) -> Result<(), Violation> {
    for (number, task) in (1..).zip(host.options.tasks.clone()) {
        if host.only.has_job(number) {
            host.plan(task.arrives_us, Happening::Arrive(JobId(number)));
        }
    }
    if host.options.crash_us > 0 {
        let in_us = host.dice.around(host.options.crash_us);
        host.plan(in_us, Happening::Crash);
    }
    if host.options.suspend_us > 0 {
        let in_us = host.dice.around(host.options.suspend_us);
        host.plan(in_us, Happening::Suspend);
    }
    if host.options.budget_us > 0 {
        let in_us = host.dice.around(host.options.budget_us);
        host.plan(in_us, Happening::Budget);
    }
    host.start_up()?;
    let jobs = asked_for(host);
    while host.books.over.len() < jobs {
        host.world.tick();
        hear_of_ends(host)?;
        while let Some(happening) = host.take_due() {
            happen(host, happening)?;
        }
        host.read_if_due()?;
        wake_up(host)?;
        host.schedule();
        check(host)?;
    }
    all_is_well(host)
}

/// The number of jobs in all.
fn asked_for(host: &Host) -> usize {
    (1..).zip(&host.options.tasks).filter(|&(number, _)| host.only.has_job(number)).count()
}

/// Reports ended jobs to the daemon, if it runs.
fn hear_of_ends(host: &mut Host) -> Result<(), Violation> {
    if host.policy.is_none() {
        return Ok(());
    }
    for (job, peak) in host.take_ended() {
        host.finish(job, peak)?;
    }
    Ok(())
}

fn wake_up(host: &mut Host) -> Result<(), Violation> {
    let now = host.now();
    // A tick may set the next: only ticks of this moment.
    for _ in 0..3 {
        let due = host.policy.as_ref().and_then(pinfold_policy::Policy::next_wakeup);
        if due.is_none_or(|at| at > now) {
            return Ok(());
        }
        host.deliver(Event::Tick)?;
    }
    Ok(())
}

fn happen(host: &mut Host, happening: Happening) -> Result<(), Violation> {
    match happening {
        Happening::Arrive(_) if host.policy.is_none() => {
            host.plan(100_000, happening);
            Ok(())
        }
        Happening::Arrive(job) => host.arrive(job),
        Happening::StartDone(job) => host.start_done(job),
        Happening::Report(generation, event) => host.report(generation, *event),
        Happening::Emptied(job) => host.emptied(job),
        Happening::Crash => {
            host.upsets += 1;
            let lives = host.policy.is_some() && host.crashes < CRASHES_MAX;
            if lives && host.only.has_upset(host.upsets - 1) {
                host.crash();
            }
            let in_us = host.dice.around(host.options.crash_us).max(3_000_000);
            host.plan(in_us, Happening::Crash);
            Ok(())
        }
        Happening::Up => host.start_up(),
        Happening::Suspend => suspend(host),
        Happening::Budget => change_budget(host),
        Happening::Resume(job) => {
            host.books.resumed(job);
            host.deliver(Event::Command(job, Command::Resume))
        }
    }
}

/// An operator takes memory away from jobs, or gives it back.
fn change_budget(host: &mut Host) -> Result<(), Violation> {
    let in_us = host.dice.around(host.options.budget_us);
    host.plan(in_us, Happening::Budget);
    let milli = host.dice.pick(&[1000, 1000, 750, 500]);
    host.upsets += 1;
    if !host.only.has_upset(host.upsets - 1) {
        return Ok(());
    }
    // A daemon that starts later finds it in its configuration.
    host.options.settings.memory.budget_bytes = host.budget_bytes / 1000 * milli;
    host.books.settings = host.options.settings.clone();
    host.deliver(Event::Configure(host.options.settings.clone()))
}

fn suspend(host: &mut Host) -> Result<(), Violation> {
    let in_us = host.dice.around(host.options.suspend_us);
    host.plan(in_us, Happening::Suspend);
    host.upsets += 1;
    if !host.only.has_upset(host.upsets - 1) {
        return Ok(());
    }
    let started = |job: &JobId| host.books.jobs[job].started.is_some();
    let all: Vec<JobId> = host.books.jobs.keys().copied().filter(started).collect();
    if all.is_empty() || host.policy.is_none() {
        return Ok(());
    }
    let job = host.dice.pick(&all);
    let for_us = host.dice.between(0, 5_000_000);
    // Others have its memory meanwhile, and it comes back afterwards.
    let hardware = &host.options.hardware;
    let moved = host.world.bodies.get(&job).map_or(0, |body| body.resident + body.swapped) * 1_000_000;
    host.suspended_us += for_us + moved / hardware.out_rate.max(1) + moved / hardware.fault_rate();
    // An absent daemon misses this, and its successor has no suspended job.
    host.plan(for_us, Happening::Resume(job));
    host.books.suspended(job);
    host.deliver(Event::Command(job, Command::Suspend))
}

/// Invariants at every moment.
fn check(host: &mut Host) -> Result<(), Violation> {
    let now_us = host.world.now_us();
    let avoidable = host.options.regime != Regime::Scarce && !host.exposed;
    if let Some(job) = host.world.lost.first().filter(|_| avoidable) {
        return Err(Violation::new("the kernel kills nobody", format!("job {job} at {now_us} us")));
    }
    let latest = latest_us(host);
    if now_us > latest {
        let left: Vec<String> =
            host.books.jobs.iter().map(|(job, entry)| format!("{job}: {entry:?}")).collect();
        let found = format!("{latest} us went by, and there are {}", left.join("; "));
        return Err(Violation::new("it takes no longer than one job after the other", found));
    }
    check_steering(host)?;
    let Some(policy) = &host.policy else { return Ok(()) };
    host.owed.check(&host.books, policy, now_us)?;
    for info in policy.jobs() {
        let Some(body) = host.world.bodies.get(&info.job) else {
            // A requeued job is a new run: its last run does not count.
            host.astray.remove(&info.job);
            continue;
        };
        let still = match info.state {
            State::Frozen { by: FrozenBy::User | FrozenBy::Policy } => true,
            State::Running => false,
            State::Waiting { .. } | State::Starting => continue,
        };
        if body.frozen == still {
            host.astray.remove(&info.job);
            continue;
        }
        let since = *host.astray.entry(info.job).or_insert(now_us);
        if now_us - since > ASTRAY_US {
            let rule = if still { "a job that is to be suspended is" } else { "nobody is left frozen" };
            return Err(Violation::new(rule, format!("job {} since {since} us: {body:?}", info.job)));
        }
    }
    let token = host.books.token;
    let moved = token.and_then(|job| host.world.bodies.get(&job)).map_or(0, |body| body.paged_out);
    match (token, host.token_paged) {
        (Some(job), Some((was, before))) if job == was => {
            if moved > before {
                let found = format!("job {job}: {} MiB", (moved - before) >> 10);
                return Err(Violation::new("the token holder stays in RAM", found));
            }
        }
        (Some(job), _) => {
            let ordered = host.world.ordered_out(job);
            host.token_paged = Some((job, moved + ordered + TOKEN_PAGED));
        }
        (None, _) => host.token_paged = None,
    }
    Ok(())
}

/// No job is throttled for long, or without a daemon; and only the token holder is protected.
fn check_steering(host: &Host) -> Result<(), Violation> {
    let now_us = host.world.now_us();
    let longest_us = u64::try_from(SLOW_FOR.as_micros()).unwrap_or(u64::MAX) + SLOW_SLACK_US;
    for (job, body) in &host.world.bodies {
        let Some(since) = body.slowed_us else { continue };
        if host.policy.is_none() || now_us - since > longest_us {
            return Err(Violation::new(
                "nobody stays slowed",
                format!("job {job} since {since} us: {body:?}"),
            ));
        }
    }
    let settled = host.books.token.filter(|_| host.policy.is_some());
    let other = host.world.bodies.iter().find(|(job, body)| body.protected > 0 && Some(**job) != settled);
    match other {
        Some((job, body)) => {
            let found = format!("job {job}, and {settled:?} goes first: {body:?}");
            Err(Violation::new("only the token holder is protected", found))
        }
        None => Ok(()),
    }
}

/// The serial bound on the end of the last job: all arrive, then run in sequence, and each is moved to swap and back once.
fn serial_us(options: &Options) -> u64 {
    let rate = options.hardware.in_rate.min(options.hardware.out_rate);
    let moved = |kib: u64| kib * 1_000_000 / rate;
    let last = options.tasks.iter().map(|task| task.arrives_us).max().unwrap_or(0);
    let alone = |task: &Task| task.plan.alone_us(TICK_US) + 2 * moved(task.plan.peak) + options.start_us;
    last + options.tasks.iter().map(alone).sum::<u64>()
}

/// The bound with all slack.
fn latest_us(host: &Host) -> u64 {
    let serial = host.serial_us;
    let hardware = &host.options.hardware;
    let again = hardware.ram * 1_000_000 / hardware.fault_rate().min(hardware.out_rate);
    let crashes = host.crashes * (CRASH_US + 2 * again);
    serial + serial * SLACK_MILLI / 1000 + SLACK_US + crashes + host.suspended_us
}

fn all_is_well(host: &Host) -> Result<(), Violation> {
    let all = asked_for(host);
    if host.books.over.len() != all || !host.world.bodies.is_empty() || !host.books.jobs.is_empty() {
        let found = format!("{} of {all}, {:?}", host.books.over.len(), host.world.bodies);
        return Err(Violation::new("every job ends once", found));
    }
    Ok(())
}
