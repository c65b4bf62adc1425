//! Disturbances of an episode, samples meanwhile, and the end of disturbances.

use pinfold_policy::{Command, Event, JobId, Preemption, Sample, Settings};
use pinfold_topo::CpuSet;

use super::SAMPLE_US;
use crate::dice::Dice;
use crate::host::{Happening, Host};
use crate::swarm::{self, Chaos};
use crate::violation::Violation;

/// No sample is taken after this time.
const SAMPLES_END_US: u64 = 60_000_000;

/// Changes the set of cores; or returns its cores.
pub(super) fn set_aside(host: &mut Host, kept: bool) -> Result<(), Violation> {
    host.cores.append(&mut host.set);
    host.cores = in_order(host.world.cores(), &host.cores);
    if kept && host.cores.len() > 1 {
        let count = host.more.between(1, host.cores.len() as u64 - 1);
        for _ in 0..count {
            let at = host.more.below(host.cores.len() as u64);
            let core = host.cores.remove(usize::try_from(at).unwrap_or(0));
            host.set.push(core);
        }
        host.set = in_order(host.world.cores(), &host.set);
    }
    host.deliver(Event::Machine(host.machine()))
}

/// These cores as they come on the machine.
fn in_order(all: &[CpuSet], some: &[CpuSet]) -> Vec<CpuSet> {
    all.iter().filter_map(|core| some.iter().find(|one| one.is_subset(core)).cloned()).collect()
}

pub(super) fn sample(host: &mut Host) -> Result<(), Violation> {
    if !host.chaos || host.world.now_us() > SAMPLES_END_US {
        return Ok(());
    }
    host.plan(SAMPLE_US, Happening::Sample);
    let busy = host.world.take_busy_milli(SAMPLE_US);
    let idle = |core: &CpuSet| {
        let place = host.world.cores().iter().position(|whole| !whole.is_disjoint(core));
        let busy = place.and_then(|place| busy.get(place)).copied().unwrap_or(0);
        u16::try_from(1000u64.saturating_sub(busy)).unwrap_or(0)
    };
    let idle_milli = host.cores.iter().map(idle).collect();
    let backfill_milli = u32::try_from(host.world.take_idle_class_milli(SAMPLE_US)).unwrap_or(0);
    let stalled_milli = host.stalled_milli()?;
    host.deliver(Event::Sample(Sample { idle_milli, backfill_milli, stalled_milli }))
}

pub(super) fn disturb(host: &mut Host) -> Result<(), Violation> {
    if !host.chaos {
        return Ok(());
    }
    let in_us = host.dice.around(host.options.chaos_us);
    host.plan(in_us, Happening::Chaos);
    host.upsets += 1;
    if !host.only.has_upset(host.upsets - 1) {
        return Ok(());
    }
    let alive: Vec<JobId> = host.ledger.jobs.keys().copied().collect();
    match host.dice.pick(&host.options.chaos) {
        Chaos::Hotplug => hotplug(host),
        Chaos::Settings => {
            let settings = swarm::settings(&mut host.dice);
            let projects = swarm::projects(&mut host.more, host.options.cores, host.options.divided);
            let protect_milli = swarm::protect_milli(&mut host.more, host.options.samples);
            // Now and then no job is held back for a while.
            let hold_back = host.options.hold_back && !host.upsets.is_multiple_of(4);
            host.settings = Settings { projects, protect_milli, hold_back, ..settings };
            host.deliver(Event::Configure(host.settings.clone()))
        }
        Chaos::Clock => {
            let by_us = i64::try_from(host.dice.below(7_200_000_000)).unwrap_or(0) - 3_600_000_000;
            host.set_clock(by_us);
            Ok(())
        }
        Chaos::Keeper if !alive.is_empty() => {
            let job = host.dice.pick(&alive);
            host.lose_keeper(job)
        }
        Chaos::Command if !alive.is_empty() => {
            let job = host.dice.pick(&alive);
            let command = draw_command(&mut host.dice);
            host.deliver(Event::Command(job, command))
        }
        Chaos::Kill if host.is_up() => {
            host.crash();
            Ok(())
        }
        Chaos::Keeper | Chaos::Command | Chaos::Kill => Ok(()),
    }
}

fn draw_command(dice: &mut Dice) -> Command {
    let priority = u8::try_from(dice.between(1, 16)).unwrap_or(10);
    let set = Command::SetPriority(priority);
    let cancel = Command::Cancel { signal: 15 };
    dice.pick(&[
        Command::Suspend,
        Command::Suspend,
        Command::Resume,
        Command::Resume,
        Command::Hold,
        Command::Release,
        Command::Release,
        cancel,
        set,
        set,
    ])
}

/// Each core is usable, or usable in part, or not at all.
fn hotplug(host: &mut Host) -> Result<(), Violation> {
    let kept = host.dice.pick(&[1000, 700, 400, 0]);
    let mut cores = Vec::new();
    for core in host.world.cores().to_vec() {
        if !host.dice.chance(kept) {
            continue;
        }
        let one = core.first().filter(|_| host.dice.chance(200));
        cores.push(one.map_or(core, CpuSet::single));
    }
    host.come_on_line(cores);
    host.deliver(Event::Machine(host.machine()))
}

/// Faults stop, the machine is whole, and the settings let every job run.
pub(super) fn calm_down(host: &mut Host) -> Result<(), Violation> {
    host.chaos = false;
    host.come_on_line(host.world.cores().to_vec());
    if host.options.sets {
        set_aside(host, true)?;
    } else {
        host.deliver(Event::Machine(host.machine()))?;
    }
    let preemption = host.dice.pick(&[Preemption::Hard, Preemption::Soft, Preemption::Off]);
    let projects = std::mem::take(&mut host.settings.projects);
    let factor_milli = host.dice.pick(&[1000, 1500, 4000]);
    host.settings = Settings { factor_milli, preemption, projects, ..Settings::default() };
    host.deliver(Event::Configure(host.settings.clone()))
}
