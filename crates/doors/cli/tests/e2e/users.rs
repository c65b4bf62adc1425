//! Several users on one daemon: each sees and changes only what is theirs. Needs root, who can be two users.

use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::Stdio;

use pinfold_proto::JobState;
use pinfold_proto::view::StatusView;
use pinfold_proto::wire::{Reply, Request};
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, become_nobody, tests};
use crate::process::Done;
use crate::wait::no_rescue;
use crate::wire::{Wire, spec};

fn is_root() {
    if !rustix::process::geteuid().is_root() {
        ignore!("only root can be two users");
    }
}

/// `pinfold` as a user without rights, against root's daemon.
pub(crate) fn as_nobody(host: &Host, arguments: &[&str]) -> Done {
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(arguments).stdin(Stdio::null()).current_dir("/");
    become_nobody(&mut command);
    host.spawn(command).wait()
}

/// A daemon of root's that others may reach.
pub(crate) fn shared(settings: &[&str]) -> Host {
    shared_in(Kind::Rootless, settings)
}

pub(crate) fn shared_in(kind: Kind, settings: &[&str]) -> Host {
    is_root();
    let host = Host::with(kind, settings);
    std::fs::set_permissions(host.path("."), PermissionsExt::from_mode(0o755)).expect("an open directory");
    let built = host
        .programs()
        .ancestors()
        .all(|dir| std::fs::metadata(dir).is_ok_and(|found| found.permissions().mode() & 0o001 != 0));
    if !built {
        ignore!("another user cannot reach {}", host.programs().display());
    }
    host
}

const WAIT: &str = "until [ -e go ]; do sleep 0.05; done";

/// As run-time systems do that look for what they may use.
fn programs_read_what_bounds_them() {
    let host = shared_in(Kind::Groups, &[]);
    let script = "for line in $(cat /proc/self/cgroup); do path=${line##*:}; for mount in /sys/fs/cgroup \
                  /sys/fs/cgroup/memory; do cat \"$mount$path/memory.max\" \
                  \"$mount$path/memory.limit_in_bytes\" 2>/dev/null; done; done; true";
    let done = as_nobody(&host, &["run", "--mem-limit", "64MiB", "--", "/bin/sh", "-c", script]);
    assert!(done.out.lines().any(|line| line == "67108864"), "{done:?}");
}

fn another_users_job() {
    let host = shared(&["slots.factor=4"]);
    let job = host.submit(&["--name", "secret"], WAIT).to_string();
    host.until(1, JobState::Running);
    for verb in ["suspend", "resume", "hold", "release", "cancel", "why", "status", "report", "wait"] {
        let done = as_nobody(&host, &[verb, &job]);
        assert_eq!(done.code, Some(3), "{verb}: {done:?}");
        assert!(!done.err.contains("secret") && !done.out.contains("secret"), "{verb}: {done:?}");
    }
    assert_eq!(as_nobody(&host, &["set", &job, "--priority", "1"]).code, Some(3));
    assert_eq!(as_nobody(&host, &["cancel", "--signal", "KILL", &job]).code, Some(3));
    for arguments in [&["status", "--json"][..], &["status", "--all", "--json"]] {
        let done = as_nobody(&host, arguments);
        let status: StatusView = serde_json::from_str(&done.out).expect("JSON");
        assert_eq!(status.jobs.len(), 0, "{arguments:?}");
        assert_eq!(status.slots.used, 1, "how full the host is concerns everybody");
    }
    assert_eq!(as_nobody(&host, &["report", "--json", "--last", "5"]).out, "");
    assert_eq!(host.job(1).state, JobState::Running);
    host.make("go");
    host.until(1, JobState::Exited);
    // Over, it is no less somebody else's.
    for verb in ["why", "status", "report", "wait", "cancel"] {
        assert_eq!(as_nobody(&host, &[verb, &job]).code, Some(3), "{verb}");
    }
}

