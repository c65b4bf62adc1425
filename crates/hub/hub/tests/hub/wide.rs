//! Questions over more users, classes, months and hosts than one page has, the same over both databases.
use std::time::{Duration, Instant};

use pinfold_advise::{Ended, Features, Row, answer};
use pinfold_hub::store::{Access, Group, JobQuery, Kind, RUNS_MIN, Store, UsageRow, Whose, class_of};
use pinfold_hub::weekly::{self, Subject, Week};
use pinfold_proto::learned::{self, CLASS_BYTES};
use pinfold_proto::view::ReportView;
use pinfold_proto::voucher::hex;
use sha2::{Digest as _, Sha256};

use crate::server::Server;
use crate::store::{MONTH_US, bundle, known, report};

const DAY_S: f64 = 86_400.0;

fn all() -> JobQuery {
    JobQuery { access: Access::All, ..JobQuery::default() }
}

/// A week of more users than a page has rows is summed over all of them, and each of them is named.
pub(crate) fn a_week_is_of_all_users(store: &Store, host: i64) {
    const USERS: u64 = 1_100;
    let job = |number: u64| {
        let mut one = report(number, "x", 1 << 30);
        one.user = format!("user-{number}");
        one
    };
    for from in [1, 551] {
        store.ingest(host, &bundle((from..from + USERS / 2).map(job).collect()), 1).unwrap();
    }
    let week = Week::of(1_700_003_601_000_000);
    let told = weekly::report(store, &Access::All, Subject::All, week).unwrap();
    assert_eq!(told.now.jobs, USERS);
    assert!((told.now.cpu_h - 0.5 * 1_100.0).abs() < 1e-6, "{}", told.now.cpu_h);
    assert_eq!(weekly::subjects(store, Group::User, week).unwrap().len(), 1_100);
    let sum = |rows: Vec<UsageRow>| rows.iter().map(|row| row.jobs).sum::<u64>();
    for query in [all(), JobQuery { ids: (1..=2_000).collect(), ..all() }] {
        assert_eq!(sum(store.usage(Group::User, &query).unwrap()), USERS);
        let together = store.usage(Group::All, &query).unwrap();
        assert_eq!((together.len(), together[0].jobs, &together[0].name), (1, USERS, &None));
    }
    let nobody = JobQuery { user: Some("nobody".into()), ..all() };
    assert_eq!(store.usage(Group::All, &nobody).unwrap(), []);
}

/// What a week says to ask for is the answer of the crate `advise` by the class's runs that ended well, whatever failed and
/// whatever was claimed.
pub(crate) fn a_week_advises_by_runs_that_ended_well(store: &Store, host: i64) {
    const MIB: u64 = 1 << 20;
    let job = |number: u64, name: &str, peak_bytes, claim_bytes, exit_code| ReportView {
        claim_bytes: Some(claim_bytes),
        exit_code: Some(exit_code),
        ..report(number, name, peak_bytes)
    };
    let well = |number: u64| (151 + number % 6) * MIB;
    let mut jobs: Vec<ReportView> = Vec::new();
    for (from, name, claim_bytes) in
        [(100, "much", 4096 * MIB), (200, "little", 105 * MIB), (300, "fits", 170 * MIB)]
    {
        jobs.extend((0..40).map(|at| job(from + at, name, well(at), claim_bytes, 0)));
        jobs.extend((40..45).map(|at| job(from + at, name, 900 * MIB, claim_bytes, 1)));
    }
    jobs.extend((400..402).map(|number| job(number, "few", 10 * MIB, 4096 * MIB, 0)));
    let others = ReportView { user: "ben".into(), ..job(500, "much", 3000 * MIB, 4096 * MIB, 0) };
    jobs.push(others);
    store.ingest(host, &bundle(jobs), 1).unwrap();
    let ended = (0..40u32).map(|at| Ended {
        well: true,
        at_s: f64::from(at),
        row: Row { features: Features::default(), peak_bytes: well(at.into()), wall_s: 3600.0 },
    });
    let advice = answer(&ended.collect::<Vec<_>>(), &Features::default(), None).unwrap();
    let week = weekly::report(store, &Access::All, Subject::All, Week::of(1_700_003_601_000_000)).unwrap();
    let told = |asks: &[weekly::Ask]| -> Vec<(String, u64, u64, u64)> {
        asks.iter().map(|ask| (ask.name.clone(), ask.jobs, ask.held_bytes, ask.ask_bytes)).collect()
    };
    let ask_bytes = advice.bytes.div_ceil(MIB) * MIB;
    assert_eq!(told(&week.asks), [("much".to_owned(), 40, 156 * MIB, ask_bytes)]);
    assert_eq!(told(&week.short), [("little".to_owned(), 40, 156 * MIB, ask_bytes)]);
}

