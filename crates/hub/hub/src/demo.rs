//! Simulated hosts to try the page with: jobs of realistic classes, pushed by the real pusher over the real wire. A
//! host's jobs follow from its seed. Absent here: code that the hub relies on.

mod host;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use pinfold_hubclient::HubClient;
use pinfold_hubwire::courier::ClientError;
use pinfold_hubwire::disk::RealDisk;
use pinfold_hubwire::push::{PushError, Pusher};
use pinfold_hubwire::spool::SPOOL_BYTES;

use crate::store::now_us;

pub use host::SimulatedHost;

/// Interval of a host's status.
const EVERY: Duration = Duration::from_secs(2);

/// A simulated host and its hub.
#[derive(Debug, Clone)]
pub struct Host {
    /// The host's name.
    pub name: String,
    /// The host's token.
    pub token: String,
    /// The hub's address.
    pub url: String,
    /// Days of past jobs.
    pub days: u32,
    /// The seed of the jobs.
    pub seed: u64,
    /// The spool's parent directory.
    pub dir: PathBuf,
}

/// Why a simulated host stopped.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// The hub's address is invalid.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The pusher failed.
    #[error(transparent)]
    Push(#[from] PushError),
}

/// Pushes for ever.
///
/// # Errors
/// When the spool cannot be used.
pub fn push(host: &Host) -> Result<(), DemoError> {
    let mut hub = HubClient::new(&host.url, None)?.with_token(&host.token);
    let mut pusher = Pusher::open(RealDisk, &host.dir.join(&host.name), SPOOL_BYTES, "demo")?;
    let mut source = SimulatedHost::new(&host.name, host.seed, host.days, now_us());
    let begun = Instant::now();
    loop {
        let collected = pusher.collect(&mut source, now_us())?;
        if let Some(trouble) = collected.trouble {
            return Err(trouble.into());
        }
        pusher.tell(&mut hub, collected.status, now_us(), begun.elapsed(), u32::MAX / 2)?;
        pusher.send(&mut hub, begun.elapsed(), u32::MAX / 2)?;
        if !pusher.is_behind() {
            std::thread::sleep(EVERY);
        }
    }
}
