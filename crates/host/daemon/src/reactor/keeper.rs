//! What keepers say of their jobs, and what follows when one comes, goes, or is lost.

use pinfold_policy::JobId;
use pinfold_proto::Ending;
use pinfold_proto::row::{JobRow, ProcessId};
use pinfold_proto::start::Start;
use pinfold_proto::wire::{ErrorCode, Phase, Reply};
use pinfold_sys::container::Container;
use pinfold_sys::identity::Process;
use pinfold_sys::peer::Peer;

use crate::core::poller::Ready;
use crate::core::{ConnectionId, Effect, store_failed};
use crate::jobs::child::Child;
use crate::jobs::{JobRecord, Jobs, endings, taken, unheard};
use crate::reactor::Daemon;
use crate::store::starts::{self, kept_as};

/// How long a job that came through the self-attach files of its container lives before those are closed. Most short jobs are
/// over by then, and are spared the wait.
const DOORS_CLOSE_AFTER_US: u64 = 30_000;

/// So many jobs whose connections are gone, or whose keepers are not watched, are seen to in a turn of the loop.
const LEFT_AT_ONCE: usize = 64;

impl Daemon {
    /// A keeper tells what another one would need in its place.
    pub(super) fn kept(&mut self, id: ConnectionId, job: JobId, mut start: Box<Start>) {
        if let Err(why) = starts::held_as_now(&self.ctx, &self.clients.server, id, &mut start) {
            tracing::info!(job = job.0, why, "a job will not come back if the host is restarted");
            return;
        }
        let table = &self.jobs.table;
        // The first of an array may be over by now; the others need it no less.
        let mut members = std::iter::once(job).chain(table.members(job.0).map(|(member, _)| member));
        let asked = members.find(|&member| table.keeps(id, member)).and_then(|asked| table.get(&asked));
        let kept = asked.map(|live| kept_as(&live.row));
        drop(members);
        if let Some(kept) = kept {
            self.jobs.starts.keep_start(&self.ctx, &mut self.outbox, &mut self.jobs.table, kept, start);
        }
    }

    pub(super) fn child(&mut self, id: ConnectionId, user: Peer, job: JobId, pid: u32) {
        let child = if self.jobs.table.keeps(id, job) {
            taken::waiting_child(&self.jobs.children, &self.ctx, Some(pid), user)
        } else {
            None
        };
        let Some(child) = child else { return };
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        if live.container.is_some() {
            if live.row.main.is_none() {
                live.row.main = Some(child.id());
                self.meters.processes.bind(job, pid, now_us);
                self.jobs.self_attach_due.push_back((now_us + DOORS_CLOSE_AFTER_US, job));
                self.outbox.journal.touch_later(job);
                self.catch_up(job);
                unheard::keeper_spoke(&mut self.outbox, &mut self.jobs.table, job);
            }
            return;
        }
        live.child = Some(child);
        if live.granted {
            self.outbox.push(Effect::Act(job, self.jobs.table.start_action(job)));
        }
        unheard::keeper_spoke(&mut self.outbox, &mut self.jobs.table, job);
    }

    /// A keeper tells how its job ended.
    pub(super) fn told_end(&mut self, id: ConnectionId, job: JobId, ending: Ending) {
        // One that ended just as its keeper presented it was found by no look, and ran all the same.
        if self.told_once_more(id, job) {
            return;
        }
        let Some(live) = self.jobs.table.get(&job) else { return };
        if live.has_started() || live.found_granted {
            return self.ended(job, ending);
        }
        let message =
            format!("job {job} has not started: there is no end of it to tell, but it can be withdrawn");
        self.refuse(id, ErrorCode::Refused, &message);
    }

    /// Answers a keeper that tells an end once more, if it does: what follows from it is on its way, and to look again takes
    /// a walk over all jobs.
    fn told_once_more(&mut self, id: ConnectionId, job: JobId) -> bool {
        let Some(live) = self.jobs.table.get(&job).filter(|live| live.lingers) else { return false };
        let reply = endings::recorded(job, Some(&live.row));
        self.outbox.reply_lasting(id, reply, self.jobs.starts.has(&live.row));
        true
    }

