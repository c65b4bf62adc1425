//! Directories of a user's home that several hosts may have at once: what belongs to one host has a place of its own there.
//!
//! Absent here: what is kept in them.

use std::path::{Component, Path, PathBuf};

use rustix::fs::{FsWord, statfs};

use crate::peer::host_name;

/// Kinds of file systems that several hosts may have mounted, by their magic numbers: those of `linux/magic.h` and of the
/// systems' own headers that coreutils' `stat` calls remote.
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

/// Whether other hosts may have the directory too, or what it is made in.
#[must_use]
pub fn is_shared(directory: &Path) -> bool {
    let kind = directory.ancestors().find_map(|above| statfs(above).ok()).map(|found| found.f_type);
    kind.is_some_and(|kind| SHARED.contains(&kind))
}

/// The directory itself; where other hosts may have it too, the one in it that is this host's.
#[must_use]
pub fn of_host(directory: PathBuf) -> PathBuf {
    let shared = is_shared(&directory);
    of(directory, shared, &host_name())
}

fn of(directory: PathBuf, shared: bool, host: &str) -> PathBuf {
    let mut parts = Path::new(host).components();
    let is_name = matches!((parts.next(), parts.next()), (Some(Component::Normal(_)), None));
    if shared && is_name { directory.join("hosts").join(host) } else { directory }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_has_a_place_of_its_own_where_directories_are_shared() {
        let of = |shared, host| of("/h/pinfold".into(), shared, host).display().to_string();
        assert_eq!(of(false, "one"), "/h/pinfold");
        assert_eq!(of(true, "one"), "/h/pinfold/hosts/one");
        assert_eq!(of(true, "two.example.org"), "/h/pinfold/hosts/two.example.org");
        for odd in ["", ".", "..", "a/b", "/"] {
            assert_eq!(of(true, odd), "/h/pinfold", "{odd:?}");
        }
    }

    #[test]
    fn a_directory_that_is_not_there_yet_is_as_shared_as_what_it_is_made_in() {
        // Of the kernel's own; each host has its own.
        assert!(!is_shared(Path::new("/proc/none/of/it")));
        let dir = tempfile::tempdir().expect("a directory");
        assert_eq!(is_shared(&dir.path().join("none/of/it")), is_shared(dir.path()));
    }
}
