//! What clients ask for.

use pinfold_policy::JobId;
use pinfold_proto::wire::{ErrorCode, Phase, Reply, Request, WIRE_VERSION, WIRE_VERSION_OLDEST};
use pinfold_sys::peer::Peer;

use crate::clients::again::Waiting;
use crate::clients::{projects, quota, rights};
use crate::core::event::{Asked, Wanted};
use crate::core::poller::Ready;
use crate::core::{ConnectionId, Effect, Refusal};
use crate::host::sets;
use crate::reactor::Daemon;

/// How much is kept of what a keeper says when it takes a job back, in characters.
const REASON_MAX_CHARS: usize = 1024;

impl Daemon {
    /// Handles one request.
    pub(super) fn on_request(&mut self, id: ConnectionId, request: Request) {
        let Some(user) = self.clients.server.peer(id) else { return };
        if !self.clients.server.is_greeted(id) && !matches!(request, Request::Hello { .. }) {
            self.refuse(id, ErrorCode::Usage, "the first message of a connection is its hello");
            self.clients.server.close_after_sending(id);
            return;
        }
        if let Some(version) = self.clients.server.older(id)
            && !request.is_of_an_older_keeper()
        {
            return self.refuse_version(id, version);
        }
        if let Some(text) = crate::clients::cost::refusal(&request) {
            return self.refuse(id, ErrorCode::Usage, &text);
        }
        if !crate::clients::cost::is_kept_up(&request)
            && let Some(text) = self.clients.server.leaves_unread(user.uid)
        {
            return self.refuse(id, ErrorCode::Refused, &text);
        }
        if crate::clients::cost::is_kept_up(&request) {
            self.told_by_keeper(id, user, request);
        } else {
            self.asked(id, user, request);
        }
    }

    /// Words by which jobs are asked for and kept.
    fn told_by_keeper(&mut self, id: ConnectionId, user: Peer, request: Request) {
        match request {
            Request::Hello { version } => self.hello(id, version),
            Request::Submit { ticket, spec, pid } => {
                self.submitted(id, user, ticket, *spec, pid);
            }
            Request::Child { job, pid } => self.child(id, user, JobId(job), pid),
            // It comes again, with all its jobs.
            Request::Attach { .. } | Request::Presented if self.clients.server.is_closing(id) => {}
            Request::Attach { phase: Phase::Waiting { .. }, .. } if !self.clients.server.may_keep(id) => {
                self.clients.server.cut_off(id, ErrorCode::Refused, quota::TOO_MANY.to_owned());
            }
            Request::Attach { job, phase } => self.attached(id, user, JobId(job), phase),
            Request::Presented => self.presented(id, user),
            Request::Keep { job, start } => self.kept(id, JobId(job), start),
            Request::Ended { job, ending } => {
                if self.jobs.table.keeps(id, JobId(job)) {
                    self.told_end(id, JobId(job), ending);
                } else if !self.jobs.table.contains_key(&JobId(job)) {
                    // Where it counts as over already, its keeper must not wait for more.
                    self.amended(id, user, JobId(job), ending);
                }
            }
            Request::Checkpointed { job, error } => self.checkpointed(id, JobId(job), error),
            // Once is enough for one whose processes are still on their way out.
            Request::Withdraw { job, reason }
                if self.jobs.table.keeps(id, JobId(job))
                    && self.jobs.table.get(&JobId(job)).is_some_and(|live| !live.orphaned) =>
            {
                self.withdrawn(JobId(job), reason.chars().take(REASON_MAX_CHARS).collect());
            }
            Request::Interrupted { job } if self.jobs.table.keeps(id, JobId(job)) => {
                self.outbox.push(Effect::LetHear(JobId(job)));
            }
            _ => {}
        }
    }

    /// Questions and orders.
    fn asked(&mut self, id: ConnectionId, user: Peer, request: Request) {
        match request {
            Request::Control { job, verb } => {
                let reply = self.control(user, JobId(job), verb);
                let noted = |note: Option<String>| note.map_or(Reply::Done, |note| Reply::Noted { note });
                // Whether another user's job is a member of an array is not told.
                let named = |(code, text): Refusal| match code {
                    ErrorCode::Permission => error_reply((code, text)),
                    _ => error_reply((code, self.jobs.table.by_name(&text))),
                };
                self.outbox.reply(id, reply.map_or_else(named, noted));
            }
            request @ (Request::SetAside(_) | Request::ConfigSet { .. }) => {
                if let Request::SetAside(asked) = &request
                    && let Err(refusal) = sets::may_ask(&self.ctx.configured.config, user, asked)
                {
                    return self.outbox.refuse(id, refusal);
                }
                let names = rights::users_in(&self.ctx.configured.config, user, &request);
                let now_us = self.ctx.clock.now_us();
                if !self.clients.names.waits_for_names(now_us, (id, user.uid), &names, &request) {
                    self.requested_with_names(id, request);
                }
            }
            request @ Request::Adopt { .. } => self.asked_to_adopt(id, user, request, (1, None)),
            Request::Begin { job } => {
                if let Err(refusal) = self.begin_for(id, user, JobId(job)) {
                    self.outbox.refuse(id, refusal);
                }
            }
            Request::Part => self.outbox.reply(id, self.part_of(id)),
            Request::Wait { jobs } => self.asked_to_wait(id, user, jobs),
            Request::Status { at_us: Some(at_us), .. } => self.asked_about_then(id, user, at_us),
            Request::Status { jobs, .. } if !jobs.is_empty() => self.asked_about_named(id, user, jobs),
            Request::Status { all: true, .. } => self.asked_about_all(id, user),
            Request::AllNamed { names } => self.asked_for_all_named(id, user, names),
            Request::Report { select, series, processes, threads, files, all, pieces } => {
                let asked = Asked { select, all, wanted: Wanted { series, processes, threads, files } };
                if pieces {
                    self.asked_in_pieces(id, user, asked);
                } else {
                    self.asked_for_reports(id, user, asked);
                }
            }
            other => {
                let reply = self.done_or_answered(user, other);
                self.outbox.reply(id, reply.unwrap_or_else(error_reply));
            }
        }
    }

