//! The socket as somebody who means no good, or does not know better, would use it.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use pinfold_proto::wire::{
    self, Decoder, ErrorCode, Phase, REPLY_MAX_BYTES, Reply, Request, Verb, WIRE_VERSION,
};
use pinfold_proto::{Checkpoint, JobArray, JobSpec, JobState};
use pinfold_testkit::ignore;

use crate::host::Host;
use crate::kind::{Kind, tests};
use crate::process::Killed;
use crate::wait::{PATIENCE, eventually, is_to_be_asked_again, within};

tests! {
    Each: a_foreign_process_as_a_jobs_child, too_many_connections;
    Best: somebody_elses_number, those_that_keep_jobs_leave_some, another_version, no_hello, garbage,
        oversized, cut_off_in_the_middle, asks_and_never_reads, an_empty_checkpoint_command,
        asked_for_twice, an_end_that_comes_late, an_array_is_kept_whose_first_is_over;
}

pub(crate) struct Wire {
    stream: UnixStream,
    decoder: Decoder,
}

impl Wire {
    pub(crate) fn connect(host: &Host) -> Self {
        Self::on(UnixStream::connect(host.socket()).expect("the daemon listens"))
    }

    fn on(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        stream.set_write_timeout(Some(PATIENCE)).expect("a deadline");
        Self { stream, decoder: Decoder::new(REPLY_MAX_BYTES) }
    }

    pub(crate) fn greeted(host: &Host) -> Self {
        let mut wire = Self::connect(host);
        wire.send(&Request::Hello { version: WIRE_VERSION });
        assert!(matches!(wire.hear(), Some(Reply::Welcome { .. })));
        wire
    }

    /// The answer to a request; `None`: no daemon is there, or none any more.
    pub(crate) fn try_ask(host: &Host, request: &Request) -> Option<Reply> {
        let mut wire = Self::on(UnixStream::connect(host.socket()).ok()?);
        let mut bytes = Vec::new();
        for said in [&Request::Hello { version: WIRE_VERSION }, request] {
            wire::encode(said, &mut bytes).expect("short");
        }
        wire.stream.write_all(&bytes).ok()?;
        wire.hear()?;
        wire.hear()
    }

    pub(crate) fn send(&mut self, request: &Request) {
        let mut bytes = Vec::new();
        wire::encode(request, &mut bytes).expect("short");
        self.stream.write_all(&bytes).expect("the daemon takes it");
    }

    /// Says all of it in one write, so that the daemon meets it in one turn.
    pub(crate) fn send_all(&mut self, requests: &[Request]) {
        let mut bytes = Vec::new();
        requests.iter().for_each(|request| wire::encode(request, &mut bytes).expect("short"));
        self.stream.write_all(&bytes).expect("the daemon takes it");
    }

    /// Asks for a process to be adopted: on a busy machine the answer may be that it is to be asked again.
    pub(crate) fn adopt(&mut self, request: &Request) -> Option<Reply> {
        eventually("the process could be looked at", || {
            self.send(request);
            match self.hear() {
                Some(Reply::Error { message, .. }) if is_to_be_asked_again(&message) => Err(message),
                said => Ok(said),
            }
        })
    }

