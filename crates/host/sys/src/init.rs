//! The first process of a container (`docker run IMAGE pinfoldd`). Every orphan there becomes its child, and unless
//! reaped stays a zombie with a number that counts against the container's limit.
//!
//! Absent here: the work of the program.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::fork::{Side, fork, leave, reap};
use crate::ready;
use crate::signals::{self, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, Signals};

/// The signals that go to the program instead of its parent.
const HANDED_ON: [i32; 4] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];

/// The time for the other processes after a kill of the program. The end of the first process kills all others, also
/// the guard that is about to thaw frozen jobs; members of a frozen first-generation group would not die.
const AFTER_A_KILL: Duration = Duration::from_secs(3);

/// If this is the first process, which must have one thread, continues the program in a child: this process reaps all
/// orphans, forwards signals, and ends as the child does. In any other process the function just returns.
///
/// # Errors
/// When no process or descriptor is left.
pub fn reap_for_others() -> io::Result<()> {
    if std::process::id() != 1 {
        return Ok(());
    }
    let arriving = Signals::block(&[&HANDED_ON[..], &[SIGCHLD]].concat())?;
    match fork()? {
        Side::Child => arriving.unblock(),
        Side::Parent(program) => leave(watch(program, &arriving)),
    }
}

/// Until the program ends; gives its exit status as a shell would.
fn watch(program: u32, arriving: &Signals) -> i32 {
    loop {
        while let Some(reaped) = reap() {
            if reaped.pid == program {
                if reaped.signal.is_some() {
                    let_others_end(arriving);
                }
                return reaped.exit_code.unwrap_or_else(|| 128 + reaped.signal.unwrap_or_default());
            }
        }
        // An interrupted wait counts as a short wait.
        let _ = ready::readable(arriving, None);
        while let Some(arrived) = arriving.next() {
            if arrived.signal != SIGCHLD {
                signals::send(program, arrived.signal);
            }
        }
    }
}

/// Reaps until no child is left, but not for long: some have no reason to end.
fn let_others_end(arriving: &Signals) {
    let until = Instant::now() + AFTER_A_KILL;
    let any = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    loop {
        while reap().is_some() {}
        let left = until.saturating_duration_since(Instant::now());
        // `waitid` fails once there is no child.
        if left.is_zero() || waitid(WaitId::All, any).is_err() {
            return;
        }
        let _ = ready::readable(arriving, Some(left));
        while arriving.next().is_some() {}
    }
}
