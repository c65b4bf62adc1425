//! Primaries that wait for a core while backfillers are beside them (`cpu.guard`): the youngest of those stands still.
//!
//! How much a primary waits is told with each sample, and looked at in windows of five seconds. Windows without any
//! backfiller behind its cache say what is usual for it: a job with more threads than cores waits for itself. One that
//! waits by two deviations more with backfillers there throughout, three times within five minutes, has the youngest of
//! them frozen for a minute, in which no other backfiller takes its place; for two, and so on up to ten, if that happens
//! again soon. Owns what is usual for each primary, and how many slots there may be used meanwhile. Absent here: what a
//! shared cache or memory bus costs a primary that has its core, which shows in no such reading.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::job::{Live, Out};
use crate::policy::Policy;
use crate::{Class, Instant, JobId, Reason, Sample};

/// Readings are put together over so long.
const WINDOW: Duration = Duration::from_secs(5);
/// A window over which nothing was heard for so long says nothing.
const WINDOW_MAX: Duration = Duration::from_secs(10);
/// A primary must have waited more than is usual for it in so many windows,
const HITS: usize = 3;
/// all within this time.
const HITS_WITHIN: Duration = Duration::from_secs(300);
/// So many windows without backfillers say what is usual.
const USUAL_AFTER: u64 = 3;
/// By how much more a primary must wait at least, in thousandths of the time.
const MORE_MILLI: u64 = 10;
/// What is too much as long as nobody knows what is usual.
const UNKNOWN_MILLI: u64 = 50;
/// How long a backfiller stands still the first time,
const REST: Duration = Duration::from_secs(60);
/// and at most; it doubles with each time that comes sooner than this after the last.
const REST_MAX: Duration = Duration::from_secs(600);

/// What is known of primaries and what follows from it.
#[derive(Debug, Default)]
pub(crate) struct Interference {
    watched: BTreeMap<JobId, Watched>,
    /// How many slots may be used,
    cap: Option<usize>,
    /// until when,
    until: Option<Instant>,
    /// and for how long the last time.
    rest: Duration,
}

/// A primary.
#[derive(Debug)]
struct Watched {
    /// When its window began.
    since: Instant,
    /// Its readings in this window, in thousandths, and how many there are.
    sum: u64,
    count: u64,
    /// Whether backfillers were beside it at some reading, and whether at all.
    some_beside: bool,
    always_beside: bool,
    usual: Usual,
    /// When it waited too much.
    hits: VecDeque<Instant>,
}

/// What a primary waits without backfillers: the number of windows, their sum, and the sum of their squares.
#[derive(Debug, Clone, Copy, Default)]
struct Usual {
    count: u64,
    sum: u64,
    squares: u64,
}

impl Usual {
    fn add(&mut self, milli: u64) {
        self.count += 1;
        self.sum += milli;
        self.squares += milli * milli;
    }

    fn mean(self) -> u64 {
        self.sum.checked_div(self.count).unwrap_or(0)
    }

    /// Whether so much is more than the mean and two deviations, and enough more to matter.
    fn is_exceeded_by(self, milli: u64) -> bool {
        if self.count < USUAL_AFTER {
            return milli > UNKNOWN_MILLI;
        }
        // In n times the unit, so that nothing is divided.
        let above = (self.count * milli).saturating_sub(self.sum);
        let variance = (self.count * self.squares).saturating_sub(self.sum * self.sum);
        milli >= self.mean() + MORE_MILLI && u128::from(above) * u128::from(above) > 4 * u128::from(variance)
    }
}

impl Watched {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            sum: 0,
            count: 0,
            some_beside: false,
            always_beside: true,
            usual: Usual::default(),
            hits: VecDeque::new(),
        }
    }

    /// Takes a reading in; says how much it waited in a window that was too much, if this closed one.
    fn read(&mut self, now: Instant, milli: u64, beside: bool) -> Option<u64> {
        self.sum += milli;
        self.count += 1;
        self.some_beside |= beside;
        self.always_beside &= beside;
        let lasted = now.since(self.since);
        if lasted < WINDOW {
            return None;
        }
        let mean = self.sum / self.count;
        let (some, always) = (self.some_beside, self.always_beside);
        (self.since, self.sum, self.count) = (now, 0, 0);
        (self.some_beside, self.always_beside) = (false, true);
        if lasted > WINDOW_MAX {
            return None;
        }
        if !some {
            self.usual.add(mean);
        }
        if !always || !self.usual.is_exceeded_by(mean) {
            return None;
        }
        self.hits.push_back(now);
        while self.hits.front().is_some_and(|at| now.since(*at) > HITS_WITHIN) {
            self.hits.pop_front();
        }
        (self.hits.len() >= HITS).then_some(mean)
    }
}

