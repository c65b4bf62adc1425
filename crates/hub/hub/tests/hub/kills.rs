//! Whatever is killed at whatever instant, a job is counted once: the pusher between any two things that it does to its disk,
//! the hub before and after it has a bundle, the network with the answer.
use std::cell::Cell;
use std::io;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

use crate::common::{MadeUp, machine, report, token};
use crate::store::{check_lists, check_sums};
use pinfold_hub::secret;
use pinfold_hub::store::{Access, Kind, ReportQuery, Store, now_us};
use pinfold_hubwire::bundle::{self, LiveReceipt, Receipt};
use pinfold_hubwire::disk::{Disk, RealDisk, UNFINISHED};
use pinfold_hubwire::push::{Pusher, Uplink, UplinkError};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// A disk whose process is killed after so many acts: nothing that it would do later is done, and what it does then may be
/// half done.
#[derive(Debug, Clone)]
struct Mortal {
    left: Rc<Cell<u32>>,
}

impl Mortal {
    fn dies_after(acts: u32) -> Self {
        Self { left: Rc::new(Cell::new(acts)) }
    }

    /// Whether the process is killed by now.
    fn act(&self) -> io::Result<()> {
        match self.left.get() {
            0 => Err(io::Error::other("killed")),
            left => {
                self.left.set(left - 1);
                Ok(())
            }
        }
    }
}

impl Disk for Mortal {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.act().is_err() {
            let mut name = path.as_os_str().to_owned();
            name.push(UNFINISHED);
            let _ = std::fs::write(name, &bytes[..bytes.len() / 2]);
            return Err(io::Error::other("killed"));
        }
        // As the real one, without waiting for the disk: a process is killed here, not the power cut.
        let mut name = path.as_os_str().to_owned();
        name.push(UNFINISHED);
        std::fs::write(&name, bytes)?;
        std::fs::rename(&name, path)
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        self.act()?;
        RealDisk.read(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.act()?;
        RealDisk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.act()?;
        std::fs::rename(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        self.act()?;
        RealDisk.list(dir)
    }
}

/// A hub that is killed before or after it has what it was sent, and started again.
struct Unreliable<'a> {
    store: Option<Store>,
    database: &'a Path,
    host: i64,
    dice: &'a mut Pcg64Mcg,
    killed: u32,
}

impl Uplink for Unreliable<'_> {
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
        let fate = self.dice.next_u32() % 6;
        if fate == 0 {
            return Err(UplinkError::Later("it never arrived".into()));
        }
        let store = self.store.get_or_insert_with(|| Store::open_file(self.database, None).unwrap());
        let bundle = bundle::read_bundle(packed).unwrap();
        let receipt = store.ingest(self.host, &bundle, now_us()).unwrap();
        if fate == 1 {
            self.store = None;
            self.killed += 1;
            return Err(UplinkError::Later("it has it, and was killed before it could say so".into()));
        }
        Ok(receipt)
    }

    fn live(&mut self, _packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
        Ok(LiveReceipt::default())
    }
}

