//! Projects: cores and memory that are theirs when they want them and others' when they do not.
//!
//! What is guaranteed is home cores, and memory to start with. Each project with a guarantee has a pool of its own; all
//! other jobs share the pool of what no project is guaranteed. Whoever has more than is in its pool has borrowed. A
//! pool that wants what is its own and does not have it takes it back in the step in which that turns out: a borrower's
//! primary becomes a backfiller, and where no slot is left the last of the borrowers is frozen. Between pools this goes
//! before priorities and before the queue; within a pool both hold. Who has not borrowed pays nothing.
//!
//! Memory can be taken back only as fast as swap takes it, and not at all without. So it is lent only as far as swap
//! could take it. Absent: jobs in sets of cores, which have what is in their set; and who may run in which project.

mod holding;
mod memory;

use std::collections::{BTreeMap, BTreeSet};

use crate::job::{Job, Out};
use crate::policy::Policy;
use crate::queue::{RANK_AGED, Shape};
use crate::rules::{PASSED_MAX, Plan, ROUNDS_MAX};
use crate::{Class, JobId, Reason};

pub use holding::Holding;

/// The pools that a job takes from: 0 is what no project is guaranteed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(crate) struct PoolIds {
    pub(crate) cores: u16,
    pub(crate) memory: u16,
}

/// What is whose.
#[derive(Debug, Default)]
pub(crate) struct Pools {
    of: BTreeMap<String, PoolIds>,
    /// Whose pool it is, and what is guaranteed.
    cores: Vec<(Option<String>, u64)>,
    memory: Vec<(Option<String>, u64)>,
    /// The home cores of each pool on the host as it is.
    shares: Vec<usize>,
}

impl Pools {
    /// The pools of a job of this project.
    pub(crate) fn of(&self, project: Option<&str>) -> PoolIds {
        project.and_then(|name| self.of.get(name)).copied().unwrap_or_default()
    }

    /// Whether any project is guaranteed cores.
    pub(crate) fn split_cores(&self) -> bool {
        self.cores.len() > 1
    }

    /// Whether any project is guaranteed memory.
    pub(crate) fn split_memory(&self) -> bool {
        self.memory.len() > 1
    }

    fn name(&self, pool: u16) -> Option<String> {
        self.cores.get(usize::from(pool)).and_then(|(name, _)| name.clone())
    }

    fn share(&self, pool: u16) -> usize {
        self.shares.get(usize::from(pool)).copied().unwrap_or(0)
    }
}

/// `all` as it is divided: so much for each, or in proportion where that is more than there is, and the rest for the
/// first.
fn divide(all: u64, guaranteed: &[(Option<String>, u64)]) -> Vec<u64> {
    let sum: u128 = guaranteed.iter().map(|&(_, amount)| u128::from(amount)).sum();
    let part = |amount: u64| match sum {
        sum if sum > u128::from(all) => {
            u64::try_from(u128::from(amount) * u128::from(all) / sum).expect("at most all")
        }
        _ => amount,
    };
    let mut shares: Vec<u64> = guaranteed.iter().map(|&(_, amount)| part(amount)).collect();
    if let Some((rest, others)) = shares.split_first_mut() {
        *rest = all.saturating_sub(others.iter().sum());
    }
    shares
}

/// What each pool has.
#[derive(Debug)]
pub(crate) struct Uses {
    homes: Vec<usize>,
    slots: Vec<usize>,
}

/// What is counted of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Count {
    /// Home cores.
    Homes,
    /// Slots.
    Slots,
}

