//! The GPUs of a host, in the order in which their vendors' runtimes number them.
//!
//! NVIDIA: the GPUs that the driver lists below `/proc/driver/nvidia/gpus` (README of the driver, "Using the /proc File
//! System Interface"); without that list, display controllers on the PCI bus that the driver is bound to. CUDA counts them
//! by PCI address where `CUDA_DEVICE_ORDER` is `PCI_BUS_ID`. AMD: nodes with SIMDs below `/sys/class/kfd/kfd/topology`, in
//! the order of nodes, as ROCr counts them. The PCI device in sysfs has the neighbourhood of a GPU.
//!
//! Absent: drivers that give a GPU to no runtime of these (nouveau, vfio), parts of a GPU (MIG), whether a GPU is in use.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use pinfold_topo::CpuSet;

use crate::discover::read_small;

/// The vendor; its runtime numbers the GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Vendor {
    /// CUDA.
    Nvidia,
    /// ROCr.
    Amd,
}

impl Vendor {
    /// Its word.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nvidia => "nvidia",
            Self::Amd => "amd",
        }
    }

    /// The variable by which its runtime learns which GPUs a process may see.
    #[must_use]
    pub const fn variable(self) -> &'static str {
        match self {
            Self::Nvidia => "CUDA_VISIBLE_DEVICES",
            Self::Amd => "ROCR_VISIBLE_DEVICES",
        }
    }
}

/// A GPU's place on the PCI bus: domain, bus, device, function; and its part, where the driver has divided the device
/// into several GPUs (AMD's partitions). Identifies the GPU, whatever its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Address(u32, u8, u8, u8, u8);

impl std::fmt::Display for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.write_device(out)?;
        if self.4 > 0 { write!(out, "/{}", self.4) } else { Ok(()) }
    }
}

impl Address {
    fn write_device(self, out: &mut impl std::fmt::Write) -> std::fmt::Result {
        write!(out, "{:04x}:{:02x}:{:02x}.{:x}", self.0, self.1, self.2, self.3)
    }

    /// The name of its PCI device.
    fn device(self) -> String {
        let mut name = String::new();
        let _ = self.write_device(&mut name);
        name
    }

    /// Reads `0000:62:00.0`, and `0000:62:00.0/3`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (text, part) = text.split_once('/').unwrap_or((text, "0"));
        let part = part.parse().ok().filter(|&part| part <= 0xf)?;
        let (rest, function) = text.rsplit_once('.')?;
        let mut parts = rest.split(':');
        let mut next = |most: u32| u32::from_str_radix(parts.next()?, 16).ok().filter(|&part| part <= most);
        let (domain, bus, device) = (next(u32::MAX)?, next(0xff)?, next(0x1f)?);
        let byte = |part: u32| u8::try_from(part).ok();
        let function = u32::from_str_radix(function, 16).ok().filter(|&part| part <= 7)?;
        let done = parts.next().is_none();
        Some(Self(domain, byte(bus)?, byte(device)?, byte(function)?, part)).filter(|_| done)
    }
}

/// A GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// The vendor.
    pub vendor: Vendor,
    /// Its number, as the vendor's runtime counts.
    pub number: u32,
    /// Its place on the PCI bus.
    pub address: Address,
    /// Its model, if the driver has it.
    pub model: Option<String>,
    /// CUDA's permanent name of the GPU (`GPU-...`), if the driver has it.
    pub uuid: Option<String>,
    /// The kernel's number of the nearest NUMA node, if known.
    pub numa: Option<u32>,
    /// The PUs beside it; empty: not known.
    pub cpus: CpuSet,
}

/// GPUs that an operator counts and no driver reports: number 0 and up, at addresses that no bus has.
#[must_use]
pub fn counted(vendor: Vendor, count: u64) -> Vec<Gpu> {
    let gpu = |number: u16| {
        let [bus, rest] = number.to_be_bytes();
        let address = Address(u32::MAX, bus, rest >> 3, rest & 7, 0);
        let (model, uuid, numa) = (None, None, None);
        Gpu { vendor, number: number.into(), address, model, uuid, numa, cpus: CpuSet::new() }
    };
    (0..=u16::MAX).take(usize::try_from(count).unwrap_or(usize::MAX)).map(gpu).collect()
}

/// The GPUs of this host.
#[must_use]
pub fn find() -> Vec<Gpu> {
    find_below(Path::new("/"))
}

/// The GPUs of the host with `/proc` and `/sys` below `root`: NVIDIA's by number, then AMD's.
#[must_use]
pub fn find_below(root: &Path) -> Vec<Gpu> {
    let mut gpus = nvidia(root);
    gpus.extend(amd(root));
    // A device that several drivers report is one GPU; the other GPUs keep their runtimes' numbers.
    let mut seen = BTreeSet::new();
    gpus.retain(|gpu| seen.insert(gpu.address));
    gpus
}

