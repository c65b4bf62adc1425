//! The advised memory of a class, from the jobs that hosts sent: the answer of `pinfold advise`
//! ([`pinfold_advise::answer`]), for the week and its mail. Absent here: words.

use std::collections::BTreeMap;

use pinfold_advise::{Advice, Ended, Features, Row, answer};

use crate::store::{ClassRun, JobQuery, Store, StoreError};

/// Age at which jobs stop counting, as for `pinfold advise`, in microseconds: 90 days.
const SINCE_US: u64 = 90 * 86_400_000_000;

const MIB: u64 = 1 << 20;

/// A user's jobs of a name and number of cores that ended well, the oldest first, and the advice from them.
#[derive(Debug)]
pub(crate) struct Class {
    pub(crate) user: String,
    pub(crate) cores: u32,
    pub(crate) runs: Vec<ClassRun>,
    pub(crate) advice: Advice,
}

/// The classes of a name that have advice, from the query's jobs that ended before `until_us`.
pub(crate) fn classes(
    store: &Store,
    name: &str,
    query: JobQuery,
    until_us: u64,
) -> Result<Vec<Class>, StoreError> {
    let (since_us, name_like) = (Some(until_us.saturating_sub(SINCE_US)), Some(name.to_owned()));
    let query = JobQuery { name: name_like, since_us, until_us: Some(until_us), ..query };
    let mut classes: BTreeMap<(String, u32), Vec<ClassRun>> = BTreeMap::new();
    // An asterisk of the query's name stands for anything.
    for run in store.class_runs(&query)?.into_iter().filter(|run| run.name == name) {
        classes.entry((run.user.clone(), run.cores)).or_default().push(run);
    }
    let class = |((user, cores), runs): ((String, u32), Vec<ClassRun>)| {
        let ended = runs.iter().zip(0u32..).map(|(run, place)| Ended {
            well: true,
            at_s: f64::from(place),
            row: Row { features: Features::default(), peak_bytes: run.peak_bytes, wall_s: run.wall_s },
        });
        let advice = answer(&ended.collect::<Vec<_>>(), &Features::default(), None)?;
        Some(Class { user, cores, runs, advice })
    };
    Ok(classes.into_iter().filter_map(class).collect())
}

/// The size to ask for: whole MiB.
pub(crate) fn ask_bytes(advice: &Advice) -> u64 {
    advice.bytes.div_ceil(MIB) * MIB
}

/// Formats a size of whole MiB as an option's value, without loss.
pub(crate) fn mebibytes(bytes: u64) -> String {
    format!("{}MiB", bytes / MIB)
}
