//! What stands around a job, as one chain: its directories, then the site's own programs, set up in this order before it
//! starts and taken down in the opposite one when it is over, whatever ended it. What is set up inside the job's first
//! process (`/tmp` and network of its own, programs that wrap the command) ends with the job by itself.
//!
//! A program of the site's is called with `before` and later with `after`. Which were called is on disk before they are,
//! so that `after` follows even when the job, this daemon or the host dies in between; it may then be called twice. Calls
//! are made by threads, so that nobody waits for a slow program but its job. Owns who is set up how far. Absent here:
//! whose a program must be and how it is run (`sys`), and the directories themselves (`scratch`).

mod record;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use anyhow::Context as _;
use pinfold_policy::{Event as Judged, JobId};
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_sys::site::{self, Call, SiteError};

use crate::act::in_full;
use crate::daemon::Daemon;
use crate::event::Effect;

use record::{About, Ended, Record, Records};

/// How many programs of the site's run at once; further calls wait.
const CALLS_MAX: usize = 16;

/// Why a job waits while a program of the site's prepares it.
const PREPARED: &str = "the site's programs prepare it (`modules.site`)";

/// The chains of all jobs that have one.
#[derive(Debug)]
pub(crate) struct Chains {
    records: Records,
    jobs: BTreeMap<JobId, Chain>,
    /// Calls for which there is no room yet.
    waiting: VecDeque<(JobId, Call)>,
    calls: usize,
    results: Receiver<(JobId, Result<String, SiteError>)>,
    tell: Sender<(JobId, Result<String, SiteError>)>,
    /// A byte for each result that is there.
    wake: UnixStream,
    waker: Arc<UnixStream>,
}

/// How far one job is set up.
#[derive(Debug)]
struct Chain {
    record: Record,
    /// Programs whose `before` is still to be called.
    planned: VecDeque<String>,
    step: Step,
    /// The job is over, or it begins anew later: nothing more is set up.
    over: bool,
    /// Why it starts, for when it does.
    reason: Option<String>,
}

impl Chain {
    fn new(record: Record, planned: VecDeque<String>) -> Self {
        Self { record, planned, step: Step::Rests, over: false, reason: None }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// No program is called.
    Rests,
    /// The last of those in the record is, with `before`.
    Before,
    /// The last of those in the record is, with `after`.
    After,
}

impl Chains {
    /// Those that an earlier daemon noted are known.
    pub(crate) fn open(state: &Path) -> anyhow::Result<Self> {
        let records = Records::new(state);
        let chain = |record: Record| (JobId(record.job), Chain::new(record, VecDeque::new()));
        let jobs = records.read().into_iter().map(chain).collect();
        let (wake, waker) = UnixStream::pair().context("failed to make a pair of sockets")?;
        wake.set_nonblocking(true).context("failed to prepare a socket")?;
        let (tell, results) = channel();
        let waker = Arc::new(waker);
        Ok(Self { records, jobs, waiting: VecDeque::new(), calls: 0, results, tell, wake, waker })
    }

    /// Whether nothing is set up or to be taken down.
    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn has(&self, job: JobId) -> bool {
        self.jobs.contains_key(&job)
    }

    /// The job is over, or begins anew: it is not started from what stands around it now.
    pub(crate) fn close(&mut self, job: JobId) {
        if let Some(chain) = self.jobs.get_mut(&job) {
            chain.over = true;
        }
    }

    /// What the site's programs said for a job's environment.
    pub(crate) fn variables(&self, job: JobId) -> Vec<(String, String)> {
        self.jobs.get(&job).map(|chain| chain.record.variables.clone()).unwrap_or_default()
    }

