//! Users who mean no good: each may do to others what is said here, which is nothing. A daemon of root's serves two
//! users without rights; what one tries with the other's jobs, with pinfold's own files, or with the host, has no
//! effect, and everybody else is served meanwhile. Needs root, who can be three users.

pub(crate) mod audit;
pub(crate) mod authority;
pub(crate) mod clearing;
pub(crate) mod cost;
pub(crate) mod journal;
pub(crate) mod keepers;
pub(crate) mod learning;
pub(crate) mod limits;
pub(crate) mod parts;
pub(crate) mod passed;
pub(crate) mod pids;
pub(crate) mod rescue;
pub(crate) mod sets;

use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pinfold_proto::array::JobName;
use pinfold_proto::wire::{ErrorCode, Phase, Reply, Request, Select, Verb};
use pinfold_proto::{Ending, JobArray, JobSpec, JobState};
use pinfold_testkit::ignore;
use rustix::process::Signal;

use crate::host::{Host, root_process, send, status_field};
use crate::kind::{Kind, tests};
use crate::process::{Done, Killed};
use crate::users::shared_in;
use crate::wait::{PATIENCE, eventually, no_rescue, within};
use crate::wire::{Wire, spec};

tests! {
    Each: freezes_kills_and_changes_nothing_of_anothers, raises_no_priority, takes_no_foreign_process;
    Best: reads_nothing_of_anothers, writes_to_no_group, outgrows_no_bound,
        claims_no_others_job_by_its_environment, asks_for_no_memory_that_others_have,
        shows_others_no_escapes, floods_with_requests, floods_with_jobs, absurd_numbers_and_lengths,
        names_are_no_paths;
    Once: output_goes_through_no_planted_link, a_directory_in_memory_leads_nowhere,
        a_planted_state_directory_is_refused, a_daemon_of_another_user_is_not_trusted,
        a_planted_group_is_left_alone;
}

/// Two users who may do nothing.
const VICTIM: u32 = 65534;
const ATTACKER: u32 = 65533;

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

/// `pinfold` as this user, in the test's directory.
fn command_as(host: &Host, user: u32, arguments: &[&str]) -> Command {
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(arguments).stdin(Stdio::null()).uid(user).gid(user).env("HOME", "/nonexistent");
    command
}

fn run_as(host: &Host, user: u32, arguments: &[&str]) -> Done {
    host.spawn(command_as(host, user, arguments)).wait()
}

/// A shell script as this user.
fn shell_as(host: &Host, user: u32, script: &str) -> Done {
    let mut command = host.command("/bin/sh");
    command.args(["-c", script]).stdin(Stdio::null()).uid(user).gid(user);
    host.spawn(command).wait()
}

/// A job of the victim's that runs until the file `go` is made.
fn victims_job(host: &Host, options: &[&str], script: &str) -> u64 {
    let arguments =
        [&["submit", "-o", "/dev/null", "-e", "/dev/null"], options, &["--", "/bin/sh", "-c", script]]
            .concat();
    let done = run_as(host, VICTIM, &arguments);
    assert_eq!(done.code, Some(0), "{done:?}");
    let job = done.out.trim().parse().expect("a number");
    host.until(job, JobState::Running);
    job
}

/// A daemon of root's, and a working directory that all may use.
fn shared(kind: Kind, settings: &[&str]) -> Host {
    if kind == Kind::Nobody {
        ignore!("a daemon of a user without rights serves that user");
    }
    let host = shared_in(kind, settings);
    std::fs::set_permissions(host.path("work"), PermissionsExt::from_mode(0o1777)).expect("open to all");
    host
}

/// Says something on connections of this user's, whom the socket knows by the thread that connects.
fn speak_as<T: Send>(host: &Host, user: u32, say: impl FnOnce(Wire) -> T + Send) -> T {
    std::thread::scope(|scope| {
        let speak = || {
            let user = rustix::process::Uid::from_raw(user);
            rustix::thread::set_thread_res_uid(user, user, user).expect("root may become anybody");
            say(Wire::greeted(host))
        };
        scope.spawn(speak).join().expect("it said all")
    })
}

/// The states of two jobs, as so many answers to the question for both have them.
fn states_seen(wire: &mut Wire, answers: usize) -> Vec<(JobState, JobState)> {
    let mut seen = Vec::new();
    for _ in 0..answers {
        let Some(Reply::Status(view)) = wire.hear() else { panic!("the host as it is") };
        seen.push((view.jobs[0].state, view.jobs[1].state));
    }
    seen
}

