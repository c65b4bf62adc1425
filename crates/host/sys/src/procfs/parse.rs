//! Text to data for the files of `/proc`. Every function takes any text and returns `None` for a text against the kernel's
//! documentation; none can panic. Absent here: files.

use pinfold_topo::{CpuSet, PuOs};

use super::types::{
    HostCpu, Load, MemoryInfo, Pressure, PressureLine, ProcessIo, ProcessStat, ProcessStatus, PuTimes,
    Rollup, ThreadStat,
};

/// The nice value in `/proc/PID/stat`.
#[must_use]
pub(super) fn parse_nice(text: &str) -> Option<i32> {
    // Field 19 of proc(5); the first field behind the name is field 3.
    text.rsplit_once(')')?.1.split_ascii_whitespace().nth(16)?.parse().ok()
}

/// Reads `/proc/PID/stat`.
#[must_use]
pub fn parse_process_stat(text: &str) -> Option<ProcessStat> {
    // The name stands in parentheses and may hold blanks and parentheses itself, so the last parenthesis closes it.
    let (head, tail) = text.rsplit_once(')')?;
    let pid = head.split_once('(')?.0.trim().parse().ok()?;
    let mut words = tail.split_ascii_whitespace();
    let state = words.next()?.chars().next()?;
    // From here on field N of proc(5) is fields[N - 4]; the state was field 3.
    let fields: Vec<&str> = words.take(21).collect();
    let number = |field: usize| fields.get(field - 4)?.parse::<u64>().ok();
    Some(ProcessStat {
        pid,
        state,
        parent: u32::try_from(number(4)?).ok()?,
        faults_minor: number(10)?,
        children_faults_minor: number(11)?,
        faults_major: number(12)?,
        children_faults_major: number(13)?,
        user_ticks: number(14)?,
        system_ticks: number(15)?,
        children_user_ticks: number(16)?,
        children_system_ticks: number(17)?,
        threads: number(20)?,
        start_ticks: number(22)?,
        virtual_bytes: number(23)?,
        resident_pages: number(24)?,
    })
}

/// Reads `/proc/PID/task/TID/stat`.
#[must_use]
pub fn parse_thread_stat(text: &str) -> Option<ThreadStat> {
    let process = parse_process_stat(text)?;
    let (head, tail) = text.rsplit_once(')')?;
    Some(ThreadStat {
        name: head.split_once('(')?.1.to_owned(),
        state: process.state,
        cpu_user_us: super::ticks_to_us(process.user_ticks),
        cpu_system_us: super::ticks_to_us(process.system_ticks),
        // Field 39; the first word behind the name is field 3.
        pu: tail.split_ascii_whitespace().nth(36).and_then(|word| word.parse().ok()),
    })
}

/// Reads `/proc/PID/status`.
#[must_use]
pub fn parse_process_status(text: &str) -> Option<ProcessStatus> {
    let mut status = ProcessStatus {
        user: 0,
        anon_bytes: 0,
        file_bytes: 0,
        shmem_bytes: 0,
        swap_bytes: 0,
        cpus: CpuSet::default(),
    };
    let mut identified = false;
    for (key, value) in colon_lines(text) {
        match key {
            "Uid" => {
                status.user = value.split_ascii_whitespace().next()?.parse().ok()?;
                identified = true;
            }
            "RssAnon" => status.anon_bytes = kibibytes(value)?,
            "RssFile" => status.file_bytes = kibibytes(value)?,
            "RssShmem" => status.shmem_bytes = kibibytes(value)?,
            "VmSwap" => status.swap_bytes = kibibytes(value)?,
            "Cpus_allowed_list" => status.cpus = value.parse().ok()?,
            _ => {}
        }
    }
    identified.then_some(status)
}

/// Reads `/proc/PID/io`.
#[must_use]
pub fn parse_process_io(text: &str) -> Option<ProcessIo> {
    let (mut read, mut write, mut cancelled) = (None, None, 0);
    let (mut read_calls, mut write_calls, mut read_chars, mut write_chars) = (0, 0, 0, 0);
    for (key, value) in colon_lines(text) {
        let number = value.parse::<u64>().ok();
        match key {
            "read_bytes" => read = number,
            "write_bytes" => write = number,
            "cancelled_write_bytes" => cancelled = number?,
            "syscr" => read_calls = number?,
            "syscw" => write_calls = number?,
            "rchar" => read_chars = number?,
            "wchar" => write_chars = number?,
            _ => {}
        }
    }
    // A process may cancel another's writes, so the difference is clipped, as the manual page warns.
    let (read_bytes, write_bytes) = (read?, write?.saturating_sub(cancelled));
    Some(ProcessIo { read_bytes, write_bytes, read_calls, write_calls, read_chars, write_chars })
}

/// The times a thread gave its processor up and was taken off it, of `/proc/PID/task/TID/status`.
#[must_use]
pub fn parse_switches(text: &str) -> Option<(u64, u64)> {
    let (mut voluntary, mut forced) = (None, None);
    for (key, value) in colon_lines(text) {
        match key {
            "voluntary_ctxt_switches" => voluntary = value.parse().ok(),
            "nonvoluntary_ctxt_switches" => forced = value.parse().ok(),
            _ => {}
        }
    }
    voluntary.zip(forced)
}

