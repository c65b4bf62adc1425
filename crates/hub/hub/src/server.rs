//! HTTP: connections, their time limits, and routes.
//!
//! Every request has a bound: connections in all and by address, the time for a head and for a body, the time in which
//! an answer must be read, the size of all of them and of the memory held for them. Reading order: [`mod@listen`] over
//! `places`, [`auth`] (with [`takers`]), [`api`], [`mod@why`], [`turns`] and [`arrivals`] (concurrency), [`answers`].
//! Absent here: pages.
//!
//! Authentication: `vouched`, `proxied`, `seen`. Programs' queries: `sums`, `openapi`; refusals: `problem`; `shares`
//! divides scarce resources.

pub mod answers;
pub mod api;
pub mod arrivals;
pub mod auth;
pub mod listen;
pub mod openapi;
mod places;
pub mod problem;
pub mod proxied;
pub mod seen;
pub mod shares;
pub mod sums;
pub mod takers;
pub mod turns;
pub mod vouched;
pub mod why;

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderValue, header};
use axum::middleware::{self, Next};
use axum::response::Response;

use crate::hub::{Counters, Hub};
use crate::page;

/// Routes of the whole hub.
pub fn routes(hub: &Arc<Hub>) -> Router {
    Router::new()
        .merge(openapi::routes())
        .merge(page::routes())
        .fallback(problem::not_found)
        .layer(middleware::from_fn_with_state(Arc::clone(&hub.answers), answers::held))
        .layer(middleware::from_fn_with_state(Arc::clone(hub), headers))
        .with_state(Arc::clone(hub))
}

/// Headers of every answer for browsers: no external resources, no scripts, no frames, no cache. No answer is readable
/// by pages of other origins.
async fn headers(State(hub): State<Arc<Hub>>, request: Request, next: Next) -> Response {
    const POLICY: &str = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; \
                          frame-ancestors 'none'";
    Counters::count(&hub.counters.requests);
    let mut response = next.run(request).await;
    let headers = response.headers_mut();
    let fixed = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        // With `no-referrer` browsers send a null origin even with the hub's own forms.
        (header::REFERRER_POLICY, "same-origin"),
    ];
    for (name, value) in fixed {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.insert("cross-origin-resource-policy", HeaderValue::from_static("same-origin"));
    if hub.secure {
        headers.insert(header::STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    response
}
