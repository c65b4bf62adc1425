//! Workload managers' hooks, played by their environments and protocols: a job asks before it executes, waits for its
//! turn, and is found by the manager's name. The real managers are in `scripts/wlm.sh`.

use std::path::PathBuf;
use std::process::Stdio;

use pinfold_proto::wire::{Adoptee, ErrorCode, Reply, Request};
use pinfold_proto::{JobSpec, JobState};
use pinfold_testkit::ignore;

use crate::host::{Host, status_field};
use crate::kind::{Kind, tests};
use crate::process::Running;
use crate::users::{as_nobody, shared_in};
use crate::wait::{eventually, no_rescue};
use crate::wire::Wire;

tests! {
    Each: it_outlives_the_daemon, it_outlives_its_first_process_and_the_daemon;
    Best: a_job_waits_in_its_hook, it_stays_in_its_groups, its_daemon_rests, tasks_of_one_job_are_one,
        names_that_mean_none_or_several, each_environment_gives_a_name, without_a_daemon_it_runs,
        a_wrapper_of_htcondors, wishes_that_are_none, wishes_that_the_host_refuses,
        what_a_manager_allocated, what_grid_engine_allows, a_waiting_job_of_htcondors_is_removed,
        sizes_that_htcondor_is_told, a_hook_of_pbs;
    Once: a_name_is_its_owners, jobs_that_cannot_start_leave_their_slots;
}

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done; exit 3";

/// The generic starter, as `install` writes it.
fn starter(host: &Host) -> PathBuf {
    installed(host, "generic").join("pinfold-starter.sh")
}

fn installed(host: &Host, manager: &str) -> PathBuf {
    let dir = host.path(&format!("work/hooks-{manager}"));
    let done = host.pinfold(["wlm", "install", manager, "--to", &dir.display().to_string()]);
    assert_eq!(done.code, Some(0), "{done:?}");
    dir
}

/// A job of LSF's with this number, started by the starter.
fn job(host: &Host, number: u32, script: &str) -> Running {
    let mut command = host.command(starter(host));
    command.args(["/bin/sh", "-c", script]).env("LSB_JOBID", number.to_string()).stdin(Stdio::null());
    host.spawn(command)
}

fn sleeps(host: &Host) -> Running {
    let mut command = host.command("sleep");
    command.arg("1000").stdin(Stdio::null());
    host.spawn(command)
}

/// The job with that name, once there is one in this state.
fn until(host: &Host, name: &str, state: &str) -> u64 {
    eventually(&format!("{name} is {state}"), || {
        let done = host.pinfold(["status", "--columns", "job,state,external", name]);
        let row = done.out.lines().nth(1).unwrap_or_default().to_owned();
        let words: Vec<&str> = row.split_whitespace().collect();
        match words.as_slice() {
            [job, found, _] if *found == state => Ok(job.parse().expect("a number")),
            _ => Err(format!("{done:?}")),
        }
    })
}

fn a_job_waits_in_its_hook(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = job(&host, 7, WAIT);
    let number = until(&host, "lsf:7", "running");
    let second = job(&host, 8, "echo ran >second");
    until(&host, "lsf:8", "queued");
    let why = host.pinfold(["why", "lsf:8"]);
    assert!(why.out.contains("waits in its workload manager's hook"), "{why:?}");
    let third = job(&host, 9, "echo ran >third");
    until(&host, "lsf:9", "queued");
    host.succeeds(["cancel", "lsf:9"]);
    let done = third.wait();
    assert!(done.code == Some(5) && done.err.contains("did not start"), "{done:?}");
    let done = host.pinfold(["set", "lsf:8", "--priority", "4"]);
    assert_eq!(done.code, Some(0), "{done:?}");
    // What is suspended leaves its slot to the next.
    host.succeeds(["suspend", "lsf:7"]);
    second.wait().ended_with(0);
    until(&host, "lsf:7", "frozen");
    host.succeeds(["resume", "lsf:7"]);
    host.make("go");
    first.wait().ended_with(3);
    until(&host, "lsf:8", "exited");
    let report = host.pinfold(["report", "lsf:8", "--json"]);
    assert!(
        report.out.contains("\"external\":\"lsf:8\"") && report.out.contains("\"priority\":4"),
        "{report:?}"
    );
    assert_eq!(host.until(number, JobState::Exited).external.as_deref(), Some("lsf:7"));
    assert!(!host.work("third").exists(), "it was cancelled");
}

