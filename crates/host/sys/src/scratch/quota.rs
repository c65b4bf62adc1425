//! Bounds on the contents of a directory, by project quotas: the file system counts the files of a project number, and new
//! files inherit their directory's number (quotactl(2), ioctl_xfs_fsgetxattr(2); ext4 and xfs with `prjquota`).
//!
//! The kernel lets the owner of a file change its number: the quota bounds excessive programs, not hostile ones. So a
//! directory's present number does not show whose limits may be changed. The assigned number is kept in an attribute that
//! only root can write. Absent here: the sizes for directories.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::fs::XattrFlags;
use rustix::io::Errno;

use crate::files;

/// Quotas of projects, of the three kinds that there are.
const PROJECTS: u32 = 2;
const GET_QUOTA: u32 = 0x80_0007;
const SET_QUOTA: u32 = 0x80_0008;
const GET_STATE: u32 = 0x5805;
/// In the flags of the state: quotas of projects are enforced.
const ENFORCED: u16 = 1 << 5;
/// Both limits, on space and on files.
const LIMITS: u32 = 5;
const BLOCK_BYTES: u64 = 1024;

const GET_ATTRIBUTES: libc::c_ulong = 0x801c_581f;
const SET_ATTRIBUTES: libc::c_ulong = 0x401c_5820;
/// New files get the directory's number.
const INHERITED: u32 = 0x200;

/// The first of pinfold's numbers, far above numbers that people choose; they are a quarter of all.
const FIRST: u32 = 0x5000_0000;
const NUMBERS: u32 = 0x1000_0000;
/// The most numbers that are tried.
const TRIES: usize = 4096;
/// Holds the assigned number of a directory, in decimal digits. Only a process with CAP_SYS_ADMIN reads or writes it.
const RECORD: &std::ffi::CStr = c"trusted.pinfold.project";

/// The kernel's `struct fsxattr`.
#[repr(C)]
#[derive(Debug, Default)]
struct Attributes {
    flags: u32,
    extent_bytes: u32,
    extents: u32,
    project: u32,
    copy_extent_bytes: u32,
    rest: [u8; 8],
}

/// Whether the file system of this directory keeps projects to their limits.
pub(super) fn enforced(directory: &OwnedFd) -> bool {
    // Larger than the kernel's structure, which has its flags behind the first two bytes.
    let mut state = [0u64; 32];
    let asked = control(directory, GET_STATE, 0, state.as_mut_ptr().cast());
    let first = state[0].to_ne_bytes();
    asked.is_ok() && u16::from_ne_bytes([first[2], first[3]]) & ENFORCED != 0
}

/// Bounds the future contents of a job's empty directory to these bytes and files, under an unused number.
pub(super) fn bound(directory: &OwnedFd, job: u64, bytes: u64, files: u64) -> Result<(), Errno> {
    for project in candidates(job, random()?) {
        if !is_free(directory, project)? {
            continue;
        }
        // Before there are limits, which are found by it alone.
        record(directory, project)?;
        limit(directory, project, bytes.div_ceil(BLOCK_BYTES), files)?;
        let given = give(directory, project);
        if given.is_err() {
            // The caller needs this failure.
            let _ = release(directory, project);
        }
        return given;
    }
    Err(Errno::BUSY)
}

/// The numbers to try for a job: first the number derived from the job's own, then others. A user can occupy any number
/// with a file. So the others come from a random word: no user can foresee them, and they are not consecutive.
fn candidates(job: u64, random: u64) -> impl Iterator<Item = u32> {
    let [start, stride] = [random & 0xffff_ffff, random >> 32];
    // An odd stride reaches each number once, as their count is a power of two.
    let others = (0u64..).map(move |step| start + step * (stride | 1));
    std::iter::once(job).chain(others).map(within).take(TRIES)
}

fn within(number: u64) -> u32 {
    FIRST + u32::try_from(number % u64::from(NUMBERS)).expect("less than a number of 32 bits")
}

fn random() -> Result<u64, Errno> {
    let mut bytes = [0; 8];
    files::random(&mut bytes).map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(u64::from_ne_bytes(bytes))
}

