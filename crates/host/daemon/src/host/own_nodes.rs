//! NUMA nodes that are a set's alone, for all of their PUs are in it: other jobs' memory is moved off them before a job of
//! the set starts, and stays off as long as the set is there.
//!
//! A set of PUs set aside keeps others off its cores; what they have in memory beside these cores would stay where it is.
//! So it is moved by a thread, and the jobs are bound to all other nodes. Nodes are clean when less than 1 % of their
//! memory is foreign. A job of the set that is to start waits for that as long as memory is being moved, a minute at most;
//! what is left then is said, and the job starts all the same: memory that nobody can move goes by no waiting. Where the
//! other nodes have no room for what is to be moved, or run short later, jobs come before clean nodes: they may lie
//! anywhere. Processes that are no jobs are moved once, where `cpu.housekeeping` is set.
//!
//! Owns which nodes are whose, what was found there, and which jobs are bound elsewhere for that. Absent: nodes to which
//! the scheduler binds jobs (`numa`), which has no nodes among them that are a set's; and hosts with one node.

pub(crate) mod bound;
mod clear;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};

use clear::{Foreign, Kernel, Order, Outcome};
use pinfold_policy::JobId;
use pinfold_proto::job::OwnNodesView;
use pinfold_proto::quantity::show_size;
use pinfold_proto::row::{Codes, DecisionRow};
use pinfold_proto::view::SetKind;
use pinfold_sys::peer;
use pinfold_topo::{CpuSet, PuOs, Topology};

use crate::core::{Ctx, Outbox, in_full};
use crate::host::guard::Guard;
use crate::host::sets::Sets;
use crate::jobs::{JobTable, Jobs, starting};
use crate::store::journal::Journal;

/// Nodes of which less than this is foreign are clean, in thousandths.
const CLEAN_MILLI: u64 = 10;
/// So long a start waits for nodes to be cleared at most.
const WAIT_MAX_US: u64 = 60_000_000;
/// What is moved leaves this part of the other nodes available,
const ROOM_PART: u64 = 8;
/// and with less than this part available there, jobs may lie anywhere again.
const SHORT_PART: u64 = 16;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct OwnNodes {
    /// By the name of the set.
    kept: BTreeMap<String, Kept>,
    /// Jobs that are bound to other nodes for that, and to which.
    away: BTreeMap<JobId, Vec<u32>>,
    /// Jobs that the thread is about to bind, and how often.
    under_way: BTreeMap<JobId, u32>,
    orders: Option<Sender<Order>>,
    last_order: u64,
    outcomes: Receiver<Outcome>,
    tell: Sender<Outcome>,
    /// A byte for each outcome that is there.
    wake: UnixStream,
    waker: UnixStream,
    ended: Arc<Mutex<bool>>,
}

/// The nodes of one set.
#[derive(Debug)]
struct Kept {
    nodes: Vec<u32>,
    /// The order that clears them, as long as that is under way.
    order: Option<u64>,
    /// Why other jobs' memory may lie there.
    open: Option<String>,
    found: Option<(Foreign, Foreign)>,
    /// Jobs that start once the nodes are clear, each with why it is to start.
    waiting: BTreeMap<JobId, Option<String>>,
    /// Until when they wait at most.
    wait_until_us: u64,
}

impl Kept {
    fn new(nodes: Vec<u32>, now_us: u64) -> Self {
        let wait_until_us = now_us.saturating_add(WAIT_MAX_US);
        Self { nodes, order: None, open: None, found: None, waiting: BTreeMap::new(), wait_until_us }
    }

