//! The start that a keeper leaves for another keeper, how the other keeper learns of its jobs, and how a process takes on the
//! surroundings of a submission.
//!
//! Absent here: the start of another keeper (`keepers`), its work (`submit`), and jobs that are submitted once
//! more (`retry`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pinfold_client::{Dial, Failure};
use pinfold_proto::ExitCode;
use pinfold_proto::array::JobName;
use pinfold_proto::start::{START_MAX_BYTES, Start};
use pinfold_sys::spawn::{Environment, Program};
use pinfold_sys::{affinity, own, peer, signals};

use crate::print::say;
use crate::shell;

/// The variable that names the job, or the members of an array, that a `submit` keeps,
pub(crate) const JOB: &str = "PINFOLD_KEEPS";
/// and the socket of their daemon.
pub(crate) const SOCKET: &str = "PINFOLD_KEEPS_SOCKET";
/// The shell that called the first keeper: another process starts later keepers.
pub(crate) const SHELL: &str = "PINFOLD_KEEPS_SHELL";
/// Variables for keepers that jobs do not get.
pub(crate) const OWN: [&str; 3] = [JOB, SOCKET, SHELL];

/// The job, or the members of an array, that this process is to keep, and the socket of the daemon that has them.
pub(crate) fn keeps() -> Option<(JobName, PathBuf)> {
    let job = std::env::var(JOB).ok()?.parse().ok()?;
    Some((job, PathBuf::from(std::env::var_os(SOCKET)?)))
}

/// The daemon that has the job that this process is to keep.
pub(crate) fn dial_of(socket: &Path, usual: &Dial) -> Dial {
    if usual.socket() == socket { usual.clone() } else { Dial::new(Some(socket), true) }
}

/// The start of this process, for another keeper; `None`, with a warning, if it cannot be kept.
pub(crate) fn own_start() -> Option<Start> {
    let texts = |all: Vec<OsString>| all.into_iter().map(|text| text.into_string().ok()).collect();
    let words: Option<Vec<String>> = texts(std::env::args_os().collect());
    let pair = |(name, value): (OsString, OsString)| {
        Some(format!("{}={}", name.into_string().ok()?, value.into_string().ok()?))
    };
    let shell = shell::of(None).ok().map(|shell| (SHELL.into(), shell.into_os_string()));
    let others = std::env::vars_os().filter(|(name, _)| name != SHELL);
    let environment: Option<Vec<String>> = others.chain(shell).map(pair).collect();
    let directory = match std::env::current_dir() {
        Ok(directory) => directory.into_os_string().into_string().ok(),
        Err(error) => {
            say(&format!(
                "warning: the job will not come back if the host is restarted: its directory cannot be found: {error}"
            ));
            return None;
        }
    };
    let (Some(words), Some(environment), Some(directory)) = (words, environment, directory) else {
        say(
            "warning: the job will not come back if the host is restarted: its command, directory or environment is not \
             text in UTF-8",
        );
        return None;
    };
    let adjusted = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    let start = Start {
        words,
        environment,
        directory,
        umask: own::umask(),
        limits: own::limits(),
        oom_score_adj: adjusted.trim().parse().unwrap_or(0),
        nice: own::nice().unwrap_or(0),
        io_priority: own::io_priority(),
        scheduling: own::scheduling(),
        ignored: signals::ignored(),
        cpus: bound_to(),
    };
    let bytes = serde_json::to_vec(&start).map_or(usize::MAX, |text| text.len());
    if bytes > START_MAX_BYTES {
        say(&format!(
            "warning: the job will not come back if the host is restarted: its command and environment are {} KiB, and {} \
             KiB are the most that is kept",
            bytes >> 10,
            START_MAX_BYTES >> 10
        ));
        return None;
    }
    Some(start)
}

/// Takes on the user and the surroundings of a submission. The program is `pinfold`, with the submission's environment and
/// these variables besides.
pub(crate) fn take_on(
    start: &Start,
    uid: u32,
    words: Vec<OsString>,
    variables: impl IntoIterator<Item = String>,
) -> Result<Program, Failure> {
    // Which process the kernel spares is not for the starter of its keeper to hand on, nor for a user to ask of root.
    // Before this process is another user's, because its files in /proc are not writable then.
    let others = uid != peer::own_uid();
    let spared = if others { start.oom_score_adj.max(0) } else { start.oom_score_adj };
    let _ = std::fs::write("/proc/self/oom_score_adj", spared.to_string());
    if others {
        peer::become_user(uid).map_err(|error| Failure::doing(format!("user {uid}"), &error))?;
    }
    // Now, with the user's rights alone: a user's client sent these values, and they must not raise anything.
    own::set_limits(&start.limits);
    std::env::set_current_dir(&start.directory).map_err(|error| Failure::doing(&start.directory, &error))?;
    own::set_umask(start.umask);
    own::nice_thread(start.nice);
    own::set_scheduling(start.scheduling, start.io_priority);
    if let Ok(cpus) = start.cpus.parse() {
        let _ = affinity::set(0, &cpus);
    }
    signals::ignore(&start.ignored);
    let environment = Environment::of(start.environment.iter().cloned().chain(variables));
    own_program(words, &environment)
}

/// This program with new arguments and a new environment.
pub(crate) fn own_program(words: Vec<OsString>, environment: &Environment) -> Result<Program, Failure> {
    let path = std::env::current_exe().map_err(|error| Failure::doing("the way to pinfold", &error))?;
    Program::new(&path, words, environment).map_err(|error| Failure::new(ExitCode::NotExecutable, error))
}

/// The PUs that this process is bound to, unlike the host's first process; empty: no binding.
fn bound_to() -> String {
    let of = |process| affinity::of(process).ok().flatten();
    of(0).filter(|own| of(1).is_some_and(|all| all != *own)).map_or_else(String::new, |own| own.to_string())
}
