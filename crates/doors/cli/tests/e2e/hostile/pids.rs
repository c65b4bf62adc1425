//! Numbers of processes that were given to another process since a client named them. The kernel gives a number away as
//! soon as its process was waited for, and takes processes into groups by numbers: a client that names a child of its own, ends
//! it, and waits until a process of somebody else's has that number, must not get that one into a job.

use std::os::fd::OwnedFd;
use std::process::Child;

use pinfold_proto::wire::Adoptee;
use pinfold_sys::procfs::Proc;
use pinfold_testkit::ignore;
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};

use super::*;
use crate::kind::tests;

tests! {
    Each: a_number_that_is_anothers_by_the_turn_of_what_was_adopted, a_child_that_became_another_users;
    Best: a_number_that_is_roots_by_the_start, a_number_that_is_a_younger_childs_by_the_start,
        a_number_of_one_that_ended_as_it_waited_is_free, thousands_of_children_wait;
}

/// The last number that the kernel gave away; the next is above.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
/// Others start processes meanwhile, and take a number that is wanted here.
const TRIES_MAX: usize = 100;

/// Set in a test that has a namespace of numbers to itself.
const OWN_NUMBERS: &str = "PINFOLD_TEST_OWN_NUMBERS";

/// Runs a test once more, as another process in a namespace of numbers of its own, so that no other test meets numbers
/// that are given again at once. `false`: this process is that one, or there are no such namespaces here.
fn ran_among_numbers_of_its_own() -> bool {
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--kill-child", "--mount-proc"]);
        command
    };
    let can = || unshare().arg("true").output().is_ok_and(|done| done.status.success());
    if std::env::var_os(OWN_NUMBERS).is_some() || !can() {
        return false;
    }
    let mut again = unshare();
    // The first process of a namespace has to wait for those whose parents are gone, as a shell does.
    again.args(["sh", "-c", "\"$@\"; exit $?", "sh"]);
    again.arg(std::env::current_exe().expect("this program"));
    again.args(["--exact", std::thread::current().name().expect("the test's name")]);
    let done = again.env(OWN_NUMBERS, "1").output().expect("it runs once more");
    let said = String::from_utf8_lossy(&done.stdout);
    println!("{said}{}", String::from_utf8_lossy(&done.stderr));
    if said.contains("1 ignored") {
        ignore!("in a namespace of its own: {said}");
    }
    assert!(done.status.success() && said.contains("1 passed"), "in a namespace of its own");
    true
}

/// Ends a test as ignored if it cannot say which number comes next.
fn chooses_numbers() {
    let last = std::fs::read_to_string(LAST_PID).unwrap_or_default();
    if std::fs::write(LAST_PID, last.trim()).is_err() {
        ignore!("{LAST_PID} cannot be written here, so that no number can be given away on purpose");
    }
}

