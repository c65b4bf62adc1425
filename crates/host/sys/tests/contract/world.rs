//! The worlds in which the suite runs.

use std::sync::atomic::{AtomicU32, Ordering};

use pinfold_sys::container::Containers;
use pinfold_sys::mode::{Mode, Plan, Roots, decide, probe};
use pinfold_testkit::fake::FakeHost;

/// A kind of host.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) name: String,
    /// Where jobs are contained.
    pub(crate) roots: Roots,
    /// Where the host is described: the same roots, but for a fake host.
    pub(crate) probe_roots: Roots,
    pub(crate) plan: Plan,
    /// Memory that a job holds may be pushed out to swap.
    pub(crate) can_push_out: bool,
    /// Open event files follow the kernel (they do not in a fake tree).
    pub(crate) has_live_events: bool,
}

impl World {
    /// This host in a mode, or why not.
    pub(crate) fn kernel(mode: Mode) -> Result<Self, String> {
        let roots = Roots::default();
        let facts = probe(&roots);
        let plan = decide(&facts, Some(mode)).map_err(|error| error.to_string())?;
        let name = format!("{mode} on this host as user {}", facts.user);
        let can_push_out = facts.swap_bytes > 0;
        Ok(Self { name, probe_roots: roots.clone(), roots, plan, can_push_out, has_live_events: true })
    }

    /// A fake host, contained in the mode that it suggests.
    pub(crate) fn fake(name: &str, host: &FakeHost) -> Self {
        let facts = probe(&host.probe_roots());
        let plan = decide(&facts, None).expect("without a wish there is always a mode");
        Self {
            name: name.to_owned(),
            roots: host.roots(),
            probe_roots: host.probe_roots(),
            plan,
            can_push_out: false,
            has_live_events: false,
        }
    }

    /// A name for an instance that no other test uses.
    pub(crate) fn instance(&self) -> String {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        format!("t{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn open(&self, instance: &str) -> Containers {
        Containers::open(self.plan.clone(), self.roots.clone(), instance).expect("the instance opens")
    }
}
