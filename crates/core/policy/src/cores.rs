//! Which cores jobs have: the grid, the running set, reservations, and every rule about where jobs run.

pub(crate) mod assign;
pub(crate) mod binding;
pub(crate) mod borders;
pub(crate) mod change;
pub(crate) mod choice;
pub(crate) mod evenness;
pub(crate) mod fair_tail;
pub(crate) mod grid;
pub(crate) mod headroom;
pub(crate) mod host;
pub(crate) mod idleness;
pub(crate) mod interference;
pub mod isolation;
pub(crate) mod load;
pub(crate) mod others;
pub(crate) mod pick;
pub(crate) mod rebalance;
pub(crate) mod repack;
pub(crate) mod reservation;
pub(crate) mod resize;
pub(crate) mod running;
pub(crate) mod sets;
pub(crate) mod shape;
pub(crate) mod slots;
pub(crate) mod trials;
pub(crate) mod waits;
