//! The guard: a small process that outlives the daemon and, if no daemon takes over within a second, thaws
//! what the dead one had frozen, releases what it had throttled, and unbinds memory from NUMA nodes. pinfold fails open.
//!
//! It is forked before the daemon opens anything, knows of such jobs by lines on a pipe, written *before* a
//! job is frozen, throttled or bound, and learns of the daemon's death by the pipe's end. Absent here: the store, the socket.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{self, BufRead, BufReader, PipeReader, PipeWriter, Write};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use pinfold_proto::row::ProcessId;
use pinfold_proto::view::FindingView;
use pinfold_sys::container::{Containers, InPlace, Taken};
use pinfold_sys::mode::{Plan, Roots};
use pinfold_sys::spawn::{self, Side};
use pinfold_sys::{files, own};

use crate::core::clock::Clock;
use crate::host::in_ram;
use crate::store::state_dir::{lock_for_guard, note_thaw};

/// How long another daemon has to take the state directory over before the guard acts.
const TAKE_OVER_WITHIN: Duration = Duration::from_secs(1);

/// How long a daemon that has taken it over has to find its jobs again: if it ends before that, nobody but this guard knows
/// which of them are frozen.
const SETTLE_WITHIN: Duration = Duration::from_secs(60);

/// A job, and what kind of word it is about.
type Word = (u64, u8);

/// The daemon's end of the pipe.
#[derive(Debug)]
pub(crate) struct Guard {
    pipe: Option<PipeWriter>,
    /// What did not go into the pipe, as a guard that is stopped does not read it: for each job and kind of word the last
    /// one, in the order in which they came, and first of all the rest of a line that went in half.
    unsent: VecDeque<(Option<Word>, Vec<u8>)>,
    /// Jobs it was told of, that they are frozen,
    told: BTreeSet<u64>,
    /// that they are throttled,
    slowed: BTreeSet<u64>,
    /// that their memory is bound to some NUMA nodes,
    bound: BTreeSet<u64>,
    /// and that their processes ran before.
    taken: BTreeSet<u64>,
}

/// What the guard needs to find the containers again.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    /// How jobs are contained.
    pub plan: Plan,
    /// Where the kernel's files are.
    pub roots: Roots,
    /// The daemon's name in the kernel.
    pub instance: String,
    /// The state directory, whose lock says whether a daemon is there.
    pub state: PathBuf,
}

impl Guard {
    /// Starts the guard. The process must have one thread. `None` comes back in the guard itself, at the end
    /// of its life.
    pub(crate) fn start(scene: &Scene) -> anyhow::Result<Option<Self>> {
        let (lines, pipe) = std::io::pipe().context("failed to make the guard's pipe")?;
        match spawn::fork_away().context("failed to fork the guard")? {
            Side::Parent(_) => {
                in_ram::stay();
                files::set_nonblocking(&pipe).context("failed to prepare the guard's pipe")?;
                let (told, slowed, bound, taken) = Default::default();
                Ok(Some(Self { pipe: Some(pipe), unsent: VecDeque::new(), told, slowed, bound, taken }))
            }
            Side::Child => {
                drop(pipe);
                // The lock of the state directory above all: held here, it would keep the next daemon out.
                spawn::drop_files_but(&lines);
                watch(lines, scene);
                Ok(None)
            }
        }
    }

    /// A job is about to be frozen.
    pub(crate) fn will_freeze(&mut self, job: u64, main: Option<ProcessId>) {
        self.told.insert(job);
        self.say(&format!("freeze {job}{}\n", identity(main)));
    }

    /// A job was thawed.
    pub(crate) fn thawed(&mut self, job: u64) {
        if self.told.remove(&job) {
            self.say(&format!("thaw {job}\n"));
        }
    }

    /// A job is about to be throttled.
    pub(crate) fn will_throttle(&mut self, job: u64, main: Option<ProcessId>) {
        self.slowed.insert(job);
        self.say(&format!("slow {job}{}\n", identity(main)));
    }

    /// A job grows as it likes again.
    pub(crate) fn unthrottled(&mut self, job: u64) {
        if self.slowed.remove(&job) {
            self.say(&format!("grow {job}\n"));
        }
    }

    /// A job's memory is about to be bound to some NUMA nodes.
    pub(crate) fn will_bind_memory(&mut self, job: u64, main: Option<ProcessId>) {
        if self.bound.insert(job) {
            self.say(&format!("near {job}{}\n", identity(main)));
        }
    }

    /// A job's memory may lie anywhere again.
    pub(crate) fn memory_unbound(&mut self, job: u64) {
        if self.bound.remove(&job) {
            self.say(&format!("far {job}\n"));
        }
    }

    /// The processes of a job ran before, and their environment does not tell whose they are.
    pub(crate) fn takes_in(&mut self, job: u64, processes: &[(u32, u64)], in_place: bool) {
        self.taken.insert(job);
        let words: Vec<String> = processes.iter().map(|(pid, start)| format!(" {pid} {start}")).collect();
        let verb = if in_place { "stay" } else { "take" };
        self.say(&format!("{verb} {job}{}\n", words.concat()));
    }

