//! The use of launchers and watchers themselves: processor time to the nanosecond, memory with shared pages divided.
//!
//! Reads `/proc` only; processes that vanish meanwhile are not counted. Owns nothing.

use std::collections::BTreeMap;
use std::fs;

/// The memory of some processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub(crate) struct Memory {
    /// Each page divided by the number of its processes, bytes.
    pub(crate) pss_bytes: u64,
    /// Resident, added up, bytes.
    pub(crate) rss_bytes: u64,
}

/// Processor time so far, seconds, of all threads of `pids` by the threads' names; of the children that they waited
/// for under the name `children`.
pub(crate) fn cpu_s(pids: &[i32]) -> BTreeMap<String, f64> {
    let mut by_thread: BTreeMap<String, f64> = BTreeMap::new();
    let tick_s = 1.0 / rustix::param::clock_ticks_per_second().max(1) as f64;
    for pid in pids {
        let threads = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
        for thread in threads.map(|entry| entry.path()) {
            let (Ok(name), Ok(times)) =
                (fs::read_to_string(thread.join("comm")), fs::read_to_string(thread.join("schedstat")))
            else {
                continue;
            };
            *by_thread.entry(name.trim().to_owned()).or_default() += ran_s(&times);
        }
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let children = waited_ticks(&stat) as f64 * tick_s;
        if children > 0.0 {
            *by_thread.entry("children".to_owned()).or_default() += children;
        }
    }
    by_thread
}

/// Memory of `pids` now.
pub(crate) fn memory(pids: &[i32]) -> Memory {
    let mut sum = Memory::default();
    for pid in pids {
        let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
        sum.pss_bytes += kibibytes(&text, "Pss:") * 1024;
        sum.rss_bytes += kibibytes(&text, "Rss:") * 1024;
    }
    sum
}

/// The first figure of `schedstat`: time on a processor, nanoseconds.
fn ran_s(schedstat: &str) -> f64 {
    let ns: u64 = schedstat.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    ns as f64 / 1e9
}

/// User and system time of the children that were waited for, from a `stat` line.
fn waited_ticks(stat: &str) -> u64 {
    two_of(stat, 13)
}

/// The sum of two fields, counted from the state.
fn two_of(stat: &str, from: usize) -> u64 {
    let Some((_, fields)) = stat.rsplit_once(')') else { return 0 };
    let fields = fields.split_ascii_whitespace().skip(from).take(2);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// The figure of a line of a `smaps` file, or 0.
fn kibibytes(text: &str, key: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(key)).unwrap_or_default();
    line.split_ascii_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kernel_lines() {
        assert!((ran_s("1500000000 77 3\n") - 1.5).abs() < 1e-9 && ran_s("") < 1e-9);
        let stat = "42 (a b) c) S 7 42 42 0 -1 4194304 100 0 0 0 11 13 17 19 20 0 1 0 5 0 0";
        assert_eq!((waited_ticks(stat), waited_ticks("")), (36, 0));
        let rollup = "0-1 ---p 0 0:0 0 [rollup]\nRss:  70 kB\nPss:  50 kB\nPss_Anon: 3 kB\n";
        assert_eq!((kibibytes(rollup, "Pss:"), kibibytes(rollup, "Swap:")), (50, 0));
    }

    #[test]
    fn this_process_has_used_something() {
        let own = i32::try_from(std::process::id()).unwrap();
        assert!(cpu_s(&[own]).values().sum::<f64>() > 0.0);
        let memory = memory(&[own]);
        assert!(memory.pss_bytes > 1 << 16 && memory.rss_bytes >= memory.pss_bytes, "{memory:?}");
        assert_eq!(super::memory(&[-1]), Memory::default());
    }
}
