//! The daemon dies between accepting a job and its end, at whichever point: the job is neither lost nor run twice, and
//! waits for nobody who is gone.
//!
//! A daemon with debug assertions counts the points of its life (before and after whatever it does to a job, to the disk,
//! or tells a keeper) and ends at the one that `PINFOLD_CRASH_AT` names. Each scenario is played again and again, with an
//! end at the next point each time, until a life goes through; and once more with a second end in the life after the
//! first. `make crash` does so; otherwise a few points of each are tried (`PINFOLD_CRASH_POINTS=all` for all).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use pinfold_proto::JobState;
use pinfold_proto::view::{ReportView, StatusView};
use pinfold_proto::wire::{Request, Verb};
use rustix::process::Signal;

use crate::host::{Host, processes_with, send, status_field};
use crate::kind::{Kind, tests};
use crate::process::{Done, Running};
use crate::site::{NOTE, WAIT, host, logged, module, settled};
use crate::wait::{PATIENCE, eventually, looked_at, no_rescue, within};
use crate::wire::Wire;

tests! {
    Each: at_every_point_of_a_run, at_every_point_of_a_suspension, at_every_point_of_a_cancellation,
        at_every_point_of_an_adoption;
    Best: what_a_program_of_the_sites_leaves_is_not_its_job, at_every_point_of_a_submitted_job,
        at_every_point_of_a_batch, at_every_point_of_an_array, at_every_point_of_a_prepared_job,
        at_every_point_of_a_directory_in_memory, at_every_point_of_a_requeue,
        at_every_point_of_a_requeue_as_asked, at_every_point_of_a_checkpoint,
        at_every_point_around_a_restart_of_the_host;
}

/// The exit code of a command that found no daemon, or lost it before it was answered.
const NO_DAEMON: i32 = 4;

/// Points at which the first life ends, and the one after it (0: it goes through), where not all are tried: others for
/// each kind, as each takes seconds. A scenario has some 20 to 60.
const fn sample(kind: Kind) -> [[u64; 2]; 2] {
    match kind {
        Kind::Groups => [[3, 0], [19, 11]],
        Kind::Rootless => [[8, 5], [27, 0]],
        Kind::Nobody => [[13, 0], [24, 7]],
    }
}

/// A host whose daemon ends at points, and is started again as a service manager would.
struct Trial {
    host: Host,
    /// Where the lives to come end.
    ends: VecDeque<u64>,
    /// Where those before ended, in words.
    ended: Vec<String>,
    /// How often each request's command may have run.
    may_run: BTreeMap<String, (usize, usize)>,
    /// The jobs, and the exit codes that they must come to.
    jobs: Vec<(u64, Option<i32>)>,
}

impl Trial {
    fn new(kind: Kind, scenario: &Scenario, ends: &[u64]) -> Self {
        let mut host = Host::without_daemon(kind, &[]);
        // No sample comes to help: what is to follow an end, follows without one.
        let mut settings = vec!["profile.interval=1h".to_owned()];
        settings.extend(scenario.settings.iter().map(|setting| (*setting).to_owned()));
        if scenario.prepared {
            settings.push(format!("modules.site={}", module(&host, "a", NOTE)));
        }
        host.set(&settings.iter().map(String::as_str).collect::<Vec<_>>());
        let ends = ends.iter().copied().filter(|&end| end > 0).collect();
        let mut trial = Self { host, ends, ended: Vec::new(), may_run: BTreeMap::new(), jobs: Vec::new() };
        trial.start();
        trial
    }

    /// Starts a daemon, and another one as long as they end.
    fn start(&mut self) {
        while let Err(said) = self.host.try_start_daemon(self.ends.pop_front()) {
            self.ended.push(end_of(&said));
        }
    }

    fn revive(&mut self) {
        if self.host.daemon_is_gone() {
            self.ended.push(end_of(&self.host.daemon_said()));
            self.start();
        }
    }

