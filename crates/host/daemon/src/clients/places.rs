//! Places in the queue: a user who fills it leaves places for the next one.
//!
//! A user who is no operator may have at most as many waiting jobs as are left free then: the first half of the queue,
//! the next one half of what is left, and so on, so that there is always a place for somebody else. Owns a count of jobs that
//! wait, which is made anew at most once a second. Absent here: how long the queue is, and which job is next in it.

use std::collections::BTreeMap;

use pinfold_proto::JobState;
use pinfold_proto::wire::ErrorCode;
use pinfold_sys::peer::Peer;

use crate::clients::rights;
use crate::core::{Ctx, Refusal};
use crate::jobs::JobTable;

/// How long a count is good for: to count anew at each submission would let a long queue cost more the longer it is.
const COUNT_EVERY_US: u64 = 1_000_000;

/// How many jobs of each user wait.
#[derive(Debug, Default)]
pub(crate) struct InQueue {
    counted_us: u64,
    by_user: BTreeMap<u32, usize>,
}

/// Whether a user with `own` waiting jobs may have one more, where `all` wait and `depth` may.
fn has_place(own: usize, all: usize, depth: usize) -> bool {
    own == 0 || own < depth.saturating_sub(all)
}

impl InQueue {
    /// Checks whether a user may have one more job in the queue.
    pub(crate) fn admit_to_queue(&mut self, ctx: &Ctx, table: &JobTable, user: Peer) -> Result<(), Refusal> {
        let config = &ctx.configured.config;
        let all = ctx.policy.waiting();
        let machine = ctx.policy.machine();
        let cores = machine.cores.len() + machine.neighbours_cores;
        let depth = (config.slots_queue_depth as usize).saturating_mul(cores.max(1));
        // As long as half of it is free nobody can have more than is left.
        if all < depth / 2 || rights::is_operator(config, user) {
            return Ok(());
        }
        let now_us = ctx.clock.now_us();
        if self.counted_us == 0 || now_us.saturating_sub(self.counted_us) > COUNT_EVERY_US {
            let mut by_user = BTreeMap::new();
            let waits = |state| matches!(state, JobState::Queued | JobState::Held);
            for live in table.values().filter(|live| waits(live.row.state)) {
                *by_user.entry(live.row.uid).or_default() += 1;
            }
            *self = Self { counted_us: now_us, by_user };
        }
        let own = self.by_user.entry(user.uid).or_default();
        if has_place(*own, all, depth) {
            *own += 1;
            return Ok(());
        }
        let text = format!(
            "{own} jobs of yours wait already, and the other {} places in the queue are for other users",
            depth.saturating_sub(all)
        );
        Err((ErrorCode::QueueFull, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// However many users ask for all they can get, one after the other, there is a place for the next.
    #[test]
    fn nobody_fills_the_queue() {
        for depth in [1, 2, 7, 100, 1000] {
            let mut all = 0;
            let mut got = Vec::new();
            while all < depth {
                let mut own = 0;
                while has_place(own, all, depth) && all < depth {
                    (own, all) = (own + 1, all + 1);
                }
                got.push(own);
            }
            assert!(got[0] <= depth.div_ceil(2), "{depth}: {got:?}");
            assert!(got.len() >= depth.ilog2() as usize, "{depth}: {got:?}");
            assert!(got.iter().all(|&own| own > 0), "{depth}: {got:?}");
        }
    }
}