fn give(directory: &OwnedFd, project: u32) -> Result<(), Errno> {
    let mut attributes = attributes(directory)?;
    attributes.project = project;
    attributes.flags |= INHERITED;
    set_attributes(directory, &attributes)
}

fn record(directory: &OwnedFd, project: u32) -> Result<(), Errno> {
    rustix::fs::fsetxattr(directory, RECORD, project.to_string().as_bytes(), XattrFlags::empty())
}

/// Ends the inheritance of a directory about to be emptied, which would keep others' files out of it.
pub(super) fn loosen(directory: &OwnedFd) {
    let Ok(mut attributes) = attributes(directory) else { return };
    if attributes.flags & INHERITED != 0 {
        attributes.flags &= !INHERITED;
        // Directories of another number are then emptied where they are.
        let _ = set_attributes(directory, &attributes);
    }
}

/// The number assigned to the directory of this job.
pub(super) fn number(directory: &OwnedFd, job: u64) -> Option<u32> {
    let mut text = [0; 16];
    let length = rustix::fs::fgetxattr(directory, RECORD, &mut text[..]);
    let recorded = length.map(|length| &text[..length]);
    number_of(recorded, job, || attributes(directory).ok().map(|attributes| attributes.project))
}

/// The recorded number counts. Without a record, as by an earlier version, the directory's present number counts, but only
/// if it is the number derived from the job's own, as its user could change it.
fn number_of(recorded: Result<&[u8], Errno>, job: u64, has: impl FnOnce() -> Option<u32>) -> Option<u32> {
    match recorded {
        Ok(text) => {
            let project = std::str::from_utf8(text).ok()?.parse().ok()?;
            (FIRST..FIRST + NUMBERS).contains(&project).then_some(project)
        }
        Err(Errno::NODATA) => has().filter(|&project| project == within(job)),
        Err(_) => None,
    }
}

/// Prevents new files under this number for users bound by quotas.
pub(super) fn shut(directory: &OwnedFd, project: u32) -> Result<(), Errno> {
    limit(directory, project, 1, 1)
}

/// Releases a number that is unused from now on.
pub(super) fn release(directory: &OwnedFd, project: u32) -> Result<(), Errno> {
    limit(directory, project, 0, 0)
}

fn is_free(directory: &OwnedFd, project: u32) -> Result<bool, Errno> {
    let mut found = empty();
    match control(directory, GET_QUOTA, project, (&raw mut found).cast()) {
        Ok(()) => Ok(found.dqb_bhardlimit == 0 && found.dqb_curspace == 0 && found.dqb_curinodes == 0),
        // The number was never used.
        Err(Errno::NOENT) => Ok(true),
        Err(errno) => Err(errno),
    }
}

fn limit(directory: &OwnedFd, project: u32, blocks: u64, files: u64) -> Result<(), Errno> {
    let mut wanted = empty();
    (wanted.dqb_bhardlimit, wanted.dqb_ihardlimit, wanted.dqb_valid) = (blocks, files, LIMITS);
    control(directory, SET_QUOTA, project, (&raw mut wanted).cast())
}

fn empty() -> libc::dqblk {
    libc::dqblk {
        dqb_bhardlimit: 0,
        dqb_bsoftlimit: 0,
        dqb_curspace: 0,
        dqb_ihardlimit: 0,
        dqb_isoftlimit: 0,
        dqb_curinodes: 0,
        dqb_btime: 0,
        dqb_itime: 0,
        dqb_valid: 0,
    }
}

/// `quotactl_fd`, which a kernel before 5.14 does not know.
fn control(directory: &OwnedFd, what: u32, project: u32, data: *mut libc::c_void) -> Result<(), Errno> {
    let command = what << 8 | PROJECTS;
    #[expect(unsafe_code, reason = "no safe binding for quotas")]
    // SAFETY: takes an open file, two numbers and a pointer to memory of the caller's, which lives and has the size that
    // the kernel reads or writes for each command.
    let result =
        unsafe { libc::syscall(libc::SYS_quotactl_fd, directory.as_raw_fd(), command, project, data) };
    checked(result)
}

