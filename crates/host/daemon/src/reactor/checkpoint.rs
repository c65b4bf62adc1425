//! Checkpoints: a job that can write down what it has done is let go on for that, and its keeper, which alone may run
//! programs in its user's name, runs its checkpoint command. What follows from how that ends is the scheduler's.

use pinfold_policy::{Action, Event as SchedulerEvent, JobId};
use pinfold_proto::wire::Reply;

use crate::core::{ConnectionId, Event, Next, in_full};
use crate::reactor::Daemon;

/// So many process numbers are told to a checkpoint command at most: more do not fit into one variable.
const PIDS_MAX: usize = 10_000;
/// How much is kept of what a keeper says of a checkpoint, in characters.
const ERROR_MAX_CHARS: usize = 512;

impl Daemon {
    /// Lets a job go on, and has its keeper run its checkpoint command.
    pub(super) fn ask_for_checkpoint(&mut self, job: JobId) -> Option<Event> {
        let failed = |why: &str| Some(Event::NotCarried(job, Action::Checkpoint, why.to_owned()));
        let live = self.jobs.table.get_mut(&job)?;
        let Some(keeper) = live.keeper else { return failed("its keeper is away") };
        let container = live.container.as_mut()?;
        if let Err(error) = container.thaw() {
            return failed(&in_full(&error));
        }
        let pids = match container.pids() {
            Ok(pids) => pids,
            Err(error) => return failed(&in_full(&error)),
        };
        self.host.guard.thawed(job.0);
        let pids: Vec<String> = pids.iter().take(PIDS_MAX).map(u32::to_string).collect();
        let main = live.row.main.map_or_else(String::new, |main| main.pid.to_string());
        let limit = live.row.spec.checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.limit_us);
        let variables = [
            ("PINFOLD_JOB", job.0.to_string()),
            ("PINFOLD_JOB_ID", job.0.to_string()),
            ("PINFOLD_INSTANCE", self.ctx.instance.clone()),
            ("PINFOLD_PID", main),
            ("PINFOLD_PIDS", pids.join(" ")),
            ("PINFOLD_CHECKPOINT_SECONDS", (limit / 1_000_000).to_string()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value)).to_vec();
        self.clients.server.send(keeper, &Reply::Checkpoint { job: job.0, variables });
        Some(Event::Carried(job, Action::Checkpoint))
    }

    /// A keeper says how a checkpoint command ended.
    pub(super) fn checkpointed(&mut self, id: ConnectionId, job: JobId, error: Option<String>) {
        if !self.jobs.table.keeps(id, job) {
            return;
        }
        let error = error.map(|text| text.chars().take(ERROR_MAX_CHARS).collect::<String>());
        if let Some(error) = &error {
            tracing::warn!(job = job.0, error = %error, "a checkpoint failed");
        }
        self.outbox.step(SchedulerEvent::Checkpointed { job, error });
        self.outbox.then(Next::Follow(job));
    }
}
