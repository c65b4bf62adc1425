//! What every handler may read: what is decided, the configuration, the host's files and groups, the clock. Only the loop changes it.

use std::path::PathBuf;

use pinfold_policy::Policy;
use pinfold_sys::container::Containers;
use pinfold_sys::procfs::Proc;
use pinfold_topo::Topology;

use crate::core::clock::Clock;
use crate::core::options::{Configured, Options};
use crate::core::poller::Poller;
use crate::core::share::Share;

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Ctx {
    /// The scheduler: to be asked. Only the loop has it take an event in.
    pub(crate) policy: Policy,
    pub(crate) clock: Clock,
    pub(crate) options: Options,
    pub(crate) configured: Configured,
    pub(crate) topology: Topology,
    /// What of the host is this user's beside others' daemons.
    pub(crate) share: Share,
    pub(crate) proc: Proc,
    pub(crate) containers: Containers,
    pub(crate) poller: Poller,
    /// The state directory.
    pub(crate) state: PathBuf,
    /// Whether the host was restarted since the last daemon.
    pub(crate) rebooted: bool,
    /// Whether nothing new starts.
    pub(crate) draining: bool,
    /// Whether containers have files here by which a process attaches itself.
    pub(crate) doors: bool,
    pub(crate) instance: String,
    pub(crate) host: String,
}