fn it_stays_in_its_groups(kind: Kind) {
    let _frozen = no_rescue();
    let host = Host::new(kind);
    let own = std::fs::read_to_string("/proc/self/cgroup").expect("its own groups");
    let running = job(&host, 7, "exec sleep 1000");
    until(&host, "lsf:7", "running");
    let groups = std::fs::read_to_string(format!("/proc/{}/cgroup", running.pid())).expect("its groups");
    assert_eq!(groups, own);
    host.succeeds(["suspend", "lsf:7"]);
    until(&host, "lsf:7", "frozen");
    let stopped = || status_field(running.pid(), "State").is_some_and(|state| state.starts_with('T'));
    eventually("it stands", || if stopped() { Ok(()) } else { Err("it runs") });
    // Its manager ends a frozen one at once.
    crate::host::send(running.pid(), rustix::process::Signal::KILL);
    assert_eq!(running.wait().code, None);
    until(&host, "lsf:7", "exited");
}

/// A job that stays in its manager's groups, of which the kernel does not tell when they empty, keeps no loop busy.
fn its_daemon_rests(kind: Kind) {
    let address = pinfold_testkit::free_address();
    let host = Host::with(kind, &[&format!("profile.metrics={address}")]);
    let running = job(&host, 7, "exec sleep 1000");
    until(&host, "lsf:7", "running");
    let turns = || {
        let text = eventually("figures are served", || crate::metrics::scrape(&address).ok_or("no answer"));
        crate::metrics::value(&text, "pinfold_loop_turn_seconds_count").expect("turns are counted")
    };
    // A loop that does not rest makes 50 turns a second or more all the time. One that rests makes more than a few only while
    // other tests fork many processes, of which the kernel tells it.
    let mut seen = Vec::new();
    let rests = (0..20).any(|_| {
        let (before, since) = (turns(), std::time::Instant::now());
        std::thread::sleep(std::time::Duration::from_secs(2));
        seen.push((turns() - before) / since.elapsed().as_secs_f64());
        seen.last().is_some_and(|each_second| *each_second < 20.0)
    });
    assert!(rests, "turns a second: {seen:?}");
    crate::host::send(running.pid(), rustix::process::Signal::KILL);
    assert_eq!(running.wait().code, None);
}

fn tasks_of_one_job_are_one(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let task = |step: &str| {
        let mut command = host.command(starter(&host));
        command.args(["/bin/sh", "-c", WAIT]).stdin(Stdio::null());
        command.env("SLURM_JOB_ID", "12").env("SLURM_STEP_ID", step);
        host.spawn(command)
    };
    let first = task("0");
    let number = until(&host, "slurm:12", "running");
    // With one slot, a step that waited for its job's end would wait for ever.
    let second = task("1");
    eventually("both are part of it", || {
        let pids = host.job(number).pids;
        if pids.contains(&first.pid()) && pids.contains(&second.pid()) {
            Ok(())
        } else {
            Err(format!("{pids:?}"))
        }
    });
    host.make("go");
    assert_eq!((first.wait().code, second.wait().code), (Some(3), Some(3)));
    until(&host, "slurm:12.0", "exited");
}

fn names_that_mean_none_or_several(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let done = host.pinfold(["why", "lsf:99"]);
    assert!(
        done.code == Some(1) && done.err.contains("no job that you may see is called lsf:99"),
        "{done:?}"
    );
    let done = host.pinfold(["cancel", "lsf:1;rm -rf /"]);
    assert!(done.code != Some(0) && done.err.contains("lsf:1;rm -rf /"), "{done:?}");
    let task = |task: &str| {
        let mut command = host.command(starter(&host));
        command.args(["/bin/sh", "-c", WAIT]).stdin(Stdio::null());
        command.env("JOB_ID", "17").env("SGE_TASK_ID", task);
        host.spawn(command)
    };
    let tasks = [task("1"), task("2")];
    until(&host, "sge:17.1", "running");
    until(&host, "sge:17.2", "running");
    let done = host.pinfold(["suspend", "sge:17"]);
    assert!(done.code == Some(2) && done.err.contains("means several jobs"), "{done:?}");
    host.make("go");
    tasks.into_iter().for_each(|task| assert_eq!(task.wait().code, Some(3)));
}

