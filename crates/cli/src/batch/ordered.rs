//! The outputs of lines that ended before others that stand before them (`--keep-order`): kept in one file, whatever
//! their number, until it is their turn.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::rc::Rc;

/// Where the two outputs of a line lie in the file, and how long they are, in bytes.
pub(super) type Places = [(u64, u64); 2];

/// See the module's page.
pub(super) struct Ordered {
    /// The lines by their tickets, in the order in which they are printed; what is before `next` was.
    tickets: Vec<u64>,
    next: usize,
    spool: Rc<File>,
    /// Where the file ends, in bytes.
    end: u64,
    /// Of each that waits; `None`: it has no outputs.
    waits: BTreeMap<u64, Option<Places>>,
}

impl Ordered {
    /// For these lines, in order.
    pub(super) fn new(tickets: Vec<u64>) -> io::Result<Self> {
        let spool = Rc::new(tempfile::tempfile()?);
        Ok(Self { tickets, next: 0, spool, end: 0, waits: BTreeMap::new() })
    }

    /// A line is over, with what it wrote.
    pub(super) fn over(&mut self, ticket: u64, outputs: Option<[File; 2]>) -> io::Result<()> {
        self.tidy()?;
        let places = match outputs {
            Some([out, err]) => Some([self.keep(out)?, self.keep(err)?]),
            None => None,
        };
        self.waits.insert(ticket, places);
        Ok(())
    }

    fn keep(&mut self, mut output: File) -> io::Result<(u64, u64)> {
        output.seek(SeekFrom::Start(0))?;
        let at = (&*self.spool).seek(SeekFrom::Start(self.end))?;
        let length = io::copy(&mut output, &mut &*self.spool)?;
        self.end = at + length;
        Ok((at, length))
    }

    /// The next line whose turn it is, if it is over; `rest`: those that never ran are passed over.
    pub(super) fn next(&mut self, rest: bool) -> Option<(u64, Option<Places>)> {
        loop {
            let ticket = *self.tickets.get(self.next)?;
            let found = self.waits.remove(&ticket);
            if found.is_none() && !rest {
                return None;
            }
            self.next += 1;
            if let Some(places) = found {
                return Some((ticket, places));
            }
        }
    }

    /// What lies there, as a part of the file.
    pub(super) fn part(&self, (at, length): (u64, u64)) -> (Rc<File>, u64, u64) {
        (self.spool.clone(), at, length)
    }

    /// Nothing waits any more, nor is about to be printed: what was needs no room.
    fn tidy(&mut self) -> io::Result<()> {
        if self.waits.is_empty() && Rc::strong_count(&self.spool) == 1 {
            self.spool.set_len(0)?;
            self.end = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;

    use super::*;

    fn wrote(text: &str) -> Option<[File; 2]> {
        let mut out = tempfile::tempfile().expect("a file");
        out.write_all(text.as_bytes()).expect("it takes it");
        Some([out, tempfile::tempfile().expect("a file")])
    }

    fn printed(ordered: &mut Ordered, rest: bool) -> String {
        let mut text = String::new();
        while let Some((_, places)) = ordered.next(rest) {
            if let Some([out, _]) = places {
                let (spool, at, length) = ordered.part(out);
                let mut bytes = vec![0; usize::try_from(length).expect("a short text")];
                spool.read_exact_at(&mut bytes, at).expect("it was kept");
                text += std::str::from_utf8(&bytes).expect("text");
            }
        }
        ordered.tidy().expect("a file");
        text
    }

    #[test]
    fn each_is_printed_when_all_before_it_were() {
        let mut ordered = Ordered::new(vec![0, 1, 3, 4]).expect("a file");
        ordered.over(1, wrote("one ")).expect("kept");
        ordered.over(4, wrote("four ")).expect("kept");
        assert_eq!(printed(&mut ordered, false), "");
        ordered.over(0, wrote("zero ")).expect("kept");
        assert_eq!(printed(&mut ordered, false), "zero one ");
        ordered.over(3, None).expect("kept");
        assert_eq!(printed(&mut ordered, false), "four ");
        assert_eq!(ordered.end, 0, "nothing is kept any more");
    }

    #[test]
    fn at_the_end_those_that_never_ran_are_passed_over() {
        let mut ordered = Ordered::new(vec![0, 1, 2]).expect("a file");
        ordered.over(2, wrote("two")).expect("kept");
        assert_eq!(printed(&mut ordered, true), "two");
    }
}
