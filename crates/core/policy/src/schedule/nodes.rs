//! Jobs join, leave, widen and drain the groups of NUMA nodes that their memory is bound to (`memory::numa::bind` says
//! which).

use crate::api::{JobId, NodeMemory};
use crate::memory::numa::bind;
use crate::rooms::Rooms;

/// Takes readings of the nodes in, and sees what follows.
pub(crate) fn nodes_read(rooms: &mut Rooms, reading: &NodeMemory) {
    rooms.nodes.read(reading, rooms.now);
    rooms.nodes.leave_all(&bind::stale(rooms));
    if rooms.nodes.is_on() {
        let_go(rooms);
        join(rooms, bind::running(&rooms.jobs));
        while let Some(division) = bind::drained(rooms) {
            rooms.nodes.divide(division);
        }
        rooms.nodes.touch();
    }
}

/// What follows from what happened in this step: jobs that went elsewhere leave, jobs that start join.
pub(crate) fn settle(rooms: &mut Rooms) {
    // Told once the starts are.
    if !(rooms.cores.take_touched() | rooms.nodes.is_touched()) {
        return;
    }
    rooms.nodes.touch();
    rooms.nodes.leave_all(&bind::stale(rooms));
    if rooms.nodes.is_on() {
        join(rooms, rooms.pending.starts().iter().map(|(job, _)| *job).collect());
        let_go(rooms);
    }
}

fn join(rooms: &mut Rooms, jobs: Vec<JobId>) {
    let bound = rooms.nodes.bound();
    // Most are bound already; and no job is let go here.
    for job in jobs.into_iter().filter(|job| bound.binary_search(job).is_err()) {
        if let Some(groups) = bind::groups_for(rooms, job) {
            rooms.nodes.join(&groups, job);
        }
    }
}

fn let_go(rooms: &mut Rooms) {
    while let Some(job) = bind::without_room(rooms) {
        rooms.nodes.let_go(job, rooms.now);
    }
}
