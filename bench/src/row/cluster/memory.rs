//! What jobs ask for and come to hold: from the log itself, from a table of other real jobs, or as advised.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use pinfold_advise::applied::{Past, requests};
use pinfold_cluster::SECOND;
use pinfold_cluster::job::Job;
use pinfold_cluster::metrics::Span;

use crate::row::pack::Dice;

/// What a log has of memory beside what was used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Own {
    /// What was asked for is known; else each class asks for the largest peak of its jobs.
    pub requests: bool,
}

/// A real job, by each of its processors.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    request: f64,
    peak: f64,
    seconds: f64,
}

/// Real jobs by class.
#[derive(Debug)]
pub(super) struct Table {
    /// The rows of each class, the shortest first.
    classes: Vec<Vec<Row>>,
}

impl Table {
    /// From a file, or from all tables of a directory.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let mut classes: BTreeMap<String, Vec<Row>> = BTreeMap::new();
        for file in super::files(path, &[".csv", ".csv.gz"])? {
            let stem = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            for (class, row) in rows(&super::text(&file)?).with_context(|| file.display().to_string())? {
                classes.entry(format!("{stem}:{class}")).or_default().push(row);
            }
        }
        Self::of(classes.into_values().collect())
            .with_context(|| format!("{} has no jobs with memory", path.display()))
    }

    fn of(mut classes: Vec<Vec<Row>>) -> Option<Self> {
        for rows in &mut classes {
            rows.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        }
        (!classes.is_empty()).then_some(Self { classes })
    }

    /// Classes and jobs.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.classes.len(), self.classes.iter().map(Vec::len).sum())
    }

    /// Gives each job what a real one had: a class of the log gets a class of the table, likelier one of many jobs, and
    /// of its jobs the longer the memory of the longer.
    pub(super) fn draw(&self, jobs: &mut [Job], seed: u64) {
        let (_, all) = self.size();
        for (class, members) in by_class(jobs) {
            let mut left = below(seed, class, all);
            let rows = self.classes.iter().find(|rows| {
                let here = left < rows.len();
                left = left.saturating_sub(if here { 0 } else { rows.len() });
                here
            });
            let Some(rows) = rows else { continue };
            let count = members.len();
            for (rank, index) in members.into_iter().enumerate() {
                let row = rows[(2 * rank + 1) * rows.len() / (2 * count)];
                jobs[index].memory = whole(row.request);
                jobs[index].memory_peak = whole(row.peak);
            }
        }
    }
}

/// The jobs of each class, the shortest first.
fn by_class(jobs: &[Job]) -> BTreeMap<u64, Vec<usize>> {
    let mut members: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, job) in jobs.iter().enumerate() {
        members.entry(job.program).or_default().push(index);
    }
    for indices in members.values_mut() {
        indices.sort_by_key(|&index| jobs[index].run_us);
    }
    members
}

/// A number below `bound`, by seed and key alone.
fn below(seed: u64, key: u64, bound: usize) -> usize {
    let drawn = Dice::new(seed.rotate_left(32) ^ key).next();
    usize::try_from(drawn % bound.max(1) as u64).unwrap_or(0)
}

fn whole(bytes: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it saturates at both ends")]
    let whole = bytes.round() as u64;
    whole
}

/// Fills the gaps of a log that has memory of its own: a job of which nothing is known gets the memory of one of its
/// class, or of any job where none of its class has some.
pub(super) fn complete(jobs: &mut [Job], own: Own, seed: u64) {
    let known: Vec<usize> = (0..jobs.len()).filter(|&index| jobs[index].memory_peak > 0).collect();
    for members in by_class(jobs).into_values() {
        let ours: Vec<usize> = members.iter().copied().filter(|&index| jobs[index].memory_peak > 0).collect();
        let from = if ours.is_empty() { &known } else { &ours };
        let unknown: Vec<usize> =
            members.iter().copied().filter(|&index| jobs[index].memory_peak == 0).collect();
        for index in unknown {
            let Some(&other) = from.get(below(seed, jobs[index].number, from.len())) else { continue };
            (jobs[index].memory, jobs[index].memory_peak) = (jobs[other].memory, jobs[other].memory_peak);
        }
        let most = members.iter().map(|&index| jobs[index].memory_peak).max().unwrap_or(0);
        for &index in &members {
            let job = &mut jobs[index];
            // A job that held more than it asked for would have had to ask again.
            job.memory = if own.requests { job.memory.max(job.memory_peak) } else { most };
        }
    }
}

