//! What is true of memory now: whether jobs fit by capacity and rate (`capacity`), whether all can still end one after the
//! other (`safety`), and by these whether one may start (`admission`, `overcommit`) or resume (`fit`). Read only.

mod admission;
mod capacity;
mod fit;
mod overcommit;
mod safety;

pub(crate) use admission::{Deficit, claims_lack, has_memory_room, lacks_memory, memory_is_tight};
pub(crate) use capacity::{
    cold_tolerant, free_memory, is_governed, lacking_at_once, may_give, movable, overrun, page_out_rate,
    shortage, shortage_if_they_grow_by, shortage_within, shortage_without_bound, swap_rate,
};
pub(crate) use fit::{may_resume, need_to_resume};
pub(crate) use overcommit::{may_claim, may_overcommit, room_for};
pub(crate) use safety::{beyond_safety, is_safe_first};
