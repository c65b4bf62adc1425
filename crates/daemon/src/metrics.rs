//! Figures for a monitoring system, over HTTP: a thread that holds the connections, and the loop's part, which
//! makes the text when the thread asks for it.
//!
//! Whatever clients do, the loop is not held up: it is asked at most every [`FRESH`], and never waits for the
//! thread. The thread is bounded in all that a client can make it hold. Owner of state: connections are the
//! thread's alone. Absent here: the text's form (`pinfold_profile::metrics`), and any answer but to `GET /metrics`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant as Moment};

use pinfold_profile::metrics::{self, HostFigures, JobFigures};
use pinfold_proto::JobState;
use pinfold_proto::row::JobRow;
use pinfold_proto::view::ProjectView;
use pinfold_sys::container::Detail;
use pinfold_sys::procfs::{PressureResource, ticks_to_us};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::daemon::Daemon;
use crate::names::{self, Number};
use crate::witness::Freezes;

mod who;

/// Connections at once; a further one waits in the kernel's queue.
const CONNECTIONS_MAX: usize = 16;
/// A request is a line and some headers.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// How long a connection may take, from its first moment to its last byte.
const CONNECTION_MAX: Duration = Duration::from_secs(5);
/// How long a text is good for.
const FRESH: Duration = Duration::from_millis(500);

/// The loop's end of the thread. Dropping it ends the thread and closes the address.
#[derive(Debug)]
pub(crate) struct Metrics {
    address: SocketAddr,
    /// A byte each way says "wanted" and "there it is".
    wake: UnixStream,
    texts: Sender<Texts>,
}

/// What is served, by who asks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Texts {
    /// With the jobs.
    jobs: String,
    /// Without.
    host: String,
    /// Who gets which.
    see_jobs: SeeJobs,
}

/// Who is told of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum SeeJobs {
    /// Whoever may connect.
    All,
    /// These users of this host.
    Users(Vec<u32>),
}

impl Default for SeeJobs {
    fn default() -> Self {
        Self::Users(Vec::new())
    }
}

impl Texts {
    /// For whoever is at the other end of a connection.
    fn of(&self, stream: &TcpStream) -> &str {
        let known = || who::user_of(stream.peer_addr().ok()?, stream.local_addr().ok()?);
        let sees = match &self.see_jobs {
            SeeJobs::All => true,
            SeeJobs::Users(users) => known().is_some_and(|user| users.contains(&user)),
        };
        if sees { &self.jobs } else { &self.host }
    }
}

impl Metrics {
    /// Serves on `address` from now on.
    pub(crate) fn open(address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let (wake, other) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        other.set_nonblocking(true)?;
        let (texts, received) = channel();
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || Serving::new(listener, other, received).run())?;
        Ok(Self { address, wake, texts })
    }

    /// The address that was asked for.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether a text is wanted; forgets that it was.
    pub(crate) fn take_wanted(&mut self) -> bool {
        let mut bytes = [0; 64];
        matches!(self.wake.read(&mut bytes), Ok(1..))
    }

    /// Gives the texts.
    pub(crate) fn give(&mut self, texts: Texts) {
        // A thread that is gone needs none; one that is there has room for a byte, as it asks once at a time.
        let _ = self.texts.send(texts);
        let _ = self.wake.write(b"t");
    }
}

impl AsFd for Metrics {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

/// The thread's part.
struct Serving {
    listener: TcpListener,
    wake: UnixStream,
    texts: Receiver<Texts>,
    connections: Vec<Connection>,
    text: Option<(Moment, Texts)>,
    asked: bool,
}

struct Connection {
    stream: TcpStream,
    until: Moment,
    stage: Stage,
}

enum Stage {
    /// The request as far as it has come.
    Reading(Vec<u8>),
    /// For the loop's text; without its body if only the head is wanted.
    Waiting {
        head_only: bool,
    },
    /// What is left to be sent.
    Writing(Vec<u8>),
    Over,
}

/// What a request is answered with.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    More,
    Figures { head_only: bool },
    Other { status: &'static str, text: &'static str },
}

impl Serving {
    fn new(listener: TcpListener, wake: UnixStream, texts: Receiver<Texts>) -> Self {
        Self { listener, wake, texts, connections: Vec::new(), text: None, asked: false }
    }

