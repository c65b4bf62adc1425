//! Starting a job's process. Where it takes itself into its container, [`start`] does all in one; else in two steps:
//! first a *held* child that waits, so that it can be put into its container, then, once released, the command
//! itself. Every page the command touches is charged right.
//!
//! The caller must be single-threaded: the held child allocates between `fork` and `exec`, which is only
//! sound when no other thread can have held the allocator's lock, and one that is started at once borrows all of the
//! caller's memory. Keepers are; see [`Held::fork`].
//! Absent here: containers, the daemon, what to start.

mod at_once;

use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::pipe::{PipeFlags, pipe_with};

use crate::apart::{self, Apart, ApartError};
use crate::lead::{self, TaskPlan};

pub use at_once::start;

/// What to start, in the kernel's own form; made once, used for one child.
#[derive(Debug)]
pub struct Program {
    path: CString,
    arguments: Vec<CString>,
    environment: Environment,
    /// Where its standard input, output and error go; `None`: as the caller's.
    pub streams: [Option<OwnedFd>; 3],
    /// Whether it leads a session of its own, apart from any terminal.
    pub own_session: bool,
    /// The tasks that it is started as; `None`: once, where it stands.
    pub tasks: Option<TaskPlan>,
    /// What it has apart from the host; needs [`Held`].
    pub apart: Apart,
}

/// An environment in the kernel's own form; cheap to share between programs.
#[derive(Debug, Clone)]
pub struct Environment(Rc<[CString]>);

impl Environment {
    /// These variables, each as `NAME=VALUE`. One that holds a NUL byte is left out.
    #[must_use]
    pub fn of(variables: impl IntoIterator<Item = String>) -> Self {
        Self(variables.into_iter().filter_map(|text| CString::new(text).ok()).collect())
    }

    /// This process's environment without the variables in `without`.
    #[must_use]
    pub fn inherited(without: &[&str]) -> Self {
        let kept = std::env::vars_os().filter(|(name, _)| !without.iter().any(|gone| name == gone));
        let text = |(name, value): (OsString, OsString)| {
            let mut text = name.into_vec();
            text.push(b'=');
            text.extend_from_slice(value.as_bytes());
            // The kernel hands an environment over as C strings, so a NUL cannot be in it.
            CString::new(text).ok()
        };
        Self(kept.filter_map(text).collect())
    }

    /// The same with this variable as well, as `NAME=VALUE`; left out if it holds a NUL byte.
    #[must_use]
    pub fn with(&self, variable: String) -> Self {
        Self(self.0.iter().cloned().chain(CString::new(variable).ok()).collect())
    }
}

/// Why a command cannot be started, told apart as shells do.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// No such command (shells exit with 127).
    #[error("{}: command not found", .0.display())]
    NotFound(PathBuf),
    /// It is there but may not or cannot be executed (shells exit with 126).
    #[error("{}: {why}", .path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// What stands in the way.
        why: &'static str,
    },
    /// An argument or variable holds a NUL byte, which no program can be given.
    #[error("an argument holds a NUL byte")]
    Nul,
    /// A file that its output was to go to cannot be had; why, in words.
    #[error("{0}")]
    Output(String),
}

/// How a child ended, and what the kernel counted for it and its descendants that were waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reaped {
    /// Its process number.
    pub pid: u32,
    /// Its exit code, when it exited.
    pub exit_code: Option<i32>,
    /// The signal that ended it, when one did.
    pub signal: Option<i32>,
    /// CPU time in user mode, in microseconds.
    pub cpu_user_us: u64,
    /// CPU time in the kernel, in microseconds.
    pub cpu_system_us: u64,
    /// The largest resident size any one of them reached, in bytes.
    pub rss_peak_bytes: u64,
    /// Bytes read from storage.
    pub io_read_bytes: u64,
    /// Bytes written to storage.
    pub io_write_bytes: u64,
    /// Page faults met from memory.
    pub faults_minor: u64,
    /// Page faults that waited for storage.
    pub faults_major: u64,
    /// Times they gave a processor up.
    pub switches_voluntary: u64,
    /// Times they were taken off one.
    pub switches_forced: u64,
}