/// Scales memory so that the requests of the jobs that fill all cores fill RAM: their mean by processor, weighted by
/// work, becomes what a core has.
pub(super) fn scale(jobs: &mut [Job], ram_per_core: u64) {
    let work = |job: &Job| job.run_us as f64 * f64::from(job.processors);
    let all: f64 = jobs.iter().map(work).sum();
    let asked: f64 = jobs.iter().map(|job| work(job) * job.memory as f64).sum();
    if asked <= 0.0 {
        return;
    }
    let factor = ram_per_core as f64 * all / asked;
    for job in jobs {
        job.memory = whole(job.memory as f64 * factor);
        job.memory_peak = whole(job.memory_peak as f64 * factor);
    }
}

/// The same jobs with other requests.
#[derive(Debug)]
pub(super) struct Advised {
    pub jobs: Vec<Job>,
    /// Jobs that ask for something else than they did.
    pub changed: usize,
    /// Jobs that come to hold more than they ask for now.
    pub below_peak: usize,
    /// What is asked for now, of what was: by processor and work.
    pub asked: f64,
    /// What is held at most, of what was asked for.
    pub held: f64,
}

/// What each job would have asked for by the runs of its class that had ended when it was submitted, if jobs ran as
/// `spans` say; never more than it did ask for, nor than a host has.
pub(super) fn advised(jobs: &[Job], spans: &[Span], ram: u64) -> Advised {
    let name = |job: &Job| (job.user.to_string(), job.program.to_string());
    let names: Vec<(String, String)> = jobs.iter().map(name).collect();
    let seconds = |us: u64| us as f64 / SECOND as f64;
    let mut history = Vec::new();
    for ((job, span), (user, name)) in jobs.iter().zip(spans).zip(&names) {
        history.push(Past {
            user,
            name,
            cores: job.processors,
            submitted_s: seconds(job.submit_us),
            ended_s: seconds(span.end_us),
            wall_s: seconds(job.run_us),
            request_bytes: Some(job.memory),
            peak_bytes: Some(job.memory_peak),
        });
    }
    let mut said = Advised { jobs: jobs.to_vec(), changed: 0, below_peak: 0, asked: 0.0, held: 0.0 };
    let (mut before, mut after, mut held) = (0.0, 0.0, 0.0);
    for (job, advice) in said.jobs.iter_mut().zip(requests(&history)) {
        let work = job.run_us as f64 * f64::from(job.processors);
        before += work * job.memory as f64;
        let request = advice.unwrap_or(job.memory).min(job.memory).min(ram).max(1);
        said.changed += usize::from(request != job.memory);
        said.below_peak += usize::from(job.memory_peak > request);
        job.memory = request;
        after += work * job.memory as f64;
        held += work * job.memory_peak as f64;
    }
    (said.asked, said.held) = (after / before.max(1.0), held / before.max(1.0));
    said
}

