//! Signals as data: blocked, and read from a descriptor, so that a loop sees them in order with other events. Absent
//! here: reactions to signals.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

pub use libc::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGKILL, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2,
    SIGWINCH,
};

/// Signals that are blocked in this process and read from a descriptor.
#[derive(Debug)]
pub struct Signals {
    descriptor: OwnedFd,
    /// The mask before.
    before: libc::sigset_t,
}

/// A signal that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrived {
    /// Its number.
    pub signal: i32,
    /// Whether the kernel sent it to the whole foreground process group (Ctrl-C on the terminal, the end of the
    /// session's leader). Otherwise only this process got it: from a process, or because the terminal of its own
    /// session hung up, which the kernel reports to the leader alone.
    pub to_group: bool,
    /// The process that sent it, if any.
    pub by: i32,
    /// The word sent along with it ([`send_with`]); 0: none.
    pub word: u32,
}

impl Signals {
    /// Blocks `signals` and opens a descriptor that becomes readable when a signal arrives. A signal that this process
    /// was started to ignore (by nohup, or in the background of a script) stays ignored and never arrives.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub fn block(signals: &[i32]) -> io::Result<Self> {
        #[expect(unsafe_code, reason = "no safe binding for signal masks and signalfd")]
        // SAFETY: the set is initialised by sigemptyset before it is used, and signalfd's result is checked and has no
        // other owner.
        unsafe {
            let mut set = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut set);
            for &signal in signals.iter().filter(|&&signal| !is_ignored(signal)) {
                libc::sigaddset(&raw mut set, signal);
            }
            let mut before = std::mem::zeroed::<libc::sigset_t>();
            if libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before) != 0 {
                return Err(io::Error::last_os_error());
            }
            let fd = libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK);
            if fd < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Self { descriptor: OwnedFd::from_raw_fd(fd), before })
        }
    }

    /// Starts a program with only the signals blocked that were blocked before [`Signals::block`]: it would inherit the
    /// others, and never receive them.
    pub fn spare(&self, command: &mut Command) {
        let before = self.before;
        #[expect(unsafe_code, reason = "what a child is to do before it executes has no safe form")]
        // SAFETY: one system call on a value that the closure owns; it neither allocates nor takes a lock.
        unsafe {
            command.pre_exec(move || {
                match libc::sigprocmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) {
                    0 => Ok(()),
                    _ => Err(io::Error::last_os_error()),
                }
            });
        }
    }

    /// Restores the mask from before.
    ///
    /// # Errors
    /// A system error.
    pub fn unblock(self) -> io::Result<()> {
        #[expect(unsafe_code, reason = "no safe binding for signal masks")]
        // SAFETY: the kernel returned this mask.
        let done =
            unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
        if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
    }

    /// The next signal that arrived, if any.
    pub fn next(&self) -> Option<Arrived> {
        #[expect(unsafe_code, reason = "signalfd hands out C structures")]
        // SAFETY: the buffer is as long as announced, and any bytes are a valid signalfd_siginfo.
        let info = unsafe {
            let mut info = std::mem::zeroed::<libc::signalfd_siginfo>();
            let size = size_of::<libc::signalfd_siginfo>();
            let got = libc::read(self.descriptor.as_raw_fd(), (&raw mut info).cast(), size);
            (usize::try_from(got) == Ok(size)).then_some(info)
        }?;
        let signal = info.ssi_signo.cast_signed();
        // SI_KERNEL, from asm-generic/siginfo.h; the terminal's driver and the hang-up of a session use it.
        let by_kernel = info.ssi_code == libc::SI_KERNEL;
        Some(Arrived {
            signal,
            to_group: by_kernel && !(signal == SIGHUP && leads_session()),
            by: info.ssi_pid.cast_signed(),
            word: match info.ssi_code {
                libc::SI_QUEUE => u32::try_from(info.ssi_ptr).unwrap_or(0),
                _ => 0,
            },
        })
    }
}

