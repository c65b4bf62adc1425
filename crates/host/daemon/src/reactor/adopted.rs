//! Processes that somebody else started become a job: it is asked for as any other, and until its turn comes they run on
//! as they did. Then they are moved into its container, with all that descends from them. Nobody here is their parent, so
//! their end is known and their exit status only where the kernel tells of it (`processes`).
//!
//! Absent here: what the kernel says of a process (`sys::adoptee`), how they are moved (`taken_in`) and held
//! (`sys::container`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use pinfold_policy::{Event as SchedulerEvent, JobId};
use pinfold_proto::row::{JobRow, ProcessId, ProcessesFrom};
use pinfold_proto::wire::{Adoptee, ErrorCode, Reply};
use pinfold_proto::{Adopted, Ending, JobSpec};
use pinfold_sys::adoptee::{self, Processes, Standing};
use pinfold_sys::container::{InPlace, Taken};
use pinfold_sys::managers;
use pinfold_sys::mode::{Mode, Roots};
use pinfold_sys::peer::{self, Peer};
use pinfold_sys::procfs::{ProcError, ProcessStat};

use crate::clients::audit::Concern;
use crate::clients::{cost, rights};
use crate::core::{ConnectionId, Next, Refusal, denied, in_full, is_alive};
use crate::jobs::{JobRecord, bounds, described, endings};
use crate::reactor::{Daemon, belongs};
use crate::store::journal::Asker;

/// So many processes can be taken in at once. Each costs a look at it and a write in each hierarchy.
pub(super) const PROCESSES_MAX: usize = cost::ADOPTED_MAX;

/// What containers are to know of a job whose processes ran before.
pub(crate) fn taken(adopted: &Adopted) -> Taken {
    let in_place = adopted.in_place.map(|one| InPlace { bound: one.bound });
    Taken { processes: adopted.processes.clone(), before_ticks: adopted.before_ticks, in_place }
}

impl Daemon {
    /// Makes a job of processes that run.
    pub(super) fn adopt_for(
        &mut self,
        id: ConnectionId,
        user: Peer,
        which: &Adoptee,
        spec: JobSpec,
        in_place: bool,
    ) -> Result<(), Refusal> {
        let (mut found, owner, all) = self.adoptees(user, which, in_place)?;
        if in_place && found_first(which) != Some(user.pid) {
            without_hook(&mut found, user.pid)?;
        }
        let (mut spec, is_read) = described::described(&self.ctx, which, spec, (&found, owner), in_place)?;
        self.clients.again.note(!is_read);
        if !is_read && self.clients.again.may_wait(user.uid) {
            return Err(belongs::held_up(found[0].pid));
        }
        let any_user = rights::is_operator(&self.ctx.configured.config, user);
        spec.adopted.iter_mut().for_each(|adopted| adopted.any_user = any_user);
        bounds::within_bounds(&spec)?;
        bounds::forget_numbers(&mut spec);
        spec.terms.parent = None;
        let bounds = self.bounds_around_all(&found, in_place)?;
        spec.allocation = None;
        if in_place {
            self.admit_in_place(user, &found, &all, &mut spec)?;
            if self.join_in_place(id, owner, &found, &all, &spec)? {
                return Ok(());
            }
        } else {
            spec.external = None;
        }
        self.clients.askers.stay_within_bounds(
            &self.ctx,
            &self.jobs.table,
            &self.host.sets,
            bounds,
            &mut spec,
        )?;
        let (priority, conditions) = self.admit(user, &spec)?;
        let first = ProcessId { pid: found[0].pid, start_ticks: found[0].start_ticks };
        let is_trusted = rights::is_operator(&self.ctx.configured.config, user);
        let job = self.outbox.journal.number_for(&spec, Asker { uid: owner, is_trusted });
        let job = job.map_err(|reason| (ErrorCode::Failed, reason))?;
        let uid_name = self.clients.names.name(owner);
        let row = JobRow::asked_for(job, owner, uid_name, spec, self.ctx.clock.now_us());
        let mut row = JobRow { priority, main: Some(first), ..row };
        let gated = self.close_gate(&mut row, conditions);
        let gated = gated.map_err(|why| (ErrorCode::Refused, format!("--after: {why}")))?;
        let concern = if owner == user.uid { Concern::Own } else { Concern::Others };
        self.note(user, concern, "adopt", &format!("job {job}: {}", named(&row.spec)));
        let learned = &self.meters.learned;
        let mut request = self.host.sets.request(&self.ctx, &self.jobs.table, learned, &row);
        request.gated = gated;
        self.jobs.table.insert(JobId(job), Box::new(JobRecord::new(row, false)));
        self.outbox.journal.touch(JobId(job));
        self.outbox.step(SchedulerEvent::Submit(request));
        self.outbox.then(Next::Adopted { asked: id, job: JobId(job), processes: found.len() as u64 });
        Ok(())
    }

