//! Fakes for tests, never for the product.
//!
//! [`fake`] is a tree of control groups in plain directories, with a stand-in for the kernel that is as strict as
//! the real one. [`executable`] writes a program that can be executed at once. [`free_port`] names a port for a program that
//! listens. [`lingers`] makes a socket whose last close waits. [`trial`] runs tests, and says which cannot run here. Absent here: assertions, and anything that a released binary links.

pub mod fake;
mod lingers;
mod port;
mod script;
pub mod trial;

pub use lingers::lingers;
pub use port::{free_address, free_port};
pub use script::executable;
