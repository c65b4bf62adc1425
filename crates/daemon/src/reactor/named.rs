//! Jobs by their names.

use std::collections::{BTreeMap, BTreeSet};

use pinfold_proto::wire::ErrorCode;
use pinfold_sys::peer::Peer;

use crate::core::{Refusal, store_failed};
use crate::reactor::Daemon;

/// Among so many of the last jobs a name is looked for, where no job that is not over has it.
const LOOKED_AT: u64 = 10_000;

/// How many jobs of one name are named in words.
const SHOWN: usize = 5;

impl Daemon {
    /// The job or array of this user's that each name means: one that is not over, or else the last that was.
    pub(super) fn named(&mut self, user: Peer, names: &[String]) -> Result<Vec<u64>, Refusal> {
        let mut found: BTreeMap<&str, BTreeSet<u64>> =
            names.iter().map(|name| (name.as_str(), BTreeSet::new())).collect();
        for live in self.jobs.table.values().filter(|live| live.row.uid == user.uid) {
            if let Some(jobs) = found.get_mut(live.row.spec.name.as_str()) {
                let array = live.row.spec.array.and_then(|place| place.array);
                jobs.insert(array.unwrap_or(live.row.job));
            }
        }
        names.iter().map(|name| self.one_named(user, name, &found[name.as_str()])).collect()
    }

    fn one_named(&mut self, user: Peer, name: &str, jobs: &BTreeSet<u64>) -> Result<u64, Refusal> {
        if jobs.len() > 1 {
            let shown: Vec<String> = jobs.iter().take(SHOWN).map(u64::to_string).collect();
            let more = if jobs.len() > SHOWN { ", ..." } else { "" };
            let text = format!("{} jobs of yours are named `{name}`", jobs.len());
            return Err((
                ErrorCode::Usage,
                format!("{text}; name one by its number: {}{more}", shown.join(", ")),
            ));
        }
        if let Some(job) = jobs.first() {
            return Ok(*job);
        }
        let unwritten = self.outbox.journal.all_unwritten();
        let unwritten = unwritten.filter(|row| row.uid == user.uid && row.spec.name == name);
        let last = unwritten.map(|row| row.spec.array.and_then(|place| place.array).unwrap_or(row.job)).max();
        let stored = self.outbox.journal.store().last_named(user.uid, name, LOOKED_AT);
        let stored = stored.map_err(|error| store_failed(&error))?;
        match last.max(stored) {
            Some(job) => Ok(job),
            None => {
                let text =
                    format!("there is no job `{name}` of yours; jobs are named by number (12) or by name");
                Err((ErrorCode::Failed, text))
            }
        }
    }
}
