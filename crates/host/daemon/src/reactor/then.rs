//! `pinfold status --at`: the jobs of an earlier moment are looked for, a part of the store at a time (`clients/looks`), and
//! when all are found, what each was like.

use std::collections::VecDeque;

use pinfold_proto::JobState;
use pinfold_proto::view::{MemoryView, SlotsView, StatusView, VERSION, seconds};
use pinfold_proto::wire::Reply;
use pinfold_sys::peer::Peer;

use crate::clients::looks::{Look, Moment, Then, What};
use crate::clients::{past, rights};
use crate::core::{ConnectionId, Refusal, store_failed};
use crate::meters::readings;
use crate::reactor::Daemon;
use crate::reactor::looks::BYTES_A_PART;
use crate::reactor::reports::OVER_SHOWN;

/// So many jobs are looked at in a turn of the loop: a millisecond at most, unless the disk is slow.
const JOBS_A_PART: u32 = 2_048;
/// Of so many is read what they were like, with samples out of packed ones.
const VIEWS_A_PART: usize = 64;

impl Daemon {
    /// Begins to look for the jobs of a moment.
    pub(super) fn asked_about_then(&mut self, id: ConnectionId, user: Peer, at_us: u64) {
        let before = self.outbox.journal.store().upcoming_job();
        self.look(Look { id, user, what: What::Moment(Moment { at_us, before, found: Vec::new() }) });
    }

    /// Looks at some of the jobs for those of a moment; gives what is left to do.
    pub(super) fn look_at_moment(
        &mut self,
        id: ConnectionId,
        user: Peer,
        moment: Moment,
    ) -> Result<Option<What>, Refusal> {
        let Moment { at_us, before, mut found } = moment;
        let left = OVER_SHOWN.saturating_sub(u32::try_from(found.len()).unwrap_or(u32::MAX));
        let part = self.outbox.journal.store().numbers_at(at_us, before, JOBS_A_PART, left);
        let (more, before) = part.map_err(|error| store_failed(&error))?;
        found.extend(more);
        if let Some(before) = before.filter(|_| found.len() < OVER_SHOWN as usize) {
            return Ok(Some(What::Moment(Moment { at_us, before, found })));
        }
        let open: VecDeque<u64> = found.into_iter().rev().collect();
        self.part_of_look(id, user, What::Then(Then { at_us, open, ..Then::default() }))
    }

    /// Looks what some of the jobs of a moment were like; gives what is left to do.
    pub(super) fn tell_moment(
        &mut self,
        id: ConnectionId,
        user: Peer,
        mut then: Then,
    ) -> Result<Option<What>, Refusal> {
        let mut left = BYTES_A_PART;
        for _ in 0..VIEWS_A_PART {
            let Some(job) = then.open.pop_front() else { break };
            // It may have been struck off since it was found.
            let Some(row) = self.newest(job).map_err(|error| store_failed(&error))? else { continue };
            let samples = self.outbox.journal.store().samples_until(job, then.at_us);
            let view = past::job_then(&row, &samples.map_err(|error| store_failed(&error))?, then.at_us);
            then.held_bytes += view.memory_bytes.unwrap_or(0);
            then.swap_bytes += view.swap_bytes.unwrap_or(0);
            then.running += u64::from(view.state == JobState::Running);
            then.waiting += u64::from(view.state == JobState::Queued);
            if rights::may_touch(&self.ctx.configured.config, user, &row) {
                left = left.saturating_sub(then.told.push(view));
            }
            if left == 0 {
                break;
            }
        }
        if !then.open.is_empty() {
            return Ok(Some(What::Then(then)));
        }
        let view = self.status_then(then);
        self.outbox.reply(id, Reply::Status(view));
        Ok(None)
    }

    /// The host as it was, of what the store knows. Slots and budget are those of now, and so are priority, class and
    /// cores of each job, unless it is over: then the last it had.
    fn status_then(&mut self, then: Then) -> StatusView {
        let memory = self.memory_view(then.held_bytes, then.swap_bytes);
        StatusView {
            version: VERSION,
            host: self.ctx.host.clone(),
            mode: self.ctx.containers.plan().mode.as_str().to_owned(),
            slots: SlotsView { used: then.running, waiting: then.waiting, ..self.slots_view() },
            memory: MemoryView { pressure_full_avg10: None, ..memory },
            projects: Vec::new(),
            resources: Vec::new(),
            other_load: None,
            at_s: Some(seconds(then.at_us)),
            reading: readings::reading_at(&mut self.outbox.journal, then.at_us),
            neighbours: None,
            draining: false,
            jobs: then.told.jobs,
            warnings: Vec::new(),
        }
    }
}
