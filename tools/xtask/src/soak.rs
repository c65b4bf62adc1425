//! A soak: real programs and growing loads overload a budget of memory at random, users suspend jobs, and the daemon is
//! killed at random and started again. At the end every job must have ended with just the output that its program gives
//! alone, and nothing may be left frozen or behind.
//!
//! Owns a directory with the daemon's files, the daemon, and, as root of a host without swap, a swap file; all of them
//! go at the end. Absent here: how fast anything is.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use serde_json::Value;

/// Jobs that wait at a time.
const WAITING: usize = 6;
/// The longest start of the daemon, and the longest end of a job that is left.
const PATIENCE: Duration = Duration::from_secs(20);
const LAST_END: Duration = Duration::from_secs(900);

#[derive(Debug, clap::Args)]
pub(crate) struct SoakArgs {
    /// Time for which jobs are submitted
    #[arg(long, default_value_t = 30.0)]
    minutes: f64,
    /// Another seed, another course [default: from the time]
    #[arg(long)]
    seed: Option<u64>,
    /// Memory of all jobs together, in MiB
    #[arg(long, default_value_t = 1024)]
    budget_mib: u64,
    /// Size of the swap file, in MiB; as root, where there is no swap
    #[arg(long, default_value_t = 4096)]
    swap_mib: u64,
    /// Directory of pinfold, pinfoldd and pinfold-load
    #[arg(long, default_value = "target/release")]
    binaries: PathBuf,
}

/// Runs the soak and prints its result; fails if anything was lost.
pub(crate) fn soak(args: &SoakArgs) -> anyhow::Result<()> {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH)?;
    let seed = args.seed.unwrap_or(since.as_secs());
    let mut soak = Soak::new(args, seed)?;
    println!(
        "seed {seed}, {} minutes, a budget of {} MiB, in {}",
        args.minutes,
        args.budget_mib,
        soak.scratch.display()
    );
    soak.learn_what_is_right()?;
    soak.start_daemon()?;
    soak.hand_over(Duration::from_secs_f64(args.minutes * 60.0))?;
    println!(
        "{} jobs handed over, the daemon killed {} times; waiting for the rest",
        soak.jobs.len(),
        soak.kills
    );
    soak.wait_for_the_rest()?;
    soak.verdict(seed)
}

/// Numbers that follow from a seed (SplitMix64).
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % most.max(1)
    }

    fn ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from))
    }
}

/// A program to run, and its output with the host to itself.
struct Load {
    name: String,
    line: String,
    right: Vec<u8>,
}

struct Soak {
    dice: Dice,
    scratch: PathBuf,
    binaries: PathBuf,
    budget_mib: u64,
    swap: Option<PathBuf>,
    daemon: Option<Child>,
    loads: Vec<Load>,
    /// Each job's load and output.
    jobs: BTreeMap<u64, (usize, PathBuf)>,
    suspended: BTreeSet<u64>,
    kills: u32,
}

impl Soak {
    fn new(args: &SoakArgs, seed: u64) -> anyhow::Result<Self> {
        let binaries = args.binaries.canonicalize();
        let binaries = binaries.with_context(|| format!("{} (--binaries)", args.binaries.display()))?;
        for name in ["pinfold", "pinfoldd", "pinfold-load"] {
            ensure!(binaries.join(name).is_file(), "{} is not built", binaries.join(name).display());
        }
        let scratch = std::env::temp_dir().join(format!("pinfold-soak-{}", std::process::id()));
        fs::create_dir(&scratch).with_context(|| format!("failed to make {}", scratch.display()))?;
        fs::create_dir(scratch.join("out"))?;
        let loads = loads(&binaries);
        let mut soak = Self {
            dice: Dice(seed),
            scratch,
            binaries,
            budget_mib: args.budget_mib,
            swap: None,
            daemon: None,
            loads,
            jobs: BTreeMap::new(),
            suspended: BTreeSet::new(),
            kills: 0,
        };
        soak.swap = soak.make_swap(args.swap_mib)?;
        Ok(soak)
    }

