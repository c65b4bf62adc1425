//! Which files jobs have open, looked at with each sample where `profile.files` says so.
//!
//! Bounded: up to [`PROCESSES_A_LOOK`] processes of a job at a look, the next ones at the next, and up to
//! [`FILES_A_PROCESS`] files of each. What is known goes to the journal every minute and when the job is over.

use std::collections::BTreeMap;

use pinfold_policy::JobId;
use pinfold_profile::files::{Files, Open, Use};
use pinfold_proto::row::FileRow;
use pinfold_sys::procfs::{Access, OpenFile, Proc};

use crate::core::Ctx;
use crate::store::journal::Journal;

/// Some 8 us a file, some files a process: half a millisecond a job.
const PROCESSES_A_LOOK: usize = 16;
/// Of so many what they read and wrote is added up, some 4 us each.
const PROCESSES_COUNTED: usize = 256;
/// More than most programs ever have open.
const FILES_A_PROCESS: usize = 128;
/// How often what is known goes to the journal.
const WRITE_EVERY_US: u64 = 60_000_000;

/// The files of all jobs that run.
#[derive(Debug, Default)]
pub(crate) struct JobFiles {
    jobs: BTreeMap<JobId, Seen>,
}

#[derive(Debug)]
struct Seen {
    files: Files,
    /// The process that is looked at first the next time, by its place.
    next: usize,
    written_us: u64,
}

/// What processes have open, as a thread aside found it (`readers`).
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// The processes that were looked at, ascending.
    at: Vec<u32>,
    open: Vec<Open>,
    /// What all processes of the job read and wrote so far.
    transferred: Option<(u64, u64)>,
}

impl Looked {
    /// Looks at these of a job's processes, which were all there were when they were listed. What started later only has the
    /// number of one of them: it may be another user's.
    pub(super) fn at(proc: &Proc, (pids, listed_ticks): (&[u32], u64), at: Vec<u32>) -> Self {
        if at.is_empty() {
            return Self::default();
        }
        // Asked once all is read: no other process had the number before then.
        let is_listed =
            |pid: u32| proc.stat(pid).ok().flatten().is_some_and(|stat| stat.start_ticks <= listed_ticks);
        let mut open = Vec::new();
        for &pid in &at {
            let Ok(Some((files, _))) = proc.open_files(pid, FILES_A_PROCESS) else { continue };
            if is_listed(pid) {
                open.extend(files.into_iter().map(|file| opened(pid, file)));
            }
        }
        Self { at, open, transferred: transferred(pids, proc, is_listed) }
    }
}

impl JobFiles {
    /// Which of a job's processes, ascending, are to be looked at next: none, if that is not wanted.
    pub(super) fn next_looked_at(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        job: JobId,
        pids: &[u32],
        now_us: u64,
    ) -> Vec<u32> {
        if !ctx.configured.config.profile_files {
            return Vec::new();
        }
        let seen = self.jobs.entry(job).or_insert_with(|| Seen {
            files: Files::resume(journal.store().files(job.0).unwrap_or_default()),
            next: 0,
            written_us: now_us,
        });
        let count = pids.len().min(PROCESSES_A_LOOK);
        let first = if pids.len() > PROCESSES_A_LOOK { seen.next % pids.len() } else { 0 };
        let mut looked_at: Vec<u32> = pids.iter().cycle().skip(first).take(count).copied().collect();
        looked_at.sort_unstable();
        seen.next = first + count;
        looked_at
    }

    /// Takes in what a job's processes, which are all there are, have open. Gives rows that are to be written.
    pub(super) fn look_at_files(
        &mut self,
        job: JobId,
        pids: &[u32],
        looked: Looked,
        now_us: u64,
    ) -> Vec<FileRow> {
        let Some(seen) = self.jobs.get_mut(&job).filter(|_| !looked.at.is_empty()) else { return Vec::new() };
        if let Some((read_bytes, write_bytes)) = looked.transferred {
            seen.files.transferred(read_bytes, write_bytes);
        }
        seen.files.keep_only(pids);
        seen.files.look(job.0, &looked.at, &looked.open, now_us);
        if now_us.saturating_sub(seen.written_us) < WRITE_EVERY_US {
            return Vec::new();
        }
        seen.written_us = now_us;
        seen.files.take_changed()
    }