impl Policy {
    /// The projects are now those of the settings.
    pub(crate) fn renew_pools(&mut self) {
        let mut projects = self.settings.projects.clone();
        projects.sort_by(|a, b| a.name.cmp(&b.name));
        let mut pools = Pools::default();
        (pools.cores, pools.memory) = (vec![(None, 0)], vec![(None, 0)]);
        for project in projects {
            let mut ids = PoolIds::default();
            let place = |pools: &mut Vec<(Option<String>, u64)>, amount: Option<u64>| {
                let Some(amount) = amount else { return 0 };
                pools.push((Some(project.name.clone()), amount));
                u16::try_from(pools.len() - 1).unwrap_or(0)
            };
            ids.cores = place(&mut pools.cores, project.cores.map(u64::from));
            ids.memory = place(&mut pools.memory, project.memory_bytes);
            pools.of.insert(project.name, ids);
        }
        self.pools = pools;
        let all: Vec<JobId> = self.jobs.keys().copied().collect();
        for id in all {
            self.dequeue(id);
            if let Some(job) = self.jobs.get_mut(&id) {
                job.pools = self.pools.of(job.request.project.as_deref());
            }
            self.enqueue(id);
        }
    }

    /// The cores or the slots became more or fewer.
    pub(crate) fn renew_shares(&mut self) {
        // A home without a slot is of no use.
        let all = self.cores.len().min(self.total()) as u64;
        let shares = divide(all, &self.pools.cores);
        self.pools.shares = shares.into_iter().map(|share| usize::try_from(share).unwrap_or(0)).collect();
    }

    fn pool(&self, job: JobId) -> u16 {
        self.jobs.get(&job).map_or(0, |job| job.pools.cores)
    }

    pub(crate) fn uses(&self) -> Uses {
        let pools = self.pools.cores.len().max(1);
        let mut uses = Uses { homes: vec![0; pools], slots: vec![0; pools] };
        for (_, id) in self.holders.lowest_first() {
            let pool = usize::from(self.pool(id));
            uses.homes[pool] += self.amount(Count::Homes, id);
            uses.slots[pool] += self.amount(Count::Slots, id);
        }
        uses
    }

    fn amount(&self, count: Count, id: JobId) -> usize {
        let Some(live) = self.live(id) else { return 0 };
        match (count, live.class) {
            (Count::Homes, Class::Primary) => live.cores.len(),
            // All of them; but it is dealt with by itself.
            (Count::Homes, Class::Backfill | Class::Exclusive) => 0,
            (Count::Slots, _) => live.slots,
        }
    }

    /// Whether the pool of a job has more than is its own.
    pub(crate) fn has_borrowed(&self, uses: &Uses, count: Count, id: JobId) -> bool {
        let pool = self.pool(id);
        uses.of(count, pool) > self.pools.share(pool)
    }

    /// Whether a job may lose what it has for a job of higher priority: of the same pool, or what its pool borrowed.
    /// Notes that it does.
    pub(crate) fn pays(&self, uses: &mut Uses, count: Count, id: JobId, by: JobId) -> bool {
        let pool = self.pool(id);
        if !self.pools.split_cores() {
            return true;
        }
        if pool == self.pool(by) {
            // One that cannot have what is their own, or wants no home, leaves it: it would be taken back from it at once.
            let share = self.pools.share(pool);
            let wants = self
                .jobs
                .get(&by)
                .is_some_and(|job| job.request.class != Some(Class::Backfill) && job.slots() <= share);
            let homes = self.amount(Count::Homes, id);
            return wants || homes == 0 || uses.of(Count::Homes, pool).saturating_sub(homes) >= share;
        }
        // Who is frozen loses homes as well.
        let counts = if count == Count::Slots { &[Count::Slots, Count::Homes][..] } else { &[Count::Homes] };
        let loses = |count: &&Count| self.amount(**count, id) > 0;
        let left = |count: Count| uses.of(count, pool).saturating_sub(self.amount(count, id));
        let pays = counts.iter().filter(loses).all(|&count| left(count) >= self.pools.share(pool));
        if pays {
            counts.iter().for_each(|&count| uses.take(count, pool, self.amount(count, id)));
        }
        pays
    }

