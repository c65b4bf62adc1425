//! The scheduler's step: routes an event to the room it concerns, makes a pass, and collects the decisions.

use std::collections::BTreeSet;
use std::time::Duration;

use pinfold_topo::CpuSet;

use crate::api::{
    ChunkInfo, Decision, Event, Explanation, Holding, Instant, JobId, JobInfo, Kind, Machine, Settings,
};
use crate::apply::reconcile;
use crate::cores::trials::Known;
use crate::cores::{borders, fair_tail, isolation, others, shape, slots};
use crate::explain::Unforeseen;
use crate::memory::ladder::{checkpoint, throttle};
use crate::memory::numa::{bind, placement};
use crate::memory::{forecast, oracle, readings};
use crate::rooms::Rooms;
use crate::schedule::{
    adopt, commands, configure, due, end, failed, lend, machine, nodes, pass, relieve, sample, submit,
    transition,
};
use crate::shares::holding;
use crate::{explain, queue, schedule};

/// The scheduler.
#[derive(Debug, Clone, Default, serde::Serialize, serde::Deserialize)]
pub struct Policy {
    rooms: Rooms,
}

impl Policy {
    /// Takes in what happened at `now` and says what to do, in this order. A time before that of an earlier
    /// event counts as that one's.
    pub fn step(&mut self, now: Instant, event: Event) -> Vec<Decision> {
        let rooms = &mut self.rooms;
        rooms.now = rooms.now.max(now);
        rooms.jobs.begin_step();
        let adopted = rooms.jobs.is_adopting();
        rooms.jobs.set_adopting(matches!(event, Event::Adopt(_)));
        let newcomer = route(rooms, event);
        if adopted && !rooms.jobs.is_adopting() {
            end::forget_unknown_predecessors(rooms);
        }
        // After the event: a job that ends in the moment in which it would expire has ended.
        due::fire_timers(rooms);
        if !rooms.jobs.is_adopting() {
            pass::schedule_pass(rooms);
        }
        if newcomer.is_some_and(|job| submit::refuse_if_full(rooms, job)) && !rooms.jobs.is_adopting() {
            pass::schedule_pass(rooms); // it may have stood before others
        }
        if !rooms.jobs.is_adopting() {
            relieve::take(rooms, throttle::outdated(rooms));
            relieve::take(rooms, throttle::protection(rooms));
            nodes::settle(rooms);
            let changed = fair_tail::update(
                &mut rooms.cores,
                &rooms.jobs,
                &rooms.settings,
                !rooms.queue.host().is_empty(),
                |job| rooms.pending.is_marked(job),
            );
            transition::apply(rooms, changed);
            reconcile::reconcile_all(&mut rooms.pending, &mut rooms.jobs, &rooms.cores, &rooms.settings);
            let bindings =
                bind::reconcile_nodes(&mut rooms.nodes, &rooms.jobs, || rooms.pending.told_to_start());
            bindings.into_iter().for_each(|decision| rooms.pending.decide(decision));
        }
        rooms.pending.finish()
    }

    /// When [`Event::Tick`] is wanted next, if at all.
    #[must_use]
    pub fn next_wakeup(&self) -> Option<Instant> {
        if self.rooms.jobs.is_adopting() { Some(self.rooms.now) } else { self.rooms.jobs.next_due() }
    }

