//! Files as daemons leave them, and as hostile users do.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use super::*;

const ENTRY: Entry =
    Entry { slots_wanted: 3, cores_held: 2, memory_wanted_bytes: 1 << 40, memory_held_bytes: u64::MAX };

fn place() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), PermissionsExt::from_mode(0o1777)).unwrap();
    dir
}

#[test]
fn numbers_and_nothing_else_are_taken() {
    for entry in [ENTRY, Entry::default()] {
        let text = entry.text();
        assert!(text.len() <= FILE_BYTES_MAX);
        assert_eq!(text.len(), ENTRY.text().len(), "written over in place");
        assert_eq!(Entry::parse(&text), Some(entry));
        for cut in 0..text.len() {
            assert_eq!(Entry::parse(&text[..cut]), None, "{cut}");
        }
    }
    let text = ENTRY.text();
    for odd in [
        String::new(),
        "pinfold 2".to_owned() + &text[FORM.len()..],
        text.replace("0003", "000x"),
        text.replace("0003", "-003"),
        text.replace(" 0", "  0"),
        text.clone() + "more\n",
        text.replace('\n', " 00000000000000000001\n"),
        "pinfold 1 99999999999999999999 00000000000000000000 00000000000000000000 00000000000000000000\n"
            .into(),
    ] {
        assert_eq!(Entry::parse(&odd), None, "{odd:?}");
    }
}

#[test]
fn names_say_whose_they_are() {
    let uid = |name: &str| uid_in(&std::ffi::CString::new(name).unwrap());
    assert_eq!(uid("pinfold-daemon.1000.0123456789abcdef"), Some(1000));
    for odd in [
        "pinfold-daemon.1000",
        "pinfold-daemon.1000.",
        "pinfold-daemon.1000.0123456789abcdeg",
        "pinfold-daemon.-1.0123456789abcdef",
        "pinfold-daemon.4294967296.0123456789abcdef",
        "pinfold-daemon..0123456789abcdef",
        "xpinfold-daemon.1.0123456789abcdef",
    ] {
        assert_eq!(uid(odd), None, "{odd}");
    }
}

#[test]
fn a_file_lives_as_long_as_its_daemon() {
    let dir = place();
    let mut board = Board::open(Some(dir.path())).unwrap();
    let files = || fs::read_dir(dir.path()).unwrap().count();
    assert_eq!(files(), 0, "nothing was said");
    board.publish(ENTRY).unwrap();
    board.publish(Entry::default()).unwrap();
    assert_eq!(files(), 1);
    let path = fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
    assert_eq!(Entry::parse(&fs::read_to_string(&path).unwrap()), Some(Entry::default()));
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o644);
    assert_eq!(board.others(), [], "a user is no neighbour of its own");
    fs::remove_file(&path).unwrap();
    board.publish(ENTRY).unwrap();
    assert_eq!(files(), 1, "struck off by somebody, it is made again");
    drop(board);
    assert_eq!(files(), 0);
    // As a daemon leaves it that is killed.
    let left = dir.path().join(format!("pinfold-daemon.{}.0123456789abcdef", crate::peer::own_uid()));
    fs::write(&left, ENTRY.text()).unwrap();
    fs::set_permissions(&left, PermissionsExt::from_mode(0o644)).unwrap();
    drop(Board::open(Some(dir.path())).unwrap());
    assert!(!left.exists());
}

#[test]
fn a_directory_that_others_may_clear_will_not_do() {
    let dir = place();
    for (mode, will_do) in [(0o1777, true), (0o755, true), (0o777, false), (0o775, false)] {
        fs::set_permissions(dir.path(), PermissionsExt::from_mode(mode)).unwrap();
        assert_eq!(Board::open(Some(dir.path())).is_ok(), will_do, "{mode:o}");
    }
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(dir.path(), &link).unwrap();
    assert!(Board::open(Some(&link)).is_err());
    assert!(Board::open(Some(Path::new("/nowhere"))).is_err());
}

const STRANGER: u32 = 64_321;

/// Runs a script of Python's as another user; it says a line once it is ready, and ends with its input.
struct Other(std::process::Child);

