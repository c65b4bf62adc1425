//! Starting a program without a held child, if the child moves itself into its container: it borrows the caller's memory
//! until it executes, so that no page table is copied and no page afterwards.
//!
//! Measured for a keeper of a batch, a fork costs several times as much as this. Absent here: waiting for a word to
//! start (that is [`super::Held`]).

use std::ffi::{CStr, CString, c_void};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::fork::{duplicate, leave, restore};
use crate::program::{Program, command_line, environment, is_binary, pointers, tell_refusal};

/// The child's stack until it executes. It calls a dozen functions of the C library, each of which keeps at most some
/// hundred bytes there.
const STACK_BYTES: usize = 64 * 1024;

/// The child's work, prepared before: it must not allocate, as it borrows the allocator too.
struct Plan<'a> {
    doors: &'a [OwnedFd],
    /// Standard input, output and error of the program.
    streams: [Option<i32>; 3],
    own_session: bool,
    path: *const libc::c_char,
    arguments: *const *const libc::c_char,
    environment: *const *const libc::c_char,
    shell: *const libc::c_char,
    shell_arguments: *const *const libc::c_char,
    /// The error of a failed exec; 0 after success.
    failed: i32,
}

/// See [`super::start`]. It comes back when the program is executed, or cannot be; the caller is stopped meanwhile.
///
/// Programs that need [`super::Held`] instead: a program of several tasks, as their leader is a process of its own; a
/// program in a sandbox, as a child that shares memory cannot leave its namespaces; and a program with streams that the
/// child opens, as the caller would wait for that.
///
/// # Errors
/// When the system has no process left.
pub(super) fn start(program: &Program, doors: &[OwnedFd], variables: &[(String, String)]) -> io::Result<u32> {
    let variable = |(name, value): &(String, String)| CString::new(format!("{name}={value}")).ok();
    let variables: Vec<CString> = variables.iter().filter_map(variable).collect();
    let environment = environment(program, &variables);
    let (path, line) = command_line(program, &variables);
    let arguments = pointers(&line);
    let shell = c"/bin/sh".to_owned();
    let shell_arguments = pointers([&shell, &path].into_iter().chain(line.iter().skip(1)));
    let mut plan = Plan {
        doors,
        streams: [0, 1, 2].map(|stream: usize| program.streams[stream].as_ref().map(AsRawFd::as_raw_fd)),
        own_session: program.own_session,
        path: path.as_ptr(),
        arguments: arguments.as_ptr(),
        environment: environment.as_ptr(),
        shell: shell.as_ptr(),
        shell_arguments: shell_arguments.as_ptr(),
        failed: 0,
    };
    let pid = borrow_memory(&mut plan)?;
    if plan.failed != 0 {
        let error = io::Error::from_raw_os_error(plan.failed);
        match &program.streams[2] {
            Some(stderr) => tell_refusal(stderr, &path, &error),
            None => tell_refusal(rustix::stdio::stderr(), &path, &error),
        }
    }
    Ok(pid)
}

/// Makes the child and waits until it has executed or ended.
fn borrow_memory(plan: &mut Plan<'_>) -> io::Result<u32> {
    let mut stack = vec![0u128; STACK_BYTES / size_of::<u128>()];
    let top = stack.as_mut_ptr_range().end;
    #[expect(unsafe_code, reason = "std starts programs, but cannot let them through doors on the way")]
    // SAFETY: with CLONE_VFORK this thread, the only thread (module contract), is stopped until the child has executed or
    // ended, so plan, stack and all that the plan points to outlive the child's use of them, and no other code touches
    // them. The child runs on the stack given, which grows downwards from its aligned end, and calls only system calls of
    // the C library. Signals are blocked before, so that no handler of this process runs in the child, and the earlier mask
    // is set again here.
    unsafe {
        let mut all = std::mem::zeroed::<libc::sigset_t>();
        let mut before = std::mem::zeroed::<libc::sigset_t>();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        let pid = libc::clone(child, top.cast::<c_void>(), flags, std::ptr::from_mut(plan).cast());
        let error = io::Error::last_os_error();
        libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        u32::try_from(pid).map_err(|_| error)
    }
}