/// Of more classes than are put together those with the most unused memory are told, each as a whole.
pub(crate) fn the_most_wasteful_of_many_classes(store: &Store, host: i64) {
    let job = |number: u64| {
        // Each class on two days; the later ones held less of the same claim.
        let mut one = report(number, &format!("class-{}", number % 10), (10 - number % 10) << 28);
        one.ended_s = one.ended_s.map(|end_s| if number > 10 { end_s + DAY_S } else { end_s });
        one
    };
    store.ingest(host, &bundle((1..=20).map(job).collect()), 1).unwrap();
    let whole = store.classes(&all()).unwrap();
    assert_eq!((whole.rows.len(), whole.jobs, whole.cut), (10, 20, false));
    assert_eq!(store.classes_within(&all(), 10, usize::MAX).unwrap(), whole);
    let some = store.classes_within(&all(), 3, usize::MAX).unwrap();
    assert_eq!((some.jobs, some.cut), (6, true));
    assert_eq!(some.rows[..], whole.rows[..3]);
    // The same with less memory than the sums of all of them take.
    for (bytes_max, most) in [(300, 9), (60, 2), (0, 1)] {
        let some = store.classes_within(&all(), 10, bytes_max).unwrap();
        assert!(some.cut && (1..=most).contains(&some.rows.len()), "{} in {bytes_max}", some.rows.len());
        assert_eq!(some.rows[..], whole.rows[..some.rows.len()]);
    }
    assert_eq!(some.rows[0].name, "class-9");
}

/// Of more hosts than a page has those with the most jobs of a class are told, each as it is by itself.
pub(crate) fn a_class_by_host_has_the_most_jobs(store: &Store, host: i64) {
    let mut jobs = 0;
    for number in 0..25u64 {
        let name = format!("node{number:02}");
        store.add_token(Kind::Host, &name, &[10 + u8::try_from(number).unwrap(); 32], "test", 1).unwrap();
        let host = store.holder(&[10 + u8::try_from(number).unwrap(); 32]).unwrap().unwrap().host;
        // Those of two hosts are as many; on two days, and some failed.
        let of_host = (1..=3 + number / 2).map(|job| {
            let mut one = report(job, "align", ((number + 1) * (job + 1)) << 24);
            one.ended_s = one.ended_s.map(|end_s| if job % 2 == 0 { end_s + DAY_S } else { end_s });
            one.exit_code = Some(i32::from(job % 3 == 0));
            one
        });
        jobs += store.ingest(host, &bundle(of_host.collect()), 1).unwrap().new;
    }
    store.ingest(host, &bundle(vec![report(1, "other", 1)]), 1).unwrap();
    let of_class = JobQuery { name: Some("align".into()), ..all() };
    let told = store.class_weeks(&of_class).unwrap();
    assert_eq!(told.weeks.iter().map(|(_, row)| row.jobs).sum::<u64>(), jobs);
    let names: Vec<&str> = told.hosts.iter().map(|row| row.name.as_str()).collect();
    let want: Vec<String> = (0..25u64)
        .rev()
        .map(|at| format!("node{:02}", if at == 24 { 24 } else { at ^ 1 }))
        .take(20)
        .collect();
    assert!(names.iter().eq(want.iter()), "{names:?}");
    assert!(told.more_hosts);
    for row in &told.hosts {
        let alone = JobQuery { host: Some(row.name.clone()), ..of_class.clone() };
        let mut alone = store.classes(&alone).unwrap().rows.remove(0);
        alone.name.clone_from(&row.name);
        assert_eq!(*row, alone);
    }
}

