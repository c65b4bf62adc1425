//! Another program that writes to jobs' groups, singly or repeatedly, and the daemon that checks for it.
//!
//! Owns the daemon's confirmed requests to the groups. Absent: schedule and reactions, which the policy's own code decides;
//! writes that the kernel refuses.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::drift::{Drifts, Verdict};
use pinfold_policy::{Action, Class, JobId};
use pinfold_topo::CpuSet;

use super::{Happening, Host};
use crate::checks::Watch;
use crate::dice::Dice;
use crate::mutant::Mutant;
use crate::setting::{Setting, Value};
use crate::violation::Violation;

/// The most programs that insist at once.
const INSISTING_MAX: u32 = 3;

/// Another program's write to a job's group, and its repetition.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    job: JobId,
    /// The first is written next.
    values: [Value; 2],
    /// The two values are written in turns.
    turns: bool,
    /// The time between two writes; 0: the program does not insist.
    every_us: u64,
    /// The number of writes that follow.
    times: u32,
}

/// Other programs, and the daemon's knowledge of them.
#[derive(Debug)]
pub(crate) struct Meddling {
    dice: Dice,
    drifts: Drifts<Setting>,
    /// The values that the daemon asked for and the kernel took.
    meant: BTreeMap<(JobId, Setting), Value>,
    /// The number of programs that insist now.
    insisting: u32,
    pub(crate) watch: Watch,
}

impl Meddling {
    pub(crate) fn new(seed: u64) -> Self {
        Self {
            dice: Dice::new(seed),
            drifts: Drifts::default(),
            meant: BTreeMap::new(),
            insisting: 0,
            watch: Watch::default(),
        }
    }

    /// The daemon is gone with its knowledge. The next daemon adopts the groups as they are, and has them corrected.
    pub(crate) fn restart(&mut self) {
        self.drifts = Drifts::default();
        self.meant.clear();
        self.watch = Watch::default();
    }
}

impl Host {
    fn is_meddled_with(&self) -> bool {
        self.options.meddle_us > 0
    }

    /// Records the success or failure of a requested setting.
    pub(crate) fn is_meant(&mut self, job: JobId, action: &Action, done: bool) {
        let value = match action {
            Action::Bind { cpus } => Value::Cpus(cpus.clone()),
            Action::Weigh { class, priority, even } => Value::Weight(*class, *priority, *even),
            Action::Freeze => Value::Frozen(true),
            Action::Thaw => Value::Frozen(false),
            _ => return,
        };
        if !self.is_meddled_with() {
            return;
        }
        let key = (job, value.setting());
        self.meddling.watch.asked(key);
        if !done {
            self.meddling.meant.remove(&key);
        } else if self.mutant != Some(Mutant::RememberFirst) || !self.meddling.meant.contains_key(&key) {
            self.meddling.meant.insert(key, value);
        }
    }

    /// Adopts a job's group as it is.
    pub(crate) fn remember(&mut self, job: JobId) {
        if !self.is_meddled_with() {
            return;
        }
        for value in self.world.containers.get(&job).map(Value::all_of).into_iter().flatten() {
            let key = (job, value.setting());
            self.meddling.watch.asked(key);
            self.meddling.meant.insert(key, value);
        }
    }

    /// The daemon's next check, in true time.
    pub(crate) fn look_us(&self) -> Option<u64> {
        self.is_up().then(|| self.meddling.drifts.due()).flatten().map(|at| self.true_us(at))
    }

    /// The daemon checks while jobs run. Here the checks stop when no program writes any more and no difference is left.
    pub(crate) fn schedule_look(&mut self) {
        if !self.is_meddled_with() || !self.is_up() {
            return;
        }
        let there = &self.world.containers;
        self.meddling.watch.keep(|job| there.contains_key(&job));
        let looks = self.chaos || !self.meddling.watch.is_calm();
        self.clock = self.clock.max(pinfold_policy::Instant(self.raw_clock()));
        let running = if looks { self.world.containers.len() } else { 0 };
        self.meddling.drifts.schedule(running, self.clock);
    }