    /// Looks again and again until it is so, with a daemon.
    #[track_caller]
    fn until<T>(&mut self, what: &str, mut look: impl FnMut(&Host) -> Result<T, String>) -> T {
        let mut last = String::new();
        let found = within(PATIENCE, || {
            self.revive();
            look(&self.host).map_err(|seen| last = seen).ok()
        });
        found.unwrap_or_else(|| {
            panic!("not within {PATIENCE:?}: {what}; last: {last}; ended {:?}", self.ended)
        })
    }

    /// Waits for the end of a command, with a daemon.
    #[track_caller]
    fn ended(&mut self, mut command: Running) -> Done {
        let over = within(PATIENCE, || {
            self.revive();
            (!command.runs()).then_some(())
        });
        assert!(over.is_some(), "{} does not end; daemons ended {:?}", command.said("err"), self.ended);
        command.wait()
    }

    /// A command of `pinfold`, given again as long as it finds no daemon.
    #[track_caller]
    fn pinfold(&mut self, words: &[&str]) -> Done {
        loop {
            self.revive();
            let started = self.host.start([&["--no-autostart"], words].concat());
            let done = self.ended(started);
            if done.code != Some(NO_DAEMON) {
                return done;
            }
        }
    }

    /// A script that tells under this name that it runs.
    fn script(&mut self, name: &str, times: (usize, usize), rest: &str) -> String {
        self.may_run.insert(name.to_owned(), times);
        format!("echo {name} >>runs; {rest}")
    }

    /// Submits such a script; gives the job's number.
    #[track_caller]
    fn submit(&mut self, options: &[&str], name: &str, times: (usize, usize), rest: &str) -> u64 {
        let script = self.script(name, times, rest);
        let files = ["-o", "/dev/null", "-e", "/dev/null", "--", "/bin/sh", "-c", &script];
        let done = self.pinfold(&[&["submit"], options, &files].concat());
        assert_eq!(done.code, Some(0), "{done:?}; ended {:?}", self.ended);
        done.out.trim().parse().unwrap_or_else(|_| panic!("a job's number: {done:?}"))
    }

    /// This job, with its exit code if it has one of its own, is one of those that must end.
    fn ends(&mut self, job: u64, code: Option<i32>) {
        self.jobs.push((job, code));
    }

    #[track_caller]
    fn until_ran(&mut self, name: &str) {
        self.until(&format!("{name} runs"), |host| {
            let runs = host.wrote("runs");
            if runs.lines().any(|line| line == name) {
                Ok(())
            } else {
                Err(format!("{runs:?} {}", told(host)))
            }
        });
    }

    /// All is over, as it must be.
    #[track_caller]
    fn check(mut self) -> Vec<String> {
        for (job, code) in std::mem::take(&mut self.jobs) {
            self.until(&format!("job {job} ended with {code:?}"), |host| {
                let view = status(host, &[job]).ok_or("no status")?.jobs.pop().ok_or("no such job")?;
                let as_it_must = code.is_none() || view.exit_code == code;
                if view.state == JobState::Exited && as_it_must { Ok(()) } else { Err(told(host)) }
            });
        }
        self.until("nothing is left to end", |host| match status(host, &[]) {
            Some(view) if view.jobs.is_empty() => Ok(()),
            other => Err(format!("{other:?}")),
        });
        let runs = self.host.wrote("runs");
        for (name, &(least, most)) in &self.may_run {
            let count = runs.lines().filter(|line| line == name).count();
            assert!((least..=most).contains(&count), "{name}: {count} runs; ended {:?}", self.ended);
        }
        // Empty ones are kept for the jobs to come; that they go with the daemon, the host looks at.
        self.until("nobody is left in a group of a job", |host| {
            let inside = |group: &std::path::PathBuf| {
                let pids = std::fs::read_to_string(group.join("cgroup.procs"));
                pids.is_ok_and(|pids| !pids.trim().is_empty())
            };
            host.job_groups().into_iter().find(inside).map_or(Ok(()), |left| Err(left.display().to_string()))
        });
        for owed in ["around", "starts"] {
            self.until(&format!("nothing is left in {owed}"), |host| {
                match std::fs::read_dir(host.state().join(owed)).map(Iterator::count) {
                    Err(_) | Ok(0) => Ok(()),
                    Ok(left) => Err(format!("{left}")),
                }
            });
        }
        self.is_taken_down();
        // One that may still come to its point is not the one that is told to stop.
        self.ends.clear();
        self.revive();
        let ended = std::mem::take(&mut self.ended);
        self.host.crash();
        self.start();
        ended
    }

