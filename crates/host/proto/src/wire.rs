//! Requests, replies, and the frames they travel in: four bytes of length, little endian, then one JSON value.
//!
//! A connection begins with [`Request::Hello`], answered by [`Reply::Welcome`] or [`Reply::Error`]; a client need not
//! wait for that before it says more. After that a *command* connection sends one request at a time and gets one reply each. A *keeper's* connection
//! submits jobs and is told of each as things happen; replies then name the job, in no fixed order.

mod frame;
mod reply;
mod request;

pub use frame::{Decoder, FrameError, ReportsFrame, encode, json_bytes};
pub use reply::{ConfigValue, ErrorCode, Member, Members, Piece, Reply};
pub use request::{Adoptee, Phase, Request, Select, SetAside, Verb};

/// The version of the wire. A daemon refuses a client of another version with words that say which is older.
pub const WIRE_VERSION: u32 = 19;

/// The oldest version of which a daemon still hears keepers, so that jobs outlive an upgrade: what a keeper says of jobs
/// that it has ([`Request::is_of_an_older_keeper`]) has had one form since then. Everything else is refused it, as another
/// version is; so its jobs end and start, and new ones are for commands of the daemon's version.
pub const WIRE_VERSION_OLDEST: u32 = 14;

/// The longest frame a daemon reads, in bytes. A client that announces more is cut off.
pub const REQUEST_MAX_BYTES: usize = 256 * 1024;

/// The longest frame a client reads, in bytes.
pub const REPLY_MAX_BYTES: usize = 256 * 1024 * 1024;
