//! The peer of a socket, and users by number and name. Absent here: rights.

use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, FromRawFd as _, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::time::Timespec;

use crate::procfs::{Proc, ProcessStat};

/// The process and user at the other end of a Unix socket, from the kernel (`SO_PEERCRED`), as of the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Peer {
    /// Its process.
    pub pid: u32,
    /// Its effective user.
    pub uid: u32,
}

/// The peer of `socket`.
///
/// # Errors
/// When the descriptor is not a connected Unix socket.
pub fn of(socket: impl AsFd) -> io::Result<Peer> {
    let credentials = rustix::net::sockopt::socket_peercred(socket)?;
    Ok(Peer { pid: credentials.pid.as_raw_nonzero().get().unsigned_abs(), uid: credentials.uid.as_raw() })
}

/// The process that connected, if it still lives: its number may have been reused since. A kernel before 6.5 cannot
/// tell; there the process with the number is returned.
#[must_use]
pub fn process(socket: impl AsFd, proc: &Proc) -> Option<ProcessStat> {
    let pid = of(&socket).ok()?.pid;
    let handle = match handle(&socket) {
        Ok(handle) => Some(handle),
        Err(error) if error.raw_os_error() == Some(libc::ENOPROTOOPT) => None,
        Err(_) => return None,
    };
    let stat = proc.stat(pid).ok().flatten()?;
    match handle {
        Some(handle) if has_ended(&handle) => None,
        _ => Some(stat),
    }
}

/// A handle of the process at the other end (`SO_PEERPIDFD`).
fn handle(socket: &impl AsFd) -> io::Result<OwnedFd> {
    let (mut found, mut length) = (-1, libc::socklen_t::try_from(size_of::<i32>()).expect("it is four"));
    #[expect(unsafe_code, reason = "no safe binding for this option")]
    // SAFETY: the kernel writes no more than `length` bytes to `found`; both outlive the call.
    let result = unsafe {
        let to = (&raw mut found).cast();
        libc::getsockopt(socket.as_fd().as_raw_fd(), libc::SOL_SOCKET, SO_PEERPIDFD, to, &raw mut length)
    };
    if result != 0 {
        return Err(io::Error::last_os_error());
    }
    #[expect(unsafe_code, reason = "the kernel gives it as a number")]
    // SAFETY: the kernel has just made the descriptor for this process, and no other value owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(found) })
}

/// `include/uapi/asm-generic/socket.h`.
const SO_PEERPIDFD: i32 = 77;

/// A handle of a process can be read from once that has ended.
fn has_ended(process: &OwnedFd) -> bool {
    let mut look = [PollFd::new(process, PollFlags::IN)];
    !matches!(poll(&mut look, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })), Ok(0))
}

/// The effective user of this process.
#[must_use]
pub fn own_uid() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether this is the overflow user, which the kernel shows in a user namespace for all unmapped users: the host's
/// root among them.
#[must_use]
pub fn is_unmapped(user: u32) -> bool {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let whole = read("/proc/self/uid_map").split_ascii_whitespace().eq(["0", "0", "4294967295"]);
    !whole && read("/proc/sys/kernel/overflowuid").trim().parse() == Ok(user)
}

/// The name of this host.
#[must_use]
pub fn host_name() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// A user as the system's databases know it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct User {
    /// The number.
    pub uid: u32,
    /// Its primary group.
    pub gid: u32,
    /// The name.
    pub name: String,
    /// The home directory.
    pub home: String,
}

/// The user with this number, through the system's name service (so that directory services count too).
#[must_use]
pub fn user(uid: u32) -> Option<User> {
    look_up(uid).ok().flatten()
}

/// The name of this process's effective user; the number if it has no name.
#[must_use]
pub fn own_name() -> String {
    let uid = own_uid();
    user(uid).map_or_else(|| uid.to_string(), |user| user.name)
}

/// As [`user`], and fails where a responsible name service gives no answer.
///
/// # Errors
/// When the name service fails.
pub fn look_up(uid: u32) -> io::Result<Option<User>> {
    lookup(|entry, buffer, found| {
        #[expect(unsafe_code, reason = "no safe binding for the name service")]
        // SAFETY: all pointers are valid for the call, and the length is the buffer's.
        unsafe {
            libc::getpwuid_r(uid, entry, buffer.as_mut_ptr().cast(), buffer.len(), found)
        }
    })
}

/// The user with this name.
#[must_use]
pub fn user_named(name: &str) -> Option<User> {
    look_up_name(name).ok().flatten()
}