/// Who steers a project sees and changes its jobs, whosever they are, and nothing else.
fn operators_of_a_project() {
    let _frozen = no_rescue();
    let host = shared(&["slots.factor=4"]);
    if pinfold_sys::peer::user_named("nobody").is_none_or(|user| user.uid != 65534) {
        ignore!("user 65534 is not called nobody here");
    }
    let set = host.pinfold(["config", "set", "projects.web.operators=nobody", "projects.lab={}"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let [web, lab] = ["web", "lab"].map(|name| host.submit(&["--project", name, "--name", name], WAIT));
    [web, lab].into_iter().for_each(|job| drop(host.until(job, JobState::Running)));
    let numbers = |arguments: &[&str]| -> Vec<u64> {
        let done = as_nobody(&host, arguments);
        assert_eq!(done.code, Some(0), "{arguments:?}: {done:?}");
        assert!(!done.out.contains("lab"), "{arguments:?}: {done:?}");
        let job = |line: &str| serde_json::from_str::<serde_json::Value>(line).expect("JSON")["job"].as_u64();
        done.out.lines().filter_map(job).collect()
    };
    assert_eq!(numbers(&["report", "--json", "--all", "--last", "9"]), [web]);
    assert_eq!(numbers(&["export", "--format", "jsonl", "--all", "--since", "1h"]), [web]);
    assert!(
        numbers(&["report", "--json", "--last", "9"]).is_empty(),
        "its own alone, unless all are asked for"
    );
    let status = as_nobody(&host, &["status", "--json"]);
    let status: StatusView = serde_json::from_str(&status.out).expect("JSON");
    assert_eq!(status.jobs.iter().map(|job| job.job).collect::<Vec<_>>(), [web]);
    for verb in ["why", "report", "suspend"] {
        assert_eq!(as_nobody(&host, &[verb, &web.to_string()]).code, Some(0), "{verb}");
        let refused = as_nobody(&host, &[verb, &lab.to_string()]);
        assert!(refused.code == Some(3) && !refused.err.contains("lab"), "{verb}: {refused:?}");
    }
    host.until(web, JobState::Frozen);
    assert_eq!(as_nobody(&host, &["cancel", &web.to_string()]).code, Some(0));
    host.until(web, JobState::Exited);
    for arguments in [&["audit"][..], &["drain"], &["config", "set", "projects.web.operators=root"]] {
        assert_eq!(as_nobody(&host, arguments).code, Some(3), "{arguments:?}");
    }
    let audit = host.pinfold(["audit"]);
    let told = |line: &str| line.contains("nobody") && line.contains("cancel") && line.contains("of root");
    assert!(audit.out.lines().any(told), "{audit:?}");
    // Named no more, it has nothing any more.
    host.succeeds(["config", "set", "projects.web.operators="]);
    assert_eq!(as_nobody(&host, &["report", &web.to_string()]).code, Some(3));
    host.make("go");
    host.until(lab, JobState::Exited);
}

fn what_only_operators_may() {
    let host = shared(&[]);
    let set = host.pinfold(["config", "set", "projects.web.users=root"]);
    assert_eq!(set.code, Some(0), "{set:?}");
    let cases: [(&[&str], &str); 6] = [
        (&["run", "--project", "web", "true"], "--project web: the project is for its users (root)"),
        (&["run", "--priority", "11", "true"], "access.max_priority"),
        (&["run", "--exclusive", "true"], "access.exclusive"),
        (&["run", "--isolated", "true"], "access.exclusive"),
        (&["run", "--no-suspend", "true"], "access.no_suspend"),
        (&["config", "set", "slots.factor=1"], "access.operators"),
    ];
    for (arguments, key) in cases {
        let done = as_nobody(&host, arguments);
        assert_eq!(done.code, Some(3), "{arguments:?}: {done:?}");
        assert!(done.err.contains(key), "the setting is named: {done:?}");
    }
    assert_eq!(as_nobody(&host, &["run", "--priority", "10", "true"]).code, Some(0));
    // Root, and users who are named, may see and change all.
    let job = host.pinfold(["config", "set", "access.operators=[\"nobody\"]"]);
    assert_eq!(job.code, Some(0));
    if pinfold_sys::peer::user_named("nobody").is_none_or(|user| user.uid != 65534) {
        ignore!("user 65534 is not called nobody here");
    }
    host.submit(&["--name", "rooted"], WAIT);
    host.until(2, JobState::Running);
    // The rights hold once that is answered.
    assert_eq!(as_nobody(&host, &["audit"]).code, Some(0));
    assert_eq!(as_nobody(&host, &["cancel", "--signal", "KILL", "2"]).code, Some(0));
    assert_eq!(host.until(2, JobState::Exited).signal, Some(9));
    assert_eq!(as_nobody(&host, &["run", "--exclusive", "--priority", "16", "true"]).code, Some(0));
}

/// A user's job is that user's in all it does, and root may see and end it.
fn a_users_job_under_roots_daemon() {
    let host = shared(&[]);
    let done = as_nobody(&host, &["run", "--", "/bin/sh", "-c", "id -u; id -g; exit 7"]);
    assert_eq!((done.code, done.out.as_str()), (Some(7), "65534\n65534\n"), "{done:?}");
    // A busy daemon has its end on record later than the command returns.
    let view = host.until(1, JobState::Exited);
    assert_eq!(view.exit_code, Some(7));
    assert_ne!(view.user, host.report(host.submit(&[], "true")).user);
}

/// A file of a control group that root opened lets its holder put any process of the host into that group. So none
/// goes to another user, whose jobs are contained without.
fn no_open_files_of_roots() {
    let host = shared_in(Kind::Groups, &[]);
    // Threads have users of their own in the kernel, and a socket knows who connected it.
    let asked = std::thread::scope(|scope| {
        let ask = || {
            let nobody = rustix::process::Uid::from_raw(65534);
            rustix::thread::set_thread_res_uid(nobody, nobody, nobody).expect("root may become anybody");
            let mut wire = Wire::greeted(&host);
            wire.send(&Request::Submit { ticket: 7, spec: Box::new(spec()), pid: None });
            [wire.hear(), wire.hear()]
        };
        scope.spawn(ask).join().expect("it is answered")
    });
    assert!(matches!(asked[0], Some(Reply::Queued { ticket: 7, job: 1 })), "{asked:?}");
    assert_eq!(asked[1], Some(Reply::Grant { job: 1 }), "it is asked for a child, and given nothing");
    host.until(1, JobState::Exited);
    let done = as_nobody(&host, &["run", "--", "/bin/sh", "-c", "cat /proc/self/cgroup; exit 6"]);
    assert_eq!(done.code, Some(6), "{done:?}");
    assert!(
        done.out.contains(&format!("/pinfold/{}/job-2", host.instance())),
        "contained all the same: {done:?}"
    );
}

/// Below `/tmp` anybody can put a directory, or a link, in the place where another's would be.
fn a_planted_directory_is_refused() {
    is_root();
    let host = Host::without_daemon(Kind::Nobody, &[]);
    let theirs = tempfile::tempdir().expect("somebody else's directory");
    let link = host.path("link");
    symlink(theirs.path(), &link).expect("a link");
    let owned = host.path("owned-by-root");
    std::fs::create_dir(&owned).expect("a directory");
    std::fs::set_permissions(&owned, PermissionsExt::from_mode(0o777)).expect("open to all");
    std::fs::set_permissions(theirs.path(), PermissionsExt::from_mode(0o777)).expect("open to all");
    for planted in [link, owned] {
        let mut command = host.command(host.programs().join("pinfold"));
        command
            .env("PINFOLD_SOCKET", planted.join("pinfold.sock"))
            .args(["run", "true"])
            .stdin(Stdio::null());
        let done = host.spawn(command).wait();
        assert_eq!(done.code, Some(4), "{}: {done:?}", planted.display());
        assert!(done.err.contains("someone else"), "{done:?}");
        assert!(!planted.join("pinfold.sock").exists(), "nothing listens there");
    }
}

fn sets_are_for_operators_and_for_those_they_name() {
    let host = shared(&[]);
    let [_, second] = crate::tasks::two_cores(&host);
    let second = second.to_string();
    let denied = |arguments: &[&str]| {
        let done = as_nobody(&host, arguments);
        assert_eq!(done.code, Some(3), "{arguments:?}: {done:?}");
    };
    denied(&["set-aside", "x", "--cpus", &second]);
    host.succeeds(["set-aside", "db", "--users", "root", "--cpus", &second]);
    denied(&["set-aside", "db", "--remove"]);
    denied(&["run", "--in", "db", "--", "true"]);
    host.succeeds(["set-aside", "db", "--remove"]);
    let nobody = host.pinfold(["set-aside", "db", "--users", "nobody-at-all", "--cpus", &second]);
    assert!(nobody.code == Some(2) && nobody.err.contains("there is no such user"), "{nobody:?}");
    // Idle cores are for users who may have the whole host, and for nobody else to give back.
    host.succeeds(["config", "set", "access.exclusive=*"]);
    let made = as_nobody(&host, &["set-aside", "--idle", "--cores", "1", "--hold", "10m"]);
    assert_eq!((made.code, made.out.as_str()), (Some(0), "idle-1\n"), "{made:?}");
    let inside = as_nobody(&host, &["run", "--in", "idle-1", "--", "/bin/sh", "-c", "echo $PINFOLD_JOB_ID"]);
    assert_eq!(inside.code, Some(0), "{inside:?}");
    // Its job keeps the set until it is over.
    host.until(inside.out.trim().parse().expect("its number"), JobState::Exited);
    assert_eq!(as_nobody(&host, &["set-aside", "idle-1", "--remove"]).code, Some(0));
    host.succeeds(["config", "set", "access.exclusive=root"]);
    denied(&["set-aside", "--idle", "--cores", "1"]);
}

tests! {
    Once: programs_read_what_bounds_them, another_users_job, operators_of_a_project,
        what_only_operators_may, a_users_job_under_roots_daemon, no_open_files_of_roots,
        a_planted_directory_is_refused, sets_are_for_operators_and_for_those_they_name;
}
