//! A recording's format: a sequence of frames in CBOR (RFC 8949), compressed by gzip.

use pinfold_policy::{Decision, Event, Instant, Policy};
use serde::{Deserialize, Serialize};

/// The format version. Files of other versions are refused.
pub const FORM: u32 = 2;

/// The first frame of a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// See [`FORM`].
    pub form: u32,
    /// The version of the program that wrote the file. Another version may decide differently by intent.
    pub program: String,
    /// When the file was begun, in microseconds since the Unix epoch.
    pub begun_us: u64,
}

/// A frame. A file has one head, one state, then steps.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Frame {
    /// Which program wrote the file.
    Head(Head),
    /// The scheduler's state before the first step.
    State(Box<Policy>),
    /// An event and its decisions.
    Step(Box<Step>),
}

/// An event of the scheduler, and the decisions that followed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// The time passed with the event.
    pub now: Instant,
    /// The event.
    pub event: Event,
    /// The decisions in order.
    pub decisions: Vec<Decision>,
}
