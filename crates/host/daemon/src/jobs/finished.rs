//! Containers of jobs that are over, until they are removed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use pinfold_policy::JobId;
use pinfold_sys::container::{Container, Removed};

use crate::core::Ctx;
use crate::jobs::lingering::Lingering;

/// How long the daemon's own end waits for the last processes of jobs that are over,
const LAST_PATIENCE: Duration = Duration::from_millis(200);
/// and how long between two looks.
const LAST_PAUSE: Duration = Duration::from_millis(2);

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct Finished {
    containers: BTreeMap<JobId, Container>,
}

impl Finished {
    /// Whether there is none.
    pub(crate) fn is_empty(&self) -> bool {
        self.containers.is_empty()
    }

    /// Keeps the container of a job that is over until it is removed.
    pub(crate) fn keep(&mut self, job: JobId, container: Container) {
        self.containers.insert(job, container);
    }

    /// The jobs whose containers are kept that long.
    pub(crate) fn all(&self) -> Vec<JobId> {
        self.containers.keys().copied().collect()
    }

    /// Whether the container of this job is one of them.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.containers.contains_key(&job)
    }

    /// Whether processes are in the container of such a job; one that cannot be read has none.
    pub(crate) fn is_populated(&self, job: JobId) -> bool {
        self.containers.get(&job).is_some_and(|container| container.is_populated().unwrap_or(false))
    }

    /// Removes them now. What a last process is still on its way out of is waited for, for a moment.
    pub(crate) fn remove_all(&mut self) {
        let deadline = Instant::now() + LAST_PATIENCE;
        loop {
            for (job, container) in std::mem::take(&mut self.containers) {
                match container.remove() {
                    Ok(Removed::Yes) => {}
                    Ok(Removed::Busy(container)) => self.keep(job, container),
                    Err(error) => tracing::warn!(job = job.0, %error, "a container is left over"),
                }
            }
            if self.containers.is_empty() || Instant::now() >= deadline {
                return;
            }
            std::thread::sleep(LAST_PAUSE);
        }
    }

    /// Hands such a container out.
    pub(crate) fn take(&mut self, job: JobId) -> Option<Container> {
        self.containers.remove(&job)
    }
}

impl Finished {
    /// Removes the container of a job that is over.
    pub(crate) fn remove(&mut self, ctx: &Ctx, lingering: &mut Lingering, job: JobId) {
        let Some(container) = self.take(job) else { return };
        match container.remove() {
            Ok(pinfold_sys::container::Removed::Yes) => {}
            // Its last process has ended and is still on its way out.
            Ok(pinfold_sys::container::Removed::Busy(container)) => {
                self.keep(job, container);
                lingering.watch(job, ctx.clock.now_us());
            }
            Err(error) => tracing::warn!(job = job.0, %error, "a container is left over"),
        }
    }
}
