//! A simulated host: lanes of consecutive jobs, of classes with a shape each.

use std::collections::BTreeSet;

use pinfold_hubwire::bundle::Act;
use pinfold_hubwire::push::{Found, Machine, Numbers, Source, SourceError};
use pinfold_proto::host::HostPoint;
use pinfold_proto::view::{JobView, MapView, PointView, ReportView, SetView, StatusView};
use pinfold_proto::{JobClass, JobState};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;
use serde_json::{Value, json};

use crate::store::minutes::reading;
use crate::store::now_us;

/// The most finished jobs in a status, as a daemon sends.
const OVER_TOLD: usize = 1_000;

/// Number of points of a series.
const POINTS: u32 = 160;

/// Cores and memory of a simulated host.
const CORES: u32 = 32;
const MEMORY_BYTES: u64 = 192 << 30;

/// Memory over a job's life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Early full, then constant.
    Flat,
    /// Growth to the end.
    Ramp,
    /// Rise and fall, repeated.
    Waves,
    /// Growth, and a fall at the end.
    Hill,
}

#[derive(Debug)]
struct Class {
    name: &'static str,
    command: &'static str,
    user: &'static str,
    project: Option<&'static str>,
    cores: u32,
    /// Mean number of busy cores.
    busy: f64,
    /// The usual peak, and the requested memory, in MiB.
    peak_mib: u32,
    claim_mib: u32,
    /// The usual wall time in minutes.
    minutes: f64,
    shape: Shape,
    /// Every n-th job fails on average.
    fails: u32,
}

const fn class(
    (name, command): (&'static str, &'static str),
    (user, project): (&'static str, Option<&'static str>),
    (cores, busy): (u32, f64),
    (peak_mib, claim_mib): (u32, u32),
    (minutes, shape, fails): (f64, Shape, u32),
) -> Class {
    Class { name, command, user, project, cores, busy, peak_mib, claim_mib, minutes, shape, fails }
}

/// Shapes and sizes typical of these programs.
const CLASSES: [Class; 8] = [
    class(
        ("bwa-mem", "bwa mem -t 4 GRCh38.fa reads_1.fq.gz reads_2.fq.gz"),
        ("ann", Some("genomics")),
        (4, 3.8),
        (6_100, 16_384),
        (42.0, Shape::Flat, 60),
    ),
    class(
        ("samtools-sort", "samtools sort -@ 2 -m 2G -o sorted.bam in.bam"),
        ("ann", Some("genomics")),
        (2, 1.4),
        (4_300, 8_192),
        (18.0, Shape::Waves, 80),
    ),
    class(
        ("spades", "spades.py -t 8 -m 64 -1 a.fq -2 b.fq -o out"),
        ("bo", Some("genomics")),
        (8, 5.9),
        (31_000, 65_536),
        (110.0, Shape::Hill, 9),
    ),
    class(
        ("fastqc", "fastqc -t 1 reads_1.fq.gz"),
        ("bo", Some("genomics")),
        (1, 0.9),
        (510, 4_096),
        (5.0, Shape::Flat, 200),
    ),
    class(
        ("wrf-ensemble", "mpirun -n 8 ./wrf.exe"),
        ("chris", Some("climate")),
        (8, 7.7),
        (11_500, 16_384),
        (150.0, Shape::Flat, 40),
    ),
    class(
        ("regrid", "python3 regrid.py --year 1987"),
        ("chris", Some("climate")),
        (1, 0.6),
        (7_800, 8_192),
        (25.0, Shape::Ramp, 30),
    ),
    class(
        ("train-unet", "python3 train.py --model unet --epochs 40"),
        ("dana", None),
        (6, 4.1),
        (14_200, 49_152),
        (95.0, Shape::Waves, 12),
    ),
    class(
        ("R-bootstrap", "Rscript bootstrap.R --reps 5000"),
        ("dana", None),
        (1, 0.98),
        (1_250, 2_048),
        (33.0, Shape::Ramp, 50),
    ),
];

