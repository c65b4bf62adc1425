//! Paging out and reading back, each on a thread of its own, for both take the time that the swap device takes, and a process
//! can hold up that its memory is read back for half a minute: nobody's memory may wait for that to be paged out.
//!
//! Of each job one order waits at most, and users have their turns: however many jobs one has, all others' next orders come
//! after one of these. Owner of state: [`Orders`]. Absent here: what is to be paged out, and when (`policy`).

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant as Moment;

use pinfold_policy::JobId;
use pinfold_sys::container::{ContainerError, Containers};

use crate::core::in_full;

/// Pages out and reads back.
#[derive(Debug)]
pub(super) struct Pager {
    /// Bytes to be moved to swap.
    out: Arc<Orders>,
    /// What is to be read back; of no amount.
    back: Arc<Orders>,
    /// What the swap device took in a second, smoothed; 0 before anything was paged out.
    rate: Arc<AtomicU64>,
}

impl Pager {
    pub(super) fn start(containers: &Containers) -> std::io::Result<Self> {
        let (out, back, rate) =
            (Arc::<Orders>::default(), Arc::<Orders>::default(), Arc::<AtomicU64>::default());
        let (orders, of, measured) = (Arc::clone(&out), containers.again(), Arc::clone(&rate));
        let thread = |name: &str| std::thread::Builder::new().name(name.to_owned());
        // Both end with the daemon only.
        thread("pager").spawn(move || {
            loop {
                let (user, job, bytes) = orders.next();
                tell(job, page_out(&of, (job, user), bytes, &measured));
            }
        })?;
        let (orders, out_before, of) = (Arc::clone(&back), Arc::clone(&out), containers.again());
        thread("fetcher").spawn(move || {
            loop {
                let (user, job, _) = orders.next();
                // What is on its way out until now is to be read back as well.
                out_before.wait_for(job);
                let done = of.fetch(job.0, user);
                if done.as_ref().is_err_and(is_held_up) {
                    // The user's other jobs fetch their pages as they need them.
                    orders.drop_all_of(user);
                }
                tell(job, done);
            }
        })?;
        Ok(Self { out, back, rate })
    }

    /// What the swap device took in a second so far, in bytes; 0: not known.
    pub(super) fn rate(&self) -> u64 {
        self.rate.load(Ordering::Relaxed)
    }

    /// Moves so many bytes of a job of this user's to swap, in a while.
    pub(super) fn page_out(&self, job: JobId, user: u32, bytes: u64) {
        self.back.drop_one(user, job);
        self.out.add(user, job, bytes);
    }

    /// Reads a job of this user's back from swap, in a while.
    pub(super) fn fetch(&self, job: JobId, user: u32) {
        self.out.drop_one(user, job);
        self.back.add(user, job, 0);
    }
}

/// Whether a process of the user's did not let its memory be moved in time, now or a moment ago.
fn is_held_up(error: &ContainerError) -> bool {
    matches!(error, ContainerError::Process { source, .. } if source.kind() == ErrorKind::TimedOut)
}

fn tell(job: JobId, done: Result<(), ContainerError>) {
    if let Err(error) = done {
        tracing::warn!(job = job.0, error = %in_full(&error), "the memory of a job stays where it is");
    }
}

fn page_out(
    containers: &Containers,
    (job, user): (JobId, u32),
    bytes: u64,
    rate: &AtomicU64,
) -> Result<(), ContainerError> {
    let began = Moment::now();
    let out = containers.page_out(job.0, user, bytes)?;
    tracing::debug!(job = job.0, asked = bytes, out, took = ?began.elapsed(), "paged out");
    // Of less no rate can be told.
    if out >= 1 << 20 {
        let now = u128::from(out) * 1_000_000 / began.elapsed().as_micros().max(1);
        let now = u64::try_from(now).unwrap_or(u64::MAX);
        let before = rate.load(Ordering::Relaxed);
        let smoothed = if before == 0 { now } else { before / 4 * 3 + now / 4 };
        rate.store(smoothed.max(1), Ordering::Relaxed);
    }
    Ok(())
}

