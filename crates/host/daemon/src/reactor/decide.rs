//! A decision is noted in the job's row and the journal; its effect follows once that is committed.

use pinfold_policy::{Action, Decision, JobId, MemoryReason, QueueReason, Reason, State};
use pinfold_proto::JobState;
use pinfold_proto::row::{DecisionRow, JobRow};
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_topo::CpuSet;

use crate::core::words::{in_codes, in_words, why_in_words};
use crate::core::{Ctx, Effect};
use crate::host::resources::{Resources, Start};
use crate::jobs::record::from_policy;
use crate::jobs::timeouts::Timeouts;
use crate::jobs::{JobRecord, endings};
use crate::reactor::Daemon;

impl Daemon {
    /// Notes a decision; its effect follows after the write, or just before it.
    pub(super) fn decided(&mut self, decision: Decision) {
        let Decision { job, action, reason } = decision;
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        let (words, because) = words_of(&mut self.jobs.timeouts, &action, &reason, &live.row);
        if let Action::PageOut { .. } = action {
            // Asked for again and again while the job rests, or does not refault them; the first time tells all.
            let is_probed = matches!(reason, Reason::Memory(MemoryReason::Probed { .. }));
            if live.row.state != JobState::Frozen && !is_probed {
                self.outbox.push(Effect::Act(job, action));
                return;
            }
        }
        let (told, why) = (in_words(&action), words.clone());
        tracing::debug!(job = job.0, action = %told, reason = %words, "decided");
        let codes = Some(in_codes(&action, &reason, because));
        let row = DecisionRow { job: job.0, time_us: now_us, action: told, reason: why, codes };
        self.outbox.journal.decided(row);
        match &action {
            Action::Start { class, cpus, priority } => {
                live.row.class = from_policy(*class);
                live.row.cpus = (!cpus.is_empty()).then(|| cpus.to_string());
                live.row.priority = *priority;
                live.granted = true;
                give_resources(&self.ctx, &mut self.host.resources, live, cpus);
            }
            Action::Bind { cpus } => live.row.cpus = (!cpus.is_empty()).then(|| cpus.to_string()),
            Action::Weigh { class, priority, even } => {
                live.row.class = from_policy(*class);
                live.row.priority = *priority;
                live.equal_share = *even;
            }
            Action::Freeze => {
                let is_short = matches!(reason, Reason::Memory(MemoryReason::Short { .. }));
                live.freezes_since = self.meters.memory.told().filter(|_| is_short);
                live.set_state(JobState::Frozen, now_us);
            }
            Action::Thaw => live.set_state(JobState::Running, now_us),
            Action::Signal { .. } => {}
            Action::PageOut { .. } if live.row.frozen_since_us.is_some() => {
                live.set_state(JobState::Parked, now_us);
            }
            // It runs on without what goes out.
            Action::PageOut { .. } | Action::Slow { .. } => {}
            // It runs on as it did, and why it does has not changed.
            Action::Protect { .. } => return self.outbox.push(Effect::Act(job, action)),
            Action::Near { nodes } => {
                live.memory_nodes.clone_from(nodes);
                return self.outbox.push(Effect::Act(job, action));
            }
            Action::Checkpoint => live.set_state(JobState::Running, now_us),
            // A daemon that died was about to, and counted it.
            Action::Requeue if live.row.requeuing => {}
            Action::Requeue if reason == Reason::Memory(MemoryReason::Checkpointed) => {
                live.row.requeuing = true;
                live.row.checkpoints = live.row.checkpoints.saturating_add(1);
            }
            Action::Requeue => {
                live.row.requeuing = true;
                live.row.requeues = live.row.requeues.saturating_add(1);
            }
            Action::Drop { refused } => return self.dropped(job, *refused, &words, &reason),
        }
        if !live.killed {
            live.row.reason = Some(words);
        }
        self.outbox.journal.touch(job);
        if action == Action::Requeue
            && self.jobs.table.get(&job).is_some_and(|live| self.jobs.starts.has(&live.row))
        {
            // How often it began counts after a power cut too; nothing waits for that, for memory may be short.
            self.outbox.durable.soon();
        }
        self.outbox.push(Effect::Act(job, action));
    }

    /// A waiting job is struck off.
    fn dropped(&mut self, job: JobId, refused: bool, words: &str, reason: &Reason) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        let code = match reason {
            Reason::Queue(QueueReason::QueueFull { .. }) => ErrorCode::QueueFull,
            _ if refused => ErrorCode::Refused,
            _ => ErrorCode::Failed,
        };
        if let Some(id) = live.keeper {
            let (job, reason) = (job.0, format!("job {job}: {words}"));
            let reply = match live.ticket {
                Some(ticket) => Reply::Refused { ticket, job: Some(job), reason, code },
                None => Reply::Struck { job, reason, code },
            };
            self.outbox.push(Effect::Reply(id, Box::new(reply)));
        }
        self.close_unstarted(job, words);
    }

    /// The row's state as the scheduler has it, where a command changed it without an action.
    pub(super) fn follow_policy(&mut self, job: JobId) {
        let Some(info) = self.ctx.policy.job(job) else { return };
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        // The scheduler holds one whose keeper does not answer; what its user wants counts once that one does.
        let wanted = live.awaits_keeper.map(|one| one.held).or(live.silent.map(|one| one.held));
        let state = match info.state {
            State::Waiting { held } if wanted.unwrap_or(held) => JobState::Held,
            State::Waiting { .. } | State::Starting => JobState::Queued,
            State::Running => JobState::Running,
            State::Frozen { .. } if info.parked => JobState::Parked,
            State::Frozen { .. } => JobState::Frozen,
        };
        // That its keeper does not answer is no user's wish.
        let suspended = info.suspended && live.silent.is_none_or(|silent| silent.held);
        if live.row.state != state || live.row.suspended != suspended {
            live.set_state(state, now_us);
            live.row.suspended = suspended;
            self.outbox.journal.touch(job);
        }
    }
}

/// The reason of a decision, and its code where that is not the scheduler's. The scheduler is told to signal a job, and cannot
/// tell a time limit from a person.
fn words_of(
    timeouts: &mut Timeouts,
    action: &Action,
    reason: &Reason,
    row: &JobRow,
) -> (String, Option<&'static str>) {
    if *reason == Reason::ASKED
        && let Some(why) = endings::at_limit(row)
    {
        return (why, Some(endings::limit_code(row)));
    }
    let is_signal = *reason == Reason::ASKED && matches!(action, Action::Signal { .. });
    let limit = is_signal.then(|| timeouts.take_why(JobId(row.job))).flatten();
    limit.map_or_else(|| why_in_words(action, reason, row), |why| (why, Some("timeout_near")))
}

/// Which GPUs a job gets that starts on these PUs. Processes that run already go on with those that they have; while it
/// cannot be read which these are, the job gets none, and its start is put off.
fn give_resources(ctx: &Ctx, resources: &mut Resources, live: &mut JobRecord, cpus: &CpuSet) {
    let first = live.row.spec.adopted.as_ref().and_then(|adopted| adopted.processes.first());
    let first = first.map(|&(pid, _)| pid);
    let (job, user, list) = (live.id(), live.row.uid, &mut live.row.spec.terms.resources);
    let Some(uses) = resources.used_by(&ctx.proc, (job, user), list, first) else { return };
    resources.give(&ctx.policy, &ctx.configured.config, job, Start { list, cpus, uses: &uses });
}
