//! How the time of a run grows with jobs and hosts: EASY on plain hosts of 16 cores, jobs at random, just below and just
//! above what the hosts can do.

use std::time::Instant;

use pinfold_cluster::SECOND;
use pinfold_cluster::dispatch::Dispatch;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::graph::Graph;
use pinfold_cluster::job::Job;
use pinfold_cluster::play::{Options, play};
use pinfold_cluster::runtimes::Runtimes;

use super::SimArgs;
use crate::record::Record;
use crate::row::Ground;
use crate::row::pack::Dice;
use crate::table::markdown;

/// Cores of each host.
const CORES: u32 = 16;
/// The mean run time, in seconds.
const RUN_S: f64 = 3600.0;
/// Processors of jobs; each is as likely.
const WIDTHS: [u32; 13] = [1, 1, 1, 2, 2, 4, 4, 8, 8, 16, 32, 64, 128];
/// Work that is submitted, of what the hosts can do: in the second the queue grows to the end.
const LOADS: [f64; 2] = [0.95, 1.05];

pub(super) fn tell(args: &SimArgs, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    record.say(&format!("EASY on plain hosts of {CORES} cores; the time of one run:\n"));
    let mut table = Vec::new();
    for load in LOADS {
        let mut before: Option<(f64, f64)> = None;
        for (count, hosts) in sizes(args) {
            let (wall_s, events) = ground.compute(move || once(count, hosts, load))?;
            let peak_mib = peak_mib();
            record.add(
                "scale",
                &serde_json::json!({ "jobs": count, "hosts": hosts, "load": load, "wall_s": wall_s,
                                     "events": events, "peak_mib": peak_mib }),
            )?;
            // How the time for each job grew, against how the logarithm of their number did.
            let of_each = wall_s / (count as f64 * (count as f64).ln());
            let grew =
                before.filter(|&(hosts_before, _)| hosts_before.to_bits() == f64::from(hosts).to_bits());
            let grew = grew.map_or("-".to_owned(), |(_, before)| format!("{:.2}", of_each / before));
            before = Some((f64::from(hosts), of_each));
            table.push(vec![
                load.to_string(),
                hosts.to_string(),
                count.to_string(),
                format!("{wall_s:.2}"),
                format!("{:.0}", events as f64 / wall_s.max(1e-9)),
                peak_mib.to_string(),
                grew,
            ]);
        }
    }
    record.say(&markdown(
        &[
            "load",
            "hosts",
            "jobs",
            "seconds",
            "events/s",
            "most MiB so far",
            "t / (n log n), to the row before",
        ],
        &table,
    ));
    Ok(())
}

/// Jobs and hosts, the jobs of each number of hosts growing.
fn sizes(args: &SimArgs) -> Vec<(usize, u32)> {
    let hosts = [10, 100, 1000].into_iter().filter(|&hosts| hosts <= args.hosts);
    let jobs = || [10_000, 100_000, 1_000_000].into_iter().filter(|&jobs| jobs <= args.jobs);
    hosts.flat_map(|hosts| jobs().map(move |jobs| (jobs, hosts))).collect()
}

fn once(count: usize, hosts: u32, load: f64) -> (f64, u64) {
    let jobs = jobs(count, hosts, load);
    let fleet = Fleet { hosts, cores: CORES, slots: CORES, memory: None, job_memory: u64::MAX };
    let options = Options { fleet, dispatch: Dispatch::Easy, runtimes: Runtimes::Requested };
    let begun = Instant::now();
    let played = play(&jobs, &Graph::default(), &options, |_| {});
    (begun.elapsed().as_secs_f64(), played.events)
}

fn jobs(count: usize, hosts: u32, load: f64) -> Vec<Job> {
    let widths: f64 = WIDTHS.iter().map(|&width| f64::from(width)).sum::<f64>() / WIDTHS.len() as f64;
    let gap_s = RUN_S * widths / (f64::from(hosts) * f64::from(CORES)) / load;
    let mut dice = Dice::new(count as u64);
    let mut at_s = 0.0;
    let job = |number| {
        at_s += gap_s * dice.gap();
        let run_s = whole(dice.gap() * RUN_S).max(1);
        Job {
            number,
            submit_us: whole(at_s) * SECOND,
            run_us: run_s * SECOND,
            // Users ask for one to ten times what they take.
            requested_us: run_s * (1 + dice.next() % 10) * SECOND,
            processors: WIDTHS[usize::try_from(dice.next() % WIDTHS.len() as u64).unwrap_or(0)],
            ..Job::default()
        }
    };
    (1..=count as u64).map(job).collect()
}

fn whole(seconds: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates at both ends")]
    let whole = seconds as u64;
    whole
}

/// The most memory that this process had so far, in MiB; 0 where the kernel does not say.
fn peak_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    peak.and_then(|peak| peak.split_ascii_whitespace().next()?.parse::<u64>().ok()).map_or(0, |kib| kib >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_submitted_as_is_said() {
        let jobs = jobs(20_000, 100, 0.95);
        let work: f64 = jobs.iter().map(|job| job.run_us as f64 * f64::from(job.processors)).sum();
        let last = jobs.last().map_or(0, |job| job.submit_us) as f64;
        let load = work / (last * 100.0 * f64::from(CORES));
        assert!((load - 0.95).abs() < 0.1, "{load}");
    }
}
