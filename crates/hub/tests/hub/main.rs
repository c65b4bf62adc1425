//! The hub from outside: over HTTP, over kills, as a program.
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod common;
mod hostile;
mod http;
mod kills;
mod program;
mod roles;
