//! The context of a figure: the machine, its kernel, its load, the compared versions.
//!
//! Reads only. A fact that cannot be had is absent, never guessed.

use std::fs;
use std::process::{Command, Stdio};

use serde::Serialize;

use crate::daemon::Binaries;
use crate::hyperqueue::HyperQueue;
use crate::watch::seconds;

/// The machine and the programs on it.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Machine {
    /// PUs that this process may use: the cores of every bound.
    pub(crate) cores: usize,
    /// Model of the processor.
    pub(crate) processor: Option<String>,
    /// RAM, bytes.
    pub(crate) memory_bytes: Option<u64>,
    /// Kernel release.
    pub(crate) kernel: String,
    /// Load averages as the kernel writes them.
    pub(crate) load: Option<String>,
    /// First line of each program's `--version`.
    pub(crate) versions: Vec<(String, String)>,
}

impl Machine {
    /// Looks at this machine.
    pub(crate) fn look(binaries: Option<&Binaries>) -> Self {
        let mut programs = vec![("GNU parallel", "parallel"), ("task-spooler", "tsp"), ("xargs", "xargs")]
            .into_iter()
            .map(|(name, program)| {
                (name, program.to_owned(), if program == "tsp" { "-V" } else { "--version" })
            })
            .collect::<Vec<_>>();
        if let Some(binaries) = binaries {
            programs.push(("pinfold", binaries.pinfold.to_string_lossy().into_owned(), "--version"));
        }
        let versions = programs.into_iter().filter_map(|(name, program, flag)| {
            let output = Command::new(program).arg(flag).stdin(Stdio::null()).output().ok()?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            Some((name.to_owned(), text.lines().next()?.to_owned()))
        });
        let line = |path: &str, key: &str| {
            let text = fs::read_to_string(path).ok()?;
            let line = text.lines().find(|line| line.starts_with(key))?;
            Some(line.split_once(':')?.1.trim().to_owned())
        };
        let memory =
            line("/proc/meminfo", "MemTotal").and_then(|value| value.split(' ').next()?.parse().ok());
        Self {
            cores: allowed().len(),
            processor: line("/proc/cpuinfo", "model name"),
            memory_bytes: memory.map(|kibibytes: u64| kibibytes * 1024),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            load: fs::read_to_string("/proc/loadavg").ok().map(|text| text.trim().to_owned()),
            versions: versions
                .chain(HyperQueue::version().map(|version| ("HyperQueue".to_owned(), version)))
                .collect(),
        }
    }

    /// A line for people.
    pub(crate) fn sentence(&self) -> String {
        let processor = self.processor.as_deref().unwrap_or("unknown processor");
        let memory = self.memory_bytes.map_or_else(String::new, |bytes| format!(", {} GiB", bytes >> 30));
        format!("{} PUs ({processor}){memory}, kernel {}", self.cores, self.kernel)
    }
}

/// OS indexes of the PUs that this process may use.
pub(crate) fn allowed() -> Vec<usize> {
    let set = rustix::thread::sched_getaffinity(None).unwrap_or_default();
    (0..rustix::thread::CpuSet::MAX_CPU).filter(|pu| set.is_set(*pu)).collect()
}

/// Load average over a minute; 0 where it is hidden.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Memory available without swapping, MiB; 0 where it is hidden.
pub(crate) fn available_mib() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:")).unwrap_or_default();
    let kib: u64 = line.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    kib >> 10
}

/// CPU seconds of the machine since its start, idle time excluded.
pub(crate) fn busy_s() -> f64 {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let tick_us = 1_000_000 / rustix::param::clock_ticks_per_second().max(1);
    seconds(parse_busy(&text) * tick_us)
}

/// User, nice, system, interrupt and softirq ticks of the first line; guests are part of user.
fn parse_busy(stat: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu ")).unwrap_or_default();
    let fields: Vec<u64> = line.split_ascii_whitespace().filter_map(|field| field.parse().ok()).collect();
    [0, 1, 2, 5, 6].iter().filter_map(|index| fields.get(*index)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busy_leaves_out_idle_wait_and_steal() {
        assert_eq!(parse_busy("cpu  1 2 4 1000 2000 8 16 4000 5000 6000\ncpu0 1 1 1 1\n"), 31);
        assert_eq!(parse_busy(""), 0);
    }

    #[test]
    fn this_machine_has_a_core_and_a_kernel() {
        let machine = Machine::look(None);
        assert!(machine.cores >= 1 && !machine.kernel.is_empty(), "{machine:?}");
    }
}
