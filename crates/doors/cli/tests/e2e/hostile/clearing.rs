//! A job's directory when its job is over: its user makes files in it, mounts something in it, holds what was in it. The
//! daemon answers everybody meanwhile.

use std::os::fd::{AsRawFd, OwnedFd};

use pinfold_testkit::ignore;
use rustix::fs::{CWD, Mode, OFlags};

use super::*;
use crate::kind::tests;

tests! {
    Best: answers_while_files_are_made, is_ready_before_what_was_left_is_cleared, what_is_held_open_counts,
        a_mount_that_never_answers;
}

/// Ends the job that [`attackers_directory`] started.
const GO: &str = "until [ -e over ]; do sleep 0.05; done; : >ended";

/// A job of the attacker's with a directory in memory, and where that is.
fn attackers_directory(host: &Host, size: &str, script: &str) -> (u64, PathBuf) {
    let script = format!("{script}; echo $TMPDIR >where.new && mv where.new where; {GO}");
    let options = ["submit", "-o", "/dev/null", "-e", "/dev/null", "--tmp", size, "--", "/bin/sh", "-c"];
    let done = run_as(host, ATTACKER, &[&options[..], &[&script]].concat());
    assert_eq!(done.code, Some(0), "{done:?}");
    let path = eventually("the job says where its directory is", || {
        std::fs::read_to_string(host.work("where")).map(|text| PathBuf::from(text.trim()))
    });
    (done.out.trim().parse().expect("a number"), path)
}

fn open_directory(path: &Path) -> OwnedFd {
    rustix::fs::openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty()).expect("a directory")
}

fn become_attacker() {
    let user = rustix::process::Uid::from_raw(ATTACKER);
    rustix::thread::set_thread_res_uid(user, user, user).expect("root may become anybody");
}

/// Makes files and directories in directories, by a descriptor that was opened before, until it is told to stop.
fn make_files(path: &Path, number: usize, begun: &AtomicU64, stop: &AtomicBool) {
    become_attacker();
    let top = open_directory(path);
    begun.fetch_add(1, Ordering::SeqCst);
    let mut below = top.try_clone().expect("another descriptor");
    for round in 0u64.. {
        if stop.load(Ordering::SeqCst) {
            return;
        }
        let (file, directory) = (format!("f{number}-{round}"), format!("d{number}-{round}"));
        let _ = rustix::fs::openat(&top, &file, OFlags::CREATE | OFlags::WRONLY, Mode::RWXU);
        let _ = rustix::fs::mkdirat(&below, &directory, Mode::RWXU);
        let deeper =
            rustix::fs::openat(&below, &directory, OFlags::RDONLY | OFlags::DIRECTORY, Mode::empty());
        below = deeper.or_else(|_| top.try_clone()).expect("a directory");
    }
}

/// Does something while four threads make files in a directory; they go on until it is done.
fn while_files_are_made(path: &Path, mut act: impl FnMut()) {
    let (begun, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let (begun, stop) = (&begun, &stop);
            scope.spawn(move || make_files(path, number, begun, stop));
        }
        eventually("all have opened it", || match begun.load(Ordering::SeqCst) {
            4 => Ok(()),
            some => Err(format!("{some}")),
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&mut act));
        stop.store(true, Ordering::SeqCst);
        if let Err(panic) = done {
            std::panic::resume_unwind(panic);
        }
    });
}

fn is_gone(path: &Path) {
    // Not by a look at the directory itself: what is mounted there may give no answer.
    let name = path.file_name().expect("a name").to_owned();
    eventually(&format!("{} is gone", path.display()), || {
        let beside = std::fs::read_dir(path.parent().expect("a directory"));
        match beside.is_ok_and(|entries| entries.flatten().any(|entry| entry.file_name() == name)) {
            true => Err("it is there"),
            false => Ok(()),
        }
    });
}

fn answers_while_files_are_made(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let (job, path) = attackers_directory(&host, "64MiB", "true");
    while_files_are_made(&path, || {
        host.make("over");
        host.until_exit_code(job, 0);
        serves(&host);
        is_gone(&path);
    });
    serves(&host);
}

fn is_ready_before_what_was_left_is_cleared(kind: Kind) {
    let _frozen = crate::wait::no_rescue();
    let mut host = shared(kind, &[]);
    let (_, path) = attackers_directory(&host, "64MiB", "true");
    host.crash();
    while_files_are_made(&path, || {
        host.make("over");
        eventually("the job ends", || std::fs::metadata(host.work("ended")).map(drop));
        host.start_daemon();
        serves(&host);
        is_gone(&path);
    });
}

/// Memory that is not given back is counted, told of, and back when nobody holds it any more.
fn what_is_held_open_counts(kind: Kind) {
    let facts = pinfold_sys::mode::probe(&pinfold_sys::mode::Roots::default());
    if !facts.may_mount {
        ignore!("a directory in memory has no size of its own here");
    }
    let host = shared(kind, &["slots.factor=4", "tmp.total=10MiB"]);
    let (job, path) = attackers_directory(&host, "8MiB", "head -c 6291456 /dev/zero >$TMPDIR/large");
    let held = std::fs::File::open(path.join("large")).expect("it was written");
    host.make("over");
    host.until_exit_code(job, 0);
    let told = eventually("doctor tells of it", || {
        let done = host.pinfold(["doctor"]);
        if done.out.contains("not cleared yet") { Ok(done.out) } else { Err(done.out) }
    });
    assert!(told.contains(&format!("job {job} in memory")) && told.contains("6MiB"), "{told}");
    serves(&host);
    let done = run_as(&host, VICTIM, &["submit", "-o", "/dev/null", "--tmp", "8MiB", "--", "true"]);
    let waits = done.out.trim().parse().expect("a number");
    let why = run_as(&host, VICTIM, &["why", done.out.trim()]);
    assert!(why.out.contains("not cleared yet"), "{why:?}");
    assert_eq!(host.job(waits).state, JobState::Queued);
    drop(held);
    host.until_exit_code(waits, 0);
    is_gone(&path);
}

/// A file system of a user's own that gives no answer, in the directory and over it: the daemon asks it nothing.
fn a_mount_that_never_answers(kind: Kind) {
    let host = shared(kind, &["slots.factor=4"]);
    let (job, path) = attackers_directory(&host, "8MiB", "mkdir -p $TMPDIR/a/b; : >$TMPDIR/a/file");
    let mut devices = Vec::new();
    for inside in ["a/b", "a", ""] {
        match mount_silent(&path.join(inside)) {
            Ok(device) => devices.push(device),
            Err(error) => {
                host.make("over");
                ignore!("no FUSE here: {error}");
            }
        }
    }
    host.make("over");
    host.until_exit_code(job, 0);
    serves(&host);
    is_gone(&path);
    serves(&host);
}

/// Mounts a FUSE of which nobody answers for the requests; they fail once the device is closed.
fn mount_silent(at: &Path) -> std::io::Result<OwnedFd> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let options = format!("fd={},rootmode=40000,user_id=0,group_id=0,allow_other", device.as_raw_fd());
    let options = std::ffi::CString::new(options).expect("digits and letters");
    let flags = rustix::mount::MountFlags::NOSUID | rustix::mount::MountFlags::NODEV;
    rustix::mount::mount("silent", at, "fuse", flags, options.as_c_str())?;
    Ok(device)
}
