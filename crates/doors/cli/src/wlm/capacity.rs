//! `pinfold wlm capacity`: how much more this host takes, in the words of a workload manager.

use clap::{Args, ValueEnum};
use pinfold_proto::view::{SlotsView, StatusView};
use pinfold_proto::wire::Request;
use serde_json::json;

use crate::print::{JSON_VERSION, print_json, print_text};
use pinfold_client::{Dial, Failure};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// Grid Engine's load sensors: HOST:NAME:VALUE
    Gridengine,
    /// HTCondor's startd cron: NAME = VALUE
    Htcondor,
}

#[derive(Debug, Args)]
pub(crate) struct CapacityArgs {
    /// Lines for this manager
    #[arg(long, value_enum, value_name = "MANAGER", conflicts_with = "json")]
    format: Option<Format>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The figures for a manager.
#[derive(Debug, Clone, PartialEq)]
struct Capacity {
    host: String,
    slots_total: u64,
    slots_free: u64,
    waiting: u64,
    memory_free_bytes: u64,
    pressure: f64,
    draining: bool,
}

impl Capacity {
    fn of(view: &StatusView) -> Self {
        Self {
            host: view.host.clone(),
            slots_total: if view.draining { 0 } else { view.slots.total },
            slots_free: if view.draining { 0 } else { free(&view.slots) },
            waiting: view.slots.waiting,
            memory_free_bytes: view.memory.budget_bytes.saturating_sub(view.memory.held_bytes),
            pressure: view.memory.pressure_full_avg10.unwrap_or(0.0),
            draining: view.draining,
        }
    }

    fn lines(&self, format: Format) -> String {
        let Self { host, slots_total, slots_free, waiting, memory_free_bytes, pressure, draining } = self;
        let (mib, draining) = (memory_free_bytes >> 20, u8::from(*draining));
        match format {
            Format::Gridengine => format!(
                "{host}:pinfold_slots:{slots_free}\n{host}:pinfold_memory:{mib}M\n{host}:pinfold_waiting:{waiting}\n\
                 {host}:pinfold_pressure:{pressure:.3}\n{host}:pinfold_draining:{draining}\n"
            ),
            Format::Htcondor => {
                let open = if *slots_free > 0 { "True" } else { "False" };
                format!(
                    "Slots = {slots_total}\nSlotsFree = {slots_free}\nWaiting = {waiting}\nMemoryFree = {mib}\n\
                     Pressure = {pressure:.3}\nOpen = {open}\n"
                )
            }
        }
    }
}

/// Slots without a job. A job that is held, begins later or waits for others takes none.
fn free(slots: &SlotsView) -> u64 {
    slots.total.saturating_sub(slots.used).saturating_sub(slots.waiting)
}

/// `pinfold wlm capacity`.
pub(super) fn capacity(dial: &Dial, args: &CapacityArgs) -> Result<(), Failure> {
    let view = answer!(
        dial.connect()?.ask(&Request::Status { jobs: Vec::new(), all: false, at_us: None })?,
        Status
    )?;
    let capacity = Capacity::of(&view);
    if let Some(format) = args.format {
        return print_text(|out| out.write_all(capacity.lines(format).as_bytes()));
    }
    let Capacity { host, slots_total, slots_free, waiting, memory_free_bytes, pressure, draining } = capacity;
    if args.json {
        return print_json(&json!({
            "version": JSON_VERSION,
            "host": host,
            "slots_total": slots_total,
            "slots_free": slots_free,
            "waiting": waiting,
            "memory_free_bytes": memory_free_bytes,
            "memory_pressure": pressure,
            "draining": draining,
        }));
    }
    print_text(|out| {
        let drained = if draining { ", and the host is drained" } else { "" };
        writeln!(out, "{slots_free} of {slots_total} slots are free, {waiting} jobs wait{drained}")?;
        writeln!(out, "{} MiB of memory are free, pressure {pressure:.3}", memory_free_bytes >> 20)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_that_wait_for_a_slot_take_one() {
        let slots = |used, waiting| SlotsView { cores: 4, factor: 1.5, total: 6, used, waiting };
        for (used, waiting, want) in [(0, 0, 6), (4, 0, 2), (4, 1, 1), (4, 9, 0), (7, 0, 0)] {
            assert_eq!(free(&slots(used, waiting)), want, "{used} {waiting}");
        }
    }

    #[test]
    fn managers_are_told_in_their_words() {
        let capacity = Capacity {
            host: "node7".to_owned(),
            slots_total: 4,
            slots_free: 1,
            waiting: 0,
            memory_free_bytes: 3 << 30,
            pressure: 0.25,
            draining: false,
        };
        let grid = capacity.lines(Format::Gridengine);
        assert!(grid.starts_with("node7:pinfold_slots:1\nnode7:pinfold_memory:3072M\n"), "{grid}");
        assert!(capacity.lines(Format::Htcondor).contains("SlotsFree = 1\n"));
        assert!(capacity.lines(Format::Htcondor).ends_with("Open = True\n"));
        let full = Capacity { slots_free: 0, ..capacity };
        assert!(full.lines(Format::Htcondor).ends_with("Open = False\n"));
    }
}