    fn words(&self) -> String {
        let nodes = named(&self.nodes);
        let begin = match (&self.found, self.order) {
            (_, Some(_)) => format!("{nodes}: the memory of others is being moved away"),
            (None, None) => format!("{nodes}: nobody knows what others have there"),
            (Some((before, after)), None) => {
                let mut words = format!(
                    "{nodes}: others held {} of the memory, {} since it was moved away",
                    part(before.held, before),
                    part(after.held, after)
                );
                if !is_clean(after) {
                    let of_jobs = part(after.of_jobs, after);
                    words += &format!(
                        " (1 % was aimed at; {of_jobs} is of jobs, the rest of processes that are none or of files in memory)"
                    );
                }
                words
            }
        };
        match &self.open {
            Some(why) => format!("{begin}; other jobs may lie there: {why}"),
            None => begin,
        }
    }
}

fn is_clean(foreign: &Foreign) -> bool {
    foreign.held < foreign.total / 1000 * CLEAN_MILLI
}

/// `3.2 %` of the nodes' memory.
fn part(bytes: u64, of: &Foreign) -> String {
    let milli = u128::from(bytes) * 1000 / u128::from(of.total.max(1));
    format!("{}.{} %", milli / 10, milli % 10)
}

#[expect(clippy::cast_precision_loss, reason = "a part of 1 needs no more than 53 bits")]
fn fraction(foreign: &Foreign) -> f64 {
    foreign.held as f64 / foreign.total.max(1) as f64
}

fn list(nodes: &[u32]) -> String {
    nodes.iter().map(|&node| PuOs(node)).collect::<CpuSet>().to_string()
}

fn named(nodes: &[u32]) -> String {
    let word = if nodes.len() == 1 { "node" } else { "nodes" };
    format!("{word} {}", list(nodes))
}

/// The nodes all of whose usable PUs are among these, ascending.
fn nodes_within(topology: &Topology, cpus: &CpuSet) -> Vec<u32> {
    let usable = topology.usable();
    let is_within = |node: &&pinfold_topo::NumaNode| {
        let pus = node.pus.intersection(&usable);
        !pus.is_empty() && pus.is_subset(cpus)
    };
    let mut nodes: Vec<u32> = topology.numa().iter().filter(is_within).map(|node| node.os).collect();
    nodes.sort_unstable();
    nodes
}

/// The first without the second.
fn without(all: &[u32], nodes: &[u32]) -> Vec<u32> {
    all.iter().copied().filter(|node| !nodes.contains(node)).collect()
}

/// What these nodes have available beyond a part of all that they have, in bytes.
fn room_on(topology: &Topology, available: &[(u32, u64)], nodes: &[u32], part: u64) -> u64 {
    let all = topology.numa().iter().filter(|node| nodes.contains(&node.os));
    let all = all.filter_map(|node| node.memory_bytes).fold(0, u64::saturating_add);
    clear::on(available, nodes).saturating_sub(all / part)
}

impl OwnNodes {
    pub(crate) fn new() -> io::Result<Self> {
        let (wake, waker) = UnixStream::pair()?;
        wake.set_nonblocking(true)?;
        let (tell, outcomes) = channel();
        let (kept, away, under_way) = Default::default();
        let ended = Arc::default();
        Ok(Self { kept, away, under_way, orders: None, last_order: 0, outcomes, tell, wake, waker, ended })
    }

    /// The nodes that a set has to itself.
    pub(crate) fn view(&self, set: &str) -> Option<OwnNodesView> {
        let kept = self.kept.get(set)?;
        Some(OwnNodesView {
            nodes: list(&kept.nodes),
            foreign_before: kept.found.map(|(before, _)| fraction(&before)),
            foreign_after: kept.found.map(|(_, after)| fraction(&after)),
            kept: kept.open.is_none(),
            found: kept.words(),
        })
    }

    /// Why a job's memory may not lie everywhere, in words.
    pub(crate) fn away(&self, job: JobId) -> Option<String> {
        let may = self.away.get(&job)?;
        Some(format!("it may lie on NUMA {}, for a set has all cores of the others", named(may)))
    }

    /// When a waiting job has waited long enough.
    pub(crate) fn due_us(&self) -> Option<u64> {
        let waits = |kept: &&Kept| !kept.waiting.is_empty();
        self.kept.values().filter(waits).map(|kept| kept.wait_until_us).min()
    }

