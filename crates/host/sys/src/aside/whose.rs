//! The user that a number stands for: the numbers that `/etc/subuid` (subuid(5)) gives to a user for user namespaces count
//! as one user.
//!
//! Owner of state: the file as of the last read. Absent here: subordinate numbers that other software gives.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use crate::files;

const FILE: &str = "/etc/subuid";
/// The most bytes that are read: tens of thousands of lines.
const FILE_BYTES_MAX: u64 = 4 << 20;

/// Identifies a version of the file: inode, size and the time of its last change.
type Stamp = (u64, u64, i64, i64);

/// First and last number of each range, ascending, with the number that stands for all of its user's.
type Ranges = Vec<(u32, u32, u32)>;

static KNOWN: Mutex<(Option<Stamp>, Ranges)> = Mutex::new((None, Vec::new()));

/// The number that stands for all subordinate numbers of a user: the first of them. Any other number stands for itself.
pub(super) fn whose(uid: u32) -> u32 {
    let found = std::fs::metadata(FILE).ok();
    let stamp = found.map(|found| (found.ino(), found.size(), found.mtime(), found.mtime_nsec()));
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if known.0 != stamp {
        *known = (stamp, ranges_in(&read(Path::new(FILE))));
    }
    whose_in(&known.1, uid)
}

/// An unreadable file has no ranges.
fn read(path: &Path) -> String {
    let mut bytes = Vec::new();
    let opened = files::open_regular(path).map(|file| file.take(FILE_BYTES_MAX));
    let _ = opened.and_then(|mut file| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The ranges of lines `USER:FIRST:COUNT`. A range of a single number is left out: it is a user's own number, which a
/// container may have.
fn ranges_in(text: &str) -> Ranges {
    let range = |line: &str| {
        let mut fields = line.trim().split(':');
        let (user, first, count) = (fields.next()?.to_owned(), fields.next()?, fields.next()?);
        let (first, count) = (first.parse::<u32>().ok()?, count.parse::<u32>().ok()?);
        let last = first.saturating_add(count.checked_sub(1)?);
        (first > 0 && last > first).then_some((first, last, user))
    };
    let mut found: Vec<(u32, u32, String)> = text.lines().filter_map(range).collect();
    found.sort_unstable();
    let mut firsts: BTreeMap<String, u32> = BTreeMap::new();
    let numbered = found.into_iter().map(|(first, last, user)| {
        let of_user = *firsts.entry(user).or_insert(first);
        (first, last, of_user)
    });
    numbered.collect()
}

/// Of overlapping ranges, the range that begins last counts.
fn whose_in(ranges: &Ranges, uid: u32) -> u32 {
    let before = ranges.partition_point(|&(first, ..)| first <= uid);
    let found = ranges[..before].iter().rev().find(|&&(_, last, _)| uid <= last);
    found.map_or(uid, |&(.., of_user)| of_user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_that_a_user_has_for_namespaces_stand_for_one() {
        let text = "ann:100000:65536\n1001:165536:65536\n# a comment\nann:1000000:1000\nroot:1000:1\nzero:0:70000\n\
                    bob:300000\neve:400000:x\nend:4294967000:4294967295\nnone:500000:0\n";
        let ranges = ranges_in(text);
        let check = |uid: u32, want: u32| assert_eq!(whose_in(&ranges, uid), want, "{uid}");
        for (uid, want) in [(100_000, 100_000), (165_535, 100_000), (1_000_999, 100_000), (165_536, 165_536)]
        {
            check(uid, want);
        }
        check(200_000, 165_536);
        check(u32::MAX, 4_294_967_000);
        for own in [0, 7, 1_000, 99_999, 231_072, 300_000, 400_000, 500_000, 1_001_000] {
            check(own, own);
        }
        assert_eq!(whose_in(&ranges_in(""), 100_000), 100_000);
    }

    #[test]
    fn a_file_that_is_none_gives_nothing() {
        assert_eq!(read(Path::new("/dev/zero")), "");
        assert_eq!(read(Path::new("/nowhere/subuid")), "");
    }
}
