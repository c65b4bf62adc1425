//! What the host as a whole does, read while jobs run: an idle host is not woken for it.
//!
//! Owner of state: when it was read, and when old readings were struck off. Absent here: what jobs do.

use std::path::Path;

use pinfold_profile::report;
use pinfold_profile::store::Store;
use pinfold_proto::host::{HostPoint, HostRow, HostView};
use pinfold_proto::view::VERSION;
use pinfold_sys::procfs::{self, PressureResource, ticks_to_us};

use crate::core::{Ctx, Refusal, store_failed};
use crate::store::journal::Journal;

/// No more often than this, with a sample of the jobs.
pub(crate) const EVERY_US: u64 = 10_000_000;
/// How often old readings are struck off.
const PRUNE_EVERY_US: u64 = 3_600_000_000;
/// So many readings one answer has at most, or about so many.
const TOLD_MAX: u64 = 1_000;
/// A reading from longer ago says nothing of a moment.
const RECENT_US: u64 = 600_000_000;

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct HostReadings {
    read_us: Option<u64>,
    pruned_us: Option<u64>,
}

impl HostReadings {
    /// Reads the host, if that is due.
    pub(crate) fn read_host(&mut self, ctx: &Ctx, journal: &mut Journal, now_us: u64) {
        let is_due = |then_us: u64| now_us < then_us || now_us - then_us >= EVERY_US;
        if !self.read_us.is_none_or(is_due) {
            return;
        }
        self.read_us = Some(now_us);
        match host_row(ctx, now_us) {
            Ok(row) => journal.host(row),
            Err(error) => tracing::debug!(%error, "the host cannot be read"),
        }
    }

    /// Strikes old readings off, now and then.
    pub(crate) fn prune_host(&mut self, ctx: &Ctx, journal: &mut Journal, now_us: u64, retain_us: u64) {
        let is_due = |then_us: u64| now_us < then_us || now_us - then_us >= PRUNE_EVERY_US;
        if !self.pruned_us.is_none_or(is_due) {
            return;
        }
        self.pruned_us = Some(now_us);
        let bytes_max = ctx.configured.config.profile_store_max;
        let pruned = journal.store().prune_host(now_us.saturating_sub(retain_us), now_us, bytes_max);
        if let Err(error) = pruned {
            tracing::warn!(%error, "old readings of the host cannot be struck off");
        }
    }
}

/// About how many readings are kept, at most.
pub(crate) fn kept_max(ctx: &Ctx) -> usize {
    let config = &ctx.configured.config;
    let retain_us = u64::try_from(config.profile_retain.as_micros()).unwrap_or(u64::MAX);
    let rows = Store::host_rows_max(retain_us, EVERY_US, config.profile_store_max);
    usize::try_from(rows).unwrap_or(usize::MAX)
}

fn host_row(ctx: &Ctx, now_us: u64) -> Result<HostRow, procfs::ProcError> {
    let (cpu, memory) = (ctx.proc.host_cpu()?, ctx.proc.memory_info()?);
    let stalls = |resource| ctx.proc.pressure(resource).ok().flatten();
    let (on_cpu, on_memory, on_io) =
        (stalls(PressureResource::Cpu), stalls(PressureResource::Memory), stalls(PressureResource::Io));
    let sys = Path::new("/sys");
    Ok(HostRow {
        time_us: now_us,
        cpu_busy_us: cpu.pus.iter().map(|pu| ticks_to_us(pu.busy_ticks)).fold(0, u64::saturating_add),
        memory_used_bytes: memory.total_bytes.saturating_sub(memory.available_bytes),
        swap_used_bytes: memory.swap_total_bytes.saturating_sub(memory.swap_free_bytes),
        cpu_stalled_us: on_cpu.map(|cpu| cpu.some.total_us),
        memory_stalled_us: on_memory.map(|memory| memory.some.total_us),
        memory_full_stalled_us: on_memory.and_then(|memory| Some(memory.full?.total_us)),
        io_stalled_us: on_io.map(|io| io.some.total_us),
        io_full_stalled_us: on_io.and_then(|io| Some(io.full?.total_us)),
        temperature_milli: procfs::temperature_milli(sys),
        frequency_khz: procfs::frequency_khz(sys),
    })
}

/// What the host did between two moments; `each`: the first readings of that time as they were taken, as many as one
/// answer holds.
pub(crate) fn host_view(
    ctx: &Ctx,
    journal: &mut Journal,
    since_us: u64,
    until_us: u64,
    each: bool,
) -> Result<HostView, Refusal> {
    let store = journal.store();
    let rows = if each {
        store.host_each(since_us, until_us, TOLD_MAX)
    } else {
        store.host_between(since_us, until_us, TOLD_MAX)
    };
    let rows = rows.map_err(|error| store_failed(&error))?;
    // The first one's means are since the one before it, which is not told of.
    let before = since_us.checked_sub(1).map(|until_us| store.host_until(until_us));
    let before = before.transpose().map_err(|error| store_failed(&error))?;
    let before = before.and_then(|mut rows| rows.pop());
    let all: Vec<HostRow> = before.into_iter().chain(rows).collect();
    let samples = report::host_points(&all).split_off(usize::from(before.is_some()));
    let pus = ctx.proc.host_cpu().map_or(0, |cpu| cpu.pus.len() as u64);
    let memory_bytes = ctx.proc.memory_info().map_or(0, |memory| memory.total_bytes);
    Ok(HostView { version: VERSION, host: ctx.host.clone(), pus, memory_bytes, samples })
}

/// What the host did up to its last reading before that moment, unless that was long before. What cannot be read is
/// not known: a question about jobs is answered all the same.
pub(crate) fn reading_at(journal: &mut Journal, at_us: u64) -> Option<Box<HostPoint>> {
    let rows = journal.store().host_until(at_us);
    let rows = rows.map_err(|error| tracing::debug!(%error, "the host's readings cannot be read")).ok()?;
    let recent = rows.last().is_some_and(|row| at_us - row.time_us <= RECENT_US);
    report::host_points(&rows).pop().filter(|_| recent).map(Box::new)
}
