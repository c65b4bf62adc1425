//! Following every process of every job: the kernel's records and the samples go into the census, its rows into
//! the journal. While nothing runs and nobody keeps a job, the records stay unread, and are closed after a while:
//! an idle host is not woken for other people's processes.

use pinfold_policy::JobId;
use pinfold_profile::census::{Census, End, Seen, Told};
use pinfold_proto::row::{Counts, ProcessRow, ProcessUsage, ProcessesFrom};
use pinfold_proto::view::ThreadView;
use pinfold_sys::procfs::{Member, Proc, ProcessStat};
use pinfold_sys::records::{self, Records, Source, Taken};

use crate::core::Ctx;
use crate::jobs::{JobTable, Jobs};
use crate::meters::shares::Shares;
use crate::store::journal::Journal;

/// How long records may wait in the kernel: its room holds some 10,000 of them, and more than 40,000 processes a
/// second no host starts.
const TAKE_EVERY_US: u64 = 250_000;
/// The same while many come.
const TAKE_SOON_US: u64 = 50_000;
/// So many at once are many.
const MANY: usize = 1_000;
/// So many messages of each source are taken at a time; what is left is taken in the next turn of the loop. Jobs can start
/// and end processes as fast as they are read.
const PORTION: usize = 1_000;
/// So many are taken in one turn at most, if the ends of jobs wait for what was told before them.
const A_TURN: usize = 8_000;
/// How long records stay open after the last job.
const CLOSE_AFTER_US: u64 = 60_000_000;
/// Waits and switches are read of so many processes of a job with each sample, some 15 us each,
const TURNS_SAMPLED: usize = 8;
/// and of so many when somebody asks for them.
const TURNS_ASKED: usize = 200;
/// So many threads of a job are told at most: some 7 us each, and meanwhile the loop answers nobody else.
const THREADS_TOLD: usize = 4_096;

/// The records, the census, and when to look next.
#[derive(Debug)]
pub(crate) struct Processes {
    enabled: bool,
    records: Option<Records>,
    census: Census,
    due_us: Option<u64>,
    used_us: u64,
    /// Processes that keep jobs and are connected.
    keepers: usize,
    /// Words were lost since the last sample.
    lost: bool,
    /// More may wait than was taken the last time.
    behind: bool,
    /// So many messages may still be taken in this turn.
    left: usize,
}

/// What came of taking records.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Took {
    /// Some were lost.
    lost: bool,
    /// More may wait.
    more: bool,
}

impl Processes {
    /// Nothing is followed yet. `enabled`: `profile.processes`.
    pub(crate) fn new(enabled: bool) -> Self {
        Self {
            enabled,
            records: None,
            census: Census::default(),
            due_us: None,
            used_us: 0,
            keepers: 0,
            lost: false,
            behind: false,
            left: A_TURN,
        }
    }

    /// A turn of the loop begins.
    pub(crate) fn begin_turn(&mut self) {
        self.left = A_TURN;
    }

    /// Whether processes are followed one by one.
    pub(crate) fn enabled(&self) -> bool {
        self.enabled
    }

    /// Changes that; rows of jobs that run end with what was known.
    pub(crate) fn enable(&mut self, enabled: bool) {
        if self.enabled && !enabled {
            *self = Self { keepers: self.keepers, ..Self::new(false) };
        }
        self.enabled = enabled;
    }

    /// When records are to be taken next.
    pub(crate) fn due_us(&self) -> Option<u64> {
        self.due_us
    }

    /// A process that forks jobs' first processes: from now on records are heard.
    pub(crate) fn keeper(&mut self, pid: u32, now_us: u64) {
        self.keepers += 1;
        if !self.enabled {
            return;
        }
        self.open(now_us);
        self.census.keeper(pid);
    }

    /// It is gone.
    pub(crate) fn keeper_gone(&mut self, pid: u32) {
        self.keepers = self.keepers.saturating_sub(1);
        self.census.keeper_gone(pid);
    }

    /// A job begins with this process.
    pub(crate) fn bind(&mut self, job: JobId, pid: u32, now_us: u64) {
        if self.enabled {
            self.open(now_us);
            self.census.bind(pid, job.0, now_us);
        }
    }

