//! One host: how it is, and its machine drawn with what is on each core, as `pinfold map` draws it.

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::map::{Map, svg, text};
use serde::Deserialize;

use super::hosts::{REFRESH_S, card};
use super::{Asker, NoView, filter, frame, nothing, person, picture};
use crate::hub::{HostNow, Hub};
use crate::map;
use crate::store::{Access, Session};

/// Characters of a line of the map in characters.
const COLUMNS: usize = 110;

/// A host and its map, as somebody sees it; without one, if the host tells none.
fn found(hub: &Hub, access: &Access, name: &str) -> Result<(HostNow, Option<Map>), NoView> {
    let host = hub.host(name)?;
    let host = host.ok_or_else(|| nothing("There is no host of that name."))?;
    let view = map::seen_by(&host, access);
    let topology = if view.is_some() { hub.store.topology(host.id)? } else { None };
    let map = topology.zip(view).map(|(topology, view)| Map::new(&topology, &view));
    Ok((host, map))
}

pub(super) async fn view(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Path(name): Path<String>,
) -> Result<Markup, NoView> {
    let session = person(&hub, &asker).await?;
    hub.ask(move |hub| {
        let (host, map) = found(hub, &session.access, &name)?;
        Ok(page(&host, map.as_ref(), &session))
    })
    .await?
}

fn page(host: &HostNow, map: Option<&Map>, session: &Session) -> Markup {
    let view = html! {
        div.cards.one { (card(host, &session.access)) }
        h2 { "Cores" }
        @match map {
            Some(map) => {
                (of_cores(&host.name, &map.summary(), false))
                details { summary { "In characters" } pre { (characters(map)) } }
            },
            None => p { "This host tells nothing of its cores." },
        }
    };
    frame::around(session, "/", &host.name, Some(REFRESH_S), view)
}

/// The picture of a host's machine, with its words; a small one has the cores alone.
pub(super) fn of_cores(name: &str, words: &str, small: bool) -> Markup {
    let source = |dark: bool| format!("/hosts/{}/map.svg?small={small}&dark={dark}", filter::encoded(name));
    html! {
        picture {
            source media="(prefers-color-scheme: dark)" srcset=(source(true));
            img.machine src=(source(false)) alt=(words) loading="lazy";
        }
    }
}

fn characters(map: &Map) -> String {
    let mut out = Vec::new();
    // Into memory, which does not fail.
    let _ = text::write(map, COLUMNS, false, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

/// How the picture is wanted.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Look {
    #[serde(default)]
    dark: bool,
    #[serde(default)]
    small: bool,
}

pub(super) async fn drawn(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Path(name): Path<String>,
    Query(look): Query<Look>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let drawn = hub.ask(move |hub| {
        let (_, map) = found(hub, &session.access, &name)?;
        let map = map.ok_or_else(|| nothing("This host tells nothing of its cores."))?;
        let picture = if look.small { svg::draw_cores(&map) } else { svg::draw(&map) };
        Ok::<_, NoView>(if look.dark { picture.darkened() } else { picture })
    });
    Ok(picture::answer(drawn.await??.text))
}
