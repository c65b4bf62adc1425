//! Threads for reads that a process can delay for any time; the daemon's loop does not wait for them.
//!
//! The kernel's files on a process's memory, environment, command line and I/O wait for locks that the process holds
//! while it executes a program or maps memory. If that involves a file system of the user's own, the wait lasts as long
//! as the user wants. So a thread that no other thread waits for reads these files. Each user has at most one thread
//! for each purpose, and all users together [`THREADS_MAX`]: a user who delays a thread has no figures, and other users
//! have theirs. A delayed thread ends with the process, or with the daemon.
//!
//! The caller may wait a moment, so that a quick answer counts at once. The waiting time of a daemon's loop is bounded
//! as a part of all time, for each user and for all together ([`Answer::by`]).
//!
//! Owner of state: the users with threads, and the waiting time spent on each. Absent here: the reads themselves.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError, channel};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::peer;

mod whose;

/// The most threads beside the threads for this process's own user,
const THREADS_MAX: usize = 64;
/// and the most for processes that need not be part of a job.
const OUTSIDE_MAX: usize = 32;
/// Enough for small texts, and lists on the heap.
const STACK_BYTES: usize = 256 << 10;
/// The longest wait for an answer, and the part of all time that may go to waits (1/`USERS_PART`): for a user,
pub const WAIT_MAX: Duration = Duration::from_millis(50);
const USERS_PART: u32 = 20;
/// and for all users.
const ALL_WAIT_MAX: Duration = Duration::from_millis(100);
const ALL_PART: u32 = 10;

/// The purpose of a read. A delayed read does not delay reads for another purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The use of resources and open files of jobs' processes.
    Figures,
    /// Proportional sizes of shared memory.
    Shares,
    /// The command lines and starts of processes.
    Beginnings,
    /// Address ranges to move.
    Pages,
    /// The environments of all processes of the host.
    Marks,
}

impl Purpose {
    /// Whether processes are read that need not be part of a job.
    const fn is_outside_jobs(self) -> bool {
        matches!(self, Self::Beginnings | Self::Marks)
    }
}

/// The purpose, and the user of the processes. For processes of a job that is the job's user, whatever users they act as.
pub type Of = (Purpose, u32);

/// The number that stands for all subordinate numbers of a user (`/etc/subuid`): the first of them. Any other number
/// stands for itself.
#[must_use]
pub fn whose(user: u32) -> u32 {
    whose::whose(user)
}

/// The remaining waiting time; spent time comes back as time passes.
#[derive(Debug, Clone, Copy)]
struct Patience {
    left: Duration,
    at: Instant,
}

impl Patience {
    fn left(&mut self, now: Instant, most: Duration, part: u32) -> Duration {
        let back = now.saturating_duration_since(self.at) / part;
        *self = Self { left: self.left.saturating_add(back).min(most), at: now };
        self.left
    }

    fn waited(&mut self, time: Duration) {
        self.left = self.left.saturating_sub(time);
    }
}

#[derive(Debug)]
struct State {
    /// The running threads, and whether a caller waited for each in vain.
    at_work: BTreeMap<Of, bool>,
    /// By user; a user without an entry has the full waiting time.
    patience: BTreeMap<u32, Patience>,
    with_all: Option<Patience>,
}

static STATE: Mutex<State> =
    Mutex::new(State { at_work: BTreeMap::new(), patience: BTreeMap::new(), with_all: None });

/// A thread is done.
static DONE: Condvar = Condvar::new();

fn state<T>(act: impl FnOnce(&mut State) -> T) -> T {
    act(&mut STATE.lock().unwrap_or_else(PoisonError::into_inner))
}

impl State {
    /// Whether a thread may begin; `own`: the user that this process runs as.
    fn begin(&mut self, of: Of, own: u32) -> bool {
        let others = || self.at_work.keys().filter(|(_, user)| *user != own);
        let outside = || others().filter(|(purpose, _)| purpose.is_outside_jobs());
        let has_room = of.1 == own
            || others().count() < THREADS_MAX
                && !(of.0.is_outside_jobs() && outside().count() >= OUTSIDE_MAX);
        let may = has_room && !self.at_work.contains_key(&of);
        if may {
            self.at_work.insert(of, false);
        }
        may
    }

    /// The remaining waiting time for this user's answers.
    fn may_wait(&mut self, user: u32, now: Instant) -> Duration {
        self.patience.retain(|_, one| one.left(now, WAIT_MAX, USERS_PART) < WAIT_MAX);
        let own = self.patience.get(&user).map_or(WAIT_MAX, |one| one.left);
        let all = self.with_all.get_or_insert(Patience { left: ALL_WAIT_MAX, at: now });
        own.min(all.left(now, ALL_WAIT_MAX, ALL_PART))
    }