fn serves(host: &Host) {
    let done = run_as(host, VICTIM, &["run", "--", "/bin/sh", "-c", "exit 3"]);
    assert_eq!(done.code, Some(3), "{done:?}");
}

fn reads_nothing_of_anothers(kind: Kind) {
    let host = shared(kind, &["slots.factor=4", "profile.files=on", "profile.interval=50ms"]);
    let job = victims_job(
        &host,
        &["--name", "hush-name", "--project", "hush-project"],
        &format!(": hush-word; {WAIT}"),
    );
    let number = job.to_string();
    let questions: [&[&str]; 14] = [
        &["status"],
        &["status", "--all", "--json"],
        &["status", &number],
        &["why", &number],
        &["report", &number],
        &["report", "--processes", "--threads", "--files", "--series", "--json", &number],
        &["report", "--last", "9"],
        &["export", "--what", "processes", "--last", "9"],
        &["plot", &number],
        &["wait", &number],
        &["ps"],
        &["map", "--json"],
        &["top", "--once", "--cores"],
        &["sets", "--json"],
    ];
    for arguments in questions {
        let done = run_as(&host, ATTACKER, arguments);
        assert!(!format!("{done:?}").contains("hush"), "{arguments:?}: {done:?}");
        if arguments.contains(&number.as_str()) {
            assert_eq!(done.code, Some(3), "{arguments:?}: {done:?}");
        }
    }
    for arguments in
        [&["report", "--all", "--last", "9"][..], &["export", "--all", "--last", "9"], &["audit"]]
    {
        assert_eq!(run_as(&host, ATTACKER, arguments).code, Some(3), "{arguments:?}");
    }
    // Nor from the files in which it is kept.
    let state = host.state();
    let read = shell_as(&host, ATTACKER, &format!("cat {0}/* {0}/*/* 2>/dev/null; ls {0}", state.display()));
    assert!(read.code != Some(0) && read.out.is_empty(), "{read:?}");
    let own = run_as(&host, VICTIM, &["status"]);
    assert!(own.out.contains("hush-name"), "{own:?}");
    host.make("go");
    host.until_exit_code(job, 0);
}

fn freezes_kills_and_changes_nothing_of_anothers(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let job = victims_job(&host, &[], WAIT);
    let number = job.to_string();
    let commands: [&[&str]; 9] = [
        &["suspend", &number],
        &["resume", &number],
        &["hold", &number],
        &["release", &number],
        &["cancel", &number],
        &["cancel", "--signal", "KILL", &number],
        &["set", &number, "--priority", "1"],
        &["set", &number, "--mem", "1TiB"],
        &["drain"],
    ];
    for arguments in commands {
        assert_eq!(run_as(&host, ATTACKER, arguments).code, Some(3), "{arguments:?}");
    }
    speak_as(&host, ATTACKER, |mut wire| {
        for verb in [Verb::Suspend, Verb::Cancel { signal: 9 }, Verb::Priority(1), Verb::Memory(u64::MAX)] {
            wire.send(&Request::Control { job, verb });
            assert!(matches!(wire.hear(), Some(Reply::Error { code: ErrorCode::Permission, .. })));
        }
        // What only its keeper may say.
        wire.send(&Request::Ended { job, ending: Ending { exit_code: Some(0), ..Ending::default() } });
        wire.send(&Request::Withdraw { job, reason: "mischief".to_owned() });
        wire.send(&Request::Interrupted { job });
        for phase in [
            Phase::Running { pid: 1 },
            Phase::Waiting { pid: None },
            Phase::Ended { ending: Ending::default(), run: None },
        ] {
            wire.send(&Request::Attach { job, phase });
            assert_eq!(wire.hear(), Some(Reply::Unknown { job }));
        }
    });
    let view = host.job(job);
    assert_eq!((view.state, view.priority), (JobState::Running, 10), "{view:?}");
    host.make("go");
    host.until_exit_code(job, 0);
    let over = run_as(&host, ATTACKER, &["cancel", &number]);
    assert_eq!(over.code, Some(3), "nor once it is over: {over:?}");
}

