//! One seed, one history: first chaos with all checks, then quiet, in which every job must end.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_policy::{Command, Event, JobId, Preemption, Request, Sample, Settings, Wish};
use pinfold_topo::CpuSet;

use crate::checks::Violation;
use crate::daemon::{Happening, Host, SET};
use crate::dice::Dice;
use crate::ledger::{Entry, Phase};
use crate::mutant::Mutant;
use crate::shrink::{self, Fault, Only};
use crate::swarm::{self, Chaos, Options};
use crate::world::Work;

/// More steps than any history of this size takes; beyond it, something goes round in circles.
const STEPS_MAX: u64 = 60_000;
/// The time between two samples,
const SAMPLE_US: u64 = 500_000;
/// and when the last is taken.
const SAMPLES_END_US: u64 = 60_000_000;

/// Makes other dice of a seed, for what was added later.
const MORE: u64 = 0x6d6f_7265;
/// ... and others again.
const LAST: u64 = 0x6c61_7374;
/// ... and what lists there are,
const LISTS: u64 = 0x6c69_7374;
/// ... and who is to be alone,
const ISOLATED: u64 = 0x616c_6f6e;
/// ... and what other programs do.
const MEDDLING: u64 = 0x6d65_6464;

/// How an episode went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// FNV-1a over the codes and figures of all decisions and their times.
    pub hash: u64,
    /// Decisions made.
    pub decisions: u64,
    /// Times the daemon was killed.
    pub crashes: u64,
    /// Simulated time, in microseconds.
    pub length_us: u64,
    /// How many decisions were made for each reason.
    pub tally: BTreeMap<&'static str, u64>,
}

/// An episode in which a promise was broken.
#[derive(Debug, Clone, thiserror::Error)]
#[error("episode {seed} of {options:?}: {violation}")]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// Its options.
    pub options: Box<Options>,
    /// What was broken.
    pub violation: Violation,
    /// How many disturbances there had been.
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
    let mut more = Dice::new(seed ^ MORE);
    options.draw_more(&mut more);
    options.draw_last(&mut Dice::new(seed ^ LAST));
    options.draw_lists(&mut Dice::new(seed ^ LISTS));
    options.draw_isolated(&mut Dice::new(seed ^ ISOLATED));
    let plain = options.clone();
    options.draw_meddling(&mut Dice::new(seed ^ MEDDLING));
    if !only.has_fault(Fault::Meddling) {
        options = plain;
    }
    options.keep(only);
    let mut host = Host::new(dice, more, options.clone(), mutant);
    host.only = only.clone();
    host.trace = traced.then(Vec::new);
    let played = play(&mut host);
    match played {
        Ok(()) => Ok(Outcome {
            hash: host.hash.0,
            decisions: host.decisions,
            crashes: host.crashes,
            length_us: host.world.now_us(),
            tally: std::mem::take(&mut host.tally),
        }),
        Err(violation) => {
            let trace = host.trace.take().unwrap_or_default();
            Err(Box::new(Failure { seed, options: Box::new(options), violation, upsets: host.upsets, trace }))
        }
    }
}

/// The smallest part of an episode that was found to break the same promise.
#[must_use]
pub fn shrink(failure: &Failure, mutant: Option<Mutant>) -> Only {
    shrink::shrink(failure.options.jobs, failure.upsets, &failure.violation, |only| {
        run_only(failure.seed, mutant, false, only).err().map(|smaller| smaller.violation)
    })
}

