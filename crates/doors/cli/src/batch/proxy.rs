//! The process that a batch's user typed: it passes signals on to the keeper, and the keeper sees when it is gone. The lines
//! lead sessions of their own, so that no signal of the terminal reaches them by itself.

use std::process::ExitCode as ProcessExit;

use pinfold_sys::signals::{
    SIGALRM, SIGCHLD, SIGCONT, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2, Signals,
};
use pinfold_sys::{ready, spawn};

use crate::keeper::send_signal;

/// The signals that a batch hears: its lines react as a command in the foreground does.
pub(super) const HEARD: [i32; 9] =
    [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2, SIGALRM];

/// Passes signals on to the keeper until it ends, then ends as it did. `SIGTSTP` stops this process as well, for the shell
/// that waits for it.
pub(super) fn proxy(keeper: u32, signals: &Signals) -> ProcessExit {
    loop {
        let _ = ready::readable(signals, None);
        while let Some(arrived) = signals.next() {
            if arrived.signal != SIGCHLD {
                send_signal(keeper, arrived.signal);
            }
            if arrived.signal == SIGTSTP {
                send_signal(std::process::id(), SIGSTOP);
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
