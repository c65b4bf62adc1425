//! The results of the lines of a batch, and their forms.

use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime};

use pinfold_proto::view::{BatchResultView, BatchView, VERSION, seconds};
use pinfold_proto::{End, ExitCode, ended_well};

use super::Work;
use crate::run::TIMED_OUT;

/// The state of a line.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub job: Option<u64>,
    pub asked: Option<Instant>,
    pub started: Option<Instant>,
    /// When that was by the clock on the wall.
    pub started_at: Option<SystemTime>,
    /// When it was over, started or not.
    pub ended: Option<Instant>,
    pub exit_code: Option<i32>,
    pub signal: Option<i32>,
    pub end: Option<End>,
    pub cpu_us: u64,
    pub suspended_us: u64,
    pub memory_peak_bytes: u64,
    pub reason: Option<String>,
    /// How often it was asked for.
    pub attempts: u32,
    /// The line failed and is asked for again once that is on disk.
    pub to_be_tried_again: bool,
    /// The outcome was reported and counted.
    pub is_over: bool,
    /// The batch, which ended early, told the line to end as well.
    pub was_told_to_end: bool,
    /// Bytes that the line wrote to standard output, where they were seen; `None`: not all of its output is there yet.
    pub received: Option<u64>,
}

impl Outcome {
    pub(super) fn failed(&self) -> bool {
        !ended_well(self.exit_code, self.end)
    }

    /// Its exit code; of a line that exited with 0 and failed all the same, a code other than 0.
    pub(super) fn exit_value(&self) -> Option<i32> {
        match self.end.filter(|_| self.exit_code == Some(0)) {
            Some(end) if end.is_limit() => Some(i32::from(TIMED_OUT)),
            Some(_) => Some(i32::from(ExitCode::Failed.code())),
            None => self.exit_code,
        }
    }

    /// Its output may be cut: the line failed, also with exit code 0.
    pub(super) fn was_cut(&mut self, error: &io::Error) {
        self.exit_code =
            self.exit_code.map(|code| if code == 0 { ExitCode::Failed.code().into() } else { code });
        self.reason = Some(format!("the output: {error}"));
    }

    /// Whether the line's command ended, and the daemon has not told the cause of the end.
    pub(super) fn awaits_word(&self) -> bool {
        self.started.is_some() && self.ended.is_some() && !self.is_over
    }

    /// The line never starts: it waited until now, if it was asked for.
    pub(super) fn never_starts(&mut self, reason: String) {
        self.reason = Some(reason);
        self.ended = self.asked.is_some().then(Instant::now);
    }

    /// The time from its submission to its start, or to its end without a start.
    fn waited(&self) -> Duration {
        between(self.asked, self.started.or(self.ended))
    }

    /// From start to end.
    pub(super) fn ran(&self) -> Duration {
        between(self.started, self.ended)
    }
}

fn between(from: Option<Instant>, to: Option<Instant>) -> Duration {
    match (from, to) {
        (Some(from), Some(to)) => to.saturating_duration_since(from),
        _ => Duration::ZERO,
    }
}

/// The whole batch; of a resumed batch the lines that were to be run.
pub(super) fn view(outcomes: &[Outcome], work: &Work, began: Instant) -> BatchView {
    let lines = work.lines.borrow();
    let mut run = work.order.clone();
    run.sort_unstable();
    let last = outcomes.iter().filter_map(|outcome| outcome.ended).max();
    let result = |index: usize| {
        let outcome = &outcomes[index];
        BatchResultView {
            job: outcome.job,
            line: lines.number(index).unwrap_or_default(),
            exit_code: outcome.exit_code,
            signal: outcome.signal,
            end: outcome.end,
            queued_s: outcome.waited().as_secs_f64(),
            wall_s: outcome.ran().as_secs_f64(),
            suspended_s: seconds(outcome.suspended_us),
            cpu_s: seconds(outcome.cpu_us),
            memory_peak_bytes: outcome.memory_peak_bytes,
            reason: outcome.reason.clone(),
            command: lines.line(index).to_string_lossy().into_owned(),
            output: work
                .sink
                .paths(index as u64, &lines)
                .filter(|_| outcome.started.is_some())
                .map(|[out, _]| out.to_string_lossy().into_owned()),
            attempts: outcome.attempts,
        }
    };
    let results: Vec<BatchResultView> = run.into_iter().map(result).collect();
    let failed = results.iter().filter(|result| !result.ended_well()).count();
    BatchView {
        version: VERSION,
        jobs: results.len() as u64,
        failed: failed as u64,
        makespan_s: last.map_or(0.0, |last| last.saturating_duration_since(began).as_secs_f64()),
        results,
    }
}

/// Writes it as a line of JSON.
pub(super) fn write_json(view: &BatchView, out: &mut dyn Write) -> io::Result<()> {
    let mut out = io::BufWriter::new(out);
    serde_json::to_writer(&mut out, view)?;
    writeln!(out)?;
    out.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_that_was_ended_did_not_do_well_whatever_its_exit_code() {
        let check = |exit_code: Option<i32>, end: Option<End>, want: (bool, Option<i32>)| {
            let line = Outcome { exit_code, end, ..Outcome::default() };
            assert_eq!((line.failed(), line.exit_value()), want, "{exit_code:?} {end:?}");
        };
        check(Some(0), None, (false, Some(0)));
        check(Some(3), None, (true, Some(3)));
        check(None, Some(End::Timeout), (true, None));
        check(Some(9), Some(End::Timeout), (true, Some(9)));
        check(Some(0), Some(End::Timeout), (true, Some(124)));
        check(Some(0), Some(End::CpuLimit), (true, Some(124)));
        check(Some(0), Some(End::Cancelled), (true, Some(1)));
    }

    #[test]
    fn a_line_with_a_cut_output_failed() {
        for (exit_code, want) in [(Some(0), Some(1)), (Some(3), Some(3)), (None, None)] {
            let mut line = Outcome { exit_code, ..Outcome::default() };
            line.was_cut(&io::Error::other("TMPDIR: full"));
            assert_eq!((line.failed(), line.exit_value()), (true, want), "{exit_code:?}");
            assert_eq!(line.reason.as_deref(), Some("the output: TMPDIR: full"));
        }
    }

    #[test]
    fn a_line_that_never_starts_waited_until_that_was_so() {
        let asked = Instant::now().checked_sub(Duration::from_secs(20));
        let mut line = Outcome { asked, ..Outcome::default() };
        line.never_starts("the batch was told to end before the job started".to_owned());
        assert!(line.waited() >= Duration::from_secs(20));
        assert_eq!(line.ran(), Duration::ZERO);
        // One that was not asked for did not wait.
        let mut line = Outcome::default();
        line.never_starts("the same".to_owned());
        assert_eq!((line.waited(), line.ended), (Duration::ZERO, None));
        let [started, ended] = [5, 8].map(|after| asked.map(|at| at + Duration::from_secs(after)));
        let line = Outcome { asked, started, ended, ..Outcome::default() };
        assert_eq!([line.waited(), line.ran()], [5, 3].map(Duration::from_secs));
    }
}
