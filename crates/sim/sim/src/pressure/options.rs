//! The options of an episode under pressure, each drawn from the seed, and often to an extreme.

use pinfold_policy::{MemorySettings, Project, Settings};

use crate::dice::Dice;
use crate::only::{Fault, Only};
use crate::pressure::footprint::Plan;
use crate::pressure::world::Hardware;

const MIB: u64 = 1 << 10;

/// The knowledge about jobs, and the swap for unknown needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Regime {
    /// Swap takes all but the largest; of jobs nothing need be known.
    Ample,
    /// Little or no swap; every job states its need.
    Told,
    /// Earlier jobs of each class showed its need; swap is limited, growth moderate.
    Learned,
    /// Little swap and no knowledge: the kernel may kill. All other promises hold.
    Scarce,
}

/// A job as it will be asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its plan.
    pub plan: Plan,
    /// The time of submission, in microseconds.
    pub arrives_us: u64,
    /// Its class, if any.
    pub kind: Option<u64>,
    /// Its requested memory, in KiB.
    pub asked: Option<u64>,
    /// 1 to 16.
    pub priority: u8,
    /// Whether it may be frozen.
    pub no_suspend: bool,
    /// Whether it may be ended and begun anew.
    pub requeue: bool,
    /// Whether it can checkpoint.
    pub checkpoint: bool,
    /// Its project.
    pub project: Option<&'static str>,
}

/// The options of an episode.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The host.
    pub hardware: Hardware,
    /// The reserve, in KiB.
    pub reserve: u64,
    /// RAM beyond the bound on jobs, in KiB; 0: jobs have the host.
    pub outside: u64,
    /// The settings.
    pub settings: Settings,
    /// The regime of knowledge.
    pub regime: Regime,
    /// The jobs.
    pub tasks: Vec<Task>,
    /// The peaks that were seen of each kind before, in KiB.
    pub history: Vec<(u64, u64)>,
    /// The longest start, in microseconds,
    pub start_us: u64,
    /// and a freeze,
    pub freeze_us: u64,
    /// and the greatest age of reported readings.
    pub lag_us: u64,
    /// Lost readings, in thousandths: of all jobs, or of a single job.
    pub missing_permille: u32,
    /// The largest error of jobs' readings, in thousandths.
    pub lie_permille: u64,
    /// Part of the page cache that the kernel does not count as available, in thousandths.
    pub cache_permille: u64,
    /// Freezes and thaws that fail at first, in thousandths.
    pub fail_permille: u32,
    /// Whether the kernel reports stalls of jobs.
    pub stall_readings: bool,
    /// Mean time between two deaths of the daemon, in microseconds; 0: never.
    pub crash_us: u64,
    /// Mean time between two suspensions by a user, in microseconds; 0: never.
    pub suspend_us: u64,
    /// Mean time between two changes of the bound on all jobs by an operator, in microseconds; 0: never.
    pub budget_us: u64,
}

impl Options {
    /// Lets some jobs be requeued, in most episodes none. Drawn from dice of its own, so that other draws do not depend on
    /// it.
    pub fn let_some_begin_anew(&mut self, dice: &mut Dice) {
        let permille = dice.pick(&[0, 0, 300, 1000]);
        for task in &mut self.tasks {
            task.requeue = dice.chance(permille);
        }
    }

    /// Lets some jobs checkpoint, in most episodes none. From dice of its own for the same reason.
    pub fn let_some_checkpoint(&mut self, dice: &mut Dice) {
        let permille = dice.pick(&[0, 0, 0, 500, 1000]);
        for task in &mut self.tasks {
            task.checkpoint = dice.chance(permille);
        }
    }

    /// Lets the kernel steer reclaim on half of the hosts. From dice of its own for the same reason.
    pub fn let_some_steer(&mut self, dice: &mut Dice) {
        self.settings.memory.steers = dice.chance(500);
    }

    /// In some episodes an operator changes the bound on all jobs.
    pub fn let_budget_change(&mut self, dice: &mut Dice) {
        self.budget_us = dice.pick(&[0, 0, 0, 2_000_000, 20_000_000]);
    }

    /// In half of the episodes jobs belong to projects, which have memory of their own or not. From dice of its own.
    pub fn let_some_share(&mut self, dice: &mut Dice) {
        if !dice.chance(500) {
            return;
        }
        let usable = self.usable() << 10;
        let project = |name: &str, permille: u64| Project {
            name: name.to_owned(),
            cores: None,
            memory_bytes: (permille > 0).then_some(usable / 1000 * permille),
        };
        // Together more than there is, now and then.
        self.settings.projects =
            vec![project("p", dice.pick(&[200, 400, 600, 800])), project("q", dice.pick(&[0, 0, 200, 400]))];
        for task in &mut self.tasks {
            task.project = dice.pick(&[None, Some("p"), Some("p"), Some("q")]);
        }
    }

