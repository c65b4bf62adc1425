//! The results of the pusher's rounds.

use pinfold_proto::view::StatusView;

use crate::cursor::CursorError;
use crate::source::SourceError;
use crate::spool::SpoolError;
use crate::uplink::UplinkError;

/// Why a round ended early.
#[derive(Debug, thiserror::Error)]
pub enum PushError {
    /// The daemon.
    #[error("the daemon: {0}")]
    Source(#[from] SourceError),
    /// The spool.
    #[error(transparent)]
    Spool(#[from] SpoolError),
    /// The cursor.
    #[error(transparent)]
    Cursor(#[from] CursorError),
    /// A value cannot be serialized.
    #[error("failed to pack a bundle: {0}")]
    Pack(#[from] serde_json::Error),
}

/// Result of a look at the host.
#[derive(Debug)]
pub struct Collected {
    /// The host now, without ended jobs.
    pub status: StatusView,
    /// Why some ended jobs are not in the spool: the daemon went away, or spool or disk are full. The missing jobs
    /// follow in a later round.
    pub trouble: Option<PushError>,
}

/// Result of a round of sending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sent {
    /// Bundles accepted by the hub.
    pub bundles: u64,
    /// New parts.
    pub new: u64,
    /// Parts already known to the hub.
    pub known: u64,
    /// Messages of the hub on bundles refused for good, which are put aside.
    pub refused: Vec<String>,
    /// Why sending has stopped for now.
    pub failed: Option<UplinkError>,
}
