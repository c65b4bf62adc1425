//! Random events, sensible or not, and after each a count of everything from scratch.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_topo::{CpuSet, PuOs};
use proptest::prelude::*;

use crate::cores::{pick, sets};
use crate::jobs::{Job, Live, Phase, Stage, SuspendReason};
use crate::memory::numa::survey;
use crate::memory::oracle;
use crate::queue::line;
use crate::rooms::Rooms;
use crate::{
    Action, Adopted, Amount, ArrayLimit, Aside, Claim, Class, Command, Decision, Event, Instant, JobId,
    JobMemory, Kind, Machine, MemorySample, MemorySettings, NodeMemory, Place, Policy, Preemption, Project,
    Request, Running, Sample, Settings, Shape, State, Wish,
};

fn class() -> impl Strategy<Value = Class> {
    prop_oneof![Just(Class::Primary), Just(Class::Backfill), Just(Class::Exclusive)]
}

fn job() -> impl Strategy<Value = JobId> {
    (1u64..24).prop_map(JobId)
}

fn seconds(max: u64) -> impl Strategy<Value = Duration> {
    (0..max).prop_map(Duration::from_secs)
}

fn size() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0), (0u64..2048).prop_map(|mib| mib << 20), any::<u64>()]
}

fn readings() -> impl Strategy<Value = MemorySample> {
    let waited = prop::option::of(0u16..1000);
    let one =
        (job(), size(), size(), waited).prop_map(|(job, resident_bytes, swapped_bytes, waited_milli)| {
            JobMemory { job, resident_bytes, swapped_bytes, cache_bytes: resident_bytes / 3, waited_milli }
        });
    (size(), size(), size(), 0u16..1000, prop::collection::vec(one, 0..8)).prop_map(
        |(available_bytes, swap_free_bytes, swap_bytes_per_s, stalled_milli, jobs)| MemorySample {
            available_bytes,
            swap_free_bytes,
            swap_bytes_per_s,
            stalled_milli,
            jobs,
        },
    )
}

/// The memory of each node of the machine.
const NODE_BYTES: u64 = 2 << 30;

fn node_readings() -> impl Strategy<Value = NodeMemory> {
    let available = prop::collection::vec(prop_oneof![Just(NODE_BYTES), 0..NODE_BYTES], 3);
    let held = (job(), prop::collection::vec((0u32..3, 0..NODE_BYTES), 0..3));
    (available, prop::collection::vec(held, 0..6))
        .prop_map(|(available, jobs)| NodeMemory { available_bytes: (0u32..).zip(available).collect(), jobs })
}

fn memory_settings() -> impl Strategy<Value = MemorySettings> {
    (prop::bool::weighted(0.9), prop::bool::weighted(0.7), size(), 0u32..3, any::<bool>()).prop_map(
        |(governor, prediction, budget_bytes, swap_slot, steers)| MemorySettings {
            governor,
            prediction,
            budget_bytes,
            swap_slot,
            steers,
        },
    )
}

