//! `sbatch`: a script handed over as a job.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::Duration;

use pinfold_client::{Failure, Greeting, accepted, unexpected};
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{Reply, Request as Asked};
use pinfold_proto::{ExitCode, array::JobName};
use pinfold_sys::ready::{self, Wanted};

use crate::cluster::{self, Cluster};
use crate::dependency;
use crate::getopt::{Order, parse};
use crate::home::{self, Label};
use crate::jobs::Job;
use crate::launch::{self, command, plan};
use crate::options;
use crate::request::Request;
use crate::say;
use crate::script::Script;
use crate::state::State;
use crate::trouble::{CONTACT, Trouble, words};

/// Hands a script over.
///
/// # Errors
/// In sbatch's words.
pub(crate) fn sbatch(arguments: &[OsString]) -> Result<u8, Trouble> {
    let host = pinfold_sys::peer::host_name();
    let table = options::sbatch();
    let (given, operands) = parse(&table, arguments, Order::Strict).map_err(say::usage("sbatch"))?;
    let mut told = Request::default();
    told.take(&given, &host)?;
    if let Some(what) = told.help {
        return say::help("sbatch", what, &table);
    }
    let (script, operands) = match &told.wrap {
        Some(_) if !operands.is_empty() => {
            return Err(Trouble::new("Script arguments not permitted with --wrap option"));
        }
        Some(wrap) => (Script::wrapping(wrap), &operands[..]),
        None => {
            (Script::read(operands.first().map(OsString::as_os_str))?, operands.get(1..).unwrap_or_default())
        }
    };
    let mut request = Request::default();
    let (in_script, _) = parse(&table, &script.options()?, Order::Free).map_err(say::usage("sbatch"))?;
    request.take(&in_script, &host)?;
    request.take_environment("SBATCH_", &host, |name| std::env::var(name).ok())?;
    request.take(&given, &host)?;
    let name = request.name.clone().unwrap_or_else(|| script.name.clone());
    let refused = |why: String| Trouble::new(format!("Batch job submission failed: {why}"));
    // Waits for the answer only when a query follows: the job is submitted meanwhile.
    let mut daemon = Daemon::greet().map_err(|failure| refused(words(&failure)))?;
    let after = match request.dependency.as_str() {
        "" => String::new(),
        text => {
            let cluster = daemon.cluster().map_err(|failure| refused(words(&failure)))?;
            dependency::after(text, &name, cluster)?
        }
    };
    let mut plan = plan(&request, name, &after, line(arguments))?;
    plan.label.batch = true;
    plan.label.command = if script.path.is_empty() { String::new() } else { script.path.clone() };
    if request.test_only {
        let at = crate::units::date(crate::units::now_s());
        say::info(
            "sbatch",
            &format!("Job 0 to start at {at} using {} processors on {host}", request.cores()),
        );
        return Ok(0);
    }
    launch::spool(&mut plan.label, Some(&script))?;
    let job = submit(&plan, &request, operands)?;
    plan.label.job = job;
    let cluster = daemon.cluster();
    match &cluster {
        Ok(cluster) => keep(cluster, &plan.label),
        Err(failure) => not_kept(job, &words(failure)),
    }
    report(job, &request)?;
    let cluster = cluster.map_err(|failure| Trouble::new(words(&failure)));
    match (cluster, request.wait) {
        (Ok(cluster), true) => wait(cluster, job),
        (Ok(cluster), false) => {
            launch::sweep(cluster, job);
            Ok(0)
        }
        (Err(trouble), true) => Err(trouble),
        (Err(_), false) => Ok(0),
    }
}

/// The daemon: greeted, and connected on demand.
struct Daemon {
    greeting: Option<Greeting>,
    cluster: Option<Cluster>,
}

impl Daemon {
    fn greet() -> Result<Self, Failure> {
        Ok(Self { greeting: Some(Cluster::greet()?), cluster: None })
    }

