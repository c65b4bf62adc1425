//! Children for the checks: the test binary starts itself in a role, so that nothing of the host is needed.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use pinfold_sys::container::{INSTANCE_VARIABLE, JOB_VARIABLE};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

const ROLE: &str = "PINFOLD_TEST_ROLE";
/// How many links of a relay may follow; not set for the first, which waits to be told.
const LINK: &str = "PINFOLD_TEST_LINK";
/// A relay that is not stopped ends by itself after this many links.
const LINKS_MAX: u32 = 200;

/// The work of a child until its input ends or a signal ends it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Waits.
    Wait,
    /// Computes.
    Spin,
    /// Touches this many bytes and waits.
    Hold(usize),
    /// Starts so many waiting children of its own and waits.
    Parent(usize),
    /// Starts the next of its kind and ends, which computes for a moment and does the same.
    Relay,
}

impl Role {
    fn to_text(self) -> String {
        match self {
            Self::Wait => "wait".to_owned(),
            Self::Spin => "spin".to_owned(),
            Self::Relay => "relay".to_owned(),
            Self::Hold(bytes) => format!("hold {bytes}"),
            Self::Parent(children) => format!("parent {children}"),
        }
    }

    fn from_text(text: &str) -> Option<Self> {
        match text.split_once(' ') {
            None if text == "wait" => Some(Self::Wait),
            None if text == "spin" => Some(Self::Spin),
            None if text == "relay" => Some(Self::Relay),
            Some(("hold", bytes)) => bytes.parse().ok().map(Self::Hold),
            Some(("parent", children)) => children.parse().ok().map(Self::Parent),
            _ => None,
        }
    }
}

/// Plays the role named in the environment, if any.
pub(crate) fn play() {
    let Ok(text) = std::env::var(ROLE) else { return };
    let role = Role::from_text(&text).expect("a role that the tests gave");
    if role == Role::Relay
        && let Ok(left) = std::env::var(LINK)
    {
        compute_for(Duration::from_millis(60));
        start_next_link(left.parse().expect("a number that the link before gave"));
        return;
    }
    println!("\nhere");
    std::io::stdout().flush().expect("output");
    let mut go = String::new();
    // The child begins only when told: it must be in its container before it touches memory.
    std::io::stdin().lock().read_line(&mut go).expect("input");
    let mut held: Vec<u8> = Vec::new();
    let mut children = Vec::new();
    match role {
        Role::Wait | Role::Spin => {}
        Role::Relay => {
            start_next_link(LINKS_MAX);
            println!("\nready");
            return;
        }
        Role::Hold(bytes) => {
            // Each page is written to once, by the kernel but for a byte: in the idle class a process has a thousandth of a
            // busy host's processors. No page is all zeros, which the kernel may reclaim.
            held = vec![0u8; bytes];
            for page in held.chunks_mut(4096) {
                page[0] = 2;
            }
        }
        Role::Parent(count) => {
            for _ in 0..count {
                let mut inner = Command::new(std::env::current_exe().expect("own path"));
                inner.args(["--exact", "play_role", "--nocapture"]).env(ROLE, Role::Wait.to_text());
                let inner = inner.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
                children.push(inner.expect("a child of the child"));
            }
        }
    }
    println!("\nready");
    std::io::stdout().flush().expect("output");
    if role == Role::Spin {
        spin_until_input_ends();
    }
    let mut rest = String::new();
    let _ = std::io::stdin().lock().read_to_string(&mut rest);
    for mut inner in children {
        drop(inner.stdin.take());
        let _ = inner.wait();
    }
    assert!(held.iter().step_by(4096).all(|byte| *byte == 2), "memory kept what was written");
}

/// Uses so much processor time: under load it takes as much longer as everything else does.
fn compute_for(time: Duration) {
    let used = || rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    let used = || Duration::try_from(used()).expect("time is not negative");
    let start = used();
    while used() - start < time {
        std::hint::spin_loop();
    }
}

/// Starts the same program again, without waiting for it.
fn start_next_link(left: u32) {
    let Some(left) = left.checked_sub(1) else { return };
    let mut next = Command::new(std::env::current_exe().expect("own path"));
    next.args(["--exact", "play_role", "--nocapture"]).env(LINK, left.to_string());
    next.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    drop(next.spawn().expect("the next link"));
}

fn spin_until_input_ends() {
    let input = std::io::stdin();
    let mut number = 1u64;
    loop {
        for _ in 0..100_000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
        }
        let mut ready = [PollFd::new(&input, PollFlags::IN | PollFlags::HUP)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        if poll(&mut ready, Some(&now)).is_ok_and(|count| count > 0) {
            return;
        }
    }
}

/// A child in a role, ended when dropped.
#[derive(Debug)]
pub(crate) struct Actor {
    child: Child,
    input: Option<ChildStdin>,
    /// Kept open: a child with a closed output dies of the harness's line at its end.
    output: Option<BufReader<ChildStdout>>,
}

impl Actor {
    /// Starts a child that waits to be told: it has started all threads that it starts by itself, as a launcher's child has
    /// that enters its container. It is marked as a process of the job, as a launcher would do.
    pub(crate) fn start(role: Role, job: u64, instance: &str) -> Self {
        let mut command = Command::new(std::env::current_exe().expect("own path"));
        command.args(["--exact", "play_role", "--nocapture"]);
        command.env(ROLE, role.to_text()).env(JOB_VARIABLE, job.to_string()).env(INSTANCE_VARIABLE, instance);
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the test binary starts");
        let input = child.stdin.take();
        let output = child.stdout.take().map(BufReader::new);
        let mut actor = Self { child, input, output };
        actor.hear("here");
        actor
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets it begin and waits until it has done the first part of its role.
    pub(crate) fn begin(&mut self) {
        self.tell();
        self.hear("ready");
    }

    fn hear(&mut self, word: &str) {
        let output = self.output.as_mut().expect("output is piped");
        let said = output.lines().map_while(Result::ok).find(|line| line.ends_with(word));
        assert!(said.is_some(), "the child says that it is {word}");
    }

    pub(crate) fn tell(&mut self) {
        self.input.as_mut().expect("not ended").write_all(b"go\n").expect("the child reads");
    }

    /// Ends its input and collects it.
    pub(crate) fn end(mut self) -> ExitStatus {
        drop(self.input.take());
        self.child.wait().expect("own child")
    }

    /// Waits for its end, at most so long; `None`: it still runs.
    pub(crate) fn wait(&mut self, patience: Duration) -> Option<ExitStatus> {
        let pid = Pid::from_child(&self.child);
        let handle = pidfd_open(pid, PidfdFlags::empty()).expect("not collected yet");
        let mut ready = [PollFd::new(&handle, PollFlags::IN)];
        let limit = Timespec::try_from(patience).expect("less than an age");
        match poll(&mut ready, Some(&limit)) {
            Ok(0) | Err(_) => None,
            Ok(_) => Some(self.child.wait().expect("own child")),
        }
    }

    /// The signal that ended it, within that time.
    pub(crate) fn ended_by(&mut self, patience: Duration) -> Option<i32> {
        self.wait(patience)?.signal()
    }
}

impl Drop for Actor {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
