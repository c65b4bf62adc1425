//! The rules as transcripts: what happens, and what is decided in answer.

mod ahead;
mod arrays;
mod asides;
mod borders;
mod changes;
mod checkpoints;
mod cold;
mod commands;
mod conditions;
mod drift;
mod early;
mod even;
mod exclusive;
mod faults;
mod interference;
mod memory;
mod preemption;
mod projects;
mod protect;
mod queue_order;
mod repack;
mod restart;
mod script;
mod shapes;
mod slots;
mod token;
