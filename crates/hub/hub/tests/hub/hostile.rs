//! Hosts and people who mean harm, and what must hold all the same: nothing ends the hub, nothing makes it hold more
//! than it has bounds for, and what is taken back is gone at once.
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::slice::from_ref as one;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::common::{Served, bearer, bundle_of, idle, machine, map, report, token};
use pinfold_hub::server::answers::{OF_A_VIEWER_MAX_BYTES, share};
use pinfold_hub::server::api::make_link;
use pinfold_hub::server::takers::Taker;
use pinfold_hub::store::{Access, Keep, Kind, LinkFor, Revoked, now_us};
use pinfold_hubwire::bundle::{self, Live, SpoolFigures, WIRE_VERSION};
use pinfold_proto::view::MapView;
use serde_json::Value;

const DAYS: &str = "days=3650";
/// How long a test waits for what is to come of itself.
const PATIENCE: Duration = Duration::from_secs(120);

fn site(max_bytes: Option<u64>) -> (tempfile::TempDir, Served, String) {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::new(&dir.path().join("hub.db"), max_bytes);
    let host = token(&served.hub.store, Kind::Host, "alpha");
    (dir, served, host)
}

/// Asks until it is so.
#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let since = Instant::now();
    while !is_so() {
        assert!(since.elapsed() < PATIENCE, "not so yet: {what}");
        std::thread::yield_now();
    }
}

#[track_caller]
fn push(served: &Served, host: &str, bundle: &bundle::Bundle) {
    let answer = served.request("POST", "/api/v1/bundles", &[bearer(host)], &bundle::pack(bundle).unwrap());
    assert_eq!(answer.status, 200, "{}", answer.body);
}

/// A map with figures and words that no machine has.
fn far_map() -> MapView {
    let mut map = map();
    let words = "\u{1b}[2J\u{1}<script>\"]]>&\u{202e}";
    for set in &mut map.sets {
        (set.cpus, set.cores) = (words.to_owned(), u64::MAX);
        (set.name, set.user) = (Some(words.to_owned()), Some(words.to_owned()));
    }
    map.sets[0].cpus = "0-65535".to_owned();
    let aside = &mut map.set_asides[0];
    (aside.set, aside.cpus, aside.cores, aside.made_s) =
        (words.to_owned(), words.to_owned(), u64::MAX, 1e300);
    let chunk = &mut map.chunks[0];
    (chunk.nodes, chunk.claimed_bytes, chunk.usable_bytes) = (words.to_owned(), u64::MAX, 0);
    (map.resources[0].resource, map.resources[0].total) = (words.to_owned(), u64::MAX);
    map
}

fn live(served: &Served, host: &str, live: &Live) -> u16 {
    served.request("POST", "/api/v1/live", &[bearer(host)], &bundle::pack(live).unwrap()).status
}

