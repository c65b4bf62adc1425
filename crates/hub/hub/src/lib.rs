//! The hub: what many hosts' jobs used, in one store and on one page.
//!
//! Reading order: [`store`] (what is kept), [`secret`] (tokens, codes), [`hub`] (the store, and how hosts are now),
//! [`clock`] (whether its clock may be believed), [`map`] (their cores), [`server`] (HTTP: hosts push, programs ask),
//! [`page`] (what people see), [`advice`] (what to ask for), [`learning`] (what hosts are told of each other's classes), [`metrics`] (what a
//! monitoring system reads), [`settings`] (the configuration file), [`demo`] (simulated hosts). Absent here: any decision about jobs,
//! and any word to a host beyond the answer to its own question.

mod advice;
pub mod clock;
pub mod demo;
pub mod drift;
pub mod hub;
pub mod learning;
pub mod map;
pub mod metrics;
pub mod page;
pub mod secret;
pub mod server;
pub mod settings;
pub mod store;
pub mod weekly;
pub mod workflow;
