//! Outputs of lines and the job log, shown while other lines run.

use std::os::unix::ffi::OsStrExt as _;

use super::{Batch, Work, index};

impl Batch {
    /// Has the output of a line printed after its last try, once.
    pub(super) fn show(&mut self, ticket: u64) {
        if self.outcome(ticket).received.is_some() {
            return;
        }
        let received = self.work.sink.written(ticket, &self.work.lines.borrow());
        self.outcome(ticket).received = Some(received);
        if let Err(error) = self.work.sink.is_whole(ticket) {
            self.outcome(ticket).was_cut(&error);
            self.told_lost(|_| Err(error));
        }
        if self.work.sink.holds(ticket) && !self.orphaned {
            self.told_lost(|work| work.sink.print(ticket, &work.lines.borrow(), &mut work.printer));
            self.print();
        }
    }

    pub(super) fn log(&mut self, ticket: u64) {
        let index = index(ticket);
        if let Some(log) = &mut self.work.log {
            log.over(index, &self.outcomes[index], self.work.lines.borrow().line(index).as_bytes());
        }
    }

    /// Prints as much of the outputs as is taken now.
    pub(super) fn print(&mut self) {
        if self.work.printer.wanted().is_some() {
            self.progress.clear();
            self.told_lost(|work| work.printer.print());
        }
    }

    /// Prints outputs. A failure is reported, and the batch fails; a reader that stops early lacks nothing.
    pub(super) fn told_lost(&mut self, print: impl FnOnce(&mut Work) -> std::io::Result<()>) {
        if let Err(error) = print(&mut self.work)
            && error.kind() != std::io::ErrorKind::BrokenPipe
        {
            self.lost = true;
            self.progress.note(&format!("the output of a line is lost: {error}"));
        }
    }
}
