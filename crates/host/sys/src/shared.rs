//! Directories of a user's home that several hosts may share: files of a host have a place of their own there.
//!
//! Absent here: the contents.

use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{FsWord, statfs};
use rustix::io::Errno;

use crate::peer::host_name;
use crate::{boot, files};

/// Kinds of file systems that several hosts may have mounted, by their magic numbers in `linux/magic.h` and in the systems'
/// own headers. coreutils' `stat` calls most of them remote.
const SHARED: [FsWord; 25] = [
    0x6969,      // NFS
    0x517b,      // SMB
    0xff53_4d42, // CIFS
    0xfe53_4d42, // SMB 2
    0x5346_414f, // AFS, OpenAFS
    0x6b41_4653, // kAFS
    0x7375_7245, // Coda
    0x0102_1997, // 9P
    0x6573_5546, // FUSE: sshfs, GlusterFS, JuiceFS, virtiofs
    0x00c3_6400, // Ceph
    0x0bd0_0bd0, // Lustre
    0x4750_4653, // GPFS
    0x1983_0326, // BeeGFS
    0xaad7_aaea, // PanFS
    0x7461_636f, // OCFS2
    0x0116_1970, // GFS2
    0x2003_0528, // OrangeFS
    0x6163_6673, // ACFS
    0xa501_fcf5, // VxFS
    0xbeef_dead, // StorNext
    0x0131_11a8, // Ibrix
    0x564c,      // NCP
    0xbacb_acbc, // VMware's
    0x786f_4256, // VirtualBox's
    0x7c7c_6673, // Parallels'
];

/// The file with the name of the host that has a directory.
const HOST: &str = "host";

/// The largest difference between the clocks of hosts and of their file server.
const CLOCKS_DIFFER_BY: Duration = Duration::from_secs(300);

/// Whether other hosts may share the directory, or its nearest existing parent.
#[must_use]
pub fn is_shared(directory: &Path) -> bool {
    let looked =
        directory.ancestors().map(statfs).find(|found| !matches!(found, Err(Errno::NOENT | Errno::NOTDIR)));
    looked.and_then(Result::ok).is_some_and(|found| SHARED.contains(&found.f_type))
}

/// The directory for a daemon's state itself; where other hosts may share it, this host's directory in it, unless the
/// directory has `has` from before and may be this host's ([`may_be_of`]).
#[must_use]
pub fn of_host(directory: PathBuf, has: &str) -> PathBuf {
    of_host_if(directory, has, |directory, host| may_be_of(directory, has, host))
}

/// As [`of_host`], where `may_be_of` returns whether a directory with `has` may be that host's.
#[must_use]
pub fn of_host_if(directory: PathBuf, has: &str, may_be_of: impl Fn(&Path, &str) -> bool) -> PathBuf {
    of(directory, has, &host_name(), is_shared, may_be_of)
}

fn of(
    directory: PathBuf,
    has: &str,
    host: &str,
    is_shared: impl Fn(&Path) -> bool,
    may_be_of: impl Fn(&Path, &str) -> bool,
) -> PathBuf {
    let own = below(directory.clone(), host);
    // State that was begun in the host's own place stays there, whatever the file system.
    if own.join(has).exists() {
        return own;
    }
    let is_ours = directory.join(has).exists() && may_be_of(&directory, host);
    if is_ours || !is_shared(&directory) { directory } else { own }
}

/// Whether a directory with a daemon's state (the database `has`) may be the host's: its name is noted there; or no
/// name is noted, and either this very boot is noted, or nothing was changed since this host's boot. A change since
/// then in another boot is of another living host.
#[must_use]
pub fn may_be_of(directory: &Path, has: &str, host: &str) -> bool {
    match whose(directory) {
        Some(noted) => noted == host,
        None => {
            let (began, now) =
                (boot::began(), SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default());
            // A time in the future shows a wrong clock.
            let by_another = |at: Duration| (began..=now + CLOCKS_DIFFER_BY).contains(&at);
            boot::id().is_none()
                || is_of_this_boot(directory)
                || !last_changed(directory, has).is_some_and(by_another)
        }
    }
}

/// Whether this very boot is noted in a directory.
#[must_use]
pub fn is_of_this_boot(directory: &Path) -> bool {
    let noted = files::read_regular(&directory.join(boot::NOTE)).ok();
    boot::id().zip(noted).is_some_and(|(now, noted)| String::from_utf8_lossy(&noted).trim() == now)
}

/// The last change of a database, since the Unix epoch: new rows may be in its write-ahead log alone for a long time.
fn last_changed(directory: &Path, database: &str) -> Option<Duration> {
    let changed = |name: &str| std::fs::metadata(directory.join(name)).and_then(|found| found.modified());
    let both = [changed(database), changed(&format!("{database}-wal"))].into_iter().flatten();
    both.max().map(|at| at.duration_since(std::time::UNIX_EPOCH).unwrap_or_default())
}

/// The host noted as the owner of a directory.
#[must_use]
pub fn whose(directory: &Path) -> Option<String> {
    let bytes = files::read_regular(&note(directory)).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned()).filter(|host| !host.is_empty())
}

