//! The figures of a report. Each is named, so that one that is added later is not forgotten.

use pinfold_proto::Resource;
use pinfold_proto::view::{NodeView, ReportView};

use super::{Kind, See};

/// Looks at each.
#[expect(clippy::too_many_lines, reason = "a line for each figure")]
pub(super) fn each(report: &mut ReportView, see: See<'_>) {
    let ReportView {
        version: _,
        job: _,
        name: _,
        command: _,
        user: _,
        project: _,
        state: _,
        class: _,
        priority: _,
        cpus: _,
        array_id,
        array_index,
        external: _,
        submitted_s,
        started_s,
        ended_s,
        exit_code: _,
        signal: _,
        end: _,
        reason: _,
        timeout_s,
        cpu_limit_s,
        begin_s,
        comment: _,
        resources,
        queued_s,
        wall_s,
        suspended_s,
        requeues,
        checkpoints,
        cpu_user_s,
        cpu_system_s,
        cores,
        claim_bytes,
        input_bytes,
        limit_bytes,
        memory_peak_bytes,
        memory_mean_bytes,
        cache_peak_bytes,
        swap_peak_bytes,
        virtual_peak_bytes,
        io_read_bytes,
        io_write_bytes,
        processes_total,
        processes_peak,
        threads_peak,
        samples,
        numa,
        numa_local,
        files: _,
        files_from: _,
        files_left_out,
        memory_peak_kernel_bytes,
        cpu_stalled_s,
        memory_stalled_s,
        memory_full_stalled_s,
        io_stalled_s,
        io_full_stalled_s,
        anonymous_peak_bytes,
        shared_peak_bytes,
        mapped_peak_bytes,
        io_read_calls,
        io_write_calls,
        faults_minor,
        faults_major,
        switches_voluntary,
        switches_forced,
        waited_s,
        processes_from: _,
        processes: _,
        threads: _,
        series: _,
        notes: _,
    } = report;
    see("array_id", Kind::Count, array_id);
    see("array_index", Kind::Count, array_index);
    see("submitted_s", Kind::Moment, submitted_s);
    see("started_s", Kind::Moment, started_s);
    see("ended_s", Kind::Moment, ended_s);
    see("timeout_s", Kind::Span, timeout_s);
    see("cpu_limit_s", Kind::Work, cpu_limit_s);
    see("begin_s", Kind::Moment, begin_s);
    see("queued_s", Kind::Span, queued_s);
    see("wall_s", Kind::Span, wall_s);
    see("suspended_s", Kind::Span, suspended_s);
    see("requeues", Kind::Count, requeues);
    see("checkpoints", Kind::Count, checkpoints);
    see("cpu_user_s", Kind::Work, cpu_user_s);
    see("cpu_system_s", Kind::Work, cpu_system_s);
    see("cores", Kind::Cores, cores);
    see("claim_bytes", Kind::Memory, claim_bytes);
    see("input_bytes", Kind::Moved, input_bytes);
    see("limit_bytes", Kind::Memory, limit_bytes);
    see("memory_peak_bytes", Kind::Memory, memory_peak_bytes);
    see("memory_mean_bytes", Kind::Memory, memory_mean_bytes);
    see("cache_peak_bytes", Kind::Memory, cache_peak_bytes);
    see("swap_peak_bytes", Kind::Memory, swap_peak_bytes);
    see("virtual_peak_bytes", Kind::Moved, virtual_peak_bytes);
    see("io_read_bytes", Kind::Moved, io_read_bytes);
    see("io_write_bytes", Kind::Moved, io_write_bytes);
    see("processes_total", Kind::Count, processes_total);
    see("processes_peak", Kind::Count, processes_peak);
    see("threads_peak", Kind::Count, threads_peak);
    see("samples", Kind::Count, samples);
    see("numa_local", Kind::Part, numa_local);
    see("files_left_out", Kind::Count, files_left_out);
    see("memory_peak_kernel_bytes", Kind::Memory, memory_peak_kernel_bytes);
    see("cpu_stalled_s", Kind::Span, cpu_stalled_s);
    see("memory_stalled_s", Kind::Span, memory_stalled_s);
    see("memory_full_stalled_s", Kind::Span, memory_full_stalled_s);
    see("io_stalled_s", Kind::Span, io_stalled_s);
    see("io_full_stalled_s", Kind::Span, io_full_stalled_s);
    see("anonymous_peak_bytes", Kind::Memory, anonymous_peak_bytes);
    see("shared_peak_bytes", Kind::Memory, shared_peak_bytes);
    see("mapped_peak_bytes", Kind::Memory, mapped_peak_bytes);
    see("io_read_calls", Kind::Count, io_read_calls);
    see("io_write_calls", Kind::Count, io_write_calls);
    see("faults_minor", Kind::Count, faults_minor);
    see("faults_major", Kind::Count, faults_major);
    see("switches_voluntary", Kind::Count, switches_voluntary);
    see("switches_forced", Kind::Count, switches_forced);
    see("waited_s", Kind::Work, waited_s);
    for Resource { name: _, count, numbers: _, addresses: _ } in resources {
        see("resources.count", Kind::Count, count);
    }
    for NodeView { node: _, local: _, memory_bytes, memory_mean_bytes, memory_peak_bytes } in
        numa.iter_mut().flatten()
    {
        see("numa.memory_bytes", Kind::Memory, memory_bytes);
        see("numa.memory_mean_bytes", Kind::Memory, memory_mean_bytes);
        see("numa.memory_peak_bytes", Kind::Memory, memory_peak_bytes);
    }
}
