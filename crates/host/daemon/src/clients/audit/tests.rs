//! The audit over real files: what is changed shows, what a full disk or a crash leaves is told apart from that, and
//! nobody makes it grow without end.

use super::file::current;
use super::*;

fn act(time_s: f64, uid: u32, action: &str, detail: &str) -> Act {
    Act { time_s, uid, user: "ann".to_owned(), action: action.to_owned(), detail: detail.to_owned() }
}

fn three(dir: &Path) -> Audit {
    let mut audit = Audit::open(dir, 1.0);
    audit.record(Concern::Others, act(1.5, 0, "config", "slots.factor: 1.5 -> 2"));
    audit.record(Concern::Others, act(2.5, 7, "cancel", "job 3 of bob"));
    audit.record(Concern::Others, act(3.25, 0, "drain", ""));
    audit
}

fn change(dir: &Path, change: impl Fn(Vec<String>) -> Vec<String>) -> Option<String> {
    let text = std::fs::read_to_string(current(dir)).unwrap();
    let lines = change(text.lines().map(str::to_owned).collect());
    std::fs::write(current(dir), lines.join("\n") + "\n").unwrap();
    let view = Audit::open(dir, 4.0).view(true);
    assert_eq!(view.intact, Some(view.broken.is_none()));
    view.broken
}

#[track_caller]
fn check(audit: &Audit, records: usize, notes: &[&str]) {
    let view = audit.view(true);
    assert_eq!((view.records.len(), view.broken), (records, None));
    assert_eq!(view.notes, notes);
}

#[test]
fn the_chain_goes_on_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    three(dir.path());
    let mut audit = Audit::open(dir.path(), 4.0);
    audit.record(Concern::Others, act(4.0, 0, "undrain", ""));
    check(&audit, 4, &[]);
    assert_eq!(audit.view(false).records[1].detail, "job 3 of bob");
}

#[test]
fn whatever_is_changed_in_the_middle_shows() {
    let dir = tempfile::tempdir().unwrap();
    three(dir.path());
    let fresh = std::fs::read_to_string(current(dir.path())).unwrap();
    let again = || std::fs::write(current(dir.path()), &fresh).unwrap();
    let bob = |mut lines: Vec<String>| {
        lines[1] = lines[1].replace("bob", "eve");
        lines
    };
    assert_eq!(change(dir.path(), bob).unwrap(), "record 2 is not what was written");
    again();
    let gone = |mut lines: Vec<String>| {
        lines.remove(1);
        lines
    };
    assert_eq!(change(dir.path(), gone).unwrap(), "record 3 follows record 1");
    again();
    let first_gone = |mut lines: Vec<String>| {
        lines.remove(0);
        lines
    };
    assert_eq!(change(dir.path(), first_gone).unwrap(), "record 2 is not what was written");
    again();
    let torn = |mut lines: Vec<String>| {
        lines[2].truncate(20);
        lines
    };
    assert!(change(dir.path(), torn).unwrap().starts_with("line 3: "));
    again();
    assert_eq!(change(dir.path(), |lines| lines), None);
}

/// At every byte at which a crash may have cut the last record off.
#[test]
fn an_interrupted_record_is_no_tampering() {
    let dir = tempfile::tempdir().unwrap();
    three(dir.path());
    let text = std::fs::read(current(dir.path())).unwrap();
    let third = text[..text.len() - 1].iter().rposition(|&byte| byte == b'\n').unwrap() + 1;
    for cut in third..text.len() {
        std::fs::write(current(dir.path()), &text[..cut]).unwrap();
        let left = chain::walk(dir.path(), true, SHOWN_MAX);
        assert_eq!(left.broken, None, "cut at {cut}, nothing mended");
        let mut audit = Audit::open(dir.path(), 5.0);
        audit.record(Concern::Others, act(5.0, 0, "undrain", ""));
        let view = audit.view(true);
        assert_eq!(view.broken, None, "cut at {cut}");
        let said = view.records[2].detail.starts_with("an interrupted record of");
        let whole = cut == text.len() - 1;
        assert_eq!((view.records.len(), said), (if cut == third { 3 } else { 4 }, cut > third && !whole));
    }
}

/// As versions before this one left it: the next record behind half of another.
#[test]
fn half_a_record_before_a_whole_one_is_told_and_is_no_tampering() {
    let dir = tempfile::tempdir().unwrap();
    three(dir.path());
    let text = std::fs::read_to_string(current(dir.path())).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let glued = format!("{}\n{}\n{}{}\n", lines[0], lines[1], &lines[2][..33], lines[2]);
    std::fs::write(current(dir.path()), glued).unwrap();
    let mut audit = Audit::open(dir.path(), 4.0);
    check(&audit, 3, &["an interrupted record of 33 bytes stands before record 3"]);
    audit.record(Concern::Others, act(4.0, 0, "undrain", ""));
    check(&audit, 4, &["an interrupted record of 33 bytes stands before record 3"]);
    let forged = format!("{}\n{}{}\n", lines[0], &lines[1][..33], lines[2]);
    std::fs::write(current(dir.path()), forged).unwrap();
    assert!(Audit::open(dir.path(), 4.0).view(true).broken.is_some(), "a record is missing");
}

