//! What hosts send, and sending it: bundles of jobs that ended, with a sample a minute, and how a host with its jobs is. It is
//! packed beforehand, so that what is measured is the hub; each host has its own token, and the hub counts by that.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, ensure};
use pinfold_hubwire::bundle::{self, Bundle, Live, SpoolFigures, WIRE_VERSION};
use pinfold_proto::JobState;
use pinfold_proto::view::{PointView, ReportView, StatusView};
use serde::Serialize;
use serde_json::{Value, json};

use super::http::Connection;
use super::served::{Database, Hub, token};
use crate::dice::Dice;
use crate::stats::percentile;

/// Connections on which hosts take turns.
const CONNECTIONS: usize = 64;

/// How often a host says how it is.
pub(super) const LIVE_EVERY_S: f64 = 2.0;

/// What hosts have.
#[derive(Debug, Clone, Copy)]
pub(super) struct Shape {
    /// Jobs at a time.
    pub(super) jobs: usize,
    /// How long each runs, in minutes: so many samples it has.
    pub(super) minutes: usize,
}

impl Shape {
    /// Samples that a host takes in a second.
    pub(super) fn samples_per_s(self) -> f64 {
        self.jobs as f64 / 60.0
    }

    /// Jobs of a host that end in a second; each is a bundle.
    pub(super) fn bundles_per_s(self) -> f64 {
        self.samples_per_s() / self.minutes as f64
    }
}

/// The report of one job that is over.
fn report(job: u64, shape: Shape) -> anyhow::Result<ReportView> {
    let mut dice = Dice(job);
    let (mut read, mut points) = (0, Vec::new());
    let from_s = 1_790_000_000.0 + job as f64 * 7.0;
    let held = (1 + dice.below(64)) << 26;
    for minute in 0..shape.minutes {
        read += dice.below(1 << 24);
        points.push(PointView {
            time_s: from_s + minute as f64 * 60.0 + dice.below(1_000) as f64 / 1e6,
            cpu_cores: dice.below(4_000) as f64 / 1e3,
            memory_bytes: held + dice.below(1 << 14) * 4_096,
            cache_bytes: Some(dice.below(1 << 18) * 4_096),
            swap_bytes: 0,
            io_read_bytes: read,
            io_write_bytes: read / 3,
            processes: 4,
            threads: 9,
            state: JobState::Running,
        });
    }
    let wall_s = shape.minutes as f64 * 60.0;
    let name = format!("class-{}", dice.below(200));
    let value = json!({
        "version": 1, "job": job, "name": name, "command": [name, "--input", format!("part-{job}.fq.gz"), "--threads", "4"],
        "user": format!("user-{}", dice.below(50)), "project": format!("project-{}", dice.below(12)), "state": "exited",
        "class": "primary", "priority": 10, "cpus": null, "submitted_s": from_s, "started_s": from_s + 1.0,
        "ended_s": from_s + 1.0 + wall_s, "exit_code": i32::from(dice.below(20) == 0), "signal": null, "reason": null,
        "queued_s": 1.0, "wall_s": wall_s, "suspended_s": 0.0, "cpu_user_s": wall_s * 1.9, "cpu_system_s": wall_s * 0.1,
        "cores": 4, "claim_bytes": held * 3, "memory_peak_bytes": held + (64 << 20), "memory_mean_bytes": held,
        "cache_peak_bytes": 1 << 30, "swap_peak_bytes": 0, "virtual_peak_bytes": held * 2, "io_read_bytes": read,
        "io_write_bytes": read / 3, "processes_total": 17, "processes_peak": 4, "threads_peak": 9, "samples": shape.minutes,
    });
    let mut report: ReportView = serde_json::from_value(value).context("a report that was made up")?;
    report.series = Some(points);
    Ok(report)
}

/// A head as the hub has it, packed.
pub(super) fn packed_head(shape: Shape) -> anyhow::Result<Vec<u8>> {
    let parts = bundle::parts(report(1, shape)?, Vec::new());
    let head = parts.into_iter().next().and_then(|part| part.head).context("a first part")?;
    bundle::pack(&head).context("failed to pack a report")
}

/// What hosts send, packed.
#[derive(Debug)]
pub(super) struct Packed {
    pub(super) bundles: Vec<Vec<u8>>,
    pub(super) live: Vec<u8>,
    pub(super) shape: Shape,
}

