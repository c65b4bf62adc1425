//! The options by which commands that change jobs, wait for jobs or explain them choose among many: `--name`, `--state`, `--all`.

use clap::Args;
use pinfold_client::{Client, Failure};
use pinfold_proto::array::JobName;
use pinfold_proto::wire::Request;
use pinfold_proto::{ExitCode, JobState};
use pinfold_sys::peer;

use crate::names::{self, JobRef};
use crate::show::{Filter, STATES};

/// Which jobs a command changes, waits for or explains.
#[derive(Debug, Args)]
pub(crate) struct Pick {
    /// Numbers (12), ranges (12-20), members of arrays (12_3) or names of jobs; an array stands for all its members
    #[arg(value_name = "JOB", required_unless_present_any = ["name", "state", "all"])]
    pub jobs: Vec<JobRef>,
    /// Only jobs with this name, of JOB or of all your jobs; * stands for any characters
    #[arg(long, value_name = "NAME", help_heading = JOBS_HEADING)]
    pub name: Option<String>,
    /// Only jobs in one of these states, of JOB or of all your jobs
    #[arg(long, value_name = "STATE[,STATE]", value_delimiter = ',', value_parser = STATES, help_heading = JOBS_HEADING)]
    pub state: Vec<String>,
    /// All your jobs that have not ended
    #[arg(long, conflicts_with = "jobs", help_heading = JOBS_HEADING)]
    pub all: bool,
}

const JOBS_HEADING: &str = "Which jobs";

impl Pick {
    /// Whether jobs are named explicitly, and all of them are meant.
    pub(crate) fn is_named(&self) -> bool {
        self.name.is_none() && self.state.is_empty() && !self.all
    }

    /// The numbers of the meant jobs that are not over, at least 1.
    pub(crate) fn not_over(&self, client: &mut Client) -> Result<Vec<u64>, Failure> {
        if self.is_named() { names::not_over(client, &self.jobs) } else { self.picked(client, false) }
    }

    /// The meant jobs, over or not, at least 1. `--all` means jobs that are not over.
    pub(crate) fn meant(&self, client: &mut Client) -> Result<Vec<JobName>, Failure> {
        if self.is_named() {
            return Ok(names::resolve(client, &self.jobs)?.concat());
        }
        Ok(self.picked(client, !self.all)?.into_iter().map(JobName::from).collect())
    }

    /// The numbers of the jobs that the options pick. Without JOB only the user's own are, also for root.
    fn picked(&self, client: &mut Client, over: bool) -> Result<Vec<u64>, Failure> {
        let named = names::jobs(client, &self.jobs)?;
        let all = !named.is_empty();
        let mut jobs =
            answer!(client.ask(&Request::Status { jobs: named, all: all || over, at_us: None })?, Status)?
                .jobs;
        let own = peer::own_name();
        jobs.retain(|job| (over || job.state != JobState::Exited) && (all || job.user == own));
        let filter = Filter { name: self.name.clone(), state: self.state.clone(), ..Filter::default() };
        let looked_at = jobs.len();
        let jobs: Vec<u64> = filter.apply(jobs)?.iter().map(|job| job.job).collect();
        if jobs.is_empty() {
            let none = || format!("there is no job of yours{}", if over { "" } else { " that is not over" });
            let text = filter.none_of(looked_at).unwrap_or_else(none);
            return Err(Failure::new(ExitCode::Failed, text));
        }
        Ok(jobs)
    }
}
