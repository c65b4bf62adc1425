//! The figures of how a host is. Each is named, so that one that is added later is not forgotten.

use pinfold_proto::host::HostPoint;
use pinfold_proto::job::{OwnNodesView, PlaceView};
use pinfold_proto::view::{
    JobView, MemoryView, NeighboursView, OtherLoadView, ProjectView, ResourceView, SlotsView, StatusView,
};

use super::{Kind, See};

/// Looks at each.
pub(super) fn each(status: &mut StatusView, see: See<'_>) {
    let StatusView {
        version: _,
        host: _,
        mode: _,
        slots,
        memory,
        projects,
        resources,
        other_load,
        neighbours,
        at_s,
        reading,
        draining: _,
        jobs,
        warnings: _,
    } = status;
    host(slots, memory, see);
    projects.iter_mut().for_each(|one| project(one, see));
    for ResourceView { resource: _, total, used, jobs: _, devices: _ } in resources {
        see("resources.total", Kind::Count, total);
        see("resources.used", Kind::Count, used);
    }
    if let Some(OtherLoadView { cores, slots_withheld, memory_bytes }) = other_load {
        see("other_load.cores", Kind::Cores, cores);
        see("other_load.slots_withheld", Kind::Cores, slots_withheld);
        see("other_load.memory_bytes", Kind::Memory, memory_bytes);
    }
    if let Some(neighbours) = neighbours {
        shared(neighbours, see);
    }
    see("at_s", Kind::Moment, at_s);
    if let Some(reading) = reading {
        point(reading, see);
    }
    jobs.iter_mut().for_each(|one| job(one, see));
}

fn host(slots: &mut SlotsView, memory: &mut MemoryView, see: See<'_>) {
    let SlotsView { cores, factor, total, used, waiting } = slots;
    see("slots.cores", Kind::Cores, cores);
    see("slots.factor", Kind::Cores, factor);
    see("slots.total", Kind::Count, total);
    see("slots.used", Kind::Count, used);
    see("slots.waiting", Kind::Count, waiting);
    let MemoryView { budget_bytes, held_bytes, swap_held_bytes, pressure_full_avg10 } = memory;
    see("memory.budget_bytes", Kind::Memory, budget_bytes);
    see("memory.held_bytes", Kind::Memory, held_bytes);
    see("memory.swap_held_bytes", Kind::Memory, swap_held_bytes);
    see("memory.pressure_full_avg10", Kind::Part, pressure_full_avg10);
}

fn project(project: &mut ProjectView, see: See<'_>) {
    let ProjectView {
        project: _,
        users: _,
        cores_guaranteed,
        cores_used,
        cores_borrowed,
        cores_owed,
        memory_guaranteed_bytes,
        memory_used_bytes,
        memory_borrowed_bytes,
        memory_owed_bytes,
        jobs_started,
        jobs_waiting,
    } = project;
    see("projects.cores_guaranteed", Kind::Cores, cores_guaranteed);
    see("projects.cores_used", Kind::Cores, cores_used);
    see("projects.cores_borrowed", Kind::Cores, cores_borrowed);
    see("projects.cores_owed", Kind::Cores, cores_owed);
    see("projects.memory_guaranteed_bytes", Kind::Memory, memory_guaranteed_bytes);
    see("projects.memory_used_bytes", Kind::Memory, memory_used_bytes);
    see("projects.memory_borrowed_bytes", Kind::Memory, memory_borrowed_bytes);
    see("projects.memory_owed_bytes", Kind::Memory, memory_owed_bytes);
    see("projects.jobs_started", Kind::Count, jobs_started);
    see("projects.jobs_waiting", Kind::Count, jobs_waiting);
}

