//! A workload manager's job is managed in place: its processes stay in the groups that the manager made, and are held one by
//! one. Its hook asks for it before the command executes, and waits here until the job has started.
//!
//! Absent here: what is the same with all that is adopted (`adopted`), and what names mean (`jobs::external`).

use std::collections::BTreeSet;

use pinfold_policy::JobId;
use pinfold_proto::row::ProcessId;
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_proto::{Adopted, Allocation, InPlace, JobSpec};
use pinfold_sys::adoptee::Processes;
use pinfold_sys::container::{Container, Entered};
use pinfold_sys::managers;
use pinfold_sys::peer::Peer;
use pinfold_sys::procfs::ProcessStat;

use crate::clients::rights;
use crate::core::{ConnectionId, Effect, Refusal, denied, in_full, is_alive};
use crate::jobs::external;
use crate::reactor::Daemon;
use crate::reactor::adopted::{PROCESSES_MAX, taken};

/// Variables that are for the processes of jobs that pinfold starts: by the first two a job is found again, and what a
/// manager's job submits to that manager inherits its environment.
const NOT_IN_PLACE: [&str; 4] = ["PINFOLD_JOB_ID", "PINFOLD_INSTANCE", "PINFOLD_TASK_ID", "PINFOLD_NTASKS"];

impl Daemon {
    /// Checks what is claimed of processes that are to stay where they are, and adds what their manager gave them.
    pub(super) fn admit_in_place(
        &self,
        user: Peer,
        found: &[ProcessStat],
        all: &Processes,
        spec: &mut JobSpec,
    ) -> Result<(), Refusal> {
        let Some(name) = spec.external.clone() else {
            let text = "only a workload manager's job is managed in place: say its name there";
            return Err((ErrorCode::Usage, text.to_owned()));
        };
        // Operators are believed.
        let operator = rights::is_operator(&self.ctx.configured.config, user);
        let (found, first) = (if operator { &[] } else { found }, found[0].pid);
        let managers = managers::of_processes(&self.ctx.proc, all, found);
        for stat in found {
            let manager = managers.get(&stat.pid).map(String::as_str);
            if !external::agrees(&name, manager) {
                let manager = manager.unwrap_or_default();
                return Err(denied(&format!(
                    "process {} is part of job {manager}, and cannot be called {name}",
                    stat.pid
                )));
            }
        }
        let status = self.ctx.proc.status(first).ok().flatten();
        let cpus = status.map(|status| status.cpus).unwrap_or_default();
        let usable = self.ctx.topology.usable();
        let bound = !usable.difference(&cpus).is_empty();
        // A task may be bound to a part of what all tasks of the job have.
        let inside = self.ctx.topology.cores_within(&cpus).len();
        let is_all = bound && inside >= spec.cores as usize;
        spec.allocation = Some(Allocation {
            manager: Some(name.to_string()),
            cpus: is_all.then(|| cpus.intersection(&usable).to_string()),
            ..Allocation::default()
        });
        spec.adopted.iter_mut().for_each(|adopted| adopted.in_place = Some(InPlace { bound }));
        Ok(())
    }

