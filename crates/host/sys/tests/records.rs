//! The kernel's records of processes, against processes of this test's own.

#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use pinfold_sys::records::{Birth, End, Records, Source};
use pinfold_testkit::ignore;

fn open() -> Records {
    let records = Records::open();
    if records.source() == Source::Samples {
        ignore!("no records of processes here: {}", records.why_not());
    }
    records
}

/// The kernel's records until the ends of all of these processes; the ends by process, births by child.
fn hear(records: &mut Records, wanted: &BTreeSet<u32>) -> (BTreeMap<u32, Birth>, BTreeMap<u32, Vec<End>>) {
    let (mut births, mut ends) = (BTreeMap::new(), BTreeMap::<u32, Vec<End>>::new());
    // Where no figures come, the kernel tells of an end a moment after it was waited for.
    let deadline = Instant::now() + Duration::from_secs(120);
    while !wanted.iter().all(|pid| ends.contains_key(pid)) {
        assert!(Instant::now() < deadline, "not all ends are told: {ends:?}");
        let taken = records.take(usize::MAX);
        assert!(!taken.lost, "a few processes overflow nothing");
        births.extend(taken.births.into_iter().map(|birth| (birth.pid, birth)));
        for end in taken.ends.into_iter().filter(|end| wanted.contains(&end.process)) {
            assert!(births.contains_key(&end.process), "born before it ended: {end:?}");
            ends.entry(end.process).or_default().push(end);
        }
        std::thread::yield_now();
    }
    (births, ends)
}

fn every_process_is_told_of_once() {
    let mut records = open();
    let mut wanted = BTreeMap::new();
    for code in 0..40 {
        let mut child = Command::new("/bin/sh").args(["-c", &format!("exit {code}")]).spawn().unwrap();
        wanted.insert(child.id(), code);
        child.wait().unwrap();
    }
    let (births, ends) = hear(&mut records, &wanted.keys().copied().collect());
    for (pid, code) in &wanted {
        assert_eq!(births[pid].parent, std::process::id());
        let [end] = &ends[pid][..] else { panic!("one end of {pid}, not {:?}", ends[pid]) };
        assert_eq!((end.exit_code, end.signal, end.is_last), (Some(*code), None, true));
        assert_eq!(end.parent, std::process::id());
        if records.source() == Source::Full {
            let figures = end.figures.as_ref().unwrap();
            assert_eq!(figures.name, "sh");
            assert!(figures.rss_peak_bytes > 100 << 10, "{figures:?}");
        }
    }
}

fn use_of_a_process_is_reported_at_its_end() {
    let mut records = open();
    if records.source() != Source::Full {
        ignore!("no figures: {}", records.why_not());
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("written");
    let script = format!(
        "dd if=/dev/zero of={} bs=1M count=8 conv=fsync 2>/dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; \
         kill -9 $$",
        file.display()
    );
    let mut child =
        Command::new("/bin/sh").args(["-c", &script]).stderr(Stdio::null()).spawn().expect("a shell");
    let pid = child.id();
    child.wait().unwrap();
    let taken = records.take(usize::MAX);
    let burnt = taken.ends.iter().find(|end| end.process == pid).expect("the shell's end");
    assert_eq!((burnt.exit_code, burnt.signal), (None, Some(9)));
    let figures = burnt.figures.as_ref().unwrap();
    assert!(figures.cpu_user_us + figures.cpu_system_us > 10_000, "{figures:?}");
    assert!(figures.lived_us >= figures.cpu_user_us, "{figures:?}");
    let below: BTreeSet<u32> =
        taken.births.iter().filter(|birth| birth.parent == pid).map(|birth| birth.pid).collect();
    let wrote = taken.ends.iter().find(|end| below.contains(&end.process)).expect("dd's end");
    let figures = wrote.figures.as_ref().unwrap();
    assert_eq!(figures.name, "dd");
    // A file system in memory writes nothing to storage.
    assert!(figures.io_write_bytes == 0 || figures.io_write_bytes >= 8 << 20, "{figures:?}");
}

fn threads_are_told_of_one_by_one() {
    let mut records = open();
    if records.source() != Source::Full || !std::path::Path::new("/usr/bin/python3").exists() {
        ignore!("no figures of threads ({}), or no python3", records.why_not());
    }
    let program = "import threading\nts=[threading.Thread(target=lambda: sum(range(200000))) for _ in range(3)]\n\
                   [t.start() for t in ts]\n[t.join() for t in ts]";
    let mut child = Command::new("/usr/bin/python3").args(["-c", program]).spawn().unwrap();
    let pid = child.id();
    child.wait().unwrap();
    let ends: Vec<End> = records.take(usize::MAX).ends.into_iter().filter(|end| end.process == pid).collect();
    assert_eq!(ends.len(), 4, "three threads and the first: {ends:?}");
    assert_eq!(ends.iter().filter(|end| end.is_last).count(), 1, "{ends:?}");
}

pinfold_testkit::trials! {
    every_process_is_told_of_once, use_of_a_process_is_reported_at_its_end, threads_are_told_of_one_by_one,
}