#[test]
fn figures_out_of_all_ranges_are_shown_and_end_nothing() {
    let (_dir, served, host) = site(None);
    let far = [0.0, -1.0, 1e18, 1e300, -1e300];
    for (job, time_s) in (1..).zip(far) {
        let mut one = report(job, "far", 5);
        one.started_s = Some(time_s);
        one.ended_s = Some(-time_s);
        (one.wall_s, one.queued_s, one.suspended_s) = (Some(time_s), 1e300, -1e300);
        (one.cpu_user_s, one.cpu_system_s) = (1e308, 1e308);
        (one.cores, one.memory_peak_bytes, one.memory_mean_bytes) = (u32::MAX, u64::MAX, u64::MAX);
        (one.claim_bytes, one.limit_bytes) = (Some(u64::MAX), Some(0));
        (one.io_read_bytes, one.io_write_bytes, one.samples) = (u64::MAX, u64::MAX, u64::MAX);
        for (at, point) in (0u32..).zip(one.series.as_mut().unwrap()) {
            point.time_s = if at % 2 == 0 { time_s } else { -time_s };
            (point.cpu_cores, point.memory_bytes, point.io_read_bytes) = (1e308, u64::MAX, u64::MAX);
            (point.cache_bytes, point.processes) = (Some(u64::MAX), u32::MAX);
        }
        // As an honest host sends it: within the ranges of figures.
        push(&served, &host, &bundle_of(vec![one]));
    }
    let mut status = idle();
    (status.slots.total, status.slots.used, status.slots.cores) = (u64::MAX, u64::MAX, u64::MAX);
    (status.memory.held_bytes, status.memory.pressure_full_avg10) = (u64::MAX, Some(-1e308));
    let mut far = Live {
        version: WIRE_VERSION,
        boot: "b".into(),
        sent_us: u64::MAX,
        status,
        spool: SpoolFigures {
            bytes: u64::MAX,
            bundles: u64::MAX,
            jobs_waiting: u64::MAX,
            ..SpoolFigures::default()
        },
        map: Some(far_map()),
        topology: Some(Box::new(machine())),
        asked: Vec::new(),
    };
    assert_eq!(live(&served, &host, &far), 422);
    pinfold_hubwire::bounds::bound_live(&mut far);
    assert_eq!(live(&served, &host, &far), 200);
    let cookie = served.sign_in();
    for query in ["", "?small=true", "?dark=true"] {
        let picture = served.get(&format!("/hosts/alpha/map.svg{query}"), one(&cookie)).body;
        assert!(!picture.contains("<script"), "{picture}");
        // It is XML, which a reader of pictures reads.
        pinfold_profile::plot::svg_to_png(&picture, 100, 100).unwrap();
    }
    let told = served.get("/hosts/alpha", one(&cookie)).body;
    assert!(!told.contains("<script") && !told.contains('\u{1b}'), "{told}");
    let mut pages: Vec<String> =
        ["/", "/jobs", "/jobs.csv", "/classes", "/classes.csv", "/users", "/users.csv", "/projects"]
            .map(|path| if path == "/" { path.to_owned() } else { format!("{path}?{DAYS}") })
            .into();
    pages.push(format!("/classes/weeks?{DAYS}&name=*"));
    for job in 1..=5 {
        pages.extend(
            ["", "/chart.svg", "/chart.svg?narrow=true", "/series.csv"]
                .map(|what| format!("/jobs/{job}{what}")),
        );
    }
    for page in pages {
        assert_eq!(served.get(&page, one(&cookie)).status, 200, "{page}");
    }
    let reader = token(&served.hub.store, Kind::Reader, "ops");
    for path in ["/api/v1/status", "/api/v1/reports?series=true", "/metrics", "/api/v1/why?host=alpha&job=1"]
    {
        assert_eq!(served.get(path, &[bearer(&reader)]).status, 200, "{path}");
    }
}

#[test]
fn a_host_that_lies_changes_no_sum() {
    let (_dir, served, host) = site(None);
    push(&served, &host, &bundle_of(vec![report(1, "honest", 1)]));
    let lies: [fn(&mut pinfold_proto::view::ReportView); 4] = [
        |report| report.wall_s = Some(1.7e308),
        |report| report.cpu_user_s = -1e300,
        |report| report.ended_s = Some(253_370_764_800.0),
        |report| report.claim_bytes = Some(u64::MAX),
    ];
    let names = [
        "wall_s is 1.7e308",
        "cpu_user_s is -1e300",
        "ended_s is 253370764800",
        "claim_bytes is 1.8446744073709552e19",
    ];
    for (lie, name) in lies.into_iter().zip(names) {
        let mut bundle = bundle_of(vec![report(2, "liar", 1)]);
        lie(&mut bundle.parts[0].head.as_mut().unwrap().report);
        let answer =
            served.request("POST", "/api/v1/bundles", &[bearer(&host)], &bundle::pack(&bundle).unwrap());
        assert!(
            answer.status == 422 && answer.body.contains(name),
            "{name}: {} {}",
            answer.status,
            answer.body
        );
    }
    let users = served.get(&format!("/users.csv?{DAYS}"), one(&served.sign_in())).body;
    assert!(users.lines().count() == 2 && !users.contains("e30") && !users.contains("inf"), "{users}");
}

