//! `pinfold status` and `pinfold why`.

use clap::Args;
use pinfold_profile::report;
use pinfold_proto::JobState;
use pinfold_proto::array::{JobName, called};
use pinfold_proto::view::JobView;
use pinfold_proto::wire::{Reply, Request};

use super::filter::Filter;
use crate::again::Again;
use crate::names::{self, JobRef};
use crate::pick::Pick;
use crate::print::{colours, moment, print_json, print_text, say, width};
use pinfold_client::{Client, Dial, Failure, outputs::Outputs, unexpected};

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub jobs: Vec<JobRef>,
    /// Also jobs that are over, and other users' where you may see them
    #[arg(short, long)]
    pub all: bool,
    #[command(flatten)]
    pub filter: Filter,
    /// Only jobs asked for since then: so long ago (2h), a date (2026-11-21 22:10) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    #[command(flatten)]
    pub again: Again,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    #[command(flatten)]
    pub pick: Pick,
    /// As it stood then: so long ago (2h), a date (2026-11-21 22:10) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    #[command(flatten)]
    pub again: Again,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `pinfold status`.
pub(crate) fn status(dial: &Dial, args: &StatusArgs) -> Result<(), Failure> {
    let filter = &args.filter;
    let since_us = args.since.as_deref().map(|when| moment("--since", when)).transpose()?;
    let mut client = dial.connect()?;
    let jobs = names::jobs(&mut client, &args.jobs)?;
    let named = !jobs.is_empty();
    let over = args.all || named || since_us.is_some() || filter.state.iter().any(|state| state == "exited");
    let all = over || filter.user.is_some();
    let mut view = answer!(client.ask(&Request::Status { jobs, all, at_us: None })?, Status)?;
    view.jobs.retain(|job| over || job.state != JobState::Exited);
    let since_s = since_us.map_or(0.0, pinfold_proto::view::seconds);
    view.jobs.retain(|job| job.submitted_s >= since_s);
    if args.json || filter.names_keys() {
        let outputs = Outputs::of(dial.socket());
        view.jobs.iter_mut().for_each(|job| outputs.tell_job(job));
    }
    let looked_at = view.jobs.len();
    view.jobs = filter.apply(std::mem::take(&mut view.jobs))?;
    if let Some(words) = filter.none_of(looked_at).filter(|_| view.jobs.is_empty()) {
        say(&words);
    }
    say_why(&mut client, &mut view.jobs, WHY_MAX)?;
    if args.json {
        return print_json(&view);
    }
    if !filter.columns.is_empty() {
        let table = filter.table(&view.jobs)?;
        return print_text(|out| out.write_all(table.as_bytes()));
    }
    print_text(|out| report::write_status(&view, width(), colours(), out))
}

/// The most waiting jobs with a question of their own; rows of the others name the command.
const WHY_MAX: usize = 50;

/// Adds the cause to waiting jobs without a reason, for at most `most` jobs.
pub(crate) fn say_why(client: &mut Client, jobs: &mut [JobView], most: usize) -> Result<(), Failure> {
    let waits = |job: &&mut JobView| {
        matches!(job.state, JobState::Queued | JobState::Held)
            && job.reason.as_deref().is_none_or(str::is_empty)
    };
    for (count, job) in jobs.iter_mut().filter(waits).enumerate() {
        if count >= most {
            job.reason = Some(format!("it waits for its turn; `pinfold why {}` says more", job.job));
            continue;
        }
        match client.ask(&Request::Why { job: job.job, at_us: None }) {
            Ok(Reply::Why(view)) => {
                let start = view.numbers.into_iter().find(|number| number.name == "expected start");
                job.reason = Some(match (start, view.expected_start_s) {
                    // A table cuts its last column: the time comes first.
                    (Some(start), Some(_)) => format!("start {}; {}", start.text, view.cause),
                    (Some(start), None) => format!("{}; start {}", view.cause, start.text),
                    (None, _) => view.cause,
                });
            }
            Ok(other) => return Err(unexpected(&other)),
            // Another user's, or just over.
            Err(_) => {}
        }
    }
    Ok(())
}

/// `pinfold why`.
pub(crate) fn why(dial: &Dial, args: &WhyArgs) -> Result<(), Failure> {
    let at_us = args.at.as_deref().map(|when| moment("--at", when)).transpose()?;
    let mut client = dial.connect()?;
    for (at, name) in args.pick.meant(&mut client)?.iter().enumerate() {
        if at > 0 && !args.json {
            print_text(|out| writeln!(out))?;
        }
        why_of(&mut client, args, name, at_us)?;
    }
    Ok(())
}

/// Answers about a job, an array or members of it.
fn why_of(client: &mut Client, args: &WhyArgs, number: &JobName, at_us: Option<u64>) -> Result<(), Failure> {
    let mut views = Vec::new();
    let members = names::members(client, &[number.clone().into()])?;
    for member in members.into_iter().flat_map(|members| members.jobs) {
        let view = answer!(client.ask(&Request::Why { job: member.job, at_us })?, Why)?;
        views.push((member, view));
    }
    if views.len() != 1 {
        let why = names::WhyArray::new(number.job, views);
        return if args.json { print_json(&why.json()) } else { print_text(|out| why.write(out)) };
    }
    let Some((member, view)) = views.pop() else { return Ok(()) };
    let name = called(view.job, Some(number.job), member.index);
    if args.json {
        return print_json(&view);
    }
    print_text(|out| report::write_why(&view, &name, out))
}
