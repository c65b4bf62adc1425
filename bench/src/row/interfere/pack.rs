//! Whether the kernel wakes a task of the idle class onto a core that another one is on, while a core is free.
//!
//! Two threads, as many cores or more, nothing else: each computes and sleeps by turns, woken by the clock or by the other,
//! and looks where it woke and where the other is. The normal class, run in turn with the idle one, says what is usual.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::json;

use super::super::Ground;
use crate::compare::done;
use crate::machine::allowed;
use crate::record::Record;
use crate::stats::median;
use crate::table;
use crate::way::installed;

/// What a run of two threads says.
#[derive(Debug, Clone, Deserialize)]
struct Pair {
    beside: u64,
    packed: u64,
    ran_s: f64,
    waited_s: f64,
}

/// One of the kinds of runs.
#[derive(Debug, Clone, Copy)]
struct Kind {
    class: &'static str,
    woken_by: &'static str,
    work: &'static str,
}

const KINDS: [Kind; 4] = [
    Kind { class: "normal", woken_by: "the clock", work: "pack-by-timer" },
    Kind { class: "idle", woken_by: "the clock", work: "pack-by-timer" },
    Kind { class: "normal", woken_by: "the other", work: "pack-by-other" },
    Kind { class: "idle", woken_by: "the other", work: "pack-by-other" },
];

/// Measures so many rounds, in each run of which each task wakes so often, and writes the table.
pub(super) fn measure(
    feel: &Path,
    (rounds, wakes): (usize, u32),
    ground: &Ground,
    record: &mut Record,
) -> anyhow::Result<()> {
    record.say("\n### Two tasks that wake while a core is free for each\n");
    if allowed().len() < 2 || !installed("chrt") {
        record.say("Left out: it takes two PUs, and chrt.");
        return Ok(());
    }
    let mut pairs: Vec<Vec<Pair>> = vec![Vec::new(); KINDS.len()];
    for round in 0..rounds {
        for (kind, pairs) in KINDS.iter().zip(&mut pairs) {
            let pair = run(feel, *kind, wakes)?;
            done(&format!(
                "interfere {round} {} woken by {}: {} of {}",
                kind.class, kind.woken_by, pair.packed, pair.beside
            ));
            record.add(
                "pack",
                &json!({
                    "round": round, "class": kind.class, "woken_by": kind.woken_by, "beside": pair.beside,
                    "packed": pair.packed, "ran_s": pair.ran_s, "waited_s": pair.waited_s,
                }),
            )?;
            pairs.push(pair);
            if ground.interrupted() {
                bail!("interrupted");
            }
        }
    }
    let rows: Vec<Vec<String>> =
        KINDS.iter().zip(&pairs).filter_map(|(kind, pairs)| row(*kind, pairs)).collect();
    let head = ["class", "woken by", "wakes beside the other", "on its core %", "time waited for a core %"];
    record.say(&table::markdown(&head, &rows));
    Ok(())
}

fn run(feel: &Path, kind: Kind, wakes: u32) -> anyhow::Result<Pair> {
    let mut command = match kind.class {
        "idle" => {
            let mut command = Command::new("chrt");
            command.args(["--idle", "0"]).arg(feel);
            command
        }
        _ => Command::new(feel),
    };
    command.arg(kind.work).args(["--units", &wakes.to_string()]);
    let output = command.stdin(Stdio::null()).output().context("failed to run two threads")?;
    let pair = serde_json::from_slice(&output.stdout).ok().filter(|_| output.status.success());
    pair.with_context(|| {
        format!(
            "two threads ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        )
    })
}

fn row(kind: Kind, pairs: &[Pair]) -> Option<Vec<String>> {
    let share = |part: f64, whole: f64| 100.0 * part / whole.max(f64::MIN_POSITIVE);
    let packed: Vec<f64> = pairs.iter().map(|pair| share(pair.packed as f64, pair.beside as f64)).collect();
    let waited: Vec<f64> =
        pairs.iter().map(|pair| share(pair.waited_s, pair.ran_s + pair.waited_s)).collect();
    Some(vec![
        kind.class.to_owned(),
        kind.woken_by.to_owned(),
        pairs.iter().map(|pair| pair.beside).sum::<u64>().to_string(),
        table::with_interval(&median(&packed)?, 2),
        table::with_interval(&median(&waited)?, 2),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_of_the_wakes_beside() {
        let pair = Pair { beside: 200, packed: 50, ran_s: 0.9, waited_s: 0.1 };
        let row = row(KINDS[1], &[pair.clone(), pair]).unwrap();
        assert_eq!(row, ["idle", "the clock", "400", "25.00 [25.00, 25.00]", "10.00 [10.00, 10.00]"]);
        let none = Pair { beside: 0, packed: 0, ran_s: 0.0, waited_s: 0.0 };
        assert_eq!(super::row(KINDS[0], &[none]).unwrap()[3], "0.00");
        assert_eq!(super::row(KINDS[0], &[]), None);
    }
}
