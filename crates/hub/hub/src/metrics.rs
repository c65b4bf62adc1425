//! The hub's own figures as OpenMetrics text, for a monitoring system that holds a reader's token. A bounded number of
//! series: some of the hub, a few of each host.

use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};

use crate::hub::{HostNow, Hub};
use crate::server::auth;
use crate::server::problem::Problem;
use crate::store::{Kind, now_us};

/// The most hosts with series of their own, the first by name.
const HOSTS_MAX: usize = 10_000;

/// `/metrics`.
///
/// # Errors
/// Without a reader's token, or when the store refuses.
pub async fn metrics(State(hub): State<Arc<Hub>>, headers: HeaderMap) -> Result<Response, Problem> {
    auth::holder(&hub, &headers, Kind::Reader).await?;
    let text = hub.ask(|hub| Ok::<_, Problem>(text(hub, &hub.hosts()?, hub.store.bytes()?))).await??;
    let form = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, form)], text).into_response())
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of 285 years are exact")]
fn text(hub: &Hub, hosts: &[HostNow], bytes: u64) -> String {
    let mut out = String::new();
    let counters = &hub.counters;
    let all: [(&str, &str, &AtomicU64); 9] = [
        ("pinfold_hub_bundles", "Bundles taken", &counters.bundles),
        ("pinfold_hub_bundle_bytes", "Bytes of bundles as they were sent", &counters.bundle_bytes),
        ("pinfold_hub_parts_new", "Parts of jobs that were new", &counters.parts_new),
        ("pinfold_hub_parts_known", "Parts of jobs that came again", &counters.parts_known),
        ("pinfold_hub_bundles_refused", "Bundles refused", &counters.refused),
        ("pinfold_hub_lives", "Times a host said how it is", &counters.lives),
        ("pinfold_hub_denied", "Requests without a valid token or session", &counters.denied),
        ("pinfold_hub_requests", "Requests", &counters.requests),
        ("pinfold_hub_turned_away", "Connections turned away", &counters.turned_away),
    ];
    for (name, help, counter) in all {
        let value = counter.load(Ordering::Relaxed);
        let _ = writeln!(out, "# TYPE {name} counter\n# HELP {name} {help}.\n{name}_total {value}");
    }
    gauge(&mut out, "pinfold_hub_database_bytes", "Size of the database", bytes);
    gauge(&mut out, "pinfold_hub_hosts", "Hosts that are known", hosts.len());
    gauge(
        &mut out,
        "pinfold_hub_hosts_here",
        "Hosts that are heard now",
        hosts.iter().filter(|host| host.here).count(),
    );
    let now_us = now_us();
    each(&mut out, hosts, ("pinfold_hub_host_age_seconds", "Since the host was heard last"), |host| {
        host.seen_us.map(|seen_us| pinfold_proto::view::seconds(now_us.saturating_sub(seen_us)))
    });
    each(&mut out, hosts, ("pinfold_hub_host_clock_ahead_seconds", "How far its clock is ahead"), |host| {
        host.clock_ahead_us.map(|ahead_us| ahead_us as f64 / 1e6)
    });
    each(&mut out, hosts, ("pinfold_hub_host_spool_bytes", "What waits in its spool"), |host| {
        host.live.as_ref().map(|live| live.spool.bytes as f64)
    });
    each(&mut out, hosts, ("pinfold_hub_host_jobs", "Its jobs that are not over"), |host| {
        host.live.as_ref().map(|live| live.status.jobs.len() as f64)
    });
    out.push_str("# EOF\n");
    out
}

fn gauge(out: &mut String, name: &str, help: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "# TYPE {name} gauge\n# HELP {name} {help}.\n{name} {value}");
}

/// Names of hosts are letters, digits, `.`, `-` and `_`: nothing in them needs escaping.
fn each(
    out: &mut String,
    hosts: &[HostNow],
    (name, help): (&str, &str),
    of: impl Fn(&HostNow) -> Option<f64>,
) {
    let _ = writeln!(out, "# TYPE {name} gauge\n# HELP {name} {help}.");
    for host in hosts.iter().take(HOSTS_MAX) {
        if let Some(value) = of(host) {
            let _ = writeln!(out, "{name}{{host=\"{}\"}} {value}", host.name);
        }
    }
}
