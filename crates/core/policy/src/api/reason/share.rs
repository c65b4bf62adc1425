//! Reasons that speak of what is whose.

use std::fmt;

use crate::api::code::{Figure, count, figures};
use crate::api::ids::JobId;
use crate::api::reason::memory::mib;

/// Why something was decided for the sake of what projects are guaranteed.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum ShareReason {
    /// Those it belongs to have a right to so many cores, and did not have them all.
    Guaranteed {
        /// Its project; `None`: those of no project.
        project: Option<String>,
        /// Home cores they have now.
        used: usize,
        /// Home cores that are theirs when they want them.
        cores: usize,
    },
    /// What it had was lent to it, and those that have a right to it want it back.
    Reclaimed {
        /// The project that takes it; `None`: those of no project.
        project: Option<String>,
        /// The job that gets it.
        by: JobId,
    },
    /// The memory that it holds was lent to it, and those that have a right to it want it back.
    MemoryReclaimed {
        /// The project that takes it; `None`: those of no project.
        project: Option<String>,
        /// The job that waits for it.
        by: JobId,
        /// What that job lacks, in bytes.
        lacking: u64,
    },
}

impl ShareReason {
    /// Its code and its figures.
    pub(super) fn parts(&self) -> (&'static str, Vec<Figure>) {
        match self {
            Self::Guaranteed { project, used, cores } => (
                "guaranteed",
                figures![
                    "project": Text(project.clone()),
                    "cores_used": Number(count(*used)),
                    "cores": Number(count(*cores)),
                ],
            ),
            Self::Reclaimed { project, by } => {
                ("reclaimed", figures!["project": Text(project.clone()), "by": Job(*by)])
            }
            Self::MemoryReclaimed { project, by, lacking } => (
                "memory_reclaimed",
                figures!["project": Text(project.clone()), "by": Job(*by), "lacking_bytes": Number(*lacking)],
            ),
        }
    }
}

impl fmt::Display for ShareReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Guaranteed { project, used, cores } => {
                write!(f, "{} {used} of the {cores} cores that are theirs", has(project.as_deref()))
            }
            Self::Reclaimed { project, by } => {
                write!(f, "it was lent, and {} it back for job {by}", take(project.as_deref()))
            }
            Self::MemoryReclaimed { project, by, lacking } => write!(
                f,
                "memory was lent to it, and {} {} back for job {by}",
                take(project.as_deref()),
                mib(*lacking)
            ),
        }
    }
}

fn has(project: Option<&str>) -> String {
    project
        .map_or_else(|| "jobs of no project have".to_owned(), |name| format!("jobs of project {name} have"))
}

fn take(project: Option<&str>) -> String {
    project.map_or_else(|| "jobs of no project take".to_owned(), |name| format!("project {name} takes"))
}
