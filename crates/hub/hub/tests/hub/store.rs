//! The store, the same over both databases: SQLite in a file, and a private PostgreSQL where it is installed.

use pinfold_hub::store::{
    Access, Cell, Copied, ERROR_PART, Ending, Grant, Group, JobQuery, JobRow, Keep, Kept, Kind, LinkFor,
    Location, ReportQuery, Revoked, RunKey, SCHEMA_VERSION, Store, UsageRow, Way, backup, columns, location,
    restore, verify,
};
use pinfold_hub::workflow::steps::{self, Change};
use pinfold_hubwire::bundle::{self, Bundle, Receipt, WIRE_VERSION};
use pinfold_proto::view::ReportView;
use serde_json::json;

use crate::server::Server;
use crate::{alone, bounds, wide};

pub(crate) const MONTH_US: u64 = 31 * 86_400_000_000;

pub(crate) fn report(job: u64, name: &str, peak_bytes: u64) -> ReportView {
    let mut value = json!({
        "version": 1, "job": job, "name": name, "command": [], "user": "ann", "project": null, "state": "exited",
        "class": "primary", "priority": 10, "cpus": null, "submitted_s": 1_700_000_000.0, "started_s": 1_700_000_001.0,
        "ended_s": 1_700_003_601.0, "exit_code": 0, "signal": null, "reason": null, "queued_s": 1.0, "wall_s": 3600.0,
        "suspended_s": 0.0, "cpu_user_s": 1800.0, "cpu_system_s": 0.0, "cores": 2, "claim_bytes": 4u64 << 30,
        "memory_peak_bytes": peak_bytes, "memory_mean_bytes": 0, "cache_peak_bytes": null, "swap_peak_bytes": 0,
        "virtual_peak_bytes": 0, "io_read_bytes": 0, "io_write_bytes": 0, "processes_total": 1, "processes_peak": 1,
        "threads_peak": 1, "samples": 1,
    });
    value["series"] = json!([{ "time_s": 1.0, "cpu_cores": 0.5, "memory_bytes": 1, "cache_bytes": null, "swap_bytes": 0,
        "io_read_bytes": 0, "io_write_bytes": 0, "processes": 1, "threads": 1, "state": "running" }]);
    serde_json::from_value(value).unwrap()
}

pub(crate) fn bundle(reports: Vec<ReportView>) -> Bundle {
    let parts = reports.into_iter().flat_map(|report| bundle::parts(report, Vec::new())).collect();
    Bundle { version: WIRE_VERSION, origin: "o".into(), boot: "b".into(), made_us: 0, parts }
}

pub(crate) fn known(store: Store) -> (Store, i64) {
    store.add_token(Kind::Host, "alpha", &[1; 32], "test", 1).unwrap();
    let host = store.holder(&[1; 32]).unwrap().unwrap().host;
    (store, host)
}

fn store() -> (tempfile::TempDir, Store, i64) {
    let dir = tempfile::tempdir().unwrap();
    let (store, host) = known(Store::open_file(&dir.path().join("hub.db"), None).unwrap());
    (dir, store, host)
}

/// What a test asks of a database, each with a fresh one.
type Case = fn(&Store, i64);

const CASES: [(&str, Case); 25] = [
    ("what cannot be taken keeps nothing back that comes with it", what_cannot_be_taken_keeps_nothing_back),
    ("whole months go and what is younger stays", whole_months_go_and_what_is_younger_stays),
    ("classes and usage add up", classes_and_usage_add_up),
    ("lists are sorted, filtered and paged", lists_are_sorted_filtered_and_paged),
    ("what comes again changes nothing", what_comes_again_changes_nothing),
    ("tokens, links and sessions", tokens_links_and_sessions),
    ("a host that is renamed stays one", a_host_that_is_renamed_stays_one),
    ("any sign is kept", any_sign_is_kept),
    ("sums are those of the jobs, whoever asks", sums_are_those_of_the_jobs),
    ("sums of jobs from before are made once", sums_of_jobs_from_before_are_made_once),
    ("runs of workflows are one user's", runs_of_workflows_are_one_user_s),
    ("a list is the same whichever way it is found", a_list_is_the_same_whichever_way),
    ("lists know of no job that was removed", lists_know_of_no_job_that_was_removed),
    ("a week is of all users", wide::a_week_is_of_all_users),
    ("a week advises by runs that ended well", wide::a_week_advises_by_runs_that_ended_well),
    ("the most wasteful of many classes", wide::the_most_wasteful_of_many_classes),
    ("a class by host is that of the hosts with the most jobs", wide::a_class_by_host_has_the_most_jobs),
    ("a run is whole wherever the time is cut", wide::a_run_is_whole_wherever_the_time_is_cut),
    ("jobs of others leave room to learn from", wide::jobs_of_others_leave_room_to_learn_from),
    ("links and sessions of a host are bounded", bounds::links_and_sessions_of_a_host_are_bounded),
    ("jobs and days of a bundle are bounded", bounds::jobs_and_days_of_a_bundle_are_bounded),
    ("series of an answer are bounded", bounds::series_of_an_answer_are_bounded),
    ("jobs from ahead are not the last of a class", bounds::jobs_from_ahead_are_not_the_last_of_a_class),
    ("one host is as in the list", alone::one_host_is_as_in_the_list),
    ("a host has its last day", alone::a_host_has_its_last_day),
];

