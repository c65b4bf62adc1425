//! Which cores jobs have: the grid, the running set, reservations, and every rule about where jobs run.
//!
//! State: `grid` (cores and homes), `host` (cores and their users), `running` (the running set), `reservation`,
//! `slots`.
//! Which core: `assign` and `choice`; `binding` and `borders` (PUs a job may use), `pick` (class on a core),
//! `sets`.
//! Moves: `rebalance` (best-effort jobs), `repack` (for a wider job), `change` (PUs come and go), `resize`
//! (slots), `shape` and `trials` (compact or spread).
//! Best effort beside primaries: `headroom`, `interference` with `waits`, `fair_tail` with `evenness`,
//! `isolation`.
//! Load of processes that are no jobs: `load`, `others`, `idleness`.

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
