//! The slots became more or fewer: wide jobs take all there is, and pools are divided anew.

use crate::cores::{resize, slots};
use crate::rooms::Rooms;
use crate::schedule::transition;

pub(crate) fn clip(rooms: &mut Rooms) {
    // A home without a slot is of no use.
    let all = rooms.cores.grid().len().min(slots::total(&rooms.cores, &rooms.settings));
    rooms.shares.divide_cores(all);
    let queued = resize::clip(&mut rooms.cores, &mut rooms.jobs, &rooms.settings);
    transition::apply(rooms, queued);
}
