//! A job is never less bounded than the process that asked for it, and no job takes all that a host has of processes.

use pinfold_sys::cgroup::Generation;
use pinfold_sys::mode::{Hierarchy, Roots, probe};
use pinfold_testkit::ignore;

use super::*;
use crate::kind::tests;
use crate::wait::looked_at;

/// A hierarchy in which this controller bounds processes.
fn carrying(controller: &str) -> Hierarchy {
    let mut all = probe(&Roots::default()).hierarchies.into_iter();
    all.find(|one| one.writable && one.carries(controller)).unwrap_or_else(|| {
        ignore!("no hierarchy of control groups with {controller} that this user may write")
    })
}

/// A daemon of root's that holds jobs by groups.
fn with_groups(kind: Kind, settings: &[&str]) -> Host {
    if kind != Kind::Groups {
        ignore!("without control groups a job stays in those of the process that asked");
    }
    shared(kind, settings)
}

/// A group of this test's own, gone with it.
struct OwnGroup(PathBuf);

impl OwnGroup {
    fn make(hierarchy: &Hierarchy, name: &str) -> Self {
        let path = hierarchy.mount.join(name);
        std::fs::create_dir(&path).expect("root makes groups");
        Self(path)
    }

    fn write(&self, file: &str, text: &str) {
        std::fs::write(self.0.join(file), text).unwrap_or_else(|error| panic!("{file}: {error}"));
    }
}

impl Drop for OwnGroup {
    fn drop(&mut self) {
        // A process that was put into it may be on the way out.
        let _ = within(PATIENCE, || std::fs::remove_dir(&self.0).ok());
    }
}

/// What a file says in the groups of a host's jobs that have it, by job.
fn in_jobs(host: &Host, file: &str) -> Vec<(String, String)> {
    let of = |group: PathBuf| {
        let text = std::fs::read_to_string(group.join(file)).ok()?;
        Some((group.file_name()?.to_string_lossy().into_owned(), text.trim().to_owned()))
    };
    let mut found: Vec<(String, String)> = host.job_groups().into_iter().filter_map(of).collect();
    found.sort();
    found
}

/// Runs a script as the attacker, put into these groups before its first command.
fn script_in(host: &Host, groups: &[&OwnGroup], script: &str) -> Done {
    let mut command = host.command("/bin/sh");
    let script = format!("read go; {script}");
    command
        .args(["-c", &script])
        .stdin(Stdio::piped())
        .uid(ATTACKER)
        .gid(ATTACKER)
        .env("HOME", "/nonexistent");
    let mut running = host.spawn(command);
    for group in groups {
        group.write("cgroup.procs", &running.pid().to_string());
    }
    running.input().write_all(b"go\n").expect("it waits for that");
    running.wait()
}

const SLEEPS: &str = "pinfold submit -o /dev/null -e /dev/null -- /bin/sleep 1000";

fn a_fork_bomb_takes_no_more_than_its_part(kind: Kind) {
    let host = with_groups(kind, &["slots.factor=4", "limits.processes=40"]);
    carrying("pids");
    // The inner shell ends when it can fork no more, and the job goes on without forking.
    let bomb = "(while :; do /bin/sleep 1000 & done) 2>/dev/null; : >full; exec /bin/sleep 1000";
    let arguments = ["submit", "-o", "/dev/null", "-e", "/dev/null", "--", "/bin/sh", "-c", bomb];
    let done = run_as(&host, ATTACKER, &arguments);
    let job: u64 = done.out.trim().parse().unwrap_or_else(|_| panic!("a number: {done:?}"));
    host.until_made("full");
    let [(_, most)] = &in_jobs(&host, "pids.max")[..] else { panic!("one job has a bound") };
    assert_eq!(most, "40");
    let now = in_jobs(&host, "pids.current");
    assert!(now[0].1.parse::<u64>().is_ok_and(|now| now <= 40), "{now:?}");
    let events = in_jobs(&host, "pids.events");
    assert!(!events[0].1.ends_with("max 0"), "it tried to have more: {events:?}");
    serves(&host);
    assert_eq!(run_as(&host, ATTACKER, &["cancel", "--signal", "KILL", &job.to_string()]).code, Some(0));
    host.until(job, JobState::Exited);
}

