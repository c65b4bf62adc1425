//! Words that several explanations share.

use crate::api::{Instant, JobId};

pub(super) type Numbers = Vec<(&'static str, String)>;

pub(super) fn seconds(now: Instant, since: Instant) -> String {
    format!("{:.1} s", now.since(since).as_secs_f64())
}

pub(super) fn count(count: usize, one: &'static str, many: &'static str) -> &'static str {
    if count == 1 { one } else { many }
}

/// "job 12 or any of 3 others".
pub(super) fn any_of(jobs: &[JobId]) -> String {
    match jobs {
        [] => "a job".into(),
        [job] => format!("job {job}"),
        [first, second] => format!("job {first} or job {second}"),
        [first, others @ ..] => format!("job {first} or any of {} others", others.len()),
    }
}

/// "job 12 and 3 others".
pub(super) fn some_of(jobs: &[JobId]) -> String {
    match jobs {
        [] => "a job that is dying".into(),
        [job] => format!("job {job}"),
        [first, second] => format!("jobs {first} and {second}"),
        [first, others @ ..] => format!("job {first} and {} others", others.len()),
    }
}
