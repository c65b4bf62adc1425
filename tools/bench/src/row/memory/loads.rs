//! The memory of the jobs of row `memory`.

use std::path::Path;

use clap::ValueEnum;

use crate::programs::Mix;
use crate::programs::sized::{large, small};
use crate::workload::Job;

/// A list of jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(in crate::row) enum Load {
    /// Eight jobs that each grow to 34 % of the budget and walk it at random
    Eight,
    /// A job that grows to 70 % of the budget, first in the list, and twenty-four small jobs
    Big,
    /// Eight jobs of fifteen processes each that grow in step, to 38 % of the budget a job
    Lockstep,
    /// Eight jobs of twenty-five processes each that grow in step, to half of the budget a job
    Families,
    /// Six jobs that leak steadily up to 60 % of the budget and touch little of it
    Leak,
    /// Twelve jobs that each hold 60 % of the budget for a moment amid computing
    Spike,
    /// A job larger than the budget, and eight small jobs
    Larger,
    /// Six jobs that each write a file of 60 % of the budget and read it three times: page cache, and no need of memory
    Cache,
    /// A job that grows to 70 % of the budget first, another last, and 71 assemblies, searches and alignments of a second
    /// or so between them
    Farm,
    /// Real programs: linear algebra, assemblies of a genome, and stress-ng, sized to the budget
    Programs,
}

impl Load {
    /// Heading of its table.
    pub(in crate::row) fn title(self) -> &'static str {
        match self {
            Self::Eight => "eight",
            Self::Big => "big",
            Self::Lockstep => "lockstep",
            Self::Families => "families",
            Self::Leak => "leak",
            Self::Spike => "spike",
            Self::Larger => "larger",
            Self::Cache => "cache",
            Self::Farm => "farm",
            Self::Programs => "programs",
        }
    }

    /// The need of each job as reported to pinfold, MiB; `None`: its jobs differ, so that no single figure fits.
    pub(in crate::row) fn claim_mib(self, budget_mib: u64) -> Option<u64> {
        match self {
            Self::Eight => Some(budget_mib * 35 / 100),
            Self::Lockstep => Some(budget_mib * 40 / 100),
            Self::Families => Some(budget_mib * 52 / 100),
            Self::Leak | Self::Spike => Some(budget_mib * 62 / 100),
            Self::Big | Self::Larger | Self::Cache | Self::Farm | Self::Programs => None,
        }
    }

    /// Its jobs, and a sentence for each that cannot be run here; `load` is the program, as a shell word. Inputs are made
    /// below `directory`.
    pub(in crate::row) fn mix(self, load: &str, budget_mib: u64, directory: &Path) -> anyhow::Result<Mix> {
        match self {
            Self::Programs => large(directory, budget_mib),
            Self::Farm => {
                let mut mix = small(directory, 71)?;
                let mut ends = self.jobs(load, budget_mib).into_iter();
                mix.jobs.splice(0..0, ends.next());
                mix.jobs.extend(ends);
                Ok(mix)
            }
            _ => Ok(Mix { jobs: self.jobs(load, budget_mib), left_out: Vec::new() }),
        }
    }

    /// The class with a table of its own for its time: the large job among small jobs.
    pub(in crate::row) fn large_class(self) -> Option<&'static str> {
        match self {
            Self::Big | Self::Farm => Some("big"),
            Self::Larger => Some("larger"),
            _ => None,
        }
    }

    /// The jobs made here.
    fn jobs(self, load: &str, budget_mib: u64) -> Vec<Job> {
        let part = |percent: u64| budget_mib * percent / 100;
        let many = |class: &str, count: u64, script: &str| -> Vec<Job> {
            (1..=count).map(|number| job(class, number, script.to_owned())).collect()
        };
        let little = |count| many("small", count, &walker(load, part(8), 300, 15_000_000));
        let first = |class: &str, script: String, others: Vec<Job>| -> Vec<Job> {
            std::iter::once(job(class, 1, script)).chain(others).collect()
        };
        match self {
            Self::Eight => many("grower", 8, &walker(load, part(34), 300, 15_000_000)),
            Self::Big => first("big", walker(load, part(70), 300, 60_000_000), little(24)),
            Self::Lockstep => many("family", 8, &family(load, 15, part(38))),
            Self::Families => many("family", 8, &family(load, 25, part(50))),
            // Grown memory is hardly touched again: all but a few pages of it could be anywhere.
            Self::Leak => many("leak", 6, &walker(load, part(60), 100, 1_000)),
            Self::Spike => {
                let compute = |turns: u64| format!("{load} --bursts 1 --turns {turns}\n");
                let spike = format!("{load} --grow-mib {} --bursts 0\n", part(60));
                many("spike", 12, &(compute(200_000_000) + &spike + &compute(100_000_000)))
            }
            Self::Larger => first("larger", walker(load, part(120), 300, 1_000_000), little(8)),
            Self::Cache => many("cache", 6, &reader(part(60))),
            Self::Farm => many("big", 2, &walker(load, part(70), 300, 30_000_000)),
            Self::Programs => Vec::new(),
        }
    }
}