fn request() -> impl Strategy<Value = Request> {
    let asked = (job(), 1u8..=16, 1u32..4, prop::option::weighted(0.3, class()));
    let times = (prop::option::weighted(0.3, seconds(100)), prop::option::weighted(0.2, seconds(50)));
    let flags = (prop::bool::weighted(0.1), prop::bool::weighted(0.1), any::<bool>());
    let memory =
        (prop::option::weighted(0.3, size()), prop::option::weighted(0.5, (0u64..4).prop_map(Kind::of)));
    let wish = prop::option::weighted(0.2, cpus());
    let aside = prop::option::weighted(0.25, prop_oneof![Just("a".to_owned()), Just("b".to_owned())]);
    let after = prop::collection::vec(job(), 0..2);
    let project = prop::option::weighted(0.5, prop_oneof![Just("p".to_owned()), Just("q".to_owned())]);
    (asked, times, flags, memory, (wish, after, aside, project)).prop_map(
        |(
            (job, priority, cores, class),
            (expected, ttl),
            (held, no_suspend, requeue),
            (memory, kind),
            (named, after, aside, project),
        )| {
            Request {
                owner: 0,
                parent: (job.0 % 2 == 0).then_some(JobId(job.0 / 2)),
                job,
                priority,
                cores,
                class,
                expected,
                ttl,
                held,
                no_suspend,
                requeue,
                requeues: 0,
                checkpoints: 0,
                checkpoint: (cores == 2).then(|| Duration::from_secs(u64::from(priority))),
                wish: named.map(|named| Box::new(Wish { named, ..Wish::default() })),
                aside,
                place: match job.0 % 4 {
                    0 => None,
                    1 => Some(Place::Spread),
                    2 => Some(Place::Auto),
                    _ => Some(Place::Compact),
                },
                project,
                after,
                gated: job.0 % 5 == 4,
                array: (job.0 % 3 == 0).then(|| ArrayLimit {
                    array: job.0 / 12,
                    at_most: 1 + u32::try_from(job.0 / 12).unwrap(),
                }),
                list: (job.0 % 4 != 3).then_some(job.0 / 16),
                memory,
                tmp_bytes: if cores == 3 { 3 << 20 } else { 0 },
                resources: resources(job.0),
                kind,
            }
        },
    )
}

fn amount(name: &str, count: u64) -> Amount {
    Amount { name: name.to_owned(), count }
}

/// None, one or two resources.
fn resources(job: u64) -> Vec<Amount> {
    match job % 5 {
        0 => vec![amount("a", 1)],
        1 => vec![amount("a", 1 + job % 3), amount("b", 2)],
        2 => vec![amount("b", 1)],
        _ => Vec::new(),
    }
}

fn cpus() -> impl Strategy<Value = CpuSet> {
    prop::collection::vec(0u32..5, 0..3).prop_map(|pus| pus.into_iter().map(PuOs).collect())
}

fn settings() -> impl Strategy<Value = Settings> {
    let preemption = prop_oneof![Just(Preemption::Hard), Just(Preemption::Soft), Just(Preemption::Off)];
    let flags = (prop::bool::weighted(0.9), prop::bool::weighted(0.8), prop::bool::weighted(0.9));
    let rest = (memory_settings(), projects());
    (0u32..2500, 0u32..8, prop::option::of(seconds(200)), flags, preemption, rest).prop_map(
        |(factor_milli, queue_depth, queue_ttl, (affinity, backfill, schedule), preemption, rest)| {
            let (memory, projects) = rest;
            Settings {
                factor_milli,
                queue_depth,
                queue_ttl,
                affinity,
                place: if queue_depth == 4 { Place::Spread } else { Place::Auto },
                backfill,
                protect_milli: if queue_depth < 3 { 100 * queue_depth } else { 0 },
                hold_back: queue_depth % 2 == 1,
                preemption,
                schedule,
                drain: schedule && queue_depth == 7,
                tmp_total_bytes: u64::from(queue_depth) << 20,
                tmp_left_bytes: u64::from(queue_depth % 3) << 19,
                resources: vec![amount("a", u64::from(queue_depth % 4)), amount("b", 3)],
                memory,
                projects,
            }
        },
    )
}

/// None, or two that are guaranteed something or nothing.
fn projects() -> impl Strategy<Value = Vec<Project>> {
    let share = || (prop::option::weighted(0.7, 0u32..4), prop::option::weighted(0.4, size()));
    prop::option::weighted(0.7, (share(), share())).prop_map(|two| {
        let named =
            |name: &str, (cores, memory_bytes)| Project { name: name.to_owned(), cores, memory_bytes };
        two.map_or_else(Vec::new, |(p, q)| vec![named("q", q), named("p", p)])
    })
}

fn running() -> impl Strategy<Value = Running> {
    (0u64..1000, class(), cpus(), any::<bool>(), any::<bool>()).prop_map(
        |(started, class, cpus, frozen, suspended)| Running {
            started: Instant(started),
            class,
            cpus,
            frozen,
            suspended,
        },
    )
}