/// A job of the plan.
#[derive(Debug, Clone)]
struct Planned {
    job: u64,
    class: usize,
    submitted_s: f64,
    started_s: f64,
    ended_s: f64,
    peak_bytes: u64,
    failed: bool,
    /// Begin and end of a suspension, in parts of the job's life.
    frozen: Option<(f64, f64)>,
}

/// The core layout of a simulated host.
const SHAPE: &str = "pack:2 numa:1 l3:2 core:8 pu:1";

/// A simulated host.
#[derive(Debug)]
pub struct SimulatedHost {
    name: String,
    plan: Vec<Planned>,
}

impl SimulatedHost {
    /// A host with jobs by the seed: over this many days up to now, and two hours beyond.
    #[must_use]
    pub fn new(name: &str, seed: u64, days: u32, now_us: u64) -> Self {
        let mut dice = Pcg64Mcg::seed_from_u64(seed);
        let now_s = pinfold_proto::view::seconds(now_us);
        let (from_s, to_s) = (now_s - f64::from(days) * 86_400.0, now_s + 7_200.0);
        let mut plan = Vec::new();
        for _lane in 0..6 {
            let mut at_s = from_s + part(&mut dice) * 3_600.0;
            while at_s < to_s {
                let planned = planned(&mut dice, at_s);
                at_s = planned.ended_s + part(&mut dice) * 900.0;
                plan.push(planned);
            }
        }
        plan.sort_by(|a, b| a.submitted_s.total_cmp(&b.submitted_s));
        for (number, planned) in (1..).zip(&mut plan) {
            planned.job = number;
        }
        Self { name: name.to_owned(), plan }
    }

    /// Started jobs that have not ended.
    fn started(&self, now_s: f64) -> Vec<&Planned> {
        let asked = self.asked_for(now_s);
        asked.filter(|planned| planned.started_s <= now_s && planned.ended_s > now_s).collect()
    }

    /// The host's reading; memory pressure is full while a job is suspended for memory.
    pub(super) fn reading(&self, now_s: f64) -> HostPoint {
        let (running, frozen): (Vec<_>, Vec<_>) =
            self.started(now_s).into_iter().partition(|planned| planned.runs(now_s));
        let held = |all: &[&Planned]| {
            all.iter().map(|planned| mib_of(planned.peak_bytes, planned.held(planned.at(now_s)))).sum::<u64>()
        };
        let busy = running.iter().map(|planned| CLASSES[planned.class].busy).sum();
        let stalled = if frozen.is_empty() { 0.0 } else { 0.12 };
        reading(now_s, Some(busy), (held(&running), held(&frozen)), Some(stalled))
    }

    fn asked_for(&self, now_s: f64) -> impl DoubleEndedIterator<Item = &Planned> {
        self.plan.iter().filter(move |planned| planned.submitted_s <= now_s)
    }
}

/// A number from 0 up to 1.
fn part(dice: &mut Pcg64Mcg) -> f64 {
    f64::from(dice.next_u32()) / f64::from(u32::MAX)
}

/// A factor around 1, spread like sizes and times of real jobs: most near, some far above.
fn spread(dice: &mut Pcg64Mcg, wide: f64) -> f64 {
    let normal: f64 = (0..12).map(|_| part(dice)).sum::<f64>() - 6.0;
    (normal * wide).exp()
}

fn planned(dice: &mut Pcg64Mcg, submitted_s: f64) -> Planned {
    let at = usize::try_from(dice.next_u32()).unwrap_or(0) % CLASSES.len();
    let class = &CLASSES[at];
    // Exact to the microsecond, as in a store.
    let exact = |seconds: f64| (seconds * 1e6).round() / 1e6;
    let submitted_s = exact(submitted_s);
    let started_s = exact(submitted_s + part(dice).powi(3) * 600.0);
    let frozen = dice.next_u32().is_multiple_of(14).then(|| {
        let from = 0.2 + part(dice) * 0.4;
        (from, from + 0.05 + part(dice) * 0.2)
    });
    Planned {
        job: 0,
        class: at,
        submitted_s,
        started_s,
        ended_s: exact(started_s + class.minutes * 60.0 * spread(dice, 0.35)),
        peak_bytes: mib(f64::from(class.peak_mib) * spread(dice, 0.18)),
        failed: dice.next_u32().is_multiple_of(class.fails),
        frozen,
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates; sizes are above 0"
)]
fn mib(size: f64) -> u64 {
    (size * 1_048_576.0) as u64
}