/// Each manager's variables, as its manual has them.
fn each_environment_gives_a_name(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4"]);
    let starter = starter(&host);
    for (variables, name) in [
        (&[("SLURM_JOB_ID", "5")][..], "slurm:5.batch"),
        (&[("JOB_ID", "5"), ("SGE_TASK_ID", "undefined"), ("NSLOTS", "1")], "sge:5"),
        (&[("PBS_JOBID", "5.server"), ("NCPUS", "1")], "pbs:5"),
        (&[("PBS_JOBID", "5.server"), ("PBS_VERSION", "TORQUE-6.1.1")], "torque:5"),
        (&[("LSB_JOBID", "5"), ("LSB_JOBINDEX", "2")], "lsf:5[2]"),
        (&[("LSB_JOBID", "6"), ("LSB_JOBNAME", "align.sh")], "lsf:6"),
        (&[("LOADL_STEP_ID", "node1.5.0")], "loadleveler:node1.5.0"),
        (&[("VOV_JOBID", "5")], "networkcomputer:5"),
    ] {
        let mut command = host.command(&starter);
        command.args(["/bin/sh", "-c", "exit 4"]).envs(variables.iter().copied()).stdin(Stdio::null());
        let done = host.spawn(command).wait();
        assert_eq!((done.code, done.err.as_str()), (Some(4), ""), "{name}");
        // Its own command, and not that of the process that the manager started.
        let named = variables.iter().any(|(variable, _)| *variable == "LSB_JOBNAME");
        let command = if named { "align.sh" } else { "/bin/sh -c exit 4" };
        assert_eq!(host.report(until(&host, name, "exited")).command.join(" "), command, "{name}");
    }
    let mut command = host.command(&starter);
    command.args(["/bin/sh", "-c", "exit 4"]).stdin(Stdio::null());
    let done = host.spawn(command).wait();
    assert!(done.code == Some(4) && done.err.contains("no workload manager is known"), "{done:?}");
}

fn without_a_daemon_it_runs(kind: Kind) {
    let mut host = Host::new(kind);
    let starter = starter(&host);
    host.stop();
    let mut command = host.command(starter);
    command.args(["/bin/sh", "-c", "exit 4"]).env("LSB_JOBID", "7").stdin(Stdio::null());
    let done = host.spawn(command).wait();
    assert!(done.code == Some(4) && done.err.contains("lsf:7 runs unmanaged"), "{done:?}");
    let process = sleeps(&host);
    let enter = ["--no-autostart", "wlm", "enter", "--external", "lsf:7", "--down", "wait", "--pid"];
    let waits = host.start([&enter[..], &[&process.pid().to_string()]].concat());
    eventually("it waits for one", || {
        let said = waits.said("err");
        if said.contains("lsf:7 waits") { Ok(()) } else { Err(said) }
    });
    host.start_daemon();
    until(&host, "lsf:7", "running");
    waits.wait().ended_with(0);
    process.signal(rustix::process::Signal::KILL);
    until(&host, "lsf:7", "exited");
}

fn it_outlives_the_daemon(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let first = job(&host, 7, WAIT);
    until(&host, "lsf:7", "running");
    let second = job(&host, 8, "exit 4");
    until(&host, "lsf:8", "queued");
    host.crash();
    host.start_daemon();
    until(&host, "lsf:7", "running");
    until(&host, "lsf:8", "queued");
    host.make("go");
    assert_eq!((first.wait().code, second.wait().code), (Some(3), Some(4)));
    until(&host, "lsf:8", "exited");
    std::fs::remove_file(host.work("go")).expect("it was made");
    let first = job(&host, 9, WAIT);
    until(&host, "lsf:9", "running");
    host.succeeds(["suspend", "lsf:9"]);
    until(&host, "lsf:9", "frozen");
    host.crash();
    eventually("the guard lets it go on", || {
        match status_field(first.pid(), "State").is_some_and(|state| state.starts_with('T')) {
            false => Ok(()),
            true => Err("it stands"),
        }
    });
    host.start_daemon();
    until(&host, "lsf:9", "frozen");
    host.succeeds(["resume", "lsf:9"]);
    until(&host, "lsf:9", "running");
    host.make("go");
    first.wait().ended_with(3);
    until(&host, "lsf:9", "exited");
}