    /// Whether a job has what its own project is guaranteed, so that an exclusive job of others waits for its end.
    pub(crate) fn is_guaranteed_beside(&self, id: JobId, by: JobId) -> bool {
        let pool = self.pool(id);
        pool != 0 && pool != self.pool(by) && self.pools.share(pool) > 0
    }

    /// Whether a job that waits long may wait on without holding others up: others have what is their own, and do not
    /// leave it enough.
    pub(crate) fn waits_for_guaranteed(&self, id: JobId) -> bool {
        if !self.pools.split_cores() {
            return false;
        }
        let (uses, own) = (self.uses(), self.pool(id));
        let others = (0..self.pools.cores.len()).filter(|&pool| pool != usize::from(own));
        let theirs: usize = others.map(|pool| uses.slots[pool].min(self.pools.shares[pool])).sum();
        let Some(job) = self.jobs.get(&id) else { return false };
        let exclusive = job.request.class == Some(Class::Exclusive);
        let wanted = if exclusive { self.total() } else { job.slots() };
        wanted > self.total().saturating_sub(theirs)
    }

    /// Home cores that are a pool's own and that it does not have.
    fn room_of(&self, pool: u16) -> usize {
        self.pools.share(pool).saturating_sub(self.uses().of(Count::Homes, pool))
    }

    /// Why a job does not get homes that are its pool's own: those who have them, and may not be frozen.
    pub(crate) fn in_the_way(&self, job: &Job, shape: Shape) -> Vec<JobId> {
        let homes = matches!(shape.class, None | Some(Class::Primary));
        let own = job.pools.cores;
        if !self.pools.split_cores() || !homes || shape.homes as usize > self.room_of(own) {
            return Vec::new();
        }
        let uses = self.uses();
        let keeps = |id: &JobId| {
            let beside = self.pool(*id) != own && self.has_borrowed(&uses, Count::Slots, *id);
            beside && !self.may_freeze(*id)
        };
        self.holders.lowest_first().map(|(_, id)| id).filter(keeps).collect()
    }

    /// Gives each pool the home cores that are its own and that it wants; says whether any got one.
    pub(crate) fn keep_promises(&mut self) -> bool {
        if !self.pools.split_cores() {
            return false;
        }
        // What one takes back may leave another, who was looked at before, without what is its own. Nobody else is given
        // anything in between: those who come first would take it again.
        let mut kept = false;
        for _ in 0..ROUNDS_MAX {
            if !self.keep_promises_once() {
                break;
            }
            kept = true;
        }
        kept
    }

    fn keep_promises_once(&mut self) -> bool {
        let (mut tried, mut kept) = (BTreeSet::new(), false);
        for pool in 0..u16::try_from(self.pools.cores.len()).unwrap_or(u16::MAX) {
            while let Some((id, passed)) = self.entitled(pool, &tried) {
                tried.insert(id);
                if !self.take_homes_for(id) {
                    continue;
                }
                kept = true;
                if let Some(job) = passed.and_then(|job| self.jobs.get_mut(&job)) {
                    job.passed += 1;
                }
            }
        }
        kept
    }

    /// The next job of a pool that wants homes which are its pool's own, and the one of its pool that it passes.
    fn entitled(&self, pool: u16, tried: &BTreeSet<JobId>) -> Option<(JobId, Option<JobId>)> {
        let room = self.room_of(pool);
        if room == 0 {
            return None;
        }
        let wants = |id: &JobId| {
            let job = &self.jobs[id];
            let asked = matches!(job.request.class, None | Some(Class::Primary));
            asked && job.pools.cores == pool && job.slots() <= room && !tried.contains(id)
        };
        let mut backfillers: Vec<JobId> = self.holders.backfillers_newest_first().filter(wants).collect();
        if let Some(oldest) = backfillers.pop() {
            return Some((oldest, None));
        }
        let mine = |shape: &Shape| {
            let placeable = shape.tmp_bytes == 0 || shape.tmp_bytes <= self.tmp_left();
            let homes = shape.class != Some(Class::Backfill);
            homes && shape.pools.cores == pool && placeable && self.is_in_line(*shape)
        };
        let fits = |shape: &Shape| shape.class != Some(Class::Exclusive) && shape.homes as usize <= room;
        let (rank, head) = self.queue.first(|shape| mine(&shape))?;
        let shape = self.jobs[&head].queued?.shape;
        if fits(&shape) && !tried.contains(&head) {
            return Some((head, None));
        }
        let exclusive = shape.class == Some(Class::Exclusive);
        let first = exclusive || rank == RANK_AGED || self.jobs[&head].passed >= PASSED_MAX;
        if first && !self.waits_for_guaranteed(head) {
            return None; // as in the queue of all
        }
        let next = self.queue.first(|other| mine(&other) && fits(&other) && other != shape);
        next.map(|(_, next)| (next, Some(head))).filter(|(next, _)| !tried.contains(next))
    }

