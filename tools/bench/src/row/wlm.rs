//! Row `wlm`: the same real jobs sent to this host by a workload manager, one a core, two a core, and two a core with
//! pinfold; then jobs that outgrow memory.
//!
//! Absent: a manager's cost of sending a job, which is the same in all three ways.

use clap::Args;
use serde_json::json;

use super::memory::loads::Load;
use super::waits::calibrate;
use super::{Ground, RowArgs, perform};
use crate::compare::{Question, Runs, against_best, compare, show};
use crate::managed::{Manager, Sent};
use crate::pressed::Pressed;
use crate::programs::sized::{disk, small};
use crate::record::Record;
use crate::run::Bench;
use crate::way::Way;
use crate::workload::{Job, quote};

/// Options of row `wlm`.
#[derive(Debug, Args)]
pub(crate) struct WlmArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Managers to run.
    #[arg(long, value_enum, value_name = "NAME", default_values = ["slurm", "gridengine"])]
    manager: Vec<Manager>,
    /// Real jobs: a quarter of them waits for the disk, the others are assemblies, searches and alignments in turn; 0: none.
    #[arg(long, default_value_t = 60)]
    jobs: usize,
    /// Memory of jobs that outgrow it, together, MiB; 0: no such jobs.
    #[arg(long, default_value_t = 2048)]
    budget_mib: u64,
    /// Swap, MiB.
    #[arg(long, default_value_t = 8192)]
    swap_mib: u64,
    /// A run that takes longer is given up, seconds: its jobs that had not ended have failed.
    #[arg(long, default_value_t = 180.0)]
    limit_s: f64,
    /// Loads of row `memory`.
    #[arg(long, value_name = "NAME", default_values = ["eight"])]
    load: Vec<Load>,
}

/// Runs the row.
pub(crate) fn run(args: &WlmArgs) -> anyhow::Result<()> {
    perform("wlm", &args.row, |ground, record| {
        if args.jobs > 0 {
            mixed(args, ground, record)?;
        }
        if args.budget_mib > 0 {
            overload(args, ground, record)?;
        }
        Ok(())
    })
}

fn ways(managers: &[Manager], budget_mib: Option<u64>) -> Vec<Way> {
    let sent = [Sent::Once, Sent::Twice, Sent::Pinfold];
    managers.iter().flat_map(|&manager| sent.map(|sent| Way::Managed { manager, sent, budget_mib })).collect()
}

/// The mix of real programs.
fn mixed(args: &WlmArgs, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    let bench = Bench { lenient: true, ..ground.bench(args.limit_s.max(30.0 * args.jobs as f64)) };
    let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
    let disks = disk(args.jobs / 4);
    let mut mix = small(inputs.path(), args.jobs - disks.as_ref().map_or(0, Vec::len))?;
    match disks {
        // A disk job after each three of the others.
        Ok(disks) => {
            for (number, job) in disks.into_iter().enumerate() {
                let at = (4 * number + 3).min(mix.jobs.len());
                mix.jobs.insert(at, job);
            }
        }
        Err(why) => mix.left_out.push(why),
    }
    for why in &mix.left_out {
        record.say(&format!("{why}."));
    }
    let title = "Real programs";
    let cores = ground.cores();
    let Some(solo) = alone(args, ground, &bench, &mix.jobs, record)? else { return Ok(()) };
    let question = Question {
        title,
        jobs: &mix.jobs,
        device: &[],
        ways: &ways(&args.manager, None),
        repetitions: args.row.repetitions(),
        cores,
    };
    let runs = compare(&bench, &question, &solo, record)?;
    against_each(&args.manager, title, &runs, record)
}

/// Jobs that together outgrow memory.
fn overload(args: &WlmArgs, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    let program = std::env::current_exe()?.with_file_name("pinfold-load");
    let speed = calibrate(&program, ground.solo_pu()?)?;
    record.add(
        "calibration",
        &json!({ "turns_per_second": speed, "budget_mib": args.budget_mib, "swap_mib": args.swap_mib }),
    )?;
    let bench = ground.bench(args.limit_s);
    let pressed = Pressed::make(bench.scratch, args.budget_mib, args.swap_mib)?;
    let bench = Bench { group: Some(pressed.group()), lenient: true, ..bench };
    for load in &args.load {
        let inputs = tempfile::Builder::new().prefix("inputs-").tempdir_in(bench.scratch)?;
        let mix = load.mix(&quote(&program), args.budget_mib, inputs.path())?;
        for why in &mix.left_out {
            record.say(&format!("{why}."));
        }
        let Some(solo) = alone(args, ground, &bench, &mix.jobs, record)? else { continue };
        let question = Question {
            title: load.title(),
            jobs: &mix.jobs,
            device: &[],
            ways: &ways(&args.manager, Some(args.budget_mib)),
            repetitions: args.row.repetitions(),
            cores: ground.cores(),
        };
        let runs = compare(&bench, &question, &solo, record)?;
        against_each(&args.manager, question.title, &runs, record)?;
    }
    Ok(())
}

/// Each manager with pinfold against the best of that manager: differences among managers are not pinfold's.
fn against_each(managers: &[Manager], title: &str, runs: &Runs, record: &mut Record) -> anyhow::Result<()> {
    for &manager in managers {
        let of = |way: &Way| matches!(way, Way::Managed { manager: one, .. } if *one == manager);
        let own: Runs = runs.iter().filter(|(way, _)| of(way)).cloned().collect();
        against_best(title, &own, record)?;
    }
    Ok(())
}

type Alone = std::collections::BTreeMap<String, crate::run::Solo>;

/// Each class alone; `None`: nothing of the work can be run here, which is said.
fn alone(
    args: &WlmArgs,
    ground: &Ground,
    bench: &Bench<'_>,
    jobs: &[Job],
    record: &mut Record,
) -> anyhow::Result<Option<Alone>> {
    if jobs.is_empty() {
        record.say("Nothing of it can be run here.");
        return Ok(None);
    }
    let progress = &mut |watch: &_, jobs| show("alone", watch, jobs);
    let (solo, failed) = bench.solo(jobs, args.row.solo(), ground.solo_pu()?, progress)?;
    if let Some(why) = failed.values().next() {
        anyhow::bail!("alone, {why}");
    }
    Ok(Some(solo))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_manager_goes_all_ways() {
        let ways = ways(&[Manager::Slurm, Manager::Gridengine], Some(1024));
        let titles: BTreeSet<String> = ways.iter().map(ToString::to_string).collect();
        assert_eq!((ways.len(), titles.len()), (6, 6));
        assert_eq!(ways.iter().filter(|way| way.is_pinfold()).count(), 2);
    }
}