#[test]
fn words_in_workflows_weeks_and_comparisons_are_words() {
    let (_dir, served, host) = site(None);
    let evil = [
        "<script>alert(1)</script>",
        "\"><img src=x onerror=alert(1)>",
        "'; DROP TABLE runs; --",
        "\u{202e}\u{1b}[31m",
    ];
    for run in 1..=4u64 {
        let jobs = (1..).zip(evil).map(|(job, name)| {
            let mut one = report(run * 10 + job, name, 3);
            (one.user, one.project) = (name.to_owned(), Some(name.to_owned()));
            one.comment = Some(format!("workflow=<b>w</b> version={name} run=<i> run=r{run} step={name}"));
            one
        });
        push(&served, &host, &bundle_of(jobs.collect()));
    }
    let cookie = served.sign_in();
    let encoded = |text: &str| text.bytes().map(|byte| format!("%{byte:02X}")).collect::<String>();
    let week = pinfold_hub::weekly::Week::of(bundle::microseconds(report(11, "x", 0).ended_s.unwrap()));
    let mut views = vec![
        format!("/workflows?{DAYS}"),
        format!("/weekly?week={week}"),
        "/compare?job=1&job=2&job=3".into(),
    ];
    for name in evil {
        views.push(format!("/workflows/run?workflow=unnamed&user={0}&run=r4", encoded(name)));
        views.push(format!("/weekly?week={week}&user={}", encoded(name)));
        views.push(format!("/weekly?week={week}&project={}", encoded(name)));
        views.push(format!("/workflows?{DAYS}&user={}&name=%2A", encoded(name)));
    }
    for view in &views {
        let answer = served.get(view, one(&cookie));
        assert_eq!(answer.status, 200, "{view}: {}", answer.body);
        // What somebody has typed stands in the form as it is.
        let main = answer.body.split("<main").nth(1).unwrap().rsplit("</form>").next().unwrap();
        assert!(
            !main.contains("<script") && !main.contains("<img src=x") && !main.contains('\u{1b}'),
            "{view}: {main}"
        );
    }
    for bad in [
        "/workflows/run",
        "/workflows/run?workflow=w",
        "/workflows/run?workflow=w&user=u&run=r&x=1",
        "/weekly?week=x",
        "/weekly?user=a&project=b",
        "/weekly?x=1",
        "/compare",
        "/compare?job=1",
        "/compare?job=1&job=1' OR 1=1",
        "/workflows?figures=x",
    ] {
        assert_eq!(served.get(&bad.replace(' ', "%20"), one(&cookie)).status, 400, "{bad}");
    }
    let many: Vec<String> = (1..=7).map(|job| format!("job={job}")).collect();
    assert_eq!(served.get(&format!("/compare?{}", many.join("&")), one(&cookie)).status, 400);
    assert_eq!(served.hub.store.totals().unwrap().0, 16);
}