#[test]
fn what_the_disk_has_no_room_for_is_written_later_and_what_is_dropped_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut audit = three(dir.path());
    // A file that cannot be opened, for whatever reason.
    let away = dir.path().join("away");
    std::fs::rename(current(dir.path()), &away).unwrap();
    std::fs::create_dir(current(dir.path())).unwrap();
    for number in 0..WAITING_MAX + 5 {
        audit.record(Concern::Others, act(4.0, 0, "drain", &number.to_string()));
    }
    assert!(audit.lags() && audit.warning().unwrap().contains("1000 records wait for room, 5 were dropped"));
    std::fs::remove_dir(current(dir.path())).unwrap();
    std::fs::rename(&away, current(dir.path())).unwrap();
    audit.keep_up(5.0);
    assert!(!audit.lags());
    check(&audit, 3 + WAITING_MAX + 1, &[]);
    let records = audit.view(false).records;
    assert_eq!((records[3].detail.as_str(), records[1002].detail.as_str()), ("0", "999"));
    assert_eq!(records[1003].detail, "5 acts were not recorded for want of room on the disk");
}

#[test]
fn full_files_are_put_aside_and_the_chain_goes_on_over_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut audit = Audit::open(dir.path(), 1.0);
    audit.log.fill_at(2_000);
    for number in 0..40 {
        audit.record(Concern::Others, act(2.0, 0, "drain", &number.to_string()));
    }
    let files = file::full(dir.path());
    assert!(files.len() > 2, "{files:?}");
    check(&audit, 40 + files.len(), &[]);
    // The chain is taken up from a full file too, if the next one is not begun.
    std::fs::remove_file(current(dir.path())).unwrap();
    let mut audit = Audit::open(dir.path(), 3.0);
    audit.log.fill_at(2_000);
    audit.record(Concern::Others, act(3.0, 0, "undrain", ""));
    assert_eq!(audit.view(true).broken, None);
    // A file in the middle that is missing shows.
    std::fs::rename(&files[1], dir.path().join("away")).unwrap();
    assert!(audit.view(true).broken.unwrap().contains("follows record"));
    std::fs::rename(dir.path().join("away"), &files[1]).unwrap();
    let text = std::fs::read_to_string(&files[0]).unwrap();
    std::fs::write(&files[0], text.replace("\"5\"", "\"6\"")).unwrap();
    assert_eq!(audit.view(true).broken.unwrap(), "record 6 is not what was written");
    std::fs::write(&files[0], text).unwrap();
    // So many are kept; what is gone is told.
    for number in 0..400 {
        audit.record(Concern::Others, act(4.0, 0, "drain", &number.to_string()));
    }
    let bytes = |path: &Path| std::fs::metadata(path).unwrap().len();
    let files = file::full(dir.path());
    assert_eq!(files.len(), 15);
    assert!(files.iter().all(|path| bytes(path) < 3_000), "each is full at its size");
    let view = audit.view(true);
    assert_eq!((view.broken, view.notes.len()), (None, 1));
    assert!(view.notes[0].contains("are not kept any more"), "{:?}", view.notes);
}

/// Words about one's own jobs, as many as one likes, as fast as one likes.
#[test]
fn nobody_makes_it_grow_by_acts_on_own_jobs() {
    let dir = tempfile::tempdir().unwrap();
    let mut audit = Audit::open(dir.path(), 0.0);
    let bytes = |dir: &Path| std::fs::metadata(current(dir)).unwrap().len();
    for number in 0..20_000 {
        audit.record(Concern::Own, act(0.0, 7, "set", &"x".repeat(number)));
        audit.record(Concern::Own, act(0.0, 7, "hold", "job 1"));
    }
    let grown = bytes(dir.path());
    assert!(grown < 60 * 600, "{grown}");
    assert!(!audit.unflushed, "and the disk does not wait for it");
    // Another user's first acts are on record all the same, and what concerns others always.
    audit.record(Concern::Own, act(0.0, 8, "cancel", "job 2"));
    audit.record(Concern::Others, act(0.0, 7, "cancel", "job 3 of bob"));
    check(&audit, 62, &[]);
    assert!(audit.lags());
    // The count comes when there is room in the budget, or at the end.
    audit.keep_up(61.0);
    let last = audit.view(true).records.pop().unwrap();
    let counted = "more that concerns own jobs alone, by number: hold 19970, set 19970";
    assert_eq!((last.action.as_str(), last.uid, last.detail.as_str()), ("own", 7, counted));
    assert!(!audit.lags());
    // A day of it, by many.
    let before = bytes(dir.path());
    for second in 62..62 + 86_400 {
        for uid in 100..102 {
            audit.record(Concern::Own, act(f64::from(second), uid, "set", "job 1, priority 5"));
        }
    }
    audit.close(86_462.0);
    let grown = bytes(dir.path()) - before;
    assert!(grown < 2 * 1_550 * 400, "{grown}");
    check(&audit, audit.view(false).records.len(), &[]);
}
