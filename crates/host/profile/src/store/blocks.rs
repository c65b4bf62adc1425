//! Packed samples of a job, for samples that are complete.
//!
//! A block is the version (a byte, 2), the count of samples, and the columns in order: time, state, user time, system
//! time, memory, cache, swap, address space, bytes read, bytes written, processes, threads, and the five kinds of
//! stalls. A column begins with a byte: its six low bits give the number of low bits that are 0 in all its values and
//! left out (memory comes in pages), the next bit its form. An optional value is stored plus 1, an absent value as 0.
//! Each column has the shorter of two forms.
//!
//! *Sparse* (0): the difference of each value to the value before (of times: to the difference before), folded to an
//! unsigned number (zigzag) and cut into groups of seven bits, low groups first (as in Protocol Buffers); a 0 is
//! followed by the number of further zeros. *Dense* (1): the first value as an unsigned number in that form, then
//! runs of up to 256 differences: the least difference, folded, as such a number; a byte with the number of bits per
//! difference; and each difference minus the least in that many bits, low bits first, padded to a whole byte. Version
//! 1 had only the sparse form. Absent here: files.

use pinfold_proto::JobState;
use pinfold_proto::row::{SampleRow, Stalls};

/// The most samples of a block.
pub(super) const SAMPLES_MAX: usize = 3600;

const VERSION: u8 = 2;
/// The version with only the sparse form; its blocks are read alike, because their columns name the form too.
pub(super) const SPARSE_ONLY: u8 = 1;

/// The form of a column, beside how many bits are left out.
const DENSE: u8 = 1 << 6;
/// Differences of a dense column that share a number of bits.
const RUN: usize = 256;

const STATES: [JobState; 6] = [
    JobState::Queued,
    JobState::Held,
    JobState::Running,
    JobState::Frozen,
    JobState::Parked,
    JobState::Exited,
];

const COLUMNS: usize = 17;

/// Packs samples of a job, by time.
pub(super) fn pack(samples: &[SampleRow]) -> Vec<u8> {
    pack_as(samples, VERSION)
}

/// Packs in the format of `version`.
pub(super) fn pack_as(samples: &[SampleRow], version: u8) -> Vec<u8> {
    let mut bytes = vec![version];
    put(&mut bytes, samples.len() as u64);
    let rows: Vec<[Option<u64>; COLUMNS]> = samples.iter().map(values).collect();
    for column in 0..COLUMNS {
        let all = rows.iter().filter_map(|row| row[column]).fold(0, |all, value| all | value);
        let shift = if all == 0 { 0 } else { all.trailing_zeros() };
        let offset = u64::from(MAYBE.contains(&column));
        let stored = |value: Option<u64>| value.map_or(0, |value| (value >> shift).wrapping_add(offset));
        let values: Vec<u64> = rows.iter().map(|row| stored(row[column])).collect();
        let (sparse, dense) = (sparse(&values, column == TIME), dense(&values));
        let shift = u8::try_from(shift).expect("at most 63");
        if sparse.len() <= dense.len() || version == SPARSE_ONLY {
            bytes.push(shift);
            bytes.extend(sparse);
        } else {
            bytes.push(shift | DENSE);
            bytes.extend(dense);
        }
    }
    bytes
}

/// Differences, for columns where most are 0 or small. `twice`: differences of differences.
fn sparse(values: &[u64], twice: bool) -> Vec<u8> {
    let (mut bytes, mut before, mut step, mut zeros) = (Vec::new(), 0u64, 0u64, 0u64);
    for &value in values {
        let mut change = value.wrapping_sub(before);
        before = value;
        if twice {
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
    bytes
}

/// Differences, for columns where most are of similar size.
fn dense(values: &[u64]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let Some(&first) = values.first() else { return bytes };
    put(&mut bytes, first);
    let changes: Vec<i64> =
        values.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).cast_signed()).collect();
    for run in changes.chunks(RUN) {
        let least = run.iter().copied().min().expect("a run has one");
        // The distance of two signed 64-bit numbers fits into 64 unsigned bits.
        let above = |change: i64| change.wrapping_sub(least).cast_unsigned();
        let bits = run.iter().map(|&change| 64 - above(change).leading_zeros()).max().expect("a run has one");
        put(&mut bytes, folded(least.cast_unsigned()));
        bytes.push(u8::try_from(bits).expect("at most 64"));
        let (mut waiting, mut count) = (0u128, 0);
        for &change in run {
            waiting |= u128::from(above(change)) << count;
            count += bits;
            while count >= 8 {
                bytes.push(waiting.to_le_bytes()[0]);
                waiting >>= 8;
                count -= 8;
            }
        }
        if count > 0 {
            bytes.push(waiting.to_le_bytes()[0]);
        }
    }
    bytes
}

