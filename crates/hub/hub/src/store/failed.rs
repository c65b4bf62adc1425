//! The condition of failed jobs in SQL, equal to [`pinfold_proto::ended_well`]. The indexes of failed jobs repeat it.

/// 1 for a failed job, and 0 otherwise.
macro_rules! failure {
    () => {
        "CASE WHEN jobs.exit_code = 0 AND jobs.ended_by IS NULL THEN 0 ELSE 1 END"
    };
}

pub(super) use failure;

/// The condition that a job failed.
pub(super) const FAILED: &str =
    "(jobs.exit_code IS NULL OR jobs.exit_code <> 0 OR jobs.ended_by IS NOT NULL)";

/// The condition that a job succeeded.
pub(super) const SUCCEEDED: &str = "(jobs.exit_code = 0 AND jobs.ended_by IS NULL)";

/// The figure that sums count as failures.
pub(super) const FAILURE: &str = failure!();
