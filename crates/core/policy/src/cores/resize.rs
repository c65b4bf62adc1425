//! The slots became more or fewer: jobs wider than the host take all there is.

use crate::api::Settings;
use crate::cores::assign;
use crate::cores::host::Host;
use crate::jobs::{JobTable, Transition};

/// The slots became more or fewer. A job that had started and is now wider than the host takes all there
/// is, so that it can go on; a new one waits until the host is large enough.
pub(crate) fn clip(host: &mut Host, jobs: &mut JobTable, settings: &Settings) -> Vec<Transition> {
    let mut queued = Vec::new();
    let started: Vec<_> = jobs.live_ids().iter().copied().collect();
    for job in started {
        let lends = host.lent.contains(&job);
        assign::set_lent(host, jobs, settings, job, lends);
        if jobs[&job].queued.is_some() {
            queued.push(Transition::Reenqueue { job });
        }
    }
    queued
}