fn attributes(directory: &OwnedFd) -> Result<Attributes, Errno> {
    let mut attributes = Attributes::default();
    #[expect(unsafe_code, reason = "no safe binding for the attributes of a file")]
    // SAFETY: the kernel writes a `struct fsxattr`, which this is, to memory that lives for the call.
    let result = unsafe { libc::ioctl(directory.as_raw_fd(), GET_ATTRIBUTES, &raw mut attributes) };
    checked(result.into()).map(|()| attributes)
}

fn set_attributes(directory: &OwnedFd, attributes: &Attributes) -> Result<(), Errno> {
    #[expect(unsafe_code, reason = "no safe binding for the attributes of a file")]
    // SAFETY: the kernel reads a `struct fsxattr`, which this is, from memory that lives for the call.
    let result = unsafe { libc::ioctl(directory.as_raw_fd(), SET_ATTRIBUTES, &raw const *attributes) };
    checked(result.into())
}

fn checked(result: libc::c_long) -> Result<(), Errno> {
    if result == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    const VICTIMS: u32 = FIRST + 8;

    #[test]
    fn tried_numbers_are_unpredictable() {
        let all = |random| candidates(7, random).collect::<Vec<u32>>();
        for random in [0, 1, 0x1234_5678_9abc_def0, u64::MAX, u64::from(FIRST)] {
            let tried = all(random);
            assert_eq!((tried.len(), tried[0]), (TRIES, FIRST + 7), "{random:x}");
            assert!(tried.iter().all(|project| (FIRST..FIRST + NUMBERS).contains(project)), "{random:x}");
            // The first may come a second time.
            assert!(tried.iter().collect::<BTreeSet<_>>().len() >= TRIES - 1, "{random:x}");
        }
        // The numbers that follow the first, as a user may take them all, are no more in the way than others.
        let taken = FIRST + 7..FIRST + 7 + u32::try_from(TRIES).unwrap();
        let free = all(0x1234_5678_9abc_def0).into_iter().find(|project| !taken.contains(project));
        assert!(free.is_some());
        assert_ne!(all(0x1234_5678_9abc_def0)[1..], all(0x1234_5678_9abc_def1)[1..]);
        assert_ne!(random().unwrap(), random().unwrap());
    }

    /// A user has given the directory of job 7 the number of job 8's.
    #[test]
    fn the_recorded_number_overrides_the_directorys_own() {
        let check = |recorded: Result<&str, Errno>, has: u32, want: Option<u32>| {
            let found = number_of(recorded.map(str::as_bytes), 7, || Some(has));
            assert_eq!(found, want, "{recorded:?}, {has}");
        };
        let own = (FIRST + 70_000).to_string();
        check(Ok(&own), VICTIMS, Some(FIRST + 70_000));
        check(Ok(&own), FIRST + 7, Some(FIRST + 70_000));
        for odd in ["", "x", "7", "-1", "99999999999", "1610612736"] {
            check(Ok(odd), FIRST + 7, None);
        }
        // As an earlier version left it.
        check(Err(Errno::NODATA), FIRST + 7, Some(FIRST + 7));
        check(Err(Errno::NODATA), VICTIMS, None);
        check(Err(Errno::NODATA), 0, None);
        // Nothing can be known.
        check(Err(Errno::IO), FIRST + 7, None);
        check(Err(Errno::RANGE), FIRST + 7, None);
    }

    #[test]
    #[ignore = "needs root"]
    fn as_root_only_root_can_write_what_is_recorded() {
        let dir = tempfile::tempdir().unwrap();
        let open = || OwnedFd::from(std::fs::File::open(dir.path()).unwrap());
        record(&open(), VICTIMS).unwrap();
        assert_eq!(number(&open(), 7), Some(VICTIMS));
        let (uid, theirs) = (rustix::process::Uid::from_raw(65534), open());
        rustix::fs::fchown(&theirs, Some(uid), None).unwrap();
        let tried = std::thread::spawn(move || {
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            [record(&theirs, FIRST + 9), rustix::fs::fremovexattr(&theirs, RECORD)]
        });
        for tried in tried.join().unwrap() {
            assert!(matches!(tried, Err(Errno::PERM | Errno::NODATA)), "{tried:?}");
        }
        assert_eq!(number(&open(), 7), Some(VICTIMS));
    }
}
