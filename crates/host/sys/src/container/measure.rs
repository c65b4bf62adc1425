//! A job's use of resources, read from its groups. Absent here: rates, peaks over time, any difference between two
//! readings. Absent values are `None`, never zero.

use super::{Container, ContainerError, Containers};
use crate::cgroup::{Group, keyed, parse_io_stat, parse_numa_stat};
use crate::mode::{AbilityName, Via};
use crate::procfs::{Proc, ProcError, Sums as MemberSums};

/// The extent of a reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// The totals of a job without processes that ended by itself.
    Left,
    /// The kernel's figures for the whole job: a handful of files, whatever the number of processes.
    Totals,
    /// Also sums over the processes: address space, threads, storage traffic.
    Processes,
}

/// One reading of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Measure {
    /// User time so far, ended processes included, in microseconds.
    pub cpu_user_us: u64,
    /// System time so far, ended processes included, in microseconds.
    pub cpu_system_us: u64,
    /// Anonymous and shared memory held now, in bytes. File pages are not in it.
    pub memory_bytes: u64,
    /// The anonymous part of that, in bytes.
    pub anonymous_bytes: Option<u64>,
    /// The shared part of that (`shmem`: mappings shared by processes, and files in memory), in bytes.
    pub shared_bytes: Option<u64>,
    /// The kernel's own peak since the container was made, in bytes. File pages are in it.
    pub memory_peak_kernel_bytes: Option<u64>,
    /// File pages held now, shared memory taken out, in bytes.
    pub cache_bytes: Option<u64>,
    /// The part of `cache_bytes` that processes map.
    pub mapped_bytes: Option<u64>,
    /// The most file pages, libraries included, in the resident size of a process, in bytes; where no group counts memory.
    pub process_file_bytes: Option<u64>,
    /// The kernel's own memory on the job's behalf (page tables, stacks, slab), in bytes.
    pub kernel_bytes: Option<u64>,
    /// Memory in swap, in bytes.
    pub swap_bytes: u64,
    /// Address space of all processes, in bytes; with [`Detail::Processes`] only.
    pub virtual_bytes: Option<u64>,
    /// Bytes fetched from storage so far. Without the io controller: by present processes and the children that they
    /// waited for, with [`Detail::Processes`] only.
    pub io_read_bytes: Option<u64>,
    /// Bytes sent to storage so far, as for reading.
    pub io_write_bytes: Option<u64>,
    /// Read calls so far, on any file: by present processes and the children that they waited for, with
    /// [`Measure::take_sums`] only.
    pub io_read_calls: Option<u64>,
    /// Calls that wrote so far, as for reading.
    pub io_write_calls: Option<u64>,
    /// Page faults met from memory, as for calls.
    pub faults_minor: Option<u64>,
    /// Page faults that waited for storage, as for calls.
    pub faults_major: Option<u64>,
    /// Processes that have not ended.
    pub processes: u64,
    /// Threads; with [`Detail::Processes`] only, where the pids controller does not count them.
    pub threads: Option<u64>,
    /// Times that the kernel killed a process of the job for want of memory.
    pub oom_kills: Option<u64>,
}

impl Measure {
    /// The processor time so far, in microseconds.
    #[must_use]
    pub fn cpu_us(&self) -> u64 {
        self.cpu_user_us.saturating_add(self.cpu_system_us)
    }

    /// Fills in the figures that only processes have; counts of a group stay.
    pub fn take_sums(&mut self, sums: &MemberSums) {
        self.virtual_bytes = Some(sums.virtual_bytes);
        self.threads = self.threads.or(Some(sums.threads));
        self.io_read_bytes = self.io_read_bytes.or(sums.io_read_bytes);
        self.io_write_bytes = self.io_write_bytes.or(sums.io_write_bytes);
        (self.io_read_calls, self.io_write_calls) = (sums.io_read_calls, sums.io_write_calls);
        (self.faults_minor, self.faults_major) = (Some(sums.faults_minor), Some(sums.faults_major));
    }
}

/// Stalls of a job since its start, in microseconds, by resource: of some of its threads, or of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stalls {
    /// Some waited for a processor.
    pub cpu_us: u64,
    /// Some waited for memory.
    pub memory_us: u64,
    /// All waited for memory.
    pub memory_full_us: u64,
    /// Some waited for storage.
    pub io_us: u64,
    /// All waited for storage.
    pub io_full_us: u64,
}