/// Pushes `jobs` jobs over as many kills as it takes, and looks whether each is there once, and counts once in sums and lists.
fn episode(seed: u64, jobs: u64) -> (u32, u32) {
    let mut dice = Pcg64Mcg::seed_from_u64(seed);
    let dir = in_memory();
    let database = dir.path().join("hub.db");
    let store = Store::open_file(&database, None).unwrap();
    let token = token(&store, Kind::Host, "alpha");
    let host = store.holder(&secret::hash_of_token(&token).unwrap()).unwrap().unwrap().host;
    let mut hub_dice = Pcg64Mcg::seed_from_u64(seed ^ 0xabcd);
    let mut hub =
        Unreliable { store: Some(store), database: &database, host, dice: &mut hub_dice, killed: 0 };
    let mut source =
        MadeUp { points: dice.next_u32() % 5, told: 3 + dice.next_u32() as usize % 20, ..MadeUp::default() };
    let (mut next, mut killed, mut now) = (1, 0, Duration::ZERO);
    let mut done = false;
    while !done {
        let disk = Mortal::dies_after(dice.next_u32() % 40);
        let life = Pusher::open(disk.clone(), dir.path(), 1 << 20, "boot");
        let Ok(mut pusher) = life else {
            killed += 1;
            continue;
        };
        loop {
            // Time goes on, and with it jobs begin and end.
            now += Duration::from_secs(300);
            for _ in 0..dice.next_u32() % 4 {
                if next <= jobs {
                    source.jobs.insert(next, dice.next_u32().is_multiple_of(2));
                    next += 1;
                }
            }
            source.jobs.values_mut().for_each(|over| *over |= dice.next_u32().is_multiple_of(3));
            let collected = pusher.collect(&mut source, now_us());
            let sent = pusher.send(&mut hub, now, 7);
            if disk.left.get() == 0 {
                killed += 1;
                break;
            }
            assert!(collected.unwrap().trouble.is_none());
            sent.unwrap();
            if next > jobs && source.jobs.values().all(|over| *over) && pusher.is_idle() {
                done = true;
                break;
            }
        }
    }
    let hub_killed = hub.killed;
    let store = hub.store.take().unwrap_or_else(|| Store::open_file(&database, None).unwrap());
    let query = ReportQuery { access: Access::All, limit: 10_000, series: true, ..ReportQuery::default() };
    let mut found: Vec<_> =
        store.reports(&query).unwrap().reports.into_iter().map(|one| one.head.report).collect();
    found.sort_by_key(|report| report.job);
    let want: Vec<_> = (1..=jobs)
        .map(|job| {
            let mut report = report(job, "made-up", source.points);
            report.series = report.series.filter(|series| !series.is_empty());
            report
        })
        .collect();
    assert_eq!(found, want, "seed {seed}");
    check_sums(&store);
    // Many questions: some episodes are enough.
    if seed.is_multiple_of(8) {
        check_lists(&store);
    }
    (killed, hub_killed)
}

/// A directory that needs no waiting for a disk, where there is such a place.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// `PINFOLD_KILLS=10000` tries more.
#[test]
fn each_job_is_counted_once_over_hundreds_of_kills_of_either_side() {
    let kills = std::env::var("PINFOLD_KILLS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    let (mut pusher, mut hub, mut seed) = (0, 0, 0);
    while pusher < kills || hub < kills / 10 {
        let (more, hub_more) = episode(seed, 40);
        (pusher, hub, seed) = (pusher + more, hub + hub_more, seed + 1);
    }
    println!("{pusher} kills of the pusher and {hub} of the hub, over {seed} times 40 jobs");
}

#[test]
fn a_series_of_many_parts_is_whole_after_kills() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
    let token = token(&store, Kind::Host, "alpha");
    let host = store.holder(&secret::hash_of_token(&token).unwrap()).unwrap().unwrap().host;
    let points = u32::try_from(bundle::POINTS_A_PART).unwrap() * 2 + 10;
    let whole = crate::common::bundle_of(vec![report(1, "long", points)]);
    assert_eq!(whole.parts.len(), 3);
    // The parts come one by one, each twice.
    for at in 0..3 {
        let one = bundle::Bundle { parts: vec![whole.parts[at].clone()], ..whole.clone() };
        assert_eq!(store.ingest(host, &one, now_us()).unwrap(), Receipt { new: 1, known: 0 });
        assert_eq!(store.ingest(host, &one, now_us()).unwrap(), Receipt { new: 0, known: 1 });
        let incomplete = store.job(1, &Access::All).unwrap().unwrap().incomplete;
        assert_eq!(incomplete, at < 2);
    }
    let found = store.job(1, &Access::All).unwrap().unwrap().head.report;
    assert_eq!(found, report(1, "long", points));
    // A later part without its first is refused, and nothing of its bundle stays.
    let mut other = crate::common::bundle_of(vec![report(2, "other", 1), report(3, "long", points)]);
    other.parts.remove(1);
    assert!(store.ingest(host, &other, now_us()).is_err());
    assert_eq!(store.totals().unwrap().0, 1);
}

