//! What each role sees at each endpoint: users their own jobs, managers their projects', operators of a host that
//! host's, operators of the hub all of it. And whom the hub believes that somebody is who.
use std::collections::BTreeSet;
use std::slice::from_ref as one;

use pinfold_hub::server::answers::{OF_A_HOST_MAX_BYTES, share};
use pinfold_hub::server::takers::Taker;
use pinfold_hub::server::vouched::Trust;
use pinfold_hub::store::{Kind, Revoked, now_us};
use pinfold_hub::weekly::Week;
use pinfold_hubwire::bundle::{self, Live, SpoolFigures, WIRE_VERSION};
use pinfold_proto::view::WhyView;
use pinfold_proto::voucher::{self, JOIN, Statement, Voucher, hex};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::Value;

use crate::common::{Answer, Served, bearer, bundle_of, idle, machine, map, report, token};

/// A host's daemon, as far as it vouches.
struct Daemon {
    key: Ed25519KeyPair,
    token: String,
}

struct Site {
    served: Served,
    alpha: Daemon,
    beta: Daemon,
    reader: String,
    _dir: tempfile::TempDir,
}

/// Who asks.
#[derive(Clone, Copy)]
struct Person<'a> {
    user: &'a str,
    operator: bool,
    projects: &'a [&'a str],
}

const ANN: Person<'static> = Person { user: "ann", operator: false, projects: &[] };

impl Daemon {
    fn new(served: &Served, name: &str, seed: u8) -> Self {
        let key = Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap();
        Self { key, token: token(&served.hub.store, Kind::Host, name) }
    }

    fn sign(&self, statement: &Statement) -> Voucher {
        let statement = serde_json::to_string(statement).unwrap();
        let signature = hex(self.key.sign(&voucher::signed_text(&statement)).as_ref());
        Voucher { statement, signature, key: hex(self.key.public_key().as_ref()) }
    }

    fn join(&self, served: &Served, operator: bool) -> Answer {
        let person = Person { operator, ..ANN };
        let voucher = serde_json::to_vec(&self.sign(&statement(served, person, JOIN))).unwrap();
        served.request("POST", "/api/v1/key", &[bearer(&self.token)], &voucher)
    }

    fn head(&self, served: &Served, person: Person<'_>, method: &str, path: &str) -> String {
        head(&self.sign(&statement(served, person, &format!("{method} {path}"))))
    }

    fn get(&self, served: &Served, person: Person<'_>, path: &str) -> Answer {
        served.get(path, &[self.head(served, person, "GET", path)])
    }

    /// Signed in by a link; the line with the cookie.
    fn sign_in(&self, served: &Served, person: Person<'_>) -> String {
        let path = "/api/v1/login";
        let answer = served.request("POST", path, &[self.head(served, person, "POST", path)], b"");
        let answer: Value = serde_json::from_str(&answer.body).unwrap();
        let code = answer["url"].as_str().unwrap().split_once("code=").unwrap().1.to_owned();
        let answer = served.form("/login", &[], &format!("code={code}"));
        let line = answer.head.lines().find(|line| line.starts_with("set-cookie:")).unwrap();
        format!("Cookie: {}", line.trim_start_matches("set-cookie: ").split(';').next().unwrap())
    }
}

fn head(voucher: &Voucher) -> String {
    format!("Authorization: Pinfold {}", hex(&serde_json::to_vec(voucher).unwrap()))
}

fn statement(served: &Served, person: Person<'_>, request: &str) -> Statement {
    Statement {
        version: voucher::VERSION,
        audience: served.url(),
        request: request.to_owned(),
        signed_us: now_us(),
        uid: 1_000,
        user: person.user.to_owned(),
        operator: person.operator,
        projects: person.projects.iter().map(|&name| name.to_owned()).collect(),
    }
}

