//! For how long a job waited for memory.

use pinfold_sys::container::Container;
use pinfold_sys::procfs::PressureResource;

/// For how long a job waited for memory, as the kernel counts it.
#[derive(Debug, Default)]
pub(crate) struct Waits {
    /// In all, in microseconds, and when that was told.
    last: Option<(u64, u64)>,
}

impl Waits {
    /// For what part of the time since the last reading, in thousandths; `None`: it is not asked now, was not before, or
    /// the kernel does not tell.
    pub(crate) fn read(&mut self, container: Option<&Container>, now_us: u64) -> Option<u16> {
        let pressure =
            container.and_then(|container| container.pressure(PressureResource::Memory).ok().flatten());
        let now = pressure.map(|pressure| (pressure.some.total_us, now_us));
        let (then, now) = (std::mem::replace(&mut self.last, now)?, now?);
        let elapsed_us = now.1.saturating_sub(then.1).max(1);
        let milli = now.0.saturating_sub(then.0).saturating_mul(1000) / elapsed_us;
        Some(u16::try_from(milli.min(1000)).expect("at most 1000"))
    }
}
