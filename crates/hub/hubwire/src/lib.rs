//! What a host sends to a hub, and how: one crate for both ends of the wire.
//!
//! Reading order: [`bundle`] (what is sent, packed and bounded), [`bounds`] (what a figure may be), [`series`] (a job's series as columns), [`disk`] and
//! [`spool`] (bundles wait on disk until the hub has them), [`cursor`] (which jobs were sent), `load` and `told` (what goes
//! into one message), [`push`] (the pusher: store to spool to hub), [`courier`] (a hub, through the program that has
//! HTTP), [`settings`] (which hub, on disk).
//! Absent here: the daemon's socket (the command line reads it), and the hub's store.

pub mod bounds;
pub mod bundle;
pub mod courier;
pub mod cursor;
pub mod disk;
mod load;
pub mod push;
pub mod series;
pub mod settings;
mod source;
pub mod spool;
mod told;
pub mod turns;
mod uplink;
