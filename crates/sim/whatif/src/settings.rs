//! From the daemon's configuration to the settings of a simulated host.
//!
//! Keys about the real host only (sampling, rights, the store) change nothing here.

use pinfold_policy::{MemorySettings, Settings};
use pinfold_proto::config::Config;

/// RAM of a host that jobs may hold, by a configuration.
#[must_use]
pub fn budget(config: &Config, ram: u64) -> u64 {
    let reserve = config.memory_reserve_bytes(ram);
    config.host_memory.unwrap_or_else(|| ram.saturating_sub(reserve)).min(ram)
}

/// The policy's settings on a host with this RAM; `None`: its memory is not simulated, and the governor is off.
#[must_use]
pub fn settings(config: &Config, ram: Option<u64>) -> Settings {
    let settings = pinfold_settings::of(config);
    let memory = MemorySettings {
        governor: settings.memory.governor && ram.is_some(),
        budget_bytes: ram.map_or(u64::MAX, |ram| budget(config, ram)),
        ..settings.memory
    };
    Settings { memory, ..settings }
}
