//! Copies of the database: of one that is written to all the time, and put back over one that is damaged.
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use pinfold_hub::store::{
    Access, Kind, LinkFor, Restored, Revoked, Store, StoreError, TokenRow, backup, restore, verify,
};

/// A directory in which a change takes no wait for a disk, where there is such a place.
fn in_memory() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A database of some thousand pages at this path.
fn large(file: &Path) -> Store {
    let store = Store::open_file(file, None).unwrap();
    for at in 0..24 {
        store.set_meta(&format!("filler {at}"), &"x".repeat(1 << 20)).unwrap();
    }
    store
}

#[test]
fn a_copy_is_made_of_a_database_that_is_never_left_alone() {
    let dir = in_memory();
    let (file, copy) = (dir.path().join("hub.db"), dir.path().join("copy.db"));
    let store = large(&file);
    let (over, changes) = (AtomicBool::new(false), AtomicU64::new(0));
    let (tell, told) = mpsc::channel();
    let made = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                let number = changes.fetch_add(1, Ordering::Relaxed);
                store.set_meta("changes", &number.to_string()).unwrap();
            }
        });
        scope.spawn(|| tell.send(backup(&file, &copy)));
        let made = told.recv_timeout(Duration::from_secs(180));
        over.store(true, Ordering::Relaxed);
        made
    });
    let copied = made.expect("it comes to an end while others write").unwrap();
    assert_eq!(verify(&copy).unwrap(), copied);
    // It is as the database was at one moment.
    let whole = Store::open_file(&copy, None).unwrap();
    assert_eq!(whole.meta("filler 23").unwrap().map(|text| text.len()), Some(1 << 20));
}

/// A database that knows a host of this name.
fn with_host(file: &Path, name: &str) {
    let store = Store::open_file(file, None).unwrap();
    store.add_token(Kind::Host, name, &[1; 32], "test", 1).unwrap();
}

fn host_of(file: &Path) -> String {
    Store::open_file(file, None).unwrap().hosts().unwrap().remove(0).name
}

fn restored(database: &Path, copy: &Path) -> Result<Restored, StoreError> {
    restore(database, copy, "test", 1_000)
}

#[test]
fn a_former_database_is_kept_until_somebody_removes_it() {
    let dir = in_memory();
    let at = |name: &str| dir.path().join(name);
    let (file, before) = (at("hub.db"), at("hub.db.before"));
    for (database, name) in [("hub.db", "first"), ("one.db", "one"), ("two.db", "two")] {
        with_host(&at(database), name);
    }
    restored(&file, &at("one.db")).unwrap();
    assert_eq!((host_of(&file), host_of(&before)), ("one".into(), "first".into()));
    // The wrong copy was put back: what was there at first is not written over.
    let refused = restored(&file, &at("two.db")).unwrap_err().to_string();
    assert!(refused.contains("hub.db.before"), "{refused}");
    assert_eq!((host_of(&file), host_of(&before)), ("one".into(), "first".into()));
    assert!(!at("hub.db.unfinished").exists());
    std::fs::rename(&before, at("kept")).unwrap();
    restored(&file, &at("two.db")).unwrap();
    assert_eq!((host_of(&file), host_of(&before)), ("two".into(), "one".into()));
    // One that was cut short after it had given the former database its second name.
    std::fs::remove_file(&before).unwrap();
    std::fs::hard_link(&file, &before).unwrap();
    restored(&file, &at("one.db")).unwrap();
    assert_eq!((host_of(&file), host_of(&before)), ("one".into(), "two".into()));
}

#[test]
fn a_copy_is_put_back_over_a_database_that_is_damaged() {
    let dir = in_memory();
    let (file, copy) = (dir.path().join("hub.db"), dir.path().join("copy.db"));
    with_host(&copy, "alpha");
    std::fs::write(&file, "no database ".repeat(1_000)).unwrap();
    restored(&file, &copy).unwrap();
    assert_eq!(host_of(&file), "alpha");
    assert!(std::fs::read_to_string(dir.path().join("hub.db.before")).unwrap().starts_with("no database"));
}

/// A database with tokens of host alpha and of the reader ops, a session and a generation; and a copy of it, after which
/// the token of alpha is revoked and one of beta is made.
fn moved_on(file: &Path, copy: &Path) {
    let store = Store::open_file(file, None).unwrap();
    store.add_token(Kind::Host, "alpha", &[1; 32], "test", 1).unwrap();
    store.add_token(Kind::Reader, "ops", &[2; 32], "test", 2).unwrap();
    store.add_code(&[4; 32], LinkFor { name: "ann", via: "", access: &Access::All }, 100, 3).unwrap();
    store.sign_in(&[4; 32], &[5; 32], "c", 200, 4).unwrap();
    assert_eq!(store.generation(5).unwrap(), 5);
    backup(file, copy).unwrap();
    store.revoke(Revoked::Name(Kind::Host, "alpha"), "test", 6).unwrap();
    store.add_token(Kind::Host, "beta", &[3; 32], "test", 7).unwrap();
}

fn names(tokens: &[TokenRow]) -> Vec<&str> {
    tokens.iter().map(|token| token.name.as_str()).collect()
}

#[test]
fn a_copy_that_is_put_back_revives_no_token_and_no_session() {
    let dir = in_memory();
    let (file, copy) = (dir.path().join("hub.db"), dir.path().join("copy.db"));
    moved_on(&file, &copy);
    let restored = restored(&file, &copy).unwrap();
    assert!(restored.former_read);
    let lists = [&restored.revoked, &restored.missing, &restored.valid].map(|list| names(list));
    assert_eq!(lists, [["alpha"], ["beta"], ["ops"]]);
    let store = Store::open_file(&file, None).unwrap();
    assert_eq!(store.holder(&[1; 32]).unwrap(), None);
    assert_eq!(store.tokens().unwrap()[0].revoked_us, Some(6));
    assert_eq!(store.holder(&[2; 32]).unwrap().unwrap().name, "ops");
    assert_eq!(store.session(&[5; 32], 5).unwrap(), None);
    assert_eq!(store.generation(9).unwrap(), 1_000, "hosts see that it is another one");
    assert_eq!(store.audit(1, 0).unwrap()[0].action, "restore");
}

#[test]
fn tokens_that_a_damaged_database_cannot_tell_of_are_named() {
    let dir = in_memory();
    let (file, copy) = (dir.path().join("hub.db"), dir.path().join("copy.db"));
    moved_on(&file, &copy);
    for log in ["hub.db-wal", "hub.db-shm"] {
        let _ = std::fs::remove_file(dir.path().join(log));
    }
    std::fs::write(&file, "no database ".repeat(1_000)).unwrap();
    let restored = restored(&file, &copy).unwrap();
    assert!(!restored.former_read);
    assert_eq!((names(&restored.valid), names(&restored.revoked)), (vec!["alpha", "ops"], vec![]));
}