    /// Calls a program, or lets the call wait for room.
    fn call(&mut self, job: JobId, call: Call) {
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
    fn take_results(&mut self) -> Vec<(JobId, Result<String, SiteError>)> {
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

impl AsFd for Chains {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl Daemon {
    /// Sets up what stands around a job that is to start. `None`: that takes a while, and the start is asked for again.
    ///
    /// # Errors
    /// Why it cannot be, in words; whoever asks may try again.
    pub(crate) fn set_up(&mut self, job: JobId) -> Option<Result<(), String>> {
        match self.around.jobs.get(&job) {
            Some(chain) if chain.over || chain.step != Step::Rests => return None,
            Some(_) => return Some(Ok(())),
            None => {}
        }
        if self.clearing.has(job) {
            // Of its start before: this one has to find an empty one.
            self.clearing.starts_after(job);
            return None;
        }
        let live = self.jobs.get(&job)?;
        let (site, wrap) = (&self.configured.config.modules_site, &self.configured.config.modules_wrap);
        let spec = &live.row.spec;
        if spec.tmp_bytes.is_none() && spec.disk_bytes.is_none() && site.is_empty() && wrap.is_empty() {
            return Some(Ok(()));
        }
        let planned: VecDeque<String> = site.iter().cloned().collect();
        let wrong = wrap.iter().find_map(|program| site::trusted(Path::new(program)).err());
        if let Err(error) = self.make_disk(job)? {
            return Some(Err(error));
        }
        let live = self.jobs.get(&job)?;
        if let Err(error) = self.scratches.make(job, &live.row.spec, live.row.uid) {
            return Some(Err(in_full(&error)));
        }
        let tmpdir = self.scratches.variable(job, &live.row.spec);
        let record = Record::new(job.0, About::of(&live.row, tmpdir, self.disks.variable(job)));
        self.around.jobs.insert(job, Chain::new(record, planned));
        if let Some(error) = wrong {
            self.refused_by_site(job, &error);
            return None;
        }
        match self.call_next_before(job) {
            Ok(true) => Some(Ok(())),
            Ok(false) => {
                if let Some(live) = self.jobs.get_mut(&job)
                    && let Some(chain) = self.around.jobs.get_mut(&job)
                {
                    chain.reason = live.row.reason.replace(PREPARED.to_owned());
                    self.journal.touch(job);
                }
                None
            }
            Err(error) => {
                self.around.jobs.remove(&job);
                Some(Err(error))
            }
        }
    }

    /// Calls the next program with `before`; `true`: there is none.
    fn call_next_before(&mut self, job: JobId) -> Result<bool, String> {
        let Some(chain) = self.around.jobs.get_mut(&job) else { return Ok(true) };
        let Some(program) = chain.planned.pop_front() else {
            if !chain.record.begun.is_empty() {
                self.around.records.write(&chain.record).map_err(|error| in_full(&error))?;
            }
            return Ok(true);
        };
        chain.record.begun.push(program.clone());
        // On disk first: its `after` is owed from now on.
        if let Err(error) = self.around.records.write(&chain.record) {
            chain.record.begun.pop();
            return Err(in_full(&error));
        }
        chain.step = Step::Before;
        self.call(job, &program, "before", &Ended::default());
        Ok(false)
    }

    fn call(&mut self, job: JobId, program: &str, verb: &str, ended: &Ended) {
        let Some(chain) = self.around.jobs.get(&job) else { return };
        let call = Call {
            program: PathBuf::from(program),
            arguments: vec![verb.to_owned()],
            variables: chain.record.environment(&self.instance, ended),
            input: chain.record.told(verb, ended),
            limit: self.configured.config.modules_limit,
        };
        self.around.call(job, call);
    }

    /// Programs of the site's ended.
    pub(crate) fn site_said(&mut self) {
        for (job, result) in self.around.take_results() {
            let Some(chain) = self.around.jobs.get_mut(&job) else { continue };
            let step = std::mem::replace(&mut chain.step, Step::Rests);
            if step == Step::After {
                if let Err(error) = result {
                    tracing::error!(job = job.0, error = %in_full(&error), "a program of the site's failed after a job");
                }
                chain.record.begun.pop();
                self.go_on_taking_down(job);
                continue;
            }
            if chain.over {
                self.go_on_taking_down(job);
                continue;
            }
            match result {
                Err(error) => self.refused_by_site(job, &error),
                Ok(said) => {
                    chain.record.add_variables(&said);
                    match self.call_next_before(job) {
                        Ok(true) => self.is_set_up(job),
                        Ok(false) => {}
                        Err(error) => self.refuse_start(job, &error, ErrorCode::Failed),
                    }
                }
            }
        }
    }

    fn refused_by_site(&mut self, job: JobId, error: &SiteError) {
        self.refuse_start(job, &format!("refused by the site: {}", in_full(error)), ErrorCode::Refused);
    }

    /// A job that is prepared need not be waited for to be cancelled; says whether it was.
    pub(crate) fn cancel_prepared(&mut self, job: JobId) -> bool {
        let prepared =
            self.around.jobs.get(&job).is_some_and(|chain| chain.step == Step::Before && !chain.over);
        if self.disks.stops_waiting(job) {
            self.refuse_start(job, "cancelled while it waited for room for its --disk", ErrorCode::Failed);
            return true;
        }
        if self.clearing.stops_waiting(job) {
            self.refuse_start(job, "cancelled while its directories were cleared", ErrorCode::Failed);
            return true;
        }
        if self.own_nodes.stops_waiting(job) {
            self.refuse_start(job, "cancelled while its NUMA nodes were cleared", ErrorCode::Failed);
            return true;
        }
        if prepared {
            self.refuse_start(job, "cancelled while the site's programs prepared it", ErrorCode::Failed);
        }
        prepared
    }

    /// A job is not started, and its client told why.
    fn refuse_start(&mut self, job: JobId, reason: &str, code: ErrorCode) {
        tracing::warn!(job = job.0, reason, "a job is not started");
        let Some(live) = self.jobs.get(&job) else { return };
        if let Some(id) = live.keeper {
            let words = format!("job {job}: {reason}");
            let reply = Reply::Struck { job: job.0, reason: words, code };
            self.effects.push(Effect::Reply(id, reply));
        }
        self.close_unstarted(job, reason);
        self.judge(Judged::Exited(job));
    }

    fn is_set_up(&mut self, job: JobId) {
        if let Some(live) = self.jobs.get_mut(&job)
            && let Some(chain) = self.around.jobs.get_mut(&job)
        {
            live.row.reason = chain.reason.take();
            self.journal.touch(job);
        }
        self.start_again(job);
    }

    /// A start that was asked for while the job could not be is asked for again.
    pub(crate) fn start_again(&mut self, job: JobId) {
        if self.jobs.get(&job).is_some_and(|live| live.granted && live.container.is_none()) {
            self.effects.push(Effect::Act(job, self.start_action(job)));
        }
    }

    /// Takes down what stands around a job that is over; what takes a while goes on by itself, and its group and its
    /// directories go last.
    pub(crate) fn take_down(&mut self, job: JobId) {
        if self.jobs.get(&job).is_some_and(|live| live.container.is_some()) {
            // It was begun anew since: only its old group is left to go.
            return self.remove(job);
        }
        self.around.close(job);
        let rests = self.around.jobs.get(&job).is_none_or(|chain| chain.step == Step::Rests);
        if rests {
            self.go_on_taking_down(job);
        }
    }

    fn go_on_taking_down(&mut self, job: JobId) {
        let last = self.around.jobs.get(&job).and_then(|chain| chain.record.begun.last().cloned());
        if let Some(program) = last {
            // One that is not over begins anew.
            let begins_anew = self.jobs.get(&job).map(|live| live.row.reason.clone());
            let ended = match begins_anew {
                Some(reason) => Ended { reason, ..Ended::default() },
                None => self.stored_row(job).as_ref().map(Ended::of).unwrap_or_default(),
            };
            if let Some(chain) = self.around.jobs.get_mut(&job) {
                chain.step = Step::After;
            }
            return self.call(job, &program, "after", &ended);
        }
        if self.around.jobs.remove(&job).is_some()
            && let Err(error) = self.around.records.remove(job.0)
        {
            tracing::error!(job = job.0, %error, "the site's programs will be called again after this job");
        }
        // Before its group, which counts what is in it.
        if !self.clear_directories(job) {
            self.is_taken_down(job);
        }
    }

    /// Nothing stands around a job any more but its group; of a directory that is not cleared yet the thread tells later.
    pub(crate) fn is_taken_down(&mut self, job: JobId) {
        if self.jobs.get(&job).is_none_or(|live| live.container.is_none()) {
            self.remove(job);
        }
        self.start_again(job);
        self.give_disk_room();
    }

    /// After a restart: jobs that are over have nothing around them. Of one that is not known to have started its keeper
    /// will say whether it did.
    pub(crate) fn take_down_left(&mut self) {
        let left: Vec<JobId> =
            self.around.jobs.keys().copied().filter(|job| !self.jobs.contains_key(job)).collect();
        self.effects.extend(left.into_iter().map(Effect::Remove));
    }

    /// A job waits that an earlier daemon prepared, or was about to: that is undone, and done again when it starts.
    pub(crate) fn prepare_anew(&mut self, job: JobId) {
        if self.around.has(job) {
            self.around.close(job);
            self.effects.push(Effect::Remove(job));
        }
    }

    /// The programs that a job's command is wrapped in.
    pub(crate) fn wrap(&self) -> Vec<String> {
        self.configured.config.modules_wrap.clone()
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
