//! Which bound is tried next, and where the knee is: the least bound under which a command runs *as well*.
//!
//! *As well*: it ends with exit code 0, takes no more than 1.2 times as long as without a bound, but for the time that
//! it waited for a processor, and stalls for memory no more than 5 % of that time longer. Between a good bound and a
//! bad bound the middle is tried until both are close (bisection): some ten runs where a sweep by a hundredth takes
//! seventy. A run that is only too slow is tried a second time, for the host may have been busy; the knee at last as
//! well. Pure: the caller runs the command.

use std::time::Duration;

use pinfold_profile::report::{duration, size};
use pinfold_proto::ExitCode;
use serde::Serialize;

use pinfold_client::Failure;

/// A good run takes at most this many times as long as without a bound.
const SLOWER: f64 = 1.2;
/// The seconds added to that limit: starting and ending a job varies.
const SLOWER_S: f64 = 0.1;
/// A good run stalls at most for this fraction of the time longer.
const STALLED: f64 = 0.05;
/// A run is given up after this many times the time, and this much more.
const GIVEN_UP: f64 = 6.0;
const GIVEN_UP_S: f64 = 10.0;
/// No bound below is tried: a process and its libraries need that much.
const FLOOR_BYTES: u64 = 4 << 20;
/// Bounds above the peak that are tried, as shares of it, until it runs as well: a bound counts the kernel's part and page
/// cache as well, which the peak does not.
const ABOVE: [f64; 4] = [1.05, 1.3, 2.0, 4.0];
/// How often a knee that did not hold a second time is raised by a step.
const RAISED_MAX: u32 = 8;
/// Two runs without a bound get a remark if their peaks differ by more.
const UNSTEADY: f64 = 0.1;

/// A run, as JSON has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Tried {
    /// `null`: without a bound.
    pub(super) limit_bytes: Option<u64>,
    /// From start to end, without the time that it was frozen.
    pub(super) wall_s: f64,
    /// The time that some of its threads waited for a processor that others had; `null`: the host does not tell.
    pub(super) waited_s: Option<f64>,
    /// How long some of its threads waited for memory; `null`: the host does not tell.
    pub(super) stalled_s: Option<f64>,
    pub(super) exit_code: Option<i32>,
    pub(super) signal: Option<i32>,
    pub(super) peak_bytes: u64,
    pub(super) swap_peak_bytes: u64,
    /// The run was ended for being far too slow.
    pub(super) was_stopped: bool,
    /// The run was as good as without a bound.
    pub(super) is_good: bool,
}

impl Tried {
    /// How long it would have taken with processors of its own.
    fn own_s(&self) -> f64 {
        (self.wall_s - self.waited_s.unwrap_or(0.0)).max(0.0)
    }
}

/// How sure the knee is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knee {
    /// No knee was found.
    None,
    /// The command runs as well with the least bound that is tried.
    AtFloor,
    /// Found, and it held a second time.
    Confirmed,
    /// Found, and it did not hold each time.
    Unsteady,
}

/// The result of the search.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Found {
    pub(super) peak_bytes: u64,
    pub(super) knee: Knee,
    bytes: u64,
    pub(super) why: String,
    /// How long a run may take to be as good, in seconds.
    pub(super) tolerated_s: f64,
    pub(super) runs: Vec<Tried>,
}

impl Found {
    pub(super) fn knee_bytes(&self) -> Option<u64> {
        (self.knee != Knee::None).then_some(self.bytes)
    }
}

/// The search so far.
struct Search<R> {
    run: R,
    runs: Vec<Tried>,
    /// How long it takes without a bound, in all and but for processors that others had; and how long it stalls then; at
    /// most.
    free_s: f64,
    free_own_s: f64,
    free_stalled_s: f64,
}

/// Finds the knee to a share of `step`. `run` runs the command within a bound, with a time limit.
pub(super) fn search<R>(step: f64, run: R) -> Result<Found, Failure>
where
    R: FnMut(Option<u64>, Option<Duration>) -> Result<Tried, Failure>,
{
    let mut search = Search { run, runs: Vec::new(), free_s: 0.0, free_own_s: 0.0, free_stalled_s: 0.0 };
    let peak = search.without_bound()?;
    let (knee, bytes, mut why) = search.knee(peak, step)?;
    let peaks = search.runs.iter().filter(|run| run.limit_bytes.is_none()).map(|run| run.peak_bytes);
    let least = peaks.min().unwrap_or(peak);
    if (peak - least) as f64 > peak as f64 * UNSTEADY {
        why.push_str(&format!(
            "; its peak differs from run to run ({} and {}), and so may the knee",
            size(least),
            size(peak)
        ));
    }
    let tolerated_s = search.tolerated_s();
    Ok(Found { peak_bytes: peak, knee, bytes, why, tolerated_s, runs: search.runs })
}

