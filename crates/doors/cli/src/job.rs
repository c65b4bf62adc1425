//! From options and a command line to the request to the daemon and the program.
//!
//! Options: `options`, `switch`, `after`, `begin`, `resource`, `timeout`. The command: `inputs` (sizes of its
//! files), `makeflags`, `part` (within a job).

use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::ValueEnum;
use pinfold_proto::program::default_name;
use pinfold_proto::wire::Request;
use pinfold_proto::{Checkpoint, ExitCode, JobClass, JobLayout, JobPlace, JobSpec, Terms};
use pinfold_sys::apart::{self, Apart};
use pinfold_sys::spawn::{self, Environment, ResolveError};
use pinfold_sys::{inherited, peer};

use crate::allocation;
use crate::job::after::AfterArgs;
use crate::successor;
use pinfold_client::{Client, Failure};

pub(crate) mod after;
pub(crate) mod begin;
mod inputs;
pub(crate) mod makeflags;
mod options;
pub(crate) mod part;
mod resource;
pub(crate) mod switch;
pub(crate) mod timeout;

pub(crate) use options::JobOptions;

/// The recorded bytes of a command line; the command itself gets all of it. JSON may make six bytes of a single byte,
/// and a request of that size still fits a frame.
pub(crate) const COMMAND_KEPT_BYTES: usize = 16 * 1024;

/// The default time limit of a checkpoint command.
const CHECKPOINT_TIME: Duration = Duration::from_secs(60);

/// How the cores of a job are to lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum PlaceArg {
    /// As jobs like it were found to run faster
    Auto,
    /// Close together
    Compact,
    /// As far apart as possible
    Spread,
}

/// The request to the daemon for this command with these options.
pub(crate) fn spec(options: &JobOptions, command: &[OsString]) -> JobSpec {
    let recorded = recorded(command);
    JobSpec {
        name: cut(&options.name.clone().unwrap_or_else(|| default_name(&recorded)), 256),
        project: options.project.as_deref().map(|name| cut(name, 256)),
        command: recorded,
        directory: std::env::current_dir().map(|dir| cut(&dir.to_string_lossy(), 4096)).unwrap_or_default(),
        priority: options.priority,
        class: class(options),
        cores: options.cores.unwrap_or(1).max(1),
        layout: layout(options, None),
        claim_bytes: options.mem,
        limit_bytes: options.mem_limit,
        ttl_us: options.ttl.map(microseconds),
        expected_us: options.time.map(microseconds),
        held: options.hold,
        no_suspend: options.no_suspend,
        requeue: options.requeue,
        checkpoint: options.checkpoint.as_deref().map(|command| Checkpoint {
            command: cut(command, 4096),
            limit_us: microseconds(options.checkpoint_time.unwrap_or(CHECKPOINT_TIME)),
        }),
        after: options.after.as_ref().map(AfterArgs::numbers).unwrap_or_default(),
        terms: Terms {
            timeout_us: options.timeout.map(microseconds),
            cpu_limit_us: options.cpu_limit.map(microseconds),
            timeout_signal: options.timeout_signal,
            begin_us: options.begin.map(|at| at.0),
            runs_again: may_be_ended(options),
            resources: options.resource.clone().unwrap_or_default().0,
            comment: options.comment.as_deref().map(|text| cut(text, 1000)).filter(|text| !text.is_empty()),
            parent: part::parent(),
        },
        array: None,
        tmp_bytes: options.tmp.filter(|&bytes| bytes > 0),
        disk_bytes: options.disk.filter(|&bytes| bytes > 0),
        private_tmp: options.private_tmp,
        no_network: options.no_network,
        allocation: allocation::own(),
        line: None,
        adopted: None,
        external: None,
        input_bytes: inputs::bytes(command),
    }
}

/// Adds a layout to the request: the number of cores, and their arrangement.
pub(crate) fn lay(spec: &mut JobSpec, options: &JobOptions, cores: u32, laid: JobLayout) {
    spec.cores = cores.max(1);
    spec.layout = layout(options, Some(laid));
}

/// The request to the daemon for a line of a batch, from the request that all lines share.
pub(crate) fn of_line(common: &JobSpec, named: bool, command: &[OsString], line: u64) -> JobSpec {
    let recorded = recorded(command);
    let name = if named { common.name.clone() } else { cut(&default_name(&recorded), 256) };
    let input_bytes = inputs::bytes(command);
    JobSpec { name, command: recorded, line: Some(line), input_bytes, ..common.clone() }
}

/// Whether a job may be ended for others, to be begun anew.
pub(crate) fn may_be_ended(options: &JobOptions) -> bool {
    options.requeue || options.checkpoint.is_some()
}

/// Whether a job that ended like this may have been ended by the daemon, to be begun anew.
pub(crate) fn may_begin_anew(requeue: bool, reaped: &spawn::Reaped) -> bool {
    requeue && reaped.signal == Some(pinfold_sys::signals::SIGKILL)
}

fn layout(options: &JobOptions, layout: Option<JobLayout>) -> Option<JobLayout> {
    if options.set.is_none() && !options.isolated && options.place.is_none() {
        return layout;
    }
    let set = options.set.as_deref().map(|set| cut(set, 64));
    let place = options.place.map(|place| match place {
        PlaceArg::Auto => JobPlace::Auto,
        PlaceArg::Compact => JobPlace::Compact,
        PlaceArg::Spread => JobPlace::Spread,
    });
    Some(JobLayout { set, isolated: options.isolated, place, ..layout.unwrap_or_default() })
}