/// Reads `/proc/PID/smaps_rollup`.
#[must_use]
pub fn parse_rollup(text: &str) -> Option<Rollup> {
    let (mut anon, mut shmem, mut swap, mut shared) = (None, None, None, 0);
    for (key, value) in colon_lines(text) {
        match key {
            "Pss_Anon" => anon = kibibytes(value),
            "Pss_Shmem" => shmem = kibibytes(value),
            "SwapPss" => swap = kibibytes(value),
            "Shared_Dirty" => shared = kibibytes(value)?,
            _ => {}
        }
    }
    Some(Rollup { anon_bytes: anon?, shmem_bytes: shmem?, swap_bytes: swap?, shared_bytes: shared })
}

/// Reads the lines of `/proc/stat` that speak of single PUs.
#[must_use]
pub fn parse_host_cpu(text: &str) -> Option<HostCpu> {
    let mut pus = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.strip_prefix("cpu") else { continue };
        let Some((number, times)) = rest.split_once(' ') else { continue };
        if number.is_empty() {
            continue;
        }
        let times: Vec<u64> = times.split_ascii_whitespace().map_while(|word| word.parse().ok()).collect();
        let at = |index: usize| times.get(index).copied();
        let busy = [at(0)?, at(1)?, at(2)?, at(5).unwrap_or(0), at(6).unwrap_or(0)];
        // A number beyond the bounds of a set is refused here, so that no later code has to.
        let pu = PuOs(number.parse().ok().filter(|pu| *pu <= pinfold_topo::cpuset::PU_OS_MAX)?);
        pus.push(PuTimes {
            pu,
            busy_ticks: busy.iter().fold(0, |sum: u64, part| sum.saturating_add(*part)),
            nice_ticks: at(1)?,
            idle_ticks: at(3)?,
            iowait_ticks: at(4).unwrap_or(0),
            steal_ticks: at(7).unwrap_or(0),
        });
    }
    pus.sort_by_key(|times| times.pu.0);
    (!pus.is_empty()).then_some(HostCpu { pus })
}

/// Reads `/proc/meminfo`.
#[must_use]
pub fn parse_memory_info(text: &str) -> Option<MemoryInfo> {
    let (mut total, mut free, mut available, mut swap_total, mut swap_free) = (None, None, None, None, None);
    for (key, value) in colon_lines(text) {
        match key {
            "MemTotal" => total = kibibytes(value),
            "MemFree" => free = kibibytes(value),
            "MemAvailable" => available = kibibytes(value),
            "SwapTotal" => swap_total = kibibytes(value),
            "SwapFree" => swap_free = kibibytes(value),
            _ => {}
        }
    }
    Some(MemoryInfo {
        total_bytes: total?,
        free_bytes: free?,
        available_bytes: available?,
        // A kernel without swap support leaves the two lines out, which means none.
        swap_total_bytes: swap_total.unwrap_or(0),
        swap_free_bytes: swap_free.unwrap_or(0),
    })
}

/// Reads `/proc/loadavg`.
#[must_use]
pub fn parse_load(text: &str) -> Option<Load> {
    let mut words = text.split_ascii_whitespace();
    let (whole, hundredths) = words.next()?.split_once('.')?;
    let (whole, hundredths): (u32, u32) = (whole.parse().ok()?, hundredths.parse().ok()?);
    let running = words.nth(2)?.split_once('/')?.0.parse().ok()?;
    let minute_milli = whole.checked_mul(1000)?.checked_add(hundredths.checked_mul(10)?)?;
    (hundredths < 100).then_some(Load { minute_milli, running })
}

/// Reads a pressure file, the host's or a group's.
#[must_use]
pub fn parse_pressure(text: &str) -> Option<Pressure> {
    let (mut some, mut full) = (None, None);
    for line in text.lines() {
        match line.split_once(' ')? {
            ("some", rest) => some = Some(pressure_line(rest)?),
            ("full", rest) => full = Some(pressure_line(rest)?),
            _ => {}
        }
    }
    Some(Pressure { some: some?, full })
}

fn pressure_line(text: &str) -> Option<PressureLine> {
    let (mut avg10, mut avg60, mut total) = (None, None, None);
    for (key, value) in text.split_ascii_whitespace().filter_map(|word| word.split_once('=')) {
        match key {
            "avg10" => avg10 = value.parse::<f64>().ok(),
            "avg60" => avg60 = value.parse::<f64>().ok(),
            "total" => total = value.parse::<u64>().ok(),
            _ => {}
        }
    }
    let share = |percent: Option<f64>| percent.filter(|value| value.is_finite()).map(|value| value / 100.0);
    Some(PressureLine { avg10: share(avg10)?, avg60: share(avg60)?, total_us: total? })
}

fn colon_lines(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| line.split_once(':')).map(|(key, value)| (key, value.trim()))
}

fn kibibytes(value: &str) -> Option<u64> {
    value.strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

#[cfg(test)]
mod tests;
