//! Which of a user's jobs a name means together, where several had it.
//!
//! Jobs belong together as one group: the members of an array, the lines of a batch, and jobs that were submitted one soon
//! after the other. A name means the last group, and those before it that were not over when it began. A group that was
//! over by then counts no more: the later one repeats it. Pure: told of jobs, over or not.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_profile::store::Namesake;
use pinfold_proto::row::{JobRow, ProcessId};

/// Jobs that are submitted so soon one after the other belong together: a loop in a script is as fast, a user that saw how
/// the first one ended is not.
const TOGETHER_US: u64 = 2_000_000;

/// Jobs by number.
pub(crate) type Namesakes = BTreeMap<u64, Namesake>;

/// A job as it is in memory.
pub(crate) fn namesake(row: &JobRow) -> Namesake {
    Namesake {
        job: row.job,
        array: row.spec.array.and_then(|place| place.array),
        line: row.spec.line,
        keeper: row.keeper,
        submitted_us: row.submitted_us,
        ended_us: row.ended_us,
        well: row.ended_well(),
    }
}

/// The batch that a job is a line of, if it is: its keeper.
pub(crate) fn batch(job: &Namesake) -> Option<ProcessId> {
    job.line.and(job.keeper)
}

/// What makes jobs one group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Array(u64),
    Batch(ProcessId),
    /// The first of jobs that were submitted one soon after the other.
    Single(u64),
}

#[derive(Debug)]
struct Group<'a> {
    kind: Kind,
    began_us: u64,
    /// When all were over; `None`: some are not.
    over_us: Option<u64>,
    jobs: Vec<&'a Namesake>,
}

/// The jobs and arrays that a name means, of all that have it: those that are not over, and of those that are as many as
/// say how they ended together. For conditions are checked job by job, and a batch may have had any number of lines.
pub(crate) fn meant(all: &Namesakes) -> BTreeSet<u64> {
    let groups = groups(all);
    let began_us = groups.iter().map(|group| group.began_us).max().unwrap_or(0);
    let is_meant = |group: &&Group<'_>| {
        group.began_us == began_us || group.over_us.is_none_or(|over_us| over_us > began_us)
    };
    let (mut meant, mut over): (_, Vec<&Namesake>) = (BTreeSet::new(), Vec::new());
    for group in groups.iter().filter(is_meant) {
        match group.kind {
            Kind::Array(array) => {
                meant.insert(array);
            }
            Kind::Batch(_) | Kind::Single(_) => {
                meant.extend(group.jobs.iter().filter(|job| job.ended_us.is_none()).map(|job| job.job));
                over.extend(last_tries(&group.jobs).filter(|job| job.ended_us.is_some()));
            }
        }
    }
    let failed = over.iter().find(|job| !job.well);
    let last = || over.last().filter(|_| meant.is_empty());
    let told = failed.or_else(last).map(|job| job.job);
    meant.extend(told);
    meant
}

/// In the order in which they began.
fn groups(all: &Namesakes) -> Vec<Group<'_>> {
    let mut groups: BTreeMap<Kind, Group<'_>> = BTreeMap::new();
    let mut last: Option<(Kind, u64)> = None;
    for job in all.values() {
        let kind = match (job.array, batch(job), last) {
            (Some(array), ..) => Kind::Array(array),
            (None, Some(keeper), _) => Kind::Batch(keeper),
            (None, None, Some((kind, at_us))) if job.submitted_us.saturating_sub(at_us) <= TOGETHER_US => {
                kind
            }
            (None, None, _) => Kind::Single(job.job),
        };
        if matches!(kind, Kind::Single(_)) {
            last = Some((kind, job.submitted_us));
        }
        let new = || Group { kind, began_us: job.submitted_us, over_us: Some(0), jobs: Vec::new() };
        let group = groups.entry(kind).or_insert_with(new);
        group.over_us = group.over_us.zip(job.ended_us).map(|(one, other)| one.max(other));
        group.jobs.push(job);
    }
    let mut groups: Vec<Group<'_>> = groups.into_values().collect();
    groups.sort_by_key(|group| (group.began_us, group.jobs[0].job));
    groups
}

