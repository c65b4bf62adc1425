//! The frame around each view: head, navigation, and the user's name.

use maud::{DOCTYPE, Markup, html};

use crate::store::Session;

const VIEWS: [(&str, &str); 9] = [
    ("/", "Hosts"),
    ("/jobs", "Jobs"),
    ("/classes", "Classes"),
    ("/users", "Users"),
    ("/projects", "Projects"),
    ("/workflows", "Workflows"),
    ("/weekly", "Week"),
    ("/audit", "Audit"),
    ("/tokens", "Tokens"),
];

/// Views of operators alone.
const OF_OPERATORS: [&str; 2] = ["/audit", "/tokens"];

/// A view for a signed-in user. `refresh_s`: seconds between reloads.
pub(super) fn around(
    session: &Session,
    at: &str,
    title: &str,
    refresh_s: Option<u32>,
    view: Markup,
) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, refresh_s))
            body {
                a.skip href="#view" { "To the view" }
                header {
                    span.brand { "pinfold hub" }
                    nav aria-label="Views" {
                        @for (path, name) in VIEWS.into_iter().filter(|(path, _)| session.access.is_all() || !OF_OPERATORS.contains(path)) {
                            @if path == at { a href=(path) aria-current="page" { (name) } } @else { a href=(path) { (name) } }
                        }
                    }
                    (who(session))
                }
                main id="view" { h1 { (title) } (view) }
                footer { "Times are UTC, as each host's own clock has them. " (pinfold_profile::report::date_utc(now_s())) }
            }
        }
    }
}

/// The user's name and a sign-out, except for users of a proxy, which sign out there.
fn who(session: &Session) -> Markup {
    let name =
        html! { span title=(session.access.words()) { (pinfold_profile::report::plain(&session.name)) } };
    html! {
        @if session.by_proxy { div.who { (name) } } @else {
            form.who method="post" action="/logout" {
                input type="hidden" name="csrf" value=(session.csrf);
                (name)
                button type="submit" { "Sign out" }
            }
        }
    }
}

/// A view without a session.
pub(super) fn bare(title: &str, view: Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body { header { span.brand { "pinfold hub" } } main id="view" { h1 { (title) } (view) } }
        }
    }
}

fn head(title: &str, refresh_s: Option<u32>) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            @if let Some(seconds) = refresh_s { meta http-equiv="refresh" content=(seconds); }
            title { (title) " - pinfold hub" }
            link rel="icon" type="image/svg+xml" href="/icon.svg";
            link rel="stylesheet" href="/style.css";
        }
    }
}

fn now_s() -> f64 {
    pinfold_proto::view::seconds(crate::store::now_us())
}
