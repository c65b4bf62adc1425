//! After which jobs a job starts, as `--after` has it: `12`, `ok:12,failed:align`, `any:12_[0-3]`.

use pinfold_proto::{After, AfterEnd, ExitCode};

use crate::names::{self, JobRef};
use pinfold_client::Client;
use pinfold_client::Failure;

/// What `--after` says.
#[derive(Debug, Clone, Default)]
pub(crate) struct AfterArgs(Vec<(AfterEnd, JobRef)>);

impl AfterArgs {
    /// Whether a job is named otherwise than by its number: then the daemon has to be asked.
    pub(crate) fn has_names(&self) -> bool {
        self.0.iter().any(|(_, job)| !matches!(job, JobRef::Number(_)))
    }

    /// Those that are named by numbers.
    pub(crate) fn numbers(&self) -> Vec<After> {
        let number = |(end, job): &(AfterEnd, JobRef)| match job {
            JobRef::Number(job) => Some(After { end: *end, job: job.clone() }),
            JobRef::Named(_) | JobRef::External(_) => None,
        };
        self.0.iter().filter_map(number).collect()
    }

    /// All of them, by numbers.
    pub(crate) fn resolved(&self, client: &mut Client) -> Result<Vec<After>, Failure> {
        let jobs: Vec<JobRef> = self.0.iter().map(|(_, job)| job.clone()).collect();
        let meant = names::all(client, &jobs)?;
        let all = self.0.iter().zip(meant).map(|((end, job), jobs)| {
            // That one of several fails is no condition that the daemon knows.
            if *end == AfterEnd::Failed && jobs.len() > 1 {
                let text = format!(
                    "--after failed:{job}: {} jobs of yours have this name; name one by its number",
                    jobs.len()
                );
                return Err(Failure::new(ExitCode::Usage, text));
            }
            Ok(jobs.into_iter().map(|job| After { end: *end, job }))
        });
        Ok(all.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
    }
}

/// Reads the option.
pub(crate) fn after(text: &str) -> Result<AfterArgs, String> {
    names::between_commas(text).iter().map(|piece| one(piece)).collect::<Result<_, _>>().map(AfterArgs)
}

fn one(text: &str) -> Result<(AfterEnd, JobRef), String> {
    // A list of indexes may have a colon as well: 12_[0-8:2].
    let worded = text.split_once(':').filter(|(word, _)| !word.contains('['));
    let (end, job) = match worded {
        None => (AfterEnd::Any, text),
        Some((word, job)) => {
            let wanted = || format!("`{word}:` says nothing of a job's end; ok:, failed: and any: do");
            (AfterEnd::of(word).ok_or_else(wanted)?, job)
        }
    };
    Ok((end, job.parse().map_err(|error: pinfold_proto::array::ArrayError| error.to_string())?))
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
        assert_eq!(read("ok:align,9"), Ok((numbers(&["9"]), true)));
        for bad in ["", "7,", "ok:", "okay:7", "ok:7_", "12_[0,7", ",7", "ok:any:7x,"] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }
}
