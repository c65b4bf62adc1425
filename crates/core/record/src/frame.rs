//! What a recording consists of: frames, one behind the other, in CBOR (RFC 8949) below gzip.

use pinfold_policy::{Decision, Event, Instant, Policy};
use serde::{Deserialize, Serialize};

/// The form of recordings that this version writes. Another number: it cannot be read.
pub const FORM: u32 = 2;

/// The first frame of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// See [`FORM`].
    pub form: u32,
    /// The version of the program that wrote it. Another version may decide otherwise, by intent.
    pub program: String,
    /// When the file was begun, in microseconds since the Unix epoch.
    pub begun_us: u64,
}

/// A frame. A file has one head, one state, and then steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Frame {
    /// Which program wrote the file.
    Head(Head),
    /// All that the scheduler knew before the first step.
    State(Box<Policy>),
    /// One event, and what was decided.
    Step(Box<Step>),
}

/// An event that the scheduler took in, and what it decided then.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The time that it was told.
    pub now: Instant,
    /// What happened.
    pub event: Event,
    /// What it decided, in order.
    pub decisions: Vec<Decision>,
}
