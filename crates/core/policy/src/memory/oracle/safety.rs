//! Whether all jobs can still come to their ends one after the other: the banker's question (Dijkstra 1965), asked of
//! those that will hold the token, in the order in which they will.
//!
//! The token holder may come to need the most that its class ever does. The others are frozen then at the worst, and
//! what they hold must find room: in swap, or in the RAM that the holder leaves. When it ends, its memory is free, and
//! the same is asked of the next. Asked of the present holder only, two large jobs may start behind a small one, and
//! once one of them holds the token the other is in its way, with nowhere to go. Read only.

use std::time::Duration;

use crate::api::{Instant, JobId};
use crate::jobs::{Job, Phase, grown};
use crate::memory::forecast;
use crate::memory::room::HORIZON;
use crate::rooms::Rooms;

/// What one job has at stake when it and those before it are given all that they may need. In bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stake {
    /// What it holds, or is let come to hold.
    held: u64,
    /// The most that it may need when it holds the token; `None`: nobody knows, or it will not hold it as things are.
    most: Option<u64>,
    /// What it is about to grow by.
    grows: u64,
}

/// Where a job stands in the succession: the token holder, those that may hold it next, those that have to get a slot
/// before, and those that are suspended until a user says otherwise; among these as they keep their memory.
type Turn = (u8, (std::cmp::Reverse<u8>, Instant, JobId));

/// Whether even all together find room, however much one of them may need; this is so on most hosts, and needs no
/// order.
fn suffices_for_all_at_once(stakes: &[(Turn, Stake)], swap: u64, usable: u64) -> bool {
    let all = stakes.iter().map(|(_, stake)| stake.held.saturating_add(stake.grows));
    let most = stakes.iter().filter_map(|(_, stake)| stake.most).max().unwrap_or(0);
    all.fold(0, u64::saturating_add) <= swap.saturating_add(usable.saturating_sub(most))
}

fn in_order(mut stakes: Vec<(Turn, Stake)>) -> Vec<Stake> {
    stakes.sort_unstable_by_key(|&(place, _)| place);
    stakes.into_iter().map(|(_, stake)| stake).collect()
}

/// Whether each, once it is its turn, has room for the most that it may need: what those behind it hold is in swap or
/// in the RAM that it leaves.
fn is_safe(order: &[Stake], swap: u64, usable: u64) -> bool {
    let mut behind = 0u64;
    order.iter().rev().all(|stake| {
        let room = swap.saturating_add(usable.saturating_sub(stake.most.unwrap_or(0)));
        let safe = stake.most.is_none() || behind <= room;
        behind = behind.saturating_add(stake.held);
        safe
    })
}

/// By how much those behind somebody will exceed what he leaves them, at most what they grow by.
fn beyond(order: &[Stake], swap: u64, usable: u64) -> u64 {
    let (mut held, mut grows, mut beyond) = (0u64, 0u64, 0u64);
    for stake in order.iter().rev() {
        if let Some(most) = stake.most {
            let room = swap.saturating_add(usable.saturating_sub(most));
            beyond = beyond.max(held.saturating_add(grows).saturating_sub(room).min(grows));
        }
        held = held.saturating_add(stake.held);
        grows = grows.saturating_add(stake.grows);
    }
    beyond
}

/// Whether with `job` so many bytes larger, one that waits or one that is suspended, somebody could not be given all
/// that it may need by moving those behind it out of its way: the token holder, or whoever holds the token later.
pub(crate) fn is_unsafe(rooms: &Rooms, job: &Job, more: u64, usable: u64) -> bool {
    if rooms.memory.token.is_none() {
        return false;
    }
    let most = |job: &Job| {
        let claim = forecast::claim_of(rooms, job).map_or(0, |claim| claim.most_bytes);
        Some(claim.max(job.held.total()))
    };
    // What those that run grow by until they could be suspended is as good as held.
    let mut stakes = self::stakes(rooms, rooms.memory.token, |job| grows_within(rooms, job, HORIZON), most);
    for ((_, (.., id)), stake) in &mut stakes {
        // Who was not looked at since it started is taken for as large as it usually comes to be; and so is who was
        // let in for less than that, as its like get on with a part in RAM.
        let comes = rooms.jobs.get(id).filter(|job| job.has_slot()).map_or(0, |job| {
            let all = forecast::comes_to_hold(rooms, job);
            let is_more = job.held.total() == 0 || all > forecast::counts_for(rooms, job);
            if is_more { all.saturating_sub(job.held.total()) } else { 0 }
        });
        (stake.held, stake.grows) = (stake.held.saturating_add(comes.max(stake.grows)), 0);
    }
    match stakes.iter_mut().find(|((_, (.., id)), _)| *id == job.id()) {
        Some((_, stake)) => stake.held = stake.held.saturating_add(more),
        None => {
            let place = (1, (std::cmp::Reverse(job.request.priority), rooms.now, job.id()));
            stakes.push((place, Stake { held: more, most: most(job), grows: 0 }));
        }
    }
    let swap = swap_for_all(rooms);
    !suffices_for_all_at_once(&stakes, swap, usable) && !is_safe(&in_order(stakes), swap, usable)
}

