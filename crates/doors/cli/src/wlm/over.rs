//! `pinfold wlm over`: a job is over for its manager; pinfold ends the rest of it.

use clap::Args;
use pinfold_proto::wire::{Request, Verb};
use pinfold_proto::{ExternalName, JobState};
use pinfold_sys::signals::SIGKILL;

use crate::print::say;
use pinfold_client::{Dial, Failure};

#[derive(Debug, Args)]
pub(crate) struct OverArgs {
    /// The job's name in its manager, such as slurm:1234 (all of its steps) or sge:17.3
    #[arg(value_name = "NAME")]
    external: ExternalName,
}

/// `pinfold wlm over`.
pub(super) fn over(dial: &Dial, args: &OverArgs) -> Result<(), Failure> {
    let mut client = dial.connect()?;
    let view = answer!(client.ask(&Request::Status { jobs: Vec::new(), all: true, at_us: None })?, Status)?;
    let name = args.external.to_string();
    let left = view.jobs.iter().filter(|job| job.state != JobState::Exited);
    for job in left.filter(|job| job.external.as_deref().is_some_and(|external| is_of(external, &name))) {
        match client.ask(&Request::Control { job: job.job, verb: Verb::Cancel { signal: SIGKILL } }) {
            Ok(_) => say(&format!("{name} is over for its manager: job {} is ended", job.job)),
            // The job may have ended just now.
            Err(failure) => say(&format!("job {} of {name}: {}", job.job, failure.message)),
        }
    }
    Ok(())
}

/// Whether a name is that of a job or of a part of it.
fn is_of(external: &str, job: &str) -> bool {
    external.strip_prefix(job).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn parts_are_of_their_job() {
        for (external, job, want) in [
            ("slurm:12.batch", "slurm:12", true),
            ("slurm:12", "slurm:12", true),
            ("slurm:123.batch", "slurm:12", false),
            ("sge:17.3", "sge:17.3", true),
            ("sge:17.31", "sge:17.3", false),
        ] {
            assert_eq!(is_of(external, job), want, "{external} {job}");
        }
    }
}
