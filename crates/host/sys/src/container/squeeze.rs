//! Figures that show whether a running job misses its reclaimed memory. Absent here: the amount to reclaim.

use super::{Container, ContainerError};
use crate::cgroup::keyed;
use crate::mode::{AbilityName, Via};
use crate::procfs::PressureResource;

/// A job's memory, and how much it missed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Squeezed {
    /// Memory charged to the job: RAM with page cache and kernel memory, in bytes.
    pub ram_bytes: u64,
    /// In swap, in bytes.
    pub swap_bytes: u64,
    /// For how long some of its threads waited for memory since the start, in microseconds; `None`: the kernel does not
    /// account it.
    pub stalled_us: Option<u64>,
    /// Pages of the job that were reclaimed and read back, since the start.
    pub returned_pages: u64,
}

impl Container {
    /// The memory of the job and its refaults; `None`: no group counts its memory here.
    pub fn squeezed(&self) -> Result<Option<Squeezed>, ContainerError> {
        let Some(group) = self.group(self.shared.roles.memory) else { return Ok(None) };
        let (file, prefix) = match self.shared.plan.via(AbilityName::Limit) {
            Via::V2 => ("memory.current", ""),
            Via::V1 => ("memory.usage_in_bytes", "total_"),
            Via::Processes | Via::Nothing => return Ok(None),
        };
        let text = group.read("memory.stat")?.unwrap_or_default();
        let swap_bytes = match self.shared.plan.via(AbilityName::Limit) {
            Via::V2 => group.read_number("memory.swap.current")?,
            _ => keyed(&text, "total_swap"),
        };
        Ok(Some(Squeezed {
            ram_bytes: group.read_number(file)?.unwrap_or(0),
            swap_bytes: swap_bytes.unwrap_or(0),
            stalled_us: self.pressure(PressureResource::Memory)?.map(|pressure| pressure.some.total_us),
            returned_pages: returned_pages(&text, prefix),
        }))
    }
}

/// Refaulted pages, of `memory.stat`. Kernels before 5.9 do not tell refaults from swap apart, and kernels before 4.20
/// have no count in the first generation: then major faults stand for them.
fn returned_pages(text: &str, prefix: &str) -> u64 {
    let figure = |key: &str| keyed(text, &format!("{prefix}{key}"));
    let refaults = ["workingset_refault_anon", "workingset_refault_file", "workingset_refault"];
    let known: Vec<u64> = refaults.into_iter().filter_map(figure).collect();
    if known.is_empty() {
        return figure("pgmajfault").unwrap_or(0);
    }
    known.into_iter().fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_came_back_by_kernel() {
        for (text, prefix, pages) in [
            ("pgmajfault 9\nworkingset_refault_anon 2\nworkingset_refault_file 5\n", "", 7),
            ("pgmajfault 9\nworkingset_refault 5\n", "", 5),
            (
                "pgmajfault 1\nworkingset_refault_file 1\ntotal_pgmajfault 9\ntotal_workingset_refault_file 4\n",
                "total_",
                4,
            ),
            ("pgmajfault 1\ntotal_pgmajfault 9\n", "total_", 9),
            ("", "", 0),
        ] {
            assert_eq!(returned_pages(text, prefix), pages, "{text}");
        }
    }
}
