//! A job's file, read to its end, or followed until the job is over.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_proto::view::JobView;
use pinfold_proto::wire::{Reply, Request};
use pinfold_proto::{ExitCode, JobState};

use crate::again::until_next;
use crate::print::{is_open, needs_output, say};
use pinfold_client::{Client, Dial, Failure, unexpected};

/// How often a file is looked at that may grow.
const LOOK: Duration = Duration::from_millis(200);

/// A file that a job is about to make as it starts is there within so many looks.
const LOOKS_FOR_NEW: u32 = 5;

/// So long a daemon that went away is looked for: one that is replaced is back by then.
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

    /// How a job stands; `None`: the daemon knows of no such job.
    pub(super) fn status(&mut self, job: u64) -> Result<Option<JobView>, Failure> {
        let until = Instant::now() + BACK_WITHIN;
        loop {
            match self.client.ask(&Request::Status { jobs: vec![job], all: true, at_us: None }) {
                Ok(Reply::Status(mut view)) => return Ok(view.jobs.pop()),
                Ok(other) => return Err(unexpected(&other)),
                Err(failure) if failure.code == ExitCode::NoDaemon && Instant::now() < until => {
                    std::thread::sleep(LOOK);
                    // A private one started here would take the place of one that is just being replaced.
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

    /// Says that a job has not started where that is so; gives whether it is.
    fn says_it_waits(&mut self, job: u64) -> Result<bool, Failure> {
        let waits = |view: JobView| view.started_s.is_none() && view.state != JobState::Exited;
        let waits = self.status(job)?.is_some_and(waits);
        if waits {
            say(&format!("job {job} has not started yet; `pinfold why {job}` says what it waits for"));
        }
        Ok(waits)
    }

    /// Prints what a job wrote to this file; if it is followed, until the job is over.
    pub(super) fn print(&mut self, job: u64, path: &Path, follow: bool) -> Result<(), Failure> {
        if follow {
            needs_output("--follow")?
        } else {
            is_open()?
        }
        let waits = self.says_it_waits(job)?;
        let Some(file) = self.opened(job, path, follow, waits)? else { return Ok(()) };
        let mut followed = Followed { file, is_removed: false };
        let failed = |error| reading(job, path, &error);
        loop {
            // Asked before the file is read: what it wrote until its end is read after.
            let over = !follow || self.is_over(job)?;
            if !followed.print().map_err(failed)?? || over {
                return Ok(());
            }
            match followed.look(path) {
                Seen::Same if until_next(LOOK) => {}
                Seen::Same => return Ok(()),
                Seen::Removed => say(&format!(
                    "{}, where job {job} writes, was removed; what it writes is followed in the removed file",
                    path.display()
                )),
                Seen::Replaced => say(&format!(
                    "{}, where job {job} writes, was replaced; what follows is from the new file",
                    path.display()
                )),
            }
        }
    }

    /// The file; `None`: it is not there yet, as that of an array's member is made when that starts, and nobody waits for
    /// it any more, or it never came.
    fn opened(&mut self, job: u64, path: &Path, follow: bool, waits: bool) -> Result<Option<File>, Failure> {
        let (mut waits, mut looks) = (waits, 0);
        let found = loop {
            // Asked before the file is looked for: one that began and ended has made it by then.
            let over = !follow || self.is_over(job)?;
            match std::fs::metadata(path) {
                // One that has just begun may be about to make it.
                Err(error) if error.kind() == ErrorKind::NotFound && (waits || !over) => {}
                found => break found.map_err(|error| reading(job, path, &error))?,
            }
            if over {
                return Ok(None);
            }
            looks += u32::from(!waits);
            if looks == LOOKS_FOR_NEW {
                let text = "is not there; if it is made again, it is followed from then on";
                say(&format!("{}, where job {job} writes, {text}", path.display()));
            }
            if !until_next(LOOK) {
                return Ok(None);
            }
            waits = self.status(job)?.is_some_and(|view| view.started_s.is_none());
        };
        // A device or a pipe would never end, or take from somebody else.
        if !found.is_file() {
            let text =
                format!("job {job} writes to {}, which is no file that could be read again", path.display());
            return Err(Failure::new(ExitCode::Failed, text));
        }
        File::open(path).map(Some).map_err(|error| reading(job, path, &error))
    }
}

/// A file that is read as it grows.
struct Followed {
    file: File,
    /// No file is at its path any more; said once.
    is_removed: bool,
}

/// What became of a followed file since it was last looked at.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// Nothing that was not said before.
    Same,
    /// It is at its path no more. What has it open still writes to it.
    Removed,
    /// Another one is at its path, and read from its start from now on.
    Replaced,
}

impl Followed {
    /// Prints what was written to it since; says whether somebody still reads that. The inner error is of the output.
    fn print(&mut self) -> std::io::Result<Result<bool, Failure>> {
        // A job that begins anew empties its file, and so do programs that rotate logs.
        if self.file.stream_position()? > self.file.metadata()?.size() {
            self.file.seek(SeekFrom::Start(0))?;
        }
        let mut buffer = vec![0; 64 * 1024];
        loop {
            let count = self.file.read(&mut buffer)?;
            if count == 0 {
                return Ok(Ok(true));
            }
            match written(&buffer[..count]) {
                Ok(true) => {}
                other => return Ok(other),
            }
        }
    }

    /// Whether it is still the file at its path. One that was removed is read on until there is another.
    fn look(&mut self, path: &Path) -> Seen {
        let id = |found: &Metadata| (found.dev(), found.ino());
        match std::fs::metadata(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let is_news = !std::mem::replace(&mut self.is_removed, true);
                if is_news { Seen::Removed } else { Seen::Same }
            }
            // A device or a pipe would never end, or take from somebody else.
            Ok(there) if there.is_file() && self.file.metadata().is_ok_and(|own| id(&own) != id(&there)) => {
                // Gone again, or not to be read: what is open is all there is.
                let Ok(file) = File::open(path) else { return Seen::Same };
                *self = Self { file, is_removed: false };
                Seen::Replaced
            }
            Ok(_) | Err(_) => Seen::Same,
        }
    }
}

fn reading(job: u64, path: &Path, error: &std::io::Error) -> Failure {
    Failure::doing(format!("failed to read {}, where job {job} writes", path.display()), error)
}

/// Writes to standard output; says whether somebody still reads.
fn written(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::doing("standard output", &error)),
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
        let mut followed = Followed { file: File::open(&path).unwrap(), is_removed: false };
        let mut looks = |want: [Seen; 2], text: &str| {
            assert_eq!([followed.look(&path), followed.look(&path)], want, "{text}");
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
