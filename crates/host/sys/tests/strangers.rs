//! A process ends just as it is taken into a container, and its number goes to a stranger: on fake groups, as nothing else
//! can stop the kernel between a look and a write. The processes and their numbers are real, which needs the right to say
//! which number comes next.

use std::io;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};

use pinfold_sys::cgroup::FakeKernel;
use pinfold_sys::container::{Containers, Entered, Shape};
use pinfold_sys::identity::Process;
use pinfold_sys::mode::{Roots, decide, probe};
use pinfold_sys::procfs::Proc;
use pinfold_testkit::fake::FakeHost;
use pinfold_testkit::ignore;

/// The last number that the kernel gave away; the next is above.
const LAST_PID: &str = "/proc/sys/kernel/ns_last_pid";
/// Others start processes meanwhile and take the number.
const TRIES_MAX: usize = 50;

/// An action before one of the writes.
type Deed = Box<dyn FnOnce() + Send>;

/// A fake kernel in which something happens just before a number is written into a group.
struct Interrupted {
    kernel: Arc<dyn FakeKernel>,
    deed: Mutex<(usize, Option<Deed>)>,
}

impl std::fmt::Debug for Interrupted {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interrupted").finish_non_exhaustive()
    }
}

impl FakeKernel for Interrupted {
    fn made(&self, group: &Path) -> io::Result<()> {
        self.kernel.made(group)
    }

    fn reading(&self, file: &Path) -> io::Result<()> {
        self.kernel.reading(file)
    }

    fn written(&self, file: &Path, value: &str) -> io::Result<()> {
        if file.ends_with("cgroup.procs") {
            let mut deed = self.deed.lock().expect("nobody panics with it");
            if deed.0 == 0
                && let Some(deed) = deed.1.take()
            {
                deed();
            }
            deed.0 = deed.0.saturating_sub(1);
        }
        self.kernel.written(file, value)
    }

    fn removing(&self, group: &Path) -> io::Result<()> {
        self.kernel.removing(group)
    }
}

fn sleeper() -> Child {
    Command::new("/bin/sleep").arg("600").stdin(Stdio::null()).spawn().expect("a process")
}

fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A stranger with this number, unless another process takes it first.
fn stranger_with(pid: u32) -> Option<Child> {
    for _ in 0..TRIES_MAX {
        std::fs::write(LAST_PID, (pid - 1).to_string()).ok()?;
        let child = sleeper();
        if child.id() == pid {
            return Some(child);
        }
        end(child);
    }
    None
}

fn a_stranger_with_a_reused_number_is_put_back() {
    let last = std::fs::read_to_string(LAST_PID).unwrap_or_default();
    if std::fs::write(LAST_PID, last.trim()).is_err() {
        ignore!("{LAST_PID} cannot be written here");
    }
    type Make = fn(&Path) -> io::Result<FakeHost>;
    let hosts: [(&str, Make); 3] =
        [("unified", FakeHost::unified), ("hybrid", FakeHost::hybrid), ("first", FakeHost::first_only)];
    for (name, make) in hosts {
        for write in 0..4 {
            let tried = (0..TRIES_MAX).find_map(|_| tried_at(name, make, write));
            assert!(tried.is_some(), "{name}, write {write}: the number is never to be had");
        }
    }
}

/// The number changes hands before this write; `None`: another process took it.
fn tried_at(name: &str, make: impl Fn(&Path) -> io::Result<FakeHost>, write: usize) -> Option<()> {
    let dir = tempfile::tempdir().expect("a directory");
    let host = make(dir.path()).expect("a fake host");
    let plan = decide(&probe(&host.probe_roots()), None).expect("a mode");
    let child = sleeper();
    let pid = child.id();
    let stranger: Arc<Mutex<Option<Child>>> = Arc::default();
    let told = Arc::clone(&stranger);
    let deed: Deed = Box::new(move || {
        end(child);
        *told.lock().expect("nobody panics with it") = stranger_with(pid);
    });
    let roots = host.roots();
    let kernel = roots.fake.clone().expect("it is a fake");
    let interrupted = Arc::new(Interrupted { kernel, deed: Mutex::new((write, Some(deed))) });
    let fake: Arc<dyn FakeKernel> = Arc::clone(&interrupted) as _;
    let containers = Containers::open(plan, Roots { fake: Some(fake), ..roots }, "main").expect("opened");
    let container = containers.create(7, &Shape::default()).expect("created");
    let proc = Proc::open(Path::new("/proc")).expect("there is one");
    let process = Process::open(&proc, pid).expect("readable").expect("it runs");
    let entered = container.enter_process(&process).expect("an answer");
    let missed = interrupted.deed.lock().expect("nobody panics with it").1.take();
    if let Some(deed) = missed {
        // There are not so many groups here.
        assert_eq!(entered, Entered::Yes, "{name}, write {write}");
        deed();
        if let Some(stranger) = stranger.lock().expect("nobody panics with it").take() {
            end(stranger);
        }
        return Some(());
    }
    let found = stranger.lock().expect("nobody panics with it").take()?;
    assert_eq!(entered, Entered::Gone, "{name}, write {write}");
    for group in host.groups().into_iter().filter(|group| group.contains("job-7")) {
        let members = host.read(&format!("{group}/cgroup.procs")).expect("readable");
        assert_eq!(members, "", "{name}, write {write}: the stranger is not in {group}");
    }
    assert!(container.pids().expect("an answer").is_empty());
    end(found);
    Some(())
}

pinfold_testkit::trials! {
    a_stranger_with_a_reused_number_is_put_back,
}
