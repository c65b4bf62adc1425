//! Other programs write to the kernel's files of a job: an administrator by hand, a service manager that puts its own
//! values back, a script that was made for something else. When to look for that, and what to do about it.
//!
//! Looked at is one job at a time, at most one a second and each about every five seconds if there are few. What differs is
//! looked at once more after a second, for what is just being changed differs for a moment. What is changed again and again
//! is left for a while, longer each time: two programs that both insist would only keep each other busy, and the job on
//! the move.
//!
//! Owns when to look, and what was seen and set again. Absent: the files, and what they should hold.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_topo::backoff::Backoff;

use crate::api::{Instant, JobId};

/// Each job is looked at so often, if there are few,
const EACH: Duration = Duration::from_secs(5);
/// and no two looks are closer together than this.
const LOOK: Duration = Duration::from_secs(1);

/// What was set again so often within [`CALM`] is left alone,
const TIMES_MAX: u32 = 3;
/// for so long at first, doubled each time.
const LEAVE: Backoff = Backoff::new(Duration::from_secs(60), Duration::from_secs(60 << 5));

/// What was not changed for so long is not in dispute any more.
const CALM: Duration = Duration::from_secs(600);

/// What was seen, and when to look next. `S` says which of a job's settings is meant.
#[derive(Debug)]
pub struct Drifts<S> {
    due: Option<Instant>,
    /// The job that was looked at last.
    last: Option<JobId>,
    /// A job to be looked at again,
    again: Option<JobId>,
    /// and whether this look is such a one: who is changed all the time does not keep others from being looked at.
    is_again: bool,
    disputes: BTreeMap<(JobId, S), Dispute>,
}

impl<S> Default for Drifts<S> {
    fn default() -> Self {
        Self { due: None, last: None, again: None, is_again: false, disputes: BTreeMap::new() }
    }
}

/// A setting of a job that another program changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Dispute {
    /// What was found at the last look, if that differed.
    suspect: Option<String>,
    /// How often it was set again since it was calm, and when last.
    times: u32,
    healed: Instant,
    /// How often it was left alone,
    left: u32,
    /// and until when.
    left_until: Instant,
}

/// What follows from a look at a setting that differs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing, for now.
    Wait,
    /// It is set again.
    Heal,
    /// It is left as it is for so long.
    Leave(Duration),
}

impl Dispute {
    /// What differs now.
    fn differs(&mut self, found: &str, now: Instant) -> Verdict {
        if now < self.left_until {
            return Verdict::Wait;
        }
        if self.suspect.as_deref() != Some(found) {
            self.suspect = Some(found.to_owned());
            return Verdict::Wait;
        }
        self.suspect = None;
        // While it was left alone nobody could see whether it was calm.
        if now.since(self.healed.max(self.left_until)) > CALM {
            (self.times, self.left) = (0, 0);
        }
        if self.times >= TIMES_MAX {
            let time = LEAVE.after(self.left);
            self.left_until = now.after(time);
            (self.times, self.left) = (0, self.left + 1);
            return Verdict::Leave(time);
        }
        (self.times, self.healed) = (self.times + 1, now);
        Verdict::Heal
    }
}

impl<S: Copy + Ord> Drifts<S> {
    /// When to look next.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Sets the timer while something runs, and stops it when nothing does.
    pub fn schedule(&mut self, running: usize, now: Instant) {
        if running == 0 {
            (self.due, self.last, self.again) = (None, None, None);
            return;
        }
        let pause = if self.again.is_some() {
            LOOK
        } else {
            (EACH / u32::try_from(running).unwrap_or(u32::MAX)).max(LOOK)
        };
        self.due.get_or_insert(now.after(pause));
    }

    /// The next of these to be looked at.
    pub fn next(&mut self, running: &BTreeSet<JobId>) -> Option<JobId> {
        self.due = None;
        let again = self.again.take().filter(|job| running.contains(job));
        self.is_again = again.is_some();
        if again.is_some() {
            return again;
        }
        let after = self.last.and_then(|last| running.range(JobId(last.0.saturating_add(1))..).next());
        self.last = after.or_else(|| running.first()).copied();
        self.last
    }

    /// A job is over.
    pub fn forget(&mut self, job: JobId) {
        self.disputes.retain(|(other, _), _| *other != job);
    }

