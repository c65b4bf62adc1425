//! Keepers that say nothing. One that was told that its job may start, and does not answer, is stopped (Ctrl-Z) or hangs:
//! the slot goes to the next job, and this one waits until its keeper speaks again. One that does not tell that its job
//! ended, for it is of another version, hangs or lies, keeps no slot either: the job is over once no process of it is
//! left.
//!
//! Owns when to look. Absent here: keepers that are gone (`starts`, `finish`), and what keepers may say (`intake`).

use std::collections::BTreeSet;

use pinfold_policy::{Command, Event as SchedulerEvent, JobId};
use pinfold_proto::row::{Codes, DecisionRow};

use crate::core::words::PUT_BACK;
use crate::core::{Ctx, Next, Outbox};
use crate::jobs::record::{JobRecord, Silent};
use crate::jobs::table::JobTable;

/// A keeper may take so long to answer that its job may start, counted from when it was told, in microseconds. One that
/// answers later loses nothing but the slot: its job starts in the next.
const ANSWERS_WITHIN_US: u64 = 3_000_000;
/// How soon a job of which no process is left is closed without a word of its keeper's, when that one is gone,
const COMES_WITHIN_US: u64 = 3_000_000;
/// and when it lives: it may be slow to connect to the next daemon, and jobs that follow this one are decided by how it
/// ended. What is told later is still written down.
const TELLS_WITHIN_US: u64 = 10_000_000;
/// How often is looked whether jobs that run have any process left.
const LOOK_EVERY_US: u64 = 1_000_000;

const NOT_ANSWERED: &str =
    "it was told that it may start, and its keeper did not answer within 3 s; it waits until that one does";
const NOT_BACK: &str = "its turn came, and its keeper did not come back to the daemon, which was restarted, within 3 s; it \
                        waits until that one does";
const STOPPED: &str = "its turn came while its keeper was stopped; it waits until that one goes on";
const NOBODY_TOLD: &str = "its processes ended, and its keeper did not tell how";

/// When to look.
#[derive(Debug, Default)]
pub(crate) struct Unheard {
    /// By when keepers are to have answered.
    asked: BTreeSet<(u64, JobId)>,
    /// Jobs that wait until their keepers, which are stopped, go on.
    stopped: BTreeSet<JobId>,
    /// Jobs that have started and have no container, of which their keepers are to tell.
    placeless: BTreeSet<JobId>,
    look_us: Option<u64>,
}

impl Unheard {
    /// When there is something to look at.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.asked.first().map(|&(at, _)| at).into_iter().chain(self.look_us).min()
    }

    /// Looks at jobs as long as any runs, and at keepers as long as any is stopped.
    pub(crate) fn schedule(&mut self, running: bool, now_us: u64) {
        self.look_us = if running || !self.stopped.is_empty() || !self.placeless.is_empty() {
            self.look_us.or(Some(now_us + LOOK_EVERY_US))
        } else {
            None
        };
    }
}

impl Unheard {
    /// A daemon before this one saw a job start, nothing is left where it ran, and its keeper is to tell of it.
    pub(crate) fn awaits_word(&mut self, job: JobId) {
        self.placeless.insert(job);
    }

    /// The keeper of a job was told that the job may start.
    pub(crate) fn awaits_answer(&mut self, ctx: &Ctx, table: &mut JobTable, job: JobId) {
        let until = ctx.clock.now_us() + ANSWERS_WITHIN_US;
        if let Some(live) = table.get_mut(&job) {
            live.answer_until_us = Some(until);
            self.asked.insert((until, job));
        }
    }

    /// It is time to look which keepers did not say what is waited for.
    pub(crate) fn on_unheard_due(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        running: &BTreeSet<JobId>,
    ) {
        let now_us = ctx.clock.now_us();
        while let Some(&(at, job)) = self.asked.first()
            && at <= now_us
        {
            self.asked.pop_first();
            if table.get(&job).is_some_and(|live| live.answer_until_us == Some(at)) {
                not_answered(ctx, out, table, job);
            }
        }
        if self.look_us.is_some_and(|at| at <= now_us) {
            self.look_us = None;
            let is_placeless = |live: &JobRecord| live.has_started() && live.container.is_none();
            self.placeless.retain(|job| table.get(job).is_some_and(|live| is_placeless(live)));
            let looked_at: Vec<JobId> = running.union(&self.placeless).copied().collect();
            looked_at.into_iter().for_each(|job| look_for_end(ctx, out, table, job, now_us));
            let stopped: Vec<JobId> = self.stopped.iter().copied().collect();
            for job in
                stopped.into_iter().filter(|&job| !is_keeper_stopped(ctx, table, job)).collect::<Vec<_>>()
            {
                self.stopped.remove(&job);
                keeper_spoke(out, table, job);
            }
        }
    }

