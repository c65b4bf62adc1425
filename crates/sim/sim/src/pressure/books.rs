//! Requests, reports and decisions, kept apart from the policy, and invariants of each decision. Sizes in bytes, as in the
//! policy.

mod admission;
mod decided;
mod step;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use pinfold_policy::{
    AgainReason, Claim, Instant, JobId, Kind, MemorySample, Reason, Request, Settings, ShareReason,
    SlotReason,
};

use crate::violation::Violation;

/// A negligible amount of memory.
const WORTH_BYTES: u64 = 4 << 20;
/// The rate of a swap device of which nothing is known.
const ASSUMED_RATE: u64 = 50 << 20;
/// After another's growth, and after a stall, it is not looked at for so long whether a slowed job was frozen too soon.
const GREW_WITHIN: Duration = Duration::from_secs(10);
/// A cold-tolerant job did not wait for memory at each reading of this time.
const WAITED_WINDOW: Duration = Duration::from_secs(1);

/// A job.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The request.
    pub request: Request,
    /// The time of its start decision; `None`: it waits.
    pub started: Option<Instant>,
    /// Whether a freeze was decided.
    pub frozen: bool,
    /// A user had it frozen.
    pub by_user: bool,
    /// A user wants it frozen as soon as it runs.
    pub suspended: bool,
    /// Whether it was frozen for its user, and for a slot, at its checkpoint request. After a failed checkpoint it is
    /// frozen again.
    pub wrote_from: (bool, bool),
    /// Whether it is frozen for lack of slots.
    pub for_slots: bool,
    /// Whether it is frozen for a project that reclaims its memory.
    pub taken_back: bool,
    /// Whether it is being killed for a requeue.
    pub ends: bool,
    /// The number of requeues.
    pub ended: u32,
    /// Whether a checkpoint is requested, and not answered.
    pub writes: bool,
    /// The time of the last freeze or thaw decision.
    pub changed: Instant,
    /// Its bytes in RAM and in swap, by the last reading.
    pub held: (u64, u64),
    /// Its swapped bytes reported as cold.
    pub cold: u64,
    /// The parts of time that it waited for memory at the last readings, in thousandths, each with its time.
    waited: VecDeque<(Instant, u16)>,
    /// Its peak, as reported.
    pub peak: u64,
    /// The time of the last freeze decision.
    stood: Option<Instant>,
    /// The time of the last thaw decision.
    pub(super) thawed: Option<Instant>,
    /// Until when it comes back from swap.
    returns_until: Option<Instant>,
    /// The time of the last reading above its predecessor.
    rose: Option<Instant>,
    /// Its throttle, if any.
    slowed: Option<Slowed>,
}

/// The throttle of a job.
#[derive(Debug, Clone, Copy)]
struct Slowed {
    since: Instant,
    /// Its bound on RAM, in bytes.
    bound: u64,
    /// The memory usable by all jobs then, in bytes.
    usable: u64,
    /// The fewest that readings have said since.
    least: u64,
    /// The time of its release.
    let_go: Option<Instant>,
}

/// The books.
#[derive(Debug, Default)]
pub struct Books {
    /// Jobs that are not over.
    pub jobs: BTreeMap<JobId, Entry>,
    /// Jobs that are.
    pub over: BTreeSet<JobId>,
    /// Needs of job classes, as reported.
    pub learned: BTreeMap<Kind, Claim>,
    /// The part of their memory that the next of a kind are said to need, in thousandths.
    parts: BTreeMap<Kind, u64>,
    /// The least part that any of a kind needed, in thousandths.
    least_parts: BTreeMap<Kind, u64>,
    /// The settings.
    pub settings: Settings,
    /// The job that is not to be frozen for memory.
    pub token: Option<JobId>,
    pub(super) usable: Option<u64>,
    pub(super) swap_free: u64,
    swap_rate: u64,
    /// The last report that all jobs stalled.
    stalled: Option<Instant>,
    /// Since when next to nothing was free.
    full: Option<Instant>,
    /// The token holder that was frozen in this step.
    holder_frozen: Option<JobId>,
    /// The token holder that was paged out in this step.
    holder_paged: Option<JobId>,
    /// Jobs throttled in this step, each with its allowance in bytes.
    bounds: Vec<(JobId, u64)>,
    paged: VecDeque<(Instant, u64)>,
}

/// Whether a job is frozen for want of a slot, and not of memory.
fn is_for_slots(reason: &Reason) -> bool {
    matches!(reason, Reason::Slot(SlotReason::SlotsShrank { .. } | SlotReason::Preempted { .. }))
}

impl Entry {
    fn stands_still(&mut self, reason: &Reason, asked: bool, now: Instant) {
        self.stood = self.stood.filter(|_| self.frozen).or(Some(now));
        let (by_user, for_slots) = if self.writes { self.wrote_from } else { (false, false) };
        // A retry has the cause of the first try.
        let again =
            self.for_slots && self.frozen && matches!(reason, Reason::Again(AgainReason::Retry { .. }));
        self.for_slots = is_for_slots(reason) || for_slots || again;
        (self.frozen, self.by_user, self.changed) = (true, asked || by_user, now);
        self.taken_back |= matches!(reason, Reason::Share(ShareReason::MemoryReclaimed { .. }));
        (self.writes, self.returns_until) = (false, None);
    }
}

