//! The pusher: from the host's store into the spool, from the spool to the hub.
//!
//! A job is *seen* once its number is known, *open* until its parts are in the spool, and leaves the spool when the
//! hub acknowledges them. The spool is written before the cursor and emptied after the acknowledgement, so that a
//! crash at any instant causes duplicates, never losses; the hub ignores duplicates. Clock, random numbers, store,
//! disk and hub are parameters.
//!
//! Owner of state: the cursor, the spool, the backoff. Absent here: sockets and HTTP.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_proto::JobState;
use pinfold_proto::view::StatusView;
use pinfold_topo::Topology;
use pinfold_topo::backoff::Backoff;

use crate::bounds;
use crate::bundle::{self, ASKED_MAX, Bundle, Live, PACKED_MAX_BYTES, Part, SpoolFigures, WIRE_VERSION};
use crate::cursor::Cursor;
use crate::disk::Disk;
use crate::load::{Load, Partly};
use crate::spool::{Spool, SpoolError};
use crate::told;

pub use crate::outcome::{Collected, PushError, Sent};
pub use crate::source::{Found, Machine, Numbers, Source, SourceError};
pub use crate::uplink::{Uplink, UplinkError};

/// Most new jobs read per round.
const SEEN_A_ROUND: usize = 10_000;

/// Jobs of a bundle.
const JOBS_A_BUNDLE: usize = 200;

/// A bundle is closed at this size, unpacked and estimated, in bytes.
const BUNDLE_BYTES: usize = 4 << 20;

/// Most jobs spooled per round, so that the host's state is sent in between.
const FILLED_A_ROUND: usize = JOBS_A_BUNDLE;

/// Failures of the daemon to report a job per round, before the other jobs wait for the next.
const FAILED_A_ROUND: usize = 5;

/// How often the topology is repeated, for a hub that lost its database.
const TOPOLOGY_EVERY: Duration = Duration::from_secs(3_600);

/// Most bundles sent per round, so that the host's state is sent in between.
const BUNDLES_A_ROUND: usize = 16;

/// The pause after the first failure,
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// and at most.
pub const LONGEST_PAUSE: Duration = Duration::from_secs(120);

/// The longest pause between states to an absent hub. After the first answer bundles follow at once.
const LONGEST_SILENCE: Duration = Duration::from_secs(10);

/// A host's pusher.
#[derive(Debug)]
pub struct Pusher<D> {
    below: PathBuf,
    spool: Spool<D>,
    cursor: Cursor,
    backoff: Backoff,
    /// Earliest time of the next bundle.
    not_before: Duration,
    /// Backoff of the host's state while the hub is away, and the earliest time of the next state then.
    silence: Backoff,
    silent_until: Option<Duration>,
    /// Backoff of an unreadable or unwritable spool, independent of the hub's answers.
    disk: Backoff,
    /// Backoff of sending all jobs again after a change of the hub's database.
    anew: Backoff,
    not_anew_before: Duration,
    boot: String,
    waiting: u64,
    /// The host's cores at the last look.
    machine: Option<Machine>,
    /// Living jobs that the hub requested, and their reports.
    wanted: Vec<u64>,
    asked: Vec<Part>,
    /// How the cores lie as the hub was told, and when.
    told: Option<(Topology, Duration)>,
    /// The progress of a job with more parts than fit.
    partly: Option<Partly>,
    /// Bytes in the spool when the next bundle did not fit: no jobs are read until it holds less.
    full_at: Option<u64>,
    /// Rounds of spooling, and the round in which the daemon failed to report an open job.
    rounds: u64,
    failed_in: BTreeMap<u64, u64>,
}

impl<D: Disk> Pusher<D> {
    /// The pusher with its files below this directory. `boot` names the host's boot.
    ///
    /// # Errors
    /// When the files cannot be read.
    pub fn open(disk: D, below: &Path, spool_bytes: u64, boot: &str) -> Result<Self, PushError> {
        let cursor = Cursor::load(&disk, below)?.unwrap_or_else(|| Cursor::begin(""));
        let spool = Spool::open(disk, below, spool_bytes)?;
        Ok(Self {
            below: below.to_owned(),
            spool,
            cursor,
            backoff: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            not_before: Duration::ZERO,
            silence: Backoff::new(FIRST_PAUSE, LONGEST_SILENCE),
            silent_until: None,
            disk: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            anew: Backoff::new(FIRST_PAUSE, LONGEST_PAUSE),
            not_anew_before: Duration::ZERO,
            boot: boot.to_owned(),
            waiting: 0,
            machine: None,
            wanted: Vec::new(),
            asked: Vec::new(),
            told: None,
            partly: None,
            full_at: None,
            rounds: 0,
            failed_in: BTreeMap::new(),
        })
    }

