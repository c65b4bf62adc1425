//! `pinfold status` and `pinfold why`.

use clap::Args;
use pinfold_profile::report;
use pinfold_proto::array::JobName;
use pinfold_proto::wire::{Member, Members, Reply, Request};

use super::{colours, moment, print_json, print_text, width};
use crate::client::{Dial, unexpected};
use crate::failure::Failure;
use crate::names;

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// Only these jobs
    #[arg(value_name = "JOB")]
    pub jobs: Vec<JobName>,
    /// Also jobs that are over, and other users' where you may see them
    #[arg(short, long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct WhyArgs {
    /// The job
    #[arg(value_name = "JOB")]
    pub job: JobName,
    /// As it stood then: so long ago (2h), a date (2026-11-21 22:10, UTC) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN")]
    pub at: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `pinfold status`.
pub(crate) fn status(dial: &Dial, args: &StatusArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let jobs = names::jobs(&mut client, &args.jobs)?;
    let view = match client.ask(&Request::Status { jobs, all: args.all, at_us: None })? {
        Reply::Status(view) => view,
        other => return Err(unexpected(&other)),
    };
    if args.json {
        return print_json(&view);
    }
    print_text(|out| report::write_status(&view, width(), colours(), out))
}

/// `pinfold why`.
pub(crate) fn why(dial: &Dial, args: &WhyArgs) -> Result<(), Failure> {
    let at_us = args.at.as_deref().map(|when| moment("--at", when)).transpose()?;
    let mut client = dial.connect()?;
    let named = names::members(&mut client, std::slice::from_ref(&args.job))?.pop().unwrap_or_else(|| {
        let jobs = vec![Member { job: args.job.job, index: None, over: false }];
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
        let why = names::WhyArray::new(args.job.job, views);
        return if args.json { print_json(&why.json()) } else { print_text(|out| why.write(out)) };
    }
    let Some((_, view)) = views.pop() else { return Ok(()) };
    if args.json {
        return print_json(&view);
    }
    print_text(|out| report::write_why(&view, out))
}