/// The kernel's files are shut to users: nobody comes in, is let out, freezes or kills by them, or makes groups there.
fn writes_to_no_group(kind: Kind) {
    if kind != Kind::Groups {
        ignore!("no job has a group here");
    }
    let host = shared(kind, &[]);
    let job = victims_job(&host, &[], WAIT);
    let root = root_process(&host.job(job).pids);
    // Those of a job are made one after the other; a look at the job does not wait for the last.
    let groups = eventually("its groups are there", || {
        Some(host.job_groups()).filter(|g| !g.is_empty()).ok_or("none")
    });
    for group in groups.into_iter().chain(host.groups()) {
        let script = format!(
            "cd {} || exit 9; for file in *; do [ -f \"$file\" ] && for word in 0 1 $$ max FROZEN; do \
             echo $word 2>/dev/null >\"$file\" && echo \"$file takes $word\"; done; done; \
             mkdir planted 2>/dev/null && echo planted; true",
            group.display()
        );
        let done = shell_as(&host, ATTACKER, &script);
        // Some cannot even be entered.
        assert!(matches!(done.code, Some(0 | 9)) && done.out.is_empty(), "{}: {done:?}", group.display());
        let above = group.parent().expect("a group above");
        let beside = shell_as(&host, ATTACKER, &format!("mkdir {}/job-4711", above.display()));
        assert_ne!(beside.code, Some(0), "{beside:?}");
    }
    let view = host.job(job);
    assert_eq!((view.state, root_process(&view.pids)), (JobState::Running, root), "{view:?}");
    host.make("go");
    host.until_exit_code(job, 0);
}

/// A job stays within its memory and its PUs, whatever it writes where.
fn outgrows_no_bound(kind: Kind) {
    if kind != Kind::Groups {
        ignore!("nothing bounds a job here");
    }
    let host = shared(kind, &[]);
    let script = "cd /sys/fs/cgroup; for file in $(find . */. pinfold */pinfold -maxdepth 1 \\( -name cgroup.procs -o \
                  -name tasks -o -name memory.limit_in_bytes -o -name memory.max -o -name cpuset.cpus \\) 2>/dev/null) \
                  $(find pinfold */pinfold \\( -path '*/job-*/cgroup.procs' -o -path '*/job-*/memory.*' \\) 2>/dev/null); do \
                  echo $$ 2>/dev/null >$file && echo out by $file; done; \
                  dd if=/dev/zero of=/dev/null bs=300M count=1 2>/dev/null; echo $?";
    let done = run_as(&host, ATTACKER, &["run", "--mem-limit", "64MiB", "--", "/bin/sh", "-c", script]);
    let words: Vec<&str> = done.out.lines().collect();
    assert!(words == ["137"], "it is killed, and got out by nothing: {done:?}");
    let huge = run_as(&host, ATTACKER, &["run", "--cores", "4096", "true"]);
    assert_eq!(huge.code, Some(5), "{huge:?}");
}

fn raises_no_priority(kind: Kind) {
    let host = shared(kind, &["access.max_priority=10"]);
    let job = victims_job(&host, &[], WAIT).to_string();
    for wanted in ["11", "16"] {
        let done = run_as(&host, VICTIM, &["set", &job, "--priority", wanted]);
        assert!(done.code == Some(3) && done.err.contains("access.max_priority"), "{done:?}");
        let mut command = command_as(&host, VICTIM, &["run", "touch", "ran"]);
        let done = host
            .spawn({
                command.env("PINFOLD_PRIORITY", wanted);
                command
            })
            .wait();
        assert!(done.code == Some(3) && done.err.contains("access.max_priority"), "{done:?}");
    }
    speak_as(&host, VICTIM, |mut wire| {
        for wanted in [0, 11, 17, u8::MAX] {
            let spec = Box::new(JobSpec { priority: Some(wanted), ..spec() });
            wire.send(&Request::Submit { ticket: 1, spec, pid: None });
            assert!(matches!(wire.hear(), Some(Reply::Refused { ticket: 1, .. })), "{wanted}");
            wire.send(&Request::Control {
                job: job.parse().expect("a number"),
                verb: Verb::Priority(wanted),
            });
            assert!(matches!(wire.hear(), Some(Reply::Error { .. })), "{wanted}");
        }
    });
    assert_eq!(host.status(&[]).jobs[0].priority, 10);
    assert!(!host.work("ran").exists());
    assert_eq!(
        run_as(&host, VICTIM, &["set", &job, "--priority", "9"]).code,
        Some(0),
        "lower is everybody's right"
    );
    host.make("go");
}

