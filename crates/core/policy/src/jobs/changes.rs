//! Every change of a job, by name: other rooms read jobs and call these. The compiler holds it, for only this room gets a job
//! that can be changed. Absent: when a change is made, and what follows for slots, cores, queue and memory.

mod memory;
mod queue;
mod run;

pub(crate) use queue::Fired;
pub(crate) use run::{Grace, Slots, Wanted};
