//! A watchdog of the loop: how long its turns take, from the poller's return until the next wait, and what the loop was
//! busy with in those that took longest.
//!
//! Owns the figures since the daemon's start, of a fixed size whatever happens. A turn costs two readings of the monotonic
//! clock, and one more each time that the loop takes up another kind of work. Pure but for [`Watchdog`], which reads that
//! clock. Absent here: where they are told (`answer.rs`, `metrics.rs`), and anything that ends a turn that takes long.

use std::collections::VecDeque;
use std::time::{Duration, Instant as Moment};

use pinfold_profile::metrics::LoopFigures;
use pinfold_profile::report::units;
use pinfold_proto::view::{FindingView, LongestTurnView, LoopView, seconds};

mod histogram;
pub(crate) mod work;

use histogram::Histogram;

/// A turn that takes longer is warned of.
const SLOW: Duration = Duration::from_millis(100);
/// Warnings are at least so far apart.
const WARNED_EVERY: Duration = Duration::from_secs(60);
/// So many seconds are the last minute.
const MINUTE_S: u64 = 60;
/// Up to these times turns are counted for a monitoring system, in microseconds, ascending.
const BOUNDS_US: [u64; 9] = [100, 300, 1_000, 3_000, 10_000, 30_000, 100_000, 1_000_000, 10_000_000];

/// The watchdog with its clock.
#[derive(Debug)]
pub(crate) struct Watchdog {
    start: Moment,
    /// The daemon's time at `start`, in microseconds since the Unix epoch.
    start_us: u64,
    turns: Turns,
}

impl Watchdog {
    /// A watchdog that has seen no turn; `now_us` is the daemon's time.
    pub(crate) fn new(now_us: u64) -> Self {
        Self { start: Moment::now(), start_us: now_us, turns: Turns::default() }
    }

    /// The poller has returned.
    pub(crate) fn begins(&mut self) {
        self.turns.begin(self.start.elapsed());
    }

    /// The loop takes up work of this kind.
    pub(crate) fn busy_with(&mut self, work: &'static str) {
        self.turns.busy_with(self.start.elapsed(), work);
    }

    /// The loop is about to wait again; a turn that took long is told to the log.
    pub(crate) fn ends(&mut self) {
        if let Some(Slow { turn, left_out }) = self.turns.end(self.start.elapsed()) {
            let took_ms = u64::try_from(turn.took.as_millis()).unwrap_or(u64::MAX);
            tracing::warn!(took_ms, busy_with = turn.busy_with, left_out, "a turn of the loop took long");
        }
    }

    /// What doctor tells; `None`: no turn has ended yet.
    pub(crate) fn view(&self) -> Option<LoopView> {
        self.turns.view(self.start.elapsed(), self.start_us)
    }

    /// The same in a line.
    pub(crate) fn finding(&self) -> Option<FindingView> {
        self.turns.finding(self.start.elapsed())
    }

    /// What a monitoring system is told.
    pub(crate) fn figures(&self) -> LoopFigures {
        self.turns.figures(self.start.elapsed())
    }
}

/// A turn that is over. Moments are told from the watchdog's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Turn {
    took: Duration,
    /// When it ended.
    at: Duration,
    /// The kind of work that took most of it.
    busy_with: &'static str,
}

impl Turn {
    /// To a second.
    fn ended_in_the_minute_before(&self, now: Duration) -> bool {
        now.as_secs().saturating_sub(self.at.as_secs()) < MINUTE_S
    }
}

/// A turn to be warned of.
#[derive(Debug, PartialEq, Eq)]
struct Slow {
    turn: Turn,
    /// How many others took long since the last warning.
    left_out: u64,
}

/// The turn that is not over.
#[derive(Debug)]
struct Open {
    begun: Duration,
    /// Since when it is busy with what it is busy with.
    since: Duration,
    work: &'static str,
}

/// The figures. The caller tells the time, which never goes backwards.
#[derive(Debug, Default)]
struct Turns {
    open: Option<Open>,
    /// What each kind of work has taken of the open turn. Kept, so that a turn allocates nothing.
    spent: Vec<(&'static str, Duration)>,
    histogram: Histogram,
    sum: Duration,
    /// How many took at most as long as the bound, and longer than the one before.
    within: [u64; BOUNDS_US.len()],
    longest: Option<Turn>,
    /// The longest that ended in each of the last seconds that had any, oldest first: [`MINUTE_S`] at most.
    minute: VecDeque<Turn>,
    warned: Option<Duration>,
    left_out: u64,
}

impl Turns {
    fn begin(&mut self, at: Duration) {
        self.spent.clear();
        self.open = Some(Open { begun: at, since: at, work: work::READING });
    }

