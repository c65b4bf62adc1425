//! Outputs of lines on their way to standard output and standard error: as much as their readers take.
//!
//! A reader may stop. The keeper of the lines has their ends to hear, and signals, so it never waits in a write. Owns
//! the outputs that are still to be printed. Absent here: their order.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt as _;
use std::rc::Rc;
use std::time::Duration;

use pinfold_sys::ready::{self, Wanted};

use super::spool::{Place, Spool};

/// Bytes written at once to a stream that may have a reader: a pipe with any room has this much (`PIPE_BUF`).
const TO_READER: usize = 4096;
/// Bytes written at once to a file.
const TO_FILE: usize = 1 << 20;
/// No more lines are started while this many outputs wait,
const PARTS_MAX: usize = 1000;
/// or the file of waiting outputs has come to this size: its room is reused once no output waits.
const SPOOLED_MAX: u64 = 256 << 20;
/// Pieces written before other work has its turn.
const PIECES_AT_ONCE: usize = 256;

/// A standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out = 0,
    Err = 1,
}

/// A part of a file that is to be printed.
struct Part {
    from: Rc<File>,
    at: u64,
    left: u64,
    to: Stream,
    /// The text before each line.
    tag: Option<Vec<u8>>,
    /// Whether the next byte begins a line.
    begins: bool,
}

/// See the module's page.
pub(super) struct Printer {
    /// `None`: the outputs are not wanted any more.
    streams: Option<[(File, usize); 2]>,
    parts: VecDeque<Part>,
    /// Bytes of the first part that are read and not written yet.
    piece: Vec<u8>,
    /// Keeps all outputs that wait behind others.
    spool: Spool,
}

impl Printer {
    /// To the streams of this process.
    pub(super) fn new() -> io::Result<Self> {
        let of = |stream: &dyn AsFd| -> io::Result<(File, usize)> {
            let file = File::from(stream.as_fd().try_clone_to_owned()?);
            let at_once = if file.metadata()?.is_file() { TO_FILE } else { TO_READER };
            Ok((file, at_once))
        };
        Ok(Self::to([of(&io::stdout())?, of(&io::stderr())?]))
    }

    fn to(streams: [(File, usize); 2]) -> Self {
        Self { streams: Some(streams), parts: VecDeque::new(), piece: Vec::new(), spool: Spool::new() }
    }

    /// Whether the outputs of many lines wait for a reader, or much output does.
    pub(super) fn is_far_behind(&self) -> bool {
        let parts = self.parts.len();
        parts > PARTS_MAX || (parts > 0 && self.spool.size() > SPOOLED_MAX)
    }

    /// Lets a file be printed after all earlier files.
    pub(super) fn add(&mut self, file: File, to: Stream, tag: Option<&[u8]>) -> io::Result<()> {
        let left = file.metadata()?.len();
        if left == 0 || self.streams.is_none() {
            return Ok(());
        }
        // The first output is printed from its own file; so is an output without room for a copy.
        let place = if self.parts.is_empty() { Place::Own(file) } else { self.spool.keep(file) };
        let part = match place {
            Place::Part(spool, at, left) => (spool, at, left),
            Place::Own(file) => (Rc::new(file), 0, left),
        };
        self.add_part(part, to, tag);
        Ok(())
    }

    /// As [`Self::add`], for an output that was kept elsewhere.
    pub(super) fn add_kept(&mut self, place: Place, to: Stream, tag: Option<&[u8]>) -> io::Result<()> {
        match place {
            Place::Part(spool, at, left) => self.add_part((spool, at, left), to, tag),
            Place::Own(file) => self.add(file, to, tag)?,
        }
        Ok(())
    }

    fn add_part(&mut self, part: (Rc<File>, u64, u64), to: Stream, tag: Option<&[u8]>) {
        let (from, at, left) = part;
        if left > 0 && self.streams.is_some() {
            self.parts.push_back(Part { from, at, left, to, tag: tag.map(<[u8]>::to_vec), begins: true });
        }
    }

    /// Prints as much as is taken now, or a good piece of it. On failure the part that could not be printed is left out.
    pub(super) fn print(&mut self) -> io::Result<()> {
        for _ in 0..PIECES_AT_ONCE {
            let Some(part) = self.parts.front() else { return Ok(()) };
            let Some(streams) = &self.streams else { return Ok(()) };
            let (stream, at_once) = (&streams[part.to as usize].0, streams[part.to as usize].1);
            if !ready::wait(vec![Wanted::output(stream)], Some(Duration::ZERO)).unwrap_or(false) {
                return Ok(());
            }
            let printed = match self.piece.is_empty() {
                true => self.read(at_once),
                false => Ok(()),
            };
            if let Err(error) = printed.and_then(|()| self.write()) {
                self.piece.clear();
                self.parts.pop_front();
                return Err(error);
            }
            if self.piece.is_empty() && self.parts.front().is_some_and(|part| part.left == 0) {
                self.parts.pop_front();
            }
        }
        Ok(())
    }

