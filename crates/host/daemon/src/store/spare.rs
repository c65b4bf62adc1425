//! Room on the disk that is had before it is needed: while the store cannot be written (a full disk above all), the rows
//! of jobs are kept in a file of their own, `spare` in the state directory, which is as long from the start as it ever
//! becomes. It is written in place, which needs no room. So an accepted job is on disk, and known after a crash.
//!
//! The file has two halves. Records are added to one; where that is full, those that still count are written to the
//! other, which has the larger generation from then on. Each record has a checksum that depends on the generation, so
//! that what an earlier use of a half left behind is no record.
//!
//! A record is whole, or brief: without the long texts that a job keeps as it was asked for, which an earlier record of
//! the half or the store has. So a change of a job with a long command takes no more room than another's.
//!
//! Owns that file. Absent: which rows are kept, and what follows from them (the journal).

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use pinfold_proto::row::JobRow;
use serde::{Deserialize, Serialize};

/// The size of the file, and the part of its file system that it takes at most.
const LENGTH: u64 = 2 << 20;
const PART: u64 = 8;
/// A file that is shorter is no good.
const LENGTH_MIN: u64 = 32 << 10;

/// How a half begins: these bytes, the generation, and a checksum of both.
const MAGIC: &[u8; 8] = b"pfspare1";
const HEAD: usize = 24;
/// Before a record stand its length and its checksum.
const RECORD_HEAD: usize = 12;

/// What is kept of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    pub row: JobRow,
    /// Whether anything was decided about it that the store does not know,
    pub decided: bool,
    /// and when that had it start, if it did.
    pub granted_us: Option<u64>,
    /// Whether the row lacks what was asked for at length: an earlier record, or the store, has it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_brief: bool,
}

impl Kept {
    /// The same without the long texts that stay as they were asked for.
    pub(crate) fn in_brief(mut self) -> Self {
        let spec = &mut self.row.spec;
        (spec.command, spec.after, spec.directory) = (Vec::new(), Vec::new(), String::new());
        spec.layout.iter_mut().for_each(|layout| layout.options = Vec::new());
        spec.checkpoint.iter_mut().for_each(|one| one.command = String::new());
        Self { is_brief: true, ..self }
    }

    /// The same with what a brief one lacks, from an earlier row of the job, which may be of a brief one itself.
    pub(crate) fn completed(mut self, earlier: &JobRow, earlier_is_brief: bool) -> Self {
        if !self.is_brief {
            return self;
        }
        let (spec, before) = (&mut self.row.spec, &earlier.spec);
        spec.command.clone_from(&before.command);
        spec.after.clone_from(&before.after);
        spec.directory.clone_from(&before.directory);
        for (layout, before) in spec.layout.iter_mut().zip(&before.layout) {
            layout.options.clone_from(&before.options);
        }
        for (one, before) in spec.checkpoint.iter_mut().zip(&before.checkpoint) {
            one.command.clone_from(&before.command);
        }
        Self { is_brief: earlier_is_brief, ..self }
    }
}

/// Records that are to take the place of all others.
#[derive(Debug)]
pub(crate) struct Anew {
    generation: u64,
    records: Vec<u8>,
    whole: BTreeSet<u64>,
    room: usize,
}

impl Anew {
    /// Adds a record, if all together are then no longer than `most`, in bytes, nor than there is room for; says whether.
    pub(crate) fn add(&mut self, kept: &Kept, most: usize) -> bool {
        let record = record(kept, self.generation);
        let fits = self.bytes() + record.len() <= most.min(self.room);
        if fits {
            self.records.extend(record);
            if !kept.is_brief {
                self.whole.insert(kept.row.job);
            }
        }
        fits
    }

    /// How long they are together.
    pub(crate) fn bytes(&self) -> usize {
        self.records.len()
    }
}

