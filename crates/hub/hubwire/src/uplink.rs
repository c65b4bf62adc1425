//! The pusher's view of the hub. Absent here: HTTP (`courier`).

use crate::bundle::{LiveReceipt, Receipt};

/// Where bundles go.
pub trait Uplink {
    /// Sends a packed bundle; on return the hub has it on disk.
    ///
    /// # Errors
    /// When the hub does not accept it.
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError>;

    /// Sends the host's present state.
    ///
    /// # Errors
    /// When the hub does not accept it.
    fn live(&mut self, packed: &[u8]) -> Result<LiveReceipt, UplinkError>;
}

/// Why the hub did not accept a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UplinkError {
    /// A retry may succeed: the hub is away, busy or full.
    #[error("{0}")]
    Later(String),
    /// The hub will never accept this message.
    #[error("{0}")]
    Refused(String),
    /// The token is not valid, or was revoked.
    #[error("{0}")]
    Denied(String),
}
