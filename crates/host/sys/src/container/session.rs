//! Sessions as the kernel's scheduling groups (autogroup, `sched(7)`), which apply where no group of a cpu controller does:
//! processor time is divided among sessions first, so that a thread's idle class or nice value orders the threads of its
//! own session only. The session's nice value takes their place, and any user may raise and lower it between 0 and 19.
//! The kernel takes ten changes a second from users without rights; each sample of a job asks again for a missing one.

use std::collections::BTreeSet;

use super::process::{self, Reached};
use super::{Container, ContainerError, Share};
use crate::mode::{AbilityName, Via};

/// Weighs 15 against the 1,024 of a usual session.
const IDLE_NICE: i32 = 19;

impl Container {
    /// Applies `to_thread` to each thread of these processes, except where sessions are scheduling groups: there, sessions
    /// led by one of the processes get the nice value of `share` instead. `Forbidden` if the kernel forbade it for any thread.
    pub(super) fn each_thread_or_session(
        &self,
        operation: &'static str,
        share: Share,
        pids: impl Fn() -> Result<Vec<u32>, ContainerError>,
        to_thread: impl Fn(u32) -> Result<Reached, rustix::io::Errno>,
    ) -> Result<Reached, ContainerError> {
        let led = self.settle_sessions(share, &pids()?);
        self.each_thread_of(operation, usize::MAX, pids, |thread| match session(thread) {
            Some(session) if led.contains(&session) => Ok(Reached::Yes),
            _ => to_thread(thread),
        })
    }

    /// Sets the nice value of a share on the sessions that these processes lead; returns the sessions, where session
    /// values count.
    pub(super) fn settle_sessions(&self, share: Share, pids: &[u32]) -> BTreeSet<u32> {
        let plan = &self.shared.plan;
        if !plan.facts.autogroup || plan.via(AbilityName::IdleClass) != Via::Processes {
            return BTreeSet::new();
        }
        let nice = match share {
            Share::Idle => IDLE_NICE,
            Share::Normal { weight } => process::nice_of_weight(weight).max(0),
        };
        let led = pids.iter().copied().filter(|&pid| session(pid) == Some(pid));
        led.inspect(|pid| {
            let file = format!("/proc/{pid}/autogroup");
            let has = std::fs::read_to_string(&file).is_ok_and(|text| nice_in(&text) == Some(nice));
            if !has {
                let _ = std::fs::write(file, nice.to_string());
            }
        })
        .collect()
    }
}

/// The session of a thread; `None`: the thread has ended, or its session is of another PID namespace, which the kernel
/// calls 0.
#[expect(unsafe_code, reason = "rustix takes a session's number for one that is never 0")]
fn session(thread: u32) -> Option<u32> {
    let thread = i32::try_from(thread).ok().filter(|&thread| thread > 0)?;
    // SAFETY: takes a number and touches no memory.
    let session = unsafe { libc::getsid(thread) };
    u32::try_from(session).ok().filter(|&session| session > 0)
}

/// The nice value in `/autogroup-123 nice 19`.
fn nice_in(text: &str) -> Option<i32> {
    text.trim().rsplit(' ').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nice_values_of_sessions() {
        assert_eq!(nice_in("/autogroup-123 nice 19\n"), Some(19));
        assert_eq!(nice_in("/autogroup-123 nice -5\n"), Some(-5));
        assert_eq!(nice_in(""), None);
    }
}
