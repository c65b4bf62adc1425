//! `pinfold log`: what a submitted job wrote.
//!
//! Where that went is a client's own matter: the daemon never learns of it. `submit` writes it down for its user
//! ([`record`]); of a job that runs, the kernel tells it as well.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use pinfold_proto::view::{JobView, VERSION};
use pinfold_proto::wire::{Reply, Request};
use pinfold_proto::{ExitCode, JobState};
use serde_json::json;

use crate::names::{self, JobRef};
use crate::print::{print_json, print_text, say};
use pinfold_client::{Client, Dial, Failure, unexpected};

pub(crate) mod record;

#[derive(Debug, Args)]
pub(crate) struct LogArgs {
    /// The job, or members of an array
    #[arg(value_name = "JOB")]
    pub job: JobRef,
    /// Go on with what it writes until it is over
    #[arg(short, long, conflicts_with = "json")]
    pub follow: bool,
    /// Its standard error instead of its standard output
    #[arg(long)]
    pub stderr: bool,
    /// Print where its output goes as one JSON object a job
    #[arg(long)]
    pub json: bool,
}

/// How often a file is looked at that may grow.
const LOOK: Duration = Duration::from_millis(200);

/// `pinfold log`.
pub(crate) fn log(dial: &Dial, args: &LogArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let number = names::number(&mut client, &args.job)?;
    let members = names::members(&mut client, &[number.clone().into()])?;
    let members: Vec<_> = members.into_iter().flat_map(|members| members.jobs).collect();
    if args.follow && members.len() > 1 {
        let text = format!("--follow: {} has {} members; name one of them", args.job, members.len());
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let many = members.len() > 1;
    for member in members {
        let files = files_of(&mut client, dial, number.job, member.job, member.index)?;
        if args.json {
            let [out, err] = files;
            print_json(&json!({ "version": VERSION, "job": member.job, "output": out, "error": err }))?;
            continue;
        }
        let [out, err] = files;
        let path = if args.stderr { err } else { out };
        if many {
            let index = member.index.unwrap_or_default();
            print_text(|to| writeln!(to, "==> {}_{index} <==", number.job))?;
        }
        print(&mut client, member.job, &path, args.follow)?;
        let waits = |view: JobView| view.started_s.is_none() && view.state != JobState::Exited;
        if !args.follow && status(&mut client, member.job)?.is_some_and(waits) {
            say(&format!("job {} has not started yet; `pinfold why {0}` says what it waits for", member.job));
        }
    }
    Ok(())
}

/// Where output and errors of a job went.
fn files_of(
    client: &mut Client,
    dial: &Dial,
    name: u64,
    job: u64,
    index: Option<u32>,
) -> Result<[PathBuf; 2], Failure> {
    if let Some(files) = record::find(dial.socket(), name, job, index) {
        return Ok(files);
    }
    let view = status(client, job)?;
    let of_kernel = view.iter().flat_map(|view| &view.pids).find_map(|&pid| streams_of(pid));
    if let Some(files) = of_kernel {
        return Ok(files);
    }
    let by_rule = ["out", "err"].map(|ending| PathBuf::from(format!("pinfold-{job}.{ending}")));
    if by_rule.iter().all(|path| path.is_file()) {
        return Ok(by_rule);
    }
    let text = format!(
        "it is not known where the output of job {job} went: only of jobs of `submit`, for some thousands of the last \
         ones, and of those that run and write to files"
    );
    Err(Failure::new(ExitCode::Failed, text))
}

/// Regular files that a process writes to.
fn streams_of(pid: u32) -> Option<[PathBuf; 2]> {
    let file = |stream: u32| {
        let path = std::fs::read_link(format!("/proc/{pid}/fd/{stream}")).ok()?;
        path.is_file().then_some(path)
    };
    Some([file(1)?, file(2)?])
}

fn status(client: &mut Client, job: u64) -> Result<Option<JobView>, Failure> {
    match client.ask(&Request::Status { jobs: vec![job], all: true, at_us: None })? {
        Reply::Status(mut view) => Ok(view.jobs.pop()),
        other => Err(unexpected(&other)),
    }
}

fn print(client: &mut Client, job: u64, path: &Path, follow: bool) -> Result<(), Failure> {
    let failed = |error: std::io::Error| {
        Failure::doing(format!("failed to read {}, where job {job} writes", path.display()), &error)
    };
    // A device or a pipe would never end, or take from somebody else.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        let text =
            format!("job {job} writes to {}, which is no file that could be read again", path.display());
        return Err(Failure::new(ExitCode::Failed, text));
    }
    let mut file = File::open(path).map_err(failed)?;
    loop {
        // Asked before the file is read: what it wrote until its end is read after.
        let over = !follow || status(client, job)?.is_none_or(|view| view.state == JobState::Exited);
        // A job that begins anew empties its file.
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

/// Writes to standard output; says whether somebody still reads.
fn written(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Failure::doing("standard output", &error)),
    }
}