    /// Checks a job.
    pub(crate) fn look(&mut self) -> Result<(), Violation> {
        self.clock = self.clock.max(pinfold_policy::Instant(self.raw_clock()));
        let (now, now_us, clock_is_true) = (self.clock, self.world.now_us(), self.has_true_clock());
        let running: BTreeSet<JobId> = self.world.containers.keys().copied().collect();
        self.meddling.meant.retain(|(job, _), _| running.contains(job));
        let Some(job) = self.meddling.drifts.next(&running) else { return Ok(()) };
        let values = self.world.containers.get(&job).map(Value::all_of).into_iter().flatten();
        let differs: Vec<(Setting, String)> = values
            .filter(|value| {
                self.meddling.meant.get(&(job, value.setting())).is_some_and(|meant| meant != value)
            })
            .map(|value| (value.setting(), format!("{value:?}")))
            .collect();
        let verdicts = self.meddling.drifts.judge(job, &differs, now);
        for ((setting, found), verdict) in differs.into_iter().zip(verdicts) {
            let key = (job, setting);
            let verdict = self.mutant.map_or(verdict, |mutant| mutant.judge(verdict));
            self.tell(|| format!("{} job {job} has {found}: {verdict:?}", now.0));
            match verdict {
                Verdict::Wait => {}
                Verdict::Heal => {
                    self.meddling.watch.healed(key, now_us, clock_is_true)?;
                    if self.mutant == Some(Mutant::TellTwice) {
                        self.meddling.watch.healed(key, now_us, clock_is_true)?;
                    }
                    let meant = self.meddling.meant[&key].clone();
                    self.world.change(job, |container| meant.write_to(container));
                }
                Verdict::Leave(time) => self.meddling.watch.left(key, time, now_us, clock_is_true)?,
            }
        }
        // Set back, the daemon's clock keeps its value until it is later than before.
        if clock_is_true { self.meddling.watch.check(now_us, self.options.jobs) } else { Ok(()) }
    }

    /// Another program writes to some job's group, once or insisting.
    pub(crate) fn meddle(&mut self) {
        if !self.chaos {
            return;
        }
        let in_us = self.meddling.dice.around(self.options.meddle_us);
        self.plan(in_us, Happening::Meddle);
        let jobs: Vec<JobId> = self.world.containers.keys().copied().collect();
        if jobs.is_empty() {
            return;
        }
        let dice = &mut self.meddling.dice;
        let job = dice.pick(&jobs);
        let setting = dice.pick(&[Setting::Cpus, Setting::Weight, Setting::Frozen]);
        let values =
            [draw_value(dice, self.world.cores(), setting), draw_value(dice, self.world.cores(), setting)];
        let insists = dice.chance(self.options.insist_permille) && self.meddling.insisting < INSISTING_MAX;
        let (every_us, times) =
            dice.pick(&[(300_000, 100), (2_000_000, 30), (2_000_000, 1000), (30_000_000, 60)]);
        let (every_us, times) = if insists { (every_us, times) } else { (0, 0) };
        let write = Write { job, values, turns: dice.chance(200), every_us, times };
        self.meddling.insisting += u32::from(insists);
        self.insist(write);
    }

    /// Writes, and schedules the next write.
    pub(crate) fn insist(&mut self, mut write: Write) {
        let container = self.world.containers.get(&write.job).filter(|_| self.chaos);
        let Some(container) = container else {
            self.stops(&write);
            return;
        };
        let value = write.values[0].clone();
        if !Value::all_of(container).contains(&value) {
            self.tell(|| format!("another program writes {value:?} to job {}", write.job));
            self.world.change(write.job, |container| value.write_to(container));
            let key = (write.job, value.setting());
            let meant = self.meddling.meant.get(&key);
            let differs = meant.is_some_and(|meant| *meant != value);
            self.meddling.watch.meddled(key, differs, self.world.now_us());
        }
        if write.times > 0 {
            write.times -= 1;
            if write.turns {
                write.values.swap(0, 1);
            }
            self.plan(write.every_us, Happening::Insist(write));
        } else {
            self.stops(&write);
        }
    }

    fn stops(&mut self, write: &Write) {
        self.meddling.insisting -= u32::from(write.every_us > 0);
    }
}

fn draw_value(dice: &mut Dice, cores: &[CpuSet], setting: Setting) -> Value {
    match setting {
        Setting::Cpus => {
            let at = usize::try_from(dice.below(cores.len() as u64)).unwrap_or(0);
            Value::Cpus(cores[at].clone())
        }
        Setting::Weight => {
            let priority = dice.pick(&[1, 10, 16]);
            Value::Weight(dice.pick(&[Class::Primary, Class::Backfill]), priority, false)
        }
        Setting::Frozen => Value::Frozen(dice.chance(500)),
    }
}