#[test]
fn sqlite_does_all_of_it() {
    for (name, case) in CASES {
        println!("{name}");
        let (_dir, store, host) = store();
        case(&store, host);
    }
}

#[test]
fn postgres_does_all_of_it() {
    let Some(server) = Server::start() else { return };
    for (name, case) in CASES {
        println!("{name}");
        server.client().batch_execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public").unwrap();
        let (store, host) = known(Store::open(&server.at(), None).unwrap());
        case(&store, host);
    }
}

#[test]
fn a_server_that_crashes_keeps_what_was_acknowledged_and_is_reached_again() {
    let Some(mut server) = Server::start() else { return };
    let (store, host) = known(Store::open(&server.at(), None).unwrap());
    for job in 1..=3 {
        store.ingest(host, &bundle(vec![report(job, "x", 1)]), 1).unwrap();
        server.crash();
    }
    assert_eq!(store.totals().unwrap().0, 3);
    // A later program's database is left alone, also there.
    drop(store);
    server.client().batch_execute("UPDATE schema_version SET version = 99").unwrap();
    let error = Store::open(&server.at(), None).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
}

#[test]
fn two_hubs_make_one_database_and_count_each_job_once() {
    let Some(server) = Server::start() else { return };
    let at = server.at();
    let open = || Store::open(&at, None).unwrap();
    // Both find it empty.
    let (one, other) = std::thread::scope(|scope| {
        let both = [scope.spawn(open), scope.spawn(open)].map(|made| made.join().unwrap());
        let [one, other] = both;
        (one, other)
    });
    let (one, host) = known(one);
    let jobs = || bundle((1..=40).map(|job| report(job, "x", 1)).collect());
    let new: u64 = std::thread::scope(|scope| {
        let stores = [&one, &other, &one, &other];
        let taken = stores.map(|store| scope.spawn(move || store.ingest(host, &jobs(), 1).unwrap().new));
        taken.into_iter().map(|taken| taken.join().unwrap()).sum()
    });
    assert_eq!((new, other.totals().unwrap().0), (40, 40));
}

#[test]
fn a_bounded_server_takes_no_more_than_it_may() {
    let Some(server) = Server::start() else { return };
    let (store, host) = known(Store::open(&server.at(), Some(1 << 20)).unwrap());
    let full = store.ingest(host, &bundle(vec![report(1, "x", 1)]), 1).unwrap_err().to_string();
    assert!(full.contains("no room"), "{full}");
    // People sign in all the same.
    store.add_token(Kind::Reader, "ops", &[2; 32], "test", 1).unwrap();
}

fn what_comes_again_changes_nothing(store: &Store, host: i64) {
    let mut long = report(1, "x", 1);
    let point = long.series.as_ref().unwrap()[0];
    long.series = Some(vec![point; bundle::POINTS_A_PART * 2 + 1]);
    let bundle = bundle(vec![long, report(2, "y", 1)]);
    assert_eq!(store.ingest(host, &bundle, 1).unwrap(), Receipt { new: 4, known: 0 });
    assert_eq!(store.ingest(host, &bundle, 2).unwrap(), Receipt { new: 0, known: 4 });
    let query =
        ReportQuery { access: Access::All, job: Some(1), limit: 5, series: true, ..ReportQuery::default() };
    let found = store.reports(&query).unwrap().reports;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].head.report.series.as_ref().unwrap().len(), bundle::POINTS_A_PART * 2 + 1);
    // All of a bundle or nothing of it.
    let mut wrong = self::bundle(vec![report(3, "z", 1), report(4, "z", 1)]);
    wrong.parts[1].head = None;
    assert!(store.ingest(host, &wrong, 3).is_err());
    assert_eq!(store.totals().unwrap().0, 2);
}

fn what_cannot_be_taken_keeps_nothing_back(store: &Store, host: i64) {
    store.add_token(Kind::Host, "beta", &[2; 32], "test", 1).unwrap();
    let beta = store.holder(&[2; 32]).unwrap().unwrap().host;
    // Many at a time, so that they are written together; in one of them a part without its first.
    let mut wrong = bundle(vec![report(900, "x", 1)]);
    let point = wrong.parts[0].series.as_ref().unwrap().points()[0];
    let mut long = report(901, "x", 1);
    long.series = Some(vec![point; bundle::POINTS_A_PART + 1]);
    wrong.parts.extend(bundle::parts(long, Vec::new()).into_iter().skip(1));
    let (new, refused) = std::thread::scope(|scope| {
        let wrong = scope.spawn(|| store.ingest(beta, &wrong, 1));
        let good: Vec<_> = (1..=24u64)
            .map(|job| {
                let host = if job % 2 == 0 { host } else { beta };
                // Each twice, under way at the same time.
                let send = move || store.ingest(host, &bundle(vec![report(job / 2, "x", 1)]), 1).unwrap().new;
                [scope.spawn(send), scope.spawn(send)]
            })
            .collect();
        let new: u64 = good.into_iter().flatten().map(|sent| sent.join().unwrap()).sum();
        (new, wrong.join().unwrap())
    });
    assert!(refused.unwrap_err().to_string().contains("job 901, part 1: its first part is not here"));
    assert_eq!(
        (new, store.totals().unwrap().0),
        (24, 24),
        "each is new once, and nothing of the wrong one stays"
    );
}