/// The file.
#[derive(Debug)]
pub(crate) struct Spare {
    path: PathBuf,
    file: io::Result<File>,
    half: usize,
    generation: u64,
    /// Where the next record goes, from the beginning of its half.
    end: usize,
    /// Jobs of which it has a whole record.
    whole: BTreeSet<u64>,
}

impl Spare {
    /// Opens the file, or makes it; gives what an earlier daemon kept there, the last of each job.
    pub(crate) fn open(state: &Path) -> (Self, Vec<Kept>) {
        let path = state.join("spare");
        let empty = io::Error::from(io::ErrorKind::NotFound);
        let mut spare =
            Self { path, file: Err(empty), half: 0, generation: 0, end: HEAD, whole: BTreeSet::new() };
        let kept = spare.open_again();
        (spare, kept)
    }

    /// Tries where the file could not be had; that it cannot is told if it is for another reason than before.
    fn open_again(&mut self) -> Vec<Kept> {
        let Err(before) = &self.file else { return Vec::new() };
        let before = before.kind();
        self.file = open(&self.path);
        let found = self.file().and_then(|_| std::fs::read(&self.path));
        match found {
            Ok(bytes) => self.load(&bytes),
            Err(error) => {
                if error.kind() != before {
                    tracing::warn!(path = %self.path.display(), %error, "no room is kept for jobs on a full disk");
                }
                self.file = Err(error);
                Vec::new()
            }
        }
    }

    /// Tries once more where the file could not be had, now that all is known: what an earlier daemon kept there is older, and
    /// must not be taken for newer. Gives the file if it is to be brought to disk.
    #[must_use]
    pub(crate) fn have_again(&mut self) -> Option<PathBuf> {
        self.missing()?;
        self.open_again();
        self.missing().is_none().then(|| self.clear()).flatten()
    }

    /// Why there is no room, and the file that would have it; `None`: there is.
    pub(crate) fn missing(&self) -> Option<(&Path, &io::Error)> {
        self.file.as_ref().err().map(|error| (self.path.as_path(), error))
    }

    /// Whether there is no room since the disk has none, which may change.
    pub(crate) fn lacks_room(&self) -> bool {
        self.missing().is_some_and(|(_, error)| is_for_lack_of_room(error.kind()))
    }

    fn load(&mut self, bytes: &[u8]) -> Vec<Kept> {
        self.half = bytes.len() / 2;
        // What was known is of an earlier file: records behind a head that this one lacks would not be found.
        (self.generation, self.end, self.whole) = (0, HEAD, BTreeSet::new());
        let halves = [&bytes[..self.half], &bytes[self.half..]];
        let Some(generation) = halves.iter().filter_map(|half| generation_of(half)).max() else {
            return Vec::new();
        };
        self.generation = generation;
        let half = halves[usize::from(generation % 2 == 1)];
        let mut last: BTreeMap<u64, Kept> = BTreeMap::new();
        while let Some(body) = record_at(half, self.end, generation) {
            self.end += RECORD_HEAD + body.len();
            match serde_json::from_slice::<Kept>(body) {
                Ok(kept) => {
                    let kept = match last.get(&kept.row.job) {
                        Some(before) => kept.completed(&before.row, before.is_brief),
                        None => kept,
                    };
                    last.insert(kept.row.job, kept);
                }
                Err(error) => {
                    tracing::error!(path = %self.path.display(), %error, "what is kept of a job cannot be read");
                }
            }
        }
        self.whole = last.values().filter(|kept| !kept.is_brief).map(|kept| kept.row.job).collect();
        last.into_values().collect()
    }

    /// How many bytes of records there is room for in all.
    pub(crate) fn room(&self) -> usize {
        if self.file.is_ok() { self.half.saturating_sub(HEAD) } else { 0 }
    }

    /// Whether it has a whole record of a job.
    pub(crate) fn has_whole(&self, job: u64) -> bool {
        self.whole.contains(&job)
    }

