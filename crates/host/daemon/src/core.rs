//! What every room may use and none owns: what can happen, what is to be done, the clock, and what the loop waits for.
//!
//! Absent here: jobs, clients, and anything that is decided.
//!
//! The loop's vocabulary: `event`, `outbox`, `ctx`, `poller`, `clock`, `turns` (its watchdog), `reports` (of
//! threads), `words`, `error`.
//! The program: `options`, `manual`, `log`, `notify`, `service`, `durable` (flushes), `crash` (points for tests).
//! The host: `process`, `share`.

pub(crate) mod clock;
pub(crate) mod crash;
pub(crate) mod ctx;
pub(crate) mod durable;
pub(crate) mod error;
pub(crate) mod event;
pub(crate) mod log;
pub(crate) mod manual;
pub(crate) mod notify;
pub(crate) mod options;
pub(crate) mod outbox;
pub(crate) mod poller;
pub(crate) mod process;
pub(crate) mod reports;
pub(crate) mod service;
pub(crate) mod share;
pub(crate) mod turns;
pub(crate) mod words;

pub(crate) use ctx::Ctx;
pub(crate) use error::{Refusal, denied, in_full, store_failed, usage};
pub(crate) use event::{ConnectionId, Effect, Event};
pub(crate) use outbox::{Next, Outbox};
pub(crate) use process::{is_alive, may_live};
