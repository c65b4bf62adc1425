//! What follows from the present state: too many jobs are frozen, free homes are given to the oldest
//! backfillers, free slots to the next in the queue, slots are taken from lower priorities.
//!
//! Called at the end of every step, so a slot is filled in the step in which it fell free. Each rule leads
//! away from the state in which it applies, so the loops end: a promotion uses up a free home, a start uses up
//! a queued job, and whoever is frozen for a start has a lower priority than the job that is started.

use std::cell::OnceCell;

use crate::job::{Drift, Job, Live, Out, Told};
use crate::memory::bucket_ceiling;
use crate::policy::Policy;
use crate::projects::Count;
use crate::queue::{RANK_AGED, Shape};
use crate::{Class, JobId, Preemption, Reason};

/// How many later jobs may start past a job that stands first and does not fit. Then no other starts until
/// it fits, so a wide job waits for at most as many exits as there are jobs running then.
pub(crate) const PASSED_MAX: u32 = 8;

/// How often at most the rights of projects are looked at again after others got what they left; each time somebody has
/// what was owed to them before.
pub(crate) const ROUNDS_MAX: usize = 8;

/// How a job gets its slot.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) class: Class,
    /// Who is frozen for it.
    pub(crate) freeze: Vec<JobId>,
    /// Which primaries become backfillers for it.
    pub(crate) demote: Vec<JobId>,
}

impl Policy {
    pub(crate) fn settle(&mut self) {
        if self.settings.schedule {
            self.end_rests();
            self.clear_exclusive();
            self.shrink();
            self.keep_promises();
            self.promote();
            if self.place() {
                // On cores of its own it may be at home.
                self.promote();
            }
            self.take_memory_back();
            self.let_return();
            self.fill_asides();
            self.fill();
            // Who started as a backfiller may have a right to a home, and who gave one up may have left more than that, or
            // somebody have stood still for his sake.
            for _ in 0..ROUNDS_MAX {
                let (ended, kept) = (self.end_rests(), self.keep_promises());
                if !ended && !kept {
                    break;
                }
                self.promote();
                self.fill();
            }
        } else {
            self.let_return();
            self.fill_asides();
            self.start_all();
        }
    }

    /// Nobody runs beside an exclusive job; matters after a restart between two of its freezes.
    fn clear_exclusive(&mut self) {
        let Some(by) = self.exclusive else { return };
        if self.holders.len() > 1 {
            let others: Vec<JobId> = self.holders.lowest_first().map(|(_, job)| job).collect();
            for job in others.into_iter().filter(|&job| job != by) {
                if self.may_freeze(job) {
                    self.park(job, Out::Exclusive { by }, Reason::Exclusive { by });
                }
            }
        }
    }

    /// Freezes jobs until the slots suffice: backfillers, then primaries, the lowest priority first and among
    /// equals the newest, never the foremost.
    fn shrink(&mut self) {
        let slots = self.total();
        while self.used > slots && self.exclusive.is_none() {
            let foremost = self.holders.foremost();
            let may = |job: &JobId| Some(*job) != foremost && self.may_freeze(*job);
            let backfills = |job: &JobId| self.live(*job).is_some_and(|live| live.class == Class::Backfill);
            let uses = self.uses();
            let borrowed =
                |job: &JobId| self.pools.split_cores() && self.has_borrowed(&uses, Count::Slots, *job);
            let all = || self.holders.lowest_first().map(|(_, job)| job).filter(may);
            let borrower = all().filter(borrowed).find(backfills).or_else(|| all().find(borrowed));
            let any = || all().find(backfills).or_else(|| all().next());
            let Some(job) = borrower.or_else(any) else { return };
            let reason = self.why_fewer(slots);
            self.park(job, Out::SlotsShrank, reason);
        }
    }

