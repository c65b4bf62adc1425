//! A watched run of a workload by a way; and the solo runs that give its lower bound.
//!
//! Owns a run's directory, which goes when the run is over. Nothing survives of a run but its record.

mod solo;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;
use serde_json::Value;

use crate::daemon::Binaries;
use crate::journal::Ending;
use crate::machine;
use crate::watch::{self, Sample, Watch, children_of, descendants, seconds};
use crate::way::{Batch, Way};
use crate::workload::{Job, stage};

pub(crate) use self::solo::{Bound, Solo};

/// Between two samples. Twice a second is 10 and more samples a job at a cost of about 1/300 of a core.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(500);

/// The context common to all runs of an invocation.
#[derive(Debug)]
pub(crate) struct Bench<'a> {
    /// Directory for all files; removed by its owner.
    pub(crate) scratch: &'a Path,
    /// The binaries under test, when they are built.
    pub(crate) binaries: Option<&'a Binaries>,
    /// Set by a signal: stop as soon as possible.
    pub(crate) interrupted: &'a Arc<AtomicBool>,
    /// The memory group in which launchers without a budget of their own run their jobs.
    pub(crate) group: Option<&'a Path>,
    /// Longest a run may take, seconds.
    pub(crate) limit_s: f64,
    /// A run that takes longer is a result: its jobs that had not ended are failures.
    pub(crate) lenient: bool,
}

/// A run took too long, and all of it was ended.
#[derive(Debug)]
struct GivenUp {
    after_s: f64,
}

impl std::fmt::Display for GivenUp {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "given up after {:.0} s", self.after_s)
    }
}

impl std::error::Error for GivenUp {}

/// The record of a run.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Run {
    /// The way, in words.
    pub(crate) way: String,
    /// From the start of the launcher until it returned, seconds.
    pub(crate) makespan_s: f64,
    /// Mean over the jobs of start of the run to end of the job, seconds.
    pub(crate) turnaround_s: f64,
    /// CPU time of all jobs, seconds.
    pub(crate) cpu_s: f64,
    /// Most memory held at a sample, bytes.
    pub(crate) memory_peak_bytes: u64,
    /// Mean number of cores that others used meanwhile.
    pub(crate) foreign_cores: f64,
    /// Load average before.
    pub(crate) load_before: f64,
    /// Faults, a sentence each. Empty when all is well.
    pub(crate) failures: Vec<String>,
    /// Cgroups that the launcher made and did not remove.
    pub(crate) left_behind: Vec<PathBuf>,
    /// Each job's ending.
    pub(crate) endings: Vec<Ending>,
    /// Samples over the run.
    pub(crate) samples: Vec<Sample>,
    /// The launcher's own report.
    pub(crate) launcher: Value,
    /// The time until each job frozen for memory stood still, from the detection of the shortage, microseconds.
    pub(crate) freezes_us: Vec<u64>,
    /// The part of these times until the request to the kernel, in the same order.
    pub(crate) freezes_asked_us: Vec<u64>,
    /// Jobs that were killed and run again.
    pub(crate) run_again: usize,
}

/// Told at every sample how a run stands; shows it to people.
pub(crate) type Progress<'p> = &'p mut dyn FnMut(&Watch, usize);

