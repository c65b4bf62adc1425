//! The options of an episode. Each is drawn from the seed, and often to an extreme: some faults off, others
//! wild, so that rare pairs of faults meet.

use std::collections::BTreeSet;
use std::time::Duration;

use pinfold_policy::{ArrayLimit, Class, MemorySettings, Place, Preemption, Project, Settings};

use crate::dice::Dice;
use crate::only::{Fault, Only};

/// The options of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Cores of the host.
    pub cores: u32,
    /// PUs of each core.
    pub pus_per_core: u32,
    /// Jobs in all.
    pub jobs: u64,
    /// The settings at the start.
    pub settings: Settings,
    /// Mean time between two arrivals, in microseconds; 0: all at once.
    pub arrival_us: u64,
    /// Mean CPU time of a job, in microseconds.
    pub work_us: u64,
    /// The least part of the time a job wants a core, in thousandths.
    pub duty_min_milli: u64,
    /// The most cores a job asks for.
    pub width_max: u64,
    /// The priorities that are asked for.
    pub priorities: Vec<u8>,
    /// Classes that are asked for, beside none.
    pub classes: Vec<Class>,
    /// In thousandths each: jobs that ask for a class, are held, may not be suspended, state their length, state how long
    /// they wait, survive a signal.
    pub odd_permille: [u32; 6],
    /// Actions that fail, in thousandths: start, bind, weigh, freeze, thaw, signal.
    pub fail_permille: [u32; 6],
    /// Actions at which the daemon crashes, in thousandths.
    pub crash_permille: u32,
    /// The longest freeze, in microseconds.
    pub freeze_us: u64,
    /// The longest start, in microseconds.
    pub start_us: u64,
    /// Mean time between two disturbances, in microseconds.
    pub chaos_us: u64,
    /// The kinds of disturbances.
    pub chaos: Vec<Chaos>,
    /// The end of chaos, in microseconds.
    pub chaos_end_us: u64,
    /// Whether readings are taken.
    pub samples: bool,
    /// Whether there are projects.
    pub divided: bool,
    /// The machine, as hwloc's description; `None`: all cores alike.
    pub machine: Option<String>,
    /// Jobs that wish certain cores, in thousandths.
    pub wish_permille: u32,
    /// Whether cores are set aside at times,
    pub sets: bool,
    /// and for which part of the jobs, in thousandths.
    pub aside_permille: u32,
    /// Arrays with a limit on started members: the first and the last job of each, and the limit.
    pub arrays: Vec<(u64, u64, u32)>,
    /// The length of lists of consecutive jobs; 0: no lists.
    pub list_jobs: u64,
    /// Whether backfillers are held back where a primary waits,
    pub hold_back: bool,
    /// how much a primary waits with a backfiller beside it, in thousandths of the time,
    pub stall_milli: u16,
    /// and how much it may wait anyway.
    pub noise_milli: u16,
    /// The jobs that are to have cores to themselves.
    pub isolated: BTreeSet<u64>,
    /// Mean time between two programs that write to jobs' groups, in microseconds; 0: there is none.
    pub meddle_us: u64,
    /// The part of them that insists, in thousandths.
    pub insist_permille: u32,
    /// The seed of their random numbers.
    pub meddle_seed: u64,
}

/// A disturbance from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chaos {
    /// Cores come and go.
    Hotplug,
    /// An operator changes the settings.
    Settings,
    /// The clock is set.
    Clock,
    /// The keeper of a job dies, or the job itself is killed.
    Keeper,
    /// A user's command to a job.
    Command,
    /// The daemon is killed between two actions.
    Kill,
}

