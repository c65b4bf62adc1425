//! Countable resources and GPUs, as `status` and `map` show them.

use serde::{Deserialize, Serialize};

/// A countable resource of a host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct ResourceView {
    /// Its name.
    pub resource: String,
    /// The number available.
    pub total: u64,
    /// The number held by jobs, including suspended jobs; may exceed `total` after a reduction.
    pub used: u64,
    /// The jobs that hold some and that the asker may see.
    pub jobs: Vec<u64>,
    /// The devices, if the resource has devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceView>,
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct DeviceView {
    /// Its number in the vendor's runtime.
    pub number: u32,
    /// `nvidia` or `amd`.
    pub vendor: String,
    /// Its model, where the driver reports it.
    pub model: Option<String>,
    /// Its address on the PCI bus.
    pub address: String,
    /// The kernel's number of the nearest NUMA node; `null`: not reported.
    pub numa: Option<u32>,
    /// The nearest PUs, as a kernel list; `null`: not reported.
    pub cpus: Option<String>,
    /// Whether a job holds it.
    pub used: bool,
    /// That job, if the asker may see it.
    pub job: Option<u64>,
}
