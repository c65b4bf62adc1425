//! The hub as the pusher reaches it. Absent here: HTTP (`courier`).

use crate::bundle::Receipt;

/// Where bundles go.
pub trait Uplink {
    /// Hands a packed bundle over; the hub has it on its disk when this returns.
    ///
    /// # Errors
    /// When the hub does not take it.
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError>;

    /// Says how the host is now. Gives the generation of the hub's database; `None`: an earlier hub has none.
    ///
    /// # Errors
    /// When the hub does not take it.
    fn live(&mut self, packed: &[u8]) -> Result<Option<u64>, UplinkError>;
}

/// Why the hub took nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UplinkError {
    /// It may work later: the hub is away, busy or full.
    #[error("{0}")]
    Later(String),
    /// It will never take this one.
    #[error("{0}")]
    Refused(String),
    /// The token is not valid, or was revoked.
    #[error("{0}")]
    Denied(String),
}
