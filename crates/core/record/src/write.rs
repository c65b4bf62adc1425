//! Writes a recording.

use std::io::{self, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use pinfold_policy::Policy;

use crate::frame::{FORM, Frame, Head, Step};

/// Counts the bytes written.
#[derive(Debug)]
struct Counting<W> {
    inner: W,
    bytes: u64,
}

impl<W: Write> Write for Counting<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.inner.write(bytes)?;
        self.bytes = self.bytes.saturating_add(written as u64);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

/// A recording during writing.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: GzEncoder<Counting<W>>,
}

impl<W: Write> Writer<W> {
    /// Begins a recording with the scheduler's current state.
    ///
    /// # Errors
    /// When `out` fails.
    pub fn begin(out: W, state: Policy, begun_us: u64) -> io::Result<Self> {
        let out = GzEncoder::new(Counting { inner: out, bytes: 0 }, Compression::fast());
        let mut writer = Self { out };
        let program = env!("CARGO_PKG_VERSION").to_owned();
        writer.put(&Frame::Head(Head { form: FORM, program, begun_us }))?;
        writer.put(&Frame::State(Box::new(state)))?;
        Ok(writer)
    }

    /// Adds a step.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn step(&mut self, step: Step) -> io::Result<()> {
        self.put(&Frame::Step(Box::new(step)))
    }

    /// Adds a frame of any kind, as a copy of a recording does.
    pub(crate) fn put<T: serde::Serialize>(&mut self, frame: &T) -> io::Result<()> {
        ciborium::into_writer(frame, &mut self.out).map_err(|error| match error {
            ciborium::ser::Error::Io(error) => error,
            ciborium::ser::Error::Value(words) => io::Error::other(words),
        })
    }

    /// An empty recording, to copy frames into.
    pub(crate) fn bare(out: W) -> Self {
        Self { out: GzEncoder::new(Counting { inner: out, bytes: 0 }, Compression::default()) }
    }

    /// Bytes that reached the file, without unflushed data.
    pub fn bytes(&self) -> u64 {
        self.out.get_ref().bytes
    }

    /// Flushes all steps to the file, so that a reader finds the steps even if this process is killed.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Ends the recording and returns the file.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn finish(self) -> io::Result<W> {
        Ok(self.out.finish()?.inner)
    }
}
