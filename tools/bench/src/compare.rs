//! Several ways to run the same jobs, interleaved, against the same lower bound.
//!
//! In each repetition every way has its turn (ABC ABC ...), so that slow changes of the machine affect all of them. Owns
//! the runs of a comparison.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write};

use serde_json::json;

use crate::record::Record;
use crate::run::{Bench, Bound, Run, Solo};
use crate::stats::median;
use crate::table;
use crate::watch::Watch;
use crate::way::Way;
use crate::workload::Job;

/// A comparison's question.
#[derive(Debug)]
pub(crate) struct Question<'a> {
    /// Heading of its table.
    pub(crate) title: &'a str,
    /// The work.
    pub(crate) jobs: &'a [Job],
    /// Jobs among them that wait for a device more than they compute, also run by themselves. Empty: not measured.
    pub(crate) device: &'a [Job],
    /// The ways; unusable ways are left out with a sentence.
    pub(crate) ways: &'a [Way],
    /// Rounds.
    pub(crate) repetitions: usize,
    /// Cores of the bound.
    pub(crate) cores: usize,
}

/// The runs of each way.
pub(crate) type Runs = Vec<(Way, Vec<Run>)>;

/// Runs the comparison and writes its raw data and its table to `record`. Gives the runs of each way that can be used here.
pub(crate) fn compare(
    bench: &Bench<'_>,
    question: &Question<'_>,
    solo: &BTreeMap<String, Solo>,
    record: &mut Record,
) -> anyhow::Result<Runs> {
    let bound = Bound::of(question.jobs, solo, question.cores);
    record.add("bound", &json!({ "title": question.title, "solo": solo, "bound": bound }))?;
    let mut ways = Vec::new();
    for way in question.ways {
        match way.missing(bench.binaries) {
            None => ways.push(*way),
            Some(why) => record.say(&format!("`{way}` is left out: {why}.")),
        }
    }
    let mut runs: Vec<Vec<Run>> = vec![Vec::new(); ways.len()];
    let mut device = Device::new(question);
    // Only of these jobs: others before may have gone by the same names.
    bench.forget()?;
    for way in ways.iter().filter(|way| way.remembers()) {
        let label = format!("{} {way}: the time before", question.title);
        let run = bench.run(*way, question.jobs, solo, &mut |watch, jobs| show(&label, watch, jobs))?;
        done(&format!("{label}: {:.2} s, {} failed", run.makespan_s, run.failures.len()));
        record.add("rehearsal", &json!({ "title": question.title, "run": run }))?;
    }
    for repetition in 0..question.repetitions {
        for (way, runs) in ways.iter().zip(&mut runs) {
            let label = format!("{} {}/{} {way}", question.title, repetition + 1, question.repetitions);
            let run = bench.run(*way, question.jobs, solo, &mut |watch, jobs| show(&label, watch, jobs))?;
            done(&format!("{label}: {:.2} s, {} failed", run.makespan_s, run.failures.len()));
            record.add("run", &json!({ "title": question.title, "repetition": repetition, "run": run }))?;
            runs.push(run);
        }
        device.run(bench, question, solo, record)?;
    }
    record.say(&format!(
        "\n### {}\n\n{} jobs; lower bound {:.2} s = max(sum of CPU / {} cores = {:.2} s, longest job {:.2} s); \
         {} interleaved repetitions.\n",
        question.title,
        question.jobs.len(),
        bound.value_s(),
        question.cores,
        bound.cpu_s,
        bound.longest_s,
        question.repetitions
    ));
    let rows: Vec<Vec<String>> =
        ways.iter().zip(&runs).filter_map(|(way, runs)| row(*way, runs, bound)).collect();
    record.say(&table::markdown(&HEAD, &rows));
    if let Some(confidence) = median(&vec![0.0; question.repetitions]).map(|median| median.confidence) {
        record.say(&format!("Medians with order-statistic intervals of {:.1} %.\n", 100.0 * confidence));
    }
    device.tell(&ways, &runs, bound, record)?;
    for (way, runs) in ways.iter().zip(&runs) {
        let again: usize = runs.iter().map(|run| run.run_again).sum();
        if again > 0 {
            record.say(&format!("{way}: {again} jobs were killed and run again.\n"));
        }
        let all = |of: fn(&Run) -> &Vec<u64>| runs.iter().flat_map(|run| of(run).iter().copied()).collect();
        if let Some(freezes) = Freezes::of(all(|run| &run.freezes_us), all(|run| &run.freezes_asked_us)) {
            record.add(
                "freezes",
                &json!({ "title": question.title, "way": way.to_string(), "freezes": freezes }),
            )?;
            record.say(&format!("{way}: {freezes}.\n"));
        }
    }
    for group in runs.iter().flatten().flat_map(|run| &run.left_behind) {
        record.say(&format!("Left behind: cgroup {}.", group.display()));
    }
    for failure in runs.iter().flatten().flat_map(|run| run.failures.iter().map(move |why| (&run.way, why))) {
        record.say(&format!("Failed: {} ({}).", failure.1, failure.0));
    }
    Ok(ways.into_iter().zip(runs).collect())
}