fn tokens_links_and_sessions(store: &Store, host: i64) {
    assert_eq!(store.holder(&[9; 32]).unwrap(), None);
    assert!(store.add_token(Kind::Host, "beta", &[1; 32], "test", 1).is_err(), "a hash is there once");
    store.set_key(host, &[7; 32]).unwrap();
    assert_eq!(store.host_of_key(&[7; 32]).unwrap(), Some((host, "alpha".to_owned(), None)));
    store.add_token(Kind::Host, "beta", &[3; 32], "test", 1).unwrap();
    let beta = store.holder(&[3; 32]).unwrap().unwrap().host;
    assert!(store.set_key(beta, &[7; 32]).unwrap_err().to_string().contains("voucher.key"));
    let whose = LinkFor { name: "ann", via: "host alpha", access: &Access::All };
    store.add_code(&[4; 32], whose, 100, 1).unwrap();
    assert_eq!(store.sign_in(&[4; 32], &[5; 32], "c", 200, 101).unwrap(), None, "it is too late");
    store.add_code(&[8; 32], whose, 100, 1).unwrap();
    assert_eq!(store.sign_in(&[8; 32], &[5; 32], "c", 200, 2).unwrap().as_deref(), Some("ann"));
    assert_eq!(store.sign_in(&[8; 32], &[6; 32], "c", 200, 2).unwrap(), None, "a link works once");
    let session = store.session(&[5; 32], 3).unwrap().unwrap();
    assert_eq!((&session.access, &session.via[..], session.by_proxy), (&Access::All, "host alpha", false));
    // The one that was not used in time is not there by then, as far as the clock says.
    for number in 10..29 {
        store.add_code(&[number; 32], whose, 100, 1).unwrap();
    }
    assert!(store.add_code(&[30; 32], whose, 100, 1).unwrap_err().to_string().contains("unused links"));
    assert_eq!(store.revoke(Revoked::Name(Kind::Host, "alpha"), "test", 4).unwrap().len(), 1);
    assert_eq!(store.session(&[5; 32], 5).unwrap(), None, "it ends with the token");
    assert_eq!(store.host_of_key(&[7; 32]).unwrap(), None);
    store.set_meta("url", "a").unwrap();
    store.set_meta("url", "b").unwrap();
    assert_eq!(store.meta("url").unwrap().as_deref(), Some("b"));
    let acts: Vec<String> = store.audit(100, 0).unwrap().into_iter().map(|act| act.action).collect();
    assert_eq!(
        (acts.first().map(String::as_str), acts.last().map(String::as_str)),
        (Some("revoke"), Some("token"))
    );
}

fn a_host_that_is_renamed_stays_one(store: &Store, host: i64) {
    let names = || -> Vec<String> { store.hosts().unwrap().into_iter().map(|host| host.name).collect() };
    let rename = |from: &str, to: &str| store.rename_host(from, to, "test", 9);
    store.ingest(host, &bundle(vec![report(1, "x", 1)]), 1).unwrap();
    store.set_key(host, &[7; 32]).unwrap();
    let grant = Access::Some(vec![Grant { host: Some("alpha".into()), ..Grant::default() }]);
    store.add_code(&[4; 32], LinkFor { name: "ann", via: "host alpha", access: &grant }, 100, 1).unwrap();
    store.sign_in(&[4; 32], &[5; 32], "c", 200, 2).unwrap();
    // Its operator made a token for the new name, by which its daemon's key is known already.
    store.add_token(Kind::Host, "beta", &[2; 32], "test", 1).unwrap();
    let beta = store.holder(&[2; 32]).unwrap().unwrap().host;
    let refused = store.set_key(beta, &[7; 32]).unwrap_err().to_string();
    assert!(refused.contains("host alpha has the same key") && refused.contains("rename alpha"), "{refused}");
    rename("alpha", "beta").unwrap();
    assert_eq!(names(), ["beta"]);
    for hash in [1, 2] {
        let holder = store.holder(&[hash; 32]).unwrap().unwrap();
        assert_eq!((holder.name.as_str(), holder.host), ("beta", host));
    }
    assert_eq!(store.host_of_key(&[7; 32]).unwrap().unwrap().1, "beta");
    assert_eq!(store.session(&[5; 32], 3).unwrap(), None, "it was for jobs of alpha");
    // What comes again under the new name is the same job.
    assert_eq!(
        store.ingest(host, &bundle(vec![report(1, "x", 1)]), 2).unwrap(),
        Receipt { new: 0, known: 1 }
    );
    let query =
        ReportQuery { access: Access::All, host: Some("beta".into()), limit: 9, ..ReportQuery::default() };
    assert_eq!(store.reports(&query).unwrap().reports.len(), 1);
    // Two hosts with jobs stay two.
    store.add_token(Kind::Host, "gamma", &[3; 32], "test", 1).unwrap();
    let gamma = store.holder(&[3; 32]).unwrap().unwrap().host;
    store.ingest(gamma, &bundle(vec![report(2, "x", 1)]), 1).unwrap();
    for (from, to) in [("beta", "gamma"), ("alpha", "delta"), ("beta", "no name"), ("beta", "beta")] {
        assert!(rename(from, to).is_err(), "{from} {to}");
    }
    assert_eq!(names(), ["beta", "gamma"]);
}

