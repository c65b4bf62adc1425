//! Runs of a job alone: the lower bound for any way, and the figures of a class of jobs.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Serialize;

use super::{Bench, Progress, describe, end};
use crate::journal::Ending;
use crate::watch::{Sample, Watch, seconds};
use crate::workload::{Job, stage};

/// A job alone may be short, and costs little to look at.
const ALONE_INTERVAL: Duration = Duration::from_millis(100);

/// A job counts as grown up once it holds this fraction of its peak.
pub(crate) const GROWN: f64 = 0.9;

/// The figures of a class of jobs from solo runs.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Solo {
    /// Least CPU time, seconds.
    pub(crate) cpu_s: f64,
    /// Least wall time, seconds.
    pub(crate) wall_s: f64,
    /// All CPU times, seconds.
    pub(crate) all_cpu_s: Vec<f64>,
    /// All wall times, seconds.
    pub(crate) all_wall_s: Vec<f64>,
    /// Most memory held at a sample of any, bytes.
    pub(crate) memory_peak_bytes: u64,
    /// The part of the run after which it was grown up ([`GROWN`]), in the run with the largest peak.
    pub(crate) memory_ramp: f64,
    /// CPU time up to then, seconds.
    pub(crate) ramp_cpu_s: f64,
    /// Disk reads and writes, bytes.
    pub(crate) io_bytes: u64,
    /// Checksum of the outputs, where these are compared.
    pub(crate) checksum: Option<u64>,
}

/// A run of a job alone.
struct Alone {
    ending: Ending,
    memory_peak_bytes: u64,
    memory_ramp: f64,
    ramp_cpu_s: f64,
    checksum: Option<u64>,
}

/// The least time in which the work can be done.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Bound {
    /// Sum of least CPU times over the cores, seconds.
    pub(crate) cpu_s: f64,
    /// The longest job alone, seconds.
    pub(crate) longest_s: f64,
}

impl Bound {
    /// `max(sum C / cores, max T)` for `jobs`, each as long as its class alone.
    pub(crate) fn of(jobs: &[Job], solo: &BTreeMap<String, Solo>, cores: usize) -> Self {
        let alone = |job: &Job| solo.get(&job.class).map_or((0.0, 0.0), |solo| (solo.cpu_s, solo.wall_s));
        let cpu_s = jobs.iter().map(|job| alone(job).0).sum::<f64>() / cores as f64;
        Self { cpu_s, longest_s: jobs.iter().map(|job| alone(job).1).fold(0.0, f64::max) }
    }

    /// The bound itself, seconds.
    pub(crate) fn value_s(self) -> f64 {
        self.cpu_s.max(self.longest_s)
    }
}

impl Bench<'_> {
    /// Runs a job of each class alone, `repetitions` times, pinned to PU `pin`. A class that fails alone is returned with a
    /// sentence instead of figures.
    pub(crate) fn solo(
        &self,
        jobs: &[Job],
        repetitions: usize,
        pin: usize,
        progress: Progress<'_>,
    ) -> anyhow::Result<(BTreeMap<String, Solo>, BTreeMap<String, String>)> {
        let mut classes: BTreeMap<String, Solo> = BTreeMap::new();
        let mut failed = BTreeMap::new();
        for _ in 0..repetitions {
            let mut seen = BTreeSet::new();
            for job in jobs.iter().filter(|job| seen.insert(job.class.clone())) {
                if failed.contains_key(&job.class) {
                    continue;
                }
                let Alone { ending, memory_peak_bytes, memory_ramp, ramp_cpu_s, checksum } =
                    self.alone(job, pin, progress)?;
                if !ending.succeeded() || (checksum.is_none() && !job.outputs.is_empty()) {
                    failed.insert(job.class.clone(), describe(&ending));
                    continue;
                }
                let (cpu_s, wall_s) = (seconds(ending.cpu_us), seconds(ending.wall_us));
                let solo = classes.entry(job.class.clone()).or_insert_with(|| Solo {
                    cpu_s,
                    wall_s,
                    all_cpu_s: Vec::new(),
                    all_wall_s: Vec::new(),
                    memory_peak_bytes,
                    memory_ramp,
                    ramp_cpu_s,
                    io_bytes: ending.io_bytes,
                    checksum,
                });
                if solo.checksum != checksum {
                    bail!("`{}` alone does not give the same output twice", job.name);
                }
                solo.cpu_s = solo.cpu_s.min(cpu_s);
                solo.wall_s = solo.wall_s.min(wall_s);
                if memory_peak_bytes > solo.memory_peak_bytes {
                    (solo.memory_peak_bytes, solo.memory_ramp) = (memory_peak_bytes, memory_ramp);
                    solo.ramp_cpu_s = ramp_cpu_s;
                }
                solo.io_bytes = solo.io_bytes.max(ending.io_bytes);
                solo.all_cpu_s.push(cpu_s);
                solo.all_wall_s.push(wall_s);
            }
        }
        classes.retain(|class, _| !failed.contains_key(class));
        Ok((classes, failed))
    }

    fn alone(&self, job: &Job, pin: usize, progress: Progress<'_>) -> anyhow::Result<Alone> {
        let directory = tempfile::Builder::new().prefix("solo-").tempdir_in(self.scratch)?;
        let journal = directory.path().join("journal");
        let staged = stage(job, directory.path(), &journal, Some(pin))?;
        let mut watch = Watch::start(&journal)?;
        let work = || {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", &staged.line]).stdin(std::process::Stdio::null());
            command.status().context("failed to run sh")
        };
        self.observe(&mut watch, ALONE_INTERVAL, 1, progress, work, |first| end(&[], first))
            .with_context(|| format!("failed to run `{}` alone", job.name))?;
        let ending = watch.ended().get(&job.name).cloned();
        let ending = ending.with_context(|| format!("`{}` alone left no record", job.name))?;
        let held = |sample: &Sample| sample.memory_bytes;
        let memory_peak_bytes = watch.samples().iter().map(held).max().unwrap_or(0);
        let grown =
            watch.samples().iter().find(|sample| held(sample) as f64 >= memory_peak_bytes as f64 * GROWN);
        let grown_s = grown.map_or(0.0, |sample| sample.time_s);
        let memory_ramp = (grown_s / seconds(ending.wall_us).max(1e-9)).clamp(0.001, 1.0);
        let ramp_cpu_s = cpu_until(watch.samples(), grown_s).min(seconds(ending.cpu_us));
        Ok(Alone { ending, memory_peak_bytes, memory_ramp, ramp_cpu_s, checksum: staged.checksum() })
    }
}

/// Processor time up to a sample, in seconds.
fn cpu_until(samples: &[Sample], until_s: f64) -> f64 {
    let mut before_s = 0.0;
    let used = |sample: &Sample| {
        sample.cpu_cores * (sample.time_s - std::mem::replace(&mut before_s, sample.time_s))
    };
    samples.iter().take_while(|sample| sample.time_s <= until_s).map(used).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_summed_up_to_a_sample() {
        let sample = |time_s, cpu_cores| Sample { time_s, cpu_cores, memory_bytes: 0, running: 1 };
        let samples = [sample(1.0, 0.5), sample(3.0, 0.25), sample(4.0, 1.0)];
        assert!((cpu_until(&samples, 3.0) - 1.0).abs() < 1e-9);
        assert!(cpu_until(&samples, 0.0).abs() < 1e-9);
    }
}