/// Figures that are sums over processes.
#[derive(Debug, Default)]
pub(super) struct Sums {
    pub(super) virtual_bytes: u64,
    pub(super) threads: u64,
    pub(super) read_bytes: u64,
    pub(super) write_bytes: u64,
    /// Whether the traffic of any process could be read.
    pub(super) io_seen: bool,
}

impl Sums {
    /// Sums over processes; processes that vanish meanwhile are left out.
    pub(super) fn over(proc: &Proc, pids: &[u32]) -> Result<Self, ProcError> {
        let mut sums = Self::default();
        for pid in pids {
            let Some(stat) = proc.stat(*pid)? else { continue };
            sums.virtual_bytes = sums.virtual_bytes.saturating_add(stat.virtual_bytes);
            sums.threads = sums.threads.saturating_add(stat.threads);
            if let Some(io) = proc.io(*pid)? {
                sums.io_seen = true;
                sums.read_bytes = sums.read_bytes.saturating_add(io.read_bytes);
                sums.write_bytes = sums.write_bytes.saturating_add(io.write_bytes);
            }
        }
        Ok(sums)
    }

    pub(super) fn into_measure(self, measure: &mut Measure) {
        measure.virtual_bytes = Some(self.virtual_bytes);
        measure.threads = Some(self.threads);
        if self.io_seen {
            measure.io_read_bytes = Some(self.read_bytes);
            measure.io_write_bytes = Some(self.write_bytes);
        }
    }
}

impl Container {
    pub(super) fn measure_groups(&self, detail: Detail) -> Result<Measure, ContainerError> {
        let pids = if detail == Detail::Left { Vec::new() } else { self.group_pids()? };
        self.measure_over(&pids, detail)
    }

    fn measure_over(&self, pids: &[u32], detail: Detail) -> Result<Measure, ContainerError> {
        let processes = u64::try_from(pids.len()).unwrap_or(u64::MAX);
        let mut measure = Measure { processes, ..Measure::default() };
        self.measure_cpu(&mut measure)?;
        match (self.shared.plan.via(AbilityName::Limit), self.group(self.shared.roles.memory)) {
            (Via::V2, Some(group)) => memory_v2(group, &mut measure)?,
            (Via::V1, Some(group)) => memory_v1(group, &mut measure, self.may_be_killed(detail))?,
            _ => self.memory_without_group(pids, &mut measure)?,
        }
        if self.taken && matches!(self.shared.plan.via(AbilityName::Limit), Via::V1 | Via::V2) {
            self.add_charged_elsewhere(pids, &mut measure)?;
        }
        if detail == Detail::Processes {
            Sums::over(&self.shared.proc, pids)?.into_measure(&mut measure);
        }
        // The groups' own counts include ended processes and replace the sums.
        self.measure_tree(&mut measure)?;
        Ok(measure)
    }

    /// Whether to read kills for memory: a job without a limit that ended by itself had none.
    fn may_be_killed(&self, detail: Detail) -> bool {
        detail != Detail::Left || !matches!(self.limit, Some(None))
    }

    /// The job's memory where no group counts it.
    pub(super) fn memory_without_group(
        &self,
        pids: &[u32],
        measure: &mut Measure,
    ) -> Result<(), ContainerError> {
        memory_of_processes(&self.shared.proc, pids, measure)?;
        self.add_files_in_memory(measure);
        Ok(())
    }

    /// Adds the files of the job's directory in memory, which are charged to no group. Pages that processes map are
    /// counted already, as shared memory.
    pub(super) fn add_files_in_memory(&self, measure: &mut Measure) {
        let mapped = measure.shared_bytes.unwrap_or(0);
        let more = self.shared.scratch.held_bytes(self.job).saturating_sub(mapped);
        measure.memory_bytes = measure.memory_bytes.saturating_add(more);
        measure.shared_bytes = Some(mapped.saturating_add(more));
    }

    /// A sample without the sums over processes ([`Measure::take_sums`]), and the job's processes. No process can delay
    /// this.
    pub fn sample(&self) -> Result<(Measure, Vec<u32>), ContainerError> {
        match self.family() {
            Some(mut family) => {
                let proc = &self.shared.proc;
                let pids = family.sampled(proc, &mut self.shared.look())?;
                self.share.inspect(|share| drop(self.settle_sessions(*share, &pids)));
                let mut measure = family.measured(proc, &pids)?;
                self.add_files_in_memory(&mut measure);
                Ok((measure, pids))
            }
            None => {
                let pids = self.group_pids()?;
                self.share.inspect(|share| drop(self.settle_sessions(*share, &pids)));
                Ok((self.measure_over(&pids, Detail::Totals)?, pids))
            }
        }
    }

