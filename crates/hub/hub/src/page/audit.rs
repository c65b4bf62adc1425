//! The hub's audit, and its tokens.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::response::{Redirect, Response};
use maud::{Markup, html};
use pinfold_profile::report::plain;
use serde::Deserialize;

use super::figures::moment;
use super::list;
use super::table::{Form, Table};
use super::{Asker, NoView, frame, nothing, operator};
use crate::hub::Hub;
use crate::server::auth;
use crate::store::{AuditRow, OFFSET_MAX, Revoked, TABLE_MAX, TokenRow, now_us};

/// Audit rows on a page.
const PAGE: u32 = 100;

/// The page's number.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    #[serde(default)]
    page: u32,
}

fn when(us: u64) -> String {
    moment(i64::try_from(us).unwrap_or(0))
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Query(which): Query<Which>,
) -> Result<Markup, NoView> {
    let session = operator(&hub, &asker).await?;
    let offset = which.page.saturating_mul(PAGE).min(OFFSET_MAX);
    let acts = hub.ask(move |hub| hub.store.audit(PAGE, offset)).await??;
    let full = acts.len() == PAGE as usize && offset < OFFSET_MAX;
    let view = html! {
        p.lead { "What was done at this hub. What was done on a host that host's own audit tells." }
        (list::table("Acts", ">No.|When|Who|What|~Detail", acts.iter().map(|act| vec![
            html! { (act.id) }, html! { (when(act.time_us)) }, html! { (plain(&act.who)) }, html! { (plain(&act.action)) }, html! { (plain(&act.detail)) },
        ])))
        nav.pages aria-label="Pages" {
            @if which.page > 0 { a href=(format!("/audit?page={}", which.page - 1)) { "Later acts" } }
            @if full { a href=(format!("/audit?page={}", which.page + 1)) { "Earlier acts" } }
        }
        p { a href="/audit.csv" download { "All acts as CSV" } ", " a href="/audit.parquet" download { "as Parquet" } "." }
    };
    Ok(frame::around(&session, "/audit", "Audit", None, view))
}

pub(super) async fn table(State(hub): State<Arc<Hub>>, asker: Asker, form: Form) -> Result<Response, NoView> {
    operator(&hub, &asker).await?;
    hub.ask(move |hub| table_of(&hub.store.audit(TABLE_MAX, 0)?).answer("audit", form)).await?
}

fn table_of(acts: &[AuditRow]) -> Table {
    let mut table = Table::new(acts.len());
    table.whole("number", acts.iter().map(|act| Some(act.id)));
    table.moment("time", acts.iter().map(|act| i64::try_from(act.time_us).ok()));
    table.text("who", acts.iter().map(|act| Some(act.who.clone())));
    table.text("action", acts.iter().map(|act| Some(act.action.clone())));
    table.text("detail", acts.iter().map(|act| Some(act.detail.clone())));
    table
}

pub(super) async fn tokens(State(hub): State<Arc<Hub>>, asker: Asker) -> Result<Markup, NoView> {
    let session = operator(&hub, &asker).await?;
    let tokens = hub.ask(|hub| hub.store.tokens()).await??;
    let view = html! {
        p.lead { "A host's token pushes that host's jobs and nothing else; a reader's reads all of it. New ones are made at the hub: "
            code { "pinfold-hub token --host NAME" } " or " code { "--reader NAME" } "." }
        (list::table("Tokens", ">No.|For|=Name|Made|Revoked", tokens.iter().map(|token| token_row(token, &session.csrf))))
    };
    Ok(frame::around(&session, "/tokens", "Tokens", None, view))
}

fn token_row(token: &TokenRow, csrf: &str) -> Vec<Markup> {
    let revoked = html! {
        @match token.revoked_us {
            Some(revoked_us) => (when(revoked_us)),
            None => form method="post" action="/tokens" {
                input type="hidden" name="csrf" value=(csrf);
                input type="hidden" name="token" value=(token.id);
                button.danger type="submit" aria-label=(format!("Revoke token {} of {}", token.id, token.name)) { "Revoke" }
            },
        }
    };
    let (id, name, made) =
        (html! { (token.id) }, html! { (plain(&token.name)) }, html! { (when(token.made_us)) });
    vec![id, html! { (token.kind) }, name, made, revoked]
}

/// The fields of the form.
#[derive(Debug, Deserialize)]
pub(super) struct Revoke {
    csrf: String,
    token: i64,
}

pub(super) async fn revoke(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    axum::Form(form): axum::Form<Revoke>,
) -> Result<Redirect, NoView> {
    auth::from_here(&hub, &asker.headers)?;
    let session = operator(&hub, &asker).await?;
    auth::check_csrf(&hub, &session, &form.csrf)?;
    let revoked =
        hub.ask(move |hub| hub.store.revoke(Revoked::Number(form.token), &session.name, now_us())).await??;
    if revoked.is_empty() {
        return Err(nothing("There is no such token, or it was revoked before."));
    }
    Ok(Redirect::to("/tokens"))
}