    /// Removes the kinds of faults that are left out.
    pub(crate) fn keep(&mut self, only: &Only) {
        let without = |fault| !only.has_fault(fault);
        if without(Fault::Failures) {
            self.fail_permille = 0;
        }
        if without(Fault::SlowFreezes) {
            self.freeze_us = 0;
        }
        if without(Fault::SlowStarts) {
            self.start_us = 0;
        }
        if without(Fault::OldReadings) {
            self.lag_us = 0;
        }
        if without(Fault::LostReadings) {
            self.missing_permille = 0;
        }
        if without(Fault::WrongReadings) {
            (self.lie_permille, self.cache_permille) = (0, 0);
        }
        if without(Fault::Others) {
            self.hardware.swing = 0;
        }
        if without(Fault::Steering) {
            self.settings.memory.steers = false;
        }
        if without(Fault::Projects) {
            self.settings.projects.clear();
        }
        for task in self.tasks.iter_mut().filter(|_| without(Fault::Requeues)) {
            task.requeue = false;
            task.checkpoint = false;
        }
    }

    /// The options of a seed.
    #[must_use]
    pub fn draw(dice: &mut Dice) -> Self {
        let regime = dice.pick(&[
            Regime::Ample,
            Regime::Ample,
            Regime::Ample,
            Regime::Told,
            Regime::Learned,
            Regime::Scarce,
        ]);
        let calm = matches!(regime, Regime::Told | Regime::Learned);
        let mut hardware = hardware(dice, calm);
        let reserve = dice.pick(&[64 * MIB, 256 * MIB, hardware.ram / 50]).min(hardware.ram / 4);
        let usable = hardware.ram - hardware.others - hardware.swing - reserve;
        let (mut tasks, history) = tasks(dice, regime, usable, hardware.cores);
        if matches!(regime, Regime::Ample | Regime::Scarce) {
            fit_who_is_never_frozen(&mut tasks, usable);
        }
        hardware.swap = swap(dice, regime, &tasks, &history, usable);
        let outside = if dice.chance(200) && hardware.others == 0 { hardware.ram } else { 0 };
        let settings = settings(dice, &hardware, reserve, outside, regime);
        let fault = |dice: &mut Dice, wild: u64| if calm { 0 } else { dice.pick(&[0, 0, 0, wild]) };
        Self {
            reserve,
            outside,
            settings,
            regime,
            tasks,
            history,
            start_us: dice.pick(&[0, 20_000, 200_000]),
            freeze_us: if regime == Regime::Learned {
                20_000
            } else {
                dice.pick(&[0, 5_000, 50_000, 500_000])
            },
            lag_us: dice.pick(&[0, 0, 20_000, 50_000]),
            missing_permille: u32::try_from(fault(dice, 100)).unwrap_or(0),
            lie_permille: fault(dice, 50),
            cache_permille: dice.pick(&[0, 0, 30]),
            fail_permille: u32::try_from(fault(dice, 100)).unwrap_or(0),
            stall_readings: dice.chance(800),
            crash_us: if regime == Regime::Learned {
                0
            } else {
                dice.pick(&[0, 0, 0, 10_000_000, 40_000_000])
            },
            suspend_us: fault(dice, 15_000_000),
            budget_us: 0,
            hardware,
        }
    }

    /// The largest memory of a job, in KiB, that fits at all times.
    #[must_use]
    pub fn usable(&self) -> u64 {
        let hardware = &self.hardware;
        hardware.ram - hardware.others - hardware.swing - if self.outside > 0 { 0 } else { self.reserve }
    }
}

fn hardware(dice: &mut Dice, calm: bool) -> Hardware {
    let ram = dice.pick(&[512, 1024, 2048, 2048, 4096, 8192]) * MIB;
    // From a disk to the fastest there is.
    let (out_rate, in_rate, latency_us) = dice.pick(&[
        (60 * MIB, 100 * MIB, 4_000),
        (200 * MIB, 300 * MIB, 100),
        (500 * MIB, 500 * MIB, 80),
        (500 * MIB, 1000 * MIB, 80),
        (1500 * MIB, 2500 * MIB, 20),
    ]);
    Hardware {
        cores: dice.pick(&[1, 2, 2, 2, 4, 4, 8]),
        ram,
        swap: 0,
        out_rate,
        in_rate,
        latency_us,
        strict_lru: dice.chance(500),
        others: ram / 1000 * dice.pick(&[0, 0, 50, 200]),
        swing: if calm { 0 } else { ram / 1000 * dice.pick(&[0, 0, 100]) },
        swing_us: dice.pick(&[2_000_000, 20_000_000]),
    }
}

