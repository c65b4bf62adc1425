//! `pinfold keepers`: starts a keeper for each submitted job, and one for each array with members, that wait for one; after
//! a restart of the host above all.
//!
//! Each is what `pinfold submit` was when it handed the job over: the same command line in the same directory and
//! environment, as the same user, told by two variables that it keeps a job that is there already. Root starts those of
//! all users, anybody else their own.
//! Absent here: which jobs those are, and what such a keeper does (`submit`).

use std::ffi::OsString;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use pinfold_proto::ExitCode;
use pinfold_proto::array::JobName;
use pinfold_proto::start::{START_MAX_BYTES, Start, StartOf};
use pinfold_proto::wire::{Reply, Request};
use pinfold_sys::peer;
use pinfold_sys::spawn::{self, Environment, Program, Side};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::json;

use crate::client::{Dial, unexpected};
use crate::failure::Failure;
use crate::run::say;
use crate::submit;

/// The variable that tells a `submit` which job, or which members of an array, it keeps,
const JOB: &str = "PINFOLD_KEEPS";
/// and where the daemon is that has it.
const SOCKET: &str = "PINFOLD_KEEPS_SOCKET";
/// Variables that are for keepers, and not for what they start.
pub(crate) const OWN: [&str; 2] = [JOB, SOCKET];

const RESOURCES: [(&str, Resource); 16] = [
    ("as", Resource::As),
    ("core", Resource::Core),
    ("cpu", Resource::Cpu),
    ("data", Resource::Data),
    ("fsize", Resource::Fsize),
    ("locks", Resource::Locks),
    ("memlock", Resource::Memlock),
    ("msgqueue", Resource::Msgqueue),
    ("nice", Resource::Nice),
    ("nofile", Resource::Nofile),
    ("nproc", Resource::Nproc),
    ("rss", Resource::Rss),
    ("rtprio", Resource::Rtprio),
    ("rttime", Resource::Rttime),
    ("sigpending", Resource::Sigpending),
    ("stack", Resource::Stack),
];

/// Starts them, and says for which jobs.
pub(crate) fn keepers(dial: &Dial, json: bool) -> Result<(), Failure> {
    let starts = match dial.connect()?.ask(&Request::Starts)? {
        Reply::Starts(starts) => starts,
        other => return Err(unexpected(&other)),
    };
    let (mut jobs, mut names) = (Vec::new(), Vec::new());
    for one in starts {
        let name = name_of(&one);
        match spawn::fork_away() {
            Ok(Side::Child) => {
                let error = become_keeper(dial, &one, &name);
                // Whoever asked for it learns of it from the job.
                submit::give_back(dial.clone(), &name, &error.message);
                return Err(error);
            }
            Ok(Side::Parent(_)) => {
                jobs.push(one.job);
                names.push(name.to_string());
            }
            Err(error) => return Err(Failure::doing("failed to make a keeper", &error)),
        }
    }
    let text = match names.as_slice() {
        _ if json => json!({ "version": 1, "jobs": jobs }).to_string(),
        [] => "no job waits for a keeper".to_owned(),
        names => format!("started keepers of jobs {}", names.join(", ")),
    };
    let written = writeln!(std::io::stdout(), "{text}");
    written.map_err(|error| Failure::doing("standard output", &error))
}

/// What a keeper is to keep: a job, or members of an array.
fn name_of(one: &StartOf) -> JobName {
    let members = (!one.members.is_empty()).then(|| one.members.iter().copied().collect());
    JobName { job: one.job, indexes: members }
}

