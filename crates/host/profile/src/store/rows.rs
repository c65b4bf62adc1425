//! Row types as columns: for each type the list of columns, a writer and a reader.

mod process;
mod used;
mod words;

use pinfold_proto::row::{
    Codes, Counts, DecisionRow, JobRow, Lay, ProcessId, ProcessesFrom, SampleRow, Stalls, Usage,
};
use pinfold_proto::{End, Ending, JobArray, JobClass, JobPlace, JobSpec, JobState};
use rusqlite::Row;

use super::fields::{Binder, Fields};

pub(super) use process::{PROCESS, bind_process, read_process_row};
use words::{class_of, from_of, state_of};

pub(super) use used::{FILE, NODE, bind_file, bind_node, read_file, read_node};

/// The columns of `jobs` written once with a job's first row.
pub(super) const JOB_FIXED: [&str; 29] = [
    "job",
    "uid",
    "user",
    "project",
    "command",
    "directory",
    "priority_asked",
    "class_asked",
    "cores",
    "limit_bytes",
    "ttl_us",
    "expected_us",
    "no_suspend",
    "line",
    "layout",
    "after",
    "tmp_bytes",
    "private_tmp",
    "requeue",
    "no_network",
    "checkpoint",
    "array_id",
    "array_index",
    "array_at_most",
    "allocation",
    "disk_bytes",
    "external",
    "input_bytes",
    "submitted_us",
];

/// The columns of `jobs`; the key first.
pub(super) const JOB: [&str; 98] = [
    "job",
    "uid",
    "user",
    "name",
    "project",
    "command",
    "directory",
    "priority_asked",
    "class_asked",
    "cores",
    "claim_bytes",
    "limit_bytes",
    "ttl_us",
    "expected_us",
    "held",
    "no_suspend",
    "line",
    "layout",
    "after",
    "tmp_bytes",
    "private_tmp",
    "requeue",
    "no_network",
    "checkpoint",
    "array_id",
    "array_index",
    "array_at_most",
    "allocation",
    "disk_bytes",
    "adopted",
    "terms",
    "external",
    "input_bytes",
    "priority",
    "class",
    "state",
    "submitted_us",
    "waits_since_us",
    "started_us",
    "ended_us",
    "suspended_us",
    "frozen_since_us",
    "suspended",
    "cpus",
    "keeper_pid",
    "keeper_start_ticks",
    "main_pid",
    "main_start_ticks",
    "ending_us",
    "exit_code",
    "signal",
    "ending_cpu_user_us",
    "ending_cpu_system_us",
    "ending_rss_peak_bytes",
    "ending_io_read_bytes",
    "ending_io_write_bytes",
    "ending_faults_minor",
    "ending_faults_major",
    "ending_switches_voluntary",
    "ending_switches_forced",
    "ended_by",
    "requeues",
    "checkpoints",
    "requeuing",
    "reason",
    "lay",
    "lay_domains",
    "needed_bytes",
    "cpu_user_us",
    "cpu_system_us",
    "memory_peak_bytes",
    "memory_mean_bytes",
    "cache_peak_bytes",
    "swap_peak_bytes",
    "virtual_peak_bytes",
    "io_read_bytes",
    "io_write_bytes",
    "processes_total",
    "processes_peak",
    "threads_peak",
    "samples",
    "memory_peak_kernel_bytes",
    "cpu_stalled_us",
    "memory_stalled_us",
    "memory_full_stalled_us",
    "io_stalled_us",
    "io_full_stalled_us",
    "processes_from",
    "anonymous_peak_bytes",
    "shared_peak_bytes",
    "mapped_peak_bytes",
    "io_read_calls",
    "io_write_calls",
    "faults_minor",
    "faults_major",
    "switches_voluntary",
    "switches_forced",
    "waited_us",
];

/// The columns of `samples`.
pub(super) const SAMPLE: [&str; 18] = [
    "job",
    "time_us",
    "state",
    "cpu_user_us",
    "cpu_system_us",
    "memory_bytes",
    "cache_bytes",
    "swap_bytes",
    "virtual_bytes",
    "io_read_bytes",
    "io_write_bytes",
    "processes",
    "threads",
    "cpu_stalled_us",
    "memory_stalled_us",
    "memory_full_stalled_us",
    "io_stalled_us",
    "io_full_stalled_us",
];