impl AsFd for Signals {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

/// Whether this process leads its session. When a leader ends, the kernel signals a group without the leader.
fn leads_session() -> bool {
    rustix::process::getsid(None).is_ok_and(|leader| leader == rustix::process::getpid())
}

/// The number of a signal written as `15`, `TERM` or `SIGTERM`, in any case.
#[must_use]
pub fn number(text: &str) -> Option<i32> {
    if let Ok(number) = text.parse() {
        return (1..=libc::SIGRTMAX()).contains(&number).then_some(number);
    }
    let upper = text.to_ascii_uppercase();
    let bare = upper.strip_prefix("SIG").unwrap_or(&upper);
    NAMES.iter().find(|(name, _)| *name == bare).map(|&(_, number)| number)
}

/// The name of a signal without `SIG`; `None` for numbers without a name.
#[must_use]
pub fn name(number: i32) -> Option<&'static str> {
    NAMES.iter().find(|&&(_, known)| known == number).map(|&(name, _)| name)
}

const NAMES: &[(&str, i32)] = &[
    ("HUP", libc::SIGHUP),
    ("INT", libc::SIGINT),
    ("QUIT", libc::SIGQUIT),
    ("ILL", libc::SIGILL),
    ("TRAP", libc::SIGTRAP),
    ("ABRT", libc::SIGABRT),
    ("BUS", libc::SIGBUS),
    ("FPE", libc::SIGFPE),
    ("KILL", libc::SIGKILL),
    ("USR1", libc::SIGUSR1),
    ("SEGV", libc::SIGSEGV),
    ("USR2", libc::SIGUSR2),
    ("PIPE", libc::SIGPIPE),
    ("ALRM", libc::SIGALRM),
    ("TERM", libc::SIGTERM),
    ("CHLD", libc::SIGCHLD),
    ("CONT", libc::SIGCONT),
    ("STOP", libc::SIGSTOP),
    ("TSTP", libc::SIGTSTP),
    ("TTIN", libc::SIGTTIN),
    ("TTOU", libc::SIGTTOU),
    ("URG", libc::SIGURG),
    ("XCPU", libc::SIGXCPU),
    ("XFSZ", libc::SIGXFSZ),
    ("VTALRM", libc::SIGVTALRM),
    ("PROF", libc::SIGPROF),
    ("WINCH", libc::SIGWINCH),
    ("IO", libc::SIGIO),
    ("PWR", libc::SIGPWR),
    ("SYS", libc::SIGSYS),
];

/// Sends a signal to a process; a vanished process is no error.
pub fn send(pid: u32, signal: i32) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
        let _ = kill_process(pid, signal);
    }
}

/// As [`send`], with a word that the receiver can read along with the signal ([`Arrived::word`]).
pub fn send_with(pid: u32, signal: i32, word: u32) {
    let (Ok(pid), Ok(word)) = (i32::try_from(pid), usize::try_from(word)) else { return };
    if pid == 0 {
        return;
    }
    let value = libc::sigval { sival_ptr: std::ptr::without_provenance_mut(word) };
    #[expect(unsafe_code, reason = "no safe binding for sigqueue")]
    // SAFETY: takes numbers; the word is handed on as it is and never used as an address.
    unsafe {
        libc::sigqueue(pid, signal, value);
    }
}

/// Sends a signal to all processes of the group that a process leads.
pub fn send_to_group(leader: u32, signal: i32) {
    use rustix::process::{Pid, Signal, kill_process_group};
    let leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
    if let (Some(leader), Some(signal)) = (leader, Signal::from_named_raw(signal)) {
        let _ = kill_process_group(leader, signal);
    }
}

/// Makes the kernel keep the ends of children until this process waits. A process started by a parent that ignores
/// SIGCHLD ignores it too, and would never see its children's ends.
pub fn hear_of_children() {
    default_action(SIGCHLD);
}

/// Resets each ignored signal to its default action, also for children; SIGPIPE excepted, which Rust's start-up ignores
/// and no started program does.
pub fn ignore_none() {
    ignored().into_iter().for_each(default_action);
}

/// The signals that this process, and so its children, ignores, SIGPIPE excepted.
#[must_use]
pub fn ignored() -> Vec<i32> {
    (1..=libc::SIGRTMAX()).filter(|&signal| signal != libc::SIGPIPE && is_ignored(signal)).collect()
}

