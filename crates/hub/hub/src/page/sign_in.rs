//! Signing in by a one-time link, and out. Opening the link shows a button; only the button uses the link up, so that a
//! program that previews links does not.

use std::sync::Arc;

use axum::Form;
use axum::extract::{Query, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Redirect, Response};
use maud::{Markup, html};
use serde::Deserialize;

use super::{Asker, NoView, frame};
use crate::hub::{Counters, Hub};
use crate::secret;
use crate::server::auth::{self, SESSION_US};
use crate::server::problem::Problem;
use crate::store::now_us;

#[derive(Debug, Deserialize)]
pub(super) struct Code {
    #[serde(default)]
    code: String,
}

pub(super) async fn ask(State(hub): State<Arc<Hub>>, Query(link): Query<Code>) -> Markup {
    let view = html! {
        @if link.code.is_empty() {
            p { "A link signs you in, once, within ten minutes. On a host of this hub, where you log in and submit jobs, make one by:" }
            pre { "pinfold hub login" }
            p { "It shows your own jobs, and all that the host lets you see. It needs nothing else: the host's daemon says who you are." }
            p { "If that host does not know the hub yet, name it first: " code { "pinfold hub use " (hub.origin) } "." }
            p { "Operators of the hub make a link on its own machine by " code { "pinfold-hub login --database URL" } "." }
        } @else {
            form method="post" action="/login" {
                input type="hidden" name="code" value=(link.code);
                button.large type="submit" { "Sign in" }
            }
        }
    };
    frame::bare("Sign in", view)
}

pub(super) async fn enter(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Form(form): Form<Code>,
) -> Result<Response, NoView> {
    auth::from_here(&hub, &asker.headers)?;
    let draw =
        || secret::draw().map_err(|error| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()));
    let (session, csrf) = (draw()?, draw()?);
    let hashes = secret::hash_of_secret(&form.code).zip(secret::hash_of_secret(&session));
    let name = match hashes {
        None => None,
        Some((code, session)) => {
            let now_us = now_us();
            let expires_us = now_us.saturating_add(SESSION_US);
            hub.ask(move |hub| hub.store.sign_in(&code, &session, &csrf, expires_us, now_us)).await??
        }
    };
    if name.is_none() {
        Counters::count(&hub.counters.denied);
        let words = "This link was used, or is older than ten minutes: have a new one made.";
        return Err(Problem::new(StatusCode::FORBIDDEN, words).into());
    }
    let cookie = cookie(hub.secure, &session, SESSION_US / 1_000_000)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/")).into_response())
}

fn cookie(secure: bool, value: &str, age_s: u64) -> Result<HeaderValue, Problem> {
    let name = auth::cookie_name(secure);
    let secure = if secure { "; Secure" } else { "" };
    let text = format!("{name}={value}; Path=/; HttpOnly; SameSite=Strict; Max-Age={age_s}{secure}");
    HeaderValue::try_from(text).map_err(|_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "no cookie"))
}

/// The fields of the form.
#[derive(Debug, Deserialize)]
pub(super) struct Leave {
    csrf: String,
}

pub(super) async fn leave(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Form(form): Form<Leave>,
) -> Result<Response, NoView> {
    auth::from_here(&hub, &asker.headers)?;
    let (session, hash) = auth::session(&hub, &asker.headers).await?.ok_or(NoView::Stranger)?;
    auth::check_csrf(&hub, &session, &form.csrf)?;
    hub.ask(move |hub| hub.store.sign_out(&hash, &session.name, now_us())).await??;
    let cookie = cookie(hub.secure, "", 0)?;
    Ok(([(header::SET_COOKIE, cookie)], Redirect::to("/login")).into_response())
}
