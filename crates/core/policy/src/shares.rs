//! What is whose: home cores and memory that projects are guaranteed, lent, and reclaimed.

pub(crate) mod core_pool;
pub(crate) mod holding;
pub(crate) mod memory_pool;
pub(crate) mod pools;
pub(crate) mod reclaim;
pub(crate) mod reclaim_memory;