/// Orders that wait for their thread.
#[derive(Debug, Default)]
struct Orders {
    waiting: Mutex<Waiting>,
    more: Condvar,
}

/// Of each user, for each job, how much.
#[derive(Debug, Default)]
struct Waiting {
    of: BTreeMap<u32, BTreeMap<JobId, u64>>,
    /// The user whose turn was last.
    last: u32,
    /// What the thread does now.
    at_work: Option<JobId>,
}

impl Orders {
    /// Of a job that waits already the larger order counts.
    fn add(&self, user: u32, job: JobId, bytes: u64) {
        let mut waiting = self.waiting();
        let order = waiting.of.entry(user).or_default().entry(job).or_default();
        *order = bytes.max(*order);
        self.more.notify_all();
    }

    fn drop_one(&self, user: u32, job: JobId) {
        if let Some(own) = self.waiting().of.get_mut(&user) {
            own.remove(&job);
        }
    }

    fn drop_all_of(&self, user: u32) {
        self.waiting().of.remove(&user);
    }

    /// The next order, once there is one: the user, the job and how much. The one before it is carried out.
    fn next(&self) -> (u32, JobId, u64) {
        let mut waiting = self.waiting();
        waiting.at_work = None;
        self.more.notify_all();
        loop {
            if let Some(next) = waiting.take() {
                waiting.at_work = Some(next.1);
                return next;
            }
            waiting = self.more.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits while this job's order is being carried out.
    fn wait_for(&self, job: JobId) {
        let waiting = self.waiting();
        let is_at_work = |waiting: &mut Waiting| waiting.at_work == Some(job);
        drop(self.more.wait_while(waiting, is_at_work).unwrap_or_else(PoisonError::into_inner));
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn take(&mut self) -> Option<(u32, JobId, u64)> {
        self.of.retain(|_, own| !own.is_empty());
        let next = self.last.checked_add(1).and_then(|next| self.of.range(next..).next());
        let user = *next.or_else(|| self.of.iter().next())?.0;
        let (job, bytes) = self.of.get_mut(&user)?.pop_first()?;
        self.last = user;
        Some((user, job, bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_their_turns_and_a_job_waits_once() {
        let orders = Orders::default();
        for job in 1..=1_000 {
            for bytes in [5, job, 3] {
                orders.add(7, JobId(job), bytes);
            }
        }
        assert_eq!(orders.next(), (7, JobId(1), 5));
        orders.add(u32::MAX, JobId(2_000), 1);
        orders.add(0, JobId(2_001), 1);
        assert_eq!(orders.next(), (u32::MAX, JobId(2_000), 1));
        assert_eq!(orders.next(), (0, JobId(2_001), 1));
        assert_eq!(orders.next(), (7, JobId(2), 5));
        orders.drop_one(7, JobId(3));
        assert_eq!(orders.next(), (7, JobId(4), 5));
        orders.add(0, JobId(2_002), 1);
        orders.drop_all_of(7);
        assert_eq!(orders.next(), (0, JobId(2_002), 1));
        assert!(orders.waiting().take().is_none());
    }

    #[test]
    fn what_is_carried_out_is_waited_for() {
        let orders = Arc::new(Orders::default());
        orders.wait_for(JobId(1));
        orders.add(7, JobId(1), 9);
        orders.next();
        orders.wait_for(JobId(2));
        let own = Arc::clone(&orders);
        let waits = std::thread::spawn(move || own.wait_for(JobId(1)));
        assert!(!waits.is_finished());
        orders.add(7, JobId(2), 9);
        assert_eq!(orders.next(), (7, JobId(2), 9));
        waits.join().unwrap();
    }

    #[test]
    fn an_order_wakes_the_thread_that_waits_for_it() {
        let orders = Arc::new(Orders::default());
        let own = Arc::clone(&orders);
        let waits = std::thread::spawn(move || own.next());
        orders.add(7, JobId(1), 9);
        assert_eq!(waits.join().unwrap(), (7, JobId(1), 9));
    }
}
