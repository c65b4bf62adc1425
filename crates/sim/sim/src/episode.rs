//! A seed's history: first chaos with all checks, then quiet, in which every job must end.

mod disturb;
mod draw;

use std::collections::BTreeMap;

use pinfold_policy::{Command, Event, JobId};

use crate::dice::Dice;
use crate::host::{Happening, Host};
use crate::ledger::{Entry, Phase};
use crate::mutant::Mutant;
use crate::only::{Fault, Only};
use crate::shrink::shrink as cut_down;
use crate::swarm::Options;
use crate::violation::Violation;

use disturb::{calm_down, disturb, sample, set_aside};
use draw::plan_jobs;

/// More steps than any history of this size takes; more mean an endless loop.
const STEPS_MAX: u64 = 60_000;
/// The time between two samples.
const SAMPLE_US: u64 = 500_000;
/// Derives other dice from a seed, for later features, so that old histories stay.
const MORE: u64 = 0x6d6f_7265;
/// ... and others again.
const LAST: u64 = 0x6c61_7374;
/// ... for lists,
const LISTS: u64 = 0x6c69_7374;
/// ... for isolated jobs,
const ISOLATED: u64 = 0x616c_6f6e;
/// ... for other programs' writes.
const MEDDLING: u64 = 0x6d65_6464;

/// The result of an episode.
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
    /// The number of decisions for each reason.
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
    cut_down(failure.options.jobs, failure.upsets, &failure.violation, |only| {
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

/// Reports ended jobs to the daemon, if it runs.
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

/// Every remaining job waits for a user.
fn all_wait_for_users(host: &Host) -> Result<(), Violation> {
    // A suspended isolated job keeps its cores.
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

/// Whether the job can never run: it was submitted while no core was usable, so that its size could not be checked; or its
/// permitted cores are set aside.
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
