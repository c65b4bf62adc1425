//! The figures of a report. Every field is named, so that a new field is not forgotten.

use pinfold_proto::Resource;
use pinfold_proto::view::{NodeView, ReportView};

use super::{Kind, See};

/// Visits each figure.
pub(super) fn each(report: &mut ReportView, see: See<'_>) {
    figures!(see, "", report, ReportView {
        array_id: Count,
        array_index: Count,
        submitted_s: Moment,
        started_s: Moment,
        ended_s: Moment,
        timeout_s: Span,
        cpu_limit_s: Work,
        begin_s: Moment,
        queued_s: Span,
        wall_s: Span,
        suspended_s: Span,
        requeues: Count,
        checkpoints: Count,
        cpu_user_s: Work,
        cpu_system_s: Work,
        cores: Cores,
        claim_bytes: Memory,
        input_bytes: Moved,
        limit_bytes: Memory,
        memory_peak_bytes: Memory,
        memory_mean_bytes: Memory,
        cache_peak_bytes: Memory,
        swap_peak_bytes: Memory,
        virtual_peak_bytes: Moved,
        io_read_bytes: Moved,
        io_write_bytes: Moved,
        processes_total: Count,
        processes_peak: Count,
        threads_peak: Count,
        samples: Count,
        numa_local: Part,
        files_left_out: Count,
        threads_left_out: Count,
        memory_peak_kernel_bytes: Memory,
        cpu_stalled_s: Span,
        memory_stalled_s: Span,
        memory_full_stalled_s: Span,
        io_stalled_s: Span,
        io_full_stalled_s: Span,
        anonymous_peak_bytes: Memory,
        shared_peak_bytes: Memory,
        mapped_peak_bytes: Memory,
        io_read_calls: Count,
        io_write_calls: Count,
        faults_minor: Count,
        faults_major: Count,
        switches_voluntary: Count,
        switches_forced: Count,
        waited_s: Work,
    } with { resources, numa } without {
        version, job, name, command, directory, user, project, state, class, priority, cpus, external, exit_code, signal, end, reason, comment, output, error_output, files, files_from, processes_from, processes, threads, series, notes
    });
    for resource in resources {
        figures!(see, "resources.", resource, Resource { count: Count } with {} without { name, numbers, addresses });
    }
    for node in numa.iter_mut().flatten() {
        figures!(see, "numa.", node, NodeView {
            memory_bytes: Memory,
            memory_mean_bytes: Memory,
            memory_peak_bytes: Memory,
        } with {} without { node, local });
    }
}