/// Reverses [`pack`]; `None`: the bytes are damaged.
pub(super) fn unpack(job: u64, bytes: &[u8]) -> Option<Vec<SampleRow>> {
    let (&version, mut rest) = bytes.split_first()?;
    let count = usize::try_from(take(&mut rest)?).ok()?;
    if !matches!(version, SPARSE_ONLY | VERSION) || count > SAMPLES_MAX {
        return None;
    }
    let mut rows = vec![[None; COLUMNS]; count];
    for column in 0..COLUMNS {
        let (&head, after) = rest.split_first()?;
        rest = after;
        let shift = u32::from(head & (DENSE - 1));
        let form = head & !(DENSE - 1);
        let values = match form {
            0 => take_sparse(&mut rest, count, column == TIME)?,
            DENSE if version == VERSION => take_dense(&mut rest, count)?,
            _ => return None,
        };
        let offset = u64::from(MAYBE.contains(&column));
        for (row, value) in rows.iter_mut().zip(values) {
            row[column] = match value.checked_sub(offset) {
                Some(value) => Some(value.checked_shl(shift)?),
                None => None,
            };
        }
    }
    if !rest.is_empty() {
        return None;
    }
    rows.iter().map(|row| sample(job, row)).collect()
}

fn take_sparse(rest: &mut &[u8], count: usize, twice: bool) -> Option<Vec<u64>> {
    let (mut before, mut step, mut zeros) = (0u64, 0u64, 0u64);
    let mut values = Vec::with_capacity(count);
    for _ in 0..count {
        let mut change = 0;
        if zeros > 0 {
            zeros -= 1;
        } else {
            change = take(rest)?;
            if change == 0 {
                zeros = take(rest)?;
            }
            change = unfolded(change);
        }
        if twice {
            step = step.wrapping_add(change);
            change = step;
        }
        before = before.wrapping_add(change);
        values.push(before);
    }
    (zeros == 0).then_some(values)
}

fn take_dense(rest: &mut &[u8], count: usize) -> Option<Vec<u64>> {
    let mut values = Vec::with_capacity(count);
    if count == 0 {
        return Some(values);
    }
    let mut value = take(rest)?;
    values.push(value);
    while values.len() < count {
        let run = (count - values.len()).min(RUN);
        let least = unfolded(take(rest)?);
        let (&bits, after) = rest.split_first()?;
        let bits = u32::from(bits);
        if bits > u64::BITS {
            return None;
        }
        let bytes = (run * usize::try_from(bits).ok()?).div_ceil(8);
        let (mut packed, after) = after.split_at_checked(bytes)?;
        *rest = after;
        let (mut waiting, mut ready) = (0u128, 0);
        for _ in 0..run {
            while ready < bits {
                let (&byte, more) = packed.split_first()?;
                packed = more;
                waiting |= u128::from(byte) << ready;
                ready += 8;
            }
            let above = u64::try_from(waiting & ((1u128 << bits) - 1)).ok()?;
            waiting >>= bits;
            ready -= bits;
            value = value.wrapping_add(least).wrapping_add(above);
            values.push(value);
        }
    }
    Some(values)
}

/// A sample per interval: its last totals and state, and the maximum of all other figures, so that no peak gets lost.
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

/// The column of times.
const TIME: usize = 0;

/// The columns with optional values.
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

/// Maps small differences of either sign to small numbers.
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
