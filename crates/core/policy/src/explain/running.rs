//! What `why` says of a job that has started.

use crate::api::code::figures;
use crate::api::{Class, FrozenBy, Instant, JobId, State};
use crate::cores::{binding, slots};
use crate::explain::words::{Numbers, any_of};
use crate::explain::{memory, waiting};
use crate::jobs::{Job, Live, SuspendReason};
use crate::rooms::Rooms;

pub(crate) fn explain_live(
    rooms: &Rooms,
    job: &Job,
    live: &Live,
    now: Instant,
    numbers: &mut Numbers,
) -> (String, String) {
    let id = job.id();
    if job.state() == State::Starting {
        numbers.since("told to start for", "told_to_start_s", now, live.started);
    } else {
        numbers.since("since its start", "since_start_s", now, live.started);
    }
    if let Some(failed) = live.failed.values().find(|failed| !failed.tried) {
        numbers.say("last failure", failed.error.clone());
    }
    match job.state() {
        State::Starting => ("it was told to start and has not answered yet".into(), "its answer".into()),
        State::Frozen { by: FrozenBy::User } => {
            numbers.since("frozen for", "frozen_s", now, job.since);
            ("a user or operator suspended it".into(), format!("`pinfold resume {id}`"))
        }
        State::Frozen { by: FrozenBy::Policy } => {
            numbers.since("frozen for", "frozen_s", now, job.since);
            explain_frozen(rooms, job, live, numbers)
        }
        State::Running if rooms.cores.lent().contains(&id) => (
            "it runs, and its slots are lent to jobs that were submitted from within it".into(),
            "it has them back as soon as so many are free".into(),
        ),
        State::Waiting { .. } | State::Running => explain_running(rooms, job, live, numbers),
    }
}

fn explain_frozen(rooms: &Rooms, job: &Job, live: &Live, numbers: &mut Numbers) -> (String, String) {
    let why = match live.phase.suspend_reason() {
        Some(SuspendReason::Preempted { by }) if rooms.jobs.asks_for_idle_cycles(job.id()) => {
            format!("job {by} took its slot, which it had for what others leave")
        }
        Some(SuspendReason::Preempted { by }) => format!("job {by} of higher priority took its slot"),
        Some(SuspendReason::Exclusive { by }) => format!("the exclusive job {by} took every slot"),
        Some(SuspendReason::Lent { by }) => {
            format!("its slot was lent to it, and was reclaimed for job {by}")
        }
        Some(SuspendReason::SlotsShrank) if slots::headroom(&rooms.cores, &rooms.settings).is_some() => {
            "primaries are protected, and what they leave of the cores has no room for it".into()
        }
        Some(SuspendReason::Interferes { with, .. }) => {
            format!("job {with} waited for a core more than is usual, with this one beside it")
        }
        Some(SuspendReason::SlotsShrank) => "slots became fewer than running jobs".into(),
        Some(SuspendReason::Survived) => "it was cancelled while frozen, went on, and has no slot".into(),
        Some(SuspendReason::Memory { token }) => return memory::explain_memory(rooms, job, token, numbers),
        Some(SuspendReason::Found) => "it was found frozen after a restart of the daemon".into(),
        Some(SuspendReason::Suspended) | None => "it was resumed".into(),
    };
    if let Some((_, until)) = live.phase.rests() {
        let left = until.since(rooms.now).as_secs();
        return (
            format!("{why}; it stays suspended for {left} s more"),
            "that time, or `cpu.guard=off`".into(),
        );
    }
    let (cause, change) = waiting::explain_queued(rooms, job, numbers);
    (format!("{why}; it returns when it can, but {cause}"), change)
}

fn explain_running(rooms: &Rooms, job: &Job, live: &Live, numbers: &mut Numbers) -> (String, String) {
    let id = job.id();
    let cpus = binding::cpus_of(&rooms.cores, &rooms.settings, job);
    if live.key.is_some() {
        let text = if cpus.is_empty() { "any".into() } else { cpus.to_string() };
        numbers.put("PUs", text, figures!["cpus": Cpus(cpus.clone())]);
    }
    if !rooms.settings.schedule {
        return ("scheduling is off, every job runs".into(), "`schedule` must be on again".into());
    }
    if let Some(until) = live.phase.writes_until() {
        numbers.count("times begun anew from a checkpoint", "checkpoints", job.checkpoints);
        return (
            "its checkpoint is being written, for memory will soon be had in no other way".into(),
            format!(
                "its checkpoint command's end, in {} s at most: then it goes back in the queue",
                until.since(rooms.now).as_secs()
            ),
        );
    }
    if live.key.is_none() {
        return (
            "it was thawed without a slot to receive a signal".into(),
            "its end, or a few seconds: then it needs a slot to go on".into(),
        );
    }
    if let Some(bytes) = rooms.memory.throttles().protected_bytes(id) {
        numbers.bytes("memory that is taken last", "protected_bytes", bytes);
    }
    if job.held.cold.is_cool() {
        numbers.bytes("in swap, not refaulted", "cold_bytes", job.held.cold.bytes());
    }
    if let Some(since) = rooms.memory.throttles().since(id) {
        return memory::explain_throttled(rooms, job, since, numbers);
    }
    if let Some(at) = live.aside {
        let set = &rooms.cores.reservations()[at].name;
        return (format!("it runs in the set {set}, whose cores only jobs in it have"), "its end".into());
    }
    match live.class {
        Class::Primary => (
            "it is a primary: it has home cores that no other primary has".into(),
            format!("its end, or `pinfold suspend {id}`"),
        ),
        Class::Exclusive => ("it has the whole host to itself".into(), "its end".into()),
        Class::Backfill if job.request.class == Some(Class::Backfill) => (
            "it asked to be a backfiller: it runs in the cycles that primaries leave".into(),
            "its end".into(),
        ),
        Class::Backfill if binding::shares_evenly(&rooms.cores, job) => (
            "it is one of the last of its list: they share the cores evenly".into(),
            "its end, or a job that waits or is of another list".into(),
        ),
        Class::Backfill => {
            let older = rooms.cores.running().promotable_before(live.started, id);
            numbers.count("backfillers before it", "backfill_jobs_before", older);
            let primaries: Vec<JobId> =
                rooms.cores.running().primaries_lowest_first().map(|(_, job)| job).collect();
            (
                "it is a backfiller, for no home core is free: it runs in the cycles that primaries leave"
                    .into(),
                if primaries.is_empty() {
                    "a home core".into()
                } else {
                    format!("a home core: {} must end", any_of(&primaries))
                },
            )
        }
    }
}
