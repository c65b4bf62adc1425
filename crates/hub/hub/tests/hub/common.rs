//! What the tests of the hub share: a host whose store is made up, and a hub that serves in this process.
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use pinfold_hub::hub::Hub;
use pinfold_hub::secret;
use pinfold_hub::server::listen;
use pinfold_hub::server::proxied::Proxy;
use pinfold_hub::server::vouched::Trust;
use pinfold_hub::store::{Access, Kind, LinkFor, Store, now_us};
use pinfold_hubwire::bundle::{self, Act, Bundle, WIRE_VERSION};
use pinfold_hubwire::push::{Found, Machine, Numbers, Source, SourceError};
use pinfold_proto::view::{MapView, PointView, ReportView, StatusView};
use pinfold_topo::Topology;
use serde_json::json;

/// A report of a job that is over, with so many points.
pub(crate) fn report(job: u64, name: &str, points: u32) -> ReportView {
    let from = 1_790_000_000.0 + f64::from(u32::try_from(job).unwrap()) * 10.0;
    let value = json!({
        "version": 1, "job": job, "name": name, "command": [name, "-x"], "user": "ann", "project": null,
        "state": "exited", "class": "primary", "priority": 10, "cpus": null, "submitted_s": from,
        "started_s": from + 1.0, "ended_s": from + 61.0, "exit_code": 0, "signal": null, "reason": null,
        "queued_s": 1.0, "wall_s": 60.0, "suspended_s": 0.0, "cpu_user_s": 7.0, "cpu_system_s": 0.0, "cores": 2,
        "claim_bytes": 4u64 << 30, "memory_peak_bytes": 1u64 << 30, "memory_mean_bytes": 1u64 << 29,
        "cache_peak_bytes": null, "swap_peak_bytes": 0, "virtual_peak_bytes": 1u64 << 31, "io_read_bytes": 0,
        "io_write_bytes": 0, "processes_total": 1, "processes_peak": 1, "threads_peak": 1, "samples": points,
    });
    let mut report: ReportView = serde_json::from_value(value).unwrap();
    let point = |at: u32| PointView {
        time_s: from + f64::from(at),
        cpu_cores: 0.3,
        memory_bytes: 1 << 20,
        cache_bytes: None,
        swap_bytes: 0,
        io_read_bytes: 0,
        io_write_bytes: 0,
        processes: 1,
        threads: 1,
        state: pinfold_proto::JobState::Running,
    };
    report.series = Some((0..points).map(point).collect());
    report
}

/// A bundle of these jobs.
pub(crate) fn bundle_of(reports: Vec<ReportView>) -> Bundle {
    let parts = reports.into_iter().flat_map(|report| bundle::parts(report, Vec::new())).collect();
    Bundle { version: WIRE_VERSION, origin: "origin".into(), boot: "boot".into(), made_us: now_us(), parts }
}

/// A host whose jobs end when the test says so.
#[derive(Debug, Default)]
pub(crate) struct MadeUp {
    /// Jobs by number, and whether they are over.
    pub(crate) jobs: BTreeMap<u64, bool>,
    /// Points of each.
    pub(crate) points: u32,
    /// Jobs that are over and told in a status.
    pub(crate) told: usize,
    /// How its cores lie; `None`: it tells of none.
    pub(crate) machine: Option<Topology>,
    /// From this number on its jobs are others than before, which were asked for later.
    pub(crate) others: Option<u64>,
}

impl MadeUp {
    fn report(&self, job: u64, points: u32) -> ReportView {
        let mut report = report(job, "made-up", points);
        if self.others.is_some_and(|first| job >= first) {
            report.submitted_s += 100_000.0;
        }
        report
    }

    fn found(&self, job: u64) -> Found {
        Found { job, submitted_us: bundle::microseconds(self.report(job, 0).submitted_s) }
    }
}

fn status(jobs: serde_json::Value) -> StatusView {
    serde_json::from_value(json!({
        "version": 1, "host": "liar", "mode": "v2", "slots": { "cores": 4, "factor": 1.5, "total": 6, "used": 1 },
        "memory": { "budget_bytes": 8u64 << 30, "held_bytes": 1u64 << 30, "swap_held_bytes": 0, "pressure_full_avg10": null },
        "reading": null, "jobs": jobs,
    }))
    .unwrap()
}