/// Finds `command` as a shell would: with a slash it is a path, otherwise it is looked up in `search`
/// (the value of `PATH`).
///
/// # Errors
/// When there is no such file, or it is a directory or not executable.
pub fn resolve(command: &OsStr, search: Option<&OsStr>) -> Result<PathBuf, ResolveError> {
    if command.is_empty() {
        return Err(ResolveError::NotFound(PathBuf::from("''")));
    }
    if command.as_bytes().contains(&b'/') {
        return executable(PathBuf::from(command));
    }
    let mut refused = None;
    for directory in search.map(std::env::split_paths).into_iter().flatten() {
        // An empty entry of PATH means the current directory (POSIX).
        let directory = if directory.as_os_str().is_empty() { PathBuf::from(".") } else { directory };
        match executable(directory.join(command)) {
            Ok(path) => return Ok(path),
            Err(error @ ResolveError::NotExecutable { .. }) => refused = refused.or(Some(error)),
            Err(_) => {}
        }
    }
    Err(refused.unwrap_or_else(|| ResolveError::NotFound(PathBuf::from(command))))
}

fn executable(path: PathBuf) -> Result<PathBuf, ResolveError> {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    let refuse = |path, why| Err(ResolveError::NotExecutable { path, why });
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refuse(path, "permission denied"),
        Err(_) => Err(ResolveError::NotFound(path)),
        Ok(found) if found.is_dir() => refuse(path, "is a directory"),
        Ok(_) if accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS).is_err() => {
            refuse(path, "permission denied")
        }
        Ok(_) => Ok(path),
    }
}

impl Program {
    /// The program at `path` with these arguments (the first is its own name) and this environment.
    ///
    /// # Errors
    /// [`ResolveError::Nul`] when any of them holds a NUL byte.
    pub fn new(
        path: &Path,
        arguments: impl IntoIterator<Item = OsString>,
        environment: &Environment,
    ) -> Result<Self, ResolveError> {
        let c = |text: Vec<u8>| CString::new(text).map_err(|_| ResolveError::Nul);
        Ok(Self {
            path: c(path.as_os_str().as_bytes().to_vec())?,
            arguments: arguments.into_iter().map(|a| c(a.into_vec())).collect::<Result<_, _>>()?,
            environment: environment.clone(),
            streams: [None, None, None],
            own_session: false,
            tasks: None,
            apart: Apart::default(),
        })
    }

    /// The same, started as these tasks.
    #[must_use]
    pub fn as_tasks(self, tasks: Option<TaskPlan>) -> Self {
        Self { tasks, ..self }
    }
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
    /// With `doors` (see [`crate::container::Container::doors`]) the child goes through them before it waits.
    ///
    /// # Errors
    /// When the system has no process or file descriptor left.
    pub fn fork(program: &Program, doors: &[OwnedFd]) -> io::Result<Self> {
        let (wait, release) = pipe_with(PipeFlags::CLOEXEC)?;
        match fork()? {
            // It never comes back, hence runs no destructor of the parent's values twice.
            Side::Child => become_program(program, wait.as_fd(), doors),
            Side::Parent(pid) => Ok(Self { pid, release }),
        }
    }

    /// The child's process number; it stays the caller's to reap.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Lets the child go on to its program, with these variables set over its environment, and wrapped in what is among
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
    restore_signals();
    if program.own_session {
        let _ = rustix::process::setsid();
    }
    let Some(variables) = await_release(wait) else { leave(125) };
    let variables = match apart::enter_with(program.apart, variables) {
        Ok(variables) => variables,
        Err(error) => give_up(&error),
    };
    match &program.tasks {
        Some(plan) => lead::become_tasks(program, &variables, plan),
        None => become_program_now(program, &variables),
    }
}

/// Says why the program is not started as it should be, and ends.
fn give_up(error: &ApartError) -> ! {
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    let _ = rustix::io::write(rustix::stdio::stderr(), format!("pinfold: {error}{cause}\n").as_bytes());
    leave(126)
}

/// Executes the program with these variables over its environment, and with the signals as they were before the
/// keeper; never returns.
pub(crate) fn become_program_now(program: &Program, variables: &[CString]) -> ! {
    restore_signals();
    let error = execute(program, variables);
    let path = command_line(program, variables).0;
    let text = format!("pinfold: {}: {error}\n", path.to_string_lossy());
    let _ = rustix::io::write(rustix::stdio::stderr(), text.as_bytes());
    leave(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

pub(crate) fn leave(status: i32) -> ! {
    #[expect(unsafe_code, reason = "the parent's exit handlers must not run in the child")]
    // SAFETY: _exit takes any status and does not return.
    unsafe {
        libc::_exit(status)
    }
}

/// Has the kernel kill this process when its parent ends.
pub(crate) fn end_with_parent() {
    #[expect(
        unsafe_code,
        reason = "rustix sets it for the calling thread only by the same call, behind a feature"
    )]
    // SAFETY: takes a number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
    }
}