/// Nobody has another's process frozen, pinned or killed by calling it a job of theirs.
fn takes_no_foreign_process(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let job = victims_job(&host, &[], WAIT);
    let mut bystander = Command::new("/bin/sleep");
    bystander.arg("3600").uid(VICTIM).stdin(Stdio::null());
    // A child of this process, which is also the attacker's: only its user is another.
    let bystander = Killed(bystander.spawn().expect("a process of the victim's"));
    let strangers =
        root_process(&host.job(job).pids).into_iter().chain([bystander.0.id(), host.daemon_pid(), 1]);
    let groups = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives");
    for stranger in strangers {
        let before = groups(stranger);
        let taken = speak_as(&host, ATTACKER, |mut wire| {
            wire.send(&Request::Submit { ticket: 7, spec: Box::new(spec()), pid: Some(stranger) });
            let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
            assert_eq!(wire.hear(), Some(Reply::Grant { job }), "process {stranger} does not do");
            wire.send(&Request::Child { job, pid: stranger });
            wire.send(&Request::Attach { job, phase: Phase::Running { pid: stranger } });
            assert!(matches!(wire.hear(), Some(Reply::Error { code: ErrorCode::Refused, .. })));
            wire.send(&Request::Control { job, verb: Verb::Suspend });
            wire.hear();
            job
        });
        assert_eq!(host.until(taken, JobState::Exited).pids, Vec::<u32>::new());
        assert_eq!(groups(stranger), before, "process {stranger} is where it was");
        let state = status_field(stranger, "State").expect("it lives");
        assert!(!state.starts_with('T'), "process {stranger}: {state}");
    }
    host.make("go");
    host.until_exit_code(job, 0);
}

/// Others are frozen for what a job that runs is expected to need: beyond what is free only operators say so.
fn asks_for_no_memory_that_others_have(kind: Kind) {
    let settings = ["slots.factor=4", "host.cpus=0", "host.memory=600MiB", "host.swap=0"];
    let host = shared(kind, &settings);
    let theirs = victims_job(&host, &["--mem", "400MiB"], WAIT);
    let submitted = run_as(
        &host,
        ATTACKER,
        &["submit", "-o", "/dev/null", "-e", "/dev/null", "--", "/bin/sh", "-c", WAIT],
    );
    let own = submitted.out.trim().to_owned();
    host.until(own.parse().expect("a number"), JobState::Running);
    let refused = run_as(&host, ATTACKER, &["set", &own, "--mem", "550MiB"]);
    assert!(refused.code == Some(5) && refused.err.contains("are there for it now"), "{refused:?}");
    assert_eq!(run_as(&host, ATTACKER, &["set", &own, "--mem", "100MiB"]).code, Some(0));
    assert_eq!(host.job(theirs).state, JobState::Running);
    host.succeeds(["set", &own, "--mem", "550MiB"]);
    host.make("go");
    host.until_exit_code(theirs, 0);
}

/// Where nothing else tells whose a process is, its environment does, which anybody can write.
fn claims_no_others_job_by_its_environment(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = shared(kind, &["slots.factor=4", "profile.interval=50ms"]);
    let job = victims_job(&host, &[], WAIT);
    let mut liar = Command::new("/bin/sleep");
    liar.arg("3600").uid(ATTACKER).stdin(Stdio::null()).env("PINFOLD_JOB_ID", job.to_string());
    let liar = Killed(liar.env("PINFOLD_INSTANCE", host.instance()).spawn().expect("a process"));
    assert_eq!(run_as(&host, VICTIM, &["suspend", &job.to_string()]).code, Some(0));
    let view = host.until(job, JobState::Frozen);
    assert!(!view.pids.contains(&liar.0.id()), "{view:?}");
    let runs = || !status_field(liar.0.id(), "State").expect("it lives").starts_with('T');
    assert!(runs());
    // Nor after a restart, which has nothing else to go by where there are no groups.
    host.crash();
    host.start_daemon();
    let view = host.until(job, JobState::Frozen);
    assert!(!view.pids.contains(&liar.0.id()) && !view.pids.is_empty(), "{view:?}");
    assert!(runs(), "it is not suspended along with the job");
    assert_eq!(run_as(&host, VICTIM, &["resume", &job.to_string()]).code, Some(0));
    host.make("go");
    host.until_exit_code(job, 0);
    assert!(runs(), "it was not ended along with the job");
}

