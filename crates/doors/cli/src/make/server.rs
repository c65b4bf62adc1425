//! Serves a build's tokens while it runs: asks the daemon how the host stands, and puts tokens in or takes them out.
//!
//! Where no daemon answers, the tokens stay as they are until a daemon is back. Owner of state: the pool, the ledger, a
//! connection for questions. Absent here: the meaning of a host's figures ([`super::allowance`]), and which tokens are
//! lost ([`super::ledger`]).

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::time::{Duration, Instant};

use pinfold_proto::wire::{Reply, Request};
use pinfold_sys::jobserver::Pool;
use pinfold_sys::procfs::Proc;

use super::allowance::Figures;
use super::ledger::{Change, Ledger, Seen};
use crate::print::say;
use crate::run::Beside;
use pinfold_client::{Client, Dial, Failure};

/// How often the host is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// How long an answer may take before the connection is given up: the end of the build is not to wait for it.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// See the module's page.
pub(super) struct Server {
    dial: Dial,
    client: Option<Client>,
    proc: Proc,
    pool: Pool,
    ledger: Ledger,
    /// The most commands at once, regardless of free PUs.
    most: u32,
    /// Slots that its job takes.
    own_slots: u64,
    /// PUs of the host for jobs.
    pus: u64,
    /// How many commands may run at once.
    allowed: u32,
    /// The job's processes, by the last report.
    pids: Vec<u32>,
    next: Option<Instant>,
    broken: bool,
}

impl Server {
    pub(super) fn new(dial: Dial, pool: Pool, most: u32, own_slots: u64, pus: u64) -> Result<Self, Failure> {
        let proc = Proc::open(Path::new("/proc")).map_err(|error| Failure::doing("jobserver", &error))?;
        let (client, ledger) = (None, Ledger::default());
        let (allowed, pids, next, broken) = (1, Vec::new(), None, false);
        Ok(Self { dial, client, proc, pool, ledger, most, own_slots, pus, allowed, pids, next, broken })
    }

    /// The figures of host and job; `None`: no daemon answers.
    fn ask(&mut self, job: u64) -> Option<Figures> {
        if self.client.is_none() {
            self.client = self.dial.connect_within(ANSWER_MAX);
        }
        let asked = self.client.as_mut()?.ask(&Request::Status { jobs: vec![job], all: false, at_us: None });
        let Ok(Reply::Status(status)) = asked else {
            self.client = None;
            return None;
        };
        self.pids = status.jobs.first().map(|own| own.pids.clone()).unwrap_or_default();
        Figures::of(&status, self.own_slots, self.pus)
    }

    fn serve(&mut self, job: u64) -> std::io::Result<()> {
        let free = self.pool.free()?;
        let running = self.ledger.with_clients(free).saturating_add(1);
        if let Some(figures) = self.ask(job) {
            self.allowed = figures.allowance(running, self.most);
        }
        // Counted once more, close to each other: commands end meanwhile.
        let could_be_held = self.pool.could_be_held(&self.proc, &self.pids);
        let seen = Seen { free: self.pool.free()?, could_be_held };
        self.change(seen)
    }

    fn change(&mut self, seen: Seen) -> std::io::Result<()> {
        match self.ledger.look(Instant::now(), seen, self.allowed - 1) {
            Change::Put(count) => self.ledger.put(self.pool.put(count)?),
            Change::Take(count) => self.ledger.taken(self.pool.take(count)?),
            Change::Keep => {}
        }
        Ok(())
    }
}

impl Beside for Server {
    fn due(&self) -> Option<Duration> {
        self.next.map(|next| next.saturating_duration_since(Instant::now()))
    }

    /// Tokens that are too many are taken out as they come back.
    fn watched(&self) -> Option<BorrowedFd<'_>> {
        (!self.broken && self.ledger.over(self.allowed - 1) > 0).then(|| self.pool.as_fd())
    }

    fn tend(&mut self, running: Option<u64>) {
        let Some(job) = running.filter(|_| !self.broken) else {
            self.next = None;
            return;
        };
        let done = if self.next.is_none_or(|next| next <= Instant::now()) {
            let done = self.serve(job);
            self.next = Some(Instant::now() + LOOK_EVERY);
            done
        } else {
            let over = self.ledger.over(self.allowed - 1);
            self.pool.take(over).map(|count| self.ledger.taken(count))
        };
        if let Err(error) = done {
            self.broken = true;
            self.next = None;
            say(&format!("the jobserver's FIFO: {error}; its tokens stay as they are"));
        }
    }
}