fn any_sign_is_kept(store: &Store, host: i64) {
    let names = ["nul\0here", "'; DROP TABLE jobs; --", "?1 $1", "caf\u{e9} \u{1f980}", "%_\\"];
    let jobs = names.iter().zip(1..).map(|(name, job)| report(job, name, 1)).collect();
    store.ingest(host, &bundle(jobs), 1).unwrap();
    for (name, job) in names.iter().zip(1u64..) {
        let query =
            JobQuery { access: Access::All, name: Some((*name).into()), limit: 9, ..JobQuery::default() };
        let found = store.jobs(&query).unwrap().jobs;
        assert_eq!(found.len(), 1, "{name:?}");
        let head = store.job(found[0].id, &Access::All).unwrap().unwrap().head;
        assert_eq!((head.report.job, head.report.name.as_str()), (job, *name));
    }
}

fn whole_months_go_and_what_is_younger_stays(store: &Store, host: i64) {
    let now_us = 1_800_000_000_000_000;
    for (job, age) in [(1, 5), (2, 2), (3, 0)] {
        store.ingest(host, &bundle(vec![report(job, "x", 1)]), now_us - age * MONTH_US).unwrap();
    }
    assert_eq!(store.series_months().unwrap().len(), 3);
    let keep = Keep { series_months: 1, jobs_months: 3 };
    assert_eq!(store.remove_old(keep, now_us).unwrap(), Kept { series_months: 2, jobs: 1 });
    assert_eq!(store.remove_old(keep, now_us).unwrap(), Kept::default());
    let left = store
        .reports(&ReportQuery { access: Access::All, limit: 10, series: true, ..ReportQuery::default() })
        .unwrap();
    let left: Vec<_> =
        left.reports.iter().map(|one| (one.head.report.job, one.head.report.series.is_some())).collect();
    assert_eq!(left, [(2, false), (3, true)]);
}

#[test]
fn a_copy_is_verified_and_comes_back() {
    let (dir, store, host) = store();
    store.ingest(host, &bundle(vec![report(1, "x", 1), report(2, "y", 1)]), 1).unwrap();
    let (file, copy) = (dir.path().join("hub.db"), dir.path().join("copy.db"));
    let copied = backup(&file, &copy).unwrap();
    assert_eq!(copied, Copied { version: SCHEMA_VERSION, hosts: 1, jobs: 2 });
    assert!(backup(&file, &copy).is_err(), "a copy is not written over");
    store.ingest(host, &bundle(vec![report(3, "z", 1)]), 1).unwrap();
    drop(store);
    assert_eq!(restore(&file, &copy, "test", 1).unwrap().copied, copied);
    assert_eq!(Store::open_file(&file, None).unwrap().totals().unwrap().0, 2);
    assert_eq!(verify(&dir.path().join("hub.db.before")).unwrap().jobs, 3);
    // A damaged one is not put in its place.
    let mut bytes = std::fs::read(&copy).unwrap();
    let middle = bytes.len() / 2;
    bytes[4096..middle].fill(0xff);
    std::fs::write(&copy, bytes).unwrap();
    assert!(restore(&file, &copy, "test", 1).is_err());
    assert_eq!(Store::open_file(&file, None).unwrap().totals().unwrap().0, 2);
    std::fs::write(&copy, "no database").unwrap();
    assert!(verify(&copy).is_err());
}

#[test]
fn a_later_database_is_left_alone() {
    let (dir, store, _) = store();
    drop(store);
    let file = dir.path().join("hub.db");
    rusqlite::Connection::open(&file).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Store::open_file(&file, None).unwrap_err().to_string();
    assert!(error.contains("version 99"), "{error}");
}

fn classes_and_usage_add_up(store: &Store, host: i64) {
    let jobs = (1..=100).map(|job| report(job, "x", job << 20)).chain([report(101, "y", 1 << 30)]).collect();
    store.ingest(host, &bundle(jobs), 1).unwrap();
    let query = JobQuery { access: Access::All, limit: 10, ..JobQuery::default() };
    let classes = store.classes(&query).unwrap();
    let x = &classes.rows[0];
    assert_eq!((x.name.as_str(), x.jobs, x.failed, x.hosts), ("x", 100, 0, 1));
    let mib = f64::from(1 << 20);
    assert!(
        (x.memory_peak_bytes.p50 - 51.0 * mib).abs() < 1.5 * mib
            && (x.memory_peak_bytes.most - 100.0 * mib).abs() < 1.0
    );
    assert!((x.cores_used_part - 0.25).abs() < 1e-9);
    let usage = store.usage(Group::User, &query).unwrap();
    assert_eq!((usage.len(), usage[0].jobs), (1, 101));
    assert!((usage[0].cpu_h - 50.5).abs() < 1e-9, "{usage:?}");
    assert!((usage[0].claimed_gibh - 404.0).abs() < 1e-6, "{usage:?}");
}

/// Jobs of three users, two projects and four names over five days, some of which failed and some never ran.
fn mixed(count: u64, from: u64) -> Vec<ReportView> {
    let job = |job: u64| {
        let mut one = report(job, ["a", "b", "c", "it's \"d\""][(job % 4) as usize], (job % 97 + 1) << 22);
        one.user = ["ann", "bea", "cyn"][(job % 3) as usize].into();
        one.project = [None, Some("web"), Some("lab")][(job / 3 % 3) as usize].map(str::to_owned);
        let moved_s = f64::from(u32::try_from(job % 5 * 86_400).unwrap());
        one.ended_s = one.ended_s.map(|ended_s| ended_s + moved_s);
        one.exit_code = (!job.is_multiple_of(7)).then_some(i32::from(job.is_multiple_of(11)));
        one.started_s = one.started_s.filter(|_| !job.is_multiple_of(13));
        one.wall_s = one.started_s.map(|_| 60.0 + f64::from(u32::try_from(job % 50).unwrap()));
        one.claim_bytes = one.claim_bytes.filter(|_| job.is_multiple_of(2));
        if one.started_s.is_none() {
            one.cpu_user_s = 0.0;
        }
        one
    };
    (from..from + count).map(job).collect()
}

