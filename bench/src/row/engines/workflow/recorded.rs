//! A recorded workflow: its tasks, how they are scaled, and the Snakefile that they become.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::row::e5::whole;
use crate::workload::quote;

/// So many bursts of computing has a task.
const BURSTS: u64 = 10;
/// What a task of any size holds, MiB.
const LEAST_MIB: u64 = 2;

/// A recorded task.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Task {
    pub(super) id: u64,
    class: String,
    seconds: f64,
    /// The part of that in which it computed.
    busy: f64,
    bytes: f64,
    parents: Vec<u64>,
}

/// How recorded figures become those of a run.
#[derive(Debug, Clone, Copy, PartialEq, serde::Serialize)]
pub(super) struct Scale {
    /// Seconds of a run for each recorded one.
    time: f64,
    /// Bytes of a run for each recorded one.
    memory: f64,
    turns_per_second: f64,
}

impl Scale {
    /// The scale at which all take `work_s` one after the other, and the largest takes the part `largest` of a budget.
    pub(super) fn new(
        tasks: &[Task],
        turns_per_second: f64,
        work_s: f64,
        budget_mib: u64,
        largest: f64,
    ) -> anyhow::Result<Self> {
        let seconds: f64 = tasks.iter().map(|task| task.seconds).sum();
        let most = tasks.iter().map(|task| task.bytes).fold(0.0, f64::max);
        ensure!(seconds > 0.0 && most > 0.0, "the workflow has no times or no memory");
        let budget = (budget_mib << 20) as f64;
        Ok(Self { time: work_s / seconds, memory: budget * largest / most, turns_per_second })
    }

    fn mib(&self, task: &Task) -> u64 {
        (whole(task.bytes * self.memory) >> 20).max(LEAST_MIB)
    }

    /// What a task's program is told.
    fn words(&self, task: &Task) -> String {
        let seconds = task.seconds * self.time;
        let turns = seconds * task.busy * self.turns_per_second / BURSTS as f64;
        let wait_us = seconds * (1.0 - task.busy) * 1e6 / BURSTS as f64;
        format!(
            "--grow-mib {} --sweep --bursts {BURSTS} --turns {} --wait-us {}",
            self.mib(task),
            whole(turns),
            whole(wait_us)
        )
    }
}

/// The first tasks of a record, none without all that it depends on.
pub(super) fn read(path: &Path, tasks: usize) -> anyhow::Result<Vec<Task>> {
    let packed = fs::read(path).with_context(|| format!("failed to read {}", path.display()))?;
    let mut text = String::new();
    flate2::read::GzDecoder::new(&packed[..])
        .read_to_string(&mut text)
        .with_context(|| format!("failed to unpack {}", path.display()))?;
    parse(&text, tasks).with_context(|| format!("{} is no recorded workflow", path.display()))
}

fn parse(text: &str, tasks: usize) -> anyhow::Result<Vec<Task>> {
    let mut lines = text.lines();
    let places: BTreeMap<&str, usize> =
        lines.next().unwrap_or_default().split(',').enumerate().map(|(at, name)| (name, at)).collect();
    let (mut all, mut taken) = (Vec::new(), BTreeSet::new());
    for line in lines {
        let cells: Vec<&str> = line.split(',').collect();
        let cell = |name: &str| -> anyhow::Result<&str> {
            let at = places.get(name).with_context(|| format!("no column {name}"))?;
            Ok(cells.get(*at).copied().unwrap_or_default())
        };
        let figure = |name: &str| -> anyhow::Result<f64> { Ok(cell(name)?.parse().unwrap_or(0.0)) };
        let parents: Vec<u64> = cell("parents")?
            .split(';')
            .filter(|id| !id.is_empty())
            .map(str::parse)
            .collect::<Result<_, _>>()?;
        let id = cell("id")?.parse()?;
        if all.len() < tasks && parents.iter().all(|parent| taken.contains(parent)) {
            taken.insert(id);
            all.push(Task {
                id,
                class: class(cell("name")?),
                seconds: figure("runtime_s")?,
                busy: (figure("avg_cpu_pct")? / 100.0).clamp(0.0, 1.0),
                bytes: figure("memory_bytes")?,
                parents,
            });
        }
    }
    ensure!(all.len() >= 2, "fewer than two tasks");
    Ok(all)
}