fn command() -> impl Strategy<Value = Command> {
    prop_oneof![
        Just(Command::Suspend),
        Just(Command::Resume),
        Just(Command::Hold),
        Just(Command::Release),
        Just(Command::Requeue),
        Just(Command::Cancel { signal: 15 }),
        (0u8..20).prop_map(Command::SetPriority),
        prop_oneof![
            Just(None),
            Just(Some(Class::Primary)),
            Just(Some(Class::Backfill)),
            Just(Some(Class::Exclusive))
        ]
        .prop_map(Command::SetClass),
    ]
}

/// Up to five of six cores, of which some may be set aside.
fn machine() -> impl Strategy<Value = Machine> {
    let cores = prop::collection::btree_set(0u32..6, 0..5);
    (cores, 0usize..3, 0usize..3, size()).prop_map(|(pus, a, b, memory_bytes)| {
        let mut cores: Vec<CpuSet> = pus.into_iter().map(|pu| CpuSet::single(PuOs(pu))).collect();
        let mut asides = Vec::new();
        for (name, count) in [("b", b), ("a", a)] {
            let cores: Vec<CpuSet> = cores.split_off(cores.len().saturating_sub(count));
            let memory_bytes = if count == 2 { memory_bytes } else { 0 };
            if !cores.is_empty() {
                asides.push(Aside { name: name.to_owned(), cores, memory_bytes, ..Aside::default() });
            }
        }
        three_nodes(cores, asides)
    })
}

/// These cores of a machine of three sockets of two cores, each socket a NUMA node.
fn three_nodes(cores: Vec<CpuSet>, asides: Vec<Aside>) -> Machine {
    let mut facts =
        pinfold_topo::synthetic::facts_of("pack:3 numa:1 core:2 pu:1").expect("it is well formed");
    facts.numa.iter_mut().for_each(|node| node.memory_bytes = Some(NODE_BYTES));
    let topology = facts.assemble().expect("it is whole");
    let cores = cores.into_iter().fold(CpuSet::new(), |all, core| all.union(&core));
    Machine { asides, ..Machine::of(&topology, &cores) }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        1 => settings().prop_map(Event::Configure),
        1 => machine().prop_map(Event::Machine),
        8 => request().prop_map(Event::Submit),
        1 => (request(), prop::option::of(running())).prop_map(|(request, running)| {
            Event::Adopt(Adopted { request, submitted: Instant(0), waits_since: None, array_room_since: None, running })
        }),
        8 => job().prop_map(Event::Started),
        6 => job().prop_map(Event::Exited),
        1 => job().prop_map(Event::Withdrawn),
        2 => (job(), prop::bool::weighted(0.2)).prop_map(|(job, closed)| Event::Gate { job, closed }),
        2 => job().prop_map(Event::Requeued),
        2 => (job(), any::<bool>()).prop_map(|(job, well)| {
            Event::Checkpointed { job, error: (!well).then(|| "EIO".to_owned()) }
        }),
        6 => (job(), command()).prop_map(|(job, command)| Event::Command(job, command)),
        6 => (prop::collection::vec(0u16..1000, 0..6), 0u32..2000, prop::collection::vec((job(), 0u16..1000), 0..6))
            .prop_map(|(idle_milli, backfill_milli, stalled_milli)| {
                Event::Sample(Sample { idle_milli, backfill_milli, stalled_milli })
            }),
        2 => prop::option::of(0u32..5000).prop_map(Event::Others),
        2 => prop::collection::vec((0u64..12).prop_map(JobId), 0..4).prop_map(Event::Idle),
        6 => readings().prop_map(Event::Memory),
        3 => node_readings().prop_map(Event::Nodes),
        1 => ((0u64..4).prop_map(Kind::of), size(), size(), size(), 1u32..9).prop_map(|(kind, usual_bytes, cold, more, runs)| {
            let held_bytes = usual_bytes.saturating_add(cold);
            let most_bytes = held_bytes.saturating_add(more);
            Event::Learned(kind, Claim { usual_bytes, held_bytes, most_bytes, runs })
        }),
        2 => Just(Event::Tick),
    ]
}