/// Its first process and the daemon are killed while it is suspended: what is left of it is thawed by the guard, and is the
/// job's for the next daemon.
fn it_outlives_its_first_process_and_the_daemon(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::new(kind);
    let first =
        job(&host, 7, "(until [ -e go ]; do sleep 0.05; done; : >ran) & echo $! >child; exec sleep 1000");
    until(&host, "lsf:7", "running");
    let child = eventually("its child says its number", || host.wrote("child").trim().parse::<u32>());
    host.succeeds(["suspend", "lsf:7"]);
    until(&host, "lsf:7", "frozen");
    crate::host::send(first.pid(), rustix::process::Signal::KILL);
    assert_eq!(first.wait().code, None);
    until(&host, "lsf:7", "frozen");
    let stopped = || status_field(child, "State").is_some_and(|state| state.starts_with('T'));
    eventually("it is stopped", || if stopped() { Ok(()) } else { Err("it runs") });
    host.crash();
    eventually("the guard lets it go on", || if stopped() { Err("it is stopped") } else { Ok(()) });
    host.start_daemon();
    until(&host, "lsf:7", "frozen");
    eventually("it is stopped again", || if stopped() { Ok(()) } else { Err("it runs") });
    host.make("go");
    assert!(!host.work("ran").exists(), "it is suspended");
    host.succeeds(["resume", "lsf:7"]);
    host.until_made("ran");
    until(&host, "lsf:7", "exited");
}

fn a_wrapper_of_htcondors(kind: Kind) {
    let host = Host::new(kind);
    let dir = installed(&host, "htcondor");
    let ad = "Args = \"ClusterId = 3\"\nClusterId = 12\nProcId = 0\nCmd = \"/bin/align\"\n";
    std::fs::write(host.work("ad"), ad).expect("an ad");
    let mut command = host.command(dir.join("pinfold-wrapper.sh"));
    command.args(["/bin/sh", "-c", "exit 4"]).env("_CONDOR_JOB_AD", host.work("ad")).stdin(Stdio::null());
    let done = host.spawn(command).wait();
    assert_eq!((done.code, done.err.as_str()), (Some(4), ""));
    let report = host.report(until(&host, "condor:12.0", "exited"));
    assert_eq!((report.name.as_str(), report.command.join(" ").as_str()), ("align", "align"));
    let ad = format!("JobBatchName = \"a \\\"b\\\" c\"\n{}", ad.replace("12", "13"));
    std::fs::write(host.work("ad"), ad).expect("an ad");
    let mut command = host.command(dir.join("pinfold-wrapper.sh"));
    command.args(["/bin/sh", "-c", "exit 4"]).env("_CONDOR_JOB_AD", host.work("ad")).stdin(Stdio::null());
    assert_eq!(host.spawn(command).wait().code, Some(4));
    let report = host.report(until(&host, "condor:13.0", "exited"));
    assert_eq!(report.name, "a \"b\" c");
    let done = host.spawn(host.command(dir.join("pinfold-cron.sh"))).wait();
    assert!(done.out.contains("Open = True\n") && done.out.ends_with("-\n"), "{done:?}");
}

/// What a user asks for in the environment: what is no value counts as none, and the job is managed all the same.
fn wishes_that_are_none(kind: Kind) {
    let host = Host::new(kind);
    let all = [
        ("PRIORITY", "1\n--priority=16"),
        ("PRIORITY", "99"),
        ("MEM", "$(touch owned)"),
        ("MEM", "1G\nTMPDIR=/"),
        ("TMP", "\u{1b}[2J"),
        ("TMP", "--backfill"),
    ];
    for (number, (what, text)) in (40..).zip(all) {
        let mut command = host.command(starter(&host));
        command.args(["/bin/sh", "-c", "echo \"$TMPDIR\"; exit 4"]).stdin(Stdio::null());
        command.env("LSB_JOBID", number.to_string()).env("TMPDIR", "mine");
        command.env(format!("PINFOLD_ASK_{what}"), text);
        let done = host.spawn(command).wait();
        assert_eq!((done.code, done.out.as_str()), (Some(4), "mine\n"), "{done:?}");
        assert!(done.err.contains("a wrong value in PINFOLD_ASK_PRIORITY"), "{done:?}");
        until(&host, &format!("lsf:{number}"), "exited");
    }
    assert!(!host.work("owned").exists(), "it was run");
}