/// The columns of `decisions` that pinfold fills.
pub(super) const DECISION: [&str; 7] =
    ["job", "time_us", "action", "reason", "action_code", "code", "figures"];

/// A job into a statement over [`JOB`].
pub(super) fn bind_job(row: &JobRow, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.number(row.job)?.put(row.uid)?.put(&row.user)?;
    bind_spec(&row.spec, to)?;
    to.put(row.priority)?.put(row.class.word())?.put(row.state.word())?;
    to.number(row.submitted_us)?.maybe(row.waits_since_us)?.maybe(row.started_us)?.maybe(row.ended_us)?;
    to.number(row.suspended_us)?.maybe(row.frozen_since_us)?.put(row.suspended)?.put(&row.cpus)?;
    for process in [row.keeper, row.main] {
        to.put(process.map(|process| process.pid))?.maybe(process.map(|process| process.start_ticks))?;
    }
    let ending = row.ending.as_ref();
    to.maybe(ending.map(|ending| ending.ended_us))?;
    to.put(ending.and_then(|ending| ending.exit_code))?.put(ending.and_then(|ending| ending.signal))?;
    to.maybe(ending.map(|ending| ending.cpu_user_us))?.maybe(ending.map(|ending| ending.cpu_system_us))?;
    to.maybe(ending.map(|ending| ending.rss_peak_bytes))?;
    to.maybe(ending.map(|ending| ending.io_read_bytes))?;
    to.maybe(ending.map(|ending| ending.io_write_bytes))?;
    to.maybe(ending.and_then(|ending| ending.faults_minor))?;
    to.maybe(ending.and_then(|ending| ending.faults_major))?;
    to.maybe(ending.and_then(|ending| ending.switches_voluntary))?;
    to.maybe(ending.and_then(|ending| ending.switches_forced))?;
    to.put(row.end.map(End::as_str))?;
    to.put(row.requeues)?.put(row.checkpoints)?.put(row.requeuing)?.put(&row.reason)?;
    to.put(row.lay.map(|lay| lay.place.as_str()))?.put(row.lay.map(|lay| lay.domains))?;
    to.maybe(row.needed_bytes)?;
    bind_usage(&row.usage, to)
}

fn bind_spec(spec: &JobSpec, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    let command = serde_json::to_string(&spec.command).expect("a list of texts always has a JSON form");
    to.put(&spec.name)?.put(&spec.project)?.put(command)?.put(&spec.directory)?;
    to.put(spec.priority)?.put(spec.class.map(JobClass::word))?.put(spec.cores)?;
    to.maybe(spec.claim_bytes)?.maybe(spec.limit_bytes)?.maybe(spec.ttl_us)?.maybe(spec.expected_us)?;
    to.put(spec.held)?.put(spec.no_suspend)?.maybe(spec.line)?;
    let text = |layout| serde_json::to_string(layout).expect("texts always have a JSON form");
    to.put(spec.layout.as_ref().map(text))?;
    let numbers = || serde_json::to_string(&spec.after).expect("numbers always have a JSON form");
    to.put((!spec.after.is_empty()).then(numbers))?;
    to.maybe(spec.tmp_bytes)?.put(spec.private_tmp)?.put(spec.requeue)?;
    to.put(spec.no_network)?;
    let checkpoint = |one| serde_json::to_string(one).expect("texts always have a JSON form");
    to.put(spec.checkpoint.as_ref().map(checkpoint))?;
    let array = spec.array.as_ref();
    to.maybe(array.and_then(|array| array.array))?.put(array.map(|array| array.index))?;
    to.put(array.and_then(|array| array.at_most))?;
    let allocation = |one| serde_json::to_string(one).expect("texts and numbers always have a JSON form");
    to.put(spec.allocation.as_ref().map(allocation))?.maybe(spec.disk_bytes)?;
    let adopted = |one| serde_json::to_string(one).expect("texts and numbers always have a JSON form");
    to.put(spec.adopted.as_ref().map(adopted))?;
    let terms = || serde_json::to_string(&spec.terms).expect("texts and numbers always have a JSON form");
    to.put((!spec.terms.is_empty()).then(terms))?;
    to.put(spec.external.as_ref().map(|name| name.as_str().to_owned()))?.maybe(spec.input_bytes)?;
    Ok(())
}

