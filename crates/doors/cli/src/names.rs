//! Which jobs people mean: a number, a whole array by its number, members of it (`12_3`), a range of numbers (`12-20`),
//! the name of a job or of an array, or the name that a job has in its workload manager (`slurm:1234.batch`). The daemon
//! knows.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use pinfold_profile::report::{plain, with_dates_here};
use pinfold_proto::array::{ArrayError, JobName, called, show_indexes};
use pinfold_proto::view::{JobView, VERSION, WhyView};
use pinfold_proto::wire::{Member, Members, Reply, Request};
use pinfold_proto::{ExitCode, ExternalName, JobState};
use serde_json::{Value, json};

use pinfold_client::{Client, Failure, unexpected};

/// The most numbers that a range may span: the daemon is asked about each.
const RANGE_MAX: u64 = 1000;

/// A job on a command line: by its number, or by its name if no other job has that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobRef {
    /// By its number, as an array, or as members of an array.
    Number(JobName),
    /// All jobs with numbers from the first to the second, both included.
    Range(u64, u64),
    /// By its name.
    Named(String),
    /// By its name in the workload manager that dispatched it.
    External(ExternalName),
}

impl FromStr for JobRef {
    type Err = ArrayError;

    fn from_str(text: &str) -> Result<Self, ArrayError> {
        let numbers = text.split_once('-').map(|(first, last)| (first.parse(), last.parse()));
        if let Some((Ok(first), Ok(last))) = numbers {
            let reversed = || ArrayError::Reversed(text.to_owned());
            return (first <= last).then_some(Self::Range(first, last)).ok_or_else(reversed);
        }
        match text.parse() {
            Ok(number) => Ok(Self::Number(number)),
            // A text that begins as a number is meant as a number.
            Err(error) if text.is_empty() || text.starts_with(|c: char| c.is_ascii_digit() || c == '-') => {
                Err(error)
            }
            Err(_) => Ok(text.parse().map_or_else(|_| Self::Named(text.to_owned()), Self::External)),
        }
    }
}

impl fmt::Display for JobRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(name) => name.fmt(f),
            Self::Range(first, last) => write!(f, "{first}-{last}"),
            Self::Named(name) => name.fmt(f),
            Self::External(name) => name.fmt(f),
        }
    }
}

impl From<JobName> for JobRef {
    fn from(name: JobName) -> Self {
        Self::Number(name)
    }
}

/// The jobs, arrays or members that each of these names: of a range several.
pub(crate) fn resolve(client: &mut Client, jobs: &[JobRef]) -> Result<Vec<Vec<JobName>>, Failure> {
    let one = |client: &mut Client, names| {
        let jobs = answer!(client.ask(&Request::Named { names })?, Named)?;
        Ok(jobs.into_iter().map(|job| vec![job]).collect())
    };
    resolve_by(client, jobs, one)
}

/// All jobs that each of these means: of a name that several have, all of them.
pub(crate) fn all(client: &mut Client, jobs: &[JobRef]) -> Result<Vec<Vec<JobName>>, Failure> {
    resolve_by(client, jobs, |client, names| answer!(client.ask(&Request::AllNamed { names })?, AllNamed))
}

/// As [`resolve`]; `ask` gives the jobs that each of some names means.
fn resolve_by(
    client: &mut Client,
    jobs: &[JobRef],
    ask: impl FnOnce(&mut Client, Vec<String>) -> Result<Vec<Vec<u64>>, Failure>,
) -> Result<Vec<Vec<JobName>>, Failure> {
    let is_name = |job: &&JobRef| matches!(job, JobRef::Named(_));
    let names: Vec<String> = jobs.iter().filter(is_name).map(ToString::to_string).collect();
    let found = if names.is_empty() { Vec::new() } else { ask(client, names)? };
    let (mut found, mut external) = (found.into_iter(), external(client, jobs)?.into_iter());
    let names = |job: &JobRef| match *job {
        JobRef::Number(ref name) => Ok(vec![name.clone()]),
        JobRef::Range(first, last) => in_range(client, first, last),
        JobRef::Named(_) => Ok(found.next().unwrap_or_default().into_iter().map(JobName::from).collect()),
        JobRef::External(_) => Ok(external.next().map(JobName::from).into_iter().collect()),
    };
    jobs.iter().map(names).collect()
}

