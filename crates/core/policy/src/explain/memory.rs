//! What `why` says of a job that waits for memory, is frozen for it, or is throttled.

use crate::api::code::figures;
use crate::api::{EVIDENCE_RUNS, Instant, JobId, mib};
use crate::explain::words::{Numbers, any_of, each_of};
use crate::jobs::Job;
use crate::memory::oracle::{self, Deficit};
use crate::memory::throttled::SLOW_FOR;
use crate::memory::{forecast, rank};
use crate::rooms::Rooms;
use crate::shares::memory_pool;

/// What a job asked for, where runs of its class ended: which of the two counts.
pub(crate) fn explain_request(rooms: &Rooms, job: &Job, numbers: &mut Numbers) {
    let learned = forecast::learned_of(rooms, job).filter(|_| rooms.settings.memory.prediction);
    let (Some(asked), Some(learned)) = (job.request.memory, learned) else { return };
    numbers.bytes("memory asked for", "memory_asked_bytes", asked);
    numbers.bytes("memory its class needed", "class_memory_p50_bytes", learned.usual_bytes);
    let ended = learned.runs;
    let text = if learned.is_evidence() {
        "the runs of its class that ended".into()
    } else {
        format!("the request, at least, until {EVIDENCE_RUNS} runs of its class have ended ({ended} so far)")
    };
    numbers.put("memory counted by", text, figures!["class_runs_ended": Number(ended.into())]);
}

/// What jobs may use, and what of it is free.
fn explain_usable(rooms: &Rooms, numbers: &mut Numbers) {
    match rooms.memory.usable() {
        Some(usable) => numbers.bytes("memory for jobs", "memory_for_jobs_bytes", usable),
        None => numbers.say("memory for jobs", "unknown"),
    }
    numbers.bytes("memory free", "memory_free_bytes", oracle::free_memory(rooms));
}

/// For a job that waits for memory.
pub(crate) fn explain_lack(
    rooms: &Rooms,
    job: &Job,
    lack: Deficit,
    numbers: &mut Numbers,
) -> (String, String) {
    if let Some(claim) = forecast::claim_of(rooms, job) {
        numbers.bytes("memory expected", "memory_p50_bytes", claim.usual_bytes);
        numbers.bytes("memory at most", "memory_p99_bytes", claim.most_bytes);
    }
    explain_usable(rooms, numbers);
    let kept = memory_pool::kept_beside(rooms, job.pools.memory);
    if kept > 0 {
        numbers.bytes("memory kept for other projects", "memory_kept_bytes", kept);
    }
    if let (Deficit::Room { free, .. }, Some(usable)) = (lack, rooms.memory.usable()) {
        let counted = usable.saturating_sub(kept).saturating_sub(free);
        numbers.bytes("memory counted for other jobs", "memory_counted_bytes", counted);
    }
    let ends = format!("{} must end or need less", any_of(&lowest_first(rooms)));
    match lack {
        Deficit::Room { wanted, free } if memory_pool::memory_is_its_own(rooms, job, wanted) => (
            format!(
                "it is expected to need {} of memory, {} are left for it, and others borrowed what is its project's own",
                mib(wanted),
                mib(free)
            ),
            "what they borrowed is moved to swap".into(),
        ),
        Deficit::Room { wanted, free } => explain_room(rooms, job, wanted, free).unwrap_or_else(|| {
            (
                format!("it is expected to need {} of memory and {} are left for it", mib(wanted), mib(free)),
                ends,
            )
        }),
        Deficit::Growth { wanted, free } => (
            format!(
                "it is expected to need {} of memory, and those that run are about to grow into all but {}",
                mib(wanted),
                mib(free)
            ),
            format!("they stop growing, or {ends}"),
        ),
        Deficit::Short => (
            "memory runs short, and nothing new starts meanwhile".into(),
            "memory that running jobs do not need".into(),
        ),
        Deficit::Frozen { first } => (
            format!("job {first} is suspended for lack of memory, and this one would keep it from resuming"),
            format!("job {first} must go on first"),
        ),
        Deficit::Unsafe => (
            "with it, the others could not all be paged out for the job that goes first".into(),
            format!("more swap (`pinfold doctor`), or {ends}"),
        ),
    }
}