    /// Whether a job waits for nodes to be cleared; it does no more.
    pub(crate) fn stops_waiting(&mut self, job: JobId) -> bool {
        self.kept.values_mut().filter_map(|kept| kept.waiting.remove(&job)).count() > 0
    }

    /// The scheduler said where a job's memory may lie, and not on these nodes.
    pub(crate) fn on_bound(&mut self, job: JobId) {
        self.away.remove(&job);
    }

    /// A job is over.
    pub(crate) fn forget(&mut self, job: JobId) {
        self.away.remove(&job);
        self.stops_waiting(job);
    }

    /// The daemon ends: nothing is bound any more, and these jobs may be bound.
    pub(crate) fn stop(&mut self) -> BTreeSet<JobId> {
        *self.ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.kept.clear();
        std::mem::take(&mut self.away).into_keys().chain(self.under_way.keys().copied()).collect()
    }

    /// The nodes that are kept clear for others than this set.
    fn closed_to(&self, set: Option<&str>) -> Vec<u32> {
        let others = self.kept.iter().filter(|(name, kept)| set != Some(name) && kept.open.is_none());
        others.flat_map(|(_, kept)| kept.nodes.iter().copied()).collect()
    }
}

impl AsFd for OwnNodes {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.wake.as_fd()
    }
}

impl OwnNodes {
    /// Sets came, went or changed, or the machine did: nodes that are a set's from now on are cleared, and those that are
    /// no more are everybody's.
    pub(crate) fn look_at_own_nodes(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        jobs: &mut Jobs,
        guard: &mut Guard,
        sets: &Sets,
    ) {
        let wanted = nodes_of_sets(ctx, sets);
        let goes =
            |(name, kept): (&String, &Kept)| (wanted.get(name) != Some(&kept.nodes)).then(|| name.clone());
        let gone: Vec<String> = self.kept.iter().filter_map(goes).collect();
        for name in &gone {
            let kept = self.kept.remove(name);
            kept.into_iter().for_each(|kept| start_those(out, &mut jobs.table, kept.waiting));
        }
        for (name, nodes) in wanted {
            if !self.kept.contains_key(&name) {
                self.clear_nodes(ctx, jobs, guard, name, nodes);
            }
        }
        if !gone.is_empty() {
            self.let_back(ctx, &mut out.journal, &mut jobs.table, guard);
        }
    }

    /// Has nodes cleared for a set, if there is room elsewhere.
    fn clear_nodes(&mut self, ctx: &Ctx, jobs: &mut Jobs, guard: &mut Guard, name: String, nodes: Vec<u32>) {
        let all = match ctx.containers.nodes() {
            Ok(all) => all,
            Err(error) => return tracing::warn!(error = %in_full(&error), "NUMA nodes cannot be kept clear"),
        };
        let rest = without(&without(&all, &nodes), &self.closed_to(None));
        if rest.is_empty() {
            return;
        }
        let now_us = ctx.clock.now_us();
        let is_in =
            |job: &JobId| jobs.table.get(job).and_then(|live| live.row.set()).as_deref() == Some(&name);
        let (own, others): (Vec<JobId>, Vec<JobId>) = jobs.running.iter().copied().partition(is_in);
        let held = others.iter().filter_map(|job| ctx.containers.memory_by_node(job.0).ok().flatten());
        let held = held.map(|lies| clear::on(&lies, &nodes)).fold(0, u64::saturating_add);
        let available = pinfold_sys::discover::node_available();
        let room = room_on(&ctx.topology, &available, &rest, ROOM_PART);
        let mut kept = Kept::new(nodes.clone(), now_us);
        let fits = held <= room;
        if !fits {
            kept.open = Some(format!(
                "they have {} there, and the other nodes have room for {}",
                show_size(held),
                show_size(room)
            ));
        }
        self.kept.insert(name.clone(), kept);
        let unbound = |job: &JobId| jobs.table.get(job).is_some_and(|live| live.memory_nodes.is_empty());
        let moved: Vec<JobId> = others.into_iter().filter(|job| fits && unbound(job)).collect();
        let strays = (ctx.configured.config.cpu_housekeeping && peer::own_uid() == 0 && fits).then_some(rest);
        let number =
            self.order(ctx, &mut jobs.table, guard, &moved, Order { nodes, own, strays, ..Order::default() });
        if let Some(kept) = self.kept.get_mut(&name) {
            kept.order = number;
        }
    }

