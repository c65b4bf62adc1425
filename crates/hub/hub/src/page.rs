//! The page: rendered here, without scripts and external resources. User input is text in it, never markup: `maud`
//! escapes all values. Reading order: [`frame`] (around each view), [`filter`] (addresses of views), then a file a
//! view. Absent here: queries of the database.
//!
//! Views: `hosts`, `machine` (a single host), `jobs`, `job`, `compare`, `classes`, `drift`, `usage`, `weekly`,
//! `workflows`, `audit`, `sign_in`. Parts: `figures`, `picture`, `table`.

mod audit;
mod classes;
mod cluster;
mod compare;
mod drift;
mod figures;
mod filter;
mod frame;
mod hosts;
mod job;
mod jobs;
mod list;
mod machine;
mod picture;
mod sign_in;
mod table;
mod usage;
mod usual;
mod weekly;
mod workflows;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Request};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{MethodRouter, get};
use maud::Markup;

use crate::hub::{Counters, Hub};
use crate::server::auth;
use crate::server::problem::Problem;
use crate::server::proxied::{self, Asker};
use crate::store::Session;

/// All views.
pub(crate) fn routes() -> Router<Arc<Hub>> {
    let tables: [(&str, MethodRouter<Arc<Hub>>); 11] = [
        ("/jobs", get(jobs::table)),
        ("/jobs/{id}/series", get(job::table)),
        ("/compare", get(compare::table)),
        ("/classes", get(classes::table)),
        ("/classes/weeks", get(drift::table)),
        ("/users", get(usage::table)),
        ("/projects", get(usage::table)),
        ("/weekly", get(weekly::table)),
        ("/workflows", get(workflows::table)),
        ("/workflows/steps", get(workflows::steps)),
        ("/audit", get(audit::table)),
    ];
    let tables = tables.into_iter().fold(Router::new(), |all, (path, answer)| {
        all.route(&format!("{path}.csv"), answer.clone()).route(&format!("{path}.parquet"), answer)
    });
    tables
        .route("/", get(hosts::view))
        .route("/hosts/{name}", get(machine::view))
        .route("/hosts/{name}/map.svg", get(machine::drawn))
        .route("/hosts/{name}/day.svg", get(machine::day))
        .route("/hosts/{name}/jobs/{job}", get(job::live))
        .route("/hosts/{name}/jobs/{job}/chart.svg", get(job::live_chart))
        .route("/jobs", get(jobs::view))
        .route("/jobs/{id}", get(job::view))
        .route("/jobs/{id}/chart.svg", get(job::chart))
        .route("/compare", get(compare::view))
        .route("/compare.svg", get(compare::drawn))
        .route("/classes", get(classes::view))
        .route("/classes/weeks", get(drift::view))
        .route("/users", get(usage::view))
        .route("/projects", get(usage::view))
        .route("/weekly", get(weekly::view))
        .route("/workflows", get(workflows::view))
        .route("/workflows/run", get(workflows::run))
        .route("/audit", get(audit::view))
        .route("/tokens", get(audit::tokens).post(audit::revoke))
        .route("/login", get(sign_in::ask).post(sign_in::enter))
        .route("/logout", axum::routing::post(sign_in::leave))
        .route("/style.css", get(style))
        .route("/icon.svg", get(icon))
        .layer(DefaultBodyLimit::max(FORM_MAX_BYTES))
        .layer(axum::middleware::from_fn(in_time))
}

/// The longest form, in bytes.
const FORM_MAX_BYTES: usize = 16 * 1_024;

/// Time limit of a view, with its form and its turn.
const VIEW_MAX: Duration = Duration::from_secs(30);

/// Ends a request with an overdue form.
async fn in_time(request: Request, next: Next) -> Response {
    let timely = tokio::time::timeout(VIEW_MAX, next.run(request)).await;
    let late = || Problem::new(StatusCode::REQUEST_TIMEOUT, "that took longer than 30 s");
    timely.unwrap_or_else(|_| late().into_response())
}

/// The style sheet.
async fn style() -> Response {
    let headers =
        [(header::CONTENT_TYPE, "text/css; charset=utf-8"), (header::CACHE_CONTROL, "max-age=3600")];
    (headers, include_str!("page/style.css")).into_response()
}

/// The page's icon: a fold with a gate.
async fn icon() -> Response {
    const ICON: &str = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 16 16\"><rect width=\"16\" height=\"16\" \
                        rx=\"3\" fill=\"#1f5fa6\"/><path d=\"M3 4v8M6 4v8M10 4v8M13 4v8M2 6h12M2 10h12\" stroke=\"#fff\"/></svg>";
    let headers = [(header::CONTENT_TYPE, "image/svg+xml"), (header::CACHE_CONTROL, "max-age=3600")];
    (headers, ICON).into_response()
}

/// Why a view cannot be shown.
#[derive(Debug)]
pub(crate) enum NoView {
    /// The request has no session.
    Stranger,
    /// The form again, for it has an invalid value.
    Form(Markup),
    /// A failure.
    Problem(Problem),
}

impl<E: Into<Problem>> From<E> for NoView {
    fn from(error: E) -> Self {
        Self::Problem(error.into())
    }
}

impl IntoResponse for NoView {
    fn into_response(self) -> Response {
        match self {
            Self::Stranger => Redirect::to("/login").into_response(),
            Self::Form(page) => (StatusCode::BAD_REQUEST, page).into_response(),
            Self::Problem(problem) => {
                let page = frame::bare(
                    "That did not work",
                    maud::html! { p { (problem.words) } p { a href="/" { "Hosts" } } },
                );
                (problem.status, page).into_response()
            }
        }
    }
}

/// The session of the signed-in user.
async fn person(hub: &Arc<Hub>, asker: &Asker) -> Result<Session, NoView> {
    // The proxy's header is current; a session may belong to an earlier user of the browser.
    let session = match proxied::session(hub, asker).await? {
        Some(session) => Some(session),
        None => auth::session(hub, &asker.headers).await?.map(|(session, _)| session),
    };
    match session {
        None if asker.headers.contains_key(header::AUTHORIZATION) => {
            Ok(auth::reader(hub, &asker.headers).await?)
        }
        session => session.ok_or(NoView::Stranger),
    }
}

/// The session of an operator: other users must not see the hub's audit and tokens.
async fn operator(hub: &Arc<Hub>, asker: &Asker) -> Result<Session, NoView> {
    let session = person(hub, asker).await?;
    if session.access.is_all() {
        return Ok(session);
    }
    Counters::count(&hub.counters.denied);
    Err(NoView::Problem(Problem::new(StatusCode::FORBIDDEN, "This is for operators of the hub.")))
}

/// A missing view or table.
fn nothing(words: &str) -> NoView {
    NoView::Problem(Problem::new(StatusCode::NOT_FOUND, words))
}
