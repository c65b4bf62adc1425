//! What jobs that are over tell of those to come: what their class needs of memory, how long they run, and whether they run
//! faster with their cores apart.
//!
//! Owns the first two memories, the scheduler the third; all are made anew from the store at each start. Classes are a
//! user's own, unless an operator has the whole site learn from what was measured (`memory.learn`). What follows from
//! them is decided elsewhere: from the claims in the scheduler's memory room, from the lengths by the client that asks for
//! them and by the scheduler, which expects no job to run shorter than its user's own usually did.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use pinfold_policy::claims::{Claims, Peak, of_elsewhere};
use pinfold_policy::lengths::{Lengths, Likeness};
use pinfold_policy::{Event as SchedulerEvent, JobId, Kind, Lay, Ran, Shape};
use pinfold_profile::store::StoreError;
use pinfold_proto::config::Learn;
use pinfold_proto::program::{class, programs};
use pinfold_proto::row::{self, JobRow};
use pinfold_proto::{JobPlace, JobSpec};
use pinfold_sys::peer::Peer;

use crate::core::{Ctx, Outbox};
use crate::meters::elsewhere::Elsewhere;
use crate::meters::workers::Workers;

/// Jobs of earlier lives that are looked at: some tens of milliseconds' worth of reading.
const HISTORY: u32 = 5_000;

/// Runs are compared that took so long at least, in microseconds: of shorter ones most is their start and end.
const COMPARED_MIN_US: u64 = 100_000;
/// The part of its processor time that a run may have waited for a processor, to be compared: one in so many.
const WAITED_PART: u64 = 20;

/// What was learned.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    claims: Claims,
    lengths: Lengths,
    pub(crate) workers: Workers,
    /// Those of earlier lives are among the lengths.
    lengths_read: bool,
}

/// Stands for all users where the whole site's jobs are learned from. No user has this number: it means none.
const SITE: u32 = u32::MAX;

/// Ends are compared across users that the daemon saw itself at most one part in so many later than was told.
const END_PART: u64 = 50;

/// The class of a job: the user's jobs with the same program, under the same name, on as many cores.
fn kind(user: u32, spec: &JobSpec) -> Option<Kind> {
    Some(Kind { user, class: hash(&(class(&spec.command, &spec.name)?, spec.cores)) })
}

/// Who stands for the user of a job, for what is learned from it.
fn learner(learn: Learn, uid: u32) -> u32 {
    match learn {
        Learn::User => uid,
        Learn::Site => SITE,
    }
}

/// What a host has is divided by this for the most that a job counts for which was over before it was read.
const UNREAD_PART: u64 = 20;

/// What a job that ran held at most, as far as it counts for those to come; `None`: it does not.
///
/// What was reported counts up to what was measured. Of a job that ended before it was read nothing was measured: then
/// what its keeper told counts for its own user, up to a part of what the host has, RAM and swap: for what a running job is
/// expected to come to need others are frozen, so a word alone must not count for the whole host.
fn held(row: &JobRow, measured: Option<u64>, learn: Learn, there: impl FnOnce() -> u64) -> Option<u64> {
    row.started_us?;
    let reported = row.usage.memory_peak_bytes.max(measured.unwrap_or(0));
    match (measured, learn) {
        (Some(measured), _) => Some(reported.min(measured)),
        (None, Learn::User) => Some(reported.min(there() / UNREAD_PART)),
        (None, Learn::Site) => None,
    }
}

/// The last jobs that are over, in the order of their ends.
fn history(out: &mut Outbox) -> Result<Vec<JobRow>, StoreError> {
    out.journal.store().last_ended(HISTORY)
}

/// Whether something is learned from a job that is over. Only from those that ended well: one that failed may have done so
/// before it needed much. Of one that was adopted neither its length is known nor what it held before.
fn teaches(row: &JobRow) -> bool {
    row.spec.adopted.is_none() && row.started_us.is_some() && row.ended_well()
}

/// What was measured of a job of an earlier life: the kernel's own peak of its group, with what it had in swap.
fn measured_then(row: &JobRow) -> Option<u64> {
    let peak = row.usage.memory_peak_kernel_bytes?;
    Some(peak.saturating_add(row.usage.swap_peak_bytes))
}

/// Whether the daemon saw the end of a job when its keeper says that it was.
fn saw_end(row: &JobRow, now_us: u64) -> bool {
    let (Some(started_us), Some(ended_us)) = (row.started_us, row.ended_us) else { return false };
    now_us.saturating_sub(ended_us) <= ended_us.saturating_sub(started_us) / END_PART
}

