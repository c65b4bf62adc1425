//! What it takes to keep a job that was submitted once its keeper is gone, after a restart of the host above all: the
//! command, environment and directory that it was handed over with.
//!
//! They lie in the state directory, which only the daemon's user can enter, a file for each job that is not over, and one
//! for all members of an array, which have one keeper; they are given to the job's own user and to root only, and are gone
//! when the job is over. The daemon does not start anything of what stands there: it has `pinfold keepers` called, which
//! asks for them and starts a keeper for each as its user. Where the daemon's own rights are cut down by whoever started it,
//! jobs would be cut down as well; then it is for that one to call `pinfold keepers`, as the packaged service does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};

use pinfold_policy::{Command, Event as Judged, JobId};
use pinfold_proto::JobState;
use pinfold_proto::row::{JobRow, Usage};
use pinfold_proto::start::{Start, StartOf};
use pinfold_proto::wire::{Reply, json_bytes};
use pinfold_sys::confined;
use pinfold_sys::peer::{self, Peer};

use crate::crash;
use crate::daemon::Daemon;
use crate::durable::After;
use crate::event::ConnectionId;
use crate::live::Live;
use crate::quota::{self, Book};
use crate::restore::is_alive;
use crate::rights;

/// A job whose keepers ended so often before it started is given up.
const KEEPERS_MAX: u32 = 3;

/// Why a job waits that has no keeper.
const AWAITED: &str = "its keeper is gone; it waits for another (`pinfold keepers` starts it)";

/// Why a job is over for which no keeper can be had.
const UNREADABLE: &str =
    "what it was handed over with cannot be read any more; hand it over again if it is still wanted";

/// A keeper that was called may take so long to come before another is, in microseconds.
const COMES_WITHIN_US: u64 = 20_000_000;

/// A job that has no keeper.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Awaited {
    /// Whether it is to be held once it has one.
    held: bool,
    /// When somebody was told to start one.
    called_us: Option<u64>,
}

impl Awaited {
    fn is_due(self, now_us: u64) -> bool {
        self.called_us.is_none_or(|at| now_us.saturating_sub(at) >= COMES_WITHIN_US)
    }
}

/// An answer has no more starts than take so many bytes, but for the last of them, and no more than so many.
const PAGE_BYTES: u64 = 4 << 20;
const PAGE_STARTS: usize = 256;

/// A job that a start is for, with its index in an array.
type Member = (JobId, Option<u32>);

/// A start on disk: whose it is, and how long.
#[derive(Debug, Clone, Copy, Default)]
struct Kept {
    uid: u32,
    bytes: u64,
}

/// The files.
#[derive(Debug, Default)]
pub(crate) struct Starts {
    directory: PathBuf,
    kept: BTreeMap<u64, Kept>,
    /// What those of each user take.
    sizes: Book,
    /// Those that are kept as soon as it is on disk who of them has begun.
    coming: BTreeSet<u64>,
    /// `pinfold keepers`, as it was called.
    called: Option<Child>,
}

