//! The figures of a host's state. Every field is named, so that a new field is not forgotten.

use pinfold_proto::Resource;
use pinfold_proto::host::HostPoint;
use pinfold_proto::job::{OwnNodesView, PlaceView};
use pinfold_proto::view::{
    JobView, MemoryView, NeighboursView, OtherLoadView, ProjectView, ResourceView, SlotsView, StatusView,
};

use super::{Kind, See};

/// Visits each figure.
pub(super) fn each(status: &mut StatusView, see: See<'_>) {
    figures!(see, "", status, StatusView { at_s: Moment } with {
        slots, memory, projects, resources, other_load, neighbours, reading, jobs
    } without { version, host, mode, draining, warnings });
    host(slots, memory, see);
    projects.iter_mut().for_each(|one| project(one, see));
    for resource in resources {
        figures!(see, "resources.", resource, ResourceView { total: Count, used: Count } with {} without { resource, jobs, devices });
    }
    if let Some(load) = other_load {
        figures!(see, "other_load.", load, OtherLoadView {
            cores: Cores, slots_withheld: Cores, memory_bytes: Memory,
        } with {} without {});
    }
    if let Some(neighbours) = neighbours {
        shared(neighbours, see);
    }
    if let Some(reading) = reading {
        point(reading, see);
    }
    jobs.iter_mut().for_each(|one| job(one, see));
}

fn host(slots: &mut SlotsView, memory: &mut MemoryView, see: See<'_>) {
    figures!(see, "slots.", slots, SlotsView {
        cores: Cores,
        factor: Cores,
        total: Count,
        used: Count,
        waiting: Count,
    } with {} without {});
    figures!(see, "memory.", memory, MemoryView {
        budget_bytes: Memory,
        held_bytes: Memory,
        swap_held_bytes: Memory,
        pressure_full_avg10: Part,
    } with {} without {});
}

fn project(project: &mut ProjectView, see: See<'_>) {
    figures!(see, "projects.", project, ProjectView {
        cores_guaranteed: Cores,
        cores_used: Cores,
        cores_borrowed: Cores,
        cores_owed: Cores,
        memory_guaranteed_bytes: Memory,
        memory_used_bytes: Memory,
        memory_borrowed_bytes: Memory,
        memory_owed_bytes: Memory,
        jobs_started: Count,
        jobs_waiting: Count,
    } with {} without { project, users });
}

fn shared(neighbours: &mut NeighboursView, see: See<'_>) {
    figures!(see, "neighbours.", neighbours, NeighboursView {
        users: Count,
        cores: Cores,
        host_cores: Cores,
        memory_bytes: Memory,
        host_memory_bytes: Memory,
        others_slots_wanted: Count,
        others_cores_held: Cores,
        others_memory_held_bytes: Memory,
    } with {} without {});
}

/// Counters and the clock are read in turn: fractions of a short time may slightly exceed the whole.
fn point(point: &mut HostPoint, see: See<'_>) {
    figures!(see, "reading.", point, HostPoint {
        time_s: Moment,
        span_s: Span,
        cpu_busy: Cores,
        memory_used_bytes: Memory,
        swap_used_bytes: Memory,
        cpu_stalled: Cores,
        memory_stalled: Cores,
        memory_full_stalled: Cores,
        io_stalled: Cores,
        io_full_stalled: Cores,
        temperature_celsius: Degrees,
        frequency_mhz: Count,
    } with {} without {});
}

fn job(job: &mut JobView, see: See<'_>) {
    figures!(see, "jobs.", job, JobView {
        memory_bytes: Memory,
        swap_bytes: Memory,
        cpu_s: Work,
        seen_s: Moment,
        cpu_cores: Cores,
        submitted_s: Moment,
        started_s: Moment,
        ended_s: Moment,
        timeout_s: Span,
        cpu_limit_s: Work,
        begin_s: Moment,
        array_id: Count,
    } with { resources, place, own_nodes } without {
        job, name, user, project, state, class, priority, cpus, set, array_index, external, command, pids, exit_code, signal, end, reason, comment, output, error_output
    });
    for resource in resources {
        figures!(see, "jobs.resources.", resource, Resource { count: Count } with {} without { name, numbers, addresses });
    }
    if let Some(place) = place {
        figures!(see, "jobs.place.", place, PlaceView {
        domains: Count,
        runs_compact: Count,
        runs_spread: Count,
        gain: Ratio,
        gain_low: Ratio,
        gain_high: Ratio,
        } with {} without { lies, settled });
    }
    if let Some(own) = own_nodes {
        figures!(see, "jobs.own_nodes.", own, OwnNodesView {
        foreign_before: Part,
        foreign_after: Part,
        } with {} without { nodes, kept, found });
    }
}
