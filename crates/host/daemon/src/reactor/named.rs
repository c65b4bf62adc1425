//! Jobs by their names. Where several may have one, they are looked for a part of the store at a time (`clients/looks`).

use std::collections::{BTreeMap, BTreeSet};

use pinfold_profile::store::Namesake;
use pinfold_proto::alike;
use pinfold_proto::text::plain;
use pinfold_proto::wire::{ErrorCode, Reply};
use pinfold_sys::peer::Peer;

use crate::clients::looks::{Look, Names, What};
use crate::core::{ConnectionId, Refusal, store_failed};
use crate::jobs::namesakes::{self, Namesakes};
use crate::jobs::record::JobRecord;
use crate::reactor::Daemon;

/// Among so many of the last jobs a name is looked for.
const LOOKED_AT: u64 = 10_000;

/// Among so many more the lines of a long batch are looked for.
const LOOKED_AT_FURTHER: u64 = 30_000;

/// So many numbers of jobs are looked at for a name at once,
const NUMBERS_AT_ONCE: u64 = 1_024;

/// and so many in a turn of the loop; fewer, if so many jobs are found.
const NUMBERS_A_PART: u64 = 10_240;
const FOUND_A_PART: usize = 1_024;

/// How many jobs of one name are named in words.
const SHOWN: usize = 5;

/// Names are suggested from so many of the latest jobs.
const MEANT_AMONG: usize = 500;

/// A message has so many characters of a name at most.
const NAME_SHOWN: usize = 40;

/// So many jobs are meant by all names of a request together: as many as a job may start after.
const MEANT_MAX: usize = 4_096;

/// A user's jobs that are not over, by name; arrays by their numbers.
type ByName<'a> = BTreeMap<&'a str, BTreeSet<u64>>;

impl Daemon {
    /// The job or array of this user's that each name means: one that is not over, or else the last that was.
    pub(super) fn named(&mut self, user: Peer, names: &[String]) -> Result<Vec<u64>, Refusal> {
        let found = self.not_over(user, names);
        let one = |jobs: &BTreeSet<u64>, name: &String| match jobs.len() {
            0 => Ok(None),
            1 => Ok(jobs.first().copied()),
            _ => Err(several(name, jobs)),
        };
        let found: Result<Vec<_>, _> = names.iter().map(|name| one(&found[name.as_str()], name)).collect();
        let last =
            |(name, found): (&String, Option<u64>)| found.map_or_else(|| self.last_named(user, name), Ok);
        names.iter().zip(found?).map(last).collect()
    }

    /// Begins to answer which jobs and arrays of this user's each name means, as `jobs::namesakes` says: those that are not
    /// over, and of those that are as many as say how they ended together.
    pub(super) fn asked_for_all_named(&mut self, id: ConnectionId, user: Peer, names: Vec<String>) {
        let once: BTreeSet<&String> = names.iter().collect();
        let end = self.outbox.journal.store().upcoming_job();
        let first = end.saturating_sub(LOOKED_AT);
        let what = What::Names(Names {
            open: once.into_iter().cloned().collect(),
            names,
            first,
            end,
            next: first,
            oldest: None,
            further: LOOKED_AT_FURTHER,
            found: BTreeMap::new(),
        });
        self.look(Look { id, user, what });
    }

    /// Looks for these names among some of the last jobs of the host; gives what is left to do. Of a batch that began before
    /// those, its lines are looked for among more.
    pub(super) fn look_for_names(
        &mut self,
        id: ConnectionId,
        user: Peer,
        mut names: Names,
    ) -> Result<Option<What>, Refusal> {
        let upcoming = self.outbox.journal.store().upcoming_job();
        let (mut numbers, mut jobs) = (0, 0);
        while let Some(name) = names.open.front().cloned() {
            if numbers >= NUMBERS_A_PART || jobs >= FOUND_A_PART {
                return Ok(Some(What::Names(names)));
            }
            let end = names.end.min(names.next.saturating_add(NUMBERS_AT_ONCE));
            let store = self.outbox.journal.store();
            let found = store.namesakes(user.uid, &name, names.next, end);
            let found = found.map_err(|error| store_failed(&error))?;
            (numbers, jobs, names.next) = (numbers + NUMBERS_AT_ONCE, jobs + found.len(), end);
            names.oldest = names.oldest.or(found.first().copied());
            let all = names.found.entry(name).or_default();
            all.extend(found.into_iter().map(|job| (job.job, job)));
            if names.next < names.end {
                continue;
            }
            let oldest = names.oldest.take().as_ref().and_then(namesakes::batch);
            let last = all.values().next_back().and_then(namesakes::batch);
            if names.first > 0 && names.further >= LOOKED_AT && oldest.is_some() && oldest == last {
                (names.end, names.further) = (names.first, names.further - LOOKED_AT);
            } else {
                names.open.pop_front();
                names.end = upcoming;
            }
            names.first = names.end.saturating_sub(LOOKED_AT);
            names.next = names.first;
        }
        let meant = self.all_named(user, names)?;
        self.outbox.reply(id, Reply::AllNamed(meant));
        Ok(None)
    }

