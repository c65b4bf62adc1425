//! Lines that come while other lines run: the list is a pipe, and its writer may pause.

use std::time::Duration;

use pinfold_sys::ready;

use super::outcome::Outcome;
use super::{Batch, WINDOW, ticket};

impl Batch {
    /// Whether more lines are read: not while many wait already.
    pub(super) fn wants_lines(&self) -> bool {
        self.work.order.len() - self.next < WINDOW
    }

    /// Takes the lines that have come. A batch that is over early reads none.
    pub(super) fn read_on(&mut self) {
        if self.is_over_early() {
            self.work.feed = None;
        }
        let wants = self.wants_lines();
        let Some(feed) = self.work.feed.as_mut().filter(|_| wants) else { return };
        if !ready::readable(feed, Some(Duration::ZERO)).unwrap_or(true) {
            return;
        }
        match feed.lines() {
            Ok(Some(read)) => read.iter().for_each(|line| self.work.lines.borrow_mut().take(line)),
            Ok(None) => {
                self.work.feed = None;
                self.work.lines.borrow_mut().flush();
            }
            Err(error) => {
                self.work.feed = None;
                self.lost = true;
                self.progress.note(&format!("the rest of the list cannot be read: {error}"));
            }
        }
        let (known, count) = (self.outcomes.len(), self.work.lines.borrow().count());
        self.outcomes.resize(count, Outcome::default());
        self.work.order.extend(known..count);
        (known..count).for_each(|index| self.work.sink.expect(ticket(index)));
        self.progress.expect(count - known, self.work.feed.is_some());
    }
}