/// The last part of a task's name, in letters that a rule's name may have.
fn class(name: &str) -> String {
    let last = name.rsplit('.').next().unwrap_or(name);
    last.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// Writes the workflow down for Snakemake, into a directory.
pub(super) fn write(
    tasks: &[Task],
    scale: &Scale,
    program: &Path,
    asks: bool,
    directory: &Path,
) -> anyhow::Result<()> {
    let mut classes: BTreeMap<&str, Vec<&Task>> = BTreeMap::new();
    for task in tasks {
        classes.entry(&task.class).or_default().push(task);
    }
    let told: BTreeMap<String, serde_json::Value> = tasks
        .iter()
        .map(|task| (task.id.to_string(), json!({ "parents": task.parents, "words": scale.words(task) })))
        .collect();
    let put = |name: &str, text: String| {
        fs::write(directory.join(name), text).with_context(|| format!("failed to write {name}"))
    };
    put("tasks.json", serde_json::to_string(&told)?)?;
    put("Snakefile", snakefile(&classes, scale, program, asks))
}

fn snakefile(classes: &BTreeMap<&str, Vec<&Task>>, scale: &Scale, program: &Path, asks: bool) -> String {
    let mut text = "import json\nT = json.load(open(\"tasks.json\"))\n\nrule all:\n    input: [f\"out/{t}\" for t in T]\n".to_owned();
    for (class, tasks) in classes {
        let ids: Vec<String> = tasks.iter().map(|task| task.id.to_string()).collect();
        let most = tasks.iter().map(|task| scale.mib(task)).max().unwrap_or(LEAST_MIB);
        let request = match asks {
            true => format!("    resources: mem_mb={}\n", most + most.div_ceil(10)),
            false => String::new(),
        };
        text.push_str(&format!(
            "\nrule {class}:\n    input: lambda w: [f\"out/{{p}}\" for p in T[w.id][\"parents\"]]\n    \
             output: \"out/{{id,({})}}\"\n    threads: 1\n{request}    params: words=lambda w: T[w.id][\"words\"]\n    \
             shell: \"{} {{params.words}} && touch {{output}}\"\n",
            ids.join("|"),
            quote(program)
        ));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "id,name,runtime_s,cores,avg_cpu_pct,read_bytes,written_bytes,memory_bytes,parents\n\
                          0,A.B.ONE,2.0,,50,1,1,1048576,\n1,A.TWO-X,6.0,,100,1,1,10485760,0;2\n2,A.B.ONE,2.0,,120,1,1,4194304,0\n\
                          3,A.TWO-X,2.0,,,1,1,,0\n";

    #[test]
    fn tasks_come_with_what_they_depend_on() {
        let tasks = parse(RECORD, 10).unwrap();
        let ids: Vec<u64> = tasks.iter().map(|task| task.id).collect();
        assert_eq!(ids, [0, 2, 3], "the second depends on one that stands behind it");
        assert_eq!(parse(RECORD, 2).unwrap().len(), 2);
        assert!(parse("id,name\n0,a\n", 2).is_err());
    }

    #[test]
    fn figures_are_scaled() {
        let tasks = parse(RECORD, 10).unwrap();
        let scale = Scale::new(&tasks, 100.0, 12.0, 100, 0.5).unwrap();
        assert_eq!(tasks.iter().map(|task| scale.mib(task)).collect::<Vec<_>>(), [12, 50, 2]);
        assert_eq!(scale.words(&tasks[0]), "--grow-mib 12 --sweep --bursts 10 --turns 20 --wait-us 200000");
        let one: Vec<&Task> = tasks.iter().filter(|task| task.class == "ONE").collect();
        let text = snakefile(&BTreeMap::from([("ONE", one)]), &scale, Path::new("/p"), true);
        assert!(
            text.contains("rule ONE:") && text.contains("mem_mb=55") && text.contains("{id,(0|2)}"),
            "{text}"
        );
    }
}