    /// The scheduler has let such a job in, or not: the client is told.
    pub(super) fn on_adopted(&mut self, id: ConnectionId, job: JobId, processes: u64) {
        if !self.jobs.table.contains_key(&job) {
            let reason = self.outbox.journal.stored_row(job).and_then(|row| row.reason).unwrap_or_default();
            return self.outbox.refuse(id, (ErrorCode::Refused, format!("job {job}: {reason}")));
        }
        self.watch_adopted(job);
        self.outbox.reply(id, Reply::Adopted { job: job.0, processes });
    }

    /// The processes that are meant, the first one named first, each such as may be taken in; whose that one is; and all
    /// processes as they were read for that.
    fn adoptees(
        &mut self,
        user: Peer,
        which: &Adoptee,
        in_place: bool,
    ) -> Result<(Vec<ProcessStat>, u32, Processes), Refusal> {
        let named = match which {
            Adoptee::Process(pid) => vec![*pid],
            Adoptee::Group(path) => self.in_group(path)?,
        };
        let mut found = Vec::new();
        let all = Processes::read(&self.ctx.proc).map_err(|error| unreadable(&error))?;
        self.host.processes_seen = all.count();
        if let Adoptee::Process(pid) = which
            && all.start_ticks(*pid).is_some_and(|start_ticks| !self.clients.again.is_still(start_ticks))
        {
            let text = format!("process {pid} is another one by now: the one that was asked for has ended");
            return Err((ErrorCode::Failed, text));
        }
        let tree = all.tree(&named);
        if tree.len() > PROCESSES_MAX {
            let text = format!("{} processes, and {PROCESSES_MAX} at once are the most", tree.len());
            return Err((ErrorCode::Refused, format!("{text}; adopt parts of them")));
        }
        for stat in tree {
            // A process that has ended since then counts as not there.
            let standing = adoptee::standing(&self.ctx.proc, stat.pid).map_err(|error| unreadable(&error))?;
            found.extend(standing.map(|standing| (stat, standing)));
        }
        if found.is_empty() {
            let text = match which {
                Adoptee::Process(pid) => format!("there is no process {pid}, or it has ended"),
                Adoptee::Group(path) => format!("no process is in the group {path}"),
            };
            return Err((ErrorCode::Failed, text));
        }
        let is_named: BTreeSet<u32> = named.into_iter().collect();
        let kept = self.kept_processes();
        let (found, standings): (Vec<ProcessStat>, Vec<Standing>) = found.into_iter().unzip();
        let above = self.jobs_above(&all, &found);
        let stays = !in_place && !rights::is_operator(&self.ctx.configured.config, user);
        let held = if stays { managers::of_processes(&self.ctx.proc, &all, &found) } else { BTreeMap::new() };
        let environs = self.environs(standings[0].user, found.iter().map(|stat| stat.pid).collect());
        let admitted = found.iter().zip(&standings).try_for_each(|(stat, standing)| {
            self.may_adopt(user, stat, *standing, is_named.contains(&stat.pid), &kept)?;
            self.is_no_part(stat.pid, &above, &environs)?;
            if stays {
                belongs::stays_with_its_manager(stat.pid, held.get(&stat.pid), &environs)?;
            }
            Ok(())
        });
        self.clients.again.note(environs.are_late());
        admitted?;
        self.beside_none(&found, &all)?;
        Ok((found, standings[0].user, all))
    }

