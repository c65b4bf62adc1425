//! A job's sandbox: a `/tmp` and `/var/tmp` of its own, and a network of its own with loopback alone. Both are the kernel's
//! namespaces, which end with the job's last process: nothing is left to remove, even after the daemon's death.
//!
//! Root makes the namespaces directly; another user makes a user namespace around them, in which only that user has a name.
//! Later mounts of the host show inside; mounts made inside do not show on the host. Absent here: the decision to use it.

use std::ffi::CString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use crate::fork::{self, Side};

/// The parts of a program's sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Apart {
    /// A `/tmp` and `/var/tmp` of its own.
    pub tmp: bool,
    /// A network of its own, in which there is loopback and nothing else.
    pub network: bool,
}

impl Apart {
    /// Whether there is anything.
    #[must_use]
    pub fn is_any(self) -> bool {
        self.tmp || self.network
    }

    fn namespaces(self) -> i32 {
        let mut flags = 0;
        if self.tmp {
            flags |= libc::CLONE_NEWNS;
        }
        if self.network {
            flags |= libc::CLONE_NEWNET;
        }
        flags
    }

    fn words(self) -> &'static str {
        match (self.tmp, self.network) {
            (_, false) => "mounts",
            (false, true) => "network",
            (true, true) => "mounts and network",
        }
    }
}

/// Hidden directories, and the names of their replacements in a directory in memory.
const PLACES: [(&str, &str); 2] = [("/tmp", "tmp"), ("/var/tmp", "var-tmp")];

/// Why a program is not apart from the host as it should be.
#[derive(Debug, thiserror::Error)]
pub enum ApartError {
    /// The kernel makes no namespace for this user.
    #[error("the kernel makes no namespace of its own {what} for this user")]
    Namespace {
        /// The part of the sandbox.
        what: &'static str,
        /// Why not.
        source: io::Error,
    },
    /// The namespace exists, and a step in it failed.
    #[error("failed to {operation} {place}")]
    Failed {
        /// The operation.
        operation: &'static str,
        /// Its object.
        place: String,
        /// Why it failed.
        source: io::Error,
    },
    /// No process could be made to try it.
    #[error("no process could be made to try it")]
    Fork(#[source] io::Error),
}

/// Moves this process, which must have one thread, into the sandbox: its `/tmp` and `/var/tmp` are then in `scratch`, a
/// directory of its user's, else in memory. Open files and the current directory stay.
///
/// # Errors
/// When the kernel refuses; the process may then have a part of the sandbox, and should end.
pub(crate) fn enter(apart: Apart, scratch: Option<&Path>) -> Result<(), ApartError> {
    if !apart.is_any() {
        return Ok(());
    }
    let refused = |source| ApartError::Namespace { what: apart.words(), source };
    match unshare(apart.namespaces()) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {
            // Inside, no user has a name until this is written.
            let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
            unshare(libc::CLONE_NEWUSER | apart.namespaces()).map_err(refused)?;
            name_the_user(user, group)?;
        }
        done => done.map_err(refused)?,
    }
    if apart.tmp {
        cover_tmp(scratch)?;
    }
    if apart.network {
        raise_loopback()?;
    }
    Ok(())
}

fn cover_tmp(scratch: Option<&Path>) -> Result<(), ApartError> {
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", slave)
        .map_err(|errno| failed("take mounts apart from the host's at", "/", errno))?;
    let socket = own_socket_directory();
    for (place, name) in PLACES {
        let mounted = match scratch {
            Some(scratch) => {
                let source = scratch.join(name);
                bind(&source, place, &source)
            }
            None => {
                let options = c"mode=1777";
                rustix::mount::mount(
                    "pinfold",
                    place,
                    "tmpfs",
                    MountFlags::NOSUID | MountFlags::NODEV,
                    options,
                )
            }
        };
        match mounted {
            // A host without this directory has nothing to hide.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed("mount one of its own on", place, errno)),
        }
    }
    if let Some((directory, path)) = socket {
        let shown = path.display().to_string();
        let source = format!("/proc/self/fd/{}", directory.as_raw_fd());
        bind(Path::new(&source), &shown, &path)
            .map_err(|errno| failed("keep the daemon's socket at", &shown, errno))?;
    }
    Ok(())
}

/// The directory of this user's private daemon, if its socket is below `/tmp`: without it, commands inside would start
/// another daemon. Held open, as its path is about to be hidden.
fn own_socket_directory() -> Option<(OwnedFd, PathBuf)> {
    let own = rustix::process::geteuid().as_raw();
    let socket = crate::paths::for_commands(own, |name| std::env::var_os(name)).socket;
    let path = socket.parent()?.to_owned();
    if path != Path::new("/tmp").join(format!("pinfold-{own}")) {
        return None;
    }
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::open(&path, flags, Mode::empty()).ok()?;
    (rustix::fs::fstat(&directory).ok()?.st_uid == own).then_some((directory, path))
}

