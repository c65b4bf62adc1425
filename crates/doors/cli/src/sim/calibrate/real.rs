//! How this host is measured. Work is counted in processor time, so that other programs do not lower the figures; their
//! cost in caches and on the disk remains.

use std::fs::File;
use std::hint::black_box;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pinfold_proto::ExitCode;
use pinfold_sys::procfs::Proc;
use pinfold_sys::{affinity, discover, own};
use pinfold_topo::CpuSet;

use super::{Host, Kind};
use pinfold_client::Failure;

/// A walk goes through this much memory, in words of 8 bytes: 64 MiB, more than a core's part of common caches.
const WALK_WORDS: usize = 8 << 20;
/// Operations of a round of arithmetic.
const ROUND: u64 = 1 << 16;
/// The size of a write, and the most bytes written in all.
const BLOCK: usize = 4 << 20;
const WRITTEN_MAX: u64 = 256 << 20;
/// The largest size of a file written in single requests, in bytes.
const REQUESTED_MAX: u64 = 16 << 20;
/// The most and the least bytes moved to swap.
const SWAPPED_MAX: u64 = 256 << 20;
const SWAPPED_MIN: u64 = 16 << 20;
/// The kernel may take this long to write the swapped pages.
const SETTLES: Duration = Duration::from_secs(10);

/// See the module's page.
pub(super) struct Real {
    proc: Proc,
    directory: PathBuf,
    /// The first PU of each core.
    pus: Vec<CpuSet>,
    begun: Instant,
    /// Busy time of the host and of this process then, in seconds.
    busy_s: f64,
    own_s: f64,
}

impl Real {
    pub(super) fn new(directory: &Path) -> Result<Self, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::doing("failed to look at the machine", error);
        let proc = Proc::open(Path::new("/proc")).map_err(|error| failed(&error))?;
        let topology = discover::survey().map_err(|error| failed(&error))?.topology;
        let usable = topology.usable();
        let first = |core: CpuSet| core.iter().next().map(CpuSet::single);
        let pus = topology.cores_within(&usable).into_iter().filter_map(first).collect();
        let mut real = Self {
            proc,
            directory: directory.to_owned(),
            pus,
            begun: Instant::now(),
            busy_s: 0.0,
            own_s: 0.0,
        };
        (real.busy_s, real.own_s) = (real.host_busy_s(), own_cpu_s());
        Ok(real)
    }

    fn host_busy_s(&self) -> f64 {
        let ticks = |cpu: pinfold_sys::procfs::HostCpu| cpu.pus.iter().map(|pu| pu.busy_ticks).sum::<u64>();
        // A clock tick of user space is a hundredth of a second on Linux.
        self.proc.host_cpu().map(ticks).unwrap_or(0) as f64 / 100.0
    }

    fn swapped(&self) -> u64 {
        let status = self.proc.status(std::process::id());
        status.ok().flatten().map_or(0, |status| status.swap_bytes)
    }
}

/// Processor time of this process, in seconds.
fn own_cpu_s() -> f64 {
    own::process_cpu_us() as f64 / 1e6
}

impl Host for Real {
    fn cores(&self) -> usize {
        self.pus.len().max(1)
    }

