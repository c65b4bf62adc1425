//! Programs that watch processes: pinfold's peers as a profiler, each at a sample a second, and their output.
//!
//! A peer runs as for its users, its output going to a file of its own; it is stopped and waited for. Its output is read
//! after its end. Owns the child.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process};

use crate::watch::descendants;
use crate::way::installed;

/// The longest time for a peer to stop.
const PATIENCE: Duration = Duration::from_secs(20);

/// A peer that is left out, with the reason.
pub(crate) const LEFT_OUT: &str = "prmon is left out: it is no package of Debian 12 and no crate.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Peer {
    /// Processes with all their figures into a file of its own; ended processes by the kernel's accounting.
    Atop,
    /// The same with proportional sizes.
    AtopPss,
    /// CPU, memory, I/O and switches of all processes, as text.
    Pidstat,
    /// Processes with most of their figures, and the host, into a store of its own; ended processes by a probe in the
    /// kernel.
    Below,
}

impl Peer {
    /// All of them.
    pub(crate) const ALL: [Self; 4] = [Self::Atop, Self::AtopPss, Self::Pidstat, Self::Below];

    /// For tables.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Atop => "atop",
            Self::AtopPss => "atop -R (PSS)",
            Self::Pidstat => "pidstat",
            Self::Below => "below",
        }
    }

    /// Why it cannot be had.
    pub(crate) fn missing(self) -> Option<String> {
        let program = self.program();
        if self == Self::Below && installed(program) && !rustix::process::geteuid().is_root() {
            return Some("below is left out: it wants to be root.".to_owned());
        }
        (!installed(program)).then(|| format!("{} is left out: {program} is not installed.", self.name()))
    }

    fn program(self) -> &'static str {
        match self {
            Self::Atop | Self::AtopPss => "atop",
            Self::Pidstat => "pidstat",
            Self::Below => "below",
        }
    }

    /// Its version, in its own words.
    pub(crate) fn version(self) -> Option<String> {
        if self == Self::Below {
            return Some("of a version that it does not tell".to_owned());
        }
        let output = Command::new(self.program()).arg("-V").stdin(Stdio::null()).output().ok()?;
        let text = [output.stdout, output.stderr].concat();
        Some(String::from_utf8_lossy(&text).lines().next()?.trim().to_owned())
    }
}

/// A peer at work.
#[derive(Debug)]
pub(crate) struct Monitor {
    peer: Peer,
    child: Child,
    /// The file of its output; for below, its configuration, which names its store.
    output: PathBuf,
    started: Instant,
    started_s: u64,
}