/// One who asks without end, on many connections, and reads the answers, keeps nobody else waiting.
fn floods_with_requests(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let (stop, heard) = (AtomicBool::new(false), AtomicU64::new(0));
    let flood = |question: Request| {
        speak_as(&host, ATTACKER, |mut wire| {
            while !stop.load(Ordering::Relaxed) {
                (0..200).for_each(|_| wire.send(&question));
                (0..200).for_each(|_| drop(wire.hear().expect("an answer")));
                heard.fetch_add(200, Ordering::Relaxed);
            }
        });
    };
    std::thread::scope(|scope| {
        let flood = &flood;
        let report = Request::Report {
            select: Select::Last(100),
            series: true,
            processes: true,
            threads: true,
            files: true,
            all: false,
            pieces: false,
        };
        for question in [Request::Map, Request::ConfigGet, report] {
            scope.spawn(move || flood(question));
        }
        // What fails here must not leave them asking for ever.
        let over = audit::Over(&stop);
        let flooded = within(PATIENCE, || (heard.load(Ordering::Relaxed) >= 600).then_some(()));
        let longest = (0..5).map(|_| {
            let start = std::time::Instant::now();
            serves(&host);
            start.elapsed()
        });
        let longest = longest.max().expect("five");
        drop(over);
        assert!(flooded.is_some(), "the flood is one");
        println!(
            "beside a flood of {} answers a job took {longest:?} at most",
            heard.load(Ordering::Relaxed)
        );
    });
}

/// One who fills the queue leaves places for others, and their jobs have their turn.
fn floods_with_jobs(kind: Kind) {
    let host = shared(kind, &["slots.factor=1", "host.cpus=0", "slots.queue_depth=12"]);
    let running = victims_job(&host, &[], WAIT);
    let (accepted, _wire) = speak_as(&host, ATTACKER, |mut wire| {
        let mut accepted = 0;
        for ticket in 0..100 {
            wire.send(&Request::Submit {
                ticket,
                spec: Box::new(JobSpec { held: true, ..spec() }),
                pid: None,
            });
            match wire.hear() {
                Some(Reply::Queued { .. }) => accepted += 1,
                Some(Reply::Refused { code: ErrorCode::QueueFull, reason, .. }) => {
                    assert!(reason.contains("for other users"), "{reason}");
                }
                other => panic!("{other:?}"),
            }
        }
        (accepted, wire)
    });
    assert_eq!(accepted, 6, "half of the queue");
    // While they wait, somebody else's jobs come in, and get their turn.
    let submit = || {
        let done = run_as(&host, VICTIM, &["submit", "-o", "/dev/null", "-e", "/dev/null", "--", "true"]);
        assert_eq!(done.code, Some(0), "{done:?}");
        done.out.trim().parse().expect("a number")
    };
    let waiting: Vec<u64> = (0..2).map(|_| submit()).collect();
    host.make("go");
    waiting.into_iter().chain([running]).for_each(|job| host.until_exit_code(job, 0));
}

