//! Other programs write to the kernel's files of a job: an administrator by hand, a service manager that puts its own
//! values back, a script that was made for something else. What they changed is noticed, set again, and told.
//!
//! Looked at is one job at a time, at most one a second and each about every five seconds if there are few: five small
//! files at the most. What differs is looked at once more after a second, for what is just being changed differs for a
//! moment. What is changed again and again is left for a while, longer each time: two programs that both insist would
//! only keep each other busy, and the job on the move.
//!
//! Owns when to look, and what was seen and set again. Absent: jobs without groups.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_policy::JobId;
use pinfold_proto::row::DecisionRow;
use pinfold_sys::container::{Applied, Drift, Setting};
use pinfold_sys::peer;

use crate::act::in_full;
use crate::daemon::Daemon;

/// Each job is looked at so often, if there are few,
const EACH: Duration = Duration::from_secs(5);
/// and no two looks are closer together than this.
const LOOK: Duration = Duration::from_secs(1);
/// What was set again so often within [`CALM`] is left alone,
const TIMES_MAX: u32 = 3;
/// for so long at first, doubled each time up to 2^5 times.
const LEAVE: Duration = Duration::from_secs(60);
const LEAVE_DOUBLINGS_MAX: u32 = 5;
/// What was not changed for so long is not in dispute any more.
const CALM: Duration = Duration::from_secs(600);

/// What was seen, and when to look next.
#[derive(Debug, Default)]
pub(crate) struct Drifts {
    due_us: Option<u64>,
    /// The job that was looked at last.
    last: Option<JobId>,
    /// A job to be looked at again.
    again: Option<JobId>,
    disputes: BTreeMap<(JobId, Setting), Dispute>,
}

/// A setting of a job that another program changed.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Dispute {
    /// What was found at the last look, if that differed.
    suspect: Option<String>,
    /// How often it was set again since it was calm, and when last.
    times: u32,
    healed_us: u64,
    /// How often it was left alone,
    left: u32,
    /// and until when.
    left_until_us: u64,
}

/// What follows from a look at a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Nothing, for now.
    Wait,
    /// It is set again.
    Heal,
    /// It is left as it is for so long.
    Leave(Duration),
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

impl Dispute {
    /// What differs now.
    fn differs(&mut self, found: &str, now_us: u64) -> Verdict {
        if now_us < self.left_until_us {
            return Verdict::Wait;
        }
        if self.suspect.as_deref() != Some(found) {
            self.suspect = Some(found.to_owned());
            return Verdict::Wait;
        }
        self.suspect = None;
        if now_us.saturating_sub(self.healed_us) > micros(CALM) {
            (self.times, self.left) = (0, 0);
        }
        if self.times >= TIMES_MAX {
            let time = LEAVE * (1 << self.left.min(LEAVE_DOUBLINGS_MAX));
            self.left_until_us = now_us.saturating_add(micros(time));
            (self.times, self.left) = (0, self.left + 1);
            return Verdict::Leave(time);
        }
        (self.times, self.healed_us) = (self.times + 1, now_us);
        Verdict::Heal
    }
}

impl Drifts {
    /// When to look next.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// Sets the timer while something runs, and stops it when nothing does.
    pub(crate) fn schedule(&mut self, running: usize, now_us: u64) {
        if running == 0 {
            (self.due_us, self.last, self.again) = (None, None, None);
            return;
        }
        let pause = if self.again.is_some() {
            LOOK
        } else {
            (EACH / u32::try_from(running).unwrap_or(u32::MAX)).max(LOOK)
        };
        self.due_us.get_or_insert(now_us.saturating_add(micros(pause)));
    }

    /// The next of these to be looked at.
    fn next(&mut self, running: &std::collections::BTreeSet<JobId>) -> Option<JobId> {
        self.due_us = None;
        if let Some(job) = self.again.take().filter(|job| running.contains(job)) {
            return Some(job);
        }
        let after = self.last.and_then(|last| running.range(JobId(last.0.saturating_add(1))..).next());
        self.last = after.or_else(|| running.first()).copied();
        self.last
    }

    /// A job is over.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.disputes.retain(|(other, _), _| *other != job);
    }

    /// What follows for each setting of a job that differs.
    fn judge(&mut self, job: JobId, drifts: Vec<Drift>, now_us: u64) -> Vec<(Drift, Verdict)> {
        for ((other, setting), dispute) in &mut self.disputes {
            if *other == job && !drifts.iter().any(|drift| drift.setting == *setting) {
                dispute.suspect = None;
            }
        }
        let judged = drifts.into_iter().map(|drift| {
            let dispute = self.disputes.entry((job, drift.setting)).or_default();
            let verdict = dispute.differs(&drift.found, now_us);
            if dispute.suspect.is_some() {
                self.again = Some(job);
            }
            (drift, verdict)
        });
        judged.collect()
    }
}

