//! Directories of a user's home that several hosts may have at once: what belongs to one host has a place of its own there.
//!
//! Absent here: what is kept in them.

use std::path::{Component, Path, PathBuf};

use rustix::fs::{FsWord, statfs};
use rustix::io::Errno;

use crate::peer::host_name;

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

/// The file that says which host has a directory.
const HOST: &str = "host";

/// Whether other hosts may have the directory too, or what it is made in.
#[must_use]
pub fn is_shared(directory: &Path) -> bool {
    let looked =
        directory.ancestors().map(statfs).find(|found| !matches!(found, Err(Errno::NOENT | Errno::NOTDIR)));
    looked.and_then(Result::ok).is_some_and(|found| SHARED.contains(&found.f_type))
}

/// The directory itself; where other hosts may have it too, the one in it that is this host's. One that holds `has` from
/// before is the host's that noted so ([`whose`]), or of the first one that comes.
#[must_use]
pub fn of_host(directory: PathBuf, has: &str) -> PathBuf {
    let host = host_name();
    let is_ours = directory.join(has).exists() && whose(&directory).is_none_or(|noted| noted == host);
    if is_ours || !is_shared(&directory) { directory } else { below(directory, &host) }
}

/// The host that has a directory, as it was noted there.
#[must_use]
pub fn whose(directory: &Path) -> Option<String> {
    let bytes = crate::files::read_regular(&note(directory)).ok()?;
    Some(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Where that is noted.
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
    fn a_directory_that_is_not_there_yet_is_as_shared_as_what_it_is_made_in() {
        // Of the kernel's own; each host has its own.
        assert!(!is_shared(Path::new("/proc/none/of/it")));
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(is_shared(&dir.path().join("none/of/it")), is_shared(dir.path()));
    }
}