    /// The jobs that wait or live, by number.
    pub fn jobs(&self) -> impl Iterator<Item = JobInfo> + '_ {
        self.rooms.jobs.values().map(|job| explain::info(&self.rooms, job))
    }

    /// One job; `None` when it is unknown or over.
    #[must_use]
    pub fn job(&self, job: JobId) -> Option<JobInfo> {
        self.rooms.jobs.get(&job).map(|job| explain::info(&self.rooms, job))
    }

    /// The most memory in bytes that a job which has started can ask for and have: what it counts for, and what is free
    /// beside all others, which are frozen for what it asks for beyond that. `None`: it waits, or memory is not governed.
    #[must_use]
    pub fn may_claim(&self, job: JobId) -> Option<u64> {
        oracle::may_claim(&self.rooms, self.rooms.jobs.get(&job)?)
    }

    /// Why `job` is in the state it is in, and what would change it; `None` for an unknown job.
    #[must_use]
    pub fn explain(&self, now: Instant, job: JobId) -> Option<Explanation> {
        explain::explain(&self.rooms, now, job)
    }

    /// How long until a waiting job probably starts, if the jobs before it end after their usual run time, which `length`
    /// tells.
    ///
    /// # Errors
    /// Why that cannot be estimated.
    pub fn expected_start(
        &self,
        now: Instant,
        job: JobId,
        length: impl Fn(JobId) -> Option<Duration>,
    ) -> Result<Duration, Unforeseen> {
        explain::expected_start(&self.rooms, now, job, length)
    }

    /// The slots in use and all slots. An exclusive job uses all. More may be in use than there are: when
    /// slots became fewer and the jobs on them may not be frozen, and while scheduling is off.
    #[must_use]
    pub fn slots(&self) -> (usize, usize) {
        slots::in_use(&self.rooms.cores, &self.rooms.settings)
    }

    /// What processes that are no jobs use, smoothed, in thousandths of a core, and the slots that are not handed out
    /// for that; `None`: it does not count, or was not read.
    #[must_use]
    pub fn others(&self) -> Option<(u64, usize)> {
        let used_milli = self.rooms.cores.others().used_milli()?;
        Some((
            used_milli,
            others::withheld(
                &self.rooms.cores,
                &self.rooms.settings,
                slots::total(&self.rooms.cores, &self.rooms.settings),
            ),
        ))
    }

    /// The jobs whose wait for their turn began or broke off in the last step, by number, as far as they have not started:
    /// since when each waits, by which its expiry and its right to go first are counted; `None`: it is held, or waits for a
    /// time or other jobs. To be passed on in [`Adopted::waits_since`](crate::Adopted::waits_since) after a restart.
    pub fn waits_changed(&self) -> impl Iterator<Item = (JobId, Option<Instant>)> + '_ {
        self.rooms.jobs.waits_changed()
    }

    /// How many jobs wait for their start, held ones included.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.rooms.jobs.waiting()
    }

    /// How many jobs could start, or go on, if there were a slot or memory for them: held ones and those that wait for
    /// others are not among them.
    #[must_use]
    pub fn ready(&self) -> usize {
        queue::line::ready(&self.rooms)
    }

    /// Whether a waiting job needs more cores than jobs may have while other users' daemons have jobs.
    #[must_use]
    pub fn waits_for_neighbours(&self, job: JobId) -> bool {
        self.rooms.jobs.get(&job).is_some_and(|job| borders::waits_for_neighbours(&self.rooms.cores, job))
    }

    /// The jobs with a slot that are parents of unfinished jobs, at any depth. [`Event::Idle`] tells which are idle.
    #[must_use]
    pub fn parents(&self) -> BTreeSet<JobId> {
        lend::parents(&self.rooms)
    }

    /// The machine as last told.
    #[must_use]
    pub fn machine(&self) -> &Machine {
        self.rooms.cores.machine()
    }

    /// The settings as last told.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.rooms.settings
    }

    /// The job that is never frozen or paged out for another, if memory is governed and any job lives.
    #[must_use]
    pub fn memory_token(&self) -> Option<JobId> {
        self.rooms.memory.token()
    }

    /// Whether memory should be read often: it is short, or could be within seconds.
    #[must_use]
    pub fn memory_is_tight(&self) -> bool {
        oracle::memory_is_tight(&self.rooms)
    }

    /// What part of what they hold, in thousandths, the next of a class are expected to need in RAM: the least with
    /// which one ran, since one refaulted; `None`: it is not known.
    #[must_use]
    pub fn part_of(&self, kind: Kind) -> Option<u16> {
        forecast::part_of(&self.rooms, kind)
    }

    /// What each project has and what is its own, by name; last the jobs of no project. Empty without projects.
    #[must_use]
    pub fn projects(&self) -> Vec<Holding> {
        holding::projects(&self.rooms)
    }

    /// All groups of NUMA nodes that several jobs share, by their first node.
    #[must_use]
    pub fn chunks(&self) -> Vec<ChunkInfo> {
        placement::all_groups(&self.rooms)
    }

    /// What is known of how the class of a job runs close together and apart, where that has a say; `None`: it does
    /// not, or nothing is known.
    #[must_use]
    pub fn known_of(&self, job: JobId) -> Option<Known> {
        shape::known_of(&self.rooms.cores, &self.rooms.jobs, &self.rooms.settings, job)
    }

    /// Whether a job may start as far as its array goes; one that has started may go on in any case.
    #[must_use]
    pub fn has_room_in_array(&self, job: JobId) -> bool {
        queue::line::has_room_in_array(&self.rooms, job)
    }

    /// Cores of the host on which no job has this priority or a higher one, in logical order; none while an exclusive
    /// job has them all.
    #[must_use]
    pub fn cores_below(&self, priority: u8) -> Vec<CpuSet> {
        isolation::cores_below(&self.rooms, priority)
    }

    /// Cores of the host that no job is on, in logical order; none while an exclusive job has them all.
    #[must_use]
    pub fn idle_cores(&self) -> Vec<CpuSet> {
        isolation::idle_cores(&self.rooms)
    }

    /// Which of these jobs gets cores of its own now, and which cores: the higher priority first, then the older. No
    /// job that is held, waits for another job, or is kept back by its array; nothing of what is `taken`.
    #[must_use]
    pub fn next_to_isolate(
        &self,
        now: Instant,
        waiting: &BTreeSet<JobId>,
        taken: &CpuSet,
    ) -> Option<(JobId, CpuSet)> {
        isolation::next_to_isolate(&self.rooms, now, waiting, taken)
    }

    /// Whether a job still has use for the cores that were made its own: it is on them, or can start there.
    #[must_use]
    pub fn needs_its_cores(&self, job: JobId) -> bool {
        isolation::needs_its_cores(&self.rooms, job)
    }

    /// Whether a job waits for nothing but cores: it is not held, and waits for no other job; or it runs no longer
    /// because its cores or its slot went to others.
    #[must_use]
    pub fn waits_for_cores(&self, job: JobId) -> bool {
        isolation::waits_for_cores(&self.rooms, job)
    }

    #[cfg(test)]
    pub(crate) fn rooms(&self) -> &Rooms {
        &self.rooms
    }
}

