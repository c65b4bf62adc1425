//! Who has room first.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pinfold_policy::JobId;
use pinfold_proto::JobSpec;
use pinfold_proto::row::JobRow;

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