    /// The next reply; `None`: the daemon has hung up.
    pub(crate) fn hear(&mut self) -> Option<Reply> {
        let mut buffer = [0; 4096];
        loop {
            if let Some(reply) = self.decoder.take().expect("the daemon speaks clearly") {
                return Some(reply);
            }
            match self.stream.read(&mut buffer) {
                Ok(0) => return None,
                Ok(count) => self.decoder.push(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                // As where a process is stopped for a moment: with a deadline the kernel does not go on by itself.
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => panic!("no answer within the deadline: {error}"),
            }
        }
    }

    /// Expects to be told off with this code, and then hung up on.
    #[track_caller]
    fn expect_refusal(mut self, wanted: ErrorCode) -> String {
        match self.hear() {
            Some(Reply::Error { code, message }) if code == wanted => {
                assert_eq!(self.hear(), None, "and hangs up");
                message
            }
            other => panic!("an error of {wanted:?}, not {other:?}"),
        }
    }
}

/// The daemon serves others as before.
#[track_caller]
fn serves(host: &Host) {
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", "exit 3"]);
    assert_eq!(done.code, Some(3), "{done:?}");
}

fn another_version(kind: Kind) {
    let host = Host::new(kind);
    for (version, older) in [(0, "the command is older"), (WIRE_VERSION + 1, "the daemon is older")] {
        let mut wire = Wire::connect(&host);
        wire.send(&Request::Hello { version });
        let message = wire.expect_refusal(ErrorCode::Failed);
        assert!(message.contains(older), "{message}");
    }
    serves(&host);
}

fn no_hello(kind: Kind) {
    let host = Host::new(kind);
    let mut wire = Wire::connect(&host);
    wire.send(&Request::Doctor);
    wire.expect_refusal(ErrorCode::Usage);
    serves(&host);
}

fn garbage(kind: Kind) {
    let host = Host::new(kind);
    let frame = |body: &[u8]| [&u32::try_from(body.len()).expect("short").to_le_bytes()[..], body].concat();
    let bodies: [&[u8]; 5] = [b"", b"nonsense", b"{\"submit\":{}}", b"[[[[", b"\xff\xfe\x00"];
    for body in bodies {
        let mut wire = Wire::greeted(&host);
        wire.stream.write_all(&frame(body)).expect("the daemon takes it");
        wire.expect_refusal(ErrorCode::Usage);
    }
    // Deep nesting is no way to use its stack up.
    let mut wire = Wire::greeted(&host);
    wire.stream.write_all(&frame(&b"[".repeat(200_000))).expect("the daemon takes it");
    wire.expect_refusal(ErrorCode::Usage);
    serves(&host);
}

fn oversized(kind: Kind) {
    let host = Host::new(kind);
    let mut wire = Wire::greeted(&host);
    wire.stream.write_all(&u32::MAX.to_le_bytes()).expect("the daemon takes it");
    let message = wire.expect_refusal(ErrorCode::Usage);
    assert!(message.contains("longer"), "{message}");
    // A command line of any length that the kernel takes fits all the same.
    let long = "x".repeat(100_000);
    let done = host.pinfold(["run", "--", "/bin/sh", "-c", "echo ${#1}", "name", &long, &long, &long]);
    assert_eq!((done.code, done.out.trim()), (Some(0), "100000"), "{}", done.err);
}

fn cut_off_in_the_middle(kind: Kind) {
    let host = Host::new(kind);
    let mut bytes = Vec::new();
    wire::encode(&Request::Hello { version: WIRE_VERSION }, &mut bytes).expect("short");
    let hello = bytes.len();
    wire::encode(&Request::Submit { ticket: 1, spec: Box::new(spec()), pid: None }, &mut bytes)
        .expect("short");
    for cut in [1, 3, 5, hello, hello + 2, bytes.len() - 1] {
        let mut wire = Wire::connect(&host);
        wire.stream.write_all(&bytes[..cut]).expect("the daemon takes it");
        drop(wire);
    }
    serves(&host);
    // Its command waits for that only shortly.
    host.until(1, JobState::Exited);
    assert!(host.status(&[]).jobs.is_empty(), "half a wish is none");
}

/// It fills the daemon's buffer for it at most, and nobody else waits.
fn asks_and_never_reads(kind: Kind) {
    let host = Host::new(kind);
    let mut wire = Wire::greeted(&host);
    wire.stream.set_write_timeout(Some(Duration::from_millis(500))).expect("a deadline");
    let mut bytes = Vec::new();
    (0..1000).for_each(|_| wire::encode(&Request::ConfigGet, &mut bytes).expect("short"));
    for _ in 0..10 {
        if wire.stream.write_all(&bytes).is_err() {
            break;
        }
    }
    serves(&host);
    drop(wire);
    serves(&host);
}

pub(crate) fn spec() -> JobSpec {
    JobSpec { name: "by-hand".to_owned(), command: vec!["none".to_owned()], cores: 1, ..JobSpec::default() }
}

/// What `pinfold` does not let be typed is not taken from others either: a job that would be ended for nothing written.
fn an_empty_checkpoint_command(kind: Kind) {
    let host = Host::new(kind);
    let mut wire = Wire::greeted(&host);
    for text in ["", " \n"] {
        let checkpoint = Some(Checkpoint { command: text.to_owned(), limit_us: 1_000_000 });
        let spec = Box::new(JobSpec { checkpoint, ..spec() });
        wire.send(&Request::Submit { ticket: 7, spec, pid: None });
        match wire.hear() {
            Some(Reply::Refused { ticket: 7, job: None, reason, code: ErrorCode::Usage }) => {
                assert!(reason.contains("checkpoint command is empty"), "{reason}");
            }
            other => panic!("a refusal, not {other:?}"),
        }
    }
    serves(&host);
}

/// Nobody can have another's process, nor one that is no child of his, frozen, pinned or killed as a job of his.
fn a_foreign_process_as_a_jobs_child(kind: Kind) {
    let host = Host::new(kind);
    // A child of this test, not of the client below: that is the test itself, so a grandchild is taken.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "sleep 3600 & echo $!; wait"]).stdout(Stdio::piped());
    let mut shell = Killed(shell.stdin(Stdio::null()).stderr(Stdio::null()).spawn().expect("a shell"));
    let mut line = [0; 16];
    let count = shell.0.stdout.as_mut().expect("a pipe").read(&mut line).expect("a number");
    let grandchild: u32 = String::from_utf8_lossy(&line[..count]).trim().parse().expect("a number");
    let groups = || std::fs::read_to_string(format!("/proc/{grandchild}/cgroup")).expect("it lives");
    let before = groups();
    for foreign in [grandchild, 1, host.daemon_pid(), 0, u32::MAX] {
        let mut wire = Wire::greeted(&host);
        wire.send(&Request::Submit { ticket: 7, spec: Box::new(spec()), pid: Some(foreign) });
        let Some(Reply::Queued { ticket: 7, job }) = wire.hear() else { panic!("it is queued") };
        // Not taken as the child: the daemon asks for one, or lets the job go without.
        match wire.hear() {
            Some(Reply::Grant { job: named } | Reply::Go { job: named, doors: 1.., .. }) if named == job => {}
            other => panic!("process {foreign}: {other:?}"),
        }
        wire.send(&Request::Child { job, pid: foreign });
        wire.send(&Request::Doctor);
        assert!(matches!(wire.hear(), Some(Reply::Doctor(_))), "nothing starts by process {foreign}");
        assert_eq!(host.job(job).pids, Vec::<u32>::new());
        drop(wire);
        let view = host.until(job, JobState::Exited);
        assert_eq!((view.exit_code, view.signal), (None, None), "{view:?}");
    }
    assert_eq!(groups(), before, "the stranger is where it was");
    crate::host::send(grandchild, rustix::process::Signal::KILL);
    shell.0.wait().expect("the shell ends with its child");
    serves(&host);
}

/// What another keeper keeps cannot be ended, withdrawn or given a child by this one.
fn somebody_elses_number(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let running = host.submit(&[], "until [ -e go ]; do sleep 0.05; done; exit 5");
    host.until(running, JobState::Running);
    let waiting = host.submit(&[], "exit 6");
    let mut wire = Wire::greeted(&host);
    for job in [running, waiting, 999] {
        wire.send(&Request::Ended {
            job,
            ending: pinfold_proto::Ending { exit_code: Some(0), ..Default::default() },
        });
        wire.send(&Request::Withdraw { job, reason: "mischief".to_owned() });
        wire.send(&Request::Child { job, pid: std::process::id() });
        wire.send(&Request::Interrupted { job });
    }
    wire.send(&Request::Doctor);
    assert!(matches!(wire.hear(), Some(Reply::Doctor(_))));
    assert_eq!((host.job(running).state, host.job(waiting).state), (JobState::Running, JobState::Queued));
    host.make("go");
    host.until_exit_code(running, 5);
    host.until_exit_code(waiting, 6);
}

/// The daemon dies between writing a job down and saying its number: the client asks anew, and what nobody knows of
/// takes no slot.
fn asked_for_twice(kind: Kind) {
    if kind.is_other_user() {
        ignore!("here this process is another user than the jobs'");
    }
    let mut host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let submit = Request::Submit { ticket: 1, spec: Box::new(spec()), pid: None };
    let mut wire = Wire::greeted(&host);
    // So that it waits, and is not started at once.
    let first = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(first, JobState::Running);
    wire.send(&submit);
    let Some(Reply::Queued { job: unheard, .. }) = wire.hear() else { panic!("it is queued") };
    host.crash();
    host.start_daemon();
    host.until(first, JobState::Running);
    let mut wire = Wire::greeted(&host);
    wire.send(&submit);
    let Some(Reply::Queued { job: heard, .. }) = wire.hear() else { panic!("it is queued") };
    assert_eq!(host.job(unheard).state, JobState::Queued, "its client lives");
    wire.send(&Request::Presented);
    let struck = host.until(unheard, JobState::Exited);
    assert!(struck.reason.as_ref().is_some_and(|reason| reason.contains("asked for anew")), "{struck:?}");
    assert_eq!(host.job(heard).state, JobState::Queued);
    host.make("go");
    host.until(first, JobState::Exited);
}

/// The end of a job that counts as over is heard, and its keeper is told that it is on disk.
fn an_end_that_comes_late(kind: Kind) {
    if kind.is_other_user() {
        ignore!("here this process is another user than the jobs'");
    }
    let host = Host::new(kind);
    let job = host.submit(&[], "exit 3");
    host.until_exit_code(job, 3);
    let mut wire = Wire::greeted(&host);
    let ending = pinfold_proto::Ending { exit_code: Some(0), ..Default::default() };
    wire.send(&Request::Ended { job, ending });
    let reply = wire.hear();
    assert!(matches!(reply, Some(Reply::Recorded { .. })), "{reply:?}");
    assert_eq!(host.job(job).exit_code, Some(3), "what is known of its end stays");
}

/// What it takes to keep an array anew is told once, of its first member, and can come when that one is over.
fn an_array_is_kept_whose_first_is_over(kind: Kind) {
    let host = Host::with(kind, &["slots.factor=1", "host.cpus=0"]);
    let running = host.submit(&[], "until [ -e go ]; do sleep 0.05; done");
    host.until(running, JobState::Running);
    let mut wire = Wire::greeted(&host);
    let mut array = None;
    for index in 0..2 {
        let place = JobArray { array, index, at_most: None };
        let spec = Box::new(JobSpec { array: Some(place), ..spec() });
        wire.send(&Request::Submit { ticket: u64::from(index), spec, pid: None });
        let Some(Reply::Queued { job, .. }) = wire.hear() else { panic!("it is queued") };
        array = array.or(Some(job));
    }
    let first = array.expect("it has a number");
    wire.send(&Request::Withdraw { job: first, reason: "it was a try".to_owned() });
    wire.send(&Request::Keep { job: first, start: Box::default() });
    eventually("the second could be kept anew", || {
        let start = host.state().join("starts").join(first.to_string());
        if start.exists() { Ok(()) } else { Err("nothing is kept of the array") }
    });
    assert_eq!(host.job(first + 1).state, JobState::Queued);
    host.make("go");
}

fn too_many_connections(kind: Kind) {
    let mut host = Host::without_daemon(kind, &[]);
    // A daemon that may have few files: half of them are for connections, and half of those for one user.
    host.wrap_daemon(&["/bin/sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"]);
    host.start_daemon();
    let mut open: Vec<Wire> = (0..64).map(|_| Wire::greeted(&host)).collect();
    let message = Wire::connect(&host).expect_refusal(ErrorCode::Refused);
    assert!(message.contains("too many connections"), "{message}");
    let done = host.pinfold(["run", "true"]);
    // Another user has room of his own.
    assert_eq!(done.code, Some(if kind.is_other_user() { 0 } else { 5 }), "{done:?}");
    for wire in &mut open {
        wire.send(&Request::Doctor);
        assert!(matches!(wire.hear(), Some(Reply::Doctor(_))), "those that are there stay");
    }
    drop(open);
    let served = within(PATIENCE, || (host.pinfold(["run", "true"]).code == Some(0)).then_some(()));
    assert!(served.is_some(), "once some are gone, others are let in");
}

/// However many jobs of a user wait, each with a keeper of its own, they can be cancelled.
fn those_that_keep_jobs_leave_some(kind: Kind) {
    let mut host = Host::without_daemon(kind, &[]);
    host.wrap_daemon(&["/bin/sh", "-c", "ulimit -n 256; exec \"$@\"", "sh"]);
    host.start_daemon();
    let held = Box::new(JobSpec { held: true, ..spec() });
    let submit = Request::Submit { ticket: 7, spec: held, pid: None };
    let mut keepers = Vec::new();
    let refused = loop {
        let mut wire = Wire::greeted(&host);
        wire.send(&submit);
        match wire.hear() {
            Some(Reply::Queued { .. }) => keepers.push(wire),
            Some(Reply::Refused { reason, code: ErrorCode::Refused, .. }) => break reason,
            other => panic!("{other:?}"),
        }
    };
    assert!(refused.contains("too many connections") && keepers.len() > 50, "{refused}, {}", keepers.len());
    keepers[0].send(&submit);
    assert!(matches!(keepers[0].hear(), Some(Reply::Queued { .. })), "one that keeps jobs may keep more");
    let mut beside: Vec<Wire> = (0..7).map(|_| Wire::greeted(&host)).collect();
    beside[6].send(&Request::Control { job: 1, verb: Verb::Cancel { signal: 0 } });
    assert_eq!(beside[6].hear(), Some(Reply::Done));
    keepers[0].hear();
    host.until(1, JobState::Exited);
    // The next daemon may have fewer files.
    host.crash();
    host.wrap_daemon(&["/bin/sh", "-c", "ulimit -n 128; exec \"$@\"", "sh"]);
    host.start_daemon();
    let mut attached = Vec::new();
    loop {
        let (mut wire, job) = (Wire::greeted(&host), attached.len() as u64 + 2);
        wire.send(&Request::Attach { job, phase: Phase::Waiting { pid: None } });
        match wire.hear() {
            Some(Reply::Attached { .. }) => attached.push(wire),
            Some(Reply::Error { code: ErrorCode::Refused, .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(attached.len() > 15, "{}", attached.len());
    assert_eq!(host.status(&[]).jobs.len(), keepers.len(), "none is lost");
    let mut beside = Wire::greeted(&host);
    beside.send(&Request::Control { job: 2, verb: Verb::Cancel { signal: 0 } });
    assert_eq!(beside.hear(), Some(Reply::Done));
}