    /// A job of an earlier life: what is known of its processes.
    pub(crate) fn resume(&mut self, job: JobId, total: u64, known: &[ProcessRow]) {
        if self.enabled {
            let last_number = known.iter().map(|row| row.number).max().unwrap_or(0);
            self.census.resume(job.0, total, last_number, known);
        }
    }

    /// How the processes of jobs are found now.
    pub(crate) fn from(&self) -> ProcessesFrom {
        match (self.enabled, self.records.as_ref().map(Records::source)) {
            (true, Some(Source::Full)) => ProcessesFrom::Records,
            (true, Some(Source::Births)) => ProcessesFrom::Events,
            _ => ProcessesFrom::Samples,
        }
    }

    fn open(&mut self, now_us: u64) {
        self.used_us = now_us;
        if self.records.is_none() {
            let records = Records::open();
            tracing::info!(source = records.source().as_str(), why = %records.why_not(), "following processes");
            self.records = Some(records);
            // What was lost of those before concerns none that is born from now on.
            self.census.caught_up();
        }
        // If there was nothing to look for until now, others' processes may have left much to be read.
        self.due_us.get_or_insert(now_us);
    }

    /// Takes a portion of what the kernel has told, or `all` of it, as far as this turn allows.
    fn take(&mut self, now_us: u64, all: bool) -> Took {
        let Some(mut records) = self.records.take() else { return Took::default() };
        let took = self.take_from(now_us, all, |most| records.take(most));
        self.records = Some(records);
        took
    }

    fn take_from(&mut self, now_us: u64, all: bool, mut take: impl FnMut(usize) -> Taken) -> Took {
        let (mut took, mut messages) = (Took { lost: false, more: true }, 0);
        let mut is_caught_up = false;
        while took.more && self.left > 0 {
            // Of two sources, each as many.
            let taken = take(PORTION.min(self.left.div_ceil(2)));
            for birth in &taken.births {
                self.census.born(birth.pid, birth.parent, now_us.saturating_sub(birth.age_us));
            }
            if taken.lost {
                // The births of these may be among what was lost.
                self.census.untrace();
            }
            for end in &taken.ends {
                self.census.ended(&self::end(end), now_us);
            }
            self.left = self.left.saturating_sub(taken.messages);
            messages += taken.messages;
            is_caught_up = !taken.lost && !taken.more;
            if is_caught_up {
                self.census.caught_up();
            }
            took = Took { lost: took.lost || taken.lost, more: taken.more };
            if !all {
                break;
            }
        }
        let wait_us = match took.more {
            true => 0,
            false if messages > MANY => TAKE_SOON_US,
            false => TAKE_EVERY_US,
        };
        self.due_us = Some(now_us + wait_us);
        self.behind = took.more;
        took.lost &= !self.census.is_idle();
        if took.lost {
            self.census.lost(now_us);
            self.lost = true;
            // The loss came before what was read last.
            if is_caught_up {
                self.census.caught_up();
            }
        }
        took
    }

    /// Stops looking while there is nothing to look for.
    fn rest(&mut self, busy: bool, now_us: u64) {
        if busy {
            self.used_us = now_us;
            return;
        }
        self.census.sweep(now_us);
        self.due_us = None;
        if now_us.saturating_sub(self.used_us) > CLOSE_AFTER_US {
            self.records = None;
        }
    }

    /// A sample of one job: which of its processes are alive, and those that were read and had changed.
    pub(crate) fn sampled(
        &mut self,
        job: JobId,
        alive: &[u32],
        changed: &[Member],
        now_us: u64,
    ) -> Vec<ProcessRow> {
        let seen: Vec<Seen> = changed.iter().map(seen).collect();
        let told = match self.from() {
            ProcessesFrom::Samples => Told::Nothing,
            _ if self.lost => Told::Nothing,
            _ if self.behind => Told::InPart,
            _ => Told::All,
        };
        self.census.sampled(job.0, alive, &seen, told, now_us);
        self.census.changed(job.0)
    }

    /// All jobs were sampled.
    pub(crate) fn round_done(&mut self) {
        self.lost = false;
    }

    /// How many processes a job has had.
    pub(crate) fn total(&self, job: JobId) -> u64 {
        self.census.total(job.0)
    }

    /// Those that are alive.
    pub(crate) fn living(&self, job: JobId) -> Vec<ProcessRow> {
        self.census.living(job.0)
    }

    /// What the processes of a job did, counted.
    pub(crate) fn counts(&self, job: JobId) -> Counts {
        self.census.counts(job.0)
    }