#[test]
fn a_full_spool_leaves_jobs_in_the_store_and_none_is_lost() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = MadeUp { points: 200, told: 5, ..MadeUp::default() };
    let mut pusher = Pusher::open(RealDisk, dir.path(), 4_000, "boot").unwrap();
    for job in 1..=50 {
        source.jobs.insert(job, true);
        let _ = pusher.collect(&mut source, now_us()).unwrap();
    }
    let trouble = pusher.collect(&mut source, now_us()).unwrap().trouble.unwrap().to_string();
    assert!(trouble.contains("nothing more is put into it"), "{trouble}");
    let figures = pusher.figures();
    assert!(figures.bytes < 8_000 && figures.jobs_waiting > 10, "{figures:?}");

    let store = Store::open_file(&dir.path().join("hub.db"), None).unwrap();
    let token = token(&store, Kind::Host, "alpha");
    let host = store.holder(&secret::hash_of_token(&token).unwrap()).unwrap().unwrap().host;
    struct Reliable(Store, i64);
    impl Uplink for Reliable {
        fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
            Ok(self.0.ingest(self.1, &bundle::read_bundle(packed).unwrap(), now_us()).unwrap())
        }
        fn live(&mut self, _packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
            Ok(LiveReceipt::default())
        }
    }
    let mut hub = Reliable(store, host);
    while !pusher.is_idle() {
        pusher.send(&mut hub, Duration::ZERO, 0).unwrap();
        let _ = pusher.collect(&mut source, now_us()).unwrap();
    }
    assert_eq!(hub.0.totals().unwrap().0, 50);
}

/// A disk that is full as long as the test says so.
#[derive(Debug, Clone, Default)]
struct Filled(Rc<Cell<bool>>);

impl Disk for Filled {
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.0.get() { Err(io::ErrorKind::StorageFull.into()) } else { RealDisk.write(path, bytes) }
    }

    fn read(&self, path: &Path) -> io::Result<Option<Vec<u8>>> {
        RealDisk.read(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        RealDisk.rename(from, to)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<(String, u64)>> {
        RealDisk.list(dir)
    }
}

#[test]
fn a_full_disk_on_the_host_is_told_and_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Filled::default();
    let mut source = MadeUp { told: 100, ..MadeUp::default() };
    let mut pusher = Pusher::open(disk.clone(), dir.path(), 1 << 20, "boot").unwrap();
    for (job, full) in [(1, false), (2, true), (3, true), (4, false)] {
        source.jobs.insert(job, true);
        disk.0.set(full);
        let collected = pusher.collect(&mut source, now_us()).unwrap();
        let trouble = collected.trouble.map(|trouble| trouble.to_string());
        assert_eq!(trouble.is_some(), full, "{trouble:?}");
        assert!(trouble.is_none_or(|trouble| trouble.contains("failed to write")));
    }
    let mut found = Vec::new();
    let mut spool = pinfold_hubwire::spool::Spool::look(RealDisk, dir.path()).unwrap();
    while let Some((number, packed)) = spool.first().unwrap() {
        found.extend(bundle::read_bundle(&packed).unwrap().parts.iter().map(|part| part.job));
        spool.remove(number).unwrap();
    }
    assert_eq!(found, [1, 2, 3, 4]);
}

#[test]
fn a_bundle_that_is_refused_keeps_no_other_back() {
    struct Picky(Vec<u64>);
    impl Uplink for Picky {
        fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
            let bundle = bundle::read_bundle(packed).unwrap();
            if bundle.parts.iter().any(|part| part.job == 7) {
                return Err(UplinkError::Refused("job 7 is odd".into()));
            }
            self.0.extend(bundle.parts.iter().map(|part| part.job));
            Ok(Receipt { new: bundle.parts.len() as u64, known: 0 })
        }
        fn live(&mut self, _packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
            Ok(LiveReceipt::default())
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut source = MadeUp { told: 100, ..MadeUp::default() };
    source.jobs.extend((1..=20).map(|job| (job, true)));
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1 << 20, "boot").unwrap();
    assert!(pusher.collect(&mut source, now_us()).unwrap().trouble.is_none());
    let mut hub = Picky(Vec::new());
    let mut refused = Vec::new();
    while !pusher.is_idle() {
        refused.extend(pusher.send(&mut hub, Duration::ZERO, 0).unwrap().refused);
    }
    assert_eq!(refused, ["job 7 is odd"]);
    assert_eq!(hub.0, (1..=20).filter(|job| *job != 7).collect::<Vec<_>>());
    assert_eq!(pusher.figures().refused, 1);
}