/// Whatever stands in a request, the daemon lives on.
fn absurd_numbers_and_lengths(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let long = "x".repeat(100_000);
    let specs = [
        JobSpec { cores: u32::MAX, ..spec() },
        JobSpec { claim_bytes: Some(u64::MAX), ..spec() },
        JobSpec { limit_bytes: Some(u64::MAX), ..spec() },
        JobSpec { limit_bytes: Some(0), claim_bytes: Some(0), ..spec() },
        JobSpec { ttl_us: Some(u64::MAX), expected_us: Some(u64::MAX), ..spec() },
        JobSpec { ttl_us: Some(0), expected_us: Some(0), ..spec() },
        JobSpec { tmp_bytes: Some(u64::MAX), ..spec() },
        JobSpec { after: vec![u64::MAX.into(), 0.into()], ..spec() },
        JobSpec { after: (0..10_000).map(Into::into).collect(), ..spec() },
        JobSpec { after: vec![JobName { job: 0, indexes: Some((0..5_000).collect()) }.into()], ..spec() },
        JobSpec { array: Some(JobArray { array: Some(1), index: u32::MAX, at_most: None }), ..spec() },
        JobSpec { array: Some(JobArray { array: Some(1), index: 0, at_most: Some(0) }), ..spec() },
        JobSpec { line: Some(u64::MAX), held: true, ..spec() },
        JobSpec { name: long.clone(), ..spec() },
        JobSpec { command: vec![long.clone()], ..spec() },
        JobSpec { directory: long.clone(), project: Some(long), ..spec() },
        JobSpec { command: vec![String::new(); 40_000], ..spec() },
    ];
    let ending =
        Ending { exit_code: Some(i32::MIN), signal: Some(i32::MAX), ended_us: u64::MAX, ..Ending::default() };
    speak_as(&host, ATTACKER, |mut wire| {
        for spec in specs {
            wire.send(&Request::Submit {
                ticket: u64::MAX,
                spec: Box::new(spec.clone()),
                pid: Some(u32::MAX),
            });
            match wire.hear() {
                Some(Reply::Refused { .. }) => {}
                Some(Reply::Queued { job, .. }) => {
                    assert!(spec.name.len() < 1000 && spec.command.len() < 10, "{}", spec.name.len());
                    for verb in
                        [Verb::Memory(u64::MAX), Verb::Cancel { signal: i32::MIN }, Verb::Hold, Verb::Resume]
                    {
                        wire.send(&Request::Control { job, verb });
                    }
                    wire.send(&Request::Ended { job, ending });
                    wire.send(&Request::Withdraw { job, reason: "y".repeat(200_000) });
                }
                other => panic!("{other:?}"),
            }
            for job in [u64::MAX, 0] {
                wire.send(&Request::Why { job, at_us: Some(u64::MAX) });
                wire.send(&Request::Child { job, pid: u32::MAX });
            }
            wire.send(&Request::Status { jobs: vec![u64::MAX], all: true, at_us: Some(u64::MAX) });
            wire.send(&Request::Status { jobs: vec![], all: true, at_us: Some(0) });
            for select in
                [Select::Last(u32::MAX), Select::Since(u64::MAX), Select::Since(0), Select::Jobs(vec![1; 9])]
            {
                let (series, processes, threads, files) = (true, true, true, true);
                let (all, pieces) = (false, false);
                wire.send(&Request::Report { select, series, processes, threads, files, all, pieces });
            }
            wire.send(&Request::Members { names: vec![u64::MAX.into(), 0.into()] });
            wire.send(&Request::Wait { jobs: vec![u64::MAX] });
            wire.send(&Request::Where);
            let last = std::iter::from_fn(|| wire.hear()).find(|reply| matches!(reply, Reply::Where { .. }));
            assert!(last.is_some(), "all is answered");
        }
        // Many waits, for as many jobs; more than a turn's worth keep their user waiting.
        (0..50).for_each(|_| wire.send(&Request::Wait { jobs: vec![1; 1000] }));
    });
    serves(&host);
}