fn bind_usage(usage: &Usage, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.number(usage.cpu_user_us)?.number(usage.cpu_system_us)?;
    to.number(usage.memory_peak_bytes)?.number(usage.memory_mean_bytes)?.maybe(usage.cache_peak_bytes)?;
    to.number(usage.swap_peak_bytes)?.number(usage.virtual_peak_bytes)?;
    to.number(usage.io_read_bytes)?.number(usage.io_write_bytes)?;
    to.number(usage.processes_total)?.number(usage.processes_peak)?.number(usage.threads_peak)?;
    to.number(usage.samples)?.maybe(usage.memory_peak_kernel_bytes)?;
    bind_stalls(usage.stalls, to)?;
    to.put(usage.processes_from.word())?;
    to.maybe(usage.anonymous_peak_bytes)?.maybe(usage.shared_peak_bytes)?.maybe(usage.mapped_peak_bytes)?;
    bind_counts(&usage.counts, to)
}

fn bind_counts(counts: &Counts, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.maybe(counts.io_read_calls)?.maybe(counts.io_write_calls)?;
    to.maybe(counts.faults_minor)?.maybe(counts.faults_major)?;
    to.maybe(counts.switches_voluntary)?.maybe(counts.switches_forced)?.maybe(counts.waited_us)?;
    Ok(())
}

fn read_counts(from: &mut Fields<'_, '_>) -> rusqlite::Result<Counts> {
    Ok(Counts {
        io_read_calls: from.maybe()?,
        io_write_calls: from.maybe()?,
        faults_minor: from.maybe()?,
        faults_major: from.maybe()?,
        switches_voluntary: from.maybe()?,
        switches_forced: from.maybe()?,
        waited_us: from.maybe()?,
    })
}

fn bind_stalls(stalls: Option<Stalls>, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.maybe(stalls.map(|stalls| stalls.cpu_us))?.maybe(stalls.map(|stalls| stalls.memory_us))?;
    to.maybe(stalls.map(|stalls| stalls.memory_full_us))?.maybe(stalls.map(|stalls| stalls.io_us))?;
    to.maybe(stalls.map(|stalls| stalls.io_full_us))?;
    Ok(())
}

fn read_stalls(from: &mut Fields<'_, '_>) -> rusqlite::Result<Option<Stalls>> {
    let all = [from.maybe()?, from.maybe()?, from.maybe()?, from.maybe()?, from.maybe()?];
    let [Some(cpu_us), Some(memory_us), Some(memory_full_us), Some(io_us), Some(io_full_us)] = all else {
        return Ok(None);
    };
    Ok(Some(Stalls { cpu_us, memory_us, memory_full_us, io_us, io_full_us }))
}

/// A job out of a row over [`JOB`].
pub(super) fn read_job(row: &Row<'_>) -> rusqlite::Result<JobRow> {
    let from = &mut Fields::new(row);
    let (job, uid, user, spec) = (from.number()?, from.small()?, from.text()?, read_spec(from)?);
    let (priority, class, state) = (from.maybe_byte()?.unwrap_or(0), from.text()?, from.text()?);
    let (submitted_us, waits_since_us) = (from.number()?, from.maybe()?);
    let (started_us, ended_us) = (from.maybe()?, from.maybe()?);
    // Only a damaged file has another word; a job without an end must not count as ended.
    let state = state_of(&state).unwrap_or(match (started_us, ended_us) {
        (_, Some(_)) => JobState::Exited,
        (Some(_), None) => JobState::Running,
        (None, None) => JobState::Queued,
    });
    Ok(JobRow {
        job,
        uid,
        user,
        spec,
        priority,
        class: class_of(&class).unwrap_or(JobClass::Primary),
        state,
        submitted_us,
        waits_since_us,
        started_us,
        ended_us,
        suspended_us: from.number()?,
        frozen_since_us: from.maybe()?,
        suspended: from.yes()?,
        cpus: from.maybe_text()?,
        keeper: read_process(from)?,
        main: read_process(from)?,
        ending: read_ending(from)?,
        end: from.maybe_text()?.as_deref().and_then(End::of),
        requeues: from.small()?,
        checkpoints: from.small()?,
        requeuing: from.yes()?,
        reason: from.maybe_text()?,
        lay: read_lay(from)?,
        needed_bytes: from.maybe()?,
        usage: read_usage(from)?,
    })
}

