//! Bounds on what lies below a directory, by project quotas: the file system counts what belongs to a number, and what is
//! made below a directory has that directory's (quotactl(2), ioctl_xfs_fsgetxattr(2); ext4 and xfs with `prjquota`).
//!
//! The kernel lets the owner of a file give it another number: this bounds programs that use too much, and not such as set
//! out to get away. Absent here: which directory may have how much.

use std::os::fd::{AsRawFd, OwnedFd};

use rustix::io::Errno;

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
/// What is made below has the directory's number.
const INHERITED: u32 = 0x200;

/// pinfold's numbers begin here, far above those that people give by hand; there are as many as a quarter of all.
const FIRST: u32 = 0x5000_0000;
const NUMBERS: u32 = 0x1000_0000;
/// So many numbers may be taken, one after the other, before it is given up.
const TRIES: u32 = 4096;

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
    // Larger than what the kernel writes there, of which the flags stand behind the first two bytes.
    let mut state = [0u64; 32];
    let asked = control(directory, GET_STATE, 0, state.as_mut_ptr().cast());
    let first = state[0].to_ne_bytes();
    asked.is_ok() && u16::from_ne_bytes([first[2], first[3]]) & ENFORCED != 0
}

/// Keeps what will be made below an empty directory to so many bytes and files, under a number that nobody else has; `start`
/// says where to begin to look for one.
pub(super) fn bound(directory: &OwnedFd, start: u64, bytes: u64, files: u64) -> Result<(), Errno> {
    let first = u32::try_from(start % u64::from(NUMBERS)).expect("less than a number of 32 bits");
    for step in 0..TRIES {
        let project = FIRST + (first + step) % NUMBERS;
        if !is_free(directory, project)? {
            continue;
        }
        limit(directory, project, bytes.div_ceil(BLOCK_BYTES), files)?;
        let mut attributes = attributes(directory)?;
        attributes.project = project;
        attributes.flags |= INHERITED;
        return set_attributes(directory, &attributes);
    }
    Err(Errno::BUSY)
}

/// A directory is about to be emptied: what it has is handed on no more, which would keep others' files out of it. Gives its
/// number, if it is one of pinfold's.
pub(super) fn loosen(directory: &OwnedFd) -> Option<u32> {
    let mut attributes = attributes(directory).ok()?;
    if attributes.flags & INHERITED != 0 {
        attributes.flags &= !INHERITED;
        set_attributes(directory, &attributes).ok()?;
    }
    let project = attributes.project;
    (FIRST..FIRST + NUMBERS).contains(&project).then_some(project)
}

/// Nothing more is made under this number by whom quotas bind.
pub(super) fn shut(directory: &OwnedFd, project: u32) -> Result<(), Errno> {
    limit(directory, project, 1, 1)
}

/// Nothing has this number any more.
pub(super) fn release(directory: &OwnedFd, project: u32) -> Result<(), Errno> {
    limit(directory, project, 0, 0)
}

fn is_free(directory: &OwnedFd, project: u32) -> Result<bool, Errno> {
    let mut found = empty();
    match control(directory, GET_QUOTA, project, (&raw mut found).cast()) {
        Ok(()) => Ok(found.dqb_bhardlimit == 0 && found.dqb_curspace == 0 && found.dqb_curinodes == 0),
        // Nobody ever had it.
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
    // SAFETY: takes an open file, two numbers and a pointer to memory of the caller's, which lives and is as large as what
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