    /// The next hub is another hub, without knowledge of this host.
    pub fn meet(&mut self) {
        self.told = None;
    }

    /// Spools ended jobs.
    ///
    /// # Errors
    /// When the daemon does not report the host's state.
    pub fn collect(&mut self, source: &mut dyn Source, now_us: u64) -> Result<Collected, PushError> {
        let origin = source.origin()?;
        if self.cursor.origin != origin {
            self.cursor.restart(&origin);
            self.partly = None;
        }
        let numbers = source.numbers(self.cursor.seen)?;
        if !self.cursor.is_of_this_store(&numbers) {
            // An earlier copy of the store was restored, so numbers were reassigned from an unknown point on. The hub
            // recognizes the jobs that it has.
            self.cursor.restart(&origin);
            self.partly = None;
        }
        let noted = self.note(source, numbers.highest.job);
        // After noting: the status may lack jobs that had ended by then.
        let mut status = source.look(&self.cursor.open)?;
        // Without a map the host is sent without its machine.
        self.machine = source.machine().unwrap_or_default();
        self.asked = self.wanted.iter().filter_map(|&job| told::running(source, job)).collect();
        status.jobs.retain(|job| job.state != JobState::Exited);
        let living: BTreeSet<u64> = status.jobs.iter().map(|job| job.job).collect();
        let trouble = noted.and_then(|()| self.fill(source, &living, now_us)).err();
        Ok(Collected { status, trouble })
    }

    /// Notes the new jobs since the last round.
    fn note(&mut self, source: &mut dyn Source, highest: u64) -> Result<(), PushError> {
        if highest <= self.cursor.seen {
            return Ok(());
        }
        let new = source.after(self.cursor.seen, self.cursor.seen_submitted_us, SEEN_A_ROUND)?;
        if new.is_empty() {
            return Ok(());
        }
        self.cursor.note(&new);
        self.cursor.save(self.spool.disk(), &self.below)?;
        Ok(())
    }

    /// Moves ended open jobs into the spool.
    fn fill(
        &mut self,
        source: &mut dyn Source,
        living: &BTreeSet<u64>,
        now_us: u64,
    ) -> Result<(), PushError> {
        let mut due: Vec<u64> = self.cursor.open.difference(living).copied().collect();
        self.waiting = due.len() as u64;
        // Jobs that failed come last, so that they do not block other jobs.
        self.failed_in.retain(|job, _| self.cursor.open.contains(job));
        due.sort_by_key(|job| self.failed_in.get(job));
        due.truncate(FILLED_A_ROUND);
        if self.full_at.is_some_and(|held_bytes| self.spool.held_bytes() >= held_bytes) {
            return if due.is_empty() { Ok(()) } else { Err(self.full()) };
        }
        self.full_at = None;
        self.rounds += 1;
        let mut load = Load::default();
        let mut failed = Vec::new();
        for job in due {
            if self.spool.is_full() {
                self.close(&mut load, now_us)?;
                return Err(self.full());
            }
            let told = match source.job(job) {
                Ok(told) => told,
                Err(error) => {
                    failed.push(error);
                    self.failed_in.insert(job, self.rounds);
                    if failed.len() > FAILED_A_ROUND {
                        break;
                    }
                    continue;
                }
            };
            match told {
                // The job was revived between the two requests.
                Some((report, _)) if report.state != JobState::Exited => continue,
                Some((report, acts)) => {
                    let parts = bundle::parts(report, acts);
                    let done = self.partly.map_or(0, |partly| partly.done_of(&parts));
                    for part in parts.into_iter().skip(done) {
                        if load.bytes > BUNDLE_BYTES {
                            self.close(&mut load, now_us)?;
                        }
                        load.add(part);
                    }
                }
                None => {}
            }
            load.done.push(job);
            if load.done.len() >= JOBS_A_BUNDLE || load.bytes > BUNDLE_BYTES {
                self.close(&mut load, now_us)?;
            }
        }
        self.close(&mut load, now_us)?;
        failed.into_iter().next().map_or(Ok(()), |error| Err(error.into()))
    }

