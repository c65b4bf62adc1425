//! The log of a disk's writes, as QEMU's block filter `blklogwrites` keeps it (the format of the kernel's `dm-log-writes`:
//! Documentation/admin-guide/device-mapper/log-writes.rst): a superblock, and for each write and flush a sector that
//! describes it, with the data behind. It determines a disk's contents after a power cut. Absent here: machines.

use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, bail, ensure};

pub(super) const SECTOR: u64 = 512;
const MAGIC: u64 = 0x006a_7366_7773_6872;
const FLUSH: u64 = 1;
/// The write is on disk when it is done, without a flush.
const FUA: u64 = 2;
const DISCARD: u64 = 4;

/// An operation on the disk, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// From this sector on.
    Write { sector: u64, data: Vec<u8>, durable: bool },
    /// All that was written before is on disk.
    Flush,
}

/// Reads a log to its end.
pub(super) fn read(path: &Path) -> anyhow::Result<Vec<Entry>> {
    let file = File::open(path).with_context(|| format!("failed to open {}", path.display()))?;
    let mut log = std::io::BufReader::new(file);
    let header = words(&mut log)?;
    ensure!(header[0] == MAGIC, "{} is no log of writes", path.display());
    let mut entries = Vec::new();
    for _ in 0..header[2] {
        let [sector, count, flags, _] = words(&mut log)?;
        if flags & DISCARD != 0 {
            // Discarded blocks may as well stay.
            continue;
        }
        if count > 0 {
            let mut data = vec![0; usize::try_from(count * SECTOR)?];
            log.read_exact(&mut data).context("the log ends in the middle of a write")?;
            entries.push(Entry::Write { sector, data, durable: flags & FUA != 0 });
        }
        if flags & FLUSH != 0 {
            entries.push(Entry::Flush);
        }
    }
    Ok(entries)
}

/// The first four numbers of the next sector.
fn words(log: &mut impl Read) -> anyhow::Result<[u64; 4]> {
    let mut sector = [0; 512];
    log.read_exact(&mut sector).context("the log ends before its last entry")?;
    let mut words = [0; 4];
    for (word, bytes) in words.iter_mut().zip(sector.chunks_exact(8)) {
        *word = u64::from_le_bytes(bytes.try_into()?);
    }
    Ok(words)
}

/// A power cut: the next flush never comes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Cut {
    /// The number of completed flushes; all writes before them are on disk.
    pub flushes: usize,
    /// Quarters of the later writes that are on disk as well, chosen at random; 0: none.
    pub quarters: u64,
}

/// The place of marks: writes there always reach the disk, as they record the real events.
pub(super) struct Marks {
    pub first_sector: u64,
}

/// Numbers that look random, the same in each run (Steele, Lea, Flood 2014: SplitMix64).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) % sides
    }
}

/// The number of flushes in a log.
pub(super) fn flushes(entries: &[Entry]) -> usize {
    entries.iter().filter(|entry| **entry == Entry::Flush).count()
}

/// Makes the disk of a cut from its initial contents.
pub(super) fn apply(
    base: &Path,
    to: &Path,
    entries: &[Entry],
    cut: Cut,
    marks: &Marks,
) -> anyhow::Result<()> {
    if cut.flushes > flushes(entries) {
        bail!("the log has {} flushes and not {}", flushes(entries), cut.flushes);
    }
    fs::copy(base, to).with_context(|| format!("failed to make {}", to.display()))?;
    let mut disk = File::options().write(true).open(to)?;
    let mut dice = Dice(cut.flushes as u64);
    let mut done = 0;
    for entry in entries {
        match entry {
            Entry::Flush if done == cut.flushes => break,
            Entry::Flush => done += 1,
            Entry::Write { sector, data, durable } => {
                let is_mark = *sector >= marks.first_sector;
                let kept = done < cut.flushes || *durable || is_mark || dice.roll(4) < cut.quarters;
                if kept {
                    disk.write_all_at(data, sector * SECTOR)?;
                }
            }
        }
    }
    Ok(disk.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sector_of(words: [u64; 4]) -> Vec<u8> {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.resize(512, 0);
        bytes
    }

    fn log(path: &Path) {
        let mut bytes = sector_of([MAGIC, 1, 6, 512]);
        for (entry, data) in [
            ([0, 1, 0, 0], Some(b'a')),
            ([0, 0, FLUSH, 0], None),
            ([0, 1, 0, 0], Some(b'b')),
            ([1, 1, FUA, 0], Some(b'c')),
            ([9, 1, 0, 0], Some(b'm')),
            ([2, 4, DISCARD, 0], None),
        ] {
            bytes.extend(sector_of(entry));
            bytes.extend(data.map(|letter| vec![letter; 512]).unwrap_or_default());
        }
        fs::write(path, bytes).expect("written");
    }

    #[test]
    fn flushed_writes_stay_and_the_rest_may_go() {
        let work = std::env::temp_dir().join(format!("pinfold-writes-{}", std::process::id()));
        fs::create_dir_all(&work).expect("a directory");
        let (path, base, to) = (work.join("log"), work.join("base"), work.join("disk"));
        log(&path);
        fs::write(&base, vec![b'.'; 512 * 10]).expect("written");
        let entries = read(&path).expect("a log");
        assert_eq!((entries.len(), flushes(&entries)), (5, 1));
        let letters = |flushes: usize, quarters: u64| {
            let marks = Marks { first_sector: 9 };
            apply(&base, &to, &entries, Cut { flushes, quarters }, &marks).expect("a disk");
            let disk = fs::read(&to).expect("a disk");
            String::from_utf8(disk.chunks(512).map(|sector| sector[0]).collect()).expect("letters")
        };
        // Nothing was flushed; after the flush, its write alone, and the marks; all.
        assert_eq!(letters(0, 0), "..........");
        assert_eq!(letters(1, 0), "ac.......m");
        assert_eq!(letters(1, 4), "bc.......m");
        let none = apply(&base, &to, &entries, Cut { flushes: 2, quarters: 0 }, &Marks { first_sector: 9 });
        assert!(none.is_err());
        fs::write(&path, vec![0; 512]).expect("written");
        assert!(read(&path).is_err());
        fs::remove_dir_all(&work).expect("removed");
    }
}
