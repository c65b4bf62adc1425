//! What a keeper leaves for another in its place, and how that one is told what it keeps.
//!
//! Absent here: when another keeper is started (`keepers`), and what it then does (`submit`).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use pinfold_client::Dial;
use pinfold_proto::array::JobName;
use pinfold_proto::start::{START_MAX_BYTES, Start};
use pinfold_sys::{affinity, own, signals};

use crate::print::say;
use crate::shell::{self, VARIABLE};

/// The variable that tells a `submit` which job, or which members of an array, it keeps,
pub(crate) const JOB: &str = "PINFOLD_KEEPS";
/// and where the daemon is that has it.
pub(crate) const SOCKET: &str = "PINFOLD_KEEPS_SOCKET";
/// Variables that are for keepers, and not for what they start.
pub(crate) const OWN: [&str; 2] = [JOB, SOCKET];

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
    // A keeper that another process starts has no calling shell.
    let shell = shell::of(None).ok().map(|shell| (VARIABLE.into(), shell.into_os_string()));
    let others = std::env::vars_os().filter(|(name, _)| name != VARIABLE);
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

/// The PUs that this process is bound to, unlike the host's first process; empty: it is bound to none.
fn bound_to() -> String {
    let of = |process| affinity::of(process).ok().flatten();
    of(0).filter(|own| of(1).is_some_and(|all| all != *own)).map_or_else(String::new, |own| own.to_string())
}
