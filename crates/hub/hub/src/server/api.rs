//! The interface for hosts and programs. Hosts write their own rows and read nothing; readers and users read within
//! their access, and write nothing.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::{Body, to_bytes};
use axum::extract::{FromRequestParts as _, Query, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::Response;
use pinfold_hubwire::bundle::{self, HostReport, LiveReceipt, PACKED_MAX_BYTES, Receipt, SpoolFigures};
use pinfold_proto::view::StatusView;
use pinfold_proto::voucher::{self, Voucher};
use pinfold_topo::Topology;
use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value, json};

use super::arrivals::Arriving;
use super::auth::{self, Viewer};
use super::problem::Problem;
use super::vouched;
use crate::hub::{Counters, HostNow, Hub};
use crate::learning::{self, LearningError};
use crate::map;
use crate::secret;
use crate::store::{
    Access, Holder, Kind, LinkFor, Prepared, ReportQuery, Reported, Store, StoreError, now_us,
};

/// Time limit of a body.
const BODY_MAX: Duration = Duration::from_secs(60);

/// The most reports in an answer, without and with series.
const REPORTS_MAX: u32 = 10_000;
const WITH_SERIES_MAX: u32 = 100;

/// A host's message up to a bound, with its room until it is dropped. A message announced as longer is not read at all,
/// and a message that turns out longer is read no further than the bound.
async fn body(
    hub: &Arc<Hub>,
    host: &str,
    headers: &HeaderMap,
    body: Body,
    max_bytes: usize,
) -> Result<(Vec<u8>, Arriving), Problem> {
    let too_long = || {
        let words = format!("the message is longer than {max_bytes} bytes");
        Problem::new(StatusCode::PAYLOAD_TOO_LARGE, words)
    };
    let announced =
        headers.get(header::CONTENT_LENGTH).and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    if announced.is_some_and(|length| length > max_bytes) {
        return Err(too_long());
    }
    let room = hub.arrivals.room_for(host, announced.unwrap_or(max_bytes)).await?;
    match tokio::time::timeout(BODY_MAX, to_bytes(body, max_bytes)).await {
        Ok(Ok(bytes)) => Ok((bytes.into(), room)),
        Ok(Err(_)) => Err(too_long()),
        Err(_) => Err(Problem::new(StatusCode::REQUEST_TIMEOUT, "the message took longer than 60 s")),
    }
}

/// A host hands ended jobs over.
pub async fn bundles(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    sent: Body,
) -> Result<Json<Receipt>, Problem> {
    let host = auth::holder(&hub, &headers, Kind::Host).await?;
    let (packed, room) = body(&hub, &host.name, &headers, sent, PACKED_MAX_BYTES).await?;
    let bytes = packed.len() as u64;
    let read = move |hub: &Hub| {
        hub.clock().check()?;
        let bundle = bundle::read_bundle(&packed)?;
        Ok::<_, Problem>(Prepared::of(host.host, &bundle, now_us())?)
    };
    let taken = hub.take(room, read, |hub, prepared| Ok(hub.store.take(prepared)?));
    let counters = &hub.counters;
    match taken.await? {
        Ok(receipt) => {
            Counters::count(&counters.bundles);
            Counters::add(&counters.bundle_bytes, bytes);
            Counters::add(&counters.parts_new, receipt.new);
            Counters::add(&counters.parts_known, receipt.known);
            Ok(Json(receipt))
        }
        Err(problem) => {
            Counters::count(&counters.refused);
            tracing::warn!(host = host.name, status = %problem.status, why = problem.words, "a bundle is refused");
            Err(problem)
        }
    }
}

/// Stored parts of a host's status.
struct Heard {
    /// The core layout, if sent.
    topology: Option<Box<Topology>>,
    /// The status, also packed as sent, if the store is due for it.
    state: Option<(Arc<bundle::Live>, Vec<u8>)>,
}

/// Receives a host's status.
pub async fn live(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    sent: Body,
) -> Result<Json<LiveReceipt>, Problem> {
    let host = auth::holder(&hub, &headers, Kind::Host).await?;
    let (packed, room) = body(&hub, &host.name, &headers, sent, PACKED_MAX_BYTES).await?;
    let heard_us = now_us();
    let Holder { host, name, .. } = host;
    let read = move |hub: &Hub| {
        let mut live = bundle::read_live(&packed)?;
        // The token names the host, not the status.
        live.status.host = name;
        // A host sends its layout once: the store has it for other hubs, and after a restart.
        let topology = live.topology.take();
        let live = Arc::new(live);
        let due = hub.hear(host, Arc::clone(&live), heard_us);
        // A doubted clock would date the last change, which later confirms that clock.
        let keeps = due && hub.clock().check().is_ok();
        Ok::<_, Problem>(Heard { topology, state: keeps.then_some((live, packed)) })
    };
    let keep = move |hub: &Hub, heard: Heard| {
        if let Some(topology) = heard.topology {
            hub.store.set_topology(host, &topology)?;
        }
        if let Some((live, packed)) = heard.state {
            hub.store.keep_live(host, &live, packed, heard_us)?;
        }
        Ok::<_, StoreError>(())
    };
    let write = move |hub: &Hub, heard: Heard| match keep(hub, heard) {
        // The hub has heard the host all the same: a full disk does not make a host away.
        Ok(()) | Err(StoreError::Full) => Ok(hub.generation()),
        Err(error) => Err(Problem::from(error)),
    };
    let generation = hub.take(room, read, write).await??;
    Counters::count(&hub.counters.lives);
    Ok(Json(LiveReceipt { version: 1, generation, wanted: hub.wanted(host, None) }))
}