fn jobs_share_what_bounds_whoever_asked(kind: Kind) {
    if kind != Kind::Groups || !rustix::process::geteuid().is_root() {
        ignore!("only root makes groups to ask from");
    }
    let (pids, cpu) = (carrying("pids"), carrying("cpu"));
    let name = format!("pinfold-test-{}", std::process::id());
    let processes = OwnGroup::make(&pids, &name);
    processes.write("pids.max", "100");
    let own;
    let quota = if cpu.mount == pids.mount {
        &processes
    } else {
        own = OwnGroup::make(&cpu, &name);
        &own
    };
    let (quota_file, whole, half) = match cpu.generation {
        Generation::V1 => ("cpu.cfs_quota_us", "150000", "75000"),
        Generation::V2 => ("cpu.max", "150000 100000", "75000 100000"),
    };
    quota.write(quota_file, whole);
    // Gone before the groups that its keepers are in.
    let mut host = with_groups(kind, &["slots.factor=4"]);
    let submit = |host: &Host, expected: u64| {
        let done = script_in(host, &[&processes, quota], SLEEPS);
        let job: u64 = done.out.trim().parse().unwrap_or_else(|_| panic!("a number: {done:?}"));
        host.until(job, JobState::Running);
        assert_eq!(job, expected);
    };
    let bounds = |host: &Host, file: &str| -> Vec<String> {
        in_jobs(host, file).into_iter().map(|(_, text)| text).collect()
    };
    submit(&host, 1);
    assert_eq!(
        (bounds(&host, "pids.max"), bounds(&host, quota_file)),
        (vec!["100".into()], vec![whole.into()])
    );
    submit(&host, 2);
    // Both together may have what the group may have, and the first was told before the second began.
    let both = |text: &str| vec![text.to_owned(); 2];
    assert_eq!((bounds(&host, "pids.max"), bounds(&host, quota_file)), (both("50"), both(half)));
    // A job of somebody else's has no part in it.
    victims_job(&host, &[], WAIT);
    let processes_of: Vec<u64> =
        bounds(&host, "pids.max").iter().filter_map(|most| most.parse().ok()).collect();
    assert!(processes_of[..2] == [50, 50] && processes_of[2] > 100, "{processes_of:?}");
    // The daemon after this one keeps them to the same.
    host.crash();
    for group in host.job_groups().iter().filter(|group| group.join("pids.max").exists()) {
        std::fs::write(group.join("pids.max"), "max").expect("root may");
    }
    host.start_daemon();
    eventually("the same bounds", || {
        let found = bounds(&host, "pids.max");
        if found[..2] == both("50") { Ok(()) } else { Err(format!("{found:?}")) }
    });
    host.make("go");
}

fn whoever_left_a_connection_behind_is_not_heard(kind: Kind) {
    let host = shared(kind, &[]);
    if !Path::new("/usr/bin/python3").exists() {
        ignore!("no /usr/bin/python3 that leaves a connection to another process");
    }
    // What connected ends, and its child, which is in no group that the daemon could know, asks for a job.
    let script = format!(
        r#"
import json, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])
r, w = os.pipe()
if os.fork(): os._exit(0)
os.close(w)
def ask(request):
    text = json.dumps(request).encode(); s.sendall(struct.pack('<I', len(text)) + text)
    size = struct.unpack('<I', s.recv(4, socket.MSG_WAITALL))[0]
    return json.loads(s.recv(size, socket.MSG_WAITALL))
while os.getppid() == int(sys.argv[2]): pass
ask({{"hello": {{"version": {version}}}}})
spec = {{"name": "x", "command": ["sleep"], "directory": "/", "cores": 1}}
print(json.dumps(ask({{"submit": {{"ticket": 1, "spec": spec}}}})), file=open('said', 'w'))
open('done', 'w')
"#,
        version = pinfold_proto::wire::WIRE_VERSION
    );
    std::fs::write(host.work("leaves.py"), script).expect("written");
    let socket = host.socket().display().to_string();
    let script = format!("exec /usr/bin/python3 leaves.py {socket} $$");
    shell_as(&host, ATTACKER, &script);
    host.until_made("done");
    let said = host.wrote("said");
    assert!(said.contains("refused") && said.contains("connect anew"), "{said}");
    serves(&host);
}

