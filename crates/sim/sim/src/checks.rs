//! Invariants after every step, checked against the ledger, the host and the policy's statements.
//!
//! Written without the policy's rules: each check states a promise, not how it is kept.

mod drift;
mod even;
mod isolated;
mod left;
mod sets;
mod shares;
mod stalled;

use std::collections::{BTreeMap, BTreeSet};

use pinfold_policy::{Class, FrozenBy, Instant, JobId, JobInfo, Policy, Settings, State};
use pinfold_topo::CpuSet;

use crate::alone::Alone;
use crate::ledger::{Entry, Ledger, Phase};
use crate::setting::Setting;
use crate::violation::Violation;
use crate::world::World;

pub(crate) use drift::Watch;
pub(crate) use left::Left;
pub(crate) use stalled::Stalled;

/// The inputs of the checks. Settings and cores are the reported values, not the policy's.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) ledger: &'a Ledger,
    pub(crate) world: &'a World,
    pub(crate) settings: &'a Settings,
    pub(crate) cores: &'a [CpuSet],
    /// The set of cores, empty if none.
    pub(crate) set: &'a [CpuSet],
    /// The cores that are single jobs' alone.
    pub(crate) alone: &'a Alone,
    /// Other programs' changes.
    pub(crate) watch: &'a Watch,
    /// Failures not yet reported to the policy.
    pub(crate) unreported: &'a BTreeMap<JobId, u32>,
    pub(crate) now: Instant,
    /// Counts the steps.
    pub(crate) turn: usize,
}

/// A job as the checks see it.
struct Seen<'a> {
    id: JobId,
    entry: &'a Entry,
    info: JobInfo,
}

impl Seen<'_> {
    /// Its class: as decided, or as wanted while the decision is pending.
    fn class(&self) -> Option<Class> {
        let unsure = self.entry.phase == Phase::Starting || self.entry.failed.contains_key("weigh");
        if unsure { self.info.class } else { Some(self.entry.class) }
    }

    fn holds_slot(&self) -> bool {
        if self.entry.failed.contains_key("freeze") {
            // A freeze or thaw is being retried: the wanted state counts.
            return matches!(self.info.state, State::Running) && !self.entry.slotless;
        }
        self.entry.holds_slot()
    }

    fn cores(&self) -> usize {
        self.entry.request.cores.max(1) as usize
    }

    fn out(&self) -> bool {
        matches!(self.info.state, State::Frozen { by: FrozenBy::Policy })
    }
}

