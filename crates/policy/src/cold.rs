//! What a job that runs has in swap and gets on without, and how that is found out.
//!
//! A program may hold far more than it uses: what it read at its start, what it leaks. It need not stand still for room, nor
//! need all of that count when another waits to start, if its pages can lie in swap meanwhile. Which pages it will touch
//! nobody outside knows; but the kernel moves those first that were not used for longest, and tells for what part of the
//! time the job waited for memory. So when memory will be short within some seconds, a little is moved out of those who
//! run (*probed*). Who gets on as before is *cool*: what it has in swap is *cold* and does not count as needed, and more
//! of it is moved out as the others need room. Who begins to wait is *warm*: all it holds counts again, and it and its
//! like are left alone for a while, twice as long after each time (the feedback of Weiner et al., TMO: Transparent Memory
//! Offloading in Datacenters, ASPLOS 2022, on the host's own shortage instead of all the time).
//!
//! Who grows faster than the swap device takes it is not probed: it could not be moved as it grows. Nor is who would fill
//! all memory by itself within some seconds: a program that does is about to use what it fills. Nor is the token holder, nor
//! who may not be frozen, nor anybody where the kernel does not tell how long one job waits.
//!
//! Owns what is known of each job's cold memory, and of its kind's. Absent: what else is done about a shortage (`governor`).

use std::time::Duration;

use crate::governor::{HORIZON, Lack, PAGE_OUT_FOR, WORTH_BYTES, has_slot, order};
use crate::job::Job;
use crate::memory::{Kind, Kinds, grown};
use crate::policy::Policy;
use crate::{Action, Decision, Instant, JobId, Reason};

/// Those who run are probed when memory will be short within this time.
const AHEAD: Duration = Duration::from_secs(4);
/// Over this long the part of the time is told in which a job waited.
const WINDOW: Duration = Duration::from_secs(1);
/// Who waited for less of it, in thousandths, gets on,
const CALM_MILLI: u32 = 50;
/// for so long,
const CALM_FOR: Duration = Duration::from_secs(1);
/// and who waits for more does not.
const WARM_MILLI: u32 = 100;
/// A job is probed no sooner than this after it began or went on.
const SETTLED: Duration = Duration::from_secs(1);
/// The least time between two probes.
const STEP: Duration = Duration::from_millis(250);
/// A job that was warm is left alone for so long, twice as long after each further time,
const REST: Duration = Duration::from_secs(30);
/// up to 2^6 times.
const REST_DOUBLINGS_MAX: u32 = 6;
/// Who got on for so long before he missed what went out was worth it: his like are not left alone for that.
const WORTHWHILE: Duration = Duration::from_secs(5);
/// The part of what it has in RAM that a probe moves: one in so many,
const PROBE_PART: u64 = 16;
/// the least,
const PROBE_MIN: u64 = 2 * WORTH_BYTES;
/// and the most.
const PROBE_MAX: u64 = 64 << 20;
/// Who would fill all that is usable by itself within this time is about to use it.
const FILLS: Duration = Duration::from_secs(10);
/// However little one got on with, the next of its kind is expected to need this part, in thousandths.
const PART_MIN_MILLI: u16 = 125;
/// Nobody is probed who has less than this: what it could give is not worth it.
const HELD_MIN: u64 = 64 << 20;

/// What is known of one job.
#[derive(Debug, Default)]
pub(crate) struct Cold {
    /// What it has in swap and gets on without, in bytes.
    bytes: u64,
    /// For what part of the window it waited for memory, in thousandths.
    waited_milli: u32,
    /// When that was told; `None`: it was not.
    read: Option<Instant>,
    /// Since when it has pages in swap and hardly waits.
    calm: Option<Instant>,
    /// When it was probed.
    probed: Option<Instant>,
    /// Not to be probed before this.
    rests_until: Option<Instant>,
    /// How often it was warm,
    times: u32,
    /// and whether it got on for long before, the last time.
    worthwhile: bool,
    /// The least part of what it held that was needed, in thousandths, since it was last warm.
    part: Option<u16>,
}

impl Cold {
    /// What it has in swap and gets on without, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// How often it missed what had gone out.
    pub(crate) fn times(&self) -> u32 {
        self.times
    }

    /// Whether it gets on without a part of what it holds.
    pub(crate) fn is_cool(&self) -> bool {
        self.bytes >= WORTH_BYTES
    }

