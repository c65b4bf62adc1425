//! Cores that processes which are no jobs use are handed out less: fewer slots, by as many as those cores have.
//!
//! Whoever runs goes on: only who would start or resume waits. While no job has a slot all slots are there, so that the
//! first always starts, however wide it is. Half of the slots are there whatever other processes do, so that nobody can
//! take the host from jobs by processes beside them. Absent: which cores count (`load`).

use crate::api::{Instant, Settings};
use crate::cores::host::Host;

impl Host {
    /// Takes a reading in: what processes that are no jobs use, in thousandths of a core; `None`: it does not count.
    pub(crate) fn read_others(&mut self, now: Instant, used_milli: Option<u32>) {
        self.others.read(now, used_milli);
    }
}

/// The slots that are not handed out for that, of `total`: of the cores that are used, and never more than half, nor
/// any while nobody has a slot.
pub(crate) fn withheld(host: &Host, settings: &Settings, total: usize) -> usize {
    let all = host.grid.len();
    let taken = host.others.cores().min(all);
    if taken == 0 || host.used == 0 || !settings.schedule {
        return 0;
    }
    let left = settings.slots(all - taken).max(total.div_ceil(2));
    total.saturating_sub(left.min(total))
}