impl Monitor {
    /// Starts `peer` at a sample a second, its output in a file of its own in `directory`.
    pub(crate) fn start(peer: Peer, directory: &Path) -> anyhow::Result<Self> {
        let directory = tempfile::Builder::new().prefix("monitor-").tempdir_in(directory)?.keep();
        let output = directory.join("output");
        let mut command = Command::new(peer.program());
        match peer {
            Peer::Atop => command.arg("-w").arg(&output).arg("1"),
            Peer::AtopPss => command.arg("-R").arg("-w").arg(&output).arg("1"),
            Peer::Pidstat => command.args(["-h", "-H", "-r", "-u", "-d", "-w", "-p", "ALL", "1"]),
            Peer::Below => {
                let store = directory.join("store");
                // It expects the unified hierarchy at the usual place.
                let groups = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
                let has = |group: &&&str| Path::new(group).join("cgroup.controllers").exists();
                let group = groups.iter().find(has).unwrap_or(&groups[1]);
                let text =
                    format!("log_dir = {directory:?}\nstore_dir = {store:?}\ncgroup_root = {group:?}\n");
                fs::write(&output, text).context("failed to write a configuration for below")?;
                command.arg("--config").arg(&output);
                command.args(["record", "--interval-s", "1", "--collect-io-stat", "--compress"])
            }
        };
        let text = match peer {
            Peer::Pidstat => {
                File::create(&output).context("failed to create a file for a peer's output")?.into()
            }
            _ => Stdio::null(),
        };
        command.env("LC_ALL", "C").stdin(Stdio::null()).stdout(text).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("failed to start {}", peer.program()))?;
        let started_s = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs());
        Ok(Self { peer, child, output, started: Instant::now(), started_s })
    }

    /// Its processes.
    pub(crate) fn pids(&self) -> Vec<i32> {
        i32::try_from(self.child.id()).map_or_else(|_| Vec::new(), |pid| descendants(&BTreeSet::from([pid])))
    }

    /// Stops it; returns its observations.
    pub(crate) fn stop(mut self) -> anyhow::Result<Seen> {
        let lived_s = self.started.elapsed().as_secs_f64();
        let signal = if self.peer == Peer::Pidstat { Signal::INT } else { Signal::TERM };
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            // Not reaped yet, so the number is still its own.
            let _answer = kill_process(pid, signal);
        }
        let deadline = Instant::now() + PATIENCE;
        while self.child.try_wait().context("failed to wait for a peer")?.is_none() {
            if Instant::now() > deadline {
                self.child.kill().context("failed to kill a peer")?;
                self.child.wait().context("failed to wait for a peer")?;
                bail!("{} did not stop and was killed", self.peer.name());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        let (rows, samples) = match self.peer {
            Peer::Pidstat => {
                let text = fs::read_to_string(&self.output).context("failed to read a peer's output")?;
                (parse_pidstat(&text), count(&text, "#"))
            }
            Peer::Atop | Peer::AtopPss => {
                let mut command = Command::new("atop");
                command.arg("-r").arg(&self.output).args(["-P", "PRC,PRM,CPL"]).env("LC_ALL", "C");
                let output = command.stdin(Stdio::null()).output().context("failed to run atop")?;
                let text = String::from_utf8_lossy(&output.stdout).into_owned();
                (parse_atop(&text), count(&text, "CPL "))
            }
            Peer::Below => {
                let mut command = Command::new("below");
                command.arg("--config").arg(&self.output).args([
                    "dump",
                    "process",
                    "--raw",
                    "--disable-title",
                ]);
                command.args(["--begin", &self.started_s.to_string(), "--end", "now", "-O", "csv", "-f"]);
                command.args(["timestamp", "pid", "cpu.usage_pct", "mem.rss_bytes", "comm"]);
                let output = command.stdin(Stdio::null()).output().context("failed to run below")?;
                let rows = parse_below(&String::from_utf8_lossy(&output.stdout));
                let times: BTreeSet<u64> = rows.iter().map(|row| row.time_s).collect();
                (rows, times.len())
            }
        };
        Ok(Seen { rows, samples, lived_s })
    }
}

impl Drop for Monitor {
    /// On the way out of an error; a child that was waited for is not signalled again.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _answer = self.child.kill();
            let _gone = self.child.wait();
        }
    }
}

/// A peer's observations.
#[derive(Debug)]
pub(crate) struct Seen {
    /// A row for each process and sample.
    pub(crate) rows: Vec<ProcessRow>,
    pub(crate) samples: usize,
    /// Its working time, seconds.
    pub(crate) lived_s: f64,
}

/// A process in a peer's sample.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ProcessRow {
    /// Unix seconds.
    pub(crate) time_s: u64,
    pub(crate) pid: i32,
    pub(crate) name: String,
    /// Processor time since the sample before, seconds.
    pub(crate) cpu_s: f64,
    /// Resident size, or the proportional size if measured; `None`: not in this row.
    pub(crate) resident_bytes: Option<u64>,
}

impl Seen {
    /// Samples in a second.
    pub(crate) fn rate_hz(&self) -> f64 {
        self.samples as f64 / self.lived_s.max(1e-9)
    }

    /// The sums of resident sizes of `pids`, sample by sample.
    pub(crate) fn resident_bytes(&self, pids: &BTreeSet<i32>) -> Vec<u64> {
        let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
        for row in self.rows.iter().filter(|row| pids.contains(&row.pid)) {
            *sums.entry(row.time_s).or_default() += row.resident_bytes.unwrap_or(0);
        }
        sums.into_values().collect()
    }

    /// Processor time of the matching processes, seconds; and their number.
    pub(crate) fn cpu_s(&self, is: impl Fn(&ProcessRow) -> bool) -> (f64, usize) {
        let rows = || self.rows.iter().filter(|row| is(row));
        let pids: BTreeSet<i32> = rows().map(|row| row.pid).collect();
        (rows().map(|row| row.cpu_s).sum(), pids.len())
    }
}

fn count(text: &str, beginning: &str) -> usize {
    text.lines().filter(|line| line.starts_with(beginning)).count()
}

