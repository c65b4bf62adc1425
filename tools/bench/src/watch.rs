//! Watching a run from outside: running jobs, used cores, held memory.
//!
//! The same for every launcher: a job is the wrapper of `exec` and all its descendants, found by a walk of `/proc`; CPU is
//! the time of these and the finished jobs, memory their anonymous and shared-memory pages. A process that vanishes during
//! the walk is not counted. Owns the samples of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use serde::Serialize;

use crate::journal::{Ending, Follower, Mark, now_us};

/// Below this a rate from clock ticks of 10 ms is noise.
const SHORTEST_US: u64 = 100_000;

/// A sample of the running jobs.
#[derive(Debug, Clone, Copy, Serialize)]
pub(crate) struct Sample {
    /// Since the start of the run.
    pub(crate) time_s: f64,
    /// Mean number of cores in use by the jobs since the sample before.
    pub(crate) cpu_cores: f64,
    /// Anonymous and shared-memory pages of the jobs now.
    pub(crate) memory_bytes: u64,
    /// Jobs that run now.
    pub(crate) running: usize,
}

/// The watch over a run.
#[derive(Debug)]
pub(crate) struct Watch {
    follower: Follower,
    started_us: u64,
    last_us: u64,
    last_cpu_us: u64,
    /// Wrapper's pid of each running job, by name.
    running: BTreeMap<String, i32>,
    ended: BTreeMap<String, Ending>,
    /// Jobs of which an end was seen twice: a launcher that runs a job again must not pass unseen.
    repeated: BTreeSet<String>,
    samples: Vec<Sample>,
}

impl Watch {
    /// Watches the jobs that write to the journal at `path`, which is created.
    pub(crate) fn start(path: &Path) -> anyhow::Result<Self> {
        let follower = Follower::create(path)?;
        let started_us = now_us();
        Ok(Self {
            follower,
            started_us,
            last_us: started_us,
            last_cpu_us: 0,
            running: BTreeMap::new(),
            ended: BTreeMap::new(),
            repeated: BTreeSet::new(),
            samples: Vec::new(),
        })
    }

    /// Sets the beginning of the run.
    pub(crate) fn begin(&mut self) {
        self.started_us = now_us();
        self.last_us = self.started_us;
    }

    /// Reads the journal and takes a sample.
    pub(crate) fn tick(&mut self) -> anyhow::Result<()> {
        self.read()?;
        let live = survey(Path::new("/proc"), &self.running.values().copied().collect());
        // Again: a job that ended during the walk counts by its record alone, not twice and not at all.
        self.read()?;
        let live: Vec<Live> = self.running.values().filter_map(|pid| live.get(pid).copied()).collect();
        let now = now_us();
        let passed_us = now.saturating_sub(self.last_us);
        let ended_us = self.ended.values().map(|ending| ending.cpu_us).sum::<u64>();
        let cpu_us = ended_us + live.iter().map(|live| live.cpu_us).sum::<u64>();
        let cpu_cores = match self.samples.last() {
            // The last sample follows its predecessor at once; over so short a time clock ticks are meaningless.
            Some(before) if passed_us < SHORTEST_US => before.cpu_cores,
            _ => cpu_us.saturating_sub(self.last_cpu_us) as f64 / passed_us.max(1) as f64,
        };
        self.samples.push(Sample {
            time_s: seconds(now.saturating_sub(self.started_us)),
            cpu_cores,
            memory_bytes: live.iter().map(|live| live.memory_bytes).sum(),
            running: self.running.len(),
        });
        self.last_us = now;
        self.last_cpu_us = self.last_cpu_us.max(cpu_us);
        Ok(())
    }

    fn read(&mut self) -> anyhow::Result<()> {
        for mark in self.follower.read()? {
            match mark {
                Mark::Started { name, pid, .. } => {
                    self.running.insert(name, pid);
                }
                Mark::Ended(ending) => {
                    self.running.remove(&ending.name);
                    if self.ended.contains_key(&ending.name) {
                        self.repeated.insert(ending.name.clone());
                    }
                    self.ended.insert(ending.name.clone(), ending);
                }
            }
        }
        Ok(())
    }

