//! A log as the row plays it: stretches of jobs with classes and memory, and what is known of them.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, bail};
use pinfold_cluster::SECOND;
use pinfold_cluster::fleet::Fleet;
use pinfold_cluster::job::{Filter, Job};
use pinfold_cluster::swf::{Reader, Record};

use super::ClusterArgs;
use super::memory::{self, Own, Table};

/// A log has memory of its own if so many of its jobs have it, in hundredths.
const OWN_PERCENT: usize = 40;
/// A program's number names a class if so many jobs have the same one on average: some logs number each job.
const ALIKE: usize = 3;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Log {
    pub name: String,
    /// Of the machine.
    pub processors: u32,
    pub stretches: Vec<Stretch>,
    /// Jobs of the whole log that can be played at all.
    pub playable: usize,
    /// Of those, jobs wider than half of the machine, which are left out.
    pub wide: usize,
    /// The part of the jobs whose processor time is known.
    pub cpu_known: f64,
    /// Run times asked for are known; else they are taken to be what jobs took.
    pub runtimes_asked: bool,
    /// Where memory comes from.
    pub own: Option<Own>,
    /// What makes jobs alike, in words, and how many classes there are.
    pub alike: &'static str,
    pub classes: usize,
}

/// Jobs in a row, with a draw of memory of their own.
#[derive(Debug)]
pub(super) struct Stretch {
    /// In order of submission, which counts from the first.
    pub jobs: Vec<Job>,
    /// Jobs that need more than half of the hosts with their memory, and are left out.
    pub large: usize,
    /// Work submitted, of what all processors could do.
    pub load: f64,
}

impl Log {
    pub(super) fn read(file: &Path, args: &ClusterArgs, table: &Table) -> anyhow::Result<Self> {
        let (processors, mut records) = records(&super::text(file)?)?;
        let runtimes_asked = records.iter().any(|record| record.requested_s > Some(0));
        if !runtimes_asked {
            records.iter_mut().for_each(|record| record.requested_s = record.run_s);
        }
        let processors = processors.unwrap_or_else(|| busiest(&records));
        let mut filter = Filter::new(Fleet::pool(processors));
        records.iter().for_each(|record| filter.take(record));
        let (mut jobs, _) = filter.finish();
        let playable = jobs.len();
        jobs.retain(|job| job.processors <= (processors / 2).max(1));
        if jobs.is_empty() {
            bail!("there is no job to play");
        }
        let wide = playable - jobs.len();
        let (alike, classes) = classify(&mut jobs);
        let known = |of: fn(&Record) -> Option<u64>| {
            records.iter().filter(|record| of(record).is_some_and(|value| value > 0)).count()
        };
        let percent = |count: usize| count * 100 / records.len().max(1);
        let own = (percent(known(|record| record.memory_used_kib)) >= OWN_PERCENT)
            .then(|| Own { requests: percent(known(|record| record.memory_requested_kib)) >= OWN_PERCENT });
        let half = half(args, processors);
        let places = stretches(&jobs, args.jobs, args.load, processors, args.stretches());
        let stretches: Vec<Stretch> = places
            .into_iter()
            .zip(args.seed..)
            .map(|((place, load), seed)| Stretch::new(&jobs, place, load, args, (table, own, seed), &half))
            .collect();
        if stretches.iter().any(|stretch| stretch.jobs.is_empty()) {
            bail!("no job fits into half of the hosts");
        }
        let name = file.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        let name = name.trim_end_matches(".gz").trim_end_matches(".swf").to_owned();
        let cpu_known = known(|record| record.cpu_s) as f64 / records.len() as f64;
        Ok(Self {
            name,
            processors,
            stretches,
            playable,
            wide,
            cpu_known,
            runtimes_asked,
            own,
            alike,
            classes,
        })
    }
}

impl Stretch {
    /// These of all jobs, with memory drawn by a seed.
    fn new(
        all: &[Job],
        place: Range<usize>,
        load: f64,
        args: &ClusterArgs,
        (table, own, seed): (&Table, Option<Own>, u64),
        half: &Fleet,
    ) -> Self {
        let mut with_memory = all.to_vec();
        match own {
            Some(own) => memory::complete(&mut with_memory, own, seed),
            None => table.draw(&mut with_memory, seed),
        }
        let mut jobs = with_memory[place].to_vec();
        let begin = jobs.first().map_or(0, |job| job.submit_us);
        jobs.iter_mut().for_each(|job| job.submit_us -= begin);
        memory::scale(&mut jobs, args.ram_per_core);
        let before = jobs.len();
        jobs.retain(|job| half.room(job) >= job.processors);
        let large = before - jobs.len();
        Self { jobs, large, load }
    }
}

/// Half of the hosts.
fn half(args: &ClusterArgs, processors: u32) -> Fleet {
    let job_memory = args.ram_per_core.saturating_mul(args.cores.into());
    let hosts = (processors.div_ceil(args.cores) / 2).max(1);
    Fleet { hosts, cores: args.cores, slots: args.cores, memory: Some(job_memory), job_memory }
}

/// Processors of the machine, where the header says so, and all lines.
fn records(text: &str) -> anyhow::Result<(Option<u32>, Vec<Record>)> {
    let mut reader = Reader::default();
    let mut records = Vec::new();
    for line in text.lines() {
        records.extend(reader.line(line)?);
    }
    let told = reader.header().processors.map(u32::try_from).transpose();
    Ok((told.context("the header's MaxProcs is too large")?.filter(|&count| count > 0), records))
}