    /// Reads how these processes came by their processors, where the kernel will not tell it at their end, and they are
    /// few. What was read of them may be of a while ago: another process may have the number by now.
    pub(crate) fn take_turns(&mut self, proc: &Proc, changed: &[Member]) {
        if self.from() != ProcessesFrom::Records && changed.len() <= TURNS_SAMPLED {
            for member in changed {
                let its = |now: ProcessStat| now.start_ticks == member.start_ticks;
                self.take_turns_of(proc, member.pid, || {
                    proc.stat(member.pid).ok().flatten().is_some_and(its)
                });
            }
        }
    }

    /// `is_it`: whether what has the number is still the process that is meant.
    fn take_turns_of(&mut self, proc: &Proc, pid: u32, is_it: impl FnOnce() -> bool) {
        if let Ok(Some(turns)) = proc.turns(pid)
            && is_it()
        {
            self.census.counted(pid, turns.waited_us, turns.voluntary, turns.forced);
        }
    }

    /// A job is over: what its processes did, and its last rows.
    pub(crate) fn finish(&mut self, job: JobId, now_us: u64) -> (Counts, Vec<ProcessRow>) {
        self.census.close(job.0, now_us);
        (self.census.counts(job.0), self.census.finish(job.0, now_us))
    }

    /// Rows that changed since the last sample.
    pub(crate) fn changed(&mut self, job: JobId) -> Vec<ProcessRow> {
        self.census.changed(job.0)
    }
}

impl Processes {
    /// Hears a portion of what the kernel told of processes since the last time.
    pub(crate) fn read_records(&mut self, ctx: &Ctx, jobs: &mut Jobs, shares: &mut Shares) {
        self.read(ctx, jobs, shares, false);
    }

    /// Hears all that the kernel told before now: what is told of this job is to be whole. A turn reads so much at most;
    /// beyond that the job has gaps.
    pub(crate) fn catch_up(&mut self, ctx: &Ctx, jobs: &mut Jobs, shares: &mut Shares, job: JobId) {
        if self.read(ctx, jobs, shares, true).more {
            let meter = jobs.table.get_mut(&job).and_then(|live| live.meter.as_mut());
            meter.into_iter().for_each(|meter| meter.processes_from(ProcessesFrom::Gaps));
        }
    }

    fn read(&mut self, ctx: &Ctx, jobs: &mut Jobs, shares: &mut Shares, all: bool) -> Took {
        // Before anything is heard of their ends.
        for (pid, share) in shares.take() {
            self.census.divided(pid, share.bytes, share.time_us);
        }
        let now_us = ctx.clock.now_us();
        let took = self.take(now_us, all);
        if took.lost {
            tracing::warn!("records of processes were lost; those that live are found by samples");
            for job in &jobs.running {
                if let Some(meter) = jobs.table.get_mut(job).and_then(|live| live.meter.as_mut()) {
                    meter.processes_from(ProcessesFrom::Gaps);
                }
            }
        }
        self.rest(!jobs.running.is_empty() || self.keepers > 0, now_us);
        took
    }

    /// Follows a job that was found again: those of its processes that are alive, and what the store knows.
    pub(crate) fn follow_again(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        table: &mut JobTable,
        job: JobId,
    ) {
        let now_us = ctx.clock.now_us();
        let known = journal.store().processes(job.0).unwrap_or_default();
        let Some(live) = table.get_mut(&job) else { return };
        self.resume(job, live.row.usage.processes_total, &known);
        let pids = live.container.as_ref().and_then(|container| container.pids().ok()).unwrap_or_default();
        pids.iter().for_each(|&pid| self.bind(job, pid, now_us));
        if let Some(meter) = &mut live.meter {
            meter.processes_from(ProcessesFrom::Gaps);
        }
    }

    /// The processes of a job, over and alive, by number.
    pub(super) fn process_rows(&self, journal: &mut Journal, job: JobId) -> Vec<ProcessRow> {
        let mut rows = journal.store().processes(job.0).unwrap_or_default();
        for row in journal.processes_of(job) {
            rows.retain(|known| known.number != row.number);
            rows.push(row.clone());
        }
        rows.extend(self.living(job));
        rows.sort_by_key(|row| row.number);
        rows
    }

