//! A host: its state, its last day, and its cores with the jobs on them, as `pinfold map` draws them.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::response::Response;
use maud::{Markup, html};
use pinfold_profile::map::{Map, svg};
use pinfold_profile::plot::{self, Bar, Gantt};
use pinfold_profile::report::{plain, size};
use pinfold_proto::host::{HostPoint, HostView};
use pinfold_proto::view::{VERSION, seconds};
use serde::Deserialize;

use super::cluster::Line;
use super::figures::{precise, whole, word};
use super::hosts::card;
use super::picture::Look as Size;
use super::{Asker, NoView, filter, frame, nothing, person, picture};
use crate::hub::{HostNow, Hub};
use crate::map;
use crate::store::minutes::reading;
use crate::store::{Access, DAY_US, JobQuery, JobRow, Session, now_us};

/// The most jobs listed.
const JOBS_SHOWN: usize = 200;

/// The most jobs of the last day drawn, the latest, and the most rows.
const BARS_MAX: u32 = 2_000;
const LANES_MAX: usize = 32;

/// A host and its map within the viewer's access; no map, if the host sends none.
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
    let day = format!("/hosts/{}/day.svg", filter::encoded(&host.name));
    let view = html! {
        div.cards.one { (card(&Line::of(host, &session.access), JOBS_SHOWN)) }
        h2 { "The last day" }
        (picture::chart(&day, &format!("Jobs of {} as bars, and its cores, memory and pressure over the last day", host.name)))
        h2 { "Cores" }
        @match map {
            Some(map) => {
                (of_cores(&host.name, &map.summary(), false))
            },
            None => p { "This host tells nothing of its cores." },
        }
    };
    frame::around(session, "/", &host.name, None, view)
}

/// The picture of a host's machine, with its text; a small picture shows the cores alone.
pub(super) fn of_cores(name: &str, words: &str, small: bool) -> Markup {
    let source = |dark: bool| format!("/hosts/{}/map.svg?small={small}&dark={dark}", filter::encoded(name));
    html! {
        picture {
            source media="(prefers-color-scheme: dark)" srcset=(source(true));
            img.machine src=(source(false)) alt=(words) loading="lazy";
        }
    }
}

/// The last day of a host.
pub(super) async fn day(
    State(hub): State<Arc<Hub>>,
    asker: Asker,
    Path(name): Path<String>,
    Query(size): Query<Size>,
) -> Result<Response, NoView> {
    let session = person(&hub, &asker).await?;
    let drawn = hub.ask(move |hub| {
        let (host, _) = found(hub, &session.access, &name)?;
        let now_us = now_us();
        let since_us = now_us.saturating_sub(DAY_US);
        // The axis is a whole day, however few readings there are.
        let mut samples = vec![reading(seconds(since_us), None, (0, 0), None)];
        samples.extend(hub.store.minutes(host.id, since_us)?);
        samples.push(reading(seconds(now_us), None, (0, 0), None));
        let query = JobQuery {
            access: session.access.clone(),
            host: Some(name),
            since_us: Some(since_us),
            limit: BARS_MAX,
            ..JobQuery::default()
        };
        let at = |job: &JobRow, key| whole(job, key).and_then(|us| u64::try_from(us).ok()).map(seconds);
        let bar = |from_s, to_s, name| Bar { from_s, to_s, name, colour: 0 };
        let over = hub.store.jobs(&query)?.jobs;
        let over = over
            .iter()
            .filter_map(|job| Some(bar(at(job, "started")?, at(job, "ended")?, word(job, "name"))));
        let living = host.seen_by(&session.access).map(|seen| seen.jobs).unwrap_or_default();
        let living =
            living.iter().filter_map(|job| Some(bar(job.started_s?, seconds(now_us), plain(&job.name))));
        let picture = of_day(&host, samples, over.chain(living).collect());
        Ok::<_, NoView>(picture::sized(size, (1_100, 640), (380, 640), |width, height| {
            picture.to_svg(width, height)
        }))
    });
    Ok(picture::answer(drawn.await??))
}

fn of_day(host: &HostNow, samples: Vec<HostPoint>, jobs: Vec<Bar>) -> Gantt {
    let zero_s = samples.first().map_or(0.0, |point| point.time_s);
    let status = host.live.as_ref().map(|live| &live.status);
    let (cores, budget) = status.map_or((0, 0), |status| (status.slots.cores, status.memory.budget_bytes));
    let view =
        HostView { version: VERSION, host: host.name.clone(), pus: cores, memory_bytes: budget, samples };
    let mut below = plot::host_chart(&view);
    let marks =
        [(precise(cores), format!("{cores} cores")), (precise(budget), format!("{} for jobs", size(budget)))];
    below.panels.iter_mut().zip(marks).for_each(|(panel, mark)| panel.marks = vec![mark]);
    Gantt { groups: vec![("jobs".to_owned(), lanes(jobs, zero_s))], below }
}

/// Bars of jobs, their times in Unix seconds, in as few rows as possible; jobs of the same name share a colour.
fn lanes(mut jobs: Vec<Bar>, zero_s: f64) -> Vec<Vec<Bar>> {
    jobs.sort_by(|one, other| one.from_s.total_cmp(&other.from_s));
    let names: BTreeSet<String> = jobs.iter().map(|job| job.name.clone()).collect();
    let mut lanes: Vec<Vec<Bar>> = Vec::new();
    for mut bar in jobs {
        (bar.from_s, bar.to_s) = ((bar.from_s - zero_s).max(0.0), bar.to_s - zero_s);
        bar.colour = names.range(..bar.name.clone()).count();
        let free = lanes.iter().position(|lane| lane.last().is_none_or(|last| last.to_s <= bar.from_s));
        match free {
            _ if bar.to_s <= bar.from_s => {}
            Some(at) => lanes[at].push(bar),
            None if lanes.len() < LANES_MAX => lanes.push(vec![bar]),
            None => {}
        }
    }
    lanes
}

/// The picture's options.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_of_jobs_that_overlap_are_in_rows_of_their_own() {
        let stay =
            |from_s: f64, to_s: f64, name: &str| Bar { from_s, to_s, name: name.to_owned(), colour: 0 };
        let stays = vec![
            stay(120.0, 130.0, "b"),
            stay(90.0, 110.0, "a"),
            stay(105.0, 140.0, "b"),
            stay(10.0, 20.0, "old"),
        ];
        let lanes = lanes(stays, 100.0);
        let told: Vec<Vec<(f64, f64, usize)>> = lanes
            .iter()
            .map(|lane| lane.iter().map(|bar| (bar.from_s, bar.to_s, bar.colour)).collect())
            .collect();
        assert_eq!(told, [vec![(0.0, 10.0, 0), (20.0, 30.0, 1)], vec![(5.0, 40.0, 1)]]);
    }
}