    /// Gives free homes to backfillers, the oldest that fits first; before all those who do with few homes only.
    pub(crate) fn promote(&mut self) {
        while self.exclusive.is_none() && self.cores.free_homes() > 0 {
            let wishing = self.holders.wishing().find_map(|job| Some((job, self.homes_for(job)?)));
            let any = || {
                let job = self.holders.oldest_promotable(self.cores.free_homes())?;
                Some((job, self.homes_for(job).expect("so many homes are free")))
            };
            let Some((job, homes)) = wishing.or_else(any) else { return };
            self.release(job);
            self.occupy(job, Class::Primary, homes);
            // One that lost its home by the same event, or should have had one, is not promoted but moved.
            let moved = |reason: &Reason| matches!(reason, Reason::CpusGone | Reason::Restored);
            if !self.marked.iter().any(|(marked, reason)| *marked == job && moved(reason)) {
                let reason = match self.ended {
                    Some(after) => Reason::Promoted { after },
                    None => Reason::PromotedToFreeCore,
                };
                self.mark(job, reason);
            }
        }
    }

    /// Homes for a backfiller.
    pub(crate) fn homes_for(&self, id: JobId) -> Option<Vec<usize>> {
        // One that stands still returns to where it was, if it can.
        let was = self.live(id).filter(|live| live.key.is_none()).and_then(|live| live.told.cpus.as_ref());
        let own = match was {
            Some(cpus) => self.cores.touched_by(cpus),
            None => self.live(id).map(|live| live.cores.clone()).unwrap_or_default(),
        };
        let job = &self.jobs[&id];
        self.cores.choose_homes(job.slots(), &own, job.request.wish.as_deref(), job.shape())
    }

    /// Cores for a backfiller.
    pub(crate) fn pinning_for(&self, id: JobId, count: usize) -> Vec<usize> {
        let job = &self.jobs[&id];
        self.cores.choose_pinning(count, job.request.wish.as_deref(), job.shape())
    }

    /// Finds cores for backfillers that lost theirs; says whether there was any.
    fn place(&mut self) -> bool {
        let mut placed = false;
        let marked: Vec<JobId> = self.marked.iter().map(|&(job, _)| job).collect();
        for job in marked {
            let wanted = self.jobs[&job].slots().min(self.cores.len());
            let misplaced = |live: &Live| {
                live.key.is_some() && live.class == Class::Backfill && live.cores.len() != wanted
            };
            if self.live(job).is_some_and(misplaced) {
                self.release(job);
                let cores = self.pinning_for(job, wanted);
                self.occupy(job, Class::Backfill, cores);
                placed = true;
            }
        }
        placed
    }

    /// Gives free slots to those who are next.
    fn fill(&mut self) {
        while self.exclusive.is_none() {
            let Some((rank, head)) = self.head() else { return };
            let exclusive = self.jobs[&head].request.class == Some(Class::Exclusive);
            if exclusive {
                if self.start_exclusive(head) {
                    return;
                }
                if !self.waits_for_guaranteed(head) {
                    return;
                }
            }
            let lack = self.lacks_memory(head);
            if lack.is_some() && self.live(head).is_some() && !exclusive {
                self.rest_for_memory(head);
                continue;
            }
            if lack.is_none()
                && !exclusive
                && let Some(plan) = self.plan(head, true)
            {
                self.admit(head, plan);
                // Those who gave way may have left more homes than the newcomer needs.
                self.promote();
                continue;
            }
            if self.asks_for_idle_cycles(head) && self.pass_best_effort() {
                continue;
            }
            if self.live(head).is_none()
                && let Some((own, plan)) = self.next_on_its_own()
            {
                self.admit(own, plan);
                continue;
            }
            let first = exclusive || rank == RANK_AGED || self.jobs[&head].passed >= PASSED_MAX;
            if (first && !self.waits_for_guaranteed(head)) || self.free_slots() == 0 {
                return;
            }
            let (room, tmp_room) = (OnceCell::new(), OnceCell::new());
            let fits = |shape: Shape| {
                self.fits(shape)
                    && self.arrays.has_room(shape.array)
                    && self.has_tmp_room(shape, &tmp_room)
                    && (shape.memory == 0 || self.has_memory_room(shape, &room))
            };
            let Some((_, next)) = self.queue.first(fits).filter(|&(_, next)| next != head) else { return };
            if self.lacks_memory(next).is_some() {
                if self.live(next).is_some() {
                    self.rest_for_memory(next);
                    continue;
                }
                return;
            }
            let Some(plan) = self.plan(next, false) else { return };
            self.admit(next, plan);
            if let Some(job) = self.jobs.get_mut(&head) {
                job.passed += 1;
            }
        }
    }