/// Refuses each bundle of several jobs, and takes what is of one; what it says of them is what no hub can have.
struct OneByOne(u64);

impl Uplink for OneByOne {
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
        if bundle::read_bundle(packed).unwrap().parts.len() > 1 {
            return Err(UplinkError::Refused("one at a time".into()));
        }
        self.0 += 1;
        Ok(Receipt { new: u64::MAX, known: u64::MAX })
    }

    fn live(&mut self, _packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
        Ok(LiveReceipt::default())
    }
}

#[test]
fn a_disk_that_is_full_as_a_bundle_is_divided_is_tried_again() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Filled::default();
    let mut source = MadeUp { told: 100, ..MadeUp::default() };
    source.jobs.extend((1..=3).map(|job| (job, true)));
    let mut pusher = Pusher::open(disk.clone(), dir.path(), 1 << 20, "boot").unwrap();
    assert!(pusher.collect(&mut source, now_us()).unwrap().trouble.is_none());
    let mut hub = OneByOne(0);
    disk.0.set(true);
    let error = pusher.send(&mut hub, Duration::ZERO, 0).unwrap_err().to_string();
    assert!(error.contains("failed to write"), "{error}");
    assert!(!pusher.may_send(Duration::ZERO) && pusher.figures().bundles == 1);
    disk.0.set(false);
    let sent = pusher.send(&mut hub, Duration::from_secs(1), 0).unwrap();
    assert_eq!((sent.bundles, sent.new, sent.known), (3, u64::MAX, u64::MAX), "as many as can be counted");
    assert!(hub.0 == 3 && pusher.is_idle());
}

