//! The line that shows on a terminal how far a batch is. Absent elsewhere: nothing is drawn into pipes and files.

use std::io::Write;
use std::time::{Duration, Instant};

/// How often the line is drawn anew.
const INTERVAL: Duration = Duration::from_millis(200);

/// The progress of a batch.
#[derive(Debug)]
pub(crate) struct Progress {
    shown: bool,
    jobs: usize,
    /// Whether more jobs may follow.
    open: bool,
    done: usize,
    failed: usize,
    next: Instant,
    drawn: bool,
}

impl Progress {
    /// Progress over `jobs` jobs, and more if `open`, drawn only if `shown`.
    pub(crate) fn new(shown: bool, jobs: usize, open: bool) -> Self {
        Self { shown, jobs, open, done: 0, failed: 0, next: Instant::now(), drawn: false }
    }

    /// Adds jobs; `open`: more may follow.
    pub(crate) fn expect(&mut self, jobs: usize, open: bool) {
        self.jobs += jobs;
        self.open = open;
    }

    /// A job is over.
    pub(crate) fn ended(&mut self, failed: bool) {
        self.done += 1;
        self.failed += usize::from(failed);
    }

    /// How long until the line is to be drawn again.
    pub(crate) fn due(&self) -> Option<Duration> {
        self.shown.then(|| self.next.saturating_duration_since(Instant::now()))
    }

    /// Draws the line if its time has come.
    pub(crate) fn show(&mut self, running: usize, elapsed: Duration) {
        let now = Instant::now();
        if !self.shown || now < self.next {
            return;
        }
        self.next = now + INTERVAL;
        self.drawn = true;
        let failed = if self.failed > 0 { format!(", {} failed", self.failed) } else { String::new() };
        let text = format!(
            "{}/{}{} done, {running} running{failed}, {}{}",
            self.done,
            self.jobs,
            if self.open { "+" } else { "" },
            clock(elapsed),
            self.left(elapsed)
        );
        let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
    }

    /// The remaining jobs' time at the rate so far.
    fn left(&self, elapsed: Duration) -> String {
        if self.open || self.done == 0 || self.done >= self.jobs {
            return String::new();
        }
        let done = u32::try_from(self.done).unwrap_or(u32::MAX);
        let rest = u32::try_from(self.jobs - self.done).unwrap_or(u32::MAX);
        let left = (elapsed / done).saturating_mul(rest);
        format!(", about {} left", clock(left))
    }

    /// Prints a remark above the line; without a line, plainly.
    pub(crate) fn note(&mut self, text: &str) {
        self.clear();
        crate::print::say(text);
    }

    /// Takes the line away.
    pub(crate) fn clear(&mut self) {
        if self.drawn {
            self.drawn = false;
            self.next = Instant::now();
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn clock(duration: Duration) -> String {
    let s = duration.as_secs();
    if s >= 3600 {
        format!("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60)
    } else {
        format!("{}:{:02}", s / 60, s % 60)
    }
}
