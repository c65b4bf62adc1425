//! The kernel's interface for the memory governor: the memory of a job, read as cheaply as possible; the bound on all
//! jobs together; their pressure; and paging out from another thread, as the kernel takes its time over it.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::grouped::members_below;
use super::measure::{Measure, in_ram_v1, in_ram_v2, in_swap_v2};
use super::page_out::{advise_process, each_member, page_out_v1, page_out_v2};
use super::process::Advice;
use super::{Applied, Container, ContainerError, Containers};
use crate::cgroup::{CgroupError, Generation, Group, keyed};
use crate::mode::{AbilityName, Via};
use crate::procfs::{Pressure, PressureResource, parse_pressure};

const NO_BOUND: &str = "this host has no means to bound memory";
const NO_STEERING: &str = "the kernel cannot be told whose memory to take";
const KEPT_BOUND: &str = "jobs hold more than that, and the kernel cannot push it out";

/// Memory held now, page cache left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct HeldMemory {
    /// Anonymous and shared memory in RAM, in bytes.
    pub resident_bytes: u64,
    /// In swap, in bytes.
    pub swapped_bytes: u64,
    /// Page cache of the job's own, where groups count it, in bytes; in neither of the others.
    pub cache_bytes: u64,
}

impl Container {
    /// The memory of the job: one file where groups count memory, else a sum over its processes.
    pub fn held_memory(&self) -> Result<HeldMemory, ContainerError> {
        let mut measure = Measure::default();
        let via = self.shared.plan.via(AbilityName::Limit);
        match (via, self.group(self.shared.roles.memory)) {
            (Via::V2, Some(group)) => {
                let text = group.read("memory.stat")?.unwrap_or_default();
                let figure = |key| keyed(&text, key).unwrap_or(0);
                measure.memory_bytes = in_ram_v2(&text);
                measure.cache_bytes = Some(figure("file").saturating_sub(figure("shmem")));
                let swap_bytes = group.read_number("memory.swap.current")?.unwrap_or(0);
                measure.swap_bytes = in_swap_v2(&text, swap_bytes);
            }
            (Via::V1, Some(group)) => {
                let text = group.read("memory.stat")?.unwrap_or_default();
                measure.memory_bytes = in_ram_v1(&text);
                measure.swap_bytes = keyed(&text, "total_swap").unwrap_or(0);
            }
            _ => self.memory_without_group(&self.pids()?, &mut measure)?,
        }
        if self.taken && matches!(via, Via::V1 | Via::V2) {
            self.add_charged_elsewhere(&self.pids()?, &mut measure)?;
        }
        Ok(HeldMemory {
            resident_bytes: measure.memory_bytes,
            swapped_bytes: measure.swap_bytes,
            cache_bytes: measure.cache_bytes.unwrap_or(0),
        })
    }

    /// The memory that the kernel charges to the job and cannot reclaim by dropping page cache, in bytes: memory held
    /// in RAM, page tables and other kernel memory. `None`: no group counts it here.
    pub fn charged_bytes(&self) -> Result<Option<u64>, ContainerError> {
        let Some(group) = self.group(self.shared.roles.memory) else { return Ok(None) };
        let (file, cache, shared) = match self.shared.plan.via(AbilityName::Limit) {
            Via::V2 => ("memory.current", "file", "shmem"),
            Via::V1 => ("memory.usage_in_bytes", "total_cache", "total_shmem"),
            Via::Processes | Via::Nothing => return Ok(None),
        };
        let text = group.read("memory.stat")?.unwrap_or_default();
        let figure = |key| keyed(&text, key).unwrap_or(0);
        let droppable = figure(cache).saturating_sub(figure(shared));
        Ok(group.read_number(file)?.map(|charged| charged.saturating_sub(droppable)))
    }