    /// How often all records were written anew.
    #[cfg(test)]
    pub(crate) fn rewritten(&self) -> u64 {
        self.generation
    }

    /// Adds a record; says whether there was room for it.
    ///
    /// # Errors
    /// As the disk refuses.
    pub(crate) fn add(&mut self, kept: &Kept) -> io::Result<bool> {
        if self.generation == 0 {
            self.file()?;
            let mut anew = self.anew();
            return if anew.add(kept, usize::MAX) { self.replace(anew).map(|()| true) } else { Ok(false) };
        }
        let record = record(kept, self.generation);
        if self.end + record.len() > self.half {
            return Ok(false);
        }
        self.write(self.generation, self.end, &record)?;
        self.end += record.len();
        if !kept.is_brief {
            self.whole.insert(kept.row.job);
        }
        Ok(true)
    }

    /// Records that are to take the place of all others: none yet.
    pub(crate) fn anew(&self) -> Anew {
        let (generation, room) = (self.generation + 1, self.room());
        Anew { generation, records: Vec::new(), whole: BTreeSet::new(), room }
    }

    /// Has these take the place of all others.
    ///
    /// # Errors
    /// As the disk refuses; then the others stay.
    pub(crate) fn replace(&mut self, anew: Anew) -> io::Result<()> {
        let Anew { generation, records, whole, .. } = anew;
        // The head last: until it is there, the other half counts.
        self.write(generation, HEAD, &records)?;
        let head = [&MAGIC[..], &generation.to_le_bytes()].concat();
        let head = [&head[..], &checksum(0, &head).to_le_bytes()].concat();
        self.write(generation, 0, &head)?;
        (self.generation, self.end, self.whole) = (generation, HEAD + records.len(), whole);
        Ok(())
    }

    /// The store has all again. Gives the file if it is to be brought to disk: after a power cut nothing of what is here may
    /// be taken for newer than the store.
    #[must_use]
    pub(crate) fn clear(&mut self) -> Option<PathBuf> {
        if self.end == HEAD {
            return None;
        }
        let cleared = self.replace(self.anew());
        if let Err(error) = cleared {
            // Older rows would be taken for newer ones by the next daemon.
            let removed = std::fs::remove_file(&self.path);
            tracing::warn!(path = %self.path.display(), %error, removed = removed.is_ok(), "no room is kept for jobs");
            self.file = Err(error);
            if removed.is_ok() {
                (self.generation, self.end, self.whole) = (0, HEAD, BTreeSet::new());
            }
            return None;
        }
        Some(self.path.clone())
    }

    fn file(&self) -> io::Result<&File> {
        self.file.as_ref().map_err(|error| io::Error::new(error.kind(), error.to_string()))
    }

    fn write(&self, generation: u64, at: usize, bytes: &[u8]) -> io::Result<()> {
        let from = if generation % 2 == 1 { self.half } else { 0 };
        self.file()?.write_all_at(bytes, (from + at) as u64)
    }
}

/// The file, which is made whole where it is not.
fn open(path: &Path) -> io::Result<File> {
    let open = |path: &Path| OpenOptions::new().read(true).write(true).open(path);
    if let Ok(file) = open(path)
        && file.metadata()?.len() >= LENGTH_MIN
    {
        return Ok(file);
    }
    let state = path.parent().unwrap_or(path);
    let most = pinfold_sys::files::capacity_bytes(state).unwrap_or(LENGTH) / PART;
    let length = LENGTH.min(most).min(pinfold_sys::own::file_size_max()) & !0xfff;
    if length < LENGTH_MIN {
        return Err(io::Error::other("its file system is too small"));
    }
    // A try that cannot succeed is not to take, for a moment, the last that others need.
    if pinfold_sys::files::available_bytes(state).is_some_and(|free| free < length) {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let new = path.with_extension("new");
    let made = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new).and_then(
        |mut file| {
            // Written, for a file with holes has no room yet.
            let zeros = vec![0; usize::try_from(length).unwrap_or(0)];
            file.write_all(&zeros)
        },
    );
    made.and_then(|()| std::fs::rename(&new, path)).inspect_err(|_| drop(std::fs::remove_file(&new)))?;
    open(path)
}