/// A machine of eight cores in two sockets.
pub(crate) fn machine() -> Topology {
    pinfold_topo::synthetic::facts_of("pack:2 numa:1 core:4 pu:1").unwrap().assemble().unwrap()
}

/// Job 11 of ann on cores 0 and 1, 12 of bea on 2, 13 of cyn on 4 to 7; all three in a set of cores, with a GPU and a
/// node.
pub(crate) fn map() -> MapView {
    let set = |(job, user, cpus): (u64, &str, &str)| {
        json!({ "set": format!("job-{job}"), "cpus": cpus, "cores": 1, "shared": false, "job": job, "name": "s3cr3t",
            "user": user, "class": "primary", "state": "running", "pids": [] })
    };
    let sets = [(11, "ann", "0-1"), (12, "bea", "2"), (13, "cyn", "4-7")].map(set);
    let jobs = [11, 12, 13];
    serde_json::from_value(json!({
        "version": 1, "host": "liar", "cpus": "0-7", "sets": sets,
        "set_asides": [{ "set": "db", "cpus": "0-7", "usable_cpus": "0-7", "cores": 8, "memory_bytes": null,
            "kind": "static", "shared": false, "users": [], "owner": "root", "jobs": jobs, "made_s": 1.0, "expires_s": null }],
        "chunks": [{ "nodes": "0", "jobs": jobs, "claimed_bytes": 1, "usable_bytes": 2 }],
        "resources": [{ "resource": "gpu", "total": 1, "used": 1, "jobs": jobs, "devices": [{ "number": 0, "vendor": "amd",
            "model": null, "address": "0", "numa": null, "cpus": null, "used": true, "job": 13 }] }],
    }))
    .unwrap()
}

/// How a host without jobs is.
pub(crate) fn idle() -> StatusView {
    status(json!([]))
}

impl Source for MadeUp {
    fn origin(&mut self) -> Result<String, SourceError> {
        Ok("origin".into())
    }

    fn numbers(&mut self, seen: u64) -> Result<Numbers, SourceError> {
        let highest = self.jobs.keys().next_back().map(|job| self.found(*job)).unwrap_or_default();
        let seen_us = self.jobs.contains_key(&seen).then(|| self.found(seen).submitted_us);
        Ok(Numbers { highest, seen_us })
    }

    fn look(&mut self, _open: &BTreeSet<u64>) -> Result<StatusView, SourceError> {
        let over = self.jobs.iter().rev().filter(|(_, over)| **over).take(self.told);
        let living = self.jobs.iter().filter(|(_, over)| !**over);
        let view = |(job, over): (&u64, &bool)| {
            let report = self.report(*job, 0);
            json!({ "job": job, "name": "made-up", "user": "ann", "project": null,
                "state": if *over { "exited" } else { "running" }, "class": "primary", "priority": 10, "cpus": null,
                "memory_bytes": null, "swap_bytes": null, "pids": [], "submitted_s": report.submitted_s,
                "started_s": report.started_s, "ended_s": null, "exit_code": null, "signal": null, "reason": null })
        };
        Ok(status(over.chain(living).map(view).collect()))
    }

    fn after(&mut self, seen: u64, _submitted_us: u64, most: usize) -> Result<Vec<Found>, SourceError> {
        let new = self.jobs.keys().filter(|job| **job > seen).take(most);
        Ok(new.map(|job| self.found(*job)).collect())
    }

    fn machine(&mut self) -> Result<Option<Machine>, SourceError> {
        let mut map = map();
        map.sets[0].pids = vec![1, 2];
        Ok(self.machine.clone().map(|topology| Machine { map, topology }))
    }

    fn job(&mut self, job: u64) -> Result<Option<(ReportView, Vec<Act>)>, SourceError> {
        let Some(over) = self.jobs.get(&job) else { return Ok(None) };
        let mut report = self.report(job, self.points);
        if !over {
            (report.state, report.ended_s, report.exit_code) = (pinfold_proto::JobState::Running, None, None);
        }
        Ok(Some((report, Vec::new())))
    }
}