    /// Lets the job grow by `allowance` bytes, page cache included, and beyond that only as fast as its own pages are
    /// reclaimed; `None`: without bound. Only the second generation can do that (`memory.high`).
    pub fn slow(&mut self, allowance: Option<u64>) -> Result<Applied, ContainerError> {
        let Some(group) = self.steered() else {
            return Ok(if allowance.is_none() { Applied::Done } else { Applied::Kept(NO_STEERING) });
        };
        let high = match allowance {
            None => None,
            Some(bytes) => {
                let Some(current) = group.read_number("memory.current")? else { return Ok(Applied::Done) };
                Some(current.saturating_add(bytes))
            }
        };
        let text = high.map_or_else(|| "max".to_owned(), |bytes| bytes.to_string());
        let applied = write_if_there(group, "memory.high", &text)?;
        if applied == Applied::Done {
            self.high = Some(high);
        }
        Ok(applied)
    }

    /// Protects this many bytes of the job's memory from reclaim while other memory can be reclaimed; 0: no protection.
    /// It protects from other jobs, and from the rest of the host as far as the groups above pinfold's own are
    /// protected: a group's protection never exceeds its parent's (`memory.low`).
    pub fn protect(&self, bytes: u64) -> Result<Applied, ContainerError> {
        let Some(group) = self.steered() else {
            return Ok(if bytes == 0 { Applied::Done } else { Applied::Kept(NO_STEERING) });
        };
        let text = bytes.to_string();
        if let Some(level) = self.shared.roles.memory.and_then(|index| self.shared.levels.get(index)) {
            for above in [level.top(), &level.instance] {
                write_if_there(above, "memory.low", &text)?;
            }
        }
        Ok(write_if_there(group, "memory.low", &text)?)
    }

    /// The job's group, where the kernel can steer the choice of memory to reclaim.
    fn steered(&self) -> Option<&Group> {
        if self.shared.plan.via(AbilityName::Limit) == Via::V2 {
            self.group(self.shared.roles.memory)
        } else {
            None
        }
    }
}

/// A removed group needs no setting, and a kernel without the file keeps its behaviour.
fn write_if_there(group: &Group, file: &str, text: &str) -> Result<Applied, CgroupError> {
    match group.write(file, text) {
        Ok(()) => Ok(Applied::Done),
        Err(error) if error.is_gone() => Ok(Applied::Kept(NO_STEERING)),
        Err(error) => Err(error),
    }
}

impl Containers {
    /// A second handle to the same containers, for another thread.
    #[must_use]
    pub fn again(&self) -> Self {
        let (shared, in_place) = (&self.shared, &self.in_place);
        Self { shared: std::sync::Arc::clone(shared), in_place: std::sync::Arc::clone(in_place) }
    }

    /// Moves up to `bytes` of a job to swap, as [`Container::page_out`] does, but finds its groups by number; 0 when
    /// the job is over. `user`: the user of the job.
    pub fn page_out(&self, job: u64, user: u32, bytes: u64) -> Result<u64, ContainerError> {
        let shared = self.shared_for(job);
        let plan = &shared.plan;
        let level = shared.roles.memory.and_then(|index| shared.levels.get(index));
        let group = match level {
            Some(level) => level.job(job)?,
            None => None,
        };
        let taken = shared.is_taken(job);
        match (plan.via(AbilityName::PageOut), group) {
            // Memory that is charged elsewhere is reached by addresses only.
            (Via::V1 | Via::V2, Some(_)) if taken => match self.adopt(job, None)? {
                Some(container) => container.page_out_processes(bytes, Some(user)),
                None => Ok(0),
            },
            (Via::V2, Some(group)) => page_out_v2(&group, bytes),
            (Via::V1, Some(group)) => page_out_v1(&group, bytes),
            (Via::Processes, _) => match self.adopt(job, None)? {
                Some(container) => container.page_out_processes(bytes, Some(user)),
                None => Ok(0),
            },
            (Via::V1 | Via::V2 | Via::Nothing, _) => Ok(0),
        }
    }

    /// Reads a job's memory back from swap in long reads: about as fast as the device, where the job's own page faults
    /// would fetch single pages. Best effort: faults fetch the rest. `user`: the user of the job.
    pub fn fetch(&self, job: u64, user: u32) -> Result<(), ContainerError> {
        let shared = self.shared_for(job);
        let level = shared.roles.memory.and_then(|index| shared.levels.get(index));
        let advised = |pid, handle| {
            let of = (pid, handle, Some(user));
            advise_process(&shared.proc, of, u64::MAX / 2, Advice::Fetch).map(|()| true)
        };
        match level {
            Some(level) => match level.job(job)? {
                Some(group) => each_member(|| Ok(members_below(&group)?), advised),
                None => Ok(()),
            },
            None => match self.adopt(job, None)? {
                Some(container) => each_member(|| container.pids(), advised),
                None => Ok(()),
            },
        }
    }

