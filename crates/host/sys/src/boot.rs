//! This boot of the host: the kernel's identifier and its start.
//!
//! Absent here: the consequences of another boot.

use std::time::{Duration, SystemTime};

/// The file in a directory of a daemon's state that notes the boot.
pub const NOTE: &str = "boot";

/// The kernel's name for this boot; `None`: it has none.
#[must_use]
pub fn id() -> Option<String> {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

/// The start of this boot by the present clock, since the Unix epoch.
#[must_use]
pub fn began() -> Duration {
    let up = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
    let up = Duration::new(u64::try_from(up.tv_sec).unwrap_or(0), u32::try_from(up.tv_nsec).unwrap_or(0));
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().saturating_sub(up)
}