    /// Whether a job can stand as its keeper says. That it runs, or ended, follows only from a start: one that this daemon
    /// carried out, or one that is on disk of a daemon that died before it could write down more. And what has processes
    /// does not wait.
    fn can_be(&self, job: JobId, phase: &Phase, user: Peer) -> bool {
        let Some(live) = self.jobs.table.get(&job) else { return false };
        let may_have_started = live.has_started() || live.found_granted;
        match phase {
            Phase::Waiting { pid } => {
                let held = pid
                    .and_then(|pid| taken::child_of(&self.ctx, pid, user))
                    .map(|held| crate::jobs::child::id(&held));
                let runs = live.row.main.filter(|main| crate::core::process::is_alive(&self.ctx.proc, *main));
                let stays_out = |pid: &u32| held.is_some_and(|held| held.pid == *pid);
                let is_alone =
                    |container: &Container| container.pids().is_ok_and(|pids| pids.iter().all(stays_out));
                !live.has_started()
                    || !live.belied
                        && !self.is_seen_to_have_run(job)
                        && runs.is_none_or(|main| held == Some(main))
                        && live.container.as_deref().is_none_or(is_alone)
            }
            Phase::Running { .. } | Phase::Ended { .. } => may_have_started,
        }
    }

    /// A keeper presents a job after a restart of the daemon.
    pub(super) fn attached(&mut self, id: ConnectionId, user: Peer, job: JobId, phase: Phase) {
        let kept = |live: &JobRecord| live.row.uid == user.uid && live.row.spec.adopted.is_none();
        let known = self.jobs.table.get(&job).is_some_and(|live| kept(live));
        if !known {
            // It may have been taken for lost and closed; then its true end still counts.
            if let Phase::Ended { ending, .. } = phase
                && self.amended(id, user, job, ending)
            {
                return;
            }
            return self.outbox.reply(id, Reply::Unknown { job: job.0 });
        }
        let waits_anew = self.ended_to_wait_anew(job, &phase);
        let phase = if waits_anew { Phase::Waiting { pid: None } } else { phase };
        let keeper = self.keeper_process(id, user);
        if self.is_kept_by_another(job, id, keeper) {
            return self.outbox.reply(id, Reply::Unknown { job: job.0 });
        }
        if !self.can_be(job, &phase, user) {
            if let Some(live) =
                self.jobs.table.get_mut(&job).filter(|_| matches!(phase, Phase::Waiting { .. }))
            {
                live.belied = true;
            }
            if self.jobs.table.keeps(id, job) {
                let message = format!("job {job} is not as it is said to be: nothing about it is changed");
                return self.refuse(id, ErrorCode::Refused, &message);
            }
            // The keeper before may have lost it with a disk that refused; it goes on as if nobody knew it.
            return self.outbox.reply(id, Reply::Unknown { job: job.0 });
        }
        let (waiting, ending) = match phase {
            Phase::Waiting { pid } => (taken::waiting_child(&self.jobs.children, &self.ctx, pid, user), None),
            Phase::Running { .. } => (None, None),
            Phase::Ended { ending, .. } => (None, Some(ending)),
        };
        if let Phase::Running { pid } = phase
            && let Some(process) = taken::child_of(&self.ctx, pid, user)
        {
            self.found_running(job, &process);
        }
        self.jobs.table.comes_over(id, job);
        self.clients.server.keeps(id);
        let live = self.jobs.table.get_mut(&job).expect("looked up above");
        (live.orphaned, live.keeper_watch) = (false, None);
        live.row.keeper = keeper.or(live.row.keeper);
        if let Some(array) = live.row.spec.array.and_then(|place| place.array) {
            let (journal, arriving) = (&mut self.outbox.journal, &mut self.clients.arriving);
            self.jobs.table.goes_on_with_array(journal, arriving, id, array);
        }
        if matches!(phase, Phase::Waiting { .. }) {
            self.waits_again(job, waiting, waits_anew);
        }
        self.outbox.journal.touch(job);
        starts::keeper_came(&mut self.outbox, &mut self.jobs.table, job);
        unheard::keeper_spoke(&mut self.outbox, &mut self.jobs.table, job);
        if let Some((cause, _)) = self.gate_words(job) {
            self.jobs.set_reason(&mut self.outbox.journal, job, cause);
        }
        self.outbox.reply(id, Reply::Attached { job: job.0 });
        if let Some(ending) = ending
            && !self.told_once_more(id, job)
        {
            self.ended(job, ending);
        }
    }