impl Options {
    /// The options of a seed; `dice` go on to the episode.
    #[must_use]
    pub fn draw(dice: &mut Dice) -> Self {
        let cores = dice.pick(&[1, 1, 2, 2, 2, 3, 4, 4, 6, 8]);
        let odd = |dice: &mut Dice, wild: u32| dice.pick(&[0, 0, 50, wild]);
        let fail = |dice: &mut Dice| dice.pick(&[0, 0, 0, 20, 100, 300]);
        let all = [Chaos::Hotplug, Chaos::Settings, Chaos::Clock, Chaos::Keeper, Chaos::Command, Chaos::Kill];
        let narrow = dice.chance(400);
        let calm = dice.chance(200);
        let chaos_us = dice.pick(&[50_000, 1_000_000, 10_000_000]);
        let width_max = if narrow { 1 } else { u64::from(cores) + u64::from(dice.chance(100)) };
        Self {
            cores,
            pus_per_core: dice.pick(&[1, 1, 2]),
            jobs: dice.between(3, 60),
            settings: settings(dice),
            arrival_us: dice.pick(&[0, 10_000, 500_000, 5_000_000]),
            work_us: dice.pick(&[20_000, 500_000, 5_000_000, 60_000_000]),
            duty_min_milli: dice.pick(&[1000, 700, 100]),
            width_max,
            priorities: dice.pick(&[&[10][..], &[8, 10, 12], &[1, 2, 3, 5, 8, 10, 11, 12, 15, 16]]).to_vec(),
            classes: dice
                .pick(&[
                    &[Class::Backfill][..],
                    &[Class::Primary, Class::Backfill],
                    &[Class::Exclusive],
                    &[Class::Primary, Class::Backfill, Class::Exclusive],
                ])
                .to_vec(),
            odd_permille: [400, 200, 500, 500, 200, 500].map(|wild| odd(dice, wild)),
            fail_permille: [(); 6].map(|()| if calm { 0 } else { fail(dice) }),
            crash_permille: if calm { 0 } else { dice.pick(&[0, 0, 1, 5, 30]) },
            freeze_us: dice.pick(&[0, 10_000, 500_000]),
            start_us: dice.pick(&[0, 2_000, 50_000, 5_000_000]),
            chaos_us,
            chaos: if calm { vec![] } else { all.into_iter().filter(|_| dice.chance(500)).collect() },
            chaos_end_us: chaos_us * dice.pick(&[20, 100, 300]),
            samples: dice.chance(300),
            divided: false,
            machine: None,
            wish_permille: 0,
            sets: false,
            aside_permille: 0,
            arrays: Vec::new(),
            list_jobs: 0,
            hold_back: false,
            stall_milli: 0,
            noise_milli: 0,
            isolated: BTreeSet::new(),
            meddle_us: 0,
            insist_permille: 0,
            meddle_seed: 0,
        }
    }

    /// Draws later features, from dice of their own, so that earlier draws do not depend on them.
    pub fn draw_more(&mut self, dice: &mut Dice) {
        self.divided = dice.chance(500);
        self.settings.projects = projects(dice, self.cores, self.divided);
        self.settings.protect_milli = protect_milli(dice, self.samples);
        self.machine = machine(dice, self.cores, self.pus_per_core);
        self.wish_permille = dice.pick(&[0, 0, 100, 500]);
        self.sets = self.cores > 1 && dice.chance(300);
        self.aside_permille = if self.sets { dice.pick(&[100, 300, 600]) } else { 0 };
    }
}

impl Options {
    /// Draws the latest features, from dice of their own again.
    pub fn draw_last(&mut self, dice: &mut Dice) {
        let part = dice.pick(&[0, 0, 400, 1000]);
        let mut first = 1;
        while first <= self.jobs {
            let last = (first + dice.between(0, 11)).min(self.jobs);
            if dice.chance(part) {
                let at_most = dice.pick(&[1, 1, 2, 3, 8]);
                self.arrays.push((first, last, at_most));
            }
            first = last + 1;
        }
        self.hold_back = dice.chance(250);
        if self.hold_back {
            // With readings, backfill jobs give way only after fifteen seconds beside a primary.
            (self.samples, self.settings.hold_back) = (true, true);
            if dice.chance(700) {
                (self.settings.factor_milli, self.settings.protect_milli) = (2000, 0);
                (self.settings.affinity, self.settings.backfill, self.settings.schedule) = (true, true, true);
                (self.chaos_us, self.arrival_us) = (10_000_000, 10_000);
                self.settings.queue_depth = 100_000;
                self.work_us = 60_000_000;
                self.chaos_end_us = self.chaos_end_us.max(80_000_000);
            }
        }
        self.stall_milli = dice.pick(&[0, 30, 600, 600]);
        self.noise_milli = dice.pick(&[0, 5, 100]);
    }

    /// Draws the lists, from dice of its own once more.
    pub fn draw_lists(&mut self, dice: &mut Dice) {
        self.list_jobs = dice.pick(&[0, 0, 2, 5, 20, 1000]);
    }

    /// Draws the isolated jobs, from dice of its own.
    pub fn draw_isolated(&mut self, dice: &mut Dice) {
        let part = dice.pick(&[0, 0, 0, 100, 300]);
        if self.cores > 1 {
            self.isolated = (1..=self.jobs).filter(|_| dice.chance(part)).collect();
        }
    }

