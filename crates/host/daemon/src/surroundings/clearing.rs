//! Directories of jobs that are over are cleared by a thread: how long that takes is the user's to say, who may have made
//! any number of files and may go on making them.
//!
//! The thread clears in steps, those of one job in turn with those of others, and pauses with a directory that is not
//! cleared after many steps, for longer each time. What follows the clearing in a job's end waits for the thread's word and
//! not the loop. A directory that is left counts in `tmp.total` or `modules.disk_total` until it is gone, and `doctor` tells
//! of it. Owns which are under way. Absent here: how a step is done (`sys::scratch`), and which jobs have directories
//! (`scratch`, `disk`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel};
use std::time::Duration;

use pinfold_policy::JobId;
use pinfold_proto::view::FindingView;
use pinfold_sys::scratch::Scratch;

use crate::core::reports::Reports;

pub(super) mod worker;

use worker::{Order, Said, Word};

/// So many directories doctor tells of.
const TOLD_MAX: usize = 8;

/// Of which kind a directory is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// In memory.
    Memory,
    /// On a disk.
    Disk,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "in memory",
            Self::Disk => "on a disk",
        }
    }
}

/// The loop's end of the thread.
#[derive(Debug)]
pub(crate) struct Clearer {
    orders: Option<Sender<Order>>,
    reports: Reports<Word>,
    /// Directories that are being cleared, each with why it is left so far, if the thread paused with it.
    under_way: BTreeMap<(JobId, Kind), Option<String>>,
    /// Jobs that start again once theirs are gone.
    waiting: BTreeSet<JobId>,
}

impl Clearer {
    /// The thread starts with the first order.
    ///
    /// # Errors
    /// When no pair of sockets can be made.
    pub(crate) fn new() -> io::Result<Self> {
        let (under_way, waiting) = Default::default();
        Ok(Self { orders: None, reports: Reports::new()?, under_way, waiting })
    }

    /// Has a job's directory cleared, unless that is under way.
    pub(crate) fn clear(&mut self, job: JobId, kind: Kind, scratch: &Scratch) {
        if self.under_way.contains_key(&(job, kind)) {
            return;
        }
        let order = Order { job, kind, scratch: scratch.clone() };
        let sent = self.thread().and_then(|orders| orders.send(order).map_err(io::Error::other));
        match sent {
            Ok(()) => drop(self.under_way.insert((job, kind), None)),
            Err(error) => {
                tracing::error!(job = job.0, %error, "a directory {} is left over", kind.as_str())
            }
        }
    }

    fn thread(&mut self) -> io::Result<&Sender<Order>> {
        if self.orders.is_none() {
            let (orders, received) = channel();
            let reporter = self.reports.reporter();
            std::thread::Builder::new()
                .name("clearer".to_owned())
                .spawn(move || worker::obey(&received, &reporter))?;
            self.orders = Some(orders);
        }
        self.orders.as_ref().ok_or_else(|| io::Error::other("no thread"))
    }

    /// Whether a directory of this job is being cleared.
    pub(crate) fn has(&self, job: JobId) -> bool {
        self.of(job).next().is_some()
    }

    /// Whether all that is being cleared of a job's is paused with: nothing else waits for it.
    pub(super) fn is_left(&self, job: JobId) -> bool {
        self.of(job).all(|(_, why)| why.is_some())
    }

    fn of(&self, job: JobId) -> impl Iterator<Item = (Kind, &Option<String>)> {
        let all = self.under_way.range((job, Kind::Memory)..=(job, Kind::Disk));
        all.map(|(&(_, kind), why)| (kind, why))
    }

    /// Whether nothing is being cleared but what the thread pauses with.
    pub(crate) fn rests(&self) -> bool {
        self.under_way.values().all(Option::is_some)
    }

    /// A job is to start once its directory is gone.
    pub(crate) fn starts_after(&mut self, job: JobId) {
        self.waiting.insert(job);
    }

    /// Whether a job waits for that; it does no more.
    pub(crate) fn stops_waiting(&mut self, job: JobId) -> bool {
        self.waiting.remove(&job)
    }

    /// The jobs whose directories of a kind the thread pauses with.
    pub(crate) fn left(&self, kind: Kind) -> impl Iterator<Item = JobId> {
        let left = self.under_way.iter().filter(move |((_, its), why)| *its == kind && why.is_some());
        left.map(|(&(job, _), _)| job)
    }

    /// What doctor says, where there is something to say.
    pub(crate) fn finding(&self) -> Option<FindingView> {
        let left: Vec<String> = self
            .under_way
            .iter()
            .filter_map(|((job, kind), why)| {
                Some(format!("that of job {job} {} ({})", kind.as_str(), why.as_ref()?))
            })
            .collect();
        let more = left.len().saturating_sub(TOLD_MAX);
        let more = if more > 0 { format!(", and {more} more") } else { String::new() };
        let told = left.iter().take(TOLD_MAX).cloned().collect::<Vec<_>>().join(", ");
        (!left.is_empty()).then(|| FindingView {
            subject: "directories".to_owned(),
            ok: false,
            found: format!("directories of jobs that are over are not cleared yet: {told}{more}"),
            change: Some(
                "end the processes that use them; their space counts until then, and clearing is tried again"
                    .to_owned(),
            ),
        })
    }
}

impl Clearer {
    /// What the thread said since the last time.
    pub(super) fn words(&mut self) -> Vec<Word> {
        self.reports.take()
    }

    /// The next word, for a daemon that ends; `None`: there is none within `limit`.
    pub(super) fn wait(&mut self, limit: Duration) -> Option<Word> {
        self.reports.wait(limit)
    }

    /// Takes a word in; says whether a directory that was left no longer is, or the other way round.
    pub(super) fn take_in(&mut self, word: &Word) -> bool {
        let key = (word.job, word.kind);
        let was_left = self.under_way.get(&key).is_some_and(Option::is_some);
        match &word.said {
            Said::Gone => drop(self.under_way.remove(&key)),
            Said::Left(why) => {
                if !was_left {
                    let (job, kind) = (word.job.0, word.kind.as_str());
                    tracing::warn!(job, why, "a directory {kind} is left over for now");
                }
                self.under_way.insert(key, Some(why.clone()));
            }
        }
        was_left != matches!(word.said, Said::Left(_))
    }
}

impl AsFd for Clearer {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }
}