fn lowest_first(rooms: &Rooms) -> Vec<JobId> {
    rooms.cores.running().lowest_first().map(|(_, job)| job).collect()
}

/// For a job that needs more than is left: which jobs must end for that. `None`: what a job gives back is not what it counts
/// for, as some is kept for a project or a set.
fn explain_room(rooms: &Rooms, job: &Job, wanted: u64, free: u64) -> Option<(String, String)> {
    let promised = rooms.cores.reservations().iter().any(|set| set.memory_bytes > 0);
    let usable = rooms.memory.usable().filter(|_| !promised && !rooms.shares.split_memory())?;
    let all = lowest_first(rooms);
    if wanted > usable {
        return Some((
            format!(
                "it is expected to need {} of memory, more than the {} that jobs may have: nothing may run beside it",
                mib(wanted),
                mib(usable)
            ),
            format!("{} must end, as well as any that starts before it", each_of(&all)),
        ));
    }
    let asks = forecast::counts_for(rooms, job) > 0;
    let gives = |id: &JobId| {
        rooms.jobs.get(id).map_or(0, |other| match asks {
            true => forecast::counts_for(rooms, other),
            false => other.held.resident,
        })
    };
    let lacking = wanted.saturating_sub(free);
    let suffices = |id: &&JobId| gives(id) >= lacking;
    let ones: Vec<JobId> = all.iter().filter(suffices).copied().collect();
    let ends = if ones.is_empty() {
        let mut largest = all.clone();
        largest.sort_by_key(|id| std::cmp::Reverse(gives(id)));
        let mut given = 0u64;
        let few = largest.iter().take_while(|id| {
            let more = given < lacking;
            given = given.saturating_add(gives(id));
            more
        });
        let few = few.count();
        let or_others = if few < all.len() { ", or others that hold as much," } else { "" };
        format!("{}{or_others} must end or need less", each_of(&largest[..few]))
    } else {
        format!("{} must end or need less", any_of(&ones))
    };
    let cause = format!("it is expected to need {} of memory and {} are left for it", mib(wanted), mib(free));
    Some((cause, ends))
}

/// For a job frozen for memory.
pub(crate) fn explain_memory(
    rooms: &Rooms,
    job: &Job,
    token: JobId,
    numbers: &mut Numbers,
) -> (String, String) {
    explain_usable(rooms, numbers);
    numbers.bytes("memory it holds", "held_bytes", job.held.resident);
    numbers.bytes("of it in swap, besides", "swapped_bytes", job.held.swapped);
    numbers.count("times frozen for memory", "freezes", job.held.freezes);
    // Worth a word only when it has stood for some time.
    let holder = rooms.memory.token().and_then(|token| rooms.jobs.get(&token));
    if let Some(holder) = holder.filter(|_| rooms.now.since(job.since).as_secs() >= 60) {
        let left = rank::patience_left(rooms, job, holder.request.priority);
        let more = ", if swap takes the others";
        numbers.until("goes first for memory in", "goes_first_for_memory_in_s", left, more);
    }
    let why = if memory_pool::lent_memory_is_wanted(rooms, job) {
        "memory was lent to it, and a project wants it back".to_owned()
    } else {
        format!("memory ran short, and job {token} goes before it")
    };
    if job.queued.is_some() {
        return (format!("{why}; memory suffices again"), "the next slot".into());
    }
    let need = oracle::need_to_resume(rooms, job);
    (why, format!("{} of memory that running jobs do not need; it returns by itself", mib(need)))
}

/// For a job that runs and is throttled.
pub(crate) fn explain_throttled(
    rooms: &Rooms,
    job: &Job,
    since: Instant,
    numbers: &mut Numbers,
) -> (String, String) {
    explain_usable(rooms, numbers);
    numbers.bytes("memory it holds", "held_bytes", job.held.resident);
    numbers.since("throttled for", "throttled_s", rooms.now, since);
    let first =
        rooms.memory.token().map_or_else(String::new, |token| format!(", and job {token} goes first"));
    (
        format!(
            "it runs, but grows only as fast as its pages can be moved out: memory is getting short{first}"
        ),
        format!(
            "memory that the others do not need; {} s after it was throttled it goes on or is suspended",
            SLOW_FOR.as_secs()
        ),
    )
}