/// What a job is called is data: it moves no cursor and makes no line.
fn shows_others_no_escapes(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let name = "\u{1b}[2J\u{1b}]0;owned\u{7}\r\njob 1 root running\u{9b}31m\u{202e}";
    let word = format!(": {name}; {WAIT}");
    let job = victims_job(&host, &["--name", name, "--project", name], &word).to_string();
    let views: [&[&str]; 13] = [
        &["status", "--all"],
        &["why", &job],
        &["report", &job],
        &["report", "--processes", "--threads", &job],
        &["report", "--all", "--last", "3", "--by", "name"],
        &["report", "--all", "--last", "3", "--by", "project"],
        &["ps"],
        &["ps", "--all"],
        &["map"],
        &["top", "--once"],
        &["top", "--once", "--cores"],
        &["plot", &job],
        &["audit"],
    ];
    for arguments in views {
        let done = host.pinfold(arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        let odd = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{202a}'..='\u{202e}');
        assert!(!done.out.contains(odd), "{arguments:?}: {:?}", done.out);
        assert!(!done.out.lines().any(|line| line.starts_with("job 1 root")), "{arguments:?}: {}", done.out);
    }
    for arguments in [&["status", "--json"][..], &["report", "--json", &job], &["map", "--json"]] {
        let done = host.pinfold(arguments);
        serde_json::from_str::<serde_json::Value>(&done.out).expect("one JSON object");
        assert!(!done.out.contains(|c: char| c < ' ' && c != '\n'), "{arguments:?}: {done:?}");
    }
    for (file, arguments) in [("job.svg", &["plot", job.as_str()][..]), ("map.svg", &["map"])] {
        let done = host.pinfold([arguments, &["-o", file]].concat());
        assert_eq!(done.code, Some(0), "{done:?}");
        assert!(!host.wrote(file).contains('\u{1b}'), "{file}");
    }
    host.make("go");
}

fn names_are_no_paths(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let before = listing(&host.state());
    for name in ["../../../planted", "/planted", "..", ".", "a/b"] {
        let done =
            run_as(&host, ATTACKER, &["run", "--name", name, "--project", name, "--tmp", "1MiB", "true"]);
        assert_eq!(done.code, Some(0), "{name}: {done:?}");
        assert_eq!(run_as(&host, ATTACKER, &["run", "--in", name, "true"]).code, Some(2), "{name}");
        assert_eq!(host.pinfold(["set-aside", name, "--cores", "1"]).code, Some(2), "{name}");
        assert_eq!(host.pinfold(["set-aside", name, "--remove"]).code, Some(2), "{name}");
    }
    let after = listing(&host.state());
    assert_eq!(before, after, "no file is called by a job's name");
    assert!(!Path::new("/planted").exists() && !host.path("planted").exists());
}

/// The files of a directory, but for those that come and go with the store.
fn listing(directory: &Path) -> Vec<PathBuf> {
    let paths =
        std::fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path());
    let kept = |path: &PathBuf| !path.to_string_lossy().contains(".db") && !path.ends_with("audit.jsonl");
    let mut paths: Vec<PathBuf> = paths.filter(kept).collect();
    paths.sort();
    paths
}

/// The usual name of an output file is known beforehand; who takes it gets nothing and harms nothing.
fn output_goes_through_no_planted_link() {
    let host = shared(Kind::Rootless, &[]);
    let precious = host.path("precious");
    std::fs::write(&precious, "precious").expect("a file of root's");
    let (out, pipe, theirs) = (host.work("pinfold-1.out"), host.work("pipe"), host.work("theirs"));
    symlink(&precious, &out).expect("a link");
    lchown(&out, Some(ATTACKER), Some(ATTACKER)).expect("root gives it away");
    let made = shell_as(&host, ATTACKER, "mkfifo -m 666 pipe; : >theirs; chmod 666 theirs");
    assert_eq!(made.code, Some(0), "{made:?}");
    let done = host.pinfold(["submit", "--", "/bin/echo", "words"]);
    assert!(done.code == Some(1) && done.err.contains("somebody else"), "{done:?}");
    for planted in [&out, &pipe, &theirs] {
        let path = planted.to_str().expect("a path");
        let done = host.pinfold(["submit", "-o", path, "--", "/bin/echo", "words"]);
        assert!(done.code == Some(1) && done.err.contains("somebody else"), "{path}: {done:?}");
        let done = host.pinfold(["map", "-o", &format!("{path}.svg")]);
        assert_eq!(done.code, Some(0), "{done:?}");
    }
    for (verb, name) in [("map", "map.svg"), ("map", "map.png")] {
        symlink(&precious, host.work(name)).expect("a link");
        lchown(host.work(name), Some(ATTACKER), None).expect("root gives it away");
        let done = host.pinfold([verb, "-o", name]);
        assert!(done.code == Some(1) && done.err.contains("somebody else"), "{name}: {done:?}");
    }
    assert_eq!(std::fs::read_to_string(&precious).expect("it is there"), "precious");
    assert_eq!(std::fs::read_to_string(&theirs).expect("it is there"), "");
    std::fs::remove_file(&out).expect("the link");
    let job = host.pinfold(["submit", "--", "/bin/echo", "words"]).out.trim().to_owned();
    host.succeeds(["wait", &job]);
    assert_eq!(host.wrote(&format!("pinfold-{job}.out")), "words\n");
}

