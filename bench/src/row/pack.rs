//! `pack`: long random streams of jobs on large machines, placed by pinfold's rule and by three others; and how long
//! pinfold's takes. A simulation: nothing is run, so the machine it runs on matters for the times only.
//!
//! A stream is drawn once and given to every rule: jobs come at random, stay for a random time, and want 1 to 16 cores.
//! *Scattered*: a job gets cores wherever they are, if there are enough; how many lie on more caches, or on more
//! sockets, than their size needs? *Whole*: a job wants to lie within the smallest domain that could hold it, or not
//! to run at all; how many are turned away, and how many cores stay idle for it?

mod chunks;
mod rules;
mod times;

use std::collections::BTreeMap;

use anyhow::Context as _;
use pinfold_place::pack::Site;
use pinfold_topo::facts::Facts;
use pinfold_topo::{NumaNode, PuOs};

use super::{RowArgs, perform};
use crate::stats::median;
use crate::table::{markdown, with_interval};

use rules::{Grid, RULES, Rule};

/// Options of this row.
#[derive(Debug, clap::Args)]
pub(crate) struct PackArgs {
    #[command(flatten)]
    row: RowArgs,
    /// Jobs of each stream; the first tenth only fills the machine.
    #[arg(long, default_value_t = 20_000)]
    jobs: usize,
    /// Streams only on machines of up to so many cores.
    #[arg(long, default_value_t = 512)]
    cores: usize,
}

const GRIDS: [Grid; 2] = [Grid { sockets: 2, caches: 4, cores: 8 }, Grid { sockets: 8, caches: 8, cores: 8 }];

/// Cores asked for, relative to those there are.
const LOADS: [f64; 3] = [0.7, 0.9, 1.1];

/// Sizes of jobs and how often they come, in hundredths.
const SIZES: [(usize, u64); 9] =
    [(1, 40), (2, 18), (3, 8), (4, 14), (5, 3), (6, 4), (8, 8), (12, 3), (16, 2)];

pub(crate) fn run(args: &PackArgs) -> anyhow::Result<()> {
    perform("pack", &args.row, |ground, record| {
        for grid in GRIDS.into_iter().filter(|grid| grid.all() <= args.cores) {
            let cores = grid.all();
            let shape = format!("{} sockets of {} caches of {} cores", grid.sockets, grid.caches, grid.cores);
            record.say(&format!("{cores} cores: {shape}\n"));
            let mut table = Vec::new();
            for load in LOADS {
                for (rule, name) in RULES {
                    let mut outcomes = Vec::new();
                    for seed in 0..args.row.repetitions() {
                        if ground.interrupted() {
                            return Ok(());
                        }
                        let jobs = stream(grid, load, args.jobs, seed as u64);
                        let outcome = Outcome::of(grid, rule, &jobs);
                        record.add("stream", &outcome.line(name, cores, load, seed))?;
                        outcomes.push(outcome);
                    }
                    table.push(row(name, load, &outcomes)?);
                }
            }
            let head = [
                "rule",
                "load",
                "caches %",
                "sockets %",
                "refused %",
                "work refused %",
                "cores idle for it %",
            ];
            record.say(&markdown(&head, &table));
        }
        times::tell(record)?;
        chunks::tell(record)?;
        Ok(())
    })
}

/// A job of a stream: when it comes, how long it stays, how many cores it wants.
#[derive(Debug, Clone, Copy)]
struct Job {
    at: f64,
    stay: f64,
    cores: usize,
}

/// Random numbers by a counter (splitmix64): the same on every machine.
pub(super) struct Dice(u64);

