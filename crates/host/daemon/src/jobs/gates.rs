//! What keeps a waiting job from the queue beside the queue itself: a time before which it does not begin, and how other
//! jobs end (`ok:`, `failed:`). Until all of that holds its gate is closed in the scheduler.
//!
//! Owns which job waits for what. Pure: told of times and ends. Absent here: predecessors of which only the end counts, which
//! the scheduler sees to, and who may wait for whose job (`rights`).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use pinfold_policy::JobId;
use pinfold_proto::{After, AfterEnd};

/// The most conditions of how other jobs end that a job may have.
pub(crate) const CONDITIONS_MAX: usize = 1024;

/// Of so many jobs it is decided in a turn of the loop what becomes of them: thousands may wait for one, or each for the one
/// before it, and everybody would wait for the scheduler's steps about them.
const DECIDED_A_TURN: usize = 64;

/// A condition of how a job, or all of an array, ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Condition {
    /// As it was asked for.
    pub(crate) after: After,
    /// Jobs that are not over.
    pub(crate) left: BTreeSet<JobId>,
    /// Of those that are, the first known that did not end well.
    pub(crate) failed: Option<JobId>,
}

impl Condition {
    /// Whether it holds; `None`: that is not known yet. An error says why it never will.
    fn holds(&self) -> Result<Option<()>, String> {
        let over = self.left.is_empty();
        let (After { end, job: name, with }, all_over) = (&self.after, over.then_some(()));
        match (end, self.failed) {
            (AfterEnd::Any, _) | (AfterEnd::Ok, None) => Ok(all_over),
            (AfterEnd::Ok, Some(failed)) => {
                let named = self.after.named();
                let is_named = self.after.jobs().any(|name| failed.0 == name.job && name.indexes.is_none());
                let which =
                    if is_named { format!("job {failed}") } else { format!("job {failed} of {named}") };
                Err(format!("it was to start once job {named} had ended well, and {which} did not"))
            }
            (AfterEnd::Failed, Some(_)) => Ok(all_over),
            (AfterEnd::Failed, None) if over && !with.is_empty() => Err(format!(
                "it was to start once one of the jobs {} had failed, and they ended well",
                self.after.named()
            )),
            (AfterEnd::Failed, None) if over => {
                Err(format!("it was to start once job {name} had failed, and that ended well"))
            }
            (AfterEnd::Failed, None) => Ok(None),
        }
    }

    fn words(&self) -> String {
        let named = self.after.named();
        match self.after.end {
            AfterEnd::Any => format!("for job {named}"),
            AfterEnd::Ok => format!("for job {named} to end well"),
            AfterEnd::Failed if !self.after.with.is_empty() => {
                format!("for jobs {named} to be over, and one of them to fail")
            }
            AfterEnd::Failed => format!("for job {named} to fail"),
        }
    }
}

/// What is to become of a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Nothing but the queue keeps it any more.
    Opens,
    /// It can never start, for this reason.
    Never(String),
}

/// Why a job waits for its time alone, in words.
pub(crate) fn not_before(at: &str) -> String {
    format!("it begins at {at}, not before")
}

#[derive(Debug, Default)]
struct Closed {
    begin_us: Option<u64>,
    conditions: Vec<Condition>,
    /// What else it waits for is not known.
    unknown: bool,
}

impl Closed {
    /// Whether the time alone, once it has come, opens it.
    fn waits_for_time_alone(&self) -> bool {
        self.conditions.is_empty() && !self.unknown
    }
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Gates {
    closed: BTreeMap<JobId, Closed>,
    /// Of each job that is not over, those with a condition of how it ends.
    followers: BTreeMap<JobId, BTreeSet<JobId>>,
    begins: BTreeSet<(u64, JobId)>,
    /// Jobs that are over, well or not, while some with a condition of that are not decided. They need not outlive the daemon:
    /// the next one looks anew how those ended that its jobs wait for.
    over: VecDeque<(JobId, bool)>,
    /// So many were decided in this turn.
    decided: usize,
}

impl Gates {
    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self) {
        self.decided = 0;
    }