impl Starts {
    /// Those of an earlier life.
    pub(crate) fn open(state: &Path) -> Self {
        let directory = state.join("starts");
        // What a daemon that died had begun to write.
        let _ = fs::remove_file(directory.join("fresh"));
        let entries = fs::read_dir(&directory).into_iter().flatten().flatten();
        let whole = |path: &Path| is_whole(path).unwrap_or(false);
        let numbers =
            entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())));
        let (kept, torn): (Vec<_>, Vec<_>) = numbers.partition(|(_, path)| whole(path));
        for (job, path) in torn {
            tracing::warn!(
                job,
                "what a job was handed over with was not written whole; it does not come back"
            );
            let _ = fs::remove_file(path);
        }
        let kept = kept.into_iter().map(|(job, path)| {
            // Whose it is, its job says.
            let bytes = fs::metadata(path).map_or(0, |found| found.len());
            (job, Kept { uid: 0, bytes })
        });
        Self {
            directory,
            kept: kept.collect(),
            sizes: Book::default(),
            coming: BTreeSet::new(),
            called: None,
        }
    }

    /// Whether a job can be kept anew.
    pub(crate) fn has(&self, row: &JobRow) -> bool {
        let kept = kept_as(row).0;
        self.kept.contains_key(&kept) || self.coming.contains(&kept)
    }

    /// Gives what was written and is to be brought to disk.
    fn keep(&mut self, job: JobId, uid: u32, start: &Start) -> io::Result<Vec<PathBuf>> {
        let mut written = Vec::new();
        if self.kept.is_empty() {
            DirBuilder::new().recursive(true).mode(0o700).create(&self.directory)?;
            written.push(self.directory.clone());
        }
        crash::point("before a start is kept");
        let (path, fresh) = (self.path(job), self.directory.join("fresh"));
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        serde_json::to_writer(&mut file, start)?;
        file.flush()?;
        crash::point("before a kept start has its name");
        fs::rename(&fresh, &path)?;
        crash::point("after a start was kept");
        let bytes = json_bytes(start);
        let before = self.kept.insert(job.0, Kept { uid, bytes }).unwrap_or_default();
        self.sizes.take(before.uid, before.bytes);
        self.sizes.add(uid, bytes);
        written.push(path);
        Ok(written)
    }

    fn read(&self, job: JobId) -> Option<Start> {
        let text = fs::read(self.path(job)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// A job, or an array as a whole, is over.
    fn forget(&mut self, job: JobId) {
        crash::point("before a start is forgotten");
        let Some(Kept { uid, bytes }) = self.kept.remove(&job.0) else { return };
        self.sizes.take(uid, bytes);
        if let Err(error) = fs::remove_file(self.path(job)) {
            tracing::warn!(job = job.0, %error, "what a job was started with is left in the state directory");
        }
    }

    /// Forgets all but what these need, and learns whose each is.
    pub(crate) fn retain<'a>(&mut self, open: impl Iterator<Item = &'a JobRow>) {
        let open: BTreeMap<u64, u32> = open.map(|row| (kept_as(row).0, row.uid)).collect();
        let over: Vec<u64> = self.kept.keys().filter(|job| !open.contains_key(job)).copied().collect();
        over.into_iter().for_each(|job| self.forget(JobId(job)));
        self.sizes = Book::default();
        for (job, kept) in &mut self.kept {
            kept.uid = open.get(job).copied().unwrap_or(0);
            self.sizes.add(kept.uid, kept.bytes);
        }
    }

    /// Why one more start of a user's is not kept, if it is not.
    fn refusal(&self, job: JobId, uid: u32, start: &Start, most: u64) -> Option<String> {
        let before = self.kept.get(&job.0).map_or(0, |kept| kept.bytes);
        let more = json_bytes(start).saturating_sub(before);
        let full = !self.sizes.has_room(uid, more, most);
        full.then(|| quota::starts_too_large(self.sizes.own(uid), most))
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.directory.join(job.0.to_string())
    }
}

/// Whether a file was written to its end: a power cut may leave less of it, or room without content.
fn is_whole(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"}")
}

/// Under which number it is kept what a job was handed over with: a member of an array has that of the array.
fn kept_as(row: &JobRow) -> JobId {
    JobId(row.spec.array.and_then(|place| place.array).unwrap_or(row.job))
}

