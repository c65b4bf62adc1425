//! What `why` says of a job that waits for its start, a slot or cores.

use crate::api::{Class, Instant, JobId, mib};
use crate::cores::{borders, isolation, others, sets, slots};
use crate::explain::words::{Numbers, any_of, count, seconds, some_of};
use crate::explain::{memory, resources};
use crate::jobs::{Demand, Job, Waiting};
use crate::memory::admission;
use crate::queue::order::{PASSED_MAX, RANK_AGED};
use crate::queue::{ageing, head, line};
use crate::rooms::Rooms;
use crate::schedule::gives_way;
use crate::shares::core_pool;

/// For a waiting job whose array has no room: cause, and what would change it.
fn explain_array(
    rooms: &Rooms,
    job: &Job,
    numbers: &mut Vec<(&'static str, String)>,
) -> Option<(String, String)> {
    let array = job.request.array.filter(|_| job.live().is_none())?;
    let (started, at_most) = rooms.queue.arrays().started(array.array)?;
    numbers.push(("members of its array that have started", started.to_string()));
    numbers.push(("of at most", at_most.to_string()));
    if started < at_most {
        return None;
    }
    let is_one = |id: &&JobId| {
        let other = rooms.jobs.get(id).and_then(|other| other.request.array);
        other.is_some_and(|other| other.array == array.array)
    };
    let first = rooms.jobs.live_ids().iter().find(is_one)?;
    let (are, rest) = match started {
        1 => ("1 has".to_owned(), String::new()),
        2 => ("2 have".to_owned(), ", or the other one".to_owned()),
        count => (format!("{count} have"), format!(", or one of {} others", count - 1)),
    };
    Some((
        format!("of its array {} at most {} may have started at once, and {are}", array.array, at_most),
        format!("job {first} must end{rest}"),
    ))
}

/// For a job that is shut out: cause, and what would change it.
fn explain_cpuset(
    rooms: &Rooms,
    job: &Job,
    numbers: &mut Vec<(&'static str, String)>,
) -> Option<(String, String)> {
    let (inside, short) = borders::within_cpuset(rooms, job).filter(|_| rooms.settings.schedule)?;
    if !short {
        return None;
    }
    let within = &job.request.wish.as_deref()?.within;
    numbers.push(("cores it may be on", inside.to_string()));
    Some((
        format!(
            "it may be on PUs {within} only, where {inside} cores are for jobs now, and it asks for {}",
            job.request.cores
        ),
        "cores there that are set aside must be given back, or those that are gone must return".to_owned(),
    ))
}

pub(crate) fn explain_waiting(
    rooms: &Rooms,
    job: &Job,
    waiting: &Waiting,
    now: Instant,
    numbers: &mut Numbers,
) -> (String, String) {
    let id = job.id();
    numbers.push(("waited", seconds(now, job.submitted)));
    if let Some((at, _)) = ageing::expires_at(rooms, job) {
        numbers.push(("expires in", format!("{} s", at.since(now).as_secs())));
    }
    if waiting.held {
        return ("it is held until it is released".into(), format!("`pinfold release {id}`"));
    }
    if let Some(failed) = waiting.failed.as_ref().filter(|failed| !failed.tried) {
        numbers.push(("failed starts", waiting.failures.to_string()));
        let again = failed.again.since(now).as_secs_f64();
        if waiting.failures == 0 {
            numbers.pop();
            let times = job.requeues.saturating_add(job.checkpoints);
            numbers.push(("times put back in the queue", times.to_string()));
            return (
                format!("it waits to be begun anew: {}", failed.error),
                format!("it is next in {again:.1} s, as soon as memory suffices for what it held"),
            );
        }
        return (
            format!("its start failed: {}", failed.error),
            format!("it is started again in {again:.1} s, or ended with `pinfold cancel {id}`"),
        );
    }
    if let Some(first) = waiting.after.first() {
        numbers.push(("jobs it waits for", waiting.after.len().to_string()));
        return (
            format!(
                "it was asked to start after {}",
                some_of(&waiting.after.iter().copied().collect::<Vec<_>>())
            ),
            format!("job {first} must be over"),
        );
    }
    if waiting.gated {
        return ("its client lets it start later".into(), "its time, or the end of other jobs".into());
    }
    if let Some(set) = job.request.aside.as_ref().filter(|_| sets::reservation_of(rooms, job).is_none()) {
        return match *set == format!("isolated-{}", job.id()) {
            true => resources::explain_lacking(rooms, job, numbers)
                .unwrap_or_else(|| explain_isolated(rooms, job, numbers)),
            false => (format!("its set {set} has no cores now"), format!("`pinfold set-aside {set}` again")),
        };
    }
    if let Some(shut_out) = explain_cpuset(rooms, job, numbers) {
        return shut_out;
    }
    if rooms.settings.drain {
        return ("the host is drained: nothing new starts".into(), "`pinfold undrain`".into());
    }
    explain_queued(rooms, job, numbers)
}

/// For a job that wants a slot, new or frozen.
pub(crate) fn explain_queued(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> (String, String) {
    let Some(entry) = job.queued else {
        return ("it has just come".into(), "the next event".into());
    };
    numbers.extend(slots::explain_headroom(rooms));
    numbers.extend(
        others::explain(rooms, slots::total(rooms)).map(|words| ("slots left to other processes", words)),
    );
    numbers.extend(explain_interference(rooms));
    let ahead = line::queue_of(rooms, job).ahead_of(&entry);
    numbers.push(("position in the queue", (ahead + 1).to_string()));
    if job.aged {
        numbers.push(("goes first", "it waited too long".into()));
    } else if let Some(at) = ageing::ages_at(rooms, job) {
        numbers.push(("goes first in", format!("{} s", at.since(rooms.now).as_secs())));
    }
    if let Some(full) = explain_array(rooms, job, numbers) {
        return full;
    }
    if let Some(at) = sets::reservation_of(rooms, job) {
        return explain_in_set(rooms, job, at, ahead, numbers);
    }
    if let Some(reason) = impossible(rooms, entry.shape) {
        return reason;
    }
    if let Some(exclusive) = rooms.cores.exclusive() {
        return (
            format!("the exclusive job {exclusive} has the whole host"),
            format!("job {exclusive} must end"),
        );
    }
    if let Some(lacking) = explain_counted(rooms, job, entry.shape.tmp_bytes, numbers) {
        return lacking;
    }
    let in_the_way = core_pool::in_the_way(rooms, job, entry.shape);
    if !in_the_way.is_empty() && admission::lacks_memory(rooms, job.id()).is_none() {
        return (
            "a core that is its project's own is lent to jobs that may not be frozen".into(),
            format!("{} must end, or a slot must fall free", any_of(&in_the_way)),
        );
    }
    let Some((rank, head)) = head::head(rooms) else {
        return ("it has just come".into(), "the next event".into());
    };
    if head == job.id() && admission::lacks_memory(rooms, head).is_none() {
        return explain_head(rooms, job, numbers);
    }
    if let Some(lack) = admission::lacks_memory(rooms, job.id()) {
        return memory::explain_lack(rooms, job, lack, numbers);
    }
    let first = &rooms.jobs[&head];
    if first.request.class == Some(Class::Exclusive) {
        return (
            format!("the exclusive job {head} is before it and waits for the whole host"),
            format!("job {head} must have run, or be held"),
        );
    }
    if rank == RANK_AGED || first.passed >= PASSED_MAX {
        return (
            format!("job {head} is before it, was passed over long enough, and gets the next slots"),
            format!("job {head} must have started"),
        );
    }
    (
        format!(
            "{} and {ahead} {} before it in the queue",
            no_slot(rooms, entry.shape),
            count(ahead, "job is", "jobs are")
        ),
        what_frees(rooms, entry.shape),
    )
}

/// For a job that waits for cores of its set.
fn explain_in_set(
    rooms: &Rooms,
    job: &Job,
    at: usize,
    ahead: usize,
    numbers: &mut Numbers,
) -> (String, String) {
    let (set, cores) = (&rooms.cores.reservations()[at].name, &rooms.cores.reservations()[at].cores);
    numbers.push(("cores of the set free", format!("{} of {}", cores.free_homes(), cores.len())));
    if let Some(lack) = admission::lacks_memory(rooms, job.id()) {
        return memory::explain_lack(rooms, job, lack, numbers);
    }
    let wanted = sets::wanted_in(rooms, job, at);
    let before = if ahead == 0 {
        "it is next".to_owned()
    } else {
        format!("{ahead} {} before it", count(ahead, "job is", "jobs are"))
    };
    let ends = format!("{} must end", any_of(&rooms.cores.reservations()[at].holders));
    if let Some(lacking) = explain_counted(rooms, job, job.request.tmp_bytes, numbers) {
        return lacking;
    }
    let such = if job.request.wish.is_some() { " such as it wishes" } else { "" };
    let free = cores.free_homes();
    let cores = count(wanted, "core", "cores");
    (format!("{before}, and its set {set} has not {wanted} {cores}{such} free ({free} are)"), ends)
}

/// Why no job of this shape can start as things are.
fn impossible(rooms: &Rooms, shape: Demand) -> Option<(String, String)> {
    let (cores, total) = (rooms.cores.grid().len(), slots::total(rooms));
    if slots::is_possible(rooms, shape) {
        return None;
    }
    let reason = if cores == 0 {
        ("the machine has no core for jobs".into(), "a core must be allowed to pinfold again".into())
    } else if total == 0 {
        ("the slot factor holds everything".into(), "a larger `slots.factor`".into())
    } else if shape.cores as usize > cores {
        (
            format!("it asks for {} cores and the machine has {cores} for jobs now", shape.cores),
            format!("{} cores must be allowed to pinfold", shape.cores),
        )
    } else {
        (
            format!("it takes {} slots and there are {total} in all", shape.cores),
            "a larger `slots.factor`".into(),
        )
    };
    Some(reason)
}

/// For the job that is next and does not start.
fn explain_head(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> (String, String) {
    let shape = Demand {
        owner: job.request.owner,
        cores: job.request.cores,
        homes: job.request.cores,
        class: job.request.class,
        wishes: job.request.wish.is_some(),
        memory: 0,
        tmp_bytes: 0,
        resources: 0,
        pools: job.pools,
        array: None,
    };
    if job.passed > 0 {
        numbers.push(("passed over by", format!("{} of at most {PASSED_MAX}", job.passed)));
    }
    if shape.class == Some(Class::Exclusive) {
        let by = job.id();
        let all = rooms.cores.running().lowest_first().map(|(_, job)| job);
        let in_the_way: Vec<JobId> = all.filter(|&other| !gives_way::gives_way(rooms, other, by)).collect();
        return (
            "it is next, and jobs that may not be frozen for an exclusive job still run".into(),
            format!("{} must end", some_of(&in_the_way)),
        );
    }
    (format!("it is next, and {}", no_slot(rooms, shape)), what_frees(rooms, shape))
}

/// For a job that lacks room for its directory in memory, or a resource.
fn explain_counted(
    rooms: &Rooms,
    job: &Job,
    tmp_bytes: u64,
    numbers: &mut Numbers,
) -> Option<(String, String)> {
    if tmp_bytes > head::tmp_left(rooms) {
        return Some(explain_tmp(rooms, tmp_bytes, numbers));
    }
    resources::explain_lacking(rooms, job, numbers)
}

/// For a job whose directory in memory finds no room.
fn explain_tmp(rooms: &Rooms, wanted: u64, numbers: &mut Numbers) -> (String, String) {
    numbers.push(("memory for --tmp", mib(rooms.settings.tmp_total_bytes)));
    numbers.push(("of it free", mib(head::tmp_room(rooms))));
    if wanted <= head::tmp_room(rooms)
        && let Some(first) = head::tmp_kept_for(rooms)
    {
        return (
            format!("job {first} waited too long for its --tmp, and no other job gets one before it"),
            format!("job {first} must start"),
        );
    }
    let others: Vec<JobId> = rooms.jobs.with_tmp().map(Job::id).collect();
    if others.is_empty() {
        return (
            format!(
                "its --tmp of {} does not fit beside directories of jobs that are over: they are not cleared yet",
                mib(wanted)
            ),
            "they must be cleared (`pinfold doctor` says why they are not), or a larger `tmp.total`".into(),
        );
    }
    (
        format!(
            "its --tmp of {} does not fit beside those of other jobs: `tmp.total` leaves {}",
            mib(wanted),
            mib(head::tmp_room(rooms))
        ),
        format!("{} must end, or a larger `tmp.total`", any_of(&others)),
    )
}

fn no_slot(rooms: &Rooms, shape: Demand) -> String {
    let (used, total) = slots::in_use(rooms);
    let free = total.saturating_sub(used);
    let withheld = others::withheld(rooms, total).min(free);
    if withheld > 0 && slots::free_slots(rooms) < shape.cores as usize {
        let cores = count(rooms.cores.others().cores(), "core is", "cores are");
        return format!(
            "{free} of {total} slots are free, and {withheld} of these are not handed out, as {} {cores} used by processes \
             that are no jobs",
            rooms.cores.others().cores(),
        );
    }
    if free < shape.cores as usize {
        match free {
            0 if total == 1 => "the only slot is taken".into(),
            0 => format!("all {total} slots are taken"),
            free => format!("it takes {} slots and {free} of {total} are free", shape.cores),
        }
    } else if shape.wishes {
        format!("no home core such as it wishes is free ({} others are)", rooms.cores.grid().free_homes())
    } else {
        format!("no home core is free for it ({} are)", rooms.cores.grid().free_homes())
    }
}

fn what_frees(rooms: &Rooms, shape: Demand) -> String {
    let primaries = shape.class == Some(Class::Primary) && slots::free_slots(rooms) >= shape.cores as usize;
    let running: Vec<JobId> = if primaries {
        rooms.cores.running().primaries_lowest_first().map(|(_, job)| job).collect()
    } else {
        rooms.cores.running().lowest_first().map(|(_, job)| job).collect()
    };
    let needed = (shape.cores as usize).saturating_sub(slots::free_slots(rooms));
    let or_less = match others::explain(rooms, slots::total(rooms)) {
        Some(_) => ", or the load of other processes must fall",
        None => "",
    };
    match running.as_slice() {
        [] => "the next event".into(),
        running if primaries => format!("a home core: {} must end", any_of(running)),
        running if needed > 1 => {
            format!("{needed} more slots: enough of {} must end{or_less}", some_of(running))
        }
        running => format!("a slot: {} must end{or_less}", any_of(running)),
    }
}

/// A job that is to have cores of its own waits for idle ones, or for ones with lower jobs on them.
fn explain_isolated(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> (String, String) {
    let (wanted, idle) = (job.slots(), isolation::idle_cores(rooms).len());
    numbers.push(("idle cores", format!("{idle} of {}", rooms.cores.grid().len())));
    let running: Vec<JobId> = rooms.cores.running().lowest_first().map(|(_, job)| job).collect();
    let cores = count(wanted, "core", "cores");
    let cause = format!(
        "it waits for {wanted} {cores} to itself that no job of its priority is on, beside one for others"
    );
    (cause, format!("enough of {} must end, or its wait reach 10 minutes", some_of(&running)))
}

/// What being held back keeps from running, in words and figures; `None`: nothing.
fn explain_interference(rooms: &Rooms) -> Option<(&'static str, String)> {
    let until = rooms.cores.interference().until().filter(|until| *until > rooms.now)?;
    let left = until.since(rooms.now).as_secs();
    Some(("no more backfillers for", format!("{left} s (`cpu.guard`)")))
}
