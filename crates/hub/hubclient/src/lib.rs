//! A hub over HTTP and TLS. A crate and a program of their own, so that `pinfold`, which is started for each job, carries
//! neither: it asks through [`pinfold_hubwire::courier`]. Absent here: what is sent, and where tokens are kept.

mod client;

pub use client::{HubClient, TokenClient};
