//! Jobs' expected needs, and objections to a start.

use pinfold_policy::{Claim, Instant, JobId};

use super::{Books, Entry};

impl Books {
    /// A job's expected need, by the reports.
    fn claim_on_all(&self, entry: &Entry) -> Option<Claim> {
        if !self.settings.memory.prediction {
            return None;
        }
        let learned = entry.request.kind.and_then(|kind| self.learned.get(&kind)).copied();
        let asked = entry.request.memory.map(Claim::of);
        let floor = entry.request.memory.filter(|_| learned.is_none_or(|claim| !claim.is_evidence()));
        learned.map(|claim| claim.at_least(floor.unwrap_or(0))).or(asked)
    }

    /// The same, less the part that it may not refault.
    fn claim(&self, entry: &Entry) -> Option<Claim> {
        let claim = self.claim_on_all(entry)?;
        let part = entry.request.kind.and_then(|kind| self.parts.get(&kind)).copied().unwrap_or(1000);
        Some(Claim { usual_bytes: claim.usual_bytes.min(claim.most_bytes / 1000 * part), ..claim })
    }

    /// A job's expected size, RAM and swap together.
    pub(crate) fn comes_to_hold(&self, entry: &Entry) -> u64 {
        self.counts_for(entry).max(self.claim_on_all(entry).map_or(0, |claim| claim.held_bytes))
    }

    pub(crate) fn counts_for(&self, entry: &Entry) -> u64 {
        let claim = self.claim(entry).unwrap_or_default();
        let usual = if entry.request.no_suspend { claim.most_bytes } else { claim.usual_bytes };
        let needs = entry.held.0 + entry.held.1 - entry.cold.min(entry.held.1);
        if entry.cold > 0 && !entry.request.no_suspend { needs } else { needs.max(usual) }
    }

    /// The objection to a start (ALGORITHMS A2.2), counted from scratch.
    pub(super) fn against_admission(&self, job: JobId, now: Instant) -> Option<String> {
        let usable = self.usable?;
        let entry = self.jobs.get(&job)?;
        let live = || self.jobs.iter().filter(|(_, entry)| entry.started.is_some());
        // Starts are reported last, and a job resumed at the same time may have been thawed after them. A job thawed for a
        // checkpoint is killed while it runs, and needs no more.
        let stands = |entry: &Entry| entry.frozen || entry.ends || entry.thawed == Some(now);
        let running: Vec<&Entry> = live().filter(|(_, e)| !stands(e)).map(|(_, e)| e).collect();
        if running.is_empty() {
            return None;
        }
        let wanted = self.counts_for(entry);
        let taken: u64 = running.iter().map(|entry| self.counts_for(entry)).sum();
        let standing: u64 = live().filter(|(_, e)| stands(e)).map(|(_, e)| e.held.0).sum();
        if wanted > 0 && taken + standing + wanted > usable {
            return Some(format!("job {job}: {taken} + {standing} + {wanted} of {usable} bytes"));
        }
        let kept = self.kept_beside(entry);
        if wanted > 0 && taken + standing + wanted + kept > usable {
            return Some(format!(
                "job {job}: {wanted} bytes, and {kept} are other projects' and could not come back"
            ));
        }
        let waits = |entry: &Entry| entry.frozen && !entry.by_user && !entry.for_slots && !entry.ends;
        // A borrower of the newcomer's project's own memory blocks no start of the project.
        let frozen = live().find(|(_, first)| waits(first) && !self.gave_back(first, entry, wanted, now));
        if let Some((first, _)) = frozen.filter(|_| wanted == 0) {
            return Some(format!("job {job} is unknown and job {first} is suspended"));
        }
        if wanted == 0 { None } else { self.against_succession(job, self.comes_to_hold(entry), now, usable) }
    }

    /// The objection to an overcommitted start: it must fit beside the present memory of all jobs, swap must have room for
    /// all of it, and it must be movable there.
    pub(super) fn against_early(&self, job: JobId, now: Instant) -> Option<String> {
        let (usable, entry) = (self.usable?, self.jobs.get(&job)?);
        let wanted = self.counts_for(entry);
        let live = || self.jobs.iter().filter(|(_, entry)| entry.started.is_some());
        let held: u64 = live().map(|(_, entry)| entry.held.0).sum();
        if entry.request.no_suspend || self.claim(entry).is_none() {
            return Some(format!(
                "job {job} is overcommitted, and may not be suspended, or nothing is known of it"
            ));
        }
        if held + wanted + self.kept_beside(entry) > usable || self.comes_to_hold(entry) > self.swap_free {
            let swap = self.swap_free;
            return Some(format!("job {job} starts early: {wanted} beside {held} of {usable}, swap {swap}"));
        }
        let waits = |entry: &Entry| {
            let stands = entry.frozen && entry.thawed != Some(now);
            stands && !entry.by_user && !entry.for_slots && !entry.ends
        };
        if let Some((first, _)) = live().find(|(_, entry)| waits(entry)) {
            return Some(format!("job {job} is overcommitted and job {first} is suspended"));
        }
        self.against_succession(job, self.comes_to_hold(entry), now, usable)
    }

    /// A job that could not get its full need beside a newcomer of this size: the token holder, or a later holder, when its
    /// predecessors have ended.
    fn against_succession(&self, job: JobId, wanted: u64, now: Instant, usable: u64) -> Option<String> {
        let out = |entry: &Entry| entry.by_user || entry.suspended || entry.for_slots || entry.ends;
        let token = self.token.filter(|token| self.jobs.get(token).is_some_and(|entry| !out(entry)))?;
        let live = |id: &JobId, entry: &Entry| entry.started.is_some() || *id == job;
        let mut order: Vec<(JobId, &Entry)> =
            self.jobs.iter().filter(|(id, entry)| live(id, entry)).map(|(&id, entry)| (id, entry)).collect();
        order.sort_by_key(|(id, entry)| {
            let started = entry.started.unwrap_or(now);
            (*id != token, u8::MAX - entry.request.priority, started, *id)
        });
        let swapped: u64 = order.iter().map(|(_, entry)| entry.held.1).sum();
        let holds =
            |id: JobId, entry: &Entry| entry.held.0 + entry.held.1 + if id == job { wanted } else { 0 };
        for (place, &(id, entry)) in order.iter().enumerate() {
            // A job suspended for another cause may hold the token before or after this job: it counts for the first only.
            let counts = |other: &&(JobId, &Entry)| place == 0 || !out(other.1);
            let behind = order[place + 1..].iter().filter(counts);
            let behind: u64 = behind.map(|&(id, entry)| holds(id, entry)).sum();
            let most = self.claim(entry).map_or(0, |claim| claim.most_bytes).max(entry.held.0 + entry.held.1);
            let room = self.swap_free + swapped + usable.saturating_sub(most);
            if behind > room && !out(entry) {
                return Some(format!("job {job}: {behind} cannot all be moved out for job {id}: {room}"));
            }
        }
        None
    }
}