    fn in_group(&self, path: &str) -> Result<Vec<u32>, Refusal> {
        let hierarchies = &self.ctx.containers.plan().facts.hierarchies;
        let members = adoptee::group_members(hierarchies, &Roots::default(), Path::new(path));
        let members = members.map_err(|error| (ErrorCode::Failed, in_full(&error)))?;
        members.ok_or_else(|| {
            let text =
                format!("there is no control group {path}: name one below the top, by its directory or as");
            (ErrorCode::Usage, format!("{text} /proc/PID/cgroup has it"))
        })
    }

    /// Whether one process may be taken in, for this user.
    fn may_adopt(
        &self,
        user: Peer,
        stat: &ProcessStat,
        standing: Standing,
        is_named: bool,
        kept: &BTreeSet<(u32, u64)>,
    ) -> Result<(), Refusal> {
        let pid = stat.pid;
        let refuse = |text: &str| Err((ErrorCode::Refused, format!("process {pid} {text}")));
        if pid == 1 {
            return refuse("is the first of this host, or of its container, on which all others rest");
        }
        if standing.kernel {
            return refuse("is a thread of the kernel's");
        }
        let operator = rights::is_operator(&self.ctx.configured.config, user);
        if standing.user != user.uid && !operator {
            return Err(denied(&format!("process {pid} belongs to another user; operators may adopt it")));
        }
        if standing.mixed && !operator {
            return Err(denied(&format!(
                "process {pid} has another user's rights beside its own; operators may adopt it"
            )));
        }
        let own = peer::own_uid();
        if own != 0 && standing.user != own {
            let text =
                format!("process {pid} belongs to another user than this daemon, which cannot hold it");
            return Err(denied(&text));
        }
        if is_named && standing.nested {
            return refuse(
                "is in a container of another software (a PID namespace of its own), which keeps it in groups of \
                           its own",
            );
        }
        let name = self.ctx.proc.text(&format!("{pid}/comm")).ok().flatten().unwrap_or_default();
        if pid == std::process::id() || name.trim() == "pinfoldd" {
            return refuse("is a daemon of pinfold's");
        }
        if kept.contains(&(pid, stat.start_ticks)) {
            return refuse("keeps jobs of pinfold's: it starts their commands and waits for them");
        }
        Ok(())
    }

    /// Whether the processes of a job are known one by one.
    pub(super) fn knows_each(&self, adopted: &Adopted) -> bool {
        self.is_rootless() || adopted.in_place.is_some()
    }

    pub(super) fn is_rootless(&self) -> bool {
        self.ctx.containers.plan().mode == Mode::Rootless
    }

    /// Tells those who hold jobs of one of an earlier life whose processes ran before; says whether any of them is alive.
    pub(super) fn restore_adopted(&mut self, row: &JobRow) -> bool {
        let Some(adopted) = row.spec.adopted.as_ref().filter(|_| !self.ctx.rebooted) else { return false };
        self.ctx.containers.takes_in(row.job, taken(adopted));
        self.host.guard.takes_in(row.job, &adopted.processes, adopted.in_place.is_some());
        let alive =
            |&(pid, start_ticks): &(u32, u64)| is_alive(&self.ctx.proc, ProcessId { pid, start_ticks });
        adopted.processes.iter().any(alive)
    }

    /// Watches the first of such processes: while the job waits, its end is the job's, later it tells the exit status.
    pub(super) fn watch_adopted(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        live.keeper_watch = None;
        let main = live.row.main;
        if !self.watch_for(job, main) {
            self.adopted_ended(job);
        }
    }