/// The longest voucher, in bytes.
const VOUCHER_MAX_BYTES: usize = 16 * 1_024;

/// Sets the key for a host's vouchers. A voucher of the host's operator shows that the host has the key.
pub async fn key(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    sent: Body,
) -> Result<Json<Value>, Problem> {
    let host = auth::holder(&hub, &headers, Kind::Host).await?;
    let (sent, _room) = body(&hub, &host.name, &headers, sent, VOUCHER_MAX_BYTES).await?;
    let voucher: Option<Voucher> = serde_json::from_slice(&sent).ok();
    let voucher = voucher.ok_or_else(|| Problem::wrong("that is no voucher"))?;
    let (statement, key) = vouched::verified(&hub, &voucher, voucher::JOIN)?;
    if !statement.operator {
        let words = "an operator of the host makes its key known";
        return Err(Problem::new(StatusCode::FORBIDDEN, words));
    }
    hub.ask(move |hub| hub.store.set_key(host.host, &key)).await??;
    Ok(Json(json!({ "version": 1 })))
}

/// The requester.
pub async fn me(State(hub): State<Arc<Hub>>, request: Request) -> Result<Json<Value>, Problem> {
    let (mut parts, _) = request.into_parts();
    if vouched::sent(&parts.headers).is_some() {
        let viewer = Viewer::from_request_parts(&mut parts, &hub).await?;
        let sees = viewer.access.words();
        return Ok(Json(json!({ "version": 1, "kind": viewer.kind, "name": viewer.name, "sees": sees })));
    }
    let holder = auth::any_holder(&hub, &parts.headers).await?;
    // A full database must not keep hosts from joining.
    let key = hub.ask(|hub| learning::public_key(&hub.store)).await?.ok();
    Ok(Json(json!({ "version": 1, "kind": holder.kind.word(), "name": holder.name, "key": key })))
}

fn learning_failed(error: LearningError) -> Problem {
    match error {
        LearningError::Store(error) => error.into(),
        error => Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// The number to exceed.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Above {
    #[serde(default)]
    above: u64,
}

/// The signed table of classes' memory on trusted hosts; null: the hub makes no table, the host has the table, or the
/// hub does not trust the host.
pub async fn learned(
    State(hub): State<Arc<Hub>>,
    headers: HeaderMap,
    Query(asked): Query<Above>,
) -> Result<Response, Problem> {
    let host = auth::holder(&hub, &headers, Kind::Host).await?;
    let answer = |signed| json!({ "version": 1, "signed": signed });
    let table = move |hub: &Hub| learning::current(hub, &host.name, asked.above);
    hub.answer(move |hub| table(hub).map(answer).map_err(learning_failed)).await
}

/// A host in [`hosts`].
#[derive(Debug, Serialize, Deserialize)]
pub struct HostView {
    /// Name of the host.
    pub host: String,
    /// Whether the host is connected now.
    pub here: bool,
    /// Time of the last message, in Unix seconds.
    pub seen_s: Option<f64>,
    /// Lead of the host's clock over the hub's, in seconds; negative: lag.
    pub clock_ahead_s: Option<f64>,
    /// The host's waiting spool.
    pub spool: Option<SpoolFigures>,
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of 285 years are exact")]
fn view(host: &HostNow) -> HostView {
    HostView {
        host: host.name.clone(),
        here: host.here,
        seen_s: host.seen_us.map(pinfold_proto::view::seconds),
        clock_ahead_s: host.clock_ahead_us.map(|ahead_us| ahead_us as f64 / 1e6),
        spool: host.live.as_ref().map(|live| live.spool),
    }
}

/// Answers all hosts.
pub async fn hosts(State(hub): State<Arc<Hub>>, _: Viewer) -> Result<Response, Problem> {
    let answer = |hub: &Hub| {
        let views: Vec<HostView> = hub.hosts()?.iter().map(view).collect();
        Ok(json!({ "version": 1, "hosts": views }))
    };
    hub.answer(answer).await
}

/// The host to show.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Which {
    host: Option<String>,
}

/// Hosts' statuses with the jobs that the viewer may see, as on each host, and the age of each status.
pub async fn status(
    State(hub): State<Arc<Hub>>,
    viewer: Viewer,
    Query(which): Query<Which>,
) -> Result<Response, Problem> {
    hub.answer(move |hub| {
        let hosts = match &which.host {
            Some(name) => vec![host_of(hub, name)?],
            None => hub.hosts()?,
        };
        Ok(Statuses { hosts, access: viewer.access })
    })
    .await
}

/// The statuses of hosts, serialized in turn: all together may exceed an answer.
struct Statuses {
    hosts: Vec<HostNow>,
    access: Access,
}

impl Serialize for Statuses {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        struct Each<'a>(&'a Statuses);
        impl Serialize for Each<'_> {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[derive(Serialize)]
                struct One {
                    of: HostView,
                    status: Option<StatusView>,
                }
                let one = |host: &HostNow| One { of: view(host), status: host.seen_by(&self.0.access) };
                serializer.collect_seq(self.0.hosts.iter().map(one))
            }
        }
        let mut all = serializer.serialize_struct("Statuses", 2)?;
        all.serialize_field("version", &1)?;
        all.serialize_field("hosts", &Each(self))?;
        all.end()
    }
}