    /// A job is over: its last rows.
    pub(crate) fn finish(&mut self, job: JobId) -> Vec<FileRow> {
        self.jobs.remove(&job).map_or_else(Vec::new, |mut seen| seen.files.take_changed())
    }

    /// Nothing is looked at any more: what is not written yet.
    pub(crate) fn stop(&mut self) -> Vec<FileRow> {
        std::mem::take(&mut self.jobs).into_values().flat_map(|mut seen| seen.files.take_changed()).collect()
    }

    fn of(&self, job: JobId) -> Option<&Files> {
        self.jobs.get(&job).map(|seen| &seen.files)
    }
}

impl JobFiles {
    /// The files of a job, by path; how many more were counted, while it runs.
    pub(crate) fn file_rows(&mut self, journal: &mut Journal, job: JobId) -> (Vec<FileRow>, Option<u64>) {
        let mut rows: BTreeMap<String, FileRow> = BTreeMap::new();
        let stored = journal.store().files(job.0).unwrap_or_default();
        for row in stored.iter().chain(journal.files_of(job)) {
            rows.insert(row.path.clone(), row.clone());
        }
        let live = self.of(job);
        for row in live.into_iter().flat_map(Files::rows) {
            rows.insert(row.path.clone(), row.clone());
        }
        (rows.into_values().collect(), live.map(Files::others))
    }
}

/// What these processes read and wrote so far, from and to anywhere, as far as they are still those that were listed; `None`:
/// they are many.
fn transferred(pids: &[u32], proc: &Proc, is_listed: impl Fn(u32) -> bool) -> Option<(u64, u64)> {
    if pids.len() > PROCESSES_COUNTED {
        return None;
    }
    let all = pids.iter().filter_map(|&pid| proc.io(pid).ok().flatten().filter(|_| is_listed(pid)));
    Some(all.fold((0, 0), |(read, written): (u64, u64), io| {
        (read.saturating_add(io.read_chars), written.saturating_add(io.write_chars))
    }))
}

fn opened(pid: u32, file: OpenFile) -> Open {
    Open {
        pid,
        descriptor: file.descriptor,
        path: if file.removed { format!("{} (removed)", file.path) } else { file.path },
        file: file.file,
        how: match file.access {
            Access::Read => Use::Read,
            Access::Write => Use::Write,
            Access::Both => Use::Both,
        },
        append: file.append,
        position_bytes: file.position_bytes,
        size_bytes: file.size_bytes,
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn another_process_that_got_a_number_of_the_list_is_not_looked_at() {
        let root = tempfile::tempdir().unwrap();
        for pid in [1, 2] {
            let dir = root.path().join(pid.to_string());
            std::fs::create_dir_all(dir.join("fd")).unwrap();
            std::fs::create_dir(dir.join("fdinfo")).unwrap();
            let (start, rest) = (70 + pid, "0 ".repeat(28));
            let stat = format!("{pid} (a) S 1 1 1 0 -1 0 5 0 0 0 1 2 0 0 20 0 1 0 {start} 1000 90 {rest}");
            std::fs::write(dir.join("stat"), stat).unwrap();
            let io = "rchar: 10\nwchar: 20\nsyscr: 1\nsyscw: 1\nread_bytes: 0\nwrite_bytes: 0\n\
                      cancelled_write_bytes: 0\n";
            std::fs::write(dir.join("io"), io).unwrap();
            let file = root.path().join(format!("file-{pid}"));
            std::fs::write(&file, "x").unwrap();
            std::os::unix::fs::symlink(&file, dir.join("fd/3")).unwrap();
            std::fs::write(dir.join("fdinfo/3"), "pos:\t1\nflags:\t0100000\nmnt_id:\t1\n").unwrap();
        }
        let proc = Proc::open(Path::new(root.path())).unwrap();
        let looked = |listed_ticks| {
            let looked = Looked::at(&proc, (&[1, 2], listed_ticks), vec![1, 2]);
            (looked.open.iter().map(|open| open.pid).collect::<Vec<_>>(), looked.transferred)
        };
        assert_eq!(looked(72), (vec![1, 2], Some((20, 40))));
        assert_eq!(looked(71), (vec![1], Some((10, 20))));
    }
}
