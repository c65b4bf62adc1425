//! Files that say more than a process should, below a fake root.

use std::fs::{self, File};

use super::*;

/// The process of these tests.
const PID: u32 = 100;

/// A root with a process, without files.
fn root() -> (tempfile::TempDir, PathBuf) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(PID.to_string());
    fs::create_dir(&folder).unwrap();
    (root, folder)
}

/// Makes a file of 1 TiB, all NULs but for its beginning, which takes no room.
fn endless(path: &Path, beginning: &[u8]) {
    fs::write(path, beginning).unwrap();
    File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
}

#[test]
fn files_of_a_process_are_read_up_to_a_bound() {
    let (root, folder) = root();
    for file in ["cmdline", "environ", "maps", "status", "comm"] {
        endless(&folder.join(file), b"A=1\0B=2\nC=3");
    }
    let proc = Proc::open(root.path()).unwrap();
    assert_eq!(proc.command_line(PID, 1024).unwrap().as_deref(), Some("A=1 B=2\nC=3"));
    assert_eq!(proc.command_line(PID, 3).unwrap().as_deref(), Some("A=1"));
    assert_eq!(proc.arguments(PID, 64 << 10).unwrap().unwrap().len(), 64 << 10);
    let environ = proc.environ(PID).unwrap().unwrap();
    assert!(environ.starts_with(b"A=1\0") && environ.len() == ENVIRON_BYTES_MAX);
    assert!(environ.capacity() <= ENVIRON_BYTES_MAX + 4096, "{}", environ.capacity());
    assert_eq!(proc.maps(PID).unwrap().as_deref(), Some("A=1\0B=2\n"), "no line is cut");
    assert!(proc.status(PID).is_err() && proc.text(&format!("{PID}/comm")).is_err(), "half would lie");
}

#[test]
fn files_with_a_line_for_each_mount_are_read_whole() {
    let (root, _) = root();
    let line = format!("36 35 0:30 / /{} rw - fuse x rw\n", "\\040".repeat(4_000));
    let mounts = line.repeat(400);
    assert!(mounts.len() > TEXT_BYTES_MAX);
    fs::write(root.path().join("mounts"), &mounts).unwrap();
    let proc = Proc::open(root.path()).unwrap();
    assert!(proc.text("mounts").is_err());
    assert_eq!(proc.long_text("mounts").unwrap(), Some(mounts));
}

#[test]
fn a_cut_file_ends_with_a_whole_entry() {
    let (root, folder) = root();
    let proc = Proc::open(root.path()).unwrap();
    let first = "x".repeat(ENVIRON_BYTES_MAX - 10);
    let whole = format!("{first}\0JOB=12345").into_bytes();
    assert_eq!(whole.len(), ENVIRON_BYTES_MAX);
    fs::write(folder.join("environ"), &whole).unwrap();
    assert_eq!(proc.environ(PID).unwrap().as_ref(), Some(&whole), "as long as may be");
    fs::write(folder.join("environ"), [&whole[..], b"6\0"].concat()).unwrap();
    assert_eq!(proc.environ(PID).unwrap().unwrap().len(), first.len() + 1, "a number is not cut");
}

#[test]
fn no_more_threads_are_listed_than_are_asked_for() {
    let (root, folder) = root();
    for thread in PID..PID + 70 {
        fs::create_dir_all(folder.join("task").join(thread.to_string())).unwrap();
    }
    let proc = Proc::open(root.path()).unwrap();
    let listed = |most| proc.some_threads(PID, most).unwrap().map(|(threads, more)| (threads.len(), more));
    assert_eq!((listed(0), listed(69)), (Some((0, true)), Some((69, true))));
    assert_eq!((listed(70), listed(71)), (Some((70, false)), Some((70, false))));
    assert_eq!((proc.few_threads(PID).unwrap(), proc.threads(PID).unwrap().unwrap().len()), (None, 70));
    assert_eq!(proc.some_threads(PID + 1, 1).unwrap(), None);
}
