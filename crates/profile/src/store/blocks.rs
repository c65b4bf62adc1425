//! Samples of a job, packed: what is kept of those that nobody adds to any more.
//!
//! A block is the version (one byte, 1), the count of samples, and then one column after the other: time, state,
//! user time, system time, memory, cache, swap, address space, bytes read, bytes written, processes, threads, and
//! the five kinds of stalls. A column begins with how many low bits are 0 in all of its values and left out (one
//! byte: memory comes in pages). A value that may be absent is then one more than it is, and 0 where it is absent.
//! Of each value stands the difference to the one before (of the times: to the difference before), folded to a
//! number without sign (zigzag) and cut into groups of seven bits, low ones first (as Protocol Buffers do); a 0 is
//! followed by how many more zeros come. Absent here: files.

use pinfold_proto::JobState;
use pinfold_proto::row::{SampleRow, Stalls};

/// The most samples of one block.
pub(super) const SAMPLES_MAX: usize = 3600;

const VERSION: u8 = 1;

const STATES: [JobState; 6] = [
    JobState::Queued,
    JobState::Held,
    JobState::Running,
    JobState::Frozen,
    JobState::Parked,
    JobState::Exited,
];

const COLUMNS: usize = 17;

/// Packs samples of one job, by time.
pub(super) fn pack(samples: &[SampleRow]) -> Vec<u8> {
    let mut bytes = vec![VERSION];
    put(&mut bytes, samples.len() as u64);
    let rows: Vec<[Option<u64>; COLUMNS]> = samples.iter().map(values).collect();
    for column in 0..COLUMNS {
        let all = rows.iter().filter_map(|row| row[column]).fold(0, |all, value| all | value);
        let shift = if all == 0 { 0 } else { all.trailing_zeros() };
        bytes.push(u8::try_from(shift).expect("at most 63"));
        let offset = u64::from(MAYBE.contains(&column));
        let stored = |value: Option<u64>| value.map_or(0, |value| (value >> shift).wrapping_add(offset));
        let (mut before, mut step) = (0u64, 0u64);
        let mut zeros = 0u64;
        for row in &rows {
            let value = stored(row[column]);
            let mut change = value.wrapping_sub(before);
            before = value;
            if column == 0 {
                (change, step) = (change.wrapping_sub(step), change);
            }
            if change == 0 {
                zeros += 1;
                continue;
            }
            put_zeros(&mut bytes, &mut zeros);
            put(&mut bytes, folded(change));
        }
        put_zeros(&mut bytes, &mut zeros);
    }
    bytes
}

/// What [`pack`] packed; `None`: the bytes are damaged.
pub(super) fn unpack(job: u64, bytes: &[u8]) -> Option<Vec<SampleRow>> {
    let (&version, mut rest) = bytes.split_first()?;
    let count = usize::try_from(take(&mut rest)?).ok()?;
    if version != VERSION || count > SAMPLES_MAX {
        return None;
    }
    let mut rows = vec![[None; COLUMNS]; count];
    for column in 0..COLUMNS {
        let (&shift, after) = rest.split_first()?;
        rest = after;
        let offset = u64::from(MAYBE.contains(&column));
        let (mut before, mut step) = (0u64, 0u64);
        let mut zeros = 0u64;
        for row in &mut rows {
            let mut change = 0;
            if zeros > 0 {
                zeros -= 1;
            } else {
                change = take(&mut rest)?;
                if change == 0 {
                    zeros = take(&mut rest)?;
                }
                change = unfolded(change);
            }
            if column == 0 {
                step = step.wrapping_add(change);
                change = step;
            }
            before = before.wrapping_add(change);
            row[column] = match before.checked_sub(offset) {
                Some(value) => Some(value.checked_shl(shift.into())?),
                None => None,
            };
        }
        if zeros > 0 {
            return None;
        }
    }
    if !rest.is_empty() {
        return None;
    }
    rows.iter().map(|row| sample(job, row)).collect()
}

