//! The machine that QEMU emulates in software: two NUMA nodes, two serial lines (the console, and what the suite says),
//! and the disks that a form of the lab gives it. Absent here: what runs in it, and what becomes of what it says.

use std::fs;
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::Context as _;

use super::kernel::Kernel;
use super::{is_older, said};

const APPEND: &str = "console=ttyS0 panic=-1 quiet mitigations=off nokaslr no_timer_check rcupdate.rcu_expedited=1 \
                      rcupdate.rcu_cpu_stall_suppress=1 nowatchdog psi=1 audit=0";
/// So long it may take unless somebody said another time. It ends sooner where it hangs.
pub(super) const LIMIT: Duration = Duration::from_secs(3 * 3600);
/// Nothing takes so long that a suite says nothing for this time, on a host that is busy with other tests either.
const SILENCE: Duration = Duration::from_secs(900);
/// What the machine says when it begins, where it may begin more than once.
const BOOT: &str = "lab: boot";

pub(super) struct Machine<'a> {
    pub kernel: &'a Kernel,
    pub initrd: &'a Path,
    /// Its processors, as QEMU has them after `-smp`.
    pub smp: &'a str,
    /// Memory of each of its nodes.
    pub node_mib: u32,
    /// How long it may take, whatever its suite says.
    pub limit: Duration,
    /// In the order in which they are `vda`, `vdb`, ...
    pub disks: Vec<Disk>,
    /// How often it may begin; restarted more often, it is ended.
    pub boots: usize,
    /// More words for the kernel.
    pub append: &'a str,
}

pub(super) struct Disk {
    pub image: PathBuf,
    /// What is written lasts no longer than the machine, and the file stays as it is.
    pub passing: bool,
    /// Where each write and flush is logged, if they are.
    pub log: Option<PathBuf>,
}

impl Disk {
    /// One that keeps what is written to it.
    pub(super) fn lasting(image: PathBuf) -> Self {
        Self { image, passing: false, log: None }
    }

    /// One that forgets it.
    pub(super) fn passing(image: PathBuf) -> Self {
        Self { image, passing: true, log: None }
    }

    /// How QEMU is told of it, as the drive of this name.
    fn options(&self, name: &str) -> Vec<String> {
        let image = self.image.display();
        let Some(log) = &self.log else {
            let passing = if self.passing { ",snapshot=on" } else { "" };
            return vec![
                "-drive".to_owned(),
                format!("if=none,id={name},format=raw,cache=unsafe,file={image}{passing}"),
            ];
        };
        let file =
            |name: &str, path: &Path| format!("driver=file,node-name={name},filename={}", path.display());
        vec![
            "-blockdev".to_owned(),
            file(&format!("{name}-file"), &self.image),
            "-blockdev".to_owned(),
            file(&format!("{name}-log"), log),
            "-blockdev".to_owned(),
            format!(
                "driver=blklogwrites,node-name={name},file={name}-file,log={name}-log,log-super-update-interval=1"
            ),
        ]
    }
}

/// What became of a machine.
pub(super) struct Outcome {
    /// All that its suite said.
    pub said: String,
    /// The suite's exit code; `None`: the machine ended without one.
    pub code: Option<i32>,
    pub seconds: u64,
    /// The end of what the kernel wrote to its console.
    pub console: String,
}