/// As many as one address may have, and more: the first of them make room for whoever asks for something.
#[test]
fn silent_connections_keep_nobody_out() {
    let (_dir, served, _) = site(None);
    let is_answered_in_time = || {
        let begun = Instant::now();
        let silent: Vec<TcpStream> = (0..300).map(|_| TcpStream::connect(served.address).unwrap()).collect();
        assert_eq!(served.get("/login", &[]).status, 200);
        // Those that were let in since keep their places.
        let mut last = silent.last().unwrap();
        last.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
        let asked = last.write_all(b"GET /login HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        let mut answer = Vec::new();
        let heard = asked.and_then(|()| last.read_to_end(&mut answer));
        if heard.is_ok() && answer.starts_with(b"HTTP/1.1 200") {
            return true;
        }
        // A head may take ten seconds.
        assert!(begun.elapsed().as_secs() >= 9, "{heard:?} {}", String::from_utf8_lossy(&answer));
        false
    };
    assert!((0..8).any(|_| is_answered_in_time()), "ten seconds passed each time");
}

/// A stranger's form whose end never comes counts as little as silence; the body of a host that is known keeps its place.
#[test]
fn bodies_of_strangers_that_never_end_keep_nobody_out() {
    let (_dir, served, host) = site(None);
    let begin = |head: &str| {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(head.as_bytes()).unwrap();
        stream
    };
    let mut known = begin(&format!(
        "POST /api/v1/bundles HTTP/1.1\r\nHost: x\r\n{}\r\nContent-Length: 10000\r\n\r\nx",
        bearer(&host)
    ));
    let form = "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\n\
                Content-Length: 10000\r\n\r\ncode=";
    let forms: Vec<TcpStream> = (0..255).map(|_| begin(form)).collect();
    // All places of this address are taken once each of them is being answered.
    until("all are being answered", || served.hub.counters.requests.load(Ordering::Relaxed) >= 256);
    // Its body may not be waited for yet.
    until("a form has given up its place", || served.get("/login", &[]).status == 200);
    let late = forms.iter().any(is_answered);
    assert!(!late, "that place came free as the form was given up");
    known.set_nonblocking(true).unwrap();
    let kept = known.read(&mut [0; 64]).unwrap_err();
    assert_eq!(kept.kind(), std::io::ErrorKind::WouldBlock, "a host's message keeps its place");
}

#[test]
fn long_words_of_jobs_make_no_long_answers() {
    let (_dir, served, host) = site(None);
    let word = "x".repeat(15 << 20);
    for job in 1..=3 {
        let mut one = report(job, "long", 1);
        one.command = vec![word.clone()];
        push(&served, &host, &bundle_of(vec![one]));
    }
    let reader = token(&served.hub.store, Kind::Reader, "ops");
    let answer = served.get("/api/v1/reports", &[bearer(&reader)]);
    assert_eq!(answer.status, 200);
    assert!(answer.body.len() < 48 << 20, "{} bytes", answer.body.len());
    let told: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(told["cut"], true, "it is said that there are more");
    // The last ones are those that are told.
    let last = told["reports"].as_array().unwrap().last().unwrap();
    assert_eq!(last["job"], 3);
}

#[test]
fn a_very_long_series_is_thinned() {
    let (_dir, served, host) = site(None);
    let mut bundle = bundle_of(vec![report(1, "long", 8_000)]);
    let first = bundle.parts.remove(0);
    let few = bundle_of(vec![report(1, "long", 10)]).parts.remove(0).series;
    let parts = 110;
    let part = |number: u32| {
        let mut part = first.clone();
        (part.part, part.parts) = (number, parts);
        part.head = part.head.filter(|_| number == 0);
        // Short ones but for the first few, for the test's own time.
        part.series = if number < 4 { part.series } else { few.clone() };
        part
    };
    for chunk in (0..parts).collect::<Vec<_>>().chunks(10) {
        bundle.parts = chunk.iter().map(|&number| part(number)).collect();
        push(&served, &host, &bundle);
    }
    let cookie = served.sign_in();
    let csv = served.get("/jobs/1/series.csv", one(&cookie)).body;
    // Half of the parts, and of the first and third each second point.
    assert_eq!(csv.lines().count(), 1 + 2 * 4_000 + 53 * 5);
    let page = served.get("/jobs/1", one(&cookie)).body;
    assert!(page.contains("1 of 4 points"), "{page}");
    assert_eq!(served.get("/jobs/1/chart.svg", one(&cookie)).status, 200);
}

#[test]
fn what_a_host_says_of_itself_is_bounded() {
    let (_dir, served, host) = site(None);
    let told = |jobs: usize| {
        let job = serde_json::json!({ "job": 1, "name": "x", "user": "ann", "project": null, "state": "running",
            "class": "primary", "priority": 1, "cpus": null, "memory_bytes": null, "swap_bytes": null, "pids": [],
            "submitted_s": 1.0, "started_s": null, "ended_s": null, "exit_code": null, "signal": null, "reason": null });
        let mut status = idle();
        status.jobs = vec![serde_json::from_value(job).unwrap(); jobs];
        Live {
            version: WIRE_VERSION,
            boot: "b".into(),
            sent_us: 1,
            status,
            spool: SpoolFigures::default(),
            map: None,
            topology: None,
            asked: Vec::new(),
        }
    };
    assert_eq!(live(&served, &host, &told(2_000)), 200);
    assert_eq!(live(&served, &host, &told(2_001)), 422);
    let many = |of: &dyn Fn(&mut MapView)| {
        let mut map = map();
        of(&mut map);
        live(&served, &host, &Live { map: Some(map), ..told(1) })
    };
    assert_eq!(many(&|map| map.sets = vec![map.sets[0].clone(); 2_000]), 200);
    assert_eq!(many(&|map| map.sets = vec![map.sets[0].clone(); 2_001]), 422);
    assert_eq!(many(&|map| map.set_asides = vec![map.set_asides[0].clone(); 2_001]), 422);
    assert_eq!(many(&|map| map.chunks = vec![map.chunks[0].clone(); 2_001]), 422);
    let wide = |cores: u32| {
        let facts = pinfold_topo::synthetic::facts_of(&format!("pack:1 core:{cores} pu:1")).unwrap();
        let topology = Some(Box::new(facts.assemble().unwrap()));
        live(&served, &host, &Live { topology, ..told(1) })
    };
    assert_eq!((wide(8_192), wide(8_193)), (200, 422));
    // One that contradicts itself, and one with a PU that no set holds, which would end the thread that puts it into
    // one.
    for (from, to) in [("\"os\":7", "\"os\":6"), ("\"os\":7", "\"os\":4000000000")] {
        let good = serde_json::to_string(&Live { topology: Some(Box::new(machine())), ..told(1) }).unwrap();
        let bad: Value = serde_json::from_str(&good.replacen(from, to, 1)).unwrap();
        let packed = bundle::pack(&bad).unwrap();
        assert_eq!(served.request("POST", "/api/v1/live", &[bearer(&host)], &packed).status, 422, "{to}");
    }
    let mut long = told(1);
    long.status.warnings = vec!["x".repeat(9 << 20)];
    assert_eq!(live(&served, &host, &long), 413);
}

#[test]
fn who_loses_the_token_loses_what_was_made_with_it() {
    let (_dir, served, _) = site(None);
    let reader = token(&served.hub.store, Kind::Reader, "thief");
    let other = token(&served.hub.store, Kind::Reader, "ops");
    let link = |token: &str| -> String {
        let answer = served.request("POST", "/api/v1/login", &[bearer(token)], b"").body;
        let answer: Value = serde_json::from_str(&answer).unwrap();
        answer["url"].as_str().unwrap().split_once("code=").unwrap().1.to_owned()
    };
    let enter = |code: &str| served.form("/login", &[], &format!("code={code}"));
    let cookie = |answer: &crate::common::Answer| {
        let line = answer.head.lines().find(|line| line.starts_with("set-cookie:")).unwrap();
        format!("Cookie: {}", line.trim_start_matches("set-cookie: ").split(';').next().unwrap())
    };
    let (signed_in, kept) = (cookie(&enter(&link(&reader))), link(&reader));
    let of_other = cookie(&enter(&link(&other)));
    assert_eq!(served.get("/jobs", one(&signed_in)).status, 200);
    served.hub.store.revoke(Revoked::Name(Kind::Reader, "thief"), "test", now_us()).unwrap();
    assert_eq!(served.get("/jobs", one(&signed_in)).status, 303, "the session is over");
    assert_eq!(enter(&kept).status, 403, "a link that was made before signs nobody in");
    assert_eq!(served.get("/jobs", one(&of_other)).status, 200);
}

#[test]
fn links_are_not_made_without_end() {
    let (_dir, served, _) = site(None);
    let reader = token(&served.hub.store, Kind::Reader, "ops");
    let ask = |token: &str| served.request("POST", "/api/v1/login", &[bearer(token)], b"").status;
    let made = (0..100).filter(|_| ask(&reader) == 200).count();
    assert!((1..100).contains(&made), "{made}");
    assert_eq!(ask(&reader), 429);
    let other = token(&served.hub.store, Kind::Reader, "other");
    assert_eq!(ask(&other), 200, "others' links are counted apart");
}

#[test]
fn acts_are_forgotten_with_the_jobs_of_their_time() {
    let (_dir, served, _) = site(None);
    let store = &served.hub.store;
    store.note("ann", "old", "act", 1).unwrap();
    store.remove_old(Keep::default(), now_us()).unwrap();
    let acts = store.audit(100, 0).unwrap();
    assert!(!acts.is_empty() && acts.iter().all(|act| act.action != "old"), "{acts:?}");
}

#[test]
fn a_form_is_short_and_comes_at_once() {
    let (_dir, served, _) = site(None);
    for path in ["/login", "/tokens", "/logout"] {
        let answer = served.form(path, &[], &format!("code={}", "x".repeat(100_000)));
        assert_eq!(answer.status, 413, "{path}");
    }
    // One that never comes ends, and before that others are served.
    let mut stream = TcpStream::connect(served.address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    let head = "POST /login HTTP/1.1\r\nHost: x\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    assert_eq!(served.get("/login", &[]).status, 200);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    let text = String::from_utf8_lossy(&rest);
    assert!(text.is_empty() || text.contains("408"), "{text}");
}

#[test]
fn people_sign_in_and_revoke_although_hosts_filled_the_database() {
    let (dir, served, host) = site(Some(1 << 20));
    let full = (1..5_000).any(|job| {
        let mut large = report(job, "x", 0);
        // Words that do not pack well.
        large.command = (0..2_000)
            .map(|word: u64| (word * job).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string())
            .collect();
        let packed = bundle::pack(&bundle_of(vec![large])).unwrap();
        served.request("POST", "/api/v1/bundles", &[bearer(&host)], &packed).status == 507
    });
    assert!(full, "it is bounded");
    // And with the small ones for which there was room yet.
    let small = |job: u64| {
        let packed = bundle::pack(&bundle_of(vec![report(job, "x", 0)])).unwrap();
        served.request("POST", "/api/v1/bundles", &[bearer(&host)], &packed).status == 507
    };
    assert!((10_000..20_000).any(small), "nothing more goes in");
    // How the host is fills it no further, and the host is not away for that.
    let mut told = Live {
        version: WIRE_VERSION,
        boot: "b".into(),
        sent_us: now_us(),
        status: idle(),
        spool: SpoolFigures::default(),
        map: None,
        topology: None,
        asked: Vec::new(),
    };
    told.status.warnings =
        (0..20_000u64).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_string()).collect();
    assert_eq!(live(&served, &host, &told), 200);
    let hosts = served.hub.hosts().unwrap();
    assert!(hosts[0].here && hosts[0].live.as_ref().unwrap().status.warnings.len() == 20_000);
    let cookie = served.sign_in();
    assert_eq!(served.get("/jobs", one(&cookie)).status, 200);
    served.hub.store.revoke(Revoked::Name(Kind::Host, "alpha"), "test", now_us()).unwrap();
    // And a hub can be started on it.
    let again = Served::new(&dir.path().join("hub.db"), Some(1 << 20));
    again.hub.store.note("hub", "start", "again", now_us()).unwrap();
}

#[test]
fn patterns_of_many_asterisks_come_to_an_end() {
    let (_dir, served, host) = site(None);
    push(&served, &host, &bundle_of((1..=50).map(|job| report(job, &"a".repeat(200), 0)).collect()));
    let cookie = served.sign_in();
    let pattern = format!("{}b", "*a".repeat(150));
    assert_eq!(served.get(&format!("/jobs?{DAYS}&name={pattern}"), one(&cookie)).status, 200);
}

#[test]
fn a_link_can_be_made_for_a_name_of_any_kind() {
    let (_dir, served, _) = site(None);
    for name in ["", "<b>", "'; DROP TABLE sessions; --"] {
        let link =
            make_link(&served.hub.store, &served.url(), LinkFor { name, via: "", access: &Access::All })
                .unwrap();
        let code = link.split_once("code=").unwrap().1;
        let answer = served.form("/login", &[], &format!("code={code}"));
        assert_eq!(answer.status, 303);
    }
}

/// An idle host's word of itself.
fn idle_live() -> Live {
    Live {
        version: WIRE_VERSION,
        boot: "b".into(),
        sent_us: now_us(),
        status: idle(),
        spool: SpoolFigures::default(),
        map: None,
        topology: None,
        asked: Vec::new(),
    }
}

/// Whether the hub has answered what this stream asked.
fn is_answered(stream: &TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let is = matches!(stream.peek(&mut [0; 64]), Ok(1..));
    stream.set_nonblocking(false).unwrap();
    is
}

#[test]
fn a_host_that_sends_slowly_has_few_messages_on_their_way() {
    let (_dir, served, host) = site(None);
    let other = token(&served.hub.store, Kind::Host, "beta");
    let head = format!("POST /api/v1/live HTTP/1.1\r\nHost: x\r\n{}\r\n", bearer(&host));
    let begun = || {
        let mut stream = TcpStream::connect(served.address).unwrap();
        stream.write_all(format!("{head}Content-Length: 4000000\r\n\r\nslow").as_bytes()).unwrap();
        stream
    };
    let mut slow: Vec<TcpStream> = (0..4).map(|_| begun()).collect();
    // The hub has read the heads of all of them once one more is too many.
    let since = Instant::now();
    let refused = loop {
        let one_more =
            served.request("POST", "/api/v1/live", one(&bearer(&host)), &bundle::pack(&idle_live()).unwrap());
        if one_more.status != 200 {
            break one_more;
        }
        assert!(since.elapsed() < PATIENCE, "one more is never too many");
        // One more may have been there before the last of them, which was refused then.
        slow.iter_mut().filter(|stream| is_answered(stream)).for_each(|stream| *stream = begun());
    };
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.body.contains("4 messages of this host are on their way"), "{}", refused.body);
    assert_eq!(live(&served, &other, &idle_live()), 200);
    drop(slow);
    until("the host has room again", || live(&served, &host, &idle_live()) == 200);
    let long = served.raw(
        format!("POST /api/v1/key HTTP/1.1\r\nHost: x\r\n{}\r\nContent-Length: 20000\r\n\r\n", bearer(&host))
            .as_bytes(),
    );
    assert_eq!((long.status, long.body.trim()), (413, "the message is longer than 16384 bytes"));
}