    /// A job is over.
    pub(crate) fn over(&mut self, job: u64) {
        if self.taken.remove(&job) {
            self.say(&format!("left {job}\n"));
        }
        self.thawed(job);
        self.unthrottled(job);
        self.memory_unbound(job);
    }

    /// The daemon ends in order, with nothing frozen.
    pub(crate) fn stand_down(&mut self) {
        self.say("done\n");
        self.pipe = None;
    }

    /// Tells the guard what it does not know yet, as far as it reads; never waits for it.
    fn say(&mut self, line: &str) {
        let key = topic(line);
        // The last word about a job's freeze, say, holds; one that went in half has no key and stays.
        if key.is_some() {
            self.unsent.retain(|(earlier, _)| *earlier != key);
        }
        self.unsent.push_back((key, line.as_bytes().to_vec()));
        self.send();
    }

    /// Whether the guard was not told everything, for it does not read.
    pub(crate) fn is_behind(&self) -> bool {
        self.pipe.is_some() && !self.unsent.is_empty()
    }

    /// Sends what could not be sent before, as far as the guard reads.
    pub(crate) fn send(&mut self) {
        while let (Some(pipe), Some((key, line))) = (&mut self.pipe, self.unsent.front_mut()) {
            match pipe.write(line) {
                Ok(count) if count == line.len() => drop(self.unsent.pop_front()),
                Ok(count) => {
                    line.drain(..count);
                    *key = None;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    // A guard that is gone cannot be told; the daemon goes on without it, and says so once.
                    tracing::error!(
                        "the guard is gone: if the daemon dies, frozen jobs stay frozen until `pinfold admin rescue`"
                    );
                    self.pipe = None;
                    self.unsent.clear();
                }
            }
        }
    }

    /// What doctor says, where there is something to say.
    pub(crate) fn finding(&self) -> Option<FindingView> {
        if self.pipe.is_none() {
            let found =
                "the guard is gone: if the daemon dies, frozen jobs stay frozen until `pinfold admin rescue`";
            return Some(FindingView {
                subject: "guard".to_owned(),
                ok: false,
                found: found.to_owned(),
                change: Some("restart the daemon".to_owned()),
            });
        }
        self.is_behind().then(|| FindingView {
            subject: "guard".to_owned(),
            ok: false,
            found: format!(
                "the guard does not read: {} words wait; if the daemon dies, jobs may stay frozen until `pinfold admin rescue`",
                self.unsent.len()
            ),
            change: Some("let the process pinfold-guard run again (SIGCONT), or restart the daemon".to_owned()),
        })
    }
}

/// Which job a line is about, and of what it tells: a later line on the same replaces it.
fn topic(line: &str) -> Option<(u64, u8)> {
    let mut words = line.split_ascii_whitespace();
    let kind = match words.next()? {
        "freeze" | "thaw" => 0,
        "slow" | "grow" => 1,
        "near" | "far" => 2,
        "take" | "stay" | "left" => 3,
        _ => return None,
    };
    Some((words.next()?.parse().ok()?, kind))
}

/// Jobs that the daemon holds, each with its main process where that is known.
#[derive(Debug, Default)]
struct Held {
    frozen: BTreeMap<u64, Main>,
    slowed: BTreeMap<u64, Main>,
    /// Their memory is bound to some NUMA nodes: a job that is alone with them may find them full.
    bound: BTreeMap<u64, Main>,
    /// Not held for that: processes of jobs that ran before.
    taken: BTreeMap<u64, Taken>,
}

/// A job's first process, by its number and when it was started in clock ticks.
type Main = Option<(u32, u64)>;

/// The same in words for the guard.
fn identity(main: Option<ProcessId>) -> String {
    main.map_or_else(String::new, |main| format!(" {} {}", main.pid, main.start_ticks))
}