/// What the hook of Slurm asks for comes as options: what this host refuses counts as none, which is said.
fn wishes_that_the_host_refuses(kind: Kind) {
    let host = Host::with(kind, &["priority.max=8", "priority.default=4"]);
    let enter = |name: &str, options: &[&str]| {
        let process = sleeps(&host);
        let pid = process.pid().to_string();
        let asked = ["--no-autostart", "wlm", "enter", "--external", name, "--pid", &pid];
        (process, host.start([&asked[..], options].concat()).wait())
    };
    for (number, options) in [
        (1, &["--priority", "9"][..]),
        (2, &["--mem", "900TiB"]),
        (3, &["--tmp", "900TiB", "--priority", "2"]),
        (4, &["--allocated-mem", "1MiB", "--priority", "16"]),
    ] {
        let name = format!("slurm:{number}.batch");
        let (process, done) = enter(&name, options);
        let says =
            done.err.contains("what it asks of pinfold counts as none") && !done.err.contains("unmanaged");
        assert!(done.code == Some(0) && says, "{options:?}: {done:?}");
        let job = host.report(until(&host, &name, "running"));
        assert_eq!((job.priority, job.claim_bytes), (4, None), "{options:?}");
        process.signal(rustix::process::Signal::KILL);
        until(&host, &name, "exited");
    }
    let (process, done) = enter("slurm:5.batch", &["--priority", "99"]);
    assert!(done.code == Some(2) && done.err.contains("1 to 16"), "{done:?}");
    drop(process);
}

/// Cores and memory as Slurm's plugin passes them on.
fn what_a_manager_allocated(kind: Kind) {
    let host = Host::with(kind, &["host.cpus=0-1", "slots.factor=1"]);
    let all = ["900TiB", "0"];
    for (number, options, cores, claim) in [
        (1, &["--allocated-cores", "0-1", "--allocated-mem", "64MiB"][..], 2, Some(64 << 20)),
        (2, &["--allocated-cores", "7", "--allocated-mem", all[0]], 1, None),
        (3, &["--allocated-mem", "64MiB", "--mem", "32MiB"], 1, Some(32 << 20)),
        (4, &["--allocated-mem", all[1]], 1, None),
    ] {
        let (process, name) = (sleeps(&host), format!("slurm:{number}.batch"));
        let pid = process.pid().to_string();
        let asked = ["--no-autostart", "wlm", "enter", "--external", &name, "--pid", &pid];
        let done = host.start([&asked[..], options].concat()).wait();
        assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{options:?}");
        let job = host.report(until(&host, &name, "running"));
        assert_eq!((job.cores, job.claim_bytes), (cores, claim), "{options:?}");
        process.signal(rustix::process::Signal::KILL);
        until(&host, &name, "exited");
    }
    // A node may be declared with more cores than there are.
    let process = sleeps(&host);
    let pid = process.pid().to_string();
    let asked = ["--no-autostart", "wlm", "enter", "--external", "slurm:5.batch", "--pid", &pid];
    let done = host.start([&asked[..], &["--allocated-cores", "0-1023"]].concat()).wait();
    assert!(done.code == Some(0), "{done:?}");
    for wrong in ["", "x", "1-", "4-1"] {
        let done = host.start([&asked[..], &["--allocated-cores", wrong]].concat()).wait();
        assert!(done.code == Some(2) && done.err.contains("--allocated-cores"), "{wrong}: {done:?}");
    }
}

/// The file of its shepherd says what Grid Engine allows to a job: of each slot, unless it is for all of the job.
fn what_grid_engine_allows(kind: Kind) {
    let host = Host::new(kind);
    let mib = |mib: u64| Some(mib << 20);
    for (number, (config, claim)) in (70..).zip([
        ("h_vmem=64M\nhost_slots=2\n", mib(128)),
        ("h_vmem=64M\nhost_slots=2\nh_vmem_is_consumable_job=1\n", mib(64)),
        ("h_vmem=0.5G\nhost_slots=1\n", mib(512)),
        ("h_vmem=1m\n", Some(1_000_000)),
        ("h_vmem=1048576\nscript_file=x\nh_vmem=2M\n", mib(1)),
        ("h_vmem=INFINITY\nhost_slots=2\n", None),
        ("h_vmem=99999999999999G\n", None),
        ("h_vmem=$(touch owned)\n", None),
        ("h_vmem=64M --priority=16\n", None),
        ("", None),
    ]) {
        std::fs::write(host.work("config"), config).expect("a shepherd's file");
        let mut command = host.command(starter(&host));
        command.args(["/bin/sh", "-c", "exit 4"]).stdin(Stdio::null());
        command.envs([("JOB_ID", number.to_string().as_str()), ("SGE_TASK_ID", "undefined")]);
        command.env("SGE_JOB_SPOOL_DIR", host.work("."));
        let done = host.spawn(command).wait();
        assert_eq!((done.code, done.err.as_str()), (Some(4), ""), "{config}");
        let job = host.report(until(&host, &format!("sge:{number}"), "exited"));
        assert_eq!(job.claim_bytes, claim, "{config}");
    }
    assert!(!host.work("owned").exists(), "it was run");
}

