//! The processes that a keeper starts: how their programs are made, how they ended, and signals for them.

use std::time::SystemTime;

use pinfold_proto::Ending;
use pinfold_sys::signals::{self, SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use pinfold_sys::spawn::{Program, Reaped, ResolveError};

/// Makes the program of the job with this ticket, at the moment it is forked.
pub(crate) type MakeProgram = Box<dyn Fn(u64) -> Result<Program, ResolveError>>;

/// Name and value of a variable of the job with this ticket, at the moment it is let go.
pub(crate) type OwnVariable = Box<dyn Fn(u64) -> (String, String)>;

/// Sends a signal to a child that leads a session of its own, and to all processes in its group.
pub(crate) fn send_signal_to_group(pid: u32, signal: i32) {
    signals::send_to_group(pid, signal);
}

/// Sends a signal to a child; a child that is gone already needs none.
pub(crate) fn send_signal(pid: u32, signal: i32) {
    signals::send(pid, signal);
}

/// Whether a command ended by a signal that a user sends to end programs, by the exit of the command or of its shell
/// (128+N).
pub(crate) fn ended_by_signal(reaped: &Reaped) -> bool {
    let signal = reaped.signal.or_else(|| reaped.exit_code.map(|code| code - 128));
    signal.is_some_and(|signal| [SIGHUP, SIGINT, SIGQUIT, SIGTERM].contains(&signal))
}

/// How a command ended, for the daemon.
pub(super) fn ending_of(reaped: &Reaped) -> Ending {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Ending {
        exit_code: reaped.exit_code,
        signal: reaped.signal,
        ended_us: u64::try_from(now.as_micros()).unwrap_or(u64::MAX),
        cpu_user_us: reaped.cpu_user_us,
        cpu_system_us: reaped.cpu_system_us,
        rss_peak_bytes: reaped.rss_peak_bytes,
        io_read_bytes: reaped.io_read_bytes,
        io_write_bytes: reaped.io_write_bytes,
        faults_minor: Some(reaped.faults_minor),
        faults_major: Some(reaped.faults_major),
        switches_voluntary: Some(reaped.switches_voluntary),
        switches_forced: Some(reaped.switches_forced),
    }
}