    /// Names of the running jobs.
    pub(crate) fn running(&self) -> impl Iterator<Item = &str> {
        self.running.keys().map(String::as_str)
    }

    /// Wrappers of the jobs still running.
    pub(crate) fn wrappers(&self) -> Vec<i32> {
        self.running.values().copied().collect()
    }

    /// Endings so far, by job.
    pub(crate) fn ended(&self) -> &BTreeMap<String, Ending> {
        &self.ended
    }

    /// Jobs that were run more than once.
    pub(crate) fn repeated(&self) -> &BTreeSet<String> {
        &self.repeated
    }

    /// Monotonic microseconds at which the run began.
    pub(crate) fn started_us(&self) -> u64 {
        self.started_us
    }

    /// Seconds since the run began.
    pub(crate) fn elapsed_s(&self) -> f64 {
        seconds(now_us() - self.started_us)
    }

    /// All samples so far.
    pub(crate) fn samples(&self) -> &[Sample] {
        &self.samples
    }
}

/// The samples with at most all cores in use. Processor time of a process that ends during a walk of `/proc` is seen one
/// sample late, and then may exceed the cores' time since; it was used before, so the excess moves to earlier samples, as
/// far as these have room. No processor time is lost but the excess of the first sample.
pub(crate) fn settled(samples: &[Sample], cores: usize) -> Vec<Sample> {
    let (mut settled, most) = (samples.to_vec(), cores as f64);
    let mut excess_s = 0.0;
    for at in (0..settled.len()).rev() {
        let before_s = at.checked_sub(1).map_or(0.0, |before| settled[before].time_s);
        let span_s = (settled[at].time_s - before_s).max(f64::MIN_POSITIVE);
        let used_s = settled[at].cpu_cores * span_s + excess_s;
        settled[at].cpu_cores = (used_s / span_s).min(most);
        excess_s = (used_s - most * span_s).max(0.0);
    }
    settled
}

/// Microseconds as seconds.
pub(crate) fn seconds(microseconds: u64) -> f64 {
    microseconds as f64 / 1e6
}

/// The processes below a wrapper.
#[derive(Debug, Clone, Copy, Default)]
struct Live {
    cpu_us: u64,
    memory_bytes: u64,
}

/// A process by its `stat` line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    parent: i32,
    /// Own time and that of reaped children, so that nothing is lost when a child ends.
    ticks: u64,
}

/// Sums over the processes below each of `wrappers`; the wrappers' own memory is not the job's.
fn survey(proc: &Path, wrappers: &BTreeSet<i32>) -> BTreeMap<i32, Live> {
    let processes = processes(proc);
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    let mut live: BTreeMap<i32, Live> = BTreeMap::new();
    for (pid, process) in &processes {
        let Some(wrapper) = root_of(&processes, *pid, wrappers) else { continue };
        let sums = live.entry(wrapper).or_default();
        sums.cpu_us += process.ticks * tick_us;
        if *pid != wrapper
            && let Ok(status) = fs::read_to_string(proc.join(pid.to_string()).join("status"))
        {
            sums.memory_bytes += parse_memory(&status);
        }
    }
    live
}

/// `roots` and all processes below them.
pub(crate) fn descendants(roots: &BTreeSet<i32>) -> Vec<i32> {
    let processes = processes(Path::new("/proc"));
    processes.keys().copied().filter(|pid| root_of(&processes, *pid, roots).is_some()).collect()
}

/// The children of `parent`.
pub(crate) fn children_of(parent: i32) -> Vec<i32> {
    let processes = processes(Path::new("/proc"));
    processes.iter().filter(|(_, process)| process.parent == parent).map(|(pid, _)| *pid).collect()
}

fn processes(proc: &Path) -> BTreeMap<i32, Process> {
    let Ok(entries) = fs::read_dir(proc) else { return BTreeMap::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| {
        let text = fs::read_to_string(proc.join(pid.to_string()).join("stat")).ok()?;
        Some((pid, parse_stat(&text)?))
    })
    .collect()
}

