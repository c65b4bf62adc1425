//! Starting a job's process. If it can move itself into its container, [`start`] does all in one step; else in two
//! steps: first a *held* child that waits to be put into its container, then, once released, the command itself. Every
//! page that the command touches is charged right.
//!
//! The caller must be single-threaded: the held child allocates between `fork` and `exec`, which is only sound when no
//! other thread can have held the allocator's lock, and a child started in one step borrows all of the caller's memory.
//! Keepers are; see [`Held::fork`]. Absent here: containers, the daemon, the choice of program.

mod at_once;
mod places;

use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::apart::{self, Apart, ApartError};
use crate::fork::{drop_own_files, duplicate, fork, leave, restore};
use crate::lead;
use crate::program::{become_program_now, execute};

pub use crate::fork::{
    Reaped, Side, drop_files_but, drop_inherited_files, fork_away, lead_session, null_streams, reap,
    single_threaded,
};
pub use crate::program::{Environment, Program, ResolveError, refusal, resolve, wrapper};

/// Starts `program` with these variables set over its environment (and with the wrappers among them, see [`wrapper`]),
/// in a child that first moves itself through `doors` (see [`crate::container::Container::doors`]). If it cannot be
/// executed, the child reports that on its standard error and ends with 126 or 127, as shells do. Either way the caller
/// has to reap the child.
///
/// The caller may be stopped until the program is executed, so the container must not be frozen before its owner knows
/// of the child.
///
/// # Errors
/// When the system has no process or file descriptor left.
pub fn start(program: &Program, doors: &[OwnedFd], variables: &[(String, String)]) -> io::Result<u32> {
    if program.tasks.is_none() && !program.apart.is_any() && !places::are_in(program) {
        return at_once::start(program, doors, variables);
    }
    let held = Held::fork(program, doors)?;
    let pid = held.pid();
    // A child that ended meanwhile is reaped like any other.
    let _ = held.release(variables);
    Ok(pid)
}

/// A child that waits to be released. Dropped without release, it ends by itself with status 125.
#[derive(Debug)]
pub struct Held {
    pid: u32,
    release: OwnedFd,
}

impl Held {
    /// Forks a child that holds `program` and waits.
    ///
    /// The child keeps the inherited files that a command may expect (`3<file`, a make jobserver) and drops
    /// the caller's own, so that a held child never keeps the daemon's socket open.
    ///
    /// With `doors` (see [`crate::container::Container::doors`]) the child moves itself through them before it waits.
    ///
    /// # Errors
    /// When the system has no process or file descriptor left.
    pub fn fork(program: &Program, doors: &[OwnedFd]) -> io::Result<Self> {
        let (wait, release) = pipe_with(PipeFlags::CLOEXEC)?;
        match fork()? {
            // The call never returns, hence runs no destructor of the parent's values twice.
            Side::Child => become_program(program, wait.as_fd(), doors),
            Side::Parent(pid) => Ok(Self { pid, release }),
        }
    }

    /// The child's process number; it stays the caller's to reap.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the child execute its program, with these variables set over its environment, and with the wrappers among
    /// them (see [`wrapper`]).
    ///
    /// # Errors
    /// When the child is gone already (`BrokenPipe`); it is reaped as usual.
    pub fn release(self, variables: &[(String, String)]) -> io::Result<()> {
        let mut message = vec![0; 4];
        for (name, value) in variables {
            message.extend_from_slice(name.as_bytes());
            message.push(b'=');
            message.extend_from_slice(value.as_bytes());
            message.push(0);
        }
        let length = u32::try_from(message.len() - 4).expect("a handful of short variables");
        message[..4].copy_from_slice(&length.to_le_bytes());
        let mut rest = message.as_slice();
        while !rest.is_empty() {
            let written = rustix::io::write(&self.release, rest)?;
            rest = &rest[written..];
        }
        Ok(())
    }
}

/// The child's side: never returns.
fn become_program(program: &Program, wait: BorrowedFd<'_>, doors: &[OwnedFd]) -> ! {
    for door in doors {
        // `0` is the writer itself. A door that does not open is seen by the daemon, which then takes the process in.
        let _ = rustix::io::write(door, b"0");
    }
    for (stream, target) in program.streams.iter().zip(0..) {
        if let Some(stream) = stream
            && !duplicate(stream.as_raw_fd(), target)
        {
            leave(126);
        }
    }
    drop_own_files(wait.as_raw_fd());
    restore();
    if program.own_session {
        let _ = rustix::process::setsid();
    }
    let Some(variables) = await_release(wait) else { leave(125) };
    if let Err(error) = places::open() {
        let text = format!("pinfold: failed to open a file for the job's output: {error}\n");
        let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
        leave(126);
    }
    let variables = match apart::enter_with(program.apart, variables) {
        Ok(variables) => variables,
        Err(error) => give_up(&error),
    };
    match &program.tasks {
        Some(plan) => lead::become_tasks(program, &variables, plan),
        None => become_program_now(program, &variables),
    }
}

/// Reports why the program cannot be started as requested, and ends.
fn give_up(error: &ApartError) -> ! {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("pinfold: {error}{cause}\n").as_bytes());
    leave(126)
}

/// The variables sent at release; `None` when the parent is gone or gave up.
fn await_release(wait: BorrowedFd<'_>) -> Option<Vec<CString>> {
    let mut head = [0; 4];
    read_all(wait, &mut head)?;
    let mut body = vec![0; u32::from_le_bytes(head) as usize];
    read_all(wait, &mut body)?;
    body.split_inclusive(|&b| b == 0).map(|text| CString::from_vec_with_nul(text.to_vec()).ok()).collect()
}

fn read_all(from: BorrowedFd<'_>, mut into: &mut [u8]) -> Option<()> {
    while !into.is_empty() {
        match rustix::io::read(from, &mut *into) {
            Ok(0) => return None,
            Ok(count) => into = &mut into[count..],
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return None,
        }
    }
    Some(())
}

/// Replaces this process by the program; comes back only with the [`refusal`]. The program has the network that it asks
/// for, and the `/tmp` that is there.
#[must_use]
pub fn become_now(program: &Program) -> String {
    if let Err(error) = apart::enter(Apart { tmp: false, ..program.apart }, None) {
        give_up(&error);
    }
    if let Some(plan) = &program.tasks {
        lead::become_tasks(program, &[], plan);
    }
    restore();
    program.refusal(&execute(program, &[]))
}