impl Scene<'_> {
    /// Checks all promises. Returns the jobs that wait for their project's own share and cannot have it just now.
    pub(crate) fn check(&self) -> Result<BTreeSet<JobId>, Violation> {
        let seen = self.look()?;
        for one in &seen {
            self.agrees(one)?;
        }
        // A single job each step, in turn: explaining all would be most of an episode's cost.
        if !seen.is_empty() {
            self.explained(&seen[self.turn % seen.len()])?;
        }
        self.arrays(&seen)?;
        let seen = self.isolated(seen)?;
        if !self.settings.schedule {
            return Ok(BTreeSet::new());
        }
        let seen = self.beside_sets(seen)?;
        self.bindings(&seen)?;
        self.alone(&seen)?;
        self.slots(&seen)?;
        self.promotions(&seen)?;
        self.evenness(&seen)?;
        self.someone_runs(&seen)?;
        self.work_is_conserved(&seen)?;
        self.shares(&seen)
    }

    fn total(&self) -> usize {
        let slots = self.settings.slots(self.cores.len());
        match self.settings.protect_milli {
            _ if !self.settings.backfill => slots.min(self.cores.len()),
            0 if !self.settings.hold_back => slots,
            // Another check covers the total.
            _ => slots.min(self.policy.slots().1),
        }
    }

    /// The slots a started job takes.
    fn clipped(&self, one: &Seen<'_>) -> usize {
        one.cores().min(self.total()).min(self.cores.len()).max(1)
    }

    /// The same jobs are in both books.
    fn look(&self) -> Result<Vec<Seen<'_>>, Violation> {
        let mut infos = self.policy.jobs();
        let mut seen = Vec::new();
        for (&id, entry) in &self.ledger.jobs {
            match infos.next() {
                Some(info) if info.job == id => seen.push(Seen { id, entry, info }),
                other => {
                    let found = format!("job {id} is there, the policy has {:?}", other.map(|i| i.job));
                    return Err(Violation::new("every job is accounted for exactly once", found));
                }
            }
        }
        match infos.next() {
            None => Ok(seen),
            Some(info) => {
                let found = format!("job {} is over, and the policy has it", info.job);
                Err(Violation::new("every job is accounted for exactly once", found))
            }
        }
    }

    /// The policy's statements on a job agree with its requests and with the kernel.
    fn agrees(&self, one: &Seen<'_>) -> Result<(), Violation> {
        let (entry, info) = (one.entry, &one.info);
        let wrong = |rule| Err(Violation::new(rule, format!("{info:?} {entry:?}")));
        let frozen_sure = !entry.failed.contains_key("freeze");
        let state = match (info.state, entry.phase) {
            (State::Waiting { held }, Phase::Waiting) => held == entry.held,
            (State::Starting, Phase::Starting) => true,
            (State::Running, Phase::Running) => !entry.suspended && (!entry.frozen || !frozen_sure),
            (State::Frozen { by: FrozenBy::User }, Phase::Running) => {
                entry.suspended && (entry.frozen || !frozen_sure)
            }
            (State::Frozen { by: FrozenBy::Policy }, Phase::Running) => {
                !entry.suspended && (entry.frozen || !frozen_sure)
            }
            _ => false,
        };
        if !state {
            return wrong("the state is what was asked for");
        }
        if info.priority != entry.request.priority {
            return wrong("the priority is what was asked for");
        }
        if entry.phase != Phase::Running {
            return Ok(());
        }
        let container = self.world.containers.get(&one.id);
        let heard = self.unreported.get(&one.id).is_none_or(|&count| count == 0)
            && !self.watch.is_pending(one.id, Setting::Frozen);
        if container.is_some_and(|container| container.frozen && !entry.frozen && frozen_sure && heard) {
            return wrong("nothing is frozen in the kernel that was thawed");
        }
        if info.state != State::Running || entry.slotless {
            return Ok(());
        }
        if info.class != Some(entry.class) && !entry.failed.contains_key("weigh") {
            return wrong("the class is what was asked for");
        }
        if info.cpus != entry.cpus && !entry.failed.contains_key("bind") {
            return wrong("the binding is what was asked for");
        }
        Ok(())
    }

    /// A job that does not run has a cause and a way out.
    fn explained(&self, one: &Seen<'_>) -> Result<(), Violation> {
        let told = self.policy.explain(self.now, one.id);
        match told {
            Some(told) if !told.cause.is_empty() && !told.change.is_empty() && !told.numbers.is_empty() => {
                Ok(())
            }
            told => Err(Violation::new("every state is explained", format!("job {}: {told:?}", one.id))),
        }
    }

    /// No more members of an array have started than it lets.
    fn arrays(&self, seen: &[Seen<'_>]) -> Result<(), Violation> {
        for one in seen.iter().filter(|one| one.entry.phase == Phase::Starting) {
            let Some(limit) = one.entry.request.array else { continue };
            let started = self.ledger.started_of(limit.array);
            if started > limit.at_most as usize {
                let found = format!("{started} with job {}, {limit:?}", one.id);
                return Err(Violation::new("no more members of an array start than it lets", found));
            }
        }
        Ok(())
    }

    /// No two primaries share a core; all are bound inside the machine, primaries to whole homes.
    fn bindings(&self, seen: &[Seen<'_>]) -> Result<(), Violation> {
        if !self.settings.affinity || self.cores.is_empty() {
            return Ok(());
        }
        let machine: CpuSet = self.cores.iter().flat_map(CpuSet::iter).collect();
        let mut homes = CpuSet::new();
        for one in seen.iter().filter(|one| one.holds_slot()) {
            let cpus = if one.entry.phase == Phase::Running && !one.entry.failed.contains_key("bind") {
                &one.entry.cpus
            } else {
                &one.info.cpus
            };
            let wrong = |rule| Err(Violation::new(rule, format!("{:?} bound to {cpus}", one.info)));
            if cpus.is_empty() || !cpus.is_subset(&machine) {
                return wrong("everyone is bound inside the machine");
            }
            if one.class() != Some(Class::Primary) {
                continue;
            }
            let count = self.cores.iter().filter(|core| !core.is_disjoint(cpus)).count();
            if count != one.cores() {
                return wrong("a primary has as many home cores as it asked for");
            }
            if !cpus.is_disjoint(&homes) {
                return wrong("no two primaries share a core");
            }
            homes = homes.union(cpus);
        }
        Ok(())
    }

    /// An exclusive job runs alone, beside exempt jobs and jobs about to die.
    fn alone(&self, seen: &[Seen<'_>]) -> Result<(), Violation> {
        let running = |one: &&Seen<'_>| one.holds_slot();
        let Some(exclusive) = seen.iter().filter(running).find(|one| one.class() == Some(Class::Exclusive))
        else {
            return Ok(());
        };
        let beside = seen.iter().filter(running).find(|one| {
            one.id != exclusive.id && !one.entry.exempt(self.now) && !one.entry.failed.contains_key("freeze")
        });
        match beside {
            Some(one) => {
                let found = format!("job {} beside the exclusive job {}", one.id, exclusive.id);
                Err(Violation::new("an exclusive job runs alone", found))
            }
            None => Ok(()),
        }
    }

    /// The used slots do not exceed the total, except by exempt jobs.
    fn slots(&self, seen: &[Seen<'_>]) -> Result<(), Violation> {
        let holders: Vec<&Seen<'_>> = seen.iter().filter(|one| one.holds_slot()).collect();
        if holders.iter().any(|one| one.class() == Some(Class::Exclusive)) {
            return Ok(());
        }
        let used: usize = holders.iter().map(|one| self.clipped(one)).sum();
        let rank =
            |one: &&&Seen<'_>| (one.entry.request.priority, std::cmp::Reverse((one.entry.started, one.id)));
        let foremost = holders.iter().max_by_key(rank).map(|one| one.id);
        let total = self.total();
        let said = self.policy.slots();
        if said != (used, total) {
            let found = format!("{used} of {total}, the policy says {said:?}");
            return Err(Violation::new("the slots in use are those of the jobs that run", found));
        }
        let freezable = holders.iter().find(|one| Some(one.id) != foremost && !one.entry.exempt(self.now));
        match freezable {
            Some(one) if used > total => {
                let found = format!("{used} of {total} used, job {} could be frozen", one.id);
                Err(Violation::new("no more slots are used than there are", found))
            }
            _ => Ok(()),
        }
    }

    fn free_homes(&self, seen: &[Seen<'_>]) -> usize {
        let primary = |one: &&Seen<'_>| one.holds_slot() && one.class() == Some(Class::Primary);
        let taken: usize = seen.iter().filter(primary).map(Seen::cores).sum();
        self.cores.len().saturating_sub(taken)
    }

    fn exclusive_runs(seen: &[Seen<'_>]) -> bool {
        seen.iter().any(|one| one.holds_slot() && one.class() == Some(Class::Exclusive))
    }

    /// No home is free while a backfiller could have it.
    fn promotions(&self, seen: &[Seen<'_>]) -> Result<(), Violation> {
        let homes = self.free_homes(seen);
        let could = |one: &&Seen<'_>| {
            one.holds_slot()
                && one.class() == Some(Class::Backfill)
                && one.entry.request.class != Some(Class::Backfill)
                // Its layout request may rule the free homes out.
                && one.entry.request.wish.is_none()
                && one.cores() <= homes
        };
        match seen.iter().find(could) {
            Some(one) if !Self::exclusive_runs(seen) => {
                let found = format!("{homes} free, and {:?}", one.info);
                Err(Violation::new("a free home goes to the oldest backfiller", found))
            }
            _ => Ok(()),
        }
    }

    /// A job runs if any has started and is not suspended by a user; unless the host may not be used at all.
    fn someone_runs(&self, seen: &[Seen<'_>]) -> Result<(), Violation> {
        let started = |one: &&Seen<'_>| one.entry.phase == Phase::Running && !one.entry.suspended;
        // An exclusive job also waits for jobs in sets that handle a signal.
        let heeds =
            |entry: &Entry| entry.request.aside.is_some() && entry.grace.is_some_and(|at| self.now < at);
        let waits_for_sets = self.ledger.jobs.values().any(heeds);
        let alone = |one: &Seen<'_>| one.entry.request.class == Some(Class::Exclusive) && waits_for_sets;
        let frozen = seen.iter().filter(started).find(|one| one.out() && !alone(one));
        let runs = seen.iter().any(|one| matches!(one.info.state, State::Running | State::Starting));
        match frozen {
            Some(one) if !runs && self.total() > 0 && !self.cores.is_empty() => Err(Violation::new(
                "one of the jobs that have started always runs",
                format!("{:?}", one.info),
            )),
            _ => Ok(()),
        }
    }

    /// No slot is free for a waiting job, unless an earlier job does not fit.
    fn work_is_conserved(&self, seen: &[Seen<'_>]) -> Result<(), Violation> {
        let total = self.total();
        if Self::exclusive_runs(seen) || total == 0 {
            return Ok(());
        }
        let used: usize = seen.iter().filter(|one| one.holds_slot()).map(|one| self.clipped(one)).sum();
        let (free, homes) = (total.saturating_sub(used), self.free_homes(seen));
        let waits = |one: &&Seen<'_>| match one.info.state {
            State::Waiting { .. } => self.waits_for_a_slot(one),
            State::Frozen { by } => by == FrozenBy::Policy && !one.entry.is_held_back(self.now),
            State::Starting | State::Running => false,
        };
        let candidates: Vec<&Seen<'_>> = seen.iter().filter(waits).collect();
        let (fit, blocked): (Vec<&Seen<'_>>, Vec<&Seen<'_>>) =
            candidates.into_iter().partition(|one| self.fits(one, free, homes));
        // A job whose start failed is retried later; until then it need not start, but may block others.
        for one in fit.iter().filter(|one| !one.entry.failed.contains_key("start")) {
            let before = |other: &&&Seen<'_>| self.may_go_before(other, one);
            if !blocked.iter().any(|other| before(&other)) {
                let why = self.policy.explain(self.now, one.id).map(|told| told.cause).unwrap_or_default();
                let found = format!("{free} slots and {homes} homes free, {:?} waits: {why}", one.info);
                return Err(Violation::new("no slot is free while a job waits for it", found));
            }
        }
        Ok(())
    }

    /// Whether a waiting job lacks a slot, and nothing else: its user may hold it, its set or its permitted cores may be
    /// gone, or its array may be full.
    fn waits_for_a_slot(&self, one: &Seen<'_>) -> bool {
        let kept = one.entry.is_shut_out(self.cores) || self.ledger.has_full_array(one.entry);
        !one.entry.held && !kept && one.entry.request.aside.is_none()
    }

    fn fits(&self, one: &Seen<'_>, free: usize, homes: usize) -> bool {
        let (wanted, asked) = (one.cores(), one.entry.request.class);
        let slots = if one.out() { self.clipped(one) } else { wanted };
        let asked = if slots < wanted && asked == Some(Class::Primary) { None } else { asked };
        let room = slots <= free && slots <= self.cores.len();
        room && match asked {
            None | Some(Class::Backfill) => true,
            Some(Class::Primary) => wanted <= homes && one.entry.request.wish.is_none(),
            Some(Class::Exclusive) => false,
        }
    }

    /// Whether `other`, which does not fit, may block `one`: it can run on this host, and has the higher priority or may
    /// have aged.
    fn may_go_before(&self, other: &Seen<'_>, one: &Seen<'_>) -> bool {
        let aged = other.entry.may_be_aged(self.now);
        let slots = if other.out() { self.clipped(other) } else { other.cores() };
        let exclusive = other.entry.request.class == Some(Class::Exclusive);
        let possible = slots <= self.cores.len() && (exclusive || slots <= self.total());
        possible && (aged || other.entry.request.priority >= one.entry.request.priority)
    }
}
