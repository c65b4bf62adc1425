//! A start is handed over to be kept: at once, or once it is on disk which of its jobs have begun; or it is refused.
//!
//! Absent here: the files, and how much they take (`starts`).

use std::collections::BTreeSet;

use pinfold_policy::JobId;
use pinfold_proto::start::Start;
use pinfold_sys::peer::Peer;

use super::Starts;
use crate::clients::{quota, rights};
use crate::core::durable::After;
use crate::core::{Ctx, Outbox};
use crate::jobs::record::JobRecord;
use crate::jobs::table::JobTable;

/// Whose a start is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner {
    pub(super) uid: u32,
    /// What all of that user's may take; `None`: those of operators are not bounded.
    pub(super) most: Option<u64>,
}

impl Starts {
    /// A keeper tells what another one would need in its place.
    pub(crate) fn keep_start(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        kept: JobId,
        start: Box<Start>,
    ) {
        let uid = all_of(table, kept).find_map(|job| Some(table.get(&job)?.row.uid));
        if let Some(uid) = uid {
            self.keep_in_time(out, table, kept, owner(ctx, uid), start);
        }
    }

    /// Keeps it now, or once it is on disk which of its jobs have begun.
    pub(super) fn keep_in_time(
        &mut self,
        out: &mut Outbox,
        table: &mut JobTable,
        kept: JobId,
        owner: Owner,
        start: Box<Start>,
    ) {
        // Told once more: after a restart of the daemon, or by one who repeats it.
        if self.kept.contains_key(&kept.0) || self.coming.contains(&kept.0) {
            return;
        }
        if self.is_refused(out, table, kept, owner, &start) {
            return;
        }
        let begun = |job: &JobId| table.get(job).is_some_and(|live| live.has_started());
        let begun: BTreeSet<JobId> = all_of(table, kept).filter(begun).collect();
        if begun.is_empty() {
            return self.write_start(out, kept, owner, &start);
        }
        // First that these have: were the host to go down in between, they would be taken for ones that have not.
        begun.into_iter().for_each(|job| out.journal.touch(job));
        self.coming.insert(kept.0);
        out.durable.after(After::KeepStart(kept, owner.uid, start));
    }

    /// Keeps it on disk, for a job or all members of an array, which may be over by now.
    pub(crate) fn keep_start_now(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        (kept, uid): (JobId, u32),
        start: &Start,
    ) {
        self.coming.remove(&kept.0);
        let owner = owner(ctx, uid);
        if !self.is_refused(out, table, kept, owner, start) {
            self.write_start(out, kept, owner, start);
            self.end_unneeded(ctx, table, kept);
        }
    }

    fn write_start(&mut self, out: &mut Outbox, kept: JobId, owner: Owner, start: &Start) {
        match self.keep(kept, owner.uid, start) {
            Ok(written) => written.into_iter().for_each(|path| out.durable.file(path)),
            Err(error) => {
                tracing::warn!(job = kept.0, %error, "a job will not come back if the host is restarted");
            }
        }
    }

    /// Whether its user's starts would take too much with it. The jobs that it is for say so, each once: a keeper may
    /// hand it over again and again, and an array has thousands of rows.
    fn is_refused(
        &mut self,
        out: &mut Outbox,
        table: &mut JobTable,
        kept: JobId,
        owner: Owner,
        start: &Start,
    ) -> bool {
        let Some(words) = owner.most.and_then(|most| self.refusal(kept, owner.uid, start, most)) else {
            return false;
        };
        let says_so = |live: &JobRecord| live.row.reason.as_ref() == Some(&words);
        let is_to_say = |live: &JobRecord| !live.has_started() && !says_so(live);
        let silent = |job: &JobId| table.get(job).is_some_and(|live| is_to_say(live));
        let silent: Vec<JobId> = all_of(table, kept).filter(silent).collect();
        if !silent.is_empty() {
            tracing::warn!(job = kept.0, uid = owner.uid, words, "a job's start is not kept");
        }
        for job in silent {
            if let Some(live) = table.get_mut(&job) {
                live.row.reason = Some(words.clone());
                out.journal.touch(job);
            }
        }
        true
    }
}

/// The owner of a start, with its bound.
fn owner(ctx: &Ctx, uid: u32) -> Owner {
    let config = &ctx.configured.config;
    let most = config.access_max_jobs_size.saturating_mul(quota::STARTS_FACTOR);
    let trusted = rights::is_operator(config, Peer { pid: 0, uid });
    Owner { uid, most: (!trusted).then_some(most) }
}

/// The jobs that a start is for.
fn all_of(table: &JobTable, kept: JobId) -> impl Iterator<Item = JobId> + '_ {
    std::iter::once(kept).chain(table.members(kept.0).map(|(member, _)| member))
}
