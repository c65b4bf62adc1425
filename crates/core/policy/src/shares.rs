//! What is whose: home cores and memory that projects are guaranteed, lent, and reclaimed.
//!
//! `pools` (guarantees of projects), `core_pool` and `memory_pool` (use, loans), `reclaim` and `reclaim_memory`
//! (taking back), `holding` (figures for reports).

pub(crate) mod core_pool;
pub(crate) mod holding;
pub(crate) mod memory_pool;
pub(crate) mod pools;
pub(crate) mod reclaim;
pub(crate) mod reclaim_memory;
