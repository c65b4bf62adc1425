//! A scope of the user's own service manager (systemd), with a delegated control group.
//!
//! Processes of a desktop run below `user@UID.service`, whose groups are the user's, but each group there belongs to a
//! unit of the service manager. A private daemon started there asks for a unit of its own, so that no other unit is
//! touched. A session of logind (`session-N.scope`, as of ssh) is elsewhere: from it no process can be moved into a
//! group of the service manager, and processes below the service manager end with the user's last session. There a
//! private daemon stays in its user's session. Owner of state: none. Absent here: starting the daemon.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cgroup::{Generation, Mount, own_group, parse_mounts};
use crate::mode::is_marked_delegated;
use crate::peer;

/// The words that start a program in a scope of its own with a delegated group; the program follows them.
const WORDS: [&str; 7] =
    ["systemd-run", "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--"];

/// The words to put before a private daemon's command line; `None`: a scope would not help in this place, or the
/// process has a delegated group already.
#[must_use]
pub fn words() -> Option<[&'static str; 7]> {
    let read = |file: &str| std::fs::read_to_string(Path::new("/proc/self").join(file)).ok();
    let group = own_group(&read("cgroup")?, Generation::V2, "")?;
    let user = peer::own_uid();
    if user == 0 || !is_below_manager(&group, user) || !is_reachable(std::env::var_os("XDG_RUNTIME_DIR")) {
        return None;
    }
    let is_tree = |mount: &Mount| mount.generation == Generation::V2;
    let tree = parse_mounts(&read("mountinfo")?).into_iter().find(is_tree)?;
    let own = PathBuf::from(tree.point).join(group.trim_start_matches('/'));
    let has_one = [Some(own.as_path()), own.parent()].into_iter().flatten().any(is_marked_delegated);
    // The manager marks its own group too, which is not ours.
    (!has_one || own.parent().is_some_and(|above| is_manager(above, user))).then_some(WORDS)
}

/// Whether a group lies below the group of this user's service manager.
fn is_below_manager(group: &str, user: u32) -> bool {
    let manager = manager(user);
    Path::new(group).ancestors().skip(1).any(|above| above.ends_with(&manager))
}

fn is_manager(group: &Path, user: u32) -> bool {
    group.ends_with(manager(user))
}

fn manager(user: u32) -> String {
    format!("user@{user}.service")
}

/// Whether the service manager can be asked: it listens in the user's own directory.
fn is_reachable(runtime: Option<OsString>) -> bool {
    runtime.is_some_and(|runtime| Path::new(&runtime).join("systemd/private").exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_below_the_users_manager_are_recognized() {
        let check = |group: &str, want: bool| assert_eq!(is_below_manager(group, 1000), want, "{group}");
        check("/user.slice/user-1000.slice/user@1000.service/app.slice/term.scope", true);
        check("/user.slice/user-1000.slice/user@1000.service/init.scope", true);
        check("/user.slice/user-1000.slice/user@1000.service", false);
        check("/user.slice/user-1000.slice/session-3.scope", false);
        check("/user.slice/user-1001.slice/user@1001.service/app.slice/x.scope", false);
        check("/", false);
    }

    #[test]
    fn a_manager_is_found_by_its_socket() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!is_reachable(None));
        assert!(!is_reachable(Some(dir.path().into())));
        std::fs::create_dir(dir.path().join("systemd")).unwrap();
        std::fs::write(dir.path().join("systemd/private"), "").unwrap();
        assert!(is_reachable(Some(dir.path().into())));
    }
}
