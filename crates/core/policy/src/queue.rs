//! Which job is next: the queues, arrays, ageing, countable resources, and the first in line.

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
