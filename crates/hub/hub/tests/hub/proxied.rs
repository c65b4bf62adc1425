//! Sign-in by a proxy's header: whom it is believed about, from where, and from whom it is not.
use std::slice::from_ref as one;

use axum::http::HeaderName;
use pinfold_hub::server::proxied::{Net, Proxy};
use pinfold_hub::server::vouched::Trust;
use pinfold_hub::store::Kind;
use pinfold_hubwire::bundle;

use crate::common::{Answer, Served, bearer, bundle_of, report, token};

const SECRET: &str = "0123456789abcdef0123456789abcdef";

struct Site {
    served: Served,
    _dir: tempfile::TempDir,
}

/// A hub behind a proxy with this address, with jobs of ann, bea (in the project web) and root.
fn site(address: &str) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let proxy = Proxy {
        user_header: HeaderName::from_static("x-auth-request-user"),
        peers: vec![Net::read(address).unwrap()],
        secret: Some((HeaderName::from_static("x-pinfold-proxy-secret"), SECRET.to_owned())),
        operators: vec!["olga".to_owned()],
    };
    let trust = Trust {
        hosts: vec!["alpha".into()],
        // Of hosts' users, not of the proxy's.
        operators: vec!["ann".into(), "root".into()],
        managers: vec![("web".into(), "mia".into())],
    };
    let served = Served::behind(&dir.path().join("hub.db"), None, trust, Some(proxy));
    let host = token(&served.hub.store, Kind::Host, "alpha");
    let jobs =
        (1..).zip([("ann", None), ("bea", Some("web")), ("root", None)]).map(|(job, (user, project))| {
            let mut report = report(job, user, 3);
            (report.user, report.project) = (user.to_owned(), project.map(str::to_owned));
            report
        });
    let packed = bundle::pack(&bundle_of(jobs.collect())).unwrap();
    assert_eq!(served.request("POST", "/api/v1/bundles", &[bearer(&host)], &packed).status, 200);
    Site { served, _dir: dir }
}

fn lines(user: &str) -> Vec<String> {
    vec![format!("X-Auth-Request-User: {user}"), format!("X-Pinfold-Proxy-Secret: {SECRET}")]
}

impl Site {
    fn get(&self, path: &str, user: &str) -> Answer {
        self.served.get(path, &lines(user))
    }

    /// The users whose jobs somebody sees.
    fn seen(&self, lines: &[String]) -> Vec<String> {
        let csv = self.served.get("/users.csv?days=3650", lines).body;
        let mut seen: Vec<String> =
            csv.lines().skip(1).filter_map(|row| row.split(',').next()).map(str::to_owned).collect();
        seen.sort();
        seen
    }
}

#[test]
fn each_sees_what_is_their_own() {
    let site = site("127.0.0.1");
    assert_eq!(site.seen(&lines("ann")), ["ann"], "operators of hosts' users are none of the proxy's");
    assert_eq!(site.seen(&lines("mia")), ["bea"], "of the project that she manages");
    assert_eq!(site.seen(&lines("olga")), ["ann", "bea", "root"]);
    assert_eq!(site.seen(&lines("nobody@example.org")), Vec::<String>::new());
    for (user, status) in [("ann", 403), ("mia", 403), ("olga", 200)] {
        for path in ["/audit", "/tokens", "/audit.csv"] {
            assert_eq!(site.get(path, user).status, status, "{path} as {user}");
        }
    }
    let page = site.get("/", "ann").body;
    assert!(page.contains(">ann<") && !page.contains("/logout"), "{page}");
}