    /// A job waits, as its keeper says: that one knows best, and a start on disk was not carried out. `anew`: its keeper
    /// has not heard that it waits again.
    fn waits_again(&mut self, job: JobId, child: Option<Child>, anew: bool) {
        if anew {
            self.tell_again(job);
        }
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        (live.child, live.asked_child, live.found_granted) = (child, false, false);
        let granted = live.granted;
        if live.has_started() {
            return self.requeue_unstarted(job);
        }
        self.surroundings.redo_surroundings(&mut self.outbox, job);
        if granted {
            self.outbox.push(Effect::Act(job, self.jobs.table.start_action(job)));
        }
    }

    /// Whether a job that waits has a keeper that is another process than this one.
    fn is_kept_by_another(&self, job: JobId, id: ConnectionId, keeper: Option<ProcessId>) -> bool {
        let waits = self.jobs.table.get(&job).filter(|live| !live.has_started());
        waits.is_some_and(|live| live.keeper.is_some_and(|other| other != id) && live.row.keeper != keeper)
    }

    /// A keeper has presented all its jobs: one that waits in its name and is not among them was asked for by a request
    /// that it repeated since. It would hold a slot for nobody.
    pub(super) fn presented(&mut self, id: ConnectionId, user: Peer) {
        let Some(keeper) = self.keeper_process(id, user) else { return };
        let forgotten = |live: &JobRecord| {
            let lost = live.orphaned || live.awaits_keeper.is_some();
            live.row.uid == user.uid
                && live.row.keeper == Some(keeper)
                && live.keeper.is_none()
                && !live.has_started()
                && !lost
        };
        let forgotten: Vec<JobId> =
            self.jobs.table.values().filter(|live| forgotten(live)).map(|live| live.id()).collect();
        for job in forgotten {
            self.withdrawn(
                job,
                "the daemon died before its client heard of it; it was asked for anew".to_owned(),
            );
        }
    }

    /// A job's start is on disk, but its keeper has not heard of it: the daemon before this one died in between.
    fn requeue_unstarted(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        let holds = |container: &Container| {
            let child = live.child.as_ref().map(Child::id);
            child.is_some_and(|child| container.pids().is_ok_and(|pids| pids.contains(&child.pid)))
        };
        if live.container.as_deref().is_some_and(holds) {
            let (keeper, go) = (live.keeper, self.go(job, 0));
            return self.outbox.extend(keeper.map(|id| Effect::Reply(id, Box::new(go))));
        }
        // Nothing holds a process that has not become the job yet, so it waits again, and is prepared again. The empty
        // group that was made for it goes: it may be over before the next start makes one.
        let container = live.container.take();
        (live.meter, live.granted) = (None, false);
        live.members = Default::default();
        live.row.started_us = None;
        live.row.main = None;
        live.row.cpus = None;
        let now_us = self.ctx.clock.now_us();
        live.waits_anew(now_us);
        live.row.suspended_us = 0;
        let _ = self.meters.processes.finish(job, now_us);
        self.run_over(job, container);
        self.surroundings.hooks.close(job);
        self.adopt(job, false);
    }

    /// A connection is at its end: its waiting jobs are withdrawn, its running ones go on.
    pub(super) fn on_closed(&mut self, id: ConnectionId) {
        if let Some(keeper) = self.clients.forget(id) {
            self.meters.processes.keeper_gone(keeper.pid);
        }
        let left = self.jobs.table.kept_by_gone(id);
        if let [job] = left[..] {
            self.left_by_keeper(id, job);
        } else if !left.is_empty() {
            // It may have had thousands, and everybody would wait for the scheduler's steps about them.
            self.jobs.left.push_back((id, left.into()));
        }
    }

    /// Sees to some of the jobs whose connections are gone.
    pub(super) fn on_left_due(&mut self) {
        for _ in 0..LEFT_AT_ONCE {
            let Some((id, job)) = self.jobs.next_left() else { return };
            self.left_by_keeper(id, job);
        }
    }

