//! What it takes to keep a job that was submitted once its keeper is gone, after a restart of the host above all: the
//! command, environment and directory that it was handed over with.
//!
//! They lie in the state directory, which only the daemon's user can enter, a file for each job that is not over, and one
//! for all members of an array, which have one keeper; they are given to the job's own user and to root only, and are kept
//! for a while when the job is over (`ended`). The daemon does not start anything of what stands there: it has `pinfold keepers` called, which
//! asks for them and starts a keeper for each as its user. Where the daemon's own rights are cut down by what started it,
//! jobs would be cut down as well; then that has to call `pinfold keepers`, as the packaged service does.

pub(crate) mod ended;
mod keeping;

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command as Program, Stdio};

use pinfold_policy::{Command, Event as SchedulerEvent, JobId, Policy};
use pinfold_proto::JobState;
use pinfold_proto::row::{JobRow, Usage};
use pinfold_proto::start::{Start, StartOf};
use pinfold_proto::wire::{Reply, json_bytes};
use pinfold_sys::confined;
use pinfold_sys::files;
use pinfold_sys::peer::{self, Peer};

use crate::clients::quota::{self, Book};
use crate::clients::server::Server;
use crate::core::durable::After;
use crate::core::{ConnectionId, Ctx, Next, Outbox, crash, is_alive};
use crate::jobs::record::{Awaited, JobRecord};
use crate::jobs::table::JobTable;
use crate::store::journal::Journal;

use ended::Ended;

/// A job whose keepers ended so often before it started is given up.
const KEEPERS_MAX: u32 = 3;

/// Why a job waits that has no keeper.
const AWAITED: &str = "its keeper is gone; it waits for another (`pinfold keepers` starts it)";

/// Why a job is over for which no keeper can be had.
const UNREADABLE: &str =
    "what it was handed over with cannot be read any more; hand it over again if it is still wanted";

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
    /// Those of jobs that are over.
    ended: BTreeMap<u64, Ended>,
    /// What those of each user take.
    sizes: Book,
    /// Those that are kept as soon as it is on disk which of them have begun.
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
        // One that cannot be read for now may be whole; what is no regular file is none.
        let whole =
            |path: &Path| is_whole(path).unwrap_or_else(|error| error.kind() != io::ErrorKind::InvalidInput);
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
            ended: ended::open(&state.join("ended")),
            sizes: Book::default(),
            coming: BTreeSet::new(),
            called: None,
        }
    }

    /// Whether another keeper can be had for a job.
    pub(crate) fn has(&self, row: &JobRow) -> bool {
        let kept = kept_as(row).0;
        self.kept.contains_key(&kept) || self.coming.contains(&kept)
    }

    /// The last job of which there is a start.
    pub(crate) fn last(&self) -> Option<u64> {
        self.kept.keys().next_back().copied().max(self.ended.keys().next_back().copied())
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
        let text = serde_json::to_vec(start)?;
        let mut file = File::options().write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        // At once: the loop waits for each write.
        file.write_all(&text)?;
        crash::point("before a kept start has its name");
        fs::rename(&fresh, &path)?;
        crash::point("after a start was kept");
        let bytes = text.len() as u64;
        let before = self.kept.insert(job.0, Kept { uid, bytes }).unwrap_or_default();
        self.sizes.take(before.uid, before.bytes);
        self.sizes.add(uid, bytes);
        written.push(path);
        Ok(written)
    }

    fn read(&self, job: JobId) -> io::Result<Option<Start>> {
        read(&self.path(job))
    }

    /// A job does not come back.
    fn forget(&mut self, job: JobId) {
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
        self.ended.values().for_each(|ended| self.sizes.add(ended.kept.uid, ended.kept.bytes));
    }

    /// Why one more start of a user's is not kept, if it is not. Those of jobs that are over make room for it.
    fn refusal(&mut self, job: JobId, uid: u32, start: &Start, most: u64) -> Option<String> {
        let before = self.kept.get(&job.0).map_or(0, |kept| kept.bytes);
        let more = json_bytes(start).saturating_sub(before);
        let mut full = !self.sizes.has_room(uid, more, most);
        while full && self.drop_oldest(uid) {
            full = !self.sizes.has_room(uid, more, most);
        }
        full.then(|| quota::starts_too_large(self.sizes.own(uid), most))
    }

    fn path(&self, job: JobId) -> PathBuf {
        self.directory.join(job.0.to_string())
    }
}

/// Whether a file was written to its end: a power cut may leave less of it, or room without content.
fn is_whole(path: &Path) -> io::Result<bool> {
    let mut file = files::open_regular(path)?;
    let mut last = [0];
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(false);
    }
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"}")
}