impl Daemon {
    /// A keeper tells what another one would need in its place.
    pub(crate) fn keep_start(&mut self, id: ConnectionId, job: JobId, mut start: Box<Start>) {
        if let Err(why) = self.held_as_now(id, &mut start) {
            tracing::info!(job = job.0, why, "a job will not come back if the host is restarted");
            return;
        }
        // The first of an array may be over by now; the others need it no less.
        let mut members = std::iter::once(job).chain(self.live_members(job.0).map(|(member, _)| member));
        let asked = members.find(|&member| self.keeps(id, member));
        drop(members);
        let Some(kept) = asked.and_then(|asked| self.jobs.get(&asked)).map(|live| kept_as(&live.row)) else {
            return;
        };
        if self.starts.kept.contains_key(&kept.0) {
            // Told once more after a restart of the daemon.
            return;
        }
        let begun = |job: &JobId| self.jobs.get(job).is_some_and(|live| live.has_started());
        let all = std::iter::once(kept).chain(self.live_members(kept.0).map(|(member, _)| member));
        let begun: BTreeSet<JobId> = all.filter(begun).collect();
        if begun.is_empty() {
            return self.keep_start_now(kept, &start);
        }
        // First that these have: were the host to go down in between, they would be taken for ones that have not.
        begun.into_iter().for_each(|job| self.journal.touch(job));
        self.starts.coming.insert(kept.0);
        self.durable.after(After::KeepStart(kept, start));
    }

    /// Puts what the kernel says of the process at the other end in the place of what that says of itself: whoever comes
    /// back with more than it had would have gained by a restart of the host.
    ///
    /// # Errors
    /// Why it cannot come back, held by no less than it is now.
    fn held_as_now(&self, id: ConnectionId, start: &mut Start) -> Result<(), String> {
        let gone = || "what connected has ended".to_owned();
        let process = self.server.process(id).ok_or_else(gone)?;
        start.umask &= 0o777;
        let own = peer::own_uid();
        if own != 0 && self.server.peer(id).is_some_and(|user| user.uid != own) {
            // A daemon without root's rights may not look at a client of root's. What it starts later has no more than
            // it has itself, whatever was said.
            return Ok(());
        }
        let limits = confined::limits(&self.proc, process.pid).ok().flatten().ok_or_else(gone)?;
        let adjusted = confined::oom_score_adj(&self.proc, process.pid);
        let beyond = confined::beyond_its_user(&self.proc, process.pid);
        // What was read is its own only if it still lives.
        if !is_alive(&self.proc, process) {
            return Err(gone());
        }
        (start.limits, start.oom_score_adj) = (limits, adjusted);
        beyond.map_or(Ok(()), Err)
    }

    /// Keeps it on disk, for a job or all members of an array. What is over by now needs it no more.
    pub(crate) fn keep_start_now(&mut self, kept: JobId, start: &Start) {
        self.starts.coming.remove(&kept.0);
        if !self.jobs.contains_key(&kept) && !self.has_members(kept.0) {
            return;
        }
        let members = self.live_members(kept.0).map(|(member, _)| member);
        let all: Vec<JobId> = std::iter::once(kept).chain(members).collect();
        let Some(uid) = all.iter().find_map(|job| Some(self.jobs.get(job)?.row.uid)) else { return };
        let config = &self.configured.config;
        let most = config.access_max_jobs_size.saturating_mul(quota::STARTS_FACTOR);
        let trusted = rights::is_operator(config, Peer { pid: 0, uid });
        if let Some(words) = self.starts.refusal(kept, uid, start, most).filter(|_| !trusted) {
            tracing::warn!(job = kept.0, uid, words, "a job's start is not kept");
            for job in all {
                if let Some(live) = self.jobs.get_mut(&job).filter(|live| !live.has_started()) {
                    live.row.reason = Some(words.clone());
                    self.journal.touch(job);
                }
            }
            return;
        }
        match self.starts.keep(kept, uid, start) {
            Ok(written) => written.into_iter().for_each(|path| self.durable.file(path)),
            Err(error) => {
                tracing::warn!(job = kept.0, %error, "a job will not come back if the host is restarted");
            }
        }
    }

