//! A job is submitted: checked against what there is and what its user may have, given a number, and put in the queue.

use pinfold_policy::{Event as SchedulerEvent, JobId};
use pinfold_proto::row::{JobRow, ProcessId};
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_proto::{JobSpec, Parent};
use pinfold_sys::peer::Peer;

use crate::clients::{projects, quota, rights};
use crate::core::{ConnectionId, Refusal};
use crate::host::isolated;
use crate::jobs::arrays::ArraysRead;
use crate::jobs::gates::Condition;
use crate::jobs::{JobRecord, arrays, bounds, taken};
use crate::meters::memory;
use crate::reactor::Daemon;
use crate::store::journal::Asker;
use crate::surroundings::disk;

impl Daemon {
    pub(super) fn submitted(
        &mut self,
        id: ConnectionId,
        user: Peer,
        ticket: u64,
        mut spec: JobSpec,
        pid: Option<u32>,
    ) {
        (spec.adopted, spec.external) = (None, None);
        bounds::forget_numbers(&mut spec);
        spec.terms.parent = spec.terms.parent.take().filter(|parent| self.is_parent(parent, user));
        let bounded = bounds::within_bounds(&spec)
            .and_then(|()| {
                let may_keep = self.clients.server.may_keep(id);
                may_keep.then_some(()).ok_or_else(|| (ErrorCode::Refused, quota::TOO_MANY.to_owned()))
            })
            .and_then(|()| arrays::has_room_in_array(&self.clients.arriving, id, &spec))
            .and_then(|()| {
                self.clients.askers.stay_within(
                    &self.ctx,
                    &self.jobs.table,
                    &self.clients.server,
                    &self.host.sets,
                    id,
                    &mut spec,
                )
            });
        let admitted = bounded.and_then(|()| self.admit(user, &spec));
        let (priority, conditions) = match admitted {
            Ok(admitted) => admitted,
            Err((code, reason)) => {
                return self.outbox.reply(id, Reply::Refused { ticket, job: None, reason, code });
            }
        };
        let is_trusted = rights::is_operator(&self.ctx.configured.config, user);
        let asker = Asker { uid: user.uid, is_trusted };
        let job = match self.outbox.journal.number_for(&spec, asker) {
            Ok(job) => job,
            Err(reason) => {
                let code = ErrorCode::Failed;
                return self.outbox.reply(id, Reply::Refused { ticket, job: None, reason, code });
            }
        };
        arrays::place_in_array(&mut self.clients.arriving, id, job, &mut spec);
        let keeper = self.keeper_process(id, user);
        let mut row = self.new_row(job, user, keeper, priority, spec);
        let gated = match self.close_gate(&mut row, conditions) {
            Ok(gated) => gated,
            Err(why) => {
                let (reason, code) = (format!("--after: {why}"), ErrorCode::Refused);
                return self.outbox.reply(id, Reply::Refused { ticket, job: None, reason, code });
            }
        };
        let elsewhere = &self.meters.elsewhere;
        self.meters.learned.learn_from_elsewhere(&self.ctx, &mut self.outbox, elsewhere, &row);
        let learned = &self.meters.learned;
        let mut request = self.host.sets.request(&self.ctx, &self.jobs.table, learned, &row);
        request.gated = gated;
        let mut live = Box::new(JobRecord::new(row, false));
        live.keeper = Some(id);
        live.ticket = Some(ticket);
        self.clients.server.keeps(id);
        live.child = taken::waiting_child(&self.jobs.children, &self.ctx, pid, user);
        self.jobs.table.insert(JobId(job), live);
        self.outbox.journal.touch(JobId(job));
        self.outbox.step(SchedulerEvent::Submit(request));
        self.host.isolated.wants_isolation(&mut self.outbox, &self.jobs.table, JobId(job));
    }

    /// Checks what is asked for against what this host has and this user may have; gives the priority it gets,
    /// and how the jobs that it is to start after must end.
    pub(super) fn admit(&mut self, user: Peer, spec: &JobSpec) -> Result<(u8, Vec<Condition>), Refusal> {
        arrays::within_bounds(spec)?;
        let priority = rights::admit(&self.ctx.configured.config, user, spec)?;
        spec.claim_bytes.map_or(Ok(None), |bytes| memory::admit_claim(&self.ctx, bytes))?;
        self.surroundings.scratches.admit_tmp(&self.ctx, user, spec)?;
        disk::admit_disk(&self.ctx, user, spec)?;
        self.host.resources.admit(&self.ctx.configured.config, spec)?;
        self.host.sets.admit_set(&self.ctx, &self.jobs.table, user, spec)?;
        projects::admit_project(&self.ctx, user, spec)?;
        isolated::admit_isolated(&self.ctx, &self.host.sets, user, spec)?;
        self.admit_size(user, spec)?;
        self.clients.waiting.admit_to_queue(&self.ctx, &self.jobs.table, user)?;
        let mut read = ArraysRead::for_request();
        match self.jobs.table.unheard_of(&mut self.outbox.journal, &mut read, &spec.after)? {
            Some(unknown) => {
                let text = format!("--after {unknown}: there is no such job{}", self.own_jobs(user));
                Err((ErrorCode::Usage, text))
            }
            None => Ok((priority, self.conditions(user, spec, &mut read)?)),
        }
    }

    /// Whether this is a running job of the user, so that it can be the parent of a further job.
    fn is_parent(&self, parent: &Parent, user: Peer) -> bool {
        let job = JobId(parent.job);
        let is_own = |live: &JobRecord| live.row.uid == user.uid && self.jobs.running.contains(&job);
        parent.instance == self.ctx.instance && self.jobs.table.get(&job).is_some_and(|live| is_own(live))
    }

    /// Checks whether the jobs of a user may take as much more as this one does.
    fn admit_size(&self, user: Peer, spec: &JobSpec) -> Result<(), Refusal> {
        let most = self.ctx.configured.config.access_max_jobs_size;
        let predecessors =
            if spec.after.is_empty() { 0 } else { self.jobs.table.predecessors(&spec.after).len() };
        let (sizes, bytes) = (self.jobs.table.sizes(), quota::job_bytes(spec, predecessors));
        if sizes.has_room(user.uid, bytes, most) || rights::is_operator(&self.ctx.configured.config, user) {
            return Ok(());
        }
        Err((ErrorCode::QueueFull, quota::jobs_too_large(sizes.own(user.uid), most)))
    }

    /// The peer's process, looked up once for each connection.
    pub(super) fn keeper_process(&mut self, id: ConnectionId, user: Peer) -> Option<ProcessId> {
        match self.clients.keepers.get(&id) {
            Some(known) => Some(*known),
            None => {
                let process = self.ctx.process(user.pid)?;
                self.clients.keepers.insert(id, process);
                self.meters.processes.keeper(user.pid, self.ctx.clock.now_us());
                Some(process)
            }
        }
    }

    fn new_row(
        &mut self,
        job: u64,
        user: Peer,
        keeper: Option<ProcessId>,
        priority: u8,
        mut spec: JobSpec,
    ) -> JobRow {
        spec.name = self.meters.learned.workers.name(user.uid, &spec.command, spec.name);
        let (uid, submitted_us) = (user.uid, self.ctx.clock.now_us());
        let row = JobRow::asked_for(job, uid, self.clients.names.name(uid), spec, submitted_us);
        JobRow { priority, keeper, ..row }
    }
}