/// `None`: it is gone, or is none. An error: it cannot be read for now.
fn read(path: &Path) -> io::Result<Option<Start>> {
    match files::read_regular(path) {
        Ok(text) => Ok(serde_json::from_slice(&text).ok()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Under which number it is kept what a job was handed over with: a member of an array has that of the array.
pub(crate) fn kept_as(row: &JobRow) -> JobId {
    JobId(row.spec.array.and_then(|place| place.array).unwrap_or(row.job))
}

impl Starts {
    /// Jobs that wait for a keeper: the peer's own; for root all. As many as one answer holds, one of each user before the
    /// second of any; a further request is told of the next, until there are none.
    pub(crate) fn starts_for(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        user: Peer,
    ) -> Reply {
        let now_us = ctx.clock.now_us();
        let theirs = |live: &JobRecord| user.uid == 0 || user.uid == live.row.uid;
        let is_due = |live: &JobRecord| live.awaits_keeper.is_some_and(|awaited| awaited.is_due(now_us));
        let mut due: BTreeMap<(u32, JobId), Vec<Member>> = BTreeMap::new();
        for live in table.values().filter(|live| theirs(live) && is_due(live)) {
            let member = (live.id(), live.row.spec.array.map(|place| place.index));
            due.entry((live.row.uid, kept_as(&live.row))).or_default().push(member);
        }
        let (mut starts, mut lost, mut bytes) = (Vec::new(), Vec::new(), 0);
        for ((uid, job), members) in in_turns(due) {
            if bytes >= PAGE_BYTES || starts.len() >= PAGE_STARTS {
                break;
            }
            for (member, _) in &members {
                let awaited = table.get_mut(member).and_then(|live| live.awaits_keeper.as_mut());
                awaited.into_iter().for_each(|awaited| awaited.called_us = Some(now_us));
            }
            // One that cannot be read keeps none of the others waiting.
            let start = match self.read(job) {
                Ok(Some(start)) => start,
                Ok(None) => {
                    lost.push(job);
                    continue;
                }
                Err(error) => {
                    tracing::warn!(job = job.0, %error, "what a job was handed over with cannot be read now");
                    continue;
                }
            };
            bytes += self.kept.get(&job.0).map_or(0, |kept| kept.bytes);
            let mut members: Vec<u32> = members.into_iter().filter_map(|(_, index)| index).collect();
            members.sort_unstable();
            starts.push(StartOf { job: job.0, members, uid, start });
        }
        strike_unreadable(out, table, &lost);
        Reply::Starts(starts)
    }

    /// A job begins though nothing of that can be written down: it must not come back and begin a second time.
    pub(crate) fn forget_unless_requeued(&mut self, journal: &mut Journal, table: &JobTable, job: JobId) {
        let once = |live: &JobRecord| !live.row.spec.requeue && live.row.spec.array.is_none();
        if journal.trouble().is_some() && table.get(&job).is_some_and(|live| once(live)) {
            self.forget(job);
        }
    }

    /// A job is over: what it was handed over with starts no keeper any more once that is on disk, unless it is an array's of
    /// which others are left. Until then a power cut leaves a job that is requeued, not one that is lost. Says whether
    /// there was anything.
    pub(crate) fn end_start(&mut self, out: &mut Outbox, row: &JobRow) -> bool {
        let was_kept = self.has(row);
        if was_kept {
            out.durable.after(After::EndStart(kept_as(row)));
        }
        was_kept
    }

    /// The end of a job, or of a member of an array, is on disk.
    pub(crate) fn end_unneeded(&mut self, ctx: &Ctx, table: &JobTable, kept: JobId) {
        if !table.contains_key(&kept) && !table.has_members(kept.0) {
            self.end(kept, ctx.clock.now_us());
        }
    }

    /// A job that ran when the host was restarted is to be requeued: whether it said so, and can be kept.
    pub(crate) fn is_requeued_by_reboot(&self, ctx: &Ctx, live: &JobRecord) -> bool {
        let ran = ctx.rebooted && live.has_started() && live.row.ending.is_none();
        ran && live.row.spec.requeue && self.has(&live.row)
    }

    /// A job that has not started lost its keeper: whether another one can be had. It is held until that one comes.
    pub(crate) fn awaits_new_keeper(
        &mut self,
        policy: &Policy,
        out: &mut Outbox,
        table: &mut JobTable,
        job: JobId,
    ) -> bool {
        let Some(live) = table.get_mut(&job) else { return false };
        let lost = live.keepers_lost + 1;
        let waits = !live.has_started() && live.container.is_none();
        // A workload manager that ended the keeper of a job ended the job.
        let tied = crate::jobs::record::is_tied(&live.row.spec);
        if !waits || tied || !self.has(&live.row) || lost > KEEPERS_MAX {
            return false;
        }
        (live.keeper, live.child, live.asked_child, live.keeper_watch) = (None, None, false, None);
        live.silent = None;
        live.does_not_begin();
        live.keepers_lost = lost;
        let held = live.awaits_keeper.map_or(live.row.state == JobState::Held, |awaited| awaited.held);
        live.awaits_keeper = Some(Awaited { held, called_us: None });
        live.row.reason = Some(AWAITED.to_owned());
        let granted = std::mem::take(&mut live.granted);
        out.journal.touch(job);
        if granted {
            let (action, error) = (table.start_action(job), "its keeper is gone".to_owned());
            out.step(SchedulerEvent::Failed { job, action, error });
        }
        if policy.job(job).is_some() {
            out.step(SchedulerEvent::Command(job, Command::Hold));
        } else {
            out.then(Next::Adopt(job, false));
        }
        out.then(Next::CallKeepers);
        true
    }

    /// Has keepers started for those that wait for one, if what this process starts has all its user's rights.
    pub(crate) fn call_keepers(&mut self, ctx: &Ctx, table: &JobTable, server: &Server) {
        if let Some(called) = &mut self.called
            && matches!(called.try_wait(), Ok(None))
        {
            // It may have asked already; keepers that come later are looked for every few seconds.
            return;
        }
        let now_us = ctx.clock.now_us();
        let waits = |live: &JobRecord| live.awaits_keeper.is_some_and(|awaited| awaited.is_due(now_us));
        if !table.values().any(|live| waits(live)) || is_cut_down() {
            self.called = None;
            return;
        }
        let beside = std::env::current_exe().ok().map(|own| own.with_file_name("pinfold"));
        let program = beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("pinfold"));
        let mut command = Program::new(&program);
        command.arg("--socket").arg(server.socket()).args(["--no-autostart", "keepers"]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        match command.spawn() {
            Ok(called) => self.called = Some(called),
            Err(error) => {
                tracing::warn!(program = %program.display(), %error, "no keepers can be started");
            }
        }
    }
}

/// Puts what the kernel says of the process at the other end in the place of what that says of itself: a job that
/// comes back with more than it had would have gained by a restart of the host.
///
/// # Errors
/// Why it cannot come back, held by no less than it is now.
pub(crate) fn held_as_now(
    ctx: &Ctx,
    server: &Server,
    id: ConnectionId,
    start: &mut Start,
) -> Result<(), String> {
    let gone = || "what connected has ended".to_owned();
    let process = server.process(id).ok_or_else(gone)?;
    start.umask &= 0o777;
    let own = peer::own_uid();
    if own != 0 && server.peer(id).is_some_and(|user| user.uid != own) {
        // A daemon without root's rights may not look at a client of root's. What it starts later has no more than
        // it has itself, whatever was said.
        return Ok(());
    }
    let limits = confined::limits(&ctx.proc, process.pid).ok().flatten().ok_or_else(gone)?;
    let adjusted = confined::oom_score_adj(&ctx.proc, process.pid);
    let beyond = confined::beyond_its_user(&ctx.proc, process.pid);
    // What was read is its own only if it still lives.
    if !is_alive(&ctx.proc, process) {
        return Err(gone());
    }
    (start.limits, start.oom_score_adj) = (limits, adjusted);
    beyond.map_or(Ok(()), Err)
}

/// No keeper can be had for jobs of which nobody knows any more what they were handed over with.
fn strike_unreadable(out: &mut Outbox, table: &JobTable, lost: &[JobId]) {
    let waits = |live: &JobRecord| live.awaits_keeper.is_some() && lost.contains(&kept_as(&live.row));
    let jobs: Vec<JobId> = table.values().filter(|live| waits(live)).map(|live| live.id()).collect();
    for job in jobs {
        out.then(Next::Withdraw(job, UNREADABLE));
    }
}

/// Puts it back as it was before its start.
pub(crate) fn requeue_after_reboot(ctx: &Ctx, live: &mut JobRecord) {
    live.waits_anew(ctx.clock.now_us());
    let row = &mut live.row;
    (row.requeuing, row.started_us, row.main, row.cpus) = (false, None, None, None);
    (row.suspended_us, row.usage, row.waits_since_us) = (0, Usage::default(), None);
    row.requeues = row.requeues.saturating_add(1);
}

/// The keeper of such a job has come.
pub(crate) fn keeper_came(out: &mut Outbox, table: &mut JobTable, job: JobId) {
    let Some(live) = table.get_mut(&job) else { return };
    let Some(Awaited { held, .. }) = live.awaits_keeper.take() else { return };
    live.row.reason = None;
    if !held {
        out.step(SchedulerEvent::Command(job, Command::Release));
    }
    out.then(Next::Follow(job));
    out.then(Next::Isolate);
}

/// A user holds or releases such a job: it counts once its keeper has come.
pub(crate) fn holds_awaited(table: &mut JobTable, job: JobId, command: Command) -> bool {
    let held = match command {
        Command::Hold | Command::Suspend => true,
        Command::Release | Command::Resume => false,
        _ => return false,
    };
    let Some(awaited) = table.get_mut(&job).and_then(|live| live.awaits_keeper.as_mut()) else {
        return false;
    };
    awaited.held = held;
    true
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
mod tests;