/// A job's directory in memory, shut, nested and full of links to elsewhere, is removed and nothing else is.
fn a_directory_in_memory_leads_nowhere() {
    let host = shared(Kind::Rootless, &[]);
    std::fs::create_dir(host.path("precious")).expect("a directory");
    std::fs::write(host.path("precious/file"), "precious").expect("a file");
    let script = format!(
        "cd $TMPDIR && ln -s {} link && mkdir -p a/b && ln -s / a/b/root && ln -s .. a/up && chmod 0 a/b a; \
         mkdir -- '-rf' '*' \"$(printf '\\377\\n\\033[2J')\"; i=0; \
         while [ $i -lt 300 ]; do mkdir d && cd d || exit 9; i=$((i+1)); done 2>/dev/null; echo $TMPDIR",
        host.path("precious").display()
    );
    let done = run_as(&host, ATTACKER, &["run", "--tmp", "16MiB", "--", "/bin/sh", "-c", &script]);
    assert_eq!(done.code, Some(0), "{done:?}");
    let path = PathBuf::from(done.out.trim());
    eventually("it is gone", || if path.exists() { Err("it is there") } else { Ok(()) });
    assert_eq!(std::fs::read_to_string(host.path("precious/file")).expect("it is there"), "precious");
    serves(&host);
}

/// A state directory that another user could write to, or put another in place of, is none for a daemon.
fn a_planted_state_directory_is_refused() {
    let host = shared(Kind::Rootless, &[]);
    let target = host.path("target");
    std::fs::write(&target, "precious").expect("a file");
    let theirs = host.path("theirs");
    std::fs::create_dir_all(theirs.join("state")).expect("a directory");
    symlink(&target, theirs.join("state/lock")).expect("a link");
    for path in [theirs.join("state"), theirs.clone()] {
        chown(&path, Some(ATTACKER), Some(ATTACKER)).expect("root gives it away");
    }
    symlink(theirs.join("state"), host.path("link")).expect("a link");
    for state in [theirs.join("state"), theirs.join("fresh"), host.path("link")] {
        let mut command = host.command(host.programs().join("pinfoldd"));
        command.arg("--socket").arg(host.path("second.sock")).arg("--state-dir").arg(&state);
        let done = host.spawn(command).wait();
        assert!(
            done.code == Some(1) && done.err.contains("cannot be trusted"),
            "{}: {done:?}",
            state.display()
        );
    }
    assert_eq!(std::fs::read_to_string(&target).expect("it is there"), "precious");
}

/// Who listens where a daemon is expected could say what is in the environment of the commands it is asked for.
fn a_daemon_of_another_user_is_not_trusted() {
    let other = shared(Kind::Rootless, &[]);
    let planted = Host::new(Kind::Nobody);
    std::fs::set_permissions(planted.path("."), PermissionsExt::from_mode(0o755)).expect("an open directory");
    for user in [0, ATTACKER] {
        for arguments in [&["run", "touch", "ran"][..], &["submit", "touch", "ran"], &["status"]] {
            let mut command = command_as(&other, user, arguments);
            command.env("PINFOLD_SOCKET", planted.socket());
            let done = other.spawn(command).wait();
            assert!(
                done.code == Some(4) && done.err.contains("neither root nor you"),
                "{arguments:?}: {done:?}"
            );
        }
    }
    assert!(!other.work("ran").exists());
    assert_eq!(planted.pinfold(["run", "true"]).code, Some(0), "its own user's it is");
}

/// A group of pinfold's with strangers in it, which only root can have made, is left as it is.
fn a_planted_group_is_left_alone() {
    Kind::Groups.or_ignored();
    let mut host = shared(Kind::Groups, &[]);
    let job = victims_job(&host, &[], WAIT);
    host.crash();
    let stranger = Killed(Command::new("/bin/sleep").arg("3600").spawn().expect("a process"));
    let planted: Vec<PathBuf> = host.groups().iter().map(|group| group.join("job-4711")).collect();
    for group in &planted {
        std::fs::create_dir(group).expect("root makes groups");
        let procs = std::fs::File::options().write(true).open(group.join("cgroup.procs"));
        let entered = procs.and_then(|mut file| file.write_all(stranger.0.id().to_string().as_bytes()));
        // Some groups take nobody before they are set up.
        drop(entered);
    }
    host.start_daemon();
    host.until(job, JobState::Running);
    // It may be on its way to sleep still; what is frozen, stopped or dead stays that.
    eventually("it sleeps", || {
        let state = status_field(stranger.0.id(), "State").expect("it lives");
        if state.starts_with('S') { Ok(()) } else { Err(state) }
    });
    assert!(host.status(&[]).jobs.iter().all(|known| known.job == job));
    host.make("go");
    host.until_exit_code(job, 0);
    send(stranger.0.id(), Signal::KILL);
    drop(stranger);
}
