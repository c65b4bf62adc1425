//! The settings of jobs' groups that the daemon looks after and other programs may change.

use pinfold_policy::Class;
use pinfold_topo::CpuSet;

use crate::world::Container;

/// A setting of a job's group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Setting {
    /// The PUs it is bound to.
    Cpus,
    /// Its share: class, priority, and whether it shares evenly.
    Weight,
    /// Whether it is frozen.
    Frozen,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Value {
    Cpus(CpuSet),
    Weight(Class, u8, bool),
    Frozen(bool),
}

impl Value {
    /// The setting of this value.
    pub(crate) fn setting(&self) -> Setting {
        match self {
            Self::Cpus(_) => Setting::Cpus,
            Self::Weight(..) => Setting::Weight,
            Self::Frozen(_) => Setting::Frozen,
        }
    }

    /// The values of all settings of a group.
    pub(crate) fn all_of(container: &Container) -> [Self; 3] {
        [
            Self::Cpus(container.cpus.clone()),
            Self::Weight(container.class, container.priority, container.even),
            Self::Frozen(container.frozen || container.freezing.is_some()),
        ]
    }

    /// Writes it to a group.
    pub(crate) fn write_to(&self, container: &mut Container) {
        match self {
            Self::Cpus(cpus) => container.cpus = cpus.clone(),
            Self::Weight(class, priority, even) => {
                (container.class, container.priority, container.even) = (*class, *priority, *even);
            }
            Self::Frozen(frozen) => (container.frozen, container.freezing) = (*frozen, None),
        }
    }
}