    /// The connected daemon; reconnects if the daemon was replaced or failed since the greeting.
    fn cluster(&mut self) -> Result<&mut Cluster, Failure> {
        let greeted = || Cluster::greeted(Cluster::greet()?);
        let cluster = match (self.cluster.take(), self.greeting.take()) {
            (Some(cluster), _) => cluster,
            (None, Some(greeting)) => match Cluster::greeted(greeting) {
                Err(failure) if failure.code == ExitCode::NoDaemon => greeted()?,
                answered => answered?,
            },
            (None, None) => greeted()?,
        };
        Ok(self.cluster.insert(cluster))
    }
}

/// The command line, for the record.
fn line(arguments: &[OsString]) -> String {
    let words = arguments.iter().map(|word| word.to_string_lossy().into_owned());
    ["sbatch".to_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
}

/// If a label cannot be recorded, later commands lack it until the job starts and tries again; the job itself is
/// unaffected.
pub(crate) fn keep(cluster: &Cluster, label: &Label) {
    match cluster.home.add(label) {
        Ok(()) => home::note_in_journal(&label.spool),
        Err(error) => not_kept(label.job, &error.to_string()),
    }
}

fn not_kept(job: u64, why: &str) {
    say::error("sbatch", &format!("what was said of job {job} could not be kept: {why}"));
}

/// Submits the job, again if the daemon is just being replaced: when a keeper ended before it reported the number,
/// the daemon has no job to start.
fn submit(plan: &launch::Plan, request: &Request, words: &[OsString]) -> Result<u64, Trouble> {
    // Removes the files of a job that does not exist.
    let forget = || drop(std::fs::remove_dir_all(&plan.label.spool));
    let mut command = command("submit", plan, request.export.as_deref()).inspect_err(|_| forget())?;
    command.args(words).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let handed_over = cluster::patiently(|| match hand_over(&mut command, request.verbose > 0) {
        Err(refused) if refused.is(ExitCode::NoDaemon) => Err(Failure::new(ExitCode::NoDaemon, refused.said)),
        done => Ok(done),
    });
    let refused = match handed_over {
        Ok(Ok(job)) => return Ok(job),
        Ok(Err(refused)) => refused,
        Err(away) => Refused { code: Some(away.code.code().into()), said: away.message },
    };
    // After a keeper was killed, the daemon may have the job and start another keeper, which needs the script.
    if refused.code.is_some() {
        forget();
    }
    Err(refused.trouble())
}

/// Starts the job's keeper, which closes its streams after reporting the number.
fn hand_over(command: &mut Command, verbose: bool) -> Result<u64, Refused> {
    let failed = |error: io::Error| Refused {
        code: Some(ExitCode::Failed.code().into()),
        said: format!("failed to start pinfold: {error}"),
    };
    let mut keeper = command.spawn().map_err(failed)?;
    let (stdout, stderr) = (keeper.stdout.take().map(OwnedFd::from), keeper.stderr.take().map(OwnedFd::from));
    let [number, said] = texts([stdout, stderr]).map_err(failed)?;
    let said = said.trim().to_owned();
    if verbose && !said.is_empty() {
        say::error("sbatch", &said);
    }
    match number.trim().parse() {
        Ok(job) => Ok(job),
        Err(_) => Err(Refused { code: keeper.wait().map_err(failed)?.code(), said }),
    }
}

/// Reads the streams to their ends. Both are read together, because either may fill its pipe before the other ends;
/// and in this thread, because a user at the process limit gets no other thread.
fn texts(streams: [Option<OwnedFd>; 2]) -> io::Result<[String; 2]> {
    let mut streams = streams.map(|stream| stream.map(File::from));
    let mut said = [Vec::new(), Vec::new()];
    while streams.iter().any(Option::is_some) {
        match ready::wait(streams.iter().flatten().map(Wanted::input).collect(), None) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => {}
        }
        for (stream, said) in streams.iter_mut().zip(&mut said) {
            let Some(file) = stream.as_mut() else { continue };
            if !matches!(ready::readable(file, Some(Duration::ZERO)), Ok(true)) {
                continue;
            }
            let mut buffer = [0; 4096];
            match file.read(&mut buffer) {
                Ok(0) => *stream = None,
                Ok(count) => said.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(said.map(|said| String::from_utf8_lossy(&said).into_owned()))
}

/// The line with the cause: the first error line, else the last line.
fn reason(said: &str) -> &str {
    let error = said.lines().find_map(|line| line.strip_prefix("error: "));
    let last = || said.lines().rfind(|line| !line.trim().is_empty());
    error.or_else(last).unwrap_or("").trim_start_matches("pinfold: ")
}

/// A failed `pinfold submit`.
struct Refused {
    /// Its exit code; `None`: ended by a signal.
    code: Option<i32>,
    said: String,
}

impl Refused {
    fn is(&self, known: ExitCode) -> bool {
        self.code == Some(i32::from(known.code()))
    }

    /// Its message in sbatch's words.
    fn trouble(&self) -> Trouble {
        if self.code.is_none() {
            let text = "Batch job submission failed: Socket timed out on send/recv operation\nsbatch: error: what hands \
                        the job over was killed before it told the job's number; squeue says whether the job is there";
            return Trouble::new(text);
        }
        let said = reason(&self.said);
        let why = match () {
            () if self.is(ExitCode::NoDaemon) => CONTACT,
            () if self.is(ExitCode::Permission) => "Access/permission denied",
            () if said.contains("it was to start once") => "Job dependency problem",
            () if said.contains("queue") => {
                "Job violates accounting/QOS policy (job submit limit, user's size and/or time limits)"
            }
            () if self.is(ExitCode::Refused) || self.is(ExitCode::Usage) => {
                "Requested node configuration is not available"
            }
            () => "Unspecified error",
        };
        Trouble::new(format!("Batch job submission failed: {why}\nsbatch: error: {said}"))
    }
}

fn report(job: u64, request: &Request) -> Result<(), Trouble> {
    let line = match (request.parsable, request.quiet) {
        (true, _) => job.to_string(),
        (false, true) => return Ok(()),
        (false, false) => format!("Submitted batch job {job}"),
    };
    accepted::tell("job", job, &line).map_err(|failure| Trouble::new(failure.message))
}

/// Waits for the end of a job, or of all members of an array; returns the highest status. 1 if a signal ended the
/// job, and at least 1 if it did not complete.
fn wait(cluster: &mut Cluster, job: u64) -> Result<u8, Trouble> {
    loop {
        match ended(cluster, job) {
            Ok(reports) => {
                // Read anew for cancellations in the meantime.
                let known = cluster.home.read();
                let jobs = reports.into_iter().map(|report| Job::of_report(report, &known));
                return Ok(jobs.map(|job| status(&job)).max().unwrap_or(1));
            }
            // The daemon is being replaced.
            Err(failure) if failure.code == ExitCode::NoDaemon => {
                std::thread::sleep(Duration::from_millis(500));
                if let Ok(again) = Cluster::connect() {
                    *cluster = again;
                }
            }
            Err(failure) => return Err(Trouble::new(words(&failure))),
        }
    }
}

fn ended(cluster: &mut Cluster, job: u64) -> Result<Vec<ReportView>, pinfold_client::Failure> {
    let names = vec![JobName { job, indexes: None }];
    let jobs = match cluster.client.ask(&Asked::Members { names })? {
        Reply::Members(members) => members.into_iter().flat_map(|it| it.jobs).map(|it| it.job).collect(),
        other => return Err(unexpected(&other)),
    };
    match cluster.client.ask(&Asked::Wait { jobs })? {
        Reply::Report(reports) => Ok(reports),
        other => Err(unexpected(&other)),
    }
}

fn status(job: &Job) -> u8 {
    let code = job.exit_code.map_or(1, |code| u8::try_from(code & 0xff).unwrap_or(1));
    if job.state == State::Completed { code } else { code.max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_line_wins_over_help() {
        let check = |said: &str, want: &str| assert_eq!(reason(said), want, "{said:?}");
        let usage = "error: invalid value 'x' for '--mem <SIZE>': `x` is not a size\n\nUsage: pinfold submit\n\n\
                     For more information, try '--help'.";
        check(usage, "invalid value 'x' for '--mem <SIZE>': `x` is not a size");
        check("a warning\npinfold: the queue is full\n", "the queue is full");
        check("", "");
    }
}