/// HTCondor's starter ends a job that is removed by SIGTERM to the process that it started, which is the wrapper, and by SIGKILL
/// if that is not enough. The job that waits in it is gone from the queue in both cases, and so is what asked for it.
fn a_waiting_job_of_htcondors_is_removed(kind: Kind) {
    use rustix::process::Signal;
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let wrapper = installed(&host, "htcondor").join("pinfold-wrapper.sh");
    let first = job(&host, 7, WAIT);
    until(&host, "lsf:7", "running");
    for (cluster, signal) in [(12, Signal::TERM), (13, Signal::KILL)] {
        let ad = host.work(&format!("ad{cluster}"));
        std::fs::write(&ad, format!("ClusterId = {cluster}\nProcId = 0\n")).expect("an ad");
        let mut command = host.command(&wrapper);
        command.args(["/bin/sh", "-c", "echo ran >removed"]).env("_CONDOR_JOB_AD", &ad).stdin(Stdio::null());
        let waits = host.spawn(command);
        let name = format!("condor:{cluster}.0");
        let number = until(&host, &name, "queued");
        waits.signal(signal);
        let done = waits.wait();
        assert!(done.code != Some(0), "{signal:?}: {done:?}");
        until(&host, &name, "exited");
        eventually("nothing of it is left", || match host.job(number).pids {
            left if left.is_empty() => Ok(()),
            left => Err(format!("{left:?}")),
        });
    }
    let waiting = host.pinfold(["status", "--state", "queued", "--columns", "job"]);
    assert_eq!(waiting.out.lines().count(), 1, "{waiting:?}");
    host.make("go");
    first.wait().ended_with(3);
    assert!(!host.work("removed").exists(), "a removed job ran");
}

/// Sizes by class as the cron job of HTCondor's startd prints them.
fn sizes_that_htcondor_is_told(kind: Kind) {
    let host = Host::with(kind, &["profile.interval=50ms"]);
    let script = installed(&host, "htcondor").join("pinfold-learned.sh");
    let told = || host.spawn(host.command(&script)).wait();
    let done = told();
    assert_eq!((done.code, done.out.as_str()), (Some(0), "Count = 0\n-\n"), "{done:?}");
    for name in ["align", "a b\n]; x=\"$(id)\"", "A-b"] {
        for _ in 0..3 {
            let job = host.submit(&["--name", name, "--mem", "1GiB"], ":");
            host.until(job, JobState::Exited);
        }
    }
    let done = told();
    let lines: Vec<&str> = done.out.lines().collect();
    assert!(lines[0].starts_with("Count = ") && lines.last() == Some(&"-"), "{done:?}");
    for line in &lines[..lines.len() - 1] {
        let (name, value) = line.split_once(" = ").unwrap_or_else(|| panic!("{done:?}"));
        let safe = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        assert!(safe && value.bytes().all(|byte| byte.is_ascii_digit()), "{done:?}");
    }
    assert!(done.out.contains("_align = "), "{done:?}");
    let few = host.pinfold(["wlm", "learned", "--most", "1"]);
    assert!(
        few.code == Some(0) && few.out.starts_with("Count = 1\n") && few.out.lines().count() == 2,
        "{few:?}"
    );
    let json = host.pinfold(["wlm", "learned", "--json"]);
    assert!(json.out.contains("\"class\":\"align\""), "{json:?}");
}

/// The documented interface of PBS's hooks, as far as the hook uses it: what it did is printed.
const FAKE_PBS: &str = r#"
import os, sys
EXECJOB_LAUNCH, EXECJOB_END, EXECHOST_PERIODIC, LOG_WARNING = 1, 2, 3, 4
class Job: pass
class Node: resources_available = {}
class Event:
    def accept(self):
        print("accepted", sorted(self.env.items()), Node.resources_available)
        sys.exit(0)
    def reject(self, text):
        print("rejected", text)
        sys.exit(1)