    /// Jobs that wait for a keeper: the peer's own; for root all. As many as one answer holds, one of each user before the
    /// second of any; whoever asks again is told of the next, until there are none.
    pub(crate) fn starts_for(&mut self, user: Peer) -> Reply {
        let now_us = self.clock.now_us();
        let theirs = |live: &Live| user.uid == 0 || user.uid == live.row.uid;
        let is_due = |live: &Live| live.awaits_keeper.is_some_and(|awaited| awaited.is_due(now_us));
        let mut due: BTreeMap<(u32, JobId), Vec<Member>> = BTreeMap::new();
        for live in self.jobs.values().filter(|live| theirs(live) && is_due(live)) {
            let member = (live.id(), live.row.spec.array.map(|place| place.index));
            due.entry((live.row.uid, kept_as(&live.row))).or_default().push(member);
        }
        let (mut starts, mut lost, mut bytes) = (Vec::new(), Vec::new(), 0);
        for ((uid, job), members) in in_turns(due) {
            if bytes >= PAGE_BYTES || starts.len() >= PAGE_STARTS {
                break;
            }
            for (member, _) in &members {
                let awaited = self.jobs.get_mut(member).and_then(|live| live.awaits_keeper.as_mut());
                awaited.into_iter().for_each(|awaited| awaited.called_us = Some(now_us));
            }
            // One that cannot be read keeps none of the others waiting.
            let Some(start) = self.starts.read(job) else {
                lost.push(job);
                continue;
            };
            bytes += self.starts.kept.get(&job.0).map_or(0, |kept| kept.bytes);
            let mut members: Vec<u32> = members.into_iter().filter_map(|(_, index)| index).collect();
            members.sort_unstable();
            starts.push(StartOf { job: job.0, members, uid, start });
        }
        self.strike_unreadable(&lost);
        Reply::Starts(starts)
    }

    /// No keeper can be had for jobs of which nobody knows any more what they were handed over with.
    fn strike_unreadable(&mut self, lost: &[JobId]) {
        let waits = |live: &Live| live.awaits_keeper.is_some() && lost.contains(&kept_as(&live.row));
        let jobs: Vec<JobId> = self.jobs.values().filter(|live| waits(live)).map(|live| live.id()).collect();
        for job in jobs {
            self.withdrawn(job, UNREADABLE.to_owned());
        }
    }

    /// A job begins though nothing of that can be written down: it must not come back and begin a second time.
    pub(crate) fn forget_unless_it_begins_anew(&mut self, job: JobId) {
        let once = |live: &Live| !live.row.spec.requeue && live.row.spec.array.is_none();
        if self.journal.trouble().is_some() && self.jobs.get(&job).is_some_and(|live| once(live)) {
            self.starts.forget(job);
        }
    }

    /// A job is over: what it was handed over with is needed no more once that is on disk, unless it is an array's of
    /// which others are left. Until then a power cut leaves a job that begins anew, not one that is lost. Says whether
    /// there was anything.
    pub(crate) fn forget_start(&mut self, row: &JobRow) -> bool {
        let was_kept = self.starts.has(row);
        if was_kept {
            self.durable.after(After::ForgetStart(kept_as(row)));
        }
        was_kept
    }

    /// The end of a job, or of a member of an array, is on disk.
    pub(crate) fn forget_unneeded(&mut self, kept: JobId) {
        if !self.jobs.contains_key(&kept) && !self.has_members(kept.0) {
            self.starts.forget(kept);
        }
    }

    /// A job that ran when the host was restarted is to begin anew: whether it said so, and can be kept.
    pub(crate) fn begins_after_reboot(&self, live: &Live) -> bool {
        let ran = self.rebooted && live.has_started() && live.row.ending.is_none();
        ran && live.row.spec.requeue && self.starts.has(&live.row)
    }

    /// Puts it back as it was before its start.
    pub(crate) fn put_back_after_reboot(&self, live: &mut Live) {
        live.set_state(JobState::Queued, self.clock.now_us());
        let row = &mut live.row;
        (row.requeuing, row.started_us, row.main, row.cpus) = (false, None, None, None);
        (row.suspended_us, row.usage) = (0, Usage::default());
        row.requeues = row.requeues.saturating_add(1);
    }

