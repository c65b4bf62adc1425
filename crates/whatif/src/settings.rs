//! From the daemon's configuration to the settings of a simulated host.
//!
//! Keys that have to do with the real host only (sampling, rights, the store) change nothing here.

use pinfold_policy::{MemorySettings, Place, Preemption, Project, Settings};
use pinfold_proto::config::{self, Config};
use pinfold_proto::job::JobPlace;

/// RAM of a host that jobs may hold, by a configuration.
#[must_use]
pub fn budget(config: &Config, ram: u64) -> u64 {
    let reserve = config.memory_reserve_bytes(ram);
    config.host_memory.unwrap_or_else(|| ram.saturating_sub(reserve)).min(ram)
}

/// The policy's settings on a host of so much RAM; `None`: its memory is not simulated, and the governor is off.
#[must_use]
pub fn settings(config: &Config, ram: Option<u64>) -> Settings {
    Settings {
        factor_milli: config.slots_factor_milli,
        queue_depth: config.slots_queue_depth,
        queue_ttl: config.slots_queue_ttl,
        affinity: config.cpu_affinity,
        place: match config.cpu_place {
            JobPlace::Auto => Place::Auto,
            JobPlace::Compact => Place::Compact,
            JobPlace::Spread => Place::Spread,
        },
        backfill: config.cpu_backfill,
        protect_milli: config.cpu_protect_milli,
        hold_back: config.cpu_guard,
        preemption: match config.cpu_preemption {
            config::Preemption::Hard => Preemption::Hard,
            config::Preemption::Soft => Preemption::Soft,
            config::Preemption::Off => Preemption::Off,
        },
        schedule: config.schedule,
        memory: MemorySettings {
            governor: config.memory_governor && ram.is_some(),
            prediction: config.memory_prediction,
            budget_bytes: ram.map_or(u64::MAX, |ram| budget(config, ram)),
            swap_slot: config.memory_swap_slot,
            steers: false,
        },
        projects: config
            .projects
            .iter()
            .map(|(name, project)| Project {
                name: name.clone(),
                cores: project.cores,
                memory_bytes: project.memory,
            })
            .collect(),
        ..Settings::default()
    }
}