fn sleeper(user: u32) -> Child {
    let mut command = Command::new("/bin/sleep");
    command.arg("3600").uid(user).gid(user).stdin(Stdio::null());
    command.spawn().expect("a process")
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// When a process started, in ticks.
fn start(pid: u32) -> u64 {
    let proc = Proc::open(Path::new("/proc")).expect("proc");
    proc.stat(pid).expect("it can be read").expect("it is there").start_ticks
}

/// Ends a process and gives its number to a stranger of this user's; `None`: somebody else took it. The stranger starts in a
/// later tick: no number comes round within one but on purpose.
fn passed_on(child: Child, user: u32) -> Option<Killed> {
    let (pid, since) = (child.id(), start(child.id()));
    end(child);
    for _ in 0..TRIES_MAX {
        std::fs::write(LAST_PID, (pid - 1).to_string()).expect("it could be written before");
        let stranger = sleeper(user);
        if stranger.id() == pid && start(pid) > since {
            return Some(Killed(stranger));
        }
        end(stranger);
    }
    None
}

/// Everything by which a stranger would show that it was taken.
fn standing(pid: u32) -> (String, [Option<String>; 2], String) {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it lives");
    let fields = [status_field(pid, "Cpus_allowed_list"), status_field(pid, "Uid")];
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("it lives");
    // The nice value, behind the name.
    let nice = stat.rsplit_once(')').expect("a name").1.split_ascii_whitespace().nth(16).expect("a field");
    (groups, fields, nice.to_owned())
}

/// A connection of the attacker's, for this process, which has the rights to start anybody's processes.
fn attackers_connection(host: &Host) -> Wire {
    speak_as(host, ATTACKER, |wire| wire)
}

/// How a client names its child.
#[derive(Debug, Clone, Copy)]
enum Way {
    WithTheJob,
    Ahead,
    AttachedAgain,
}

/// A job of the attacker's that is held, and waits with this process.
fn waiting_with(wire: &mut Wire, way: Way, pid: u32) -> u64 {
    let spec = Box::new(JobSpec { held: true, class: Some(pinfold_proto::JobClass::Backfill), ..spec() });
    let first = matches!(way, Way::WithTheJob).then_some(pid);
    wire.send(&Request::Submit { ticket: 7, spec, pid: first });
    let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
    match way {
        Way::WithTheJob => {}
        Way::Ahead => wire.send(&Request::Child { job, pid }),
        Way::AttachedAgain => {
            wire.send(&Request::Attach { job, phase: Phase::Waiting { pid: Some(pid) } });
            assert_eq!(wire.hear(), Some(Reply::Attached { job }));
        }
    }
    heard_all(wire);
    job
}

/// Everything that was said before is done with. Whatever else the daemon says meanwhile is left aside.
fn heard_all(wire: &mut Wire) {
    wire.send(&Request::Where);
    while !matches!(wire.hear().expect("an answer"), Reply::Where { .. }) {}
}

fn control(wire: &mut Wire, job: u64, verb: Verb) {
    wire.send(&Request::Control { job, verb });
    heard_all(wire);
}

fn is_left_alone(kind: Kind, strangers_user: u32) {
    if ran_among_numbers_of_its_own() {
        return;
    }
    chooses_numbers();
    let host = shared(kind, &["slots.factor=4"]);
    for way in [Way::WithTheJob, Way::Ahead, Way::AttachedAgain] {
        let tried = (0..TRIES_MAX).any(|_| {
            let mut wire = attackers_connection(&host);
            let child = sleeper(ATTACKER);
            let pid = child.id();
            let job = waiting_with(&mut wire, way, pid);
            let Some(stranger) = passed_on(child, strangers_user) else { return false };
            let before = standing(pid);
            control(&mut wire, job, Verb::Release);
            assert_eq!(standing(pid), before, "{way:?}: at the start");
            control(&mut wire, job, Verb::Suspend);
            control(&mut wire, job, Verb::Cancel { signal: 9 });
            assert_eq!(standing(pid), before, "{way:?}: after the end");
            // It may wait for its program's pages for a moment; what is frozen or stopped stays that.
            eventually(&format!("{way:?}: it is neither frozen nor stopped"), || {
                let state = status_field(pid, "State").expect("it lives");
                if state.starts_with(['S', 'R']) { Ok(()) } else { Err(state) }
            });
            drop(stranger);
            true
        });
        assert!(tried, "{way:?}: the number is never to be had");
    }
    serves(&host);
}

fn a_number_that_is_roots_by_the_start(kind: Kind) {
    is_left_alone(kind, 0);
}

/// It is a child of the same parent, run by the same user: only its start tells that it was never named.
fn a_number_that_is_a_younger_childs_by_the_start(kind: Kind) {
    is_left_alone(kind, ATTACKER);
}

/// A parent and its child, adopted by the attacker into a job that is held: the parent, the child, the job. The job waits on
/// with the child when the parent has ended.
fn two_that_wait(wire: &mut Wire) -> (Child, OwnedFd, u64) {
    let script = "sleep 3600 & exec sleep 3600";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).uid(ATTACKER).gid(ATTACKER).stdin(Stdio::null());
    let first = command.spawn().expect("a process");
    let pid = first.id();
    let second = eventually("it has started another", || {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        children.trim().parse::<i32>().map_err(|_| format!("{children:?}"))
    });
    // Its number may be somebody else's by the time that it is to end.
    let second = Pid::from_raw(second).expect("a process number");
    let second = pidfd_open(second, PidfdFlags::empty()).expect("it lives");
    match adopt(wire, pid) {
        Some(Reply::Adopted { job, processes: 2 }) => (first, second, job),
        other => panic!("both are adopted: {other:?}"),
    }
}

fn adopt(wire: &mut Wire, pid: u32) -> Option<Reply> {
    let spec = Box::new(JobSpec { held: true, ..spec() });
    wire.adopt(&Request::Adopt { which: Adoptee::Process(pid), spec, in_place: false })
}