impl Policy {
    /// Slots, of which those beyond the cores may be nobody's for a while.
    pub(crate) fn less_held_back(&self, slots: usize) -> usize {
        self.interference.cap.map_or(slots, |cap| slots.min(cap.max(self.cores.len())))
    }

    /// New settings: where nobody is held back, nothing of that is left.
    pub(crate) fn set_holding_back(&mut self) {
        if self.settings.hold_back {
            return;
        }
        self.interference = Interference::default();
        let rests = |id: &JobId| self.live(*id).is_some_and(|live| live.rests.is_some());
        let resting: Vec<JobId> = self.lives.iter().copied().filter(rests).collect();
        for id in resting {
            if let Some(live) = self.live_mut(id) {
                live.rests = None;
            }
            self.enqueue(id);
        }
    }

    /// Takes in how much each primary waited.
    pub(crate) fn watch_interference(&mut self, sample: &Sample) {
        if !self.settings.hold_back {
            return;
        }
        let now = self.now;
        if self.interference.until.is_some_and(|until| until <= now) && self.interference.cap.take().is_some()
        {
            self.clip();
        }
        let backfillers: Vec<JobId> = self.holders.backfillers_newest_first().collect();
        let mut watched = std::mem::take(&mut self.interference.watched);
        watched.retain(|job, _| sample.stalled_milli.iter().any(|(heard, _)| heard == job));
        let mut too_much = None;
        for &(job, milli) in &sample.stalled_milli {
            let Some(around) = self.around_primary(job) else {
                watched.remove(&job);
                continue;
            };
            let is_beside = |id: &JobId| self.live(*id).is_some_and(|live| beside(&live.cores, &around));
            let shares_with = |id: &JobId| {
                let on = |id: JobId| self.live(id).map_or(&[][..], |live| &live.cores);
                beside(on(*id), on(job)) && self.shares_evenly(&self.jobs[id])
            };
            if backfillers.iter().any(shares_with) {
                // It waits for the like of it, as it is to.
                watched.remove(&job);
                continue;
            }
            let one = watched.entry(job).or_insert_with(|| Watched::new(now));
            let found = one.read(now, u64::from(milli), backfillers.iter().any(is_beside));
            if let (Some(waited), None) = (found, &too_much) {
                let victim = backfillers.iter().copied().find(|id| is_beside(id) && self.may_hold_back(*id));
                too_much = victim.map(|victim| (job, victim, waited, one.usual.mean()));
            }
        }
        self.interference.watched = watched;
        if let Some((with, victim, waited, usual)) = too_much {
            self.hold_back(with, victim, waited, usual);
        }
    }

    /// The cores behind the same caches as a primary's, if it is one and runs.
    fn around_primary(&self, job: JobId) -> Option<Vec<usize>> {
        let live = self.live(job).filter(|live| live.key.is_some() && live.aside.is_none())?;
        let is_one = live.class == Class::Primary && !live.starting && !live.cores.is_empty();
        is_one.then(|| live.cores.iter().flat_map(|&core| self.cores.neighbours(core)).collect())
    }

    fn may_hold_back(&self, job: JobId) -> bool {
        self.may_freeze(job) && !self.jobs[&job].aged && self.holders.foremost() != Some(job)
    }