fn read_lay(from: &mut Fields<'_, '_>) -> rusqlite::Result<Option<Lay>> {
    let (word, domains) = (from.maybe_text()?, from.maybe()?);
    let place = word.and_then(|word| JobPlace::of(&word)).filter(|place| *place != JobPlace::Auto);
    let lay = |(place, domains)| Lay { place, domains: u32::try_from(domains).unwrap_or(u32::MAX) };
    Ok(place.zip(domains).map(lay))
}

fn read_spec(from: &mut Fields<'_, '_>) -> rusqlite::Result<JobSpec> {
    Ok(JobSpec {
        name: from.text()?,
        project: from.maybe_text()?,
        command: {
            let text = from.text()?;
            serde_json::from_str(&text).unwrap_or_else(|_| vec![text])
        },
        directory: from.text()?,
        priority: from.maybe_byte()?,
        class: from.maybe_text()?.as_deref().and_then(class_of),
        cores: from.small()?,
        claim_bytes: from.maybe()?,
        limit_bytes: from.maybe()?,
        ttl_us: from.maybe()?,
        expected_us: from.maybe()?,
        held: from.yes()?,
        no_suspend: from.yes()?,
        line: from.maybe()?,
        layout: from.maybe_text()?.and_then(|text| serde_json::from_str(&text).ok()),
        after: from.maybe_text()?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        tmp_bytes: from.maybe()?,
        private_tmp: from.yes()?,
        requeue: from.yes()?,
        no_network: from.yes()?,
        checkpoint: from.maybe_text()?.and_then(|text| serde_json::from_str(&text).ok()),
        array: read_array(from)?,
        allocation: from.maybe_text()?.and_then(|text| serde_json::from_str(&text).ok()),
        disk_bytes: from.maybe()?,
        adopted: from.maybe_text()?.and_then(|text| serde_json::from_str(&text).ok()),
        terms: from.maybe_text()?.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
        external: from.maybe_text()?.and_then(|text| text.parse().ok()),
        input_bytes: from.maybe()?,
    })
}

fn read_array(from: &mut Fields<'_, '_>) -> rusqlite::Result<Option<JobArray>> {
    let (array, index, at_most) = (from.maybe()?, from.maybe()?, from.maybe()?);
    let small = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Ok(index.map(|index| JobArray { array, index: small(index), at_most: at_most.map(small) }))
}

fn read_process(from: &mut Fields<'_, '_>) -> rusqlite::Result<Option<ProcessId>> {
    let (pid, start_ticks) = (from.maybe()?, from.maybe()?);
    let pid = pid.and_then(|pid| u32::try_from(pid).ok());
    Ok(pid.zip(start_ticks).map(|(pid, start_ticks)| ProcessId { pid, start_ticks }))
}

fn read_ending(from: &mut Fields<'_, '_>) -> rusqlite::Result<Option<Ending>> {
    let ended_us = from.maybe()?;
    let ending = Ending {
        ended_us: ended_us.unwrap_or(0),
        exit_code: from.maybe_small()?,
        signal: from.maybe_small()?,
        cpu_user_us: from.number()?,
        cpu_system_us: from.number()?,
        rss_peak_bytes: from.number()?,
        io_read_bytes: from.number()?,
        io_write_bytes: from.number()?,
        faults_minor: from.maybe()?,
        faults_major: from.maybe()?,
        switches_voluntary: from.maybe()?,
        switches_forced: from.maybe()?,
    };
    Ok(ended_us.map(|_| ending))
}