    /// Each job that was prepared was taken down last.
    #[track_caller]
    fn is_taken_down(&self) {
        let log = self.host.wrote("log");
        let mut last = BTreeMap::new();
        for words in log.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()) {
            last.insert(words[2].to_owned(), words[0].to_owned());
        }
        assert!(last.values().all(|verb| verb == "after"), "{log}; ended {:?}", self.ended);
    }
}

/// What a daemon that ended said of it last.
fn end_of(said: &str) -> String {
    let line = said.lines().rev().find_map(|line| line.split_once("ends at "));
    line.unwrap_or_else(|| panic!("the daemon ended by itself: {said}")).1.to_owned()
}

fn status(host: &Host, jobs: &[u64]) -> Option<StatusView> {
    let jobs = jobs.iter().map(u64::to_string);
    let words = ["--no-autostart", "status", "--json"].map(str::to_owned);
    let done = host.pinfold(words.into_iter().chain(jobs));
    serde_json::from_str(&done.out).ok()
}

fn told(host: &Host) -> String {
    host.pinfold(["--no-autostart", "status", "--all", "--json"]).out
}

/// What is played.
struct Scenario {
    settings: &'static [&'static str],
    /// Whether a program of the site's prepares jobs.
    prepared: bool,
    play: fn(&mut Trial),
}

/// Whether all points are to be tried.
fn all_points() -> bool {
    std::env::var_os("PINFOLD_CRASH_POINTS").is_some_and(|which| which == "all")
}

#[track_caller]
fn at_every_point(kind: Kind, name: &str, scenario: &Scenario) {
    let _frozen = no_rescue();
    let tried = |ends: &[u64]| {
        let mut trial = Trial::new(kind, scenario, ends);
        (scenario.play)(&mut trial);
        trial.check().len()
    };
    if !all_points() {
        for ends in sample(kind) {
            tried(&ends);
        }
        return;
    }
    let first = (1..).take_while(|&end| tried(&[end]) == 1).count() as u64;
    let middle = first.div_ceil(2);
    let second = (1..).take_while(|&end| tried(&[middle, end]) == 2).count();
    println!("{kind:?} {name}: {first} points of a life, {second} of the one after point {middle}");
}

/// A program that prepares jobs leaves a process of its own behind, which outlives the daemon: it is no process of the
/// job, neither when the next daemon looks for those of an earlier life nor at the end.
fn what_a_program_of_the_sites_leaves_is_not_its_job(kind: Kind) {
    let helper = format!(
        "{NOTE}; if [ $1 = before ]; then sleep 1000 >helper-says 2>&1 & echo $! >>helpers; {WAIT}; fi"
    );
    let mut host = host(kind, &[("a", &helper)], &[]);
    let job = host.submit(&[], "echo ran >>runs; exit 4");
    logged(&host, "before a 1\n");
    let helpers = |host: &Host, count: usize| {
        eventually("the program left a process", || {
            let said = host.wrote("helpers");
            let pids: Vec<u32> = said.lines().filter_map(|line| line.parse().ok()).collect();
            if pids.len() == count { Ok(pids) } else { Err(said) }
        })
    };
    helpers(&host, 1);
    host.crash();
    host.start_daemon();
    logged(&host, "before a 1\nafter a 1\nbefore a 1\n");
    let left = helpers(&host, 2);
    host.make("go");
    host.until_exit_code(job, 4);
    logged(&host, "before a 1\nafter a 1\nbefore a 1\nafter a 1 4\n");
    settled(&host);
    assert_eq!(host.wrote("runs"), "ran\n");
    let lives = |pid: &u32| status_field(*pid, "State").is_some_and(|state| !state.starts_with('Z'));
    assert!(left.iter().all(lives), "what is the site's is not ended with the job");
    left.into_iter().for_each(|pid| send(pid, Signal::KILL));
}