impl Packed {
    /// So many bundles of a job each, and how a host with its jobs is.
    pub(super) fn new(shape: Shape, bundles: usize) -> anyhow::Result<Self> {
        let bundle = |job: u64| {
            let acts = vec![bundle::Act {
                time_s: 1.0,
                action: "start as primary on 4 cores".into(),
                reason: "slots and memory are free".into(),
            }];
            let parts = bundle::parts(report(job, shape)?, acts);
            let bundle = Bundle {
                version: WIRE_VERSION,
                origin: "bench".into(),
                boot: "boot".into(),
                made_us: 1,
                parts,
            };
            bundle::pack(&bundle).context("failed to pack a bundle")
        };
        let bundles = (1..=bundles as u64).map(bundle).collect::<anyhow::Result<_>>()?;
        Ok(Self { bundles, live: live(shape)?, shape })
    }
}

fn live(shape: Shape) -> anyhow::Result<Vec<u8>> {
    let mut dice = Dice(1);
    let jobs: Vec<Value> = (1..=shape.jobs)
        .map(|job| {
            let held = (1 + dice.below(1 << 20)) * 4_096;
            json!({ "job": job, "name": format!("class-{}", dice.below(200)), "user": format!("user-{}", dice.below(50)),
                "project": null, "state": "running", "class": "primary", "priority": 10, "cpus": "0-3", "memory_bytes": held,
                "swap_bytes": 0, "pids": [40_000 + job], "submitted_s": 1_790_000_000.0 + job as f64,
                "started_s": 1_790_000_001.0 + job as f64, "ended_s": null, "exit_code": null, "signal": null, "reason": null })
        })
        .collect();
    let status: StatusView = serde_json::from_value(json!({
        "version": 1, "host": "any", "mode": "v2", "slots": { "cores": 64, "factor": 1.5, "total": 96, "used": 80 },
        "memory": { "budget_bytes": 256u64 << 30, "held_bytes": 128u64 << 30, "swap_held_bytes": 0,
            "pressure_full_avg10": 0.0 },
        "reading": null, "jobs": jobs,
    }))
    .context("a status that was made up")?;
    let (boot, spool) = ("boot".to_owned(), SpoolFigures::default());
    // A hub files nothing by its clock if those of most hosts differ.
    let sent_us = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?.as_micros();
    let sent_us = u64::try_from(sent_us)?;
    bundle::pack(&Live { version: WIRE_VERSION, boot, sent_us, status, spool, map: None, topology: None })
        .context("failed to pack a status")
}

/// How hosts send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// Bundles, as fast as the hub takes them.
    Bundles,
    /// Bundles and how they are, when hosts would.
    Own,
}

/// What came of it.
#[derive(Debug, Default, Clone, Serialize)]
pub(super) struct Sent {
    pub(super) database: String,
    pub(super) hosts: usize,
    /// Job rows that were there before.
    pub(super) rows: u64,
    pub(super) own_pace: bool,
    pub(super) window_s: f64,
    pub(super) bundles: usize,
    pub(super) lives: usize,
    pub(super) samples: usize,
    pub(super) failed: usize,
    /// How late the last ones were sent, because the hub had not answered: seconds.
    pub(super) late_s: f64,
    pub(super) hub_cpu_s: f64,
    pub(super) database_cpu_s: f64,
    pub(super) hub_pss_bytes: u64,
    /// Until a bundle is acknowledged, milliseconds.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

impl Sent {
    pub(super) fn samples_per_s(&self) -> f64 {
        self.samples as f64 / self.window_s
    }

    /// Cores that hub and database keep busy.
    pub(super) fn cores(&self) -> f64 {
        (self.hub_cpu_s + self.database_cpu_s) / self.window_s
    }
}

/// What is sent when.
struct Plan<'a> {
    hub: &'a Hub,
    packed: &'a Packed,
    hosts: usize,
    /// The first bundle that no host has sent before.
    from: usize,
    /// Messages in a second; `None`: as many as can be.
    rate: Option<f64>,
    /// One of how many is a bundle.
    bundle_of: f64,
    begun: Instant,
    until: Instant,
}

#[derive(Default)]
struct Done {
    bundles: usize,
    lives: usize,
    failed: usize,
    late_s: f64,
    waits_ms: Vec<f64>,
}

