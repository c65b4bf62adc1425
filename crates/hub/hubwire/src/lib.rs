//! Messages from a host to a hub, and their transport: a crate for both ends of the wire.
//!
//! Reading order: [`bundle`] (messages, packed and bounded), [`bounds`] (ranges of figures), [`series`] (a job's
//! series as columns), [`disk`] and [`spool`] (bundles wait on disk until the hub has them), [`cursor`] (jobs already
//! sent), `load` and `told` (the content of a message), [`push`] (the pusher: store to spool to hub), [`courier`] (a
//! hub, through the program with HTTP), [`settings`] (the hub's address and token, on disk). Absent here: the
//! daemon's socket (the command line reads it), and the hub's store.

pub mod bounds;
pub mod bundle;
pub mod courier;
pub mod cursor;
pub mod disk;
mod load;
mod outcome;
pub mod push;
pub mod series;
pub mod settings;
mod source;
pub mod spool;
mod told;
pub mod turns;
mod uplink;