/// Keeps this process from leaving a core dump.
pub(crate) fn leave_no_core() {
    #[expect(unsafe_code, reason = "rustix sets it only by the same call, behind a feature")]
    // SAFETY: takes a number and touches no memory.
    unsafe {
        libc::prctl(libc::PR_SET_DUMPABLE, 0);
    }
}

fn duplicate(from: RawFd, to: RawFd) -> bool {
    #[expect(unsafe_code, reason = "rustix has dup2 only into descriptors it owns")]
    // SAFETY: dup2 on numbers; a bad one gives an error. It runs in the child, where nobody else relies on
    // what 0, 1 and 2 were before.
    unsafe {
        libc::dup2(from, to) == to
    }
}

/// Closes whatever would be closed by the exec anyway, but for `keep`: the child may wait for long, and must
/// not keep the caller's connection or another child's release pipe open meanwhile.
///
/// Descriptors are handed out lowest first, so after a run of unused numbers there are no more worth the
/// calls.
fn drop_own_files(keep: RawFd) {
    const UNUSED_MAX: u32 = 64;
    let (mut fd, mut unused) = (3, 0);
    while unused < UNUSED_MAX {
        match close_on_exec(fd) {
            None => unused += 1,
            Some(true) if fd != keep => close(fd),
            Some(_) => unused = 0,
        }
        fd += 1;
    }
}

fn close_on_exec(fd: RawFd) -> Option<bool> {
    #[expect(unsafe_code, reason = "rustix asks flags only of descriptors it owns or borrows")]
    // SAFETY: F_GETFD reads the flags of any number, open or not, and changes nothing.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    (flags >= 0).then_some(flags & libc::FD_CLOEXEC != 0)
}

fn close(fd: RawFd) {
    #[expect(unsafe_code, reason = "the owner of this descriptor is the parent's copy of the program")]
    // SAFETY: this runs in the child, which never drops the values that own the number.
    unsafe {
        libc::close(fd);
    }
}

/// Undoes what the runtime and the keeper changed: SIGPIPE's default action, which Rust's start-up ignores,
/// and the signals the keeper blocks to read them from a descriptor. What the user's shell chose to ignore
/// (`nohup`) stays ignored.
fn restore_signals() {
    #[expect(unsafe_code, reason = "no safe binding for dispositions and masks")]
    // SAFETY: plain calls on values that live on the stack; the child has one thread.
    unsafe {
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
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

/// What wraps a command, among the variables that it is released with: one without a name, which no variable can be.
#[must_use]
pub fn wrapper(program: String) -> (String, String) {
    (String::new(), program)
}

/// The file to execute and its arguments, the first of which is its own name: the program, or the outermost of what it is
/// wrapped in, which finds the command to execute in its arguments.
fn command_line(program: &Program, variables: &[CString]) -> (CString, Vec<CString>) {
    let around = variables.iter().filter_map(|variable| variable.to_bytes().strip_prefix(b"="));
    let mut around: Vec<CString> =
        around.map(|path| CString::new(path).expect("a part of a text without NUL")).collect();
    if around.is_empty() {
        return (program.path.clone(), program.arguments.clone());
    }
    let outermost = around[0].clone();
    around.push(program.path.clone());
    around.extend(program.arguments.iter().skip(1).cloned());
    (outermost, around)
}

/// Executes the program; comes back only with the error. A script without an interpreter line is handed to
/// the shell, as `execvp` and shells do (POSIX, `execvp`, ENOEXEC).
fn execute(program: &Program, variables: &[CString]) -> io::Error {
    let environment = environment(program, variables);
    let (path, arguments) = command_line(program, variables);
    let error = exec(&path, &pointers(&arguments), &environment);
    if error.raw_os_error() != Some(libc::ENOEXEC) {
        return error;
    }
    let shell = c"/bin/sh".to_owned();
    let arguments = [&shell, &path].into_iter().chain(arguments.iter().skip(1));
    exec(&shell, &pointers(arguments), &environment)
}

/// The program's environment with these variables over it, for the kernel.
fn environment(program: &Program, variables: &[CString]) -> Vec<*const libc::c_char> {
    fn name(text: &CString) -> Option<&[u8]> {
        text.to_bytes().split(|&byte| byte == b'=').next()
    }
    let is_set = |old: &CString| variables.iter().any(|new| name(new) == name(old));
    let named = variables.iter().filter(|new| !new.to_bytes().starts_with(b"="));
    pointers(program.environment.0.iter().filter(|old| !is_set(old)).chain(named))
}

fn pointers<'a>(texts: impl IntoIterator<Item = &'a CString>) -> Vec<*const libc::c_char> {
    texts.into_iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
}

fn exec(path: &CString, arguments: &[*const libc::c_char], environment: &[*const libc::c_char]) -> io::Error {
    #[expect(unsafe_code, reason = "no safe binding for exec with a given environment")]
    // SAFETY: both arrays end with a null pointer and point into strings that outlive the call.
    unsafe {
        libc::execve(path.as_ptr(), arguments.as_ptr(), environment.as_ptr());
    }
    io::Error::last_os_error()
}

/// Reaps one child that has ended, if there is one.
#[must_use]
pub fn reap() -> Option<Reaped> {
    let mut status = 0;
    #[expect(unsafe_code, reason = "rustix has no wait4, and only that gives the figures of just this child")]
    // SAFETY: both out-parameters are valid for writing; a zeroed rusage is a valid value.
    let (pid, usage) = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        (libc::wait4(-1, &raw mut status, libc::WNOHANG, &raw mut usage), usage)
    };
    if pid <= 0 {
        return None;
    }
    let unsigned = |value: i64| u64::try_from(value).unwrap_or(0);
    let microseconds = |time: libc::timeval| unsigned(time.tv_sec) * 1_000_000 + unsigned(time.tv_usec);
    Some(Reaped {
        pid: pid.unsigned_abs(),
        exit_code: libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status)),
        signal: libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status)),
        cpu_user_us: microseconds(usage.ru_utime),
        cpu_system_us: microseconds(usage.ru_stime),
        // getrusage(2): the largest resident size in KiB; block operations in units of 512 bytes.
        rss_peak_bytes: unsigned(usage.ru_maxrss) * 1024,
        io_read_bytes: unsigned(usage.ru_inblock) * 512,
        io_write_bytes: unsigned(usage.ru_oublock) * 512,
        faults_minor: unsigned(usage.ru_minflt),
        faults_major: unsigned(usage.ru_majflt),
        switches_voluntary: unsigned(usage.ru_nvcsw),
        switches_forced: unsigned(usage.ru_nivcsw),
    })
}