    /// A connection is gone that kept a job; it may be over since, or have come over to another one.
    fn left_by_keeper(&mut self, id: ConnectionId, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job).filter(|live| live.keeper == Some(id)) else { return };
        live.keeper = None;
        live.child = None;
        if self.awaits_new_keeper(job) {
            return;
        }
        let Some(live) = self.jobs.table.get(&job) else { return };
        if live.container.is_none() || live.row.main.is_none() {
            self.withdrawn(job, "its client is gone".to_owned());
        } else {
            self.watch_keeper(job);
        }
    }

    /// A job that has not started lost its keeper: whether another one can be had.
    pub(super) fn awaits_new_keeper(&mut self, job: JobId) -> bool {
        let Jobs { table, starts, .. } = &mut self.jobs;
        starts.awaits_new_keeper(&self.ctx.policy, &mut self.outbox, table, job)
    }

    /// Watches a keeper that has no connection, to learn of its end.
    pub(super) fn watch_keeper(&mut self, job: JobId) {
        let Some(keeper) = self.jobs.table.get(&job).map(|live| live.row.keeper) else { return };
        if !self.watch_for(job, keeper) {
            self.on_keeper_gone(job);
        }
    }

    /// Watches a process for the sake of a job; says whether it has not ended. For want of a descriptor nobody is gone: it
    /// is tried again (`house`).
    pub(super) fn watch_for(&mut self, job: JobId, process: Option<ProcessId>) -> bool {
        let Some(process) = process else { return false };
        let found = match Process::again(&self.ctx.proc, process.pid, process.start_ticks) {
            Ok(None) => return false,
            found => found.ok().flatten(),
        };
        let is_watched = |watch: &Child| {
            let handle = watch.process.handle();
            handle.is_some_and(|handle| self.ctx.poller.watch(Ready::Keeper(job), handle).is_ok())
        };
        let watch = found.map(|process| self.jobs.children.keep(process)).filter(is_watched);
        if watch.is_none() {
            self.jobs.unwatched.insert(job);
        }
        if let Some(live) = self.jobs.table.get_mut(&job) {
            live.keeper_watch = watch;
        }
        true
    }

    /// Watches those for which there was no descriptor, or learns that they have ended: some a turn, one after the other.
    pub(super) fn watch_again(&mut self) {
        for job in self.jobs.next_unwatched(LEFT_AT_ONCE) {
            let Some(live) = self.jobs.table.get(&job) else { continue };
            let is_watched = live.keeper.is_some() || live.keeper_watch.is_some();
            match live.row.spec.adopted.is_some() {
                _ if is_watched => {}
                true => self.watch_adopted(job),
                false if live.orphaned || live.awaits_keeper.is_some() => {}
                false => self.watch_keeper(job),
            }
        }
    }

    /// A job that is over was closed as lost, maybe, and did end: its keeper is told that this is known. Where the store
    /// cannot be read, the keeper comes again with it. Says whether there is such a job.
    pub(super) fn amended(&mut self, id: ConnectionId, user: Peer, job: JobId, ending: Ending) -> bool {
        match self.outbox.journal.row_if_over(job) {
            Ok(None) => return false,
            Ok(Some(row)) => {
                let recorded = endings::recorded(job, Some(&row));
                if !self.amend(user, row, ending) {
                    return false;
                }
                let is_behind = self.outbox.durable.is_behind();
                self.outbox.reply_lasting(id, recorded, is_behind);
            }
            Err(error) => {
                let (code, text) = store_failed(&error);
                self.clients.server.cut_off(id, code, text);
            }
        }
        true
    }

    /// The stored row of a job that is over is put right by its keeper's word of how it ended.
    fn amend(&mut self, user: Peer, mut row: JobRow, ending: Ending) -> bool {
        // Of one that never started there is no end but its closing.
        if row.uid != user.uid || row.ending.is_some() || row.started_us.is_none() {
            return row.uid == user.uid;
        }
        row.ending = Some(ending);
        row.ended_us = Some(endings::plausible_end(&row, ending.ended_us, self.ctx.clock.now_us()));
        row.reason = row.reason.filter(|reason| reason == endings::KILLED);
        row.reason = Some(endings::how_it_ended(&row));
        self.outbox.journal.amend(row);
        true
    }
}
