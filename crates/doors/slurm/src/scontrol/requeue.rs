//! `scontrol requeue` and `requeuehold`: ends a running batch job, which waits and runs again.

use pinfold_proto::wire::Verb;

use crate::cluster::Cluster;
use crate::jobs::Job;
use crate::say;
use crate::state::State;
use crate::trouble::{OVER, Trouble, words};

use super::{connect, named};

/// Requeues each job; with `hold` it waits for its release.
///
/// # Errors
/// Without a job. Failures of single jobs are reported, with status 1 at the end.
pub(super) fn requeue(lists: &[String], hold: bool) -> Result<u8, Trouble> {
    // Slurm's options before the list: a special state for waiting jobs, and only incomplete jobs.
    let is_option = |word: &&String| {
        let word = word.to_ascii_lowercase();
        word.starts_with("state=") || word == "incomplete"
    };
    let lists: Vec<&String> = lists.iter().filter(|word| !is_option(word)).collect();
    if lists.is_empty() {
        return Err(Trouble::new("too few arguments for keyword:requeue"));
    }
    let mut cluster = connect()?;
    let mut status = 0;
    for list in lists {
        for job in named(&mut cluster, list)? {
            if let Err(why) = one(&mut cluster, &job, hold) {
                status = 1;
                say::bare(&format!("{why} for job {}", job.shown()));
            }
        }
    }
    Ok(status)
}

fn one(cluster: &mut Cluster, job: &Job, hold: bool) -> Result<(), String> {
    let why = match job.state {
        _ if !job.label.batch => Some("Only batch jobs are accepted or processed"),
        _ if job.label.no_requeue => Some("Requested operation is presently disabled (--no-requeue)"),
        State::Pending => Some("Job is pending execution"),
        state if state.is_over() => Some(OVER),
        _ => None,
    };
    if let Some(why) = why {
        return Err(why.to_owned());
    }
    // Suspending first makes the job held when it waits again.
    let verbs = [hold.then_some(Verb::Suspend), Some(Verb::Requeue)];
    for verb in verbs.into_iter().flatten() {
        cluster.control(job.job, verb).map_err(|failure| words(&failure))?;
    }
    Ok(())
}