fn sums_are_those_of_the_jobs(store: &Store, host: i64) {
    store.add_token(Kind::Host, "beta", &[2; 32], "test", 1).unwrap();
    let beta = store.holder(&[2; 32]).unwrap().unwrap().host;
    for (host, from) in [(host, 1), (beta, 1), (host, 150)] {
        store.ingest(host, &bundle(mixed(200, from)), 1_700_500_000_000_000).unwrap();
    }
    check_sums(store);
}

/// Asked in many ways, sums say what the jobs themselves do.
#[track_caller]
pub(crate) fn check_sums(store: &Store) {
    let grant = |user: Option<&str>, project: Option<&str>, host: Option<&str>| Grant {
        user: user.map(str::to_owned),
        project: project.map(str::to_owned),
        host: host.map(str::to_owned),
    };
    let day_us = 86_400_000_000;
    let midnight_us = 1_700_003_601_000_000 / day_us * day_us;
    let all = JobQuery { access: Access::All, limit: 10, ..JobQuery::default() };
    let some = |grants: Vec<Grant>| JobQuery { access: Access::Some(grants), ..all.clone() };
    let asked = [
        all.clone(),
        JobQuery::default(),
        some(vec![grant(Some("ann"), None, None)]),
        some(vec![grant(Some("ann"), None, Some("alpha")), grant(None, Some("web"), None)]),
        some(vec![grant(None, None, Some("beta")), grant(Some("cyn"), None, None)]),
        JobQuery { host: Some("alpha".into()), ..all.clone() },
        JobQuery { user: Some("bea".into()), project: Some("lab".into()), ..all.clone() },
        JobQuery { name: Some("it's*".into()), ..all.clone() },
        JobQuery { ending: Some(Ending::Failed), ..all.clone() },
        JobQuery { ending: Some(Ending::Succeeded), host: Some("beta".into()), ..all.clone() },
        JobQuery { since_us: Some(midnight_us + day_us), until_us: Some(midnight_us + 3 * day_us), ..all },
    ];
    for query in &asked {
        for group in [Group::User, Group::Project, Group::Host] {
            let (sums, jobs) =
                (store.usage(group, query).unwrap(), store.usage_of_jobs(group, query).unwrap());
            assert_eq!(sums.len(), jobs.len(), "{query:?}");
            for jobs in &jobs {
                let sums = sums.iter().find(|sums| sums.name == jobs.name).unwrap();
                assert_eq!((sums.jobs, sums.failed), (jobs.jobs, jobs.failed), "{query:?}");
                let figures = |row: &UsageRow| {
                    [
                        row.cpu_h,
                        row.idle_core_h,
                        row.claimed_gibh,
                        row.unused_gibh,
                        row.suspended_h,
                        row.queued_h,
                    ]
                };
                for (sum, of_jobs) in figures(sums).into_iter().zip(figures(jobs)) {
                    assert!((sum - of_jobs).abs() < 1e-9 * of_jobs.abs().max(1.0), "{sums:?} {jobs:?}");
                }
            }
        }
        let (sums, jobs) = (store.classes(query).unwrap(), store.classes_of_jobs(query).unwrap());
        assert_eq!((sums.jobs, sums.rows.len()), (jobs.jobs, jobs.rows.len()), "{query:?}");
        for jobs in &jobs.rows {
            let sums = sums.rows.iter().find(|sums| sums.name == jobs.name).unwrap();
            assert_eq!(
                (sums.jobs, sums.failed, sums.hosts),
                (jobs.jobs, jobs.failed, jobs.hosts),
                "{query:?}"
            );
            let near = |sum: f64, exact: f64| (sum - exact).abs() <= exact.abs() * ERROR_PART + 1e-9;
            let spreads = [(sums.wall_s, jobs.wall_s), (sums.memory_peak_bytes, jobs.memory_peak_bytes)];
            for (sum, exact) in spreads {
                assert!(
                    near(sum.p50, exact.p50) && near(sum.p90, exact.p90) && near(sum.p99, exact.p99),
                    "{sum:?} {exact:?}"
                );
                assert!((sum.most - exact.most).abs() < 1e-6 * exact.most.max(1.0), "{sum:?} {exact:?}");
            }
            assert_eq!(sums.claim_p50_bytes.is_some(), jobs.claim_p50_bytes.is_some());
            assert!(
                (sums.cores_used_part - jobs.cores_used_part).abs() < 1e-9
                    && (sums.unused_gibh - jobs.unused_gibh).abs() < 1e-6
            );
        }
    }
}

fn sums_of_jobs_from_before_are_made_once(store: &Store, host: i64) {
    // Parts of it twice, and at the same time.
    std::thread::scope(|scope| {
        for from in [1, 1, 50, 100, 1] {
            scope
                .spawn(move || store.ingest(host, &bundle(mixed(120, from)), 1_700_500_000_000_000).unwrap());
        }
    });
    check_sums(store);
    store.sum_anew().unwrap();
    check_sums(store);
    let later_us = 1_700_500_000_000_000 + 4 * MONTH_US;
    store.ingest(host, &bundle(mixed(50, 900)), later_us).unwrap();
    // Sums go with the jobs that they are of.
    assert!(store.remove_old(Keep { series_months: 1, jobs_months: 2 }, later_us).unwrap().jobs > 0);
    assert_eq!(store.totals().unwrap().0, 50);
    check_sums(store);
}

