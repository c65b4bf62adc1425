//! The demo in three acts: real programs, memory that runs short, an urgent job in between.
//!
//! Each act compares people's usual commands with pinfold on the same jobs in the same minutes, and leaves a table and a
//! picture. It prints any result. An act that cannot run here is left out with its reason. Leaves the results' directory
//! and nothing else.

mod memory;
mod picture;
mod programs;
mod urgent;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use clap::{Args, ValueEnum};
use pinfold_profile::plot::{BarChart, Chart};

use crate::compare::done;
use crate::record::Record;
use crate::row::Ground;
use crate::run::Run;

/// Options of the demo.
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Directory of the results.
    #[arg(long, value_name = "DIR", default_value = "demo-results")]
    out: PathBuf,
    /// Acts to play.
    #[arg(long, value_name = "ACT", default_values = ["programs", "memory", "urgent"])]
    act: Vec<Act>,
    /// Work per job of the real programs; 1 makes jobs of 5-20 seconds.
    #[arg(long, default_value_t = 0.5)]
    size: f64,
    /// Directory of the binaries `pinfold` and `pinfoldd`; beside this program by default.
    #[arg(long, value_name = "DIR")]
    binaries: Option<PathBuf>,
    /// Directory of temporary files; the system's directory for them by default.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Act {
    /// Real programs: one per core, twice as many, pinfold
    Programs,
    /// A list that does not fit into memory at once
    Memory,
    /// An urgent job while a list runs
    Urgent,
}

/// An act's picture, beside its part of the record.
#[derive(Debug)]
enum Picture {
    /// Series over time.
    Over(Chart),
    /// Figures beside each other.
    Bars(BarChart),
}

/// The share of the machine used by other programs above which the figures count as disturbed.
const DISTURBED: f64 = 0.1;

/// Runs the demo.
pub(crate) fn run(args: &DemoArgs) -> anyhow::Result<()> {
    let started = Instant::now();
    let ground = Ground::new(args.binaries.as_ref(), args.scratch.as_ref())?;
    let mut record = Record::new("demo", &ground.machine)?;
    done(&format!("This machine: {}.", ground.machine.sentence()));
    for act in &args.act {
        let (name, picture) = match act {
            Act::Programs => ("1-programs", programs::play(&ground, args.size, &mut record)),
            Act::Memory => ("2-memory", memory::play(&ground, &mut record)),
            Act::Urgent => ("3-urgent", urgent::play(&ground, &mut record)),
        };
        if let Some(picture) = picture.with_context(|| format!("act {name} failed"))? {
            save_picture(&args.out, name, &picture)?;
        }
    }
    save(&args.out, "results.md", record.text().as_bytes())?;
    save(&args.out, "results.jsonl", record.lines().as_bytes())?;
    done(&format!("\n{}", record.text()));
    done(&format!(
        "Tables and pictures are in {} ({:.0} s in all).",
        args.out.display(),
        started.elapsed().as_secs_f64()
    ));
    Ok(())
}

/// Prints a text at once and adds it to the record.
fn note(record: &mut Record, text: &str) {
    done(text);
    record.say(text);
}

/// Begins an act's part of the record.
fn heading(record: &mut Record, text: &str) {
    done(&format!("\n{text}"));
    record.say(&format!("\n### {text}\n"));
}

/// Prints failures, leftovers, and disturbances by other programs.
fn tell_troubles(record: &mut Record, runs: &[(String, Run)], cores: usize, others_are: &str) {
    for (name, run) in runs {
        for group in &run.left_behind {
            record.say(&format!("Left behind: cgroup {} ({name}).", group.display()));
        }
    }
    let others = runs.iter().map(|(_, run)| run.foreign_cores).fold(0.0, f64::max);
    if others > DISTURBED * cores as f64 {
        record.say(&format!(
            "{others_are} used up to {others:.1} of the {cores} cores meanwhile: on a quiet machine these figures would \
             be different."
        ));
    }
}

fn save(out: &Path, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("failed to create {}", out.display()))?;
    let path = out.join(name);
    fs::write(&path, bytes).with_context(|| format!("failed to write {}", path.display()))
}

fn save_picture(out: &Path, name: &str, picture: &Picture) -> anyhow::Result<()> {
    let (svg, png) = match picture {
        Picture::Over(chart) => {
            let (width, height) = picture::size(chart.panels.len());
            (chart.to_svg(width, height), chart.to_png(width, height))
        }
        Picture::Bars(bars) => {
            let (width, height) = (1_000, bars.height(1_000));
            (bars.to_svg(width, height), bars.to_png(width, height))
        }
    };
    save(out, &format!("{name}.svg"), svg.as_bytes())?;
    save(out, &format!("{name}.png"), &png.context("failed to draw the picture")?)
}