    /// A job that has not started lost its keeper: whether another one can be had. It is held until that one comes.
    pub(crate) fn awaits_another(&mut self, job: JobId) -> bool {
        let Some(live) = self.jobs.get_mut(&job) else { return false };
        let lost = live.keepers_lost + 1;
        let waits = !live.has_started() && live.container.is_none();
        // A workload manager that ended the keeper of a job ended the job.
        let tied = crate::allocation::is_tied(&live.row.spec);
        if !waits || tied || !self.starts.has(&live.row) || lost > KEEPERS_MAX {
            return false;
        }
        (live.keeper, live.child, live.asked_child, live.keeper_watch) = (None, None, false, None);
        live.does_not_begin();
        live.keepers_lost = lost;
        let held = live.awaits_keeper.map_or(live.row.state == JobState::Held, |awaited| awaited.held);
        live.awaits_keeper = Some(Awaited { held, called_us: None });
        live.row.reason = Some(AWAITED.to_owned());
        let granted = std::mem::take(&mut live.granted);
        self.journal.touch(job);
        if granted {
            let (action, error) = (self.start_action(job), "its keeper is gone".to_owned());
            self.judge(Judged::Failed { job, action, error });
        }
        if self.policy.job(job).is_some() {
            self.judge(Judged::Command(job, Command::Hold));
        } else {
            self.adopt(job, false);
        }
        self.call_keepers();
        true
    }

    /// The keeper of such a job has come.
    pub(crate) fn keeper_came(&mut self, job: JobId) {
        let Some(live) = self.jobs.get_mut(&job) else { return };
        let Some(Awaited { held, .. }) = live.awaits_keeper.take() else { return };
        live.row.reason = None;
        if !held {
            self.judge(Judged::Command(job, Command::Release));
        }
        self.follow_policy(job);
        self.isolate_waiting();
    }

    /// A user holds or releases such a job: it counts once its keeper has come.
    pub(crate) fn holds_awaited(&mut self, job: JobId, command: Command) -> bool {
        let held = match command {
            Command::Hold | Command::Suspend => true,
            Command::Release | Command::Resume => false,
            _ => return false,
        };
        let Some(awaited) = self.jobs.get_mut(&job).and_then(|live| live.awaits_keeper.as_mut()) else {
            return false;
        };
        awaited.held = held;
        true
    }

    /// Has keepers started for those that wait for one, if what this process starts has all its user's rights.
    pub(crate) fn call_keepers(&mut self) {
        if let Some(called) = &mut self.starts.called
            && matches!(called.try_wait(), Ok(None))
        {
            // It may have asked already; whoever comes later is looked for when the house is kept.
            return;
        }
        let now_us = self.clock.now_us();
        let waits = |live: &Live| live.awaits_keeper.is_some_and(|awaited| awaited.is_due(now_us));
        if !self.jobs.values().any(|live| waits(live)) || is_cut_down() {
            self.starts.called = None;
            return;
        }
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name("pinfold"));
        let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("pinfold"));
        let mut command = Program::new(&program);
        command.arg("--socket").arg(self.server.socket()).args(["--no-autostart", "keepers"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        match command.spawn() {
            Ok(called) => self.starts.called = Some(called),
            Err(error) => {
                tracing::warn!(program = %program.display(), %error, "no keepers can be started");
            }
        }
    }
}

/// One of each user, then the second of each, and so on.
fn in_turns<K: Copy + Ord, T>(all: BTreeMap<(u32, K), T>) -> Vec<((u32, K), T)> {
    let (mut user, mut nth) = (None, 0_usize);
    let numbered = all.into_iter().map(|(key, value)| {
        nth = if user.replace(key.0) == Some(key.0) { nth + 1 } else { 0 };
        (nth, (key, value))
    });
    let mut numbered: Vec<_> = numbered.collect();
    numbered.sort_by_key(|(nth, _)| *nth);
    numbered.into_iter().map(|(_, one)| one).collect()
}

