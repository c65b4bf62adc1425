//! Jobs that no daemon knows any more, and ends without a daemon to report to.
//!
//! Absent here: the messages to users (`submit/notes`).

use std::path::Path;
use std::time::Duration;

use pinfold_proto::Ending;
use pinfold_proto::wire::ErrorCode;

use super::{Keeper, Kept, Stage, Told};

impl Keeper {
    /// The socket of the daemon that has the jobs, or had them.
    pub(crate) fn socket(&self) -> &Path {
        self.line.socket()
    }

    /// Whether no daemon will have the jobs again: the daemon was away for this time, and its state directory was
    /// removed.
    pub(crate) fn is_orphaned(&self, after: Duration) -> bool {
        self.alone_for().is_some_and(|alone| alone >= after) && self.line.state_is_gone()
    }

    /// Ended jobs of an absent daemon.
    pub(crate) fn ends_for_nobody(&self) -> Vec<(u64, Ending)> {
        let ended = |(&ticket, kept): (&u64, &Kept)| match kept.stage {
            Stage::Ended(ending) => Some((ticket, ending)),
            Stage::Waiting(_) | Stage::Running(_) => None,
        };
        if self.line.is_lost() { self.jobs.iter().filter_map(ended).collect() } else { Vec::new() }
    }

    /// Jobs that ended since the last call, and that no daemon knew by then.
    pub(crate) fn take_unknown(&mut self) -> Vec<(u64, Ending)> {
        std::mem::take(&mut self.unknown)
    }

    /// The daemon does not know the job: a waiting job is asked for anew, a running job goes on unmanaged, an ended job
    /// is forgotten.
    pub(super) fn not_known(&mut self, job: u64) {
        let Some(ticket) = self.by_job.remove(&job) else { return };
        let Some(kept) = self.jobs.get_mut(&ticket) else { return };
        kept.job = None;
        match kept.stage {
            Stage::Waiting(_) if kept.taken_over => {
                self.refused(ticket, "it is over already".to_owned(), ErrorCode::Failed);
            }
            Stage::Waiting(_) => self.present(ticket),
            Stage::Running(_) => {}
            Stage::Ended(ending) => self.unrecorded(ticket, ending),
        }
    }

    /// A job is done with that no daemon knows any more.
    pub(super) fn unrecorded(&mut self, ticket: u64, ending: Ending) {
        self.unknown.push((ticket, ending));
        self.told.push_back(Told::Recorded { ticket, suspended_us: 0, memory_peak_bytes: 0, end: None });
        self.forget(ticket);
    }
}