#[test]
fn a_reader_that_takes_nothing_is_held_few_answers() {
    let (_dir, served, host) = site(None);
    push(&served, &host, &bundle_of(vec![report(1, "long", 25_000)]));
    let readers = ["ops", "desk"].map(|name| bearer(&token(&served.hub.store, Kind::Reader, name)));
    let path = "/api/v1/reports?series=true";
    let length = served.get(path, one(&readers[1])).body.len();
    assert!(length > 4_000_000, "{length}");
    let slow = {
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\n{}\r\n\r\n", readers[0]);
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stream = runtime.block_on(socket.connect(served.address)).unwrap().into_std().unwrap();
        stream.set_nonblocking(false).unwrap();
        (&stream).write_all(request.as_bytes()).unwrap();
        (&stream).read_exact(&mut [0; 100]).unwrap();
        stream
    };
    // That answer counts until it was taken, and others of the same viewer beside it.
    let ops = Taker { viewer: "reader ops".into(), host: None, sees_all: true };
    let take = |bytes: usize| share(&served.hub.answers, &ops, bytes);
    let left = OF_A_VIEWER_MAX_BYTES - length;
    let refused = take(left + 1).unwrap_err();
    assert!(refused.status == 429 && refused.words.contains("read those first"), "{refused:?}");
    // A hub gives such a reader up after a while: from here on as much is held by hand.
    let held = take(length).unwrap();
    drop(slow);
    let since = Instant::now();
    let room = loop {
        // Once the reader's is free.
        if let Ok(room) = take(left - 100_000) {
            break room;
        }
        assert!(since.elapsed() < PATIENCE, "what a reader held that is gone is not free");
        std::thread::yield_now();
    };
    let refused = served.get(path, one(&readers[0]));
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert_eq!(served.get("/api/v1/hosts", one(&readers[0])).status, 200, "short ones are not counted");
    assert_eq!(served.get(path, one(&readers[1])).body.len(), length, "others have room of their own");
    // Once there is none left nothing is asked any more that may have a long answer.
    let rest = take(100_000).unwrap();
    for path in ["/api/v1/hosts", "/api/v1/workflows", "/metrics"] {
        let refused = served.get(path, one(&readers[0]));
        assert_eq!(refused.status, 429, "{path}: {}", refused.body);
    }
    assert_eq!(served.request("POST", "/api/v1/login", one(&readers[0]), b"").status, 200);
    assert_eq!(served.get("/metrics", one(&readers[1])).status, 200);
    drop((held, room, rest));
    until("the reader has room again", || served.get(path, one(&readers[0])).status == 200);
    // All of them together have a bound, too.
    let other = |name: &str| Taker { viewer: format!("reader {name}"), host: None, sees_all: true };
    let all: Vec<_> = "abcdefgh"
        .split("")
        .filter(|name| !name.is_empty())
        .map(|name| share(&served.hub.answers, &other(name), OF_A_VIEWER_MAX_BYTES))
        .collect();
    assert!(all.iter().all(Result::is_ok));
    let refused = served.get(path, one(&readers[1]));
    assert_eq!(refused.status, 503, "{}", refused.body);
}