    /// Reads how processes that somebody asks for came by their processors.
    pub(super) fn take_turns_asked(&mut self, ctx: &Ctx, pids: &[u32]) {
        if self.enabled() {
            pids.iter().take(TURNS_ASKED).for_each(|&pid| self.take_turns_of(&ctx.proc, pid, || true));
        }
    }
}

/// The threads of a job that runs, up to [`THREADS_TOLD`]; and how many more there are by the last sample, if any.
pub(crate) fn threads(ctx: &Ctx, table: &JobTable, job: JobId) -> (Vec<ThreadView>, Option<u64>) {
    let Some(live) = table.get(&job) else { return (Vec::new(), None) };
    let pids = live.container.as_ref().and_then(|container| container.pids().ok()).unwrap_or_default();
    let (told, more) = threads_of(&ctx.proc, &pids, THREADS_TOLD);
    // Those left out are not counted one by one: that would take as long as to tell them.
    let left_out = more.then(|| live.members.sums().threads.saturating_sub(told.len() as u64).max(1));
    (told, left_out)
}

/// The threads of these processes, and whether there are more than `most` to be looked at: one that is gone counts, and
/// so does a process of which nothing is read.
fn threads_of(proc: &Proc, pids: &[u32], most: usize) -> (Vec<ThreadView>, bool) {
    let (mut told, mut left) = (Vec::new(), most);
    for &pid in pids {
        if left == 0 {
            return (told, true);
        }
        let (threads, more) = proc.some_threads(pid, left).ok().flatten().unwrap_or_default();
        left = left.saturating_sub(threads.len().max(1));
        told.extend(threads.into_iter().filter_map(|thread| thread_view(proc, pid, thread)));
        if more {
            return (told, true);
        }
    }
    (told, false)
}

fn thread_view(proc: &Proc, pid: u32, thread: u32) -> Option<ThreadView> {
    let (stat, waited_us) = proc.thread(pid, thread).ok().flatten()?;
    Some(ThreadView {
        pid,
        thread,
        name: stat.name,
        state: stat.state.to_string(),
        cpu_user_s: pinfold_proto::view::seconds(stat.cpu_user_us),
        cpu_system_s: pinfold_proto::view::seconds(stat.cpu_system_us),
        waited_s: waited_us.map(pinfold_proto::view::seconds),
        pu: stat.pu,
    })
}

fn end(end: &records::End) -> End {
    let figures = end.figures.as_ref();
    End {
        pid: end.process,
        parent: end.parent,
        is_last: end.is_last,
        exit_code: end.exit_code,
        signal: end.signal,
        name: figures.map(|figures| figures.name.clone()).unwrap_or_default(),
        lived_us: figures.map_or(0, |figures| figures.process_lived_us.max(figures.lived_us)),
        used: figures.map(|figures| ProcessUsage {
            cpu_user_us: figures.cpu_user_us,
            cpu_system_us: figures.cpu_system_us,
            waited_us: figures.waited_us,
            memory_peak_bytes: figures.rss_peak_bytes,
            virtual_peak_bytes: Some(figures.virtual_peak_bytes).filter(|&bytes| bytes > 0),
            io_read_bytes: figures.io_read_bytes,
            io_write_bytes: figures.io_write_bytes,
            io_read_calls: figures.io_read_calls,
            io_write_calls: figures.io_write_calls,
            faults_minor: figures.faults_minor,
            faults_major: figures.faults_major,
            switches_voluntary: figures.switches_voluntary,
            switches_forced: figures.switches_forced,
        }),
    }
}

fn seen(member: &Member) -> Seen {
    let io = member.io.unwrap_or_default();
    Seen {
        pid: member.pid,
        parent: member.parent,
        command: member.command.clone(),
        started_us: member.started_us,
        threads: member.threads,
        used: ProcessUsage {
            cpu_user_us: member.cpu_user_us,
            cpu_system_us: member.cpu_system_us,
            memory_peak_bytes: member.resident_bytes,
            virtual_peak_bytes: Some(member.virtual_bytes),
            io_read_bytes: io.read_bytes,
            io_write_bytes: io.write_bytes,
            io_read_calls: io.read_calls,
            io_write_calls: io.write_calls,
            faults_minor: member.faults_minor,
            faults_major: member.faults_major,
            ..ProcessUsage::default()
        },
    }
}

#[cfg(test)]
mod tests;