/// Jobs 1 to 3 on each of two hosts: of ann, of bea in the project web, of cyn; and as many that run, 11 to 13.
fn site(trust: Trust) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::trusting(&dir.path().join("hub.db"), None, trust);
    let (alpha, beta) = (Daemon::new(&served, "alpha", 1), Daemon::new(&served, "beta", 2));
    for daemon in [&alpha, &beta] {
        assert_eq!(daemon.join(&served, true).status, 200);
        let people = [("ann", None), ("bea", Some("web")), ("cyn", None)];
        let jobs = (1..).zip(people).map(|(job, (user, project))| {
            let mut report = report(job, user, 3);
            (report.user, report.project) = (user.to_owned(), project.map(str::to_owned));
            // All say one run; a run is one user's all the same.
            report.comment = Some("workflow=w run=r".to_owned());
            report
        });
        let packed = bundle::pack(&bundle_of(jobs.collect())).unwrap();
        let lines = [bearer(&daemon.token)];
        assert_eq!(served.request("POST", "/api/v1/bundles", &lines, &packed).status, 200);
        let mut status = idle();
        status.jobs = (11..).zip(people).map(|(job, (user, project))| serde_json::from_value(serde_json::json!({
            "job": job, "name": "runs", "user": user, "project": project, "state": "running", "class": "primary", "priority": 1,
            "cpus": null, "memory_bytes": 1, "swap_bytes": null, "pids": [], "submitted_s": 1.0, "started_s": 2.0,
            "ended_s": null, "exit_code": null, "signal": null, "reason": null })).unwrap()).collect();
        status.resources = map().resources;
        let spool = SpoolFigures::default();
        let live = Live {
            version: WIRE_VERSION,
            boot: "b".into(),
            sent_us: now_us(),
            status,
            spool,
            map: Some(map()),
            topology: Some(Box::new(machine())),
            asked: Vec::new(),
        };
        let packed = bundle::pack(&live).unwrap();
        assert_eq!(served.request("POST", "/api/v1/live", &lines, &packed).status, 200);
    }
    let reader = token(&served.hub.store, Kind::Reader, "ops");
    Site { served, alpha, beta, reader, _dir: dir }
}

/// Jobs as `alpha 1`.
fn set(jobs: &[&str]) -> BTreeSet<String> {
    jobs.iter().map(|&job| job.to_owned()).collect()
}

const ALL: [&str; 6] = ["alpha 1", "alpha 2", "alpha 3", "beta 1", "beta 2", "beta 3"];

/// Jobs that the statuses of both hosts name as those that have a GPU.
fn holders(status: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for host in status["hosts"].as_array().unwrap() {
        let (name, gpu) = (host["of"]["host"].as_str().unwrap(), &host["status"]["resources"][0]);
        let own = |job: &Value| format!("{name} {}", job.as_u64().unwrap() - 10);
        let jobs: BTreeSet<String> = gpu["jobs"].as_array().unwrap().iter().map(own).collect();
        let device = &gpu["devices"][0]["job"];
        assert_eq!(!device.is_null(), jobs.contains(&format!("{name} 3")), "{gpu}");
        found.extend(jobs);
    }
    found
}

/// Jobs that the maps of both hosts name, as often as they do: as the job of a set, in a set of cores, on a node, with
/// a GPU.
fn mapped(json: &dyn Fn(&str) -> Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for host in ["alpha", "beta"] {
        let told = json(&format!("/api/v1/map?host={host}"));
        let map = &told["map"];
        assert_eq!((&map["host"], told["topology"]["pus"].as_array().unwrap().len()), (&host.into(), 8));
        let sets = map["sets"].as_array().unwrap();
        assert_eq!(sets.len(), 3, "that there are jobs is told to all");
        let of_sets: Vec<u64> = sets.iter().filter_map(|set| set["job"].as_u64()).collect();
        let named = sets.iter().filter(|set| set["name"] == "s3cr3t" && set["set"] != "job").count();
        assert_eq!(named, of_sets.len());
        let jobs = |list: &Value| -> Vec<u64> {
            list.as_array().unwrap().iter().filter_map(Value::as_u64).collect()
        };
        for list in [&map["set_asides"][0]["jobs"], &map["chunks"][0]["jobs"], &map["resources"][0]["jobs"]] {
            assert_eq!(jobs(list), of_sets, "{map}");
        }
        let device = map["resources"][0]["devices"][0]["job"].as_u64();
        assert_eq!(device, of_sets.iter().copied().find(|job| *job == 13), "{map}");
        found.extend(of_sets.iter().map(|job| format!("{host} {}", job - 10)));
    }
    found
}

