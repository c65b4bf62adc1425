//! What hosts are told of each other's classes of jobs: figures alone, of hosts that are believed, signed, rising in number.
use pinfold_hub::learning;
use pinfold_hub::server::vouched::Trust;
use pinfold_hub::store::{Kind, RUNS_MIN, Whose, class_of};
use pinfold_hubwire::bundle;
use pinfold_proto::End;
use pinfold_proto::learned::{self, EVERYBODY, ROWS_MAX, Row, Signed, Table};
use pinfold_proto::view::ReportView;
use pinfold_proto::voucher::{hex, unhex};
use ring::signature::{ED25519, UnparsedPublicKey};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::common::{Answer, Served, bearer, bundle_of, report, token};

struct Site {
    served: Served,
    alpha: String,
    beta: String,
    liar: String,
    _dir: tempfile::TempDir,
}

/// Three hosts, of which two are believed about users.
fn site() -> Site {
    let dir = tempfile::tempdir().unwrap();
    let trust = Trust { hosts: vec!["alpha".into(), "beta".into()], ..Trust::default() };
    let served = Served::trusting(&dir.path().join("hub.db"), None, trust);
    let host = |name| token(&served.hub.store, Kind::Host, name);
    let (alpha, beta, liar) = (host("alpha"), host("beta"), host("liar"));
    Site { served, alpha, beta, liar, _dir: dir }
}

impl Site {
    fn push(&self, token: &str, jobs: Vec<ReportView>) {
        let packed = bundle::pack(&bundle_of(jobs)).unwrap();
        let answer = self.served.request("POST", "/api/v1/bundles", &[bearer(token)], &packed);
        assert_eq!(answer.status, 200, "{}", answer.body);
    }

    fn ask(&self, token: &str, above: u64) -> Answer {
        self.served.get(&format!("/api/v1/learned?above={above}"), &[bearer(token)])
    }

    /// The table in force, whose signature is the hub's.
    fn table(&self) -> Table {
        let answer: Value = serde_json::from_str(&self.ask(&self.alpha, 0).body).unwrap();
        let signed: Signed = serde_json::from_value(answer["signed"].clone()).unwrap();
        let me = self.served.get("/api/v1/me", &[bearer(&self.alpha)]).body;
        let me: Value = serde_json::from_str(&me).unwrap();
        let key = unhex(me["key"].as_str().unwrap()).unwrap();
        UnparsedPublicKey::new(&ED25519, key)
            .verify(&learned::signed_text(&signed.table), &unhex(&signed.signature).unwrap())
            .unwrap();
        for secret in ["ann", "align", "alpha", "beta"] {
            assert!(!signed.table.contains(secret), "{}", signed.table);
        }
        Table::read(&signed.table).unwrap()
    }

    fn row(&self, user: &str) -> Option<Row> {
        let class = class(user);
        self.table().rows.into_iter().find(|row| row.class == class)
    }
}

/// Jobs that ended now, with these peaks, of which the host measured some.
fn jobs(from: u64, peaks: &[(u64, Option<u64>)]) -> Vec<ReportView> {
    let job = |(job, (peak, kernel)): (u64, &(u64, Option<u64>))| {
        let mut report = report(job, "align", 0);
        let now_s = pinfold_proto::view::seconds(pinfold_hub::store::now_us()).floor();
        report.ended_s = Some(now_s);
        (report.memory_peak_bytes, report.memory_peak_kernel_bytes) = (*peak, *kernel);
        report
    };
    (from..).zip(peaks).map(job).collect()
}

fn class(user: &str) -> String {
    let command = ["align".to_owned(), "-x".to_owned()];
    let likeness = Sha256::digest(learned::likeness(&command, "align", 2).unwrap());
    hex(&class_of(&likeness, user)[..learned::CLASS_BYTES])
}