    /// A job that runs has so much in swap, and waited for memory for so much of the time since the last reading.
    pub(crate) fn read(&mut self, now: Instant, swapped: u64, waited_milli: Option<u16>) {
        let Some(waited) = waited_milli else { return self.forget() };
        let window = WINDOW.as_micros();
        let since = self.read.map_or(window, |at| now.since(at).as_micros().min(window));
        let mean = u128::from(self.waited_milli) * (window - since) + u128::from(waited) * since;
        self.waited_milli = u32::try_from(mean / window).unwrap_or(u32::MAX);
        self.read = Some(now);
        // It touched all that a probe moved, however quickly that was there again.
        let came_back = swapped < WORTH_BYTES
            && self.probed.is_some_and(|at| now.since(at) >= CALM_FOR)
            && self.bytes == 0;
        let asked = swapped >= WORTH_BYTES || self.probed.is_some();
        if came_back || (asked && self.waited_milli > WARM_MILLI) {
            self.turns_warm(now);
        } else if swapped < WORTH_BYTES {
            (self.calm, self.bytes) = (None, 0);
        } else if self.waited_milli <= CALM_MILLI {
            let calm = *self.calm.get_or_insert(now);
            self.bytes = if now.since(calm) >= CALM_FOR { swapped } else { self.bytes.min(swapped) };
        } else {
            self.bytes = self.bytes.min(swapped);
        }
    }

    /// It waits for what went out: all it holds counts again, and it is left alone for a while.
    fn turns_warm(&mut self, now: Instant) {
        if self.is_cool() || self.probed.is_some() {
            self.rests_until = Some(now.after(REST * (1 << self.times.min(REST_DOUBLINGS_MAX))));
            self.times += 1;
            self.worthwhile = self.calm.is_some_and(|since| now.since(since) >= WORTHWHILE);
        }
        (self.bytes, self.calm, self.probed, self.part) = (0, None, None, None);
    }

    /// It runs and holds so much: takes in what part of that it needs, if it gets on without some.
    fn note_part(&mut self, total: u64) -> Option<u16> {
        if !self.is_cool() {
            return None;
        }
        let part = u128::from(total.saturating_sub(self.bytes)) * 1000 / u128::from(total.max(1));
        let part = u16::try_from(part).unwrap_or(1000).max(PART_MIN_MILLI);
        self.part = Some(self.part.map_or(part, |least| least.min(part)));
        self.part
    }

    /// It stands still or comes back from swap, and has so much there: what it got on without before stays cold.
    pub(crate) fn rests(&mut self, swapped: u64) {
        let bytes = self.bytes.min(swapped);
        self.forget();
        self.bytes = bytes;
    }

    /// Nobody tells how long it waits.
    fn forget(&mut self) {
        (self.bytes, self.waited_milli, self.read, self.calm, self.probed) = (0, 0, None, None, None);
    }

    fn may_be_probed(&self, now: Instant) -> bool {
        let rested = self.rests_until.is_none_or(|until| now >= until);
        let asked = self.probed.is_some_and(|at| now.since(at) < CALM_FOR * 2);
        self.read.is_some() && rested && !asked && self.waited_milli <= CALM_MILLI && !self.is_cool()
    }
}

impl Policy {
    /// Those who run, may give pages up, and get on without some.
    pub(crate) fn cool(&self) -> impl Iterator<Item = &Job> {
        self.running().filter(|job| job.held.cold.is_cool() && self.may_give(job))
    }

    fn may_give(&self, job: &Job) -> bool {
        let comes = self.memory.returning.contains_key(&job.id());
        !comes && Some(job.id()) != self.memory.token && self.may_freeze(job.id())
    }

    /// What can be moved out of those who run and do without it within this time, beside what stands still.
    pub(crate) fn movable(&self, time: Duration) -> u64 {
        if !self.settings.memory.prediction {
            return 0;
        }
        let held = self.cool().map(Job::can_give).fold(0, u64::saturating_add);
        let standing: u64 = self.standing().map(|job| job.held.resident).fold(0, u64::saturating_add);
        let swap = self.memory.swap_free.saturating_sub(standing);
        held.min(grown(self.page_out_rate(), time)).min(swap)
    }