    /// Anonymous and shared memory on each NUMA node, in bytes: the kernel's number of the node, ascending. `None`: no
    /// group counts memory here, or this kernel does not count by node.
    pub fn memory_by_node(&self) -> Result<Option<Vec<(u32, u64)>>, ContainerError> {
        by_node(self.shared.plan.via(AbilityName::Limit), self.group(self.shared.roles.memory))
    }

    fn measure_cpu(&self, measure: &mut Measure) -> Result<(), ContainerError> {
        // The unified hierarchy has no figures of a job that used self-attach files and ended before it was moved there.
        if let Some(text) = read(self.tree(), "cpu.stat")? {
            measure.cpu_user_us = keyed(&text, "user_usec").unwrap_or(0);
            measure.cpu_system_us = keyed(&text, "system_usec").unwrap_or(0);
        } else if let Some(group) = self.group(self.shared.roles.cpuacct) {
            measure.cpu_user_us = group.read_number("cpuacct.usage_user")?.unwrap_or(0) / 1000;
            measure.cpu_system_us = group.read_number("cpuacct.usage_sys")?.unwrap_or(0) / 1000;
        }
        Ok(())
    }

    fn measure_tree(&self, measure: &mut Measure) -> Result<(), ContainerError> {
        let Some(carried) = self.shared.plan.tree() else { return Ok(()) };
        if carried.carries("io")
            && let Some(text) = read(self.tree(), "io.stat")?
            && let Some((read, written)) = parse_io_stat(&text)
        {
            measure.io_read_bytes = Some(read);
            measure.io_write_bytes = Some(written);
        }
        if carried.carries("pids")
            && let Some(text) = read(self.tree(), "pids.current")?
            && let Ok(threads) = text.trim().parse()
        {
            measure.threads = Some(threads);
        }
        Ok(())
    }
}

impl Containers {
    /// As [`Container::memory_by_node`], for a job whose group is found by number; `None` also when it is over.
    pub fn memory_by_node(&self, job: u64) -> Result<Option<Vec<(u32, u64)>>, ContainerError> {
        let level = self.shared.roles.memory.and_then(|index| self.shared.levels.get(index));
        let Some(level) = level else { return Ok(None) };
        let group = level.job(job)?;
        by_node(self.shared.plan.via(AbilityName::Limit), group.as_ref())
    }
}

fn by_node(via: Via, group: Option<&Group>) -> Result<Option<Vec<(u32, u64)>>, ContainerError> {
    let Some(text) = read(group, "memory.numa_stat")? else { return Ok(None) };
    Ok(match via {
        Via::V2 => parse_numa_stat(&text, &["anon", "shmem"]),
        // Shared memory lies among the anonymous pages there.
        Via::V1 => parse_numa_stat(&text, &["hierarchical_anon"]).map(|nodes| {
            let page_bytes = u64::try_from(rustix::param::page_size()).unwrap_or(4096);
            nodes.into_iter().map(|(node, pages)| (node, pages.saturating_mul(page_bytes))).collect()
        }),
        _ => None,
    })
}

fn read(group: Option<&Group>, file: &str) -> Result<Option<String>, ContainerError> {
    match group {
        Some(group) => Ok(group.read(file)?),
        None => Ok(None),
    }
}

/// Anonymous and shared memory in RAM by a `memory.stat` of control groups v2, in bytes. Pages on their way to swap or
/// back are not in `anon`, but in the LRU lists; without the lists a job would seem to shrink, and to grow again as it
/// touches the pages.
pub(super) fn in_ram_v2(text: &str) -> u64 {
    let figure = |key| keyed(text, key).unwrap_or(0);
    let lists = figure("active_anon").saturating_add(figure("inactive_anon"));
    figure("anon").saturating_add(figure("shmem")).max(lists)
}

/// The bytes of a group that are in swap and not also in RAM: pages that were read back keep their swap slot.
pub(super) fn in_swap_v2(text: &str, swap_bytes: u64) -> u64 {
    swap_bytes.saturating_sub(keyed(text, "swapcached").unwrap_or(0))
}

