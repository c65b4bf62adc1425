//! Where the socket and the state of a daemon are, unless someone says otherwise. One home for the rule, so
//! that clients and daemon agree. Absent here: making or checking anything.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The places of one daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The socket it listens on.
    pub socket: PathBuf,
    /// The directory it keeps its state in.
    pub state: PathBuf,
}

/// The default places for user `uid`, whose environment is asked through `variable`.
///
/// In the words of a daemon that gives way to another one on the same state; a client waits for that one then.
pub const OCCUPIED: &str = "works on the state directory";

/// The socket: `$PINFOLD_SOCKET`; else `/run/pinfold/pinfold.sock` for root; else below `$XDG_RUNTIME_DIR`;
/// else in a private directory below `/tmp`. The state: `$PINFOLD_STATE_DIR`; else, when the socket was
/// named, beside it (so that each socket has a state of its own); else `/var/lib/pinfold` for root; else
/// below `$XDG_STATE_HOME` or `~/.local/state`.
#[must_use]
pub fn defaults(uid: u32, variable: impl Fn(&str) -> Option<OsString>) -> Places {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = variable("PINFOLD_SOCKET").filter(|text| !text.is_empty()).map(PathBuf::from);
    let private = PathBuf::from(format!("/tmp/pinfold-{uid}"));
    let socket = match &named {
        Some(socket) => socket.clone(),
        None if uid == 0 => PathBuf::from("/run/pinfold/pinfold.sock"),
        None => {
            path("XDG_RUNTIME_DIR").map_or(private.clone(), |dir| dir.join("pinfold")).join("pinfold.sock")
        }
    };
    let state = path("PINFOLD_STATE_DIR").unwrap_or_else(|| match &named {
        Some(socket) => beside(socket),
        None if uid == 0 => PathBuf::from("/var/lib/pinfold"),
        None => path("XDG_STATE_HOME")
            .or_else(|| path("HOME").map(|home| home.join(".local/state")))
            .map_or(private.join("state"), |dir| dir.join("pinfold")),
    });
    Places { socket, state }
}

/// The configuration file of a user's own, for the daemon that is theirs alone: below `$XDG_CONFIG_HOME` or `~/.config`.
/// `None`: neither is known.
#[must_use]
pub fn user_config(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = || path("HOME").map(|home| home.join(".config"));
    path("XDG_CONFIG_HOME").or_else(home).map(|dir| dir.join("pinfold/pinfold.toml"))
}

/// The state directory that belongs to a socket named by hand.
#[must_use]
pub fn beside(socket: &Path) -> PathBuf {
    socket.with_extension("state")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uid: u32, variables: &[(&str, &str)], socket: &str, state: &str) {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let want = Places { socket: socket.into(), state: state.into() };
        assert_eq!(defaults(uid, variable), want, "user {uid} with {variables:?}");
    }

    #[test]
    fn configuration_of_a_user() {
        let of = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            };
            user_config(variable).map(|path| path.display().to_string())
        };
        let (home, xdg) = (("HOME", "/h"), ("XDG_CONFIG_HOME", "/c"));
        assert_eq!(of(&[home]).as_deref(), Some("/h/.config/pinfold/pinfold.toml"));
        assert_eq!(of(&[home, xdg]).as_deref(), Some("/c/pinfold/pinfold.toml"));
        assert_eq!(of(&[home, ("XDG_CONFIG_HOME", "c")]), of(&[home]), "what is not absolute is not heeded");
        assert_eq!(of(&[("HOME", "")]), None);
    }

    #[test]
    fn places() {
        check(0, &[], "/run/pinfold/pinfold.sock", "/var/lib/pinfold");
        check(0, &[("XDG_RUNTIME_DIR", "/run/user/0")], "/run/pinfold/pinfold.sock", "/var/lib/pinfold");
        check(7, &[], "/tmp/pinfold-7/pinfold.sock", "/tmp/pinfold-7/state");
        check(7, &[("HOME", "/h")], "/tmp/pinfold-7/pinfold.sock", "/h/.local/state/pinfold");
        let xdg = [("XDG_RUNTIME_DIR", "/run/user/7"), ("XDG_STATE_HOME", "/s"), ("HOME", "/h")];
        check(7, &xdg, "/run/user/7/pinfold/pinfold.sock", "/s/pinfold");
        check(7, &[("PINFOLD_SOCKET", "/a/b.sock"), ("HOME", "/h")], "/a/b.sock", "/a/b.state");
        check(7, &[("PINFOLD_SOCKET", "/a/b"), ("PINFOLD_STATE_DIR", "/c")], "/a/b", "/c");
        check(
            7,
            &[("PINFOLD_SOCKET", ""), ("HOME", "relative")],
            "/tmp/pinfold-7/pinfold.sock",
            "/tmp/pinfold-7/state",
        );
    }
}
