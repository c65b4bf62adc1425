//! Who gets what over HTTP, and who does not: each fault that such programs had is a test here.
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::slice::from_ref as one;
use std::time::Duration;

use crate::common::{Served, bearer, bundle_of, idle, report, token};
use flate2_bomb::bomb;
use pinfold_hub::store::{Access, Kind, LinkFor, ReportQuery, Revoked, now_us};
use pinfold_hubclient::HubClient;
use pinfold_hubwire::bundle::{self, Live, PACKED_MAX_BYTES, SpoolFigures, WIRE_VERSION};
use pinfold_hubwire::courier::ClientError;
use pinfold_hubwire::push::{Uplink as _, UplinkError};
use pinfold_proto::End;

/// Bytes that unpack to many more.
mod flate2_bomb {
    use pinfold_hubwire::bundle::pack;

    /// Text of 32 MiB, packed to some 32 KiB.
    pub(crate) fn bomb() -> Vec<u8> {
        pack(&"x".repeat(32 << 20)).unwrap()
    }
}

struct Site {
    served: Served,
    host: String,
    other: String,
    reader: String,
    _dir: tempfile::TempDir,
}

fn site() -> Site {
    bounded(None)
}

fn bounded(max_bytes: Option<u64>) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), max_bytes);
    let store = &served.hub.store;
    let host = token(store, Kind::Host, "alpha");
    let other = token(store, Kind::Host, "beta");
    let reader = token(store, Kind::Reader, "ops");
    Site { host, other, reader, served, _dir: dir }
}

impl Site {
    fn push(&self, token: &str, packed: &[u8]) -> crate::common::Answer {
        self.served.request("POST", "/api/v1/bundles", &[bearer(token)], packed)
    }

    fn jobs_of(&self, host: &str) -> Vec<String> {
        let query = ReportQuery {
            access: Access::All,
            host: Some(host.into()),
            limit: 1_000,
            ..ReportQuery::default()
        };
        let found = self.served.hub.store.reports(&query).unwrap();
        found.reports.into_iter().map(|one| one.head.report.name).collect()
    }
}

fn packed(name: &str, job: u64) -> Vec<u8> {
    bundle::pack(&bundle_of(vec![report(job, name, 3)])).unwrap()
}

#[test]
fn without_a_valid_token_nothing_is_taken_and_nothing_told() {
    let site = site();
    let revoked = token(&site.served.hub.store, Kind::Host, "gone");
    site.served.hub.store.revoke(Revoked::Name(Kind::Host, "gone"), "test", now_us()).unwrap();
    let unknown = format!("pfh-{}", "0".repeat(64));
    let lines = [
        "",
        "Bearer ",
        "Bearer pfh-",
        "Bearer null",
        "Basic YTpi",
        &bearer(&unknown)[15..],
        &bearer(&revoked)[15..],
    ];
    // Each request that there is, by the hub's own description, whose tests say that nothing is left out there.
    let described: serde_json::Value =
        serde_json::from_str(&site.served.get("/api/openapi.json", &[]).body).unwrap();
    let mut asked = 0;
    for line in lines {
        let head = [format!("Authorization: {line}")];
        for (path, methods) in described["paths"].as_object().unwrap() {
            let methods = methods.as_object().unwrap().iter();
            for (method, operation) in
                methods.filter(|(_, operation)| operation["security"] != serde_json::json!([]))
            {
                let named = operation["parameters"].as_array().into_iter().flatten();
                let named: Vec<String> = named
                    .filter(|one| one["required"] == true)
                    .map(|one| format!("{}=1", one["name"].as_str().unwrap()))
                    .collect();
                let path = format!("{path}?{}", named.join("&"));
                let answer = site.served.request(&method.to_uppercase(), &path, &head, &packed("a", 1));
                assert_eq!(answer.status, 401, "{method} {path} with {line:?}");
                asked += 1;
            }
        }
    }
    assert_eq!(asked, lines.len() * 16);
    assert_eq!(site.served.request("POST", "/api/v1/bundles", &[], b"").status, 401);
    assert_eq!(site.served.hub.store.totals().unwrap().0, 0);
}