#[test]
fn the_header_counts_from_the_proxy_alone() {
    let elsewhere = site("10.1.2.3");
    for path in ["/", "/jobs", "/jobs.csv", "/audit", "/weekly", "/workflows", "/compare?job=1&job=2"] {
        let answer = elsewhere.get(path, "olga");
        assert_eq!(answer.status, 303, "{path}: from an address that is not the proxy's");
        assert!(answer.head.contains("location: /login"), "{}", answer.head);
    }
    let site = site("127.0.0.1");
    let user = "X-Auth-Request-User: olga".to_owned();
    let wrong = ["", "0123456789abcdef0123456789abcdeF", "0", &format!("{SECRET}0")];
    for secret in wrong {
        let answer = site.served.get("/jobs", &[user.clone(), format!("X-Pinfold-Proxy-Secret: {secret}")]);
        assert_eq!(answer.status, 403, "{secret:?}");
        assert!(!answer.body.contains(SECRET));
    }
    assert_eq!(site.served.get("/jobs", one(&user)).status, 403, "without the secret");
    let twice =
        vec![user, format!("X-Pinfold-Proxy-Secret: {SECRET}"), format!("X-Pinfold-Proxy-Secret: {SECRET}")];
    assert_eq!(site.served.get("/jobs", &twice).status, 403, "with two secrets");
    // Programs ask with tokens.
    for path in ["/api/v1/hosts", "/api/v1/reports", "/metrics"] {
        assert_eq!(site.get(path, "olga").status, 401, "{path}");
    }
}

#[test]
fn what_names_nobody_signs_nobody_in() {
    let site = site("127.0.0.1");
    let markup = "<script>alert(1)</script>";
    for name in [
        "",
        " ",
        "root",
        "ann bea",
        "ann, olga",
        markup,
        "-x",
        "'; DROP TABLE jobs; --",
        "\u{e9}",
        &"a".repeat(65),
    ] {
        let answer = site.get("/jobs", name);
        assert_eq!(answer.status, 403, "{name:?}");
        assert!(!answer.body.contains("<script"), "{}", answer.body);
    }
    let mut two = lines("ann");
    two.push("X-Auth-Request-User: olga".to_owned());
    assert_eq!(site.served.get("/jobs", &two).status, 403, "two names");
    two[2] = "x-auth-request-user: ann".to_owned();
    assert_eq!(site.served.get("/jobs", &two).status, 403, "the same name twice");
    // A session counts where the proxy says nothing, and not beside its word.
    let cookie = site.served.sign_in();
    assert_eq!(site.seen(one(&cookie)).len(), 3);
    let mut both = lines("ann");
    both.push(cookie.clone());
    assert_eq!(site.seen(&both), ["ann"]);
    both[0] = "X-Auth-Request-User: root".to_owned();
    assert_eq!(site.served.get("/jobs", &both).status, 403);
}

#[test]
fn forms_have_the_user_s_own_secret() {
    let site = site("127.0.0.1");
    let csrf = |user: &str| {
        let page = site.get("/tokens", user).body;
        let at = page.find("name=\"csrf\" value=\"").map(|at| at + "name=\"csrf\" value=\"".len());
        at.map(|at| page[at..at + 64].to_owned()).unwrap_or_default()
    };
    let olga = csrf("olga");
    assert_eq!(olga.len(), 64);
    let revoke = |user: &str, csrf: &str, more: &[String]| {
        let all = [&lines(user)[..], more].concat();
        site.served.form("/tokens", &all, &format!("csrf={csrf}&token=999")).status
    };
    assert_eq!(revoke("olga", &olga, &[]), 404, "no such token");
    assert_eq!(revoke("olga", &"0".repeat(64), &[]), 403);
    assert_eq!(revoke("olga", "", &[]), 403);
    assert_eq!(revoke("ann", &olga, &[]), 403, "no operator");
    assert_eq!(revoke("olga", &olga, &["Origin: https://evil.example".to_owned()]), 403);
    assert_eq!(revoke("olga", &olga, &["Sec-Fetch-Site: cross-site".to_owned()]), 403);
    // Signing in is noted once, whatever is asked.
    let noted = site.served.hub.store.audit(100, 0).unwrap();
    let of = |name: &str| noted.iter().filter(|act| act.action == "login" && act.who == name).count();
    assert_eq!((of("olga"), of("ann"), of("root")), (1, 1, 0));
}