/// The user's jobs with this very command, and those with its programs. One user's jobs say nothing to another.
fn likenesses(user: u32, command: &[String]) -> [Likeness; 2] {
    [hash(&(0, command)), hash(&(1, programs(command)))].map(|of| Likeness { user, of })
}

/// How a job lay, for its row; nothing where it lay neither closest together nor apart.
fn lay_row(lay: Lay) -> Option<row::Lay> {
    let place = match lay.shape {
        Shape::Compact => JobPlace::Compact,
        Shape::Spread => JobPlace::Spread,
    };
    let domains = u32::try_from(lay.domains).ok()?;
    lay.pure.then_some(row::Lay { place, domains })
}

/// A run to be compared with others of its class: one that was left to pinfold to lay, ended well, was never suspended, and
/// hardly waited for a processor.
fn ran(user: u32, row: &JobRow) -> Option<Ran> {
    let place = row.spec.layout.as_ref().and_then(|layout| layout.place);
    let used_us = row.usage.cpu_user_us.saturating_add(row.usage.cpu_system_us);
    let waited = row.usage.counts.waited_us.is_some_and(|waited_us| waited_us > used_us / WAITED_PART);
    let adopted = row.spec.adopted.is_some();
    let asked = matches!(place, Some(JobPlace::Compact | JobPlace::Spread));
    if asked || adopted || !row.ended_well() || waited || row.suspended_us > 0 {
        return None;
    }
    let shape = if row.lay?.place == JobPlace::Spread { Shape::Spread } else { Shape::Compact };
    let length_us = row.ended_us?.checked_sub(row.started_us?)?;
    let kind = kind(user, &row.spec)?;
    (length_us >= COMPARED_MIN_US).then_some(Ran { kind, shape, length_us })
}

pub(super) fn hash(of: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish()
}

impl Learned {
    /// Notes what the scheduler knows of a job that is over, and learns from it.
    ///
    /// `measured_bytes`: the most that readings of it showed; 0: there was none.
    pub(crate) fn learn_from_end(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        row: &mut JobRow,
        measured_bytes: u64,
    ) {
        let info = ctx.policy.job(JobId(row.job));
        let held_peak = info.as_ref().map_or(0, |info| info.memory_peak_bytes);
        let needed = info.as_ref().map(|info| info.memory_need_bytes);
        row.needed_bytes = needed.filter(|&needed| needed < held_peak);
        row.lay = info.and_then(|info| info.lay).and_then(lay_row);
        let measured = Some(held_peak.max(measured_bytes)).filter(|&bytes| bytes > 0);
        self.learn_length(row);
        self.learn(ctx, out, row, measured);
        if ctx.configured.config.memory_learn == Learn::User || saw_end(row, ctx.clock.now_us()) {
            learn_lay(ctx, out, row);
        }
    }

    /// Learns how long a job ran that is over.
    fn learn_length(&mut self, row: &JobRow) {
        if let (true, Some(started_us), Some(ended_us)) = (teaches(row), row.started_us, row.ended_us) {
            let length_us = ended_us.saturating_sub(started_us).saturating_sub(row.suspended_us);
            for likeness in likenesses(row.uid, &row.spec.command) {
                self.lengths.ended(likeness, length_us);
            }
        }
    }

    /// Learns from a job that is over. `measured`: the most that the daemon saw it hold, in bytes.
    fn learn(&mut self, ctx: &Ctx, out: &mut Outbox, row: &JobRow, measured: Option<u64>) {
        if !teaches(row) {
            return;
        }
        let learn = ctx.configured.config.memory_learn;
        let Some(kind) = kind_of(ctx, row.uid, &row.spec) else { return };
        let Some(held_bytes) = held(row, measured, learn, || there_bytes(ctx)) else { return };
        let peak = Peak { held_bytes, needed_bytes: row.needed_bytes.unwrap_or(held_bytes).min(held_bytes) };
        let claim = self.claims.ended(kind, JobId(row.job), peak, row.spec.claim_bytes);
        out.step(SchedulerEvent::Learned(kind, claim));
    }