    /// Freezes a backfiller for a while, in which its slots are nobody's.
    fn hold_back(&mut self, with: JobId, victim: JobId, waited: u64, usual: u64) {
        let now = self.now;
        let held = &mut self.interference;
        let again = held.until.is_some_and(|until| now.since(until) < REST_MAX);
        held.rest = if again { (held.rest * 2).min(REST_MAX) } else { REST };
        let until = now.after(held.rest);
        held.until = Some(until);
        // It is seen first what that brings.
        held.watched.values_mut().for_each(|one| one.hits.clear());
        let milli = |milli: u64| u16::try_from(milli).unwrap_or(u16::MAX);
        let reason = Reason::Interferes { with, waited_milli: milli(waited), usual_milli: milli(usual) };
        if let Some(live) = self.live_mut(victim) {
            live.rests = Some(until);
        }
        self.park(victim, Out::Interferes { with }, reason);
        self.interference.cap = Some(self.used);
        self.clip();
    }

    /// A primary for whose sake others stand still is none any more: they wait for a slot like anybody. Says whether there
    /// were any.
    pub(crate) fn end_rests(&mut self) -> bool {
        if self.interference.cap.is_none() {
            return false;
        }
        // In a set nobody is beside it.
        let is_primary = |id: JobId| {
            self.live(id).is_some_and(|live| {
                live.key.is_some() && live.class == Class::Primary && live.aside.is_none()
            })
        };
        let (mut over, mut resting) = (Vec::new(), 0);
        for live in self.lives.iter().filter_map(|&id| Some((id, self.live(id)?))) {
            let (id, Live { rests: Some(_), out, .. }) = live else { continue };
            resting += 1;
            // One that its user suspended meanwhile, or that was cancelled, stands still for nobody's sake.
            if !matches!(out, Some(Out::Interferes { with }) if is_primary(*with)) {
                over.push(id);
            }
        }
        if resting == over.len() {
            self.interference.cap = None;
            self.clip();
        }
        for &id in &over {
            if let Some(live) = self.live_mut(id) {
                live.rests = None;
            }
            self.enqueue(id);
        }
        !over.is_empty()
    }

    /// What being held back keeps from running, in words and figures; `None`: nothing.
    pub(crate) fn explain_holding_back(&self) -> Option<(&'static str, String)> {
        let until = self.interference.until.filter(|until| *until > self.now)?;
        let left = until.since(self.now).as_secs();
        Some(("no more backfillers for", format!("{left} s (`cpu.guard`)")))
    }
}

/// Whether any of these cores is among those.
fn beside(cores: &[usize], around: &[usize]) -> bool {
    cores.iter().any(|core| around.contains(core))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usual(windows: &[u64]) -> Usual {
        let mut usual = Usual::default();
        windows.iter().for_each(|&milli| usual.add(milli));
        usual
    }

    #[test]
    fn what_is_too_much_follows_from_what_is_usual() {
        // Nobody knows yet: a twentieth of the time.
        assert!(!usual(&[]).is_exceeded_by(50) && usual(&[0, 0]).is_exceeded_by(51));
        assert!(!usual(&[0, 0, 0]).is_exceeded_by(9) && usual(&[0, 0, 0]).is_exceeded_by(10));
        // Mean 100, deviation 8.2.
        let noisy = usual(&[90, 100, 110]);
        assert!(!noisy.is_exceeded_by(116) && noisy.is_exceeded_by(117));
        // One that waits for itself most of the time.
        assert!(!usual(&[700, 720, 680]).is_exceeded_by(720));
    }

    #[test]
    fn windows_with_and_without_backfillers_are_told_apart() {
        let mut one = Watched::new(Instant(0));
        let mut read = |seconds: u64, milli: u64, beside: bool| {
            (one.read(Instant(seconds * 1_000_000), milli, beside), one.usual.count, one.hits.len())
        };
        assert_eq!(read(1, 900, true), (None, 0, 0));
        // With and without: nothing is known of it.
        assert_eq!(read(5, 900, false), (None, 0, 0));
        assert_eq!(read(10, 2, false), (None, 1, 0));
        // Nothing was heard for too long.
        assert_eq!(read(30, 900, true), (None, 1, 0));
        assert_eq!(read(35, 300, true), (None, 1, 1));
        assert_eq!(read(40, 300, true), (None, 1, 2));
        assert_eq!(read(45, 40, true), (None, 1, 2));
        assert_eq!(read(50, 400, true), (Some(400), 1, 3));
        // Three within five minutes.
        assert_eq!(read(345, 0, true), (None, 1, 3));
        assert_eq!(read(350, 400, true), (None, 1, 2));
    }
}