fn shared(neighbours: &mut NeighboursView, see: See<'_>) {
    let NeighboursView {
        users,
        cores,
        host_cores,
        memory_bytes,
        host_memory_bytes,
        others_slots_wanted,
        others_cores_held,
        others_memory_held_bytes,
    } = neighbours;
    see("neighbours.users", Kind::Count, users);
    see("neighbours.cores", Kind::Cores, cores);
    see("neighbours.host_cores", Kind::Cores, host_cores);
    see("neighbours.memory_bytes", Kind::Memory, memory_bytes);
    see("neighbours.host_memory_bytes", Kind::Memory, host_memory_bytes);
    see("neighbours.others_slots_wanted", Kind::Count, others_slots_wanted);
    see("neighbours.others_cores_held", Kind::Cores, others_cores_held);
    see("neighbours.others_memory_held_bytes", Kind::Memory, others_memory_held_bytes);
}

fn point(point: &mut HostPoint, see: See<'_>) {
    let HostPoint {
        time_s,
        span_s,
        cpu_busy,
        memory_used_bytes,
        swap_used_bytes,
        cpu_stalled,
        memory_stalled,
        memory_full_stalled,
        io_stalled,
        io_full_stalled,
        temperature_celsius,
        frequency_mhz,
    } = point;
    see("reading.time_s", Kind::Moment, time_s);
    see("reading.span_s", Kind::Span, span_s);
    see("reading.cpu_busy", Kind::Cores, cpu_busy);
    see("reading.memory_used_bytes", Kind::Memory, memory_used_bytes);
    see("reading.swap_used_bytes", Kind::Memory, swap_used_bytes);
    // Counters and the clock are read one after the other: the parts of a short time may be a little more than all.
    see("reading.cpu_stalled", Kind::Cores, cpu_stalled);
    see("reading.memory_stalled", Kind::Cores, memory_stalled);
    see("reading.memory_full_stalled", Kind::Cores, memory_full_stalled);
    see("reading.io_stalled", Kind::Cores, io_stalled);
    see("reading.io_full_stalled", Kind::Cores, io_full_stalled);
    see("reading.temperature_celsius", Kind::Degrees, temperature_celsius);
    see("reading.frequency_mhz", Kind::Count, frequency_mhz);
}

fn job(job: &mut JobView, see: See<'_>) {
    see("jobs.memory_bytes", Kind::Memory, &mut job.memory_bytes);
    see("jobs.swap_bytes", Kind::Memory, &mut job.swap_bytes);
    see("jobs.cpu_s", Kind::Work, &mut job.cpu_s);
    see("jobs.seen_s", Kind::Moment, &mut job.seen_s);
    see("jobs.cpu_cores", Kind::Cores, &mut job.cpu_cores);
    see("jobs.submitted_s", Kind::Moment, &mut job.submitted_s);
    see("jobs.started_s", Kind::Moment, &mut job.started_s);
    see("jobs.ended_s", Kind::Moment, &mut job.ended_s);
    see("jobs.timeout_s", Kind::Span, &mut job.timeout_s);
    see("jobs.cpu_limit_s", Kind::Work, &mut job.cpu_limit_s);
    see("jobs.begin_s", Kind::Moment, &mut job.begin_s);
    see("jobs.array_id", Kind::Count, &mut job.array_id);
    job.resources.iter_mut().for_each(|one| see("jobs.resources.count", Kind::Count, &mut one.count));
    if let Some(PlaceView {
        lies: _,
        domains,
        runs_compact,
        runs_spread,
        settled: _,
        gain,
        gain_low,
        gain_high,
    }) = &mut job.place
    {
        see("jobs.place.domains", Kind::Count, domains);
        see("jobs.place.runs_compact", Kind::Count, runs_compact);
        see("jobs.place.runs_spread", Kind::Count, runs_spread);
        see("jobs.place.gain", Kind::Ratio, gain);
        see("jobs.place.gain_low", Kind::Ratio, gain_low);
        see("jobs.place.gain_high", Kind::Ratio, gain_high);
    }
    if let Some(OwnNodesView { nodes: _, foreign_before, foreign_after, kept: _, found: _ }) =
        &mut job.own_nodes
    {
        see("jobs.own_nodes.foreign_before", Kind::Part, foreign_before);
        see("jobs.own_nodes.foreign_after", Kind::Part, foreign_after);
    }
}
