//! Words that several explanations share.

use std::time::Duration;

use crate::api::code::{Figure, Value};
use crate::api::{Instant, JobId, Number, mib};

/// What is collected while a job is explained: each number in words, and its figures.
#[derive(Debug, Default)]
pub(super) struct Numbers(Vec<Number>);

impl Numbers {
    pub(super) fn put(&mut self, name: &'static str, text: String, figures: Vec<Figure>) {
        self.0.push(Number { name, text, figures });
    }

    /// What has no figure.
    pub(super) fn say(&mut self, name: &'static str, text: impl Into<String>) {
        self.put(name, text.into(), Vec::new());
    }

    pub(super) fn bytes(&mut self, name: &'static str, figure: &'static str, bytes: u64) {
        self.put(name, mib(bytes), vec![Figure { name: figure, value: Value::Number(bytes) }]);
    }

    pub(super) fn count(&mut self, name: &'static str, figure: &'static str, count: impl Into<Count>) {
        let Count(count) = count.into();
        self.put(name, count.to_string(), vec![Figure { name: figure, value: Value::Number(count) }]);
    }

    /// A part and the whole, each with its figure.
    pub(super) fn part(&mut self, name: &'static str, (part, whole): (u64, u64), figures: [&'static str; 2]) {
        let value = |name, number| Figure { name, value: Value::Number(number) };
        let [of_part, of_whole] = figures;
        self.put(name, format!("{part} of {whole}"), vec![value(of_part, part), value(of_whole, whole)]);
    }

    /// How long something has gone on.
    pub(super) fn since(&mut self, name: &'static str, figure: &'static str, now: Instant, since: Instant) {
        let time = now.since(since);
        let text = format!("{:.1} s", time.as_secs_f64());
        self.put(name, text, vec![Figure { name: figure, value: Value::Time(time) }]);
    }

    /// How long until something, in whole seconds; `more`: what else is to say of it.
    pub(super) fn until(&mut self, name: &'static str, figure: &'static str, left: Duration, more: &str) {
        let left = Duration::from_secs(left.as_secs());
        let figures = vec![Figure { name: figure, value: Value::Time(left) }];
        self.put(name, format!("{} s{more}", left.as_secs()), figures);
    }

    pub(super) fn take(self) -> Vec<Number> {
        self.0
    }
}

/// A count of any width.
pub(super) struct Count(u64);

impl From<usize> for Count {
    fn from(count: usize) -> Self {
        Self(count as u64)
    }
}

impl From<u32> for Count {
    fn from(count: u32) -> Self {
        Self(count.into())
    }
}

impl From<u8> for Count {
    fn from(count: u8) -> Self {
        Self(count.into())
    }
}

pub(super) fn milli(figure: &'static str, milli: u64) -> Figure {
    Figure { name: figure, value: Value::Number(milli) }
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

/// "jobs 12, 13 and 14": each of them. Of many the first are named.
pub(super) fn each_of(jobs: &[JobId]) -> String {
    /// So many are named.
    const NAMED: usize = 5;
    let named = |jobs: &[JobId]| jobs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    match jobs {
        [] => "what runs".into(),
        [job] => format!("job {job}"),
        [first @ .., last] if jobs.len() <= NAMED => format!("jobs {} and {last}", named(first)),
        jobs => format!("jobs {} and {} others", named(&jobs[..NAMED]), jobs.len() - NAMED),
    }
}