/// Of a line that was tried again, the last try; all others.
fn last_tries<'a>(jobs: &[&'a Namesake]) -> impl Iterator<Item = &'a Namesake> {
    let mut last: BTreeMap<(Option<u64>, u64), &Namesake> = BTreeMap::new();
    for job in jobs {
        let key = job.line.map_or((None, job.job), |line| (Some(line), 0));
        last.insert(key, job);
    }
    last.into_values()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A job as `12`, with its submission and its end, in seconds; `+`: it ended well.
    fn job(job: u64, submitted_s: u64, end: &str) -> Namesake {
        let (well, at) = (end.starts_with('+'), end.trim_start_matches(['+', '-']));
        let ended_us = (!at.is_empty()).then(|| at.parse::<u64>().expect(end) * 1_000_000);
        let submitted_us = submitted_s * 1_000_000;
        Namesake { job, array: None, line: None, keeper: None, submitted_us, ended_us, well }
    }

    fn line(of: u32, line: u64, one: Namesake) -> Namesake {
        Namesake { line: Some(line), keeper: Some(ProcessId { pid: of, start_ticks: 1 }), ..one }
    }

    fn member(array: u64, one: Namesake) -> Namesake {
        Namesake { array: Some(array), ..one }
    }

    #[track_caller]
    fn check(all: &[Namesake], wanted: &[u64]) {
        let all: Namesakes = all.iter().map(|job| (job.job, *job)).collect();
        assert_eq!(meant(&all).into_iter().collect::<Vec<_>>(), wanted, "{all:?}");
    }

    #[test]
    fn a_repetition_takes_the_place_of_what_is_over() {
        check(&[], &[]);
        check(&[job(1, 0, "+5")], &[1]);
        check(&[job(1, 0, "-5"), job(2, 10, "+15")], &[2]);
        check(&[job(1, 0, "-5"), job(2, 10, "")], &[2]);
        // The first one was not over when the second was submitted.
        check(&[job(1, 0, "-12"), job(2, 10, "+15")], &[1]);
        check(&[job(1, 0, ""), job(2, 10, "+15")], &[1]);
        check(&[job(1, 0, ""), job(2, 10, "-15"), job(3, 20, "")], &[1, 3]);
    }

    #[test]
    fn jobs_that_were_submitted_together_belong_together() {
        check(&[job(1, 0, "-0"), job(2, 1, "+1")], &[1]);
        check(&[job(1, 0, "-0"), job(2, 2, "+2"), job(3, 4, "+4")], &[1]);
        check(&[job(1, 0, "-0"), job(2, 3, "+3")], &[2]);
        check(&[job(1, 0, "+1"), job(2, 1, "+2")], &[2]);
        check(&[job(1, 0, "-0"), job(2, 1, "")], &[1, 2]);
    }

    #[test]
    fn a_batch_is_one_whenever_its_lines_ended() {
        let lines = |ends: [&str; 3]| {
            [0, 1, 2].map(|at: usize| line(7, at as u64 + 1, job(at as u64 + 1, 100 * at as u64, ends[at])))
        };
        check(&lines(["-50", "+150", "+250"]), &[1]);
        check(&lines(["+50", "-150", ""]), &[2, 3]);
        check(&lines(["+50", "+150", "+250"]), &[3]);
        // A line that was tried again ended as its last try did.
        let again =
            [line(7, 1, job(1, 0, "-10")), line(7, 2, job(2, 0, "+10")), line(7, 1, job(3, 90, "+95"))];
        check(&again, &[2]);
        // Another batch repeats it.
        let [one, two, three] = lines(["-50", "+150", "+250"]);
        check(&[one, two, three, line(8, 1, job(4, 300, "+310"))], &[4]);
        check(&[one, two, three, line(8, 1, job(4, 200, "+310"))], &[1]);
    }

    #[test]
    fn an_array_is_told_by_its_number() {
        let members = [member(4, job(4, 0, "-5")), member(4, job(5, 0, ""))];
        check(&members, &[4]);
        check(&[members[0], members[1], job(6, 50, "-60")], &[4, 6]);
        check(&[job(1, 0, "-5"), member(4, job(4, 10, "+15")), member(4, job(5, 10, "+25"))], &[4]);
    }
}
