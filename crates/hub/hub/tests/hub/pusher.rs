//! What one user or one job may do to a pusher: nothing that keeps other jobs from the hub.
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use pinfold_hub::secret;
use pinfold_hub::store::{Access, Kind, Store, now_us};
use pinfold_hubwire::bundle::{
    self, Act, Bundle, LIVE_MAX_BYTES, Live, LiveReceipt, PACKED_MAX_BYTES, POINTS_A_PART, Receipt,
};
use pinfold_hubwire::disk::RealDisk;
use pinfold_hubwire::push::{Found, Numbers, Pusher, Source, SourceError, Uplink, UplinkError};
use pinfold_proto::view::{ReportView, StatusView};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

use crate::common::{MadeUp, idle, token};

/// A host whose jobs are as they are made here.
struct Of<F>(MadeUp, F);

impl<F: FnMut(u64) -> Result<ReportView, SourceError>> Of<F> {
    /// Jobs 1 to this one, which are over.
    fn jobs(count: u64, make: F) -> Self {
        Self(MadeUp { jobs: over(count), told: 1, ..MadeUp::default() }, make)
    }
}

/// Jobs 1 to this one, which are over.
fn over(count: u64) -> BTreeMap<u64, bool> {
    (1..=count).map(|job| (job, true)).collect()
}

impl<F: FnMut(u64) -> Result<ReportView, SourceError>> Source for Of<F> {
    fn origin(&mut self) -> Result<String, SourceError> {
        self.0.origin()
    }

    fn numbers(&mut self, seen: u64) -> Result<Numbers, SourceError> {
        self.0.numbers(seen)
    }

    fn look(&mut self, open: &BTreeSet<u64>) -> Result<StatusView, SourceError> {
        self.0.look(open)
    }

    fn after(&mut self, seen: u64, since_us: u64, most: usize) -> Result<Vec<Found>, SourceError> {
        self.0.after(seen, since_us, most)
    }

    fn job(&mut self, job: u64) -> Result<Option<(ReportView, Vec<Act>)>, SourceError> {
        (self.1)(job).map(|report| Some((report, Vec::new())))
    }
}

/// A hub over a store of its own, which refuses for good what it is told to.
struct Hub {
    store: Store,
    host: i64,
    refuses: fn(&Bundle) -> bool,
    live: Vec<u8>,
    generation: Option<u64>,
    _dir: tempfile::TempDir,
}

impl Hub {
    fn new(refuses: fn(&Bundle) -> bool) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
        let token = token(&store, Kind::Host, "alpha");
        let host = store.holder(&secret::hash_of_token(&token).unwrap()).unwrap().unwrap().host;
        Self { store, host, refuses, live: Vec::new(), generation: None, _dir: dir }
    }

    fn jobs(&self) -> u64 {
        self.store.totals().unwrap().0
    }
}

impl Uplink for Hub {
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
        if packed.len() > PACKED_MAX_BYTES {
            return Err(UplinkError::Later("pinfold-hub-client ends without an answer".into()));
        }
        let bundle = bundle::read_bundle(packed).map_err(|error| UplinkError::Refused(error.to_string()))?;
        if (self.refuses)(&bundle) {
            return Err(UplinkError::Refused("it is none".into()));
        }
        let taken = self.store.ingest(self.host, &bundle, now_us());
        taken.map_err(|error| UplinkError::Refused(error.to_string()))
    }

    fn live(&mut self, packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
        packed.clone_into(&mut self.live);
        Ok(LiveReceipt { generation: self.generation, ..LiveReceipt::default() })
    }
}

/// Rounds of a pusher until all is at the hub, at most so many. Says whether it is.
fn pushed(pusher: &mut Pusher<RealDisk>, source: &mut dyn Source, hub: &mut Hub, rounds: u32) -> bool {
    let mut now = Duration::ZERO;
    for _ in 0..rounds {
        let _ = pusher.collect(source, now_us()).unwrap();
        let _ = pusher.send(hub, now, 0).unwrap();
        if pusher.is_idle() {
            return true;
        }
        now += Duration::from_secs(600);
    }
    false
}

/// Characters of which a quarter takes six bytes in JSON, and that pack badly.
fn noise(dice: &mut Pcg64Mcg, length: usize) -> String {
    (0..length).map(|_| char::from(u8::try_from(dice.next_u32() % 126 + 1).unwrap())).collect()
}

