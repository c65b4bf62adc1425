//! The last jobs of a list share the cores evenly.
//!
//! A user who submits a list waits for all of it. Once none of it waits any more, a backfiller that yields to a primary
//! only ends later, beside idle time that nothing fills: with jobs that wait for a part of their time, cores are busier
//! to the end when all that are left run alike. So backfillers get a primary's share then, wherever no other job would
//! pay for it: all primaries are of the same list and priority, and none was promised its cores by name. A backfiller
//! stays one, and is promoted as ever.

use crate::api::{CoreReason, JobId, Reason, Settings};
use crate::cores::binding;
use crate::cores::evenness::{ListAt, list_of};
use crate::cores::host::Host;
use crate::jobs::{JobTable, Transition};

/// Looks whether all that run are the last of one list; `any_waits`: a job stands in the host's queue. What is wanted
/// of a job that `is_marked` is looked at anyway, for a reason that says more.
pub(crate) fn update(
    host: &mut Host,
    jobs: &JobTable,
    settings: &Settings,
    any_waits: bool,
    is_marked: impl Fn(JobId) -> bool,
) -> Vec<Transition> {
    let alone = settings.schedule && settings.protect_milli == 0 && host.exclusive.is_none();
    let touched = host.evenness.primaries.is_none();
    let now = if alone && !any_waits { list_of_primaries(host, jobs) } else { None };
    if std::mem::replace(&mut host.evenness.now, now) == now && !(touched && now.is_some()) {
        return Vec::new();
    }
    let changes = |job: JobId| {
        let even = binding::shares_evenly(host, &jobs[&job]);
        let told = jobs[&job].live().and_then(|live| live.applied.weight).is_some_and(|(.., told)| told);
        let reason = if even { CoreReason::LastOfList } else { CoreReason::NotLastOfList };
        (even != told && !is_marked(job)).then_some(Transition::Update { job, reason: Reason::Core(reason) })
    };
    host.running.backfillers_newest_first().filter_map(changes).collect()
}

/// The list of which all primaries are.
fn list_of_primaries(host: &mut Host, jobs: &JobTable) -> Option<ListAt> {
    if let Some(known) = host.evenness.primaries {
        return known;
    }
    let mut lists = host.running.primaries_lowest_first().map(|(_, id)| list_of(&jobs[&id]));
    let first = lists.next().flatten();
    let found = first.filter(|_| lists.all(|list| list == first));
    host.evenness.primaries = Some(found);
    found
}
