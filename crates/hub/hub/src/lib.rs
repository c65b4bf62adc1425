//! The hub: usage of many hosts' jobs, in one store and on one page.
//!
//! Reading order: [`store`] (the database), [`secret`] (tokens, codes), [`hub`] (the store, and the hosts' status),
//! [`clock`] (trust in its clock), [`map`] (hosts' cores), [`server`] (HTTP: hosts push, programs query), [`page`]
//! (views for people), [`advice`] (advised requests), [`learning`] (a table of classes for hosts), [`metrics`] (for
//! monitoring systems), [`settings`] (the configuration file), [`demo`] (simulated hosts). Absent here: decisions about
//! jobs, and messages to a host beyond answers to its requests.

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