impl Daemon {
    /// Looks whether the kernel still has of a job what it was told.
    pub(crate) fn look_for_drift(&mut self) {
        let Some(job) = self.drifts.next(&self.running) else { return };
        let now_us = self.clock.now_us();
        let Some(live) = self.jobs.get(&job) else { return };
        // Until its keeper has named its process it may be halfway in.
        let Some(container) = live.container.as_ref().filter(|_| live.row.main.is_some()) else { return };
        let found = match container.drifts(live.row.frozen_since_us.is_some()) {
            Ok(found) => found,
            Err(error) => {
                return tracing::debug!(job = job.0, error = %in_full(&error), "a job cannot be looked at");
            }
        };
        for (drift, verdict) in self.drifts.judge(job, found, now_us) {
            match verdict {
                Verdict::Wait => {}
                Verdict::Heal => self.heal(job, &drift),
                Verdict::Leave(time) => {
                    let file = drift.file;
                    let reason = format!(
                        "another program sets it to {} again and again; pinfold, which wants {}, leaves it so for {} s",
                        shown(&drift.found),
                        drift.wanted,
                        time.as_secs()
                    );
                    self.tell_of_drift(job, &drift, &format!("leave {file}"), &reason);
                }
            }
        }
    }

    fn heal(&mut self, job: JobId, drift: &Drift) {
        let Some(container) = self.jobs.get_mut(&job).and_then(|live| live.container.as_mut()) else {
            return;
        };
        let outcome = match container.set_again(drift) {
            Ok(Applied::Done) => "and it was set back".to_owned(),
            Ok(Applied::Kept(why)) => format!("and it stays so: {why}"),
            Err(error) => format!("and it cannot be set back: {}", in_full(&error)),
        };
        let reason =
            format!("another program changed it from {} to {}, {outcome}", drift.wanted, shown(&drift.found));
        self.tell_of_drift(job, drift, &format!("restore {}", drift.file), &reason);
    }

    fn tell_of_drift(&mut self, job: JobId, drift: &Drift, action: &str, reason: &str) {
        let now_us = self.clock.now_us();
        tracing::warn!(
            job = job.0,
            file = drift.file,
            wanted = drift.wanted,
            found = drift.found,
            reason,
            "another program changed what pinfold had set"
        );
        self.journal.decided(DecisionRow {
            job: job.0,
            time_us: now_us,
            action: action.to_owned(),
            reason: reason.to_owned(),
        });
        let time_s = pinfold_proto::view::seconds(now_us);
        let detail = format!("job {job}: {}: {reason}", drift.file);
        self.audit.note(time_s, peer::own_uid(), "pinfoldd", "drift", &detail);
    }
}

fn shown(found: &str) -> &str {
    if found.is_empty() { "nothing" } else { found }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const SECOND: u64 = 1_000_000;

    fn drift(found: &str) -> Vec<Drift> {
        vec![Drift { setting: Setting::Cpus, file: "cpuset.cpus", wanted: "0".into(), found: found.into() }]
    }

    /// Looks each second, while another program insists; what followed, and when.
    fn dispute(seconds: std::ops::Range<u64>, drifts: &mut Drifts) -> Vec<(u64, Verdict)> {
        let all: Vec<(u64, Verdict)> = seconds
            .map(|second| (second, drifts.judge(JobId(1), drift("1"), second * SECOND).remove(0).1))
            .collect();
        all.into_iter().filter(|(_, verdict)| *verdict != Verdict::Wait).collect()
    }

    #[test]
    fn what_differs_is_looked_at_again_before_it_is_set_back() {
        let mut drifts = Drifts::default();
        assert_eq!(drifts.judge(JobId(1), drift("1"), 0)[0].1, Verdict::Wait);
        assert_eq!(drifts.again, Some(JobId(1)));
        // It was on its way.
        assert_eq!(drifts.judge(JobId(1), Vec::new(), SECOND), []);
        assert_eq!(drifts.judge(JobId(1), drift("1"), 2 * SECOND)[0].1, Verdict::Wait);
        // Another value than before: it is being changed still.
        assert_eq!(drifts.judge(JobId(1), drift("2"), 3 * SECOND)[0].1, Verdict::Wait);
        assert_eq!(drifts.judge(JobId(1), drift("2"), 4 * SECOND)[0].1, Verdict::Heal);
    }

    #[test]
    fn what_is_changed_again_and_again_is_left_for_longer_each_time() {
        let mut drifts = Drifts::default();
        let told = dispute(1000..1400, &mut drifts);
        let heals = |range: std::ops::Range<u64>| {
            told.iter().filter(|(at, verdict)| range.contains(at) && *verdict == Verdict::Heal).count()
        };
        let left: Vec<(u64, u64)> = told
            .iter()
            .filter_map(|(at, verdict)| match verdict {
                Verdict::Leave(time) => Some((*at, time.as_secs())),
                _ => None,
            })
            .collect();
        assert_eq!(left, [(1007, 60), (1074, 120), (1201, 240)]);
        assert_eq!((heals(1000..1007), heals(1007..1067), heals(1067..1074)), (3, 0, 3));
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
        let mut drifts = Drifts::default();
        let running = BTreeSet::from([JobId(3), JobId(7), JobId(8)]);
        let turns: Vec<u64> = (0..4).filter_map(|_| drifts.next(&running)).map(|job| job.0).collect();
        assert_eq!(turns, [3, 7, 8, 3]);
        drifts.again = Some(JobId(8));
        assert_eq!(drifts.next(&running), Some(JobId(8)));
        drifts.schedule(3, 0);
        assert_eq!(drifts.due_us(), Some(1_666_666));
        (drifts.due_us, drifts.again) = (None, None);
        drifts.schedule(1000, 0);
        assert_eq!(drifts.due_us(), Some(SECOND));
        drifts.schedule(0, 0);
        assert_eq!(drifts.due_us(), None);
    }
}