/// The most processors that jobs had at once, for logs that do not say how many there were.
fn busiest(records: &[Record]) -> u32 {
    let mut changes = Vec::new();
    for record in records {
        let (Some(submit), Some(run), Some(count)) = (record.submit_s, record.run_s, record.allocated) else {
            continue;
        };
        let start = submit.saturating_add(record.wait_s.unwrap_or(0));
        changes.push((start.saturating_add(run), false, count));
        changes.push((start, true, count));
    }
    // At one moment ends come first.
    changes.sort_unstable();
    let (mut now, mut most) = (0u64, 1u64);
    for (_, begins, count) in changes {
        now = if begins { now.saturating_add(count) } else { now.saturating_sub(count) };
        most = most.max(now);
    }
    u32::try_from(most).unwrap_or(u32::MAX)
}

/// Gives each job its class as its program; says what makes jobs alike, and how many classes there are.
fn classify(jobs: &mut [Job]) -> (&'static str, usize) {
    let programs: BTreeMap<(u64, u64), usize> = count(jobs.iter().map(|job| (job.user, job.program)));
    let told = jobs.iter().filter(|job| job.program > 0).count() * 2 > jobs.len();
    let by_program = told && jobs.len() >= ALIKE * programs.len();
    let key = |job: &Job| (job.user, if by_program { job.program } else { job.processors.into() });
    let keys: BTreeMap<(u64, u64), usize> = count(jobs.iter().map(key));
    let numbers: BTreeMap<(u64, u64), u64> = keys.keys().copied().zip(1..).collect();
    for job in jobs.iter_mut() {
        job.program = numbers[&key(job)];
    }
    let alike = if by_program { "user and program" } else { "user and number of processors" };
    (alike, numbers.len())
}

fn count<K: Ord>(keys: impl Iterator<Item = K>) -> BTreeMap<K, usize> {
    keys.fold(BTreeMap::new(), |mut counts, key| {
        *counts.entry(key).or_default() += 1;
        counts
    })
}

/// So many stretches of so many jobs in a row, which have no job in common: those whose loads are nearest to the one
/// wanted; in order, with their loads.
fn stretches(
    jobs: &[Job],
    count: usize,
    wanted: f64,
    processors: u32,
    most: usize,
) -> Vec<(Range<usize>, f64)> {
    let load = |place: &Range<usize>| {
        let part = &jobs[place.clone()];
        let work: f64 = part.iter().map(|job| job.run_us as f64 * f64::from(job.processors)).sum();
        let submit = |job: Option<&Job>| job.map_or(0, |job| job.submit_us);
        let lasted_us = submit(part.last()) - submit(part.first());
        work / (lasted_us.max(SECOND) as f64 * f64::from(processors))
    };
    let count = count.min(jobs.len()).max(1);
    let places = (0..=jobs.len() - count).step_by(count).map(|first| first..first + count);
    let mut found: Vec<(Range<usize>, f64)> = places.map(|place| (place.clone(), load(&place))).collect();
    found.sort_by(|a, b| (a.1 - wanted).abs().total_cmp(&(b.1 - wanted).abs()));
    found.truncate(most);
    found.sort_by_key(|(place, _)| place.start);
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(submit_s: u64, user: u64, program: u64) -> Job {
        Job { submit_us: submit_s * SECOND, run_us: 60 * SECOND, user, program, ..Job::default() }
    }

    #[test]
    fn a_program_names_a_class_only_if_it_comes_again() {
        let mut jobs: Vec<Job> = (0..12).map(|number| job(number, 1, 1 + number % 2)).collect();
        assert_eq!(classify(&mut jobs), ("user and program", 2));
        assert_ne!(jobs[0].program, jobs[1].program);
        let mut jobs: Vec<Job> = (0..12).map(|number| job(number, 1, number + 1)).collect();
        assert_eq!(classify(&mut jobs), ("user and number of processors", 1));
        assert!(jobs.iter().all(|job| job.program == 1));
    }

    #[test]
    fn the_stretches_with_the_wanted_load_are_played() {
        // One job of a minute every two minutes, then every minute, on one processor.
        let slow = (0..100).map(|number| job(120 * number, 1, 1));
        let jobs: Vec<Job> = slow.chain((0..100).map(|number| job(12_000 + 60 * number, 1, 1))).collect();
        let near = |wanted, most| stretches(&jobs, 40, wanted, 1, most);
        let slow = near(0.5, 2);
        assert!(slow.iter().all(|(_, load)| (0.45..0.55).contains(load)), "{slow:?}");
        assert_eq!(slow.iter().map(|(place, _)| place.clone()).collect::<Vec<_>>(), [0..40, 40..80]);
        let (place, load) = near(1.0, 1).remove(0);
        assert!((0.95..1.05).contains(&load) && place.start >= 100, "{place:?} {load}");
        // Five are all that there are, and of a short log there is one.
        assert_eq!((near(1.0, 9).len(), stretches(&jobs, 1_000, 1.0, 1, 6).len()), (5, 1));
    }

    #[test]
    fn a_machine_that_is_not_told_is_as_large_as_its_busiest_moment() {
        let record = |submit_s, run_s, allocated| Record {
            submit_s: Some(submit_s),
            run_s: Some(run_s),
            allocated: Some(allocated),
            ..Record::default()
        };
        assert_eq!(busiest(&[record(0, 10, 4), record(5, 10, 3), record(10, 5, 2)]), 7);
        assert_eq!(busiest(&[]), 1);
    }
}