    /// A swap file, for root of a host that has none.
    fn make_swap(&self, mib: u64) -> anyhow::Result<Option<PathBuf>> {
        let there = fs::read_to_string("/proc/swaps").unwrap_or_default().lines().count() > 1;
        let root = fs::read_to_string("/proc/self/status")
            .unwrap_or_default()
            .lines()
            .any(|line| line.split_whitespace().take(3).eq(["Uid:", "0", "0"]));
        if there || !root {
            println!("{}", if there { "the host's own swap" } else { "no swap, as only root can make some" });
            return Ok(None);
        }
        let path = self.scratch.join("swap");
        let run = |program: &str, words: &[&str]| {
            let done = Command::new(program)
                .args(words)
                .arg(&path)
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
            done.is_ok_and(|status| status.success())
        };
        let made = run("fallocate", &["-l", &format!("{mib}M")])
            && run("chmod", &["600"])
            && run("mkswap", &[])
            && run("swapon", &[]);
        if !made {
            println!("no swap file can be made here");
            let _ = fs::remove_file(&path);
        }
        Ok(made.then_some(path))
    }

    /// Runs each program once, alone.
    fn learn_what_is_right(&mut self) -> anyhow::Result<()> {
        for load in &mut self.loads {
            let began = Instant::now();
            let output = Command::new("/bin/sh").args(["-c", &load.line]).stdin(Stdio::null()).output()?;
            ensure!(output.status.success(), "{}: {}, alone", load.name, output.status);
            ensure!(!output.stdout.is_empty(), "{} prints nothing", load.name);
            println!("{}: {:.1} s alone", load.name, began.elapsed().as_secs_f64());
            load.right = output.stdout;
        }
        Ok(())
    }

    fn start_daemon(&mut self) -> anyhow::Result<()> {
        let log = OpenOptions::new().create(true).append(true).open(self.scratch.join("log"))?;
        let child = Command::new(self.binaries.join("pinfoldd"))
            .arg("--socket")
            .arg(self.scratch.join("socket"))
            .arg("--state-dir")
            .arg(self.scratch.join("state"))
            .args(["--set", &format!("host.memory={}MiB", self.budget_mib), "--set", "slots.factor=3"])
            .env("PINFOLD_LOG", "debug")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .context("failed to start pinfoldd")?;
        self.daemon = Some(child);
        self.ask(&["status"]).map(drop).context("the daemon does not come up")
    }