    /// Makes processes part of a job of the same manager's job that waits or runs; `false`: there is none.
    pub(super) fn join_in_place(
        &mut self,
        id: ConnectionId,
        owner: u32,
        found: &[ProcessStat],
        all: &Processes,
        spec: &JobSpec,
    ) -> Result<bool, Refusal> {
        let Some(name) = &spec.external else { return Ok(false) };
        let Some(job) = external::joined(&self.jobs.table, owner, name) else { return Ok(false) };
        let Some(live) = self.jobs.table.get_mut(&job) else { return Ok(false) };
        let Some(mut adopted) = live.row.spec.adopted.clone() else { return Ok(false) };
        let alive =
            |&(pid, start_ticks): &(u32, u64)| is_alive(&self.ctx.proc, ProcessId { pid, start_ticks });
        let frozen = live.row.frozen_since_us.is_some();
        make_room(job, &mut adopted.processes, found.len(), (!frozen).then_some(all), alive)?;
        let mut entered: Vec<&ProcessStat> = found.iter().collect();
        if let Some(container) = &live.container {
            entered.clear();
            for stat in found {
                let Some(process) =
                    self.ctx.process_again(ProcessId { pid: stat.pid, start_ticks: stat.start_ticks })
                else {
                    continue;
                };
                let outcome = container.enter_process(&process);
                if outcome.map_err(|error| (ErrorCode::Failed, in_full(&error)))? == Entered::Yes {
                    entered.push(stat);
                }
            }
            used_before(&mut adopted, &entered);
            container.used_before(adopted.before_ticks);
        }
        adopted.processes.extend(entered.iter().map(|stat| (stat.pid, stat.start_ticks)));
        let now_us = self.ctx.clock.now_us();
        if live.container.is_some() {
            entered.iter().for_each(|stat| self.meters.processes.bind(job, stat.pid, now_us));
            self.ctx.containers.takes_in(job.0, taken(&adopted));
            self.host.guard.takes_in(job.0, &adopted.processes, true);
        }
        live.row.spec.adopted = Some(adopted);
        if let Some(container) = live.container.as_mut().filter(|_| frozen) {
            container.freeze().map_err(|error| (ErrorCode::Failed, in_full(&error)))?;
        }
        self.outbox.journal.touch(job);
        self.outbox
            .push(Effect::Reply(id, Box::new(Reply::Adopted { job: job.0, processes: found.len() as u64 })));
        Ok(true)
    }

    /// Notes which processes a job has that was taken in and is in no group of its own. One whose parent ended has neither
    /// a group nor a mark: by its number alone the guard and the next daemon find it. So it is to be done before such a job
    /// is frozen, or one would stay frozen after both its first process and the daemon were killed.
    pub(super) fn note_members(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get(&job) else { return };
        let Some(mut adopted) = live.row.spec.adopted.clone().filter(|adopted| self.knows_each(adopted))
        else {
            return;
        };
        let Some(Ok(pids)) = live.container.as_deref().map(Container::pids) else { return };
        let start = |pid| Some((pid, self.ctx.proc.stat(pid).ok().flatten()?.start_ticks));
        let members: Vec<(u32, u64)> = pids.into_iter().filter_map(start).collect();
        if members.iter().all(|member| adopted.processes.contains(member)) {
            return;
        }
        // The one that was named first stays the first.
        adopted.processes.retain(|process| members.contains(process));
        let new: Vec<_> = members.into_iter().filter(|member| !adopted.processes.contains(member)).collect();
        adopted.processes.extend(new);
        adopted.processes.truncate(PROCESSES_MAX);
        self.ctx.containers.takes_in(job.0, taken(&adopted));
        self.host.guard.takes_in(job.0, &adopted.processes, adopted.in_place.is_some());
        if let Some(live) = self.jobs.table.get_mut(&job) {
            live.row.spec.adopted = Some(adopted);
        }
        self.outbox.journal.touch(job);
    }

    /// A client that waits for the start of a job is told of it, at once if it has started or is over.
    pub(super) fn begin_for(&mut self, id: ConnectionId, user: Peer, job: JobId) -> Result<(), Refusal> {
        self.row_for(user, job)?;
        self.clients.waiters.has_room(&self.clients.server, id, user.uid, 1)?;
        self.clients.waiters.waits_for_start(id, job);
        let waits = self.jobs.table.get(&job).is_some_and(|live| !live.has_started());
        if !waits {
            self.answer_starts(job);
        }
        Ok(())
    }

    /// A job has started, or is over: those who wait for its start are told.
    pub(super) fn answer_starts(&mut self, job: JobId) {
        let waiting = self.clients.waiters.started(job);
        if waiting.is_empty() {
            return;
        }
        let reply = match self.jobs.table.get(&job).filter(|live| live.has_started()) {
            Some(_) => {
                let mut variables = self.variables(job);
                variables.retain(|(name, _)| !NOT_IN_PLACE.contains(&name.as_str()));
                Reply::Begun { job: job.0, variables }
            }
            None => {
                let row = self.outbox.journal.stored_row(job);
                let why = row.and_then(|row| row.reason).unwrap_or_else(|| "it is over".to_owned());
                Reply::Error { code: ErrorCode::Refused, message: format!("job {job} did not start: {why}") }
            }
        };
        waiting.into_iter().for_each(|id| self.outbox.reply(id, reply.clone()));
    }
}