impl Books {
    /// Empty books.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self { settings, ..Self::default() }
    }

    /// A job was asked for, or found again.
    pub fn submitted(&mut self, request: Request, started: Option<Instant>, now: Instant) {
        let (job, held) = (request.job, (0, 0));
        let entry = Entry {
            started,
            frozen: false,
            by_user: false,
            suspended: false,
            wrote_from: (false, false),
            for_slots: false,
            taken_back: false,
            ends: false,
            writes: false,
            ended: request.requeues,
            changed: now,
            held,
            cold: 0,
            waited: VecDeque::new(),
            peak: 0,
            stood: None,
            thawed: None,
            returns_until: None,
            rose: None,
            slowed: None,
            request,
        };
        self.jobs.insert(job, entry);
    }

    /// A new policy knows nothing.
    pub fn begin_anew(&mut self) {
        (self.token, self.usable, self.swap_free, self.swap_rate) = (None, None, 0, 0);
        (self.stalled, self.full) = (None, None);
        self.bounds.clear();
        (self.holder_frozen, self.holder_paged) = (None, None);
        self.learned.clear();
        self.parts.clear();
        self.least_parts.clear();
        self.paged.clear();
        self.jobs.clear();
    }

    /// Records reported readings.
    pub fn measured(&mut self, sample: &MemorySample, now: Instant) {
        for memory in &sample.jobs {
            if let Some(entry) = self.jobs.get_mut(&memory.job).filter(|entry| entry.started.is_some()) {
                if memory.resident_bytes + memory.swapped_bytes > entry.held.0 + entry.held.1 {
                    entry.rose = Some(now);
                }
                entry.held = (memory.resident_bytes, memory.swapped_bytes);
                entry.peak = entry.peak.max(memory.resident_bytes + memory.swapped_bytes);
                if let Some(waited) = memory.waited_milli {
                    entry.waited.push_back((now, waited));
                }
                while entry.waited.front().is_some_and(|(at, _)| now.since(*at) > WAITED_WINDOW) {
                    entry.waited.pop_front();
                }
            }
        }
        let resident: u64 = self.jobs.values().map(|entry| entry.held.0).sum();
        let host = resident + sample.available_bytes;
        let usable = host.min(self.settings.memory.budget_bytes);
        self.usable = Some(usable);
        if sample.stalled_milli > 0 {
            self.stalled = Some(now);
        }
        let full = sample.available_bytes < WORTH_BYTES;
        self.full = if full { self.full.or(Some(now)) } else { None };
        for slowed in self.jobs.values_mut().filter_map(|entry| entry.slowed.as_mut()) {
            slowed.least = slowed.least.min(usable);
        }
        (self.swap_free, self.swap_rate) = (sample.swap_free_bytes, sample.swap_bytes_per_s);
    }

    /// Records the end of a job.
    pub fn over(&mut self, job: JobId) -> Result<(), Violation> {
        if self.jobs.remove(&job).is_none() || !self.over.insert(job) {
            return Err(Violation::new("a job ends once", format!("job {job}")));
        }
        Ok(())
    }

    /// A user wants a job frozen.
    pub fn suspended(&mut self, job: JobId) {
        self.change(job, |entry| (entry.by_user, entry.suspended) = (entry.by_user || entry.frozen, true));
    }

    /// A user does not want a job frozen any more.
    pub fn resumed(&mut self, job: JobId) {
        self.change(job, |entry| entry.suspended = false);
    }

    /// The first that waits.
    pub(crate) fn first_waiting(&self) -> Option<JobId> {
        self.jobs.iter().find(|(_, entry)| entry.started.is_none()).map(|(&job, _)| job)
    }

    /// The oldest that runs.
    pub(crate) fn oldest_running(&self) -> Option<JobId> {
        let running = self.jobs.iter().filter(|(_, entry)| entry.started.is_some() && !entry.frozen);
        running.min_by_key(|(job, entry)| (entry.started, **job)).map(|(&job, _)| job)
    }

    /// The youngest running job that is not the token holder, without a part known to be cold.
    pub(crate) fn youngest_that_needs_all(&self) -> Option<JobId> {
        let all = |job: &JobId, entry: &Entry| {
            entry.started.is_some() && !entry.frozen && entry.cold == 0 && Some(*job) != self.token
        };
        let running = self.jobs.iter().filter(|(job, entry)| all(job, entry));
        running.max_by_key(|(job, entry)| (entry.started, **job)).map(|(&job, _)| job)
    }

    /// The kernel refused a bound, so that the job is not throttled.
    pub(crate) fn not_slowed(&mut self, job: JobId) {
        self.change(job, |entry| entry.slowed = None);
    }

    /// A job killed for a requeue waits again.
    pub fn requeued(&mut self, job: JobId) {
        self.change(job, |entry| {
            (entry.started, entry.frozen, entry.by_user, entry.for_slots) = (None, false, false, false);
            (entry.writes, entry.taken_back) = (false, false);
            (entry.ends, entry.held, entry.thawed, entry.returns_until) = (false, (0, 0), None, None);
            // Its peak is known from now on.
            entry.request.memory = entry.request.memory.max(Some(entry.peak));
        });
    }

    fn change(&mut self, job: JobId, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.jobs.get_mut(&job) {
            change(entry);
        }
    }

    pub(super) fn rate(&self) -> u64 {
        if self.swap_rate == 0 { ASSUMED_RATE } else { self.swap_rate }
    }

    fn thawed(&mut self, job: JobId, now: Instant) {
        let rate = self.rate();
        let Some(entry) = self.jobs.get_mut(&job) else { return };
        let again = !entry.frozen;
        entry.thawed = Some(now);
        (entry.writes, entry.taken_back) = (false, false);
        (entry.frozen, entry.by_user, entry.for_slots, entry.changed) = (false, false, false, now);
        let missing = entry.held.1 - entry.cold;
        if !again && missing >= WORTH_BYTES {
            let takes = Duration::from_micros(missing * 1_000_000 / rate);
            entry.returns_until = Some(now.after(takes));
        }
    }
}
