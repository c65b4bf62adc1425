//! A job starts: what is around it is set up, its container is made, and its command is let go.

use pinfold_policy::{Action, JobId};
use pinfold_profile::meter::Meter;
use pinfold_proto::JobState;
use pinfold_proto::wire::Reply;
use pinfold_sys::container::Container;
use pinfold_sys::peer;

use crate::core::poller::Ready;
use crate::core::{ConnectionId, Event, crash, in_full};
use crate::jobs::record::Begin;
use crate::jobs::taken;
use crate::reactor::Daemon;
use crate::reactor::requeue::run_of;
use crate::surroundings::setup;

impl Daemon {
    /// Makes a job's container and lets its command go: by self-attach files where the host has them, else by taking the
    /// keeper's child in.
    pub(super) fn start(&mut self, job: JobId, action: Action) -> Option<Event> {
        let live = self.jobs.table.get_mut(&job)?;
        if live.container.is_some() || !live.granted {
            return None;
        }
        if live.row.spec.adopted.is_some() {
            return self.take_in(job, action);
        }
        let (keeper, uid, has_child) = (live.keeper, live.row.uid, live.child.is_some());
        if self.jobs.unheard.is_keeper_stopped_at_start(
            &self.ctx,
            &mut self.outbox,
            &mut self.jobs.table,
            job,
        ) {
            return None;
        }
        let Some(id) = keeper else {
            // It lives, and may not come back since a restart of the daemon.
            self.jobs.unheard.awaits_answer(&self.ctx, &mut self.jobs.table, job);
            return None;
        };
        if self.host.own_nodes.waits_for_its_nodes(
            &self.ctx,
            &mut self.outbox.journal,
            &mut self.jobs.table,
            job,
        ) {
            return None;
        }
        if let Err(unready) =
            self.surroundings.set_up(&self.ctx, &mut self.outbox, &mut self.jobs.table, job)?
        {
            return Some(unready.into_event(job, action));
        }
        if !has_child && self.has_doors_for(uid) {
            if !self.is_sure_to_be_known(job) {
                return None;
            }
            return Some(self.start_through_doors(job, id, action));
        }
        let live = self.jobs.table.get_mut(&job)?;
        if live.child.is_none() {
            if !live.asked_child {
                live.asked_child = true;
                self.clients.server.send(id, &Reply::Grant { job: job.0 });
                self.jobs.unheard.awaits_answer(&self.ctx, &mut self.jobs.table, job);
            }
            return None;
        }
        if !self.is_sure_to_be_known(job) {
            return None;
        }
        let shape = self.host.own_nodes.shape_of(
            &self.ctx,
            &mut self.jobs,
            &mut self.host.guard,
            &mut self.host.host_processes,
            job,
        )?;
        let (container, main) =
            match taken::take_child_in(&self.ctx, &self.jobs.table, &self.clients.server, job, id, &shape) {
                Ok(Some(taken)) => taken,
                Ok(None) => return Some(Event::ChildGone(job)),
                Err(error) => return Some(Event::NotCarried(job, action, in_full(&error))),
            };
        self.jobs.table.get_mut(&job)?.row.main = Some(main);
        self.meters.processes.bind(job, main.pid, self.ctx.clock.now_us());
        crash::point("between a child in its group and its start");
        self.started(job, container);
        self.clients.server.send(id, &self.go(job, 0));
        Some(Event::Carried(job, action))
    }

    /// Whether this user's jobs come in by self-attach files. The kernel checks the rights of the process that opened them: through
    /// a door of this daemon another user could put any process of the host into a job of theirs, and freeze it.
    pub(super) fn has_doors_for(&self, uid: u32) -> bool {
        self.ctx.doors && uid == peer::own_uid()
    }

    fn start_through_doors(&mut self, job: JobId, id: ConnectionId, action: Action) -> Event {
        let shape = self
            .host
            .own_nodes
            .shape_of(&self.ctx, &mut self.jobs, &mut self.host.guard, &mut self.host.host_processes, job)
            .unwrap_or_default();
        let made = self.ctx.containers.create(job.0, &shape);
        let opened = made.and_then(|container| Ok((container.doors()?, container)));
        let (doors, container) = match opened {
            Ok(opened) => opened,
            Err(error) => return Event::NotCarried(job, action, in_full(&error)),
        };
        crash::point("between a group and its start");
        self.started(job, container);
        let go = self.go(job, u32::try_from(doors.len()).expect("one for each hierarchy"));
        self.clients.server.send_with(id, &go, doors);
        self.jobs.unheard.awaits_answer(&self.ctx, &mut self.jobs.table, job);
        Event::Carried(job, action)
    }

    /// The word that lets a job's command go.
    pub(super) fn go(&self, job: JobId, doors: u32) -> Reply {
        let run = self.jobs.table.get(&job).map(|live| run_of(&live.row));
        Reply::Go { job: job.0, doors, variables: self.variables(job), wrap: setup::wrap(&self.ctx), run }
    }

