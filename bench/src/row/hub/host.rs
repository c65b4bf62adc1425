//! What a hub costs a real host: a daemon with jobs, and its pusher, which looks at them every two seconds and sends what ended.

use std::fs;
use std::io::Write;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use serde::Serialize;

use super::load::Shape;
use super::served::{Hub, token};
use crate::daemon::Daemon;
use crate::row::Ground;
use crate::usage;

/// Until daemon and pusher are at rest.
const SETTLE: Duration = Duration::from_secs(6);

/// What it took.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Cost {
    pub(super) jobs: usize,
    pub(super) window_s: f64,
    /// Processor time of the pusher and of the program that speaks HTTP for it, seconds.
    pub(super) pusher_cpu_s: f64,
    /// Of the daemon, beside the pusher and before it was there.
    pub(super) daemon_cpu_s: f64,
    pub(super) daemon_before_cpu_s: f64,
    pub(super) pss_bytes: u64,
}

impl Cost {
    /// The pusher's part of a core, in percent.
    pub(super) fn pusher_percent(&self) -> f64 {
        self.pusher_cpu_s / self.window_s * 100.0
    }

    /// What it adds to the daemon, in percent of a core.
    pub(super) fn daemon_percent(&self) -> f64 {
        (self.daemon_cpu_s - self.daemon_before_cpu_s) / self.window_s * 100.0
    }
}

/// A process of ours, ended with this.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        if matches!(self.0.try_wait(), Ok(None)) {
            let _ = self.0.kill();
        }
        let _ = self.0.wait();
    }
}

/// Measures it; `None`: pinfold is not built.
pub(super) fn measure(
    ground: &Ground,
    hub: &Hub,
    shape: Shape,
    window_s: f64,
) -> anyhow::Result<Option<Cost>> {
    let Some(binaries) = &ground.binaries else { return Ok(None) };
    let scratch = ground.bench(0.0).scratch;
    let daemon = Daemon::start(binaries, scratch, None, &["slots.factor=4".to_owned()])?;
    let _list = Ended(jobs(&daemon, shape)?);
    std::thread::sleep(SETTLE);
    let pid = daemon.pid().context("the daemon has no pid")?;
    let window = Duration::from_secs_f64(window_s);
    let before_s = usage::whole_s(pid);
    std::thread::sleep(window);
    let daemon_before_cpu_s = usage::whole_s(pid) - before_s;

    let home = tempfile::Builder::new().prefix("push-").tempdir_in(scratch)?;
    let pinfold = || {
        let mut command: Command = daemon.command();
        command.env("PINFOLD_HUB_DIR", home.path()).stdin(Stdio::null());
        command
    };
    let mut join = pinfold();
    join.args(["hub", "join", &hub.url(), "--token", "-", "--no-start"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null());
    let mut join = join.spawn().context("failed to start pinfold hub join")?;
    join.stdin.take().context("no standard input")?.write_all(token(1).as_bytes())?;
    ensure!(join.wait()?.success(), "pinfold hub join failed");
    let log = fs::File::create(home.path().join("log"))?;
    let pusher = pinfold().args(["hub", "push"]).stdout(Stdio::null()).stderr(log).spawn();
    let mut pusher = Ended(pusher.context("failed to start pinfold hub push")?);
    std::thread::sleep(SETTLE);
    let pusher_pid = i32::try_from(pusher.0.id())?;
    let all = || -> Vec<i32> { [pusher_pid].into_iter().chain(usage::children(pusher_pid)).collect() };
    // By thread, to the nanosecond: ticks would be too coarse for what is this little.
    let pushed_s = || usage::cpu_s(&all()).values().sum::<f64>();
    let (pusher_before_s, before_s, begun) = (pushed_s(), usage::whole_s(pid), Instant::now());
    std::thread::sleep(window);
    let measured_s = begun.elapsed().as_secs_f64();
    let cost = Cost {
        jobs: shape.jobs,
        window_s: measured_s,
        pusher_cpu_s: pushed_s() - pusher_before_s,
        daemon_cpu_s: usage::whole_s(pid) - before_s,
        daemon_before_cpu_s,
        pss_bytes: usage::memory(&all()).pss_bytes,
    };
    let log = fs::read_to_string(home.path().join("log")).unwrap_or_default();
    ensure!(matches!(pusher.0.try_wait(), Ok(None)), "the pusher ended: {log}");
    drop(pusher);
    daemon.cancel_all();
    daemon.stop()?;
    Ok(Some(cost))
}

/// Jobs that do nothing, of which one ends as often as it would on such a host; those that have no slot wait.
fn jobs(daemon: &Daemon, shape: Shape) -> anyhow::Result<Child> {
    let mut command = daemon.command();
    command.args(["batch", "-"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut list = command.spawn().context("failed to start a list of jobs")?;
    let mut input = list.stdin.take().context("its input was asked for")?;
    let every_s = 1.0 / shape.bundles_per_s();
    for job in 1..=shape.jobs {
        writeln!(input, "sleep {:.0}", every_s * job as f64).context("failed to hand over a list of jobs")?;
    }
    Ok(list)
}