    /// What these names mean, of which the store was asked.
    fn all_named(&self, user: Peer, asked: Names) -> Result<Vec<Vec<u64>>, Refusal> {
        let Names { names, mut found, .. } = asked;
        // What the store does not have yet is newer than what it has.
        for (name, known) in self.in_memory(user, &names) {
            found.entry(name.to_owned()).or_default().extend(known);
        }
        let meant: BTreeMap<&String, Vec<u64>> =
            found.iter().map(|(name, all)| (name, namesakes::meant(all).into_iter().collect())).collect();
        let mut all = Vec::new();
        for name in &names {
            match meant.get(name) {
                Some(jobs) if !jobs.is_empty() => all.push(jobs.clone()),
                _ => return Err(self.unknown(user, name)),
            }
        }
        let count: usize = all.iter().map(Vec::len).sum();
        if count > MEANT_MAX {
            let text =
                format!("{count} jobs of yours have these names, and {MEANT_MAX} are the most; name fewer");
            return Err((ErrorCode::Usage, text));
        }
        Ok(all)
    }

    /// The jobs of this user's by these names that the store need not be asked for.
    fn in_memory<'a>(&self, user: Peer, names: &'a [String]) -> BTreeMap<&'a str, Namesakes> {
        let mut found: BTreeMap<&str, Namesakes> =
            names.iter().map(|name| (name.as_str(), Namesakes::new())).collect();
        let over = self.outbox.journal.all_unwritten().map(|row| (row, row.ended_us));
        let live = self.jobs.table.values().map(|live| (&live.row, None));
        for (row, ended_us) in over.chain(live).filter(|(row, _)| row.uid == user.uid) {
            if let Some(jobs) = found.get_mut(row.spec.name.as_str()) {
                jobs.insert(row.job, Namesake { ended_us, ..namesakes::namesake(row) });
            }
        }
        found
    }

    fn not_over<'a>(&self, user: Peer, names: &'a [String]) -> ByName<'a> {
        let mut found: ByName<'_> = names.iter().map(|name| (name.as_str(), BTreeSet::new())).collect();
        for live in self.jobs.table.values().filter(|live| live.row.uid == user.uid) {
            if let Some(jobs) = found.get_mut(live.row.spec.name.as_str()) {
                let array = live.row.spec.array.and_then(|place| place.array);
                jobs.insert(array.unwrap_or(live.row.job));
            }
        }
        found
    }

    /// The last job of this user's by this name that is over.
    fn last_named(&mut self, user: Peer, name: &str) -> Result<u64, Refusal> {
        let unwritten = self.outbox.journal.all_unwritten();
        let unwritten = unwritten.filter(|row| row.uid == user.uid && row.spec.name == name);
        let last = unwritten.map(|row| row.spec.array.and_then(|place| place.array).unwrap_or(row.job)).max();
        let stored = self.outbox.journal.store().last_named(user.uid, name, LOOKED_AT);
        let stored = stored.map_err(|error| store_failed(&error))?;
        last.max(stored).ok_or_else(|| self.unknown(user, name))
    }

    /// The words where a user has no job by this name.
    fn unknown(&self, user: Peer, name: &str) -> Refusal {
        let meant = self.like(user, name).map(|like| format!("; is `{}` meant?", plain(like)));
        let meant = meant.unwrap_or_else(|| self.own_jobs(user));
        (ErrorCode::Failed, format!("there is no job `{}` of yours{meant}", short(name)))
    }

    /// The name of a job of this user's that is written most alike.
    fn like(&self, user: Peer, name: &str) -> Option<&str> {
        alike::most(name, self.latest_of(user).map(|live| live.row.spec.name.as_str()))
    }

    /// A user's jobs among the latest that are not over, the last first.
    fn latest_of(&self, user: Peer) -> impl Iterator<Item = &JobRecord> {
        let latest = self.jobs.table.values().rev().take(MEANT_AMONG);
        latest.map(Box::as_ref).filter(move |live| live.row.uid == user.uid)
    }

    /// Which jobs a user could have meant: those that are not over, the latest first, in words that follow a complaint;
    /// empty where only other users have late ones.
    pub(super) fn own_jobs(&self, user: Peer) -> String {
        let by_name = self.latest_of(user).map(|live| {
            let array = live.row.spec.array.and_then(|place| place.array);
            (array.unwrap_or(live.row.job), live.row.spec.name.as_str())
        });
        let mut shown: Vec<(u64, &str)> = Vec::new();
        let mut more = "";
        for one in by_name {
            if shown.contains(&one) {
                continue;
            }
            if shown.len() == SHOWN {
                more = ", ...";
                break;
            }
            shown.push(one);
        }
        if shown.is_empty() && self.jobs.table.len() > MEANT_AMONG {
            return String::new();
        }
        if shown.is_empty() {
            return "; you have none that is not over (`pinfold report` shows those that are)".to_owned();
        }
        let shown: Vec<String> = shown.iter().map(|(job, name)| format!("{job} {}", short(name))).collect();
        format!("; yours that are not over: {}{more}", shown.join(", "))
    }
}

/// A name as it stands in a message.
fn short(name: &str) -> String {
    let name = plain(name);
    match name.char_indices().nth(NAME_SHOWN) {
        Some((end, _)) => format!("{}...", &name[..end]),
        None => name,
    }
}

/// The words where one job is meant, and several have the name.
fn several(name: &str, jobs: &BTreeSet<u64>) -> Refusal {
    let shown: Vec<String> = jobs.iter().take(SHOWN).map(u64::to_string).collect();
    let more = if jobs.len() > SHOWN { ", ..." } else { "" };
    let text = format!("{} jobs of yours are named `{}`", jobs.len(), short(name));
    (ErrorCode::Usage, format!("{text}; name one by its number: {}{more}", shown.join(", ")))
}