/// The same for the first generation, whose count of swap leaves out pages that are also in RAM. The lines without
/// `total_` leave out groups below.
pub(super) fn in_ram_v1(text: &str) -> u64 {
    let figure = |key| keyed(text, key).unwrap_or(0);
    let lists = figure("total_active_anon").saturating_add(figure("total_inactive_anon"));
    figure("total_rss").saturating_add(figure("total_shmem")).max(lists)
}

fn memory_v2(group: &Group, measure: &mut Measure) -> Result<(), ContainerError> {
    measure.swap_bytes = group.read_number("memory.swap.current")?.unwrap_or(0);
    if let Some(text) = group.read("memory.stat")? {
        let figure = |key| keyed(&text, key).unwrap_or(0);
        measure.memory_bytes = in_ram_v2(&text);
        measure.swap_bytes = in_swap_v2(&text, measure.swap_bytes);
        (measure.anonymous_bytes, measure.shared_bytes) = (keyed(&text, "anon"), keyed(&text, "shmem"));
        measure.cache_bytes = Some(figure("file").saturating_sub(figure("shmem")));
        measure.mapped_bytes = keyed(&text, "file_mapped");
        // The sum of all kinds, since 5.18; before, of the kinds that a job can make large.
        let kinds = ["kernel_stack", "pagetables", "slab", "percpu", "sock", "vmalloc"];
        measure.kernel_bytes = keyed(&text, "kernel")
            .or_else(|| Some(kinds.into_iter().map(figure).fold(0, u64::saturating_add)));
    }
    measure.memory_peak_kernel_bytes = group.read_number("memory.peak")?;
    measure.oom_kills = read(Some(group), "memory.events")?.and_then(|text| keyed(&text, "oom_kill"));
    Ok(())
}

fn memory_v1(group: &Group, measure: &mut Measure, may_be_killed: bool) -> Result<(), ContainerError> {
    if let Some(text) = group.read("memory.stat")? {
        let figure = |key| keyed(&text, key).unwrap_or(0);
        measure.memory_bytes = in_ram_v1(&text);
        (measure.anonymous_bytes, measure.shared_bytes) =
            (keyed(&text, "total_rss"), keyed(&text, "total_shmem"));
        measure.cache_bytes = Some(figure("total_cache").saturating_sub(figure("total_shmem")));
        measure.mapped_bytes = keyed(&text, "total_mapped_file");
        measure.swap_bytes = figure("total_swap");
    }
    measure.memory_peak_kernel_bytes = group.read_number("memory.max_usage_in_bytes")?;
    measure.kernel_bytes = group.read_number("memory.kmem.usage_in_bytes")?;
    if may_be_killed {
        measure.oom_kills =
            read(Some(group), "memory.oom_control")?.and_then(|text| keyed(&text, "oom_kill"));
    }
    Ok(())
}

/// Sums over processes where no group counts memory. A shared page counts for each process.
pub(super) fn memory_of_processes(proc: &Proc, pids: &[u32], measure: &mut Measure) -> Result<(), ProcError> {
    for pid in pids {
        let Some(status) = proc.status(*pid)? else { continue };
        measure.memory_bytes = measure.memory_bytes.saturating_add(status.anon_bytes + status.shmem_bytes);
        let add = |sum: Option<u64>, bytes| Some(sum.unwrap_or(0).saturating_add(bytes));
        measure.anonymous_bytes = add(measure.anonymous_bytes, status.anon_bytes);
        measure.shared_bytes = add(measure.shared_bytes, status.shmem_bytes);
        measure.swap_bytes = measure.swap_bytes.saturating_add(status.swap_bytes);
        measure.process_file_bytes = measure.process_file_bytes.max(Some(status.file_bytes));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_on_their_way_from_swap_count_once_in_ram() {
        // 100 pages mapped, 40 of which kept their swap slots, and 10 that were read back and are not mapped yet.
        let second = "anon 100\nshmem 5\nactive_anon 85\ninactive_anon 30\nswapcached 50\n";
        assert_eq!((in_ram_v2(second), in_swap_v2(second, 70)), (115, 20));
        let first = "total_rss 100\ntotal_shmem 5\ntotal_active_anon 85\ntotal_inactive_anon 30\n";
        assert_eq!(in_ram_v1(first), 115);
        // Locked pages lie on another list; and a kernel may lack either figure.
        assert_eq!((in_ram_v2("anon 100\nactive_anon 20\n"), in_swap_v2("anon 100\n", 70)), (100, 70));
    }
}