    fn work(&mut self, kind: Kind, cores: usize, time: Duration) -> Result<f64, Failure> {
        let (ready, done) = (Barrier::new(cores), AtomicBool::new(false));
        let one = |core: usize| {
            if let Some(pus) = self.pus.get(core) {
                // Where binding is not allowed, the kernel spreads busy threads itself.
                let _ = affinity::set(0, pus);
            }
            let mut memory = vec![1_u64; if kind == Kind::Compute { 0 } else { WALK_WORDS }];
            ready.wait();
            let (begun, cpu_us) = (Instant::now(), own::thread_cpu_us());
            let (mut rounds, mut sum) = (0_u64, 1_u64);
            // The first finished thread stops all: only work done beside the others counts.
            while begun.elapsed() < time && !done.load(Ordering::Relaxed) {
                sum = sum.wrapping_add(match kind {
                    Kind::Compute => compute(sum),
                    Kind::Memory => walk(&mut memory),
                    Kind::Jumps => jumps(&mut memory, sum),
                });
                rounds += 1;
            }
            done.store(true, Ordering::Relaxed);
            black_box(sum);
            rounds as f64 * 1e6 / (own::thread_cpu_us() - cpu_us).max(1) as f64
        };
        let rates: Option<Vec<f64>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..cores).map(|core| scope.spawn(move || one(core))).collect();
            threads.into_iter().map(|thread| thread.join().ok()).collect()
        });
        let rates = rates.ok_or_else(|| Failure::new(ExitCode::Failed, "a measuring thread failed"))?;
        Ok(rates.iter().sum::<f64>() / cores as f64)
    }

    fn write(&mut self, files: usize, time: Duration) -> Result<u64, Failure> {
        let most = WRITTEN_MAX / files.max(1) as u64;
        let begun = Instant::now();
        let one = |seed: usize| -> std::io::Result<u64> {
            let mut file: File = tempfile::tempfile_in(&self.directory)?;
            let block = noise(BLOCK, seed as u64 + 1);
            let mut written = 0;
            while written < most && (written == 0 || begun.elapsed() < time) {
                file.write_all(&block)?;
                written += block.len() as u64;
            }
            file.sync_all()?;
            Ok(written)
        };
        let all: std::io::Result<u64> = thread::scope(|scope| {
            let threads: Vec<_> = (0..files).map(|file| scope.spawn(move || one(file))).collect();
            let gone = |_| std::io::Error::other("a writing thread failed");
            threads.into_iter().map(|thread| thread.join().map_err(gone).flatten()).sum()
        });
        let all = all.map_err(|error| {
            Failure::doing(format!("failed to write to {}", self.directory.display()), &error)
        })?;
        Ok(in_a_second(all, begun.elapsed()))
    }

    fn requests(&mut self, sizes: &[usize], time: Duration) -> Result<Vec<u64>, Failure> {
        let failed = |error: std::io::Error| {
            Failure::doing(format!("failed to write to {}", self.directory.display()), &error)
        };
        let bytes = REQUESTED_MAX.min(WRITTEN_MAX / sizes.len().max(1) as u64);
        let made: std::io::Result<Vec<File>> =
            sizes.iter().map(|_| tempfile::tempfile_in(&self.directory)).collect();
        let files = made.map_err(failed)?;
        let begun = Instant::now();
        let one = |file: &File, size: usize, seed: u64| -> std::io::Result<u64> {
            let (data, places) = (noise(size, seed), (bytes / size as u64).max(1));
            let mut written = 0;
            while written == 0 || begun.elapsed() < time {
                let place = written % places;
                if place == 0 {
                    file.set_len(0)?;
                }
                // The file grows, like files of programs: the file system has to record its extents, and many file
                // systems record all files' extents at once, after the data of each.
                file.write_all_at(&data[..size], place * size as u64)?;
                file.sync_data()?;
                written += 1;
            }
            Ok(in_a_second(written, begun.elapsed()))
        };
        let all: std::io::Result<Vec<u64>> = thread::scope(|scope| {
            let writers = (1..).zip(files.iter().zip(sizes));
            let threads: Vec<_> =
                writers.map(|(seed, (file, &size))| scope.spawn(move || one(file, size, seed))).collect();
            let gone = |_| std::io::Error::other("a writing thread failed");
            threads.into_iter().map(|thread| thread.join().map_err(gone).flatten()).collect()
        });
        all.map_err(failed)
    }

    fn swap(&mut self) -> Result<Option<(u64, u64)>, Failure> {
        let failed = |error: &dyn std::error::Error| Failure::doing("failed to read /proc", error);
        let info = self.proc.memory_info().map_err(|error| failed(&error))?;
        let bytes = SWAPPED_MAX.min(info.swap_free_bytes / 4).min(info.available_bytes / 8);
        if bytes < SWAPPED_MIN {
            return Ok(None);
        }
        let mut memory = noise(usize::try_from(bytes).unwrap_or(BLOCK), 7);
        let (before, writing) = (self.swapped(), writeback());
        let begun = Instant::now();
        if let Err(error) = own::page_out(&mut memory) {
            return Err(Failure::doing("failed to move memory to swap", &error));
        }
        // The call returns before all pages are written: the kernel counts the waiting pages.
        while writeback() > writing.saturating_add(1 << 20) && begun.elapsed() < SETTLES {
            thread::sleep(Duration::from_millis(2));
        }
        let out_time = begun.elapsed();
        let out = self.swapped().saturating_sub(before);
        // Less than half moved: swap is full of others' pages, or the group of this process may not use it.
        if out < bytes / 2 {
            return Ok(None);
        }
        let begun = Instant::now();
        let sum = memory.iter().step_by(4096).fold(0_u64, |sum, &byte| sum + u64::from(byte));
        black_box(sum);
        Ok(Some((in_a_second(out, out_time), in_a_second(out, begun.elapsed()))))
    }

    fn others(&self) -> f64 {
        let all = self.host_busy_s() - self.busy_s - (own_cpu_s() - self.own_s);
        (all / self.begun.elapsed().as_secs_f64().max(0.1)).max(0.0)
    }
}

fn in_a_second(bytes: u64, time: Duration) -> u64 {
    let us = time.as_micros().max(1);
    u64::try_from(u128::from(bytes) * 1_000_000 / us).unwrap_or(u64::MAX).max(1)
}

/// Bytes that the kernel is writing to devices now.
fn writeback() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("Writeback:"));
    let number =
        line.and_then(|rest| rest.split_whitespace().next()).and_then(|word| word.parse::<u64>().ok());
    number.unwrap_or(0) * 1024
}

/// A round of arithmetic in registers.
fn compute(seed: u64) -> u64 {
    let mut number = seed | 1;
    for _ in 0..ROUND {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        number = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }
    number
}

/// A walk through all of it, a line of the cache at a time.
fn walk(memory: &mut [u64]) -> u64 {
    let mut sum = 0_u64;
    for word in memory.iter_mut().step_by(8) {
        *word = word.wrapping_add(sum);
        sum ^= *word;
    }
    sum
}

/// Jumps through memory: the target of each jump is known when the previous jump has arrived.
fn jumps(memory: &mut [u64], seed: u64) -> u64 {
    let mut at = seed;
    for _ in 0..ROUND {
        at = at.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        let word = &mut memory[usize::try_from(at % WALK_WORDS as u64).unwrap_or(0)];
        *word = word.wrapping_add(1);
        at = at.wrapping_add(*word);
    }
    at
}

/// Bytes that nothing packs any smaller.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut number = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut made = Vec::with_capacity(bytes + 8);
    while made.len() < bytes {
        number ^= number << 13;
        number ^= number >> 7;
        number ^= number << 17;
        made.extend_from_slice(&number.to_le_bytes());
    }
    made
}
