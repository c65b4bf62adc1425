//! Requests, replies, and their frames: four bytes of length, little endian, then a JSON value.
//!
//! A connection begins with [`Request::Hello`], answered by [`Reply::Welcome`] or [`Reply::Error`]; a client need not
//! wait for the answer. Then a *command* connection sends a request at a time and gets a reply to each. A *keeper's*
//! connection submits jobs and receives events of each job; these replies name the job, in no fixed order.

mod frame;
mod reply;
mod request;

pub use frame::{Decoder, FrameError, ReportsFrame, encode, json_bytes};
pub use reply::{ConfigValue, ErrorCode, Member, Members, Piece, Reply};
pub use request::{Adoptee, Phase, Request, Select, SetAside, Verb};

/// The version of the wire. A daemon refuses other versions and says which side is older.
pub const WIRE_VERSION: u32 = 19;

/// The oldest version of keepers that a daemon accepts, so that jobs survive an upgrade: a keeper's messages about
/// existing jobs ([`Request::is_of_an_older_keeper`]) are unchanged since then. The daemon refuses all other requests
/// of old keepers, so their jobs start and end, and new jobs need commands of the daemon's version.
pub const WIRE_VERSION_OLDEST: u32 = 14;

/// The longest frame that a daemon reads, in bytes. A client that announces a longer frame is disconnected.
pub const REQUEST_MAX_BYTES: usize = 256 * 1024;

/// The longest frame a client reads, in bytes.
pub const REPLY_MAX_BYTES: usize = 256 * 1024 * 1024;