    /// The first in line, and its rank. One whose directory in memory finds no room does not stand in line: what it
    /// waits for is the end of jobs that may stand behind it, frozen.
    pub(crate) fn head(&self) -> Option<(u8, JobId)> {
        // Before all others who return, of whom a wide one may find too few slots.
        let returns = |job: &Job| job.live().and_then(|live| live.out).is_some_and(Out::is_memory);
        if let Some(token) = self.memory.token
            && let Some(job) =
                self.jobs.get(&token).filter(|job| returns(job) && self.aside_of(job).is_none())
            && let Some(entry) = job.queued.filter(|entry| self.is_in_line(entry.shape))
        {
            return Some((entry.rank, token));
        }
        let tmp_room = OnceCell::new();
        self.queue.first(|shape| self.is_in_line(shape) && self.has_tmp_room(shape, &tmp_room))
    }

    fn has_memory_room(&self, shape: Shape, room: &OnceCell<u64>) -> bool {
        let room = *room.get_or_init(|| self.memory_room());
        bucket_ceiling(shape.memory) <= room.saturating_sub(self.kept_beside(shape.pools.memory))
    }

    pub(crate) fn has_tmp_room(&self, shape: Shape, room: &OnceCell<u64>) -> bool {
        shape.tmp_bytes == 0 || shape.tmp_bytes <= *room.get_or_init(|| self.tmp_left())
    }

    /// The largest directory in memory that a job could get now. One that is alone may exceed a bound that was lowered
    /// since it was asked for.
    pub(crate) fn tmp_room(&self) -> u64 {
        let left = self.settings.tmp_left_bytes;
        match self.with_tmp().map(|job| job.request.tmp_bytes).fold(left, u64::saturating_add) {
            0 => u64::MAX,
            taken => self.settings.tmp_total_bytes.saturating_sub(taken),
        }
    }

    /// What a job that is to start can have of it.
    pub(crate) fn tmp_left(&self) -> u64 {
        if self.tmp_kept_for().is_some() { 0 } else { self.tmp_room() }
    }

    /// The job that waited too long for a directory in memory, of several the first: until it has its own, nobody else is
    /// given one, or small ones would leave no room for it for ever. Those who need none go on.
    pub(crate) fn tmp_kept_for(&self) -> Option<JobId> {
        let wants = self.queue.first(|shape| shape.tmp_bytes > 0 && self.is_possible(shape));
        let (_, id) = wants.filter(|&(rank, _)| rank == RANK_AGED)?;
        (self.jobs[&id].request.tmp_bytes > self.tmp_room()).then_some(id)
    }

    /// The jobs that have a directory in memory.
    pub(crate) fn with_tmp(&self) -> impl Iterator<Item = &Job> {
        self.lives
            .iter()
            .filter_map(|id| self.jobs.get(id))
            .map(|job| &**job)
            .filter(|job| job.request.tmp_bytes > 0)
    }

    /// Whether such a job could ever start on this machine with these settings.
    pub(crate) fn is_possible(&self, shape: Shape) -> bool {
        let (cores, total) = (shape.cores as usize, self.total());
        cores <= self.cores.len() && total > 0 && (shape.class == Some(Class::Exclusive) || cores <= total)
    }

    /// Whether such a job waits for nothing but its turn: it is possible, and its array does not keep it back.
    pub(crate) fn is_in_line(&self, shape: Shape) -> bool {
        self.is_possible(shape) && self.arrays.has_room(shape.array)
    }

    /// Whether such a job can start now without taking anything from anyone.
    fn fits(&self, shape: Shape) -> bool {
        let cores = shape.cores as usize;
        let fits = cores <= self.free_slots() && cores <= self.cores.len();
        fits && match shape.class {
            None | Some(Class::Backfill) => true,
            // Which homes it wishes is looked at when it is first in line, not here.
            Some(Class::Primary) => cores <= self.cores.free_homes() && !shape.wishes,
            Some(Class::Exclusive) => false,
        }
    }

    pub(crate) fn free_slots(&self) -> usize {
        self.total().saturating_sub(self.used)
    }