    /// Learns from the jobs of earlier lives how long such jobs run, if the scheduler is about to hear of one whose user told
    /// that. All else, which no job is told with, can wait until the daemon is ready.
    pub(crate) fn learn_lengths_for(&mut self, unfinished: &[JobRow], out: &mut Outbox) {
        if unfinished.iter().all(|row| row.spec.expected_us.is_none()) {
            return;
        }
        match history(out) {
            Ok(rows) => {
                rows.iter().for_each(|row| self.learn_length(row));
                self.lengths_read = true;
            }
            Err(error) => tracing::warn!(%error, "nothing is learned of how long earlier jobs ran"),
        }
    }

    /// Learns from the jobs of earlier lives.
    pub(crate) fn learn_from_history(&mut self, ctx: &Ctx, out: &mut Outbox) {
        match out.journal.store().laid(HISTORY) {
            // Of those nobody but their keepers says when they ended.
            Ok(_) if ctx.configured.config.memory_learn == Learn::Site => {}
            Ok(rows) => rows.iter().for_each(|row| learn_lay(ctx, out, row)),
            Err(error) => tracing::warn!(%error, "nothing is learned of how earlier jobs lay"),
        }
        match history(out) {
            Ok(rows) => {
                if !std::mem::replace(&mut self.lengths_read, true) {
                    rows.iter().for_each(|row| self.learn_length(row));
                }
                rows.iter().for_each(|row| self.learn(ctx, out, row, measured_then(row)));
                rows.iter().for_each(|row| self.workers.remember(row));
            }
            Err(error) => tracing::warn!(%error, "nothing is learned from earlier jobs"),
        }
    }

    /// Has the scheduler expect of a job what those of its class held on other hosts, if none of them is known here; before
    /// the job itself is told of.
    pub(crate) fn learn_from_elsewhere(
        &self,
        ctx: &Ctx,
        out: &mut Outbox,
        elsewhere: &Elsewhere,
        row: &JobRow,
    ) {
        let Some(kind) = kind_of(ctx, row.uid, &row.spec) else { return };
        if self.claims.runs_of(kind).0 > 0 {
            return;
        }
        if let Some(found) = elsewhere.find(&ctx.configured.config, &row.user, &row.spec) {
            out.step(SchedulerEvent::Learned(kind, of_elsewhere(found.prior, there_bytes(ctx))));
        }
    }

    /// Where what is expected of a job comes from, if that is other hosts, in words.
    pub(crate) fn source_elsewhere(&self, ctx: &Ctx, elsewhere: &Elsewhere, row: &JobRow) -> Option<String> {
        let known = kind_of(ctx, row.uid, &row.spec).is_some_and(|kind| self.claims.runs_of(kind).0 > 0);
        let found = elsewhere.find(&ctx.configured.config, &row.user, &row.spec).filter(|_| !known)?;
        Some(found.words)
    }

    /// Which runs of its class count for what a job is expected to need, in words: `7: jobs 3, 4, 5, 6, 8 and 2 before`;
    /// `None`: none ended.
    pub(crate) fn runs_of_class(&self, ctx: &Ctx, row: &JobRow) -> Option<String> {
        let (count, last) = self.claims.runs_of(kind_of(ctx, row.uid, &row.spec)?);
        let numbers: Vec<String> = last.iter().map(ToString::to_string).collect();
        let jobs = if last.len() == 1 { "job" } else { "jobs" };
        let before = match count - last.len() {
            0 => String::new(),
            before => format!(" and {before} before"),
        };
        (count > 0).then(|| format!("{count}: {jobs} {}{before}", numbers.join(", ")))
    }

    /// How long the user's jobs with such commands usually ran, in microseconds.
    pub(crate) fn lengths(&self, user: Peer, commands: &[Vec<String>]) -> Vec<Option<u64>> {
        commands.iter().map(|command| self.usual_us(user.uid, command)).collect()
    }

    fn usual_us(&self, uid: u32, command: &[String]) -> Option<u64> {
        likenesses(uid, command).into_iter().find_map(|alike| self.lengths.usual_us(alike))
    }

    /// How long jobs like this one of its user usually run, else what its user told.
    pub(crate) fn usual(&self, row: &JobRow) -> Option<Duration> {
        let usual_us = self.usual_us(row.uid, &row.spec.command).or(row.spec.expected_us);
        usual_us.map(Duration::from_micros)
    }

    /// How long a job is expected to run, if its user told it. It goes first after a multiple of that. What the user's own
    /// jobs of this kind usually took counts where it is longer: else a user could pass others by telling little.
    pub(crate) fn expected(&self, row: &JobRow) -> Option<Duration> {
        let told_us = row.spec.expected_us?;
        let usual_us = self.usual_us(row.uid, &row.spec.command).unwrap_or(0);
        Some(Duration::from_micros(told_us.max(usual_us)))
    }
}