impl Planned {
    /// Whether the job is suspended at this part of its life.
    fn is_frozen(&self, at: f64) -> bool {
        self.frozen.is_some_and(|(from, to)| (from..to).contains(&at))
    }

    /// The elapsed part of the job's life; outside 0 to 1 the job does not exist.
    fn at(&self, now_s: f64) -> f64 {
        (now_s - self.started_s) / (self.ended_s - self.started_s)
    }

    /// Whether the job runs on cores at this moment.
    fn runs(&self, now_s: f64) -> bool {
        let at = self.at(now_s);
        (0.0..1.0).contains(&at) && !self.is_frozen(at)
    }

    /// The held part of the job's peak at this part of its life.
    fn held(&self, at: f64) -> f64 {
        let soon = (at * 12.0).min(1.0);
        let ripple = (at * 97.0).sin() * 0.02;
        let shape = match CLASSES[self.class].shape {
            Shape::Flat => soon,
            Shape::Ramp => 0.15 + 0.85 * at,
            Shape::Waves => soon * (0.62 + 0.38 * (at * 31.0).sin().abs()),
            Shape::Hill => soon * (0.3 + 0.7 * (at * std::f64::consts::PI).sin()),
        };
        (shape + ripple).clamp(0.02, 1.0)
    }

    fn points(&self) -> Vec<PointView> {
        let class = &CLASSES[self.class];
        let life_s = self.ended_s - self.started_s;
        let mut read = 0u64;
        let point = |number: u32| {
            let at = f64::from(number) / f64::from(POINTS);
            let frozen = self.is_frozen(at);
            let busy = if frozen { 0.0 } else { class.busy * (0.9 + 0.1 * (at * 53.0).sin()) };
            read += if frozen { 0 } else { u64::from(class.peak_mib) * 9_000 };
            let memory_bytes = mib_of(self.peak_bytes, self.held(at));
            PointView {
                time_s: self.started_s + life_s * at,
                cpu_cores: busy,
                memory_bytes: if frozen { memory_bytes / 5 } else { memory_bytes },
                cache_bytes: Some(memory_bytes / 3),
                swap_bytes: if frozen { memory_bytes / 5 * 4 } else { 0 },
                io_read_bytes: read,
                io_write_bytes: read / 3,
                processes: 1 + class.cores / 4,
                threads: class.cores + 1,
                state: if frozen { JobState::Parked } else { JobState::Running },
            }
        };
        (1..=POINTS).map(point).collect()
    }

    fn report(&self) -> Result<ReportView, SourceError> {
        let class = &CLASSES[self.class];
        let points = self.points();
        let wall_s = self.ended_s - self.started_s;
        let suspended_s = self.frozen.map_or(0.0, |(from, to)| (to - from) * wall_s);
        let cpu_s = class.busy * (wall_s - suspended_s);
        let most = |of: fn(&PointView) -> u64| points.iter().map(of).max().unwrap_or(0);
        let mean = points.iter().map(|point| point.memory_bytes / u64::from(POINTS)).sum::<u64>();
        let last = points.last().map_or((0, 0), |point| (point.io_read_bytes, point.io_write_bytes));
        let exit_code = i32::from(self.failed);
        // A workflow of user ann runs once a day.
        let date = pinfold_profile::report::date_utc(self.submitted_s);
        let day = date.get(..10).unwrap_or_default();
        let comment = (class.user == "ann").then(|| format!("workflow=exome version=1.4 run={day}"));
        let view = json!({
            "version": 1, "job": self.job, "name": class.name, "user": class.user, "project": class.project,
            "command": class.command.split(' ').collect::<Vec<_>>(), "state": "exited", "class": "primary",
            "priority": 10, "cpus": null, "submitted_s": self.submitted_s, "started_s": self.started_s,
            "ended_s": self.ended_s, "exit_code": exit_code, "signal": null, "reason": null,
            "comment": comment, "queued_s": self.started_s - self.submitted_s, "wall_s": wall_s, "suspended_s": suspended_s,
            "cpu_user_s": cpu_s * 0.96, "cpu_system_s": cpu_s * 0.04, "cores": class.cores,
            "claim_bytes": u64::from(class.claim_mib) << 20, "memory_peak_bytes": most(|point| point.memory_bytes),
            "memory_mean_bytes": mean, "cache_peak_bytes": most(|point| point.cache_bytes.unwrap_or(0)),
            "swap_peak_bytes": most(|point| point.swap_bytes), "virtual_peak_bytes": self.peak_bytes * 2,
            "io_read_bytes": last.0, "io_write_bytes": last.1, "processes_total": 3 + class.cores,
            "processes_peak": 1 + class.cores / 4, "threads_peak": class.cores + 1, "samples": POINTS,
        });
        let mut report: ReportView = from(view)?;
        report.series = Some(points);
        Ok(report)
    }

