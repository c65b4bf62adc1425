//! The requests of a history's jobs, had each asked for the advice at its submission.
//!
//! Absent: attempts after a failure: under pinfold a request ends no job.

use std::collections::BTreeMap;

use crate::{Features, Learner, Order, RUNS_MIN, Row, Settings};

/// A job of a history.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Past<'a> {
    /// Its user.
    pub user: &'a str,
    /// Its name: a user's jobs of equal name and number of cores are a class.
    pub name: &'a str,
    /// Cores that it has.
    pub cores: u32,
    /// When it was submitted.
    pub submitted_s: f64,
    /// When it ended.
    pub ended_s: f64,
    /// How long it ran.
    pub wall_s: f64,
    /// The most that it held; `None`: nothing is learned from it.
    pub peak_bytes: Option<u64>,
}

impl Past<'_> {
    fn key(&self) -> (&str, &str, u32) {
        (self.user, self.name, self.cores)
    }
}

/// The advice for each job, by the jobs that had ended at its submission; `None`: too few had.
#[must_use]
pub fn requests(history: &[Past<'_>]) -> Vec<Option<u64>> {
    let mut by_submission: Vec<usize> = (0..history.len()).collect();
    let mut by_end = by_submission.clone();
    by_submission.sort_by(|&a, &b| history[a].submitted_s.total_cmp(&history[b].submitted_s));
    by_end.sort_by(|&a, &b| history[a].ended_s.total_cmp(&history[b].ended_s));
    let mut learners: BTreeMap<(&str, &str, u32), Learner> = BTreeMap::new();
    let mut ends = by_end.into_iter().peekable();
    let mut advised = vec![None; history.len()];
    for index in by_submission {
        let job = &history[index];
        while let Some(ended) = ends.next_if(|&ended| history[ended].ended_s <= job.submitted_s) {
            let past = &history[ended];
            let Some(peak_bytes) = past.peak_bytes.filter(|&peak| peak > 0) else { continue };
            let learner =
                learners.entry(past.key()).or_insert_with(|| Learner::new(Settings::of(Order::Time)));
            learner.observe(&Row { features: Features::default(), peak_bytes, wall_s: past.wall_s });
        }
        advised[index] = learners
            .get_mut(&job.key())
            .filter(|learner| learner.runs() >= RUNS_MIN)
            .and_then(|learner| learner.advise(&Features::default()))
            .map(|advice| advice.bytes);
    }
    advised
}

#[cfg(test)]
mod tests {
    use super::*;

    const GB: u64 = 1_000_000_000;

    fn job(submitted_s: f64, name: &str) -> Past<'_> {
        Past {
            user: "u",
            name,
            cores: 1,
            submitted_s,
            ended_s: submitted_s + 10.0,
            wall_s: 10.0,
            peak_bytes: Some(GB),
        }
    }

    #[test]
    fn each_knows_what_had_ended_before_it() {
        let history = [
            job(30.0, "a"),
            job(0.0, "a"),
            job(1.0, "a"),
            job(2.0, "a"),
            // The last had not ended yet; no job of class b had; another user's jobs are another class.
            job(11.5, "a"),
            job(30.0, "b"),
            Past { user: "v", ..job(30.0, "a") },
        ];
        let advised = requests(&history);
        assert!(advised[0].is_some_and(|bytes| (GB..3 * GB).contains(&bytes)), "{advised:?}");
        assert_eq!(&advised[1..], [None; 6]);
    }

    #[test]
    fn nothing_is_learned_from_jobs_of_which_nothing_is_known() {
        let unknown = |at_s| Past { peak_bytes: None, ..job(at_s, "a") };
        let history = [unknown(0.0), unknown(1.0), unknown(2.0), job(30.0, "a")];
        assert_eq!(requests(&history), [None; 4]);
        assert_eq!(requests(&[]), Vec::<Option<u64>>::new());
    }
}
