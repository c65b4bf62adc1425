//! The pass: what follows from an event for jobs, slots and the queue.
//!
//! The pass: `pass` (rules in order), `fill` (free slots), `plan` (how a job gets a slot), `start`, `end`,
//! `promote`, `hold_back`, `gives_way`, `lend`, `resize`, `reservations`, `nodes`, `token`, `transition`.
//! Events: `submit`, `enqueue`, `commands`, `reprioritize`, `configure`, `machine`, `sample`, `readings` with
//! `relieve` (memory), `due` (time), `failed`, `adopt`.

pub(crate) mod adopt;
pub(crate) mod commands;
pub(crate) mod configure;
pub(crate) mod due;
pub(crate) mod end;
pub(crate) mod enqueue;
pub(crate) mod failed;
pub(crate) mod fill;
pub(crate) mod gives_way;
pub(crate) mod hold_back;
pub(crate) mod lend;
pub(crate) mod machine;
pub(crate) mod nodes;
pub(crate) mod pass;
pub(crate) mod plan;
pub(crate) mod promote;
pub(crate) mod readings;
pub(crate) mod relieve;
pub(crate) mod reprioritize;
pub(crate) mod reservations;
pub(crate) mod resize;
pub(crate) mod sample;
pub(crate) mod start;
pub(crate) mod submit;
pub(crate) mod token;
pub(crate) mod transition;
