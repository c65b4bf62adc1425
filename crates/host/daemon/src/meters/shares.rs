//! What each process holds of memory when shared pages are divided among their users (PSS), within a budget.
//!
//! The kernel walks a process's page tables for it, and the process cannot map memory meanwhile. So a thread of its
//! own reads, 1 % of a core in all, little at a time and ahead of other threads, so that it is not kept waiting while
//! it keeps a job waiting. What to read when is the budget's to say. The loop only hands sizes over and takes
//! figures back; it never waits.
//!
//! Owner of state: the thread has the budget; figures go into the census, and with a process's row into the store.

mod budget;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant as Moment};

use budget::{Budget, Cost, Size};
use pinfold_sys::aside::{self, Asked, Purpose};
use pinfold_sys::own;
use pinfold_sys::procfs::{Proc, Rollup};

use crate::core::Ctx;
use crate::jobs::Jobs;

/// How far ahead of other threads the reader is: reading holds a lock that the job may want. Allowed to root
/// alone; others' readers are as any thread is.
const READER_NICE: i32 = -10;

/// What is read takes a hundredth of a second at most. Whoever takes longer is held up.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// A figure: when it was read, and what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    /// In microseconds since the Unix epoch.
    pub(super) time_us: u64,
    /// Proportional anonymous and shared memory.
    pub(super) bytes: u64,
}

/// Whose jobs these are, by number.
type Users = BTreeMap<u64, u32>;

/// What a thread aside read of a process.
type One = (Size, Cost, Option<Rollup>);

/// The loop's side.
#[derive(Debug, Default)]
pub(crate) struct Shares {
    reader: Option<Reader>,
}

#[derive(Debug)]
struct Reader {
    orders: Sender<(u64, Vec<Size>, Users)>,
    answers: Receiver<Vec<(u32, Share)>>,
    /// An order is being carried out.
    busy: bool,
}

impl Shares {
    /// Takes what was read since the last call.
    pub(super) fn take(&mut self) -> Vec<(u32, Share)> {
        let Some(reader) = &mut self.reader else { return Vec::new() };
        let mut read = Vec::new();
        while let Ok(some) = reader.answers.try_recv() {
            reader.busy = false;
            read.extend(some);
        }
        read
    }

    /// Has these processes, which are all there are, read as far as the budget goes, if none are being read.
    fn order(&mut self, sizes: Vec<Size>, users: Users, now_us: u64) {
        let reader = match &mut self.reader {
            Some(reader) => reader,
            none => match start() {
                Ok(reader) => none.insert(reader),
                Err(error) => return tracing::warn!(%error, "shared memory is not divided"),
            },
        };
        if !reader.busy {
            reader.busy = reader.orders.send((now_us, sizes, users)).is_ok();
        }
    }
}

fn start() -> std::io::Result<Reader> {
    let (orders, received) = channel::<(u64, Vec<Size>, Users)>();
    let (tell, answers) = channel();
    let proc = Proc::open(Path::new("/proc")).map_err(std::io::Error::other)?;
    std::thread::Builder::new().name("shares".to_owned()).spawn(move || {
        let mut budget = Budget::default();
        // The thread ends with the loop's side only.
        while let Ok((now_us, sizes, users)) = received.recv() {
            let chosen = budget.choose(now_us, &sizes);
            let read = read_some(&proc, chosen, &users).into_iter();
            let read = read.filter_map(|one| take_one(&mut budget, one, now_us)).collect();
            if tell.send(read).is_err() {
                return;
            }
        }
    })?;
    Ok(Reader { orders, answers, busy: false })
}

/// Reads these processes. Each user's are read on a thread aside, for a process can hold that up for as long as it
/// likes: it keeps others waiting no longer than [`WAIT_MAX`], and rests for long then.
fn read_some(proc: &Proc, sizes: Vec<Size>, users: &Users) -> Vec<One> {
    let mut by_user: BTreeMap<u32, Vec<Size>> = BTreeMap::new();
    for size in sizes {
        let user = users.get(&size.job).copied().map(aside::whose).unwrap_or_default();
        by_user.entry(user).or_default().push(size);
    }
    let order = |(user, sizes): (u32, Vec<Size>)| {
        let (proc, these) = (proc.clone(), sizes.clone());
        let answer = aside::place((Purpose::Shares, user)).and_then(|place| {
            place.read(move || {
                own::nice_thread(READER_NICE);
                these.into_iter().map(|size| read_one(&proc, size)).collect::<Vec<One>>()
            })
        });
        (sizes, answer)
    };
    let ordered: Vec<_> = by_user.into_iter().map(order).collect();
    let then = Moment::now() + WAIT_MAX;
    let held_up = Cost { cpu_us: 0, wall_us: u64::try_from(WAIT_MAX.as_micros()).unwrap_or(u64::MAX) };
    let taken = ordered.into_iter().flat_map(|(sizes, answer)| {
        match answer.map(|answer| answer.within(then.saturating_duration_since(Moment::now()))) {
            Some(Asked::Read(read)) => read,
            _ => sizes.into_iter().map(|size| (size, held_up, None)).collect(),
        }
    });
    taken.collect()
}

fn read_one(proc: &Proc, size: Size) -> One {
    let (began, cpu_us) = (Moment::now(), own::thread_cpu_us());
    let found = proc.rollup(size.pid).ok().flatten();
    let cost = Cost {
        cpu_us: own::thread_cpu_us().saturating_sub(cpu_us),
        wall_us: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
    };
    (size, cost, found)
}

fn take_one(budget: &mut Budget, (size, cost, found): One, now_us: u64) -> Option<(u32, Share)> {
    budget.read(size, cost, found.map_or(0, |found| found.shared_bytes), now_us);
    found.map(|found| (size.pid, Share { time_us: now_us, bytes: found.anon_bytes + found.shmem_bytes }))
}

impl Shares {
    /// Has shared memory divided among the processes of all jobs that run.
    pub(crate) fn divide_shared(&mut self, ctx: &Ctx, jobs: &Jobs, now_us: u64) {
        if !ctx.configured.config.profile_pss {
            *self = Self::default();
            return;
        }
        let running = jobs.running.iter().filter_map(|job| Some((job.0, jobs.table.get(job)?)));
        let sizes = running.flat_map(|(job, live)| {
            live.members.residents().map(move |(pid, resident_bytes)| Size { job, pid, resident_bytes })
        });
        let sizes: Vec<Size> = sizes.collect();
        let users = jobs.running.iter().filter_map(|job| Some((job.0, jobs.table.get(job)?.row.uid)));
        if !sizes.is_empty() || self.reader.is_some() {
            self.order(sizes, users.collect(), now_us);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_back() {
        let mut shares = Shares::default();
        assert_eq!(shares.take(), [], "nothing was ordered");
        let pid = std::process::id();
        let size = Size { job: 1, pid, resident_bytes: 1 << 20 };
        let began = Moment::now();
        let mut now_us = 1;
        let share = loop {
            assert!(began.elapsed() < std::time::Duration::from_secs(180), "no figure");
            now_us += 1_000_000;
            shares.order(vec![size], Users::new(), now_us);
            std::thread::yield_now();
            if let Some((read, share)) = shares.take().pop() {
                assert_eq!(read, pid);
                break share;
            }
        };
        assert!(share.bytes > 4096 && (1..=now_us).contains(&share.time_us), "{share:?}");
    }
}
