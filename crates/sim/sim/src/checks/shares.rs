//! Projects' shares: a project has its own share on demand, and only borrowers pay for it.

use std::collections::BTreeSet;

use pinfold_policy::{Class, FrozenBy, JobId, State};

use super::{Scene, Seen, Violation};

/// The slots of each project; jobs without a project come first.
struct Shares<'a> {
    names: Vec<Option<&'a str>>,
    own: Vec<usize>,
    homes: Vec<usize>,
    slots: Vec<usize>,
    /// Slots of jobs exempt from freezing now,
    exempt: Vec<usize>,
    /// and of jobs exempt for ever.
    never: Vec<usize>,
}

impl<'a> Shares<'a> {
    fn of(&self, one: &Seen<'_>) -> usize {
        let project = one.entry.request.project.as_deref();
        self.names.iter().skip(1).position(|&name| name == project).map_or(0, |at| at + 1)
    }

    /// Counts the slots. `None`: no project is guaranteed a core.
    fn count(scene: &'a Scene<'_>, seen: &[Seen<'_>]) -> Option<Self> {
        let guaranteed =
            scene.settings.projects.iter().filter_map(|p| Some((p.name.as_str(), p.cores? as usize)));
        let guaranteed: Vec<(&str, usize)> = guaranteed.collect();
        if guaranteed.is_empty() {
            return None;
        }
        let all = scene.total().min(scene.cores.len());
        let sum: usize = guaranteed.iter().map(|(_, cores)| cores).sum();
        let part = |cores: usize| if sum > all { cores * all / sum } else { cores };
        let mut own = vec![0];
        own.extend(guaranteed.iter().map(|&(_, cores)| part(cores)));
        own[0] = all - own.iter().sum::<usize>();
        let names = std::iter::once(None).chain(guaranteed.iter().map(|&(name, _)| Some(name))).collect();
        let none = vec![0; own.len()];
        let mut shares =
            Self { names, own, homes: none.clone(), slots: none.clone(), exempt: none.clone(), never: none };
        for one in seen.iter().filter(|one| one.holds_slot()) {
            let (at, slots) = (shares.of(one), scene.clipped(one));
            shares.slots[at] += slots;
            shares.homes[at] += if one.class() == Some(Class::Primary) { one.cores() } else { 0 };
            shares.exempt[at] += if one.entry.exempt(scene.now) { slots } else { 0 };
            shares.never[at] += if one.entry.request.no_suspend { slots } else { 0 };
        }
        Some(shares)
    }

    /// The least slots obtainable by a project: free slots, and slots that others hold beyond their share, without `kept`
    /// slots.
    fn obtainable(&self, at: usize, (total, used): (usize, usize), kept: &[usize]) -> usize {
        let others = (0..self.own.len()).filter(|&other| other != at);
        let borrowed = |other: usize| {
            let more = self.slots[other].saturating_sub(self.own[other]);
            more.min(self.slots[other] - kept[other])
        };
        // More may be used than there are.
        (total + others.map(borrowed).sum::<usize>()).saturating_sub(used)
    }
}

impl Scene<'_> {
    /// A job that wants its project's own share has it, unless all that might give way are exempt just now. Returns the
    /// jobs without it, although no permanently exempt job holds it.
    pub(super) fn shares(&self, seen: &[Seen<'_>]) -> Result<BTreeSet<JobId>, Violation> {
        let mut owed = BTreeSet::new();
        let Some(mut shares) = Shares::count(self, seen) else { return Ok(owed) };
        let exclusive = seen.iter().find(|one| one.holds_slot() && one.class() == Some(Class::Exclusive));
        let mut used: usize = shares.slots.iter().sum();
        if let Some(exclusive) = exclusive {
            if exclusive.entry.exempt(self.now) {
                return Ok(owed);
            }
            // An exclusive job gives way as a whole, and counts as gone.
            used -= self.clipped(exclusive);
            let at = shares.of(exclusive);
            shares.slots[at] -= self.clipped(exclusive);
        }
        for one in seen {
            let at = shares.of(one);
            let room = shares.own[at].saturating_sub(shares.homes[at]);
            let asks = matches!(one.entry.request.class, None | Some(Class::Primary));
            if !asks || one.cores() > room || one.entry.request.wish.is_some() {
                continue;
            }
            // Jobs without a project, and its own project's, take nothing from an exclusive job.
            if exclusive.is_some_and(|other| at == 0 || shares.of(other) == at) {
                continue;
            }
            let backfills = one.holds_slot() && one.class() == Some(Class::Backfill);
            if !backfills && !self.may_start(one, seen, &shares, used) {
                continue;
            }
            let needs = if backfills { 0 } else { self.clipped(one) };
            if needs <= shares.obtainable(at, (self.total(), used), &shares.exempt) {
                let found = format!(
                    "{room} of {} cores are owed to {:?}: {:?}",
                    shares.own[at], shares.names[at], one.info
                );
                return Err(Violation::new(
                    "a project has the cores that are its own when it wants them",
                    found,
                ));
            }
            if needs <= shares.obtainable(at, (self.total(), used), &shares.never) {
                owed.insert(one.id);
            }
        }
        Ok(owed)
    }

    /// Whether a job that does not run could, as far as its own project is concerned: no earlier job of the project waits
    /// for more than is free.
    fn may_start(&self, one: &Seen<'_>, seen: &[Seen<'_>], shares: &Shares<'_>, used: usize) -> bool {
        let waits = |one: &Seen<'_>| match one.info.state {
            State::Waiting { .. } => self.waits_for_a_slot(one),
            State::Frozen { by } => by == FrozenBy::Policy && !one.entry.is_held_back(self.now),
            State::Starting | State::Running => false,
        };
        let at = shares.of(one);
        let room = shares.own[at].saturating_sub(shares.homes[at]);
        let obtainable = shares.obtainable(at, (self.total(), used), &shares.exempt);
        let stuck = |other: &Seen<'_>| {
            let wide = other.cores() > room || self.clipped(other) > obtainable;
            let exclusive = other.entry.request.class == Some(Class::Exclusive);
            wide || exclusive
                || other.entry.request.wish.is_some()
                || other.entry.failed.contains_key("start")
        };
        let before = |other: &Seen<'_>| {
            let same = shares.of(other) == at && other.entry.request.class != Some(Class::Backfill);
            other.id != one.id && same && waits(other) && stuck(other) && self.may_go_before(other, one)
        };
        let own = shares.slots[at] + self.clipped(one) <= shares.own[at];
        waits(one) && own && !one.entry.failed.contains_key("start") && !seen.iter().any(before)
    }
}