    fn acts(&self) -> Vec<Act> {
        let class = &CLASSES[self.class];
        let act = |time_s: f64, action: &str, reason: &str| Act {
            time_s,
            action: action.to_owned(),
            reason: reason.to_owned(),
        };
        let mut acts = vec![act(
            self.started_s,
            &format!("start as primary on {} cores", class.cores),
            "slots and memory are free",
        )];
        if let Some((from, to)) = self.frozen {
            let at = |part: f64| self.started_s + part * (self.ended_s - self.started_s);
            acts.push(act(
                at(from),
                "suspend",
                "memory is about to run short; it is the youngest that may be suspended",
            ));
            acts.push(act(at(from) + 2.0, "page out", "an older job needs the room"));
            acts.push(act(at(to), "resume", "its whole expected footprint fits again"));
        }
        acts
    }

    fn view(&self, now_s: f64) -> Result<JobView, SourceError> {
        let class = &CLASSES[self.class];
        let at = self.at(now_s).clamp(0.0, 1.0);
        let state = match () {
            () if now_s >= self.ended_s => "exited",
            () if now_s < self.started_s => "queued",
            () if self.is_frozen(at) => "parked",
            () => "running",
        };
        let held = mib_of(self.peak_bytes, self.held(at));
        let (memory, swap) = match state {
            "running" => (Some(held), Some(0)),
            "parked" => (Some(held / 5), Some(held / 5 * 4)),
            _ => (None, None),
        };
        let over = state == "exited";
        from(json!({
            "job": self.job, "name": class.name, "user": class.user, "project": class.project, "state": state,
            "class": "primary", "priority": 10, "cpus": null, "memory_bytes": memory, "swap_bytes": swap, "pids": [],
            "cpu_cores": (state == "running").then_some(class.busy),
            "submitted_s": self.submitted_s, "started_s": (state != "queued").then_some(self.started_s),
            "ended_s": over.then_some(self.ended_s), "exit_code": over.then_some(i32::from(self.failed)), "signal": null,
            "reason": match state {
                "queued" => Some(format!("it waits for slots: it asks for {}", class.cores)),
                "parked" => Some("suspended: memory is needed by older jobs".to_owned()),
                _ => None,
            },
        }))
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a size is a size"
)]
fn mib_of(bytes: u64, part: f64) -> u64 {
    (bytes as f64 * part) as u64
}

fn from<T: serde::de::DeserializeOwned>(value: Value) -> Result<T, SourceError> {
    serde_json::from_value(value).map_err(|error| SourceError(error.to_string()))
}

fn found(planned: &Planned) -> Found {
    Found { job: planned.job, submitted_us: pinfold_hubwire::bundle::microseconds(planned.submitted_s) }
}

impl Source for SimulatedHost {
    fn origin(&mut self) -> Result<String, SourceError> {
        Ok(format!("demo-{}", self.name))
    }

    fn numbers(&mut self, _seen: u64) -> Result<Numbers, SourceError> {
        let now_s = pinfold_proto::view::seconds(now_us());
        let highest = self.asked_for(now_s).next_back().map(found).unwrap_or_default();
        Ok(Numbers { highest, seen_us: None })
    }