fn read_usage(from: &mut Fields<'_, '_>) -> rusqlite::Result<Usage> {
    Ok(Usage {
        cpu_user_us: from.number()?,
        cpu_system_us: from.number()?,
        memory_peak_bytes: from.number()?,
        memory_mean_bytes: from.number()?,
        cache_peak_bytes: from.maybe()?,
        swap_peak_bytes: from.number()?,
        virtual_peak_bytes: from.number()?,
        io_read_bytes: from.number()?,
        io_write_bytes: from.number()?,
        processes_total: from.number()?,
        processes_peak: from.number()?,
        threads_peak: from.number()?,
        samples: from.number()?,
        memory_peak_kernel_bytes: from.maybe()?,
        stalls: read_stalls(from)?,
        processes_from: from.maybe_text()?.map_or(ProcessesFrom::Unknown, |word| from_of(&word)),
        anonymous_peak_bytes: from.maybe()?,
        shared_peak_bytes: from.maybe()?,
        mapped_peak_bytes: from.maybe()?,
        counts: read_counts(from)?,
    })
}

/// A sample into a statement over [`SAMPLE`].
pub(super) fn bind_sample(row: &SampleRow, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.number(row.job)?.number(row.time_us)?.put(row.state.word())?;
    to.number(row.cpu_user_us)?.number(row.cpu_system_us)?;
    to.number(row.memory_bytes)?.maybe(row.cache_bytes)?.number(row.swap_bytes)?.number(row.virtual_bytes)?;
    to.number(row.io_read_bytes)?.number(row.io_write_bytes)?.put(row.processes)?.put(row.threads)?;
    bind_stalls(row.stalls, to)
}

/// A sample out of a row over [`SAMPLE`].
pub(super) fn read_sample(row: &Row<'_>) -> rusqlite::Result<SampleRow> {
    let from = &mut Fields::new(row);
    Ok(SampleRow {
        job: from.number()?,
        time_us: from.number()?,
        state: state_of(&from.text()?).unwrap_or(JobState::Running),
        cpu_user_us: from.number()?,
        cpu_system_us: from.number()?,
        memory_bytes: from.number()?,
        cache_bytes: from.maybe()?,
        swap_bytes: from.number()?,
        virtual_bytes: from.number()?,
        io_read_bytes: from.number()?,
        io_write_bytes: from.number()?,
        processes: from.small()?,
        threads: from.small()?,
        stalls: read_stalls(from)?,
    })
}

/// A decision into a statement over [`DECISION`].
pub(super) fn bind_decision(row: &DecisionRow, to: &mut Binder<'_, '_>) -> rusqlite::Result<()> {
    to.number(row.job)?.number(row.time_us)?.put(&row.action)?.put(&row.reason)?;
    let codes = row.codes.as_ref();
    to.put(codes.map(|codes| &codes.action))?.put(codes.map(|codes| &codes.reason))?;
    // Most decisions have no figures, and a store keeps many decisions.
    let figures = codes.map(|codes| &codes.figures).filter(|figures| !figures.is_empty());
    to.put(figures.and_then(|figures| serde_json::to_string(figures).ok()))?;
    Ok(())
}

/// A decision out of a row over [`DECISION`].
pub(super) fn read_decision(row: &Row<'_>) -> rusqlite::Result<DecisionRow> {
    let from = &mut Fields::new(row);
    Ok(DecisionRow {
        job: from.number()?,
        time_us: from.number()?,
        action: from.text()?,
        reason: from.text()?,
        codes: read_codes(from)?,
    })
}

fn read_codes(from: &mut Fields<'_, '_>) -> rusqlite::Result<Option<Codes>> {
    let (action, reason, figures) = (from.maybe_text()?, from.maybe_text()?, from.maybe_text()?);
    let figures = figures.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
    Ok(action.zip(reason).map(|(action, reason)| Codes { action, reason, figures }))
}
