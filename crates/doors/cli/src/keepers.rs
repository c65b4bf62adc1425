//! `pinfold keepers`: starts a keeper for each submitted job, and for each array with members, that waits for a keeper; after
//! a restart of the host above all.
//!
//! Each becomes the `pinfold submit` that handed the job over: the same command line in the same directory and
//! environment, as the same user; two variables name the job that it keeps. Root starts keepers of
//! all users, other users their own.
//! Absent here: the choice of the jobs, and the keeper itself (`submit`).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use pinfold_proto::ExitCode;
use pinfold_proto::array::JobName;
use pinfold_proto::start::StartOf;
use pinfold_proto::wire::Request;
use pinfold_sys::spawn::{self, Side};
use serde_json::json;

use crate::print::{print_json, print_text};
use crate::submit;
use crate::successor::{self, JOB, SOCKET};
use pinfold_client::{Dial, Failure};

/// After each keeper that is started comes a pause, for it to come before thousands of others do.
const PAUSE: Duration = Duration::from_millis(5);

/// A caller of this command, a service that starts above all, waits no longer; the rest are started in the background.
const WAITED_FOR: Duration = Duration::from_secs(30);

/// Starts the missing keepers, and prints their jobs.
pub(crate) fn keepers(dial: &Dial, json: bool) -> Result<(), Failure> {
    let until = Instant::now() + WAITED_FOR;
    let (mut jobs, mut names, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut alone = false;
    let failure = loop {
        // An answer has a bound on jobs; jobs of an earlier answer are not due again so soon.
        let starts = answer!(dial.connect()?.ask(&Request::Starts)?, Starts)?;
        let named = starts.into_iter().map(|one| (name_of(&one), one));
        // A keeper that was started and did not come would be listed for ever.
        let fresh: Vec<(JobName, StartOf)> =
            named.filter(|(name, _)| seen.insert(name.to_string())).collect();
        if fresh.is_empty() {
            break None;
        }
        let mut failure = None;
        for (name, one) in fresh {
            match spawn::fork_away() {
                Ok(Side::Child) => {
                    let error = become_keeper(dial, &one, &name);
                    // The user learns of it from the job.
                    submit::give_back(dial.clone(), &name, &error.message);
                    return Err(error);
                }
                Ok(Side::Parent(_)) => {
                    jobs.push(one.job);
                    names.push(name.to_string());
                    std::thread::sleep(PAUSE);
                }
                // The daemon has this keeper started again in a while, and the keepers behind it.
                Err(error) => {
                    failure = Some(Failure::doing(format!("failed to make a keeper of job {name}"), &error))
                }
            }
        }
        if failure.is_some() {
            break failure;
        }
        if !alone && Instant::now() > until {
            match spawn::fork_away() {
                Ok(Side::Child) => {
                    alone = true;
                    // No caller waits for its words.
                    let _ = spawn::null_streams();
                }
                Ok(Side::Parent(_)) | Err(_) => break None,
            }
        }
    };
    if alone {
        return failure.map_or(Ok(()), Err);
    }
    tell(json, &jobs, &names)?;
    failure.map_or(Ok(()), Err)
}

fn tell(json: bool, jobs: &[u64], names: &[String]) -> Result<(), Failure> {
    if json {
        return print_json(&json!({ "version": 1, "jobs": jobs }));
    }
    let text = match names {
        [] => "no job waits for a keeper".to_owned(),
        names => format!("started keepers of jobs {}", names.join(", ")),
    };
    print_text(|out| writeln!(out, "{text}"))
}

/// The job, or the members of an array, of a keeper.
fn name_of(one: &StartOf) -> JobName {
    let members = (!one.members.is_empty()).then(|| one.members.iter().copied().collect());
    JobName { job: one.job, indexes: members }
}

/// Becomes the `pinfold submit` of the job; returns only with the reason of a failure.
fn become_keeper(dial: &Dial, StartOf { job, uid, start, .. }: &StartOf, name: &JobName) -> Failure {
    // The path is used from another directory.
    let socket = std::path::absolute(dial.socket()).unwrap_or_else(|_| dial.socket().to_owned());
    let variables = [format!("{JOB}={name}"), format!("{SOCKET}={}", socket.display())];
    let words = start.words.iter().map(OsString::from).collect();
    match successor::take_on(start, *uid, words, variables) {
        Ok(program) => {
            let _ = spawn::null_streams();
            Failure::new(ExitCode::NotExecutable, spawn::become_now(&program))
        }
        Err(error) => Failure::new(error.code, format!("job {job} cannot be kept anew: {}", error.message)),
    }
}
