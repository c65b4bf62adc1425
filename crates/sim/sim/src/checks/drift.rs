//! Another program's change to a job's setting is corrected in time and reported once, and two insisting programs do not
//! alternate for ever.

use std::collections::BTreeMap;
use std::time::Duration;

use pinfold_policy::JobId;

use super::Violation;
use crate::setting::Setting;

type Key = (JobId, Setting);

const SECOND_US: u64 = 1_000_000;
/// The most corrections of a setting within a minute,
const HEALS_A_MINUTE: usize = 3;
/// and within ten, for then it is left for longer and longer.
const HEALS_IN_TEN: usize = 12;
/// A setting without a change for this long is undisputed.
const CALM_US: u64 = 600 * SECOND_US;
/// No dispute is left for longer.
const LEFT_MAX: Duration = Duration::from_secs(60 << 5);

/// Other programs' changes, and the reports on them.
#[derive(Debug, Default)]
pub(crate) struct Watch {
    pending: BTreeMap<Key, Pending>,
    heals: BTreeMap<Key, Vec<u64>>,
    /// Corrections since it was last left alone.
    times: BTreeMap<Key, usize>,
    /// Until when each was left last, and for how long.
    left: BTreeMap<Key, (u64, Duration)>,
}

/// A setting that differs from its request.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// The time of the last write,
    since_us: u64,
    /// and until when it is left so.
    left_until_us: u64,
}

impl Watch {
    /// Whether another program's value stands.
    pub(crate) fn is_pending(&self, job: JobId, setting: Setting) -> bool {
        self.pending.contains_key(&(job, setting))
    }

    pub(crate) fn is_calm(&self) -> bool {
        self.pending.is_empty()
    }

    /// The jobs that are not over.
    pub(crate) fn keep(&mut self, there: impl Fn(JobId) -> bool) {
        self.pending.retain(|(job, _), _| there(*job));
    }

    /// Another program wrote, with a different value or the requested one.
    pub(crate) fn meddled(&mut self, key: Key, differs: bool, now_us: u64) {
        if !differs {
            self.pending.remove(&key);
            return;
        }
        let left_until_us = self.left.get(&key).map_or(0, |(until_us, _)| *until_us);
        self.pending.insert(key, Pending { since_us: now_us, left_until_us });
    }

    /// The daemon asked for a value.
    pub(crate) fn asked(&mut self, key: Key) {
        self.pending.remove(&key);
    }

    /// Records a reported correction.
    pub(crate) fn healed(&mut self, key: Key, now_us: u64, clock_is_true: bool) -> Result<(), Violation> {
        self.was_changed(key)?;
        self.pending.remove(&key);
        *self.times.entry(key).or_default() += 1;
        let heals = self.heals.entry(key).or_default();
        heals.push(now_us);
        heals.retain(|at_us| now_us - at_us < CALM_US);
        let last_minute = heals.iter().filter(|&at_us| now_us - at_us < 60 * SECOND_US).count();
        if clock_is_true && (last_minute > HEALS_A_MINUTE || heals.len() > HEALS_IN_TEN) {
            let found = format!("{key:?} at {heals:?}");
            return Err(Violation::new("what is changed again and again is not set again each time", found));
        }
        Ok(())
    }

    /// It is left alone for a while, as reported.
    pub(crate) fn left(
        &mut self,
        key: Key,
        time: Duration,
        now_us: u64,
        clock_is_true: bool,
    ) -> Result<(), Violation> {
        self.was_changed(key)?;
        let until_us = now_us + u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        if let Some(pending) = self.pending.get_mut(&key) {
            pending.left_until_us = until_us;
        }
        let times = self.times.remove(&key).unwrap_or(0);
        let before = self.left.insert(key, (until_us, time));
        let wrong = |rule| Err(Violation::new(rule, format!("{key:?} for {time:?}, before {before:?}")));
        if times < HEALS_A_MINUTE {
            return wrong("what was not set again several times is not left alone");
        }
        let at_once = before.filter(|(until_us, _)| now_us.saturating_sub(*until_us) < CALM_US);
        if clock_is_true && at_once.is_some_and(|(_, before)| time < (before * 2).min(LEFT_MAX)) {
            return wrong("a dispute is left for longer each time");
        }
        Ok(())
    }

    fn was_changed(&self, key: Key) -> Result<(), Violation> {
        if self.pending.contains_key(&key) {
            return Ok(());
        }
        let rule = "what another program changed is told once, and nothing else";
        Err(Violation::new(rule, format!("{key:?} is as it was asked for")))
    }

    /// Jobs are read in turn, each at most twice, a job a second.
    pub(crate) fn check(&self, now_us: u64, jobs: u64) -> Result<(), Violation> {
        let within_us = (2 * jobs + 8) * SECOND_US;
        let late = |pending: &Pending| now_us > pending.since_us.max(pending.left_until_us) + within_us;
        match self.pending.iter().find(|(_, pending)| late(pending)) {
            Some(found) => {
                let found = format!("{found:?} at {now_us}");
                Err(Violation::new("what another program changed is set again in time", found))
            }
            None => Ok(()),
        }
    }
}