fn at_every_point_of_a_run(kind: Kind) {
    let play = |trial: &mut Trial| {
        let script = trial.script("run", (1, 1), "exit 3");
        let done = trial.pinfold(&["run", "--", "/bin/sh", "-c", &script]);
        assert_eq!(done.code, Some(3), "{done:?}; ended {:?}", trial.ended);
    };
    at_every_point(kind, "run", &Scenario { settings: &[], prepared: false, play });
}

/// One runs, one waits for its slot, one is held.
fn at_every_point_of_a_submitted_job(kind: Kind) {
    let play = |trial: &mut Trial| {
        let first = trial.submit(&[], "first", (1, 1), &format!("{WAIT}; exit 4"));
        trial.until_ran("first");
        let second = trial.submit(&[], "second", (1, 1), "exit 5");
        let held = trial.submit(&["--hold"], "held", (1, 1), "exit 6");
        let follows =
            trial.submit(&["--after", &first.to_string()], "follows", (1, 1), "[ -e go ] && exit 7");
        trial.host.make("go");
        trial.pinfold(&["release", &held.to_string()]);
        for (job, code) in [(first, 4), (second, 5), (held, 6), (follows, 7)] {
            trial.ends(job, Some(code));
        }
    };
    let settings = &["slots.factor=1", "host.cpus=0"];
    at_every_point(kind, "submit", &Scenario { settings, prepared: false, play });
}

fn at_every_point_of_a_batch(kind: Kind) {
    let play = |trial: &mut Trial| {
        let lines: Vec<String> = (0..3)
            .map(|line| trial.script(&format!("line-{line}"), (1, 1), &format!("exit {line}")))
            .collect();
        std::fs::write(trial.host.work("lines"), lines.join("\n") + "\n").expect("a list");
        let done = trial.pinfold(&["batch", "lines"]);
        assert_eq!(done.code, Some(1), "{done:?}; ended {:?}", trial.ended);
    };
    let settings = &["slots.factor=1", "host.cpus=0"];
    at_every_point(kind, "batch", &Scenario { settings, prepared: false, play });
}

fn at_every_point_of_an_array(kind: Kind) {
    let play = |trial: &mut Trial| {
        for member in 0..3 {
            trial.may_run.insert(format!("member-{member}"), (1, 1));
        }
        let script = "echo member-$PINFOLD_ARRAY_INDEX >>runs; exit $((3 + PINFOLD_ARRAY_INDEX))";
        let files = ["-o", "/dev/null", "-e", "/dev/null", "--", "/bin/sh", "-c", script];
        let done = trial.pinfold(&[&["submit", "--array", "0-2%2"][..], &files].concat());
        assert_eq!(done.code, Some(0), "{done:?}; ended {:?}", trial.ended);
        (0..3).for_each(|member| trial.until_ran(&format!("member-{member}")));
    };
    at_every_point(kind, "array", &Scenario { settings: &[], prepared: false, play });
}

fn at_every_point_of_a_prepared_job(kind: Kind) {
    let play = |trial: &mut Trial| {
        let script = trial.script("run", (1, 1), "exit 3");
        let done = trial.pinfold(&["run", "--", "/bin/sh", "-c", &script]);
        assert_eq!(done.code, Some(3), "{done:?}; ended {:?}", trial.ended);
        let job = trial.submit(&[], "submitted", (1, 1), "exit 4");
        trial.ends(job, Some(4));
    };
    at_every_point(kind, "prolog and epilog", &Scenario { settings: &[], prepared: true, play });
}

fn at_every_point_of_a_directory_in_memory(kind: Kind) {
    let play = |trial: &mut Trial| {
        let rest = "echo $TMPDIR >>directories; echo x >$TMPDIR/x && exit 4";
        let job = trial.submit(&["--tmp", "1MiB"], "submitted", (1, 1), rest);
        trial.ends(job, Some(4));
        trial.until_ran("submitted");
        trial.until("the directory is gone", |host| {
            let left = host.wrote("directories");
            let left: Vec<&str> = left.lines().filter(|line| std::path::Path::new(line).exists()).collect();
            if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) }
        });
    };
    at_every_point(kind, "directory in memory", &Scenario { settings: &[], prepared: true, play });
}