/// Whether this process, and with it all that it starts, may do less than its user.
fn is_cut_down() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.map(|rest| rest.trim_start_matches(':').trim().to_owned()).unwrap_or_default()
    };
    // To become another user.
    const SET_USER_AND_GROUP: u64 = 0b11 << 6;
    let bounding = u64::from_str_radix(&field("CapBnd"), 16).unwrap_or(0);
    let needs_more = peer::own_uid() == 0 && bounding & SET_USER_AND_GROUP != SET_USER_AND_GROUP;
    field("NoNewPrivs") == "1" || needs_more
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    use pinfold_proto::{JobArray, JobSpec};

    #[test]
    fn users_take_turns() {
        let all = [(1, 5), (1, 6), (1, 7), (2, 1), (3, 9), (3, 10)].map(|key| (key, ()));
        let keys: Vec<(u32, i32)> = in_turns(BTreeMap::from(all)).into_iter().map(|(key, ())| key).collect();
        assert_eq!(keys, [(1, 5), (2, 1), (3, 9), (1, 6), (3, 10), (1, 7)]);
    }

    #[test]
    fn what_is_kept_is_private_and_gone_with_its_job() {
        let state = tempfile::tempdir().expect("a directory");
        let start = Start {
            words: vec!["pinfold".to_owned(), "submit".to_owned(), "x".to_owned()],
            environment: vec!["TOKEN=secret".to_owned()],
            ..Start::default()
        };
        let mut starts = Starts::open(state.path());
        starts.keep(JobId(7), 5, &start).expect("there is room");
        starts.keep(JobId(8), 6, &start).expect("there is room");
        let mode = |name: &str| {
            let found = fs::metadata(state.path().join(name)).expect("it is there");
            found.permissions().mode() & 0o777
        };
        assert_eq!((mode("starts"), mode("starts/7")), (0o700, 0o600));
        let size = json_bytes(&start);
        assert_eq!((starts.sizes.own(5), starts.sizes.all()), (size, 2 * size));
        assert!(starts.refusal(JobId(9), 5, &start, 2 * size).is_none(), "it fits");
        let words = starts.refusal(JobId(9), 5, &start, 2 * size - 1).expect("it does not fit");
        assert!(words.contains("will not come back") && words.contains("access.max_jobs_size"), "{words}");
        assert!(starts.refusal(JobId(7), 5, &start, size).is_none(), "in the place of another");
        let row = |job: u64, array: Option<u64>| {
            let place = array.map(|array| JobArray { array: Some(array), index: 3, at_most: None });
            let spec = JobSpec { array: place, ..JobSpec::default() };
            JobRow::asked_for(job, 0, String::new(), spec, 0)
        };
        let mut again = Starts::open(state.path());
        assert!(again.has(&row(7, None)) && again.has(&row(8, None)) && !again.has(&row(9, None)));
        assert!(again.has(&row(9, Some(7))), "a member has what its array has");
        assert!(!again.has(&row(7, Some(6))));
        assert_eq!(again.read(JobId(7)), Some(start));
        again.retain([row(12, Some(7))].iter());
        assert!(!again.has(&row(8, None)) && !state.path().join("starts/8").exists());
        assert!(again.has(&row(12, Some(7))), "the array is not over");
        assert_eq!((again.sizes.own(0), again.sizes.all()), (size, size));
        fs::write(state.path().join("starts/7"), "{").expect("it is ours");
        assert_eq!(again.read(JobId(7)), None, "half a file is none");
        again.forget(JobId(7));
        assert_eq!(Starts::open(state.path()).kept.len(), 0);
    }
}