    /// `pinfold` with these words, again and again until a daemon answers.
    fn ask(&self, words: &[&str]) -> anyhow::Result<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let output = self.pinfold(words)?;
            if output.status.success() {
                return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
            }
            if Instant::now() >= deadline {
                bail!("pinfold {words:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
            }
            sleep(Duration::from_millis(50));
        }
    }

    fn pinfold(&self, words: &[&str]) -> anyhow::Result<std::process::Output> {
        Command::new(self.binaries.join("pinfold"))
            .arg("--no-autostart")
            .args(words)
            .env("PINFOLD_SOCKET", self.scratch.join("socket"))
            .current_dir(&self.scratch)
            .stdin(Stdio::null())
            .output()
            .context("failed to run pinfold")
    }

    /// The jobs that are not over, with their states.
    fn open_jobs(&self) -> anyhow::Result<Vec<(u64, String)>> {
        let view: Value = serde_json::from_str(&self.ask(&["status", "--json"])?).context("status")?;
        let job = |job: &Value| Some((job["job"].as_u64()?, job["state"].as_str()?.to_owned()));
        Ok(view["jobs"].as_array().into_iter().flatten().filter_map(job).collect())
    }

    /// Keeps jobs waiting for so long, and disturbs.
    fn hand_over(&mut self, time: Duration) -> anyhow::Result<()> {
        let end = Instant::now() + time;
        let mut next_kill = Instant::now() + self.dice.ms(5_000, 35_000);
        while Instant::now() < end {
            if Instant::now() >= next_kill {
                self.kill_daemon()?;
                sleep(self.dice.ms(0, 1_000));
                self.start_daemon()?;
                next_kill = Instant::now() + self.dice.ms(5_000, 35_000);
            }
            let open = self.open_jobs()?;
            if open.iter().filter(|(_, state)| state == "queued").count() < WAITING {
                self.submit()?;
            }
            if self.dice.below(10) == 0 && !open.is_empty() {
                let (job, _) = open[usize::try_from(self.dice.below(open.len() as u64))?];
                self.disturb(job)?;
            }
            sleep(Duration::from_millis(100));
        }
        Ok(())
    }

    fn submit(&mut self) -> anyhow::Result<()> {
        let which = usize::try_from(self.dice.below(self.loads.len() as u64))?;
        let file = self.scratch.join("out").join(self.jobs.len().to_string());
        let path = file.display().to_string();
        let load = &self.loads[which];
        let priority = (8 + self.dice.below(3)).to_string();
        let mut words =
            vec!["submit", "--name", &load.name, "--priority", &priority, "-o", &path, "-e", "/dev/null"];
        if self.dice.below(8) == 0 {
            words.push("--no-suspend");
        }
        words.extend(["--", "/bin/sh", "-c", &load.line]);
        let said = self.ask(&words)?;
        let job = said.trim().parse().with_context(|| format!("submit said {said:?}"))?;
        self.jobs.insert(job, (which, file));
        Ok(())
    }

    /// Suspends or resumes a job, as a user.
    fn disturb(&mut self, job: u64) -> anyhow::Result<()> {
        // An ended job, or an absent daemon, makes no difference.
        if let Some(resumed) = self.suspended.pop_first() {
            self.pinfold(&["resume", &resumed.to_string()])?;
        } else {
            self.pinfold(&["suspend", &job.to_string()])?;
            self.suspended.insert(job);
        }
        Ok(())
    }

    fn kill_daemon(&mut self) -> anyhow::Result<()> {
        if let Some(mut daemon) = self.daemon.take() {
            daemon.kill()?;
            daemon.wait()?;
            self.kills += 1;
        }
        Ok(())
    }

    fn wait_for_the_rest(&self) -> anyhow::Result<()> {
        let deadline = Instant::now() + LAST_END;
        loop {
            let open = self.open_jobs()?;
            if open.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                bail!("left after {} s: {}", LAST_END.as_secs(), self.ask(&["status"])?);
            }
            for (job, _) in open {
                // The last suspended job, or a job held by a command without a daemon.
                self.pinfold(&["resume", &job.to_string()])?;
            }
            sleep(Duration::from_millis(500));
        }
    }

    fn verdict(&mut self, seed: u64) -> anyhow::Result<()> {
        let mut wrong = Vec::new();
        let mut counts: BTreeMap<String, u32> = BTreeMap::new();
        for (job, (which, file)) in &self.jobs {
            let load = &self.loads[*which];
            *counts.entry(load.name.clone()).or_default() += 1;
            if fs::read(file).ok().as_ref() != Some(&load.right) {
                wrong.push(format!("job {job} ({}): {}", load.name, self.ask(&["why", &job.to_string()])?));
            }
        }
        let view = self.ask(&["status", "--all", "--json"])?;
        let view: Value = serde_json::from_str(&view).context("status")?;
        let known = view["jobs"].as_array().map_or(0, Vec::len);
        let instance = fs::read_to_string(self.scratch.join("state/instance")).unwrap_or_default();
        self.stop_daemon();
        let left = groups_of(instance.trim());
        let log = fs::read_to_string(self.scratch.join("log")).unwrap_or_default();
        let count = |words: &str| log.lines().filter(|line| line.contains(words)).count();
        for (name, count) in &counts {
            println!("{count:5} x {name}");
        }
        println!(
            "{} jobs, {} known to the daemon at the end, {} wrong or lost, {} groups left, the daemon killed {} times; \
             jobs frozen for memory {} times, paged out {} times; seed {seed}",
            self.jobs.len(),
            known,
            wrong.len(),
            left.len(),
            self.kills,
            count("action=freeze reason=memory"),
            count("action=page out"),
        );
        wrong.iter().for_each(|one| println!("{one}"));
        left.iter().for_each(|group| println!("left: {}", group.display()));
        ensure!(wrong.is_empty() && left.is_empty(), "something was lost or left");
        Ok(())
    }

    fn stop_daemon(&mut self) {
        let Some(mut daemon) = self.daemon.take() else { return };
        let _ = Command::new("kill").arg(daemon.id().to_string()).status();
        let deadline = Instant::now() + PATIENCE;
        while matches!(daemon.try_wait(), Ok(None)) && Instant::now() < deadline {
            sleep(Duration::from_millis(20));
        }
        let _ = daemon.kill();
        let _ = daemon.wait();
    }
}

