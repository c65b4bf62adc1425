//! Fakes for tests, never for the product.
//!
//! [`fake`] is a tree of control groups in plain directories, with a stand-in for the kernel that is as strict as
//! the real one. [`executable`] writes a program that can be executed at once. Absent here: assertions, and anything that a released binary links.

pub mod fake;
mod script;

pub use script::executable;
