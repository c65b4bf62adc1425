//! A third host: NUMA nodes that jobs fill, to check that a bound job never finds its nodes full while others have room.
//!
//! The kernel's rule is the real kernel's: a new page comes from the node of the job's cores while it has any, then from
//! the other permitted nodes; a job without a free page on its permitted nodes is killed, however much is free elsewhere.
//! Jobs grow to their requests and no further, come and go at random, and other load takes and frees memory on the nodes.
//!
//! Absent: swap, time slices, failures of anything but memory; see the crate's other hosts.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::{
    Action, Event, Instant, JobId, JobMemory, Machine, MemorySample, MemorySettings, NodeMemory, Policy,
    Request, Settings,
};
use pinfold_topo::{CpuSet, PuOs};

use crate::Violation;
use crate::dice::Dice;

/// Sizes are counted in these.
const PAGE: u64 = 1 << 20;
/// Between two readings.
const STEP_US: u64 = 1_000_000;
/// An episode that lasts longer does not end.
const STEPS_MAX: usize = 20_000;

/// The result of an episode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Jobs that ran to their ends.
    pub jobs: usize,
    /// The number of bindings of jobs to nodes,
    pub bound: usize,
    /// to several of them,
    pub shared: usize,
    /// and let go again or given fewer.
    pub narrowed: usize,
}

/// A job that runs.
#[derive(Debug)]
struct Body {
    /// The node of its first core.
    home: u32,
    /// The permitted nodes; empty: all.
    nodes: BTreeSet<u32>,
    pages: BTreeMap<u32, u64>,
    grows_by: u64,
    peak: u64,
    left_us: u64,
    frozen: bool,
}

/// The host and the jobs that are asked for.
#[derive(Debug)]
pub struct Host {
    /// The node of each PU.
    node_of: BTreeMap<PuOs, u32>,
    policy: Policy,
    capacity: u64,
    foreign: BTreeMap<u32, u64>,
    bodies: BTreeMap<JobId, Body>,
    /// Memory of jobs on each node.
    held: BTreeMap<u32, u64>,
    /// The plan of each job: peak, growth and length.
    works: BTreeMap<JobId, (u64, u64, u64)>,
    now_us: u64,
    outcome: Outcome,
}

impl Host {
    /// A host with `nodes` nodes of `cores` cores each, and this many MiB on each node.
    ///
    /// # Panics
    /// If that is no machine.
    #[must_use]
    pub fn new(nodes: u32, cores: u32, node_mib: u64) -> Self {
        let text = format!("pack:{nodes} numa:1 core:{cores} pu:1");
        let mut facts = pinfold_topo::synthetic::facts_of(&text).expect("a description of a machine");
        facts.numa.iter_mut().for_each(|node| node.memory_bytes = Some(node_mib * PAGE));
        let topology = facts.assemble().expect("a machine");
        let mut policy = Policy::default();
        let memory = MemorySettings { budget_bytes: u64::MAX, ..MemorySettings::default() };
        policy.step(
            Instant(0),
            Event::Configure(Settings { factor_milli: 1000, memory, ..Settings::default() }),
        );
        policy.step(Instant(0), Event::Machine(Machine::of(&topology, &topology.usable())));
        let foreign = (0..nodes).map(|node| (node, 0)).collect();
        Self {
            node_of: topology.pus().iter().map(|pu| (pu.os, pu.numa)).collect(),
            policy,
            capacity: node_mib,
            foreign,
            bodies: BTreeMap::new(),
            held: BTreeMap::new(),
            works: BTreeMap::new(),
            now_us: 0,
            outcome: Outcome::default(),
        }
    }

    /// Submits a job of this many cores that grows to a peak in MiB at a rate in MiB a second, and runs for the given time.
    ///
    /// # Errors
    /// When a promise is broken.
    pub fn submit(
        &mut self,
        job: u64,
        cores: u32,
        mib: u64,
        grows: u64,
        length_us: u64,
    ) -> Result<(), Violation> {
        self.works.insert(JobId(job), (mib, grows, length_us));
        self.read()?;
        let request = Request { cores, memory: Some(mib * PAGE), ..Request::plain(JobId(job)) };
        self.step(Event::Submit(request))
    }

    /// The number of running jobs.
    #[must_use]
    pub fn running(&self) -> usize {
        self.bodies.len()
    }

    /// The number of running jobs bound to nodes.
    #[must_use]
    pub fn bound(&self) -> usize {
        self.bodies.values().filter(|body| !body.nodes.is_empty()).count()
    }