/// A step: how long after the last, what happens, and which decision of the last step failed, if any.
type Step = (u64, Event, Option<usize>);

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let pause = prop_oneof![Just(0), 0u64..3_000_000, 0u64..700_000_000];
    let failed = prop::option::weighted(0.2, 0usize..4);
    prop::collection::vec((pause, event(), failed), 1..120)
}

fn play(steps: Vec<Step>, mut check: impl FnMut(&Policy)) -> (Policy, Vec<Decision>) {
    let mut policy = Policy::default();
    policy.step(Instant(0), Event::Configure(Settings { factor_milli: 1500, ..Settings::default() }));
    policy
        .step(Instant(0), Event::Machine(Machine::flat((0..3).map(|pu| CpuSet::single(PuOs(pu))).collect())));
    let (mut now, mut log, mut last) = (0, Vec::new(), Vec::<Decision>::new());
    for (pause, event, failed) in steps {
        now += pause;
        if let Some(decision) = failed.and_then(|index| last.get(index)) {
            let (job, action) = (decision.job, decision.action.clone());
            log.extend(policy.step(Instant(now), Event::Failed { job, action, error: "EIO".into() }));
            check(&policy);
        }
        last = policy.step(Instant(now), event);
        starts_have_their_resources(&policy, &last);
        log.extend(last.iter().cloned());
        check(&policy);
    }
    (policy, log)
}

/// Whatever else is taken, by jobs that were found or from when there was more: nobody starts without.
fn starts_have_their_resources(policy: &Policy, decisions: &[Decision]) {
    let rooms = policy.rooms();
    for decision in decisions.iter().filter(|one| matches!(one.action, Action::Start { .. })) {
        let Some(job) = rooms.jobs.get(&decision.job).filter(|job| job.live().is_some()) else { continue };
        for one in &job.request.resources {
            let total =
                rooms.settings.resources.iter().find(|has| has.name == one.name).map_or(0, |has| has.count);
            assert!(rooms.jobs.taken(&one.name) <= total, "job {} starts without {one:?}", decision.job);
        }
    }
}

/// Whoever notes after each step whose wait it changed knows since when each job waits.
fn audit_told_waits(policy: &Policy, told: &mut BTreeMap<JobId, Option<Instant>>) {
    told.extend(policy.waits_changed());
    for job in policy.rooms().jobs.values() {
        match &job.stage {
            Stage::Waiting(waiting) if !waiting.held => {
                let since = (!waiting.is_early()).then_some(job.since);
                assert_eq!(told.get(&job.id()), Some(&since), "since when job {} waits", job.id());
            }
            Stage::Waiting(_) | Stage::Live(_) => {}
        }
    }
}

/// Which jobs have started, and which of them are suspended.
fn audit_lives(policy: &Policy) {
    let rooms = policy.rooms();
    let lives: BTreeSet<JobId> =
        rooms.jobs.values().filter(|job| job.live().is_some()).map(Job::id).collect();
    assert_eq!(*rooms.jobs.live_ids(), lives);
    assert!(rooms.memory.frozen().is_subset(&lives), "{:?}", rooms.memory.frozen());
    if let Some(token) = rooms.memory.token() {
        assert!(
            !rooms.memory.frozen().contains(&token) || !oracle::is_governed(rooms),
            "the token holder {token} is suspended"
        );
    }
}

/// What a job that has started is can be all at once.
fn audit_life(rooms: &Rooms, job: &Job, live: &Live) {
    let id = job.id();
    let rests = rooms.memory.frozen().contains(&id);
    assert_eq!(
        matches!(live.phase, Phase::Suspended { by_user: false, .. })
            && !rests
            && live.phase.rests().is_none(),
        job.queued.is_some(),
        "job {id} in the queue"
    );
    assert!(
        !rests || job.suspend_reason().is_some_and(SuspendReason::is_memory),
        "job {id} rests for no memory"
    );
    assert!(!live.phase.is_leaving() || !rests, "job {id} is to end");
}

