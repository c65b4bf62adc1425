//! Fakes for tests, never for the product.
//!
//! [`fake`] is a tree of control groups in plain directories, with a stand-in for the kernel that is as strict as
//! the real one. Absent here: assertions, and anything that a released binary links.

pub mod fake;