    fn full(&self) -> PushError {
        let (held_bytes, max_bytes) = (self.spool.held_bytes(), self.spool.max_bytes());
        SpoolError::Full { dir: self.below.join("spool"), held_bytes, max_bytes }.into()
    }

    /// Spools the finished parts; their jobs stay open.
    fn spool_parts(&mut self, load: &mut Load, now_us: u64) -> Result<(), PushError> {
        load.bytes = 0;
        if load.parts.is_empty() {
            return Ok(());
        }
        let parts = std::mem::take(&mut load.parts);
        let partly = parts.last().and_then(Partly::until);
        let packed = bundle::pack(&self.bundle(parts, now_us))?;
        if let Err(error) = self.spool.put(&packed) {
            if matches!(error, SpoolError::Full { .. }) {
                self.full_at = Some(self.spool.held_bytes());
            }
            return Err(error.into());
        }
        // A completed job is not requested again.
        self.partly = partly.or(self.partly);
        Ok(())
    }

    /// Spools the finished parts, and closes their jobs.
    fn close(&mut self, load: &mut Load, now_us: u64) -> Result<(), PushError> {
        self.spool_parts(load, now_us)?;
        if load.done.is_empty() {
            return Ok(());
        }
        self.waiting = self.waiting.saturating_sub(load.done.len() as u64);
        for job in load.done.drain(..) {
            self.cursor.open.remove(&job);
        }
        Ok(self.cursor.save(self.spool.disk(), &self.below)?)
    }

    fn bundle(&self, parts: Vec<Part>, now_us: u64) -> Bundle {
        let (origin, boot) = (self.cursor.origin.clone(), self.boot.clone());
        Bundle { version: WIRE_VERSION, origin, boot, made_us: now_us, parts }
    }

    /// Whether the pause after the last failure is over, at a time of a monotonic clock.
    #[must_use]
    pub fn may_send(&self, now: Duration) -> bool {
        now >= self.not_before
    }

    /// Sends the bundles in the spool, the oldest first. `chance` is any random number.
    ///
    /// # Errors
    /// When the spool cannot be read or written; retried after a pause.
    pub fn send(&mut self, uplink: &mut dyn Uplink, now: Duration, chance: u32) -> Result<Sent, PushError> {
        if !self.may_send(now) {
            return Ok(Sent::default());
        }
        let sent = self.send_on(uplink, now, chance);
        match sent {
            Ok(_) => self.disk.reset(),
            Err(_) => self.not_before = now.saturating_add(self.disk.pause_by_chance(chance)),
        }
        sent
    }

    fn send_on(&mut self, uplink: &mut dyn Uplink, now: Duration, chance: u32) -> Result<Sent, PushError> {
        let mut sent = Sent::default();
        for _ in 0..BUNDLES_A_ROUND {
            let Some((number, packed)) = self.spool.first()? else { break };
            let answer = if packed.len() > PACKED_MAX_BYTES {
                // Every hub would refuse the bundle, so it is not sent.
                let words = format!("a bundle of {} bytes is longer than {PACKED_MAX_BYTES}", packed.len());
                Err(UplinkError::Refused(words))
            } else {
                uplink.bundle(&packed)
            };
            match answer {
                Ok(receipt) => {
                    self.spool.remove(number)?;
                    self.backoff.reset();
                    sent.bundles += 1;
                    // The hub's numbers are untrusted.
                    sent.new = sent.new.saturating_add(receipt.new);
                    sent.known = sent.known.saturating_add(receipt.known);
                }
                Err(UplinkError::Refused(why)) => {
                    if !self.divide(number, &packed)? {
                        self.spool.refuse(number)?;
                        sent.refused.push(why);
                    }
                }
                Err(error) => {
                    self.wait(now, chance);
                    sent.failed = Some(error);
                    break;
                }
            }
        }
        Ok(sent)
    }