/// A run that is of the time that is asked for is told as a whole: also what came in in another month, or from a host of
/// which all was over before.
pub(crate) fn a_run_is_whole_wherever_the_time_is_cut(store: &Store, host: i64) {
    store.add_token(Kind::Host, "beta", &[2; 32], "test", 1).unwrap();
    let other = store.holder(&[2; 32]).unwrap().unwrap().host;
    let job = |number: u64, day: f64| {
        let mut one = report(number, "step", 1 << 30);
        one.comment = Some("workflow=w run=1".into());
        one.submitted_s += day * DAY_S;
        one.started_s = one.started_s.map(|start_s| start_s + day * DAY_S);
        one.ended_s = one.ended_s.map(|end_s| end_s + day * DAY_S);
        one
    };
    for (host, number, day, now_us) in [
        (host, 1, 0.0, 1_700_000_000_000_000),
        (host, 2, 20.0, 1_700_000_000_000_000 + MONTH_US),
        (other, 3, 2.0, 1),
    ] {
        store.ingest(host, &bundle(vec![job(number, day)]), now_us).unwrap();
    }
    let day = |day: f64| Some(pinfold_hubwire::bundle::microseconds(1_700_003_601.0 + day * DAY_S));
    let runs = |since_us, until_us| store.runs(&JobQuery { since_us, until_us, limit: 10, ..all() }).unwrap();
    let whole = runs(None, None);
    assert_eq!((whole.len(), whole[0].jobs, whole[0].hosts), (1, 3, 2));
    assert!((whole[0].makespan_s() - (20.0 * DAY_S + 3_601.0)).abs() < 1.0);
    for since in [0.0, 1.0, 3.0, 19.0] {
        assert_eq!(runs(day(since), None), whole, "since day {since}");
    }
    assert_eq!(runs(day(21.0), None), []);
    assert_eq!(runs(None, day(21.0)), whole);
    assert_eq!(runs(None, day(10.0)), [], "it was not over yet");
    let of_host = |name: &str| JobQuery { host: Some(name.into()), since_us: day(10.0), limit: 10, ..all() };
    assert_eq!(store.runs(&of_host("beta")).unwrap(), [], "there it was over before");
    assert_eq!(store.runs(&of_host("alpha")).unwrap()[0].jobs, 2);
}

/// A host that is not believed about users takes no place from those that are.
pub(crate) fn jobs_of_others_leave_room_to_learn_from(store: &Store, host: i64) {
    store.add_token(Kind::Host, "liar", &[2; 32], "test", 1).unwrap();
    let liar = store.holder(&[2; 32]).unwrap().unwrap().host;
    let job = |number: u64| {
        let mut one = report(number, "align", 1 << 30);
        one.command = vec!["align".into()];
        one
    };
    let runs = u64::try_from(RUNS_MIN).unwrap();
    store.ingest(host, &bundle((1..=runs).map(job).collect()), 1).unwrap();
    let far = |number: u64| {
        let mut one = job(number);
        one.ended_s = Some(1_700_200_000.0);
        one
    };
    store.ingest(liar, &bundle((1..=20).map(far).collect()), 1).unwrap();
    let learned = |hosts: &[&str]| {
        let hosts: Vec<String> = hosts.iter().map(|&name| name.to_owned()).collect();
        store.learned_within(&hosts, Whose::Users, 0, 20).unwrap()
    };
    let likeness = Sha256::digest(learned::likeness(&["align".to_owned()], "align", 2).unwrap());
    let class = hex(&class_of(&likeness, "ann")[..CLASS_BYTES]);
    let told = learned(&["alpha"]);
    assert_eq!(told.iter().map(|row| (&row.class, row.hosts)).collect::<Vec<_>>(), [(&class, 1)]);
    assert_eq!(u64::from(told[0].runs), runs);
    assert_eq!(learned(&["*"])[0].hosts, 1, "the last twenty are of one host");
    assert_eq!(learned(&["nobody"]), []);
}

#[test]
fn sums_are_not_made_anew_beside_a_hub_that_writes() {
    let Some(server) = Server::start() else { return };
    let (store, host) = known(Store::open(&server.at(), None).unwrap());
    store.ingest(host, &bundle(vec![report(1, "x", 1)]), 1).unwrap();
    // As a hub in the midst of writing jobs.
    let mut hub = server.client();
    hub.batch_execute("BEGIN; LOCK TABLE jobs IN ROW EXCLUSIVE MODE").unwrap();
    let waits = "SELECT 1 FROM pg_locks WHERE relation = 'jobs'::regclass AND NOT granted";
    std::thread::scope(|scope| {
        let summing = scope.spawn(|| store.sum_anew().unwrap());
        let until = Instant::now() + Duration::from_secs(180);
        while server.client().query(waits, &[]).unwrap().is_empty() {
            assert!(!summing.is_finished(), "it did not wait");
            assert!(Instant::now() < until, "it neither waits nor ends");
            std::thread::sleep(Duration::from_millis(10));
        }
        hub.batch_execute("COMMIT").unwrap();
    });
    assert_eq!(store.usage(Group::All, &all()).unwrap()[0].jobs, 1);
}
