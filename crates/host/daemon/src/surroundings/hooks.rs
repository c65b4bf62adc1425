//! What stands around a job, as one chain: its directories, then the hooks, set up in this order before it
//! starts and taken down in the opposite one when it is over, whatever ended it. What is set up inside the job's first
//! process (`/tmp` and network of its own, programs that wrap the command) ends with the job by itself.
//!
//! A hook is called with `before` and later with `after`. Which were called is on disk before they are,
//! so that `after` follows even when the job, this daemon or the host dies in between; it may then be called twice. Calls
//! are made by threads, so that nobody waits for a slow program but its job. What could not be done now (a program that
//! could not be started, a record that finds no room on the disk) is tried again after growing pauses. Owns which job is set
//! up how far. Absent here: whose a program must be and how it is run (`sys`), and the directories themselves (`scratch`).

pub(super) mod record;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::Context as _;
use pinfold_policy::JobId;
use pinfold_proto::view::FindingView;
use pinfold_sys::site::{self, Call, SiteError};
use pinfold_topo::backoff::Backoff;

use record::{Record, Records};

/// How many hooks run at once; further calls wait.
const CALLS_MAX: usize = 16;

/// What could not be done is tried again after so long: at first, and at most.
const AGAIN_FIRST: Duration = Duration::from_secs(1);
const AGAIN_MAX: Duration = Duration::from_secs(60);

/// So many jobs that wait for that doctor tells of.
const TOLD_MAX: usize = 8;

/// Why a job waits while a hook prepares it.
pub(super) const PREPARED: &str = "its prolog runs (hooks of `modules.site`)";

/// What helps one that cannot be called.
const MENDED: &str =
    "mend what is named, or take the hook out of `modules.site`: it is tried again by itself";

/// The chains of all jobs that have one.
#[derive(Debug)]
pub(crate) struct Hooks {
    pub(super) records: Records,
    pub(super) jobs: BTreeMap<JobId, Setup>,
    /// Calls for which there is no room yet.
    waiting: VecDeque<(JobId, Call)>,
    /// When what could not be done is tried again, in microseconds; a job that no longer waits for that may be among them.
    due: BTreeSet<(u64, JobId)>,
    /// The last epilogs that are not called any more, for doctor.
    dropped: VecDeque<(JobId, String)>,
    calls: usize,
    results: Receiver<(JobId, Result<String, SiteError>)>,
    tell: Sender<(JobId, Result<String, SiteError>)>,
    /// A byte for each result that is there.
    wake: UnixStream,
    waker: Arc<UnixStream>,
}

/// How far one job is set up.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) record: Record,
    /// Programs whose `before` is still to be called.
    pub(super) planned: VecDeque<String>,
    pub(super) step: Step,
    /// The job is over, or is requeued: nothing more is set up.
    pub(super) over: bool,
    /// It is over, and the job is to start again once it is taken down.
    pub(super) start_waits: bool,
    /// Why it starts, for when it does.
    pub(super) reason: Option<String>,
    /// Pauses between tries of what could not be done, and why it could not be, last.
    pauses: Backoff,
    pub(super) why: String,
}

impl Setup {
    pub(super) fn new(record: Record, planned: VecDeque<String>) -> Self {
        let pauses = Backoff::new(AGAIN_FIRST, AGAIN_MAX);
        let (step, why) = (Step::Rests, String::new());
        Self { record, planned, step, over: false, start_waits: false, reason: None, pauses, why }
    }

    /// Something was done: what cannot be next has short pauses again.
    pub(super) fn went_on(&mut self) {
        self.pauses.reset();
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// No program is called.
    Rests,
    /// The last of those in the record is, with `before`.
    Before,
    /// The last of those in the record is, with `after`.
    After,
    /// What comes next before the start could not be done now,
    BeforeWaits,
    /// nor the call of the last of those in the record with `after`.
    AfterWaits,
}

impl Hooks {
    /// Those that an earlier daemon noted are known.
    pub(crate) fn open(state: &Path) -> anyhow::Result<Self> {
        let records = Records::new(state);
        let chain = |record: Record| (JobId(record.job), Setup::new(record, VecDeque::new()));
        let jobs = records.read().into_iter().map(chain).collect();
        let (wake, waker) = UnixStream::pair().context("failed to make a pair of sockets")?;
        wake.set_nonblocking(true).context("failed to prepare a socket")?;
        let (tell, results) = channel();
        let waker = Arc::new(waker);
        let (waiting, due, dropped) = Default::default();
        Ok(Self { records, jobs, waiting, due, dropped, calls: 0, results, tell, wake, waker })
    }

    /// Whether nothing is set up or to be taken down.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn has(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// The job is over, or is requeued: it is not started in these surroundings.
    pub(crate) fn close(&mut self, job: JobId) {
        if let Some(chain) = self.jobs.get_mut(&job) {
            chain.over = true;
        }
    }

    /// What comes next for a job could not be done, and is tried again later.
    pub(super) fn tries_again(&mut self, job: JobId, step: Step, why: &str, now_us: u64) {
        let Some(chain) = self.jobs.get_mut(&job) else { return };
        if chain.why != why {
            tracing::warn!(job = job.0, why, "tried again later");
            why.clone_into(&mut chain.why);
        }
        chain.step = step;
        let pause_us = u64::try_from(chain.pauses.pause().as_micros()).unwrap_or(u64::MAX);
        self.due.insert((now_us.saturating_add(pause_us), job));
    }