/// The root among `roots` that `pid` is or is below.
fn root_of(processes: &BTreeMap<i32, Process>, pid: i32, roots: &BTreeSet<i32>) -> Option<i32> {
    let mut at = pid;
    // The walk takes time, so parents may be inconsistent: never follow more links than there are processes.
    for _ in 0..=processes.len() {
        if roots.contains(&at) {
            return Some(at);
        }
        at = processes.get(&at)?.parent;
    }
    None
}

/// The name may hold spaces and brackets, so fields count from the last `)`.
fn parse_stat(text: &str) -> Option<Process> {
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
    let parent = fields.get(1)?.parse().ok()?;
    let mut ticks = 0_u64;
    for field in fields.get(11..15)? {
        // cutime and cstime are signed in the kernel's format.
        ticks += u64::try_from(field.parse::<i64>().ok()?).unwrap_or(0);
    }
    Some(Process { parent, ticks })
}

/// Bytes of anonymous and shared-memory pages in a `status` file.
fn parse_memory(status: &str) -> u64 {
    let kibibytes = |line: &str| line.split_ascii_whitespace().nth(1)?.parse::<u64>().ok();
    let counted = status.lines().filter(|line| line.starts_with("RssAnon:") || line.starts_with("RssShmem:"));
    counted.filter_map(kibibytes).sum::<u64>() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let line = "42 (a b) c) S 7 42 42 0 -1 4194304 100 0 0 0 11 13 17 19 20 0 1 0 5 0 0";
        assert_eq!(parse_stat(line), Some(Process { parent: 7, ticks: 60 }));
        for bad in ["", "42 (x", "42 (x) S", "42 (x) S 7 1 1 0 -1 0 0 0 0 0 1 2", "42 (x) S y"] {
            assert_eq!(parse_stat(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn memory_is_anonymous_and_shared() {
        let status = "Name:\tx\nRssAnon:\t    100 kB\nRssFile:\t 50 kB\nRssShmem:\t 7 kB\n";
        assert_eq!(parse_memory(status), 107 * 1024);
        assert_eq!(parse_memory("Name:\tzombie\n"), 0);
    }

    #[test]
    fn own_children_are_below_us() {
        let mut child =
            std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let pid = i32::try_from(child.id()).unwrap();
        let found = descendants(&BTreeSet::from([own]));
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(found.contains(&own) && found.contains(&pid), "{found:?} lacks {pid}");
    }

    #[test]
    fn no_sample_has_more_cores_than_there_are() {
        let sample = |time_s, cpu_cores| Sample { time_s, cpu_cores, memory_bytes: 0, running: 1 };
        // A second's work was seen late: 0 of 2 cores, then 4 of 2.
        let late = [sample(1.0, 1.0), sample(2.0, 0.0), sample(3.0, 4.0), sample(3.5, 6.4)];
        let cores: Vec<f64> = settled(&late, 2).iter().map(|sample| sample.cpu_cores).collect();
        let spans = [1.0, 1.0, 1.0, 0.5];
        let sum = |cores: &[f64]| cores.iter().zip(spans).map(|(cores, span)| cores * span).sum::<f64>();
        assert!(cores.iter().all(|&cores| (0.0..=2.0).contains(&cores)), "{cores:?}");
        // 8.2 core seconds do not fit into 3.5 seconds of two cores; all that does is kept.
        assert!((sum(&cores) - 7.0).abs() < 1e-9, "{cores:?}");
        let fine = [sample(1.0, 0.5), sample(2.0, 3.0)];
        let cores: Vec<f64> = settled(&fine, 2).iter().map(|sample| sample.cpu_cores).collect();
        assert!((cores[0] - 1.5).abs() < 1e-9 && (cores[1] - 2.0).abs() < 1e-9, "{cores:?}");
        assert!(settled(&[], 2).is_empty());
    }

    #[test]
    fn a_loop_of_parents_ends() {
        let loop_of_two =
            BTreeMap::from([(2, Process { parent: 3, ticks: 0 }), (3, Process { parent: 2, ticks: 0 })]);
        assert_eq!(root_of(&loop_of_two, 2, &BTreeSet::from([9])), None);
        assert_eq!(root_of(&loop_of_two, 2, &BTreeSet::from([3])), Some(3));
    }
}
