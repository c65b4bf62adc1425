//! The cost of a prediction: the learner itself, fed with a class of real runs, without a process around it.

use std::time::Instant;

use anyhow::Context;
use pinfold_advise::{Features, Learner, Order, Row, Settings};
use serde_json::json;

use super::data::{Job, Set};
use crate::machine::load;
use crate::record::Record;
use crate::stats::percentile;

/// Runs that a class remembers: no history is longer.
const HISTORY: usize = 500;
/// Timed predictions, each followed by a run to learn from.
const TIMED: usize = 1_000;

/// Times predictions for the class with the most runs with known inputs, and prints the times.
pub(super) fn tell(sets: &[Set], record: &mut Record) -> anyhow::Result<()> {
    let Some(runs) = largest_class(sets) else { return Ok(()) };
    let rows: Vec<Row> = runs.iter().map(|job| row(job, job.hours * 3600.0)).collect();
    let mut learner = Learner::new(Settings::of(Order::Time));
    let mut stream = rows.iter().cycle();
    stream.by_ref().take(HISTORY).for_each(|row| learner.observe(row));
    let (mut predicted, mut computed, mut learnt) = (Vec::new(), Vec::new(), Vec::new());
    for row in stream.take(TIMED) {
        let (begun, begun_ms) = (Instant::now(), processor_ms());
        let advice = learner.advise(&row.features).context("a class with runs has no advice")?;
        computed.push(processor_ms() - begun_ms);
        predicted.push(begun.elapsed().as_secs_f64() * 1e3);
        anyhow::ensure!(advice.runs >= HISTORY, "the advice rests on {} runs only", advice.runs);
        let begun = Instant::now();
        learner.observe(row);
        learnt.push(begun.elapsed().as_secs_f64() * 1e3);
    }
    let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
    let spread = |values: &[f64]| json!({ "mean": mean(values), "p50": of(values, 0.5), "p99": of(values, 0.99), "most": of(values, 1.0) });
    record.add(
        "cost",
        &json!({
            "class": runs[0].class, "runs": runs.len(), "history": HISTORY, "load": load(),
            "predict_ms": spread(&predicted), "predict_processor_ms": spread(&computed), "learn_ms": spread(&learnt),
        }),
    )?;
    record.say(&format!(
        "A prediction from {HISTORY} runs with inputs ({}) takes {}. Learning from a run takes {:.3} ms in the median and \
         {:.2} ms at most. Of {TIMED} each, at a load of {}.\n",
        runs[0].class,
        in_words(&predicted, &computed),
        of(&learnt, 0.5),
        of(&learnt, 1.0),
        load(),
    ));
    Ok(())
}

/// The row learnt from a run of `wall_s` seconds.
fn row(job: &Job, wall_s: f64) -> Row {
    let features = Features { input_bytes: job.input, ..Features::default() };
    Row { features, peak_bytes: whole(job.peak), wall_s }
}

fn of(values: &[f64], share: f64) -> f64 {
    percentile(values, share).unwrap_or(0.0)
}

/// The durations of predictions, and their processor time, in milliseconds.
fn in_words(predicted: &[f64], computed: &[f64]) -> String {
    format!(
        "{:.3} ms in the median, {:.3} ms in 99 of 100 and {:.3} ms at most; of processor time {:.3}, {:.3} and {:.3} ms",
        of(predicted, 0.5),
        of(predicted, 0.99),
        of(predicted, 1.0),
        of(computed, 0.5),
        of(computed, 0.99),
        of(computed, 1.0),
    )
}

/// Processor time of this thread so far: the cost of a prediction where others want the processor too.
fn processor_ms() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 * 1e3 + time.tv_nsec as f64 / 1e6
}

fn largest_class(sets: &[Set]) -> Option<Vec<&Job>> {
    let classes = sets.iter().flat_map(|set| {
        let mut of: std::collections::BTreeMap<&str, Vec<&Job>> = std::collections::BTreeMap::new();
        for job in set.jobs.iter().filter(|job| job.input.is_some()) {
            of.entry(&job.class).or_default().push(job);
        }
        of.into_values()
    });
    classes.max_by_key(Vec::len)
}

/// `gb` in bytes, rounded.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts of floats saturate")]
fn whole(gb: f64) -> u64 {
    (gb * 1e9).round() as u64
}
