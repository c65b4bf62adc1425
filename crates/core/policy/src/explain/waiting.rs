//! What `why` says of a job that waits for its start, a slot or cores.

use crate::api::code::figures;
use crate::api::{Class, Instant, JobId, Preemption, mib};
use crate::cores::{borders, isolation, others, sets, slots};
use crate::explain::words::{Numbers, any_of, count, milli, some_of};
use crate::explain::{memory, resources};
use crate::jobs::{Demand, Job, Waiting};
use crate::memory::oracle;
use crate::queue::order::{PASSED_MAX, RANK_AGED};
use crate::queue::{ageing, head, line};
use crate::rooms::Rooms;
use crate::schedule::hold_back::HoldBack;
use crate::schedule::{gives_way, hold_back};
use crate::shares::core_pool;

/// For a waiting job whose array has no room: cause, and what would change it.
fn explain_array(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> Option<(String, String)> {
    let array = job.request.array.filter(|_| job.live().is_none())?;
    let (started, at_most) = rooms.queue.arrays().started(array.array)?;
    numbers.count("members of its array that have started", "array_started", started);
    numbers.count("of at most", "array_at_most", at_most);
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
        format!("the member that is job number {first} must end{rest}"),
    ))
}

/// For a job that is shut out: cause, and what would change it.
fn explain_cpuset(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> Option<(String, String)> {
    let (inside, short) = borders::within_cpuset(&rooms.cores, job).filter(|_| rooms.settings.schedule)?;
    if !short {
        return None;
    }
    let within = &job.request.wish.as_deref()?.within;
    numbers.count("cores it may be on", "cores_allowed", inside);
    Some((
        format!(
            "it may be on PUs {within} only, where {inside} cores are for jobs now, and it asks for {}",
            job.request.cores
        ),
        "cores there that are set aside must be given back, or those that are gone must return".to_owned(),
    ))
}

/// For a job that needs more cores than other users' jobs leave.
fn explain_neighbours(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> (String, String) {
    let theirs = rooms.cores.machine().neighbours_cores;
    numbers.count("cores that other users have", "neighbours_cores", theirs);
    let (asked, cores) = (job.slots(), count(theirs, "core is", "cores are"));
    let ask = count(asked, "core", "cores");
    (
        format!("it asks for {asked} {ask}, and {theirs} {cores} with other users while they have jobs"),
        "the jobs of other users must end".into(),
    )
}

pub(crate) fn explain_waiting(
    rooms: &Rooms,
    job: &Job,
    waiting: &Waiting,
    now: Instant,
    numbers: &mut Numbers,
) -> (String, String) {
    let id = job.id();
    numbers.since("waited", "waited_s", now, job.submitted);
    if let Some((at, _)) = ageing::expires_at(&rooms.settings, job) {
        numbers.until("expires in", "expires_in_s", at.since(now), "");
    }
    if waiting.held {
        return ("it is held until it is released".into(), format!("`pinfold release {id}`"));
    }
    if let Some(failed) = waiting.failed.as_ref().filter(|failed| !failed.tried) {
        let again = failed.again.since(now).as_secs_f64();
        if waiting.failures == 0 {
            let times = job.requeues.saturating_add(job.checkpoints);
            numbers.count("times put back in the queue", "requeues", times);
            return (
                format!("it waits to be begun anew: {}", failed.error),
                format!("it is next in {again:.1} s, as soon as memory suffices for what it held"),
            );
        }
        numbers.count("failed starts", "failed_starts", waiting.failures);
        return (
            format!("its start failed: {}", failed.error),
            format!("it is started again in {again:.1} s, or ended with `pinfold cancel {id}`"),
        );
    }
    if let Some(first) = waiting.after.first() {
        numbers.count("jobs it waits for", "jobs_awaited", waiting.after.len());
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
    if borders::waits_for_neighbours(&rooms.cores, job) {
        return explain_neighbours(rooms, job, numbers);
    }
    if let Some(set) =
        job.request.aside.as_ref().filter(|_| sets::reservation_of(&rooms.cores, job).is_none())
    {
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
        return ("the host is drained: nothing new starts".into(), "`pinfold admin undrain`".into());
    }
    explain_queued(rooms, job, numbers)
}

/// For a nested job while only idle parents run: cause, and the change that is needed.
pub(crate) fn explain_circle(rooms: &Rooms, job: &Job) -> Option<(String, String)> {
    job.queued?;
    let parent = rooms.jobs.parents(job.id()).find(|parent| parent.has_slot())?.id();
    let host = &rooms.cores;
    let waits = |other: &Job| host.idle().contains(&other.id()) || host.lent().contains(&other.id());
    rooms.jobs.running().all(waits).then(|| {
        (
            "each job that runs is idle and waits for a job that was submitted from within it".into(),
            format!(
                "job {parent}, from within which this job was submitted, must end: `pinfold cancel {parent}`"
            ),
        )
    })
}

/// For a job that wants a slot, new or frozen.
pub(crate) fn explain_queued(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> (String, String) {
    let Some(entry) = job.queued else {
        return ("it has just come".into(), "the next event".into());
    };
    explain_headroom(rooms, numbers);
    explain_others(rooms, numbers);
    explain_interference(rooms, numbers);
    let ahead = line::queue_of(rooms, job).ahead_of(&entry);
    numbers.count("position in the queue", "queue_position", ahead + 1);
    if job.aged {
        numbers.say("goes first", "it waited too long");
    } else if let Some(at) = ageing::ages_at(rooms.queue.arrays(), job) {
        numbers.until("goes first in", "goes_first_in_s", at.since(rooms.now), "");
    }
    if let Some(full) = explain_array(rooms, job, numbers) {
        return full;
    }
    if let Some(at) = sets::reservation_of(&rooms.cores, job) {
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
    if !in_the_way.is_empty() && oracle::lacks_memory(rooms, job.id()).is_none() {
        return (
            "a core that is its project's own is lent to jobs that may not be frozen".into(),
            format!("{} must end, or a slot must fall free", any_of(&in_the_way)),
        );
    }
    let Some((rank, head)) = head::head(rooms) else {
        return ("it has just come".into(), "the next event".into());
    };
    if head == job.id() && oracle::lacks_memory(rooms, head).is_none() {
        return explain_head(rooms, job, numbers);
    }
    if let Some(lack) = oracle::lacks_memory(rooms, job.id()) {
        return memory::explain_lack(rooms, job, lack, numbers);
    }
    let held = hold_back::of(rooms, rank, head);
    if held == HoldBack::All && rooms.jobs[&head].request.class == Some(Class::Exclusive) {
        return (
            format!("the exclusive job {head} is before it and waits for the whole host"),
            format!("job {head} must have run, or be held"),
        );
    }
    let holds_back = match held {
        HoldBack::Nothing => false,
        HoldBack::OwnersJobs(owner) => owner == job.request.owner,
        HoldBack::Homes(_) | HoldBack::All => true,
    };
    if holds_back {
        return explain_held_back(head, &held);
    }
    (
        format!(
            "{} and {ahead} {} before it in the queue",
            no_slot(rooms, entry.shape),
            count(ahead, "job is", "jobs are")
        ),
        what_frees(rooms, job, entry.shape),
    )
}

/// For a job that `head` holds back.
fn explain_held_back(head: JobId, held: &HoldBack) -> (String, String) {
    let before = format!("job {head} is before it, was passed over long enough, and");
    let started = format!("job {head} must have started");
    if matches!(held, HoldBack::Homes(_)) {
        return (
            format!(
                "{before} waits for certain home cores: until it has them others start on other home cores only"
            ),
            format!("{started}, or another home core must fall free"),
        );
    }
    (format!("{before} gets the next slots"), started)
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
    let part = (cores.free_homes() as u64, cores.len() as u64);
    numbers.part("cores of the set free", part, ["set_cores_free", "set_cores"]);
    if let Some(lack) = oracle::lacks_memory(rooms, job.id()) {
        return memory::explain_lack(rooms, job, lack, numbers);
    }
    let wanted = sets::wanted_in(&rooms.cores, job, at);
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
    let (cores, total) = (rooms.cores.grid().len(), slots::total(&rooms.cores, &rooms.settings));
    if slots::is_possible(&rooms.cores, &rooms.settings, shape) {
        return None;
    }
    let reason = if cores == 0 {
        ("the machine has no core for jobs".into(), "a core must be allowed to pinfold again".into())
    } else if total == 0 {
        ("the slot factor holds everything".into(), "a larger `slots.factor`".into())
    } else if shape.cores as usize > cores {
        let in_time = shape.cores as usize <= rooms.cores.cores_in_time();
        (
            format!("it asks for {} cores and the machine has {cores} for jobs now", shape.cores),
            match in_time {
                true => "jobs with cores to themselves must end, or idle sets go (`pinfold sets`)".into(),
                false => format!("{} cores must be allowed to pinfold", shape.cores),
            },
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
        parent: job.request.parent,
    };
    if job.passed > 0 {
        let figures = figures!["passed_over": Number(job.passed.into()), "passed_over_at_most": Number(PASSED_MAX.into())];
        numbers.put("passed over by", format!("{} of at most {PASSED_MAX}", job.passed), figures);
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
    (format!("it is next, and {}", no_slot(rooms, shape)), what_frees(rooms, job, shape))
}

/// For a job that lacks room for its directory in memory, or a resource.
fn explain_counted(
    rooms: &Rooms,
    job: &Job,
    tmp_bytes: u64,
    numbers: &mut Numbers,
) -> Option<(String, String)> {
    if tmp_bytes > head::tmp_left(rooms, job.request.owner) {
        return Some(explain_tmp(rooms, job, tmp_bytes, numbers));
    }
    resources::explain_lacking(rooms, job, numbers)
}

/// For a job whose directory in memory finds no room.
fn explain_tmp(rooms: &Rooms, job: &Job, wanted: u64, numbers: &mut Numbers) -> (String, String) {
    numbers.bytes("memory for --tmp", "tmp_bytes", rooms.settings.tmp_total_bytes);
    numbers.bytes("of it free", "tmp_free_bytes", head::tmp_room(rooms));
    if wanted <= head::tmp_room(rooms)
        && let Some(first) = head::tmp_kept_for(rooms, job.request.owner)
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
    let (used, total) = slots::in_use(&rooms.cores, &rooms.settings);
    let free = total.saturating_sub(used);
    let withheld = others::withheld(&rooms.cores, &rooms.settings, total).min(free);
    if withheld > 0 && slots::free_slots(&rooms.cores, &rooms.settings) < shape.cores as usize {
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

fn what_frees(rooms: &Rooms, job: &Job, shape: Demand) -> String {
    let primaries = shape.class == Some(Class::Primary)
        && slots::free_slots(&rooms.cores, &rooms.settings) >= shape.cores as usize;
    let running: Vec<JobId> = if primaries {
        rooms.cores.running().primaries_lowest_first().map(|(_, job)| job).collect()
    } else {
        rooms.cores.running().lowest_first().map(|(_, job)| job).collect()
    };
    let parents: Vec<JobId> = rooms.jobs.parents(job.id()).map(Job::id).collect();
    let running: Vec<JobId> = running.into_iter().filter(|id| !parents.contains(id)).collect();
    let needed = (shape.cores as usize).saturating_sub(slots::free_slots(&rooms.cores, &rooms.settings));
    let or_less =
        match others::withheld(&rooms.cores, &rooms.settings, slots::total(&rooms.cores, &rooms.settings)) {
            0 => "",
            _ => ", or the load of other processes must fall",
        };
    match running.as_slice() {
        [] if !parents.is_empty() => {
            format!("a slot: {} must be idle for some seconds, and lends its slot then", any_of(&parents))
        }
        [] => "the next event".into(),
        running if primaries => format!("a home core: {} must end", any_of(running)),
        running if needed > 1 => {
            format!("{needed} more slots: enough of {} must end{or_less}", some_of(running))
        }
        running => format!("a slot: {} must end{or_less}{}", any_of(running), ways(rooms, job)),
    }
}

/// The commands that give a job its slot before another ends.
fn ways(rooms: &Rooms, job: &Job) -> String {
    let is_parent = |other: JobId| rooms.jobs.parents(job.id()).any(|parent| parent.id() == other);
    let may = |&(_, other): &(u8, JobId)| {
        rooms.jobs.may_freeze(other) && !rooms.jobs[&other].aged && !is_parent(other)
    };
    let Some((lowest, other)) = rooms.cores.running().lowest_first().find(may) else { return String::new() };
    let first = head::head(rooms).map_or(lowest, |(_, head)| rooms.jobs[&head].request.priority);
    let priority = lowest.max(first).max(job.request.priority) + 1;
    let takes = rooms.settings.preemption != Preemption::Off
        && job.request.class != Some(Class::Backfill)
        && priority < RANK_AGED;
    match takes {
        true => {
            format!(", `pinfold set {} --priority {priority}`, or `pinfold suspend {other}`", job.id())
        }
        false => format!(", or `pinfold suspend {other}`"),
    }
}

/// A job that is to have cores of its own waits for idle ones, or for ones with lower jobs on them.
fn explain_isolated(rooms: &Rooms, job: &Job, numbers: &mut Numbers) -> (String, String) {
    let (wanted, idle) = (job.slots(), isolation::idle_cores(rooms).len());
    numbers.part("idle cores", (idle as u64, rooms.cores.grid().len() as u64), ["cores_idle", "cores"]);
    let running: Vec<JobId> = rooms.cores.running().lowest_first().map(|(_, job)| job).collect();
    let cores = count(wanted, "core", "cores");
    let cause = format!(
        "it waits for {wanted} {cores} to itself that no job of its priority is on, beside one for others"
    );
    (cause, format!("enough of {} must end, or its wait reach 10 minutes", some_of(&running)))
}

/// How many backfill jobs there may be, where the cores that primaries leave bound that.
fn explain_headroom(rooms: &Rooms, numbers: &mut Numbers) {
    let Some(headroom) = slots::headroom(&rooms.cores, &rooms.settings) else { return };
    let part = |milli: u64| format!("{}.{}", milli / 1000, milli % 1000 / 100);
    let left = headroom.left_milli.map_or_else(|| "not known how many".to_owned(), part);
    let text = format!(
        "{} of {}: {left} cores are idle, {} of that are kept free (`cpu.protect`)",
        headroom.allowed,
        headroom.most,
        part(headroom.kept_milli)
    );
    let mut figures = figures![
        "backfill_jobs_allowed": Number(headroom.allowed as u64),
        "backfill_jobs_at_most": Number(headroom.most as u64),
        "cores_kept_free_milli": Number(headroom.kept_milli),
    ];
    figures.extend(headroom.left_milli.map(|left| milli("cores_idle_milli", left)));
    numbers.put("backfillers allowed", text, figures);
}

/// Slots that are not handed out, as processes that are no jobs use cores.
fn explain_others(rooms: &Rooms, numbers: &mut Numbers) {
    let slots = others::withheld(&rooms.cores, &rooms.settings, slots::total(&rooms.cores, &rooms.settings));
    let Some(used) = rooms.cores.others().used_milli().filter(|_| slots > 0) else { return };
    let text = format!(
        "{slots}: other processes use {}.{} cores (`host.other_load`)",
        used / 1000,
        used % 1000 / 100
    );
    let figures = figures!["slots_withheld": Number(slots as u64), "other_load_milli": Number(used)];
    numbers.put("slots left to other processes", text, figures);
}

/// For how long no further backfill job starts, where one was held back for a primary.
fn explain_interference(rooms: &Rooms, numbers: &mut Numbers) {
    let Some(until) = rooms.cores.interference().until().filter(|until| *until > rooms.now) else { return };
    numbers.until("no more backfillers for", "no_more_backfill_s", until.since(rooms.now), " (`cpu.guard`)");
}
