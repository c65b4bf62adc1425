//! Memory, as the scheduler's memory room needs it: readings, at a pace that follows from how scarce it is; the bound on
//! all jobs; and what is to be paged out (`pager`).
//!
//! Owns the readings' timer. What is decided from them is the scheduler's.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::time::Instant as Moment;

use pinfold_policy::{Event as SchedulerEvent, JobId, JobMemory, MemorySample, MemorySettings, Policy};
use pinfold_profile::report::size;
use pinfold_proto::JobState;
use pinfold_proto::quantity::show_size;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::container::{Applied, Container, Containers};
use pinfold_sys::procfs::PressureResource;

use crate::core::poller::Ready;
use crate::core::{Ctx, Next, Outbox, Refusal, in_full};
use crate::jobs::{JobTable, Jobs};
use crate::meters::pager::Pager;
use crate::meters::witness::Witness;
use crate::store::journal::Journal;

/// Memory is read this often while it is plentiful,
const RELAXED_US: u64 = 1_000_000;
/// and this often while it is not, in microseconds.
const TIGHT_US: u64 = 100_000;
/// It is asked for how long a job waits for memory only if it holds so much, and while memory is tight: that is one more file
/// of each job at each reading.
const WAITS_BYTES: u64 = 32 << 20;

/// A user may have memory taken from a job this often,
const SQUEEZED_EVERY_US: u64 = 900_000;
/// and from the same job after so long anew, as far as the audit goes.
const SQUEEZED_AGAIN_US: u64 = 120_000_000;

/// Whether memory is taken from a job as a user asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    /// Not yet: it was asked a moment ago.
    TooSoon,
    /// It is, for the first time of this job lately.
    First,
    /// It is, as before.
    Again,
}

/// The readings' timer, the pager, and how long freezes take.
#[derive(Debug)]
pub(crate) struct MemorySampler {
    due_us: Option<u64>,
    read_us: u64,
    /// The jobs' stall time so far, at the last reading.
    stalled_us: Option<u64>,
    pager: Pager,
    bound: Option<u64>,
    alarm: Option<OwnedFd>,
    /// When each user had memory taken from a job last, and from which.
    squeezed: BTreeMap<u32, (u64, JobId)>,
    /// When it was first said that memory is to be read, until it is.
    told: Option<Moment>,
    /// How long freezes take.
    pub(crate) witness: Witness,
}

impl MemorySampler {
    /// Of jobs in these containers.
    pub(crate) fn new(containers: &Containers) -> std::io::Result<Self> {
        Ok(Self {
            due_us: None,
            read_us: 0,
            stalled_us: None,
            pager: Pager::start(containers)?,
            bound: None,
            alarm: containers.memory_alarm(),
            squeezed: BTreeMap::new(),
            told: None,
            witness: Witness::default(),
        })
    }

    /// When memory is to be read next.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// The kernel's word that jobs stall for want of memory.
    pub(crate) fn alarm(&self) -> Option<&OwnedFd> {
        self.alarm.as_ref()
    }

    /// The kernel's file is gone: somebody took this instance's groups away. Memory is read by the timer alone.
    pub(crate) fn drop_alarm(&mut self) {
        if self.alarm.take().is_some() {
            tracing::warn!("this daemon's control group was removed by another program; restart the daemon");
        }
    }

    /// Sets the timer while something runs, and stops it when nothing does.
    pub(crate) fn schedule(&mut self, running: bool, tight: bool, now_us: u64) {
        if !running {
            (self.due_us, self.stalled_us) = (None, None);
            return;
        }
        let due_us =
            self.read_us.max(now_us.saturating_sub(RELAXED_US)) + if tight { TIGHT_US } else { RELAXED_US };
        self.due_us = Some(self.due_us.map_or(due_us, |due| due.min(due_us)));
    }

    /// The kernel, or the timer, says that memory is to be read.
    pub(crate) fn was_told(&mut self) {
        self.told.get_or_insert_with(Moment::now);
    }

    /// It was read, and what follows was decided.
    pub(crate) fn is_read(&mut self) {
        self.told = None;
    }

    /// When that was, of what is decided now.
    pub(crate) fn told(&self) -> Option<Moment> {
        self.told
    }

    /// Pages a job of this user's out, in a while.
    pub(crate) fn page_out(&self, job: JobId, user: u32, bytes: u64) {
        self.pager.page_out(job, user, bytes);
    }