/// A new network's loopback is down; programs that connect to themselves need it up (netdevice(7)).
fn raise_loopback() -> Result<(), ApartError> {
    let failed = |source| ApartError::Failed { operation: "raise", place: "the loopback".to_owned(), source };
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)
        .map_err(|errno| failed(errno.into()))?;
    #[expect(unsafe_code, reason = "no safe binding for the flags of a network device")]
    // SAFETY: an all-zero request is valid; it lives on the stack for both calls, which read its name and read or write
    // its flags, the member of the union that both calls use.
    let result = unsafe {
        let mut request = std::mem::zeroed::<libc::ifreq>();
        request.ifr_name[0] = libc::c_char::from_ne_bytes([b'l']);
        request.ifr_name[1] = libc::c_char::from_ne_bytes([b'o']);
        match libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) {
            0 => {
                // The flag is the lowest bit of sixteen.
                request.ifr_ifru.ifru_flags |= 1;
                libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw const request)
            }
            error => error,
        }
    };
    if result == 0 { Ok(()) } else { Err(failed(io::Error::last_os_error())) }
}

/// Tries the sandbox in a child. The caller must have one thread.
///
/// # Errors
/// The kernel's refusal.
pub fn probe(apart: Apart) -> Result<(), ApartError> {
    let failure = |errno: i32| ApartError::Namespace {
        what: apart.words(),
        source: io::Error::from_raw_os_error(errno),
    };
    match fork::fork().map_err(ApartError::Fork)? {
        Side::Child => fork::leave(match enter(apart, None) {
            Ok(()) => 0,
            Err(error) => errno_of(&error),
        }),
        Side::Parent(pid) => {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            loop {
                match rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()) {
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(ApartError::Fork(errno.into())),
                    Ok(ended) => {
                        let status = ended.and_then(|(_, status)| status.exit_status());
                        return match status.unwrap_or(libc::EIO) {
                            0 => Ok(()),
                            errno => Err(failure(errno)),
                        };
                    }
                }
            }
        }
    }
}

/// Moves this process into the sandbox as `enter` does, for a program with these variables, and returns the changed
/// variables: if they name a `TMPDIR`, `/tmp` is in that directory, and `TMPDIR` becomes `/tmp`.
pub(crate) fn enter_with(apart: Apart, variables: Vec<CString>) -> Result<Vec<CString>, ApartError> {
    use std::os::unix::ffi::OsStrExt;
    if !apart.tmp {
        return enter(apart, None).map(|()| variables);
    }
    let named = |variable: &CString| variable.to_bytes().starts_with(b"TMPDIR=");
    let scratch = variables.iter().find(|variable| named(variable)).map(|variable| {
        Path::new(std::ffi::OsStr::from_bytes(&variable.to_bytes()[b"TMPDIR=".len()..])).to_owned()
    });
    enter(apart, scratch.as_deref())?;
    let others = variables.into_iter().filter(|variable| !named(variable));
    Ok(others.chain([c"TMPDIR=/tmp".to_owned()]).collect())
}

fn name_the_user(user: u32, group: u32) -> Result<(), ApartError> {
    // The kernel lets no process map groups that could then drop a group that denies it access (user_namespaces(7)).
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1\n")),
        ("/proc/self/gid_map", format!("{group} {group} 1\n")),
    ] {
        std::fs::write(file, text).map_err(|source| ApartError::Failed {
            operation: "name the user in",
            place: file.to_owned(),
            source,
        })?;
    }
    Ok(())
}

/// Shows `source` at `place`; whichever of the two is `missing` is made first.
fn bind(source: &Path, place: &str, missing: &Path) -> Result<(), Errno> {
    match rustix::fs::mkdir(missing, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => {}
        Err(errno) => return Err(errno),
    }
    rustix::mount::mount_bind(source, place)
}

fn unshare(flags: i32) -> io::Result<()> {
    #[expect(
        unsafe_code,
        reason = "rustix marks it unsafe for what it does to file descriptors that threads share"
    )]
    // SAFETY: takes a number, touches no memory, and this process has one thread.
    let result = unsafe { libc::unshare(flags) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn failed(operation: &'static str, place: &str, errno: Errno) -> ApartError {
    ApartError::Failed { operation, place: place.to_owned(), source: errno.into() }
}

fn errno_of(error: &ApartError) -> i32 {
    let (ApartError::Namespace { source, .. } | ApartError::Fork(source) | ApartError::Failed { source, .. }) =
        error;
    // The error number as an exit status, of which the kernel keeps eight bits.
    source.raw_os_error().filter(|errno| (1..256).contains(errno)).unwrap_or(libc::EIO)
}
