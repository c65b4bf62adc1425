//! The process itself: how long its turns take, what its service manager is told, and when a private daemon ends.

use std::time::Duration;

use crate::core::notify::Manager;
use crate::core::turns::Watchdog;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Service {
    /// How long turns of the loop take.
    pub(crate) turn: Watchdog,
    pub(crate) manager: Manager,
    /// When the house is kept next.
    pub(crate) house_keeping_us: u64,
    /// How long it stays without a job and without a client, when it is private,
    private_idle: Option<Duration>,
    /// and since when it is.
    idle_since_us: u64,
}

impl Service {
    /// One that begins now; `private_idle`: how long a private one stays idle.
    pub(crate) fn new(private_idle: Option<Duration>, now_us: u64) -> Self {
        let (turn, manager) = (Watchdog::new(now_us), Manager::of_environment());
        Self { turn, manager, house_keeping_us: now_us, private_idle, idle_since_us: now_us }
    }

    /// When a private daemon ends that stays idle.
    pub(crate) fn idle_end_us(&self) -> Option<u64> {
        let limit_us = |limit: Duration| u64::try_from(limit.as_micros()).unwrap_or(u64::MAX);
        self.private_idle.map(|limit| self.idle_since_us.saturating_add(limit_us(limit)))
    }

    /// Whether a private daemon has been idle for long enough.
    pub(crate) fn is_over(&mut self, is_idle: bool, now_us: u64) -> bool {
        if !is_idle {
            self.idle_since_us = now_us;
        }
        self.idle_end_us().is_some_and(|end_us| end_us <= now_us)
    }
}