def event():
    made = Event()
    made.type, made.env, made.vnode_list = int(os.environ["EVENT"]), {}, {"here": Node}
    made.job = Job()
    made.job.Job_Name = "align.pbs"
    made.job.id, made.job.Resource_List = "9.server", {"ncpus": 1}
    return made
def logmsg(level, text): print("log", text)
def get_local_nodename(): return "here"
"#;

fn a_hook_of_pbs(kind: Kind) {
    let host = Host::new(kind);
    let dir = installed(&host, "pbs");
    std::fs::write(host.work("pbs.py"), FAKE_PBS).expect("a module");
    // MoM's child runs the hook, and becomes the job.
    let script = format!("EVENT=1 python3 {0} && {{ {WAIT}; }}", dir.join("pinfold_hook.py").display());
    let mut command = host.command("/bin/sh");
    command.args(["-c", &script]).env("PYTHONPATH", host.work(".")).stdin(Stdio::null());
    if std::process::Command::new("python3").arg("-V").stdout(Stdio::null()).status().is_err() {
        ignore!("no Python 3 here");
    }
    let running = host.spawn(command);
    until(&host, "pbs:9", "running");
    for (event, words) in [("3", "'ncpus': "), ("2", "processes of it are left")] {
        let mut command = host.command("python3");
        command.arg(dir.join("pinfold_hook.py")).env("EVENT", event).env("PYTHONPATH", host.work("."));
        let done = host.spawn(command).wait();
        assert!(done.code == Some(0) && done.out.contains(words), "{event}: {done:?}");
    }
    host.make("go");
    let done = running.wait();
    assert!(done.code == Some(3) && done.out.contains("accepted"), "{done:?}");
    assert_eq!(host.report(until(&host, "pbs:9", "exited")).command, ["align.pbs"]);
}

/// A name is claimed by the owner of the processes only, or by root; on the raw wire.
fn a_name_is_its_owners() {
    let host = shared_in(Kind::Rootless, &[]);
    let mut wire = Wire::greeted(&host);
    let claim = |pid: u32, name: Option<&str>, in_place: bool| Request::Adopt {
        which: Adoptee::Process(pid),
        spec: Box::new(JobSpec {
            cores: 1,
            external: name.map(|name| name.parse().expect("a name")),
            ..JobSpec::default()
        }),
        in_place,
    };
    let victim = sleeps(&host);
    // Root claims a name for a process of its own.
    let said = wire.adopt(&claim(victim.pid(), Some("slurm:7.batch"), true));
    assert!(matches!(said, Some(Reply::Adopted { .. })), "{said:?}");
    // Without a name nothing is managed in place.
    let other = sleeps(&host);
    let said = wire.adopt(&claim(other.pid(), None, true));
    assert!(matches!(said, Some(Reply::Error { code: ErrorCode::Usage, .. })), "{said:?}");
    // Another user claims it for that process, and asks for the job by that name.
    let pid = victim.pid().to_string();
    let done = as_nobody(&host, &["wlm", "enter", "--external", "slurm:8.batch", "--pid", &pid]);
    assert!(done.err.contains("belongs to another user") && done.out.is_empty(), "{done:?}");
    for command in [&["cancel", "slurm:7.batch"][..], &["why", "slurm:7"], &["suspend", "slurm:7"]] {
        let done = as_nobody(&host, command);
        assert!(
            done.code == Some(1) && done.err.contains("no job that you may see"),
            "{command:?}: {done:?}"
        );
    }
    let done = as_nobody(&host, &["status", "--all", "--json"]);
    assert!(!done.out.contains("slurm:7"), "{done:?}");
    until(&host, "slurm:7.batch", "running");
    host.succeeds(["cancel", "slurm:7"]);
    victim.wait();
}

/// Jobs that are held, or begin later, take no slot from what a manager may send.
fn jobs_that_cannot_start_leave_their_slots() {
    let host = Host::with(Kind::Rootless, &["slots.factor=4"]);
    let told = || {
        let text = host.succeeds(["wlm", "capacity"]).out;
        text.lines().next().unwrap_or_default().to_owned()
    };
    let before = told();
    assert!(before.ends_with(" slots are free, 0 jobs wait"), "{before}");
    host.submit(&["--hold"], "true");
    host.submit(&["--begin", "+1h"], "true");
    assert_eq!(told(), before);
}