#[test]
fn a_user_s_long_commands_keep_no_job_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Pcg64Mcg::seed_from_u64(7);
    // Each is as long as a daemon takes it.
    let mut source = Of::jobs(200, move |job| {
        let mut report = crate::common::report(job, "x", 0);
        report.command = vec![noise(&mut dice, 40_000)];
        Ok(report)
    });
    let mut hub = Hub::new(|_| false);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    assert!(pushed(&mut pusher, &mut source, &mut hub, 20), "{:?}", pusher.figures());
    assert_eq!((hub.jobs(), pusher.figures().refused), (200, 0));
}

#[test]
fn a_bundle_that_is_too_long_is_divided_and_what_no_hub_takes_is_put_aside() {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Pcg64Mcg::seed_from_u64(7);
    let mut long = crate::common::report(1, "long", 0);
    // In a text that counts little where bundles are closed by their size.
    long.notes = vec![noise(&mut dice, 6 << 20)];
    let mut source =
        Of::jobs(3, move |job| Ok(if job == 1 { long.clone() } else { crate::common::report(job, "x", 0) }));
    let mut hub = Hub::new(|_| false);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    assert!(pushed(&mut pusher, &mut source, &mut hub, 20), "{:?}", pusher.figures());
    assert_eq!((hub.jobs(), pusher.figures().refused), (2, 1));
}

#[test]
fn a_job_with_more_parts_than_the_spool_has_room_for_gets_through_and_so_do_those_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let points = u32::try_from(POINTS_A_PART).unwrap() * 9;
    let mut source =
        Of::jobs(4, move |job| Ok(crate::common::report(job, "x", if job < 3 { points } else { 1 })));
    let mut hub = Hub::new(|_| false);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1_000, "boot").unwrap();
    assert!(pushed(&mut pusher, &mut source, &mut hub, 30), "{:?}", pusher.figures());
    assert_eq!(hub.jobs(), 4);
    for id in [1, 2] {
        let job = hub.store.job(id, &Access::All).unwrap().unwrap();
        assert_eq!(
            (job.incomplete, job.head.report.series.map(|series| series.len())),
            (false, Some(points as usize))
        );
    }
}

#[test]
fn a_job_beside_one_that_is_refused_keeps_its_later_parts() {
    let dir = tempfile::tempdir().unwrap();
    let points = u32::try_from(POINTS_A_PART).unwrap() * 9;
    let mut source =
        Of::jobs(2, move |job| Ok(crate::common::report(job, "x", if job == 2 { points } else { 1 })));
    let mut hub = Hub::new(|bundle| bundle.parts.iter().any(|part| part.job == 1));
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    assert!(pushed(&mut pusher, &mut source, &mut hub, 20), "{:?}", pusher.figures());
    assert_eq!((hub.jobs(), pusher.figures().refused), (1, 1));
    let job = hub.store.job(1, &Access::All).unwrap().unwrap();
    assert_eq!((job.head.report.job, job.incomplete), (2, false));
}

#[test]
fn jobs_of_which_the_daemon_cannot_tell_keep_no_other_back() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Of::jobs(30, |job| match job {
        1..=15 => Err(SourceError("the database disk image is malformed".into())),
        _ => Ok(crate::common::report(job, "x", 0)),
    });
    let mut hub = Hub::new(|_| false);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    assert!(!pushed(&mut pusher, &mut source, &mut hub, 10));
    assert_eq!((hub.jobs(), pusher.figures().jobs_waiting), (15, 15));
    // Once it can, they follow.
    let mut whole = Of::jobs(30, |job| Ok(crate::common::report(job, "x", 0)));
    assert!(pushed(&mut pusher, &mut whole, &mut hub, 10));
    assert_eq!(hub.jobs(), 30);
}

#[test]
fn jobs_that_get_the_numbers_of_others_after_a_store_was_put_back_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut hub = Hub::new(|_| false);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    let mut source = Of::jobs(5, |job| Ok(crate::common::report(job, "x", 0)));
    assert!(pushed(&mut pusher, &mut source, &mut hub, 5));
    assert_eq!(hub.jobs(), 5);
    // The store is one with three jobs again.
    source.0.jobs.split_off(&4);
    assert!(pushed(&mut pusher, &mut source, &mut hub, 5));
    let mut source = MadeUp { jobs: over(6), others: Some(4), ..MadeUp::default() };
    assert!(pushed(&mut pusher, &mut source, &mut hub, 5));
    assert_eq!(hub.jobs(), 8, "three that it had, and three others");
}