/// The existing jobs of a range that the user may see, at least 1.
fn in_range(client: &mut Client, first: u64, last: u64) -> Result<Vec<JobName>, Failure> {
    if last - first >= RANGE_MAX {
        let text = format!("{first}-{last} spans more than {RANGE_MAX} numbers; name shorter ranges");
        return Err(Failure::new(ExitCode::Usage, text));
    }
    let mut jobs = Vec::new();
    for job in first..=last {
        match client.ask(&Request::Status { jobs: vec![job], all: true, at_us: None }) {
            Ok(Reply::Status(view)) => {
                jobs.extend(view.jobs.iter().filter_map(|view| in_range_of(first, view)))
            }
            Ok(other) => return Err(unexpected(&other)),
            Err(failure) if matches!(failure.code, ExitCode::Failed | ExitCode::Permission) => {}
            Err(failure) => return Err(failure),
        }
    }
    if jobs.is_empty() {
        let text = format!("there is no job of yours with a number from {first} to {last}");
        return Err(Failure::new(ExitCode::Failed, text));
    }
    Ok(jobs)
}

/// The name of a job in a range with this first number. The number of an array, which is its first member's, stands for
/// all members: the others have none then.
fn in_range_of(first: u64, view: &JobView) -> Option<JobName> {
    match view.array_id {
        Some(array) if array < first => called(view.job, view.array_id, view.array_index).parse().ok(),
        Some(array) if array != view.job => None,
        _ => Some(view.job.into()),
    }
}

/// The numbers of jobs by their names in workload managers.
fn external(client: &mut Client, jobs: &[JobRef]) -> Result<Vec<u64>, Failure> {
    let external = |job: &JobRef| match job {
        JobRef::External(name) => Some(name.clone()),
        _ => None,
    };
    let names: Vec<ExternalName> = jobs.iter().filter_map(external).collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    answer!(client.ask(&Request::Externals { names })?, Externals)
}

/// The pieces of a list between commas; commas within brackets do not count.
pub(crate) fn between_commas(text: &str) -> Vec<String> {
    let (mut all, mut piece, mut inside) = (Vec::new(), String::new(), false);
    for c in text.chars().chain([',']) {
        match c {
            ',' if !inside => all.push(std::mem::take(&mut piece)),
            c => {
                inside = c == '[' || (inside && c != ']');
                piece.push(c);
            }
        }
    }
    if !piece.is_empty() {
        // A bracket that is never closed: the reader of the piece reports it.
        piece.pop();
        all.push(piece);
    }
    all
}

/// The jobs that each name means. A range of several counts as an array.
pub(crate) fn members(client: &mut Client, jobs: &[JobRef]) -> Result<Vec<Members>, Failure> {
    let named = resolve(client, jobs)?;
    let names: Vec<JobName> = named.iter().flatten().cloned().collect();
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let mut found = answer!(client.ask(&Request::Members { names })?, Members)?.into_iter();
    let together = |names: &Vec<JobName>| {
        let all: Vec<Members> = found.by_ref().take(names.len()).collect();
        let array = names.len() > 1 || all.iter().any(|members| members.array);
        Members { array, jobs: all.into_iter().flat_map(|members| members.jobs).collect() }
    };
    Ok(named.iter().map(together).collect())
}

/// The numbers of all these jobs.
pub(crate) fn jobs(client: &mut Client, names: &[JobRef]) -> Result<Vec<u64>, Failure> {
    let members = members(client, names)?;
    Ok(members.iter().flat_map(|members| &members.jobs).map(|member| member.job).collect())
}

/// The jobs that can still be changed: of a whole array or a range, the jobs that are not over.
pub(crate) fn not_over(client: &mut Client, names: &[JobRef]) -> Result<Vec<u64>, Failure> {
    let mut all: Vec<u64> = Vec::new();
    for (name, members) in names.iter().zip(members(client, names)?) {
        let left = members.jobs.iter().filter(|member| !(members.array && member.over));
        let left: Vec<u64> = left.map(|member| member.job).collect();
        if left.is_empty() {
            let what = if matches!(name, JobRef::Range(..)) { "jobs" } else { "members of array" };
            let text = format!("all {what} {name} are over already");
            return Err(Failure::new(ExitCode::Failed, text));
        }
        all.extend(left);
    }
    let mut seen = BTreeSet::new();
    all.retain(|&job| seen.insert(job));
    Ok(all)
}

/// Why the members of an array are in their states; members with the same reason, numbers aside, form a group.
pub(crate) struct WhyArray {
    array: u64,
    groups: Vec<Group>,
}

struct Group {
    indexes: Vec<u32>,
    first: WhyView,
}

