//! Executed workflows with their dependencies: instances of WfCommons, as WfFormat 1.5 (JSON) or as a table.
//!
//! Source: Coleman, Casanova, Pottier, Kaushik, Deelman, Ferreira da Silva, "WfCommons: a framework for enabling scientific
//! workflow research and development", FGCS 2022.
//!
//! All tasks are submitted at once; each starts after its predecessors' ends.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::list::{Entry, List};

/// The error of an instance.
#[derive(Debug, thiserror::Error)]
pub enum InstanceError {
    /// The text is no JSON, or not of this format.
    #[error("it is no instance of WfFormat 1.5: {0}")]
    Format(#[from] serde_json::Error),
    /// The table lacks a column.
    #[error("its header has no column `{0}`; id, runtime_s and parents are needed")]
    Column(&'static str),
    /// A line has too few or too many columns.
    #[error("line {line} has {found} columns, and the header has {wanted}")]
    Columns {
        /// The line number, the header is 1.
        line: usize,
        /// The number of its cells.
        found: usize,
        /// The required number.
        wanted: usize,
    },
    /// A figure is no number.
    #[error("line {line}, {column}: `{text}` is no number")]
    Number {
        /// The line number, the header is 1.
        line: usize,
        /// The column.
        column: &'static str,
        /// The field's text.
        text: String,
    },
    /// A run time cannot be.
    #[error("task {task} ran for {value} s, and a number of seconds from 0 on is wanted")]
    Time {
        /// The task.
        task: String,
        /// The field's value.
        value: f64,
    },
    /// A task waits for an unknown task.
    #[error("task {task} waits for task {parent}, which is not in the instance")]
    Unknown {
        /// The task.
        task: String,
        /// The unknown task.
        parent: String,
    },
    /// Two tasks have the same name.
    #[error("there are two tasks {0}")]
    Twice(String),
    /// The instance has no task.
    #[error("it has no task")]
    Empty,
}

#[derive(Debug, Deserialize)]
struct Instance {
    workflow: Workflow,
}

#[derive(Debug, Deserialize)]
struct Workflow {
    specification: Specification,
    execution: Execution,
}

#[derive(Debug, Deserialize)]
struct Specification {
    tasks: Vec<Specified>,
}

#[derive(Debug, Deserialize)]
struct Specified {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    parents: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct Execution {
    tasks: Vec<Executed>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Executed {
    id: String,
    runtime_in_seconds: f64,
    #[serde(default)]
    core_count: Option<f64>,
    #[serde(default, rename = "avgCPU")]
    avg_cpu: Option<f64>,
    #[serde(default)]
    memory_in_bytes: Option<f64>,
}

/// A task before the names of others are numbers.
#[derive(Debug, Default)]
struct Task {
    id: String,
    name: String,
    parents: Vec<String>,
    runtime_s: f64,
    cores: Option<f64>,
    /// 100 is a full core.
    cpu_percent: Option<f64>,
    memory_bytes: Option<f64>,
}

/// The tasks of an instance as a list of jobs, numbered from 1 on in its order.
///
/// # Errors
/// The text has neither form, or a task waits for an unknown task. Cycles are found when the list is arranged
/// ([`List::arrange`]).
pub fn read(text: &str) -> Result<List, InstanceError> {
    let text = text.trim_start_matches('\u{feff}');
    let tasks = if text.trim_start().starts_with('{') { from_json(text)? } else { from_table(text)? };
    if tasks.is_empty() {
        return Err(InstanceError::Empty);
    }
    let mut numbers = BTreeMap::new();
    for (task, number) in tasks.iter().zip(1..) {
        if numbers.insert(task.id.as_str(), number).is_some() {
            return Err(InstanceError::Twice(task.id.clone()));
        }
    }
    let mut list = List::default();
    for (task, number) in tasks.iter().zip(1..) {
        list.add(entry(task, number, &numbers)?);
    }
    Ok(list)
}

fn from_json(text: &str) -> Result<Vec<Task>, InstanceError> {
    let Workflow { specification, execution } = serde_json::from_str::<Instance>(text)?.workflow;
    let mut executed: BTreeMap<String, Executed> =
        execution.tasks.into_iter().map(|task| (task.id.clone(), task)).collect();
    let task = |specified: Specified| {
        // A task that was not executed takes no time, and is not played.
        let executed = executed.remove(&specified.id);
        let of = |figure: fn(&Executed) -> Option<f64>| executed.as_ref().and_then(figure);
        Task {
            runtime_s: of(|task| Some(task.runtime_in_seconds)).unwrap_or(0.0),
            cores: of(|task| task.core_count),
            cpu_percent: of(|task| task.avg_cpu),
            memory_bytes: of(|task| task.memory_in_bytes),
            id: specified.id,
            name: specified.name,
            parents: specified.parents,
        }
    };
    Ok(specification.tasks.into_iter().map(task).collect())
}

fn from_table(text: &str) -> Result<Vec<Task>, InstanceError> {
    let mut lines = text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty());
    let Some((header, _)) = lines.next() else { return Err(InstanceError::Empty) };
    let header: Vec<&str> = header.split(',').map(str::trim).collect();
    for needed in ["id", "runtime_s", "parents"] {
        if !header.contains(&needed) {
            return Err(InstanceError::Column(needed));
        }
    }
    let row = |(text, line): (&str, usize)| {
        let fields: Vec<&str> = text.split(',').map(str::trim).collect();
        if fields.len() != header.len() {
            return Err(InstanceError::Columns { line, found: fields.len(), wanted: header.len() });
        }
        let field =
            |name: &str| header.iter().position(|&column| column == name).map_or("", |place| fields[place]);
        let number = |column: &'static str| match field(column) {
            "" => Ok(None),
            text => text.parse().map(Some).map_err(|_| {
                let text = text.chars().take(40).collect();
                InstanceError::Number { line, column, text }
            }),
        };
        let parents = field("parents").split(';').map(str::trim).filter(|parent| !parent.is_empty());
        Ok(Task {
            id: field("id").to_owned(),
            name: field("name").to_owned(),
            parents: parents.map(str::to_owned).collect(),
            runtime_s: number("runtime_s")?.unwrap_or(0.0),
            cores: number("cores")?,
            cpu_percent: number("avg_cpu_pct")?,
            memory_bytes: number("memory_bytes")?,
        })
    };
    lines.map(row).collect()
}

fn entry(task: &Task, number: u64, numbers: &BTreeMap<&str, u64>) -> Result<Entry, InstanceError> {
    let parent = |parent: &String| {
        let unknown = || InstanceError::Unknown { task: task.id.clone(), parent: parent.clone() };
        numbers.get(parent.as_str()).copied().ok_or_else(unknown)
    };
    if !task.runtime_s.is_finite() || task.runtime_s < 0.0 {
        return Err(InstanceError::Time { task: task.id.clone(), value: task.runtime_s });
    }
    let used = task.cpu_percent.filter(|percent| percent.is_finite() && *percent > 0.0);
    // Without a record, the task took the cores that it used.
    let cores = task.cores.filter(|&cores| cores >= 1.0).or(used.map(|percent| percent / 100.0));
    let cores = whole(cores.unwrap_or(1.0).ceil().clamp(1.0, f64::from(u32::MAX)));
    Ok(Entry {
        job: Some(number),
        wall_s: task.runtime_s,
        cores: Some(u32::try_from(cores).unwrap_or(u32::MAX)),
        cpu_s: used.map(|percent| (percent / 100.0 * task.runtime_s).min(f64::MAX)),
        memory_peak_bytes: task.memory_bytes.filter(|&bytes| bytes > 0.0).map(whole),
        // Tasks of the same class have the same name up to the last underscore.
        name: class(&task.name).to_owned(),
        after: task.parents.iter().map(parent).collect::<Result<_, _>>()?,
        label: Some(task.id.clone()),
        ..Entry::default()
    })
}

/// The class of a task: its name without a trailing number.
fn class(name: &str) -> &str {
    match name.rsplit_once('_') {
        Some((class, id)) if id.bytes().any(|byte| byte.is_ascii_digit()) => class,
        _ => name,
    }
}

/// A count that may stand with a fraction.
fn whole(figure: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates at both ends")]
    let whole = figure as u64;
    whole
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinfold_cluster::fleet::Fleet;

    const TABLE: &str = "id,name,runtime_s,cores,avg_cpu_pct,read_bytes,written_bytes,memory_bytes,parents\n\
                         0,a.split_ID1,2.5,,88.7,1,1,1048576,\n1,a.map_ID2,4,,210,,,,0\n2,a.map_ID3,4,2,,,,,0;1\n";

    #[track_caller]
    fn wrong(text: &str, want: &str) {
        let error = read(text).expect_err(text).to_string();
        assert!(error.contains(want), "{error}, and {want} was expected");
    }

    #[test]
    fn faults_are_named() {
        wrong("", "it has no task");
        wrong("id,runtime_s\n", "no column `parents`");
        wrong("id,runtime_s,parents\n1,2\n", "line 2 has 2 columns, and the header has 3");
        wrong("id,runtime_s,parents\n1,x,\n", "line 2, runtime_s: `x` is no number");
        wrong("id,runtime_s,parents\n1,2,7\n", "task 1 waits for task 7");
        wrong("id,runtime_s,parents\n1,2,\n1,2,\n", "there are two tasks 1");
        wrong("{\"workflow\":1}", "it is no instance of WfFormat 1.5");
        for time in ["NaN", "inf", "-1"] {
            wrong(&format!("id,runtime_s,parents\nx_7,{time},\n"), &format!("task x_7 ran for {time} s"));
        }
        let circle = read("id,runtime_s,parents\nx_7,2,x_9\nx_9,2,x_7\n").unwrap();
        let error = circle.arrange(&Fleet::pool(1)).unwrap_err().to_string();
        assert!(error.ends_with("in a circle: x_7 waits for x_9 waits for x_7"), "{error}");
        let huge = read("id,runtime_s,parents,avg_cpu_pct\na,1e300,,1e300\n").unwrap();
        assert_eq!(huge.arrange(&Fleet::pool(1)).unwrap().dropped.total(), 1);
    }

    #[test]
    fn both_forms_say_the_same() {
        let json = r#"{"name":"x","schemaVersion":"1.5","workflow":{"specification":{"tasks":[
            {"name":"a.split_ID1","id":"0","parents":[],"children":["1","2"]},
            {"name":"a.map_ID2","id":"1","parents":["0"]},{"name":"a.map_ID3","id":"2","parents":["0","1"]}]},
            "execution":{"makespanInSeconds":9,"tasks":[
            {"id":"2","runtimeInSeconds":4,"coreCount":2},{"id":"1","runtimeInSeconds":4,"avgCPU":210},
            {"id":"0","runtimeInSeconds":2.5,"avgCPU":88.7,"memoryInBytes":1048576}]}}}"#;
        let jobs = |text: &str| {
            let arranged = read(text).unwrap().arrange(&Fleet::pool(4)).unwrap();
            (arranged.jobs, arranged.graph)
        };
        let (jobs_of_table, graph) = jobs(TABLE);
        assert_eq!((jobs_of_table.clone(), graph), jobs(json));
        for text in [TABLE, json] {
            assert_eq!(jobs(&format!("\u{feff}{text}")).0, jobs_of_table, "with the mark of its encoding");
        }
        let figures: Vec<_> =
            jobs_of_table.iter().map(|job| (job.run_us, job.processors, job.program)).collect();
        assert_eq!(figures, [(2_500_000, 1, 1), (4_000_000, 3, 2), (4_000_000, 2, 2)]);
    }
}