/// Notes that a directory is this host's unless a host is noted there: the first host has it ([`whose`]).
///
/// # Errors
/// When nothing can be noted.
pub fn claim(directory: &Path, host: &str) -> io::Result<()> {
    if whose(directory).is_some() {
        return Ok(());
    }
    // Complete, or absent: an empty note would keep every host from noting itself.
    let (path, number) = (note(directory), std::process::id());
    let beside = directory.join(format!("{HOST}-{}-{number}.new", host.replace('/', "-")));
    let mut file = files::open_in_place(OpenOptions::new().write(true).create(true).truncate(true), &beside)?;
    let noted = writeln!(file, "{host}").and_then(|()| file.sync_all()).and_then(|()| {
        match std::fs::hard_link(&beside, &path) {
            Err(_) if whose(directory).is_some() => Ok(()),
            // An empty note after a power cut; or no hard links here.
            Err(_) => std::fs::rename(&beside, &path),
            Ok(()) => Ok(()),
        }
    });
    let _ = std::fs::remove_file(&beside);
    noted
}

/// The file of that note.
#[must_use]
pub fn note(directory: &Path) -> PathBuf {
    directory.join(HOST)
}

fn below(directory: PathBuf, host: &str) -> PathBuf {
    let mut parts = Path::new(host).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if is_name { directory.join("hosts").join(host) } else { directory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_a_place_of_its_own_where_directories_are_shared() {
        let below = |host| below("/h/pinfold".into(), host).display().to_string();
        assert_eq!(below("one"), "/h/pinfold/hosts/one");
        assert_eq!(below("two.example.org"), "/h/pinfold/hosts/two.example.org");
        for odd in ["", ".", "..", "a/b", "/"] {
            assert_eq!(below(odd), "/h/pinfold", "{odd:?}");
        }
    }

    #[test]
    fn a_directory_that_is_noted_is_its_hosts() {
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(whose(dir.path()), None);
        std::fs::write(note(dir.path()), "one\n").expect("a file");
        assert_eq!(whose(dir.path()).as_deref(), Some("one"));
    }

    #[test]
    fn the_first_host_notes_itself() {
        let dir = tempfile::tempdir().expect("a directory");
        claim(dir.path(), "one").expect("nobody is noted");
        claim(dir.path(), "two").expect("one is noted");
        assert_eq!(whose(dir.path()).as_deref(), Some("one"));
        std::fs::write(note(dir.path()), "").expect("as a power cut left it");
        claim(dir.path(), "two").expect("nobody is noted");
        assert_eq!(whose(dir.path()).as_deref(), Some("two"));
        assert_eq!(
            std::fs::read_dir(dir.path()).expect("a directory").count(),
            1,
            "nothing is left beside it"
        );
        assert!(claim(&dir.path().join("none"), "one").is_err());
    }

    /// A shared directory with a database that was changed then.
    fn with_database(name: &str, changed: Duration) -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("a directory");
        for (file, changed) in [("db", boot::began().saturating_sub(HOUR)), (name, changed)] {
            let file = std::fs::File::create(dir.path().join(file)).expect("a file");
            file.set_modified(std::time::UNIX_EPOCH + changed).expect("it is ours");
        }
        dir
    }

    const HOUR: Duration = Duration::from_secs(3600);

    #[test]
    fn a_state_that_is_not_noted_is_not_taken_from_a_host_that_lives() {
        let dir = tempfile::tempdir().expect("a directory");
        assert!(may_be_of(dir.path(), "db", "one"), "there is none yet");
        let before = boot::began().saturating_sub(HOUR);
        let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
        assert!(
            may_be_of(with_database("db", since + HOUR).path(), "db", "one"),
            "of a clock that was wrong"
        );
        let dir = with_database("db", before);
        assert!(may_be_of(dir.path(), "db", "one"), "of an earlier boot");
        std::fs::write(dir.path().join(boot::NOTE), "another\n").expect("a file");
        assert!(may_be_of(dir.path(), "db", "one"), "of an earlier boot");
        for name in ["db", "db-wal"] {
            let dir = with_database(name, since);
            let of = |host| may_be_of(dir.path(), "db", host);
            assert!(!of("one"), "{name} was changed since this host came up");
            std::fs::write(dir.path().join(boot::NOTE), "another\n").expect("a file");
            assert!(!of("one"), "{name} was changed in another boot");
            if let Some(now) = boot::id() {
                std::fs::write(dir.path().join(boot::NOTE), now + "\n").expect("a file");
                assert!(of("one"), "this host works there");
            }
            std::fs::write(note(dir.path()), "one\n").expect("a file");
            assert_eq!((of("one"), of("two")), (true, false), "a note is believed");
        }
    }

    #[test]
    fn state_begun_in_the_hosts_own_place_stays_there() {
        let dir = with_database("db", Duration::ZERO);
        let at = |host: &str, shared, is_ours| {
            let place = of(dir.path().to_owned(), "db", host, |_| shared, |_, _| is_ours);
            place.strip_prefix(dir.path()).expect("it is in it").display().to_string()
        };
        assert_eq!(at("one", true, true), "");
        assert_eq!(at("one", true, false), "hosts/one", "another host has the directory");
        assert_eq!(at("one", false, false), "", "no other host has it");
        let own = dir.path().join("hosts/one");
        std::fs::create_dir_all(&own).expect("a directory");
        assert_eq!(at("one", true, true), "", "nothing is in it");
        std::fs::write(own.join("db"), "").expect("a file");
        assert_eq!(at("one", true, true), "hosts/one");
        assert_eq!(at("two", true, true), "");
        std::fs::remove_file(dir.path().join("db")).expect("it is there");
        assert_eq!((at("two", true, true), at("two", false, true)), ("hosts/two".into(), String::new()));
    }

    #[test]
    fn a_directory_that_is_not_there_yet_is_as_shared_as_what_it_is_made_in() {
        // Of the kernel's own; each host has its own.
        assert!(!is_shared(Path::new("/proc/none/of/it")));
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(is_shared(&dir.path().join("none/of/it")), is_shared(dir.path()));
    }
}