impl Dice {
    /// Those of a seed.
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x5851_F42D_4C95_7F2D) + 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Exponential with mean 1.
    pub(super) fn gap(&mut self) -> f64 {
        let uniform = ((self.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        -uniform.ln()
    }

    fn size(&mut self) -> usize {
        let mut left = self.next() % 100;
        for (size, share) in SIZES {
            if left < share {
                return size;
            }
            left -= share;
        }
        1
    }
}

fn stream(grid: Grid, load: f64, count: usize, seed: u64) -> Vec<Job> {
    let mean: f64 = SIZES.iter().map(|&(size, share)| size as f64 * share as f64 / 100.0).sum();
    let pause = mean / (load * grid.all() as f64);
    let mut dice = Dice::new(seed);
    let mut at = 0.0;
    let mut job = || {
        at += dice.gap() * pause;
        Job { at, stay: dice.gap(), cores: dice.size() }
    };
    (0..count).map(|_| job()).collect()
}

/// What came of a stream under one rule, as shares of its jobs.
#[derive(Debug, Default)]
struct Outcome {
    /// On more caches than they need, of those placed anywhere.
    more_caches: f64,
    /// On more sockets than they need, of those placed anywhere.
    more_sockets: f64,
    /// Turned away, of those that want a whole domain.
    refused: f64,
    /// Their work: cores times how long they would have stayed.
    refused_work: f64,
    /// Of the cores' time in that, what was idle although jobs that it would have been enough for were turned away.
    idle: f64,
}

impl Outcome {
    fn of(grid: Grid, rule: Rule, jobs: &[Job]) -> Self {
        let site = site(grid);
        let warm = jobs.len() / 10;
        let mut outcome = Self::default();
        let (mut placed, mut caches, mut sockets) = (0usize, 0usize, 0usize);
        play(grid, jobs, |number, free, count| {
            let taken = rule.place(grid, &site, free, count)?;
            if number >= warm {
                let spread = |size: usize| {
                    let used: std::collections::BTreeSet<usize> =
                        taken.iter().map(|core| core / size).collect();
                    usize::from(used.len() > count.div_ceil(size))
                };
                placed += 1;
                caches += spread(grid.cores);
                sockets += spread(grid.socket());
            }
            Some(taken)
        });
        outcome.more_caches = share(caches, placed);
        outcome.more_sockets = share(sockets, placed);
        let (mut asked, mut refused, mut idle) = (0usize, 0usize, 0usize);
        let (mut work, mut lost) = (0.0, 0.0);
        play(grid, jobs, |number, free, count| {
            let taken = rule.place_within(grid, &site, free, count, grid.domain(count));
            if number >= warm {
                asked += 1;
                refused += usize::from(taken.is_none());
                let its = jobs[number].stay * count as f64;
                work += its;
                lost += if taken.is_none() { its } else { 0.0 };
                let left = free.iter().filter(|free| **free).count();
                idle += if taken.is_none() && left >= count { left } else { 0 };
            }
            taken
        });
        outcome.refused = share(refused, asked);
        outcome.refused_work = lost / work;
        outcome.idle = share(idle, asked * grid.all());
        outcome
    }

    fn line(&self, rule: &str, cores: usize, load: f64, seed: usize) -> serde_json::Value {
        serde_json::json!({
            "rule": rule, "cores": cores, "load": load, "seed": seed, "more_caches": self.more_caches,
            "more_sockets": self.more_sockets, "refused": self.refused,
            "refused_work": self.refused_work, "idle": self.idle,
        })
    }
}

fn row(name: &str, load: f64, outcomes: &[Outcome]) -> anyhow::Result<Vec<String>> {
    let cell = |of: fn(&Outcome) -> f64| {
        let percent: Vec<f64> = outcomes.iter().map(|outcome| 100.0 * of(outcome)).collect();
        median(&percent).map(|median| with_interval(&median, 2)).context("a repetition at least")
    };
    Ok(vec![
        name.to_owned(),
        format!("{load:.1}"),
        cell(|outcome| outcome.more_caches)?,
        cell(|outcome| outcome.more_sockets)?,
        cell(|outcome| outcome.refused)?,
        cell(|outcome| outcome.refused_work)?,
        cell(|outcome| outcome.idle)?,
    ])
}

fn share(part: usize, of: usize) -> f64 {
    part as f64 / of.max(1) as f64
}

/// Lets jobs come and go; `place` says which cores the job of this number gets. Who gets none goes away.
fn play(grid: Grid, jobs: &[Job], mut place: impl FnMut(usize, &[bool], usize) -> Option<Vec<usize>>) {
    let mut free = vec![true; grid.all()];
    // By the time of the end, in units that do not get mixed up: stays are far longer than 1e-9.
    let mut ends: BTreeMap<(u64, usize), Vec<usize>> = BTreeMap::new();
    for (number, job) in jobs.iter().enumerate() {
        let now = stamp(job.at);
        while let Some(entry) = ends.first_entry().filter(|entry| entry.key().0 <= now) {
            entry.remove().into_iter().for_each(|core| free[core] = true);
        }
        if let Some(taken) = place(number, &free, job.cores) {
            assert_eq!(taken.len(), job.cores, "a rule gives as many cores as are asked for");
            for &core in &taken {
                assert!(std::mem::replace(&mut free[core], false), "a rule gives free cores only");
            }
            ends.insert((stamp(job.at + job.stay), number), taken);
        }
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and far below 2^63")]
fn stamp(time: f64) -> u64 {
    (time * 1e9) as u64
}

/// The machine as pinfold's rule sees it.
fn site(grid: Grid) -> Site {
    let pus = |from: usize, to: usize| {
        (from..to).map(|pu| PuOs(u32::try_from(pu).expect("a few thousand"))).collect()
    };
    let step = |size: usize| (0..grid.all()).step_by(size).map(move |first| pus(first, first + size));
    let facts = Facts {
        pus: pus(0, grid.all()),
        cores: step(1).collect(),
        l3: step(grid.cores).collect(),
        sockets: step(grid.socket()).collect(),
        numa: step(grid.socket())
            .zip(0..)
            .map(|(pus, os)| NumaNode { os, memory_bytes: None, pus })
            .collect(),
        ..Facts::default()
    };
    Site::new(&facts.assemble().expect("a regular machine"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_what_they_are_said_to_be() {
        let grid = GRIDS[0];
        let jobs = stream(grid, 0.9, 20_000, 3);
        let work: f64 = jobs.iter().map(|job| job.stay * job.cores as f64).sum();
        let load = work / (jobs.last().unwrap().at * grid.all() as f64);
        assert!((0.85..0.95).contains(&load), "{load}");
        assert_eq!(SIZES.iter().map(|(_, share)| share).sum::<u64>(), 100);
    }

    #[test]
    fn pinfold_crosses_the_fewest_borders() {
        for grid in GRIDS {
            let jobs = stream(grid, 0.9, 3_000, 1);
            let outcomes: Vec<Outcome> =
                RULES.iter().map(|&(rule, _)| Outcome::of(grid, rule, &jobs)).collect();
            for other in &outcomes[1..] {
                let ours = &outcomes[0];
                assert!(ours.more_sockets < other.more_sockets, "{outcomes:?}");
                // Caches and refusals are as with the best of the others, within what one stream can tell.
                assert!(ours.more_caches < 1.1 * other.more_caches, "{outcomes:?}");
                assert!(ours.refused_work < 1.1 * other.refused_work, "{outcomes:?}");
            }
        }
    }
}
