//! What each process holds of memory when shared pages are divided among their users (PSS), within a budget.
//!
//! The kernel walks a process's page tables for it, and the process cannot map memory meanwhile. So a thread of its
//! own reads, 1 % of a core in all, little at a time and ahead of other threads, so that it is not kept waiting while
//! it keeps a job waiting. What to read when is the budget's to say. The loop only hands sizes over and takes
//! figures back; it never waits.
//!
//! Owner of state: the thread has the budget, the loop the figures of processes that live.

mod budget;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Instant as Moment;

use pinfold_proto::view::{ProcessView, seconds};
use pinfold_sys::procfs::Proc;
use rustix::time::ClockId;

use crate::daemon::Daemon;
use budget::{Budget, Cost, Size};

/// How far ahead of other threads the reader is: whoever reads holds a lock that the job may want. Allowed to root
/// alone; others' readers are as any thread is.
const READER_NICE: i32 = -10;

/// A figure: when it was read, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Share {
    /// In microseconds since the Unix epoch.
    time_us: u64,
    /// Proportional anonymous and shared memory.
    bytes: u64,
}

/// The loop's side.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    reader: Option<Reader>,
    known: BTreeMap<u32, Share>,
}

#[derive(Debug)]
struct Reader {
    orders: Sender<(u64, Vec<Size>)>,
    answers: Receiver<Vec<(u32, Share)>>,
    /// An order is being carried out.
    busy: bool,
}

impl Shares {
    /// Takes what was read since the last round, and has these processes, which are all there are, read as far as
    /// the budget goes.
    fn round(&mut self, sizes: Vec<Size>, now_us: u64) {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => match start() {
                Ok(reader) => none.insert(reader),
                Err(error) => return tracing::warn!(%error, "shared memory is not divided"),
            },
        };
        while let Ok(read) = reader.answers.try_recv() {
            reader.busy = false;
            self.known.extend(read);
        }
        let alive: std::collections::BTreeSet<u32> = sizes.iter().map(|size| size.pid).collect();
        self.known.retain(|pid, _| alive.contains(pid));
        if !reader.busy {
            reader.busy = reader.orders.send((now_us, sizes)).is_ok();
        }
    }

    /// Adds the last figure to a process that lives.
    pub(crate) fn tell(&self, process: &mut ProcessView) {
        if process.ended_s.is_some() {
            return;
        }
        let share = self.known.get(&process.pid);
        let read_s = share.map(|share| seconds(share.time_us));
        // A figure from before its start is that of another process, whose number it has now.
        if let (Some(share), Some(read_s)) = (share, read_s)
            && process.started_s.is_none_or(|started_s| started_s <= read_s)
        {
            (process.pss_bytes, process.pss_read_s) = (Some(share.bytes), Some(read_s));
        }
    }
}

fn start() -> std::io::Result<Reader> {
    let (orders, received) = channel::<(u64, Vec<Size>)>();
    let (tell, answers) = channel();
    let proc = Proc::open(Path::new("/proc")).map_err(std::io::Error::other)?;
    std::thread::Builder::new().name("shares".to_owned()).spawn(move || {
        // Of the calling thread, on Linux.
        let _ = rustix::process::setpriority_process(None, READER_NICE);
        let mut budget = Budget::default();
        // The thread ends with the loop's side only.
        while let Ok((now_us, sizes)) = received.recv() {
            let read = budget.choose(now_us, &sizes).into_iter();
            let read = read.filter_map(|size| read_one(&proc, &mut budget, size, now_us)).collect();
            if tell.send(read).is_err() {
                return;
            }
        }
    })?;
    Ok(Reader { orders, answers, busy: false })
}

fn read_one(proc: &Proc, budget: &mut Budget, size: Size, now_us: u64) -> Option<(u32, Share)> {
    let (began, cpu_us) = (Moment::now(), cpu_us());
    let found = proc.rollup(size.pid).ok().flatten();
    let cost = Cost {
        cpu_us: self::cpu_us().saturating_sub(cpu_us),
        wall_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
    };
    budget.read(size, cost, found.map_or(0, |found| found.shared_bytes), now_us);
    found.map(|found| (size.pid, Share { time_us: now_us, bytes: found.anon_bytes + found.shmem_bytes }))
}

/// Processor time of this thread so far.
fn cpu_us() -> u64 {
    let time = rustix::time::clock_gettime(ClockId::ThreadCPUTime);
    let (whole, rest) = (u64::try_from(time.tv_sec), u64::try_from(time.tv_nsec));
    whole.unwrap_or(0).saturating_mul(1_000_000).saturating_add(rest.unwrap_or(0) / 1000)
}

impl Daemon {
    /// Has shared memory divided among the processes of all jobs that run.
    pub(crate) fn divide_shared(&mut self, now_us: u64) {
        if !self.configured.config.profile_pss {
            self.shares = Shares::default();
            return;
        }
        let jobs = self.running.iter().filter_map(|job| Some((job.0, self.jobs.get(job)?)));
        let sizes = jobs.flat_map(|(job, live)| {
            live.members.residents().map(move |(pid, resident_bytes)| Size { job, pid, resident_bytes })
        });
        let sizes: Vec<Size> = sizes.collect();
        if !sizes.is_empty() || self.shares.reader.is_some() {
            self.shares.round(sizes, now_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back_and_go_with_their_process() {
        let mut shares = Shares::default();
        let pid = std::process::id();
        let size = Size { job: 1, pid, resident_bytes: 1 << 20 };
        let began = Moment::now();
        let mut now_us = 1;
        while !shares.known.contains_key(&pid) {
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "no figure");
            now_us += 1_000_000;
            shares.round(vec![size], now_us);
            std::thread::yield_now();
        }
        let row = pinfold_proto::row::ProcessRow { pid, ..Default::default() };
        let view = pinfold_profile::report::process_view(&row);
        let told = |change: &dyn Fn(&mut ProcessView)| {
            let mut view = view.clone();
            change(&mut view);
            shares.tell(&mut view);
            view.pss_bytes
        };
        assert!(told(&|_| {}).is_some_and(|bytes| bytes > 4096));
        assert_eq!(told(&|view| view.ended_s = Some(1.0)), None, "it is over");
        assert_eq!(told(&|view| view.started_s = Some(1e9)), None, "another one of that number");
        shares.round(Vec::new(), now_us + 1);
        assert!(shares.known.is_empty());
    }
}
