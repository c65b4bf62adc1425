use super::*;
use std::os::unix::fs::{PermissionsExt, chown, symlink};

const SOCKET: &str = "/run/p.sock";

#[track_caller]
fn refused(path: &Path, why: &str) {
    let error = StateDir::open(path, Path::new(SOCKET)).expect_err("it is not trusted");
    assert!(error.to_string().contains(why), "{error}");
    assert!(!path.join("lock").exists(), "nothing was made in it");
}

#[test]
fn one_host_has_a_directory_that_several_can_have() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, note) = (dir.path(), shared::note(dir.path()));
    let of = |host: &'static str| {
        // The file is another each time: what another test starts at this moment may have it open still.
        let _ = std::fs::remove_file(whereabouts::lock(state));
        let locked = lock_for((!host.is_empty()).then_some(host), state, Path::new(SOCKET), Duration::ZERO);
        locked.map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(of(""), Ok(()));
    assert!(!note.exists(), "a disk of its own needs no note");
    assert_eq!((of("one"), of("one")), (Ok(()), Ok(())));
    let error = of("two").unwrap_err();
    let why = "is that of the host one, and this is two: name another by --state-dir";
    assert!(error.contains(why) && !whereabouts::lock(state).exists(), "{error}");
    std::fs::remove_file(&note).expect("it is noted");
    assert_eq!(of("two"), Ok(()));
    if boot::id().is_some() {
        note_boot(state);
        assert_eq!((of("renamed"), of("renamed")), (Ok(()), Ok(())));
        assert_eq!(shared::whose(state).as_deref(), Some("renamed"));
    }
    // Another host's daemon of an earlier version lives, and has noted its boot.
    std::fs::remove_file(&note).expect("it is noted");
    std::fs::write(state.join(boot::NOTE), "another\n").expect("a file");
    std::fs::write(state.join(paths::DATABASE), "").expect("a file");
    let error = of("two").unwrap_err();
    assert!(error.contains("was changed since this host came up, and not by this host"), "{error}");
    assert!(!note.exists() && !whereabouts::lock(state).exists(), "nothing was made in it");
}

/// Two containers of one kernel have one boot.
#[test]
fn a_daemon_that_lives_keeps_its_note() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path();
    let open = |host| lock_for(Some(host), state, Path::new(SOCKET), Duration::ZERO);
    let lives = lock(state, Path::new(SOCKET), Duration::ZERO).expect("nobody has it");
    note_boot(state);
    open("two").expect_err("it is locked");
    assert_eq!(shared::whose(state), None);
    shared::claim(state, "one").expect("it is noted");
    open("two").expect_err("it is locked");
    assert_eq!(shared::whose(state).as_deref(), Some("one"));
    drop(lives);
}

/// A daemon that comes while the guard of a dead one thaws jobs waits for it, and none is thawed once it is there.
#[test]
fn a_daemon_waits_for_the_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    assert_eq!(lock_for_guard(dir.path(), Duration::ZERO).unwrap_err().kind(), io::ErrorKind::NotFound);
    drop(lock(dir.path(), Path::new(SOCKET), Duration::ZERO).expect("nobody has it"));
    // What another test starts at that moment has the file open as well until it executes its program.
    let guard = lock_for_guard(dir.path(), Duration::from_secs(600)).expect("its daemon is dead");
    let error = lock(dir.path(), Path::new(SOCKET), Duration::ZERO).expect_err("the guard has it");
    assert!(error.to_string().contains("the guard of a daemon that was killed (process "), "{error}");
    let path = dir.path().to_owned();
    let daemon = std::thread::spawn(move || lock(&path, Path::new(SOCKET), Duration::from_secs(600)));
    drop(guard);
    let daemon = daemon.join().expect("it does not panic").expect("the guard is done");
    assert_eq!(lock_for_guard(dir.path(), Duration::ZERO).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    drop(daemon);
}

/// On a full disk whoever has the lock could not sign: it may be the guard of one that has ended, which lets go of it soon.
#[test]
fn a_daemon_waits_for_one_that_could_not_sign() {
    let dir = tempfile::tempdir().expect("a directory");
    let unsigned = File::create(dir.path().join("lock")).expect("it can be made");
    unsigned.try_lock().expect("nobody has it");
    let error = lock(dir.path(), Path::new(SOCKET), Duration::ZERO).expect_err("it is held").to_string();
    assert!(error.starts_with("another pinfoldd works on"), "{error}");
    let path = dir.path().to_owned();
    let daemon = std::thread::spawn(move || lock(&path, Path::new(SOCKET), Duration::from_secs(600)));
    drop(unsigned);
    daemon.join().expect("it does not panic").expect("nobody has it any more");
}