    /// Whether the keeper of a job that is to start is stopped; then the slot goes to the next job, and this one waits until
    /// its keeper goes on. A child that it handed over before would wait for it as well.
    pub(crate) fn is_keeper_stopped_at_start(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        job: JobId,
    ) -> bool {
        let stopped = is_keeper_stopped(ctx, table, job);
        if stopped {
            withdraw_start(ctx, out, table, job, STOPPED);
            self.stopped.insert(job);
        }
        stopped
    }
}

/// A keeper had its time to answer.
fn not_answered(ctx: &Ctx, out: &mut Outbox, table: &mut JobTable, job: JobId) {
    let Some(live) = table.get_mut(&job) else { return };
    live.answer_until_us = None;
    let (kept, awaits) = (live.keeper.is_some(), live.awaits_keeper.is_some());
    let waits = !awaits && live.granted && live.container.is_none() && live.child.is_none();
    // By self-attach files: the container is there, and nobody came.
    let empty =
        kept && !awaits && live.container.is_some() && live.row.main.is_none() && live.row.ending.is_none();
    if !waits && !empty {
        return;
    }
    tracing::info!(job = job.0, "a keeper does not answer that its job may start");
    if waits {
        return withdraw_start(ctx, out, table, job, if kept { NOT_ANSWERED } else { NOT_BACK });
    }
    live.silent = Some(Silent { held: false, suspended: true });
    out.step(SchedulerEvent::Command(job, Command::Suspend));
    out.then(Next::Reason(job, NOT_ANSWERED.to_owned()));
}

fn is_keeper_stopped(ctx: &Ctx, table: &JobTable, job: JobId) -> bool {
    let Some(keeper) = table.get(&job).and_then(|live| live.row.keeper) else { return false };
    let stat = ctx.proc.stat(keeper.pid).ok().flatten();
    stat.is_some_and(|stat| stat.start_ticks == keeper.start_ticks && stat.state == 'T')
}

/// A job that was to start waits again, and is held until its keeper is heard of.
fn withdraw_start(ctx: &Ctx, out: &mut Outbox, table: &mut JobTable, job: JobId, why: &str) {
    let (now_us, start) = (ctx.clock.now_us(), table.start_action(job));
    let Some(live) = table.get_mut(&job) else { return };
    put_back(live);
    out.journal.touch(job);
    // A start that an earlier daemon may have carried out is taken back by nobody but the keeper.
    if !live.found_granted {
        let (action, reason) = (PUT_BACK.to_owned(), why.to_owned());
        let codes = Some(Codes::plain("put_back", "keeper_silent"));
        out.journal.decided(DecisionRow { job: job.0, time_us: now_us, action, reason, codes });
    }
    out.step(SchedulerEvent::Failed { job, action: start, error: why.to_owned() });
    out.step(SchedulerEvent::Command(job, Command::Hold));
    out.then(Next::Reason(job, why.to_owned()));
}

/// It waits again. That it was about to begin may be on disk: a restart of the host would take it for one that ran.
fn put_back(live: &mut JobRecord) {
    live.silent = Some(Silent { held: false, suspended: false });
    (live.granted, live.asked_child, live.row.cpus) = (false, false, None);
    live.answer_until_us = None;
    live.does_not_begin();
}

/// The keeper of a job has spoken of it.
pub(crate) fn keeper_spoke(out: &mut Outbox, table: &mut JobTable, job: JobId) {
    let Some(live) = table.get_mut(&job) else { return };
    live.answer_until_us = None;
    let Some(Silent { held, suspended }) = live.silent.take() else { return };
    live.row.reason = None;
    out.journal.touch(job);
    if !held {
        let command = if suspended { Command::Resume } else { Command::Release };
        out.step(SchedulerEvent::Command(job, command));
    }
    out.then(Next::Follow(job));
    out.then(Next::Isolate);
}

/// A user holds or releases a job whose keeper does not answer: it counts once that one does.
pub(crate) fn holds_silent(table: &mut JobTable, job: JobId, command: Command) -> bool {
    let held = match command {
        Command::Hold | Command::Suspend => true,
        Command::Release | Command::Resume => false,
        _ => return false,
    };
    let Some(silent) = table.get_mut(&job).and_then(|live| live.silent.as_mut()) else {
        return false;
    };
    silent.held = held;
    true
}

