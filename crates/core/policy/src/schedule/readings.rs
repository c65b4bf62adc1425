//! Memory was read: the ladder acts on it.

use crate::api::MemorySample;
use crate::memory::ladder::overcommit;
use crate::memory::{oracle, readings};
use crate::rooms::Rooms;
use crate::schedule::{relieve, token};

/// Takes readings in and deals with a shortage, if there is one.
pub(crate) fn measured(rooms: &mut Rooms, sample: &MemorySample) {
    readings::take_in(&mut rooms.memory, &mut rooms.jobs, &rooms.settings, rooms.now, sample);
    if !oracle::is_governed(rooms) {
        return;
    }
    if let Some(expected) = overcommit::expected(rooms, rooms.memory.usable().unwrap_or(u64::MAX)) {
        overcommit::settle(&mut rooms.memory, &mut rooms.jobs, expected);
    }
    token::choose_token(rooms);
    relieve::relieve(rooms);
}