    /// Has these jobs bound to all nodes that they may use, with what they have on `nodes` moved there; says which order
    /// that is.
    fn order(
        &mut self,
        ctx: &Ctx,
        table: &mut JobTable,
        guard: &mut Guard,
        jobs: &[JobId],
        order: Order,
    ) -> Option<u64> {
        let mut moved = Vec::with_capacity(jobs.len());
        for &job in jobs {
            let may = self.may_lie_on(ctx, table, job);
            let Some(live) = table.get_mut(&job) else { continue };
            let main = live.row.main;
            let Some(container) = live.container.as_mut().filter(|_| !may.is_empty()) else { continue };
            // Before it is bound: if this daemon dies, somebody has to unbind it.
            guard.will_bind_memory(job.0, main);
            container.forget_nodes();
            self.away.insert(job, may.clone());
            *self.under_way.entry(job).or_default() += 1;
            moved.push((job, may));
        }
        self.last_order += 1;
        let number = self.last_order;
        let order = Order { number, jobs: moved, ..order };
        let sent = self.clearer(ctx).and_then(|orders| orders.send(order).map_err(io::Error::other));
        if let Err(error) = sent {
            tracing::warn!(%error, "NUMA nodes are not cleared");
            for &job in jobs {
                self.under_way.remove(&job);
                self.leave_unbound(table, guard, job);
            }
            return None;
        }
        Some(number)
    }

    /// The thread that clears nodes, which is there once there is anything to clear.
    fn clearer(&mut self, ctx: &Ctx) -> io::Result<Sender<Order>> {
        if let Some(orders) = &self.orders {
            return Ok(orders.clone());
        }
        let (orders, received) = channel();
        let kernel = Kernel { containers: ctx.containers.again(), ended: Arc::clone(&self.ended) };
        let (tell, waker) = (self.tell.clone(), self.waker.try_clone()?);
        let life = move || clear::obey(&kernel, &received, &tell, &waker);
        std::thread::Builder::new().name("nodes".to_owned()).spawn(life)?;
        self.orders = Some(orders.clone());
        Ok(orders)
    }

    /// Nodes were cleared.
    pub(crate) fn on_nodes_cleared(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        guard: &mut Guard,
    ) {
        let mut bytes = [0; 64];
        while matches!((&self.wake).read(&mut bytes), Ok(1..)) {}
        let outcomes: Vec<Outcome> = self.outcomes.try_iter().collect();
        for outcome in outcomes {
            self.on_outcome(ctx, out, table, guard, outcome);
        }
    }