    /// An epilog could not be called, and is not tried again: its hook is in `modules.site` no more. That may be meant, or
    /// `config set` named the hook without `config save`.
    pub(super) fn dropped(&mut self, job: JobId, program: String) {
        tracing::warn!(
            job = job.0,
            %program,
            "the epilog of this job could not be called, and is not tried again: modules.site does not name it any more"
        );
        if self.dropped.len() == TOLD_MAX {
            self.dropped.pop_front();
        }
        self.dropped.push_back((job, program));
    }

    /// When something is tried again.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.due.first().map(|&(at, _)| at)
    }

    /// The jobs for which that is now, with what is: they rest.
    pub(super) fn take_due(&mut self, now_us: u64) -> Vec<(JobId, Step)> {
        let mut taken = Vec::new();
        while let Some(&(at, job)) = self.due.first()
            && at <= now_us
        {
            self.due.pop_first();
            if let Some(chain) = self.jobs.get_mut(&job)
                && matches!(chain.step, Step::BeforeWaits | Step::AfterWaits)
            {
                taken.push((job, std::mem::replace(&mut chain.step, Step::Rests)));
            }
        }
        taken
    }

    /// What doctor says of them, where there is something to say.
    pub(crate) fn findings(&self) -> impl Iterator<Item = FindingView> {
        self.waiting_finding().into_iter().chain(self.dropped_finding())
    }

    fn waiting_finding(&self) -> Option<FindingView> {
        let jobs: BTreeSet<JobId> = self.due.iter().map(|&(_, job)| job).collect();
        let waits = |job: &JobId| {
            let waits = |chain: &&Setup| matches!(chain.step, Step::BeforeWaits | Step::AfterWaits);
            let chain = self.jobs.get(job).filter(waits)?;
            Some(format!("job {job}: {}", chain.why))
        };
        let told: Vec<String> = jobs.iter().filter_map(waits).collect();
        let more = told.len().saturating_sub(TOLD_MAX);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let (is_any, told) = (!told.is_empty(), told[..told.len().min(TOLD_MAX)].join("; "));
        is_any.then(|| FindingView {
            subject: "hooks".to_owned(),
            ok: false,
            found: format!("jobs wait for their hooks, which are tried again: {told}{more}"),
            change: Some(MENDED.to_owned()),
        })
    }

    fn dropped_finding(&self) -> Option<FindingView> {
        let told: Vec<String> =
            self.dropped.iter().map(|(job, program)| format!("job {job}: {program}")).collect();
        (!told.is_empty()).then(|| FindingView {
            subject: "hooks".to_owned(),
            ok: false,
            found: format!("epilogs that were due are not called: {}", told.join("; ")),
            change: Some(
                "if the hook was not taken out on purpose, name it in `modules.site`, `pinfold config save`, and clean up by \
                 hand"
                    .to_owned(),
            ),
        })
    }

    /// What a job that is to start waits for there, and what would change it.
    pub(crate) fn awaited(&self, job: JobId) -> Option<(String, String)> {
        let chain = self.jobs.get(&job)?;
        let (cause, change) = match chain.step {
            Step::Before if !chain.over => (PREPARED.to_owned(), "the hook's end, or `modules.limit`"),
            Step::After if chain.start_waits => {
                ("the epilog of its run before is not over".to_owned(), "the hook's end, or `modules.limit`")
            }
            Step::BeforeWaits if !chain.over => (chain.why.clone(), MENDED),
            Step::AfterWaits if chain.start_waits => (chain.why.clone(), MENDED),
            Step::Rests | Step::Before | Step::After | Step::BeforeWaits | Step::AfterWaits => return None,
        };
        Some((cause, format!("{change}; or `pinfold cancel {job}`")))
    }

    /// What the hooks said for a job's environment.
    pub(crate) fn variables(&self, job: JobId) -> Vec<(String, String)> {
        self.jobs.get(&job).map(|chain| chain.record.variables.clone()).unwrap_or_default()
    }

    /// Calls a program, or lets the call wait for room.
    pub(super) fn call(&mut self, job: JobId, call: Call) {
        if self.calls >= CALLS_MAX {
            return self.waiting.push_back((job, call));
        }
        let (tell, waker, program) = (self.tell.clone(), self.waker.clone(), call.program.clone());
        let thread = std::thread::Builder::new().name("site".to_owned()).spawn(move || {
            // Nobody is left to hear it when the loop is gone.
            let _ = tell.send((job, site::run(&call)));
            let _ = (&*waker).write_all(b"r");
        });
        self.calls += 1;
        if let Err(source) = thread {
            let error = SiteError::Failed { operation: "make a thread for", program, source };
            let _ = self.tell.send((job, Err(error)));
            let _ = (&*self.waker).write_all(b"r");
        }
    }

    /// What calls came to since the last time; those that wait are made.
    pub(super) fn take_results(&mut self) -> Vec<(JobId, Result<String, SiteError>)> {
        let mut bytes = [0; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(1..)) {}
        let results: Vec<_> = self.results.try_iter().collect();
        self.calls -= results.len();
        while self.calls < CALLS_MAX
            && let Some((job, call)) = self.waiting.pop_front()
        {
            self.call(job, call);
        }
        results
    }
}

impl AsFd for Hooks {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// An error of the file system with what it was about.
fn failed(operation: &'static str, path: &Path, source: io::Error) -> RecordError {
    RecordError { operation, path: path.to_owned(), source }
}

/// What is owed to a job cannot be noted.
#[derive(Debug, thiserror::Error)]
#[error("failed to {operation} {}", .path.display())]
pub(crate) struct RecordError {
    operation: &'static str,
    path: PathBuf,
    source: io::Error,
}

#[cfg(test)]
mod tests;
