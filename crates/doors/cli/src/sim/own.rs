//! This host's own past: the jobs of its store, and the settings that its daemon has.

use pinfold_cluster::{Micros, SECOND};
use pinfold_proto::config::Config;
use pinfold_proto::view::ReportView;
use pinfold_proto::wire::{ConfigValue, Piece, Request, Select};
use pinfold_whatif::contention::Run;
use pinfold_whatif::list::{Entry, List};

use super::SimArgs;
use super::input::{Input, Listed};
use crate::print::say;
use pinfold_client::{Dial, Failure};

/// Groups of keys that a simulated host heeds.
const SIMULATED: [&str; 3] = ["cpu.", "memory.", "slots."];
/// Keys that set the host's part for jobs: they say nothing of another host.
const OF_THE_HOST: [&str; 4] = ["host.cpus", "host.memory", "host.memory_reserve", "host.swap"];

/// Whether a setting differs from the default, and changes something in a simulation.
fn is_simulated(value: &ConfigValue) -> bool {
    let key = value.key.as_str();
    let heeded = OF_THE_HOST.contains(&key) || SIMULATED.iter().any(|group| key.starts_with(group));
    heeded && value.origin != "default" && !value.value.is_empty()
}

/// The configuration that runs begin with: this host's where its own jobs are played, else the default.
pub(super) fn config(args: &SimArgs, settings: &[ConfigValue]) -> Config {
    let elsewhere = args.hosts.is_some() || args.cores.is_some() || args.topology.is_some();
    let mut config = Config::default();
    let mut used = Vec::new();
    for ConfigValue { key, value, .. } in settings {
        if OF_THE_HOST.contains(&key.as_str()) && (elsewhere || args.memory.is_some()) {
            continue;
        }
        let change = format!("{key}={value}");
        // A daemon of another version may have keys that are not known here.
        match config.with_changes([change.as_str()]) {
            Ok((changed, _)) => {
                config = changed;
                used.push(change);
            }
            Err(error) => say(&format!("this host's {change} is left out: {error}")),
        }
    }
    if !used.is_empty() {
        say(&format!("with this host's settings: {}; --set changes each", used.join(" ")));
    }
    config
}

/// The finished jobs of this host's store, from the daemon.
pub(super) fn jobs(dial: &Dial, since: &str) -> Result<Input, Failure> {
    let request =
        crate::show::figures_of(Select::Since(crate::print::moment("--since", since)?), false, false);
    let (mut list, mut runs, mut running) = (List::default(), Vec::new(), 0_u64);
    let mut client = dial.connect()?;
    let settings = answer!(client.ask(&Request::ConfigGet)?, Config)?;
    let settings = settings.into_iter().filter(is_simulated).collect();
    client.ask_in_pieces(&request, |piece| {
        if let Piece::Jobs(reports) = piece {
            for report in reports {
                match entry(&report) {
                    Some((entry, run)) => {
                        list.add(entry);
                        runs.push(run);
                    }
                    None => running += 1,
                }
            }
        }
        Ok(())
    })?;
    if running > 0 {
        say(&format!("{running} jobs since {since} are left out: they are not over, or never started"));
    }
    Ok(Input::List(Listed::of_store(format!("jobs since {since}"), list, runs, settings)))
}

/// A job of the store, and when it ran; `None` for a job that never started or is not over.
fn entry(report: &ReportView) -> Option<(Entry, Run)> {
    let (started_s, ended_s) = (report.started_s?, report.ended_s?);
    // While it was suspended, it did not run.
    let wall_s = (report.wall_s? - report.suspended_s).max(0.0);
    let entry = Entry {
        job: Some(report.job),
        submit_s: report.submitted_s.max(0.0),
        wall_s,
        requested_s: None,
        cores: Some(report.cores.max(1)),
        cpu_s: Some(report.cpu_user_s + report.cpu_system_s),
        memory_peak_bytes: Some(report.memory_peak_bytes),
        memory_ramp: None,
        ramp_cpu_s: None,
        memory_request_bytes: report.claim_bytes,
        user: report.user.clone(),
        name: report.name.clone(),
        io_bytes: Some(report.io_read_bytes.saturating_add(report.io_write_bytes)),
        list: report.array_id.map(|array| array.to_string()),
        runs_before: 0,
        after: Vec::new(),
        label: None,
    };
    let start_us = micros(started_s);
    let run = Run {
        start_us,
        end_us: micros(ended_s).max(start_us),
        cpu_us: micros(report.cpu_user_s + report.cpu_system_s),
        cores: report.cores.max(1),
    };
    Some((entry, run))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "as is saturates")]
fn micros(seconds: f64) -> Micros {
    (seconds * SECOND as f64) as u64
}