    fn run(mut self) {
        while self.wait() {
            if !self.hear_loop() {
                return;
            }
            for _ in 0..CONNECTIONS_MAX {
                if !self.make_room() {
                    break;
                }
                let Ok((stream, _)) = self.listener.accept() else { break };
                if stream.set_nonblocking(true).is_ok() {
                    let until = Moment::now() + CONNECTION_MAX;
                    self.connections.push(Connection { stream, until, stage: Stage::Reading(Vec::new()) });
                }
            }
            self.serve();
        }
    }

    /// Makes room for one more connection, if there is none, at the cost of the first that has not asked for anything yet;
    /// `false`: all of them have.
    fn make_room(&mut self) -> bool {
        if self.connections.len() < CONNECTIONS_MAX {
            return true;
        }
        // What it said meanwhile counts.
        self.connections.iter_mut().for_each(Connection::read);
        let silent = |connection: &Connection| matches!(connection.stage, Stage::Reading(_));
        let first = self.connections.iter().position(silent);
        first.map(|first| self.connections.remove(first)).is_some()
    }

    /// Waits until something can be done; `false`: the poll itself fails.
    fn wait(&self) -> bool {
        let now = Moment::now();
        let next = self.connections.iter().map(|connection| connection.until.saturating_duration_since(now));
        let limit = next.min().and_then(|limit| Timespec::try_from(limit + Duration::from_millis(1)).ok());
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        let silent = |connection: &Connection| matches!(connection.stage, Stage::Reading(_));
        if self.connections.len() < CONNECTIONS_MAX || self.connections.iter().any(silent) {
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        for connection in &self.connections {
            let wanted = match connection.stage {
                Stage::Reading(_) => PollFlags::IN,
                Stage::Writing(_) => PollFlags::OUT,
                // Only its end is of interest, which is always told.
                Stage::Waiting { .. } | Stage::Over => PollFlags::empty(),
            };
            fds.push(PollFd::new(&connection.stream, wanted));
        }
        matches!(poll(&mut fds, limit.as_ref()), Ok(_) | Err(rustix::io::Errno::INTR))
    }

    /// Takes the loop's text; `false`: the loop has let go of the other end.
    fn hear_loop(&mut self) -> bool {
        let mut bytes = [0; 64];
        match self.wake.read(&mut bytes) {
            Ok(0) => return false,
            Err(error) if error.kind() != io::ErrorKind::WouldBlock => return false,
            _ => {}
        }
        while let Ok(text) = self.texts.try_recv() {
            self.text = Some((Moment::now(), text));
            self.asked = false;
        }
        true
    }

    fn serve(&mut self) {
        let now = Moment::now();
        for connection in &mut self.connections {
            connection.read();
        }
        let waits = |connection: &Connection| matches!(connection.stage, Stage::Waiting { .. });
        if self.connections.iter().any(waits) {
            match &self.text {
                Some((made, texts)) if now.saturating_duration_since(*made) < FRESH => {
                    for connection in &mut self.connections {
                        if let Stage::Waiting { head_only } = connection.stage {
                            let text = texts.of(&connection.stream);
                            let answer = answer("200 OK", metrics::CONTENT_TYPE, text, head_only);
                            connection.stage = Stage::Writing(answer);
                        }
                    }
                }
                _ if self.asked => {}
                _ => self.asked = self.wake.write(b"w").is_ok(),
            }
        }
        for connection in &mut self.connections {
            connection.write();
        }
        self.connections
            .retain(|connection| !matches!(connection.stage, Stage::Over) && connection.until > now);
    }
}

impl Connection {
    fn read(&mut self) {
        let Stage::Reading(request) = &mut self.stage else { return };
        let mut buffer = [0; 2048];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return self.stage = Stage::Over,
                Ok(count) => request.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return self.stage = Stage::Over,
            }
            match asked(request) {
                Asked::More => {}
                Asked::Figures { head_only } => return self.stage = Stage::Waiting { head_only },
                Asked::Other { status, text } => {
                    return self.stage = Stage::Writing(answer(status, "text/plain", text, false));
                }
            }
        }
    }

    fn write(&mut self) {
        let Stage::Writing(rest) = &mut self.stage else { return };
        while !rest.is_empty() {
            match self.stream.write(rest) {
                Ok(sent) => drop(rest.drain(..sent)),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
        self.stage = Stage::Over;
    }
}

/// What a request asks for, once it is whole.
fn asked(request: &[u8]) -> Asked {
    let other = |status, text| Asked::Other { status, text };
    let whole =
        request.windows(4).any(|end| end == b"\r\n\r\n") || request.windows(2).any(|end| end == b"\n\n");
    if !whole {
        return match request.len() {
            0..REQUEST_BYTES_MAX => Asked::More,
            _ => other("431 Request Header Fields Too Large", "the request is too long\n"),
        };
    }
    let line = request.split(|&byte| byte == b'\n').next().unwrap_or(&[]);
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let (method, target, version) = (words.next(), words.next(), words.next());
    let path = target.map(|target| target.split('?').next().unwrap_or(target));
    match (method, path, version) {
        (Some(method @ ("GET" | "HEAD")), Some("/metrics"), Some(version))
            if version.starts_with("HTTP/1.") =>
        {
            Asked::Figures { head_only: method == "HEAD" }
        }
        (Some("GET" | "HEAD"), Some(_), Some(_)) => other("404 Not Found", "the figures are at /metrics\n"),
        (Some(_), Some(_), Some(_)) => other("405 Method Not Allowed", "only GET is answered\n"),
        _ => other("400 Bad Request", "not a request in HTTP/1.1\n"),
    }
}

fn answer(status: &str, kind: &str, text: &str, head_only: bool) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let mut answer = head.into_bytes();
    if !head_only {
        answer.extend_from_slice(text.as_bytes());
    }
    answer
}