    /// Pages a little of a running job out, in a while, unless the user that asks had that done a moment ago: the pager does
    /// one thing after the other, and others wait for it. `owner`: whose job it is.
    pub(crate) fn squeeze(
        &mut self,
        user: u32,
        (job, owner): (JobId, u32),
        bytes: u64,
        now_us: u64,
    ) -> Asked {
        self.squeezed.retain(|_, (last_us, _)| now_us.saturating_sub(*last_us) < SQUEEZED_AGAIN_US);
        let last = self.squeezed.get(&user).copied();
        if last.is_some_and(|(last_us, _)| now_us.saturating_sub(last_us) < SQUEEZED_EVERY_US) {
            return Asked::TooSoon;
        }
        self.squeezed.insert(user, (now_us, job));
        self.page_out(job, owner, bytes);
        if last.is_some_and(|(_, before)| before == job) { Asked::Again } else { Asked::First }
    }

    /// Reads a job of this user's that goes on back from swap.
    pub(crate) fn fetch(&self, job: JobId, user: u32) {
        self.pager.fetch(job, user);
    }

    /// The part of the time since the last reading in which all jobs stalled, in thousandths.
    fn stalled_milli(&mut self, total_us: u64, elapsed_us: u64) -> u16 {
        let before = self.stalled_us.replace(total_us).unwrap_or(total_us);
        let milli = total_us.saturating_sub(before).saturating_mul(1000) / elapsed_us.max(1);
        u16::try_from(milli.min(1000)).expect("at most 1000")
    }
}

impl MemorySampler {
    /// Makes `host.memory` a bound of the kernel's, where it can be one.
    pub(crate) fn bound_memory(&mut self, ctx: &Ctx) {
        let shared = (!ctx.share.is_whole()).then(|| budget_bytes(ctx));
        let wanted = shared.or(ctx.configured.config.host_memory);
        if self.bound == wanted {
            return;
        }
        match ctx.containers.bound_all(wanted) {
            Ok(Applied::Done) => self.bound = wanted,
            // Of a share nobody expects more.
            Ok(Applied::Kept(_)) if !ctx.share.is_whole() => {}
            Ok(Applied::Kept(why)) => tracing::warn!(why, "`host.memory` is kept to by pinfold alone"),
            Err(error) => {
                tracing::warn!(error = %in_full(&error), "`host.memory` is kept to by pinfold alone")
            }
        }
    }

    /// Reads what jobs hold and what the host has, and lets the scheduler look at it; gives what of the host's memory is
    /// not available, and what of that jobs hold, in bytes.
    pub(crate) fn on_memory_due(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        jobs: &mut Jobs,
    ) -> Option<(u64, u64)> {
        let now_us = ctx.clock.now_us();
        let elapsed_us = now_us.saturating_sub(self.read_us);
        self.due_us = None;
        self.read_us = now_us;
        let info = ctx.proc.memory_info().ok()?;
        let tight = ctx.policy.memory_is_tight();
        let mut held_by = Vec::with_capacity(jobs.running.len());
        for &job in &jobs.running {
            let Some(live) = jobs.table.get_mut(&job) else { continue };
            let Some(Ok(held)) = live.container.as_deref().map(Container::held_memory) else { continue };
            let (resident_bytes, swapped_bytes) = (held.resident_bytes, held.swapped_bytes);
            let asked = tight && resident_bytes.saturating_add(swapped_bytes) >= WAITS_BYTES;
            let waited_milli = live.waits.read(live.container.as_deref().filter(|_| asked), now_us);
            let cache_bytes = held.cache_bytes;
            held_by.push(JobMemory { job, resident_bytes, swapped_bytes, cache_bytes, waited_milli });
        }
        let swapped: u64 = held_by.iter().map(|job| job.swapped_bytes).sum();
        let allowed = ctx.configured.config.host_swap.unwrap_or(u64::MAX).saturating_sub(swapped);
        let pressure = match ctx.containers.pressure(PressureResource::Memory) {
            Ok(Some(own)) => Some(own),
            _ => ctx.proc.pressure(PressureResource::Memory).ok().flatten(),
        };
        let full_us = pressure.and_then(|pressure| pressure.full).map_or(0, |full| full.total_us);
        let stalled_milli = self.stalled_milli(full_us, elapsed_us);
        let resident = held_by.iter().map(|job| job.resident_bytes).fold(0, u64::saturating_add);
        out.step(SchedulerEvent::Memory(MemorySample {
            available_bytes: info
                .available_bytes
                .saturating_sub(ctx.configured.config.memory_reserve_bytes(info.total_bytes)),
            swap_free_bytes: info.swap_free_bytes.min(allowed),
            swap_bytes_per_s: self.pager.rate(),
            stalled_milli,
            jobs: held_by,
        }));
        out.then(Next::MemoryRead);
        Some((info.total_bytes.saturating_sub(info.available_bytes), resident))
    }

