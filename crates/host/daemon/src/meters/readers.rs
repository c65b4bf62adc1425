//! What the processes of jobs use, read by threads aside: a process can hold a reader of its files up for as long as its
//! user pleases (`sys::aside`), and many processes take long.
//!
//! Each user has one order at a time, for all jobs that are due. The loop waits a moment for what was ordered; what
//! comes later counts with the next sample. Until then a job has the sums of its last reading. What comes back once no job
//! is sampled any more is taken as well, for it has files open. Reading takes a part of a core at most, for each user.
//! Absent here: what becomes of the figures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

use pinfold_policy::JobId;
use pinfold_proto::view::FindingView;
use pinfold_sys::aside::{self, Answer, Asked, Purpose};
use pinfold_sys::container::Measure;
use pinfold_sys::own;
use pinfold_sys::procfs::{Members, Proc, ticks_now};

use crate::jobs::JobTable;
use crate::meters::files::Looked;

/// After a reading a user's processes are left alone for so many times what that took of a processor.
const RESTS: u64 = 4;
/// So many of a user's processes are read at a time; the others have their turn later. The loop takes in what changed.
const PROCESSES_A_TIME: usize = 1_024;
/// So often it is looked what has come back, at least.
const LOOK_EVERY_US: u64 = 1_000_000;
/// A user whose processes have not been read for so long is told so.
const LATE_US: u64 = 3_000_000;

/// The orders that are being carried out, by user ([`aside::whose()`]).
#[derive(Debug, Default)]
pub(crate) struct Readers {
    waits: BTreeMap<u32, Order>,
    /// When it was looked last what has come back.
    looked_us: u64,
    /// When a user may be read again.
    rests_until_us: BTreeMap<u32, u64>,
    /// Orders so far: each begins with another of a user's jobs.
    orders: usize,
    /// What has come back and was not taken yet: of each job what its processes have open.
    fresh: BTreeMap<JobId, Looked>,
}

#[derive(Debug)]
struct Order {
    since_us: u64,
    jobs: Vec<JobId>,
    answer: Answer<Done>,
}

/// A job that is due.
#[derive(Debug)]
pub(super) struct Due {
    pub(super) job: JobId,
    /// Its processes, ascending.
    pub(super) pids: Vec<u32>,
    /// When they were listed, in clock ticks since the host came up.
    pub(super) listed_ticks: u64,
    /// The processor time that they used so far.
    pub(super) cpu_us: u64,
    /// Whose files are looked at.
    pub(super) files_of: Vec<u32>,
}

#[derive(Debug)]
struct Done {
    read: Vec<(JobId, Members, Looked)>,
    cpu_us: u64,
}

impl Due {
    /// A job as its container has just told of it.
    pub(super) fn new(job: JobId, measure: &Measure, pids: &[u32]) -> Self {
        let (pids, listed_ticks) = (pids.to_vec(), ticks_now());
        Self { job, pids, listed_ticks, cpu_us: measure.cpu_us(), files_of: Vec::new() }
    }
}

impl Readers {
    /// Has these jobs read, but for those of users of whom the last reading has not come back. What is read in time,
    /// and what has come since the last time, is there to be taken.
    pub(super) fn read(&mut self, proc: &Proc, table: &mut JobTable, due: Vec<Due>, now_us: u64) {
        self.look(table, now_us);
        self.rests_until_us.retain(|_, until_us| *until_us > now_us);
        let mut by_user: BTreeMap<u32, Vec<Due>> = BTreeMap::new();
        for one in due.into_iter().filter(|one| !self.fresh.contains_key(&one.job)) {
            let Some(user) = table.get(&one.job).map(|live| aside::whose(live.row.uid)) else { continue };
            if !self.waits.contains_key(&user) && !self.rests_until_us.contains_key(&user) {
                by_user.entry(user).or_default().push(one);
            }
        }
        by_user.into_iter().for_each(|(user, due)| self.order(proc, table, user, due, now_us));
        let then = Instant::now() + aside::WAIT_MAX;
        self.take_back(table, now_us, |answer| answer.by(then));
    }

