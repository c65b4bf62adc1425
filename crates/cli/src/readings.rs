//! `pinfold host`: what the host as a whole did while jobs ran.

use clap::Args;
use pinfold_profile::report;
use pinfold_proto::wire::{Reply, Request};

use crate::client::{Dial, unexpected};
use crate::failure::Failure;
use crate::show::{moment, print_json, print_text, width};

#[derive(Debug, Args)]
pub(crate) struct HostArgs {
    /// Since then: so long ago (2h), a date (2026-11-21 22:10, UTC) or Unix seconds (@1790000000)
    #[arg(long, value_name = "WHEN", default_value = "1h")]
    pub since: String,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// `pinfold host`.
pub(crate) fn host(dial: &Dial, args: &HostArgs) -> Result<(), Failure> {
    let since_us = moment("--since", &args.since)?;
    let view = match dial.connect()?.ask(&Request::Host { since_us })? {
        Reply::Host(view) => view,
        other => return Err(unexpected(&other)),
    };
    if args.json { print_json(&view) } else { print_text(|out| report::write_host(&view, width(), out)) }
}
