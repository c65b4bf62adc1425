//! `pinfold set-aside` and `pinfold sets`: cores that are kept for the jobs that ask for them by name.

use pinfold_profile::report::clock_utc;
use pinfold_proto::view::{SetAsideView, SetKind, SetsView};
use pinfold_proto::wire::{Reply, Request, SetAside};

use crate::args::SetAsideArgs;
use crate::client::{Dial, unexpected};
use crate::failure::Failure;
use crate::show::{print_json, print_text};

/// `pinfold set-aside`.
pub(crate) fn set_aside(dial: &Dial, args: &SetAsideArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    if let (true, Some(name)) = (args.remove, &args.name) {
        return match client.ask(&Request::SetRemove { name: name.clone() })? {
            Reply::Done => Ok(()),
            other => Err(unexpected(&other)),
        };
    }
    let hold_us = args.hold.map(|hold| u64::try_from(hold.as_micros()).unwrap_or(u64::MAX));
    let asked = SetAside {
        name: args.name.clone(),
        cpus: args.cpus.clone(),
        cores: args.cores,
        memory_bytes: args.memory,
        shared: args.shared,
        housekeeping: args.housekeeping,
        users: args.users.clone(),
        hold_us,
    };
    match client.ask(&Request::SetAside(asked))? {
        // Only who does not know the name wants to hear it.
        Reply::SetMade { name: Some(name) } if args.idle => print_text(|out| writeln!(out, "{name}")),
        Reply::SetMade { .. } => Ok(()),
        other => Err(unexpected(&other)),
    }
}

/// `pinfold sets`.
pub(crate) fn sets(dial: &Dial, json: bool) -> Result<(), Failure> {
    let view = match dial.connect()?.ask(&Request::Sets)? {
        Reply::Sets(view) => view,
        other => return Err(unexpected(&other)),
    };
    if json { print_json(&view) } else { print(&view) }
}

fn print(view: &SetsView) -> Result<(), Failure> {
    print_text(|out| {
        if view.sets.is_empty() {
            return writeln!(out, "no cores are set aside");
        }
        writeln!(
            out,
            "{:<16} {:<14} {:>5}  {:<12} {:<9} {:<10} JOBS",
            "SET", "PUS", "CORES", "KIND", "USE", "OWNER"
        )?;
        for set in &view.sets {
            writeln!(out, "{}", line(set))?;
        }
        Ok(())
    })
}

fn line(set: &SetAsideView) -> String {
    let jobs: Vec<String> = set.jobs.iter().map(ToString::to_string).collect();
    let jobs = if jobs.is_empty() { "-".to_owned() } else { jobs.join(" ") };
    let mut line = format!(
        "{:<16} {:<14} {:>5}  {:<12} {:<9} {:<10} {jobs}",
        set.set,
        set.cpus,
        set.cores,
        kind_word(set.kind),
        if set.shared { "shared" } else { "exclusive" },
        set.owner,
    );
    if let Some(bytes) = set.memory_bytes {
        line += &format!(", memory {}", pinfold_proto::quantity::show_size(bytes));
    }
    if !set.users.is_empty() {
        line += &format!(", for {}", set.users.join(" "));
    }
    if set.usable_cpus != set.cpus {
        let left = if set.usable_cpus.is_empty() { "none" } else { &set.usable_cpus };
        line += &format!(", of its PUs the host has {left}");
    }
    if let Some(expires_s) = set.expires_s {
        line += &format!(", goes at {}", clock_utc(expires_s));
    }
    line
}

pub(crate) fn kind_word(kind: SetKind) -> &'static str {
    match kind {
        SetKind::Static => "static",
        SetKind::Idle => "idle",
        SetKind::Housekeeping => "housekeeping",
        SetKind::Isolated => "isolated",
    }
}