fn at_every_point_of_a_suspension(kind: Kind) {
    let play = |trial: &mut Trial| {
        let job = trial.submit(&[], "submitted", (1, 1), &format!("{WAIT}; exit 4"));
        trial.until_ran("submitted");
        // A daemon that comes back lets all go on; then there is nothing to be resumed.
        trial.pinfold(&["suspend", &job.to_string()]);
        trial.pinfold(&["resume", &job.to_string()]);
        trial.pinfold(&["suspend", &job.to_string()]);
        trial.host.make("go");
        trial.pinfold(&["resume", &job.to_string()]);
        trial.ends(job, Some(4));
    };
    at_every_point(kind, "suspend", &Scenario { settings: &[], prepared: false, play });
}

fn at_every_point_of_a_cancellation(kind: Kind) {
    let play = |trial: &mut Trial| {
        let first = trial.submit(&[], "first", (1, 1), WAIT);
        trial.until_ran("first");
        let second = trial.submit(&[], "second", (0, 0), "exit 4");
        for job in [second, first] {
            // One that was taken at its word by a daemon that died is cancelled anew.
            trial.until(&format!("job {job} is over"), |host| {
                host.pinfold(["--no-autostart", "cancel", &job.to_string()]);
                let view = status(host, &[job]).ok_or("no status")?.jobs.pop().ok_or("no such job")?;
                if view.state == JobState::Exited { Ok(()) } else { Err(told(host)) }
            });
        }
        trial.ends(first, None);
        trial.ends(second, None);
    };
    let settings = &["slots.factor=1", "host.cpus=0"];
    at_every_point(kind, "cancel", &Scenario { settings, prepared: true, play });
}

/// Two on a host without swap: the first comes to need what the second holds, which is ended for it.
fn makes_room(trial: &mut Trial, options: &[&str]) {
    let first = trial.submit(&["--name", "one"], "first", (1, 1), WAIT);
    trial.until_ran("first");
    let rest = format!("(head -c 150M /dev/zero; : >grown; {WAIT}) | tail -n 1 | wc -c >size; exit 5");
    let second = trial.submit(&[&["--name", "two"], options].concat(), "second", (1, 2), &rest);
    // One that grows so fast that it would soon not fit waits for the first, which waits for what follows here.
    trial.until("the second has grown, or is frozen", |host| {
        let view = status(host, &[second]).and_then(|mut view| view.jobs.pop());
        let frozen = view.is_some_and(|view| matches!(view.state, JobState::Frozen | JobState::Parked));
        if frozen || host.work("grown").exists() { Ok(()) } else { Err(told(host)) }
    });
    trial.pinfold(&["set", &first.to_string(), "--mem", "400MiB"]);
    // A daemon that came back may see no need for it.
    within(Duration::from_secs(3), || {
        trial.revive();
        let view = status(&trial.host, &[second])?.jobs.pop()?;
        (view.state == JobState::Queued).then_some(())
    });
    trial.host.make("go");
    trial.ends(first, Some(0));
    trial.ends(second, Some(5));
}

const NO_SWAP: &[&str] = &["slots.factor=2", "host.cpus=0", "host.memory=500MiB", "host.swap=0"];

fn at_every_point_of_a_requeue(kind: Kind) {
    let play = |trial: &mut Trial| makes_room(trial, &["--requeue"]);
    at_every_point(kind, "requeue", &Scenario { settings: NO_SWAP, prepared: false, play });
}

/// How often a job was requeued, as far as a daemon says so.
fn requeues(host: &Host, job: u64) -> Option<u32> {
    let done = host.pinfold(["--no-autostart", "report", "--json", &job.to_string()]);
    serde_json::from_str::<ReportView>(&done.out).ok().map(|view| view.requeues)
}

