use super::*;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

impl Scratch {
    /// Clears a job's directory to its end.
    fn remove(&self, job: u64) -> Result<(), ScratchError> {
        let mut clearing = Clearing::default();
        while self.clear_step(job, &mut clearing, 1000)? != Cleared::Gone {}
        Ok(())
    }
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[test]
fn a_plain_one_is_private_and_gone_when_removed() {
    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::plain(root.path(), own(), "i1");
    assert_eq!(scratch.list(), Vec::<u64>::new());
    let path = scratch.make(7, 1 << 20, own()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o700);
    std::fs::create_dir_all(path.join("a/b")).unwrap();
    std::fs::write(path.join("a/b/c"), "x").unwrap();
    let elsewhere = root.path().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::fs::write(elsewhere.join("kept"), "x").unwrap();
    symlink(&elsewhere, path.join("link")).unwrap();
    symlink(&elsewhere, path.join("a/link")).unwrap();
    assert_eq!(scratch.list(), [7]);
    // Made again it is empty again.
    scratch.make(7, 1 << 20, own()).unwrap();
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    scratch.remove(7).unwrap();
    scratch.remove(7).unwrap();
    assert!(!path.exists() && elsewhere.join("kept").exists());
    scratch.close();
    assert_eq!(std::fs::read_dir(root.path()).unwrap().count(), 1, "only what was not ours is left");
}

/// In a directory where all users may make entries, the name is this user's from the claim on.
#[test]
fn a_claimed_directory_exists_before_the_first_job() {
    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::plain(root.path(), own(), "i1");
    scratch.look().unwrap();
    assert!(!scratch.base().exists(), "a look makes nothing");
    scratch.claim().unwrap();
    scratch.claim().unwrap();
    assert_eq!(std::fs::metadata(scratch.base()).unwrap().permissions().mode() & 0o777, 0o711);
    assert_eq!(scratch.list(), Vec::<u64>::new());
    scratch.look().unwrap();
    assert!(Scratch::plain(&root.path().join("nowhere"), own(), "i1").claim().is_err());
}

#[test]
fn room_that_lacks_is_told_from_other_failures() {
    let error = |errno| failed("make", Path::new("/x"), errno);
    assert!(error(Errno::NOSPC).is_for_lack_of_room() && error(Errno::DQUOT).is_for_lack_of_room());
    assert!(!error(Errno::ACCESS).is_for_lack_of_room());
    assert!(!foreign(PathBuf::from("/x"), None).is_for_lack_of_room());
}

#[test]
fn planted_directories_are_refused() {
    let root = tempfile::tempdir().unwrap();
    let theirs = root.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    let scratch = Scratch::plain(root.path(), own(), "i1");
    symlink(&theirs, scratch.base()).unwrap();
    let refused =
        |scratch: &Scratch| matches!(scratch.make(1, 4096, own()), Err(ScratchError::Foreign { .. }));
    assert!(refused(&scratch), "a link");
    assert!(scratch.remove(1).is_err());
    std::fs::remove_file(scratch.base()).unwrap();
    std::fs::write(scratch.base(), "").unwrap();
    assert!(refused(&scratch), "a file");
    std::fs::remove_file(scratch.base()).unwrap();
    std::fs::create_dir(scratch.base()).unwrap();
    std::fs::set_permissions(scratch.base(), PermissionsExt::from_mode(0o777)).unwrap();
    assert!(refused(&scratch), "open to all");
    std::fs::set_permissions(scratch.base(), PermissionsExt::from_mode(0o700)).unwrap();
    if own() == 0 {
        std::os::unix::fs::chown(scratch.base(), Some(65534), None).unwrap();
        assert!(refused(&scratch), "another user's");
        for error in [scratch.claim().unwrap_err(), scratch.look().unwrap_err()] {
            assert_eq!(error.to_string(), format!("{} belongs to user 65534", scratch.base().display()));
        }
    }
    assert_eq!(std::fs::read_dir(&theirs).unwrap().count(), 0);
}

#[test]
#[ignore = "needs root"]
fn as_root_a_mounted_one_is_of_its_size_and_its_users() {
    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::mounted(root.path(), "i1");
    let path = scratch.make(3, 1 << 20, 65534).unwrap();
    let found = std::fs::metadata(&path).unwrap();
    assert_eq!((found.uid(), found.mode() & 0o7777), (65534, 0o700));
    assert_ne!(found.dev(), std::fs::metadata(root.path()).unwrap().dev());
    let full = std::fs::write(path.join("large"), vec![1; 2 << 20]).unwrap_err();
    assert_eq!(full.kind(), io::ErrorKind::StorageFull);
    let flags = rustix::fs::statvfs(&path).unwrap().f_flag;
    use rustix::fs::StatVfsMountFlags as Flags;
    assert!(flags.contains(Flags::NOSUID | Flags::NODEV), "{flags:?}");
    assert_eq!(scratch.list(), [3]);
    // A directory made again takes the place of the first, not on top of it. A child of another test, started as the file
    // was written, has it open until it executes its program.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let mut again = scratch.make(3, 1 << 20, 65534);
    while matches!(again, Err(ScratchError::Left(_))) && std::time::Instant::now() < deadline {
        std::thread::yield_now();
        again = scratch.make(3, 1 << 20, 65534);
    }
    assert_eq!(again.unwrap(), path);
    assert_eq!(std::fs::read_dir(&path).unwrap().count(), 0);
    scratch.remove(3).unwrap();
    assert!(!path.exists());
    scratch.close();
    assert!(!scratch.base().exists());
}

/// Obstacles to the removal of a job's directory: names that are no text, nests deeper than the limit of open files, closed
/// directories, names that the removal itself might use.
#[test]
fn hostile_leftovers_of_a_job_are_removed() {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::plain(root.path(), own(), "i1");
    let path = scratch.make(1, 1 << 20, own()).unwrap();
    std::fs::create_dir_all(path.join(OsStr::from_bytes(b"\xff\xfe/\n\x1b[2J")).join("..")).unwrap();
    std::fs::write(path.join(OsStr::from_bytes(b"\xff\xfe/\n\x1b[2J/\x80")), "x").unwrap();
    std::fs::create_dir_all(path.join("a/.removed-1/b/c")).unwrap();
    std::fs::create_dir_all(path.join(".removed-2/b/c")).unwrap();
    let mut deep = open(&rustix::fs::open(&path, OFlags::PATH, Mode::empty()).unwrap(), ".").unwrap();
    for _ in 0..5000 {
        rustix::fs::mkdirat(&deep, "d", PRIVATE).unwrap();
        rustix::fs::symlinkat("/", &deep, "link").unwrap();
        deep = open(&deep, "d").unwrap();
    }
    let shut = path.join("shut/inner/most");
    std::fs::create_dir_all(&shut).unwrap();
    for directory in [&shut, &path.join("shut/inner"), &path.join("shut")] {
        std::fs::set_permissions(directory, PermissionsExt::from_mode(0o0)).unwrap();
    }
    scratch.remove(1).unwrap();
    assert!(!path.exists());
}

/// A step removes at most its bound, and the next step continues; a user's directory is taken from the user.
#[test]
#[ignore = "needs root"]
fn as_root_a_step_is_bounded_and_nothing_is_made_meanwhile() {
    let root = tempfile::tempdir().unwrap();
    std::fs::set_permissions(root.path(), PermissionsExt::from_mode(0o755)).unwrap();
    let scratch = Scratch::plain(root.path(), own(), "i1");
    let path = scratch.make(1, 1 << 20, 65534).unwrap();
    let inner = path.join("a/b");
    std::fs::create_dir_all(&inner).unwrap();
    for (at, directory) in [&path, &path.join("a"), &inner].into_iter().enumerate() {
        std::os::unix::fs::chown(directory, Some(65534), None).unwrap();
        (0..40).for_each(|file| std::fs::write(directory.join(format!("{at}-{file}")), "x").unwrap());
    }
    let opened = rustix::fs::open(&path, OFlags::PATH, Mode::empty()).unwrap();
    let mut clearing = Clearing::default();
    let (mut steps, mut left) = (0, 122);
    while scratch.clear_step(1, &mut clearing, 10).unwrap() != Cleared::Gone {
        steps += 1;
        let there = rustix::fs::fstat(&opened).unwrap();
        assert_eq!((there.st_uid, there.st_mode & 0o777), (0, 0o700), "it is taken first of all");
        let files = count(&path);
        assert!(files < left && left - files <= 10, "{files} of {left}");
        left = files;
    }
    assert!(steps >= 12, "{steps}");
}

fn count(directory: &Path) -> usize {
    let Ok(entries) = std::fs::read_dir(directory) else { return 0 };
    entries.flatten().map(|entry| if entry.path().is_dir() { 1 + count(&entry.path()) } else { 1 }).sum()
}

/// Mounts inside, or over it, are detached, and their contents untouched.
#[test]
#[ignore = "needs root"]
fn as_root_what_is_mounted_inside_is_not_entered() {
    let root = tempfile::tempdir().unwrap();
    let theirs = root.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::write(theirs.join("kept"), "x").unwrap();
    std::fs::write(root.path().join("file"), "x").unwrap();
    for scratch in [Scratch::mounted(root.path(), "i1"), Scratch::plain(root.path(), own(), "i1")] {
        let path = scratch.make(1, 1 << 20, own()).unwrap();
        std::fs::create_dir_all(path.join("a/b/c")).unwrap();
        std::fs::write(path.join("a/file"), "x").unwrap();
        rustix::mount::mount_bind(&theirs, path.join("a/b")).unwrap();
        rustix::mount::mount_bind(root.path().join("file"), path.join("a/file")).unwrap();
        rustix::mount::mount_bind(&theirs, &path).unwrap();
        rustix::mount::mount_bind(&theirs, &path).unwrap();
        scratch.remove(1).unwrap();
        assert!(!path.exists() && theirs.join("kept").exists(), "{scratch:?}");
        assert_eq!(std::fs::read_to_string(root.path().join("file")).unwrap(), "x");
        let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap();
        assert!(!mounts.contains(&*path.to_string_lossy()), "{mounts}");
        scratch.close();
    }
}

/// A closed directory is opened by descriptor: the mode of a link's target stays.
#[test]
fn no_mode_is_changed_through_a_link() {
    let root = tempfile::tempdir().unwrap();
    let theirs = root.path().join("theirs");
    std::fs::create_dir(&theirs).unwrap();
    std::fs::set_permissions(&theirs, PermissionsExt::from_mode(0o755)).unwrap();
    let scratch = Scratch::plain(root.path(), own(), "i1");
    let path = scratch.make(1, 1 << 20, own()).unwrap();
    symlink(&theirs, path.join("link")).unwrap();
    let top = open(&rustix::fs::open(&path, OFlags::PATH, Mode::empty()).unwrap(), ".").unwrap();
    assert!(clear::look_within(&top, c"link").is_err(), "a link is no directory");
    scratch.remove(1).unwrap();
    assert_eq!(std::fs::metadata(&theirs).unwrap().permissions().mode() & 0o777, 0o755);
}

/// Memory of files that a process still has open is not freed, and this is reported.
#[test]
#[ignore = "needs root"]
fn as_root_what_somebody_holds_open_is_not_gone() {
    let root = tempfile::tempdir().unwrap();
    let scratch = Scratch::mounted(root.path(), "i1");
    let path = scratch.make(1, 1 << 20, own()).unwrap();
    std::fs::write(path.join("large"), vec![1; 1 << 19]).unwrap();
    let open: OwnedFd = std::fs::File::open(path.join("large")).unwrap().into();
    let mut clearing = Clearing::default();
    let held = scratch.clear_step(1, &mut clearing, 100).unwrap();
    assert!(matches!(held, Cleared::Held(bytes) if bytes >= 1 << 19), "{held:?}");
    assert_eq!(scratch.list(), [1]);
    drop(open);
    // A child of another test, started at this moment, has it open until it executes its program.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let mut step = scratch.clear_step(1, &mut clearing, 100).unwrap();
    while matches!(step, Cleared::Held(_)) && std::time::Instant::now() < deadline {
        std::thread::yield_now();
        step = scratch.clear_step(1, &mut clearing, 100).unwrap();
    }
    assert_eq!(step, Cleared::Gone);
}

#[test]
fn files_are_held_wherever_they_are_in_a_plain_one_and_no_others() {
    let root = tempfile::tempdir_in("/dev/shm").unwrap();
    let scratch = Scratch::plain(root.path(), own(), "i1");
    assert_eq!(scratch.held_bytes(7), 0, "it has none");
    let path = scratch.make(7, 1 << 20, own()).unwrap();
    std::fs::write(path.join("top"), vec![1; 1 << 20]).unwrap();
    std::fs::create_dir_all(path.join("a/b")).unwrap();
    std::fs::write(path.join("a/b/deep"), vec![1; 2 << 20]).unwrap();
    std::fs::hard_link(path.join("top"), path.join("a/again")).unwrap();
    std::fs::File::create(path.join("sparse")).unwrap().set_len(1 << 30).unwrap();
    std::fs::write(root.path().join("other"), vec![1; 1 << 20]).unwrap();
    symlink(root.path(), path.join("link")).unwrap();
    assert_eq!(scratch.held_bytes(7) >> 20, 3);
}