    /// How a job can get its slot now, if it can; `taking`: also from jobs of lower priority.
    pub(crate) fn plan(&self, id: JobId, taking: bool) -> Option<Plan> {
        let job = &self.jobs[&id];
        let (wanted, priority) = (job.slots(), job.request.priority);
        let Shape { cores, class: asked, .. } = job.queued?.shape;
        let slots = cores as usize;
        let preemption = if taking { self.settings.preemption } else { Preemption::Off };
        let mut freeze = Vec::new();
        if self.free_slots() < slots {
            let best_effort =
                if taking && self.comes_before_best_effort(id) { self.best_effort() } else { vec![] };
            if preemption != Preemption::Hard && best_effort.is_empty() {
                return None;
            }
            let hard = preemption == Preemption::Hard;
            let lower = self.holders.lowest_first().take_while(|&(theirs, _)| hard && theirs < priority);
            // A best-effort job takes nothing from others, or two jobs would take it from each other for ever.
            let takes = |job: &JobId| asked != Some(Class::Backfill) || self.is_best_effort(*job);
            let lower = lower.map(|(_, job)| job).filter(takes);
            let lower = lower.filter(|job| !self.jobs[job].aged && !best_effort.contains(job));
            let mut uses = self.uses();
            let victims = best_effort.iter().copied().chain(lower);
            let victims =
                victims.filter(|&job| self.may_freeze(job) && self.pays(&mut uses, Count::Slots, job, id));
            // More may be in use than there are, by jobs that may not be frozen or by the foremost.
            let wanted = slots + self.used.saturating_sub(self.total());
            let gain = |job: JobId| self.live(job).map_or(0, |live| live.slots);
            freeze = enough(victims, self.free_slots(), wanted, gain)?;
        }
        let plan = |class, freeze, demote| Some(Plan { class, freeze, demote });
        if asked == Some(Class::Backfill) {
            return plan(Class::Backfill, freeze, vec![]);
        }
        let homes = |job: JobId| {
            self.live(job).map_or(0, |live| if live.class == Class::Primary { live.cores.len() } else { 0 })
        };
        if let Some(wish) = job.request.wish.as_deref() {
            // Nobody gives way for homes that are wished: how many would have to is not known beforehand.
            // Best-effort jobs have none.
            let leaves_homes = freeze.iter().any(|&job| !self.is_best_effort(job));
            let possible =
                !leaves_homes && self.cores.choose_homes(wanted, &[], Some(wish), job.shape()).is_some();
            return match asked {
                _ if possible => plan(Class::Primary, freeze, vec![]),
                Some(Class::Primary) => None,
                _ => plan(Class::Backfill, freeze, vec![]),
            };
        }
        let free_homes = self.cores.free_homes() + freeze.iter().map(|&job| homes(job)).sum::<usize>();
        if free_homes >= wanted {
            return plan(Class::Primary, freeze, vec![]);
        }
        if preemption != Preemption::Off {
            let lower = self.holders.primaries_lowest_first().take_while(|&(theirs, _)| theirs < priority);
            let mut uses = self.uses();
            let victims = lower
                .map(|(_, job)| job)
                .filter(|job| !freeze.contains(job) && self.pays(&mut uses, Count::Homes, *job, id));
            if let Some(demote) = enough(victims, free_homes, wanted, homes) {
                return plan(Class::Primary, freeze, demote);
            }
        }
        if asked == Some(Class::Primary) { None } else { plan(Class::Backfill, freeze, vec![]) }
    }

    /// Lets a job run as planned.
    pub(crate) fn admit(&mut self, id: JobId, plan: Plan) {
        let priority = self.jobs[&id].request.priority;
        let slots = self.jobs[&id].slots();
        // By those who run now, as it was looked at.
        let early = if plan.class == Class::Exclusive { None } else { self.note_early(id) };
        for &job in &plan.freeze {
            self.park(job, Out::Preempted { by: id }, Reason::Preempted { by: id, priority });
        }
        for &job in &plan.demote {
            self.release(job);
        }
        self.dequeue(id);
        self.decide_shape(id);
        let mut room = if plan.class == Class::Primary { self.make_room(id) } else { None };
        if plan.class == Class::Primary && room.is_none() && self.live(id).is_none() {
            room = self.near_cores(id, slots);
        }
        let (wish, shape) = (self.jobs[&id].request.wish.as_deref(), self.jobs[&id].shape());
        let cores = match (plan.class, room) {
            _ if !self.settings.schedule => vec![],
            (_, Some(cores)) => cores,
            (Class::Primary, None) => {
                // A frozen one returns to where it was, if it can.
                let was = self.live(id).and_then(|live| live.told.cpus.as_ref());
                let own = was.map(|cpus| self.cores.touched_by(cpus)).unwrap_or_default();
                self.cores.choose_homes(slots, &own, wish, shape).expect("planned with so many homes free")
            }
            (Class::Backfill, None) => self.cores.choose_pinning(slots, wish, shape),
            (Class::Exclusive, None) => (0..self.cores.len()).collect(),
        };
        self.begin(id, plan.class, cores, &plan.demote, early);
    }