/// The jobs that wait for a device, by themselves: the device's time, which the bound leaves out.
#[derive(Debug)]
struct Device {
    /// The numbers at a time, and their times, seconds.
    makespans_s: Vec<(usize, Vec<f64>)>,
}

impl Device {
    fn new(question: &Question<'_>) -> Self {
        let mut slots = vec![1, question.cores, 2 * question.cores];
        slots.retain(|&slots| slots <= question.device.len());
        slots.dedup();
        Self { makespans_s: slots.into_iter().map(|slots| (slots, Vec::new())).collect() }
    }

    /// A turn of each number at a time.
    fn run(
        &mut self,
        bench: &Bench<'_>,
        question: &Question<'_>,
        solo: &BTreeMap<String, Solo>,
        record: &mut Record,
    ) -> anyhow::Result<()> {
        for (slots, makespans_s) in &mut self.makespans_s {
            let label = format!("{}: those that wait for a device, {slots} at a time", question.title);
            let way = Way::Native { slots: *slots };
            let run = bench.run(way, question.device, solo, &mut |watch, jobs| show(&label, watch, jobs))?;
            done(&format!("{label}: {:.2} s, {} failed", run.makespan_s, run.failures.len()));
            record.add("device", &json!({ "title": question.title, "slots": slots, "run": run }))?;
            makespans_s.push(run.makespan_s);
        }
        Ok(())
    }

    /// Prints the best of them, and each way's time relative to it where that exceeds the bound.
    fn tell(&self, ways: &[Way], runs: &[Vec<Run>], bound: Bound, record: &mut Record) -> anyhow::Result<()> {
        let all = self.makespans_s.iter().filter_map(|(slots, times)| Some((median(times)?.value, *slots)));
        let Some((best_s, slots)) = all.min_by(|one, other| one.0.total_cmp(&other.0)) else { return Ok(()) };
        let least_s = best_s.max(bound.value_s());
        let each = |(way, runs): (&Way, &Vec<Run>)| {
            let times: Vec<f64> = runs.iter().map(|run| run.makespan_s / least_s).collect();
            Some((way.to_string(), median(&times)?))
        };
        let ratios: Vec<_> = ways.iter().zip(runs).filter_map(each).collect();
        let named: Vec<String> =
            ratios.iter().map(|(way, ratio)| format!("{way} {}", table::with_interval(ratio, 3))).collect();
        let plain: BTreeMap<&str, f64> =
            ratios.iter().map(|(way, ratio)| (way.as_str(), ratio.value)).collect();
        record.add("device best", &json!({ "seconds": best_s, "slots": slots, "ratios": plain }))?;
        record.say(&format!(
            "Those that wait for a device more than they compute take {best_s:.2} s by themselves at best ({slots} at a \
             time). Makespans over the larger of that and the bound: {}.\n",
            named.join("; ")
        ));
        Ok(())
    }
}