impl<R> Search<R>
where
    R: FnMut(Option<u64>, Option<Duration>) -> Result<Tried, Failure>,
{
    /// Runs it twice without a bound; gives the larger peak.
    fn without_bound(&mut self) -> Result<u64, Failure> {
        let mut peak = 0;
        for _ in 0..2 {
            let mut run = (self.run)(None, None)?;
            if run.exit_code != Some(0) {
                let first = if self.runs.is_empty() { "fails" } else { "fails now and then" };
                let how = match (run.exit_code, run.signal) {
                    (Some(code), _) => format!("exit code {code}"),
                    (None, signal) => format!("signal {}", signal.unwrap_or(0)),
                };
                let text = format!("the command {first} without a bound ({how}): a knee would say nothing");
                return Err(Failure::new(ExitCode::Failed, text));
            }
            peak = peak.max(run.peak_bytes);
            self.free_s = self.free_s.max(run.wall_s);
            self.free_own_s = self.free_own_s.max(run.own_s());
            self.free_stalled_s = self.free_stalled_s.max(run.stalled_s.unwrap_or(0.0));
            run.is_good = true;
            self.runs.push(run);
        }
        if peak == 0 {
            let text = "no memory was seen in use: the command is over too soon to be measured";
            return Err(Failure::new(ExitCode::Failed, text));
        }
        Ok(peak)
    }

    fn knee(&mut self, peak: u64, step: f64) -> Result<(Knee, u64, String), Failure> {
        let mut good = None;
        for share in ABOVE {
            let bound = share_of(peak, share).max(FLOOR_BYTES);
            if self.is_good(bound)? {
                good = Some(bound);
                break;
            }
        }
        let Some(mut good) = good else {
            let most = ABOVE[ABOVE.len() - 1];
            let text =
                format!("it does not run as well within {most} times its peak of {} either", size(peak));
            return Ok((Knee::None, 0, text));
        };
        let mut bad = 0;
        while bad == 0 {
            let half = share_of(good, 0.5).max(FLOOR_BYTES);
            if half >= good {
                let text = format!(
                    "it runs as well within {}, the least bound that is tried: the bound never hurts it",
                    size(good)
                );
                return Ok((Knee::AtFloor, good, text));
            }
            if self.is_good(half)? { good = half } else { bad = half }
        }
        while (good - bad) as f64 > good as f64 * step {
            let middle = whole_pages(bad + (good - bad) / 2);
            if middle <= bad || middle >= good {
                break;
            }
            if self.is_good(middle)? { good = middle } else { bad = middle }
        }
        self.confirmed(good, peak, step)
    }

    /// Tries the knee again, and raises it as long as it does not hold.
    fn confirmed(&mut self, good: u64, peak: u64, step: f64) -> Result<(Knee, u64, String), Failure> {
        let mut knee = good;
        for raised in 0..RAISED_MAX {
            // Most runs within the knee agree, and the verdict counts the others.
            let is_good = self.is_good(knee)?;
            let (good, bad): (Vec<&Tried>, Vec<&Tried>) =
                self.runs.iter().filter(|run| run.limit_bytes == Some(knee)).partition(|run| run.is_good);
            if is_good && good.len() > bad.len() {
                let text = format!(
                    "it runs as well within {}, {:.0} % of its peak of {}, in {} of {} runs: {} at most, and {} without a \
                     bound; as well means {} at most, without waits for processors",
                    size(knee),
                    knee as f64 / peak as f64 * 100.0,
                    size(peak),
                    good.len(),
                    good.len() + bad.len(),
                    duration(good.iter().map(|run| run.own_s()).fold(0.0, f64::max)),
                    duration(self.free_own_s),
                    duration(self.tolerated_s())
                );
                return Ok((Knee::Confirmed, knee, text));
            }
            if raised + 1 < RAISED_MAX {
                knee = share_of(knee, 1.0 + step);
            }
        }
        let text = format!(
            "it ran as well within {} once and then not again, nor surely within {}: it behaves differently from run to run",
            size(good),
            size(knee)
        );
        Ok((Knee::Unsteady, knee, text))
    }

    /// How long a run may take to be as good, but for processors that others had.
    fn tolerated_s(&self) -> f64 {
        self.free_own_s * SLOWER + SLOWER_S
    }

    /// Whether the command runs as well within `bound`; a run that is only too slow gets a second chance.
    fn is_good(&mut self, bound: u64) -> Result<bool, Failure> {
        for _ in 0..2 {
            let given_up = Duration::try_from_secs_f64(self.free_s * GIVEN_UP + GIVEN_UP_S).ok();
            let mut run = (self.run)(Some(bound), given_up)?;
            let stalled_s = run.stalled_s.unwrap_or(0.0) - self.free_stalled_s;
            let is_slow = run.own_s() > self.tolerated_s()
                || stalled_s > self.free_own_s * STALLED + SLOWER_S * STALLED;
            let is_done = run.exit_code == Some(0);
            run.is_good = is_done && !is_slow;
            let is_good = run.is_good;
            self.runs.push(run);
            if is_good || !is_done {
                return Ok(is_good);
            }
        }
        Ok(false)
    }
}