/// Jobs that ended, by how.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ended {
    succeeded: u64,
    failed: u64,
    killed: u64,
    not_started: u64,
}

impl Ended {
    /// One more.
    pub(crate) fn count(&mut self, row: &JobRow) {
        let how = match row.ending {
            _ if row.started_us.is_none() => &mut self.not_started,
            Some(ending) if ending.signal.is_some() => &mut self.killed,
            Some(ending) if ending.exit_code == Some(0) => &mut self.succeeded,
            _ => &mut self.failed,
        };
        *how += 1;
    }
}

impl Daemon {
    /// Serves where the configuration says, from now on; the error is for people, and nothing is served then.
    pub(crate) fn open_metrics(&mut self) -> Result<(), String> {
        let wanted = self.configured.config.profile_metrics;
        if self.metrics.as_ref().map(Metrics::address) == wanted {
            return Ok(());
        }
        self.metrics = None;
        let Some(address) = wanted else { return Ok(()) };
        let failed = |error: io::Error| format!("`profile.metrics`: failed to serve on {address}: {error}");
        let metrics = Metrics::open(address).map_err(failed)?;
        self.poller.watch(crate::poller::Ready::Metrics, &metrics).map_err(failed)?;
        self.metrics = Some(metrics);
        tracing::info!(%address, "figures are served");
        Ok(())
    }

    /// Makes the text that the thread asked for.
    pub(crate) fn give_metrics(&mut self) {
        let wanted = self.metrics.as_mut().is_some_and(Metrics::take_wanted);
        if !wanted {
            return;
        }
        let texts = self.metrics_texts();
        if let Some(metrics) = &mut self.metrics {
            metrics.give(texts);
        }
    }

    /// Who is told of jobs: those who may see them all by other ways, and those named for this one.
    fn see_jobs(&self) -> SeeJobs {
        let config = &self.configured.config;
        let named = config.profile_metrics_users.iter().chain(&config.access_operators);
        if config.profile_metrics_users.iter().any(|name| name == "*") {
            return SeeJobs::All;
        }
        let users = named.filter_map(|name| match names::number_of(name) {
            Number::User(uid) => Some(uid),
            Number::Nobody | Number::Unknown => None,
        });
        let users = users.chain([0, pinfold_sys::peer::own_uid()]);
        SeeJobs::Users(users.collect())
    }

