//! The program of a child: file, arguments, environment and streams in the kernel's own form; the search for its file,
//! and its execution. Absent here: making the process ([`crate::spawn`]).

use std::ffi::{CStr, CString, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{Mode, OFlags};

use crate::apart::Apart;
use crate::fork::{leave, restore};
use crate::tasks::TaskPlan;

mod refusal;
pub use refusal::refusal;

/// A program to start, in the kernel's own form; made once, used for a single child.
#[derive(Debug)]
pub struct Program {
    path: CString,
    arguments: Vec<CString>,
    environment: Environment,
    /// Standard input, output and error; `None`: as the caller's. The child opens an output that is only a place
    /// ([`crate::files::look_at`]).
    pub streams: [Option<OwnedFd>; 3],
    /// Whether it leads a session of its own, apart from any terminal.
    pub own_session: bool,
    /// Its tasks; `None`: a single process.
    pub tasks: Option<TaskPlan>,
    /// Its sandbox; needs [`crate::spawn::Held`].
    pub apart: Apart,
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

    /// Why the kernel refused to execute this program; see [`refusal`].
    pub(crate) fn refusal(&self, error: &io::Error) -> String {
        refusal(Path::new(OsStr::from_bytes(self.path.to_bytes())), error)
    }
}

/// An environment in the kernel's own form; cheap to share between programs.
#[derive(Debug, Clone)]
pub struct Environment(Rc<[CString]>);

impl Environment {
    /// These variables, each as `NAME=VALUE`. A variable with a NUL byte is left out.
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

    /// The same with this variable added, as `NAME=VALUE`; left out if it has a NUL byte.
    #[must_use]
    pub fn with(&self, variable: String) -> Self {
        Self(self.0.iter().cloned().chain(CString::new(variable).ok()).collect())
    }
}

/// The reason for which a command cannot be started, by the cases of shells.
#[derive(Debug, thiserror::Error)]
pub enum ResolveError {
    /// The command does not exist (shells exit with 127).
    #[error("{}: command not found", .0.display())]
    NotFound(PathBuf),
    /// The file exists but cannot be executed (shells exit with 126).
    #[error("{}: {why}", .path.display())]
    NotExecutable {
        /// The file.
        path: PathBuf,
        /// The obstacle.
        why: &'static str,
    },
    /// An argument or variable holds a NUL byte, which no program can be given.
    #[error("an argument holds a NUL byte")]
    Nul,
    /// A file that its output was to go to cannot be had; why, in words.
    #[error("{0}")]
    Output(String),
}

/// Finds `command` as a shell would: with a slash it is a path, otherwise it is looked up in `search`
/// (the value of `PATH`).
///
/// # Errors
/// When the file does not exist, or is a directory or not executable.
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
    use rustix::fs::{Access, AtFlags, CWD, StatVfsMountFlags, accessat};
    let refuse = |path, why| Err(ResolveError::NotExecutable { path, why });
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => refuse(path, "permission denied"),
        Err(_) => Err(ResolveError::NotFound(path)),
        Ok(found) if found.is_dir() => refuse(path, "is a directory"),
        Ok(found) if accessat(CWD, &path, Access::EXEC_OK, AtFlags::EACCESS).is_err() => {
            let mounted = rustix::fs::statvfs(&path).map(|mount| mount.f_flag);
            let why = if found.mode() & 0o111 == 0 {
                "permission denied: no x bit is set, which `chmod +x` sets"
            } else if mounted.is_ok_and(|flags| flags.contains(StatVfsMountFlags::NOEXEC)) {
                "permission denied: its file system is mounted noexec"
            } else {
                "permission denied"
            };
            refuse(path, why)
        }
        Ok(_) => Ok(path),
    }
}

/// A wrapper of the command, as an entry among the variables of the release: with an empty name, which no variable can
/// have.
#[must_use]
pub fn wrapper(program: String) -> (String, String) {
    (String::new(), program)
}

/// Executes the program with these variables over its environment, and with the signals as they were before the
/// keeper; never returns.
pub(crate) fn become_program_now(program: &Program, variables: &[CString]) -> ! {
    restore();
    let error = execute(program, variables);
    let (path, _) = command_line(program, variables);
    tell_refusal(rustix::stdio::stderr(), &path, &error);
    leave(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Writes to a job's standard error why its program was not executed.
pub(crate) fn tell_refusal(stderr: impl AsFd, path: &CStr, error: &io::Error) {
    let text = format!("pinfold: {}\n", refusal(Path::new(OsStr::from_bytes(path.to_bytes())), error));
    let _ = rustix::io::write(stderr, text.as_bytes());
}

/// The file to execute and its arguments, beginning with its own name: the program, or its outermost wrapper, which
/// finds the command to execute in its arguments.
pub(crate) fn command_line(program: &Program, variables: &[CString]) -> (CString, Vec<CString>) {
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
pub(crate) fn execute(program: &Program, variables: &[CString]) -> io::Error {
    let environment = environment(program, variables);
    let (path, arguments) = command_line(program, variables);
    let error = exec(&path, &pointers(&arguments), &environment);
    if error.raw_os_error() != Some(libc::ENOEXEC) || is_binary(&path) {
        return error;
    }
    let shell = c"/bin/sh".to_owned();
    let arguments = [&shell, &path].into_iter().chain(arguments.iter().skip(1));
    exec(&shell, &pointers(arguments), &environment)
}

/// Whether a file's beginning holds a NUL byte: the shell would read machine code as commands. Allocates nothing, so
/// that a child that borrows its parent's memory may call it.
pub(crate) fn is_binary(path: &CStr) -> bool {
    let mut head = [0; 80];
    let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty());
    let length = file.ok().and_then(|file| rustix::io::read(file, &mut head).ok()).unwrap_or(0);
    head[..length].contains(&0)
}

/// The program's environment with these variables over it, for the kernel.
pub(crate) fn environment(program: &Program, variables: &[CString]) -> Vec<*const libc::c_char> {
    fn name(text: &CString) -> Option<&[u8]> {
        text.to_bytes().split(|&byte| byte == b'=').next()
    }
    let is_set = |old: &CString| variables.iter().any(|new| name(new) == name(old));
    let named = variables.iter().filter(|new| !new.to_bytes().starts_with(b"="));
    pointers(program.environment.0.iter().filter(|old| !is_set(old)).chain(named))
}

/// The texts as the kernel takes them: pointers, the last of which is null.
pub(crate) fn pointers<'a>(texts: impl IntoIterator<Item = &'a CString>) -> Vec<*const libc::c_char> {
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
