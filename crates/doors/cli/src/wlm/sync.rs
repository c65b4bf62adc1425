//! `pinfold wlm sync`: tells Slurm the state that Slurm cannot see: how many jobs a core takes here, whether the host
//! is drained, and which jobs have been frozen for long, or waited. An operator's command, as it changes partitions,
//! nodes and jobs; nothing runs it automatically.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use clap::{Args, ValueEnum};
use pinfold_proto::quantity::parse_duration;
use pinfold_proto::view::{JobView, StatusView};
use pinfold_proto::wire::Request;
use pinfold_proto::{ExitCode, JobState};
use pinfold_wlm::Manager;
use pinfold_wlm::detect::Surroundings as _;
use pinfold_wlm::sync::{self, Policy, Watched};

use super::detect::Here;
use crate::again::interval;
use crate::print::say;
use pinfold_client::{Dial, Failure};

/// What becomes in Slurm of a job that is frozen for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Then {
    /// Its AdminComment says so
    Comment,
    /// Slurm suspends it, too, and sends another job in its place; it is resumed when it runs again here
    Suspend,
    /// Slurm ends it, and runs it again later from its beginning
    Requeue,
}

#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// slurm
    #[arg(value_name = "MANAGER", value_parser = super::manager)]
    manager: Manager,
    /// Keep OverSubscribe=FORCE:n of this partition equal to the slots of a core here; may be given again
    #[arg(long, value_name = "NAME", value_parser = name)]
    partition: Vec<String>,
    /// Drain this node in Slurm while the host is drained here (`pinfold admin drain`)
    #[arg(long, value_name = "NAME", value_parser = name)]
    node: Option<String>,
    /// Tell Slurm of jobs that have been frozen for so long
    #[arg(long, value_name = "DURATION", value_parser = parse_duration, requires = "every")]
    frozen_after: Option<Duration>,
    /// What becomes of such a job
    #[arg(long, value_enum, value_name = "WHAT", default_value = "comment", requires = "frozen_after")]
    then: Then,
    /// Give jobs the time back that they wait here, in minutes, by a longer limit in Slurm; so much each at most. Their
    /// AdminComment says how much
    #[arg(long, value_name = "DURATION", value_parser = minutes)]
    waited_back: Option<Duration>,
    /// Look again after so long, until a signal ends it [default: once]
    #[arg(long, value_name = "DURATION", value_parser = interval)]
    every: Option<Duration>,
}

fn minutes(text: &str) -> Result<Duration, String> {
    let duration = parse_duration(text).map_err(|error| error.to_string())?;
    let short = || "Slurm counts limits in minutes: say 1m or more".to_owned();
    (duration >= Duration::from_secs(60)).then_some(duration).ok_or_else(short)
}

fn name(text: &str) -> Result<String, String> {
    let bad = || format!("`{text}` is no name of a partition or node");
    sync::is_name(text).then(|| text.to_owned()).ok_or_else(bad)
}