fn play(host: &mut Host) -> Result<(), Violation> {
    plan_jobs(host);
    host.start_up()?;
    if !host.options.chaos.is_empty() {
        let in_us = host.dice.around(host.options.chaos_us);
        host.plan(in_us, Happening::Chaos);
    }
    if host.options.sets {
        let in_us = host.more.around(host.options.chaos_us);
        host.plan(in_us, Happening::SetAside);
    }
    if host.options.samples {
        host.plan(SAMPLE_US, Happening::Sample);
    }
    if !host.options.isolated.is_empty() {
        host.keep_house()?;
    }
    if host.options.meddle_us > 0 {
        host.plan(0, Happening::Meddle);
    }
    let mut steps = 0;
    let end_us = host.options.chaos_end_us;
    go_on(host, Some(end_us), &mut steps)?;
    calm_down(host)?;
    go_on(host, None, &mut steps)?;
    all_wait_for_users(host)?;
    let all: Vec<JobId> = host.ledger.jobs.keys().copied().collect();
    for job in all {
        let cannot = host.ledger.jobs.get(&job).is_some_and(|entry| cannot_run(host, entry));
        let command = if cannot { Command::Cancel { signal: 15 } } else { Command::Resume };
        host.deliver(Event::Command(job, command))?;
    }
    go_on(host, None, &mut steps)?;
    all_are_over(host)
}

/// Lets time go by until nothing is left to happen, or until `end_us`.
fn go_on(host: &mut Host, end_us: Option<u64>, steps: &mut u64) -> Result<(), Violation> {
    loop {
        let planned = host.next_planned_us();
        let next = [planned, host.wakeup_us(), host.look_us(), host.world.next_end_us()];
        let next = next.into_iter().flatten().min();
        let Some(next) = next.filter(|&next| end_us.is_none_or(|end| next <= end)) else { return Ok(()) };
        *steps += 1;
        if *steps > STEPS_MAX {
            let found = format!("{STEPS_MAX} steps, at {next} us");
            return Err(Violation::new("every history comes to an end", found));
        }
        host.world.advance(next);
        hear_of_ends(host)?;
        if planned == Some(next) {
            if let Some(happening) = host.take_planned() {
                happen(host, happening)?;
            }
        } else if host.wakeup_us().is_some_and(|at| at <= next) {
            host.deliver(Event::Tick)?;
        } else if host.look_us().is_some_and(|at| at <= next) {
            host.look()?;
        }
        hear_of_ends(host)?;
        host.schedule_look();
    }
}

/// The daemon, if there is one, hears of the jobs that ended.
fn hear_of_ends(host: &mut Host) -> Result<(), Violation> {
    while host.is_up()
        && let Some(job) = host.world.ended.pop_first()
    {
        host.deliver(Event::Exited(job))?;
    }
    Ok(())
}

fn happen(host: &mut Host, happening: Happening) -> Result<(), Violation> {
    match happening {
        Happening::Arrive(_) if !host.is_up() => {
            host.plan(100_000, happening);
            Ok(())
        }
        Happening::Arrive(job) => {
            let Some((request, _)) = host.works.get(&job) else { return Ok(()) };
            let request = request.clone();
            if host.is_refused(job, request.cores)? { Ok(()) } else { host.deliver(Event::Submit(request)) }
        }
        Happening::StartDone(job, token) => host.start_done(job, token),
        Happening::Frozen(job, token) => {
            host.world.change(job, |container| {
                if container.freezing == Some(token) {
                    (container.frozen, container.freezing) = (true, None);
                }
            });
            Ok(())
        }
        Happening::Die(job) => {
            if host.world.containers.get(&job).is_some_and(|container| !container.frozen) {
                host.world.end(job);
            }
            Ok(())
        }
        Happening::Report(generation, event) => host.deliver_report(generation, *event),
        Happening::Sample => sample(host),
        Happening::Chaos => disturb(host),
        Happening::SetAside if host.chaos => {
            let in_us = host.more.around(host.options.chaos_us);
            host.plan(in_us, Happening::SetAside);
            let kept = host.more.chance(800);
            set_aside(host, kept)
        }
        Happening::SetAside => Ok(()),
        Happening::KeepHouse => host.keep_house(),
        Happening::Meddle => {
            host.meddle();
            Ok(())
        }
        Happening::Insist(write) => {
            host.insist(write);
            Ok(())
        }
        Happening::Up => host.start_up(),
    }
}