    /// When it is to be looked what has come back; `None`: nothing is awaited.
    pub(crate) fn due_us(&self) -> Option<u64> {
        (!self.waits.is_empty()).then_some(self.looked_us.saturating_add(LOOK_EVERY_US))
    }

    /// Takes what has come back, for jobs that are not over to be used with their next samples.
    pub(crate) fn look(&mut self, table: &mut JobTable, now_us: u64) {
        self.take_back(table, now_us, Answer::now);
        self.fresh.retain(|job, _| table.contains_key(job));
    }

    /// What the processes of a job have open, as it was looked at with a reading that nobody has taken yet. `None`:
    /// there is none, and nothing new in its processes.
    pub(super) fn take(&mut self, job: JobId) -> Option<Looked> {
        self.fresh.remove(&job)
    }

    fn order(&mut self, proc: &Proc, table: &mut JobTable, user: u32, due: Vec<Due>, now_us: u64) {
        let Some(place) = aside::place((Purpose::Figures, user)) else { return };
        let lent = |one: Due| Some((table.get_mut(&one.job)?.members.lend()?, one));
        let mut lent: Vec<(Members, Due)> = due.into_iter().filter_map(lent).collect();
        if !lent.is_empty() {
            self.orders = self.orders.wrapping_add(1);
            let first = self.orders % lent.len();
            lent.rotate_left(first);
        }
        let jobs: Vec<JobId> = lent.iter().map(|(_, one)| one.job).collect();
        let proc = proc.clone();
        match place.read(move || read_all(&proc, lent)) {
            Some(answer) => drop(self.waits.insert(user, Order { since_us: now_us, jobs, answer })),
            None => lost(table, &jobs),
        }
    }

    fn take_back(&mut self, table: &mut JobTable, now_us: u64, look: impl Fn(&Answer<Done>) -> Asked<Done>) {
        self.looked_us = now_us;
        let (rests_until_us, fresh) = (&mut self.rests_until_us, &mut self.fresh);
        self.waits.retain(|user, order| {
            let done = match look(&order.answer) {
                Asked::NotYet => return true,
                Asked::Never => {
                    lost(table, &order.jobs);
                    return false;
                }
                Asked::Read(done) => done,
            };
            rests_until_us.insert(*user, now_us.saturating_add(done.cpu_us.saturating_mul(RESTS)));
            for (job, members, looked) in done.read {
                // One that began anew meanwhile has other processes.
                if table.get_mut(&job).is_some_and(|live| live.members.give_back(members)) {
                    fresh.insert(job, looked);
                }
            }
            false
        });
    }

    /// What `why` tells of a job whose processes have not let themselves be read for a while.
    pub(crate) fn words(&self, table: &JobTable, (job, user): (JobId, u32), now_us: u64) -> Option<String> {
        let order = self.waits.get(&aside::whose(user)).filter(|order| order.is_late(now_us))?;
        let seconds = now_us.saturating_sub(order.since_us) / 1_000_000;
        let whose = match order.jobs.contains(&job) {
            true => "a process of this user's",
            false if order.jobs.iter().any(|job| table.contains_key(job)) => "another job of this user's",
            false => "what is left of a job of this user's",
        };
        Some(format!("not read for {seconds} s: {whose} holds that up; figures of single processes are old"))
    }

    /// What `doctor` tells of users with jobs whose processes have not let themselves be read for a while.
    pub(crate) fn finding(
        &self,
        running: &BTreeSet<JobId>,
        table: &JobTable,
        now_us: u64,
    ) -> Option<FindingView> {
        let mut late: BTreeSet<u32> =
            self.waits.iter().filter(|(_, order)| order.is_late(now_us)).map(|(user, _)| *user).collect();
        if !late.is_empty() {
            let running = running.iter().filter_map(|job| table.get(job));
            let users: BTreeSet<u32> = running.map(|live| aside::whose(live.row.uid)).collect();
            late.retain(|user| users.contains(user));
        }
        let late: Vec<String> = late.iter().map(u32::to_string).collect();
        (!late.is_empty()).then(|| FindingView {
            subject: "figures".to_owned(),
            ok: false,
            found: format!(
                "processes of users {} keep the daemon from reading their files; their jobs have no new figures of single \
                 processes",
                late.join(", ")
            ),
            change: Some(
                "look for a file system that does not answer, or end the processes that wait for it".to_owned(),
            ),
        })
    }
}

