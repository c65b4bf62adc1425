//! Authentication: hosts and readers by token, users by a host's voucher, people by session. Hosts write their own
//! rows; the others read within their access. Absent here: vouchers ([`super::vouched`]).

use std::sync::Arc;

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};

use super::problem::Problem;
use super::takers::{self, Taker};
use super::vouched;
use crate::hub::{Counters, Hub};
use crate::secret;
use crate::store::{Access, Holder, Kind, Session, now_us};

/// Lifetime of a session, in microseconds: half a day.
pub const SESSION_US: u64 = 12 * 3_600 * 1_000_000;

/// Lifetime of a one-time link, in microseconds: ten minutes.
pub const CODE_US: u64 = 600 * 1_000_000;

/// The viewer: the holder of a reader's token, or a user vouched for by a host.
#[derive(Debug, Clone)]
pub struct Viewer {
    /// The reader's name, or `USER@HOST`.
    pub name: String,
    /// The token behind it, as in [`crate::store::LinkFor`].
    pub via: String,
    /// `reader` or `user`.
    pub kind: &'static str,
    /// The viewer's access.
    pub access: Access,
}

impl FromRequestParts<Arc<Hub>> for Viewer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, hub: &Arc<Hub>) -> Result<Self, Problem> {
        if let Some(sent) = vouched::sent(&parts.headers) {
            let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
            let viewer = vouched::viewer(hub, sent, &format!("{} {path}", parts.method)).await?;
            let host = viewer.via.strip_prefix("host ").unwrap_or_default();
            takers::is(Taker::user(&viewer.name, host, viewer.access.is_all()));
            return Ok(viewer);
        }
        let reader = holder(hub, &parts.headers, Kind::Reader).await?;
        let via = format!("{} {}", Kind::Reader.word(), reader.name);
        Ok(Self { name: reader.name, via, kind: Kind::Reader.word(), access: Access::All })
    }
}

/// The holder of the token in the headers.
///
/// # Errors
/// When the token is absent, invalid, or of another kind.
pub async fn holder(hub: &Arc<Hub>, headers: &HeaderMap, kind: Kind) -> Result<Holder, Problem> {
    let holder = any_holder(hub, headers).await?;
    if holder.kind != kind {
        Counters::count(&hub.counters.denied);
        let words = match kind {
            Kind::Host => "this is a reader's token: a host pushes with its own",
            Kind::Reader => {
                "this is a host's token, which may only push: pinfold-hub token --reader NAME makes one to read"
            }
        };
        return Err(Problem::new(StatusCode::FORBIDDEN, words));
    }
    Ok(holder)
}

/// The holder of the token in the headers, of either kind. Marks the request as the holder's.
///
/// # Errors
/// When the token is absent or invalid.
pub async fn any_holder(hub: &Arc<Hub>, headers: &HeaderMap) -> Result<Holder, Problem> {
    let denied = || {
        Counters::count(&hub.counters.denied);
        Problem::new(StatusCode::UNAUTHORIZED, "the token is missing, unknown or revoked")
    };
    let text = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    let token = text.and_then(|text| text.strip_prefix("Bearer ")).ok_or_else(denied)?;
    let hash = secret::hash_of_token(token).ok_or_else(denied)?;
    let holder = hub.look_up(move |hub| hub.store.holder(&hash)).await??.ok_or_else(denied)?;
    takers::is(Taker::holder(&holder));
    Ok(holder)
}

/// The name of the cookie. With TLS, browsers accept a cookie of this name over TLS alone.
#[must_use]
pub fn cookie_name(secure: bool) -> &'static str {
    if secure { "__Host-pinfold-hub" } else { "pinfold-hub" }
}

/// The session in the headers, and its hash; `None`: no session. Marks the request as the person's.
///
/// # Errors
/// When the store refuses.
pub async fn session(hub: &Arc<Hub>, headers: &HeaderMap) -> Result<Option<(Session, [u8; 32])>, Problem> {
    let Some(hash) = cookie(headers, cookie_name(hub.secure)).and_then(secret::hash_of_secret) else {
        return Ok(None);
    };
    let session = hub.look_up(move |hub| hub.store.session(&hash, now_us())).await??;
    session.iter().for_each(|session| takers::is(Taker::session(session)));
    Ok(session.map(|session| (session, hash)))
}

/// The holder of a reader's token as a session, so that programs read tables by it. The session changes nothing: no client
/// knows the secret of its forms.
///
/// # Errors
/// When the token is not valid or not a reader's, or the kernel gives no secret.
pub async fn reader(hub: &Arc<Hub>, headers: &HeaderMap) -> Result<Session, Problem> {
    let Holder { name, .. } = holder(hub, headers, Kind::Reader).await?;
    let drawn = secret::draw();
    let csrf = drawn.map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let via = format!("{} {name}", Kind::Reader.word());
    Ok(Session { name, via, csrf, access: Access::All, by_proxy: false })
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs = all.flat_map(|text| text.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
}

/// Checks by the browser's headers that a form comes from the origin it is sent to, by whatever name people reach the
/// hub. A browser without these headers is trusted, for the form's own secret is checked too.
///
/// # Errors
/// When the form comes from elsewhere.
pub fn from_here(hub: &Hub, headers: &HeaderMap) -> Result<(), Problem> {
    let said = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or("?"));
    let site = said("sec-fetch-site").is_none_or(|site| matches!(site, "same-origin" | "none"));
    let host = said("host");
    let own = |origin: &str| {
        origin == hub.origin || origin.split_once("://").is_some_and(|(_, name)| Some(name) == host)
    };
    if site && said("origin").is_none_or(own) {
        return Ok(());
    }
    Counters::count(&hub.counters.denied);
    Err(Problem::new(StatusCode::FORBIDDEN, "this form was not sent by a page of this hub"))
}

/// Checks that a form has the session's own secret.
///
/// # Errors
/// When the form lacks the secret.
pub fn check_csrf(hub: &Hub, session: &Session, csrf: &str) -> Result<(), Problem> {
    if secret::same(csrf, &session.csrf) {
        return Ok(());
    }
    Counters::count(&hub.counters.denied);
    Err(Problem::new(StatusCode::FORBIDDEN, "this form is out of date: load the page again"))
}