/// Blocks no signal in this thread.
pub fn block_none() {
    #[expect(unsafe_code, reason = "no safe binding for signal masks")]
    // SAFETY: the set is initialised before it is used, on the stack.
    unsafe {
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}

/// Makes a write beyond the file size limit (`RLIMIT_FSIZE`) fail with `EFBIG`. By a handler, which an exec resets.
pub fn catch_file_limit() {
    extern "C" fn go_on(_: libc::c_int) {}
    #[expect(unsafe_code, reason = "no safe binding for dispositions")]
    // SAFETY: the handler does nothing, at any moment.
    unsafe {
        libc::signal(libc::SIGXFSZ, go_on as *const () as libc::sighandler_t);
    }
}

/// Ignores these signals, also in programs that this process executes; numbers that cannot be ignored are left out.
pub fn ignore(signals: &[i32]) {
    for &signal in signals {
        #[expect(unsafe_code, reason = "no safe binding for dispositions")]
        // SAFETY: to ignore a signal calls no code of this process; numbers that cannot be set give an error.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
}

fn is_ignored(signal: i32) -> bool {
    #[expect(unsafe_code, reason = "no safe binding for dispositions")]
    // SAFETY: without a new action sigaction only writes the present action, to a value on the stack.
    unsafe {
        let mut present = std::mem::zeroed::<libc::sigaction>();
        libc::sigaction(signal, std::ptr::null(), &raw mut present) == 0
            && present.sa_sigaction == libc::SIG_IGN
    }
}

fn default_action(signal: i32) {
    #[expect(unsafe_code, reason = "no safe binding for dispositions")]
    // SAFETY: the default action calls no code of this process; numbers that cannot be set give an error.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
    }
}

/// Ends this process by `signal`, as its command ended, so that a waiting shell sees the same. No effect when the signal's
/// action does not end a process.
pub fn end_self_by(signal: i32) {
    #[expect(unsafe_code, reason = "no safe binding for dispositions and masks")]
    // SAFETY: plain calls on values that live on the stack.
    unsafe {
        libc::signal(signal, libc::SIG_DFL);
        let mut set = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, signal);
        libc::sigprocmask(libc::SIG_UNBLOCK, &raw const set, std::ptr::null_mut());
        libc::raise(signal);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        assert_eq!(number("TERM"), Some(15));
        assert_eq!(number("sigkill"), Some(9));
        assert_eq!(number("15"), Some(15));
        assert_eq!(number("0"), None);
        assert_eq!(number("9999"), None);
        assert_eq!(number("NOPE"), None);
        assert_eq!(name(15), Some("TERM"));
        for &(text, value) in NAMES {
            assert_eq!(number(text), Some(value));
        }
    }

    #[test]
    fn a_signal_is_read_as_data() {
        let signals = Signals::block(&[SIGUSR2]).unwrap();
        // To this thread alone: the test runner has others, which do not block it.
        #[expect(unsafe_code, reason = "no safe binding for tgkill to oneself")]
        // SAFETY: raise sends to the calling thread, which blocks the signal.
        unsafe {
            libc::raise(SIGUSR2);
        }
        let own = i32::try_from(std::process::id()).unwrap();
        assert_eq!(signals.next(), Some(Arrived { signal: SIGUSR2, to_group: false, by: own, word: 0 }));
        assert_eq!(signals.next(), None);
    }

    #[test]
    fn a_signal_that_is_ignored_stays_ignored() {
        #[expect(unsafe_code, reason = "no safe binding for dispositions")]
        // SAFETY: plain calls; no other test of this program uses this signal, which the calling thread sends to itself.
        let signals = unsafe {
            libc::signal(SIGALRM, libc::SIG_IGN);
            let signals = Signals::block(&[SIGALRM, SIGUSR2]).unwrap();
            libc::raise(SIGALRM);
            signals
        };
        assert_eq!(signals.next(), None);
        default_action(SIGALRM);
    }

    #[test]
    fn a_program_is_spared_what_is_blocked_here() {
        let inherited = Signals::block(&[SIGUSR1]).unwrap();
        let signals = Signals::block(&[SIGUSR2]).unwrap();
        let blocked = |spare: &[&Signals]| {
            // Not by way of a shell: some block nothing.
            let mut command = Command::new("sed");
            command.args(["-n", "s/^SigBlk:.//p", "/proc/self/status"]);
            spare.iter().for_each(|signals| signals.spare(&mut command));
            let said = String::from_utf8(command.output().unwrap().stdout).unwrap();
            let mask = u64::from_str_radix(said.trim(), 16).unwrap();
            [SIGUSR1, SIGUSR2].map(|signal| mask & (1 << (signal - 1)) != 0)
        };
        assert_eq!(blocked(&[]), [true, true]);
        assert_eq!(blocked(&[&signals]), [true, false]);
        assert_eq!(blocked(&[&inherited]), [false, false]);
    }
}
