//! The memory that is advised for each class of all users' jobs, for a workload manager that is told of it.
//!
//! The daemon tells of other users' jobs to operators alone. Absent: the words of a manager ([`crate::wlm`]).

use super::format::Consent;
use super::{OfClasses, classes, history};
use pinfold_client::{Dial, Failure};
use pinfold_proto::ExitCode;

/// The need of a class of a user's jobs; classes of several numbers of cores stay apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) user: String,
    pub(crate) class: String,
    pub(crate) cores: u32,
    pub(crate) memory_bytes: u64,
    /// The runs behind the size.
    pub(crate) jobs: usize,
}

/// The sizes from jobs since then, in descending order of the last run.
pub(crate) fn sizes(dial: &Dial, since: &str) -> Result<Vec<Size>, Failure> {
    let asked = OfClasses {
        by: None,
        name: None,
        project: None,
        user: None,
        all: true,
        since: since.to_owned(),
        risk: None,
        input: None,
        command: None,
        format: None,
        apply: Consent::Report,
        to: None,
        output: None,
        json: false,
    };
    let mut client = dial.connect()?;
    let runs = history::runs(&mut client, &asked)?;
    let mut views = classes::classes(&runs, None, classes::Next::default())
        .map_err(|error| Failure::new(ExitCode::Failed, format!("failed to replay the history: {error}")))?;
    views.sort_by(|a, b| b.last_s.total_cmp(&a.last_s));
    let size = |view: classes::ClassView| {
        let memory_bytes = view.advised_bytes?;
        Some(Size { user: view.user, class: view.class, cores: view.cores, memory_bytes, jobs: view.jobs })
    };
    Ok(views.into_iter().filter_map(size).collect())
}