    /// Closes a job's gate if anything is to come first; says whether it is closed.
    ///
    /// # Errors
    /// In words, if a condition can never hold.
    pub(crate) fn close(
        &mut self,
        job: JobId,
        begin_us: Option<u64>,
        conditions: Vec<Condition>,
        now_us: u64,
    ) -> Result<bool, String> {
        let mut open = Vec::new();
        for condition in conditions {
            if condition.holds()?.is_none() {
                open.push(condition);
            }
        }
        self.forget(job);
        let begin_us = begin_us.filter(|&at| at > now_us);
        if open.is_empty() && begin_us.is_none() {
            return Ok(false);
        }
        for predecessor in open.iter().flat_map(|condition| &condition.left) {
            self.followers.entry(*predecessor).or_default().insert(job);
        }
        self.begins.extend(begin_us.map(|at| (at, job)));
        self.closed.insert(job, Closed { begin_us, conditions: open, unknown: false });
        Ok(true)
    }

    /// Closes a job's gate, until it is known what it waits for.
    pub(crate) fn close_for_now(&mut self, job: JobId) {
        self.closed.entry(job).or_default().unknown = true;
    }

    /// The jobs of which that is not known.
    pub(crate) fn closed_for_now(&self) -> Vec<JobId> {
        self.closed.iter().filter(|(_, closed)| closed.unknown).map(|(job, _)| *job).collect()
    }

    /// A job does not wait for anything of this any more.
    pub(crate) fn forget(&mut self, job: JobId) {
        let Some(Closed { begin_us, conditions, .. }) = self.closed.remove(&job) else { return };
        begin_us.map(|at| self.begins.remove(&(at, job)));
        for predecessor in conditions.iter().flat_map(|condition| &condition.left) {
            if let Some(followers) = self.followers.get_mut(predecessor) {
                followers.remove(&job);
                if followers.is_empty() {
                    self.followers.remove(predecessor);
                }
            }
        }
    }

    /// Whether a job's gate is closed.
    pub(crate) fn is_closed(&self, job: JobId) -> bool {
        self.closed.contains_key(&job)
    }

    /// A job is over, well or not: those with a condition of that are to be decided.
    pub(crate) fn over(&mut self, of: JobId, well: bool) {
        if self.followers.contains_key(&of) {
            self.over.push_back((of, well));
        }
    }

    /// Whether some are still to be decided.
    pub(crate) fn has_undecided(&self) -> bool {
        !self.over.is_empty()
    }

    /// The next job of which it is known what becomes of it; `None`: there is none, or enough were decided in this turn.
    /// However many wait for one job, those that wait for others have their parts in turn.
    pub(crate) fn next(&mut self) -> Option<(JobId, Verdict)> {
        while self.decided < DECIDED_A_TURN {
            let (of, well) = self.over.pop_front()?;
            let Some(followers) = self.followers.get_mut(&of) else { continue };
            let job = followers.pop_first();
            if followers.is_empty() {
                self.followers.remove(&of);
            } else {
                self.over.push_back((of, well));
            }
            self.decided += 1;
            if let Some((job, verdict)) = job.and_then(|job| Some((job, self.verdict(job, of, well)?))) {
                self.forget(job);
                return Some((job, verdict));
            }
        }
        None
    }

    /// What becomes of a job once another one is over; `None`: it waits on.
    fn verdict(&mut self, job: JobId, of: JobId, well: bool) -> Option<Verdict> {
        let closed = self.closed.get_mut(&job)?;
        for condition in &mut closed.conditions {
            if condition.left.remove(&of) && !well {
                condition.failed.get_or_insert(of);
            }
        }
        if let Some(why) = closed.conditions.iter().find_map(|condition| condition.holds().err()) {
            return Some(Verdict::Never(why));
        }
        closed.conditions.retain(|condition| condition.holds() == Ok(None));
        (closed.conditions.is_empty() && closed.begin_us.is_none()).then_some(Verdict::Opens)
    }

