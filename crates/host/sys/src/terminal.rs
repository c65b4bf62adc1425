//! The terminal at standard input and output: its size, and keys as they are typed. Absent here: drawing.

use std::io;
use std::time::Duration;

use rustix::stdio::{stdin, stdout};
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};

use crate::ready;

/// Columns and lines of the terminal at standard output; `None`: no terminal, or unknown.
#[must_use]
pub fn size() -> Option<(usize, usize)> {
    let size = tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0).then(|| (usize::from(size.ws_col), usize::from(size.ws_row)))
}

/// The terminal at standard input hands keys over as they are typed and does not show them, until this is dropped.
#[derive(Debug)]
pub struct Raw {
    before: Termios,
}

impl Raw {
    /// Takes the terminal over.
    ///
    /// # Errors
    /// When standard input is no terminal.
    pub fn take() -> io::Result<Self> {
        let before = tcgetattr(stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }

    /// Waits for keys until `limit` is over; `false`: none came.
    #[must_use]
    pub fn has_input(&self, limit: Duration) -> bool {
        ready::readable(&stdin(), Some(limit)).unwrap_or(false)
    }

    /// Reads typed bytes; 0 bytes: the terminal is gone.
    ///
    /// # Errors
    /// A system error.
    pub fn read(&self, bytes: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(stdin(), bytes)?)
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}