#[test]
fn hosts_are_told_what_a_user_s_jobs_held_elsewhere() {
    let site = site();
    let nothing = site.ask(&site.alpha, 0);
    assert_eq!((nothing.status, nothing.body.as_str()), (200, r#"{"signed":null,"version":1}"#));
    site.push(&site.alpha, jobs(1, &[(100, None), (200, None)]));
    assert_eq!(learning::renew(&site.served.hub, Whose::Users).unwrap(), None, "too few runs to tell of");
    site.push(&site.beta, jobs(1, &[(300, None), (400, Some(350))]));
    // Nobody asked this host, and it says what it likes.
    site.push(&site.liar, jobs(1, &[(1 << 60, Some(1 << 60)); 9]));
    let mut failed = jobs(7, &[(1 << 50, None)]);
    failed[0].exit_code = Some(1);
    site.push(&site.alpha, failed);
    let mut cut = jobs(8, &[(1 << 50, None)]);
    cut[0].end = Some(End::Timeout);
    site.push(&site.alpha, cut);
    assert_eq!(learning::renew(&site.served.hub, Whose::Users).unwrap(), Some(1));
    let row = site.row("ann").unwrap();
    assert_eq!((row.runs, row.hosts), (4, 2));
    assert_eq!((row.held_p50_bytes, row.held_p99_bytes), (300, 350 + 350 / 4));
    assert_eq!(site.row("bea"), None);
    assert_eq!(site.row(EVERYBODY), None);
    // Only hosts that are believed are told, and only of what is new.
    let number = site.table().number;
    let refused = site.ask(&site.liar, 0);
    assert_eq!((refused.status, refused.body.as_str()), (200, r#"{"signed":null,"version":1}"#));
    assert!(site.ask(&site.beta, number).body.contains("null"));
    assert!(!site.ask(&site.beta, number - 1).body.contains("null"));
    let reader = token(&site.served.hub.store, Kind::Reader, "ops");
    assert_eq!(site.ask(&reader, 0).status, 403);
    assert_eq!(site.served.get("/api/v1/learned", &[]).status, 401);
    // The same figures are no new table; others are one with a higher number.
    assert_eq!(learning::renew(&site.served.hub, Whose::Users).unwrap(), None);
    site.push(&site.alpha, jobs(20, &[(500, None)]));
    assert_eq!(learning::renew(&site.served.hub, Whose::Users).unwrap(), Some(1));
    assert!(site.table().number > number);
    learning::stop(&site.served.hub.store).unwrap();
    assert!(site.ask(&site.alpha, 0).body.contains("null"));
    // A table that is made again is above those that hosts have seen.
    learning::renew(&site.served.hub, Whose::Users).unwrap();
    assert!(site.table().number >= number);
}

#[test]
fn the_site_learns_from_what_was_measured_alone() {
    let site = site();
    site.push(
        &site.alpha,
        jobs(1, &[(1 << 40, None), (900, Some(100)), (900, Some(200)), (150, Some(1 << 40))]),
    );
    learning::renew(&site.served.hub, Whose::Site).unwrap();
    let row = site.row(EVERYBODY).unwrap();
    assert_eq!((row.runs as usize, row.hosts), (RUNS_MIN, 1));
    assert_eq!(row.held_p50_bytes, 150);
    assert!(row.held_p99_bytes < 300);
    assert_eq!(site.row("ann").unwrap().runs, 4, "a user's own keepers are believed about that user's jobs");
}

#[test]
fn a_table_is_never_longer_than_hosts_take() {
    let site = site();
    let classes = u64::try_from(ROWS_MAX).unwrap() + 50;
    for chunk in (0..classes).collect::<Vec<_>>().chunks(300) {
        let of_class = |&class: &u64| {
            jobs(class * 10, &[(100 + class, None); RUNS_MIN]).into_iter().map(move |mut job| {
                job.name = format!("class-{class}");
                job
            })
        };
        site.push(&site.alpha, chunk.iter().flat_map(of_class).collect());
    }
    // One with more runs than all others is told of for certain.
    site.push(&site.beta, jobs(1, &[(7, None); 5]));
    assert_eq!(learning::renew(&site.served.hub, Whose::Users).unwrap(), Some(ROWS_MAX));
    assert_eq!(site.row("ann").unwrap().runs, 5);
}