    /// Whether the kernel can be told to reclaim a job's memory first or last: [`Container::slow`], [`Container::protect`].
    #[must_use]
    pub fn can_steer_memory(&self) -> bool {
        self.shared.plan.via(AbilityName::Limit) == Via::V2
    }

    /// Bounds the memory of all jobs together in RAM, page cache included, in bytes; `None`: no bound. Above it the
    /// kernel drops page cache, then moves pages to swap.
    pub fn bound_all(&self, bytes: Option<u64>) -> Result<Applied, ContainerError> {
        let Some(level) = self.shared.roles.memory.and_then(|index| self.shared.levels.get(index)) else {
            return Ok(if bytes.is_none() { Applied::Done } else { Applied::Kept(NO_BOUND) });
        };
        let (file, none) = match level.hierarchy.generation {
            Generation::V2 => ("memory.max", "max"),
            Generation::V1 => ("memory.limit_in_bytes", "-1"),
        };
        let text = bytes.map_or_else(|| none.to_owned(), |bytes| bytes.to_string());
        if level.hierarchy.generation == Generation::V2
            && let Some(bytes) = bytes
            && level.instance.read_number("memory.current")?.unwrap_or(0) > bytes
        {
            // A bound below the present use would kill in the second generation; reclaim by `memory.high` first, for
            // which page cache mostly suffices.
            level.instance.write("memory.high", &text)?;
            let held = level.instance.read_number("memory.current")?.unwrap_or(0);
            level.instance.write("memory.high", "max")?;
            if held > bytes {
                return Ok(Applied::Kept(KEPT_BOUND));
            }
        }
        match level.instance.write(file, &text) {
            Ok(()) => Ok(Applied::Done),
            Err(error) if error.errno() == Some(Errno::BUSY) => Ok(Applied::Kept(KEPT_BOUND)),
            Err(error) => Err(error.into()),
        }
    }

    /// The smallest memory bound of the groups above pinfold's, in bytes; `None`: none, or unreadable.
    pub fn bound_above(&self) -> Result<Option<u64>, ContainerError> {
        let Some(level) = self.shared.roles.memory.and_then(|index| self.shared.levels.get(index)) else {
            return Ok(None);
        };
        match level.hierarchy.generation {
            // The smallest bound of all groups above, in bytes; close to 2^63 for none.
            Generation::V1 => {
                let text = level.base().read("memory.stat")?.unwrap_or_default();
                Ok(keyed(&text, "hierarchical_memory_limit").filter(|&bytes| bytes < 1 << 62))
            }
            Generation::V2 => Ok(level.base().read_number("memory.max").ok().flatten()),
        }
    }

    /// The pressure of all jobs together on a resource; `None` where groups do not account it.
    pub fn pressure(&self, resource: PressureResource) -> Result<Option<Pressure>, ContainerError> {
        let Some(level) = self.shared.roles.tree.and_then(|index| self.shared.levels.get(index)) else {
            return Ok(None);
        };
        Ok(level.instance.read_parsed(&format!("{}.pressure", resource.as_str()), parse_pressure)?)
    }

    /// A descriptor on which the kernel reports (`EPOLLPRI`) that jobs were stalled for memory for more than a tenth of
    /// two seconds, the shortest window that needs no privilege; `None` where groups do not account it (kernel,
    /// accounting/psi).
    pub fn memory_alarm(&self) -> Option<OwnedFd> {
        let level = self.shared.roles.tree.and_then(|index| self.shared.levels.get(index))?;
        if level.instance.is_fake() {
            return None;
        }
        let alarm = level.instance.open_to_write("memory.pressure").ok()?;
        set_alarm(&alarm).ok()?;
        Some(alarm)
    }
}

fn set_alarm(alarm: &OwnedFd) -> io::Result<()> {
    rustix::io::write(alarm, b"some 200000 2000000")?;
    Ok(())
}