impl Bench<'_> {
    /// Runs `jobs` by a `way`. Failed jobs and wrong outputs are in the record; an error is a broken measurement.
    pub(crate) fn run(
        &self,
        way: Way,
        jobs: &[Job],
        solo: &BTreeMap<String, Solo>,
        progress: Progress<'_>,
    ) -> anyhow::Result<Run> {
        let directory = self.directory(way)?;
        let state = way.remembers().then(|| self.remembered());
        let journal = directory.path().join("journal");
        let staged = jobs.iter().map(|job| stage(job, directory.path(), &journal, None));
        let staged = staged.collect::<anyhow::Result<Vec<_>>>()?;
        let mut watch = Watch::start(&journal)?;
        let give_up = AtomicBool::new(false);
        let lines: Vec<String> = staged.iter().map(|staged| staged.line.clone()).collect();
        let batch = Batch {
            lines: &lines,
            scratch: directory.path(),
            group: self.group,
            state: state.as_deref(),
            give_up: &give_up,
        };
        let ready = way.prepare(&batch, self.binaries)?;
        let (load_before, busy_before) = (machine::load(), machine::busy_s());
        let orderly = ready.orderly();
        let observed = self.observe(
            &mut watch,
            SAMPLE_INTERVAL,
            jobs.len(),
            progress,
            || ready.run(&batch),
            |first| {
                if first {
                    give_up.store(true, Ordering::Relaxed);
                    ready.give_up();
                }
                end(&orderly, first);
            },
        );
        let (makespan_s, launcher) = match observed {
            Ok(observed) => observed,
            Err(error)
                if self.lenient && error.is::<GivenUp>() && !self.interrupted.load(Ordering::Relaxed) =>
            {
                (watch.elapsed_s(), Value::Null)
            }
            Err(error) => {
                // The first error matters more than an error of the stop.
                let _stopped = ready.finish();
                return Err(error.context(format!("failed to run the jobs by `{way}`")));
            }
        };
        let busy_s = machine::busy_s() - busy_before;
        let (freezes, left) = (ready.freezes(), ready.finish()?);
        let wrong = |job: &Job, sum| failure(job, sum, solo.get(&job.class), &watch, way.retries());
        let all = jobs.iter().zip(&staged);
        let mut failures: Vec<String> =
            all.filter_map(|(job, staged)| wrong(job, staged.checksum())).collect();
        failures.extend(disagreement(&launcher, jobs, &watch));
        let endings: Vec<Ending> = watch.ended().values().cloned().collect();
        let cpu_s = endings.iter().map(|ending| seconds(ending.cpu_us)).sum::<f64>().max(0.0);
        Ok(Run {
            way: way.to_string(),
            makespan_s,
            turnaround_s: turnaround_s(&endings, watch.started_us(), jobs.len(), makespan_s),
            cpu_s,
            memory_peak_bytes: watch.samples().iter().map(|sample| sample.memory_bytes).max().unwrap_or(0),
            foreign_cores: ((busy_s - cpu_s) / makespan_s.max(1e-9)).max(0.0),
            load_before,
            failures,
            left_behind: left,
            endings,
            samples: watch::settled(watch.samples(), machine::allowed().len()),
            launcher,
            freezes_us: freezes.iter().map(|freeze| freeze.took_us).collect(),
            freezes_asked_us: freezes.iter().map(|freeze| freeze.asked_us).collect(),
            run_again: watch.repeated().len(),
        })
    }

    /// The state of a daemon that remembers earlier runs.
    fn remembered(&self) -> PathBuf {
        self.scratch.join("remembered")
    }

    /// Removes that state.
    pub(crate) fn forget(&self) -> anyhow::Result<()> {
        match std::fs::remove_dir_all(self.remembered()) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context("failed to remove what a daemon had learned")
            }
            _ => Ok(()),
        }
    }

    /// A directory for a run. For a way that recognizes commands, their paths are the same each time.
    fn directory(&self, way: Way) -> std::io::Result<tempfile::TempDir> {
        let mut builder = tempfile::Builder::new();
        if way.remembers() {
            builder.prefix("again").rand_bytes(0);
        } else {
            builder.prefix("run-");
        }
        builder.tempdir_in(self.scratch)
    }

    /// Runs `work` on a thread of its own while `watch` takes samples. Returns the elapsed seconds.
    ///
    /// After the time limit or a signal, `give_up` is called at each turn until `work` returns: with true the first time.
    /// All jobs are ended.
    fn observe<T: Send>(
        &self,
        watch: &mut Watch,
        interval: Duration,
        jobs: usize,
        progress: Progress<'_>,
        work: impl FnOnce() -> anyhow::Result<T> + Send,
        give_up: impl Fn(bool),
    ) -> anyhow::Result<(f64, T)> {
        watch.begin();
        std::thread::scope(|scope| {
            let (send, receive) = mpsc::channel();
            scope.spawn(move || {
                // The receiver waits until it has the answer.
                let _answer = send.send(work());
            });
            let mut given_up = false;
            loop {
                let answer = receive.recv_timeout(interval);
                let elapsed_s = watch.elapsed_s();
                watch.tick()?;
                progress(watch, jobs);
                match answer {
                    Ok(_) | Err(RecvTimeoutError::Disconnected) if given_up => {
                        return Err(GivenUp { after_s: elapsed_s }.into());
                    }
                    Ok(answer) => return answer.map(|answer| (elapsed_s, answer)),
                    Err(RecvTimeoutError::Disconnected) => bail!("the launcher vanished"),
                    Err(RecvTimeoutError::Timeout) => {}
                }
                if self.interrupted.load(Ordering::Relaxed) || elapsed_s > self.limit_s {
                    // Again at each turn: a launcher may have started another job meanwhile.
                    end_below(&watch.wrappers().into_iter().collect());
                    give_up(!given_up);
                    given_up = true;
                }
            }
        })
    }
}