    /// Gives a job home cores that are its pool's own, from those who borrowed them if need be; says whether it could.
    fn take_homes_for(&mut self, id: JobId) -> bool {
        let waits = self.live(id).is_none_or(|live| live.key.is_none());
        if waits && self.lacks_memory(id).is_some() {
            return false;
        }
        let slots =
            if waits { self.jobs[&id].queued.map_or(0, |entry| entry.shape.cores as usize) } else { 0 };
        if waits && self.exclusive.is_none() && self.free_slots() >= slots && self.homes_for(id).is_some() {
            // Nobody has to give way.
            self.admit(id, Plan { class: Class::Primary, freeze: vec![], demote: vec![] });
            return true;
        }
        let early = self.note_early(id);
        let Some(taken) = self.lift(id, slots) else { return false };
        let project = self.pools.name(self.pool(id));
        let reason = Reason::TakenBack { project, by: id };
        for &(job, frozen) in &taken.from {
            if frozen {
                self.park(job, Out::Lent { by: id }, reason.clone());
            }
        }
        if waits {
            self.dequeue(id);
            self.begin(id, Class::Primary, taken.homes, &[], early);
        } else {
            self.release(id);
            self.occupy(id, Class::Primary, taken.homes);
        }
        self.tell_guaranteed(id);
        // Only now, so that they are pinned where the newcomer is not.
        for (job, _) in taken.from.into_iter().filter(|&(_, frozen)| !frozen) {
            let cores = self.pinning_for(job, self.jobs[&job].slots());
            self.occupy(job, Class::Backfill, cores);
            self.mark(job, reason.clone());
        }
        true
    }

    /// The reason for which a job got its homes is that they are its pool's own.
    fn tell_guaranteed(&mut self, id: JobId) {
        let pool = self.pool(id);
        let used = self.uses().of(Count::Homes, pool);
        let reason =
            Reason::Guaranteed { project: self.pools.name(pool), used, cores: self.pools.share(pool) };
        // One that lost its home by the same event is not favoured but moved.
        let moved = |reason: &Reason| matches!(reason, Reason::CpusGone | Reason::Restored);
        if self.marked.iter().any(|(job, why)| *job == id && moved(why)) {
            return;
        }
        match self.starts.iter_mut().find(|(job, _)| *job == id) {
            Some((_, Reason::Retry { .. })) => {}
            Some((_, why)) => *why = reason,
            None => self.mark(id, reason),
        }
    }

