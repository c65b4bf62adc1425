//! Reads the output of tasks and labels its lines with task numbers.
//!
//! Each stream has a thread: a stream that waits for its own reader blocks no other stream, and no signal.

use std::io::{self, BufRead as _, BufReader, PipeReader, PipeWriter, Read, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::process::Child;
use std::thread;

use pinfold_sys::ready;

/// The readers of tasks' output. The descriptor `end` hangs up once all readers are done.
pub(super) struct Readers {
    end: PipeReader,
    /// Each reader holds a copy; `None`: no further readers.
    open: Option<PipeWriter>,
}

impl Readers {
    /// No readers yet.
    ///
    /// # Errors
    /// When no descriptor is left.
    pub(super) fn new() -> io::Result<Self> {
        let (end, open) = io::pipe()?;
        Ok(Self { end, open: Some(open) })
    }

    /// Reads the piped output of a task.
    ///
    /// # Errors
    /// When no descriptor or thread is left.
    pub(super) fn read(&mut self, child: &mut Child, task: u32) -> io::Result<()> {
        let Some(open) = &self.open else { return Ok(()) };
        if let Some(from) = child.stdout.take() {
            begin(open.try_clone()?, from, task, |text| io::stdout().lock().write_all(text))?;
        }
        if let Some(from) = child.stderr.take() {
            begin(open.try_clone()?, from, task, |text| io::stderr().lock().write_all(text))?;
        }
        Ok(())
    }

    /// No task starts any more.
    pub(super) fn are_all(&mut self) {
        self.open = None;
    }

    /// Whether all readers have finished, after [`Self::are_all`].
    pub(super) fn are_done(&self) -> bool {
        ready::is_hung_up(&self.end)
    }
}

impl AsFd for Readers {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.end.as_fd()
    }
}

fn begin(
    open: PipeWriter,
    from: impl Read + Send + 'static,
    task: u32,
    mut write: impl FnMut(&[u8]) -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let read = move || {
        let mut from = BufReader::new(from);
        let mut line = Vec::new();
        while from.read_until(b'\n', &mut line).is_ok_and(|count| count > 0) {
            let mut text = format!("{task}: ").into_bytes();
            text.append(&mut line);
            // A call per line keeps lines of several tasks whole. A closed pipe is no error.
            let _ = write(&text);
        }
        drop(open);
    };
    thread::Builder::new().spawn(read).map(drop)
}