#[test]
fn an_earlier_database_gets_its_sums() {
    let (dir, store, host) = store();
    store.ingest(host, &bundle(mixed(300, 1)), 1_700_500_000_000_000).unwrap();
    drop(store);
    let file = dir.path().join("hub.db");
    let earlier = rusqlite::Connection::open(&file).unwrap();
    earlier
        .execute_batch(
            "DROP TABLE minutes; DROP INDEX jobs_failed_user; DROP INDEX jobs_failed_name; DROP INDEX jobs_failed_project; \
             DROP INDEX jobs_failed_host; DROP TABLE tops; DROP TABLE top_days; DROP INDEX jobs_project; \
             DROP INDEX jobs_failed; DROP TABLE spreads; DROP TABLE days; DROP TABLE runs; DROP INDEX jobs_run; ALTER TABLE jobs DROP COLUMN workflow; \
             ALTER TABLE jobs DROP COLUMN run; ALTER TABLE jobs DROP COLUMN step; \
             ALTER TABLE jobs DROP COLUMN ended_by; PRAGMA user_version = 3",
        )
        .unwrap();
    drop(earlier);
    let store = Store::open_file(&file, None).unwrap();
    assert_eq!(store.totals().unwrap().0, 300);
    check_sums(&store);
    check_lists(&store);
    // A bundle that comes again adds nothing.
    store.ingest(host, &bundle(mixed(300, 1)), 1_700_600_000_000_000).unwrap();
    check_sums(&store);
    drop(store);
    check_sums(&Store::open_file(&file, None).unwrap());
}

#[test]
fn an_earlier_server_gets_its_sums() {
    let Some(server) = Server::start() else { return };
    let (store, host) = known(Store::open(&server.at(), None).unwrap());
    store.ingest(host, &bundle(mixed(300, 1)), 1_700_500_000_000_000).unwrap();
    drop(store);
    let earlier = "DROP TABLE minutes; DROP INDEX jobs_failed_user, jobs_failed_name, jobs_failed_project, jobs_failed_host; DROP TABLE tops; \
                   DROP TABLE top_days; DROP INDEX jobs_project; DROP INDEX jobs_failed; DROP TABLE spreads; DROP TABLE days; DROP TABLE runs; ALTER TABLE jobs DROP COLUMN workflow, DROP COLUMN run, \
                   DROP COLUMN step, DROP COLUMN ended_by; UPDATE schema_version SET version = 3";
    server.client().batch_execute(earlier).unwrap();
    let store = Store::open(&server.at(), None).unwrap();
    check_sums(&store);
    check_lists(&store);
}

/// Jobs of a run of ann's, from this number on.
fn of_run(run: &str, from: u64, begun_s: f64, wall_s: f64) -> Vec<ReportView> {
    let job = |at: u64| {
        let mut one = report(from + at, &format!("step{}", at % 2), 1 << 30);
        one.comment = Some(format!("workflow=rnaseq version=1.{run} run={run}"));
        one.submitted_s = begun_s + f64::from(u32::try_from(at).unwrap());
        one.started_s = Some(one.submitted_s + 1.0);
        one.ended_s = Some(one.submitted_s + 1.0 + wall_s);
        one.wall_s = Some(wall_s);
        one
    };
    (0..6).map(job).collect()
}

#[test]
fn runs_are_made_anew_with_the_sums() {
    let (dir, store, host) = store();
    for (run, from) in [("1", 100), ("2", 200)] {
        store.ingest(host, &bundle(of_run(run, from, 1_700_000_000.0, 60.0)), 1).unwrap();
    }
    let beside = rusqlite::Connection::open(dir.path().join("hub.db")).unwrap();
    beside.pragma_update(None, "foreign_keys", "on").unwrap();
    beside.execute_batch("DELETE FROM jobs WHERE run = '1' OR job = 200").unwrap();
    store.sum_anew().unwrap();
    let runs = store.runs(&JobQuery { access: Access::All, limit: 9, ..JobQuery::default() }).unwrap();
    let told: Vec<_> = runs.iter().map(|run| (run.run.as_str(), run.jobs, run.version.as_deref())).collect();
    assert_eq!(told, [("2", 5, Some("1.2"))]);
}

