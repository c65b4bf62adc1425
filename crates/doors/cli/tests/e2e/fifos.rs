//! Output of submitted jobs that goes to FIFOs, which open once they are read, and a number that cannot be told.

use std::fs::{File, Permissions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use pinfold_proto::view::JobView;
use pinfold_proto::wire::{Request, Verb};
use pinfold_proto::{End, JobState};
use pinfold_sys::ready;
use rustix::fs::{CWD, FileType, Mode, OFlags, fcntl_setfl, mknodat};
use rustix::process::Signal;

use crate::host::{Host, processes_with, send};
use crate::kind::{Kind, tests};
use crate::process::{Killed, Running, ended_within};
use crate::wait::{PATIENCE, eventually, no_rescue, within};
use crate::wire::Wire;

tests! {
    Each: a_job_that_waits_for_a_reader_is_thawed_as_the_daemon_dies;
    Best: a_job_waits_until_its_output_is_read, a_job_that_waits_for_a_reader_is_ended,
        the_daemon_is_replaced_while_a_job_waits_for_a_reader,
        the_daemon_and_the_keeper_of_a_job_that_waits_for_a_reader_are_killed,
        a_keeper_is_replaced_whose_job_writes_to_a_fifo, why_says_that_nobody_reads,
        a_reader_from_before_the_start_reads_all_runs, members_write_to_fifos,
        several_tasks_write_to_a_fifo, a_number_that_cannot_be_told;
    User: fifos_that_cannot_be_written;
}

/// A kernel may name the place where a process waits for a reader otherwise.
const OPENS_WITHIN: Duration = Duration::from_secs(5);

/// A FIFO in the directory where commands run.
fn fifo(host: &Host, name: &str) -> PathBuf {
    let path = host.work(name);
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe with a name");
    host.kind().give(&path);
    path
}

/// Submits a script under these options, whose output nobody reads so far; gives its number.
fn submit(host: &Host, options: &[&str], script: &str) -> u64 {
    let done = host.succeeds([&["submit"], options, &["--", "/bin/sh", "-c", script]].concat());
    done.out.trim().parse().unwrap_or_else(|_| panic!("the job's number: {done:?}"))
}

/// Submits one that writes to the FIFO `out`; gives it once its process is there, and waits for a reader as far as the kernel
/// tells where it waits.
fn waiting(host: &Host, options: &[&str], script: &str) -> JobView {
    let job = submit(host, &[&["-o", "out", "-e", "/dev/null"], options].concat(), script);
    let view = eventually("it has a process", || {
        let view = host.until(job, JobState::Running);
        if view.pids.is_empty() { Err(format!("{view:?}")) } else { Ok(view) }
    });
    // Until it has heard that it may begin it waits for that.
    let opens = |pid: &u32| match std::fs::read_to_string(format!("/proc/{pid}/wchan")) {
        Ok(at) if !["", "0"].contains(&at.trim()) => ["wait_for_partner", "fifo_open"].contains(&at.trim()),
        _ => true,
    };
    let _ = within(OPENS_WITHIN, || view.pids.iter().any(opens).then_some(()));
    view
}

/// The keeper of such a job, whose script has this mark.
fn keeper_of(view: &JobView, mark: &str) -> u32 {
    let is_keeper = |pid: &u32| !view.pids.contains(pid);
    let keepers: Vec<u32> = processes_with(mark).into_iter().filter(is_keeper).collect();
    assert_eq!(keepers.len(), 1, "{keepers:?} {view:?}");
    keepers[0]
}

/// A shell's command, started and left alone.
fn shell(host: &Host, script: &str) -> Running {
    let mut command = host.command("/bin/sh");
    command.args(["-c", script]).stdin(Stdio::null());
    host.spawn(command)
}

/// Reads a FIFO to its end.
#[track_caller]
fn reads(host: &Host, name: &str, wanted: &str) {
    let done = host.shell(&format!("cat {name}"));
    assert_eq!((done.code, done.out.as_str()), (Some(0), wanted), "{name}: {done:?}");
}

fn a_job_waits_until_its_output_is_read(kind: Kind) {
    let host = Host::new(kind);
    ["out", "err"].into_iter().for_each(|name| drop(fifo(&host, name)));
    let script = ": >begun; echo out; echo err >&2; exit 3";
    // One for both, by one name and by two.
    std::os::unix::fs::symlink("out", host.work("link")).expect("a link");
    for err in ["out", "./out", "link"] {
        let job = submit(&host, &["-o", "out", "-e", err], script);
        host.until(job, JobState::Running);
        assert!(!host.work("begun").exists(), "{err}: as with a shell's `>out`");
        reads(&host, "out", "out\nerr\n");
        host.until_exit_code(job, 3);
        std::fs::remove_file(host.work("begun")).expect("it ran");
    }
    // One each, in the order of a shell.
    let job = submit(&host, &["-o", "out", "-e", "err"], script);
    let errors = shell(&host, "cat err");
    reads(&host, "out", "out\n");
    assert_eq!(errors.wait().out, "err\n");
    host.until_exit_code(job, 3);
    let done =
        host.succeeds(["submit", "--json", "-o", "/dev/null", "-e", "err", "--", "/bin/sh", "-c", script]);
    assert_eq!(done.out, "{\"version\":1,\"job\":5}\n");
    reads(&host, "err", "err\n");
    host.until_exit_code(5, 3);
}

fn why_says_that_nobody_reads(kind: Kind) {
    let host = Host::new(kind);
    let path = fifo(&host, "out");
    let path = path.canonicalize().expect("it is there").display().to_string();
    let job = waiting(&host, &[], "until [ -e go ]; do sleep 0.05; done").job;
    let why = || host.succeeds(["why", &job.to_string()]).out;
    let said = format!("it waits until {path}, where its output goes, is read");
    eventually("it is said", || if why().contains(&said) { Ok(()) } else { Err(why()) });
    // By the name that it has now.
    std::fs::rename(host.work("out"), host.work("other")).expect("another name");
    assert!(why().contains("/other, where"), "{}", why());
    let reader = shell(&host, "cat other");
    eventually("it has begun", || if why().contains("is read") { Err(why()) } else { Ok(()) });
    host.make("go");
    host.until_exit_code(job, 0);
    assert_eq!(reader.wait().out, "");
}

fn a_job_that_waits_for_a_reader_is_ended(kind: Kind) {
    let host = Host::new(kind);
    fifo(&host, "out");
    let mark = format!(": mark-of-{}", host.instance());
    let script = format!("{mark}; echo out");
    let ended = |options: &[&str], end: &dyn Fn(&JobView)| {
        eventually("one began before it was ended", || {
            let waits = waiting(&host, options, &script);
            end(&waits);
            let over = host.until(waits.job, JobState::Exited);
            eventually("nothing is left of it", || match &processes_with(&mark)[..] {
                [] => Ok(()),
                left => Err(format!("{left:?}")),
            });
            // Its process may have heard of the end before it heard that it may begin.
            if over.started_s.is_some() { Ok(over) } else { Err(format!("{over:?}")) }
        })
    };
    let word = |word: &[&str]| drop(host.succeeds(word.to_vec()));
    let view = ended(&[], &|waits| word(&["cancel", &waits.job.to_string()]));
    assert_eq!(view.signal, Some(15));
    // Only once it is there is the time short: on a busy machine it takes a while until there is a process that hears of it.
    let short = |waits: &JobView| word(&["set", &waits.job.to_string(), "--timeout", "1ms"]);
    let view = ended(&["--timeout", "1h"], &short);
    assert_eq!((view.end, view.signal), (Some(End::Timeout), Some(15)), "{view:?}");
    // What its keeper is told is meant for it.
    let view = ended(&[], &|waits| send(keeper_of(waits, &mark), Signal::TERM));
    assert_eq!(view.signal, Some(15));
}

fn the_daemon_is_replaced_while_a_job_waits_for_a_reader(kind: Kind) {
    let mut host = Host::new(kind);
    fifo(&host, "out");
    let job = waiting(&host, &[], "echo out; exit 3").job;
    host.crash();
    host.start_daemon();
    reads(&host, "out", "out\n");
    host.until_exit_code(job, 3);
}

/// Its process is the job's all the same, though nothing in its environment says so yet.
fn the_daemon_and_the_keeper_of_a_job_that_waits_for_a_reader_are_killed(kind: Kind) {
    let mut host = Host::new(kind);
    fifo(&host, "out");
    let mark = format!(": mark-of-{}", host.instance());
    let view = waiting(&host, &[], &format!("{mark}; echo out"));
    host.crash();
    send(keeper_of(&view, &mark), Signal::KILL);
    host.start_daemon();
    let again = host.job(view.job);
    assert_eq!((again.state, &again.pids), (JobState::Running, &view.pids), "{again:?}");
    host.succeeds(["cancel", &view.job.to_string()]);
    host.until(view.job, JobState::Exited);
    assert_eq!(processes_with(&mark), [0; 0]);
}

fn a_job_that_waits_for_a_reader_is_thawed_as_the_daemon_dies(kind: Kind) {
    let _frozen = no_rescue();
    let mut host = Host::new(kind);
    fifo(&host, "out");
    let job = waiting(&host, &[], "echo out; exit 3").job;
    host.succeeds(["suspend", &job.to_string()]);
    host.until(job, JobState::Frozen);
    host.crash();
    reads(&host, "out", "out\n");
    host.start_daemon();
    host.until_exit_code(job, 3);
}

/// The one in its place does not wait for a reader either.
fn a_keeper_is_replaced_whose_job_writes_to_a_fifo(kind: Kind) {
    let host = Host::new(kind);
    fifo(&host, "out");
    let mark = format!(": mark-of-{}", host.instance());
    let job =
        submit(&host, &["--hold", "-o", "out", "-e", "/dev/null"], &format!("{mark}; echo out; exit 3"));
    let start = host.state().join(format!("starts/{job}"));
    eventually("its start is kept", || start.exists().then_some(()).ok_or("it is not there"));
    let before = processes_with(&mark);
    before.iter().for_each(|&pid| send(pid, Signal::KILL));
    eventually("another keeper waits", || {
        let now = processes_with(&mark);
        if now.iter().any(|pid| !before.contains(pid)) { Ok(()) } else { Err(format!("{now:?}")) }
    });
    host.succeeds(["release", &job.to_string()]);
    reads(&host, "out", "out\n");
    host.until_exit_code(job, 3);
}

/// A reader that is there at once, and reads as usual.
fn reader(path: &Path) -> File {
    let how = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let reader = rustix::fs::open(path, how, Mode::empty()).expect("a reader");
    fcntl_setfl(&reader, OFlags::empty()).expect("its flags");
    File::from(reader)
}

/// Its keeper has the FIFO open from then on.
fn a_reader_from_before_the_start_reads_all_runs(kind: Kind) {
    let host = Host::new(kind);
    let mut reader = reader(&fifo(&host, "out"));
    let script = "[ -e begun ] && { echo two; exit 3; }; echo one; : >begun; exec sleep 1000";
    let job = submit(&host, &["-o", "out", "-e", "out"], script);
    host.until_made("begun");
    host.until(job, JobState::Running);
    Wire::greeted(&host).send(&Request::Control { job, verb: Verb::Requeue });
    host.until_exit_code(job, 3);
    let mut said = String::new();
    reader.read_to_string(&mut said).expect("what it wrote");
    assert_eq!(said, "one\ntwo\n");
}

/// Each has its own, whichever is read first. Only the member opens it, so that its reader reads all.
fn members_write_to_fifos(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=4", "host.cpus=0"]);
    let mut first = reader(&fifo(&host, "out-1"));
    fifo(&host, "out-2");
    let script = "echo $PINFOLD_ARRAY_INDEX; exit 3";
    let options = ["-a", "1-2", "-o", "out-%a", "-e", "/dev/null"];
    let array = submit(&host, &[&["--hold"], &options[..]].concat(), script);
    assert!(!ready::is_hung_up(&first), "nobody has written to it");
    host.succeeds(["release", &array.to_string()]);
    reads(&host, "out-2", "2\n");
    // Until a writer comes there is an end to be read.
    assert!(
        ready::readable(&first, Some(PATIENCE)).expect("it can be waited for"),
        "the first member writes"
    );
    let mut said = String::new();
    first.read_to_string(&mut said).expect("what it wrote");
    assert_eq!(said, "1\n");
    // Nobody reads.
    drop(first);
    let array = submit(&host, &options, script);
    host.succeeds(["cancel", &array.to_string()]);
    [array, array + 1].into_iter().for_each(|job| drop(host.until(job, JobState::Exited)));
}

fn several_tasks_write_to_a_fifo(kind: Kind) {
    let host = Host::new(kind);
    fifo(&host, "out");
    let job = waiting(&host, &["--ntasks", "2", "--overcommit"], "echo task; exit 3").job;
    reads(&host, "out", "task\ntask\n");
    host.until_exit_code(job, 3);
}

/// That is said before a job waits for it in vain.
fn fifos_that_cannot_be_written(kind: Kind) {
    let host = Host::new(kind);
    let path = fifo(&host, "out");
    // Open as its standard output, and read no more.
    let reader = reader(&path);
    let writer = File::options().write(true).open(&path).expect("it has a reader");
    drop(reader);
    let mut command = host.command(host.programs().join("pinfold"));
    command.args(["submit", "-o", "/dev/stdout", "-e", "/dev/null", "true"]).stdin(Stdio::null());
    let done = said_to(&host, command, writer.into());
    assert!(done.0 == Some(1) && done.1.contains("failed to open /dev/stdout"), "{done:?}");
    if kind == Kind::Nobody {
        std::fs::set_permissions(&path, Permissions::from_mode(0o444)).expect("it is ours");
        let done = host.pinfold(["submit", "-o", "out", "true"]);
        assert!(done.code == Some(1) && done.err.contains("Permission denied"), "{done:?}");
    }
}

/// Runs a command with this standard output; gives its exit code and what it says on standard error.
fn said_to(host: &Host, mut command: Command, out: Stdio) -> (Option<i32>, String) {
    let said = host.path("said").join("errors");
    command.stdout(out).stderr(File::create(&said).expect("a file for errors"));
    let mut child = Killed(command.spawn().expect("it starts"));
    drop(command);
    let status = ended_within(&mut child.0, PATIENCE).expect("it ends");
    (status.code(), std::fs::read_to_string(said).expect("what it said"))
}

/// The job is there all the same, and its number is told on standard error.
fn a_number_that_cannot_be_told(kind: Kind) {
    let host = Host::new(kind);
    let submit = |options: &[&str]| {
        let mut command = host.command(host.programs().join("pinfold"));
        command.arg("submit").args(options).args(["-o", "/dev/null", "-e", "/dev/null", "true"]);
        command.stdin(Stdio::null());
        command
    };
    let unread = || {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        Stdio::from(writer)
    };
    let accepted = |what: &str, (code, said): (Option<i32>, String)| {
        assert_eq!(code, Some(1), "{said}");
        assert!(said.starts_with(&format!("pinfold: {what} was accepted, ")), "{said}");
    };
    accepted("job 1", said_to(&host, submit(&[]), unread()));
    accepted("job 2", said_to(&host, submit(&["--json"]), unread()));
    accepted("array 3", said_to(&host, submit(&["-a", "1-2"]), unread()));
    let full = File::options().write(true).open("/dev/full").expect("a device");
    accepted("job 5", said_to(&host, submit(&[]), full.into()));
    for closed in [">&-", "1</dev/null"] {
        let done = host.shell(&format!("pinfold submit -o /dev/null -e /dev/null true {closed}"));
        assert!(done.code == Some(1) && done.err.contains("was accepted, "), "{closed}: {done:?}");
    }
    (1..=7).for_each(|job| host.until_exit_code(job, 0));
}