/// What the state says twice is the same both times.
fn audit(policy: &Policy) {
    let rooms = policy.rooms();
    let mut homes = BTreeMap::new();
    let mut pinned = vec![0; rooms.cores.grid().len()];
    let (mut used, mut waiting, mut holders) = (0, 0, 0);
    for job in rooms.jobs.values() {
        let id = job.id();
        let Some(live) = job.live() else {
            waiting += 1;
            continue;
        };
        audit_life(rooms, job, live);
        assert_eq!(
            live.key.is_none(),
            job.suspend_reason().is_some() || live.phase.is_dying(),
            "slot of job {id}"
        );
        let Some(key) = &live.key else {
            assert!(live.cores.is_empty(), "job {id} has cores and no slot");
            continue;
        };
        assert_eq!((key.class, key.priority), (live.class, job.request.priority), "key of job {id}");
        assert_eq!(live.aside, sets::reservation_of(&rooms.cores, job), "set of job {id}");
        used += live.slots;
        let lends = rooms.cores.lent().contains(&id);
        assert!(!lends || live.slots == 0, "slots of job {id}, which lends them");
        if let Some(at) = live.aside {
            audit_in_set(policy, at, id, live);
            continue;
        }
        holders += 1;
        for &core in &live.cores {
            match live.class {
                Class::Primary => assert_eq!(homes.insert(core, id), None, "core {core} is home to two"),
                Class::Backfill => pinned[core] += 1,
                Class::Exclusive => assert_eq!(rooms.cores.exclusive(), Some(id)),
            }
        }
    }
    assert_eq!((used, waiting, holders), (rooms.cores.used(), policy.waiting(), rooms.cores.running().len()));
    for (index, core) in rooms.cores.grid().iter().enumerate() {
        assert_eq!(core.home_of, homes.get(&index).copied(), "home {index}");
        let apart = core.home_of.is_some_and(|id| rooms.jobs[&id].shape() == Shape::Spread);
        assert_eq!(core.apart, apart, "whether core {index} is of one that lies apart");
        assert_eq!(core.backfillers, pinned[index], "backfillers of core {index}");
    }
    assert_eq!(rooms.cores.grid().free_homes(), rooms.cores.grid().len() - homes.len());
    for (at, aside) in rooms.cores.reservations().iter().enumerate() {
        let taken = aside.cores.iter().filter(|core| core.home_of.is_some()).count();
        assert_eq!(aside.cores.free_homes(), aside.cores.len() - taken, "{}", aside.name);
        let in_it = |id: &JobId| rooms.jobs.live(*id).is_some_and(|live| live.aside == Some(at));
        assert!(aside.holders.iter().all(in_it), "{:?} are not all in {}", aside.holders, aside.name);
    }
    audit_resources(policy);
    audit_chunks(policy);
    survey::tests::audit(rooms);
    audit_lives(policy);
    audit_arrays(policy);
    assert!(
        rooms.pending.starts().is_empty() && rooms.pending.decisions().is_empty(),
        "something was decided and not told"
    );
    for job in policy.jobs() {
        let explanation = policy.explain(rooms.now, job.job).expect("the job is known");
        assert!(!explanation.cause.is_empty() && !explanation.change.is_empty());
    }
}

/// What jobs have of each resource is what those asked for that have started.
fn audit_resources(policy: &Policy) {
    let rooms = policy.rooms();
    for name in ["a", "b"] {
        let asked =
            |job: &Job| job.request.resources.iter().find(|one| one.name == name).map_or(0, |one| one.count);
        let taken: u64 = rooms.jobs.values().filter(|job| job.live().is_some()).map(asked).sum();
        assert_eq!(rooms.jobs.taken(name), taken, "resource {name}");
    }
    for job in rooms.jobs.values().filter(|job| job.live().is_some() || job.queued.is_none()) {
        let number = job.queued.map_or(0, |entry| entry.shape.resources);
        assert_eq!(number, 0, "job {} has what it asks for, or does not stand in line", job.id());
    }
}

