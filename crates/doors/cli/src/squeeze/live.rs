//! `pinfold squeeze JOB`: a running job's memory is taken from it until it misses some. Absent: how far ([`super::descent`]),
//! and the taking itself, which the daemon does.

use std::io;
use std::time::{Duration, Instant};

use pinfold_profile::report::{duration, size};
use pinfold_proto::ExitCode;
use pinfold_proto::wire::{Reply, Request};
use serde::Serialize;

use super::descent::{Descent, End, Keep, Next, Reading};
use crate::names::{self, JobRef};
use crate::print::{JSON_VERSION, print_json, print_text, say};
use pinfold_client::{Client, Dial, Failure, unexpected};

/// The window that stalls are allowed for, and how long in it, in seconds.
const WINDOW_S: f64 = 6.0;
const ALLOWED_S: f64 = 0.01;

/// How a running job is squeezed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pace {
    /// The share of the job's memory that a step takes.
    pub(super) step: f64,
    /// The time between two steps.
    pub(super) every: Duration,
    /// No step later than this.
    pub(super) most: Option<Duration>,
    /// Go on at the knee until the job is over.
    pub(super) keep: bool,
}

/// A window, as JSON has it.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct Step {
    at_s: f64,
    /// The job's memory at the window's end, page cache included.
    ram_bytes: u64,
    /// How much was to be taken then.
    taken_bytes: u64,
    /// How long it stalled in it.
    stalled_s: f64,
}

/// The JSON of `squeeze JOB --json`.
#[derive(Debug, Serialize)]
struct View<'a> {
    version: u32,
    job: u64,
    /// The job's memory at first.
    from_bytes: u64,
    /// The least memory known to suffice; `null`: unknown.
    knee_bytes: Option<u64>,
    /// The source of stalls: `pressure`, or `pages` that came back.
    stalls_by: &'static str,
    why: &'a str,
    steps: &'a [Step],
}

/// A running job, and its readings.
struct Squeezing<'a> {
    client: &'a mut Client,
    job: u64,
    pace: Pace,
    begun: Instant,
    steps: Vec<Step>,
    last: Option<Reading>,
}

pub(super) fn squeeze(dial: &Dial, job: &JobRef, pace: Pace, json: bool) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let jobs = names::not_over(&mut client, std::slice::from_ref(job))?;
    let [job] = jobs[..] else {
        let text = format!("{job} means {} jobs, and one can be squeezed at a time", jobs.len());
        return Err(Failure::new(ExitCode::Usage, text));
    };
    let (begun, steps) = (Instant::now(), Vec::new());
    let mut squeezing = Squeezing { client: &mut client, job, pace, begun, steps, last: None };
    let allowed_s = ALLOWED_S * pace.every.as_secs_f64() / WINDOW_S;
    let mut descent = Descent::new(pace.step, allowed_s);
    let end = squeezing.search(&mut descent)?;
    let knee = descent.knee_bytes();
    let why = squeezing.why(end, knee, allowed_s);
    say(&why);
    if let Some(knee) = knee.filter(|_| pace.keep && end.is_some()) {
        squeezing.keep(&mut Keep::new(pace.step, allowed_s, knee))?;
    }
    let from_bytes = squeezing.steps.first().map_or(0, |step| step.ram_bytes);
    if json {
        let by_pressure = squeezing.last.is_some_and(|last| last.stalled_us.is_some());
        let stalls_by = if by_pressure { "pressure" } else { "pages" };
        let (version, steps) = (JSON_VERSION, &squeezing.steps[..]);
        print_json(&View { version, job, from_bytes, knee_bytes: knee, stalls_by, why: &why, steps })?;
    } else if let Some(knee) = knee {
        print_text(|out: &mut dyn io::Write| writeln!(out, "{}", size(knee)))?;
    }
    match knee {
        Some(_) => Ok(()),
        None => Err(Failure::new(ExitCode::Failed, format!("no knee was found for job {job}"))),
    }
}