/// What `look` finds once the number of the first of two that wait has passed to a stranger of this user's: it is given that
/// number, the attacker's connection and the job.
fn passed_on_as_it_waits(kind: Kind, user: u32, look: impl Fn(&Host, u32, &mut Wire, u64)) {
    if ran_among_numbers_of_its_own() {
        return;
    }
    chooses_numbers();
    let host = shared(kind, &["slots.factor=4"]);
    let tried = (0..TRIES_MAX).any(|_| {
        let mut wire = attackers_connection(&host);
        let (first, second, job) = two_that_wait(&mut wire);
        let pid = first.id();
        let stranger = passed_on(first, user);
        let found = stranger.is_some();
        if found {
            look(&host, pid, &mut wire, job);
        }
        control(&mut wire, job, Verb::Cancel { signal: 9 });
        let _ = pidfd_send_signal(&second, Signal::KILL);
        drop(stranger);
        found
    });
    assert!(tried, "the number is never to be had");
    serves(&host);
}

/// What is adopted waits for its turn as well.
fn a_number_that_is_anothers_by_the_turn_of_what_was_adopted(kind: Kind) {
    passed_on_as_it_waits(kind, 0, |_, pid, wire, job| {
        let before = standing(pid);
        control(wire, job, Verb::Release);
        assert_eq!(standing(pid), before);
    });
}

/// Else somebody with jobs that wait could keep numbers, and whoever has one of them by now, from being adopted.
fn a_number_of_one_that_ended_as_it_waited_is_free(kind: Kind) {
    passed_on_as_it_waits(kind, VICTIM, |host, pid, _, _| {
        let mut theirs = speak_as(host, VICTIM, |wire| wire);
        match adopt(&mut theirs, pid) {
            Some(Reply::Adopted { processes: 1, .. }) => {}
            other => panic!("it is part of no job: {other:?}"),
        }
    });
}

/// One descriptor for each is more than a daemon may have: the others are known by number and start alone.
fn thousands_of_children_wait(kind: Kind) {
    if kind == Kind::Nobody {
        ignore!("a daemon of a user without rights serves that user");
    }
    let mut host = shared(kind, &["slots.factor=1", "host.cpus=0"]);
    host.stop();
    host.wrap_daemon(&["/bin/sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"]);
    host.start_daemon();
    let mut wire = attackers_connection(&host);
    let child = sleeper(ATTACKER);
    let held = (0..400).map(|_| waiting_with(&mut wire, Way::WithTheJob, child.id()));
    let last = held.last().expect("some");
    control(&mut wire, last, Verb::Release);
    assert_eq!(host.until(last, JobState::Running).pids, [child.id()], "it starts without a descriptor");
    let files = std::fs::read_dir(format!("/proc/{}/fd", host.daemon_pid())).expect("it lives").count();
    assert!(files < 200, "{files} files are open");
    end(child);
    wire.send(&Request::Ended { job: last, ending: Ending { signal: Some(9), ..Ending::default() } });
    heard_all(&mut wire);
    // Nobody is left for whom the others wait.
    drop(wire);
    serves(&host);
}

/// The same process may be another user's by the start, as a program with the set-user-id bit can make it.
fn a_child_that_became_another_users(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    // The attacker's by its real user, and with the right to become anybody.
    let script = "until [ -e go ]; do sleep 0.05; done; exec setpriv --ruid 0 sleep 3600";
    let mut command = host.command("setpriv");
    command.args(["--ruid", &ATTACKER.to_string(), "/bin/sh", "-p", "-c", script]).stdin(Stdio::null());
    let Ok(child) = command.spawn() else { ignore!("there is no setpriv here") };
    let child = Killed(child);
    let pid = child.0.id();
    let real = |wanted: u32| {
        eventually(&format!("it is user {wanted}"), || {
            let field = status_field(pid, "Uid").expect("it lives");
            let first = field.split_ascii_whitespace().next().and_then(|first| first.parse::<u32>().ok());
            if first == Some(wanted) { Ok(()) } else { Err(field) }
        });
    };
    real(ATTACKER);
    let mut wire = attackers_connection(&host);
    let job = waiting_with(&mut wire, Way::WithTheJob, pid);
    host.make("go");
    real(0);
    let before = standing(pid);
    control(&mut wire, job, Verb::Release);
    assert_eq!(standing(pid), before);
    control(&mut wire, job, Verb::Cancel { signal: 9 });
    assert_eq!(standing(pid), before);
    serves(&host);
}
