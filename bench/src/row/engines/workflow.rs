//! A recorded workflow as Snakemake's: by its own local scheduler and through pinfold, in the same memory.
//!
//! Each task grows to its recorded peak and computes for its recorded part of its recorded time, both scaled. Whoever
//! knows no budget runs in a group that has it. What an honest user asks for is the most that a task of the class took,
//! and a tenth.

mod recorded;

use std::fs;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use serde_json::json;

use super::EnginesArgs;
use crate::compare::done;
use crate::daemon::{Binaries, Daemon};
use crate::pressed::Pressed;
use crate::record::Record;
use crate::row::Ground;
use crate::stats::median;
use crate::table;
use crate::workload::quote;
use recorded::{Scale, Task};

/// How often memory is looked at.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    Honest,
    Unsaid,
    Slurm,
    Plugin,
}

impl Way {
    const ALL: [Self; 4] = [Self::Honest, Self::Unsaid, Self::Slurm, Self::Plugin];

    fn name(self) -> &'static str {
        match self {
            Self::Honest => "Snakemake alone, honest requests",
            Self::Unsaid => "Snakemake alone, no requests",
            Self::Slurm => "pinfold, by its Slurm commands",
            Self::Plugin => "pinfold, by its own plugin",
        }
    }

    /// The module of Python's that it needs.
    fn module(self) -> &'static str {
        match self {
            Self::Honest | Self::Unsaid => "snakemake",
            Self::Slurm => "snakemake_executor_plugin_slurm",
            Self::Plugin => "snakemake_executor_plugin_pinfold",
        }
    }

    fn is_pinfold(self) -> bool {
        matches!(self, Self::Slurm | Self::Plugin)
    }
}

/// What came of a run.
#[derive(Debug, Clone, Copy, serde::Serialize)]
struct Came {
    makespan_s: f64,
    failed: usize,
    peak_bytes: u64,
}

/// What the runs stand on.
struct Stage<'a> {
    args: &'a EnginesArgs,
    binaries: Option<&'a Binaries>,
    group: &'a Path,
    cores: usize,
    venv: PathBuf,
    tasks: Vec<Task>,
    scale: Scale,
}

/// Measures all ways, interleaved.
pub(super) fn measure(args: &EnginesArgs, ground: &Ground, record: &mut Record) -> anyhow::Result<()> {
    let venv = args.engines.clone().or_else(beside_the_build).context("no virtual environment is named")?;
    // Snakemake runs in a directory of its own.
    let venv = std::path::absolute(&venv).with_context(|| format!("failed to find {}", venv.display()))?;
    let bench = ground.bench(args.limit_s);
    let load = std::env::current_exe()?.with_file_name("pinfold-load");
    let tasks = recorded::read(&args.workflow, args.tasks)?;
    let speed = turns_per_second(&load)?;
    let scale = Scale::new(&tasks, speed, args.work_s, args.budget_mib, args.largest)?;
    let ways: Vec<Way> = Way::ALL.into_iter().filter(|way| is_there(*way, &venv, ground, record)).collect();
    if ways.is_empty() {
        record.say(&format!("The workflow is left out: `make engines` makes {}.", venv.display()));
        return Ok(());
    }
    let pressed = Pressed::make(bench.scratch, args.budget_mib, args.swap_mib)?;
    let stage = Stage {
        args,
        binaries: ground.binaries.as_ref(),
        group: pressed.group(),
        cores: ground.cores(),
        venv,
        tasks,
        scale,
    };
    record.add(
        "workflow",
        &json!({ "tasks": stage.tasks.len(), "scale": stage.scale, "turns_per_second": speed }),
    )?;
    let mut came: Vec<Vec<Came>> = vec![Vec::new(); ways.len()];
    for repetition in 0..args.row.repetitions() {
        for (way, all) in ways.iter().zip(&mut came) {
            let own = tempfile::Builder::new().prefix("workflow-").tempdir_in(bench.scratch)?;
            let one = stage.run(*way, own.path(), &load, &|| ground.interrupted())?;
            done(&format!(
                "engines {}: {}: {:.0} s, {} failed, {}",
                repetition + 1,
                way.name(),
                one.makespan_s,
                one.failed,
                table::bytes(one.peak_bytes)
            ));
            record.add("run", &json!({ "way": way.name(), "repetition": repetition, "came": one }))?;
            all.push(one);
        }
    }
    tell(&stage, &ways, &came, record);
    Ok(())
}

