//! Backfill jobs that share cores evenly with primaries: the last jobs of a list among themselves, and no others.

use pinfold_policy::{Class, State};

use super::{Scene, Seen, Violation};
use crate::ledger::Phase;

impl Scene<'_> {
    /// A job that shares evenly does so with its own list and keeps no job waiting; and if only the last jobs of a list
    /// exist, they share evenly.
    pub(super) fn evenness(&self, seen: &[Seen<'_>]) -> Result<(), Violation> {
        let holds = |class| seen.iter().filter(move |one| one.holds_slot() && one.class() == Some(class));
        let primaries: Vec<&Seen<'_>> = holds(Class::Primary).collect();
        let told = |one: &&Seen<'_>| {
            one.entry.phase == Phase::Running && !one.entry.failed.contains_key("weigh") && !one.out()
        };
        for one in holds(Class::Backfill).filter(told) {
            let like = primaries.iter().all(|other| are_alike(one, other));
            let found = |what| format!("{what}: {:?} {:?}", one.info, one.entry);
            if one.entry.even
                && !(like && one.entry.request.list.is_some() && self.settings.protect_milli == 0)
            {
                return Err(Violation::new(
                    "who shares evenly is beside its own list",
                    found("beside others"),
                ));
            }
            let waits = |other: &&Seen<'_>| {
                let waits = matches!(other.info.state, State::Waiting { .. }) && !self.settings.drain;
                waits && self.waits_for_a_slot(other) && !other.entry.failed.contains_key("start")
            };
            if one.entry.even && seen.iter().any(|other| waits(&other)) {
                return Err(Violation::new(
                    "who shares evenly keeps nobody waiting",
                    found("somebody waits"),
                ));
            }
            let runs = |other: &Seen<'_>| matches!(other.info.state, State::Running | State::Starting);
            let alone = seen.iter().all(runs) && holds(Class::Exclusive).next().is_none();
            let may = like && one.entry.request.list.is_some() && !primaries.is_empty();
            if alone && may && self.settings.protect_milli == 0 && !one.entry.even && are_alike(one, one) {
                return Err(Violation::new("the last of a list share evenly", found("it stands back")));
            }
        }
        Ok(())
    }
}

/// Whether two jobs are of the same list and priority, and left their class to the policy.
fn are_alike(one: &Seen<'_>, other: &Seen<'_>) -> bool {
    let (one, other) = (&one.entry.request, &other.entry.request);
    let left = one.class.is_none() && other.class.is_none();
    left && one.list == other.list && one.priority == other.priority
}