    /// The job runs from now on, in this container.
    pub(super) fn started(&mut self, job: JobId, container: Container) {
        let now_us = self.ctx.clock.now_us();
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        live.container = Some(Box::new(container));
        live.row.started_us = Some(now_us);
        live.begin = Begin::No;
        live.set_state(JobState::Running, now_us);
        let mut meter = Meter::new(job.0);
        meter.processes_from(self.meters.processes.from());
        live.meter = Some(Box::new(meter));
        self.jobs.timeouts.arm(&live.row, now_us);
        let comes_back = self.jobs.starts.has(&live.row);
        let has_cpu_limit = live.row.spec.terms.cpu_limit_us.is_some();
        self.jobs.running.insert(job);
        self.host.isolated.isolate(&self.ctx, &self.jobs.table, job);
        self.host.own_nodes.keep_away(&self.ctx, &mut self.jobs.table, &mut self.host.guard, job);
        if has_cpu_limit {
            self.look_at_cpu_time(job);
        }
        if comes_back {
            // If the host went down now, it must not be taken for one that has not begun, and started a second time.
            self.outbox.journal.touch(job);
        } else {
            // The decision to start it is on disk; the moment is written along with whatever is written next.
            self.outbox.journal.touch_later(job);
        }
    }

    /// Takes processes that came through the self-attach files of their containers into the unified hierarchy. It may take an RCU
    /// grace period, so it is done once a job has lived for longer than a short one does.
    pub(super) fn on_self_attach_due(&mut self) {
        let now_us = self.ctx.clock.now_us();
        while let Some(&(at, job)) = self.jobs.self_attach_due.front()
            && at <= now_us
        {
            self.jobs.self_attach_due.pop_front();
            let Some(live) = self.jobs.table.get(&job) else { continue };
            let Some(container) = &live.container else { continue };
            let main = live.row.main.and_then(|main| self.ctx.process_again(main));
            // A door may have stayed shut (the last PU of the set went offline); taken in, the job is in.
            let closed = container.close_doors().and_then(|()| match (main, container.pids()?) {
                (Some(main), inside) if !inside.contains(&main.pid()) => {
                    container.enter_process(&main).map(drop)
                }
                _ => Ok(()),
            });
            if let Err(error) = closed {
                tracing::warn!(job = job.0, %error, "a job is not wholly in its container");
            }
            if live.lingers || live.orphaned {
                // Only now will the kernel say when it empties. Where it cannot, looks at it do (`lingering`).
                if !container.is_missing_in_tree() {
                    self.watch_container(job);
                }
                self.finish_if_empty(job);
            }
        }
    }

    /// What a job finds in its environment.
    pub(super) fn variables(&self, job: JobId) -> Vec<(String, String)> {
        let cpus = self.jobs.table.get(&job).and_then(|live| live.row.cpus.clone());
        let spec = self.jobs.table.get(&job).map(|live| &live.row.spec);
        let given = cpus.and_then(|text| text.parse().ok()).unwrap_or_else(|| self.ctx.topology.usable());
        let cpus = spec.map_or(given.clone(), |spec| crate::jobs::record::confined(spec, &given)).to_string();
        let scratch = spec.and_then(|spec| self.surroundings.scratches.variable(job, spec));
        let always = [
            ("PINFOLD_JOB_ID", job.0.to_string()),
            ("PINFOLD_INSTANCE", self.ctx.instance.clone()),
            ("PINFOLD_MODE", self.ctx.containers.plan().mode.as_str().to_owned()),
            ("PINFOLD_CPUS", cpus),
            ("PINFOLD_TASK_ID", "0".to_owned()),
            ("PINFOLD_NTASKS", "1".to_owned()),
        ]
        .map(|(name, value)| (name.to_owned(), value));
        let row = self.jobs.table.get(&job).map(|live| &live.row);
        let (ended, written) = row.map_or((0, 0), |row| (run_of(row), row.checkpoints));
        let counts = [("PINFOLD_RESTARTS", ended), ("PINFOLD_CHECKPOINTS", written)];
        let counts = counts.into_iter().filter(|&(_, count)| count > 0);
        let counts = counts.map(|(name, count)| (name.to_owned(), count.to_string()));
        let site = self.surroundings.hooks.variables(job);
        let resources = spec.map_or(&[][..], |spec| &spec.terms.resources);
        let place = spec.and_then(|spec| spec.array);
        let array = place.into_iter().flat_map(|place| {
            let id = place.array.unwrap_or(job.0).to_string();
            [("PINFOLD_ARRAY_ID", id), ("PINFOLD_ARRAY_INDEX", place.index.to_string())]
        });
        let array = array.map(|(name, value)| (name.to_owned(), value));
        always
            .into_iter()
            .chain(counts)
            .chain(array)
            .chain(scratch.map(|path| ("TMPDIR".to_owned(), path)))
            .chain(self.surroundings.disks.variable(job).map(|path| ("PINFOLD_DISK_DIR".to_owned(), path)))
            .chain(self.host.resources.variables(resources))
            .chain(site)
            .collect()
    }

    /// Does to a job's processes what was to be done before there were any.
    pub(super) fn catch_up(&mut self, job: JobId) {
        let early = self.jobs.table.get_mut(&job).map(|live| std::mem::take(&mut live.deferred));
        for action in early.unwrap_or_default() {
            if let Some(Err(error)) = self.act(job, &action) {
                self.on_not_carried(job, action, in_full(&error));
            }
        }
    }

    /// Watches a job's container for its end.
    pub(super) fn watch_container(&mut self, job: JobId) {
        let Some(container) = self.jobs.table.get(&job).and_then(|live| live.container.as_ref()) else {
            return;
        };
        match container.events_fd() {
            // Watched twice is an error that means it is watched already.
            Some(descriptor) => drop(self.ctx.poller.watch(Ready::Container(job), descriptor)),
            // Its self-attach files are open still; it is watched once they are closed.
            None if container.is_missing_in_tree() => {
                self.jobs.self_attach_due.push_front((self.ctx.clock.now_us(), job))
            }
            None => {}
        }
    }
}