/// The child's side: executes, or records the error and ends.
extern "C" fn child(plan: *mut c_void) -> i32 {
    #[expect(unsafe_code, reason = "the plan comes through the C library")]
    // SAFETY: the pointer is that of the caller's plan, which no other code uses while the caller is stopped.
    let plan = unsafe { &mut *plan.cast::<Plan<'_>>() };
    for door in plan.doors {
        // `0` is the writer itself. A door that does not open is seen by the daemon, which then takes the process in.
        let _ = rustix::io::write(door, b"0");
    }
    for (stream, target) in plan.streams.iter().zip(0..) {
        if stream.is_some_and(|stream| !duplicate(stream, target)) {
            plan.failed = last_error();
            leave(126);
        }
    }
    if plan.own_session {
        let _ = rustix::process::setsid();
    }
    restore();
    #[expect(unsafe_code, reason = "no safe binding for exec with a given environment")]
    // SAFETY: the arrays end with a null pointer and point to strings that the caller keeps.
    unsafe {
        libc::execve(plan.path, plan.arguments, plan.environment);
        if last_error() == libc::ENOEXEC && !is_binary(CStr::from_ptr(plan.path)) {
            libc::execve(plan.shell, plan.shell_arguments, plan.environment);
        }
    }
    plan.failed = last_error();
    leave(if plan.failed == libc::ENOENT { 127 } else { 126 })
}

fn last_error() -> i32 {
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Environment, resolve};
    use std::ffi::{OsStr, OsString};
    use std::io::Read;
    use std::path::Path;

    /// The program's output, its number, and its exit code.
    #[track_caller]
    fn run(path: &Path, arguments: &[&str], change: impl FnOnce(&mut Program)) -> (String, u32, Option<i32>) {
        let arguments = arguments.iter().map(OsString::from);
        let mut program = Program::new(path, arguments, &Environment::inherited(&[])).unwrap();
        let (mut said, out) = std::io::pipe().unwrap();
        program.streams[1] = Some(out.try_clone().unwrap().into());
        program.streams[2] = Some(out.into());
        change(&mut program);
        let variables = [("KEPT".to_owned(), "a=b".to_owned()), ("EMPTY".to_owned(), String::new())];
        let pid = start(&program, &[], &variables).unwrap();
        drop(program);
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        let child = rustix::process::Pid::from_raw(pid.cast_signed()).unwrap();
        let (_, status) =
            rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap().unwrap();
        (text, pid, status.exit_status())
    }

    fn shell() -> std::path::PathBuf {
        resolve(OsStr::new("sh"), std::env::var_os("PATH").as_deref()).unwrap()
    }

    #[test]
    fn a_program_gets_its_arguments_variables_and_streams() {
        let (text, _, code) =
            run(&shell(), &["sh", "-c", "echo $KEPT-${EMPTY-unset} $0; exit 7", "name"], |_| {});
        assert_eq!((text.as_str(), code), ("a=b- name\n", Some(7)));
    }

    #[test]
    fn a_failed_execution_reports_and_ends_as_in_a_shell() {
        let (text, _, code) = run(Path::new("/nonexistent/x"), &["x"], |_| {});
        assert_eq!(code, Some(127));
        assert_eq!(text, "pinfold: /nonexistent/x: No such file or directory (os error 2)\n");
        assert_eq!(run(Path::new("/"), &["x"], |_| {}).2, Some(126));
    }

    #[test]
    fn a_command_is_wrapped() {
        let dir = tempfile::tempdir().unwrap();
        let wrapper = |name: &str| {
            let path = dir.path().join(name);
            pinfold_testkit::executable(&path, &format!("#!/bin/sh\necho {name} $#\nexec \"$@\"\n"));
            super::super::wrapper(path.to_str().unwrap().to_owned())
        };
        let arguments = ["sh", "-c", "echo $A $0; env | grep -c ^=", "name"].map(OsString::from);
        let mut program = Program::new(&shell(), arguments, &Environment::inherited(&[])).unwrap();
        let (mut said, out) = std::io::pipe().unwrap();
        program.streams[1] = Some(out.into());
        let pid =
            start(&program, &[], &[wrapper("outer"), ("A".to_owned(), "b".to_owned()), wrapper("inner")]);
        drop(program);
        let mut text = String::new();
        said.read_to_string(&mut text).unwrap();
        let child = rustix::process::Pid::from_raw(pid.unwrap().cast_signed()).unwrap();
        rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty()).unwrap();
        assert_eq!(text, "outer 5\ninner 4\nb name\n0\n");
    }

    #[test]
    fn a_script_without_an_interpreter_goes_to_the_shell() {
        let dir = tempfile::tempdir().unwrap();
        let script = dir.path().join("script");
        pinfold_testkit::executable(&script, "echo script $1");
        assert_eq!(run(&script, &["script", "x"], |_| {}).0, "script x\n");
    }

    #[test]
    fn it_has_no_signal_blocked_sigpipe_as_usual_and_its_own_session() {
        let state = "grep -c '^SigBlk:.0000000000000000' /proc/self/status; \
                     echo $((0x$(sed -n 's/^SigIgn:.//p' /proc/self/status) & 0x1000)); cut -d' ' -f6 /proc/$$/stat";
        let (text, pid, _) = run(&shell(), &["sh", "-c", state], |program| program.own_session = true);
        assert_eq!(text, format!("1\n0\n{pid}\n"));
    }
}