    fn busy_with(&mut self, at: Duration, work: &'static str) {
        // What is done at the start and at the end of the daemon belongs to no turn.
        let Some(open) = &mut self.open else { return };
        let (before, took) = (open.work, at.saturating_sub(open.since));
        (open.work, open.since) = (work, at);
        match self.spent.iter_mut().find(|(known, _)| *known == before) {
            Some((_, spent)) => *spent += took,
            None => self.spent.push((before, took)),
        }
    }

    fn end(&mut self, at: Duration) -> Option<Slow> {
        self.busy_with(at, work::READING);
        let Open { begun, .. } = self.open.take()?;
        let busy_with =
            self.spent.iter().max_by_key(|(_, spent)| *spent).map_or(work::READING, |most| most.0);
        let turn = Turn { took: at.saturating_sub(begun), at, busy_with };
        self.count(turn);
        if turn.took <= SLOW {
            return None;
        }
        if self.warned.is_some_and(|warned| at.saturating_sub(warned) < WARNED_EVERY) {
            self.left_out += 1;
            return None;
        }
        self.warned = Some(at);
        Some(Slow { turn, left_out: std::mem::take(&mut self.left_out) })
    }

    fn count(&mut self, turn: Turn) {
        self.histogram.count(turn.took);
        self.sum += turn.took;
        let bound = BOUNDS_US.iter().position(|&bound_us| turn.took <= Duration::from_micros(bound_us));
        if let Some(bound) = bound {
            self.within[bound] += 1;
        }
        if self.longest.is_none_or(|longest| turn.took > longest.took) {
            self.longest = Some(turn);
        }
        let second = turn.at.as_secs();
        match self.minute.back_mut() {
            Some(last) if last.at.as_secs() == second => {
                if turn.took > last.took {
                    *last = turn;
                }
            }
            _ => self.minute.push_back(turn),
        }
        while self.minute.front().is_some_and(|first| !first.ended_in_the_minute_before(turn.at)) {
            self.minute.pop_front();
        }
    }

    /// The longest turn that ended in the last minute, to a second.
    fn of_last_minute(&self, now: Duration) -> Option<Turn> {
        let recent = self.minute.iter().filter(|turn| turn.ended_in_the_minute_before(now));
        recent.max_by_key(|turn| turn.took).copied()
    }

    fn view(&self, now: Duration, start_us: u64) -> Option<LoopView> {
        let at_s = |turn: Turn| seconds(start_us.saturating_add(whole_us(turn.at)));
        let longest = self.longest?;
        let quantile = |per_mille| self.histogram.quantile(per_mille).as_secs_f64();
        Some(LoopView {
            turns: self.histogram.total(),
            p50_s: quantile(500),
            p99_s: quantile(990),
            p999_s: quantile(999),
            max_s: longest.took.as_secs_f64(),
            max_at_s: at_s(longest),
            max_busy_with: longest.busy_with.to_owned(),
            last_minute: self.of_last_minute(now).map(|turn| LongestTurnView {
                max_s: turn.took.as_secs_f64(),
                max_at_s: at_s(turn),
                max_busy_with: turn.busy_with.to_owned(),
            }),
        })
    }

    fn finding(&self, now: Duration) -> Option<FindingView> {
        let longest = self.longest?;
        let told = |duration: Duration| units::duration(duration.as_secs_f64());
        let found = format!(
            "99.9 % of {} turns within {}, the longest {} ({}) {} ago",
            with_commas(self.histogram.total()),
            told(self.histogram.quantile(999)),
            told(longest.took),
            longest.busy_with,
            told(now.saturating_sub(longest.at)),
        );
        let slow = self.of_last_minute(now).filter(|turn| turn.took > SLOW);
        let change = slow.map(|turn| {
            let Turn { took, busy_with, .. } = turn;
            format!("a turn of the last minute took {} ({busy_with}): everybody waited meanwhile", told(took))
        });
        Some(FindingView { subject: "loop".to_owned(), ok: change.is_none(), found, change })
    }

    fn figures(&self, now: Duration) -> LoopFigures {
        let mut sum = 0;
        let cumulated = BOUNDS_US.iter().zip(self.within).map(|(&bound_us, count)| {
            sum += count;
            (bound_us, sum)
        });
        LoopFigures {
            within: cumulated.collect(),
            count: self.histogram.total(),
            sum_us: whole_us(self.sum),
            longest_us: self.longest.map_or(0, |turn| whole_us(turn.took)),
            last_minute_us: self.of_last_minute(now).map_or(0, |turn| whole_us(turn.took)),
        }
    }
}

fn whole_us(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// A number as people read it: `12,345`.
fn with_commas(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests;
