//! A job's file, read to its end, or followed until the job is over.

use std::fs::File;
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_proto::view::JobView;
use pinfold_proto::wire::{Reply, Request};
use pinfold_proto::{ExitCode, JobState};

use crate::print::say;
use pinfold_client::{Client, Dial, Failure, unexpected};

/// How often a file is looked at that may grow.
const LOOK: Duration = Duration::from_millis(200);

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
        let waits = self.says_it_waits(job)?;
        let Some(mut file) = self.opened(job, path, follow, waits)? else { return Ok(()) };
        let failed = |error| reading(job, path, &error);
        loop {
            // Asked before the file is read: what it wrote until its end is read after.
            let over = !follow || self.is_over(job)?;
            // A job that begins anew empties its file, and so do programs that rotate logs.
            if file.stream_position().map_err(failed)? > file.metadata().map_err(failed)?.size() {
                file.seek(SeekFrom::Start(0)).map_err(failed)?;
            }
            let mut buffer = vec![0; 64 * 1024];
            loop {
                let count = file.read(&mut buffer).map_err(failed)?;
                if count == 0 {
                    break;
                }
                if !written(&buffer[..count])? {
                    return Ok(());
                }
            }
            if over {
                return Ok(());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// The file; `None`: it is not there yet, as that of an array's member is made when that starts, and nobody waits for
    /// it, or it never came.
    fn opened(&mut self, job: u64, path: &Path, follow: bool, waits: bool) -> Result<Option<File>, Failure> {
        let mut waits = waits;
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
            std::thread::sleep(LOOK);
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
