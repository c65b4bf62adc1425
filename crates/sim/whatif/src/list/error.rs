//! The errors of a list.

/// The error of a list.
#[derive(Debug, thiserror::Error)]
pub enum ListError {
    /// A line is no job.
    #[error("line {line}: {}", without_line(source))]
    Line {
        /// The line number, from 1.
        line: u64,
        /// The parser's error.
        source: serde_json::Error,
    },
    /// A line is no JSON object at all.
    #[error("line {0}: it is no JSON object, and a job is one: {{\"wall_s\":60, ...}}")]
    NoObject(
        /// The line number, from 1.
        u64,
    ),
    /// A figure cannot be.
    #[error("job {job}: {key} is {value}, and a number of seconds from 0 on is wanted")]
    Figure {
        /// The job.
        job: u64,
        /// The key.
        key: &'static str,
        /// Its value.
        value: f64,
    },
    /// Its `memory_ramp` is out of range.
    #[error("job {job}: memory_ramp is {value}, and a part of the run above 0, up to 1, is wanted")]
    Part {
        /// The job.
        job: u64,
        /// The value.
        value: f64,
    },
    /// Two jobs have the same number.
    #[error("there are two jobs {0}")]
    Twice(u64),
    /// A job waits for an unknown job.
    #[error("job {job} waits for job {after}, which is not in the list")]
    Unknown {
        /// The job.
        job: u64,
        /// The unknown job.
        after: u64,
    },
    /// Jobs wait for each other.
    #[error("jobs wait for each other in a circle: {}", shown(.0))]
    Cycle(Vec<String>),
}

/// Members of a circle that are named at most.
const NAMED: usize = 8;

fn shown(members: &[String]) -> String {
    let more = members.len().saturating_sub(NAMED);
    let mut named = members[..members.len() - more].join(" waits for ");
    if more > 0 {
        named.push_str(&format!(" and {more} more, which waits for"));
    } else {
        named.push_str(" waits for");
    }
    format!("{named} {}", members.first().map_or("", String::as_str))
}

/// The parser's error for a line, without the line number of `serde_json`, which is always the first.
fn without_line(error: &serde_json::Error) -> String {
    let text = error.to_string();
    match text.rsplit_once(" at line ") {
        Some((words, _)) => format!("{words} (column {})", error.column()),
        None => text,
    }
}