fn leaves_no_managers_job_by_its_environment(kind: Kind) {
    if !rustix::process::geteuid().is_root() {
        ignore!("only root makes groups to ask from");
    }
    let pids = carrying("pids");
    // As slurmstepd names its groups; nothing in the environment says so.
    let name = format!("pinfold-test-slurm-{}-{kind:?}", std::process::id());
    let top = OwnGroup::make(&pids, &name);
    let below = ["slurm", "slurm/uid_65533", "slurm/uid_65533/job_4711"];
    let mut below = below.map(|path| OwnGroup::make(&pids, &format!("{name}/{path}")));
    // They go from below.
    below.reverse();
    let [step, ..] = &below;
    let host = shared(kind, &["slots.factor=4"]);
    // What asks for a job is held to it, and the job ends with its keeper.
    let done = script_in(&host, &[step], SLEEPS);
    let job: u64 = done.out.trim().parse().unwrap_or_else(|_| panic!("a number: {done:?}"));
    host.until(job, JobState::Running);
    let keeper = eventually("its keeper", || {
        let in_step = std::fs::read_to_string(step.0.join("cgroup.procs")).unwrap_or_default();
        // What it started is called the same until its own program is executed.
        let is_called = |pid: &u32| {
            let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            words.starts_with(b"pinfold") || words.windows(9).any(|part| part == b"/pinfold\0")
        };
        let called: Vec<u32> =
            in_step.lines().filter_map(|line| line.parse().ok()).filter(is_called).collect();
        if let [keeper] = called[..] { Ok(keeper) } else { Err(in_step) }
    });
    send(keeper, Signal::KILL);
    let view = host.until(job, JobState::Exited);
    assert!(view.reason.as_deref().is_some_and(|reason| reason.contains("Slurm 4711")), "{view:?}");
    // Nor is a process taken out of it.
    let script = "/bin/sleep 1000 >/dev/null 2>&1 & pinfold adopt --pid $!; status=$?; kill $!; exit $status";
    let done = looked_at(|| script_in(&host, &[step], script));
    assert!(done.code == Some(5) && done.err.contains("part of a job of Slurm 4711"), "{done:?}");
    drop(host);
    drop(below);
    drop(top);
}

fn what_comes_back_has_the_limits_it_had(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let claim = serde_json::json!({
        "words": ["pinfold", "submit", "true"], "environment": [], "directory": "/", "umask": 0o7777,
        "limits": [["nproc", null, null], ["memlock", null, null], ["core", null, null]], "oom_score_adj": -1000,
    });
    let start: pinfold_proto::start::Start = serde_json::from_value(claim).expect("a start");
    let ((told, asked), (done, until)) = (std::sync::mpsc::channel(), std::sync::mpsc::channel::<()>());
    std::thread::scope(|scope| {
        let host = &host;
        let keep = move || {
            speak_as(host, ATTACKER, move |mut wire| {
                wire.send(&Request::Submit { ticket: 1, spec: Box::new(spec()), pid: None });
                let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is not queued") };
                wire.send(&Request::Keep { job, start: Box::new(start) });
                told.send(job).expect("somebody wants to know");
                // Its keeper stays until it was looked at.
                let _ = until.recv();
            });
        };
        scope.spawn(keep);
        let job = asked.recv().expect("it asked");
        let kept = host.state().join("starts").join(job.to_string());
        let text = eventually("it is kept", || std::fs::read(&kept).map_err(|error| error.to_string()));
        let kept: pinfold_proto::start::Start = serde_json::from_slice(&text).expect("whole");
        let proc = pinfold_sys::procfs::Proc::open(Path::new("/proc")).expect("there");
        let own = pinfold_sys::confined::limits(&proc, std::process::id()).expect("read").expect("all");
        assert_eq!(kept.limits, own, "what the kernel says of the process that asked, not what that says");
        let adjusted = pinfold_sys::confined::oom_score_adj(&proc, std::process::id());
        assert_eq!((kept.oom_score_adj, kept.umask), (adjusted, 0o777));
        drop(done);
    });
    serves(&host);
}

tests! {
    Each: a_fork_bomb_takes_no_more_than_its_part, what_comes_back_has_the_limits_it_had;
    Best: jobs_share_what_bounds_whoever_asked, whoever_left_a_connection_behind_is_not_heard,
        leaves_no_managers_job_by_its_environment;
}