/// One sample for each interval: the last totals and state of it, and the most of everything else, so that no
/// peak gets lost.
pub(super) fn thinned(samples: &[SampleRow], step_us: u64) -> Vec<SampleRow> {
    let same = |one: &SampleRow, next: &SampleRow| one.time_us / step_us == next.time_us / step_us;
    let most = |of: &[SampleRow]| {
        let mut kept = *of.last().expect("a run of samples holds one");
        for sample in of {
            kept.memory_bytes = kept.memory_bytes.max(sample.memory_bytes);
            kept.cache_bytes = kept.cache_bytes.max(sample.cache_bytes);
            kept.swap_bytes = kept.swap_bytes.max(sample.swap_bytes);
            kept.virtual_bytes = kept.virtual_bytes.max(sample.virtual_bytes);
            kept.processes = kept.processes.max(sample.processes);
            kept.threads = kept.threads.max(sample.threads);
        }
        kept
    };
    samples.chunk_by(same).map(most).collect()
}

/// The columns whose values may be absent.
const MAYBE: [usize; 6] = [5, 12, 13, 14, 15, 16];

fn values(sample: &SampleRow) -> [Option<u64>; COLUMNS] {
    let state = STATES.iter().position(|state| *state == sample.state).unwrap_or(2);
    let stall = |of: fn(&Stalls) -> u64| sample.stalls.as_ref().map(of);
    [
        Some(sample.time_us),
        Some(state as u64),
        Some(sample.cpu_user_us),
        Some(sample.cpu_system_us),
        Some(sample.memory_bytes),
        sample.cache_bytes,
        Some(sample.swap_bytes),
        Some(sample.virtual_bytes),
        Some(sample.io_read_bytes),
        Some(sample.io_write_bytes),
        Some(sample.processes.into()),
        Some(sample.threads.into()),
        stall(|stalls| stalls.cpu_us),
        stall(|stalls| stalls.memory_us),
        stall(|stalls| stalls.memory_full_us),
        stall(|stalls| stalls.io_us),
        stall(|stalls| stalls.io_full_us),
    ]
}

fn sample(job: u64, row: &[Option<u64>; COLUMNS]) -> Option<SampleRow> {
    let stalls = match (row[12], row[13], row[14], row[15], row[16]) {
        (Some(cpu_us), Some(memory_us), Some(memory_full_us), Some(io_us), Some(io_full_us)) => {
            Some(Stalls { cpu_us, memory_us, memory_full_us, io_us, io_full_us })
        }
        _ => None,
    };
    Some(SampleRow {
        job,
        time_us: row[0]?,
        state: *STATES.get(usize::try_from(row[1]?).ok()?)?,
        cpu_user_us: row[2]?,
        cpu_system_us: row[3]?,
        memory_bytes: row[4]?,
        cache_bytes: row[5],
        swap_bytes: row[6]?,
        virtual_bytes: row[7]?,
        io_read_bytes: row[8]?,
        io_write_bytes: row[9]?,
        processes: u32::try_from(row[10]?).ok()?,
        threads: u32::try_from(row[11]?).ok()?,
        stalls,
    })
}

fn put_zeros(bytes: &mut Vec<u8>, zeros: &mut u64) {
    if let Some(more) = zeros.checked_sub(1) {
        bytes.push(0);
        put(bytes, more);
    }
    *zeros = 0;
}

/// Small differences of either sign as small numbers.
fn folded(change: u64) -> u64 {
    let signed = change.cast_signed();
    ((signed << 1) ^ (signed >> 63)).cast_unsigned()
}

fn unfolded(folded: u64) -> u64 {
    (folded >> 1) ^ 0u64.wrapping_sub(folded & 1)
}

fn put(bytes: &mut Vec<u8>, mut value: u64) {
    loop {
        let [low, ..] = (value & 0x7F).to_le_bytes();
        value >>= 7;
        if value == 0 {
            bytes.push(low);
            return;
        }
        bytes.push(low | 0x80);
    }
}

fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}