fn class(options: &JobOptions) -> Option<JobClass> {
    match (options.primary, options.backfill, options.exclusive) {
        (true, _, _) => Some(JobClass::Primary),
        (_, true, _) => Some(JobClass::Backfill),
        (_, _, true) => Some(JobClass::Exclusive),
        _ => None,
    }
}

pub(crate) fn microseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The command as the daemon records and recognizes it: text, cut to the size that a request can carry.
pub(crate) fn recorded(command: &[OsString]) -> Vec<String> {
    let mut left = COMMAND_KEPT_BYTES;
    let mut kept = Vec::new();
    for argument in command {
        if left == 0 {
            kept.push("...".to_owned());
            break;
        }
        let text = cut(&argument.to_string_lossy(), left);
        left = left.saturating_sub(text.len().max(8));
        kept.push(text);
    }
    kept
}

fn cut(text: &str, bytes: usize) -> String {
    if text.len() <= bytes {
        return text.to_owned();
    }
    let end = (0..=bytes).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// The file to execute for `command`, looked up as a shell would before anything waits in a queue for it.
pub(crate) fn resolve(command: &OsStr) -> Result<PathBuf, Failure> {
    spawn::resolve(command, std::env::var_os("PATH").as_deref()).map_err(|error| {
        let code = match error {
            ResolveError::NotFound(_) => ExitCode::NotFound,
            ResolveError::NotExecutable { .. } | ResolveError::Nul => ExitCode::NotExecutable,
            ResolveError::Output(_) => ExitCode::Failed,
        };
        Failure::new(code, error)
    })
}

/// The priority above the highest of this user's jobs that are not over; `None`: this user has no job.
///
/// # Errors
/// The highest priority is taken.
pub(crate) fn above_own(client: &mut Client) -> Result<Option<u8>, Failure> {
    let view = answer!(client.ask(&Request::Status { jobs: Vec::new(), all: false, at_us: None })?, Status)?;
    let own = peer::own_name();
    let highest = view.jobs.iter().filter(|job| job.user == own).max_by_key(|job| job.priority);
    match highest {
        Some(job) if job.priority >= 16 => Err(Failure::new(
            ExitCode::Refused,
            format!(
                "--now: job {} of yours has priority 16, the highest; `pinfold set {} --priority 15` makes room",
                job.job, job.job
            ),
        )),
        highest => Ok(highest.map(|job| job.priority + 1)),
    }
}

/// The environment of a job: this process's own, without the job options that were meant for this command alone.
pub(crate) fn environment() -> Environment {
    Environment::inherited(&successor::OWN)
}

/// As [`environment`], without these variables too.
pub(crate) fn environment_without(names: &[&str]) -> Environment {
    Environment::inherited(&[&successor::OWN, names].concat())
}

/// The environment of a job that starts when its submitter may be gone: without the membership in the submitter's array,
/// without variables that name the submitter's descriptors, locks or sockets, a jobserver of make's included.
pub(crate) fn environment_of_its_own() -> Environment {
    let array = ["PINFOLD_ARRAY_ID", "PINFOLD_ARRAY_INDEX"];
    let without = [&successor::OWN, &array[..], &inherited::OF_ONE_PROCESS].concat();
    match std::env::var("MAKEFLAGS") {
        Ok(flags) => Environment::inherited(&[&without, &["MAKEFLAGS"][..]].concat())
            .with(format!("MAKEFLAGS={}", makeflags::flags(&flags, ""))),
        Err(_) => Environment::inherited(&without),
    }
}

/// The parts of the host that a job has a copy of. Whether this host can make them is found out before the job waits.
pub(crate) fn apart(options: &JobOptions) -> Result<Apart, Failure> {
    let apart = Apart { tmp: options.private_tmp, network: options.no_network };
    if !apart.is_any() || part::known().is_some() {
        return Ok(apart);
    }
    apart::probe(apart).map_err(|error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        let (asked, subject) = match (apart.tmp, apart.network) {
            (_, false) => ("--private-tmp", "private_tmp"),
            (false, true) => ("--no-network", "no_network"),
            (true, true) => ("--private-tmp --no-network", "private_tmp, no_network"),
        };
        let hint = format!("`pinfold doctor` says what would change that ({subject})");
        Failure::new(ExitCode::Refused, format!("{asked}: {error}{cause}; {hint}"))
    })?;
    Ok(apart)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn names() {
        let name = |command: &[&str], line: Option<u64>| {
            let spec = spec(&JobOptions::default(), &words(command));
            line.map_or(spec.clone(), |line| of_line(&spec, false, &words(command), line)).name
        };
        assert_eq!(name(&["/usr/bin/velveth", "out"], None), "velveth");
        assert_eq!(name(&["sort"], None), "sort");
        assert_eq!(name(&["/bin/sh", "-c", "  gunzip x | /opt/x/bowtie -a"], Some(3)), "bowtie");
        assert_eq!(name(&["/bin/sh", "-c", "(true)"], Some(3)), "true");
    }

    #[test]
    fn long_and_odd_commands_are_recorded_within_bounds() {
        let long = OsString::from("é".repeat(20_000));
        let odd = OsStr::from_bytes(b"a\xff\nb\"").to_owned();
        let kept = recorded(&[odd, long, "never".into(), "kept".into()]);
        assert_eq!(kept[0], "a\u{fffd}\nb\"");
        assert!(kept[1].len() <= COMMAND_KEPT_BYTES + 3 && kept[1].ends_with("..."));
        assert_eq!(kept[2], "...");
        let many = recorded(&words(&["x"; 100_000]));
        assert!(serde_json::to_string(&many).unwrap().len() < 200_000);
    }
}
