//! Detects a daemon with the same state on another socket: cron and `su` have no `$XDG_RUNTIME_DIR`, a login has, and
//! they share a home.
//!
//! Absent here: waiting for the daemon.

use std::path::{Path, PathBuf};

use pinfold_proto::ExitCode;
use pinfold_sys::{paths, whereabouts};

use crate::failure::Failure;

/// The socket noted by the daemon of this state, if it differs from `own`.
pub(crate) fn elsewhere(own: &Path, state: &Path) -> Option<PathBuf> {
    let absolute = std::path::absolute(own).ok();
    whereabouts::listens(state)
        .filter(|other| absolute.as_ref() != Some(other) && !whereabouts::is_same(other, own))
}

/// The failure with the other daemon's socket, and the way to reach it.
pub(crate) fn failure(own: &Path, other: &Path, state: &Path) -> Failure {
    let (own, other, state) = (own.display(), other.display(), state.display());
    let text = format!(
        "no daemon on {own}: the one on {other} {} {state}; to use that one, say --socket {other}, or set \
         PINFOLD_SOCKET={other}",
        paths::OCCUPIED
    );
    Failure::without_daemon(ExitCode::NoDaemon, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn the_other_socket_is_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let (own, other) = (dir.path().join("own.sock"), dir.path().join("other.sock"));
        assert_eq!(elsewhere(&own, dir.path()), None, "nothing is noted");
        let signs = |socket: &Path| {
            let lock = whereabouts::lock(dir.path());
            std::fs::write(&lock, whereabouts::signature(7, socket)).expect("a file");
            std::fs::set_permissions(lock, PermissionsExt::from_mode(0o600)).expect("it is ours");
        };
        signs(&own);
        assert_eq!(elsewhere(&own, dir.path()), None, "it is just starting here");
        signs(&other);
        assert_eq!(elsewhere(&own, dir.path()), Some(other.clone()));
        let failure = failure(&own, &other, dir.path());
        let said = failure.to_string();
        assert!(said.contains(&format!("--socket {}", other.display())), "{said}");
        assert_eq!((failure.code, failure.without_daemon), (ExitCode::NoDaemon, true));
    }
}