    fn metrics_texts(&mut self) -> Texts {
        let most = usize::try_from(self.configured.config.profile_metrics_jobs).unwrap_or(usize::MAX);
        let (mut held, mut swap_held, mut jobs) = (0, 0, Vec::new());
        for job in &self.running {
            let Some(live) = self.jobs.get(job) else { continue };
            let measure =
                live.container.as_ref().and_then(|container| container.measure(Detail::Totals).ok());
            held += measure.as_ref().map_or(0, |measure| measure.memory_bytes);
            swap_held += measure.as_ref().map_or(0, |measure| measure.swap_bytes);
            if jobs.len() >= most {
                continue;
            }
            let (row, usage) = (&live.row, &live.row.usage);
            let measure = measure.as_ref();
            let or = |now: Option<u64>, then: u64| now.unwrap_or(0).max(then);
            jobs.push(JobFigures {
                job: row.job,
                name: row.spec.name.clone(),
                user: row.user.clone(),
                project: row.spec.project.clone().unwrap_or_default(),
                class: format!("{:?}", row.class).to_lowercase(),
                cpu_user_us: or(measure.map(|measure| measure.cpu_user_us), usage.cpu_user_us),
                cpu_system_us: or(measure.map(|measure| measure.cpu_system_us), usage.cpu_system_us),
                memory_bytes: measure.map_or(0, |measure| measure.memory_bytes),
                memory_peak_bytes: or(measure.map(|measure| measure.memory_bytes), usage.memory_peak_bytes),
                cache_bytes: measure.and_then(|measure| measure.cache_bytes),
                swap_bytes: measure.map_or(0, |measure| measure.swap_bytes),
                io_read_bytes: or(measure.and_then(|measure| measure.io_read_bytes), usage.io_read_bytes),
                io_write_bytes: or(measure.and_then(|measure| measure.io_write_bytes), usage.io_write_bytes),
                processes: measure.map_or(0, |measure| measure.processes),
                suspended_us: row.suspended_us,
                frozen: row.frozen_since_us.is_some(),
            });
        }
        let left_out = self.running.len().saturating_sub(jobs.len());
        let host = HostFigures {
            memory_held_bytes: held,
            swap_held_bytes: swap_held,
            jobs_left_out: left_out as u64,
            ..self.host_figures()
        };
        let without = HostFigures { jobs_left_out: self.running.len() as u64, ..host.clone() };
        Texts {
            jobs: metrics::text(&host, &jobs),
            host: metrics::text(&without, &[]),
            see_jobs: self.see_jobs(),
        }
    }

    /// Those of no project first, so that they are told of however many others there are.
    fn project_figures(&self) -> Vec<ProjectView> {
        let mut all = self.projects_view();
        if !all.is_empty() {
            all.rotate_right(1);
        }
        all
    }

    fn host_figures(&mut self) -> HostFigures {
        let (slots_used, slots) = self.policy.slots();
        let states =
            [JobState::Queued, JobState::Held, JobState::Running, JobState::Frozen, JobState::Parked];
        let count = |state| self.jobs.values().filter(|live| live.row.state == state).count() as u64;
        let jobs = states.into_iter().map(|state| (state, count(state))).collect();
        let mut stalled = Vec::new();
        for resource in [PressureResource::Cpu, PressureResource::Memory, PressureResource::Io] {
            let Ok(Some(pressure)) = self.proc.pressure(resource) else { continue };
            stalled.push((resource.as_str(), "some", pressure.some.total_us));
            stalled.extend(pressure.full.map(|full| (resource.as_str(), "full", full.total_us)));
        }
        let own = self.proc.stat(std::process::id()).ok().flatten();
        let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
        let store_writable = self.journal.trouble().is_none();
        let path = self.journal.store().path().to_owned();
        let size = |path: &std::path::Path| std::fs::metadata(path).map_or(0, |found| found.len());
        let Ended { succeeded, failed, killed, not_started } = self.ended;
        HostFigures {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            host: self.host.clone(),
            mode: self.containers.plan().mode.as_str().to_owned(),
            cores: self.policy.machine().cores.len() as u64,
            slots: slots as u64,
            slots_used: slots_used as u64,
            draining: self.draining,
            jobs,
            ended: [
                ("succeeded", succeeded),
                ("failed", failed),
                ("killed", killed),
                ("not_started", not_started),
            ],
            memory_budget_bytes: self.budget_bytes(),
            freezes: {
                let Freezes { count, sum_us, half_us, most_us } = self.governor.witness.freezes();
                metrics::FreezeFigures { count, sum_us, half_us, most_us }
            },
            stalled,
            turns: self.turn.figures(),
            store_bytes: size(&path) + size(&path.with_extension("db-wal")),
            store_writable,
            daemon_cpu_us: own.map_or(0, |stat| ticks_to_us(stat.user_ticks + stat.system_ticks)),
            daemon_resident_bytes: own.map_or(0, |stat| stat.resident_pages * page_bytes),
            projects: self.project_figures(),
            ..HostFigures::default()
        }
    }
}

#[cfg(test)]
mod tests;