/// Makes room in the list of a job's processes for as many more. What has ended is no part of the job any more: else a job
/// that processes join for days would have an ever longer row. Those that descend from others of them are found by that,
/// as long as those others live; `all`, by which descent is told: none while the job is frozen, for then each is to be
/// found by its number alone (`note_members`).
fn make_room(
    job: JobId,
    known: &mut Vec<(u32, u64)>,
    more: usize,
    all: Option<&Processes>,
    alive: impl Fn(&(u32, u64)) -> bool,
) -> Result<(), Refusal> {
    known.retain(alive);
    if let Some(all) = all.filter(|_| known.len().saturating_add(more) > PROCESSES_MAX) {
        let named: BTreeSet<(u32, u64)> = known.iter().copied().collect();
        let parents = known.iter().filter_map(|&(pid, _)| all.parent(pid));
        let below = all.nearest(parents, |stat| named.contains(&(stat.pid, stat.start_ticks)).then_some(()));
        known.retain(|&(pid, _)| all.parent(pid).is_none_or(|parent| !below.contains_key(&parent)));
    }
    if known.len().saturating_add(more) > PROCESSES_MAX {
        let text = format!("job {} has {} processes that were adopted", job.0, known.len());
        let text =
            format!("{text}, and {PROCESSES_MAX} at once are the most: there is no room for {more} more");
        return Err((ErrorCode::Refused, text));
    }
    Ok(())
}

/// Adds what processes had used before they became part of a job.
fn used_before(adopted: &mut Adopted, entered: &[&ProcessStat]) {
    let sum = |of: fn(&ProcessStat) -> u64| entered.iter().map(|stat| of(stat)).sum::<u64>();
    adopted.before_ticks.0 += sum(|stat| stat.user_ticks + stat.children_user_ticks);
    adopted.before_ticks.1 += sum(|stat| stat.system_ticks + stat.children_system_ticks);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes join, end, and others join: the list stays as long as what lives.
    #[test]
    fn what_has_ended_makes_room_for_what_joins() {
        let nobody = processes(&[]);
        let mut known = Vec::new();
        for round in 0..100_u32 {
            let alive = |&(pid, _): &(u32, u64)| pid / 1_000 == round;
            make_room(JobId(7), &mut known, 1_000, Some(&nobody), alive).expect("those before have ended");
            known.extend((0..1_000).map(|at| (round * 1_000 + at, u64::from(at))));
        }
        assert_eq!(known.len(), 1_000);
        make_room(JobId(7), &mut known, 24, Some(&nobody), |_| true).expect("there is room for these");
        let refused = make_room(JobId(7), &mut known, 25, Some(&nobody), |_| true);
        let (_, words) = refused.expect_err("one more than may be");
        assert!(words.contains("1000 processes") && words.contains("1024 at once are the most"), "{words}");
    }

    /// All members of a job are noted before it is suspended, and few of them need be named.
    #[test]
    fn what_descends_from_others_makes_room() {
        let below: Vec<(u32, u32)> =
            [(10, 1)].into_iter().chain((11..1_033).map(|pid| (pid, pid - 1))).collect();
        let all = processes(&[&below[..], &[(2_000, 1)]].concat());
        let mut known: Vec<(u32, u64)> =
            below.iter().map(|&(pid, _)| pid).chain([2_000]).map(|pid| (pid, 7)).collect();
        // What is frozen is found by its number alone once its parent was killed.
        let before = known.clone();
        make_room(JobId(7), &mut known, 1_000, None, |_| true).expect_err("each of them is needed");
        assert_eq!(known, before);
        make_room(JobId(7), &mut known, 1_000, Some(&all), |_| true).expect("there is room for these");
        assert_eq!(known, [(10, 7), (2_000, 7)]);
    }

    /// Processes with these numbers and parents, all of which started at the same time.
    fn processes(all: &[(u32, u32)]) -> Processes {
        let root = tempfile::tempdir().expect("a directory");
        for (pid, parent) in all {
            let dir = root.path().join(pid.to_string());
            std::fs::create_dir(&dir).expect("a process");
            let stat = format!(
                "{pid} (x) S {parent} 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 7 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 17 0 0 0 0 0 0"
            );
            std::fs::write(dir.join("stat"), stat).expect("its state");
        }
        Processes::read(&pinfold_sys::procfs::Proc::open(root.path()).expect("a tree"))
            .expect("they are there")
    }
}