/// Each of its answers is of another database: all is sent anew ever more rarely, and what is new at once.
#[test]
fn a_hub_of_another_generation_each_time_is_not_sent_all_without_pause() {
    struct Changing(u64, u64);
    impl Uplink for Changing {
        fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
            let parts = bundle::read_bundle(packed).unwrap().parts.len() as u64;
            self.1 += parts;
            Ok(Receipt { new: parts, known: 0 })
        }
        fn live(&mut self, _packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
            self.0 += 1;
            Ok(LiveReceipt { generation: Some(self.0), ..LiveReceipt::default() })
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut source = MadeUp { told: 100, ..MadeUp::default() };
    source.jobs.insert(1, true);
    let (mut hub, mut pusher) =
        (Changing(0, 0), Pusher::open(RealDisk, dir.path(), 1 << 20, "boot").unwrap());
    for at_s in 0..60 {
        let now = Duration::from_secs(at_s);
        let status = pusher.collect(&mut source, now_us()).unwrap().status;
        assert_eq!(pusher.tell(&mut hub, status, 1, now, u32::MAX).unwrap(), None);
        assert!(pusher.send(&mut hub, now, u32::MAX).unwrap().failed.is_none());
    }
    // Once at first, at once when it is another one, and after 1, 2, 4, 8, 16 seconds more.
    assert_eq!(hub.1, 7);
}

#[test]
fn how_the_cores_lie_is_told_once_and_again_when_that_changes() {
    /// What was told: whether with a map, and with how many PUs.
    struct Heard(Vec<(bool, Option<usize>)>, bool);
    impl Uplink for Heard {
        fn bundle(&mut self, _packed: &[u8]) -> Result<Receipt, UplinkError> {
            Ok(Receipt { new: 0, known: 0 })
        }
        fn live(&mut self, packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
            let live = bundle::read_live(packed).unwrap();
            let map = live.map.inspect(|map| assert!(map.sets.iter().all(|set| set.pids.is_empty())));
            self.0.push((map.is_some(), live.topology.map(|topology| topology.pus().len())));
            if self.1 { Ok(LiveReceipt::default()) } else { Err(UplinkError::Refused("not now".into())) }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let (mut source, mut hub) = (MadeUp::default(), Heard(Vec::new(), true));
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1 << 20, "boot").unwrap();
    let mut round = |pusher: &mut Pusher<RealDisk>, source: &mut MadeUp, taken: bool, at_s: u64| {
        hub.1 = taken;
        let status = pusher.collect(source, now_us()).unwrap().status;
        pusher.tell(&mut hub, status, 1, Duration::from_secs(at_s), 0).unwrap();
        hub.0.pop().unwrap()
    };
    assert_eq!(round(&mut pusher, &mut source, true, 0), (false, None), "a host that tells no map");
    source.machine = Some(machine());
    assert_eq!(round(&mut pusher, &mut source, false, 1), (true, Some(8)));
    assert_eq!(round(&mut pusher, &mut source, true, 2), (true, Some(8)), "it was not taken before");
    assert_eq!(round(&mut pusher, &mut source, true, 3), (true, None));
    source.machine = Some(machine().restricted(&"0-3".parse().unwrap()));
    assert_eq!(round(&mut pusher, &mut source, true, 4), (true, Some(8)), "it is another one");
    assert_eq!(round(&mut pusher, &mut source, true, 5), (true, None));
    assert_eq!(round(&mut pusher, &mut source, true, 3_700), (true, Some(8)), "once an hour");
    pusher.meet();
    assert_eq!(round(&mut pusher, &mut source, true, 3_701), (true, Some(8)), "another hub");
}

#[test]
fn a_long_queue_is_told_of_in_part() {
    struct Heard(Option<bundle::Live>);
    impl Uplink for Heard {
        fn bundle(&mut self, _packed: &[u8]) -> Result<Receipt, UplinkError> {
            Ok(Receipt { new: 0, known: 0 })
        }
        fn live(&mut self, packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
            self.0 = Some(bundle::read_live(packed).unwrap());
            Err(UplinkError::Refused("never".into()))
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let mut source = MadeUp::default();
    source.jobs.extend((1..=2_500).map(|job| (job, false)));
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1 << 20, "boot").unwrap();
    let status = pusher.collect(&mut source, now_us()).unwrap().status;
    let mut hub = Heard(None);
    let error = pusher.tell(&mut hub, status, 1, Duration::ZERO, 0).unwrap();
    assert!(matches!(error, Some(UplinkError::Refused(_))));
    assert!(pusher.may_send(Duration::ZERO), "bundles are sent all the same");
    let told = hub.0.unwrap().status;
    assert_eq!((told.jobs.len(), told.jobs[0].job), (2_000, 1));
    assert!(told.warnings.iter().any(|warning| warning.contains("500 more jobs")), "{:?}", told.warnings);
}

#[test]
fn another_daemon_s_numbers_begin_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = MadeUp { told: 10, ..MadeUp::default() };
    source.jobs.insert(900, true);
    let mut pusher = Pusher::open(RealDisk, dir.path(), 1 << 20, "boot").unwrap();
    let _ = pusher.collect(&mut source, now_us()).unwrap();
    struct Other(MadeUp);
    impl pinfold_hubwire::push::Source for Other {
        fn origin(&mut self) -> Result<String, pinfold_hubwire::push::SourceError> {
            Ok("another".into())
        }
        fn numbers(
            &mut self,
            seen: u64,
        ) -> Result<pinfold_hubwire::push::Numbers, pinfold_hubwire::push::SourceError> {
            self.0.numbers(seen)
        }
        fn look(
            &mut self,
            open: &std::collections::BTreeSet<u64>,
        ) -> Result<pinfold_proto::view::StatusView, pinfold_hubwire::push::SourceError> {
            self.0.look(open)
        }
        fn after(
            &mut self,
            seen: u64,
            us: u64,
            most: usize,
        ) -> Result<Vec<pinfold_hubwire::push::Found>, pinfold_hubwire::push::SourceError> {
            self.0.after(seen, us, most)
        }
        fn job(
            &mut self,
            job: u64,
        ) -> Result<
            Option<(pinfold_proto::view::ReportView, Vec<bundle::Act>)>,
            pinfold_hubwire::push::SourceError,
        > {
            self.0.job(job)
        }
    }
    let mut other = Other(MadeUp { told: 10, ..MadeUp::default() });
    other.0.jobs.insert(1, true);
    let _ = pusher.collect(&mut other, now_us()).unwrap();
    assert_eq!(pusher.figures().bundles, 2);
}