/// The host to show, which is required.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OneHost {
    host: String,
}

/// The use of a host's cores, within the viewer's access, and the cores' layout.
pub async fn map(
    State(hub): State<Arc<Hub>>,
    viewer: Viewer,
    Query(which): Query<OneHost>,
) -> Result<Response, Problem> {
    hub.answer(move |hub| {
        let host = host_of(hub, &which.host)?;
        let (map, topology) = (map::seen_by(&host, &viewer.access), hub.store.topology(host.id)?);
        Ok(json!({ "version": 1, "of": view(&host), "map": map, "topology": topology }))
    })
    .await
}

pub(super) fn host_of(hub: &Hub, name: &str) -> Result<HostNow, Problem> {
    hub.host(name)?.ok_or_else(|| no_host(name))
}

fn no_host(name: &str) -> Problem {
    Problem::new(StatusCode::NOT_FOUND, format!("no host {name} is known here; /api/v1/hosts lists them"))
}

/// The reports to return.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reports {
    host: Option<String>,
    job: Option<u64>,
    since_us: Option<u64>,
    last: Option<u32>,
    #[serde(default)]
    series: bool,
}

/// Reports of ended jobs, oldest first.
pub async fn reports(
    State(hub): State<Arc<Hub>>,
    viewer: Viewer,
    Query(asked): Query<Reports>,
) -> Result<Response, Problem> {
    let most = if asked.series { WITH_SERIES_MAX } else { REPORTS_MAX };
    if asked.last.is_some_and(|last| last > most) {
        return Err(Problem::wrong(format!(
            "at most {most} jobs at once, with series at most {WITH_SERIES_MAX}"
        )));
    }
    let limit = asked.last.unwrap_or(most);
    let name = asked.host.clone();
    let query = ReportQuery {
        access: viewer.access,
        host: asked.host,
        job: asked.job,
        since_us: asked.since_us,
        limit,
        series: asked.series,
    };
    hub.answer(move |hub| {
        let answered = hub.store.reports(&query)?;
        if let Some(name) = name.filter(|_| answered.reports.is_empty())
            && !hub.store.has_host(&name)?
        {
            return Err(no_host(&name));
        }
        let named = |reported: Reported| HostReport { host: reported.host, report: reported.head.report };
        let cut = answered.long || (asked.last.is_none() && answered.more);
        Ok(ReportsAnswer { version: 1, cut, reports: answered.reports.into_iter().map(named).collect() })
    })
    .await
}

#[derive(Debug, Serialize)]
struct ReportsAnswer {
    version: u32,
    cut: bool,
    reports: Vec<HostReport>,
}

/// Makes a one-time link to the page with the viewer's own access.
pub async fn login(State(hub): State<Arc<Hub>>, viewer: Viewer) -> Result<Json<Value>, Problem> {
    let link = hub.ask(move |hub| {
        let Viewer { name, via, access, .. } = &viewer;
        make_link(&hub.store, &hub.origin, LinkFor { name, via, access })
    });
    Ok(Json(json!({ "version": 1, "url": link.await?? })))
}

/// Makes a link for a single sign-in.
///
/// # Errors
/// When the store refuses, or the kernel gives no secret.
pub fn make_link(store: &Store, origin: &str, whose: LinkFor<'_>) -> Result<String, Problem> {
    let failed = |error: std::io::Error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string());
    let code = secret::draw().map_err(failed)?;
    let now_us = now_us();
    if let Some(hash) = secret::hash_of_secret(&code) {
        store.add_code(&hash, whose, now_us.saturating_add(auth::CODE_US), now_us)?;
    }
    Ok(format!("{origin}/login?code={code}"))
}