    /// Lets a job run on these cores, for which others become backfillers; `early`: why it may start, if that is early.
    pub(crate) fn begin(
        &mut self,
        id: JobId,
        class: Class,
        cores: Vec<usize>,
        demoted: &[JobId],
        early: Option<Reason>,
    ) {
        let priority = self.jobs[&id].request.priority;
        let thaw = self.live(id).and_then(|live| live.out);
        let mut failed = None;
        if thaw.is_none() {
            failed = self.prepare(id, class);
        }
        self.occupy(id, class, cores);
        if thaw.is_none() {
            self.note_lay(id);
        }
        // Only now, so that they are pinned where the newcomer is not.
        for &job in demoted {
            let wanted = self.jobs[&job].slots();
            let cores = self.pinning_for(job, wanted);
            self.occupy(job, Class::Backfill, cores);
            self.mark(job, Reason::Preempted { by: id, priority });
        }
        match thaw {
            Some(out) => {
                self.returns(id);
                self.mark(id, self.thaw_reason(id, out));
                self.rearm(id);
            }
            None => {
                let reason = early.unwrap_or_else(|| self.start_reason(id, class, failed));
                self.starts.push((id, reason));
            }
        }
        if self.governs() {
            // The next in this step is held against what it may need.
            self.choose_token();
        }
    }

    /// Makes a waiting job a starting one; says why its last start failed.
    fn prepare(&mut self, id: JobId, class: Class) -> Option<String> {
        let started = self.now;
        let job = self.jobs.get_mut(&id)?;
        let crate::job::Stage::Waiting(waiting) = &mut job.stage else { return None };
        let (failures, failed) = (waiting.failures, waiting.failed.take());
        let live = Live {
            starting: true,
            started,
            class,
            cores: Vec::new(),
            suspended: false,
            out: None,
            grace: None,
            signal: None,
            requeuing: false,
            checkpoints: Default::default(),
            withdrawn: false,
            failures,
            told: Told::default(),
            failed: Default::default(),
            aside: None,
            slots: 0,
            key: None,
            drift: Drift::default(),
            rests: None,
            repacked: (0, None),
            lay: None,
        };
        self.make_live(id, live);
        self.rearm(id);
        failed.map(|failed| failed.error)
    }

    fn start_reason(&self, id: JobId, class: Class, failed: Option<String>) -> Reason {
        let (used, slots) = self.slots();
        match (failed, class) {
            (Some(error), _) => Reason::Retry { error },
            _ if self.live(id).is_some_and(|live| live.aside.is_some()) => {
                Reason::SetFree { set: self.jobs[&id].request.aside.clone().unwrap_or_default() }
            }
            _ if !self.settings.schedule => Reason::Unscheduled,
            (None, Class::Primary) => Reason::HomeCoreFree { used, slots },
            (None, Class::Backfill) if self.jobs[&id].request.class == Some(class) => {
                Reason::BackfillAsked { used, slots }
            }
            (None, Class::Backfill) => Reason::BackfillSlotFree { used, slots },
            (None, Class::Exclusive) => Reason::Exclusive { by: id },
        }
    }

    fn thaw_reason(&self, id: JobId, out: Out) -> Reason {
        match out {
            _ if !self.settings.schedule => Reason::Unscheduled,
            Out::Suspended => Reason::Asked,
            Out::Memory { .. } => Reason::MemorySuffices {
                free: self.free_memory(),
                swapped: self.jobs.get(&id).map_or(0, |job| job.held.missing()),
            },
            Out::Exclusive { .. } => Reason::ExclusiveOver,
            Out::Found => Reason::Restored,
            Out::Preempted { .. }
            | Out::Lent { .. }
            | Out::SlotsShrank
            | Out::Interferes { .. }
            | Out::Survived => Reason::SlotFree,
        }
    }

