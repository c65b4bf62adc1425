//! The hub from outside: over HTTP, over kills, as a program.
#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a panic is how a test fails, and it says what it is about"
)]

mod alone;
mod bounds;
mod clocks;
mod common;
mod copies;
mod drift;
mod grafana;
mod hostile;
mod http;
mod kills;
mod learned;
mod live;
mod openapi;
mod plans;
mod program;
mod proxied;
mod pusher;
mod roles;
mod server;
mod standby;
mod store;
mod tables;
mod tls;
mod wide;