    fn look(&mut self, _open: &BTreeSet<u64>) -> Result<StatusView, SourceError> {
        let now_s = pinfold_proto::view::seconds(now_us());
        let living = self.asked_for(now_s).filter(|planned| planned.ended_s > now_s);
        let over = self.asked_for(now_s).rev().filter(|planned| planned.ended_s <= now_s).take(OVER_TOLD);
        let mut jobs =
            living.chain(over).map(|planned| planned.view(now_s)).collect::<Result<Vec<_>, _>>()?;
        jobs.sort_by_key(|job| job.job);
        let started = self.started(now_s);
        let cores: u32 = started.iter().map(|planned| CLASSES[planned.class].cores).sum();
        let held: u64 = jobs.iter().filter_map(|job| job.memory_bytes).sum();
        let swap: u64 = jobs.iter().filter_map(|job| job.swap_bytes).sum();
        let mut status: StatusView = from(json!({
            "version": 1, "host": self.name, "mode": "v2",
            "slots": { "cores": CORES, "factor": 1.5, "total": CORES + CORES / 2, "used": cores },
            "memory": { "budget_bytes": MEMORY_BYTES, "held_bytes": held, "swap_held_bytes": swap,
                "pressure_full_avg10": self.reading(now_s).memory_full_stalled },
            "jobs": [],
        }))?;
        status.jobs = jobs;
        status.reading = Some(Box::new(self.reading(now_s)));
        Ok(status)
    }

    fn after(&mut self, seen: u64, _submitted_us: u64, most: usize) -> Result<Vec<Found>, SourceError> {
        let now_s = pinfold_proto::view::seconds(now_us());
        let new = self.asked_for(now_s).filter(|planned| planned.job > seen).take(most);
        Ok(new.map(found).collect())
    }

    fn machine(&mut self) -> Result<Option<Machine>, SourceError> {
        let facts =
            pinfold_topo::synthetic::facts_of(SHAPE).map_err(|error| SourceError(error.to_string()))?;
        let topology = facts.assemble().map_err(|error| SourceError(error.to_string()))?;
        let now_s = pinfold_proto::view::seconds(now_us());
        let mut free = 0;
        let mut sets = Vec::new();
        for planned in self.asked_for(now_s).filter(|planned| planned.runs(now_s)) {
            let class = &CLASSES[planned.class];
            // Jobs beyond the last core share the first cores.
            let from = if free + class.cores > CORES { 0 } else { free };
            let shared = from < free;
            free = free.max(from + class.cores);
            sets.push(SetView {
                set: format!("job-{}", planned.job),
                cpus: format!("{from}-{}", from + class.cores - 1),
                cores: class.cores.into(),
                shared,
                job: Some(planned.job),
                name: Some(class.name.to_owned()),
                user: Some(class.user.to_owned()),
                class: if shared { JobClass::Backfill } else { JobClass::Primary },
                state: JobState::Running,
                pids: Vec::new(),
            });
        }
        let map = MapView {
            version: pinfold_proto::view::VERSION,
            host: self.name.clone(),
            cpus: topology.usable().to_string(),
            sets,
            set_asides: Vec::new(),
            chunks: Vec::new(),
            resources: Vec::new(),
        };
        Ok(Some(Machine { map, topology }))
    }

    fn job(&mut self, job: u64) -> Result<Option<(ReportView, Vec<Act>)>, SourceError> {
        let planned = self.plan.iter().find(|planned| planned.job == job);
        let Some(planned) = planned else { return Ok(None) };
        let (mut report, mut acts) = (planned.report()?, planned.acts());
        let now_s = pinfold_proto::view::seconds(now_us());
        if now_s < planned.ended_s {
            (report.state, report.ended_s, report.exit_code) = (JobState::Running, None, None);
            report.wall_s = Some((now_s - planned.started_s).max(0.0));
            report.cpu_user_s *= planned.at(now_s).max(0.0);
            report.cpu_system_s *= planned.at(now_s).max(0.0);
            report.series.iter_mut().for_each(|points| points.retain(|point| point.time_s <= now_s));
            acts.retain(|act| act.time_s <= now_s);
        }
        Ok(Some((report, acts)))
    }
}