impl Plan<'_> {
    /// When the message of this number is due.
    fn due(&self, number: usize) -> Instant {
        self.rate.map_or(self.begun, |rate| self.begun + Duration::from_secs_f64(number as f64 / rate))
    }

    /// How many bundles are among the first so many messages.
    fn bundles_before(&self, number: usize) -> usize {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts are small")]
        let bundles = (number as f64 / self.bundle_of) as usize;
        bundles
    }

    fn work(&self, next: &AtomicUsize, interrupted: &AtomicBool) -> anyhow::Result<Done> {
        let (mut connection, mut done) = (Connection::new(&self.hub.address), Done::default());
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let due = self.due(number);
            if Instant::now() >= self.until || due >= self.until || interrupted.load(Ordering::Relaxed) {
                return Ok(done);
            }
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            done.late_s = due.elapsed().as_secs_f64();
            let bundle = self.bundles_before(number);
            let is_bundle = self.bundles_before(number + 1) > bundle;
            let of_host = if is_bundle { bundle } else { number - bundle };
            let line = format!("Authorization: Bearer {}", token(1 + of_host % self.hosts));
            let answer = if is_bundle {
                let Some(packed) = self.packed.bundles.get(self.from + bundle / self.hosts) else {
                    return Ok(done);
                };
                let answer = connection.post("/api/v1/bundles", &line, packed)?;
                done.waits_ms.push(answer.whole_s * 1e3);
                done.bundles += usize::from(answer.status == 200);
                answer
            } else {
                let answer = connection.post("/api/v1/live", &line, &self.packed.live)?;
                done.lives += usize::from(answer.status == 200);
                answer
            };
            done.failed += usize::from(answer.status != 200);
        }
    }
}

/// Has hosts send for so many seconds. `from`: how many bundles each has sent before.
pub(super) fn send(
    (hub, database): (&Hub, &Database<'_>),
    packed: &Packed,
    (hosts, from, pace): (usize, usize, Pace),
    window_s: f64,
    interrupted: &AtomicBool,
) -> anyhow::Result<(Sent, usize)> {
    let (bundles_per_s, lives_per_s) =
        (packed.shape.bundles_per_s() * hosts as f64, hosts as f64 / LIVE_EVERY_S);
    let begun = Instant::now();
    let own = pace == Pace::Own;
    let plan = Plan {
        hub,
        packed,
        hosts,
        from,
        rate: own.then_some(bundles_per_s + lives_per_s),
        bundle_of: if own { (bundles_per_s + lives_per_s) / bundles_per_s } else { 1.0 },
        begun,
        until: begun + Duration::from_secs_f64(window_s),
    };
    let before = hub.cpu_s(database);
    let (next, all) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        // A host sends one message after the other, and the hub refuses more than a few of one at a time.
        for _ in 0..CONNECTIONS.min(hosts) {
            scope.spawn(|| {
                let done = plan.work(&next, interrupted);
                all.lock().expect("no worker panics").push(done);
            });
        }
    });
    let window_s = begun.elapsed().as_secs_f64();
    let after = hub.cpu_s(database);
    let done =
        all.into_inner().expect("no worker panics").into_iter().collect::<anyhow::Result<Vec<Done>>>()?;
    let waits_ms: Vec<f64> = done.iter().flat_map(|done| done.waits_ms.iter().copied()).collect();
    let sum = |of: fn(&Done) -> usize| done.iter().map(of).sum::<usize>();
    let bundles = sum(|done| done.bundles);
    let lives = sum(|done| done.lives);
    ensure!(bundles + lives > 0, "the hub took nothing");
    let sent = Sent {
        database: database.name().to_owned(),
        hosts,
        own_pace: own,
        window_s,
        bundles,
        lives,
        samples: bundles * packed.shape.minutes,
        failed: sum(|done| done.failed),
        late_s: if own { done.iter().map(|done| done.late_s).fold(0.0, f64::max) } else { 0.0 },
        hub_cpu_s: after.0 - before.0,
        database_cpu_s: after.1 - before.1,
        hub_pss_bytes: hub.memory().pss_bytes,
        p50_ms: percentile(&waits_ms, 0.5).unwrap_or(0.0),
        p99_ms: percentile(&waits_ms, 0.99).unwrap_or(0.0),
        ..Sent::default()
    };
    Ok((sent, from + bundles.div_ceil(hosts) + 1))
}