impl Other {
    fn runs(uid: u32, script: &str) -> Option<Self> {
        use std::io::BufRead as _;
        use std::os::unix::process::CommandExt as _;
        let mut command = Command::new("python3");
        command.args(["-c", &format!("{script}\nprint('ready', flush=True)\nimport sys; sys.stdin.read()")]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).uid(uid).gid(uid);
        let mut child = command.spawn().ok()?;
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Some(Self(child))
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

fn made(dir: &Path, uid: u32, more: &str) -> String {
    let name = format!("{}/pinfold-daemon.{uid}.0123456789abcdef", dir.display());
    let text = ENTRY.text();
    format!("import fcntl, os\nname = {name:?}\nf = open(name, 'w+')\nf.write({text:?}); f.flush()\n{more}")
}

#[test]
#[ignore = "needs root and python3"]
fn as_root_another_users_daemon_is_found_while_it_lives() {
    let dir = place();
    let board = Board::open(Some(dir.path())).unwrap();
    let other = Other::runs(STRANGER, &made(dir.path(), STRANGER, "fcntl.lockf(f, fcntl.LOCK_EX)")).unwrap();
    assert_eq!(board.others(), [(STRANGER, ENTRY)]);
    // Frozen, it still counts, and no reader waits for it.
    let pid = rustix::process::Pid::from_child(&other.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    assert_eq!(board.others(), [(STRANGER, ENTRY)]);
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    drop(other);
    assert_eq!(board.others(), [], "its file is there, and counts for nothing");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

#[test]
#[ignore = "needs root and python3"]
fn as_root_what_is_planted_counts_for_nothing() {
    let dir = place();
    let board = Board::open(Some(dir.path())).unwrap();
    let victim = STRANGER + 1;
    let lock = "fcntl.lockf(f, fcntl.LOCK_EX)";
    let dead = Other::runs(victim, &made(dir.path(), victim, "os.fchmod(f.fileno(), 0o644)"));
    drop(dead);
    let named = format!("{}/pinfold-daemon", dir.path().display());
    for (what, script) in [
        ("not locked", made(dir.path(), STRANGER, "")),
        ("in another's name", made(dir.path(), STRANGER + 2, lock)),
        ("locked to be read", made(dir.path(), STRANGER, "f = open(name)\nfcntl.lockf(f, fcntl.LOCK_SH)")),
        ("by flock", made(dir.path(), STRANGER, "fcntl.flock(f, fcntl.LOCK_EX)")),
        ("for others to write to", made(dir.path(), STRANGER, &format!("{lock}\nos.chmod(name, 0o666)"))),
        ("under two names", made(dir.path(), STRANGER, &format!("{lock}\nos.link(name, name + 'x')"))),
        ("huge", made(dir.path(), STRANGER, &format!("{lock}\nos.truncate(name, 1 << 40)"))),
        (
            "no numbers",
            made(dir.path(), STRANGER, &format!("{lock}\nf.seek(0); f.write('\\0' * 40); f.flush()")),
        ),
        (
            "a dead user's, kept alive",
            format!(
                "import fcntl\nf = open('{named}.{victim}.0123456789abcdef')\nfcntl.lockf(f, fcntl.LOCK_SH)\n\
             fcntl.flock(f, fcntl.LOCK_EX)"
            ),
        ),
        ("a pipe", format!("import os\nos.mkfifo('{named}.{STRANGER}.00000000000000f1', 0o644)")),
        ("a directory", format!("import os\nos.mkdir('{named}.{STRANGER}.00000000000000f2')")),
        ("a link", format!("import os\nos.symlink('/dev/zero', '{named}.{STRANGER}.00000000000000f3')")),
        (
            "a link to a pipe",
            format!(
                "import os\nos.symlink('{named}.{STRANGER}.00000000000000f1', '{named}.{STRANGER}.00000000000000f4')"
            ),
        ),
        (
            "many",
            format!("for i in range(3000): open('{named}.{STRANGER}.%016x' % (0xa0000 + i), 'w').close()"),
        ),
    ] {
        let planted = Other::runs(STRANGER, &script);
        assert_eq!(board.others(), [], "{what}");
        drop(planted);
        let _ = fs::remove_file(format!("{named}.{STRANGER}.0123456789abcdef"));
    }
    // Beside all that, an honest daemon is found.
    let honest = Other::runs(victim + 7, &made(dir.path(), victim + 7, lock));
    assert_eq!(board.others(), [(victim + 7, ENTRY)]);
    drop(honest);
}

/// A user's subordinate numbers would be as many users as the user likes.
#[test]
#[ignore = "needs root and python3 of at least 3.12"]
fn as_root_a_user_of_a_user_namespace_is_none() {
    let dir = place();
    let board = Board::open(Some(dir.path())).unwrap();
    let script = made(dir.path(), STRANGER, "fcntl.lockf(f, fcntl.LOCK_EX)");
    let apart =
        format!("import os\nassert hasattr(os, 'unshare'), 'old'\nos.unshare(os.CLONE_NEWUSER)\n{script}");
    let other = Other::runs(STRANGER, &apart);
    assert_eq!(board.others(), []);
    drop(other);
}