    /// Takes slots and homes from borrowers until a job has enough; `None`: they have not, and nothing is changed.
    fn lift(&mut self, id: JobId, slots: usize) -> Option<Taken> {
        let mut lifted: Vec<(JobId, Class, Vec<usize>, bool)> = Vec::new();
        let mut lift = |policy: &mut Self, job: JobId, freeze: bool| {
            let live = policy.live(job).expect("it has a slot");
            lifted.push((job, live.class, live.cores.clone(), freeze));
            policy.release(job);
        };
        let mut enough = true;
        if let Some(exclusive) = self.exclusive {
            let pool = self.pool(id);
            enough = pool != 0 && pool != self.pool(exclusive) && self.may_freeze(exclusive);
            if enough {
                lift(self, exclusive, true);
            }
        }
        while enough && self.free_slots() < slots {
            match self.payer(Count::Slots, id) {
                Some(payer) => lift(self, payer, true),
                None => enough = false,
            }
        }
        while enough && self.homes_for(id).is_none() {
            match self.payer(Count::Homes, id) {
                Some(payer) => lift(self, payer, false),
                None => enough = false,
            }
        }
        if !enough {
            for (job, class, cores, _) in lifted.into_iter().rev() {
                self.occupy(job, class, cores);
            }
            return None;
        }
        // A wide one that was taken late may make others needless.
        let mut from = Vec::new();
        for (job, class, cores, freeze) in lifted {
            if !freeze {
                self.occupy(job, class, cores);
                if self.homes_for(id).is_some() {
                    continue;
                }
                self.release(job);
            }
            from.push((job, freeze));
        }
        let homes = self.homes_for(id).expect("looked at after each change");
        Some(Taken { from, homes })
    }

    /// Who gives something back next: of those whose pool has borrowed, rather one whose pool keeps what is its own;
    /// the lowest priority, among equals the newest.
    fn payer(&self, count: Count, by: JobId) -> Option<JobId> {
        let (uses, own) = (self.uses(), self.pool(by));
        let backfills = |id: JobId| self.live(id).is_some_and(|live| live.class == Class::Backfill);
        let may = |&id: &JobId| {
            let has = self.amount(count, id) > 0 && self.has_borrowed(&uses, count, id);
            let freezable = count == Count::Homes || self.may_freeze(id);
            // Of the same pool only who asked for no home.
            let asked = self.jobs[&id].request.class == Some(Class::Backfill);
            has && freezable && (self.pool(id) != own || (count == Count::Slots && asked && backfills(id)))
        };
        let keeps = |&id: &JobId| {
            let pool = self.pool(id);
            uses.of(count, pool).saturating_sub(self.amount(count, id)) >= self.pools.share(pool)
        };
        let all = || self.holders.lowest_first().map(|(_, id)| id).filter(may);
        let backfiller = || all().filter(keeps).find(|&id| count == Count::Slots && backfills(id));
        backfiller().or_else(|| all().find(keeps)).or_else(|| all().next())
    }
}

/// What was taken from borrowers.
#[derive(Debug)]
struct Taken {
    /// From whom, and whether it is frozen for it.
    from: Vec<(JobId, bool)>,
    /// The homes that the job gets.
    homes: Vec<usize>,
}

impl Uses {
    fn of(&self, count: Count, pool: u16) -> usize {
        let list = if count == Count::Homes { &self.homes } else { &self.slots };
        list.get(usize::from(pool)).copied().unwrap_or(0)
    }

    fn take(&mut self, count: Count, pool: u16, amount: usize) {
        let list = if count == Count::Homes { &mut self.homes } else { &mut self.slots };
        if let Some(used) = list.get_mut(usize::from(pool)) {
            *used = used.saturating_sub(amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(all: u64, guaranteed: &[u64], want: &[u64]) {
        let first = (None, 0);
        let others = guaranteed.iter().map(|&amount| (Some(amount.to_string()), amount));
        assert_eq!(divide(all, &std::iter::once(first).chain(others).collect::<Vec<_>>()), want);
    }

    #[test]
    fn what_is_not_guaranteed_is_for_the_others() {
        check(4, &[], &[4]);
        check(4, &[1, 2], &[1, 1, 2]);
        check(4, &[4], &[0, 4]);
        check(2, &[3, 1], &[1, 1, 0]);
        check(0, &[3], &[0, 0]);
        check(u64::MAX, &[u64::MAX, u64::MAX], &[1, u64::MAX / 2, u64::MAX / 2]);
    }
}