/// The user with this name; `None` where the system surely knows no user of this name.
///
/// # Errors
/// When a responsible name service gives no answer.
pub fn look_up_name(name: &str) -> io::Result<Option<User>> {
    let Ok(name) = CString::new(name) else { return Ok(None) };
    lookup(|entry, buffer, found| {
        #[expect(unsafe_code, reason = "no safe binding for the name service")]
        // SAFETY: all pointers are valid for the call, and the length is the buffer's.
        unsafe {
            libc::getpwnam_r(name.as_ptr(), entry, buffer.as_mut_ptr().cast(), buffer.len(), found)
        }
    })
}

/// Becomes this user for good, with all of the user's groups in the system's databases. This process must have one
/// thread, and the right (root has).
///
/// # Errors
/// When the user does not exist, or the right is missing; the process then keeps its user, or has fewer groups.
pub fn become_user(uid: u32) -> io::Result<()> {
    let Some(user) = user(uid) else {
        return Err(io::Error::new(io::ErrorKind::NotFound, "the system knows no such user"));
    };
    let name = CString::new(user.name).map_err(io::Error::other)?;
    let done = |result: i32| if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) };
    #[expect(unsafe_code, reason = "no safe binding that takes the groups from the name service")]
    // SAFETY: the name ends with NUL and outlives the call; the others take numbers only.
    unsafe {
        done(libc::initgroups(name.as_ptr(), user.gid))?;
        done(libc::setresgid(user.gid, user.gid, user.gid))?;
        done(libc::setresuid(uid, uid, uid))
    }
}

fn lookup(
    call: impl Fn(*mut libc::passwd, &mut [u8], *mut *mut libc::passwd) -> i32,
) -> io::Result<Option<User>> {
    let mut buffer = vec![0u8; 1024];
    loop {
        #[expect(unsafe_code, reason = "the C structure has pointers, for which zero is a valid value")]
        // SAFETY: passwd is plain data; all zero bytes are a valid value of it.
        let mut entry = unsafe { std::mem::zeroed::<libc::passwd>() };
        let mut found = std::ptr::null_mut();
        match call(&raw mut entry, &mut buffer, &raw mut found) {
            0 if found.is_null() => return Ok(None),
            0 => {
                return Ok(Some(User {
                    uid: entry.pw_uid,
                    gid: entry.pw_gid,
                    name: text(entry.pw_name),
                    home: text(entry.pw_dir),
                }));
            }
            libc::ERANGE if buffer.len() < 1 << 20 => buffer.resize(buffer.len() * 4, 0),
            // C libraries and services return any of these for an unknown name.
            libc::ENOENT | libc::ESRCH | libc::EBADF | libc::EPERM => return Ok(None),
            error => return Err(io::Error::from_raw_os_error(error)),
        }
    }
}

fn text(pointer: *const libc::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    #[expect(unsafe_code, reason = "the name service hands out C strings")]
    // SAFETY: the entry's strings end with NUL and live in the buffer, which outlives this call.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ends_are_known() {
        let (one, _other) = std::os::unix::net::UnixStream::pair().unwrap();
        assert_eq!(of(&one).unwrap(), Peer { pid: std::process::id(), uid: own_uid() });
    }

    #[test]
    fn an_ended_process_is_no_peer() {
        let proc = Proc::open(std::path::Path::new("/proc")).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("socket");
        let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
        let mine = std::os::unix::net::UnixStream::connect(&path).unwrap();
        let (seen, _) = listener.accept().unwrap();
        assert_eq!(process(&seen, &proc).map(|stat| stat.pid), Some(std::process::id()));
        drop(mine);
        // A process connects and ends, while another process holds its end of the connection too.
        let kept =
            rustix::net::socket(rustix::net::AddressFamily::UNIX, rustix::net::SocketType::STREAM, None);
        let (kept, address) = (kept.unwrap(), rustix::net::SocketAddrUnix::new(&path).unwrap());
        #[expect(unsafe_code, reason = "another process is to connect")]
        // SAFETY: the child makes two system calls, which touch no lock that another thread may have.
        let child = unsafe {
            match libc::fork() {
                0 => libc::_exit(i32::from(rustix::net::connect(&kept, &address).is_err())),
                child => child,
            }
        };
        let (seen, _) = listener.accept().unwrap();
        let child = rustix::process::Pid::from_raw(child).expect("forked");
        let (_, status) =
            rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap().unwrap();
        assert_eq!(status.exit_status(), Some(0));
        assert_eq!(process(&seen, &proc), None);
    }

    #[test]
    fn users_by_number_and_name() {
        let root = user(0).unwrap();
        assert_eq!(root.name, "root");
        assert_eq!(user_named("root"), Some(root));
        assert_eq!(user_named("no such user, surely"), None);
        let is_stranger = |name| matches!(look_up_name(name), Ok(None));
        assert!(is_stranger("no such user, surely") && is_stranger("a\0b") && !is_stranger("root"));
        assert_eq!(user(u32::MAX - 7), None);
    }
}