impl Order {
    fn is_late(&self, now_us: u64) -> bool {
        now_us.saturating_sub(self.since_us) > LATE_US
    }
}

/// What was lent does not come back.
fn lost(table: &mut JobTable, jobs: &[JobId]) {
    for job in jobs {
        if let Some(live) = table.get_mut(job) {
            let _ = live.members.give_back(Members::default());
        }
    }
}

fn read_all(proc: &Proc, due: Vec<(Members, Due)>) -> Done {
    let before_us = own::thread_cpu_us();
    let mut left = PROCESSES_A_TIME;
    let read = |(mut members, one): (Members, Due)| {
        members.read(proc, &one.pids, one.listed_ticks, Some(one.cpu_us), &mut left);
        (one.job, members, Looked::at(proc, (&one.pids, one.listed_ticks), one.files_of))
    };
    let read = due.into_iter().map(read).collect();
    Done { read, cpu_us: own::thread_cpu_us().saturating_sub(before_us) }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use pinfold_proto::JobSpec;
    use pinfold_proto::row::JobRow;

    use super::*;
    use crate::jobs::JobRecord;

    /// No users of this host: threads are shared with other tests.
    const USERS: [u32; 2] = [4_100_001, 4_100_002];
    const LATER_US: u64 = 60_000_000;

    /// Makes a process that read so many bytes; `None`: it holds its readers up.
    fn process(root: &Path, pid: u32, read_bytes: Option<u64>) {
        let dir = root.join(pid.to_string());
        fs::create_dir(&dir).unwrap();
        let stat = format!(
            "{pid} (cat) S 1 {pid} {pid} 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 7 4096000 90 {}",
            "0 ".repeat(28)
        );
        fs::write(dir.join("stat"), stat).unwrap();
        match read_bytes {
            Some(bytes) => fs::write(dir.join("io"), io(bytes)).unwrap(),
            None => {
                let made = std::process::Command::new("mkfifo").arg(dir.join("io")).status().unwrap();
                assert!(made.success());
            }
        }
    }

    fn io(read_bytes: u64) -> String {
        format!(
            "rchar: 1\nwchar: 1\nsyscr: 1\nsyscw: 1\nread_bytes: {read_bytes}\nwrite_bytes: 0\n\
             cancelled_write_bytes: 0\n"
        )
    }

    #[test]
    fn a_user_that_holds_readers_up_has_no_figures_and_others_have() {
        let root = tempfile::tempdir().unwrap();
        let proc = Proc::open(root.path()).unwrap();
        let (mut readers, mut table) = (Readers::default(), JobTable::new());
        for (job, user) in [1, 2].into_iter().zip(USERS) {
            process(root.path(), u32::try_from(job).unwrap(), (job == 2).then_some(4096));
            let row = JobRow::asked_for(job, user, user.to_string(), JobSpec::default(), 1);
            table.insert(JobId(job), Box::new(JobRecord::new(row, false)));
        }
        let due = |job| Due {
            job: JobId(job),
            pids: vec![u32::try_from(job).unwrap()],
            listed_ticks: u64::MAX,
            cpu_us: 1,
            files_of: vec![],
        };
        let mut now_us = LATER_US;
        let until = |readers: &mut Readers, table: &mut JobTable, now_us: &mut u64, job: u64| {
            let began = Instant::now();
            while readers.take(JobId(job)).is_none() {
                assert!(began.elapsed().as_secs() < 120, "job {job} is not read");
                *now_us += LATER_US;
                readers.read(&proc, table, vec![due(1), due(2)], *now_us);
                std::thread::yield_now();
            }
        };
        for _ in 0..3 {
            until(&mut readers, &mut table, &mut now_us, 2);
            assert!(readers.take(JobId(1)).is_none(), "nothing is told of the one that is held up");
        }
        assert_eq!(table.get(&JobId(2)).unwrap().members.sums().io_read_bytes, Some(4096));
        assert_eq!(table.get(&JobId(1)).unwrap().members.sums(), Default::default());
        let running = BTreeSet::from([JobId(1), JobId(2)]);
        let finding = readers.finding(&running, &table, now_us).unwrap();
        assert!(finding.found.contains(&USERS[0].to_string()), "{finding:?}");
        assert!(!finding.found.contains(&USERS[1].to_string()), "{finding:?}");
        assert!(
            readers
                .words(&table, (JobId(1), USERS[0]), now_us)
                .is_some_and(|words| words.contains("a process of"))
        );
        assert_eq!(readers.words(&table, (JobId(2), USERS[1]), now_us), None);
        // It lets go: its figures come as others' do. The file may be opened more than once.
        let fifo = root.path().join("1/io");
        let answer = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        fs::write(root.path().join("1/new"), io(8192)).unwrap();
        fs::rename(root.path().join("1/new"), &fifo).unwrap();
        drop(answer);
        until(&mut readers, &mut table, &mut now_us, 1);
        // The other's may be on their way.
        let began = Instant::now();
        while readers.due_us().is_some() {
            assert!(began.elapsed().as_secs() < 120, "they do not come back");
            readers.look(&mut table, now_us);
            std::thread::yield_now();
        }
        assert_eq!(readers.finding(&running, &table, now_us), None);
        // One that began anew meanwhile has nothing of what was read of its processes before.
        let live = table.get_mut(&JobId(1)).unwrap();
        let read = live.members.lend().unwrap();
        live.members = Members::default();
        assert!(!live.members.give_back(read));
    }

    #[test]
    fn what_comes_back_of_a_job_that_is_over_is_taken_and_told_of_no_more() {
        const USER: u32 = 4_100_003;
        let root = tempfile::tempdir().unwrap();
        let proc = Proc::open(root.path()).unwrap();
        let (mut readers, mut table) = (Readers::default(), JobTable::new());
        process(root.path(), 1, None);
        let insert = |table: &mut JobTable, job: u64| {
            let row = JobRow::asked_for(job, USER, USER.to_string(), JobSpec::default(), 1);
            table.insert(JobId(job), Box::new(JobRecord::new(row, false)));
        };
        insert(&mut table, 1);
        assert_eq!(readers.due_us(), None, "nothing is awaited");
        let due = Due { job: JobId(1), pids: vec![1], listed_ticks: u64::MAX, cpu_us: 1, files_of: vec![] };
        readers.read(&proc, &mut table, vec![due], LATER_US);
        assert_eq!(readers.due_us(), Some(LATER_US + LOOK_EVERY_US));
        let mut now_us = 2 * LATER_US;
        let one = BTreeSet::from([JobId(1)]);
        assert!(readers.finding(&one, &table, now_us).is_some());
        // It is over while it is still held up; its user has another job then.
        table.remove(JobId(1));
        assert_eq!(readers.finding(&BTreeSet::new(), &table, now_us), None);
        insert(&mut table, 2);
        assert!(readers.finding(&BTreeSet::from([JobId(2)]), &table, now_us).is_some());
        let words = readers.words(&table, (JobId(2), USER), now_us).unwrap();
        assert!(words.contains("what is left of a job"), "{words}");
        let fifo = root.path().join("1/io");
        let answer = fs::OpenOptions::new().write(true).open(&fifo).unwrap();
        fs::write(root.path().join("1/new"), io(8192)).unwrap();
        fs::rename(root.path().join("1/new"), &fifo).unwrap();
        drop(answer);
        // No job is sampled any more.
        let began = Instant::now();
        while readers.due_us().is_some() {
            assert!(began.elapsed().as_secs() < 120, "it does not come back");
            now_us += LOOK_EVERY_US;
            readers.look(&mut table, now_us);
            std::thread::yield_now();
        }
        assert!(readers.fresh.is_empty(), "nothing is kept of it");
        assert_eq!(readers.words(&table, (JobId(2), USER), now_us), None);
    }
}