/// By how much those behind the token holder, or behind one who holds it later, will hold more than can be moved out
/// of its way, if they grow on as they do for so long; at most what they grow by, for nobody gives back what he
/// holds.
pub(crate) fn beyond_safety(rooms: &Rooms, usable: u64, horizon: Duration) -> u64 {
    if !rooms.settings.memory.prediction || rooms.memory.token.is_none() {
        return 0;
    }
    let grows = |job: &Job| grows_within(rooms, job, horizon);
    let most = |job: &Job| forecast::claim_of(rooms, job).map(|claim| claim.most_bytes.max(job.held.total()));
    let stakes = self::stakes(rooms, rooms.memory.token, grows, most);
    let swap = swap_for_all(rooms);
    if stakes.iter().all(|(_, stake)| stake.grows == 0) || suffices_for_all_at_once(&stakes, swap, usable) {
        return 0;
    }
    beyond(&in_order(stakes), swap, usable)
}

/// What a running job grows by within this time, at most up to the most that it may need, where that is known.
fn grows_within(rooms: &Rooms, job: &Job, time: Duration) -> u64 {
    if !job.has_slot() || job.held.growth == 0 {
        return 0;
    }
    let claim = if forecast::is_known(rooms, job) { forecast::claim_of(rooms, job) } else { None };
    let left = claim.map(|claim| claim.most_bytes.saturating_sub(job.held.total()));
    grown(job.held.growth, time).min(left.filter(|&left| left > 0).unwrap_or(u64::MAX))
}

/// All swap that jobs may have, what they have of it included: its owners leave it when they hold the token or end.
fn swap_for_all(rooms: &Rooms) -> u64 {
    let lives = rooms.jobs.lives();
    lives.map(|job| job.held.swapped).fold(rooms.memory.swap_free, u64::saturating_add)
}

/// Whether all others could be moved out of the way of `job`, if it held the token from now on, and then out of the way
/// of each of them.
pub(crate) fn is_safe_first(rooms: &Rooms, job: &Job, usable: u64) -> bool {
    let most = |job: &Job| {
        let claim = forecast::claim_of(rooms, job).map_or(0, |claim| claim.most_bytes);
        Some(claim.max(job.held.total()))
    };
    let stakes = self::stakes(rooms, Some(job.id()), |_| 0, most);
    is_safe(&in_order(stakes), swap_for_all(rooms), usable)
}