#[test]
fn a_token_that_is_revoked_is_refused_from_then_on() {
    let site = site();
    assert_eq!(site.push(&site.host, &packed("before", 1)).status, 200);
    site.served.hub.store.revoke(Revoked::Name(Kind::Host, "alpha"), "test", now_us()).unwrap();
    assert_eq!(site.push(&site.host, &packed("after", 2)).status, 401);
    assert_eq!(site.jobs_of("alpha"), ["before"]);
}

#[test]
fn a_host_writes_its_own_rows_whatever_it_says() {
    let site = site();
    assert_eq!(site.push(&site.host, &packed("of alpha", 1)).status, 200);
    // The same job number and origin from another host is another job.
    assert_eq!(site.push(&site.other, &packed("of beta", 1)).status, 200);
    assert_eq!(site.jobs_of("alpha"), ["of alpha"]);
    assert_eq!(site.jobs_of("beta"), ["of beta"]);
    // How it is says another name, and is taken under its own.
    let mut status = idle();
    status.host = "alpha".into();
    let live = Live {
        version: WIRE_VERSION,
        boot: "b".into(),
        sent_us: 1,
        status,
        spool: SpoolFigures::default(),
        map: None,
        topology: None,
        asked: Vec::new(),
    };
    let answer =
        site.served.request("POST", "/api/v1/live", &[bearer(&site.other)], &bundle::pack(&live).unwrap());
    assert_eq!(answer.status, 200, "{}", answer.body);
    let told = site.served.get("/api/v1/status", &[bearer(&site.reader)]).body;
    let told: serde_json::Value = serde_json::from_str(&told).unwrap();
    let hosts: Vec<_> = told["hosts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|host| (&host["of"]["host"], &host["status"]["host"]))
        .collect();
    assert_eq!(hosts, [(&"alpha".into(), &serde_json::Value::Null), (&"beta".into(), &"beta".into())]);
}

#[test]
fn a_readers_token_opens_tables_and_no_form() {
    let site = site();
    assert_eq!(site.push(&site.host, &packed("a", 1)).status, 200);
    for path in ["/jobs.csv", "/jobs.parquet", "/classes.csv", "/users.parquet", "/audit.csv"] {
        assert_eq!(site.served.get(path, &[bearer(&site.reader)]).status, 200, "{path}");
        assert_eq!(site.served.get(path, &[bearer(&site.host)]).status, 403, "{path}");
        assert_eq!(site.served.get(path, &[bearer("pinfold-reader-x")]).status, 401, "{path}");
    }
    assert!(site.served.get("/jobs.csv?days=3650", &[bearer(&site.reader)]).body.contains("alpha,1,a,"));
    let form = "Content-Type: application/x-www-form-urlencoded".to_owned();
    for csrf in ["", "0", "x"] {
        let sent = format!("csrf={csrf}&token=1");
        let answer =
            site.served.request("POST", "/tokens", &[bearer(&site.reader), form.clone()], sent.as_bytes());
        assert_eq!(answer.status, 403, "{}", answer.body);
    }
}

#[test]
fn hosts_read_nothing_and_readers_write_nothing() {
    let site = site();
    for path in
        ["/api/v1/hosts", "/api/v1/status", "/api/v1/reports", "/api/v1/why?host=beta&job=1", "/metrics"]
    {
        assert_eq!(site.served.get(path, &[bearer(&site.host)]).status, 403, "{path}");
    }
    assert_eq!(site.served.request("POST", "/api/v1/login", &[bearer(&site.host)], b"").status, 403);
    assert_eq!(site.push(&site.reader, &packed("a", 1)).status, 403);
    assert_eq!(site.served.request("POST", "/api/v1/live", &[bearer(&site.reader)], b"").status, 403);
}

#[test]
fn a_bundle_that_comes_again_is_counted_once() {
    let site = site();
    let bundle = packed("once", 1);
    assert_eq!(site.push(&site.host, &bundle).body, r#"{"new":1,"known":0}"#);
    for _ in 0..3 {
        assert_eq!(site.push(&site.host, &bundle).body, r#"{"new":0,"known":1}"#);
    }
    // With other figures as well: what is there stays.
    assert_eq!(site.push(&site.host, &packed("twice", 1)).body, r#"{"new":0,"known":1}"#);
    assert_eq!(site.jobs_of("alpha"), ["once"]);
}

#[test]
fn what_is_too_long_or_no_bundle_is_refused() {
    let site = site();
    let long = site.push(&site.host, &vec![0; PACKED_MAX_BYTES + 1]);
    assert_eq!(long.status, 413);
    // Announced only: it is refused before it is sent.
    let head = format!(
        "POST /api/v1/bundles HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{}\r\nContent-Length: 10000000000\r\n\r\n",
        bearer(&site.host)
    );
    assert_eq!(site.served.raw(head.as_bytes()).status, 413);
    // Sent in pieces without an announced length: it is refused on the way.
    let mut chunked = format!(
        "POST /api/v1/bundles HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{}\r\nTransfer-Encoding: chunked\r\n\r\n",
        bearer(&site.host)
    )
    .into_bytes();
    for _ in 0..(PACKED_MAX_BYTES >> 20) + 2 {
        chunked.extend_from_slice(b"100000\r\n");
        chunked.resize(chunked.len() + (1 << 20), 0);
        chunked.extend_from_slice(b"\r\n");
    }
    chunked.extend_from_slice(b"0\r\n\r\n");
    assert_eq!(site.served.raw(&chunked).status, 413);
    let bomb = bomb();
    assert!(bomb.len() < 1 << 20);
    let answer = site.push(&site.host, &bomb);
    assert!(matches!(answer.status, 413 | 422), "{answer:?}");
    for bad in
        [&b""[..], b"{}", b"\x1f\x8b", &bundle::pack(&"text").unwrap(), &bundle::pack(&[0; 4]).unwrap()]
    {
        assert_eq!(site.push(&site.host, bad).status, 422);
    }
    // One of a later program is good: its host keeps it until this hub is as late.
    let later = bundle::Bundle { version: bundle::WIRE_VERSION + 1, ..bundle_of(vec![report(1, "x", 0)]) };
    let crate::common::Answer { status, body: words, .. } =
        site.push(&site.host, &bundle::pack(&later).unwrap());
    assert!(status == 409 && words.contains("version 2"), "{status} {words}");
    let answer = ClientError::Refused { status, words }.as_uplink();
    assert!(matches!(answer, UplinkError::Later(_)), "{answer:?}");
    assert_eq!(site.served.hub.store.totals().unwrap().0, 0);
}

#[test]
fn a_full_database_says_so_and_keeps_what_it_has() {
    let site = bounded(Some(300 << 10));
    let mut full = None;
    for job in 1..2_000 {
        let answer = site.push(&site.host, &bundle::pack(&bundle_of(vec![report(job, "x", 2_000)])).unwrap());
        if answer.status != 200 {
            full = Some((job, answer));
            break;
        }
    }
    let (job, answer) = full.expect("it is bounded");
    assert_eq!(answer.status, 507, "{answer:?}");
    assert!(answer.body.contains("no room"), "{}", answer.body);
    // Nothing of what was refused is there, and what was taken is.
    let (jobs, _) = site.served.hub.store.totals().unwrap();
    assert_eq!(jobs, job - 1);
}

#[test]
fn a_host_keeps_what_may_be_taken_later_and_puts_aside_what_never_will() {
    let site = bounded(Some(300 << 10));
    let client = |token: &str| HubClient::new(&site.served.url(), None).unwrap().with_token(token);
    let mut hub = client(&site.host);
    assert!(matches!(hub.bundle(b"no bundle"), Err(UplinkError::Refused(_))));
    assert!(matches!(
        hub.bundle(&vec![0; PACKED_MAX_BYTES + 1]),
        Err(UplinkError::Refused(_) | UplinkError::Later(_))
    ));
    assert!(matches!(client(&site.reader).bundle(&packed("a", 1)), Err(UplinkError::Denied(_))));
    let full = (1..2_000)
        .find_map(|job| hub.bundle(&bundle::pack(&bundle_of(vec![report(job, "x", 2_000)])).unwrap()).err());
    assert!(matches!(full, Some(UplinkError::Later(_))), "{full:?}");
    site.served.hub.store.revoke(Revoked::Name(Kind::Host, "beta"), "test", now_us()).unwrap();
    assert!(matches!(
        client(&site.other).bundle(&packed("a", 1)),
        Err(UplinkError::Denied(_) | UplinkError::Later(_))
    ));
}

#[test]
fn no_other_origin_may_read_and_no_page_of_theirs_may_show_this() {
    let site = site();
    let origin = "Origin: https://evil.example".to_owned();
    for path in ["/", "/login", "/api/v1/hosts", "/style.css", "/nothing"] {
        let answer = site.served.get(path, &[origin.clone(), bearer(&site.reader)]);
        assert!(!answer.head.contains("access-control-"), "{path}: {}", answer.head);
        assert!(answer.head.contains("content-security-policy: default-src 'none'"), "{path}");
        assert!(answer.head.contains("frame-ancestors 'none'"), "{path}");
        assert!(answer.head.contains("x-content-type-options: nosniff"), "{path}");
    }
    let asked = [origin, "Access-Control-Request-Method: POST".to_owned()];
    let answer = site.served.request("OPTIONS", "/api/v1/bundles", &asked, b"");
    assert_eq!(answer.status, 405);
    assert!(!answer.head.contains("access-control-"), "{}", answer.head);
}

#[test]
fn pages_are_for_those_who_are_signed_in() {
    let site = site();
    let views = [
        "/",
        "/hosts/alpha",
        "/hosts/alpha/map.svg",
        "/jobs",
        "/jobs.csv",
        "/jobs.parquet",
        "/jobs/1",
        "/jobs/1/series.csv",
        "/jobs/1/series.parquet",
        "/jobs/1/chart.svg",
        "/compare?job=1&job=2",
        "/compare.svg?job=1&job=2",
        "/compare.csv?job=1&job=2",
        "/compare.parquet?job=1&job=2",
        "/classes",
        "/classes.csv",
        "/classes.parquet",
        "/classes/weeks",
        "/classes/weeks?name=a",
        "/classes/weeks.csv?name=a",
        "/classes/weeks.parquet?name=a",
        "/users",
        "/users.csv",
        "/users.parquet",
        "/projects",
        "/projects.csv",
        "/projects.parquet",
        "/weekly",
        "/weekly.csv",
        "/weekly.parquet",
        "/workflows",
        "/workflows.csv",
        "/workflows.parquet",
        "/workflows/run?workflow=w&user=ann&run=r",
        "/workflows/steps.csv?workflow=w&user=ann&run=r",
        "/workflows/steps.parquet?workflow=w&user=ann&run=r",
        "/audit",
        "/audit.csv",
        "/audit.parquet",
        "/tokens",
    ];
    let job = |number: u64| {
        let mut one = report(number, "a", 3);
        one.comment = Some("workflow=w run=r".into());
        one
    };
    let jobs = bundle::pack(&bundle_of(vec![job(1), job(2)])).unwrap();
    assert_eq!(site.push(&site.host, &jobs).status, 200);
    for cookie in
        [String::new(), "Cookie: pinfold-hub=".into(), format!("Cookie: pinfold-hub={}", "0".repeat(64))]
    {
        let lines: Vec<String> = [cookie].into_iter().filter(|line| !line.is_empty()).collect();
        for view in views {
            let answer = site.served.get(view, &lines);
            assert_eq!((answer.status, answer.head.contains("location: /login")), (303, true), "{view}");
        }
    }
    let cookie = site.served.sign_in();
    // This host has not told how its cores lie.
    for view in views.into_iter().filter(|view| !view.ends_with("map.svg")) {
        assert_eq!(site.served.get(view, one(&cookie)).status, 200, "{view}");
    }
}

#[test]
fn a_link_signs_in_once() {
    let site = site();
    let link = pinfold_hub::server::api::make_link(
        &site.served.hub.store,
        "",
        LinkFor { name: "ann", via: "", access: &Access::All },
    )
    .unwrap();
    let code = link.split_once("code=").unwrap().1;
    // Opening it does not use it up.
    for _ in 0..2 {
        assert_eq!(site.served.get(&link, &[]).status, 200);
    }
    let from_elsewhere = ["Origin: https://evil.example".to_owned()];
    assert_eq!(site.served.form("/login", &from_elsewhere, &format!("code={code}")).status, 403);
    let first = site.served.form("/login", &[], &format!("code={code}"));
    assert_eq!(first.status, 303);
    assert!(first.head.contains("httponly; samesite=strict"), "{}", first.head);
    for again in [code, "", "x", &"0".repeat(64)] {
        assert_eq!(site.served.form("/login", &[], &format!("code={again}")).status, 403, "{again:?}");
    }
}

/// The form's own secret, from a page.
fn csrf(site: &Site, cookie: &str) -> String {
    let page = site.served.get("/tokens", &[cookie.to_owned()]).body;
    let at = page.find("name=\"csrf\" value=\"").unwrap() + "name=\"csrf\" value=\"".len();
    page[at..at + 64].to_owned()
}

#[test]
fn forms_of_other_pages_do_nothing() {
    let site = site();
    let cookie = site.served.sign_in();
    let csrf = csrf(&site, &cookie);
    let revoked = |id: i64| {
        site.served
            .hub
            .store
            .tokens()
            .unwrap()
            .iter()
            .any(|token| token.id == id && token.revoked_us.is_some())
    };
    for bad in ["csrf=&token=1".to_owned(), "token=1".to_owned(), format!("csrf={}&token=1", "0".repeat(64))]
    {
        let answer = site.served.form("/tokens", one(&cookie), &bad);
        assert!(matches!(answer.status, 403 | 422), "{bad}: {answer:?}");
    }
    let good = format!("csrf={csrf}&token=1");
    for line in [
        "Origin: https://evil.example",
        "Origin: null",
        "Sec-Fetch-Site: cross-site",
        "Sec-Fetch-Site: same-site",
    ] {
        assert_eq!(site.served.form("/tokens", &[cookie.clone(), line.into()], &good).status, 403, "{line}");
    }
    assert!(
        matches!(site.served.form("/tokens", &[], &good).status, 303),
        "without a session: to the sign-in"
    );
    assert!(!revoked(1));
    let here = format!("Origin: {}", site.served.url());
    assert_eq!(site.served.form("/tokens", &[cookie.clone(), here], &good).status, 303);
    assert!(revoked(1));
    let audit = site.served.get("/audit", one(&cookie)).body;
    assert!(audit.contains("host alpha, token 1") && audit.contains("tester"), "{audit}");
    assert_eq!(site.served.form("/logout", one(&cookie), &format!("csrf={csrf}")).status, 303);
    assert_eq!(site.served.get("/", &[cookie]).status, 303);
}

const NASTY: [&str; 4] = [
    "<script>alert(1)</script>",
    "'; DROP TABLE jobs; --",
    "\"><img src=x onerror=alert(1)>",
    "\u{1b}[31mred\u{202e}\r\n=cmd()",
];

#[test]
fn a_list_marks_each_job_that_failed() {
    let site = site();
    let ends =
        [(Some(0), None), (Some(0), Some(End::Timeout)), (Some(3), None), (None, Some(End::Dependency))];
    let jobs = (1..).zip(ends).map(|(job, (code, end))| {
        let mut one = report(job, "a", 3);
        (one.exit_code, one.end) = (code, end);
        one
    });
    assert_eq!(site.push(&site.host, &bundle::pack(&bundle_of(jobs.collect())).unwrap()).status, 200);
    let cookie = site.served.sign_in();
    let list = site.served.get("/jobs?days=3650&sort=job&dir=up", one(&cookie)).body;
    let marked: Vec<&str> =
        list.split("<span class=\"bad\">").skip(1).filter_map(|rest| rest.split("</span>").next()).collect();
    assert_eq!(marked, ["0 timeout", "3", "none dependency"], "{list}");
}

#[test]
fn words_of_jobs_are_words_on_each_page() {
    let site = site();
    for (job, name) in (1..).zip(NASTY) {
        let mut nasty = report(job, name, 3);
        nasty.user = name.to_owned();
        nasty.project = Some(name.to_owned());
        nasty.reason = Some(name.to_owned());
        nasty.exit_code = None;
        let mut bundle = bundle_of(vec![nasty]);
        let act = bundle::Act { time_s: 1.0, action: name.to_owned(), reason: name.to_owned() };
        bundle.parts[0].head.as_mut().unwrap().acts.push(act);
        assert_eq!(site.push(&site.host, &bundle::pack(&bundle).unwrap()).status, 200);
    }
    let cookie = site.served.sign_in();
    let days = "days=3650";
    let mut pages: Vec<String> =
        ["/jobs", "/classes", "/users", "/projects"].map(|path| format!("{path}?{days}")).into();
    pages.extend((1..=4).flat_map(|id| {
        [format!("/jobs/{id}"), format!("/jobs/{id}/chart.svg"), format!("/jobs/{id}/chart.svg?dark=true")]
    }));
    for path in ["/jobs", "/classes/weeks"] {
        pages.push(format!("{path}?{days}&name=%3Cscript%3Ealert(1)%3C%2Fscript%3E"));
        pages.push(format!("{path}?{days}&name=*"));
    }
    for page in &pages {
        let body = site.served.get(page, one(&cookie)).body;
        assert!(
            !body.contains("<script") && !body.contains("<img src=x") && !body.contains('\u{1b}'),
            "{page}: {body}"
        );
        assert!(!body.contains('\u{202e}'), "{page}");
    }
    let list = site.served.get(&pages[0], one(&cookie)).body;
    // What it loads is its own: the policy would have a browser block anything else.
    for (at, _) in list.match_indices("<link").chain(list.match_indices("<img")) {
        let element = list[at..].split('>').next().unwrap();
        assert!(element.contains("=\"/"), "{element}");
    }
    assert_eq!(site.served.get("/icon.svg", &[]).status, 200);
    assert!(list.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{list}");
    let csv = site.served.get(&format!("/jobs.csv?{days}"), one(&cookie)).body;
    assert!(csv.contains("\"\"\"><img"), "a quote in a cell is doubled: {csv}");
    // Words that are asked for are values.
    for name in NASTY.map(|name| name.replace(['\u{1b}', '\u{202e}', '\r', '\n'], "")) {
        let encoded: String = name.bytes().map(|byte| format!("%{byte:02x}")).collect();
        let answer = site
            .served
            .get(&format!("/jobs?{days}&user={encoded}&host={encoded}&name={encoded}"), one(&cookie));
        assert_eq!(answer.status, 200, "{name}");
        let path = format!("/api/v1/reports?host={encoded}");
        assert_eq!(site.served.get(&path, &[bearer(&site.reader)]).status, 404, "{name}");
    }
    assert_eq!(site.served.hub.store.totals().unwrap().0, 4);
}

#[test]
fn questions_without_bound_and_figures_that_are_none_are_refused() {
    let site = site();
    let cookie = site.served.sign_in();
    for bad in [
        "limit=100000",
        "page=100000000",
        "page=-1",
        "days=99999",
        "sort=head",
        "sort=1;DROP",
        "col=*",
        "figures=1%3D1",
        "x=1",
        "figures=wall_s%3E1)%20OR%201%3D1--",
    ] {
        assert_eq!(site.served.get(&format!("/jobs?{bad}"), one(&cookie)).status, 400, "{bad}");
    }
    // The form comes back as it was filled in, with the reason beside the field.
    for (path, reason) in [
        ("/jobs?host=alpha&figures=nope%3E1", "<span class=\"bad\">nope: no such figure"),
        ("/classes?host=alpha&figures=wall_s", "<span class=\"bad\">wall_s: FIGURE"),
        (
            "/classes/weeks?host=alpha&name=a&figures=wall_s%3E1",
            "<span class=\"bad\">weeks are read from sums",
        ),
        ("/users?host=alpha&days=x", "<p class=\"bad\">days: "),
        ("/weekly?user=alpha&week=x", "<span class=\"bad\">a week is wanted"),
    ] {
        let page = site.served.get(path, one(&cookie));
        assert_eq!(page.status, 400, "{path}");
        assert!(page.body.contains("value=\"alpha\"") && page.body.contains(reason), "{path}: {}", page.body);
    }
    for bad in ["last=1000000", "last=200&series=true", "last=-1", "job=x", "select=1", "since_us=1e9"] {
        let answer = site.served.get(&format!("/api/v1/reports?{bad}"), &[bearer(&site.reader)]);
        assert_eq!(answer.status, 400, "{bad}");
    }
    let of_programs = [
        ("reports?last=10000", 200),
        ("reports?last=10001", 400),
        ("reports?last=100&series=true", 200),
        ("reports?last=101&series=true", 400),
        ("workflows?last=1000", 200),
        ("workflows?last=1001", 400),
        ("workflows?since_us=-1", 400),
        ("class?name=a&since_us=0", 200),
        ("class?name=", 400),
        ("weekly?week=2026-W47&user=ann", 200),
        ("weekly?week=2026-W99", 400),
        ("weekly?user=ann&project=web", 400),
        ("run?workflow=w&user=ann", 400),
        ("map", 400),
        ("why?host=alpha", 400),
    ];
    for (asked, want) in of_programs {
        let answer = site.served.get(&format!("/api/v1/{asked}"), &[bearer(&site.reader)]);
        assert_eq!(answer.status, want, "{asked}: {}", answer.body);
    }
    for view in ["/audit?page=-1", "/audit?page=x", "/?live=x", "/hosts/alpha/map.svg?dark=x", "/jobs/x"] {
        assert_eq!(site.served.get(view, one(&cookie)).status, 400, "{view}");
    }
    let long = format!("/jobs?name={}", "x".repeat(30_000));
    assert!(matches!(site.served.get(&long, &[cookie]).status, 400 | 414 | 431));
}

#[test]
fn a_head_that_does_not_end_ends_the_connection() {
    let site = site();
    let mut stream = TcpStream::connect(site.served.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n").unwrap();
    let mut rest = Vec::new();
    // It ends: by an answer that says so, or without one.
    let _ = stream.read_to_end(&mut rest);
    let text = String::from_utf8_lossy(&rest);
    assert!(text.is_empty() || text.contains("408"), "{text}");
    // Meanwhile and afterwards others are served.
    assert_eq!(site.served.get("/login", &[]).status, 200);
}

#[test]
fn metrics_are_open_metrics() {
    let site = site();
    site.push(&site.host, &packed("a", 1));
    let answer = site.served.get("/metrics", &[bearer(&site.reader)]);
    assert_eq!(answer.status, 200);
    assert!(answer.head.contains("application/openmetrics-text; version=1.0.0"), "{}", answer.head);
    assert!(answer.body.contains("\npinfold_hub_bundles_total 1\n"), "{}", answer.body);
    assert!(answer.body.contains("pinfold_hub_host_age_seconds{host=\"alpha\"} "), "{}", answer.body);
    assert!(answer.body.ends_with("# EOF\n"));
}