/// How many words of memory a task changes in a second, one after the other: the best of several tries.
fn turns_per_second(load: &Path) -> anyhow::Result<f64> {
    const TURNS: u64 = 100_000_000;
    let takes = |turns: u64| -> anyhow::Result<f64> {
        let mut command = Command::new(load);
        command.args(["--grow-mib", "64", "--sweep", "--bursts", "1", "--turns", &turns.to_string()]);
        let start = Instant::now();
        let status = command.stdout(Stdio::null()).status().context("failed to calibrate")?;
        ensure!(status.success(), "{} did not calibrate: {status}", load.display());
        Ok(start.elapsed().as_secs_f64())
    };
    let mut best = f64::INFINITY;
    for _ in 0..5 {
        best = best.min(takes(TURNS)? - takes(1)?);
    }
    ensure!(best > 0.0, "nothing could be calibrated: the host is too busy");
    Ok(TURNS as f64 / best)
}

fn beside_the_build() -> Option<PathBuf> {
    Some(std::env::current_exe().ok()?.parent()?.parent()?.join("engines-venv"))
}

fn is_there(way: Way, venv: &Path, ground: &Ground, record: &mut Record) -> bool {
    if way.is_pinfold() && ground.binaries.is_none() {
        record.say(&format!("{} is left out: pinfold is not built.", way.name()));
        return false;
    }
    let mut command = Command::new(venv.join("bin/python"));
    command.args(["-c", &format!("import {}", way.module())]).stdout(Stdio::null()).stderr(Stdio::null());
    let there = command.status().is_ok_and(|status| status.success());
    if !there {
        record.say(&format!("{} is left out: no {} in {}.", way.name(), way.module(), venv.display()));
    }
    there
}

