//! The process that a batch's user typed: it passes signals on to the keeper, and the keeper sees when it is gone.

use std::io::PipeReader;
use std::process::ExitCode as ProcessExit;

use pinfold_sys::signals::{SIGCHLD, Signals};
use pinfold_sys::{ready, spawn};

use crate::keeper::send_signal;

/// Passes signals on to the keeper until it ends, then ends as it did.
pub(super) fn proxy(keeper: u32, signals: &Signals) -> ProcessExit {
    loop {
        let _ = ready::readable(signals, None);
        while let Some(arrived) = signals.next() {
            if arrived.signal != SIGCHLD {
                send_signal(keeper, arrived.signal);
            }
        }
        // A private daemon that was started from here is a child as well.
        while let Some(reaped) = spawn::reap() {
            if reaped.pid == keeper {
                return ProcessExit::from(crate::run::status(&reaped));
            }
        }
    }
}

/// Whether the other end of the pipe is closed: its owner, the command the user typed, is gone.
pub(super) fn hung_up(alive: &PipeReader) -> bool {
    ready::is_hung_up(alive)
}
