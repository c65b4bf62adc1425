//! `pinfold keepers`: starts a keeper for each submitted job, and one for each array with members, that wait for one; after
//! a restart of the host above all.
//!
//! Each is what `pinfold submit` was when it handed the job over: the same command line in the same directory and
//! environment, as the same user, told by two variables that it keeps a job that is there already. Root starts those of
//! all users, anybody else their own.
//! Absent here: which jobs those are, and what such a keeper does (`submit`).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::{Duration, Instant};

use pinfold_proto::ExitCode;
use pinfold_proto::array::JobName;
use pinfold_proto::start::StartOf;
use pinfold_proto::wire::{Reply, Request};
use pinfold_sys::spawn::{self, Environment, Program, Side};
use pinfold_sys::{affinity, own, peer, signals};
use serde_json::json;

use crate::print::{print_json, print_text};
use crate::submit;
use crate::successor::{JOB, SOCKET};
use pinfold_client::Failure;
use pinfold_client::{Dial, unexpected};

/// After each keeper that is started comes a pause, for it to come before thousands of others do.
const PAUSE: Duration = Duration::from_millis(5);

/// A caller of this command, a service that starts above all, waits no longer; the rest are started in the background.
const WAITED_FOR: Duration = Duration::from_secs(30);

/// Starts them, and says for which jobs.
pub(crate) fn keepers(dial: &Dial, json: bool) -> Result<(), Failure> {
    let until = Instant::now() + WAITED_FOR;
    let (mut jobs, mut names, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut alone = false;
    let failure = loop {
        // As many as one answer holds; those that were told of are not due again so soon.
        let starts = match dial.connect()?.ask(&Request::Starts)? {
            Reply::Starts(starts) => starts,
            other => return Err(unexpected(&other)),
        };
        let named = starts.into_iter().map(|one| (name_of(&one), one));
        // What was started and did not come would be told of for ever.
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
                // The daemon has this one started again in a while, and so are those behind it.
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
                    // Nobody waits for its words.
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
    // Which process the kernel spares is not for the starter of its keeper to hand on, nor for a user to ask of root.
    // Before this process is another user's, for then its files in /proc are nobody's to write.
    let others = *uid != peer::own_uid();
    let spared = if others { start.oom_score_adj.max(0) } else { start.oom_score_adj };
    let _ = std::fs::write("/proc/self/oom_score_adj", spared.to_string());
    if others && let Err(error) = peer::become_user(*uid) {
        return failed(&format!("user {uid}"), &error);
    }
    // Now, with no more rights than theirs: these are what a user's client sent, and must not raise anything.
    own::set_limits(&start.limits);
    if let Err(error) = std::env::set_current_dir(&start.directory) {
        return failed(&start.directory, &error);
    }
    own::set_umask(start.umask);
    own::nice_thread(start.nice);
    own::set_scheduling(start.scheduling, start.io_priority);
    if let Ok(cpus) = start.cpus.parse() {
        let _ = affinity::set(0, &cpus);
    }
    signals::ignore(&start.ignored);
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
            Failure::new(ExitCode::NotExecutable, spawn::become_now(&program))
        }
        Err(error) => Failure::new(ExitCode::NotExecutable, error),
    }
}