    /// Does what takes that users are known who are named in it.
    pub(super) fn requested_with_names(&mut self, id: ConnectionId, request: Request) {
        let Some(user) = self.clients.server.peer(id) else { return };
        let reply = match request {
            Request::SetAside(asked) => self.set_aside(user, asked),
            Request::ConfigSet { changes } => {
                self.configure(user, &changes).map(|()| Reply::Config(self.config_values()))
            }
            _ => return,
        };
        self.outbox.reply(id, reply.unwrap_or_else(error_reply));
    }

    /// Takes processes in, at the first try or a further one: with the start of the process that was named then.
    fn asked_to_adopt(
        &mut self,
        id: ConnectionId,
        user: Peer,
        request: Request,
        (tried, start_ticks): (u32, Option<u64>),
    ) {
        let Request::Adopt { which, spec, in_place } = &request else { return };
        self.clients.again.begin(tried, start_ticks);
        let Err(refusal) = self.adopt_for(id, user, which, (**spec).clone(), *in_place) else { return };
        let now_us = self.ctx.clock.now_us();
        if !self.clients.again.put_off(now_us, (id, user.uid), request) {
            self.outbox.refuse(id, refusal);
        }
    }

    /// Tries requests again of which the time has come, as many as their users may ask for in this turn.
    pub(super) fn on_again_due(&mut self) {
        let server = &mut self.clients.server;
        let may = |waiting: &Waiting| server.may_try_again(waiting.id, &waiting.request);
        for waiting in self.clients.again.due(self.ctx.clock.now_us(), may) {
            if let Some(user) = self.clients.server.peer(waiting.id) {
                let tried = (waiting.tried + 1, waiting.start_ticks);
                self.asked_to_adopt(waiting.id, user, waiting.request, tried);
            }
        }
    }

    /// Names were looked up, or were waited for long enough: what waited for them goes on.
    pub(super) fn on_names_known(&mut self) {
        let (heard, ready) = self.clients.names.known_now(&self.ctx);
        for id in heard {
            self.watch_connection(id);
            self.clients.backlog.insert(id);
        }
        for (id, request) in ready {
            self.requested_with_names(id, request);
        }
    }

    /// Hears what a connection says from now on.
    pub(super) fn watch_connection(&mut self, id: ConnectionId) {
        if let Some(descriptor) = self.clients.server.descriptor(id)
            && self.ctx.poller.watch(Ready::Connection(id), descriptor).is_err()
        {
            self.clients.server.close(id);
        }
    }

    /// Does what is asked for, or answers what is a question.
    fn done_or_answered(&mut self, user: Peer, request: Request) -> Result<Reply, Refusal> {
        match request {
            Request::ConfigSave { write, text } => self.save_config(user, write, text),
            Request::Audit { verify } => self.audited(user, verify),
            Request::SetRemove { name } => self.remove_set(user, &name),
            Request::Drain { on } => self.drain(user, on),
            Request::Learn { signed } => self.learn_elsewhere(user, &signed),
            Request::Squeeze { job, bytes } => self.squeeze(user, JobId(job), bytes),
            question => self.answer(user, question),
        }
    }

    fn refuse_version(&mut self, id: ConnectionId, version: u32) {
        let older = if version < WIRE_VERSION { "the command" } else { "the daemon" };
        let text = format!(
            "the command speaks version {version}, the daemon version {WIRE_VERSION}: {older} is older; \
             install the same version of both and restart the daemon"
        );
        self.refuse(id, ErrorCode::Failed, &text);
        self.clients.server.close_after_sending(id);
    }

    fn hello(&mut self, id: ConnectionId, version: u32) {
        if !(WIRE_VERSION_OLDEST..=WIRE_VERSION).contains(&version) {
            return self.refuse_version(id, version);
        }
        self.clients.server.greet(id, version);
        let mut warnings = self.clients.warnings.clone();
        warnings.extend(self.outbox.journal.warnings());
        warnings.extend(self.clients.audit.warning());
        warnings.extend(self.outbox.durable.warning());
        warnings.extend(projects::projects_warning(&self.ctx));
        let (_, slots) = self.ctx.policy.slots();
        let doors = self.clients.server.peer(id).is_some_and(|user| self.has_doors_for(user.uid));
        let mode = self.ctx.containers.plan().mode.as_str().to_owned();
        let instance = self.ctx.instance.clone();
        let (cpus, state) =
            (sets::cpus_for_jobs(&self.ctx.policy).to_string(), self.ctx.state.display().to_string());
        let (version, slots) = (WIRE_VERSION, slots as u64);
        self.outbox
            .reply(id, Reply::Welcome { version, mode, slots, doors, instance, state, warnings, cpus });
    }

    pub(super) fn refuse(&mut self, id: ConnectionId, code: ErrorCode, message: &str) {
        self.outbox.reply(id, Reply::Error { code, message: message.to_owned() });
    }
}

/// The reply for a refusal.
pub(crate) fn error_reply((code, message): Refusal) -> Reply {
    Reply::Error { code, message }
}