    /// Moves a little out of one that runs, if memory will be short, to see whether it gets on without.
    pub(crate) fn probe(&mut self, usable: u64) {
        let rests = self.memory.probed.is_some_and(|at| self.now.since(at) < STEP);
        let busy = self.memory.paging_until.is_some_and(|until| self.now < until);
        if rests || busy || !self.settings.memory.prediction || !self.fills_soon(usable) {
            return;
        }
        // Where nothing was paged out yet, a probe is what tells how fast the device is.
        let known = self.memory.swap_rate > 0;
        let slow = if known { self.page_out_rate() } else { u64::MAX };
        let slow = slow.min(usable / FILLS.as_secs());
        let may = |job: &&Job| {
            let since = job.live().map_or(self.now, |live| live.started).max(job.held.resumed);
            let settled = self.now.since(since) >= SETTLED && self.now >= job.held.runs_until;
            let marked = self.marked.iter().any(|(marked, _)| *marked == job.id());
            let worth = job.held.resident >= HELD_MIN && self.growth_of(job) <= slow;
            let like_rest = job.request.kind.and_then(|kind| self.memory.warm.get(kind.key()));
            let like_rest = like_rest.is_some_and(|&(until, _)| self.now < until);
            worth
                && settled
                && !marked
                && !like_rest
                && job.held.cold.may_be_probed(self.now)
                && self.may_give(job)
        };
        let Some(job) = self.running().filter(may).max_by_key(|job| order(job)) else { return };
        let most = PROBE_MAX.min(grown(self.page_out_rate(), PAGE_OUT_FOR)).max(PROBE_MIN);
        let bytes = (job.held.resident / PROBE_PART).clamp(PROBE_MIN, most);
        if self.memory.swap_free / PROBE_PART < bytes {
            return;
        }
        let id = job.id();
        self.memory.probed = Some(self.now);
        if let Some(job) = self.jobs.get_mut(&id) {
            job.held.cold.probed = Some(self.now);
        }
        self.order_out(id, bytes, Reason::Probed { within: AHEAD });
    }

    /// Moves out more of those who run and get on without a part, the last first, as far as the next to start lacks memory:
    /// what they have in swap is not in its way.
    pub(crate) fn make_room_for_next(&mut self) {
        let busy = self.memory.paging_until.is_some_and(|until| self.now < until);
        let gives = |job: &&Job| !self.marked.iter().any(|(marked, _)| *marked == job.id());
        let Some(last) = self.cool().filter(gives).max_by_key(|job| order(job)).filter(|_| !busy) else {
            return;
        };
        let next = self.head().map(|(_, id)| id).filter(|&id| self.live(id).is_none());
        let Some(Lack::Room { wanted, free }) = next.and_then(|id| self.lacks_memory(id)) else { return };
        let lacking = wanted - free;
        let most = grown(self.page_out_rate(), PAGE_OUT_FOR).min(self.memory.swap_free).min(last.can_give());
        let (id, bytes) = (last.id(), lacking.max(WORTH_BYTES).min(most));
        if bytes >= WORTH_BYTES {
            self.order_out(id, bytes, Reason::NextLacks { lacking });
        }
    }

    /// Whether those who run will fill what is usable soon, if they grow on as they do, wherever they may be expected to
    /// stop.
    fn fills_soon(&self, usable: u64) -> bool {
        let wants = |job: &Job| job.held.needs().saturating_add(grown(self.growth_of(job), AHEAD));
        let wanted = self.running().map(wants).fold(0, u64::saturating_add);
        wanted > usable.saturating_add(self.movable(AHEAD))
    }

    /// Tells one decision to page out, and how long the device is busy with it.
    pub(crate) fn order_out(&mut self, job: JobId, bytes: u64, reason: Reason) {
        let time = Duration::from_micros(bytes.saturating_mul(1_000_000) / self.page_out_rate());
        let begins = self.memory.paging_until.unwrap_or(self.now).max(self.now);
        self.memory.paging_until = Some(begins.after(time));
        self.decisions.push(Decision { job, action: Action::PageOut { bytes }, reason });
    }

    /// Takes in with what part of what it holds one of a kind gets on; nothing is known of that any more once one of it
    /// does not, and all its like are left alone for a while, if it did not for long.
    pub(crate) fn note_cool(&mut self, id: JobId, times_before: u32) {
        let Some(job) = self.jobs.get_mut(&id).filter(|job| has_slot(job)) else { return };
        let total = job.held.total();
        let part = job.held.cold.note_part(total);
        let missed = job.held.cold.times != times_before;
        let worthwhile = job.held.cold.worthwhile;
        let Some(kind) = job.request.kind else { return };
        if let Some(part) = part {
            let known = self.memory.cool.of(kind.key(), || part);
            *known = (*known).min(part);
            self.memory.warm.remove(kind.key());
        } else if missed {
            self.memory.cool.remove(kind.key());
            if worthwhile {
                return;
            }
            rest_kind(&mut self.memory.warm, kind, self.now);
        }
    }