/// Ends `roots` and all their descendants.
fn end_below(roots: &BTreeSet<i32>) {
    for pid in descendants(roots).into_iter().filter_map(Pid::from_raw) {
        // Gone already is as good.
        let _answer = kill_process(pid, Signal::KILL);
    }
}

/// Ends the launcher, which may take its time over ended jobs. The `orderly` processes are stopped properly later; and at
/// the `first` turn the launcher still may end by itself.
fn end(orderly: &[i32], first: bool) {
    if !first {
        let own = i32::try_from(std::process::id()).expect("a pid fits 31 bits");
        end_below(&children_of(own).into_iter().filter(|pid| !orderly.contains(pid)).collect());
    }
}

/// The fault of `job`'s run, if any.
fn failure(
    job: &Job,
    checksum: Option<u64>,
    solo: Option<&Solo>,
    watch: &Watch,
    retries: bool,
) -> Option<String> {
    let Some(ending) = watch.ended().get(&job.name) else {
        return Some(format!("`{}` never ended", job.name));
    };
    if !ending.succeeded() {
        return Some(describe(ending));
    }
    if !retries && watch.repeated().contains(&job.name) {
        return Some(format!("`{}` was run more than once", job.name));
    }
    let expected = solo?.checksum?;
    (checksum != Some(expected)).then(|| format!("`{}` gave another output than alone", job.name))
}

/// The difference between pinfold's report of a job's exit and the journal, if any.
fn disagreement(launcher: &Value, jobs: &[Job], watch: &Watch) -> Option<String> {
    let results = launcher.get("results")?.as_array()?;
    let of_line =
        |line: usize| results.iter().find(|result| result["line"].as_u64() == u64::try_from(line).ok());
    jobs.iter().enumerate().find_map(|(index, job)| {
        let told = of_line(index + 1).and_then(|result| result["exit_code"].as_i64());
        let seen = watch.ended().get(&job.name).and_then(|ending| ending.exit_code).map(i64::from);
        (told != seen)
            .then(|| format!("`{}` exited with {seen:?}, and the launcher reports {told:?}", job.name))
    })
}

fn describe(ending: &Ending) -> String {
    match (ending.exit_code, ending.signal) {
        (Some(0), _) => format!("`{}` left no output", ending.name),
        (Some(code), _) => format!("`{}` exited with {code}", ending.name),
        (None, Some(signal)) => format!("`{}` was ended by signal {signal}", ending.name),
        (None, None) => format!("`{}` ended without a status", ending.name),
    }
}