/// Draws all jobs and when they arrive.
fn plan_jobs(host: &mut Host) {
    let mut at_us = 0;
    for number in 1..=host.options.jobs {
        let job = JobId(number);
        let (mut request, work) = draw_job(host, job);
        if let Some(set) = host.own_set(job) {
            (request.aside, request.class, request.wish) = (Some(set), None, None);
        }
        host.works.insert(job, (request, work));
        if host.options.arrival_us > 0 {
            at_us += host.dice.around(host.options.arrival_us);
        }
        if host.only.has_job(number) {
            host.plan(at_us, Happening::Arrive(job));
        }
    }
}

fn draw_job(host: &mut Host, job: JobId) -> (Request, Work) {
    let (dice, options) = (&mut host.dice, &host.options);
    let [class, held, no_suspend, expected, ttl, stubborn] =
        options.odd_permille.map(|permille| dice.chance(permille));
    let cores = dice.between(1, options.width_max);
    let (more, aside) = (&mut host.more, options.aside_permille);
    let aside = more.chance(aside).then(|| SET.to_owned());
    // PUs that are not in the set which it asks for are refused by the daemon.
    let nameable = if aside.is_none() { host.world.cores() } else { &[] };
    let wish = more.chance(options.wish_permille).then(|| Box::new(draw_wish(more, nameable, cores)));
    let work_us = dice.around(options.work_us);
    let request = Request {
        job,
        priority: dice.pick(&options.priorities),
        cores: u32::try_from(cores).unwrap_or(1),
        class: class.then(|| dice.pick(&options.classes)),
        expected: expected.then(|| Duration::from_micros(dice.around(work_us))),
        ttl: ttl.then(|| Duration::from_micros(dice.around(30_000_000))),
        held,
        no_suspend,
        requeue: false,
        requeues: 0,
        checkpoint: None,
        wish,
        place: None,
        aside,
        project: if options.divided {
            host.more.pick(&[None, Some("p"), Some("q")]).map(str::to_owned)
        } else {
            None
        },
        after: Vec::new(),
        gated: false,
        array: options.array_of(job.0),
        list: options.list_of(job.0),
        memory: None,
        tmp_bytes: 0,
        resources: Vec::new(),
        kind: None,
    };
    let duty_milli = dice.between(options.duty_min_milli, 1000);
    (request, Work { left: work_us * 1000, duty_milli, threads: cores, stubborn })
}

/// Certain cores, or such as lie in a certain way.
fn draw_wish(dice: &mut Dice, cores: &[CpuSet], count: u64) -> Wish {
    let mut wish = Wish::default();
    let at = usize::try_from(dice.below(cores.len().max(1) as u64)).unwrap_or(0);
    let kind = dice.below(4);
    let options: &[(&str, &str)] = match kind {
        0 => {
            wish.named = cores.get(at).and_then(CpuSet::first).map(CpuSet::single).unwrap_or_default();
            &[]
        }
        // A border around as many cores as it asks for, at least; some or all of them may be set aside.
        1 => {
            let inside = usize::try_from(count).unwrap_or(1).max(at + 1);
            wish.within = cores.iter().take(inside).flat_map(CpuSet::iter).collect();
            &[]
        }
        2 => &[("hint", "memory_bound")],
        _ => &[("distribution", "cyclic")],
    };
    let ntasks = count.to_string();
    for (name, value) in
        options.iter().chain([("ntasks", ntasks.as_str())].iter().filter(|_| !options.is_empty()))
    {
        // One that is not understood has no say.
        let _ = wish.layout.set(name, Some(value));
    }
    wish
}

/// Sets cores aside, others than before; or gives them back.
fn set_aside(host: &mut Host, kept: bool) -> Result<(), Violation> {
    host.cores.append(&mut host.set);
    host.cores = in_order(host.world.cores(), &host.cores);
    if kept && host.cores.len() > 1 {
        let count = host.more.between(1, host.cores.len() as u64 - 1);
        for _ in 0..count {
            let at = host.more.below(host.cores.len() as u64);
            let core = host.cores.remove(usize::try_from(at).unwrap_or(0));
            host.set.push(core);
        }
        host.set = in_order(host.world.cores(), &host.set);
    }
    host.deliver(Event::Machine(host.machine()))
}