/// The jobs that this one is like, by whose jobs its user's are expected to be like.
pub(crate) fn kind_of(ctx: &Ctx, uid: u32, spec: &JobSpec) -> Option<Kind> {
    kind(learner(ctx.configured.config.memory_learn, uid), spec)
}

/// Learns from how long a job ran that lay one way all the time.
fn learn_lay(ctx: &Ctx, out: &mut Outbox, row: &JobRow) {
    if let Some(ran) = ran(learner(ctx.configured.config.memory_learn, row.uid), row) {
        out.step(SchedulerEvent::Ran(ran));
    }
}

/// RAM and swap of this host, in bytes: no job held more.
fn there_bytes(ctx: &Ctx) -> u64 {
    ctx.proc.memory_info().map_or(0, |info| info.total_bytes.saturating_add(info.swap_total_bytes))
}

#[cfg(test)]
mod tests {
    use pinfold_proto::End;

    use super::*;

    fn command(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[track_caller]
    fn alike(first: &[&str], second: &[&str], want: bool) {
        let spec = |words: &[&str]| JobSpec {
            command: command(words),
            name: "x".to_owned(),
            cores: 1,
            ..JobSpec::default()
        };
        assert_eq!(kind(7, &spec(first)) == kind(7, &spec(second)), want, "{first:?} {second:?}");
    }

    #[test]
    fn kinds_follow_the_program() {
        alike(&["velveth", "out1", "31"], &["velveth", "out2", "25"], true);
        alike(&["velveth"], &["velvetg"], false);
        alike(&["/bin/sh", "-c", "K=31 velveth out"], &["/bin/sh", "-c", "velveth out2 >log"], true);
        alike(&["/bin/sh", "-c", "velveth out"], &["/bin/sh", "-c", "bowtie x"], false);
        alike(&["/bin/sh", "job.sh"], &["/bin/sh", "-c", "x"], false);
        alike(&["python3", "train.py", "1"], &["python3", "train.py", "2"], true);
        alike(&["/usr/bin/python3.11", "-u", "train.py"], &["python3", "train.py"], true);
        alike(&["python3", "train.py"], &["python3", "plot.py"], false);
        alike(&["bash", "-x", "job.sh"], &["/bin/sh", "-c", "bash job.sh 7"], true);
        alike(&["python3"], &["python3", "-V"], true);
        alike(&["java", "-Xmx2g", "-jar", "a.jar"], &["java", "-jar", "b.jar"], false);
    }

    #[test]
    fn lengths_follow_the_command_then_the_program_and_never_another_user() {
        let line = |text: &str| command(&["/bin/sh", "-c", text]);
        let [this, program] = likenesses(7, &line("velveth a 31"));
        assert_ne!(this, likenesses(7, &line("velveth b 31"))[0]);
        assert_eq!(program, likenesses(7, &line("velveth b 31"))[1]);
        assert_ne!(program, likenesses(7, &line("bowtie b"))[1]);
        assert!(likenesses(8, &line("velveth a 31")).iter().all(|other| ![this, program].contains(other)));
    }

    #[test]
    fn a_job_is_expected_to_run_no_shorter_than_its_users_own_usually_did() {
        const S: u64 = 1_000_000;
        let mut learned = Learned::default();
        let asked = |uid, told_s: Option<u64>, words: &[&str]| {
            let expected_us = told_s.map(|seconds| seconds * S);
            let spec = JobSpec { command: command(words), expected_us, ..JobSpec::default() };
            JobRow::asked_for(3, uid, "ada".to_owned(), spec, 1)
        };
        let train = ["python3", "train.py", "1"];
        let told = |learned: &Learned, uid, told_s, words: &[&str]| {
            learned.expected(&asked(uid, told_s, words)).map(|length| length.as_secs())
        };
        assert_eq!(told(&learned, 7, Some(1), &train), Some(1), "the first of them");
        for length_s in [50, 3_600, 60] {
            learned.learn_length(&asked(7, None, &train).ran_until(1 + length_s * S));
        }
        let failed = JobRow { ending: None, ..asked(7, None, &train).ran_until(1 + 90 * S) };
        learned.learn_length(&failed);
        // It exited with code 0 when it was told to end.
        let cut = JobRow { end: Some(End::Timeout), ..asked(7, None, &train).ran_until(1 + 90 * S) };
        learned.learn_length(&cut);
        assert_eq!(told(&learned, 7, Some(1), &train), Some(60), "the median of the last");
        assert_eq!(told(&learned, 7, Some(90), &train), Some(90), "the longer one counts");
        assert_eq!(told(&learned, 7, Some(1), &["python3", "train.py", "2"]), Some(60), "other arguments");
        assert_eq!(told(&learned, 7, None, &train), None, "one that tells nothing waits ten minutes");
        assert_eq!(told(&learned, 7, Some(1), &["python3", "plot.py"]), Some(1));
        assert_eq!(told(&learned, 8, Some(1), &train), Some(1), "another user's runs say nothing");
    }

    #[test]
    fn a_kind_is_a_users_own_unless_the_site_learns() {
        let spec = JobSpec { command: command(&["sleep", "1"]), ..JobSpec::default() };
        let of = |learn, uid| kind(learner(learn, uid), &spec);
        assert_ne!(of(Learn::User, 0), of(Learn::User, 65_534));
        assert_eq!(of(Learn::Site, 0), of(Learn::Site, 65_534));
    }

    #[track_caller]
    fn counts(reported: u64, measured: Option<u64>, learn: Learn, want: Option<u64>) {
        let mut row = JobRow::asked_for(3, 7, "ada".to_owned(), JobSpec::default(), 1).ran_until(3);
        row.usage.memory_peak_bytes = reported;
        assert_eq!(held(&row, measured, learn, || 1_000), want, "{reported} {measured:?} {learn:?}");
        row.started_us = None;
        assert_eq!(held(&row, measured, learn, || 1_000), None, "one that never ran");
    }

    #[test]
    fn what_a_keeper_tells_counts_up_to_what_was_seen() {
        counts(500, Some(300), Learn::User, Some(300));
        counts(1 << 44, Some(300), Learn::User, Some(300));
        counts(200, Some(300), Learn::User, Some(300));
        counts(49, None, Learn::User, Some(49));
        counts(1 << 44, None, Learn::User, Some(1_000 / UNREAD_PART));
        counts(500, Some(300), Learn::Site, Some(300));
        counts(500, None, Learn::Site, None);
    }

    #[test]
    fn an_end_counts_across_users_only_as_it_was_seen() {
        let row =
            JobRow::asked_for(3, 7, "ada".to_owned(), JobSpec::default(), 1_000_000).ran_until(3_000_000);
        let started_us = row.started_us.unwrap();
        let after = (3_000_000 - started_us) / END_PART;
        assert!(saw_end(&row, 3_000_000) && saw_end(&row, 3_000_000 + after));
        assert!(!saw_end(&row, 3_000_001 + after));
        assert!(!saw_end(&JobRow { ended_us: Some(started_us), ..row }, 3_000_000));
    }

    #[test]
    fn runs_that_were_left_alone_are_compared() {
        let lay = Some(row::Lay { place: JobPlace::Spread, domains: 2 });
        let spec = JobSpec { command: command(&["solve"]), cores: 2, ..JobSpec::default() };
        let row =
            JobRow { lay, ..JobRow::asked_for(3, 7, "ada".to_owned(), spec, 1_000_000).ran_until(3_000_000) };
        let want = Ran { kind: kind(7, &row.spec).unwrap(), shape: Shape::Spread, length_us: 2_000_000 };
        assert_eq!(ran(7, &row), Some(want));
        let nothing = |what: &str, change: fn(&mut JobRow)| {
            let mut row = row.clone();
            change(&mut row);
            assert_eq!(ran(7, &row), None, "{what}");
        };
        nothing("it moved", |row| row.lay = None);
        nothing("it was suspended", |row| row.suspended_us = 1);
        nothing("it failed", |row| row.ending = None);
        nothing("it was ended", |row| row.end = Some(End::Cancelled));
        nothing("it was short", |row| row.ended_us = Some(1_050_000));
        nothing("it waited", |row| {
            (row.usage.cpu_user_us, row.usage.counts.waited_us) = (4_000_000, Some(300_000));
        });
        nothing("it said how to lie", |row| {
            let place = Some(JobPlace::Spread);
            row.spec.layout = Some(pinfold_proto::JobLayout { place, ..Default::default() });
        });
        let mut calm = row.clone();
        (calm.usage.cpu_user_us, calm.usage.counts.waited_us) = (4_000_000, Some(100_000));
        assert_eq!(ran(7, &calm), Some(want), "a little waiting is no matter");
    }
}