/// `pinfold wlm sync`.
pub(super) fn sync(dial: &Dial, args: &SyncArgs) -> Result<(), Failure> {
    if args.manager != Manager::Slurm {
        let text = format!("{} is told by its hooks: only slurm has to be kept told", args.manager);
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let asked = [args.node.is_some(), args.frozen_after.is_some(), args.waited_back.is_some()];
    if args.partition.is_empty() && !asked.contains(&true) {
        let text = "say what Slurm is told: --partition NAME, --node NAME, --frozen-after DURATION, \
                    --waited-back DURATION";
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let mut watched = None;
    let begun = Instant::now();
    loop {
        let outcome = status(dial).and_then(|view| {
            args.partition.iter().try_for_each(|name| share(name, &view))?;
            args.node.iter().try_for_each(|name| drain(name, view.draining))?;
            if let Some(after) = args.frozen_after {
                tell(&mut watched, begun.elapsed(), after, args.then, &view);
            }
            if let Some(most) = args.waited_back {
                give_back(most, &view);
            }
            Ok(())
        });
        match (outcome, args.every) {
            (outcome, None) => return outcome,
            // The daemon or Slurm may be back at the next look.
            (Err(failure), Some(_)) => say(&failure.message),
            (Ok(()), Some(_)) => {}
        }
        std::thread::sleep(args.every.unwrap_or_default().max(Duration::from_secs(1)));
    }
}

fn status(dial: &Dial) -> Result<StatusView, Failure> {
    answer!(dial.connect()?.ask(&Request::Status { jobs: Vec::new(), all: true, at_us: None })?, Status)
}

/// Has a partition send as many jobs a core as there are slots.
fn share(partition: &str, view: &StatusView) -> Result<(), Failure> {
    let shown = shown("partition", partition)?;
    let wanted = sync::oversubscribe(sync::jobs_a_core(view.slots.total, view.slots.cores));
    let now = sync::oversubscribe_in(&shown).unwrap_or_default();
    if now == wanted {
        return Ok(());
    }
    run(&["scontrol", "update", &format!("PartitionName={partition}"), &format!("OverSubscribe={wanted}")])?;
    say(&format!("partition {partition}: OverSubscribe was {now} and is {wanted}"));
    Ok(())
}

/// Drains a node in Slurm with the host, and takes it back with it.
fn drain(node: &str, draining: bool) -> Result<(), Failure> {
    let Some(words) = sync::drain(node, &shown("node", node)?, draining) else { return Ok(()) };
    run(&words)?;
    let done = if draining { "is drained" } else { "takes jobs again" };
    say(&format!("node {node} {done} in Slurm"));
    Ok(())
}

/// Slurm's description of a partition or a node.
fn shown(what: &str, name: &str) -> Result<String, Failure> {
    let failed = || {
        let text = format!("Slurm tells nothing of {what} {name}: `scontrol show {what} {name}`");
        Failure::new(ExitCode::Failed, text)
    };
    Here.answer(&["scontrol", "show", what, name]).ok_or_else(failed)
}

/// Tells Slurm of jobs that are frozen for long, and of jobs that no longer are.
fn tell(watched: &mut Option<Watched>, now: Duration, after: Duration, then: Then, view: &StatusView) {
    let policy = match then {
        Then::Comment => Policy::Comment,
        Then::Suspend => Policy::Suspend,
        Then::Requeue => Policy::Requeue,
    };
    let frozen: BTreeMap<&str, &JobView> = named(view).filter(|(_, job)| is_frozen(job.state)).collect();
    // Without Slurm's answer, the owners of these jobs and the earlier messages are unknown.
    if watched.is_none() {
        *watched = ask(&[]).map(|shown| Watched::knowing(sync::told(&shown, &view.host)));
    }
    let Some(watched) = watched else { return };
    let looked_at: BTreeSet<&str> = frozen.keys().copied().chain(watched.told()).collect();
    let Some(shown) = listed(looked_at.into_iter()) else { return };
    let frozen: BTreeSet<String> = frozen
        .into_iter()
        .filter(|(number, job)| sync::is_of(number, &job.user, &shown))
        .map(|(number, _)| number.to_owned())
        .collect();
    for news in watched.step(now.as_secs_f64(), &frozen, after.as_secs_f64()) {
        for words in sync::commands(&news, policy, &view.host, &shown) {
            // The job may be over by now; Slurm's message is for the operator.
            run(&words).map_or_else(|failure| say(&failure.message), |()| say(&words.join(" ")));
        }
    }
}

/// Whether a job is frozen: its memory is paged out meanwhile, as a rule.
fn is_frozen(state: JobState) -> bool {
    matches!(state, JobState::Frozen | JobState::Parked)
}

/// Gives jobs the minutes back that they waited here, or have waited by now.
fn give_back(most: Duration, view: &StatusView) {
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    let mut waited: BTreeMap<&str, (u64, &JobView)> = BTreeMap::new();
    for (number, job) in named(view).filter(|(_, job)| job.ended_s.is_none()) {
        let seconds = job.started_s.unwrap_or(now_s) - job.submitted_s;
        let minutes = Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs() / 60;
        let known = waited.entry(number).or_insert((minutes, job));
        known.0 = minutes.max(known.0);
    }
    waited.retain(|_, (minutes, _)| *minutes > 0);
    let Some(shown) = listed(waited.keys().copied()) else { return };
    for (number, (minutes, job)) in waited {
        if !sync::is_of(number, &job.user, &shown) {
            continue;
        }
        let Some(words) = sync::longer(number, &shown, minutes, most.as_secs() / 60) else { continue };
        // The job may be over by now; Slurm's message is for the operator.
        run(&words).map_or_else(|failure| say(&failure.message), |()| say(&words.join(" ")));
    }
}

/// Jobs that are called by a number of Slurm's, which their users may have made up.
fn named(view: &StatusView) -> impl Iterator<Item = (&str, &JobView)> {
    view.jobs.iter().filter_map(|job| Some((sync::slurm_job(job.external.as_deref()?)?, job)))
}

/// Slurm's description of these jobs; `None`: Slurm does not answer.
fn listed<'a>(jobs: impl Iterator<Item = &'a str>) -> Option<String> {
    let jobs: Vec<&str> = jobs.collect();
    jobs.chunks(sync::LISTED_MAX).map(ask).collect()
}

/// Slurm's description of these jobs, or of all if no job is named.
fn ask(jobs: &[&str]) -> Option<String> {
    let words = sync::listed(jobs);
    Here.answer(&words.iter().map(String::as_str).collect::<Vec<&str>>())
}

fn run<S: AsRef<str>>(words: &[S]) -> Result<(), Failure> {
    let words: Vec<&str> = words.iter().map(AsRef::as_ref).collect();
    let failed = || Failure::new(ExitCode::Failed, format!("`{}` failed", words.join(" ")));
    Here.answer(&words).map(drop).ok_or_else(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Else Slurm would be told that a job goes on as soon as it is paged out.
    #[test]
    fn what_is_paged_out_is_frozen() {
        let frozen: Vec<JobState> = JobState::ALL.into_iter().filter(|&state| is_frozen(state)).collect();
        assert_eq!(frozen, [JobState::Frozen, JobState::Parked]);
    }
}