/// These cores as they come on the machine.
fn in_order(all: &[CpuSet], some: &[CpuSet]) -> Vec<CpuSet> {
    all.iter().filter_map(|core| some.iter().find(|one| one.is_subset(core)).cloned()).collect()
}

fn sample(host: &mut Host) -> Result<(), Violation> {
    if !host.chaos || host.world.now_us() > SAMPLES_END_US {
        return Ok(());
    }
    host.plan(SAMPLE_US, Happening::Sample);
    let busy = host.world.take_busy_milli(SAMPLE_US);
    let idle = |core: &CpuSet| {
        let place = host.world.cores().iter().position(|whole| !whole.is_disjoint(core));
        let busy = place.and_then(|place| busy.get(place)).copied().unwrap_or(0);
        u16::try_from(1000u64.saturating_sub(busy)).unwrap_or(0)
    };
    let idle_milli = host.cores.iter().map(idle).collect();
    let backfill_milli = u32::try_from(host.world.take_idle_class_milli(SAMPLE_US)).unwrap_or(0);
    let stalled_milli = host.stalled_milli()?;
    host.deliver(Event::Sample(Sample { idle_milli, backfill_milli, stalled_milli }))
}

fn disturb(host: &mut Host) -> Result<(), Violation> {
    if !host.chaos {
        return Ok(());
    }
    let in_us = host.dice.around(host.options.chaos_us);
    host.plan(in_us, Happening::Chaos);
    host.upsets += 1;
    if !host.only.has_upset(host.upsets - 1) {
        return Ok(());
    }
    let alive: Vec<JobId> = host.ledger.jobs.keys().copied().collect();
    match host.dice.pick(&host.options.chaos) {
        Chaos::Hotplug => hotplug(host),
        Chaos::Settings => {
            let settings = swarm::settings(&mut host.dice);
            let projects = swarm::projects(&mut host.more, host.options.cores, host.options.divided);
            let protect_milli = swarm::protect_milli(&mut host.more, host.options.samples);
            // Now and then nobody is held back for a while.
            let hold_back = host.options.hold_back && !host.upsets.is_multiple_of(4);
            host.settings = Settings { projects, protect_milli, hold_back, ..settings };
            host.deliver(Event::Configure(host.settings.clone()))
        }
        Chaos::Clock => {
            let by_us = i64::try_from(host.dice.below(7_200_000_000)).unwrap_or(0) - 3_600_000_000;
            host.set_clock(by_us);
            Ok(())
        }
        Chaos::Keeper if !alive.is_empty() => {
            let job = host.dice.pick(&alive);
            host.lose_keeper(job)
        }
        Chaos::Command if !alive.is_empty() => {
            let job = host.dice.pick(&alive);
            let command = draw_command(&mut host.dice);
            host.deliver(Event::Command(job, command))
        }
        Chaos::Kill if host.is_up() => {
            host.crash();
            Ok(())
        }
        Chaos::Keeper | Chaos::Command | Chaos::Kill => Ok(()),
    }
}

fn draw_command(dice: &mut Dice) -> Command {
    let priority = u8::try_from(dice.between(1, 16)).unwrap_or(10);
    let set = Command::SetPriority(priority);
    let cancel = Command::Cancel { signal: 15 };
    dice.pick(&[
        Command::Suspend,
        Command::Suspend,
        Command::Resume,
        Command::Resume,
        Command::Hold,
        Command::Release,
        Command::Release,
        cancel,
        set,
        set,
    ])
}

/// Each core is usable, or usable in part, or not at all.
fn hotplug(host: &mut Host) -> Result<(), Violation> {
    let kept = host.dice.pick(&[1000, 700, 400, 0]);
    let mut cores = Vec::new();
    for core in host.world.cores().to_vec() {
        if !host.dice.chance(kept) {
            continue;
        }
        let one = core.first().filter(|_| host.dice.chance(200));
        cores.push(one.map_or(core, CpuSet::single));
    }
    host.come_on_line(cores);
    host.deliver(Event::Machine(host.machine()))
}

