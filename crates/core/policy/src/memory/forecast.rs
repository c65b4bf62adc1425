//! What each job is expected to need (`estimate`, from runs of its class by `claims`), and what it is about to hold
//! (`growth`). Read only.

pub mod claims;
mod estimate;
mod growth;

pub(crate) use estimate::{
    claim_of, comes_to_hold, counts_for, floor_of, is_known, learned_of, memory_bucket, need_of, part_of,
};
pub(crate) use growth::{
    about_to_hold, about_to_take, ahead, ahead_within, grows_again, growth_of, is_throttling, is_young,
    left_to_grow, may_grow, soon,
};