    /// Watches for the kernel's word that jobs stall for want of memory.
    pub(crate) fn watch_memory(&self, ctx: &Ctx) {
        if let Some(alarm) = self.alarm()
            && let Err(error) = ctx.poller.watch(Ready::MemoryAlarm, alarm)
        {
            tracing::debug!(%error, "no word from the kernel when memory is short");
        }
    }
}

/// What the scheduler may do with memory, of the configuration's settings and this host.
pub(crate) fn memory_settings(ctx: &Ctx, configured: MemorySettings) -> MemorySettings {
    MemorySettings {
        budget_bytes: budget_bytes(ctx),
        steers: ctx.containers.can_steer_memory(),
        ..configured
    }
}

/// Bytes that all jobs together may hold in RAM once no other user's daemon has jobs. A refusal is decided by these.
pub(crate) fn budget_in_time_bytes(ctx: &Ctx) -> u64 {
    let (_, there) = memory_there(ctx);
    ctx.configured.config.host_memory.unwrap_or_else(|| most_bytes(ctx)).min(there)
}

/// Bytes that all jobs together may hold in RAM now.
pub(crate) fn budget_bytes(ctx: &Ctx) -> u64 {
    let in_time = budget_in_time_bytes(ctx);
    if ctx.share.is_whole() { in_time } else { in_time.min(ctx.share.bytes(most_bytes(ctx))) }
}

/// What all jobs of the host may hold in RAM, whose ever they are.
pub(crate) fn most_bytes(ctx: &Ctx) -> u64 {
    let (total, most) = memory_there(ctx);
    most.saturating_sub(ctx.configured.config.memory_reserve_bytes(total))
}

/// The host's RAM, and what of it jobs could have at the most, in bytes.
fn memory_there(ctx: &Ctx) -> (u64, u64) {
    let total = ctx.proc.memory_info().map_or(u64::MAX, |info| info.total_bytes);
    let above = ctx.containers.bound_above().ok().flatten().unwrap_or(u64::MAX);
    (total, total.min(above))
}

/// What to say when `host.memory` is more than there is: one configuration may be for hosts of several sizes.
pub(crate) fn budget_warning(ctx: &Ctx) -> Option<String> {
    let wanted = ctx.configured.config.host_memory?;
    let (_, most) = memory_there(ctx);
    (wanted > most).then(|| {
        let (wanted, most) = (show_size(wanted), show_size(most));
        format!("`host.memory` is {wanted}, and there are {most}: jobs may hold {most} in all")
    })
}

/// Refuses a claim that this host cannot have, RAM and swap together; says how one runs that it has with swap only.
pub(crate) fn admit_claim(ctx: &Ctx, bytes: u64) -> Result<Option<String>, Refusal> {
    let Ok(info) = ctx.proc.memory_info() else { return Ok(None) };
    let (ram, swap) = (memory_there(ctx).1, info.swap_total_bytes);
    claim_within(bytes, ram, swap)
}

fn claim_within(bytes: u64, ram: u64, swap: u64) -> Result<Option<String>, Refusal> {
    let (asked, have) = (show_size(bytes), size(ram));
    if bytes > ram.saturating_add(swap) {
        let swap = size(swap);
        let text = format!(
            "--mem {asked}: this host has {have} of memory and {swap} of swap, and a job that needs more cannot run here; \
             ask for less"
        );
        return Err((ErrorCode::Refused, text));
    }
    let note =
        format!("--mem {asked}: this host has {have} of memory, so the job can only run alone and with swap");
    Ok((bytes > ram).then_some(note))
}

/// A frozen job of which most is in swap is parked.
pub(crate) fn note_parked(policy: &Policy, journal: &mut Journal, table: &mut JobTable, now_us: u64) {
    let frozen = |live: &&mut Box<crate::jobs::record::JobRecord>| live.row.frozen_since_us.is_some();
    for live in table.values_mut().filter(frozen) {
        let parked = policy.job(live.id()).is_some_and(|info| info.parked);
        let state = if parked { JobState::Parked } else { JobState::Frozen };
        if live.row.state != state {
            live.set_state(state, now_us);
            journal.touch(live.id());
        }
    }
}