/// A daemon that takes the directory over and ends before it has found its jobs leaves them to the guard of the one
/// before it.
#[test]
fn a_guard_waits_for_a_daemon_that_may_not_last() {
    let dir = tempfile::tempdir().expect("a directory");
    let daemon = lock(dir.path(), Path::new(SOCKET), Duration::ZERO).expect("nobody has it");
    let path = dir.path().to_owned();
    let guard = std::thread::spawn(move || lock_for_guard(&path, Duration::from_secs(600)));
    drop(daemon);
    guard.join().expect("it does not panic").expect("that daemon is gone");
}

#[test]
fn what_is_noted_is_found_again() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path();
    assert_eq!((noted_clock(state), noted_thaw(state)), (None, None));
    let moment = Moment { us: 1_700_000_000_000_000, monotonic_us: 12 };
    note_clock(state, moment);
    note_thaw(state, 77);
    assert_eq!((noted_clock(state), noted_thaw(state)), (Some(moment), Some(77)));
    forget_thaw(state);
    forget_thaw(state);
    assert_eq!(noted_thaw(state), None);
    for text in ["", "1", "1 x", "-1 2"] {
        std::fs::write(state.join("clock"), text).expect("a file");
        assert_eq!(noted_clock(state), None, "{text}");
    }
}

#[test]
fn another_name_is_drawn_only_if_nothing_runs_under_the_one_before() {
    let dir = tempfile::tempdir().expect("a directory");
    let state = dir.path();
    let drawn = instance(state, false).expect("there was none");
    assert_eq!(instance(state, false).expect("it was kept"), drawn);
    for text in ["", &drawn[..5], "other"] {
        std::fs::write(state.join("instance"), text).expect("a file");
        let error = instance(state, false).expect_err("jobs may run").to_string();
        assert!(error.contains("or remove it if none of its jobs runs"), "{error}");
    }
    let another = instance(state, true).expect("none runs after a restart of the host");
    assert!(another != drawn && instance(state, false).expect("it was kept") == another);
}

/// Whoever waited for what is no regular file might wait for ever, and behind a link lies a file of another.
#[test]
fn only_regular_files_are_taken() {
    let dir = tempfile::tempdir().expect("a directory");
    let (state, other) = (dir.path(), dir.path().join("other"));
    std::fs::write(&other, "as it was").expect("a file");
    for name in ["lock", "numbers", "instance.new"] {
        symlink(&other, state.join(name)).expect("a link");
    }
    let error = lock(state, Path::new(SOCKET), Duration::ZERO).expect_err("it is a link");
    assert!(format!("{error:#}").contains("lock: it is a link, and a regular file is wanted"), "{error:#}");
    crate::store::numbers::Numbers::open(state).tell(9);
    instance(state, false).expect("it lasts for this run");
    assert_eq!(std::fs::read_to_string(&other).expect("it is there"), "as it was");
    let fifo = |name: &str| {
        let made = std::process::Command::new("mkfifo").arg(state.join(name)).status();
        assert!(made.expect("mkfifo").success());
    };
    ["boot", "clock", "thawed", "instance"].iter().for_each(|name| fifo(name));
    assert!(!is_of_another_boot(state) && noted_clock(state).is_none() && noted_thaw(state).is_none());
    let error = instance(state, false).expect_err("it is a FIFO");
    assert!(
        format!("{error:#}").contains("instance: it is a FIFO, and a regular file is wanted"),
        "{error:#}"
    );
}

#[test]
fn what_others_can_write_is_not_trusted() {
    let dir = tempfile::tempdir().expect("a directory");
    let mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).expect("it is ours");
    };
    let state = dir.path().join("above/state");
    drop(StateDir::open(&state, Path::new(SOCKET)).expect("ours, in ours, in /tmp"));
    // The next has another file to lock: what another test starts at this moment may have this one open still.
    std::fs::remove_file(state.join("lock")).expect("the lock");
    let link = dir.path().join("link");
    symlink(&state, &link).expect("a link");
    assert_eq!(
        StateDir::open(&link, Path::new(SOCKET)).expect("a link to ours").path(),
        state.canonicalize().unwrap()
    );
    std::fs::remove_file(state.join("lock")).expect("the lock");
    mode(&state, 0o770);
    refused(&state, "open to others");
    refused(&link, "open to others");
    mode(&state, 0o700);
    mode(&dir.path().join("above"), 0o777);
    refused(&state, "open to others");
    mode(&dir.path().join("above"), 0o1777);
    drop(StateDir::open(&state, Path::new(SOCKET)).expect("nobody can put another in its place"));
    std::fs::remove_file(state.join("lock")).expect("the lock");
    if peer::own_uid() != 0 {
        return;
    }
    chown(&state, Some(65534), None).expect("root gives files away");
    refused(&state, "belongs to someone else");
    chown(&state, Some(0), None).expect("and takes them");
    chown(dir.path().join("above"), Some(65534), None).expect("root gives files away");
    refused(&state, "belongs to someone else");
}