/// Why a job waits whose keeper does not answer, and what would change that, in words; `None`: its keeper does, or its user
/// holds it.
pub(crate) fn words(ctx: &Ctx, table: &JobTable, job: JobId) -> Option<(String, String)> {
    let live = table.get(&job)?;
    live.silent.filter(|silent| !silent.held)?;
    let keeper = live.row.keeper?.pid;
    Some(if is_keeper_stopped(ctx, table, job) {
        let goes_on = format!("its keeper must go on (`kill -CONT {keeper}`, or `fg` where it was stopped)");
        (format!("its turn came, and its keeper, process {keeper}, is stopped"), goes_on)
    } else {
        let answers = format!("its keeper must answer, or `pinfold cancel {job}`");
        (format!("its turn came, and its keeper, process {keeper}, does not answer"), answers)
    })
}

/// Ends a job of which no process is left and nobody tells.
fn look_for_end(ctx: &Ctx, out: &mut Outbox, table: &mut JobTable, job: JobId, now_us: u64) {
    let Some(live) = table.get(&job) else { return };
    let ended = has_ended(ctx, live);
    let lives = || live.row.keeper.is_some_and(|one| crate::core::process::is_alive(&ctx.proc, one));
    let limit_us = if live.keeper.is_some() || ended && lives() { TELLS_WITHIN_US } else { COMES_WITHIN_US };
    let Some(live) = table.get_mut(&job) else { return };
    if !ended {
        live.emptied_us = None;
        return;
    }
    let since_us = *live.emptied_us.get_or_insert(now_us);
    if now_us.saturating_sub(since_us) < limit_us {
        return;
    }
    tracing::warn!(job = job.0, "no process of a job is left, and its keeper does not tell of it");
    (live.orphaned, live.untold) = (true, true);
    live.row.reason = Some(NOBODY_TOLD.to_owned());
    out.journal.touch(job);
    out.then(Next::LookForEnd(job));
}

/// Whether no process is left of a job whose end is for its keeper to tell.
fn has_ended(ctx: &Ctx, live: &JobRecord) -> bool {
    // Of one that is to be requeued more is to come: its keeper begins it anew.
    let is_over = live.row.ending.is_some() && !live.is_ended_to_be_requeued();
    let told = is_over || live.orphaned || live.row.spec.adopted.is_some();
    // Its keeper may be about to enter.
    let begins = live.row.main.is_none() && live.keeper.is_some();
    let main_lives = || live.row.main.is_some_and(|main| crate::core::process::is_alive(&ctx.proc, main));
    // Last, for without groups it is a look at the whole host.
    let empty = || match live.container.as_deref() {
        Some(container) => matches!(container.is_populated(), Ok(false)),
        // The daemon before this one saw it start, and nothing is left where it ran.
        None => live.has_started(),
    };
    !told && !begins && !main_lives() && empty()
}

#[cfg(test)]
mod tests {
    use pinfold_policy::{Action, Class};
    use pinfold_proto::JobSpec;
    use pinfold_proto::row::JobRow;
    use pinfold_topo::CpuSet;

    use super::*;
    use crate::core::words::{in_words, leads_to_a_start};
    use crate::jobs::record::Begin;

    #[track_caller]
    fn check(actions: &[&str], want: Option<u64>) {
        let decisions = actions.iter().enumerate().map(|(at, action)| (*action, at as u64));
        assert_eq!(leads_to_a_start(decisions), want, "{actions:?}");
    }

    #[test]
    fn only_a_start_that_was_not_taken_back_counts() {
        let start = in_words(&Action::Start { class: Class::Primary, cpus: CpuSet::new(), priority: 10 });
        let anew = in_words(&Action::Requeue);
        check(&[], None);
        check(&[&start], Some(0));
        check(&[&start, "bind on 1", "freeze", "thaw"], Some(0));
        check(&[&start, PUT_BACK], None);
        check(&[&start, PUT_BACK, &start], Some(2));
        check(&[&start, "freeze", &anew], None);
        check(&["strike off"], None);
    }

    #[test]
    fn one_that_is_put_back_has_not_begun() {
        let row = JobRow::asked_for(1, 0, String::new(), JobSpec::default(), 5);
        let mut live = JobRecord::new(JobRow { started_us: Some(7), ..row }, true);
        (live.granted, live.begin) = (true, Begin::Sure);
        put_back(&mut live);
        assert_eq!((live.row.started_us, live.begin, live.granted), (None, Begin::No, false));
    }

    #[test]
    fn the_next_look_is_at_the_first_that_is_due() {
        let mut unheard = Unheard::default();
        assert_eq!(unheard.due_us(), None, "an idle host is not woken");
        unheard.schedule(true, 1_000);
        unheard.schedule(true, 5_000);
        assert_eq!(unheard.due_us(), Some(1_000 + LOOK_EVERY_US));
        unheard.asked.insert((7, JobId(1)));
        assert_eq!(unheard.due_us(), Some(7));
        unheard.asked.clear();
        unheard.schedule(false, 9_000);
        assert_eq!(unheard.due_us(), None);
    }
}