impl Stage<'_> {
    fn run(&self, way: Way, own: &Path, load: &Path, interrupted: &dyn Fn() -> bool) -> anyhow::Result<Came> {
        // A program of its own: whose memory it is can be seen by its file.
        let task = own.join("task");
        fs::copy(load, &task).context("failed to copy the task's program")?;
        recorded::write(&self.tasks, &self.scale, &task, way != Way::Unsaid, own)?;
        let daemon = match self.binaries.filter(|_| way.is_pinfold()) {
            Some(binaries) => {
                let settings = [format!("host.memory={}MiB", self.args.budget_mib)];
                Some(Daemon::start(binaries, own, None, &settings)?)
            }
            None => None,
        };
        let start = Instant::now();
        let mut child =
            self.command(way, own, daemon.as_ref())?.spawn().context("failed to start Snakemake")?;
        let peak_bytes = self.watch(&mut child, &task, start, interrupted);
        let makespan_s = start.elapsed().as_secs_f64();
        if let Some(daemon) = daemon {
            daemon.cancel_all();
            daemon.stop()?;
        }
        let results =
            self.tasks.iter().filter(|task| own.join("out").join(task.id.to_string()).is_file()).count();
        let said = || {
            let log = fs::read_to_string(own.join("log")).unwrap_or_default();
            let last: Vec<&str> = log.lines().rev().take(5).collect();
            format!("{}: {results} tasks were done; Snakemake said: {}", way.name(), last.join(" | "))
        };
        let peak_bytes = peak_bytes.with_context(said)?;
        ensure!(results > 0, "{}", said());
        Ok(Came { makespan_s, failed: self.tasks.len() - results, peak_bytes })
    }

    fn command(&self, way: Way, own: &Path, daemon: Option<&Daemon>) -> anyhow::Result<Command> {
        let mut words = vec![
            quote(&self.venv.join("bin/snakemake")),
            "--keep-going --latency-wait 10 --nolock".to_owned(),
        ];
        let line = match way {
            Way::Honest | Way::Unsaid => {
                words.push(format!("--cores {}", self.cores));
                if way == Way::Honest {
                    words.push(format!("--resources mem_mb={}", self.args.budget_mib));
                }
                format!("echo $$ > {}/cgroup.procs && exec {}", quote(self.group), words.join(" "))
            }
            Way::Slurm => {
                let binaries = self.binaries.context("pinfold is not built")?;
                words.insert(0, format!("{} slurm --", quote(&binaries.pinfold)));
                words.push(
                    "--executor slurm --jobs 200 --slurm-init-seconds-before-status-checks 1 \
                     --seconds-between-status-checks 2 --default-resources slurm_account=lab slurm_partition=pinfold"
                        .to_owned(),
                );
                format!("exec {}", words.join(" "))
            }
            Way::Plugin => {
                words.push("--executor pinfold --jobs 200".to_owned());
                format!("exec {}", words.join(" "))
            }
        };
        let mut command = Command::new("sh");
        let log = fs::File::create(own.join("log")).context("failed to make a log")?;
        command
            .args(["-c", &line])
            .current_dir(own)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.venv.join("bin").display()));
        command.env("HOME", own).env("XDG_CACHE_HOME", own.join("cache"));
        if let (Some(daemon), Some(binaries)) = (daemon, self.binaries) {
            command.env("PINFOLD_SOCKET", daemon.socket()).env("PINFOLD_SLURM_DIR", own.join("slurm"));
            command.env("PINFOLD_PROGRAM", &binaries.pinfold);
        }
        command.process_group(0);
        Ok(command)
    }

    /// Waits for the engine; gives the most that the tasks held together.
    fn watch(
        &self,
        child: &mut Child,
        task: &Path,
        start: Instant,
        interrupted: &dyn Fn() -> bool,
    ) -> anyhow::Result<u64> {
        let mut most = 0;
        loop {
            most = most.max(held_by(task));
            if child.try_wait().context("failed to wait for Snakemake")?.is_some() {
                return Ok(most);
            }
            let late = start.elapsed().as_secs_f64() > self.args.limit_s;
            if late || interrupted() {
                let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw);
                if let Some(group) = group {
                    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
                }
                child.wait().context("failed to wait for Snakemake")?;
                bail!(if late { "a run took too long and was given up" } else { "interrupted" });
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// Anonymous memory of all processes of this program, in bytes.
fn held_by(program: &Path) -> u64 {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.path());
    let own = all.filter(|process| fs::read_link(process.join("exe")).is_ok_and(|exe| exe == program));
    own.map(|process| {
        let text = fs::read_to_string(process.join("status")).unwrap_or_default();
        let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:"));
        let kib = line.and_then(|text| text.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
        kib.unwrap_or(0) * 1024
    })
    .sum()
}

fn tell(stage: &Stage<'_>, ways: &[Way], came: &[Vec<Came>], record: &mut Record) {
    let (tasks, args) = (stage.tasks.len(), stage.args);
    record.say(&format!(
        "{tasks} tasks of a recorded workflow, {:.0} s of work in {} MiB, the largest {:.0} % of that; swap {} MiB.\n",
        args.work_s,
        args.budget_mib,
        args.largest * 100.0,
        args.swap_mib
    ));
    let rows: Vec<Vec<String>> = ways
        .iter()
        .zip(came)
        .filter_map(|(way, all)| {
            let of = |get: fn(&Came) -> f64| median(&all.iter().map(get).collect::<Vec<f64>>());
            let (makespan, failed) = (of(|one| one.makespan_s)?, of(|one| one.failed as f64)?);
            let peak = of(|one| one.peak_bytes as f64 / f64::from(1 << 20))?;
            Some(vec![
                way.name().to_owned(),
                table::with_interval(&makespan, 0),
                table::with_interval(&failed, 0),
                table::with_interval(&peak, 0),
            ])
        })
        .collect();
    record.say(&table::markdown(&["way", "makespan s", "not done", "peak MiB"], &rows));
}