/// The guard's life: listens until the daemon is gone, then acts if nobody else does.
fn watch(lines: PipeReader, scene: &Scene) {
    own::name_thread(c"pinfold-guard");
    let _ = spawn::null_streams();
    let _ = std::env::set_current_dir("/");
    in_ram::stay();
    // The daemon's begins with the same time, a moment later.
    let clock = Clock::new();
    let mut held = Held::default();
    for line in BufReader::new(lines).lines().map_while(Result::ok) {
        let mut words = line.split(' ');
        let verb = words.next();
        let mut number = || words.next().and_then(|word| word.parse::<u64>().ok());
        match (verb, number(), number()) {
            (Some("done"), ..) => return,
            (Some(verb @ ("take" | "stay")), Some(job), first) => {
                let rest = std::iter::from_fn(&mut number);
                let numbers: Vec<u64> = first.into_iter().chain(rest).collect();
                let process = |pair: &[u64]| Some((u32::try_from(pair[0]).ok()?, pair[1]));
                let processes = numbers.chunks_exact(2).filter_map(process).collect();
                let in_place = (verb == "stay").then(InPlace::default);
                held.taken.insert(job, Taken { processes, in_place, ..Taken::default() });
            }
            (Some("left"), Some(job), _) => drop(held.taken.remove(&job)),
            (Some(verb @ ("freeze" | "slow" | "near")), Some(job), pid) => {
                let pid = pid.and_then(|pid| u32::try_from(pid).ok());
                let all = match verb {
                    "freeze" => &mut held.frozen,
                    "slow" => &mut held.slowed,
                    _ => &mut held.bound,
                };
                all.insert(job, pid.zip(number()));
            }
            (Some("thaw"), Some(job), _) => drop(held.frozen.remove(&job)),
            (Some("grow"), Some(job), _) => drop(held.slowed.remove(&job)),
            (Some("far"), Some(job), _) => drop(held.bound.remove(&job)),
            _ => {}
        }
    }
    if held.frozen.is_empty() && held.slowed.is_empty() && held.bound.is_empty() {
        return;
    }
    std::thread::sleep(TAKE_OVER_WITHIN);
    // Kept until all is done: a daemon that came meanwhile would freeze what is thawed here.
    let lock = lock_for_guard(&scene.state, SETTLE_WITHIN);
    if lock.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
        return;
    }
    let_go(scene, &held);
    if !held.frozen.is_empty() {
        note_thaw(&scene.state, clock.now_us());
    }
    drop(lock);
}

fn let_go(scene: &Scene, held: &Held) {
    // A rescue was faster, and nobody would remove what is made here.
    let in_place = held.taken.values().any(|taken| taken.in_place.is_some());
    if !in_place && !Containers::are_left(&scene.plan, &scene.roots, &scene.instance) {
        return;
    }
    let Ok(containers) = Containers::open(scene.plan.clone(), scene.roots.clone(), &scene.instance) else {
        return;
    };
    for (&job, taken) in &held.taken {
        containers.takes_in(job, taken.clone());
    }
    // Before they wake, or they would wake into their bounds.
    for (&job, &main) in &held.slowed {
        if let Ok(Some(mut container)) = containers.adopt(job, main) {
            let _ = container.slow(None);
        }
    }
    for (&job, &main) in &held.bound {
        if let Ok(Some(mut container)) = containers.adopt(job, main) {
            let _ = container.near(&[]);
        }
    }
    for (&job, &main) in &held.frozen {
        if let Ok(Some(mut container)) = containers.adopt(job, main) {
            let _ = container.thaw();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_sys::ready;
    use std::io::Read;

    fn main(pid: u32) -> Option<ProcessId> {
        Some(ProcessId { pid, start_ticks: 90 })
    }

    fn guard() -> (PipeReader, Guard) {
        let (lines, pipe) = std::io::pipe().unwrap();
        files::set_nonblocking(&pipe).unwrap();
        let (told, slowed, bound, taken) = Default::default();
        (lines, Guard { pipe: Some(pipe), unsent: VecDeque::new(), told, slowed, bound, taken })
    }

    /// A guard that does not read holds nobody up, and costs one word for each job; once it reads it knows all.
    #[test]
    fn a_guard_that_is_stopped_is_told_later() {
        let (mut lines, mut guard) = guard();
        for round in 0..20_000 {
            guard.will_freeze(round % 10, main(7));
            guard.thawed(round % 10);
            guard.will_throttle(11, main(8));
        }
        guard.will_freeze(3, main(9));
        assert!(guard.is_behind() && guard.finding().is_some());
        assert!(guard.unsent.len() <= 12, "{:?}", guard.unsent);
        let (mut text, mut buffer) = (Vec::new(), [0; 1 << 16]);
        while guard.is_behind() {
            let count = lines.read(&mut buffer).unwrap();
            text.extend_from_slice(&buffer[..count]);
            guard.send();
        }
        guard.stand_down();
        lines.read_to_end(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let last = |job: &str| text.lines().rfind(|line| line.split(' ').nth(1) == Some(job)).unwrap();
        assert_eq!((last("3"), last("4"), last("11")), ("freeze 3 9 90", "thaw 4", "slow 11 8 90"));
        assert!(text.lines().all(|line| topic(line).is_some() || line == "done"), "no line is torn");
        assert_eq!(text.lines().last(), Some("done"));
    }

    /// A guard that was killed is missed as soon as it is to be told something.
    #[test]
    fn a_guard_that_is_gone_is_told_of() {
        let (lines, mut guard) = guard();
        guard.will_freeze(1, None);
        assert!(guard.finding().is_none());
        drop(lines);
        // What another test starts at this moment has the pipe open as well, until it executes its program.
        let pipe = guard.pipe.as_ref().expect("nobody missed it yet");
        assert!(ready::wait(vec![ready::Wanted::end(pipe)], None).unwrap());
        guard.thawed(1);
        assert!(guard.finding().is_some_and(|finding| !finding.ok && finding.found.contains("gone")));
    }
}
