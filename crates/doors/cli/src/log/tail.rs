//! A job's files, read to their ends, or followed until the job is over.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, IsTerminal, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use pinfold_proto::view::JobView;
use pinfold_proto::wire::{Reply, Request};
use pinfold_proto::{ExitCode, JobState};

use crate::again::until_next;
use crate::print::{is_open, needs_output, say};
use pinfold_client::{Client, Dial, Failure, unexpected};

/// How often a file is looked at that may grow.
const LOOK: Duration = Duration::from_millis(200);

/// A file that a job is about to make as it starts is there within this many looks.
const LOOKS_FOR_NEW: u32 = 5;

/// The time to look for a lost daemon: a replaced daemon is back by then.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// The daemon, asked about jobs while their files are read.
pub(super) struct Jobs<'a> {
    dial: &'a Dial,
    pub(super) client: Client,
}

impl<'a> Jobs<'a> {
    pub(super) fn of(dial: &'a Dial) -> Result<Self, Failure> {
        Ok(Self { dial, client: dial.connect()? })
    }

    /// A job's status; `None`: the daemon does not know the job.
    pub(super) fn status(&mut self, job: u64) -> Result<Option<JobView>, Failure> {
        let until = Instant::now() + BACK_WITHIN;
        loop {
            match self.client.ask(&Request::Status { jobs: vec![job], all: true, at_us: None }) {
                Ok(Reply::Status(mut view)) => return Ok(view.jobs.pop()),
                Ok(other) => return Err(unexpected(&other)),
                Err(failure) if failure.code == ExitCode::NoDaemon && Instant::now() < until => {
                    std::thread::sleep(LOOK);
                    // A private daemon started here would take the place of a daemon that is just being replaced.
                    if let Some(client) = self.dial.connect_if_there() {
                        self.client = client;
                    }
                }
                Err(failure) => return Err(failure),
            }
        }
    }

    fn is_over(&mut self, job: u64) -> Result<bool, Failure> {
        Ok(self.status(job)?.is_none_or(|view| view.state == JobState::Exited))
    }

    /// Says that a job has not started, if so; gives whether it has not.
    fn says_it_waits(&mut self, job: u64, name: &str) -> Result<bool, Failure> {
        let waits = |view: JobView| view.started_s.is_none() && view.state != JobState::Exited;
        let waits = self.status(job)?.is_some_and(waits);
        if waits {
            say(&format!("job {name} has not started yet; `pinfold why {name}` says what it waits for"));
        }
        Ok(waits)
    }

    /// Prints the output of a job, called `name` in messages, from these files, at most two; with `follow` until the job is over.
    /// The second goes to standard error, on a terminal behind a heading.
    pub(super) fn print(
        &mut self,
        job: u64,
        name: &str,
        paths: &[PathBuf],
        follow: bool,
    ) -> Result<(), Failure> {
        if follow {
            needs_output("--follow")?
        } else {
            is_open()?
        }
        let waits = self.says_it_waits(job, name)?;
        let (mut files, mut failed) = (Vec::new(), None);
        for (at, path) in paths.iter().enumerate() {
            match self.opened(job, name, path, follow, waits) {
                Ok(file) => files.extend(file.map(|file| Followed::new(file, path, at > 0))),
                Err(failure) => failed = Some(failure),
            }
        }
        match failed {
            Some(failure) if files.is_empty() => return Err(failure),
            // Perhaps a device, or removed by its user: the other file is followed all the same.
            Some(failure) => say(&failure.message),
            None if files.is_empty() => return Ok(()),
            None => {}
        }
        let (mut shown, mut bytes) = (false, 0);
        loop {
            // Asked before the files are read: its last output is read after.
            let over = !follow || self.is_over(job)?;
            for file in &mut files {
                match file.print(&mut shown).map_err(|error| reading(name, &file.path, &error))?? {
                    Some(count) => bytes += count,
                    None => return Ok(()),
                }
            }
            if over {
                return if bytes == 0 { self.tell_silence(job, name, paths) } else { Ok(()) };
            }
            for file in &mut files {
                let path = file.path.display().to_string();
                match file.look() {
                    Seen::Same => {}
                    Seen::Removed => say(&format!(
                        "{path}, where job {name} writes, was removed; what it writes is followed in the removed file"
                    )),
                    Seen::Replaced => say(&format!(
                        "{path}, where job {name} writes, was replaced; what follows is from the new file"
                    )),
                }
            }
            if !until_next(LOOK) {
                return Ok(());
            }
        }
    }

    /// Reports a failed job without output.
    fn tell_silence(&mut self, job: u64, name: &str, paths: &[PathBuf]) -> Result<(), Failure> {
        let failed = |view: JobView| view.state == JobState::Exited && !view.ended_well();
        if self.status(job)?.is_some_and(failed) {
            let files: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            let files = files.join(" and ");
            say(&format!("job {name} failed and wrote nothing to {files}; `pinfold why {name}` says more"));
        }
        Ok(())
    }