    /// The first of the processes of such a job has ended.
    pub(super) fn adopted_ended(&mut self, job: JobId) {
        let Some(live) = self.jobs.table.get_mut(&job) else { return };
        live.keeper_watch = None;
        let Some(adopted) = live.row.spec.adopted.clone() else { return };
        if live.container.is_some() {
            return self.told_ending(job);
        }
        let left =
            |&&(pid, start_ticks): &&(u32, u64)| is_alive(&self.ctx.proc, ProcessId { pid, start_ticks });
        match adopted.processes.iter().find(left) {
            Some(&(pid, start_ticks)) => {
                live.row.main = Some(ProcessId { pid, start_ticks });
                self.outbox.journal.touch(job);
                self.watch_adopted(job);
            }
            None => self.withdrawn(job, endings::ENDED_BEFORE.to_owned()),
        }
    }

    /// Notes how the first process ended, where the kernel told it.
    fn told_ending(&mut self, job: JobId) {
        match self.ending_told(job) {
            Some(ending) => self.ended(job, ending),
            None => self.finish_if_empty(job),
        }
    }

    /// Nobody is left of such a job: whether the kernel may still tell how it ended, or just did. Its word comes by another
    /// way than that of the empty group, and a moment later (`do_exit` in the kernel's `exit.c`).
    pub(super) fn hears_of_its_end(&mut self, job: JobId) -> bool {
        let Some(live) = self.jobs.table.get_mut(&job) else { return false };
        if live.row.spec.adopted.is_none() || live.row.ending.is_some() || live.heard_of {
            return false;
        }
        live.heard_of = true;
        let may = self.jobs.running.contains(&job) && self.meters.processes.from() != ProcessesFrom::Samples;
        match self.ending_told(job) {
            Some(ending) => self.ended(job, ending),
            // It is looked at again (`lingering`).
            None => return may,
        }
        true
    }

    fn ending_told(&mut self, job: JobId) -> Option<Ending> {
        let main = self.jobs.table.get(&job).and_then(|live| live.row.main);
        let rows = self.meters.process_rows(&self.ctx, &mut self.outbox.journal, &mut self.jobs, job);
        main.and_then(|main| {
            let its = |row: &&pinfold_proto::row::ProcessRow| {
                row.pid == main.pid && row.count == 1 && (row.exit_code.is_some() || row.signal.is_some())
            };
            // Of several with its number it was the first.
            let row = rows.iter().find(its)?;
            let ended_us = row.ended_us.unwrap_or_else(|| self.ctx.clock.now_us());
            Some(Ending { exit_code: row.exit_code, signal: row.signal, ended_us, ..Ending::default() })
        })
    }
}

/// The process that was named.
fn found_first(which: &Adoptee) -> Option<u32> {
    match which {
        Adoptee::Process(pid) => Some(*pid),
        Adoptee::Group(_) => None,
    }
}

/// Of a task that waits in its manager's hook, the hook itself is no part; but a job has a process.
fn without_hook(found: &mut Vec<ProcessStat>, hook: u32) -> Result<(), Refusal> {
    found.retain(|stat| stat.pid != hook);
    if found.is_empty() {
        let text = "there is no process in that group but the one that asks";
        return Err((ErrorCode::Failed, text.to_owned()));
    }
    Ok(())
}

fn unreadable(error: &ProcError) -> Refusal {
    (ErrorCode::Failed, in_full(error))
}

fn named(spec: &JobSpec) -> String {
    spec.adopted.as_ref().map(Adopted::named).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A client that is alone in its group names that group.
    #[test]
    fn a_hook_alone_is_no_job() {
        let of = |pid| ProcessStat { pid, ..ProcessStat::default() };
        let mut found = vec![of(7), of(8)];
        without_hook(&mut found, 7).expect("one is left");
        assert_eq!(found, [of(8)]);
        let (_, words) = without_hook(&mut found, 8).expect_err("none is left");
        assert!(words.contains("no process"), "{words}");
    }
}