/// Chunks have no node in common, and are where their jobs are.
fn audit_chunks(policy: &Policy) {
    let rooms = policy.rooms();
    let mut taken = BTreeSet::new();
    for chunk in policy.chunks() {
        assert!(!chunk.jobs.is_empty() && !chunk.nodes.is_empty(), "{chunk:?}");
        assert!(chunk.nodes.iter().all(|node| *node < 3 && taken.insert(*node)), "{chunk:?} beside others");
        for job in &chunk.jobs {
            let live = rooms
                .jobs
                .live(*job)
                .unwrap_or_else(|| panic!("job {job} is in {chunk:?} and does not live"));
            assert_ne!(live.class, Class::Exclusive, "job {job} is everywhere");
            // The machine has two PUs for each node.
            let cpus = policy.job(*job).map(|info| info.cpus).unwrap_or_default();
            assert!(
                cpus.iter().all(|pu| chunk.nodes.contains(&(pu.0 / 2))),
                "job {job} on {cpus}: {chunk:?}"
            );
        }
    }
}

/// How many members of each array wait and have started, and that those that are next have the timers that they would be
/// given now.
fn audit_arrays(policy: &Policy) {
    let rooms = policy.rooms();
    let mut arrays: BTreeMap<u64, (usize, usize)> = BTreeMap::new();
    for job in rooms.jobs.values() {
        let Some(array) = job.request.array else { continue };
        let (waiting, started) = arrays.entry(array.array).or_default();
        *(if job.live().is_some() { started } else { waiting }) += 1;
    }
    assert_eq!(rooms.queue.arrays().counts(), arrays, "members of arrays");
    for (array, standing, timed) in rooms.queue.arrays().timers() {
        let of_it = |job: &&Job| job.queued.is_some_and(|entry| entry.shape.array == Some(array));
        let queued: BTreeSet<JobId> = rooms.jobs.values().filter(of_it).map(Job::id).collect();
        assert_eq!(*standing, queued, "members of array {array} in a queue");
        let first: BTreeSet<JobId> = standing.iter().take(timed.len()).copied().collect();
        assert_eq!(*timed, first, "members of array {array} with timers are the first");
        let has_room = rooms.queue.arrays().has_room(Some(array));
        for job in timed.iter().filter(|_| has_room).map(|id| &rooms.jobs[id]) {
            let due = line::first_due(&rooms.queue, &rooms.settings, job);
            assert_eq!(job.armed, due, "the timer of member {} of array {array}", job.id());
        }
    }
}

/// A job in a set takes no slot, and what it has is of its set.
fn audit_in_set(policy: &Policy, at: usize, id: JobId, live: &Live) {
    let rooms = policy.rooms();
    let aside = &rooms.cores.reservations()[at];
    assert_eq!((live.slots, live.class), (0, Class::Primary), "job {id} in a set");
    assert!(aside.holders.contains(&id), "job {id} is not among those in {}", aside.name);
    for &core in &live.cores {
        assert_eq!(aside.cores.get(core).home_of, Some(id), "core {core} of {}", aside.name);
    }
}

