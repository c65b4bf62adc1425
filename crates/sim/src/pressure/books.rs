//! What was asked for, told and decided, kept apart from the judgement, and the promises that each decision must
//! keep. Sizes are bytes, as the judgement has them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use pinfold_policy::{
    Action, Claim, Decision, FULL_FOR, FrozenBy, Instant, JobId, Kind, MemoryReason, MemorySample, PATIENCE,
    Policy, REQUEUES_MAX, Reason, Request, SLOW_FOR, Settings, ShareReason, State,
};

use crate::checks::Violation;

/// What is less than this is nobody's concern.
const WORTH_BYTES: u64 = 4 << 20;
/// The rate of a swap device of which nothing is known.
const ASSUMED_RATE: u64 = 50 << 20;
/// After another's growth, and after a stall, it is not looked at for so long whether a slowed job was frozen too soon.
const GREW_WITHIN: Duration = Duration::from_secs(10);
/// Who does without a part of what it holds did not wait for memory at each reading of this time
const WAITED_WINDOW: Duration = Duration::from_secs(1);
/// for more than this part, in thousandths: twice what is too much in the mean.
const WAITED_MILLI: u16 = 200;
/// What is moved at a time out of one that runs, to see whether it misses it.
const PROBE_BYTES: u64 = 64 << 20;
/// However little a job got on with, the next of its kind is expected to need this part, in thousandths.
const PART_MIN_MILLI: u64 = 125;
/// Over so long what is paged out is added up.
const PAGE_OUT_WINDOW: Duration = Duration::from_secs(2);

/// A job.
#[derive(Debug, Clone)]
pub struct Entry {
    /// As it was asked for.
    pub request: Request,
    /// When it was told to start; `None`: it waits.
    pub started: Option<Instant>,
    /// Whether it was told to stand still.
    pub frozen: bool,
    /// A user had it frozen,
    pub by_user: bool,
    /// or will, once it has begun,
    pub suspended: bool,
    /// Whether it stood still for its user, and for a slot, when it was asked to write: it does again if that fails.
    pub wrote_from: (bool, bool),
    /// or there were fewer slots than jobs.
    pub for_slots: bool,
    /// It stands still for a project that wants its memory back.
    pub taken_back: bool,
    /// It was told to end, to begin anew,
    pub ends: bool,
    /// and how often that was so.
    pub ended: u32,
    /// It was asked to write down what it has done, and has not answered.
    pub writes: bool,
    /// When it was last told to stand still or to go on.
    pub changed: Instant,
    /// In RAM and in swap, as last told,
    pub held: (u64, u64),
    /// and what of the second it is said to get on without.
    pub cold: u64,
    /// For what part of the time it waited for memory at the last readings, in thousandths, each with its time.
    waited: VecDeque<(Instant, u16)>,
    /// The most it held, as told.
    pub peak: u64,
    /// When it was last told to stand still.
    stood: Option<Instant>,
    /// When it was last told to go on.
    pub(super) thawed: Option<Instant>,
    /// Until when it comes back from swap.
    returns_until: Option<Instant>,
    /// When a reading was last above the one before it.
    rose: Option<Instant>,
    /// It was told to grow by no more than it can be held at.
    slowed: Option<Slowed>,
}

/// A job that is slowed.
#[derive(Debug, Clone, Copy)]
struct Slowed {
    since: Instant,
    /// What it may have in RAM.
    bound: u64,
    /// What there was for all jobs then, less what readings since said of it.
    usable: u64,
    least: u64,
    /// When it was let go again.
    let_go: Option<Instant>,
}

