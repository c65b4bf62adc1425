//! A sample of the cores comes in: how many backfillers there may be, which of them disturbs a primary, and which moves
//! to an idler core.

use crate::api::Sample;
use crate::cores::{headroom, interference, rebalance};
use crate::rooms::Rooms;
use crate::schedule::{resize, transition};

pub(crate) fn sample(rooms: &mut Rooms, sample: &Sample) {
    let now = rooms.now;
    rooms.cores.sample(&sample.idle_milli);
    if headroom::measure_idleness(&mut rooms.cores, &rooms.settings, now, sample) {
        resize::clip(rooms);
    }
    if interference::uncap(&mut rooms.cores, &rooms.settings, now) {
        resize::clip(rooms);
    }
    let interferer = interference::watch(&mut rooms.cores, &rooms.jobs, &rooms.settings, now, sample);
    if interferer.is_some() {
        transition::apply(rooms, interferer);
        interference::cap(&mut rooms.cores);
        resize::clip(rooms);
    }
    let moved = rebalance::rebalance(&mut rooms.cores, &mut rooms.jobs, &rooms.settings, now);
    transition::apply(rooms, moved);
}