    fn on_outcome(
        &mut self,
        ctx: &Ctx,
        out: &mut Outbox,
        table: &mut JobTable,
        guard: &mut Guard,
        outcome: Outcome,
    ) {
        let of_set = self.kept.iter().find(|(_, kept)| kept.order == Some(outcome.number));
        let name = of_set.map(|(name, _)| name.clone());
        for (job, had, kept) in outcome.jobs {
            if let Some(left) = self.under_way.get_mut(&job) {
                *left -= 1;
                if *left == 0 {
                    self.under_way.remove(&job);
                }
            }
            if let Some(why) = kept {
                tracing::warn!(job = job.0, why, "a job's memory is not kept off a set's NUMA nodes");
                self.leave_unbound(table, guard, job);
            } else if let (Some(name), Some(nodes)) = (&name, self.away.get(&job)) {
                let action = format!("keep its memory on NUMA {}", named(nodes));
                let reason = format!("the others are the set {name}'s; {} were moved", show_size(had));
                note_for(ctx, &mut out.journal, table, job, &action, &reason);
            }
            self.let_back_one(ctx, &mut out.journal, table, guard, job);
        }
        let Some(name) = name else { return };
        let Some(kept) = self.kept.get_mut(&name) else { return };
        kept.order = None;
        kept.found = outcome.before.zip(outcome.after);
        let (waiting, words) = (std::mem::take(&mut kept.waiting), kept.words());
        let action = format!("clear NUMA {}", named(&kept.nodes));
        tracing::info!(set = name, found = words, "NUMA nodes were cleared");
        let its = |job: &JobId| table.get(job).and_then(|live| live.row.set()).as_deref() == Some(&name);
        let jobs: Vec<JobId> = table.keys().copied().filter(its).collect();
        for job in jobs {
            note_for(ctx, &mut out.journal, table, job, &action, &words);
        }
        start_those(out, table, waiting);
    }

    /// Whether a job that is to start waits until the nodes of its set are clear; then its start is asked for again.
    pub(crate) fn waits_for_its_nodes(
        &mut self,
        ctx: &Ctx,
        journal: &mut Journal,
        table: &mut JobTable,
        job: JobId,
    ) -> bool {
        let now_us = ctx.clock.now_us();
        let Some(live) = table.get_mut(&job) else { return false };
        let set = live.row.set();
        let Some(kept) = set.and_then(|set| self.kept.get_mut(&set)) else { return false };
        if kept.order.is_none() || kept.wait_until_us <= now_us {
            return false;
        }
        if !kept.waiting.contains_key(&job) {
            let words = format!("the memory of others is being moved off its NUMA {}", named(&kept.nodes));
            kept.waiting.insert(job, live.row.reason.replace(words));
            journal.touch(job);
        }
        true
    }

    /// Starts jobs that have waited for long enough.
    pub(crate) fn on_nodes_due(&mut self, ctx: &Ctx, out: &mut Outbox, table: &mut JobTable) {
        let now_us = ctx.clock.now_us();
        let due = self.kept.values_mut().filter(|kept| kept.wait_until_us <= now_us);
        let waiting: Vec<_> = due.map(|kept| std::mem::take(&mut kept.waiting)).collect();
        waiting.into_iter().for_each(|waiting| start_those(out, table, waiting));
    }
}

/// The nodes of each set that has some to itself, where the memory of jobs can be bound.
fn nodes_of_sets(ctx: &Ctx, sets: &Sets) -> BTreeMap<String, Vec<u32>> {
    if ctx.topology.numa_nodes() < 2 || !ctx.containers.can_bind_memory() {
        return BTreeMap::new();
    }
    let for_jobs = |set: &&crate::host::sets::Set| set.is_kept() && set.kind != SetKind::Housekeeping;
    let nodes = |set: &crate::host::sets::Set| (set.name.clone(), nodes_within(&ctx.topology, &set.cpus));
    sets.iter().filter(for_jobs).map(nodes).filter(|(_, nodes)| !nodes.is_empty()).collect()
}

fn note_for(ctx: &Ctx, journal: &mut Journal, table: &JobTable, job: JobId, action: &str, reason: &str) {
    if !table.contains_key(&job) {
        return;
    }
    let (time_us, action, reason) = (ctx.clock.now_us(), action.to_owned(), reason.to_owned());
    let codes = Some(Codes::plain("bind_memory", "own_nodes"));
    journal.decided(DecisionRow { job: job.0, time_us, action, reason, codes });
}

fn start_those(out: &mut Outbox, table: &mut JobTable, waiting: BTreeMap<JobId, Option<String>>) {
    for (job, reason) in waiting {
        if let Some(live) = table.get_mut(&job) {
            live.row.reason = reason;
            out.journal.touch(job);
        }
        starting::start_again(out, table, job);
    }
}

#[cfg(test)]
mod tests;
