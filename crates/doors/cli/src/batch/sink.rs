//! Where the output of a batch's lines goes: as they write it, to a file each, or kept until a line ends and then printed
//! as a whole.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use pinfold_sys::spawn::ResolveError;

use super::args::BatchArgs;
use super::index;
use super::lines::Lines;
use super::ordered::Ordered;
use super::printer::{Printer, Stream};
use super::spool;
use crate::launch::Outputs;
use crate::output::{self, Named};
use crate::submit::files;
use pinfold_client::{
    Failure,
    outputs::{self, LINES},
};

/// Whether standard output or standard error goes somewhere: separate outputs that no reader sees would cost each line two files.
pub(super) fn is_seen() -> bool {
    let goes = |stream: BorrowedFd<'_>, on_terminal: bool| {
        let found = stream.try_clone_to_owned().and_then(|copy| File::from(copy).metadata());
        found.is_ok_and(|found| on_terminal || !found.file_type().is_char_device())
    };
    let (out, err) = (io::stdout(), io::stderr());
    goes(out.as_fd(), out.is_terminal()) || goes(err.as_fd(), err.is_terminal())
}

/// See the module's page.
#[derive(Clone)]
pub(super) enum Sink {
    /// The lines write to the streams of this process; with `true`, all to standard error.
    Through(bool),
    /// To files in this directory.
    Files(Rc<Path>),
    /// Kept until they end.
    Grouped {
        kept: Rc<RefCell<BTreeMap<u64, [File; 2]>>>,
        tagged: bool,
        to_err: bool,
        /// In the order of the lines, not in that of their ends.
        ordered: Option<Rc<RefCell<Ordered>>>,
    },
}

impl Sink {
    /// The sink that the options ask for; `seen`: standard output or standard error goes somewhere.
    pub(super) fn of(args: &BatchArgs, seen: bool) -> Result<Self, Failure> {
        // JSON alone goes to standard output.
        let to_err = matches!(args.json, Some(None));
        let named = args.output.iter().map(|directory| ("--output", directory));
        if let Some((option, directory)) =
            named.chain(args.results.iter().map(|tree| ("--results", tree))).next()
        {
            let made = std::fs::create_dir_all(directory);
            let what = || format!("{option} {}", directory.display());
            made.map_err(|error| Failure::doing(what(), &error))?;
            return Ok(Self::Files(directory.as_path().into()));
        }
        if args.tag || args.keep_order || (seen && !args.ungroup) {
            return Ok(Self::Grouped { kept: Rc::default(), tagged: args.tag, to_err, ordered: None });
        }
        Ok(Self::Through(to_err))
    }

    /// Prints outputs in the order of these lines, from now on.
    pub(super) fn keep_order(&mut self, tickets: Vec<u64>) -> Result<(), Failure> {
        if let Self::Grouped { ordered, .. } = self {
            let made = Ordered::new(tickets);
            let made =
                made.map_err(|error| Failure::doing("--keep-order: a file to keep output in", &error))?;
            *ordered = Some(Rc::new(RefCell::new(made)));
        }
        Ok(())
    }

    /// Prints the output of a further line behind the outputs of the others.
    pub(super) fn expect(&self, ticket: u64) {
        if let Self::Grouped { ordered: Some(ordered), .. } = self {
            ordered.borrow_mut().expect(ticket);
        }
    }

    /// Whether output of lines may come between other words on a terminal.
    pub(super) fn writes_through(&self) -> bool {
        matches!(self, Self::Through(_))
    }

    /// The streams of each line, by its ticket.
    pub(super) fn streams(&self, lines: &Rc<RefCell<Lines>>) -> Outputs {
        let (sink, lines) = (self.clone(), lines.clone());
        Rc::new(move |ticket| {
            let [out, err] = sink.open(ticket, &lines.borrow())?;
            // Standard input belongs to no line in particular, so no job gets it.
            Ok([files::null(), out, err])
        })
    }