impl Squeezing<'_> {
    /// Takes memory until the search ends; `None`: the job or the time was over before.
    fn search(&mut self, descent: &mut Descent) -> Result<Option<End>, Failure> {
        let Some(mut reading) = self.ask(0)? else { return Ok(None) };
        loop {
            let bytes = match descent.next(reading) {
                Next::End(end) => {
                    self.note(reading, 0);
                    return Ok(Some(end));
                }
                Next::Watch => 0,
                Next::Take(bytes) => bytes,
            };
            self.note(reading, bytes);
            if bytes > 0 && self.ask(bytes)?.is_none() {
                return Ok(None);
            }
            if self.pace.most.is_some_and(|most| self.begun.elapsed() + self.pace.every > most) {
                return Ok(None);
            }
            std::thread::sleep(self.pace.every);
            match self.ask(0)? {
                Some(next) => reading = next,
                None => return Ok(None),
            }
        }
    }

    /// Keeps the job at its knee until it or the time is over.
    fn keep(&mut self, keep: &mut Keep) -> Result<(), Failure> {
        loop {
            if self.pace.most.is_some_and(|most| self.begun.elapsed() + self.pace.every > most) {
                return Ok(());
            }
            std::thread::sleep(self.pace.every);
            let Some(reading) = self.ask(0)? else { return Ok(()) };
            let bytes = keep.next(reading);
            self.note(reading, bytes);
            if bytes > 0 && self.ask(bytes)?.is_none() {
                return Ok(());
            }
        }
    }

    /// Takes this many bytes; gives the job's reading from before. `None`: the job is over.
    fn ask(&mut self, bytes: u64) -> Result<Option<Reading>, Failure> {
        match self.client.ask(&Request::Squeeze { job: self.job, bytes }) {
            Ok(Reply::Squeezed { frozen, ram_bytes, stalled_us, returned_pages, .. }) => {
                Ok(Some(Reading { ram_bytes, stalled_us, returned_pages, frozen }))
            }
            Ok(other) => Err(unexpected(&other)),
            // The job ended between two questions, or was frozen before the question.
            Err(failure) if !self.steps.is_empty() && failure.code == ExitCode::Failed => Ok(None),
            Err(failure) if bytes > 0 && failure.code == ExitCode::Refused => Ok(self.last),
            Err(failure) => Err(failure),
        }
    }

    fn note(&mut self, reading: Reading, taken_bytes: u64) {
        let stalled_s = self.last.map_or(0.0, |before| reading.stalled_since(&before));
        let at_s = self.begun.elapsed().as_secs_f64();
        self.last = Some(reading);
        if taken_bytes > 0 {
            let stalled = if stalled_s > 0.0 {
                format!(", stalled for memory {}", duration(stalled_s))
            } else {
                String::new()
            };
            say(&format!("holds {}{stalled}; {} less now", size(reading.ram_bytes), size(taken_bytes)));
        }
        self.steps.push(Step { at_s, ram_bytes: reading.ram_bytes, taken_bytes, stalled_s });
    }

    /// The result in words.
    fn why(&self, end: Option<End>, knee: Option<u64>, allowed_s: f64) -> String {
        let (job, window) = (self.job, duration(self.pace.every.as_secs_f64()));
        let what = match end {
            Some(End::Stalled) => {
                format!("it stalled for memory for more than {} of {window}", duration(allowed_s))
            }
            Some(End::Stuck) => {
                "the kernel finds nothing more to take; without swap it can only take page cache".to_owned()
            }
            Some(End::Floor) => "it holds next to nothing".to_owned(),
            Some(End::Busy) => {
                return format!("job {job} is short of memory already: it stalls without being squeezed");
            }
            None => "the job, or the time given, was over first".to_owned(),
        };
        match knee {
            Some(knee) => format!("job {job} runs as well within {}: {what}", size(knee)),
            None => format!("of job {job} nothing is known: {what}"),
        }
    }
}