fn is_for_lack_of_room(kind: io::ErrorKind) -> bool {
    matches!(kind, io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

fn generation_of(half: &[u8]) -> Option<u64> {
    let head = half.get(..HEAD)?;
    let check = u64::from_le_bytes(head[16..].try_into().ok()?);
    (head.starts_with(MAGIC) && checksum(0, &head[..16]) == check)
        .then(|| u64::from_le_bytes(head[8..16].try_into().expect("eight bytes")))
}

fn record_at(half: &[u8], at: usize, generation: u64) -> Option<&[u8]> {
    let head = half.get(at..at + RECORD_HEAD)?;
    let length = usize::try_from(u32::from_le_bytes(head[..4].try_into().ok()?)).ok()?;
    let body = half.get(at + RECORD_HEAD..)?.get(..length)?;
    let check = u64::from_le_bytes(head[4..].try_into().ok()?);
    (length > 0 && checksum(generation, body) == check).then_some(body)
}

fn record(kept: &Kept, generation: u64) -> Vec<u8> {
    let body = serde_json::to_vec(kept).expect("texts and numbers always have a JSON form");
    // One as long finds no room anyway.
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    [&length.to_le_bytes()[..], &checksum(generation, &body).to_le_bytes(), &body].concat()
}

/// FNV-1a: what was not written whole is found out; nobody else writes here.
fn checksum(seed: u64, bytes: &[u8]) -> u64 {
    let add = |sum: u64, byte: &u8| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ 0xcbf2_9ce4_8422_2325, add)
}

#[cfg(test)]
mod tests {
    use pinfold_proto::JobSpec;

    use super::*;

    fn kept(job: u64, reason: &str) -> Kept {
        let row = JobRow::asked_for(job, 7, "ann".to_owned(), JobSpec::default(), 5);
        Kept {
            row: JobRow { reason: Some(reason.to_owned()), ..row },
            decided: true,
            granted_us: Some(job),
            is_brief: false,
        }
    }

    /// Has as many of these as there is room for take the place of all others; gives how many.
    fn rewrite(spare: &mut Spare, all: &[Kept]) -> u64 {
        let mut anew = spare.anew();
        let written = all.iter().take_while(|kept| anew.add(kept, usize::MAX)).count();
        spare.replace(anew).expect("it can be written");
        written as u64
    }

    fn reasons(found: &[Kept]) -> Vec<(u64, &str)> {
        found.iter().map(|kept| (kept.row.job, kept.row.reason.as_deref().expect("one"))).collect()
    }

    #[test]
    fn what_is_kept_is_found_again() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut spare, found) = Spare::open(dir.path());
        assert_eq!(found, []);
        let length = || std::fs::metadata(dir.path().join("spare")).expect("it is there").len();
        assert_eq!(length(), LENGTH);
        for (job, reason) in [(1, "waits"), (2, "waits"), (1, "runs")] {
            assert!(spare.add(&kept(job, reason)).expect("it can be written"));
        }
        let (mut spare, found) = Spare::open(dir.path());
        assert_eq!(reasons(&found), [(1, "runs"), (2, "waits")]);
        assert_eq!(found[0], kept(1, "runs"));
        // It goes on behind what is there.
        assert!(spare.add(&kept(3, "waits")).expect("it can be written"));
        rewrite(&mut spare, &[kept(2, "runs"), kept(3, "runs")]);
        let (mut spare, found) = Spare::open(dir.path());
        assert_eq!(reasons(&found), [(2, "runs"), (3, "runs")]);
        assert_eq!(spare.clear(), Some(dir.path().join("spare")), "it is to be flushed");
        assert_eq!((Spare::open(dir.path()).1, length()), (vec![], LENGTH));
        assert_eq!(spare.clear(), None, "nothing was in it");
        // What was in that half before is not found again.
        assert!(spare.add(&kept(4, "waits")).expect("it can be written"));
        assert_eq!(reasons(&Spare::open(dir.path()).1), [(4, "waits")]);
    }

    #[test]
    fn it_is_full_at_some_time_and_a_record_that_is_not_whole_is_none() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut spare, _) = Spare::open(dir.path());
        let mut job = 0;
        while spare.add(&kept(job + 1, "waits")).expect("it can be written") {
            job += 1;
        }
        assert!(job > 500, "{job}");
        let all: Vec<Kept> = (0..2 * job).map(|job| kept(job, "waits")).collect();
        let written = rewrite(&mut spare, &all);
        assert!(written.abs_diff(job) < 20, "{written} {job}");
        let file = spare.file().expect("it is there");
        let from = if spare.generation % 2 == 1 { spare.half } else { 0 };
        file.write_all_at(b"x", (from + spare.end - 3) as u64).expect("it can be written");
        assert_eq!(Spare::open(dir.path()).1.len() as u64, written - 1);
    }

    /// What a brief record lacks, an earlier one has, or the store.
    #[test]
    fn a_brief_record_lacks_nothing_in_the_end() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut spare, _) = Spare::open(dir.path());
        let command = vec!["long".repeat(5_000)];
        let asked = |job, reason| {
            let mut kept = kept(job, reason);
            (kept.row.spec.command, kept.row.spec.directory) = (command.clone(), "/d".to_owned());
            kept
        };
        assert!(spare.add(&asked(1, "waits")).expect("it can be written"));
        for reason in ["runs", "ends"] {
            let brief = asked(1, reason).in_brief();
            assert!(record(&brief, 1).len() < 2_000, "it is short");
            assert!(spare.add(&brief).expect("it can be written"));
        }
        assert!(spare.add(&asked(2, "runs").in_brief()).expect("it can be written"));
        assert_eq!((spare.has_whole(1), spare.has_whole(2)), (true, false));
        let (again, mut found) = Spare::open(dir.path());
        assert_eq!((again.has_whole(1), again.has_whole(2)), (true, false));
        assert_eq!(found.remove(0), asked(1, "ends"));
        let other = found.remove(0);
        assert!(other.is_brief && other.row.spec.command.is_empty());
        assert_eq!(other.completed(&asked(2, "waits").row, false), asked(2, "runs"));
    }

    /// What is written behind a file that was removed, since it could not be cleared, is found all the same.
    #[test]
    fn a_file_that_is_made_anew_begins_anew() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut spare, _) = Spare::open(dir.path());
        for job in 1..4 {
            assert!(spare.add(&kept(job, "waits")).expect("it can be written"));
        }
        spare.file = File::open(dir.path().join("spare"));
        assert_eq!(spare.clear(), None, "it cannot be written");
        assert!(spare.missing().is_some() && !dir.path().join("spare").exists());
        assert_eq!((spare.have_again(), spare.missing().is_none()), (None, true));
        assert!(spare.add(&kept(4, "waits")).expect("it can be written"));
        assert_eq!(reasons(&Spare::open(dir.path()).1), [(4, "waits")]);
    }

    #[test]
    fn a_file_that_cannot_be_had_keeps_nothing() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mut spare, found) = Spare::open(&dir.path().join("missing"));
        assert_eq!((spare.room(), found), (0, vec![]));
        assert!(spare.add(&kept(1, "waits")).is_err());
        std::fs::create_dir(dir.path().join("missing")).expect("a directory");
        assert!(!spare.lacks_room(), "room is not what it lacks");
        spare.open_again();
        assert_eq!(spare.missing().map(drop), None);
        assert!(spare.room() > 0 && spare.add(&kept(1, "waits")).expect("it can be written"));
    }
}