    /// What follows for each setting of a job that differs, from what it holds now. Those that are not named are as they
    /// should be.
    pub fn judge(&mut self, job: JobId, found: &[(S, String)], now: Instant) -> Vec<Verdict> {
        for ((other, setting), dispute) in &mut self.disputes {
            if *other == job && !found.iter().any(|(differs, _)| differs == setting) {
                dispute.suspect = None;
            }
        }
        let judged = found.iter().map(|(setting, value)| {
            let dispute = self.disputes.entry((job, *setting)).or_default();
            let verdict = dispute.differs(value, now);
            if dispute.suspect.is_some() && !self.is_again {
                self.again = Some(job);
            }
            verdict
        });
        judged.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn look(drifts: &mut Drifts<u8>, found: &[&str], now_us: u64) -> Vec<Verdict> {
        let found: Vec<(u8, String)> = found.iter().map(|&value| (1, value.to_owned())).collect();
        drifts.judge(JobId(1), &found, Instant(now_us))
    }

    /// Looks each second, while another program insists; what followed, and when.
    fn dispute(seconds: std::ops::Range<u64>, drifts: &mut Drifts<u8>) -> Vec<(u64, Verdict)> {
        let all: Vec<(u64, Verdict)> =
            seconds.map(|second| (second, look(drifts, &["1"], second * SECOND).remove(0))).collect();
        all.into_iter().filter(|(_, verdict)| *verdict != Verdict::Wait).collect()
    }

    /// When it was left alone, and for how long, in seconds.
    fn left(told: &[(u64, Verdict)]) -> Vec<(u64, u64)> {
        let left = told.iter().filter_map(|(at, verdict)| match verdict {
            Verdict::Leave(time) => Some((*at, time.as_secs())),
            _ => None,
        });
        left.collect()
    }

    #[test]
    fn what_differs_is_looked_at_again_before_it_is_set_back() {
        let mut drifts = Drifts::default();
        assert_eq!(look(&mut drifts, &["1"], 0), [Verdict::Wait]);
        assert_eq!(drifts.again, Some(JobId(1)));
        // It was on its way.
        assert_eq!(look(&mut drifts, &[], SECOND), []);
        assert_eq!(look(&mut drifts, &["1"], 2 * SECOND), [Verdict::Wait]);
        // Another value than before: it is being changed still.
        assert_eq!(look(&mut drifts, &["2"], 3 * SECOND), [Verdict::Wait]);
        assert_eq!(look(&mut drifts, &["2"], 4 * SECOND), [Verdict::Heal]);
    }

    #[test]
    fn what_is_changed_again_and_again_is_left_for_longer_each_time() {
        let mut drifts = Drifts::default();
        let told = dispute(1000..1400, &mut drifts);
        let heals = |range: std::ops::Range<u64>| {
            told.iter().filter(|(at, verdict)| range.contains(at) && *verdict == Verdict::Heal).count()
        };
        assert_eq!(left(&told), [(1007, 60), (1074, 120), (1201, 240)]);
        assert_eq!((heals(1000..1007), heals(1007..1067), heals(1067..1074)), (3, 0, 3));
        // Being left for longer than it takes to be calm is no calm.
        let lengths: Vec<u64> =
            left(&dispute(1400..9000, &mut drifts)).iter().map(|(_, time)| *time).collect();
        assert_eq!(lengths, [480, 960, 1920, 1920, 1920, 1920]);
    }

    #[test]
    fn what_was_calm_for_long_is_not_in_dispute() {
        let mut drifts = Drifts::default();
        let first = dispute(1000..1006, &mut drifts);
        assert_eq!(first.len(), 3, "{first:?}");
        let later = dispute(2000..2006, &mut drifts);
        assert!(later.len() == 3 && later.iter().all(|(_, verdict)| *verdict == Verdict::Heal), "{later:?}");
        drifts.forget(JobId(1));
        assert!(drifts.disputes.is_empty());
    }

    #[test]
    fn jobs_take_turns_and_no_two_looks_are_close() {
        let mut drifts = Drifts::<u8>::default();
        let running = BTreeSet::from([JobId(3), JobId(7), JobId(8)]);
        let turns: Vec<u64> = (0..4).filter_map(|_| drifts.next(&running)).map(|job| job.0).collect();
        assert_eq!(turns, [3, 7, 8, 3]);
        drifts.again = Some(JobId(8));
        assert_eq!(drifts.next(&running), Some(JobId(8)));
        drifts.schedule(3, Instant(0));
        assert_eq!(drifts.due(), Some(Instant(1_666_666)));
        // It is changed all the time, and others have their turn all the same.
        let found = |value: &str| [(1, value.to_owned())];
        drifts.judge(JobId(8), &found("1"), Instant(0));
        assert_eq!((drifts.next(&running), drifts.again), (Some(JobId(7)), None));
        drifts.judge(JobId(7), &found("1"), Instant(0));
        assert_eq!(drifts.next(&running), Some(JobId(7)));
        drifts.judge(JobId(7), &found("2"), Instant(0));
        assert_eq!(drifts.next(&running), Some(JobId(8)));
        (drifts.due, drifts.again) = (None, None);
        drifts.schedule(1000, Instant(0));
        assert_eq!(drifts.due(), Some(Instant(SECOND)));
        drifts.schedule(0, Instant(0));
        assert_eq!(drifts.due(), None);
    }
}
