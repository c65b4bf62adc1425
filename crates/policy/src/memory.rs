//! Memory: what jobs hold and are expected to need, which of them fit, and the ladder of what is done when they do not.

pub(crate) mod admission;
pub(crate) mod checkpoint;
pub mod claims;
pub(crate) mod estimate;
pub(crate) mod fit;
pub(crate) mod forecast;
pub(crate) mod freeze;
pub(crate) mod ladder;
pub(crate) mod numa;
pub(crate) mod overcommit;
pub(crate) mod page_out;
pub(crate) mod probe;
pub(crate) mod readings;
pub(crate) mod requeue;
pub(crate) mod resume;
pub(crate) mod room;
pub(crate) mod safety;
pub(crate) mod throttle;
pub(crate) mod throttled;
pub(crate) mod token;