impl Drop for Soak {
    fn drop(&mut self) {
        if self.daemon.is_some() {
            for (job, _) in self.open_jobs().unwrap_or_default() {
                let _ = self.pinfold(&["cancel", "--signal", "KILL", &job.to_string()]);
            }
            let deadline = Instant::now() + PATIENCE;
            while Instant::now() < deadline && self.open_jobs().is_ok_and(|open| !open.is_empty()) {
                sleep(Duration::from_millis(100));
            }
        }
        self.stop_daemon();
        if let Some(swap) = &self.swap {
            let _ = Command::new("swapoff").arg(swap).status();
        }
        let _ = fs::remove_dir_all(&self.scratch);
    }
}

/// Growing loads, and real programs that hold much memory, as far as they are installed. Each prints something at its
/// end only, and always the same.
fn loads(binaries: &Path) -> Vec<Load> {
    let load = |name: &str, line: String| Load { name: name.to_owned(), line, right: Vec::new() };
    let growing = binaries.join("pinfold-load");
    let grow = |mib: u32| {
        let line = format!(
            "'{}' --grow-mib {mib} --grow-mib-per-s 400 --bursts 1 --turns 2000000",
            growing.display()
        );
        load(&format!("grow-{mib}"), line)
    };
    let mut loads: Vec<Load> = [50, 150, 300, 450, 600].into_iter().map(grow).collect();
    let real = [
        ("sort", "seq 1 2500000 | sort -r -S 1G --parallel=1 | cksum"),
        ("xz", "seq 1 700000 | xz -6 -T1 | cksum"),
        ("perl", "perl -e '$h{$_} = $_ * 3 for 1 .. 900000; $s += $h{$_} for keys %h; print $s'"),
        (
            "awk",
            "awk 'BEGIN { for (i = 0; i < 1500000; i++) a[i] = i * 2; for (i in a) s += a[i]; print s }'",
        ),
        ("gzip", "seq 1 1500000 | gzip -6 | cksum"),
    ];
    for (name, line) in real {
        if std::env::var_os("PATH")
            .is_some_and(|path| std::env::split_paths(&path).any(|dir| dir.join(name).is_file()))
        {
            loads.push(load(name, line.to_owned()));
        } else {
            println!("{name} is not installed, and left out");
        }
    }
    loads
}

/// The groups of a daemon's jobs that are left in the kernel.
fn groups_of(instance: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let below = |path: &Path| -> Vec<PathBuf> {
        fs::read_dir(path).into_iter().flatten().flatten().map(|entry| entry.path()).collect()
    };
    let hierarchies = below(root).into_iter().chain([root.to_owned()]);
    let instances = hierarchies.map(|at| at.join("pinfold").join(instance)).filter(|_| !instance.is_empty());
    let jobs = instances.flat_map(|at| below(&at));
    let is_job = |path: &PathBuf| {
        path.is_dir() && path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("job-"))
    };
    jobs.filter(is_job).collect()
}
