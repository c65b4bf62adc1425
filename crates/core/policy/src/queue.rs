//! Which job is next: the queues, arrays, ageing, countable resources, and the first in line.
//!
//! Order: `order`, `queues`, `line` (enter and leave), `head` (the next job), `ageing`, `owner` (the first job
//! that cannot start), `arrays`, `lengths` (run times).
//! Countable resources: `resources`, `wanted`.

pub(crate) mod ageing;
pub(crate) mod arrays;
pub(crate) mod head;
pub mod lengths;
pub(crate) mod line;
pub(crate) mod order;
pub(crate) mod owner;
pub(crate) mod queues;
pub(crate) mod resources;
pub(crate) mod wanted;
