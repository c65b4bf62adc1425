//! How many backfillers there may be (`cpu.protect`): as many as cores are idle, what backfillers themselves use
//! counted as idle, but for a part of each core that is kept free.
//!
//! One more after two seconds in which there was room for it, fewer at once. Without headroom the slots alone say how
//! many: the idle class takes next to nothing from a primary, and a slot that waits for measured idleness is idle
//! itself.

use std::time::Duration;

use crate::api::{Instant, Sample, Settings};
use crate::cores::host::Host;
use crate::cores::slots;

/// There must have been room for one more for this long.
const EVIDENCE: Duration = Duration::from_secs(2);

/// Takes idleness in; says whether there may be more or fewer backfillers now.
pub(crate) fn measure_idleness(host: &mut Host, settings: &Settings, now: Instant, sample: &Sample) -> bool {
    let idle: u64 = sample.idle_milli.iter().copied().map(u64::from).sum();
    host.idleness.push(now, idle.saturating_add(u64::from(sample.backfill_milli)));
    set_headroom(host, settings, now)
}

/// Sets how many backfillers there may be; says whether these are more or fewer than before.
pub(crate) fn set_headroom(host: &mut Host, settings: &Settings, now: Instant) -> bool {
    let room = slots::backfillers_room(host, settings);
    let idleness = &mut host.idleness;
    let before = idleness.allowed;
    if settings.protect_milli == 0 {
        (idleness.allowed, idleness.more_since) = (0, None);
    } else if room <= idleness.allowed {
        (idleness.allowed, idleness.more_since) = (room, None);
    } else {
        let since = *idleness.more_since.get_or_insert(now);
        if now.since(since) >= EVIDENCE {
            idleness.allowed += 1;
            idleness.more_since = Some(now);
        }
    }
    idleness.allowed != before
}
