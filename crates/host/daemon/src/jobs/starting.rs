//! A job that could not start when it was to is started again.

use pinfold_policy::JobId;

use crate::core::{Effect, Outbox};
use crate::jobs::table::JobTable;

/// A start that was asked for while the job could not be is asked for again.
pub(crate) fn start_again(out: &mut Outbox, table: &JobTable, job: JobId) {
    if table.get(&job).is_some_and(|live| live.granted && live.container.is_none()) {
        out.push(Effect::Act(job, table.start_action(job)));
    }
}
