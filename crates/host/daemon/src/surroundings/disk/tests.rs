//! Who has room first, and which places are known.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use pinfold_policy::JobId;
use pinfold_proto::JobSpec;
use pinfold_proto::row::JobRow;
use pinfold_sys::mode::{Facts, Roots, probe};

use super::Disks;
use crate::jobs::JobRecord;
use crate::jobs::table::JobTable;

const MIB: u64 = 1 << 20;

/// Of 10 MiB, jobs have some, and others wait: number, user, MiB. Gives whether a job comes behind those that wait.
fn is_behind(have: &[(u64, u32, u64)], wait: &[(u64, u32, u64)], job: u64, user: u32) -> bool {
    let mut table = JobTable::default();
    for &(job, uid, mib) in have.iter().chain(wait) {
        let spec = JobSpec { disk_bytes: Some(mib * MIB), ..JobSpec::default() };
        let mut live = Box::new(JobRecord::new(JobRow::asked_for(job, uid, String::new(), spec, 0), true));
        live.granted = true;
        table.insert(JobId(job), live);
    }
    let jobs: BTreeMap<JobId, (usize, u64)> =
        have.iter().map(|&(job, _, mib)| (JobId(job), (0, mib * MIB))).collect();
    let left = 10 * MIB - jobs.values().map(|&(_, bytes)| bytes).sum::<u64>();
    let waiting = wait.iter().map(|&(job, ..)| JobId(job)).collect();
    let disks = Disks { places: Vec::new(), noted: PathBuf::new(), jobs, waiting };
    disks.is_behind(&table, JobId(job), user, left)
}

#[test]
fn room_is_given_in_order() {
    assert!(!is_behind(&[(1, 1, 8)], &[], 3, 2));
    assert!(is_behind(&[(1, 1, 8)], &[(2, 2, 4)], 3, 2), "its user's own");
    assert!(is_behind(&[(1, 1, 8)], &[(2, 2, 4)], 3, 1), "another's, which waits for a third");
    assert!(!is_behind(&[(1, 1, 8)], &[(4, 2, 4)], 3, 1), "a later one");
}

/// A user whose job waits for that user's own directories keeps nobody else waiting for ever.
#[test]
fn one_that_waits_for_its_owners_directories_keeps_back_that_owner_alone() {
    let (have, wait) = ([(1, 1, 4)], [(2, 1, 8), (3, 1, 2)]);
    assert!(!is_behind(&have, &wait, 4, 2));
    assert!(is_behind(&have, &wait, 4, 1));
    // Part of what it lacks is another's.
    assert!(is_behind(&[(1, 1, 4), (5, 2, 6)], &[(2, 1, 8)], 6, 3));
}

/// An instance whose state directory and places are in a directory of the test's.
struct Places {
    dir: tempfile::TempDir,
    facts: Facts,
}

impl Places {
    fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap(), facts: probe(&Roots::default()) }
    }

    fn open(&self) -> Disks {
        Disks::open(self.dir.path(), &self.facts, "i1")
    }

    fn path(&self, name: &str) -> PathBuf {
        let path = self.dir.path().join(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn place(&self, disks: &mut Disks, root: &Path) -> std::io::Result<usize> {
        disks.place(root, &self.facts, "i1")
    }

    fn noted(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("disks")).unwrap_or_default()
    }
}

/// A full disk lets nothing be written, and takes nothing of what was.
#[test]
fn places_are_noted_whole_or_as_they_were() {
    let places = Places::new();
    let (first, second) = (places.path("first"), places.path("second"));
    let mut disks = places.open();
    assert_eq!(places.place(&mut disks, &first).unwrap(), 0);
    let noted = places.noted();
    assert_eq!(noted, format!("{}\n", first.display()));
    let beside = places.path("disks.new");
    places.place(&mut disks, &second).unwrap_err();
    assert_eq!((places.noted(), disks.places.len()), (noted, 1));
    std::fs::remove_dir(beside).unwrap();
    assert_eq!(places.place(&mut disks, &second).unwrap(), 1);
    assert_eq!(places.open().places.len(), 2);
}

/// Where the next daemon is to make directories, nobody takes the instance's name meanwhile.
#[test]
fn the_configured_place_is_kept_while_no_daemon_runs() {
    let places = Places::new();
    let (kept, other, used) = (places.path("kept"), places.path("other"), places.path("used"));
    let mut disks = places.open();
    for root in [&kept, &other, &used] {
        let number = places.place(&mut disks, root).unwrap();
        disks.places[number].claim().unwrap();
    }
    disks.jobs.insert(JobId(3), (2, MIB));
    disks.places[2].make(3, MIB, pinfold_sys::peer::own_uid()).unwrap();
    disks.close_but(Some(&kept));
    let count = |path: &Path| std::fs::read_dir(path).unwrap().count();
    assert_eq!((count(&kept), count(&other), count(&used)), (1, 0, 1));
    assert_eq!(places.noted(), format!("{}\n{}\n", kept.display(), used.display()));
    disks.jobs.clear();
    disks.close_but(None);
    assert_eq!((count(&kept), places.noted()), (0, String::new()));
}