    /// Whether other programs write to the groups of jobs, from dice of its own.
    pub fn draw_meddling(&mut self, dice: &mut Dice) {
        if !dice.chance(300) {
            return;
        }
        self.meddle_us = dice.pick(&[500_000, 5_000_000, 30_000_000]);
        self.insist_permille = dice.pick(&[0, 300, 700]);
        self.meddle_seed = dice.below(u64::MAX);
        if dice.chance(300) {
            // Insisting writers are left alone for longer only after minutes.
            (self.chaos_us, self.meddle_us) = (10_000_000, 30_000_000);
            self.insist_permille = 700;
            self.work_us = self.work_us.max(300_000_000);
            self.chaos_end_us = self.chaos_end_us.max(2_000_000_000);
        }
    }

    /// The list that a job is handed over with.
    pub(crate) fn list_of(&self, job: u64) -> Option<u64> {
        job.checked_div(self.list_jobs)
    }

    /// The array that a job is a member of.
    pub(crate) fn array_of(&self, job: u64) -> Option<ArrayLimit> {
        let (array, _, at_most) =
            self.arrays.iter().copied().find(|&(first, last, _)| (first..=last).contains(&job))?;
        Some(ArrayLimit { array, at_most })
    }
}

/// A machine of this many cores: with sockets and caches, or `None`.
fn machine(dice: &mut Dice, cores: u32, pus: u32) -> Option<String> {
    let mut all = vec![None];
    for (parts, machine) in [
        (2, "pack:2 numa:1 core:"),
        (2, "pack:1 numa:1 l3:2 core:"),
        (3, "pack:3 numa:1 core:"),
        (4, "pack:2 numa:1 l3:2 core:"),
    ] {
        if cores.is_multiple_of(parts) && cores >= parts {
            all.push(Some(format!("{machine}{} pu:{pus}", cores / parts)));
        }
    }
    let at = dice.below(all.len() as u64);
    all.swap_remove(usize::try_from(at).unwrap_or(0))
}

/// Without readings the idle part of the cores is unknown, so that no backfill job would run.
pub(crate) fn protect_milli(dice: &mut Dice, samples: bool) -> u32 {
    if samples { dice.pick(&[0, 0, 50, 200, 500]) } else { 0 }
}

/// Two projects, each with a few cores, or nothing of its own.
pub(crate) fn projects(dice: &mut Dice, cores: u32, divided: bool) -> Vec<Project> {
    let names: &[&str] = if divided { &["q", "p"] } else { &[] };
    let project = |name: &&str| {
        let cores = dice.chance(800).then(|| u32::try_from(dice.between(0, u64::from(cores))).unwrap_or(1));
        Project { name: (*name).to_owned(), cores, memory_bytes: None }
    };
    names.iter().map(project).collect()
}

impl Options {
    /// Removes the kinds of faults that are left out.
    pub(crate) fn keep(&mut self, only: &Only) {
        let without = |fault| !only.has_fault(fault);
        if without(Fault::Failures) {
            self.fail_permille = [0; 6];
        }
        if without(Fault::Crashes) {
            self.crash_permille = 0;
        }
        if without(Fault::SlowFreezes) {
            self.freeze_us = 0;
        }
        if without(Fault::SlowStarts) {
            self.start_us = 0;
        }
        if without(Fault::Samples) {
            self.samples = false;
        }
        if without(Fault::Isolation) {
            self.isolated.clear();
        }
        if without(Fault::Meddling) {
            self.meddle_us = 0;
        }
    }
}

/// Settings as an operator might set them.
pub(crate) fn settings(dice: &mut Dice) -> Settings {
    Settings {
        place: Place::Auto,
        factor_milli: dice.pick(&[1500, 1500, 1000, 2000, 4000, 500, 250, 0, 1100]),
        queue_depth: dice.pick(&[100_000, 100_000, 100_000, 5, 0]),
        queue_ttl: dice.pick(&[None, None, None, Some(Duration::from_secs(30))]),
        affinity: dice.chance(900),
        backfill: dice.chance(850),
        protect_milli: 0,
        hold_back: false,
        preemption: dice.pick(&[Preemption::Hard, Preemption::Soft, Preemption::Off]),
        schedule: dice.chance(950),
        drain: false,
        tmp_total_bytes: u64::MAX,
        tmp_left_bytes: 0,
        resources: Vec::new(),
        memory: MemorySettings::default(),
        projects: Vec::new(),
    }
}
