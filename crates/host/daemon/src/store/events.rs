//! What the scheduler is told and decides, kept in files where `record.events` says so; `pinfold replay` plays them.

use std::path::{Path, PathBuf};

use pinfold_policy::{Decision, Event, Instant, Policy};
use pinfold_record::frame::Step;
use pinfold_record::keep::Recorder;

/// The directory of the files, in the state directory.
const DIRECTORY: &str = "events";

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Events {
    directory: PathBuf,
    /// What all files together may come to; `None`: nothing is kept.
    bound_bytes: Option<u64>,
    recorder: Option<Recorder>,
}

impl Events {
    /// Begins, if there is a bound.
    pub(crate) fn new(state: &Path, bound_bytes: Option<u64>) -> Self {
        let mut events = Self { directory: state.join(DIRECTORY), bound_bytes: None, recorder: None };
        events.configure(bound_bytes);
        events
    }

    /// Begins, ends, or goes on below another bound. Files that are there stay.
    pub(crate) fn configure(&mut self, bound_bytes: Option<u64>) {
        if self.bound_bytes == bound_bytes {
            return;
        }
        self.bound_bytes = bound_bytes;
        self.recorder = None;
        let Some(bound_bytes) = bound_bytes else { return };
        let told = Box::new(|error: &str| {
            tracing::error!(%error, "events are not recorded; that is tried again in a minute");
        });
        match Recorder::start(&self.directory, bound_bytes, told) {
            Ok(recorder) => self.recorder = Some(recorder),
            Err(error) => tracing::error!(%error, "events are not recorded"),
        }
    }

    /// Has the scheduler take an event in, and keeps what came of it.
    pub(crate) fn step(&mut self, policy: &mut Policy, now: Instant, event: Event) -> Vec<Decision> {
        let keeps = self.recorder.as_mut().is_some_and(|recorder| recorder.before(policy, now.0));
        let Some(recorder) = self.recorder.as_mut().filter(|_| keeps) else { return policy.step(now, event) };
        let decisions = policy.step(now, event.clone());
        recorder.step(Step { now, event, decisions: decisions.clone() });
        decisions
    }
}