/// Hands an event to the room it concerns; gives the job that was submitted by it.
fn route(rooms: &mut Rooms, event: Event) -> Option<JobId> {
    match event {
        Event::Configure(settings) => configure::configure(rooms, settings),
        Event::Machine(machine) => machine::set_machine(rooms, machine),
        Event::Submit(request) => return submit::submit(rooms, request),
        Event::Adopt(adopted) => adopt::adopt(rooms, adopted),
        Event::Started(job) => submit::started(rooms, job),
        Event::Failed { job, action, error } => failed::failed(rooms, job, &action, error),
        Event::Exited(job) => end::exited(rooms, job),
        Event::Requeued(job) => end::requeued(rooms, job),
        Event::Checkpointed { job, error } => {
            relieve::take(rooms, checkpoint::answered(&rooms.jobs, job, error));
        }
        Event::Gate { job, closed } => submit::gate(rooms, job, closed),
        Event::Withdrawn(job) => end::withdrawn(rooms, job),
        Event::Command(job, command) => commands::command(rooms, job, command),
        Event::Sample(sample) => sample::sample(rooms, &sample),
        Event::Idle(jobs) => rooms.cores.set_idle(jobs),
        Event::Others(used_milli) => rooms.cores.read_others(rooms.now, used_milli),
        Event::Memory(sample) => schedule::readings::measured(rooms, &sample),
        Event::Nodes(reading) => nodes::nodes_read(rooms, &reading),
        Event::Learned(kind, claim) => {
            let waiting = readings::learned(&mut rooms.memory, &rooms.jobs, kind, claim);
            transition::apply(rooms, waiting);
        }
        Event::Ran(ran) => rooms.cores.ran(ran),
        Event::Tick => {}
    }
    None
}