/// A user asks for it, and another job starts after the one that is requeued.
fn at_every_point_of_a_requeue_as_asked(kind: Kind) {
    let play = |trial: &mut Trial| {
        let first = trial.submit(&[], "first", (2, 2), &format!("{WAIT}; : >over; exit 4"));
        trial.until_ran("first");
        let after = first.to_string();
        let follows = trial.submit(&["--after", &after], "follows", (1, 1), "[ -e over ] && exit 7");
        trial.until("it begins anew", |host| {
            if host.wrote("runs").lines().filter(|line| *line == "first").count() == 2 {
                return Ok(());
            }
            let asked = Request::Control { job: first, verb: Verb::Requeue };
            let answer = (requeues(host, first) == Some(0)).then(|| Wire::try_ask(host, &asked));
            Err(format!("{answer:?} {}", told(host)))
        });
        trial.host.make("go");
        let why = trial.until("why it is over is told", |host| {
            let why = host.pinfold(["--no-autostart", "why", &after]).out;
            if why.contains("is exited") { Ok(why) } else { Err(why) }
        });
        assert!(!why.contains("memory could be had"), "{why}; ended {:?}", trial.ended);
        trial.ends(first, Some(4));
        trial.ends(follows, Some(7));
    };
    at_every_point(kind, "requeue as asked", &Scenario { settings: &[], prepared: false, play });
}

fn at_every_point_of_a_checkpoint(kind: Kind) {
    let play = |trial: &mut Trial| makes_room(trial, &["--checkpoint", "echo x >>asked"]);
    at_every_point(kind, "checkpoint", &Scenario { settings: NO_SWAP, prepared: false, play });
}

fn at_every_point_of_an_adoption(kind: Kind) {
    let play = |trial: &mut Trial| {
        let script = trial.script("outside", (1, 1), &format!("{WAIT}; exit 3"));
        let mut command = trial.host.command("/bin/sh");
        command.args(["-c", &script]).stdin(std::process::Stdio::null());
        let outside = trial.host.spawn(command);
        trial.until_ran("outside");
        let pid = outside.pid().to_string();
        // A daemon that died may have taken it in without an answer.
        let done = looked_at(|| trial.pinfold(&["adopt", "--pid", &pid]));
        assert!(done.code == Some(0) || done.err.contains("job"), "{done:?}; ended {:?}", trial.ended);
        trial.host.make("go");
        assert_eq!(trial.ended(outside).code, Some(3));
    };
    at_every_point(kind, "adopt", &Scenario { settings: &[], prepared: false, play });
}

/// All processes go, and the state directory is of another boot.
fn at_every_point_around_a_restart_of_the_host(kind: Kind) {
    let play = |trial: &mut Trial| {
        let first = trial.submit(&["--requeue"], "first", (1, 2), &format!("{WAIT}; exit 4"));
        trial.until_ran("first");
        let second = trial.submit(&[], "second", (1, 1), "exit 5");
        for job in [first, second] {
            let kept = trial.host.state().join(format!("starts/{job}"));
            trial.until("its start is kept", |_| kept.exists().then_some(()).ok_or("not there".to_owned()));
        }
        trial.revive();
        trial.host.crash();
        let socket = trial.host.socket().display().to_string();
        trial.host.make("go");
        // What was told to go on may have ended meanwhile: of what runs nothing is left.
        eventually("all that ran is gone", || {
            let alive = |pid: &u32| status_field(*pid, "State").is_some_and(|state| !state.starts_with('Z'));
            let left: Vec<u32> = processes_with(&socket).into_iter().filter(alive).collect();
            left.iter().for_each(|&process| send(process, Signal::KILL));
            left.first().map_or(Ok(()), |process| Err(*process))
        });
        let boot = "00000000-0000-0000-0000-000000000000\n";
        std::fs::write(trial.host.state().join("boot"), boot).expect("a note of another boot");
        trial.start();
        [first, second].into_iter().for_each(|job| trial.ends(job, None));
    };
    let settings = &["slots.factor=1", "host.cpus=0"];
    at_every_point(kind, "restart of the host", &Scenario { settings, prepared: false, play });
}