/// Prints each way of pinfold relative to the best of all ways without failed jobs.
pub(crate) fn against_best(title: &str, runs: &Runs, record: &mut Record) -> anyhow::Result<()> {
    let of = |runs: &[Run], value: fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
    let whole = runs.iter().filter(|(_, runs)| runs.iter().all(|run| run.failures.is_empty()));
    let best = |value: fn(&Run) -> f64| {
        let all = whole.clone().filter_map(|(way, runs)| Some((of(runs, value)?.value, *way)));
        all.min_by(|one, other| one.0.total_cmp(&other.0))
    };
    let (Some((makespan_s, way)), Some((turnaround_s, sooner))) =
        (best(|run| run.makespan_s), best(|run| run.turnaround_s))
    else {
        record.say("No way let all jobs end well.\n");
        return Ok(());
    };
    record
        .say(&format!("Best known: {makespan_s:.2} s ({way}); turnaround {turnaround_s:.2} s ({sooner}).\n"));
    for (own, runs) in runs.iter().filter(|(way, _)| way.is_pinfold()) {
        let ratio = |value, best| of(runs, value).map_or(f64::NAN, |median| median.value / best);
        let (makespan, turnaround) =
            (ratio(|run| run.makespan_s, makespan_s), ratio(|run| run.turnaround_s, turnaround_s));
        let words = json!({ "title": title, "way": own.to_string(), "best": way.to_string(),
                            "makespan_ratio": makespan, "turnaround_ratio": turnaround });
        record.add("against best", &words)?;
        record.say(&format!(
            "{own}: {makespan:.3} times the best known makespan, {turnaround:.3} times the best known turnaround.\n"
        ));
    }
    Ok(())
}

/// Prints the time of each way's jobs of `class` from start to end: the median relative to the median alone, and the
/// slowest. Jobs that never ended are in no figure; the table counts them as failed.
pub(crate) fn against_alone(
    question: &Question<'_>,
    class: &str,
    runs: &Runs,
    solo: &BTreeMap<String, Solo>,
    record: &mut Record,
) -> anyhow::Result<()> {
    let Some(alone) = solo.get(class).and_then(|solo| median(&solo.all_wall_s)) else { return Ok(()) };
    let names: Vec<&str> =
        question.jobs.iter().filter(|job| job.class == class).map(|job| job.name.as_str()).collect();
    record.say(&format!("`{class}` alone: {:.2} s. From start to end, over that:\n", alone.value));
    for (way, runs) in runs {
        let endings = runs.iter().flat_map(|run| &run.endings);
        let ended = endings.filter(|ending| ending.succeeded() && names.contains(&ending.name.as_str()));
        let ratios: Vec<f64> = ended.map(|ending| ending.wall_us as f64 / 1e6 / alone.value).collect();
        let most = ratios.iter().copied().fold(f64::NAN, f64::max);
        let words = json!({ "title": question.title, "class": class, "way": way.to_string(), "alone_s": alone.value,
                            "ratios": ratios });
        record.add("against alone", &words)?;
        match median(&ratios) {
            Some(ratio) => {
                record.say(&format!("- {way}: {:.3}, at most {most:.3}, of {}", ratio.value, ratios.len()));
            }
            None => record.say(&format!("- {way}: none ended")),
        }
    }
    record.say("");
    Ok(())
}

/// The times of freezes from the kernel's report of stalls, or from the reading, until the job stood still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
struct Freezes {
    count: usize,
    p50_us: u64,
    p99_9_us: u64,
    most_us: u64,
    /// The longest time until the request to the kernel; the rest is the kernel's.
    asked_most_us: u64,
}