/// Which jobs the page of each host and its picture name.
fn pages_of_hosts(page: &dyn Fn(&str) -> String, want: &BTreeSet<String>) {
    for host in ["alpha", "beta"] {
        let mine: Vec<&String> = want.iter().filter(|job| job.starts_with(host)).collect();
        // The page links jobs, its pictures have their titles.
        for (path, before, after) in [
            (format!("/hosts/{host}"), format!("/hosts/{host}/jobs/1"), "\""),
            (format!("/hosts/{host}/map.svg"), "job 1".to_owned(), " s3cr3t"),
            (format!("/hosts/{host}/map.svg?dark=true"), "job 1".to_owned(), " s3cr3t"),
        ] {
            let told = page(&path);
            for job in ["1", "2", "3"] {
                let title = format!("{before}{job}{after}");
                assert_eq!(
                    told.contains(&title),
                    mine.iter().any(|mine| mine.ends_with(job)),
                    "{path} {job}: {told}"
                );
            }
        }
        assert!(page(&format!("/hosts/{host}/map.svg?small=true")).starts_with("<svg"));
        assert!(page("/?cards=true").contains(&format!("/hosts/{host}/map.svg?small=true")));
        assert!(page(&format!("/hosts/{host}/day.svg")).starts_with("<svg"));
    }
}