/// The rows of a table, with their classes.
fn rows(text: &str) -> anyhow::Result<Vec<(String, Row)>> {
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let place = |names: &[&str]| head.iter().position(|column| names.contains(column));
    let needed = |names: &[&str]| place(names).with_context(|| format!("it has no column `{}`", names[0]));
    let (class, request) = (needed(&["class", "task"])?, needed(&["request_bytes", "mem_req_bytes"])?);
    let (peak, seconds) = (needed(&["peak_bytes", "mem_peak_mb"])?, needed(&["seconds"])?);
    let unit = if head[peak] == "mem_peak_mb" { f64::from(1 << 20) } else { 1.0 };
    let cpus = place(&["cpus", "cpus_req"]);
    let mut rows = Vec::new();
    for (line, number) in lines.zip(2u64..).filter(|(line, _)| !line.is_empty()) {
        let cells: Vec<&str> = line.split(',').collect();
        if cells.len() != head.len() {
            bail!("line {number} has {} cells, and the first {}", cells.len(), head.len());
        }
        let figure = |place: usize| -> anyhow::Result<f64> {
            let value = if cells[place].is_empty() { Ok(0.0) } else { cells[place].parse::<f64>() };
            let wrong =
                || format!("line {number}, `{}`: `{}` is no number from 0 on", head[place], cells[place]);
            value.ok().filter(|value| value.is_finite() && *value >= 0.0).with_context(wrong)
        };
        let processors = cpus.map_or(Ok(1.0), figure)?.max(1.0);
        let (peak, request) = (figure(peak)? * unit, figure(request)?);
        if peak <= 0.0 {
            continue;
        }
        // One that held more than it asked for had to ask again; one that asked for nothing counts as if it knew.
        let row = Row {
            request: request.max(peak) / processors,
            peak: peak / processors,
            seconds: figure(seconds)?,
        };
        rows.push((cells[class].to_owned(), row));
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "class,request_bytes,peak_bytes,seconds,cpus\n\
                         a,400,100,10,2\na,400,300,90,2\nb,1000,1500,5,\nb,,7,5,1\nb,5,0,5,1\n";

    fn job(number: u64, program: u64, run_s: u64) -> Job {
        Job { number, program, run_us: run_s * SECOND, ..Job::default() }
    }

    #[test]
    fn what_a_table_says() {
        let rows = rows(TABLE).unwrap();
        let told: Vec<(&str, f64, f64)> =
            rows.iter().map(|(class, row)| (class.as_str(), row.request, row.peak)).collect();
        assert_eq!(told, [("a", 200.0, 50.0), ("a", 200.0, 150.0), ("b", 1500.0, 1500.0), ("b", 7.0, 7.0)]);
    }

    #[track_caller]
    fn refused(text: &str, words: &str) {
        let error = rows(text).expect_err(text).to_string();
        assert!(error.contains(words), "{error}");
    }

    #[test]
    fn what_is_wrong_with_a_table_is_named() {
        refused("", "no column `class`");
        refused("class,request_bytes,seconds\n", "no column `peak_bytes`");
        refused("class,request_bytes,peak_bytes,seconds\na,1,2\n", "line 2 has 3 cells");
        refused("class,request_bytes,peak_bytes,seconds\na,1,-2,3\n", "line 2, `peak_bytes`: `-2`");
        refused("class,request_bytes,peak_bytes,seconds\na,much,2,3\n", "`much`");
    }

    #[test]
    fn a_class_keeps_its_memory_and_longer_jobs_get_that_of_longer_ones() {
        let row = |seconds: f64, peak: f64| Row { request: 900.0, peak, seconds };
        let table = Table::of(vec![vec![row(9.0, 90.0), row(1.0, 10.0)], vec![row(1.0, 500.0)]]).unwrap();
        let draw = |seed| {
            let mut jobs: Vec<Job> =
                (0..60).map(|number| job(number, 1 + number % 6, 1 + number / 6)).collect();
            table.draw(&mut jobs, seed);
            jobs
        };
        assert_eq!(draw(3), draw(3));
        assert!((0..8).any(|seed| draw(seed) != draw(3)));
        for class in 1..=6 {
            let jobs: Vec<Job> = draw(3).into_iter().filter(|job| job.program == class).collect();
            let peaks: Vec<u64> = jobs.iter().map(|job| job.memory_peak).collect();
            assert!(peaks == [500; 10] || peaks == [10, 10, 10, 10, 10, 90, 90, 90, 90, 90], "{peaks:?}");
            assert!(jobs.iter().all(|job| job.memory == 900));
        }
    }

    #[test]
    fn gaps_of_a_log_are_filled_from_its_own_classes() {
        let with = |job: Job, memory, memory_peak| Job { memory, memory_peak, ..job };
        let log = || [with(job(1, 1, 1), 50, 80), with(job(2, 1, 1), 200, 60), job(3, 1, 1), job(4, 2, 1)];
        let mut jobs = log();
        complete(&mut jobs, Own { requests: true }, 1);
        assert_eq!((jobs[0].memory, jobs[1].memory), (80, 200));
        assert!(
            jobs[2..].iter().all(|job| [80, 60].contains(&job.memory_peak) && job.memory >= job.memory_peak)
        );
        let mut jobs = log();
        complete(&mut jobs, Own { requests: false }, 1);
        assert_eq!([jobs[0].memory, jobs[1].memory, jobs[2].memory], [80; 3]);
    }

    #[test]
    fn requests_of_a_full_host_fill_its_memory() {
        let mut jobs = vec![Job { memory: 10, ..job(1, 1, 30) }, Job { memory: 30, ..job(2, 1, 10) }];
        scale(&mut jobs, 1_500);
        assert_eq!([jobs[0].memory, jobs[1].memory], [1_000, 3_000]);
    }

    #[test]
    fn advice_is_never_above_the_request() {
        let jobs: Vec<Job> = (0..20)
            .map(|number| Job {
                submit_us: number * 100 * SECOND,
                memory: 8 << 30,
                memory_peak: 1 << 30,
                ..job(number, 1, 10)
            })
            .collect();
        let end = |job: &Job| Span {
            submit_us: job.submit_us,
            start_us: job.submit_us,
            end_us: job.submit_us + job.run_us,
        };
        let spans: Vec<Span> = jobs.iter().map(end).collect();
        let said = advised(&jobs, &spans, u64::MAX);
        assert_eq!((said.changed, said.below_peak), (17, 0));
        assert!(said.jobs.iter().all(|job| job.memory <= 8 << 30));
        assert!(said.asked < 0.5, "{}", said.asked);
    }
}