    fn waited(&mut self, user: u32, time: Duration, now: Instant) {
        self.patience.entry(user).or_insert(Patience { left: WAIT_MAX, at: now }).waited(time);
        self.with_all.iter_mut().for_each(|all| all.waited(time));
    }
}

/// Permission to run a thread for a user, until this is dropped.
#[derive(Debug)]
pub struct Place(Of);

impl Drop for Place {
    fn drop(&mut self) {
        state(|state| state.at_work.remove(&self.0));
        DONE.notify_all();
    }
}

/// The answer of a running thread.
#[derive(Debug)]
pub struct Answer<T> {
    of: Of,
    from: Receiver<T>,
}

/// Whether something was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked<T> {
    /// The result.
    Read(T),
    /// Not yet.
    NotYet,
    /// The reading failed.
    Never,
}

/// Permission for a read. `None`: the user's last read for this purpose is not done, or there are too many threads.
#[must_use]
pub fn place(of: Of) -> Option<Place> {
    let of = (of.0, whose(of.1));
    state(|state| state.begin(of, peer::own_uid())).then(|| Place(of))
}

/// As [`place`], but waits for the end of a running read: two callers at once are both served. No caller waits for a
/// read that another caller waited for in vain.
#[must_use]
pub fn place_within(of: Of, at_most: Duration) -> Option<Place> {
    let of = (of.0, whose(of.1));
    let state = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    let is_awaited = |state: &mut State| state.at_work.get(&of) == Some(&false);
    let waited = DONE.wait_timeout_while(state, at_most, is_awaited);
    let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
    state.begin(of, peer::own_uid()).then(|| Place(of))
}

impl Place {
    /// Has something read. `None`: the host has no room for a thread.
    #[must_use]
    pub fn read<T: Send + 'static>(self, reading: impl FnOnce() -> T + Send + 'static) -> Option<Answer<T>> {
        let ((tell, from), of) = (channel(), self.0);
        let thread = std::thread::Builder::new().name("reader".to_owned()).stack_size(STACK_BYTES);
        let begun = thread.spawn(move || {
            let read = reading();
            // The place is free before the caller sees the end.
            drop(self);
            // The caller may be gone.
            let _ = tell.send(read);
        });
        begun.is_ok().then_some(Answer { of, from })
    }
}

impl<T> Answer<T> {
    /// The result, if present by now.
    #[must_use]
    pub fn now(&self) -> Asked<T> {
        match self.from.try_recv() {
            Ok(read) => Asked::Read(read),
            Err(TryRecvError::Empty) => Asked::NotYet,
            Err(TryRecvError::Disconnected) => Asked::Never,
        }
    }

    /// The result by `then`, or by the end of the callers' bounded waiting time.
    #[must_use]
    pub fn by(&self, then: Instant) -> Asked<T> {
        let began = Instant::now();
        let may_wait = state(|state| state.may_wait(self.of.1, began));
        let read = self.within(then.saturating_duration_since(began).min(may_wait));
        let now = Instant::now();
        state(|state| state.waited(self.of.1, now.saturating_duration_since(began), now));
        read
    }

    /// The result within this time: for threads without waiters.
    #[must_use]
    pub fn within(&self, at_most: Duration) -> Asked<T> {
        match self.from.recv_timeout(at_most) {
            Ok(read) => Asked::Read(read),
            Err(RecvTimeoutError::Timeout) => {
                state(|state| state.at_work.get_mut(&self.of).into_iter().for_each(|late| *late = true));
                DONE.notify_all();
                Asked::NotYet
            }
            Err(RecvTimeoutError::Disconnected) => Asked::Never,
        }
    }
}

