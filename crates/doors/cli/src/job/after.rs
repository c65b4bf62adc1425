//! After which jobs a job starts, as `--after` has it: `12`, `ok:12,failed:align`, `any:12_[0-3]`.

use pinfold_proto::array::{ArrayError, JobName};
use pinfold_proto::{After, AfterEnd};

use crate::names::{self, JobRef};
use pinfold_client::{Client, Failure};

/// The value of `--after`: ends and jobs; jobs of a piece count as a group.
#[derive(Debug, Clone, Default)]
pub(crate) struct AfterArgs(Vec<(AfterEnd, Vec<JobRef>)>);

impl AfterArgs {
    /// Whether a job is named otherwise than by its number: then the daemon has to be asked.
    pub(crate) fn has_names(&self) -> bool {
        self.0.iter().flat_map(|(_, jobs)| jobs).any(|job| !matches!(job, JobRef::Number(_)))
    }

    /// The conditions on jobs named by numbers.
    pub(crate) fn numbers(&self) -> Vec<After> {
        let number = |job: &JobRef| match job {
            JobRef::Number(job) => Some(job.clone()),
            _ => None,
        };
        let of = |(end, jobs): &(AfterEnd, Vec<JobRef>)| as_one(*end, jobs.iter().filter_map(number));
        self.0.iter().flat_map(of).collect()
    }

    /// All conditions, by numbers.
    pub(crate) fn resolved(&self, client: &mut Client) -> Result<Vec<After>, Failure> {
        let jobs: Vec<JobRef> = self.0.iter().flat_map(|(_, jobs)| jobs).cloned().collect();
        let mut meant = names::all(client, &jobs)?.into_iter();
        let of = |(end, jobs): &(AfterEnd, Vec<JobRef>)| {
            as_one(*end, meant.by_ref().take(jobs.len()).flatten().collect::<Vec<JobName>>())
        };
        Ok(self.0.iter().flat_map(of).collect())
    }
}

/// The conditions of jobs that count as a group. The group has failed if any of its jobs has; other ends hold for each
/// job by itself.
fn as_one(end: AfterEnd, jobs: impl IntoIterator<Item = JobName>) -> Vec<After> {
    let mut all: Vec<After> = jobs.into_iter().map(|job| After { end, job, with: Vec::new() }).collect();
    if end == AfterEnd::Failed && !all.is_empty() {
        let with = all.drain(1..).map(|after| after.job).collect();
        all[0].with = with;
    }
    all
}

/// Reads the option.
pub(crate) fn after(text: &str) -> Result<AfterArgs, String> {
    names::between_commas(text).iter().map(|piece| one(piece)).collect::<Result<_, _>>().map(AfterArgs)
}

fn one(text: &str) -> Result<(AfterEnd, Vec<JobRef>), String> {
    // A list of indexes may have a colon as well: 12_[0-8:2].
    let worded = text.split_once(':').filter(|(word, _)| !word.contains('['));
    let (end, jobs) = match worded {
        None => (AfterEnd::Any, text),
        Some((word, job)) => {
            let wanted = || format!("`{word}:` says nothing of a job's end; ok:, failed: and any: do");
            (AfterEnd::of(word).ok_or_else(wanted)?, job)
        }
    };
    // A name with a plus sign stays a single name.
    if let Ok(numbers) = jobs.split('+').map(str::parse::<JobName>).collect::<Result<Vec<_>, _>>() {
        return Ok((end, numbers.into_iter().map(JobRef::Number).collect()));
    }
    let job = jobs.parse().map_err(|error: ArrayError| error.to_string())?;
    Ok((end, vec![job]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predecessors_by_number_and_name() {
        let read = |text: &str| {
            after(text).map(|all| {
                (all.numbers().iter().map(ToString::to_string).collect::<Vec<_>>(), all.has_names())
            })
        };
        let numbers = |all: &[&str]| all.iter().map(|one| (*one).to_owned()).collect::<Vec<_>>();
        assert_eq!(read("7"), Ok((numbers(&["7"]), false)));
        assert_eq!(
            read("ok:7,any:12_3,failed:12_[0,2-3]"),
            Ok((numbers(&["ok:7", "12_3", "failed:12_[0,2-3]"]), false))
        );
        assert_eq!(read("12_[0-8:2]"), Ok((numbers(&["12_[0-8:2]"]), false)));
        assert_eq!(read("failed:7+12_3,ok:8+9"), Ok((numbers(&["failed:7+12_3", "ok:8", "ok:9"]), false)));
        assert_eq!(read("failed:g++,9"), Ok((numbers(&["9"]), true)));
        assert_eq!(read("ok:align,9"), Ok((numbers(&["9"]), true)));
        for bad in ["", "7,", "ok:", "okay:7", "ok:7_", "12_[0,7", ",7", "ok:any:7x,", "failed:7+", "7+x"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
