//! The chart on the project's first page: three bars, made from kept data of a row and from nothing else.
//!
//! Reads `docs/bench/memory-farm.jsonl`; a test checks that the picture beside it agrees with the data.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use clap::Args;
use pinfold_profile::plot::{BarChart, Level};
use serde_json::Value;

use crate::stats::median;

/// Options of the chart.
#[derive(Debug, Args)]
pub(crate) struct FirstArgs {
    /// Directory of the kept data and of the chart.
    #[arg(long, value_name = "DIR", default_value = "docs/bench")]
    dir: PathBuf,
}

/// The kept row, and the load of it.
const ROW: &str = "memory-farm.jsonl";
const LOAD: &str = "farm";

/// The file that is written.
const CHART: &str = "first.svg";

/// The shown ways: their names in the data, and their labels.
const WAYS: [(&str, &str); 3] = [
    ("native, 2 at a time", "by hand, one job per core"),
    ("native, 4 at a time", "by hand, twice as many"),
    ("pinfold, factor 2", "pinfold"),
];

const WIDTH: u32 = 760;

/// Writes the chart.
pub(crate) fn run(args: &FirstArgs) -> anyhow::Result<()> {
    let path = args.dir.join(CHART);
    fs::write(&path, svg(&args.dir)?).with_context(|| format!("failed to write {}", path.display()))
}

fn svg(directory: &Path) -> anyhow::Result<String> {
    let path = directory.join(ROW);
    let text = fs::read_to_string(&path).with_context(|| format!("failed to read {}", path.display()))?;
    let chart = chart(&text)?;
    Ok(chart.to_svg(WIDTH, chart.height(WIDTH)))
}

fn chart(lines: &str) -> anyhow::Result<BarChart> {
    let mut times: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    let mut processor = None;
    for line in lines.lines() {
        let line: Value = serde_json::from_str(line).context("a kept line is not JSON")?;
        let data = &line["data"];
        if line["kind"] == "machine" {
            processor = data["machine"]["cores"].as_u64();
        }
        if line["kind"] != "run" || data["title"] != LOAD {
            continue;
        }
        let run = &data["run"];
        let failures = run["failures"].as_array().map_or(0, Vec::len);
        ensure!(failures == 0, "a run of `{}` has failures, which the chart does not show", run["way"]);
        let way = run["way"].as_str().context("a run names its way")?;
        times.entry(way.to_owned()).or_default().extend(run["makespan_s"].as_f64());
    }
    let mut bars = Vec::new();
    for (way, name) in WAYS {
        let all = times.get(way).with_context(|| format!("no run of `{way}` is kept"))?;
        let middle = median(all).with_context(|| format!("no run of `{way}` is kept"))?;
        bars.push(Level {
            name: name.to_owned(),
            value: middle.value,
            told: format!("{:.1} to {:.1}", middle.low, middle.high),
            strong: name == "pinfold",
        });
    }
    let repetitions = times.get(WAYS[0].0).map_or(0, Vec::len);
    let cores = processor.context("the kept data name no machine")?;
    Ok(BarChart {
        title: "73 jobs, two of them large, in 2 GiB of memory".to_owned(),
        unit: "s".to_owned(),
        bars,
        below: format!(
            "time until all are done: median and range of {repetitions} runs, {cores} cores; docs/bench/{ROW}, {LOAD}"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_shows_the_kept_data() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/bench");
        let kept = fs::read_to_string(directory.join(CHART)).unwrap();
        assert!(kept == svg(&directory).unwrap(), "`cargo run -p pinfold-bench -- first` draws it anew");
    }

    #[test]
    fn data_that_do_not_hold_the_ways_or_have_failures_are_no_chart() {
        let machine = r#"{"kind":"machine","data":{"machine":{"cores":2}}}"#;
        assert!(chart(machine).is_err());
        let failed = r#"{"kind":"run","data":{"title":"farm","run":{"way":"pinfold, factor 2","makespan_s":1,"failures":["x"]}}}"#;
        let error = chart(&format!("{machine}\n{failed}")).unwrap_err().to_string();
        assert!(error.contains("failures"), "{error}");
        assert!(chart("no json").is_err());
    }
}