    fn read(&mut self, at_once: usize) -> io::Result<()> {
        let Some(part) = self.parts.front_mut() else { return Ok(()) };
        let mut read = vec![0; usize::try_from(part.left).unwrap_or(at_once).min(at_once)];
        let count = part.from.read_at(&mut read, part.at)?;
        read.truncate(count);
        part.at += count as u64;
        // A process with the open file may have truncated it.
        part.left = if count == 0 { 0 } else { part.left - count as u64 };
        match &part.tag {
            None => self.piece = read,
            Some(tag) => {
                for line in read.split_inclusive(|&byte| byte == b'\n') {
                    if part.begins {
                        self.piece.extend_from_slice(tag);
                        self.piece.push(b'\t');
                    }
                    self.piece.extend_from_slice(line);
                    part.begins = line.ends_with(b"\n");
                }
                if part.left == 0 && !part.begins {
                    self.piece.push(b'\n');
                }
            }
        }
        Ok(())
    }

    fn write(&mut self) -> io::Result<()> {
        let (Some(part), Some(streams)) = (self.parts.front(), &mut self.streams) else { return Ok(()) };
        let (stream, at_once) = &mut streams[part.to as usize];
        let size = self.piece.len().min(*at_once);
        match stream.write(&self.piece[..size]) {
            Ok(count) => drop(self.piece.drain(..count)),
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// The stream to wait for before more is printed.
    pub(super) fn wanted(&self) -> Option<Wanted<'_>> {
        let to = self.parts.front()?.to;
        self.streams.as_ref().map(|streams| Wanted::output(&streams[to as usize].0))
    }

    /// Stops printing, without waiting for the ends of the streams; says whether output is left.
    pub(super) fn give_up(&mut self) -> bool {
        self.streams = None;
        self.piece.clear();
        !std::mem::take(&mut self.parts).is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::os::fd::OwnedFd;

    use super::super::spool::wrote;
    use super::*;

    fn printer() -> (Printer, [io::PipeReader; 2]) {
        let (out, to_out) = io::pipe().expect("a pipe");
        let (err, to_err) = io::pipe().expect("a pipe");
        let streams = [to_out, to_err].map(|pipe| (File::from(OwnedFd::from(pipe)), TO_READER));
        (Printer::to(streams), [out, err])
    }

    #[test]
    fn lines_have_their_tags() {
        let (mut printer, [mut out, mut err]) = printer();
        printer.add(wrote("a\n\nb"), Stream::Out, Some(b"t")).expect("kept");
        printer.add(wrote("plain"), Stream::Err, None).expect("kept");
        printer.add(wrote("more"), Stream::Out, None).expect("kept");
        printer.add(wrote(""), Stream::Out, Some(b"t")).expect("kept");
        printer.print().expect("printed");
        assert!(printer.wanted().is_none() && !printer.give_up());
        let (mut said, mut errors) = (String::new(), String::new());
        out.read_to_string(&mut said).expect("text");
        err.read_to_string(&mut errors).expect("text");
        assert_eq!((&said[..], &errors[..]), ("t\ta\nt\t\nt\tb\nmore", "plain"));
    }

    #[test]
    fn what_finds_no_room_in_the_file_is_printed_from_its_own() {
        for spool in [Spool::full(), Spool::without_file()] {
            let (mut printer, [mut out, _err]) = printer();
            printer.spool = spool;
            for text in ["first ", "second ", "third "] {
                printer.add(wrote(text), Stream::Out, None).expect("kept");
            }
            printer.add_kept(Place::Own(wrote("fourth")), Stream::Out, None).expect("kept");
            printer.print().expect("printed");
            printer.give_up();
            let mut said = String::new();
            out.read_to_string(&mut said).expect("text");
            assert_eq!(said, "first second third fourth");
        }
    }

    #[test]
    fn much_that_waits_keeps_lines_from_starting() {
        let (mut printer, [_out, _err]) = printer();
        printer.spool = Spool::of(tempfile::tempfile().expect("a file"), SPOOLED_MAX + 1);
        assert!(!printer.is_far_behind(), "all of it was printed");
        printer.add(wrote("waits"), Stream::Out, None).expect("kept");
        assert!(printer.is_far_behind());
        printer.print().expect("printed");
        assert!(!printer.is_far_behind());
        (0..=PARTS_MAX).for_each(|_| printer.add(wrote("a"), Stream::Out, None).expect("kept"));
        assert!(printer.is_far_behind());
    }

    #[test]
    fn a_reader_that_stops_is_not_waited_for() {
        let (mut printer, [mut out, _err]) = printer();
        let text = |letter: &str| letter.repeat(100_000);
        let mut want = String::new();
        for letter in ["a", "b", "c"] {
            printer.add(wrote(&text(letter)), Stream::Out, None).expect("kept");
            want += &text(letter);
            (0..3).for_each(|_| printer.print().expect("it takes a part"));
            assert!(printer.wanted().is_some());
        }
        let mut said = vec![0; want.len()];
        let mut at = 0;
        while at < want.len() {
            printer.print().expect("printed");
            at += out.read(&mut said[at..]).expect("a part");
        }
        assert_eq!(String::from_utf8(said).expect("text"), want);
        assert!(printer.wanted().is_none());
        drop(out);
        // What another test starts at this moment has the pipe open as well, until it executes its program.
        let error = loop {
            printer.add(wrote("lost"), Stream::Out, None).expect("kept");
            if let Err(error) = printer.print() {
                break error;
            }
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
