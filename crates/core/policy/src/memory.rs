//! Memory: what jobs hold and are expected to need, which of them fit, and the ladder of what is done when they do not.
//!
//! Calls go down only: readings → ladder → rank → oracle → forecast. `room` has the state; only `readings` and what is
//! below `ladder` and `numa` change it.

pub(crate) mod forecast;
pub(crate) mod ladder;
pub(crate) mod numa;
pub(crate) mod oracle;
pub(crate) mod rank;
pub(crate) mod readings;
pub(crate) mod room;
pub(crate) mod throttled;

pub use forecast::claims;
