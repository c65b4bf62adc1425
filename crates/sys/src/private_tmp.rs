//! A `/tmp` and `/var/tmp` of a job's own, in a mount namespace that ends with its last process: nothing is left to
//! remove, whatever becomes of the daemon.
//!
//! Root makes the namespace as it is; another user makes a user namespace around it, in which nobody but that user is
//! known. Mounts that the host makes or undoes later show inside, and none from inside shows on the host. Absent here:
//! who asks for it.

use std::ffi::CString;
use std::io;
use std::path::Path;

use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::mount::{MountFlags, MountPropagationFlags};

use crate::spawn::{self, Side};

/// What is hidden, and the name of what takes its place in a directory in memory.
const PLACES: [(&str, &str); 2] = [("/tmp", "tmp"), ("/var/tmp", "var-tmp")];

/// Why there is no `/tmp` of its own.
#[derive(Debug, thiserror::Error)]
pub enum PrivateTmpError {
    /// The kernel makes no namespace for this user.
    #[error("the kernel makes no namespace of its own mounts for this user")]
    Namespace(#[source] io::Error),
    /// The namespace is there, and something in it failed.
    #[error("failed to {operation} {place}")]
    Failed {
        /// What was done.
        operation: &'static str,
        /// To what.
        place: String,
        /// Why it failed.
        source: io::Error,
    },
    /// No process could be made to try it.
    #[error("no process could be made to try it")]
    Fork(#[source] io::Error),
}

/// Gives this process, which must have one thread, a `/tmp` and `/var/tmp` of its own: in `scratch`, a directory of its
/// user's, else in memory. What it has open, and the directory it is in, stay as they are.
///
/// # Errors
/// When the kernel does not allow it; the process may then see some of it, and should end.
pub(crate) fn enter(scratch: Option<&Path>) -> Result<(), PrivateTmpError> {
    match unshare(libc::CLONE_NEWNS) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => in_user_namespace()?,
        done => done.map_err(PrivateTmpError::Namespace)?,
    }
    let slave = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    rustix::mount::mount_change("/", slave)
        .map_err(|errno| failed("take mounts apart from the host's at", "/", errno))?;
    for (place, name) in PLACES {
        let mounted = match scratch {
            Some(scratch) => bind(&scratch.join(name), place),
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
            // A host without it has nothing to hide there.
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno) => return Err(failed("mount one of its own on", place, errno)),
        }
    }
    Ok(())
}

/// Tries it, in a process of its own. The caller must have one thread.
///
/// # Errors
/// What the kernel does not allow.
pub fn probe() -> Result<(), PrivateTmpError> {
    let failure = |errno: i32| PrivateTmpError::Namespace(io::Error::from_raw_os_error(errno));
    match spawn::fork().map_err(PrivateTmpError::Fork)? {
        Side::Child => spawn::leave(match enter(None) {
            Ok(()) => 0,
            Err(error) => errno_of(&error),
        }),
        Side::Parent(pid) => {
            let pid = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
            loop {
                match rustix::process::waitpid(pid, rustix::process::WaitOptions::empty()) {
                    Err(Errno::INTR) => {}
                    Err(errno) => return Err(PrivateTmpError::Fork(errno.into())),
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

/// The variables for a program that is given a `/tmp` of its own: in the directory that `TMPDIR` names among them, if it
/// does, and with `TMPDIR` naming `/tmp`.
pub(crate) fn enter_with(variables: Vec<CString>) -> Result<Vec<CString>, PrivateTmpError> {
    use std::os::unix::ffi::OsStrExt;
    let named = |variable: &CString| variable.to_bytes().starts_with(b"TMPDIR=");
    let scratch = variables.iter().find(|variable| named(variable)).map(|variable| {
        Path::new(std::ffi::OsStr::from_bytes(&variable.to_bytes()[b"TMPDIR=".len()..])).to_owned()
    });
    enter(scratch.as_deref())?;
    let others = variables.into_iter().filter(|variable| !named(variable));
    Ok(others.chain([c"TMPDIR=/tmp".to_owned()]).collect())
}

fn in_user_namespace() -> Result<(), PrivateTmpError> {
    let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
    unshare(libc::CLONE_NEWUSER | libc::CLONE_NEWNS).map_err(PrivateTmpError::Namespace)?;
    // Groups cannot be mapped by who could drop one that it is kept out by (user_namespaces(7)).
    for (file, text) in [
        ("/proc/self/setgroups", "deny".to_owned()),
        ("/proc/self/uid_map", format!("{user} {user} 1\n")),
        ("/proc/self/gid_map", format!("{group} {group} 1\n")),
    ] {
        std::fs::write(file, text).map_err(|source| PrivateTmpError::Failed {
            operation: "name the user in",
            place: file.to_owned(),
            source,
        })?;
    }
    Ok(())
}

fn bind(source: &Path, place: &str) -> Result<(), Errno> {
    match rustix::fs::mkdir(source, Mode::RWXU) {
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

fn failed(operation: &'static str, place: &str, errno: Errno) -> PrivateTmpError {
    PrivateTmpError::Failed { operation, place: place.to_owned(), source: errno.into() }
}

fn errno_of(error: &PrivateTmpError) -> i32 {
    let (PrivateTmpError::Namespace(source)
    | PrivateTmpError::Fork(source)
    | PrivateTmpError::Failed { source, .. }) = error;
    // As an exit status, of which the kernel keeps eight bits.
    source.raw_os_error().filter(|errno| (1..256).contains(errno)).unwrap_or(libc::EIO)
}
