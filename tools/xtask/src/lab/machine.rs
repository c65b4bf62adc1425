//! The machine that QEMU emulates in software: two NUMA nodes, two serial lines (the console, and the suite's output), and
//! the disks of a form of the lab. Absent here: the suite, and the use of its output.

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
/// The default time limit. A machine that hangs ends sooner.
pub(super) const LIMIT: Duration = Duration::from_secs(3 * 3600);
/// The longest time without output from a suite, even on a host that is busy with other tests.
const SILENCE: Duration = Duration::from_secs(900);
/// The machine's line at each boot, if it may boot more than once.
const BOOT: &str = "lab: boot";

pub(super) struct Machine<'a> {
    pub kernel: &'a Kernel,
    pub initrd: &'a Path,
    /// Its processors, as QEMU has them after `-smp`.
    pub smp: &'a str,
    /// Memory of each of its nodes.
    pub node_mib: u32,
    /// The time limit, whatever its suite prints.
    pub limit: Duration,
    /// In the order in which they are `vda`, `vdb`, ...
    pub disks: Vec<Disk>,
    /// The permitted number of boots; a machine with more is ended.
    pub boots: usize,
    /// More words for the kernel.
    pub append: &'a str,
}

pub(super) struct Disk {
    pub image: PathBuf,
    /// Whether writes last no longer than the machine, and leave the file unchanged.
    pub passing: bool,
    /// The log of each write and flush, if any.
    pub log: Option<PathBuf>,
}

impl Disk {
    /// A disk that keeps writes.
    pub(super) fn lasting(image: PathBuf) -> Self {
        Self { image, passing: false, log: None }
    }

    /// A disk that drops writes at the end.
    pub(super) fn passing(image: PathBuf) -> Self {
        Self { image, passing: true, log: None }
    }

    /// Its options for QEMU, as the drive of this name.
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

/// The result of a machine.
pub(super) struct Outcome {
    /// All that its suite said.
    pub said: String,
    /// The suite's exit code; `None`: the machine ended without it.
    pub code: Option<i32>,
    pub seconds: u64,
    /// The end of the kernel's console output.
    pub console: String,
}

impl Machine<'_> {
    /// Boots the machine, shows its suite's output, and ends it after silence or at its time limit.
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
        // Ends with this process.
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

    /// Shows the machine's output until it ends, is silent, exceeds its time, or boots too often.
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

/// The reason to end a machine after this time and this silence; `None`: it may go on.
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