/// The GPUs that CUDA's or AMD's variable of visible devices makes visible: numbers and prefixes of `GPU-...` names; the
/// first word that names no GPU ends the list.
#[must_use]
pub fn visible(gpus: Vec<Gpu>, vendor: Vendor, list: &str) -> Vec<Gpu> {
    let mut seen: Vec<u32> = Vec::new();
    for word in list.split(',').map(str::trim) {
        let is_named = |gpu: &&Gpu| match word.parse::<u32>() {
            Ok(number) => gpu.number == number,
            Err(_) => {
                let begins = |uuid: &String| uuid.to_lowercase().starts_with(&word.to_lowercase());
                word.len() > "GPU-".len() && gpu.uuid.as_ref().is_some_and(begins)
            }
        };
        let named = gpus.iter().filter(|gpu| gpu.vendor == vendor).find(is_named).map(|gpu| gpu.number);
        match named {
            Some(number) => seen.push(number),
            None => break,
        }
    }
    gpus.into_iter().filter(|gpu| gpu.vendor != vendor || seen.contains(&gpu.number)).collect()
}

fn nvidia(root: &Path) -> Vec<Gpu> {
    let listed = root.join("proc/driver/nvidia/gpus");
    let found: BTreeMap<Address, (Option<String>, Option<String>)> = match fs::read_dir(&listed) {
        Ok(entries) => entries
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let address = Address::parse(entry.file_name().to_str()?)?;
                let text = read_small(&entry.path().join("information")).unwrap_or_default();
                let field = |name: &str| {
                    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
                    Some(line.trim().to_owned()).filter(|value| !value.is_empty() && !value.contains('?'))
                };
                // The driver leaves an excluded GPU alone, and CUDA does not count it.
                let is_excluded = field("GPU Excluded").is_some_and(|word| word == "Yes");
                (!is_excluded).then(|| (address, (field("Model"), field("GPU UUID"))))
            })
            .collect(),
        Err(_) => on_pci_bus(root).into_iter().map(|address| (address, (None, None))).collect(),
    };
    let numbered = found.into_iter().zip(0..);
    numbered
        .map(|((address, (model, uuid)), number)| gpu(root, Vendor::Nvidia, number, address, model, uuid))
        .collect()
}

/// NVIDIA's display controllers (class 0x0300, and 0x0302 without a screen) that its driver is bound to.
fn on_pci_bus(root: &Path) -> Vec<Address> {
    let Ok(entries) = fs::read_dir(root.join("sys/bus/pci/devices")) else { return Vec::new() };
    let driven = |dir: &Path| {
        let text = |name: &str| read_small(&dir.join(name)).unwrap_or_default();
        let class = text("class");
        text("vendor").trim() == "0x10de"
            && (class.starts_with("0x0300") || class.starts_with("0x0302"))
            && fs::read_link(dir.join("driver")).is_ok_and(|to| to.ends_with("nvidia"))
    };
    entries
        .filter_map(Result::ok)
        .filter(|entry| driven(&entry.path()))
        .filter_map(|entry| Address::parse(entry.file_name().to_str()?))
        .collect()
}

fn amd(root: &Path) -> Vec<Gpu> {
    let Ok(entries) = fs::read_dir(root.join("sys/class/kfd/kfd/topology/nodes")) else { return Vec::new() };
    let mut nodes: BTreeMap<u32, (Address, Option<String>)> = BTreeMap::new();
    for entry in entries.filter_map(Result::ok) {
        let Some(node) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // The kernel hides the properties of a GPU that this process may not use, and the runtime does not count it.
        let text = read_small(&entry.path().join("properties")).unwrap_or_default();
        let property = |name: &str| -> Option<u64> {
            text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
        };
        if property("simd_count").is_none_or(|count| count == 0) {
            continue; // a node of CPUs
        }
        let Some(location) = property("location_id") else { continue };
        let byte = |shift: u32, mask: u64| u8::try_from((location >> shift) & mask).unwrap_or(0);
        let domain = property("domain").and_then(|domain| u32::try_from(domain).ok()).unwrap_or(0);
        // The highest four of 32 bits are the part of a device that is divided (`kfd_topology.c`).
        let address = Address(domain, byte(8, 0xff), byte(3, 0x1f), byte(0, 7), byte(28, 0xf));
        let name = read_small(&entry.path().join("name")).ok().map(|name| name.trim().to_owned());
        nodes.insert(node, (address, name.filter(|name| !name.is_empty())));
    }
    nodes
        .into_values()
        .zip(0..)
        .map(|((address, model), number)| gpu(root, Vendor::Amd, number, address, model, None))
        .collect()
}

fn gpu(
    root: &Path,
    vendor: Vendor,
    number: u32,
    address: Address,
    model: Option<String>,
    uuid: Option<String>,
) -> Gpu {
    let device = root.join("sys/bus/pci/devices").join(address.device());
    let text = |name: &str| read_small(&device.join(name)).unwrap_or_default();
    Gpu {
        vendor,
        number,
        address,
        model,
        uuid,
        // -1 if the firmware does not report it.
        numa: text("numa_node").trim().parse().ok(),
        cpus: text("local_cpulist").trim().parse().unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests;
