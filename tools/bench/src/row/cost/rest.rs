//! The second table of row `cost`: an idle daemon, while so many jobs wait.
//!
//! There is no slot, so nothing runs and nothing is watched: the rest is the daemon's own cost, and its memory of each job.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde::Serialize;

use super::{SETTLE, used};
use crate::daemon::Daemon;
use crate::record::Record;
use crate::row::Ground;
use crate::stats::median;
use crate::table;
use crate::usage::{self, Memory};
use crate::watch::descendants;

/// The most queued jobs of a list at a time.
const LIST_MAX: usize = 500;
/// The longest time for the jobs to be in the queue.
const PATIENCE: Duration = Duration::from_secs(120);

/// A daemon at rest for a while.
#[derive(Debug, Serialize)]
pub(super) struct Rest {
    /// Jobs that wait.
    waiting: usize,
    repetition: usize,
    window_s: f64,
    /// Processor time within the window, by thread, seconds.
    cpu_s: BTreeMap<String, f64>,
    /// Memory of the daemon and its children.
    memory: Memory,
}

impl Rest {
    /// Percent of a core.
    pub(super) fn percent(&self) -> f64 {
        100.0 * self.cpu_s.values().sum::<f64>() / self.window_s
    }
}

/// Watches a daemon of its own with `waiting` jobs in its queue for `window_s` seconds; `None` where pinfold is not built.
pub(super) fn measure(
    ground: &Ground,
    (waiting, repetition): (usize, usize),
    window_s: f64,
    settings: &[String],
) -> anyhow::Result<Option<Rest>> {
    let Some(binaries) = &ground.binaries else { return Ok(None) };
    let mut settings = settings.to_vec();
    settings.push("slots.factor=0".to_owned());
    let daemon = Daemon::start(binaries, ground.bench(0.0).scratch, None, &settings)?;
    let lists = hand_over(&daemon, waiting)?;
    std::thread::sleep(SETTLE);
    let pids = descendants(&daemon.pid().into_iter().collect());
    let (before, begun) = (usage::cpu_s(&pids), Instant::now());
    std::thread::sleep(Duration::from_secs_f64(window_s));
    let (after, window_s) = (usage::cpu_s(&pids), begun.elapsed().as_secs_f64());
    let memory = usage::memory(&pids);
    lists.into_iter().try_for_each(give_up)?;
    daemon.stop()?;
    Ok(Some(Rest { waiting, repetition, window_s, cpu_s: used(&before, &after), memory }))
}

/// Lists of `waiting` jobs in all, of which each is in the queue.
fn hand_over(daemon: &Daemon, waiting: usize) -> anyhow::Result<Vec<Child>> {
    let sizes = (0..waiting).step_by(LIST_MAX).map(|from| LIST_MAX.min(waiting - from));
    let lists = sizes.map(|jobs| list(daemon, jobs)).collect::<anyhow::Result<Vec<Child>>>()?;
    let deadline = Instant::now() + PATIENCE;
    while daemon.count("queued") < waiting {
        ensure!(Instant::now() < deadline, "{} of {waiting} jobs wait", daemon.count("queued"));
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(lists)
}

fn list(daemon: &Daemon, jobs: usize) -> anyhow::Result<Child> {
    let mut command = daemon.command();
    command.args(["batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut list = command.spawn().context("failed to start a list of jobs")?;
    let mut input = list.stdin.take().expect("its input was asked for");
    for job in 0..jobs {
        writeln!(input, "true {job}").context("failed to hand over a list of jobs")?;
    }
    Ok(list)
}

/// Takes the jobs back, as an interrupt at the terminal would.
fn give_up(mut list: Child) -> anyhow::Result<()> {
    let pid = i32::try_from(list.id()).ok().and_then(Pid::from_raw).context("a list without a pid")?;
    kill_process(pid, Signal::TERM).context("failed to end a list of jobs")?;
    list.wait().context("failed to wait for a list of jobs")?;
    Ok(())
}

/// Writes the table.
pub(super) fn tell(rests: &[Rest], record: &mut Record) {
    let mut sizes: Vec<usize> = rests.iter().map(|rest| rest.waiting).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let rows: Vec<Vec<String>> = sizes
        .iter()
        .map(|waiting| {
            let cell = |of: &dyn Fn(&Rest) -> f64, digits| {
                let values: Vec<f64> = rests.iter().filter(|rest| rest.waiting == *waiting).map(of).collect();
                median(&values).map_or_else(String::new, |median| table::with_interval(&median, digits))
            };
            let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
            vec![
                waiting.to_string(),
                cell(&Rest::percent, 3),
                cell(&|rest| mib(rest.memory.pss_bytes), 1),
                cell(&|rest| mib(rest.memory.rss_bytes), 1),
            ]
        })
        .collect();
    record.say(
        "\nThe daemon while nobody wants anything of it and jobs wait: percent of one core, all threads and children.\n",
    );
    record.say(&table::markdown(&["jobs that wait", "CPU %", "memory MiB (PSS)", "RSS"], &rows));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percent_is_of_a_core() {
        let cpu_s = BTreeMap::from([("a".to_owned(), 0.003), ("b".to_owned(), 0.001)]);
        let rest = Rest { waiting: 0, repetition: 1, window_s: 8.0, cpu_s, memory: Memory::default() };
        assert!((rest.percent() - 0.05).abs() < 1e-9);
    }
}