/// What the rules promise of each settled state.
fn promises(policy: &Policy) {
    let rooms = policy.rooms();
    let adopting = policy.next_wakeup() == Some(rooms.now);
    if adopting || !policy.settings().schedule {
        return;
    }
    let (used, total) = policy.slots();
    let running: Vec<_> =
        policy.jobs().filter(|job| matches!(job.state, State::Running | State::Starting)).collect();
    let has_slots = |job: JobId| rooms.jobs.live(job).is_some_and(|live| live.aside.is_none());
    let may_freeze = |job: JobId| {
        has_slots(job) && rooms.jobs.may_freeze(job) && rooms.cores.running().foremost() != Some(job)
    };
    if used > total && rooms.cores.exclusive().is_none() {
        let freezable: Vec<_> = running.iter().filter(|info| may_freeze(info.job)).collect();
        assert!(freezable.is_empty(), "{used} of {total} slots used and {freezable:?} may be frozen");
    }
    for info in running.iter().filter(|_| rooms.cores.grid().len() > 0) {
        let live = rooms.jobs.live(info.job).expect("it runs");
        for (at, aside) in rooms.cores.reservations().iter().enumerate() {
            let cpus: CpuSet = aside.cores.iter().flat_map(|core| core.cpus.iter()).collect();
            let inside = live.aside == Some(at);
            let fits = if inside { info.cpus.is_subset(&cpus) } else { info.cpus.is_disjoint(&cpus) };
            assert!(fits, "job {} on {} beside {}", info.job, info.cpus, aside.name);
            assert!(inside || !info.cpus.is_empty() || live.key.is_none(), "job {} goes anywhere", info.job);
        }
    }
    let mut taken = CpuSet::new();
    for info in running.iter().filter(|info| info.class == Some(Class::Primary)) {
        let live = rooms.jobs.live(info.job).expect("it runs");
        // Its set shrank below what it asked for; or nobody is pinned to a home, only kept on or off a set.
        if (live.aside.is_some() && live.cores.is_empty()) || !policy.settings().affinity {
            continue;
        }
        assert!(info.cpus.is_disjoint(&taken), "job {} shares its home", info.job);
        taken = taken.union(&info.cpus);
    }
    sharing(policy);
    if rooms.cores.exclusive().is_none() && rooms.cores.grid().free_homes() > 0 {
        let left = rooms.cores.running().oldest_promotable(rooms.cores.grid().free_homes());
        assert_eq!(left, None, "a home is free and a backfiller could have it");
        let wishing = rooms
            .cores
            .running()
            .wishing()
            .find(|&job| pick::homes_for(&rooms.cores, &rooms.jobs, job).is_some());
        assert_eq!(wishing, None, "the home it wishes is free and a backfiller could have it");
    }
}