/// Writes a file and reads it three times; a checksum of each.
fn reader(mib: u64) -> String {
    format!("head -c {mib}M /dev/zero > data\nfor n in 1 2 3; do cksum < data; done\nrm data\n")
}

/// A process that grows to `mib` and takes `turns` steps of a random walk through it.
pub(in crate::row) fn walker(load: &str, mib: u64, mib_per_s: u64, turns: u64) -> String {
    format!("{load} --grow-mib {mib} --grow-mib-per-s {mib_per_s} --bursts 1 --turns {turns}\n")
}

/// `processes` processes that grow in step to `mib` together and walk them; if one is killed the others are ended, and the
/// whole job has failed.
fn family(load: &str, processes: u64, mib: u64) -> String {
    slow_family(load, processes, mib, 300, 1_000_000)
}

/// A family that grows by `mib_per_s` in a second, with `turns` turns of each member's walk.
pub(in crate::row) fn slow_family(
    load: &str,
    processes: u64,
    mib: u64,
    mib_per_s: u64,
    turns: u64,
) -> String {
    let one = walker(load, mib / processes, mib_per_s / processes, turns);
    let members: Vec<String> = (1..=processes).map(|number| number.to_string()).collect();
    format!(
        "all=\nfor n in {}; do {} & all=\"$all $!\"; done\nfor n in $all; do wait $n || {{ kill $all; wait; exit 1; }}; done\n",
        members.join(" "),
        one.trim()
    )
}

fn job(class: &str, number: u64, script: String) -> Job {
    let name = format!("{class}-{number}");
    Job { name, class: class.to_owned(), script, outputs: vec!["stdout".to_owned()] }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_load_outgrows_the_budget_with_four_at_a_time() {
        let ours = |load: &&Load| !matches!(load, Load::Cache | Load::Programs);
        for load in Load::value_variants().iter().filter(ours) {
            let jobs = load.jobs("load", 1000);
            let names: BTreeSet<&str> = jobs.iter().map(|job| job.name.as_str()).collect();
            assert_eq!(names.len(), jobs.len(), "{load:?}");
            let mut needs: Vec<u64> = jobs.iter().map(|job| peak_mib(&job.script)).collect();
            needs.sort_unstable();
            let four: u64 = needs.iter().rev().take(4).sum();
            assert!(four > 930, "{load:?}: the four largest need {four} of 1000 MiB");
            if let Some(claim) = load.claim_mib(1000) {
                assert!(needs.iter().all(|&need| need <= claim), "{load:?}: {needs:?} beyond {claim}");
            }
        }
    }

    /// The most that a script of this module holds at once.
    fn peak_mib(script: &str) -> u64 {
        let words: Vec<&str> = script.split_whitespace().collect();
        let grown = words.windows(2).filter(|pair| pair[0] == "--grow-mib");
        let most = grown.map(|pair| pair[1].parse::<u64>().unwrap()).max().unwrap_or(0);
        let processes = script.lines().filter_map(|line| line.strip_prefix("for n in 1 "));
        let processes =
            processes.map(|line| 1 + line.split("; do").next().unwrap().split(' ').count() as u64);
        most * processes.max().unwrap_or(1)
    }
}