/// A new token, which the store knows.
pub(crate) fn token(store: &Store, kind: Kind, name: &str) -> String {
    let token = secret::token(kind, &secret::draw().unwrap());
    store.add_token(kind, name, &secret::hash_of_token(&token).unwrap(), "test", now_us()).unwrap();
    token
}

/// A hub that serves in this process until the test ends.
pub(crate) struct Served {
    pub(crate) hub: Arc<Hub>,
    pub(crate) address: SocketAddr,
    _runtime: tokio::runtime::Runtime,
}

/// An answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) head: String,
    pub(crate) body: String,
}

impl Served {
    pub(crate) fn new(database: &Path, max_bytes: Option<u64>) -> Self {
        Self::trusting(database, max_bytes, Trust::default())
    }

    pub(crate) fn trusting(database: &Path, max_bytes: Option<u64>, trust: Trust) -> Self {
        Self::behind(database, max_bytes, trust, None)
    }

    /// Behind a proxy that signs people in.
    pub(crate) fn behind(
        database: &Path,
        max_bytes: Option<u64>,
        trust: Trust,
        proxy: Option<Proxy>,
    ) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let listener = runtime.block_on(tokio::net::TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let hub =
            Hub::new(Store::open_file(database, max_bytes).unwrap(), &format!("http://{address}"), trust);
        let hub = Arc::new(match proxy {
            Some(proxy) => hub.behind(proxy).unwrap(),
            None => hub,
        });
        runtime.spawn(listen::serve(listener, None, Arc::clone(&hub), std::future::pending()));
        Self { hub, address, _runtime: runtime }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// What stands behind the head of an answer that is not text.
    pub(crate) fn get_bytes(&self, path: &str, lines: &[String]) -> Vec<u8> {
        let bytes = self.exchange(&self.request_bytes("GET", path, lines, b""));
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
        assert!(bytes.starts_with(b"HTTP/1.1 200"), "{path}: {}", String::from_utf8_lossy(&bytes[..end]));
        bytes[end + 4..].to_vec()
    }

    /// Sends bytes as they are, and reads to the end.
    pub(crate) fn raw(&self, request: &[u8]) -> Answer {
        let bytes = self.exchange(request);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_lowercase(), body: body.to_owned() }
    }

    fn exchange(&self, request: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(180))).unwrap();
        // The hub may answer and hang up before it has read all.
        let _ = stream.write_all(request);
        let mut bytes = Vec::new();
        let _ = stream.read_to_end(&mut bytes);
        bytes
    }

    /// A request with these lines in its head.
    pub(crate) fn request(&self, method: &str, path: &str, lines: &[String], body: &[u8]) -> Answer {
        self.raw(&self.request_bytes(method, path, lines, body))
    }

    fn request_bytes(&self, method: &str, path: &str, lines: &[String], body: &[u8]) -> Vec<u8> {
        let mut head = format!("{method} {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", self.address);
        lines.iter().for_each(|line| head.push_str(&format!("{line}\r\n")));
        head.push_str(&format!("Content-Length: {}\r\n\r\n", body.len()));
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        request
    }

    pub(crate) fn get(&self, path: &str, lines: &[String]) -> Answer {
        self.request("GET", path, lines, b"")
    }

    /// Signs somebody in; gives the line with the cookie.
    pub(crate) fn sign_in(&self) -> String {
        let link = pinfold_hub::server::api::make_link(
            &self.hub.store,
            &self.url(),
            LinkFor { name: "tester", via: "", access: &Access::All },
        )
        .unwrap();
        let code = link.split_once("code=").unwrap().1.to_owned();
        let answer = self.form("/login", &[], &format!("code={code}"));
        assert_eq!(answer.status, 303, "{}", answer.body);
        let line = answer.head.lines().find(|line| line.starts_with("set-cookie:")).unwrap();
        let cookie = line.trim_start_matches("set-cookie: ").split(';').next().unwrap();
        format!("Cookie: {cookie}")
    }

    pub(crate) fn form(&self, path: &str, lines: &[String], form: &str) -> Answer {
        let mut all = vec!["Content-Type: application/x-www-form-urlencoded".to_owned()];
        all.extend_from_slice(lines);
        self.request("POST", path, &all, form.as_bytes())
    }
}

/// The line that a token goes into.
pub(crate) fn bearer(token: &str) -> String {
    format!("Authorization: Bearer {token}")
}