/// The books.
#[derive(Debug, Default)]
pub struct Books {
    /// Jobs that are not over.
    pub jobs: BTreeMap<JobId, Entry>,
    /// Jobs that are.
    pub over: BTreeSet<JobId>,
    /// What kinds of jobs need, as told.
    pub learned: BTreeMap<Kind, Claim>,
    /// With what part of what they held the next of a kind are said to get on, in thousandths,
    parts: BTreeMap<Kind, u64>,
    /// and the least with which any did.
    least_parts: BTreeMap<Kind, u64>,
    /// The settings.
    pub settings: Settings,
    /// Who is not to be frozen for memory.
    pub token: Option<JobId>,
    pub(super) usable: Option<u64>,
    pub(super) swap_free: u64,
    swap_rate: u64,
    /// When all were last said to stall.
    stalled: Option<Instant>,
    /// Since when next to nothing was free.
    full: Option<Instant>,
    /// The token holder was frozen in this step,
    holder_frozen: Option<JobId>,
    /// or paged out.
    holder_paged: Option<JobId>,
    /// Who was slowed in this step, and by how much more each may grow.
    bounds: Vec<(JobId, u64)>,
    paged: VecDeque<(Instant, u64)>,
}

impl Entry {
    fn stands_still(&mut self, reason: &Reason, asked: bool, now: Instant) {
        self.stood = self.stood.filter(|_| self.frozen).or(Some(now));
        let (by_user, for_slots) = if self.writes { self.wrote_from } else { (false, false) };
        // What is tried again has the cause that it had.
        let again = self.for_slots && self.frozen && matches!(reason, Reason::Retry { .. });
        self.for_slots = matches!(reason, Reason::SlotsShrank { .. }) || for_slots || again;
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

    /// A new judgement knows nothing.
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

    /// Readings were told.
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

    /// A job is over.
    pub fn over(&mut self, job: JobId) -> Result<(), Violation> {
        if self.jobs.remove(&job).is_none() || !self.over.insert(job) {
            return Err(Violation::new("a job ends once", format!("job {job}")));
        }
        Ok(())
    }

    /// A user wants a job to stand still.
    pub fn suspended(&mut self, job: JobId) {
        self.change(job, |entry| (entry.by_user, entry.suspended) = (entry.by_user || entry.frozen, true));
    }

    /// He does not any more.
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

    /// The youngest that runs, does not go first, and is not known to get on without a part of what it holds.
    pub(crate) fn youngest_that_needs_all(&self) -> Option<JobId> {
        let all = |job: &JobId, entry: &Entry| {
            entry.started.is_some() && !entry.frozen && entry.cold == 0 && Some(*job) != self.token
        };
        let running = self.jobs.iter().filter(|(job, entry)| all(job, entry));
        running.max_by_key(|(job, entry)| (entry.started, **job)).map(|(&job, _)| job)
    }

    /// Takes a decision in, and says what it breaks.
    pub fn decided(&mut self, decision: &Decision, now: Instant) -> Result<(), Violation> {
        let Decision { job, action, reason } = decision;
        let wrong = |rule| Err(Violation::new(rule, format!("job {job}: {action:?}, {reason}")));
        let Some(entry) = self.jobs.get(job) else { return wrong("decisions are about jobs there are") };
        let started = entry.started.is_some();
        match action {
            Action::Start { .. } if started => return wrong("a job starts once"),
            Action::Start { .. } => {
                let against = match reason {
                    Reason::Memory(MemoryReason::Overcommitted { .. }) => self.against_early(*job, now),
                    _ => self.against_admission(*job, now),
                };
                if let Some(found) = against {
                    return Err(Violation::new("nothing starts that memory does not suffice for", found));
                }
                self.change(*job, |entry| entry.started = Some(now));
            }
            Action::Drop { .. } => return wrong("nothing is dropped here"),
            _ if !started => return wrong("nothing is asked of a job that waits"),
            _ if entry.ends => return wrong("nothing is asked of a job that is being ended"),
            Action::Checkpoint | Action::Requeue => self.last_steps(decision, now)?,
            Action::Freeze => {
                let again = matches!(reason, Reason::Retry { .. }) && entry.by_user;
                let asked = *reason == Reason::Asked || again;
                if !asked && entry.request.no_suspend {
                    return wrong("who may not be frozen is not");
                }
                let for_slots = matches!(reason, Reason::SlotsShrank { .. });
                if let (Some(found), Reason::Memory(MemoryReason::Short { .. })) =
                    (self.too_soon(*job, now), reason)
                {
                    return Err(Violation::new("nobody stands still whom a bound holds", found));
                }
                // One that got the token while it stood still does so until it has its slots, and a failed try is made again.
                let stands = entry.frozen && matches!(reason, Reason::Retry { .. });
                if !asked && !for_slots && !stands && self.token == Some(*job) {
                    // Unless the token passes to another in this step, which is told at its end.
                    self.holder_frozen = Some(*job);
                }
                self.change(*job, |entry| entry.stands_still(reason, asked, now));
            }
            Action::Thaw => self.thawed(*job, now),
            Action::PageOut { bytes } => {
                if self.token == Some(*job) {
                    // Unless the token passes to another in this step, which is told at its end.
                    self.holder_paged = Some(*job);
                }
                let probed =
                    matches!(reason, Reason::Memory(MemoryReason::Probed { .. })) && *bytes <= PROBE_BYTES;
                if !entry.frozen && (entry.request.no_suspend || (entry.cold == 0 && !probed)) {
                    return wrong("only who stands still, or gets on without, is paged out");
                }
                self.paged_out(*bytes, now)?;
            }
            Action::Slow { allowance: Some(_) } => {
                if self.token == Some(*job) || entry.frozen {
                    return wrong("only who runs and does not go first is slowed");
                }
                if self.swap_free < WORTH_BYTES {
                    return wrong("nobody is slowed whose pages have nowhere to go");
                }
                self.slowed(decision, now);
            }
            Action::Slow { allowance: None } => self.change(*job, |entry| {
                if let Some(slowed) = &mut entry.slowed {
                    slowed.let_go = Some(now);
                }
            }),
            Action::Protect { .. } => {}
            Action::Near { .. } => return wrong("nobody is bound to nodes where none was read"),
            Action::Bind { .. } | Action::Weigh { .. } | Action::Signal { .. } => {}
        }
        Ok(())
    }

    fn slowed(&mut self, decision: &Decision, now: Instant) {
        if let (Action::Slow { allowance: Some(allowance) }, Some(usable)) = (&decision.action, self.usable) {
            self.bounds.push((decision.job, *allowance));
            self.change(decision.job, |entry| {
                let bound = entry.held.0 + allowance;
                entry.slowed = Some(Slowed { since: now, bound, usable, least: usable, let_go: None });
            });
        }
    }

    /// The bound of a job is one that it can come to while there is memory. Looked at when all of a step was told, for who
    /// stands still from then on is told after it.
    fn check_bounds(&mut self) -> Result<(), Violation> {
        let bounds = std::mem::take(&mut self.bounds);
        let Some(usable) = self.usable else { return Ok(()) };
        let runs = |entry: &&Entry| entry.started.is_some() && !entry.frozen;
        let held: u64 = self.jobs.values().filter(runs).map(|entry| entry.held.0).sum();
        let too_wide = bounds.into_iter().find(|(_, allowance)| *allowance > usable.saturating_sub(held));
        match too_wide {
            Some((job, allowance)) => {
                let found = format!("job {job}: {allowance} bytes more, {held} held of {usable}");
                Err(Violation::new("a bound is reached before memory is short", found))
            }
            None => Ok(()),
        }
    }

    /// The kernel did not take a bound, and so holds nobody there.
    pub(crate) fn not_slowed(&mut self, job: JobId) {
        self.change(job, |entry| entry.slowed = None);
    }

    /// Why a slowed job is frozen for memory too soon: its bound holds it, and there is nobody and nothing else that memory
    /// could have become short by since. Only told where no job's need is known, so that growth is all that counts.
    fn too_soon(&self, job: JobId, now: Instant) -> Option<String> {
        let entry = self.jobs.get(&job)?;
        // Who stands still instead is let go in the same step.
        let slowed = entry.slowed.filter(|slowed| slowed.let_go.is_none_or(|at| at == now))?;
        let lately = |at: Option<Instant>| at.is_some_and(|at| now.since(at) <= GREW_WITHIN);
        let holds = entry.held.0 <= slowed.bound.saturating_add(WORTH_BYTES) && self.swap_free >= WORTH_BYTES;
        let others = || self.jobs.iter().filter(|(other, entry)| **other != job && entry.started.is_some());
        let known = |entry: &Entry| entry.request.memory.is_some() || entry.request.kind.is_some();
        let came = |entry: &Entry| entry.started.max(entry.thawed).is_some_and(|at| at >= slowed.since);
        let grew = others().any(|(_, entry)| known(entry) || lately(entry.rose) || came(entry));
        // What stands still and swap does not take, too, is memory that is gone.
        let standing: u64 = others().filter(|(_, entry)| entry.frozen).map(|(_, entry)| entry.held.0).sum();
        let other_cause = known(entry) || grew || lately(self.stalled) || slowed.least < slowed.usable;
        if !holds || other_cause || standing > self.swap_free || now.since(slowed.since) >= SLOW_FOR {
            return None;
        }
        Some(format!("job {job}, at {} of {} bytes", entry.held.0, slowed.bound))
    }

    /// A job is asked to write down what it has done, or ended to begin anew.
    fn last_steps(&mut self, decision: &Decision, now: Instant) -> Result<(), Violation> {
        let Decision { job, action, reason } = decision;
        let wrong = |rule| Err(Violation::new(rule, format!("job {job}: {action:?}, {reason}")));
        let Some(entry) = self.jobs.get(job) else { return Ok(()) };
        let writes = *action == Action::Checkpoint;
        if !writes && *reason == Reason::Memory(MemoryReason::Checkpointed) {
            if !entry.writes {
                return wrong("only who wrote down what it had done is ended for that");
            }
            self.change(*job, |entry| (entry.ends, entry.writes) = (true, false));
            return Ok(());
        }
        if writes && (entry.request.checkpoint.is_none() || entry.writes) {
            return wrong("only who can writes down what it has done, and once at a time");
        }
        if !writes && (!entry.request.requeue || entry.ended >= REQUEUES_MAX) {
            return wrong("only who allowed it is ended to begin anew, and not for ever");
        }
        if self.token == Some(*job) {
            return wrong("who goes first is not ended, nor asked to write");
        }
        if self.swap_free >= WORTH_BYTES {
            return wrong("nobody is ended, nor writes, while swap takes more");
        }
        if let Some((other, _)) = self.could_be_frozen(*job).next() {
            let found = format!("job {job}, and job {other} runs");
            return Err(Violation::new("nobody is ended, nor writes, while another can be frozen", found));
        }
        if writes {
            let stood = (entry.by_user, entry.for_slots);
            self.thawed(*job, now);
            self.change(*job, |entry| entry.wrote_from = stood);
        }
        self.change(*job, |entry| {
            (entry.ends, entry.writes, entry.ended) = (!writes, writes, entry.ended + u32::from(!writes));
        });
        Ok(())
    }

    /// Those who run and hold memory beside the token holder and this one, though they may be frozen.
    fn could_be_frozen(&self, but: JobId) -> impl Iterator<Item = (JobId, &Entry)> {
        let runs = |job: &JobId, entry: &Entry| {
            let held = entry.started.is_some() && entry.held.0 >= WORTH_BYTES;
            held && !entry.frozen
                && !entry.ends
                && !entry.writes
                && !entry.request.no_suspend
                // Whoever it falls to in this very step is not to be frozen.
                && self.token.is_some_and(|token| token != *job)
        };
        self.jobs
            .iter()
            .filter(move |(job, entry)| **job != but && runs(job, entry))
            .map(|(&job, entry)| (job, entry))
    }

    /// A job that was told to end waits again.
    pub fn requeued(&mut self, job: JobId) {
        self.change(job, |entry| {
            (entry.started, entry.frozen, entry.by_user, entry.for_slots) = (None, false, false, false);
            (entry.writes, entry.taken_back) = (false, false);
            (entry.ends, entry.held, entry.thawed, entry.returns_until) = (false, (0, 0), None, None);
            // What it came to hold is known from now on.
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

    /// Only so many come back from swap at a time, beside the token holder, who never waits.
    fn check_returns(&self, now: Instant) -> Result<(), Violation> {
        let comes = |entry: &Entry| {
            let returns = entry.returns_until.is_some_and(|until| until > now);
            returns && !entry.frozen && !entry.ends
        };
        let all = self.jobs.iter().filter(|(job, entry)| Some(**job) != self.token && comes(entry));
        let coming: Vec<JobId> = all.map(|(&job, _)| job).collect();
        if coming.len() > self.settings.memory.swap_slot.max(1) as usize {
            return Err(Violation::new("no more return from swap at a time than may", format!("{coming:?}")));
        }
        Ok(())
    }

    /// What is paged out goes out at a bounded rate.
    fn paged_out(&mut self, bytes: u64, now: Instant) -> Result<(), Violation> {
        let takes_us = |bytes: u64| bytes * 1_000_000 / self.rate();
        let (one_us, worth_us) = (takes_us(bytes), takes_us(WORTH_BYTES));
        self.paged.push_back((now, one_us));
        while self.paged.front().is_some_and(|(at, _)| now.since(*at) > PAGE_OUT_WINDOW) {
            self.paged.pop_front();
        }
        let sum_us: u64 = self.paged.iter().map(|(_, one_us)| one_us).sum();
        // What began before the window, and what is ordered for after it.
        let most_us = u64::try_from(PAGE_OUT_WINDOW.as_micros()).unwrap_or(u64::MAX) + 2 * worth_us;
        if sum_us > most_us {
            let found = format!("{sum_us} us of the device's time in 2 s, at {} MiB/s", self.rate() >> 20);
            return Err(Violation::new("no more is paged out than the device takes", found));
        }
        Ok(())
    }

    /// What a job is expected to need, by what was told of it.
    fn claim_on_all(&self, entry: &Entry) -> Option<Claim> {
        if !self.settings.memory.prediction {
            return None;
        }
        let learned = entry.request.kind.and_then(|kind| self.learned.get(&kind)).copied();
        let asked = entry.request.memory.map(Claim::of);
        let floor = entry.request.memory.filter(|_| learned.is_none_or(|claim| !claim.is_evidence()));
        learned.map(|claim| claim.at_least(floor.unwrap_or(0))).or(asked)
    }

    /// The same, but for what it may get on without.
    fn claim(&self, entry: &Entry) -> Option<Claim> {
        let claim = self.claim_on_all(entry)?;
        let part = entry.request.kind.and_then(|kind| self.parts.get(&kind)).copied().unwrap_or(1000);
        Some(Claim { usual_bytes: claim.usual_bytes.min(claim.most_bytes / 1000 * part), ..claim })
    }

    /// What a job is expected to come to hold, RAM and swap together.
    pub(super) fn comes_to_hold(&self, entry: &Entry) -> u64 {
        self.counts_for(entry).max(self.claim_on_all(entry).map_or(0, |claim| claim.held_bytes))
    }

    pub(super) fn counts_for(&self, entry: &Entry) -> u64 {
        let claim = self.claim(entry).unwrap_or_default();
        let usual = if entry.request.no_suspend { claim.most_bytes } else { claim.usual_bytes };
        let needs = entry.held.0 + entry.held.1 - entry.cold.min(entry.held.1);
        if entry.cold > 0 && !entry.request.no_suspend { needs } else { needs.max(usual) }
    }

    /// What speaks against a start (ALGORITHMS A2.2), counted from scratch.
    fn against_admission(&self, job: JobId, now: Instant) -> Option<String> {
        let usable = self.usable?;
        let entry = self.jobs.get(&job)?;
        let live = || self.jobs.iter().filter(|(_, entry)| entry.started.is_some());
        // Starts are told last, and who is told to go on at the same time may have been let go after them.
        // One that was let go to write down what it had done is ended as it runs, and needs no more.
        let stands = |entry: &Entry| entry.frozen || entry.ends || entry.thawed == Some(now);
        let running: Vec<&Entry> = live().filter(|(_, e)| !stands(e)).map(|(_, e)| e).collect();
        if running.is_empty() {
            return None;
        }
        let wanted = self.counts_for(entry);
        let taken: u64 = running.iter().map(|entry| self.counts_for(entry)).sum();
        let standing: u64 = live().filter(|(_, e)| stands(e)).map(|(_, e)| e.held.0).sum();
        if wanted > 0 && taken + standing + wanted > usable {
            return Some(format!("job {job}: {taken} + {standing} + {wanted} of {usable} bytes"));
        }
        let kept = self.kept_beside(entry);
        if wanted > 0 && taken + standing + wanted + kept > usable {
            return Some(format!(
                "job {job}: {wanted} bytes, and {kept} are other projects' and could not come back"
            ));
        }
        let waits = |entry: &Entry| entry.frozen && !entry.by_user && !entry.for_slots && !entry.ends;
        // Who had borrowed what is the newcomer's project's own keeps nobody of it from starting.
        let frozen = live().find(|(_, first)| waits(first) && !self.gave_back(first, entry, wanted, now));
        if let Some((first, _)) = frozen.filter(|_| wanted == 0) {
            return Some(format!("job {job} is unknown and job {first} stands still"));
        }
        if wanted == 0 { None } else { self.against_succession(job, self.comes_to_hold(entry), now, usable) }
    }

    /// What speaks against a start beside those who have not come to need yet what they may: it fits beside what all hold
    /// so far, swap takes it whole, and it can be moved there.
    fn against_early(&self, job: JobId, now: Instant) -> Option<String> {
        let (usable, entry) = (self.usable?, self.jobs.get(&job)?);
        let wanted = self.counts_for(entry);
        let live = || self.jobs.iter().filter(|(_, entry)| entry.started.is_some());
        let held: u64 = live().map(|(_, entry)| entry.held.0).sum();
        if entry.request.no_suspend || self.claim(entry).is_none() {
            return Some(format!(
                "job {job} starts early, and may not stand still, or nothing is known of it"
            ));
        }
        if held + wanted + self.kept_beside(entry) > usable || self.comes_to_hold(entry) > self.swap_free {
            let swap = self.swap_free;
            return Some(format!("job {job} starts early: {wanted} beside {held} of {usable}, swap {swap}"));
        }
        let waits = |entry: &Entry| {
            let stands = entry.frozen && entry.thawed != Some(now);
            stands && !entry.by_user && !entry.for_slots && !entry.ends
        };
        if let Some((first, _)) = live().find(|(_, entry)| waits(entry)) {
            return Some(format!("job {job} starts early and job {first} stands still"));
        }
        self.against_succession(job, self.comes_to_hold(entry), now, usable)
    }

    /// Who could not be given all that it may need with a newcomer of this size: the token holder, or one who holds the
    /// token after it, when those before it have ended.
    fn against_succession(&self, job: JobId, wanted: u64, now: Instant, usable: u64) -> Option<String> {
        let out = |entry: &Entry| entry.by_user || entry.suspended || entry.for_slots || entry.ends;
        let token = self.token.filter(|token| self.jobs.get(token).is_some_and(|entry| !out(entry)))?;
        let live = |id: &JobId, entry: &Entry| entry.started.is_some() || *id == job;
        let mut order: Vec<(JobId, &Entry)> =
            self.jobs.iter().filter(|(id, entry)| live(id, entry)).map(|(&id, entry)| (id, entry)).collect();
        order.sort_by_key(|(id, entry)| {
            let started = entry.started.unwrap_or(now);
            (*id != token, u8::MAX - entry.request.priority, started, *id)
        });
        let swapped: u64 = order.iter().map(|(_, entry)| entry.held.1).sum();
        let holds =
            |id: JobId, entry: &Entry| entry.held.0 + entry.held.1 + if id == job { wanted } else { 0 };
        for (place, &(id, entry)) in order.iter().enumerate() {
            // Who stands still for another cause may hold the token before or after this one: it counts for the first
            // only.
            let counts = |other: &&(JobId, &Entry)| place == 0 || !out(other.1);
            let behind = order[place + 1..].iter().filter(counts);
            let behind: u64 = behind.map(|&(id, entry)| holds(id, entry)).sum();
            let most = self.claim(entry).map_or(0, |claim| claim.most_bytes).max(entry.held.0 + entry.held.1);
            let room = self.swap_free + swapped + usable.saturating_sub(most);
            if behind > room && !out(entry) {
                return Some(format!("job {job}: {behind} cannot all be moved out for job {id}: {room}"));
            }
        }
        None
    }

    /// Takes in what each is said to get on without; nobody is said to do so who waits for it, or does not have it in swap.
    pub(crate) fn note_cold(&mut self, policy: &Policy, now: Instant) -> Result<(), Violation> {
        for (&job, entry) in &mut self.jobs {
            entry.cold = policy.job(job).map_or(0, |info| info.cold_bytes);
            let waits = entry.waited.iter().map(|&(_, waited)| waited).min();
            // Who returns waits for what it does not get on without, twice as long as that takes alone at the most.
            let takes =
                entry.thawed.zip(entry.returns_until).map_or(Duration::ZERO, |(at, until)| until.since(at));
            let returns = entry.thawed.is_some_and(|at| now.since(at) <= GREW_WITHIN + takes * 2);
            if entry.cold > entry.held.1
                || (entry.cold > 0
                    && !entry.frozen
                    && !returns
                    && waits.is_none_or(|least| least > WAITED_MILLI))
            {
                let found = format!("job {job}: {} of {} bytes, waits {waits:?}", entry.cold, entry.held.1);
                return Err(Violation::new("what a job waits for is not cold", found));
            }
        }
        Ok(())
    }

    /// Takes in what the next of each kind are said to get on with: no less than one of it did.
    pub(crate) fn note_parts(&mut self, policy: &Policy) -> Result<(), Violation> {
        for entry in self.jobs.values().filter(|entry| entry.cold > 0) {
            let Some(kind) = entry.request.kind else { continue };
            let all = entry.held.0 + entry.held.1;
            let part = ((all - entry.cold.min(all)) * 1000 / all.max(1)).max(PART_MIN_MILLI);
            let least = self.least_parts.entry(kind).or_insert(part);
            *least = (*least).min(part);
        }
        self.parts.clear();
        let kinds = self.jobs.values().filter_map(|entry| entry.request.kind);
        self.parts.extend(kinds.filter_map(|kind| Some((kind, u64::from(policy.part_of(kind)?)))));
        let least = |kind: &Kind| self.least_parts.get(kind).copied();
        match self.parts.iter().find(|&(kind, &said)| least(kind).is_none_or(|least| said < least)) {
            Some((kind, said)) => {
                let found = format!("{kind:?}: {said}, {:?}", least(kind));
                Err(Violation::new("a kind gets on with no less than its jobs did", found))
            }
            None => Ok(()),
        }
    }

    /// Whether all stall, or seem to where nobody says so, nobody but the token holder could be frozen, and `new` is the
    /// foremost of those who may never be.
    fn goes_on_anyway(&self, new: JobId, was: JobId, now: Instant) -> bool {
        let seems = || self.full.is_some_and(|since| now.since(since) >= FULL_FOR);
        let stalls = self.stalled.map_or_else(seems, |at| now.since(at) <= GREW_WITHIN);
        let stays = |entry: &Entry| {
            entry.request.no_suspend && entry.started.is_some() && !entry.frozen && !entry.ends
        };
        let worth = |entry: &Entry| entry.held.0 + entry.held.1 >= WORTH_BYTES;
        let others = self.jobs.iter().filter(|(_, entry)| stays(entry) && worth(entry));
        let foremost = others.min_by_key(|(job, e)| (u8::MAX - e.request.priority, e.started, **job));
        let holder = self.jobs.get(&was).is_some_and(|entry| !entry.request.no_suspend);
        stalls
            && holder
            // Who returns in the same step does so after that.
            && self.could_be_frozen(new).all(|(_, entry)| entry.thawed == Some(now))
            && foremost.is_some_and(|(job, _)| *job == new)
    }

    /// At the end of each step: the bounds that were set, and the token, which stays with whoever has it and falls to the
    /// foremost of those that there are.
    pub fn check_step(&mut self, policy: &Policy, now: Instant) -> Result<(), Violation> {
        self.check_bounds()?;
        let token = policy.memory_token();
        let keeps = |entry: &Entry| {
            // One that writes down what it has done, from where it stood for another cause, stands there still.
            let (by_user, for_slots) = if entry.writes { entry.wrote_from } else { (false, false) };
            let stands = entry.by_user || entry.for_slots || by_user || for_slots;
            entry.started.is_some() && !stands && !entry.ends
        };
        // Who stood still for long enough goes before the holder.
        let patient = |new: JobId, was: JobId| {
            let (Some(new), Some(was)) = (self.jobs.get(&new), self.jobs.get(&was)) else { return false };
            let above = u32::from(was.request.priority).saturating_sub(u32::from(new.request.priority)) + 1;
            new.stood.is_some_and(|since| now.since(since) >= PATIENCE * above)
        };
        let passes = |was, new| was != new && (patient(new, was) || self.goes_on_anyway(new, was, now));
        let passed = self.token.zip(token).is_some_and(|(was, new)| passes(was, new));
        if let Some(was) = self.token.filter(|was| self.jobs.get(was).is_some_and(keeps))
            && token != Some(was)
            && !passed
        {
            return Err(Violation::new("the token stays where it is", format!("from {was} to {token:?}")));
        }
        if token != self.token
            && !passed
            && let Some(new) = token
        {
            let key = |job: &JobId, entry: &Entry| (u8::MAX - entry.request.priority, entry.started, *job);
            let old = |entry: &Entry| keeps(entry) && entry.started < Some(now) && entry.changed < now;
            let foremost = self.jobs.iter().filter(|(_, e)| old(e)).map(|(job, e)| key(job, e)).min();
            let chosen = self.jobs.get(&new).map(|entry| key(&new, entry));
            if foremost < chosen && foremost.is_some() {
                let found = format!("job {new}, and {foremost:?} was before it");
                return Err(Violation::new("the token falls to the foremost", found));
            }
        }
        if let Some(job) = self.holder_paged.take().filter(|job| token == Some(*job)) {
            return Err(Violation::new("the token holder is not paged out", format!("job {job}")));
        }
        if let Some(job) = self.holder_frozen.take().filter(|job| token == Some(*job)) {
            return Err(Violation::new("the token holder is not frozen", format!("job {job}")));
        }
        self.token = token;
        let info = token.and_then(|job| policy.job(job));
        if let Some(info) = info.filter(|info| info.state == (State::Frozen { by: FrozenBy::Policy })) {
            // Others may have got its slots while it stood still; it is the next then.
            let (used, slots) = policy.slots();
            if used + info.cores as usize <= slots {
                return Err(Violation::new(
                    "the token holder runs",
                    format!("job {} stands still", info.job),
                ));
            }
        }
        self.check_returns(now)
    }
}