    /// Sends the host's present state.
    ///
    /// # Errors
    /// When the state cannot be packed.
    pub fn tell(
        &mut self,
        uplink: &mut dyn Uplink,
        status: StatusView,
        sent_us: u64,
        now: Duration,
        chance: u32,
    ) -> Result<Option<UplinkError>, PushError> {
        if self.silent_until.unwrap_or(self.not_before) > now {
            return Ok(None);
        }
        let (map, topology) = self.machine.take().map(|machine| (machine.map, machine.topology)).unzip();
        let known = self.told.as_ref().filter(|(_, told)| now.saturating_sub(*told) < TOPOLOGY_EVERY);
        let topology = topology.filter(|topology| known.is_none_or(|(known, _)| known != topology));
        let mut live = Live {
            version: WIRE_VERSION,
            boot: self.boot.clone(),
            sent_us,
            status,
            spool: self.figures(),
            map: map.map(told::bounded_map),
            topology: topology.map(Box::new),
            asked: std::mem::take(&mut self.asked),
        };
        bounds::bound_live(&mut live);
        match uplink.live(&told::pack(&mut live)?) {
            Ok(receipt) => {
                self.backoff.reset();
                self.silence.reset();
                if self.silent_until.take().is_some() {
                    self.not_before = now;
                }
                self.wanted = receipt.wanted;
                self.wanted.truncate(ASKED_MAX);
                if let Some(topology) = live.topology {
                    self.told = Some((*topology, now));
                }
                self.compare(receipt.generation, now, chance);
                Ok(None)
            }
            // A refused state does not delay bundles.
            Err(error @ UplinkError::Refused(_)) => Ok(Some(error)),
            Err(error) => {
                self.wait(now, chance);
                self.silent_until = Some(now.saturating_add(self.silence.pause_by_chance(chance)));
                Ok(Some(error))
            }
        }
    }

    /// Sends all jobs of the daemon again if the hub's database has another generation: a restored copy lacks
    /// acknowledged jobs, and the hub recognizes the jobs that it has. If the generation keeps changing, or two hubs
    /// alternate at an address, repetitions become rarer.
    fn compare(&mut self, generation: Option<u64>, now: Duration, chance: u32) {
        let may_begin = now >= self.not_anew_before;
        if generation.is_none() || generation == self.cursor.generation {
            // With alternating hubs, each hub recurs within that time.
            if now >= self.not_anew_before.saturating_add(LONGEST_PAUSE) {
                self.anew.reset();
            }
            return;
        }
        if !may_begin {
            return;
        }
        let mut cursor = self.cursor.clone();
        let lacks = cursor.generation.is_some();
        cursor.generation = generation;
        if lacks {
            cursor.restart(&self.cursor.origin);
        }
        // If the disk refuses, the hub's next answer repeats this.
        if cursor.save(self.spool.disk(), &self.below).is_ok() {
            self.cursor = cursor;
            if lacks {
                self.not_anew_before = now.saturating_add(self.anew.pause_by_chance(chance));
                (self.told, self.partly) = (None, None);
                // How many are over the next round finds out.
                self.waiting = self.waiting.max(1);
            }
        }
    }

    /// Replaces a refused bundle of several jobs by a bundle per job, so that a bad job does not block other jobs.
    /// Returns whether it did.
    fn divide(&mut self, number: u64, packed: &[u8]) -> Result<bool, PushError> {
        let Ok(whole) = bundle::unpack::<Bundle>(packed, bundle::PLAIN_MAX_BYTES) else { return Ok(false) };
        let jobs: BTreeSet<u64> = whole.parts.iter().map(|part| part.job).collect();
        if jobs.len() < 2 {
            return Ok(false);
        }
        let of_job = |job| {
            let parts = whole.parts.iter().filter(|part| part.job == job).cloned().collect();
            bundle::pack(&Bundle { parts, ..whole.clone() })
        };
        let bundles = jobs.into_iter().map(of_job).collect::<Result<Vec<_>, _>>()?;
        self.spool.replace(number, &bundles)?;
        Ok(true)
    }

    fn wait(&mut self, now: Duration, chance: u32) {
        self.not_before = now.saturating_add(self.backoff.pause_by_chance(chance));
    }

    /// The content of the spool.
    #[must_use]
    pub fn figures(&self) -> SpoolFigures {
        SpoolFigures {
            bundles: self.spool.bundles(),
            bytes: self.spool.held_bytes(),
            max_bytes: self.spool.max_bytes(),
            jobs_waiting: self.waiting,
            refused: self.spool.refused(),
        }
    }

    /// Whether ended jobs remain for the next round.
    #[must_use]
    pub fn is_behind(&self) -> bool {
        self.waiting > 0
    }

    /// Whether the hub has all jobs that had ended at the last look.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.waiting == 0 && self.spool.bundles() == 0
    }
}