/// The lines of `pidstat -h -H`, with heads that name their columns.
fn parse_pidstat(text: &str) -> Vec<ProcessRow> {
    let mut head: Vec<&str> = Vec::new();
    let mut rows = Vec::new();
    for line in text.lines() {
        if let Some(words) = line.strip_prefix('#') {
            head = words.split_ascii_whitespace().collect();
            continue;
        }
        let words: Vec<&str> = line.split_ascii_whitespace().collect();
        let word = |name: &str| words.get(head.iter().position(|column| *column == name)?).copied();
        let row = || {
            Some(ProcessRow {
                time_s: word("Time")?.parse().ok()?,
                pid: word("PID")?.parse().ok()?,
                name: word("Command")?.to_owned(),
                // Percent of a core over the second before.
                cpu_s: word("%CPU")?.parse::<f64>().ok()? / 100.0,
                resident_bytes: Some(word("RSS")?.parse::<u64>().ok()? * 1024),
            })
        };
        rows.extend(row());
    }
    rows
}

/// The lines `PRC` (processor) and `PRM` (memory) of atop's parseable output. The first sample counts from the start
/// of the host and is passed over.
fn parse_atop(text: &str) -> Vec<ProcessRow> {
    let start = text.find("\nSEP").map_or(0, |at| at + 1);
    let mut rows: Vec<ProcessRow> = Vec::new();
    for line in text[start..].lines() {
        let (Some((label, rest)), Some((front, behind))) = (line.split_once(' '), after_name(line)) else {
            continue;
        };
        let row = || {
            let time_s = rest.split(' ').nth(1)?.parse().ok()?;
            let (numbers, name) = front.split_once('(')?;
            let pid = numbers.trim_end().rsplit(' ').next()?.parse().ok()?;
            let fields: Vec<u64> =
                behind.split_ascii_whitespace().skip(1).map(|word| word.parse().unwrap_or(0)).collect();
            let (mut cpu_s, mut resident_bytes) = (0.0, None);
            match label {
                "PRC" => {
                    let per_second = (*fields.first()?).max(1) as f64;
                    cpu_s = (*fields.get(1)? + *fields.get(2)?) as f64 / per_second;
                }
                // Page size, address space, resident size, and eleven more before the proportional size, where it is asked for.
                "PRM" => {
                    let proportional = fields.get(14).filter(|size| **size > 0);
                    resident_bytes = Some(proportional.or(fields.get(2))? * 1024);
                }
                _ => return None,
            }
            Some(ProcessRow { time_s, pid, name: name.to_owned(), cpu_s, resident_bytes })
        };
        rows.extend(row());
    }
    rows
}

/// The text before the end of a process's name, and the text behind: a letter for its state first. More may follow in
/// brackets, for instance its container.
fn after_name(line: &str) -> Option<(&str, &str)> {
    let is_state = |at: &usize| {
        let mut behind = line[at + 2..].chars();
        behind.next().is_some_and(|state| state.is_ascii_alphabetic()) && behind.next() == Some(' ')
    };
    let at = line.rmatch_indices(") ").map(|(at, _)| at).find(is_state)?;
    Some((&line[..at], &line[at + 1..]))
}