fn runs_of_workflows_are_one_user_s(store: &Store, host: i64) {
    for (run, from) in [("1", 100), ("2", 200), ("3", 300), ("4", 400)] {
        let begun_s = 1_700_000_000.0 + f64::from(u32::try_from(from).unwrap()) * 10.0;
        let wall_s = if run == "4" { 90.0 } else { 60.0 };
        store.ingest(host, &bundle(of_run(run, from, begun_s, wall_s)), 1).unwrap();
        // What comes again is in no run twice.
        store.ingest(host, &bundle(of_run(run, from, begun_s, wall_s)), 2).unwrap();
    }
    // Another user's job that says the same run.
    let mut other = of_run("4", 500, 1_700_000_000.0, 9e5).remove(0);
    other.user = "eve".into();
    store.ingest(host, &bundle(vec![other]), 1).unwrap();
    let all = JobQuery { access: Access::All, limit: 100, ..JobQuery::default() };
    let runs = store.runs(&all).unwrap();
    let found: Vec<(&str, &str, u64)> =
        runs.iter().map(|run| (run.user.as_str(), run.run.as_str(), run.jobs)).collect();
    assert_eq!(found, [("eve", "4", 1), ("ann", "4", 6), ("ann", "3", 6), ("ann", "2", 6), ("ann", "1", 6)]);
    assert_eq!((runs[1].version.as_deref(), runs[1].makespan_s()), (Some("1.4"), 96.0));
    store.sum_anew().unwrap();
    assert_eq!(store.runs(&all).unwrap(), runs);
    let of = |user: &str| Access::Some(vec![Grant { user: Some(user.into()), ..Grant::default() }]);
    assert_eq!(store.runs(&JobQuery { access: of("ann"), ..all.clone() }).unwrap().len(), 4);
    assert_eq!(store.runs(&JobQuery { access: Access::default(), ..all.clone() }).unwrap(), []);
    assert_eq!(
        store.runs(&JobQuery { name: Some("rna*".into()), limit: 2, ..all.clone() }).unwrap().len(),
        2
    );
    let since_us = Some(1_700_003_500_000_000);
    assert_eq!(store.runs(&JobQuery { since_us, ..all }).unwrap().len(), 2);
    let key = RunKey { workflow: "rnaseq".into(), user: "ann".into(), run: "4".into() };
    let detail = store.run(&key, &of("ann")).unwrap().unwrap();
    assert_eq!(
        (detail.jobs.len(), detail.earlier.len(), detail.earlier_jobs.len(), detail.cut),
        (6, 3, 18, false)
    );
    assert_eq!(detail.earlier[0].run, "3", "the last first");
    let steps = steps::of(&detail);
    assert_eq!(steps.len(), 2);
    assert!(
        steps
            .iter()
            .all(|step| step.ran_s.change == Change::More && step.peak_bytes.change == Change::Within)
    );
    assert_eq!(store.run(&key, &of("eve")).unwrap(), None, "it is not hers");
    assert_eq!(store.run(&RunKey { run: "9".into(), ..key }, &Access::All).unwrap(), None);
    // As it is with the jobs.
    assert!(
        store.remove_old(Keep { series_months: 0, jobs_months: 0 }, 1_800_000_000_000_000).unwrap().jobs > 0
    );
    assert_eq!(store.runs(&JobQuery { access: Access::All, limit: 9, ..JobQuery::default() }).unwrap(), []);
}

fn lists_are_sorted_filtered_and_paged(store: &Store, host: i64) {
    let jobs =
        (1..=30).map(|job| report(job, if job % 2 == 0 { "even[1]" } else { "odd" }, job << 20)).collect();
    store.ingest(host, &bundle(jobs), 1).unwrap();
    let numbers = |query: &JobQuery| -> (Vec<i64>, bool) {
        let page = store.jobs(query).unwrap();
        let number = |job: &JobRow| match job.cells[1] {
            Cell::Whole(number) => number,
            _ => 0,
        };
        (page.jobs.iter().map(number).collect(), page.more)
    };
    let peak = columns::find("memory_peak_bytes");
    let query = JobQuery { access: Access::All, sort: peak, limit: 3, ..JobQuery::default() };
    assert_eq!(numbers(&query), (vec![30, 29, 28], true));
    assert_eq!(numbers(&JobQuery { offset: 29, ..query.clone() }), (vec![1], false));
    assert_eq!(numbers(&JobQuery { ascending: true, ..query.clone() }), (vec![1, 2, 3], true));
    let conditions = columns::conditions("memory_peak_bytes<4MiB").unwrap();
    assert_eq!(numbers(&JobQuery { conditions, ..query.clone() }), (vec![3, 2, 1], false));
    // Only the asterisk stands for anything.
    assert_eq!(
        numbers(&JobQuery { name: Some("even[1*".into()), ..query.clone() }),
        (vec![30, 28, 26], true)
    );
    assert_eq!(numbers(&JobQuery { name: Some("o?d*".into()), ..query.clone() }).0, Vec::<i64>::new());
    assert_eq!(numbers(&JobQuery { host: Some("beta".into()), ..query }).0, Vec::<i64>::new());
}

/// More jobs of two days than lists have room for; some figures are the same for most of them.
fn many(count: u64, from: u64) -> Vec<ReportView> {
    let job = |mut one: ReportView| {
        let job = one.job;
        let moved_s = f64::from(u32::try_from(job % 5 % 2 * 86_400 + job).unwrap());
        one.ended_s = one.started_s.or(Some(1_700_000_000.0)).map(|started_s| started_s + moved_s);
        one.memory_peak_bytes = (job * 7_919 % 2_003) << 12;
        one.memory_mean_bytes = (job * 31 % 900) << 10;
        one.swap_peak_bytes = if job.is_multiple_of(40) { job << 12 } else { 0 };
        one.suspended_s = if job.is_multiple_of(300) { 2.0 } else { 0.0 };
        one.priority = [10, 3, 10, 20][(job % 4) as usize];
        one
    };
    mixed(count, from).into_iter().map(job).collect()
}