/// A share of `bytes`, in whole pages.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
fn share_of(bytes: u64, share: f64) -> u64 {
    whole_pages((bytes as f64 * share) as u64)
}

fn whole_pages(bytes: u64) -> u64 {
    bytes.div_ceil(4096).saturating_mul(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn tried(bound: Option<u64>, wall_s: f64, exit_code: Option<i32>) -> Tried {
        Tried {
            limit_bytes: bound,
            wall_s,
            waited_s: None,
            stalled_s: Some(0.0),
            exit_code,
            signal: exit_code.is_none().then_some(9),
            peak_bytes: 300 * MIB,
            swap_peak_bytes: 0,
            was_stopped: false,
            is_good: false,
        }
    }

    /// The search over a command with this behaviour: bound and number of the run to what came of it.
    fn of(step: f64, run: impl Fn(u64, u64) -> Tried) -> Result<Found, Failure> {
        let mut runs = 0;
        search(step, |bound, _| {
            runs += 1;
            Ok(Tried { limit_bytes: bound, ..run(bound.unwrap_or(u64::MAX), runs) })
        })
    }

    #[track_caller]
    fn check(knee: u64, run: impl Fn(u64, u64) -> Tried) {
        let found = of(0.01, run).unwrap();
        let got = found.knee_bytes().unwrap();
        assert!(got >= knee && got as f64 <= knee as f64 * 1.011, "{got}, not {knee}: {found:?}");
        assert_eq!(found.knee, Knee::Confirmed, "{found:?}");
        assert!(found.runs.len() <= 16, "{} runs", found.runs.len());
    }

    #[test]
    fn a_knee_is_found_in_few_runs() {
        for knee in [20 * MIB, 77 * MIB, 150 * MIB, 290 * MIB, 310 * MIB] {
            // It is killed below, or it is slow below, or it stalls below.
            check(knee, |bound, _| tried(None, 1.0, (bound >= knee).then_some(0)));
        }
        let knee = 123 * MIB;
        let found = of(0.01, |bound, _| tried(None, if bound >= knee { 1.0 } else { 9.0 }, Some(0))).unwrap();
        assert!((knee..knee + 2 * MIB).contains(&found.knee_bytes().unwrap()));
        let stalls = |bound| Some(if bound >= knee { 0.0 } else { 0.3 });
        check(knee, |bound, _| Tried {
            stalled_s: stalls(bound),
            ..tried(None, 1.0, (bound > 90 * MIB).then_some(0))
        });
        let found = of(0.2, |bound, _| tried(None, 1.0, (bound >= knee).then_some(0))).unwrap();
        assert!(found.runs.len() <= 8 && found.knee_bytes().unwrap() < knee * 5 / 4, "{found:?}");
    }

    #[test]
    fn a_command_that_needs_more_than_its_peak_seems_to_say() {
        check(500 * MIB, |bound, _| tried(None, 1.0, (bound >= 500 * MIB).then_some(0)));
    }

    #[test]
    fn no_bound_hurts_or_every_one_does() {
        let found = of(0.01, |_, _| tried(None, 1.0, Some(0))).unwrap();
        assert_eq!((found.knee, found.knee_bytes()), (Knee::AtFloor, Some(FLOOR_BYTES)));
        assert!(found.why.contains("never hurts"), "{}", found.why);
        let small = of(0.01, |_, _| Tried { peak_bytes: MIB, ..tried(None, 1.0, Some(0)) }).unwrap();
        assert_eq!((small.knee, small.runs.len()), (Knee::AtFloor, 3));
        let found = of(0.01, |bound, _| tried(None, 1.0, (bound == u64::MAX).then_some(0))).unwrap();
        assert_eq!((found.knee, found.knee_bytes()), (Knee::None, None));
        assert!(found.why.contains("within 4 times its peak of 300 MiB"), "{}", found.why);
    }

    #[test]
    fn commands_that_fail_without_a_bound_are_refused() {
        let always = of(0.01, |_, _| tried(None, 1.0, Some(3))).unwrap_err();
        assert!(always.message.contains("fails without a bound (exit code 3)"), "{always}");
        let sometimes = of(0.01, |_, run| tried(None, 1.0, Some(i32::from(run == 2)))).unwrap_err();
        assert!(sometimes.message.contains("fails now and then"), "{sometimes}");
        let killed = of(0.01, |_, _| tried(None, 1.0, None)).unwrap_err();
        assert!(killed.message.contains("signal 9"), "{killed}");
        let unseen = of(0.01, |_, _| Tried { peak_bytes: 0, ..tried(None, 1.0, Some(0)) }).unwrap_err();
        assert!(unseen.message.contains("too soon"), "{unseen}");
    }

    #[test]
    fn a_busy_host_is_told_from_a_knee() {
        // Every fourth run is slow, whatever the bound.
        check(200 * MIB, |bound, run| {
            tried(None, if run.is_multiple_of(4) { 5.0 } else { 1.0 }, (bound >= 200 * MIB).then_some(0))
        });
        // From the third run on others have the processors for most of the time.
        check(200 * MIB, |bound, run| {
            let others_s = if run > 2 { 7.0 } else { 0.0 };
            let run = tried(None, 1.0 + others_s, (bound >= 200 * MIB).then_some(0));
            Tried { waited_s: Some(others_s), ..run }
        });
    }

    #[test]
    fn commands_that_differ_from_run_to_run_are_told() {
        // What it needs goes up and down by a tenth.
        let found = of(0.01, |bound, run| {
            let needs = if run.is_multiple_of(2) { 220 } else { 200 } * MIB;
            Tried { peak_bytes: needs, ..tried(None, 1.0, (bound >= needs).then_some(0)) }
        })
        .unwrap();
        let knee = found.knee_bytes().unwrap();
        assert!((199 * MIB..=245 * MIB).contains(&knee), "{found:?}");
        let wild = of(0.01, |bound, run| {
            let needs = if run.is_multiple_of(2) { 300 } else { 100 } * MIB;
            Tried { peak_bytes: needs, ..tried(None, 1.0, (bound >= needs).then_some(0)) }
        })
        .unwrap();
        assert!(wild.why.contains("differs from run to run (100 MiB and 300 MiB)"), "{}", wild.why);
        // From the tenth run on nothing goes well.
        let found = of(0.01, |_, run| tried(None, 1.0, (run < 10).then_some(0))).unwrap();
        assert!(matches!(found.knee, Knee::Unsteady | Knee::Confirmed | Knee::AtFloor), "{found:?}");
        let never =
            of(0.01, |bound, run| tried(None, 1.0, (bound >= 150 * MIB && run < 9).then_some(0))).unwrap();
        assert_eq!(never.knee, Knee::Unsteady, "{never:?}");
    }

    #[test]
    fn the_verdict_states_its_tolerance_and_agrees_with_most_runs_within_it() {
        // Between 200 and 230 MiB two of three runs are too slow.
        let is_slow = |bound: u64, run: u64| bound < 200 * MIB || bound < 230 * MIB && !run.is_multiple_of(3);
        let found =
            of(0.01, |bound, run| tried(None, if is_slow(bound, run) { 9.8 } else { 7.8 }, Some(0))).unwrap();
        let within = found.runs.iter().filter(|run| run.limit_bytes == found.knee_bytes());
        let (good, bad): (Vec<&Tried>, Vec<&Tried>) = within.partition(|run| run.is_good);
        assert!(found.knee == Knee::Unsteady || good.len() > bad.len(), "{found:?}");
        let steady =
            of(0.01, |bound, _| tried(None, if bound < 200 * MIB { 9.8 } else { 7.8 }, Some(0))).unwrap();
        let words = "in 2 of 2 runs: 7.8 s at most, and 7.8 s without a bound; as well means 9.5 s at most";
        assert!(steady.why.contains(words), "{}", steady.why);
    }
}