/// The lines of `below dump process`, each with a comma at its end: time, process, percent of a core since the sample
/// before, resident size, name. A missing figure is `?`, as the processor time of the first sample.
fn parse_below(text: &str) -> Vec<ProcessRow> {
    let row = |line: &str| {
        let mut words = line.splitn(5, ',');
        let mut word = || words.next();
        let (time_s, pid) = (word()?.parse().ok()?, word()?.parse().ok()?);
        let cpu_s = word()?.parse::<f64>().map_or(0.0, |percent| percent / 100.0);
        let resident_bytes = word()?.parse().ok();
        Some(ProcessRow {
            time_s,
            pid,
            name: word()?.trim_end_matches(',').to_owned(),
            cpu_s,
            resident_bytes,
        })
    };
    text.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pidstat_lines() {
        let text = "Linux 6.18 (host) \t11/22/26 \t_x86_64_\t(2 CPU)\n\n\
            # Time        UID       PID    %usr %system  %guest   %wait    %CPU   CPU  minflt/s  majflt/s     VSZ     RSS   %MEM   kB_rd/s   kB_wr/s kB_ccwr/s iodelay   cswch/s nvcswch/s  Command\n\
            1763796000        0         1    0.00    1.00    0.00    0.00    2.50     0      0.00      0.00    4332    3040   0.01      0.00      0.00      0.00       0      0.00      0.00  a\n\
            \n# Time  UID PID %CPU VSZ RSS Command\n1763796001 0 7 100.00 9 1 b\nbroken line\n1763796001 0 x 1 2 3 b\n";
        let rows = parse_pidstat(text);
        let row = |time_s, pid, name: &str, cpu_s, kib: u64| ProcessRow {
            time_s,
            pid,
            name: name.to_owned(),
            cpu_s,
            resident_bytes: Some(kib * 1024),
        };
        assert_eq!(rows, [row(1_763_796_000, 1, "a", 0.025, 3040), row(1_763_796_001, 7, "b", 1.0, 1)]);
        let seen = Seen { rows, samples: count(text, "#"), lived_s: 2.0 };
        assert_eq!(seen.resident_bytes(&BTreeSet::from([1, 7])), [3040 * 1024, 1024]);
        assert!((seen.rate_hz() - 1.0).abs() < 1e-9);
        assert_eq!(seen.cpu_s(|row| row.name == "b"), (1.0, 1));
    }

    #[test]
    fn atop_lines() {
        let text = "RESET\nPRC host 1763795000 2026/11/22 07:00:00 900 1 (init) S 100 500 900 0 120 0 0 0 0 1 y\nSEP\n\
            CPL host 1763795001 2026/11/22 07:00:01 1 2 0.1\n\
            PRC host 1763795001 2026/11/22 07:00:01 1 77 (a (b) c) E 100 3 4 0 120 0 0 0 0 77 y 9 () 0 -3 -3\n\
            PRM host 1763795001 2026/11/22 07:00:01 1 77 (a (b) c) S 4096 9000 120 5 6\n\
            PRM host 1763795001 2026/11/22 07:00:01 1 78 (d) S 4096 9000 120 5 6 7 8 9 10 11 12 13 78 y 40 0\n\
            PRC host 1763795001 2026/11/22 07:00:01 1 x\nSEP\n";
        let rows = parse_atop(text);
        assert_eq!(rows.len(), 3, "{rows:?}");
        assert_eq!((rows[0].pid, rows[0].name.as_str(), rows[0].resident_bytes), (77, "a (b) c", None));
        assert!((rows[0].cpu_s - 0.07).abs() < 1e-9);
        assert_eq!(rows[1].resident_bytes, Some(120 * 1024));
        assert_eq!(rows[2].resident_bytes, Some(40 * 1024), "the proportional size");
    }

    #[test]
    fn below_lines() {
        let text = "1795373174,7,?,4096,sh,\n1795373175,7,2.5,8192,a, (b) c\n1795373175,8,?,?,true\nbroken\n";
        let rows = parse_below(text);
        let row = |time_s, pid, name: &str, cpu_s, resident_bytes| ProcessRow {
            time_s,
            pid,
            name: name.to_owned(),
            cpu_s,
            resident_bytes,
        };
        let want = [
            row(1_795_373_174, 7, "sh", 0.0, Some(4096)),
            row(1_795_373_175, 7, "a, (b) c", 0.025, Some(8192)),
            row(1_795_373_175, 8, "true", 0.0, None),
        ];
        assert_eq!(rows, want);
    }

    /// A peer that is installed here prints its observations in a known form.
    #[test]
    fn a_peer_sees_this_process() {
        let peer = Peer::Pidstat;
        if let Some(why) = peer.missing() {
            eprintln!("skipped: {why}");
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let monitor = Monitor::start(peer, directory.path()).unwrap();
        let own = i32::try_from(std::process::id()).unwrap();
        let deadline = Instant::now() + Duration::from_secs(180);
        let output = monitor.output.clone();
        while !fs::read_to_string(&output).is_ok_and(|text| !parse_pidstat(&text).is_empty()) {
            assert!(Instant::now() < deadline, "no sample");
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(!monitor.pids().is_empty());
        let seen = monitor.stop().unwrap();
        let held = seen.resident_bytes(&BTreeSet::from([own]));
        assert!(held.first().is_some_and(|bytes| *bytes > 1 << 20), "{:?}", seen.rows);
    }
}