#[test]
fn jobs_that_got_the_numbers_of_others_while_no_pusher_ran_are_told() {
    // Of five jobs that the hub has: where others begin, how many jobs there are then, and how many the hub has at the end.
    for (others, now, all) in [(1, 9, 14), (1, 5, 10), (1, 2, 7), (4, 4, 6), (4, 5, 7), (4, 9, 11)] {
        let dir = tempfile::tempdir().unwrap();
        let mut hub = Hub::new(|_| false);
        let open = || Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
        let mut source = MadeUp { jobs: over(5), ..MadeUp::default() };
        assert!(pushed(&mut open(), &mut source, &mut hub, 5));
        assert_eq!(hub.jobs(), 5);
        let mut source = MadeUp { jobs: over(now), others: Some(others), ..MadeUp::default() };
        assert!(pushed(&mut open(), &mut source, &mut hub, 5));
        assert_eq!(hub.jobs(), all, "{others} {now}");
    }
}

#[test]
fn what_is_struck_off_has_nothing_told_again() {
    let dir = tempfile::tempdir().unwrap();
    let mut hub = Hub::new(|_| false);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    let mut source = MadeUp { jobs: over(5), ..MadeUp::default() };
    assert!(pushed(&mut pusher, &mut source, &mut hub, 5));
    source.jobs.split_off(&4);
    let _ = pusher.collect(&mut source, now_us()).unwrap();
    assert!(pusher.is_idle(), "{:?}", pusher.figures());
    source.jobs.insert(6, true);
    assert!(pushed(&mut pusher, &mut source, &mut hub, 5));
    assert_eq!(hub.jobs(), 6);
}

#[test]
fn jobs_that_no_status_has_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let mut hub = Hub::new(|_| false);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    // Of an array the first members are over, and the last thousand jobs are those that are not.
    let mut source = MadeUp { jobs: over(100), told: 0, ..MadeUp::default() };
    source.jobs.extend((101..=1_500).map(|job| (job, false)));
    assert!(pushed(&mut pusher, &mut source, &mut hub, 5));
    assert_eq!(hub.jobs(), 100);
}

/// A hub without a job, whose database is of this generation.
fn of_generation(generation: u64) -> Hub {
    Hub { generation: Some(generation), ..Hub::new(|_| false) }
}

/// The jobs that a hub has once it was told how the host is, and all is sent.
#[track_caller]
fn jobs_after(pusher: &mut Pusher<RealDisk>, source: &mut dyn Source, hub: &mut Hub) -> u64 {
    assert_eq!(pusher.tell(hub, idle(), now_us(), Duration::ZERO, 0).unwrap(), None);
    assert!(pushed(pusher, source, hub, 10), "{:?}", pusher.figures());
    hub.jobs()
}

#[test]
fn a_hub_with_an_earlier_copy_of_its_database_gets_again_what_it_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let open = || Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    let mut source = Of::jobs(30, |job| Ok(crate::common::report(job, "x", 0)));
    let mut pusher = open();
    // Of a hub from before generations, which is upgraded then: nothing is sent again for that.
    let mut hub = Hub::new(|_| false);
    assert_eq!(jobs_after(&mut pusher, &mut source, &mut hub), 30);
    assert_eq!(jobs_after(&mut pusher, &mut source, &mut of_generation(1)), 0);
    assert_eq!(jobs_after(&mut open(), &mut source, &mut of_generation(1)), 0, "it is kept");
    // The copy that was put back lacks all of them.
    let mut copy = of_generation(2);
    assert_eq!(jobs_after(&mut open(), &mut source, &mut copy), 30);
    // One that has half of them counts those once.
    let mut half = of_generation(3);
    let reports = (1..=15).map(|job| crate::common::report(job, "x", 0)).collect();
    half.store.ingest(half.host, &crate::common::bundle_of(reports), now_us()).unwrap();
    assert_eq!(jobs_after(&mut open(), &mut source, &mut half), 30);
}