fn stakes(
    rooms: &Rooms,
    first: Option<JobId>,
    grows: impl Fn(&Job) -> u64,
    most: impl Fn(&Job) -> Option<u64>,
) -> Vec<(Turn, Stake)> {
    let lives = rooms.jobs.lives();
    lives
        .filter_map(|job| {
            let live = job.live()?;
            let stays = live.phase.is_suspended_by_user() || live.phase.is_leaving();
            let place = match live.phase {
                _ if first == Some(job.id()) => 0,
                _ if stays => 3,
                Phase::Dying { .. } => 2,
                Phase::Suspended { why, .. } if !why.is_memory() => 2,
                Phase::Starting { .. }
                | Phase::Running { .. }
                | Phase::Suspended { .. }
                | Phase::Leaving { .. } => 1,
            };
            // Who may not be frozen comes to hold the most that it may need, whoever has the token.
            let most = most(job);
            let will_hold = if job.request.no_suspend && job.has_slot() { most } else { None };
            let total = job.held.total();
            let stake = Stake {
                held: total.max(will_hold.unwrap_or(0)),
                most: most.filter(|_| !stays),
                grows: if will_hold.is_some() { 0 } else { grows(job) },
            };
            Some(((place, job.rank_key()), stake))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn stake(held: u64, most: u64, grows: u64) -> Stake {
        Stake { held, most: Some(most), grows }
    }

    #[test]
    fn whoever_holds_the_token_later_is_asked_for_too() {
        // A small one first; of the two large ones either fits behind it, and neither behind the other.
        let small = stake(50, 100, 0);
        assert!(is_safe(&[small, stake(300, 900, 0)], 0, 1000));
        assert!(!is_safe(&[small, stake(300, 900, 0), stake(300, 900, 0)], 0, 1000));
        assert!(is_safe(&[small, stake(300, 900, 0), stake(300, 900, 0)], 200, 1000));
        // One that a user suspended never holds it, and is in the way of all.
        let suspended = Stake { held: 300, most: None, grows: 0 };
        assert!(!is_safe(&[small, stake(0, 900, 0), suspended], 0, 1000));
    }

    #[test]
    fn growth_counts_against_those_before_it() {
        let order = [stake(50, 100, 0), stake(300, 700, 0), stake(250, 900, 90)];
        assert_eq!(beyond(&order, 0, 1000), 40);
        assert_eq!(beyond(&order, 40, 1000), 0);
        // What is beyond already cannot be helped by freezing.
        let order = [stake(50, 900, 0), stake(500, 700, 30)];
        assert_eq!(beyond(&order, 0, 1000), 30);
    }

    /// Plays it out: each holds the token in its turn and needs the most that it may, while the others are suspended.
    fn all_come_to_their_ends(order: &[Stake], swap: u64, usable: u64) -> bool {
        (0..order.len()).all(|turn| {
            let Some(most) = order[turn].most else { return true };
            let mut swap_left = swap;
            let mut ram = 0;
            for other in &order[turn + 1..] {
                let out = other.held.min(swap_left);
                swap_left -= out;
                ram += other.held - out;
            }
            // One that is larger than RAM has it to itself, and pages as it likes.
            ram + most.min(usable) <= usable
        })
    }

    fn stakes() -> impl Strategy<Value = Vec<Stake>> {
        let one = (0..500u64, proptest::option::weighted(0.9, 0..1500u64), 0..200u64);
        let one = one.prop_map(|(held, most, grows)| Stake { held, most: most.map(|m| m.max(held)), grows });
        proptest::collection::vec(one, 0..12)
    }

    fn with_places(order: &[Stake]) -> Vec<(Turn, Stake)> {
        let place = |number: u64| (1, (std::cmp::Reverse(10), Instant(number), JobId(number)));
        (0..).map(place).zip(order.iter().copied()).collect()
    }

    proptest! {
        #[test]
        fn safe_is_what_can_be_played_out(order in stakes(), swap in 0..2000u64, usable in 0..2000u64) {
            let played = all_come_to_their_ends(&order, swap, usable);
            prop_assert_eq!(is_safe(&order, swap, usable), played);
            let still: Vec<Stake> = order.iter().map(|stake| Stake { grows: 0, ..*stake }).collect();
            if suffices_for_all_at_once(&with_places(&still), swap, usable) {
                prop_assert!(played, "the short way says yes where the long one does not");
            }
        }

        #[test]
        fn whatever_is_not_beyond_may_grow(order in stakes(), swap in 0..2000u64, usable in 0..2000u64) {
            let still: Vec<Stake> = order.iter().map(|stake| Stake { grows: 0, ..*stake }).collect();
            let grown: Vec<Stake> =
                order.iter().map(|stake| Stake { held: stake.held + stake.grows, grows: 0, ..*stake }).collect();
            if is_safe(&still, swap, usable) {
                // Its own growth is in the most that each may need.
                prop_assert_eq!(beyond(&order, swap, usable) == 0, is_safe(&grown, swap, usable));
            }
            if suffices_for_all_at_once(&with_places(&order), swap, usable) {
                prop_assert_eq!(beyond(&order, swap, usable), 0);
            }
        }
    }
}
