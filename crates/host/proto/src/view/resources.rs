//! Countable resources and GPUs, as `status` and `map` show them.

use serde::{Deserialize, Serialize};

/// A countable resource of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceView {
    /// Its name.
    pub resource: String,
    /// How many there are.
    pub total: u64,
    /// How many jobs have, suspended ones included; more than there are where there were more.
    pub used: u64,
    /// The jobs that have some, of those that the asker may see.
    pub jobs: Vec<u64>,
    /// Each of them, where they are devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceView>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceView {
    /// Its number, as the vendor's runtime counts.
    pub number: u32,
    /// `nvidia` or `amd`.
    pub vendor: String,
    /// Its model, where the driver tells it.
    pub model: Option<String>,
    /// Its address on the PCI bus.
    pub address: String,
    /// The kernel's number of the NUMA node beside it; `null`: not told.
    pub numa: Option<u32>,
    /// The PUs beside it, as a kernel list; `null`: not told.
    pub cpus: Option<String>,
    /// Whether a job has it.
    pub used: bool,
    /// That job, if the asker may see it.
    pub job: Option<u64>,
}