#[test]
fn hubs_that_take_turns_at_an_address_are_told_all_anew_ever_more_rarely() {
    let dir = tempfile::tempdir().unwrap();
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    let mut source = Of::jobs(3, |job| Ok(crate::common::report(job, "x", 0)));
    let mut hubs = [of_generation(1), of_generation(2)];
    let mut times = 0;
    for round in 0..720 {
        let (now, hub) = (Duration::from_secs(5 * round), &mut hubs[usize::from(round % 2 == 1)]);
        assert_eq!(pusher.tell(hub, idle(), now_us(), now, u32::MAX).unwrap(), None);
        times += u32::from(!pusher.is_idle());
        assert!(pushed(&mut pusher, &mut source, hub, 10), "{:?}", pusher.figures());
    }
    // In an hour, with two minutes between them at last.
    assert!((25..45).contains(&times), "{times}");
    assert_eq!(hubs.map(|hub| hub.jobs()), [3, 3]);
}

#[test]
fn a_host_with_many_long_jobs_is_told_of_within_a_message() {
    let dir = tempfile::tempdir().unwrap();
    let mut dice = Pcg64Mcg::seed_from_u64(7);
    let mut hub = Hub::new(|_| false);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 256 << 20, "boot").unwrap();
    let mut status = idle();
    status.jobs = (1..=1_500)
        .map(|job| {
            let words = noise(&mut dice, 6_000);
            let started_s = (job > 1_400).then_some(1.0);
            let job = serde_json::json!({ "job": job, "name": "x", "user": "ann", "project": null, "state": "queued",
                "class": "primary", "priority": 1, "cpus": null, "memory_bytes": null, "swap_bytes": null, "pids": [],
                "submitted_s": 1.0, "started_s": started_s, "ended_s": null, "exit_code": null, "signal": null,
                "reason": null, "output": words });
            serde_json::from_value(job).unwrap()
        })
        .collect();
    assert_eq!(pusher.tell(&mut hub, status, now_us(), Duration::ZERO, 0).unwrap(), None);
    assert!(hub.live.len() <= PACKED_MAX_BYTES, "{}", hub.live.len());
    let live: Live = bundle::read_live(&hub.live).unwrap();
    let told = live.status.jobs.len();
    assert!((100..1_500).contains(&told), "{told} of at most {LIVE_MAX_BYTES} bytes");
    let started = live.status.jobs.iter().filter(|job| job.started_s.is_some()).count();
    assert_eq!(started, 100, "those that have started are told first");
    let words = format!("{} more jobs are not told to the hub: it is told of {told}", 1_500 - told);
    assert_eq!(live.status.warnings, [words]);
}

/// A hub that is away until it is not.
struct Away {
    hub: Hub,
    away: bool,
    asked: u32,
}

impl Uplink for Away {
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
        if self.away { Err(UplinkError::Later("away".into())) } else { self.hub.bundle(packed) }
    }

    fn live(&mut self, packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
        self.asked += 1;
        if self.away { Err(UplinkError::Later("away".into())) } else { self.hub.live(packed) }
    }
}

#[test]
fn bundles_go_as_soon_as_the_hub_is_heard_again_however_long_it_was_away() {
    let dir = tempfile::tempdir().unwrap();
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1 << 20, "boot").unwrap();
    let mut source = MadeUp::default();
    source.jobs.extend((1..=3).map(|job| (job, true)));
    let mut hub = Away { hub: Hub::new(|_| false), away: true, asked: 0 };
    let mut round = |hub: &mut Away, at_s: u64| {
        let (now, chance) = (Duration::from_secs(at_s), 0);
        let collected = pusher.collect(&mut source, now_us()).unwrap();
        pusher.tell(hub, collected.status, now_us(), now, chance).unwrap();
        pusher.send(hub, now, chance).unwrap();
        hub.hub.jobs()
    };
    (0..600).step_by(2).for_each(|at_s| assert_eq!(round(&mut hub, at_s), 0));
    assert!(
        (50..=150).contains(&hub.asked),
        "a hub that is away is asked every five to ten seconds: {}",
        hub.asked
    );
    hub.away = false;
    let heard = (600..700).step_by(2).find(|at_s| round(&mut hub, *at_s) == 3).unwrap();
    assert!(heard <= 610, "{heard}");
}
