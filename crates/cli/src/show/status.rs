//! `pinfold status` and `pinfold why`.

use clap::Args;
use pinfold_profile::report;
use pinfold_proto::JobState;
use pinfold_proto::view::JobView;
use pinfold_proto::wire::{Member, Members, Reply, Request};

use super::filter::Filter;
use super::{colours, moment, print_json, print_text, width};
use crate::client::{Client, Dial, unexpected};
use crate::failure::Failure;
use crate::names::{self, JobRef};

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
    /// Only jobs asked for since then: so long ago (2h), a date (2026-11-21 22:10, UTC) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub since: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: JobRef,
    /// As it stood then: so long ago (2h), a date (2026-11-21 22:10, UTC) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `pinfold status`.
pub(crate) fn status(dial: &Dial, args: &StatusArgs) -> Result<(), Failure> {
    let filter = &args.filter;
    let since_us = args.since.as_deref().map(|when| moment("--since", when)).transpose()?;
    let mut client = dial.connect()?;
    let named = names::numbers(&mut client, &args.jobs)?;
    let jobs = names::jobs(&mut client, &named)?;
    let named = !jobs.is_empty();
    let over = args.all || named || since_us.is_some() || filter.state.iter().any(|state| state == "exited");
    let all = over || filter.user.is_some();
    let mut view = match client.ask(&Request::Status { jobs, all, at_us: None })? {
        Reply::Status(view) => view,
        other => return Err(unexpected(&other)),
    };
    view.jobs.retain(|job| over || job.state != JobState::Exited);
    let since_s = since_us.map_or(0.0, pinfold_proto::view::seconds);
    view.jobs.retain(|job| job.submitted_s >= since_s);
    view.jobs = filter.apply(std::mem::take(&mut view.jobs))?;
    say_why(&mut client, &mut view.jobs)?;
    if args.json {
        return print_json(&view);
    }
    if !filter.columns.is_empty() {
        let table = filter.table(&view.jobs)?;
        return print_text(|out| out.write_all(table.as_bytes()));
    }
    print_text(|out| report::write_status(&view, width(), colours(), out))
}

/// How many jobs that wait are asked about one by one.
const WHY_MAX: usize = 50;

/// Adds the cause to those that wait and have none.
fn say_why(client: &mut Client, jobs: &mut [JobView]) -> Result<(), Failure> {
    let waits = |job: &&mut JobView| {
        matches!(job.state, JobState::Queued | JobState::Held)
            && job.reason.as_deref().is_none_or(str::is_empty)
    };
    for job in jobs.iter_mut().filter(waits).take(WHY_MAX) {
        match client.ask(&Request::Why { job: job.job, at_us: None }) {
            Ok(Reply::Why(view)) => job.reason = Some(view.cause),
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
    let Some(name) = names::numbers(&mut client, std::slice::from_ref(&args.job))?.pop() else {
        return Ok(());
    };
    let named = names::members(&mut client, std::slice::from_ref(&name))?.pop().unwrap_or_else(|| {
        let jobs = vec![Member { job: name.job, index: None, over: false }];
        Members { array: false, jobs }
    });
    let mut views = Vec::new();
    for member in named.jobs {
        match client.ask(&Request::Why { job: member.job, at_us })? {
            Reply::Why(view) => views.push((member, view)),
            other => return Err(unexpected(&other)),
        }
    }
    if views.len() != 1 {
        let why = names::WhyArray::new(name.job, views);
        return if args.json { print_json(&why.json()) } else { print_text(|out| why.write(out)) };
    }
    let Some((_, view)) = views.pop() else { return Ok(()) };
    if args.json {
        return print_json(&view);
    }
    print_text(|out| report::write_why(&view, out))
}