impl Freezes {
    /// Figures of these times, and of the time in each until the request to the kernel; `None` if there are none.
    fn of(mut all_us: Vec<u64>, asked_us: Vec<u64>) -> Option<Self> {
        all_us.sort_unstable();
        let at = |milli: usize| all_us.get((all_us.len() * milli).div_ceil(1000).max(1) - 1).copied();
        let (most_us, asked_most_us) = (*all_us.last()?, asked_us.into_iter().max()?);
        Some(Self { count: all_us.len(), p50_us: at(500)?, p99_9_us: at(999)?, most_us, asked_most_us })
    }
}

impl std::fmt::Display for Freezes {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ms = |us: u64| format!("{}.{}", us / 1000, us % 1000 / 100);
        let (p50, p99_9, asked) = (ms(self.p50_us), ms(self.p99_9_us), ms(self.asked_most_us));
        write!(out, "{} freezes; from notice to standstill p50 {p50} ms, p99.9 {p99_9} ms", self.count)?;
        write!(out, ", of which at most {asked} ms until the kernel was asked")
    }
}

const HEAD: [&str; 8] =
    ["way", "makespan s", "R", "turnaround s", "CPU s", "peak memory", "others' cores", "failed"];

fn row(way: Way, runs: &[Run], bound: Bound) -> Option<Vec<String>> {
    let of = |value: fn(&Run) -> f64| median(&runs.iter().map(value).collect::<Vec<_>>());
    let ratio = median(&runs.iter().map(|run| run.makespan_s / bound.value_s()).collect::<Vec<_>>())?;
    let memory = runs.iter().map(|run| run.memory_peak_bytes).max()?;
    Some(vec![
        way.to_string(),
        table::with_interval(&of(|run| run.makespan_s)?, 2),
        table::with_interval(&ratio, 3),
        table::with_interval(&of(|run| run.turnaround_s)?, 2),
        format!("{:.1}", of(|run| run.cpu_s)?.value),
        table::bytes(memory),
        format!("{:.2}", of(|run| run.foreign_cores)?.value),
        runs.iter().map(|run| run.failures.len()).sum::<usize>().to_string(),
    ])
}

/// Shows on a terminal how a run stands; nothing elsewhere.
pub(crate) fn show(label: &str, watch: &Watch, jobs: usize) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        let running: Vec<&str> = watch.running().collect();
        let mut line = format!(
            "{label}  {} of {jobs} done  {:.0} s  {}",
            watch.ended().len(),
            watch.elapsed_s(),
            running.join(" ")
        );
        let width = rustix::termios::tcgetwinsize(&err).map_or(80, |size| usize::from(size.ws_col).max(20));
        line = line.chars().take(width - 1).collect();
        // Progress is a courtesy: a terminal that has gone is no reason to stop.
        let _shown = write!(err, "\r\x1b[K{line}").and_then(|()| err.flush());
    }
}

/// Replaces the progress by a line that stays.
pub(crate) fn done(line: &str) {
    let mut err = std::io::stderr().lock();
    let clear = if err.is_terminal() { "\r\x1b[K" } else { "" };
    let _shown = writeln!(err, "{clear}{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freezes_are_told_by_their_ranks() {
        assert_eq!(Freezes::of(Vec::new(), Vec::new()), None);
        let one = Freezes::of(vec![7_450], vec![650]).expect("there is one");
        assert_eq!((one.count, one.p50_us, one.p99_9_us, one.most_us), (1, 7_450, 7_450, 7_450));
        let many = Freezes::of((1..=2_000).rev().collect(), (1..=2_000).collect()).expect("there are many");
        assert_eq!((many.p50_us, many.p99_9_us, many.most_us), (1_000, 1_998, 2_000));
        let words = "1 freezes; from notice to standstill p50 7.4 ms, p99.9 7.4 ms, of which at most 0.6 ms until the \
                     kernel was asked";
        assert_eq!((one.to_string(), many.asked_most_us), (words.to_owned(), 2_000));
    }
}