/// Asked in many ways, lists are the same whether all rows are sorted or as few as may be are read.
#[track_caller]
pub(crate) fn check_lists(store: &Store) -> Vec<(String, Way)> {
    let all = JobQuery { access: Access::All, limit: 20, ..JobQuery::default() };
    let grant = |user: &str, host: Option<&str>| Grant {
        user: Some(user.into()),
        host: host.map(Into::into),
        ..Grant::default()
    };
    let conditions = |text: &str| columns::conditions(text).unwrap();
    let queries = [
        all.clone(),
        JobQuery { offset: 30, ..all.clone() },
        JobQuery { user: Some("bea".into()), ..all.clone() },
        JobQuery { name: Some("it's*".into()), ending: Some(Ending::Failed), ..all.clone() },
        JobQuery { name: Some("a".into()), host: Some("alpha".into()), ..all.clone() },
        JobQuery { project: Some("lab".into()), ending: Some(Ending::Succeeded), ..all.clone() },
        JobQuery { ending: Some(Ending::Failed), ..all.clone() },
        JobQuery {
            project: Some("web".into()),
            host: Some("alpha".into()),
            ending: Some(Ending::Failed),
            ..all.clone()
        },
        JobQuery {
            since_us: Some(1_700_040_000_000_000),
            until_us: Some(1_700_090_000_000_000),
            ..all.clone()
        },
        JobQuery { conditions: conditions("memory_peak_bytes>7.7MiB"), ..all.clone() },
        JobQuery {
            conditions: conditions("memory_peak_bytes>7.7MiB, claim_bytes<1TiB"),
            offset: 3,
            ..all.clone()
        },
        JobQuery { conditions: conditions("memory_peak_bytes>1TiB"), ..all.clone() },
        JobQuery { conditions: conditions("memory_peak_bytes<100KiB"), ..all.clone() },
        JobQuery { conditions: conditions("swap_peak_bytes>0, exit_code=0"), ..all.clone() },
        JobQuery { access: Access::Some(vec![grant("ann", None)]), ..all.clone() },
        JobQuery {
            access: Access::Some(vec![grant("ann", Some("alpha")), grant("cyn", None)]),
            ..all.clone()
        },
        JobQuery { access: Access::default(), ..all },
    ];
    let mut ways = Vec::new();
    for (at, query) in queries.iter().enumerate() {
        for column in &columns::COLUMNS {
            for ascending in [false, true] {
                let query = JobQuery { sort: Some(column), ascending, ..query.clone() };
                let (want, _) = store.jobs_within(&query, u32::MAX).unwrap();
                let (found, way) = store.jobs_within(&query, 0).unwrap();
                let what = format!("{at} {} {ascending} {way:?}", column.key);
                assert_eq!(found.more, want.more, "{what}");
                assert_eq!(found.jobs, want.jobs, "{what}");
                ways.push((format!("{at} {} {ascending}", column.key), way));
            }
        }
    }
    ways
}

fn a_list_is_the_same_whichever_way(store: &Store, host: i64) {
    store.add_token(Kind::Host, "beta", &[2; 32], "test", 1).unwrap();
    let beta = store.holder(&[2; 32]).unwrap().unwrap().host;
    for from in (1..=1_800).step_by(300) {
        let host = if from % 1_200 == 1 { beta } else { host };
        store.ingest(host, &bundle(many(300, from)), 1_700_500_000_000_000).unwrap();
        // What comes again is in no list twice.
        store.ingest(host, &bundle(many(10, from)), 1_700_500_000_000_000).unwrap();
    }
    let ways = check_lists(store);
    let is = |what: &str, want: Way| {
        let (_, way) = ways.iter().find(|(asked, _)| asked == what).unwrap();
        assert_eq!(*way, want, "{what}");
    };
    for key in columns::COLUMNS.iter().filter(|column| column.form != columns::Form::Text) {
        for direction in [false, true] {
            let want = if key.key == "ended" { Way::Ordered } else { Way::Tops };
            is(&format!("0 {} {direction}", key.key), want);
        }
    }
    is("0 user false", Way::Ordered);
    is("0 host true", Way::Ordered);
    is("2 memory_peak_bytes false", Way::Tops);
    is("6 ended false", Way::Ordered);
    is("9 memory_peak_bytes false", Way::Tops);
    store.sum_anew().unwrap();
    assert_eq!(check_lists(store), ways, "made anew they are the same");
}

fn lists_know_of_no_job_that_was_removed(store: &Store, host: i64) {
    let now_us = 1_700_500_000_000_000;
    store.ingest(host, &bundle(many(600, 1)), now_us).unwrap();
    // Of the same days, but they came in later.
    store.ingest(host, &bundle(many(600, 601)), now_us + 3 * MONTH_US).unwrap();
    let keep = Keep { series_months: 1, jobs_months: 2 };
    assert_eq!(store.remove_old(keep, now_us + 3 * MONTH_US).unwrap().jobs, 600);
    check_lists(store);
    assert_eq!(store.remove_old(keep, now_us + 9 * MONTH_US).unwrap().jobs, 600);
    // Numbers of rows may be given again.
    store.ingest(host, &bundle(many(700, 1_201)), now_us + 9 * MONTH_US).unwrap();
    check_lists(store);
}

#[test]
fn databases_are_named_by_kind() {
    assert_eq!(location("sqlite:/a/b.db").unwrap(), Location::File("/a/b.db".into()));
    let server = location("postgres://hub:secret@localhost/jobs").unwrap();
    assert!(!format!("{server} {server:?}").contains("secret"), "{server}");
    for bad in ["", "sqlite:", "/a/b.db", "mysql://x", "postgres://elsewhere.example/x", "postgres:///x?zz=1"]
    {
        assert!(location(bad).is_err(), "{bad}");
    }
}