/// Becomes what handed the job over; comes back only with why that cannot be.
fn become_keeper(dial: &Dial, StartOf { job, uid, start, .. }: &StartOf, name: &JobName) -> Failure {
    let failed = |what: &str, error: &std::io::Error| {
        Failure::doing(format!("job {job} cannot be kept anew: {what}"), error)
    };
    // Whom the kernel spares is not for whoever starts its keeper to hand on, nor for a user to ask of root. Before this
    // process is another user's, for then its files in /proc are nobody's to write.
    let others = *uid != peer::own_uid();
    let spared = if others { start.oom_score_adj.max(0) } else { start.oom_score_adj };
    let _ = std::fs::write("/proc/self/oom_score_adj", spared.to_string());
    if others && let Err(error) = peer::become_user(*uid) {
        return failed(&format!("user {uid}"), &error);
    }
    // Now, with no more rights than theirs: these are what a user's client sent, and must not raise anything.
    for (name, soft, hard) in &start.limits {
        if let Some((_, resource)) = RESOURCES.iter().find(|(known, _)| known == name) {
            limit_as_far_as_may_be(*resource, *soft, *hard);
        }
    }
    if let Err(error) = std::env::set_current_dir(&start.directory) {
        return failed(&start.directory, &error);
    }
    let _ = rustix::process::umask(rustix::fs::Mode::from_raw_mode(start.umask));
    let own = match std::env::current_exe() {
        Ok(own) => own,
        Err(error) => return failed("the way to pinfold", &error),
    };
    // It is used from another directory.
    let socket = std::path::absolute(dial.socket()).unwrap_or_else(|_| dial.socket().to_owned());
    let socket = socket.display().to_string();
    let variables = [format!("{JOB}={name}"), format!("{SOCKET}={socket}")];
    let environment = Environment::of(start.environment.iter().cloned().chain(variables));
    let words = start.words.iter().map(OsString::from);
    match Program::new(&own, words, &environment) {
        Ok(program) => {
            let _ = spawn::null_streams();
            failed(&own.display().to_string(), &spawn::become_now(&program))
        }
        Err(error) => Failure::new(ExitCode::NotExecutable, error),
    }
}

/// Sets a limit as it was where the job was handed over; where a service has less than its user's session had, to that.
fn limit_as_far_as_may_be(resource: Resource, soft: Option<u64>, hard: Option<u64>) {
    // No limit is more than any.
    let less = |one: Option<u64>, other: Option<u64>| one.into_iter().chain(other).min();
    if setrlimit(resource, Rlimit { current: soft, maximum: hard }).is_err() {
        let maximum = less(hard, getrlimit(resource).maximum);
        let _ = setrlimit(resource, Rlimit { current: less(soft, maximum), maximum });
    }
}

/// The job, or the members of an array, that this process is to keep, and the socket of the daemon that has them.
pub(crate) fn keeps() -> Option<(JobName, PathBuf)> {
    let job = std::env::var(JOB).ok()?.parse().ok()?;
    Some((job, PathBuf::from(std::env::var_os(SOCKET)?)))
}

/// The daemon that has the job that this process is to keep.
pub(crate) fn dial_of(socket: &Path, usual: &Dial) -> Dial {
    if usual.socket() == socket { usual.clone() } else { Dial::new(Some(socket), true) }
}

/// What another keeper would need in this one's place; `None`, with a word about it, if that cannot be kept.
pub(crate) fn own_start() -> Option<Start> {
    let texts = |all: Vec<OsString>| all.into_iter().map(|text| text.into_string().ok()).collect();
    let words: Option<Vec<String>> = texts(std::env::args_os().collect());
    let pair = |(name, value): (OsString, OsString)| {
        Some(format!("{}={}", name.into_string().ok()?, value.into_string().ok()?))
    };
    let environment: Option<Vec<String>> = std::env::vars_os().map(pair).collect();
    let directory =
        std::env::current_dir().ok().and_then(|directory| directory.into_os_string().into_string().ok());
    let (Some(words), Some(environment), Some(directory)) = (words, environment, directory) else {
        say(
            "warning: the job will not come back if the host is restarted: its command, directory or environment is not \
             text in UTF-8",
        );
        return None;
    };
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    let _ = rustix::process::umask(mask);
    let limit = |(name, resource): (&str, Resource)| {
        let Rlimit { current, maximum } = getrlimit(resource);
        (name.to_owned(), current, maximum)
    };
    let adjusted = std::fs::read_to_string("/proc/self/oom_score_adj").unwrap_or_default();
    let start = Start {
        words,
        environment,
        directory,
        umask: mask.as_raw_mode(),
        limits: RESOURCES.into_iter().map(limit).collect(),
        oom_score_adj: adjusted.trim().parse().unwrap_or(0),
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
