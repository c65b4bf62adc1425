//! Home cores and slots that each pool uses, has borrowed and may take. Read only.

use crate::api::{Class, JobId};
use crate::cores::slots;
use crate::jobs::{Demand, Job};
use crate::rooms::Rooms;
use crate::shares::pools::{Count, Uses};

pub(crate) fn pool(rooms: &Rooms, job: JobId) -> u16 {
    rooms.jobs.get(&job).map_or(0, |job| job.pools.cores)
}

pub(crate) fn uses(rooms: &Rooms) -> Uses {
    let pools = rooms.shares.cores.len().max(1);
    let mut uses = Uses { homes: vec![0; pools], slots: vec![0; pools] };
    for (_, id) in rooms.cores.running().lowest_first() {
        let pool = usize::from(self::pool(rooms, id));
        uses.homes[pool] += amount(rooms, Count::Homes, id);
        uses.slots[pool] += amount(rooms, Count::Slots, id);
    }
    uses
}

pub(crate) fn amount(rooms: &Rooms, count: Count, id: JobId) -> usize {
    let Some(live) = rooms.jobs.live(id) else { return 0 };
    match (count, live.class) {
        (Count::Homes, Class::Primary) => live.cores.len(),
        // All of them; but it is dealt with by itself.
        (Count::Homes, Class::Backfill | Class::Exclusive) => 0,
        (Count::Slots, _) => live.slots,
    }
}

/// Whether the pool of a job has more than is its own.
pub(crate) fn has_borrowed(rooms: &Rooms, uses: &Uses, count: Count, id: JobId) -> bool {
    let pool = self::pool(rooms, id);
    uses.of(count, pool) > rooms.shares.share(pool)
}

/// Whether a job may lose what it has for a job of higher priority: of the same pool, or what its pool borrowed.
/// Notes that it does.
pub(crate) fn pays(rooms: &Rooms, uses: &mut Uses, count: Count, id: JobId, by: JobId) -> bool {
    let pool = self::pool(rooms, id);
    if !rooms.shares.split_cores() {
        return true;
    }
    if pool == self::pool(rooms, by) {
        // One that cannot have what is their own, or wants no home, leaves it: it would be taken back from it at once.
        let share = rooms.shares.share(pool);
        let wants = rooms
            .jobs
            .get(&by)
            .is_some_and(|job| job.request.class != Some(Class::Backfill) && job.slots() <= share);
        let homes = amount(rooms, Count::Homes, id);
        return wants || homes == 0 || uses.of(Count::Homes, pool).saturating_sub(homes) >= share;
    }
    // Who is frozen loses homes as well.
    let counts = if count == Count::Slots { &[Count::Slots, Count::Homes][..] } else { &[Count::Homes] };
    let loses = |count: &&Count| amount(rooms, **count, id) > 0;
    let left = |count: Count| uses.of(count, pool).saturating_sub(amount(rooms, count, id));
    let pays = counts.iter().filter(loses).all(|&count| left(count) >= rooms.shares.share(pool));
    if pays {
        counts.iter().for_each(|&count| uses.take(count, pool, amount(rooms, count, id)));
    }
    pays
}

/// Whether a job has what its own project is guaranteed, so that an exclusive job of others waits for its end.
pub(crate) fn is_guaranteed_beside(rooms: &Rooms, id: JobId, by: JobId) -> bool {
    let pool = self::pool(rooms, id);
    pool != 0 && pool != self::pool(rooms, by) && rooms.shares.share(pool) > 0
}

/// Whether a job that waits long may wait on without holding others up: others have what is their own, and do not
/// leave it enough.
pub(crate) fn waits_for_guaranteed(rooms: &Rooms, id: JobId) -> bool {
    if !rooms.shares.split_cores() {
        return false;
    }
    let (uses, own) = (uses(rooms), pool(rooms, id));
    let others = (0..rooms.shares.cores.len()).filter(|&pool| pool != usize::from(own));
    let theirs: usize = others.map(|pool| uses.slots[pool].min(rooms.shares.shares[pool])).sum();
    let Some(job) = rooms.jobs.get(&id) else { return false };
    let exclusive = job.request.class == Some(Class::Exclusive);
    let wanted = if exclusive { slots::total(&rooms.cores, &rooms.settings) } else { job.slots() };
    wanted > slots::total(&rooms.cores, &rooms.settings).saturating_sub(theirs)
}

/// Home cores that are a pool's own and that it does not have.
pub(crate) fn room_left(rooms: &Rooms, pool: u16) -> usize {
    rooms.shares.share(pool).saturating_sub(uses(rooms).of(Count::Homes, pool))
}

/// Why a job does not get homes that are its pool's own: those that have them, and may not be frozen.
pub(crate) fn in_the_way(rooms: &Rooms, job: &Job, shape: Demand) -> Vec<JobId> {
    let homes = matches!(shape.class, None | Some(Class::Primary));
    let own = job.pools.cores;
    if !rooms.shares.split_cores() || !homes || shape.homes as usize > room_left(rooms, own) {
        return Vec::new();
    }
    let uses = self::uses(rooms);
    let keeps = |id: &JobId| {
        let beside = pool(rooms, *id) != own && has_borrowed(rooms, &uses, Count::Slots, *id);
        beside && !rooms.jobs.may_freeze(*id)
    };
    rooms.cores.running().lowest_first().map(|(_, id)| id).filter(keeps).collect()
}