impl Machine<'_> {
    /// Boots it, shows what its suite says, and ends it when that says nothing more or its time is over.
    pub(super) fn run(&self, work: &Path) -> anyhow::Result<Outcome> {
        let (console, log) = (work.join("console"), work.join("log"));
        fs::write(&log, "")?;
        let started = Instant::now();
        let mut machine =
            self.command(&console, &log)?.spawn().context("failed to start the emulated machine")?;
        let shown = self.watch(&mut machine, &log, started);
        if machine.try_wait()?.is_none() {
            machine.kill()?;
        }
        machine.wait()?;
        let said = shown?;
        let code = said.lines().rev().find_map(|line| line.trim().strip_prefix("lab: exit ")?.parse().ok());
        let end = fs::read(&console).unwrap_or_default();
        let end = String::from_utf8_lossy(&end).into_owned();
        let lines: Vec<&str> = end.lines().collect();
        let console = lines[lines.len().saturating_sub(30)..].join("\n");
        Ok(Outcome { said, code, seconds: started.elapsed().as_secs(), console })
    }

    fn command(&self, console: &Path, log: &Path) -> anyhow::Result<Command> {
        let version = said(Command::new("qemu-system-x86_64").arg("--version"))?;
        let pus: u32 =
            self.smp.split(',').next().and_then(|count| count.parse().ok()).context("--smp N,...")?;
        // Before 8.1, QEMU loses updates between processors that it emulates on threads of their own.
        let threads = if is_older(&version, (8, 1)) || pus > 16 { "single" } else { "multi" };
        // It does not outlive the one who started it.
        let mut machine = Command::new("setpriv");
        machine
            .args(["--pdeathsig", "KILL", "qemu-system-x86_64"])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-machine", "pc"])
            .args(["-accel", &format!("tcg,thread={threads},tb-size=256"), "-cpu", "Haswell-noTSX,-cx16"])
            .args(["-smp", self.smp, "-m", &format!("{}M", 2 * self.node_mib)])
            .args(self.node(0, pus / 2))
            .args(self.node(1, pus / 2))
            .arg("-kernel")
            .arg(&self.kernel.image)
            .arg("-initrd")
            .arg(self.initrd)
            .args(["-serial", &format!("file:{}", console.display())])
            .args(["-serial", &format!("file:{}", log.display())])
            .args(["-append", &format!("{APPEND} {}", self.append)])
            .stdin(Stdio::null());
        if self.boots == 1 {
            machine.arg("-no-reboot");
        }
        for (number, disk) in self.disks.iter().enumerate() {
            let name = format!("d{number}");
            machine.args(disk.options(&name)).args(["-device", &format!("virtio-blk-pci,drive={name}")]);
        }
        Ok(machine)
    }

    fn node(&self, number: u32, pus: u32) -> [String; 4] {
        let (first, last) = (number * pus, (number + 1) * pus - 1);
        [
            "-object".to_owned(),
            format!("memory-backend-ram,id=m{number},size={}M", self.node_mib),
            "-numa".to_owned(),
            format!("node,nodeid={number},memdev=m{number},cpus={first}-{last}"),
        ]
    }

    /// Shows what the machine says until it ends, is silent, its time is over, or it begins again and again.
    fn watch(&self, machine: &mut Child, log: &Path, started: Instant) -> anyhow::Result<String> {
        let (mut said, mut at) = (String::new(), 0);
        let mut heard = started;
        loop {
            let over = machine.try_wait()?.is_some();
            let mut file = fs::File::open(log)?;
            file.seek(SeekFrom::Start(at))?;
            let mut bytes = Vec::new();
            at += u64::try_from(file.read_to_end(&mut bytes)?).context("a size")?;
            let more = String::from_utf8_lossy(&bytes).replace('\r', "");
            print!("{more}");
            std::io::stdout().flush()?;
            said.push_str(&more);
            if !bytes.is_empty() {
                heard = Instant::now();
            }
            let late = too_late(started.elapsed(), heard.elapsed(), self.limit);
            if let Some(why) = late.as_ref().filter(|_| !over) {
                println!("lab: ended: {why}");
            }
            let restless = said.lines().filter(|line| line.trim() == BOOT).count() > self.boots;
            if over || restless || late.is_some() {
                return Ok(said);
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }
}

/// Why a machine is ended that has taken so long and has said nothing for so long; `None`: it may go on.
fn too_late(taken: Duration, silent: Duration, limit: Duration) -> Option<String> {
    if silent > SILENCE {
        return Some(format!("it has said nothing for {} s", SILENCE.as_secs()));
    }
    (taken > limit).then(|| format!("it has taken more than {} s", limit.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_that_speaks_has_the_whole_time_and_one_that_is_silent_has_not() {
        let hours = |count: u64| Duration::from_secs(3600 * count);
        let (short, long) = (Duration::from_secs(1), SILENCE + Duration::from_secs(1));
        assert_eq!(too_late(hours(2), short, LIMIT), None);
        assert_eq!(too_late(SILENCE, SILENCE, LIMIT), None);
        assert!(too_late(long, long, LIMIT).is_some_and(|why| why.contains("said nothing")));
        assert!(too_late(hours(4), short, LIMIT).is_some_and(|why| why.contains("10800 s")));
        assert!(too_late(hours(1), short, short).is_some_and(|why| why.contains("more than 1 s")));
    }
}