/// Runs a read and waits for it, as [`Answer::by`] does; `None`: not read, or not in time.
pub fn read_soon<T: Send + 'static>(of: Of, reading: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    match place(of)?.read(reading)?.by(Instant::now() + WAIT_MAX) {
        Asked::Read(read) => Some(read),
        Asked::NotYet | Asked::Never => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(120);

    fn read<T: Send + 'static>(of: Of, reading: impl FnOnce() -> T + Send + 'static) -> Option<Asked<T>> {
        Some(place(of)?.read(reading)?.within(PATIENCE))
    }

    #[test]
    fn a_delayed_read_delays_no_other() {
        let (one, other) = ((Purpose::Shares, 4_000_001), (Purpose::Shares, 4_000_002));
        let (go, told) = channel::<()>();
        let answer = place(one).unwrap().read(move || told.recv().map_or(0, |()| 7)).unwrap();
        assert!(place(one).is_none(), "it has a thread already");
        assert!(place_within(one, Duration::from_millis(1)).is_none(), "and that is not done");
        assert_eq!(read(other, || 2), Some(Asked::Read(2)), "another user");
        assert_eq!(read((Purpose::Beginnings, one.1), || 3), Some(Asked::Read(3)), "another purpose");
        assert_eq!(answer.by(Instant::now() + PATIENCE), Asked::NotYet, "nobody waits for that long");
        assert!(place_within(one, Duration::MAX).is_none(), "it was waited for in vain");
        go.send(()).unwrap();
        assert_eq!(answer.within(PATIENCE), Asked::Read(7), "it is read when it can be");
        assert_eq!(read(one, || 5), Some(Asked::Read(5)));
    }

    #[test]
    fn two_that_ask_at_once_are_both_served() {
        let of = (Purpose::Shares, 4_000_004);
        let (go, told) = channel::<()>();
        let first = place(of).unwrap().read(move || told.recv().is_ok()).unwrap();
        let second =
            std::thread::spawn(move || place_within(of, PATIENCE).unwrap().read(|| 8)?.from.recv().ok());
        go.send(()).unwrap();
        assert_eq!((first.within(PATIENCE), second.join().unwrap()), (Asked::Read(true), Some(8)));
    }

    #[test]
    fn a_failed_read_answers_never_and_frees_its_place() {
        let of = (Purpose::Shares, 4_000_003);
        let asked: Asked<()> = read(of, || panic!("as a bug would")).unwrap();
        assert_eq!(asked, Asked::Never);
        assert_eq!(read(of, || 6), Some(Asked::Read(6)));
    }

    #[test]
    fn however_many_numbers_a_user_has_others_have_threads() {
        let own = 5;
        let mut state = State { at_work: BTreeMap::new(), patience: BTreeMap::new(), with_all: None };
        let outside = [Purpose::Marks, Purpose::Beginnings];
        let users = || 1_000..2_000_u32;
        let begun = users().filter(|&user| state.begin((outside[user as usize % 2], user), own)).count();
        assert_eq!(begun, OUTSIDE_MAX, "they need not be jobs");
        assert!(state.begin((Purpose::Figures, 7), own), "jobs of another user are read");
        let begun = users().filter(|&user| state.begin((Purpose::Figures, user), own)).count();
        assert_eq!((begun, state.at_work.len()), (THREADS_MAX - OUTSIDE_MAX - 1, THREADS_MAX));
        assert!(!state.begin((Purpose::Figures, 8), own), "there are no more");
        for purpose in [Purpose::Marks, Purpose::Figures] {
            assert!(state.begin((purpose, own), own) && !state.begin((purpose, own), own), "{purpose:?}");
        }
        // These users' threads count for no other user.
        state.at_work.remove(&(Purpose::Figures, 7));
        assert!(state.begin((Purpose::Figures, 8), own));
    }

    #[test]
    fn the_loop_waits_for_a_part_of_all_time() {
        let mut state = State { at_work: BTreeMap::new(), patience: BTreeMap::new(), with_all: None };
        let mut now = Instant::now();
        let (mut waited, begin) = (Duration::ZERO, now);
        // A user whose processes delay each read just until the wait ends.
        while now < begin + Duration::from_secs(100) {
            let may_wait = state.may_wait(1, now);
            assert!(may_wait <= WAIT_MAX);
            (waited, now) = (waited + may_wait, now + may_wait);
            state.waited(1, may_wait, now);
            now += Duration::from_millis(1);
        }
        assert!(waited <= Duration::from_secs(5) + WAIT_MAX, "{waited:?}");
        assert!(state.may_wait(2, now) > Duration::ZERO, "another user");
        // Many users together.
        let (mut waited, begin, mut user) = (Duration::ZERO, now, 10);
        while now < begin + Duration::from_secs(100) {
            user += 1;
            let may_wait = state.may_wait(user, now);
            (waited, now) = (waited + may_wait, now + may_wait);
            state.waited(user, may_wait, now);
            now += Duration::from_millis(1);
        }
        assert!(waited <= Duration::from_secs(10) + ALL_WAIT_MAX, "{waited:?}");
        now += Duration::from_secs(10);
        assert_eq!((state.may_wait(10, now), state.patience.len()), (WAIT_MAX, 0), "nothing is kept of them");
    }
}