    /// When the next job may begin, by the clock of the system.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.begins.first().map(|&(at, _)| at)
    }

    /// The jobs whose time has come, and that wait for nothing else here, as many as may be in this turn. The time of the
    /// others is due on.
    pub(crate) fn begun(&mut self, now_us: u64) -> Vec<JobId> {
        let mut all = Vec::new();
        while let Some(&(at, job)) = self.begins.first().filter(|(at, _)| *at <= now_us)
            && self.decided < DECIDED_A_TURN
        {
            self.begins.remove(&(at, job));
            self.decided += 1;
            let Some(closed) = self.closed.get_mut(&job) else { continue };
            closed.begin_us = None;
            if closed.waits_for_time_alone() {
                self.forget(job);
                all.push(job);
            }
        }
        all
    }

    /// Changes before when a waiting job does not begin; says whether its gate is closed now.
    pub(crate) fn set_begin(&mut self, job: JobId, begin_us: Option<u64>, now_us: u64) -> bool {
        let before = self.closed.get_mut(&job);
        let before = before.map(|closed| (std::mem::take(&mut closed.conditions), closed.unknown));
        let (conditions, unknown) = before.unwrap_or_default();
        // These are known to be open still.
        let closed = self.close(job, begin_us, conditions, now_us).unwrap_or(false);
        if unknown {
            self.close_for_now(job);
        }
        closed || unknown
    }

    /// When a job that waits for its time alone begins to wait for slots, in microseconds since the Unix epoch.
    pub(crate) fn opens_us(&self, job: JobId) -> Option<u64> {
        self.closed.get(&job).filter(|closed| closed.waits_for_time_alone())?.begin_us
    }

    /// What a job waits for here, and what would change it, in words. `when` says a time.
    pub(crate) fn words(&self, job: JobId, when: impl Fn(u64) -> String) -> Option<(String, String)> {
        let closed = self.closed.get(&job)?;
        if closed.unknown {
            let begins = closed.begin_us.map_or(String::new(), |at| format!("; it begins at {}", when(at)));
            let words = format!("how the jobs it waits for ended could not be read{begins}");
            return Some((words, "a start of the daemon once its store can be read".to_owned()));
        }
        let first = closed.conditions.first();
        Some(match (closed.begin_us.map(when), first) {
            (Some(at), None) => (not_before(&at), format!("its time, or `pinfold set {job} --begin now`")),
            (at, _) => {
                let begins = at.map_or(String::new(), |at| format!(", and begins at {at}"));
                let left: BTreeSet<JobId> =
                    closed.conditions.iter().flat_map(|condition| condition.left.iter().copied()).collect();
                let words: Vec<String> = closed.conditions.iter().take(3).map(Condition::words).collect();
                let more = closed.conditions.len().saturating_sub(words.len());
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let next = left.first().map_or(String::new(), |next| format!("job {next} must be over"));
                (format!("it waits {}{more}{begins}", words.join(" and ")), next)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn condition(after: &str, left: &[u64], failed: Option<u64>) -> Condition {
        let left = left.iter().copied().map(JobId).collect();
        Condition { after: after.parse().expect(after), left, failed: failed.map(JobId) }
    }

    /// A job is over; gives all that is decided by that, turn by turn.
    fn over(gates: &mut Gates, of: u64, well: bool) -> Vec<(JobId, Verdict)> {
        gates.over(JobId(of), well);
        let mut all = Vec::new();
        loop {
            gates.begin_turn();
            all.extend(std::iter::from_fn(|| gates.next()));
            if !gates.has_undecided() {
                return all;
            }
        }
    }

    fn opens(job: u64) -> (JobId, Verdict) {
        (JobId(job), Verdict::Opens)
    }

    #[test]
    fn a_time_opens_a_gate_once() {
        let mut gates = Gates::default();
        assert_eq!(gates.close(JobId(1), Some(10), Vec::new(), 10), Ok(false), "it is over already");
        assert_eq!(gates.close(JobId(1), Some(11), Vec::new(), 10), Ok(true));
        assert_eq!(gates.close(JobId(2), Some(30), Vec::new(), 10), Ok(true));
        assert_eq!((gates.due_us(), gates.begun(10)), (Some(11), Vec::new()));
        assert!(gates.set_begin(JobId(1), Some(20), 12));
        assert_eq!((gates.begun(19), gates.begun(20), gates.begun(20)), (vec![], vec![JobId(1)], vec![]));
        assert!(!gates.set_begin(JobId(2), None, 20) && !gates.is_closed(JobId(2)));
        assert_eq!(gates.due_us(), None);
    }

    #[test]
    fn no_time_opens_a_gate_of_which_nothing_is_known() {
        let mut gates = Gates::default();
        gates.close_for_now(JobId(1));
        assert_eq!(gates.closed_for_now(), [JobId(1)]);
        for begin_us in [Some(20), None, Some(20)] {
            assert!(gates.set_begin(JobId(1), begin_us, 10), "{begin_us:?}");
            assert_eq!((gates.due_us(), gates.closed_for_now()), (begin_us, vec![JobId(1)]));
        }
        assert_eq!((gates.begun(20), gates.is_closed(JobId(1))), (Vec::new(), true));
        let (words, _) = gates.words(JobId(1), |at| format!("t{at}")).expect("it is closed");
        assert_eq!(words, "how the jobs it waits for ended could not be read");
        // Once it is known that decides.
        assert_eq!(gates.close(JobId(1), None, Vec::new(), 30), Ok(false));
        assert!(gates.closed.is_empty() && gates.begins.is_empty());
    }

    #[test]
    fn how_predecessors_end_decides() {
        let mut gates = Gates::default();
        let close =
            |gates: &mut Gates, job, all: &[Condition]| gates.close(JobId(job), None, all.to_vec(), 0);
        assert_eq!(close(&mut gates, 10, &[condition("ok:1", &[1], None)]), Ok(true));
        assert_eq!(close(&mut gates, 11, &[condition("failed:1", &[1], None)]), Ok(true));
        assert_eq!(
            close(&mut gates, 12, &[condition("ok:1", &[1], None), condition("ok:2", &[2], None)]),
            Ok(true)
        );
        let told = over(&mut gates, 1, true);
        let never = "it was to start once job 1 had failed, and that ended well".to_owned();
        assert_eq!(told, [opens(10), (JobId(11), Verdict::Never(never))]);
        assert_eq!(over(&mut gates, 1, false), [], "once");
        let told = over(&mut gates, 2, false);
        let never = "it was to start once job 2 had ended well, and job 2 did not".to_owned();
        assert_eq!(told, [(JobId(12), Verdict::Never(never))]);
        assert!(gates.closed.is_empty() && gates.followers.is_empty());
    }

    #[test]
    fn an_array_counts_as_one() {
        let mut gates = Gates::default();
        let array = |after: &str| vec![condition(after, &[5, 6], None)];
        assert_eq!(gates.close(JobId(10), None, array("failed:5"), 0), Ok(true));
        assert_eq!(gates.close(JobId(11), None, array("ok:5"), 0), Ok(true));
        let never = "it was to start once job 5 had ended well, and job 6 of 5 did not".to_owned();
        assert_eq!(over(&mut gates, 6, false), [(JobId(11), Verdict::Never(never))]);
        assert!(gates.is_closed(JobId(10)), "the others run on");
        assert_eq!(over(&mut gates, 5, true), [opens(10)]);
        // What is over already counts.
        assert!(gates.close(JobId(12), None, vec![condition("ok:5", &[6], Some(5))], 0).is_err());
        assert!(gates.close(JobId(12), None, vec![condition("failed:5", &[], None)], 0).is_err());
        assert_eq!(gates.close(JobId(12), None, vec![condition("failed:5", &[], Some(5))], 0), Ok(false));
    }

    #[test]
    fn several_jobs_count_as_one() {
        let mut gates = Gates::default();
        let both = || vec![condition("failed:5+6", &[5, 6], None)];
        assert_eq!(gates.close(JobId(10), None, both(), 0), Ok(true));
        let said = gates.words(JobId(10), |at| format!("t{at}")).expect("it is closed");
        assert_eq!(said.0, "it waits for jobs 5 and 6 to be over, and one of them to fail");
        assert_eq!(over(&mut gates, 5, false), [], "the other runs on");
        assert_eq!(over(&mut gates, 6, true), [opens(10)]);
        assert_eq!(gates.close(JobId(11), None, both(), 0), Ok(true));
        assert_eq!(over(&mut gates, 6, true), []);
        let never = "it was to start once one of the jobs 5 and 6 had failed, and they ended well".to_owned();
        assert_eq!(over(&mut gates, 5, true), [(JobId(11), Verdict::Never(never))]);
        let either = |failed| vec![condition("ok:5+6+7", &[], Some(failed))];
        let never = "it was to start once job 5 and 2 more had ended well, and job 7 did not".to_owned();
        assert_eq!(gates.close(JobId(12), None, either(7), 0), Err(never));
    }

    #[test]
    fn time_and_ends_must_both_hold_and_why_names_them() {
        let mut gates = Gates::default();
        assert_eq!(gates.close(JobId(3), Some(9), vec![condition("ok:1", &[1], None)], 0), Ok(true));
        let words = |gates: &Gates| gates.words(JobId(3), |at| format!("t{at}"));
        let said = words(&gates).expect("it is closed");
        assert_eq!(said.0, "it waits for job 1 to end well, and begins at t9");
        assert_eq!(said.1, "job 1 must be over");
        assert_eq!(over(&mut gates, 1, true), []);
        assert_eq!(words(&gates).expect("it is closed").0, "it begins at t9, not before");
        assert_eq!(gates.begun(9), [JobId(3)]);
        assert_eq!(words(&gates), None);
        assert_eq!(gates.close(JobId(4), Some(9), vec![condition("ok:1", &[1], None)], 0), Ok(true));
        gates.forget(JobId(4));
        assert!(gates.closed.is_empty() && gates.followers.is_empty() && gates.begins.is_empty());
    }

    /// Decides as many as a turn does, and gives how many these were.
    fn turn(gates: &mut Gates) -> Vec<u64> {
        gates.begin_turn();
        std::iter::from_fn(|| gates.next()).map(|(job, _)| job.0).collect()
    }

    #[test]
    fn thousands_that_wait_for_one_are_decided_some_in_a_turn() {
        let mut gates = Gates::default();
        for job in 10..1_010 {
            let conditions = vec![condition("ok:1", &[1], None)];
            assert_eq!(gates.close(JobId(job), None, conditions, 0), Ok(true));
        }
        let conditions = vec![condition("ok:2", &[2], None)];
        assert_eq!(gates.close(JobId(5_000), None, conditions, 0), Ok(true));
        gates.over(JobId(1), true);
        gates.over(JobId(2), true);
        let first = turn(&mut gates);
        assert!(first.len() == DECIDED_A_TURN && first.contains(&5_000), "others wait for none of them");
        // One that is withdrawn is not decided, and one whose time was changed is once.
        gates.forget(JobId(900));
        assert!(gates.set_begin(JobId(901), Some(9), 0) && gates.is_closed(JobId(901)));
        let mut all = first;
        while gates.has_undecided() {
            let some = turn(&mut gates);
            assert!(some.len() <= DECIDED_A_TURN);
            all.extend(some);
        }
        all.sort_unstable();
        let decided = (10..1_010).filter(|job| ![900, 901].contains(job)).chain([5_000]);
        assert_eq!(all, decided.collect::<Vec<u64>>());
        assert_eq!(gates.begun(9), [JobId(901)]);
        assert!(gates.closed.is_empty() && gates.followers.is_empty());
    }

    #[test]
    fn thousands_that_wait_for_one_moment_begin_some_in_a_turn() {
        let mut gates = Gates::default();
        for job in 0..1_000 {
            assert_eq!(gates.close(JobId(job), Some(9), Vec::new(), 0), Ok(true));
        }
        let mut all = Vec::new();
        while gates.due_us() == Some(9) {
            gates.begin_turn();
            let some = gates.begun(9);
            assert_eq!(some.len(), DECIDED_A_TURN.min(1_000 - all.len()));
            all.extend(some);
        }
        assert_eq!(all, (0..1_000).map(JobId).collect::<Vec<_>>());
    }
}