fn tasks(dice: &mut Dice, regime: Regime, usable: u64, cores: u64) -> (Vec<Task>, Vec<(u64, u64)>) {
    let count = dice.between(2, dice.clone().pick(&[6, 12, 24]));
    let work_us = dice.pick(&[500_000, 3_000_000, 10_000_000]);
    let share_max = dice.pick(&[150, 400, 700, 950]);
    let kinds = match regime {
        Regime::Learned => dice.between(1, 3),
        _ => dice.pick(&[0, 0, 1, 1, 3]),
    };
    let shapes: &[u8] = match regime {
        // Sudden growth need not be detected in time.
        Regime::Learned => &[1],
        _ => dice.pick(&[&[0, 1, 2, 3, 4, 5][..], &[1], &[4], &[4, 2], &[2, 5], &[3]]),
    };
    let mut models = Vec::new();
    let mut history = Vec::new();
    for kind in 0..kinds {
        let peak = usable * dice.between(20, share_max) / 1000;
        let work = dice.around(work_us).max(peak_us(regime, peak, usable));
        let model = Plan::draw(dice, work, peak, shapes);
        let known = if regime == Regime::Learned { dice.between(3, 40) } else { dice.pick(&[0, 1, 10]) };
        for index in 0..known {
            // One of them has the largest possible peak.
            let seen = if index == 0 { peak } else { peak * dice.between(500, 1000) / 1000 };
            history.push((kind, seen));
        }
        models.push(model);
    }
    let burst = dice.pick(&[0, 0, 500_000, 5_000_000]);
    let told_permille = dice.pick(&[0, 0, 300, 1000]);
    let odd_permille = dice.pick(&[0, 0, 0, 200]);
    let priorities: &[u8] = dice.pick(&[&[10][..], &[10], &[5, 10, 15]]);
    let mut at_us = 0;
    let tasks = (0..count)
        .map(|_| {
            let kind =
                (kinds > 0 && (regime == Regime::Learned || dice.chance(700))).then(|| dice.below(kinds));
            let mut plan = match kind.and_then(|kind| models.get(usize::try_from(kind).unwrap_or(0))) {
                Some(model) => {
                    // Copies that grow in step, or jobs that are only alike.
                    let peak = if dice.chance(500) {
                        model.peak
                    } else {
                        model.peak * dice.between(500, 1000) / 1000
                    };
                    model.again(dice, peak)
                }
                None => {
                    let peak = usable * dice.between(5, share_max) / 1000;
                    let work = dice.around(work_us);
                    Plan::draw(dice, work, peak, shapes)
                }
            };
            if cores > 1 && kind.is_none() && dice.chance(100) {
                plan.width = 2;
            }
            if burst > 0 {
                at_us += dice.around(burst);
            }
            let told = regime == Regime::Told || (regime != Regime::Learned && dice.chance(told_permille));
            Task {
                asked: told.then(|| plan.peak * dice.between(1000, 1300) / 1000),
                kind: if regime == Regime::Told { None } else { kind },
                arrives_us: at_us,
                priority: dice.pick(priorities),
                no_suspend: dice.chance(odd_permille),
                requeue: false,
                checkpoint: false,
                project: None,
                plan,
            }
        })
        .collect();
    (tasks, history)
}

/// If needs are unknown, all exempt jobs fit into RAM together: otherwise nothing could help them.
fn fit_who_is_never_frozen(tasks: &mut [Task], usable: u64) {
    let mut room = usable;
    for task in tasks.iter_mut().filter(|task| task.no_suspend) {
        task.no_suspend = task.plan.peak <= room;
        room -= if task.no_suspend { task.plan.peak } else { 0 };
    }
}

/// The least run time in which a job's growth is seen.
fn peak_us(regime: Regime, peak: u64, usable: u64) -> u64 {
    if regime == Regime::Learned { peak * 1000 / (usable / 50).max(1) * 1000 } else { 0 }
}

fn swap(dice: &mut Dice, regime: Regime, tasks: &[Task], history: &[(u64, u64)], usable: u64) -> u64 {
    let all: u64 = tasks.iter().map(|task| task.plan.peak).sum();
    let largest = tasks.iter().map(|task| task.plan.peak).max().unwrap_or(0);
    match regime {
        // Freed RAM does not always match the need: a twentieth more.
        Regime::Ample => all - largest + all / 20 + 64 * MIB,
        Regime::Told => dice.pick(&[0, 0, usable / 10]),
        Regime::Learned => {
            let most = history.iter().map(|(_, peak)| *peak).max().unwrap_or(0);
            dice.pick(&[0, usable / 10, usable / 4, usable / 2, most])
        }
        Regime::Scarce => dice.pick(&[0, usable / 10, usable / 2]),
    }
}

fn settings(dice: &mut Dice, hardware: &Hardware, reserve: u64, outside: u64, regime: Regime) -> Settings {
    let limited = regime != Regime::Ample;
    let budget = if outside > 0 { hardware.ram } else { hardware.ram - reserve };
    Settings {
        factor_milli: dice.pick(&[1000, 1500, 2000, 4000]),
        memory: MemorySettings {
            governor: true,
            prediction: limited || dice.chance(800),
            budget_bytes: budget << 10,
            swap_slot: dice.pick(&[1, 1, 1, 2]),
            steers: false,
        },
        ..Settings::default()
    }
}
