//! From the daemon's configuration to the scheduler's settings, for the daemon and for simulations of it.
//!
//! Absent here: settings from the host (its memory, its resources, drained PUs).

use pinfold_policy::{MemorySettings, Place, Preemption, Project, Settings};
use pinfold_proto::config::{self, Config};
use pinfold_proto::job::JobPlace;

/// The settings that follow from a configuration alone. Settings from the host keep their defaults: the budget of memory,
/// steering of the kernel, directories in memory, resources, and draining.
#[must_use]
pub fn of(config: &Config) -> Settings {
    Settings {
        factor_milli: config.slots_factor_milli,
        queue_depth: config.slots_queue_depth,
        queue_ttl: config.slots_queue_ttl,
        affinity: config.cpu_affinity,
        place: place(config.cpu_place),
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
            governor: config.memory_governor,
            prediction: config.memory_prediction,
            swap_slot: config.memory_swap_slot,
            ..MemorySettings::default()
        },
        projects: projects(config),
        ..Settings::default()
    }
}

/// How cores are to lie.
#[must_use]
pub fn place(place: JobPlace) -> Place {
    match place {
        JobPlace::Auto => Place::Auto,
        JobPlace::Compact => Place::Compact,
        JobPlace::Spread => Place::Spread,
    }
}

fn projects(config: &Config) -> Vec<Project> {
    let project = |(name, project): (&String, &config::Project)| Project {
        name: name.clone(),
        cores: project.cores,
        memory_bytes: project.memory,
    };
    config.projects.iter().map(project).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_arrive() {
        let changes = ["slots.factor=2.5", "cpu.preemption=off", "memory.governor=off", "memory.swap_slot=3"];
        let (config, _) = Config::default().with_changes(changes).expect("known keys");
        let settings = of(&config);
        assert_eq!((settings.factor_milli, settings.preemption), (2500, Preemption::Off));
        assert_eq!((settings.memory.governor, settings.memory.swap_slot), (false, 3));
        assert_eq!(settings.memory.budget_bytes, u64::MAX, "the host says how much there is");
    }

    #[test]
    fn projects_arrive() {
        let text = "[projects.a]\ncores = 3\nmemory = \"1GiB\"\n[projects.b]\n";
        let (config, _) = Config::default().with_file(text).expect("two projects");
        let want = [("a", Some(3), Some(1 << 30)), ("b", None, None)];
        let got: Vec<_> =
            of(&config).projects.into_iter().map(|one| (one.name, one.cores, one.memory_bytes)).collect();
        assert_eq!(got, want.map(|(name, cores, memory)| (name.to_owned(), cores, memory)));
    }
}