/// The mean time from the start of the run to the end of each job. A job that never ended took the whole run at least.
fn turnaround_s(endings: &[Ending], started_us: u64, jobs: usize, makespan_s: f64) -> f64 {
    let since = |ending: &Ending| seconds(ending.at_us.saturating_sub(started_us));
    let never_s = makespan_s * jobs.saturating_sub(endings.len()) as f64;
    (endings.iter().map(since).sum::<f64>() + never_s) / jobs.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn ending(name: &str, exit_code: Option<i32>, signal: Option<i32>) -> Ending {
        Ending {
            name: name.into(),
            at_us: 9,
            wall_us: 1,
            cpu_us: 1,
            rss_peak_bytes: 1,
            io_bytes: 0,
            exit_code,
            signal,
        }
    }

    fn job(name: &str, class: &str) -> Job {
        Job { name: name.into(), class: class.into(), script: String::new(), outputs: vec!["out".into()] }
    }

    fn solo(cpu_s: f64, wall_s: f64) -> Solo {
        Solo {
            cpu_s,
            wall_s,
            all_cpu_s: vec![cpu_s],
            all_wall_s: vec![wall_s],
            memory_peak_bytes: 0,
            memory_ramp: 1.0,
            ramp_cpu_s: 0.0,
            io_bytes: 0,
            checksum: Some(5),
        }
    }

    /// A watch that has read `endings` from a journal.
    fn watch(directory: &std::path::Path, endings: &[Ending]) -> Watch {
        let path = directory.join("journal");
        let mut watch = Watch::start(&path).unwrap();
        let lines = endings.iter().map(|ending| crate::journal::Mark::Ended(ending.clone()));
        let text: String = lines.map(|mark| serde_json::to_string(&mark).unwrap() + "\n").collect();
        std::fs::write(&path, text).unwrap();
        watch.tick().unwrap();
        watch
    }

    #[test]
    fn the_bound_is_the_larger_of_both() {
        let classes = BTreeMap::from([("a".into(), solo(4.0, 5.0)), ("b".into(), solo(1.0, 9.0))]);
        let few = [job("1", "a"), job("2", "b")];
        assert!((Bound::of(&few, &classes, 2).value_s() - 9.0).abs() < 1e-9);
        let many: Vec<Job> = (0..10).map(|_| job("x", "a")).collect();
        assert!((Bound::of(&many, &classes, 2).value_s() - 20.0).abs() < 1e-9);
    }

    #[test]
    fn each_way_to_go_wrong_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let ended = [
            ending("good", Some(0), None),
            ending("bad", Some(3), None),
            ending("shot", None, Some(9)),
            ending("twice", Some(0), None),
            ending("twice", Some(0), None),
        ];
        let watch = watch(directory.path(), &ended);
        let alone = solo(1.0, 1.0);
        let said = |name: &str, checksum| {
            failure(&job(name, name), checksum, Some(&alone), &watch, false).unwrap_or_default()
        };
        assert_eq!(said("good", Some(5)), "");
        assert_eq!(said("good", Some(6)), "`good` gave another output than alone");
        assert_eq!(said("good", None), "`good` gave another output than alone");
        assert_eq!(said("bad", Some(5)), "`bad` exited with 3");
        assert_eq!(said("shot", Some(5)), "`shot` was ended by signal 9");
        assert_eq!(said("twice", Some(5)), "`twice` was run more than once");
        assert_eq!(said("lost", Some(5)), "`lost` never ended");
    }

    #[test]
    fn a_launcher_that_reports_another_status_is_caught() {
        let directory = tempfile::tempdir().unwrap();
        let watch = watch(directory.path(), &[ending("a", Some(0), None), ending("b", Some(3), None)]);
        let jobs = [job("a", "a"), job("b", "b")];
        let report = |first: i32, second: Value| json!({ "results": [{ "line": 1, "exit_code": first }, { "line": 2, "exit_code": second }] });
        assert_eq!(disagreement(&report(0, json!(3)), &jobs, &watch), None);
        assert!(disagreement(&report(0, json!(0)), &jobs, &watch).is_some_and(|why| why.starts_with("`b`")));
        assert!(disagreement(&report(0, Value::Null), &jobs, &watch).is_some());
        assert_eq!(disagreement(&Value::Null, &jobs, &watch), None);
    }
}