impl WhyArray {
    /// From each member and its reason.
    pub(crate) fn new(array: u64, members: Vec<(Member, WhyView)>) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        let mut known: BTreeMap<(String, String), usize> = BTreeMap::new();
        for (member, view) in members {
            let key = (format!("{:?}", view.state), without_numbers(&view.cause));
            let at = *known.entry(key).or_insert(groups.len());
            match groups.get_mut(at) {
                Some(group) => group.indexes.extend(member.index),
                None => groups.push(Group { indexes: member.index.into_iter().collect(), first: view }),
            }
        }
        Self { array, groups }
    }

    pub(crate) fn json(&self) -> Value {
        let groups = self.groups.iter().map(|group| {
            let mut of_group = json!({
                "members": show_indexes(&group.indexes),
                "jobs": group.indexes.len(),
                "first_job": group.first.job,
                "state": group.first.state,
                "cause": group.first.cause,
                "numbers": group.first.numbers,
                "figures": group.first.figures,
                "change": group.first.change,
            });
            if let Some(left_out) = group.first.left_out {
                of_group["left_out"] = json!(left_out);
            }
            of_group
        });
        json!({ "version": VERSION, "array_id": self.array, "groups": groups.collect::<Vec<_>>() })
    }

    pub(crate) fn write(&self, out: &mut dyn std::io::Write) -> std::io::Result<()> {
        let count: usize = self.groups.iter().map(|group| group.indexes.len()).sum();
        writeln!(out, "array {} has {count} {}", self.array, if count == 1 { "member" } else { "members" })?;
        for Group { indexes, first } in &self.groups {
            let state = if first.state == JobState::Exited { "over" } else { first.state_words() };
            writeln!(out)?;
            match indexes.as_slice() {
                [index] => writeln!(
                    out,
                    "{}_{index} is {state}: {}",
                    self.array,
                    plain(&with_dates_here(&first.cause))
                )?,
                all => {
                    let (array, list, count) = (self.array, show_indexes(all), all.len());
                    writeln!(
                        out,
                        "{array}_[{list}] ({count}) are {state}; the first of them: {}",
                        plain(&with_dates_here(&first.cause))
                    )?;
                }
            }
            if first.state != JobState::Exited {
                writeln!(out, "  what would change it: {}", plain(&with_dates_here(&first.change)))?;
            }
        }
        Ok(())
    }
}

/// A text in which figures do not count.
fn without_numbers(text: &str) -> String {
    let mut plain: String = text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
    while plain.contains("##") {
        plain = plain.replace("##", "#");
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_between_commas() {
        assert_eq!(between_commas("7"), ["7"]);
        assert_eq!(between_commas("12_[0,2-3],7"), ["12_[0,2-3]", "7"]);
        assert_eq!(between_commas("7,"), ["7", ""]);
        assert_eq!(between_commas("12_[0,7"), ["12_[0,7"]);
    }

    #[test]
    fn a_job_has_a_number_or_a_name() {
        let read = |text: &str| text.parse::<JobRef>();
        assert_eq!(read("12_3"), Ok(JobRef::Number("12_3".parse().unwrap())));
        assert_eq!(read("align_3"), Ok(JobRef::Named("align_3".to_owned())));
        assert_eq!(read("align-3"), Ok(JobRef::Named("align-3".to_owned())));
        assert_eq!(read("12-20"), Ok(JobRef::Range(12, 20)));
        assert_eq!(read("7-7").map(|range| range.to_string()), Ok("7-7".to_owned()));
        for bad in ["", "12_", "12x", "-3", "1.5", "20-12", "12-", "12-x", "12_3-5"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn members_of_which_the_same_is_said_stand_together() {
        let one = |index: u32, state, cause: &str| {
            let view = WhyView {
                version: VERSION,
                job: 12 + u64::from(index),
                state,
                cause: cause.to_owned(),
                numbers: Vec::new(),
                figures: pinfold_proto::row::Figures::new(),
                change: "its end".to_owned(),
                decisions: Vec::new(),
                left_out: None,
                expected_start_s: None,
            };
            (Member { job: view.job, index: Some(index), over: false }, view)
        };
        let why = WhyArray::new(
            12,
            vec![
                one(0, JobState::Running, "it is a primary"),
                one(1, JobState::Queued, "all 3 slots are taken and 10 jobs are before it"),
                one(2, JobState::Queued, "all 3 slots are taken and 9 jobs are before it"),
                one(4, JobState::Queued, "it is held"),
            ],
        );
        let mut text = Vec::new();
        why.write(&mut text).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "array 12 has 4 members\n\n12_0 is running: it is a primary\n  what would change it: its end\n\n\
             12_[1-2] (2) are queued; the first of them: all 3 slots are taken and 10 jobs are before it\n  \
             what would change it: its end\n\n12_4 is queued: it is held\n  what would change it: its end\n"
        );
        assert_eq!(why.json()["groups"][1]["members"], "1-2");
    }
}