/// Which side of a fork this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The process that called, with the number of its new child.
    Parent(u32),
    /// The new child.
    Child,
}

/// Forks this process, which must have one thread; the child goes on as ordinary code.
pub(crate) fn fork() -> io::Result<Side> {
    #[expect(unsafe_code, reason = "std cannot fork without also executing")]
    // SAFETY: the caller is single-threaded (module contract), so the child may run ordinary code.
    let pid = unsafe { libc::fork() };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(Side::Child),
        _ => Ok(Side::Parent(pid.unsigned_abs())),
    }
}

/// Forks this process, which must have one thread; the child leads a session of its own, away from the
/// terminal, and goes on as ordinary code.
///
/// # Errors
/// When the system has no process left.
pub fn fork_away() -> io::Result<Side> {
    let side = fork()?;
    if side == Side::Child {
        // Fails only for a process group leader, which a fresh child is not.
        let _ = rustix::process::setsid();
    }
    Ok(side)
}

/// Closes the caller's own files but `keep`, in a forked child that has no use for them and must not hold their
/// locks. Values that own them must not be used again.
pub fn drop_files_but(keep: impl AsFd) {
    drop_own_files(keep.as_fd().as_raw_fd());
}

/// Puts `/dev/null` in the place of standard input, output and error, as a detached process wants.
///
/// # Errors
/// When `/dev/null` cannot be opened.
pub fn null_streams() -> io::Result<()> {
    let null = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(&null)?;
    rustix::stdio::dup2_stderr(&null)?;
    Ok(())
}

/// Replaces this process by the program; comes back only with the error. It has the network that it asks for, and the
/// `/tmp` that is there.
#[must_use]
pub fn become_now(program: &Program) -> io::Error {
    if let Err(error) = apart::enter(Apart { tmp: false, ..program.apart }, None) {
        give_up(&error);
    }
    if let Some(plan) = &program.tasks {
        lead::become_tasks(program, &[], plan);
    }
    restore_signals();
    execute(program, &[])
}

/// Whether this process has just one thread, as [`Held::fork`] asks for.
#[must_use]
pub fn single_threaded() -> bool {
    std::fs::read_dir("/proc/self/task").map(|threads| threads.count() == 1).unwrap_or(false)
}
