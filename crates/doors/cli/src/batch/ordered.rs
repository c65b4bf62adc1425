//! Outputs of ended lines that wait for earlier lines (`--keep-order`): kept in a single file until their turn.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;

use super::spool::{Place, Spool};

/// Where the two outputs of a line lie.
pub(super) type Places = [Place; 2];

/// See the module's page.
pub(super) struct Ordered {
    /// The lines by their tickets, in the order in which they are printed; lines before `next` are printed.
    tickets: Vec<u64>,
    next: usize,
    spool: Spool,
    /// The outputs of each waiting line; `None`: no outputs.
    waits: BTreeMap<u64, Option<Places>>,
}

impl Ordered {
    /// For these lines, in order.
    pub(super) fn new(tickets: Vec<u64>) -> io::Result<Self> {
        Ok(Self { tickets, next: 0, spool: Spool::made()?, waits: BTreeMap::new() })
    }

    /// A further line follows the others.
    pub(super) fn expect(&mut self, ticket: u64) {
        self.tickets.push(ticket);
    }

    /// A line is over, with its outputs.
    pub(super) fn over(&mut self, ticket: u64, outputs: Option<[File; 2]>) {
        self.spool.tidy();
        // The output that is next needs no copy.
        let is_next = self.tickets.get(self.next) == Some(&ticket);
        let mut keep = |output| if is_next { Place::Own(output) } else { self.spool.keep(output) };
        let places = outputs.map(|[out, err]| [keep(out), keep(err)]);
        self.waits.insert(ticket, places);
    }

    /// The line that is next, if it is over; `rest`: lines that never ran are passed over.
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
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::FileExt as _;
    use std::rc::Rc;

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
                let (file, at, length) = match out {
                    Place::Part(file, at, length) => (file, at, length),
                    Place::Own(file) => {
                        let length = file.metadata().expect("a file").len();
                        (Rc::new(file), 0, length)
                    }
                };
                let mut bytes = vec![0; usize::try_from(length).expect("a short text")];
                file.read_exact_at(&mut bytes, at).expect("it was kept");
                text += std::str::from_utf8(&bytes).expect("text");
            }
        }
        ordered.spool.tidy();
        text
    }

    #[test]
    fn each_is_printed_when_all_before_it_were() {
        let mut ordered = Ordered::new(vec![0, 1, 3, 4]).expect("a file");
        ordered.over(1, wrote("one "));
        ordered.over(4, wrote("four "));
        assert_eq!(printed(&mut ordered, false), "");
        ordered.over(0, wrote("zero "));
        assert_eq!(printed(&mut ordered, false), "zero one ");
        ordered.over(3, None);
        assert_eq!(printed(&mut ordered, false), "four ");
        assert_eq!(ordered.spool.size(), 0, "nothing is kept any more");
    }

    #[test]
    fn a_full_disk_keeps_no_output_back() {
        for spool in [Spool::full(), Spool::without_file()] {
            let mut ordered = Ordered::new(vec![0, 1, 2, 3]).expect("a file");
            ordered.spool = spool;
            ordered.over(2, wrote("two "));
            ordered.over(1, wrote("one "));
            assert_eq!(printed(&mut ordered, false), "");
            ordered.over(0, wrote("zero "));
            assert_eq!(printed(&mut ordered, false), "zero one two ");
            ordered.over(3, wrote("three"));
            assert_eq!(printed(&mut ordered, false), "three");
        }
    }

    #[test]
    fn what_need_not_wait_is_not_copied() {
        let mut ordered = Ordered::new(vec![0, 1]).expect("a file");
        for ticket in [0, 1] {
            ordered.over(ticket, wrote("much"));
            let places = ordered.next(false).and_then(|(_, places)| places);
            assert!(matches!(places, Some([Place::Own(_), Place::Own(_)])));
            assert_eq!(ordered.spool.size(), 0);
        }
    }

    #[test]
    fn at_the_end_those_that_never_ran_are_passed_over() {
        let mut ordered = Ordered::new(vec![0, 1, 2]).expect("a file");
        ordered.over(2, wrote("two"));
        assert_eq!(printed(&mut ordered, true), "two");
    }
}