/// Which jobs views of many jobs together count: runs of workflows, weeks, comparisons.
fn sums(
    site: &Site,
    json: &dyn Fn(&str) -> Value,
    api: &dyn Fn(&str) -> Answer,
    cookie: &str,
    want: &BTreeSet<String>,
) {
    let get = |path: &str| site.served.get(path, &[cookie.to_owned()]);
    let runs = json("/api/v1/workflows");
    let mut found = std::collections::BTreeMap::new();
    for run in runs["runs"].as_array().unwrap() {
        found.insert(run["user"].as_str().unwrap().to_owned(), run["jobs"].as_u64().unwrap());
    }
    let week = Week::of(bundle::microseconds(report(1, "x", 0).ended_s.unwrap()));
    for (user, number) in [("ann", '1'), ("bea", '2'), ("cyn", '3')] {
        let jobs = want.iter().filter(|job| job.ends_with(number)).count() as u64;
        assert_eq!(found.remove(user), (jobs > 0).then_some(jobs), "runs of {user}");
        let run = format!("workflow=w&user={user}&run=r");
        let seen = if jobs > 0 { 200 } else { 404 };
        let answer = api(&format!("/api/v1/run?{run}"));
        assert_eq!(answer.status, seen, "{run}");
        if jobs > 0 {
            let told: Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(
                told["steps"]
                    .as_array()
                    .unwrap()
                    .iter()
                    .map(|step| step["jobs"].as_u64().unwrap())
                    .sum::<u64>(),
                jobs
            );
        }
        for path in ["/workflows/run", "/workflows/steps.csv", "/workflows/steps.parquet"] {
            assert_eq!(get(&format!("{path}?{run}")).status, seen, "{path}?{run}");
        }
        let told = json(&format!("/api/v1/weekly?week={week}&user={user}"));
        assert_eq!(told["sums"]["jobs"].as_u64(), Some(jobs), "{told}");
        let page = get(&format!("/weekly?week={week}&user={user}")).body;
        assert_eq!(page.contains("No job ended"), jobs == 0, "{page}");
    }
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(
        json(&format!("/api/v1/weekly?week={week}"))["sums"]["jobs"].as_u64(),
        Some(want.len() as u64)
    );
    let csv = get("/workflows.csv?days=3650").body;
    let jobs: u64 =
        csv.lines().skip(1).map(|row| row.split(',').nth(7).unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(jobs, want.len() as u64, "{csv}");
    for (one, other) in
        (1..=6).flat_map(|one| (1..=6).map(move |other| (one, other))).filter(|(one, other)| one < other)
    {
        let seen = [one, other].iter().all(|id| want.contains(ALL[id - 1]));
        for what in ["", ".csv", ".parquet", ".svg"] {
            let path = format!("/compare{what}?job={one}&job={other}");
            assert_eq!(get(&path).status, if seen { 200 } else { 404 }, "{path}");
        }
    }
}

/// The keys are those that `pinfold why --json` has on the host, and `host`.
#[track_caller]
fn has_all_keys_of_why(body: &str) {
    let mut told: Value = serde_json::from_str(body).unwrap();
    let view: WhyView = serde_json::from_value(told.clone()).unwrap();
    assert!(told.as_object_mut().unwrap().remove("host").is_some(), "{body}");
    assert_eq!(serde_json::to_value(view).unwrap(), told);
    let is_over = told["state"] == "exited";
    assert_eq!(!told["change"].as_str().unwrap().is_empty(), is_over, "{told}");
    assert_ne!(told["cause"], "", "the host's has one in each state: {told}");
}

/// What somebody sees through every endpoint: by the API as `api` asks, on the page with `cookie`.
#[track_caller]
fn check(site: &Site, api: impl Fn(&str) -> Answer, cookie: &str, want: &[&str]) {
    let want = set(want);
    let json = |path: &str| -> Value {
        let answer = api(path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        serde_json::from_str(&answer.body).unwrap()
    };
    let told = json("/api/v1/reports?series=true");
    let told = told["reports"].as_array().unwrap().iter();
    let found =
        told.map(|one| format!("{} {}", one["host"].as_str().unwrap(), one["job"])).collect::<BTreeSet<_>>();
    assert_eq!(found, want, "reports");
    let status = json("/api/v1/status");
    let mut running = BTreeSet::new();
    for host in status["hosts"].as_array().unwrap() {
        let name = host["of"]["host"].as_str().unwrap();
        let jobs = host["status"]["jobs"].as_array().unwrap().iter();
        running.extend(jobs.map(|job| format!("{name} {}", job["job"].as_u64().unwrap() - 10)));
    }
    assert_eq!(running, want, "status");
    assert_eq!(holders(&status), want, "resources in the status");
    assert_eq!(mapped(&json), want, "map");
    for (id, job) in (1..).zip(ALL) {
        let (host, number) = job.split_once(' ').unwrap();
        let seen = want.contains(job);
        for of in [number.to_owned(), format!("1{number}")] {
            let answer = api(&format!("/api/v1/why?host={host}&job={of}"));
            assert_eq!(answer.status, if seen { 200 } else { 404 }, "why {job}");
            if seen {
                has_all_keys_of_why(&answer.body);
            }
            let named = api(&format!("/api/v1/reports?host={host}&job={number}")).body;
            assert_eq!(named.contains("\"job\":"), seen, "{job}: {named}");
        }
        for what in ["", "/series.csv", "/chart.svg"] {
            let answer = site.served.get(&format!("/jobs/{id}{what}"), &[cookie.to_owned()]);
            assert_eq!(answer.status, if seen { 200 } else { 404 }, "/jobs/{id}{what} as {job}");
        }
    }
    let page = |path: &str| site.served.get(path, &[cookie.to_owned()]).body;
    let csv = page("/jobs.csv?days=3650");
    let rows = csv.lines().skip(1).map(|row| row.split(',').take(2).collect::<Vec<_>>().join(" "));
    assert_eq!(rows.collect::<BTreeSet<_>>(), want, "jobs.csv");
    for table in ["/classes.csv", "/users.csv", "/projects.csv"] {
        let csv = page(&format!("{table}?days=3650"));
        let jobs: usize =
            csv.lines().skip(1).map(|row| row.split(',').nth(1).unwrap().parse::<usize>().unwrap()).sum();
        assert_eq!(jobs, want.len(), "{table}: {csv}");
    }
    weeks(&page, &json, want.len());
    pages_of_hosts(&page, &want);
    sums(site, &json, &api, cookie, &want);
    for user in ["ann", "bea", "cyn"] {
        let seen = want.iter().any(|job| match user {
            "ann" => job.ends_with('1'),
            "bea" => job.ends_with('2'),
            _ => job.ends_with('3'),
        });
        for view in ["/?cards=true", "/jobs?days=3650", "/classes?days=3650", "/users?days=3650"] {
            let body = page(view);
            let main = body.split("<main").nth(1).unwrap();
            assert_eq!(main.contains(&format!(">{user}<")), seen, "{view} and {user}: {body}");
        }
    }
}

/// A class by week is of those jobs that its viewer may see, on the page, in its file and for programs.
#[track_caller]
fn weeks(page: &dyn Fn(&str) -> String, json: &dyn Fn(&str) -> Value, want: usize) {
    let csv = page("/classes/weeks.csv?days=3650&name=*");
    let jobs = csv.lines().skip(1).map(|row| row.split(',').nth(1).unwrap().parse::<usize>().unwrap());
    assert_eq!(jobs.sum::<usize>(), want, "{csv}");
    let view = page("/classes/weeks?days=3650&name=*");
    assert_eq!(view.contains("No such job"), want == 0, "{view}");
    let told = json("/api/v1/class?name=*&since_us=0");
    for list in ["weeks", "hosts"] {
        let jobs = told[list].as_array().unwrap().iter().map(|row| row["jobs"].as_u64().unwrap());
        assert_eq!(usize::try_from(jobs.sum::<u64>()).unwrap(), want, "{list}: {told}");
    }
}

fn as_user(site: &Site, daemon: &Daemon, person: Person<'_>, want: &[&str], of_the_hub: bool) {
    let cookie = daemon.sign_in(&site.served, person);
    check(site, |path| daemon.get(&site.served, person, path), &cookie, want);
    for view in ["/audit", "/audit.csv", "/tokens"] {
        let answer = site.served.get(view, one(&cookie));
        assert_eq!(answer.status, if of_the_hub { 200 } else { 403 }, "{view}");
    }
    let nav = site.served.get("/", one(&cookie)).body;
    assert_eq!(nav.contains("href=\"/tokens\""), of_the_hub);
    // The form that revokes, with the session's own secret.
    let at = nav.find("name=\"csrf\" value=\"").unwrap() + "name=\"csrf\" value=\"".len();
    let form = format!("csrf={}&token=999", &nav[at..at + 64]);
    let answer = site.served.form("/tokens", one(&cookie), &form);
    assert_eq!(answer.status, if of_the_hub { 404 } else { 403 }, "no such token, or not theirs to revoke");
    assert_eq!(daemon.get(&site.served, person, "/metrics").status, 401);
    for path in ["/api/v1/bundles", "/api/v1/live", "/api/v1/key"] {
        let line = daemon.head(&site.served, person, "POST", path);
        assert_eq!(site.served.request("POST", path, &[line], b"x").status, 401, "{path}");
    }
}

#[test]
fn each_role_sees_what_is_its_own_at_each_endpoint() {
    let site = site(Trust::default());
    as_user(&site, &site.alpha, ANN, &["alpha 1"], false);
    as_user(&site, &site.beta, ANN, &["beta 1"], false);
    as_user(&site, &site.alpha, Person { user: "nobody", ..ANN }, &[], false);
    as_user(&site, &site.alpha, Person { projects: &["web", "none"], ..ANN }, &["alpha 1", "alpha 2"], false);
    let operator = Person { user: "root", operator: true, projects: &[] };
    as_user(&site, &site.alpha, operator, &["alpha 1", "alpha 2", "alpha 3"], false);
    let cookie = site.served.sign_in();
    check(&site, |path| site.served.get(path, &[bearer(&site.reader)]), &cookie, &ALL);
}

#[test]
fn users_of_a_trusted_host_are_the_same_people_everywhere() {
    let site = site(Trust {
        hosts: vec!["alpha".into()],
        operators: vec!["root".into()],
        managers: vec![("web".into(), "ann".into())],
    });
    as_user(&site, &site.alpha, ANN, &["alpha 1", "alpha 2", "beta 1", "beta 2"], false);
    as_user(&site, &site.alpha, Person { user: "cyn", ..ANN }, &["alpha 3", "beta 3"], false);
    as_user(&site, &site.alpha, Person { user: "root", ..ANN }, &ALL, true);
    // The other host's word is good for itself alone.
    as_user(&site, &site.beta, ANN, &["beta 1"], false);
    let root = Person { user: "root", operator: true, projects: &["web"] };
    as_user(&site, &site.beta, root, &["beta 1", "beta 2", "beta 3"], false);
}

#[test]
fn a_voucher_is_good_for_its_hub_its_request_and_its_minutes() {
    let site = site(Trust::default());
    let (served, path) = (&site.served, "/api/v1/hosts");
    let good = statement(served, ANN, &format!("GET {path}"));
    let ask = |line: String| served.get(path, &[line]).status;
    let check = |statement: &Statement, want: u16, what: &str| {
        assert_eq!(ask(head(&site.alpha.sign(statement))), want, "{what}");
    };
    check(&good, 200, "good");
    check(&good, 401, "used before");
    check(
        &Statement { signed_us: good.signed_us - 100_000_000, ..good.clone() },
        401,
        "from before the hub was started",
    );
    check(&Statement { signed_us: good.signed_us + 1, ..good.clone() }, 200, "another one");
    check(&Statement { audience: "https://evil.example".into(), ..good.clone() }, 401, "another hub's");
    check(&Statement { audience: String::new(), ..good.clone() }, 401, "nobody's");
    for request in ["GET /api/v1/status", "POST /api/v1/hosts", "GET /api/v1/hosts?x=1", JOIN, ""] {
        check(&Statement { request: request.into(), ..good.clone() }, 401, request);
    }
    for off_us in [-400_000_000i64, 400_000_000] {
        let signed_us = good.signed_us.saturating_add_signed(off_us);
        check(&Statement { signed_us, ..good.clone() }, 401, "old, or to come");
    }
    check(&Statement { signed_us: u64::MAX, ..good.clone() }, 401, "at the end of time");
    check(&Statement { version: 2, ..good.clone() }, 401, "of another version");
    let mut changed = site.alpha.sign(&good);
    changed.statement = changed.statement.replace("\"operator\":false", "\"operator\":true");
    assert_eq!(ask(head(&changed)), 401, "changed after it was signed");
    let mut others = site.alpha.sign(&good);
    others.key = hex(site.beta.key.public_key().as_ref());
    assert_eq!(ask(head(&others)), 401, "signed by another host than it says");
    let stranger = Ed25519KeyPair::from_seed_unchecked(&[9; 32]).unwrap();
    let stranger = Daemon { key: stranger, token: String::new() };
    assert_eq!(ask(head(&stranger.sign(&good))), 401, "of no host that is known");
    for bad in ["", "00", "zz", &hex(b"{}"), &hex(b"null"), &"0".repeat(10_000)] {
        assert_eq!(ask(format!("Authorization: Pinfold {bad}")), 401, "{bad}");
    }
    let empty = Voucher { statement: String::new(), signature: String::new(), key: String::new() };
    assert_eq!(ask(head(&empty)), 401, "an empty key");
    // A host whose tokens are revoked vouches for nobody, and what it vouched for ends.
    let cookie = site.alpha.sign_in(served, ANN);
    assert_eq!(served.get("/jobs", one(&cookie)).status, 200);
    served.hub.store.revoke(Revoked::Name(Kind::Host, "alpha"), "test", now_us()).unwrap();
    check(&statement(served, ANN, &format!("GET {path}")), 401, "of a host that is revoked");
    assert_eq!(served.get("/jobs", one(&cookie)).status, 303);
}

#[test]
fn a_hub_that_is_new_knows_by_which_clock_a_host_signs() {
    const AHEAD_US: u64 = 400_000_000;
    let dir = tempfile::tempdir().unwrap();
    let database = dir.path().join("hub.db");
    let first = Served::new(&database, None);
    let alpha = Daemon::new(&first, "alpha", 1);
    assert_eq!(alpha.join(&first, true).status, 200);
    let live = Live {
        version: WIRE_VERSION,
        boot: "b".into(),
        sent_us: now_us() + AHEAD_US,
        status: idle(),
        spool: SpoolFigures::default(),
        map: None,
        topology: None,
        asked: Vec::new(),
    };
    let packed = bundle::pack(&live).unwrap();
    assert_eq!(first.request("POST", "/api/v1/live", &[bearer(&alpha.token)], &packed).status, 200);
    let before_us = now_us();
    // Another hub of the same database, which has not heard the host itself.
    let second = Served::new(&database, None);
    let path = "/api/v1/hosts";
    let ask = |signed_us: u64| {
        let good = Statement { signed_us, ..statement(&second, ANN, &format!("GET {path}")) };
        second.get(path, &[head(&alpha.sign(&good))])
    };
    let now = ask(now_us() + AHEAD_US);
    assert_eq!(now.status, 200, "{}", now.body);
    // By that host's clock it was signed before this hub began, which cannot know whether it was used.
    let before = ask(before_us + AHEAD_US - 100_000_000);
    assert!(before.status == 401 && before.body.contains("before this hub was started"), "{}", before.body);
}

#[test]
fn long_answers_to_users_and_their_sessions_count_for_the_host_that_vouches() {
    let site = site(Trust::default());
    let (served, alpha, beta) = (&site.served, &site.alpha, &site.beta);
    for daemon in [alpha, beta] {
        let packed = bundle::pack(&bundle_of(vec![report(9, "long", 3_000)])).unwrap();
        let lines = [bearer(&daemon.token)];
        assert_eq!(served.request("POST", "/api/v1/bundles", &lines, &packed).status, 200);
    }
    let cookies = [alpha, beta].map(|daemon| daemon.sign_in(served, ANN));
    let path = "/api/v1/reports?series=true";
    let statuses = || {
        let by_voucher = [alpha, beta].map(|daemon| daemon.get(served, ANN, path).status);
        // One of these jobs is of each host.
        let by_session = |cookie| {
            let all = [7, 8].map(|job| served.get(&format!("/jobs/{job}/series.csv"), one(cookie)).status);
            all.into_iter().find(|status| *status != 404).unwrap()
        };
        (by_voucher, [by_session(&cookies[0]), by_session(&cookies[1])])
    };
    assert_eq!(statuses(), ([200, 200], [200, 200]));
    // Users whom nobody knows but the host.
    let held: Vec<_> = (0..4)
        .map(|user| {
            let taker = Taker::user(&format!("made-up-{user}@alpha"), "alpha", false);
            share(&served.hub.answers, &taker, OF_A_HOST_MAX_BYTES / 4).unwrap()
        })
        .collect();
    assert_eq!(statuses(), ([429, 200], [429, 200]));
    let refused = alpha.get(served, ANN, path).body;
    assert!(refused.contains("users of host alpha"), "{refused}");
    assert_eq!(alpha.get(served, ANN, "/api/v1/me").status, 200);
    drop(held);
    assert_eq!(statuses(), ([200, 200], [200, 200]));
}

#[test]
fn a_key_is_made_known_by_an_operator_and_is_one_host_s() {
    let site = site(Trust::default());
    assert_eq!(site.alpha.join(&site.served, false).status, 403);
    // A copied state directory: the other host has the key already.
    let copy = Daemon {
        key: Ed25519KeyPair::from_seed_unchecked(&[1; 32]).unwrap(),
        token: token(&site.served.hub.store, Kind::Host, "gamma"),
    };
    let answer = copy.join(&site.served, true);
    assert!(answer.status == 409 && answer.body.contains("voucher.key"), "{answer:?}");
    for (bad, want) in [(&b""[..], 400), (b"{}", 400), (&vec![b'x'; 20_000], 413)] {
        assert_eq!(site.served.request("POST", "/api/v1/key", &[bearer(&copy.token)], bad).status, want);
    }
    // A new key replaces the old one, which is good no longer.
    let renewed = Daemon {
        key: Ed25519KeyPair::from_seed_unchecked(&[3; 32]).unwrap(),
        token: site.alpha.token.clone(),
    };
    assert_eq!(renewed.join(&site.served, true).status, 200);
    assert_eq!(renewed.get(&site.served, ANN, "/api/v1/me").status, 200);
    assert_eq!(site.alpha.get(&site.served, ANN, "/api/v1/me").status, 401);
    let me = renewed.get(&site.served, ANN, "/api/v1/me").body;
    assert!(me.contains("ann@alpha") && me.contains("jobs of ann on alpha"), "{me}");
}