#[test]
fn short_messages_of_hosts_come_though_long_ones_come_slowly() {
    let (_dir, served, host) = site(None);
    // Hosts that announced as much as there is room for, and send nothing of it.
    let slow: Vec<_> = (0..16)
        .flat_map(|at| {
            let name = format!("slow{at}");
            (0..4).map(move |_| name.clone())
        })
        .map(|name| {
            let arrivals = &served.hub.arrivals;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(arrivals.room_for(&name, 4 << 20)).unwrap()
        })
        .collect();
    assert_eq!(live(&served, &host, &idle_live()), 200);
    drop(slow);
}

#[test]
fn a_session_and_a_reader_of_one_name_have_room_of_their_own() {
    let (_dir, served, _) = site(None);
    let cookie = served.sign_in();
    let session = Taker { viewer: "session tester".into(), host: None, sees_all: true };
    let full = share(&served.hub.answers, &session, OF_A_VIEWER_MAX_BYTES).unwrap();
    let reader = token(&served.hub.store, Kind::Reader, "tester");
    assert_eq!(served.get("/api/v1/hosts", &[bearer(&reader)]).status, 200);
    assert_eq!(served.get("/jobs", one(&cookie)).status, 429);
    drop(full);
    assert_eq!(served.get("/jobs", one(&cookie)).status, 200);
}