    /// The result so far.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.outcome
    }

    fn free_on(&self, node: u32) -> u64 {
        let held = self.held.get(&node).copied().unwrap_or(0);
        self.capacity.saturating_sub(self.foreign[&node] + held)
    }

    fn free(&self) -> u64 {
        self.foreign.keys().map(|&node| self.free_on(node)).sum()
    }

    fn reserve(&self) -> u64 {
        let nodes = u64::try_from(self.foreign.len()).unwrap_or(1);
        nodes * self.capacity / 50
    }

    /// Lets the policy look at memory.
    fn read(&mut self) -> Result<(), Violation> {
        let available_bytes = self.foreign.keys().map(|&node| (node, self.free_on(node) * PAGE)).collect();
        let on = |body: &Body| body.pages.iter().map(|(&node, &pages)| (node, pages * PAGE)).collect();
        let jobs = self.bodies.iter().map(|(&job, body)| (job, on(body))).collect();
        let resident = |(&job, body): (&JobId, &Body)| JobMemory {
            job,
            resident_bytes: body.pages.values().sum::<u64>() * PAGE,
            swapped_bytes: 0,
            cache_bytes: 0,
            waited_milli: None,
        };
        let sample = MemorySample {
            // As the daemon reports it: a reserve is left for other load.
            available_bytes: self.free().saturating_sub(self.reserve()) * PAGE,
            jobs: self.bodies.iter().map(resident).collect(),
            ..MemorySample::default()
        };
        self.step(Event::Memory(sample))?;
        self.step(Event::Nodes(NodeMemory { available_bytes, jobs }))
    }

    fn step(&mut self, event: Event) -> Result<(), Violation> {
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            for decision in self.policy.step(Instant(self.now_us), event) {
                let job = decision.job;
                match decision.action {
                    Action::Start { cpus, .. } => {
                        self.start(job, &cpus);
                        events.push(Event::Started(job));
                    }
                    Action::Near { nodes } => self.near(job, nodes.into_iter().collect())?,
                    Action::Freeze | Action::Thaw => {
                        let frozen = decision.action == Action::Freeze;
                        if let Some(body) = self.bodies.get_mut(&job) {
                            body.frozen = frozen;
                        }
                    }
                    _ => {}
                }
            }
        }
        self.check()
    }

    fn start(&mut self, job: JobId, cpus: &CpuSet) {
        let home = self.nodes_of(cpus).first().copied().unwrap_or(0);
        let (peak, grows_by, left_us) = self.works[&job];
        let (nodes, pages) = Default::default();
        self.bodies.insert(job, Body { home, nodes, pages, grows_by, peak, left_us, frozen: false });
        self.outcome.jobs += 1;
    }

    fn nodes_of(&self, cpus: &CpuSet) -> BTreeSet<u32> {
        cpus.iter().filter_map(|pu| self.node_of.get(&pu)).copied().collect()
    }

    fn near(&mut self, job: JobId, nodes: BTreeSet<u32>) -> Result<(), Violation> {
        let Some(body) = self.bodies.get_mut(&job) else {
            return Err(Violation::new("only who runs is bound to nodes", format!("job {job}")));
        };
        let stays: u64 =
            body.pages.iter().filter(|(node, _)| nodes.contains(node)).map(|(_, pages)| pages).sum();
        let moves = body.pages.values().sum::<u64>() - stays;
        if !nodes.is_empty() && moves > (self.capacity / 100).min(64) {
            let found = format!("job {job} has {moves} MiB beyond {nodes:?}");
            return Err(Violation::new("nobody is bound to nodes where its memory is not", found));
        }
        self.outcome.bound += usize::from(!nodes.is_empty());
        self.outcome.shared += usize::from(nodes.len() > 1);
        self.outcome.narrowed += usize::from(nodes.len() < body.nodes.len());
        body.nodes = nodes;
        Ok(())
    }

    /// NUMA groups share no node, have room for their jobs' needs, and lie where their jobs are.
    fn check(&self) -> Result<(), Violation> {
        let wrong = |rule, found| Err(Violation::new(rule, found));
        let mut taken = BTreeSet::new();
        for chunk in self.policy.chunks() {
            if chunk.jobs.is_empty() || !chunk.nodes.iter().all(|node| taken.insert(*node)) {
                return wrong("chunks have jobs and no node in common", format!("{chunk:?}"));
            }
            for job in &chunk.jobs {
                let info = self.policy.job(*job);
                let nodes = info.map(|info| self.nodes_of(&info.cpus)).unwrap_or_default();
                if !nodes.iter().all(|node| chunk.nodes.contains(node)) {
                    return wrong(
                        "a chunk is where its jobs are",
                        format!("job {job} on {nodes:?}: {chunk:?}"),
                    );
                }
            }
        }
        Ok(())
    }

    /// A second goes by: jobs grow, page by page in turns, and end.
    ///
    /// # Errors
    /// When a promise is broken.
    pub fn pass(&mut self) -> Result<(), Violation> {
        self.now_us += STEP_US;
        let mut grow: Vec<(JobId, u64)> = Vec::new();
        for (&job, body) in &self.bodies {
            let held: u64 = body.pages.values().sum();
            if !body.frozen {
                grow.push((job, body.grows_by.min(body.peak - held.min(body.peak))));
            }
        }
        while grow.iter().any(|(_, pages)| *pages > 0) {
            for (job, pages) in grow.iter_mut().filter(|(_, pages)| *pages > 0) {
                *pages -= 1;
                self.take_page(*job)?;
            }
        }
        let mut over = Vec::new();
        for (&job, body) in self.bodies.iter_mut().filter(|(_, body)| !body.frozen) {
            body.left_us = body.left_us.saturating_sub(STEP_US);
            let full = body.pages.values().sum::<u64>() >= body.peak;
            if body.left_us == 0 && full {
                over.push(job);
            }
        }
        for job in over {
            for (node, pages) in self.bodies.remove(&job).map(|body| body.pages).unwrap_or_default() {
                self.held.entry(node).and_modify(|held| *held -= pages);
            }
            self.step(Event::Exited(job))?;
        }
        self.read()
    }

    fn take_page(&mut self, job: JobId) -> Result<(), Violation> {
        let body = &self.bodies[&job];
        let may = |node: &u32| body.nodes.is_empty() || body.nodes.contains(node);
        let others = self.foreign.keys().copied().filter(|node| *node != body.home);
        let order = std::iter::once(body.home).chain(others).filter(may);
        let found = order.into_iter().find(|&node| self.free_on(node) > 0);
        let Some(node) = found else {
            let found = format!("job {job}, bound to {:?}, and {} MiB are free", body.nodes, self.free());
            return Err(Violation::new("who keeps to what it said finds room on its nodes", found));
        };
        if let Some(body) = self.bodies.get_mut(&job) {
            *body.pages.entry(node).or_default() += 1;
        }
        *self.held.entry(node).or_default() += 1;
        Ok(())
    }

    /// Sets other load's memory on a node.
    fn disturb(&mut self, node: u32, mib: u64) {
        let held = self.held.get(&node).copied().unwrap_or(0);
        self.foreign.insert(node, mib.min(self.capacity.saturating_sub(held)));
    }
}