    /// With what part of what they hold, in thousandths, the next of a kind are expected to get on in RAM: the least with
    /// which one did, since one missed something; `None`: nobody knows.
    #[must_use]
    pub fn part_of(&self, kind: Kind) -> Option<u16> {
        self.memory.cool.get(kind.key()).copied()
    }

    /// What of so many bytes must be in RAM, as far as others of the kind got on with a part.
    pub(crate) fn part_needed(&self, kind: Option<Kind>, bytes: u64) -> u64 {
        in_part(kind.and_then(|kind| self.part_of(kind)), bytes)
    }

    /// The most of what a job held that had to be in RAM: with what part it got on says so, or others of its kind did.
    pub(crate) fn need_of(&self, job: &Job) -> u64 {
        let own = job.held.cold.part.map(|part| in_part(Some(part), job.held.peak));
        let need = own.unwrap_or_else(|| self.part_needed(job.request.kind, job.held.peak));
        job.held.need_peak.min(need)
    }
}

/// Leaves a kind alone for [`REST`], twice as long after each further time.
pub(crate) fn rest_kind(kinds: &mut Kinds<(Instant, u32)>, kind: Kind, now: Instant) {
    let (until, times) = kinds.of(kind.key(), Default::default);
    *until = now.after(REST * (1 << (*times).min(REST_DOUBLINGS_MAX)));
    *times = times.saturating_add(1);
}

fn in_part(part: Option<u16>, bytes: u64) -> u64 {
    part.map_or(bytes, |part| bytes / 1000 * u64::from(part))
}

impl Job {
    /// What of a cool job can be moved out at the most.
    pub(crate) fn can_give(&self) -> u64 {
        self.held.resident.saturating_sub(WORTH_BYTES)
    }
}

const _: () = assert!(AHEAD.as_secs() > HORIZON.as_secs(), "a probe comes before a freeze");

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn read_for(cold: &mut Cold, from_ms: u64, to_ms: u64, swapped: u64, waited: u16) {
        for ms in (from_ms..to_ms).step_by(100) {
            cold.read(Instant(ms * 1000), swapped * MIB, Some(waited));
        }
    }

    #[test]
    fn who_gets_on_for_a_second_is_cool() {
        let mut cold = Cold { probed: Some(Instant(0)), ..Cold::default() };
        read_for(&mut cold, 0, 1000, 40, 10);
        assert!(!cold.is_cool());
        read_for(&mut cold, 1000, 1200, 40, 10);
        assert_eq!(cold.bytes(), 40 * MIB);
        // What goes out from then on is cold at once, what comes back is not.
        read_for(&mut cold, 1200, 1300, 90, 10);
        assert_eq!(cold.bytes(), 90 * MIB);
        read_for(&mut cold, 1300, 1400, 70, 80);
        assert_eq!(cold.bytes(), 70 * MIB);
    }

    #[test]
    fn who_waits_is_warm_and_left_alone_for_twice_as_long_each_time() {
        let mut cold = Cold { probed: Some(Instant(0)), ..Cold::default() };
        read_for(&mut cold, 0, 1500, 40, 10);
        read_for(&mut cold, 1500, 2500, 40, 400);
        assert!(!cold.is_cool());
        let until = cold.rests_until.unwrap();
        assert!(Instant(1_500_000).after(REST) < until && until < Instant(2_500_000).after(REST));
        cold.probed = Some(until);
        let again = until.0 / 1000;
        read_for(&mut cold, again, again + 1000, 40, 400);
        assert!(cold.rests_until.unwrap() >= until.after(REST * 2));
    }

    #[test]
    fn who_missed_something_at_last_got_on_for_long() {
        for (calm_ms, worthwhile) in [(3000, false), (6000, true)] {
            let mut cold = Cold { probed: Some(Instant(0)), ..Cold::default() };
            read_for(&mut cold, 0, calm_ms, 40, 10);
            read_for(&mut cold, calm_ms, calm_ms + 1000, 40, 400);
            assert_eq!((cold.is_cool(), cold.times, cold.worthwhile), (false, 1, worthwhile));
        }
    }

    #[test]
    fn nobody_is_cool_of_whom_the_kernel_does_not_tell() {
        let mut cold = Cold::default();
        read_for(&mut cold, 0, 1500, 40, 0);
        assert!(cold.is_cool());
        cold.read(Instant(1_600_000), 40 * MIB, None);
        assert!(!cold.is_cool() && !cold.may_be_probed(Instant(1_600_000)));
    }
}