/// Who was told to share evenly shares with the like of it only, and keeps nobody waiting.
fn sharing(policy: &Policy) {
    let rooms = policy.rooms();
    let asked = |id: &JobId| &rooms.jobs[id].request;
    let holders = pick::highest_first(&rooms.cores);
    let told = |id: &JobId| rooms.jobs.live(*id).and_then(|live| live.applied.weight);
    let settled =
        |id: &JobId| rooms.jobs.live(*id).is_some_and(|live| live.phase.is_open() && live.failed.is_empty());
    for id in holders.iter().filter(|id| settled(id)) {
        let even = told(id).is_some_and(|(.., even)| even);
        let like = |other: &JobId| {
            let (one, other) = (asked(id), asked(other));
            one.class.is_none()
                && other.class.is_none()
                && one.list == other.list
                && one.priority == other.priority
        };
        let primary =
            |other: &&JobId| rooms.jobs.live(**other).is_some_and(|live| live.class == Class::Primary);
        let primaries: Vec<&JobId> = holders.iter().filter(primary).collect();
        let may = rooms.queue.host().is_empty()
            && rooms.cores.exclusive().is_none()
            && policy.settings().schedule
            && policy.settings().protect_milli == 0
            && asked(id).list.is_some()
            && !primaries.is_empty()
            && !primaries.contains(&id)
            && primaries.iter().all(|other| like(other));
        assert_eq!(even, may, "job {id} shares evenly, or should");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_books_balance_after_every_event(steps in steps()) {
        play(steps, |policy| {
            audit(policy);
            promises(policy);
        });
    }

    #[test]
    fn since_when_jobs_wait_is_told(steps in steps()) {
        let mut told = BTreeMap::new();
        play(steps, |policy| audit_told_waits(policy, &mut told));
    }

    #[test]
    fn the_same_events_give_the_same_decisions(steps in steps()) {
        let (_, first) = play(steps.clone(), |_| {});
        let (_, second) = play(steps, |_| {});
        prop_assert_eq!(format!("{first:?}"), format!("{second:?}"));
    }

    #[test]
    fn ticks_as_wished_come_to_an_end(steps in steps()) {
        let (mut policy, _) = play(steps, |_| {});
        // Each timer is for one job and one of a few things; none may set itself again for ever.
        for _ in 0..2_000 {
            let Some(at) = policy.next_wakeup() else { return Ok(()) };
            policy.step(at, Event::Tick);
            audit(&policy);
        }
        prop_assert!(false, "it still wants to be woken at {:?}", policy.next_wakeup());
    }

    #[test]
    fn whoever_starts_was_told_to(steps in steps()) {
        let (policy, log) = play(steps, |_| {});
        let mut known: BTreeSet<JobId> = BTreeSet::new();
        for decision in &log {
            match decision.action {
                Action::Start { .. } => { known.insert(decision.job); }
                Action::Drop { .. } | Action::Requeue => { known.remove(&decision.job); }
                _ => {}
            }
        }
        for info in policy.jobs().filter(|info| info.state == State::Starting) {
            prop_assert!(known.contains(&info.job), "job {} starts and nobody told it", info.job);
        }
    }
}

fn wish(named: &[u32]) -> Option<Box<Wish>> {
    Some(Box::new(Wish { named: named.iter().map(|&pu| PuOs(pu)).collect(), ..Wish::default() }))
}

/// It was found that the core on which such a job runs beside others counted as the one that it must have.
#[test]
fn a_job_has_no_home_without_the_core_it_named() {
    let running = Running {
        started: Instant(0),
        class: Class::Primary,
        cpus: CpuSet::new(),
        frozen: true,
        suspended: false,
    };
    let request = Request { wish: wish(&[1, 2]), ..Request::plain(JobId(11)) };
    let (submitted, running) = (Instant(0), Some(running));
    let adopted = Adopted { request, submitted, waits_since: None, array_room_since: None, running };
    let primary =
        Request { class: Some(Class::Primary), wish: wish(&[]), priority: 2, ..Request::plain(JobId(4)) };
    let array = Some(ArrayLimit { array: 0, at_most: 1 });
    let steps = vec![
        (0, Event::Submit(Request { array, ..Request::plain(JobId(6)) }), None),
        (0, Event::Memory(MemorySample { stalled_milli: 400, ..MemorySample::default() }), None),
        (0, Event::Adopt(adopted), None),
        (0, Event::Submit(primary), None),
    ];
    let (policy, _) = play(steps, |policy| {
        audit(policy);
        promises(policy);
    });
    assert_eq!(policy.job(JobId(11)).unwrap().class, Some(Class::Backfill));
}

/// It was found that memory stayed bound to the nodes beside cores to which a job was bound no more.
#[test]
fn memory_is_not_bound_once_cores_are_not() {
    let mut cores: Vec<CpuSet> = (0..6).map(|pu| CpuSet::single(PuOs(pu))).collect();
    let aside = Aside { name: "b".into(), cores: cores.split_off(5), ..Aside::default() };
    let machine = three_nodes(cores, vec![aside]);
    let nodes = NodeMemory { available_bytes: (0..3).map(|node| (node, NODE_BYTES)).collect(), jobs: vec![] };
    let request = Request { memory: Some(1 << 20), ..Request::plain(JobId(1)) };
    let steps = vec![
        (0, Event::Machine(machine), None),
        (0, Event::Nodes(nodes), None),
        (0, Event::Submit(request), None),
        (0, Event::Started(JobId(1)), None),
        (0, Event::Configure(Settings { affinity: false, ..Settings::default() }), None),
    ];
    let (policy, log) = play(steps, audit);
    let bound =
        |decision: &&Decision| matches!(&decision.action, Action::Near { nodes } if !nodes.is_empty());
    assert_eq!(log.iter().filter(bound).count(), 1, "{log:?}");
    assert!(policy.chunks().is_empty(), "{:?}", policy.chunks());
}