    fn open(&self, ticket: u64, lines: &Lines) -> Result<[Option<OwnedFd>; 2], ResolveError> {
        match self {
            Self::Through(false) => Ok([None, None]),
            Self::Through(true) => Ok([io::stderr().as_fd().try_clone_to_owned().ok(), None]),
            Self::Files(_) => {
                let open = |path: &PathBuf| {
                    output::create_for_job(path, Named::ByRule)
                        .map_err(|error| ResolveError::Output(format!("{}: {error}", path.display())))
                };
                let [out, err] = self.paths(ticket, lines).unwrap_or_default();
                let failed = |error| ResolveError::Output(format!("{}: {error}", out.display()));
                if let (Some(_), Some(directory)) = (lines.tree(index(ticket)), out.parent()) {
                    let number = lines.number(index(ticket)).unwrap_or_default().to_string();
                    let made = std::fs::create_dir_all(directory);
                    made.and_then(|()| std::fs::write(directory.join("seq"), number)).map_err(failed)?;
                }
                Ok([Some(open(&out)?.into()), Some(open(&err)?.into())])
            }
            Self::Grouped { kept, .. } => {
                let failed =
                    |error: io::Error| ResolveError::Output(format!("a file to keep its output in: {error}"));
                let own = [spool::scratch().map_err(failed)?, spool::scratch().map_err(failed)?];
                let copy = |file: &File| file.try_clone().map(OwnedFd::from).map_err(failed);
                let copies = [Some(copy(&own[0])?), Some(copy(&own[1])?)];
                // The last try of a restarted line counts.
                kept.borrow_mut().insert(ticket, own);
                Ok(copies)
            }
        }
    }

    /// The files of a line that has files.
    pub(super) fn paths(&self, ticket: u64, lines: &Lines) -> Option<[PathBuf; 2]> {
        let Self::Files(directory) = self else { return None };
        if let Some(tree) = lines.tree(index(ticket)) {
            return Some(["stdout", "stderr"].map(|name| directory.join(tree).join(name)));
        }
        let line = lines.number(index(ticket))?;
        Some(["out", "err"].map(|ending| directory.join(format!("{line}.{ending}"))))
    }

    /// Notes for `pinfold log` the files of a line that has files.
    pub(super) fn keep(&self, socket: &Path, job: u64, ticket: u64, lines: &Lines) {
        if let Some([out, err]) = self.paths(ticket, lines) {
            outputs::keep(LINES, socket, job, false, &out, &err);
        }
    }

    /// Bytes that a line wrote to standard output, where that is known.
    pub(super) fn written(&self, ticket: u64, lines: &Lines) -> u64 {
        let found = match self {
            Self::Through(_) => None,
            Self::Files(_) => self.paths(ticket, lines).and_then(|[out, _]| std::fs::metadata(out).ok()),
            Self::Grouped { kept, .. } => kept.borrow().get(&ticket).and_then(|[out, _]| out.metadata().ok()),
        };
        found.map_or(0, |found| found.len())
    }

    /// Whether something is to be printed of a line that ended.
    pub(super) fn holds(&self, ticket: u64) -> bool {
        matches!(self, Self::Grouped { kept, ordered, .. } if ordered.is_some() || kept.borrow().contains_key(&ticket))
    }

    /// Whether the output of an ended line is complete, as far as it is kept here.
    pub(super) fn is_whole(&self, ticket: u64) -> io::Result<()> {
        let Self::Grouped { kept, .. } = self else { return Ok(()) };
        kept.borrow().get(&ticket).into_iter().flatten().try_for_each(spool::is_whole)
    }

    /// Prints the outputs of a line that ended, or keeps them until it is their turn.
    pub(super) fn print(&self, ticket: u64, lines: &Lines, printer: &mut Printer) -> io::Result<()> {
        let Self::Grouped { kept, tagged, to_err, ordered } = self else { return Ok(()) };
        let outputs = kept.borrow_mut().remove(&ticket);
        if let Some(ordered) = ordered {
            ordered.borrow_mut().over(ticket, outputs);
            return self.print_due(lines, false, printer);
        }
        let Some([out, err]) = outputs else { return Ok(()) };
        let tag = tagged.then(|| tag(lines, ticket));
        // A failure of the first output does not concern the second.
        let added = printer.add(out, out_of(*to_err), tag);
        added.and(printer.add(err, Stream::Err, tag))
    }

    /// Has the due lines printed; `rest`: all lines that are left. A lost output keeps no other back.
    pub(super) fn print_due(&self, lines: &Lines, rest: bool, printer: &mut Printer) -> io::Result<()> {
        let Self::Grouped { ordered: Some(ordered), tagged, to_err, .. } = self else { return Ok(()) };
        let mut ordered = ordered.borrow_mut();
        let mut added = Ok(());
        while let Some((ticket, places)) = ordered.next(rest) {
            let Some([out, err]) = places else { continue };
            let tag = tagged.then(|| tag(lines, ticket));
            added = added.and(printer.add_kept(out, out_of(*to_err), tag));
            added = added.and(printer.add_kept(err, Stream::Err, tag));
        }
        added
    }
}

/// Where standard output goes.
fn out_of(to_err: bool) -> Stream {
    if to_err { Stream::Err } else { Stream::Out }
}

fn tag(lines: &Lines, ticket: u64) -> &[u8] {
    lines.tag(index(ticket))
}
