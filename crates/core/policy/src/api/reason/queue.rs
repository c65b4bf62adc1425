//! Reasons that speak of the queue: why a job does not wait any longer.

use std::fmt;
use std::time::Duration;

use crate::api::code::{Figure, count, figures};

/// Why a job may not wait.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum QueueReason {
    /// The queue was full.
    QueueFull {
        /// Jobs that may wait.
        depth: usize,
    },
    /// It waited longer than it may.
    Expired {
        /// How long it might wait.
        ttl: Duration,
    },
    /// It needs more cores than the machine lets anyone have.
    TooLarge {
        /// Cores asked for.
        asked: u32,
        /// Cores there are.
        cores: usize,
    },
}

impl QueueReason {
    /// Its code and its figures.
    pub(super) fn parts(&self) -> (&'static str, Vec<Figure>) {
        match self {
            Self::QueueFull { depth } => ("queue_full", figures!["depth": Number(count(*depth))]),
            Self::Expired { ttl } => ("expired", figures!["ttl_s": Time(*ttl)]),
            Self::TooLarge { asked, cores } => {
                ("too_large", figures!["asked": Number((*asked).into()), "cores": Number(count(*cores))])
            }
        }
    }
}

impl fmt::Display for QueueReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull { depth } => write!(f, "the queue is full ({depth} jobs wait)"),
            Self::Expired { ttl } => {
                write!(f, "it waited longer than its time-to-live of {} s", ttl.as_secs_f64())
            }
            Self::TooLarge { asked, cores } => {
                write!(f, "it asks for {asked} cores and the machine has {cores} for jobs")
            }
        }
    }
}
