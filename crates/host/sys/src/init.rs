//! The first process of a container (`docker run IMAGE pinfoldd`). Whatever loses its parent there becomes its child, and is a
//! zombie for ever, with a number that counts against the container's limit, unless it is reaped.
//!
//! Absent here: what the program does.

use std::io;
use std::time::{Duration, Instant};

use rustix::process::{WaitId, WaitIdOptions, waitid};

use crate::fork::{Side, fork, leave, reap};
use crate::ready;
use crate::signals::{self, SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGTERM, Signals};

/// What the program hears of instead of its parent.
const HANDED_ON: [i32; 4] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT];

/// How long others may go on once the program was killed. With the first process all are killed, also the one that is
/// about to thaw what the program froze; what a freezer of the first generation holds would not die.
const AFTER_A_KILL: Duration = Duration::from_secs(3);

/// Has the program go on in a child if this is the first process, which must have one thread: this one reaps whoever ends,
/// hands signals on, and ends as that child does. Any other process just goes on.
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
        // An interrupted wait is a short one.
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
        // It fails once there is none.
        if left.is_zero() || waitid(WaitId::All, any).is_err() {
            return;
        }
        let _ = ready::readable(arriving, Some(left));
        while arriving.next().is_some() {}
    }
}