/// Faults stop, the machine is whole, the settings are such that every job can run.
fn calm_down(host: &mut Host) -> Result<(), Violation> {
    host.chaos = false;
    host.come_on_line(host.world.cores().to_vec());
    if host.options.sets {
        set_aside(host, true)?;
    } else {
        host.deliver(Event::Machine(host.machine()))?;
    }
    let preemption = host.dice.pick(&[Preemption::Hard, Preemption::Soft, Preemption::Off]);
    let projects = std::mem::take(&mut host.settings.projects);
    let factor_milli = host.dice.pick(&[1000, 1500, 4000]);
    host.settings = Settings { factor_milli, preemption, projects, ..Settings::default() };
    host.deliver(Event::Configure(host.settings.clone()))
}

/// Whoever is left waits for a user.
fn all_wait_for_users(host: &Host) -> Result<(), Violation> {
    // Who is suspended keeps the cores that are its alone.
    let keeps = |job: &Entry| job.is_isolated() && job.suspended;
    let kept = host.ledger.jobs.values().any(keeps);
    let behind = |job: &Entry| kept && job.is_isolated() && job.phase == Phase::Waiting;
    let waits = |job: &Entry| {
        job.held || job.suspended || cannot_run(host, job) || host.ledger.has_full_array(job) || behind(job)
    };
    match host.ledger.jobs.iter().find(|(_, entry)| !waits(entry)) {
        Some((job, entry)) => {
            Err(Violation::new("every job ends that no user stopped", format!("job {job}: {entry:?}")))
        }
        None => Ok(()),
    }
}

/// It was asked for while no core was usable, so nobody could say that it is too large; or what it may use is set aside.
fn cannot_run(host: &Host, job: &Entry) -> bool {
    let there = match &job.request.aside {
        // One core is left for others.
        Some(_) if job.is_isolated() => (host.alone.online.len() - host.set.len()).saturating_sub(1),
        Some(_) => host.set.len(),
        None => host.cores.len(),
    };
    let too_large = job.phase == Phase::Waiting && job.request.cores as usize > there;
    too_large || job.is_shut_out(&host.cores)
}

fn all_are_over(host: &Host) -> Result<(), Violation> {
    if let Some((job, entry)) = host.ledger.jobs.first_key_value() {
        return Err(Violation::new("every job ends", format!("job {job}: {entry:?}")));
    }
    let asked = host.ledger.over.len() as u64 + host.alone.refused;
    let all = (1..=host.options.jobs).filter(|&number| host.only.has_job(number)).count() as u64;
    if asked != all || !host.world.containers.is_empty() || !host.is_up() {
        let found = format!("{asked} of {all} jobs, {:?}", host.world.containers);
        return Err(Violation::new("every job was asked for and nothing is left", found));
    }
    let left = host.set.len() + host.cores.len();
    if left != host.world.cores().len() {
        let found = format!("{left} of {}, {:?}", host.world.cores().len(), host.alone);
        return Err(Violation::new("when all is over, all cores are for all again", found));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use pinfold_policy::Class;

    use super::*;

    #[test]
    fn the_options_differ_and_name_all_classes() {
        let drawn: Vec<Options> = (0..200).map(|seed| Options::draw(&mut Dice::new(seed))).collect();
        for class in [Class::Primary, Class::Backfill, Class::Exclusive] {
            assert!(drawn.iter().any(|options| options.classes.contains(&class)), "{class:?}");
        }
        let distinct = (1..drawn.len()).filter(|&i| drawn[i] != drawn[i - 1]).count();
        assert_eq!(distinct, drawn.len() - 1);
    }

    #[test]
    fn the_same_seed_is_the_same_history() {
        for seed in 0..50 {
            assert_eq!(run(seed, None, false).unwrap(), run(seed, None, true).unwrap(), "seed {seed}");
        }
    }
}