    /// The file; `None`: it is not there yet, as an array member's file is made at its start, and no reader waits for
    /// it any more, or it never came.
    fn opened(
        &mut self,
        job: u64,
        name: &str,
        path: &Path,
        follow: bool,
        waits: bool,
    ) -> Result<Option<File>, Failure> {
        let (mut waits, mut looks) = (waits, 0);
        let found = loop {
            // Asked before the file is looked for: a job that began and ended has made it by then.
            let over = !follow || self.is_over(job)?;
            match std::fs::metadata(path) {
                // A job that has just begun may be about to make it.
                Err(error) if error.kind() == ErrorKind::NotFound && (waits || !over) => {}
                found => break found.map_err(|error| reading(name, path, &error))?,
            }
            if over {
                return Ok(None);
            }
            looks += u32::from(!waits);
            if looks == LOOKS_FOR_NEW {
                let text = "is not there; if it is made again, it is followed from then on";
                say(&format!("{}, where job {name} writes, {text}", path.display()));
            }
            if !until_next(LOOK) {
                return Ok(None);
            }
            waits = self.status(job)?.is_some_and(|view| view.started_s.is_none());
        };
        // A device or a pipe would never end, or take input from another reader.
        if !found.is_file() {
            let text =
                format!("job {name} writes to {}, which is no file that could be read again", path.display());
            return Err(Failure::new(ExitCode::Failed, text));
        }
        File::open(path).map(Some).map_err(|error| reading(name, path, &error))
    }
}

/// A file that is read as it grows.
struct Followed {
    file: File,
    path: PathBuf,
    /// The file is a job's standard error, printed beside the output.
    errors: bool,
    /// No file is at its path any more; reported once.
    is_removed: bool,
}

/// The fate of a followed file since the last look.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// No change since the last look.
    Same,
    /// The file is gone from its path. Processes that have it open still write to it.
    Removed,
    /// Another file is at its path, and read from its start from now on.
    Replaced,
}

impl Followed {
    fn new(file: File, path: &Path, errors: bool) -> Self {
        Self { file, path: path.to_owned(), errors, is_removed: false }
    }

    /// Prints its new content, and gives its bytes; `None`: the reader is gone. `shown`: whether errors were printed
    /// last. The inner error is of the output.
    fn print(&mut self, shown: &mut bool) -> std::io::Result<Result<Option<u64>, Failure>> {
        // A job that begins anew empties its file, and so do programs that rotate logs.
        if self.file.stream_position()? > self.file.metadata()?.size() {
            self.file.seek(SeekFrom::Start(0))?;
        }
        let to_err = self.errors && !std::io::stdout().is_terminal();
        let (mut buffer, mut bytes) = (vec![0; 64 * 1024], 0);
        loop {
            let count = self.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(Ok(Some(bytes)));
            }
            bytes += count as u64;
            let heading = if std::mem::replace(shown, self.errors) != self.errors && !to_err {
                format!("==> {} <==\n", self.path.display())
            } else {
                String::new()
            };
            match written(&[heading.as_bytes(), &buffer[..count]].concat(), to_err) {
                Ok(true) => {}
                Ok(false) => return Ok(Ok(None)),
                Err(failure) => return Ok(Err(failure)),
            }
        }
    }

    /// Whether the file is still at its path. A removed file is read on until a new file is there.
    fn look(&mut self) -> Seen {
        let path = &self.path;
        let id = |found: &Metadata| (found.dev(), found.ino());
        match std::fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_news = !std::mem::replace(&mut self.is_removed, true);
                if is_news { Seen::Removed } else { Seen::Same }
            }
            // A device or a pipe would never end, or take input from another reader.
            Ok(there) if there.is_file() && self.file.metadata().is_ok_and(|own| id(&own) != id(&there)) => {
                // Gone again, or not readable: the open file is the only source.
                let Ok(file) = File::open(path) else { return Seen::Same };
                (self.file, self.is_removed) = (file, false);
                Seen::Replaced
            }
            Ok(_) | Err(_) => Seen::Same,
        }
    }
}

fn reading(name: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::doing(format!("failed to read {}, where job {name} writes", path.display()), error)
}

/// Writes to standard output, or to standard error; says whether a reader is left.
fn written(bytes: &[u8], to_err: bool) -> Result<bool, Failure> {
    let done = if to_err {
        std::io::stderr().lock().write_all(bytes)
    } else {
        let mut out = std::io::stdout().lock();
        out.write_all(bytes).and_then(|()| out.flush())
    };
    match done {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::doing(if to_err { "standard error" } else { "standard output" }, &error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_file_is_said_once_and_another_one_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("out");
        std::fs::write(&path, "one").unwrap();
        let mut followed = Followed::new(File::open(&path).unwrap(), &path, false);
        let mut looks = |want: [Seen; 2], text: &str| {
            assert_eq!([followed.look(), followed.look()], want, "{text}");
            let mut read = String::new();
            followed.file.read_to_string(&mut read).unwrap();
            assert_eq!(read, text);
        };
        looks([Seen::Same, Seen::Same], "one");
        std::fs::write(&path, "one and more").unwrap();
        looks([Seen::Same, Seen::Same], " and more");
        std::fs::remove_file(&path).unwrap();
        looks([Seen::Removed, Seen::Same], "");
        std::fs::write(&path, "two").unwrap();
        looks([Seen::Replaced, Seen::Same], "two");
        std::fs::remove_file(&path).unwrap();
        std::fs::create_dir(&path).unwrap();
        looks([Seen::Same, Seen::Same], "");
        std::fs::remove_dir(&path).unwrap();
        looks([Seen::Removed, Seen::Same], "");
    }
}