    /// Starts an exclusive job, if all others may be frozen for it.
    pub(crate) fn start_exclusive(&mut self, id: JobId) -> bool {
        let clears = self.clear_for(id);
        if clears {
            self.admit(id, Plan { class: Class::Exclusive, freeze: vec![], demote: vec![] });
        }
        clears
    }

    /// Freezes all others for an exclusive job, if all may be frozen for it: backfillers, then primaries, the
    /// newest first. If one may not, nobody is frozen: the cores would only idle until it has ended.
    fn clear_for(&mut self, by: JobId) -> bool {
        if self.holders.lowest_first().any(|(_, job)| !self.gives_way(job, by)) || !self.dying.is_empty() {
            return false;
        }
        let mut others: Vec<JobId> = self.holders.backfillers_newest_first().collect();
        let mut primaries: Vec<JobId> = self.holders.primaries_lowest_first().map(|(_, job)| job).collect();
        primaries.sort_by_key(|&job| std::cmp::Reverse((self.live(job).map(|live| live.started), job)));
        others.append(&mut primaries);
        for job in others {
            self.park(job, Out::Exclusive { by }, Reason::Exclusive { by });
        }
        true
    }

    /// Whether a running job may be frozen for the exclusive job `by`: a lower one, a backfiller of the same priority
    /// unless it is the foremost, and a best-effort job of any priority.
    pub(crate) fn gives_way(&self, job: JobId, by: JobId) -> bool {
        let (theirs, ours) = (self.jobs[&job].request.priority, self.jobs[&by].request.priority);
        let backfiller = self.live(job).is_some_and(|live| live.class == Class::Backfill);
        let lower = theirs < ours || (theirs == ours && backfiller && self.holders.foremost() != Some(job));
        let gives_way = self.is_best_effort(job) || (lower && !self.jobs[&job].aged);
        gives_way && !self.is_guaranteed_beside(job, by) && self.may_freeze(job)
    }

    /// Whether the judgement may freeze a job at all.
    pub(crate) fn may_freeze(&self, id: JobId) -> bool {
        let Some(job) = self.jobs.get(&id).filter(|job| !job.request.no_suspend) else { return false };
        job.live().is_some_and(|live| {
            !live.starting && !live.requeuing && live.grace.is_none() && live.out.is_none()
        })
    }

    pub(crate) fn holders_highest_first(&self) -> Vec<JobId> {
        let mut all: Vec<JobId> = self.holders.lowest_first().map(|(_, job)| job).collect();
        all.reverse();
        all
    }

    pub(crate) fn mark_holders(&mut self, reason: &Reason) {
        for job in self.holders_highest_first().into_iter().chain(self.in_asides()) {
            self.mark(job, reason.clone());
        }
    }

    /// Scheduling is off: everyone runs.
    fn start_all(&mut self) {
        while let Some((_, job)) = self.queue.first(|shape| self.arrays.has_room(shape.array)) {
            self.admit(job, Plan { class: Class::Primary, freeze: vec![], demote: vec![] });
        }
    }
}

/// The first of `candidates` that together with what is `free` make up `wanted`, without those that turn out
/// to be needless; `None` if all together do not suffice.
fn enough(
    candidates: impl Iterator<Item = JobId>,
    free: usize,
    wanted: usize,
    gain: impl Fn(JobId) -> usize,
) -> Option<Vec<JobId>> {
    let (mut chosen, mut sum) = (Vec::new(), free);
    for job in candidates {
        if sum >= wanted {
            break;
        }
        let gain = gain(job);
        if gain > 0 {
            sum += gain;
            chosen.push(job);
        }
    }
    // A large one chosen late may make small ones before it needless.
    chosen.reverse();
    chosen.retain(|&job| {
        let needed = sum - gain(job) < wanted;
        sum -= if needed { 0 } else { gain(job) };
        needed
    });
    chosen.reverse();
    (sum >= wanted).then_some(chosen)
}