/// Plays a seed to its end.
///
/// # Errors
/// When a promise is broken.
pub fn run(seed: u64) -> Result<Outcome, Violation> {
    let mut dice = Dice::new(seed);
    let (nodes, cores) = (dice.pick(&[2u32, 2, 3, 4, 8]), dice.pick(&[1u32, 2, 4]));
    let node_mib = dice.pick(&[200u64, 1000]);
    let mut host = Host::new(nodes, cores, node_mib);
    let jobs = dice.between(5, 40);
    let percents = dice.pick(&[[51u64, 51, 51], [5, 30, 90], [20, 51, 66], [110, 40, 10]]);
    let disturbed = dice.chance(300);
    let mut asked = 0;
    for _ in 0..STEPS_MAX {
        while asked < jobs && dice.chance(400) {
            asked += 1;
            let mib = node_mib * dice.pick(&percents) / 100;
            let wide = u32::try_from(dice.between(1, u64::from(cores) + 1)).unwrap_or(1);
            let grows = dice.pick(&[mib, mib / 3 + 1, mib / 20 + 1]);
            host.submit(asked, wide, mib, grows, STEP_US * dice.between(1, 60))?;
        }
        if disturbed && dice.chance(100) {
            // Before the readings: the policy cannot know of a later change.
            let node = u32::try_from(dice.below(u64::from(nodes))).unwrap_or(0);
            let mib = dice.below(node_mib / 10);
            if host.bodies.is_empty() {
                host.disturb(node, mib);
                host.read()?;
            }
        }
        host.pass()?;
        if asked == jobs && host.running() == 0 && host.policy.jobs().next().is_none() {
            if !host.policy.chunks().is_empty() {
                return Err(Violation::new(
                    "an empty host has no chunks",
                    format!("{:?}", host.policy.chunks()),
                ));
            }
            return Ok(host.outcome());
        }
    }
    let left: Vec<JobId> = host.policy.jobs().map(|info| info.job).collect();
    Err(Violation::new("all jobs end", format!("{left:?} after {STEPS_MAX} s")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_bound_job_finds_its_nodes_full() {
        let mut all = Outcome::default();
        for seed in 0..60 {
            let outcome = run(seed).unwrap_or_else(|violation| panic!("seed {seed}: {violation}"));
            all.jobs += outcome.jobs;
            all.bound += outcome.bound;
            all.shared += outcome.shared;
            all.narrowed += outcome.narrowed;
        }
        assert!(all.jobs > 800 && all.bound > 400, "{all:?}");
        assert!(all.shared > 60 && all.narrowed > 10, "{all:?}");
    }

    /// Jobs of a little more than half a node: seven of them fit into four nodes, where a job for each node would be four.
    #[test]
    fn chunks_pack_what_single_nodes_do_not() {
        for (nodes, percent, want) in [(4, 51, 7), (2, 51, 3), (4, 66, 5), (4, 32, 12), (4, 90, 4)] {
            let mut host = Host::new(nodes, 8, 1000);
            for job in 1..=20 {
                host.submit(job, 1, 10 * percent, 25, 100 * STEP_US).unwrap();
            }
            assert_eq!((host.running(), host.bound()), (want, want), "{nodes} nodes, {percent} %");
            for _ in 0..90 {
                host.pass().unwrap();
            }
            assert_eq!(host.bound(), want, "all grew to what they need: {nodes} nodes, {percent} %");
        }
    }
}
