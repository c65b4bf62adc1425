//! The default places of a daemon's socket and state. One home for the rule, so that clients and daemon agree. Absent
//! here: making anything.

use std::ffi::OsString;
use std::io;
use std::io::ErrorKind::NotFound;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::{files, shared, whereabouts};

/// The places of a daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The socket it listens on.
    pub socket: PathBuf,
    /// The directory it keeps its state in.
    pub state: PathBuf,
}

/// The socket's name in a directory of pinfold's own.
const SOCKET: &str = "pinfold.sock";

/// The database in a state directory; a directory with a database is in use.
pub const DATABASE: &str = "pinfold.db";

/// The variable that names a socket.
const SOCKET_VARIABLE: &str = "PINFOLD_SOCKET";

/// The changes of `config set` in the state directory of a private daemon: a line `KEY=VALUE` each.
pub const SETTINGS: &str = "settings";

/// Words of a daemon that yields to another daemon on the same state; a client then waits for the other daemon.
pub const OCCUPIED: &str = "works on the state directory";

/// The default places for user `uid`, with an environment read through `variable`.
///
/// The socket: `$PINFOLD_SOCKET`; else `/run/pinfold/pinfold.sock` for root; else below `$XDG_RUNTIME_DIR`, if usable
/// ([`usable`]); else in a private directory below `/tmp`, or, where another user took its name first, in the state
/// directory below the user's home, if known. The state: `$PINFOLD_STATE_DIR`; else, when the socket was named, beside
/// it (so that each socket has a state of its own); else `/var/lib/pinfold` for root; else below `$XDG_STATE_HOME` or
/// `~/.local/state`, in a directory of this host's where several hosts may share it; without a home, or with an absent
/// home that this user cannot make, in the private directory below `/tmp`.
#[must_use]
pub fn defaults(uid: u32, variable: impl Fn(&str) -> Option<OsString>) -> Places {
    let is_usable = |directory: &Path| usable(uid, directory).is_ok();
    defaults_by(uid, with_home(variable), (owner, is_usable), |state| shared::of_host(state, DATABASE))
}

/// The directory for a user's state, common to all hosts that share it: below `$XDG_STATE_HOME` or `~/.local/state`.
/// `None`: neither is known, or the home does not exist.
#[must_use]
pub fn user_state(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let uid = crate::peer::own_uid();
    state_of(with_home(variable), |directory| usable(uid, directory).is_ok())
}

fn state_of(
    variable: impl Fn(&str) -> Option<OsString>,
    is_usable: impl Fn(&Path) -> bool,
) -> Option<PathBuf> {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let candidates = [path("XDG_STATE_HOME"), path("HOME").map(|home| home.join(".local/state"))];
    candidates.into_iter().flatten().map(|dir| dir.join("pinfold")).find(|dir| is_usable(dir))
}

/// Directories for files that need not outlast their process, best first.
#[must_use]
pub fn temporary() -> [PathBuf; 4] {
    [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into(), "/dev/shm".into()]
}

/// The socket below a runtime directory (`$XDG_RUNTIME_DIR`).
#[must_use]
pub fn socket_in(runtime: &Path) -> PathBuf {
    runtime.join("pinfold").join(SOCKET)
}

/// Whether user `uid` can have `directory`: it exists and is the user's, or can be made; and the path of a socket in it
/// is short enough for the kernel.
///
/// # Errors
/// Why not.
pub fn usable(uid: u32, directory: &Path) -> io::Result<()> {
    /// `sun_path` of `sockaddr_un`, with the zero at its end.
    const SOCKET_PATH_MAX: usize = 108;
    if directory.join(SOCKET).as_os_str().len() >= SOCKET_PATH_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidFilename, "too long for a socket's path"));
    }
    for (depth, above) in directory.ancestors().enumerate() {
        match std::fs::metadata(above) {
            Ok(found) if !found.is_dir() => return Err(io::ErrorKind::NotADirectory.into()),
            Ok(found) if depth == 0 && found.uid() != uid => {
                return Err(io::ErrorKind::PermissionDenied.into());
            }
            Ok(_) => return files::make_in(above),
            Err(error) if error.kind() == NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Err(NotFound.into())
}

/// The variables that name places, each with its defect: for a message that no place was found.
#[must_use]
pub fn unusable(uid: u32, variable: impl Fn(&str) -> Option<OsString>) -> String {
    let why = |(name, below): (&str, &str)| match variable(name).filter(|value| !value.is_empty()) {
        None => Some(format!("{name} is not set")),
        Some(value) if !Path::new(&value).is_absolute() => {
            Some(format!("{name}={} is relative", value.display()))
        }
        Some(value) => {
            let error = usable(uid, &Path::new(&value).join(below)).err()?;
            Some(format!("{name}={}: {error}", value.display()))
        }
    };
    let names =
        [("XDG_RUNTIME_DIR", "pinfold"), ("XDG_STATE_HOME", "pinfold"), ("HOME", ".local/state/pinfold")];
    let found: Vec<String> = names.into_iter().filter_map(why).collect();
    found.join("; ")
}

/// The variables without a home that counts as none.
fn with_home(variable: impl Fn(&str) -> Option<OsString>) -> impl Fn(&str) -> Option<OsString> {
    move |name| variable(name).filter(|value| name != "HOME" || is_home(Path::new(value), files::may_make_in))
}

/// Whether the path can be a home. Accounts without a home have a path that does not exist and cannot be made
/// (`/nonexistent`). A home that can be made is made with the first file in it.
fn is_home(home: &Path, may_make_in: impl Fn(&Path) -> bool) -> bool {
    let is_missing = |path: &Path| matches!(std::fs::metadata(path), Err(error) if error.kind() == NotFound);
    !is_missing(home) || home.ancestors().find(|above| !is_missing(above)).is_some_and(may_make_in)
}

/// The places for a command of user `uid`: the places of [`defaults`]; but if no socket is there while a daemon of this
/// user works on that state and listens elsewhere, its socket: `$XDG_RUNTIME_DIR` is not set everywhere (cron, su), and a
/// state has a daemon. Root's socket and a named socket are never replaced.
#[must_use]
pub fn for_commands(uid: u32, variable: impl Fn(&str) -> Option<OsString>) -> Places {
    let is_named = variable(SOCKET_VARIABLE).is_some_and(|text| !text.is_empty());
    let places = defaults(uid, variable);
    if uid == 0 || is_named {
        return places;
    }
    where_it_listens(uid, places, owner, whereabouts::listens)
}

/// The same, where `owner` returns the owner of a file, and `listens` the noted socket of a state's daemon.
fn where_it_listens(
    uid: u32,
    places: Places,
    owner: impl Fn(&Path) -> Option<u32>,
    listens: impl Fn(&Path) -> Option<PathBuf>,
) -> Places {
    let is_own = |socket: &Path| owner(socket) == Some(uid);
    if is_own(&places.socket) {
        return places;
    }
    let socket = listens(&places.state).filter(|socket| is_own(socket));
    Places { socket: socket.unwrap_or(places.socket), state: places.state }
}

/// The owner of a file, or of a link.
fn owner(path: &Path) -> Option<u32> {
    std::fs::symlink_metadata(path).ok().map(|found| found.uid())
}

/// The same as [`defaults`], where `owner` returns the owner of a file, `is_usable` whether a directory can be used,
/// and `of_host` this host's place in a directory.
fn defaults_by(
    uid: u32,
    variable: impl Fn(&str) -> Option<OsString>,
    (owner, is_usable): (impl Fn(&Path) -> Option<u32>, impl Fn(&Path) -> bool),
    of_host: impl Fn(PathBuf) -> PathBuf,
) -> Places {
    let path = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let named = variable(SOCKET_VARIABLE).filter(|text| !text.is_empty()).map(PathBuf::from);
    let private = PathBuf::from(format!("/tmp/pinfold-{uid}"));
    let own_state = state_of(&variable, &is_usable).map(of_host);
    // Every user may make that directory, and only its owner may remove it. A daemon that therefore listens elsewhere
    // is found even after the directory is gone.
    let is_taken = || owner(&private).map_or_else(|| !is_usable(&private), |owner| owner != uid);
    let listens_in = |state: &Path| owner(&state.join(SOCKET)) == Some(uid);
    let socket = match &named {
        Some(socket) => socket.clone(),
        None if uid == 0 => PathBuf::from("/run/pinfold/pinfold.sock"),
        None => {
            // `su` keeps root's, and tmux outlives that of a login.
            let runtime = path("XDG_RUNTIME_DIR").map(|dir| dir.join("pinfold")).filter(|dir| is_usable(dir));
            let elsewhere = || own_state.clone().filter(|state| is_taken() || listens_in(state));
            runtime.or_else(elsewhere).unwrap_or_else(|| private.clone()).join(SOCKET)
        }
    };
    let state = path("PINFOLD_STATE_DIR").unwrap_or_else(|| match &named {
        Some(socket) => beside(socket),
        None if uid == 0 => PathBuf::from("/var/lib/pinfold"),
        None => own_state.unwrap_or_else(|| private.join("state")),
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

    /// The socket of user 7, where this user has that file and nothing else is there.
    fn socket_beside(file: &str, owner: u32, variables: &[(&str, &str)]) -> String {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let owner = |path: &Path| (path == Path::new(file)).then_some(owner);
        defaults_by(7, variable, (owner, |_: &Path| true), std::convert::identity)
            .socket
            .display()
            .to_string()
    }

    #[test]
    fn another_users_directory_keeps_no_user_from_a_socket() {
        let (home, xdg) = (("HOME", "/h"), ("XDG_STATE_HOME", "/s"));
        let (directory, usual) = ("/tmp/pinfold-7", "/tmp/pinfold-7/pinfold.sock");
        let elsewhere = "/h/.local/state/pinfold/pinfold.sock";
        assert_eq!(socket_beside("", 7, &[home]), usual);
        assert_eq!(socket_beside(directory, 7, &[home]), usual, "the user's own");
        assert_eq!(socket_beside(directory, 8, &[home]), elsewhere);
        assert_eq!(socket_beside(directory, 8, &[home, xdg]), "/s/pinfold/pinfold.sock");
        assert_eq!(socket_beside(directory, 8, &[]), usual, "no other place is known");
        assert_eq!(socket_beside(elsewhere, 7, &[home]), elsewhere, "a daemon that is there is found");
        assert_eq!(socket_beside(elsewhere, 8, &[home]), usual);
        let runtime = ("XDG_RUNTIME_DIR", "/run/user/7");
        assert_eq!(socket_beside(directory, 8, &[home, runtime]), "/run/user/7/pinfold/pinfold.sock");
    }

    /// A login has `$XDG_RUNTIME_DIR`, and cron has not: a user's commands find the same daemon from both.
    #[test]
    fn commands_find_the_daemon_of_their_state() {
        let (login, cron, state) = ("/run/user/7/pinfold/pinfold.sock", "/tmp/pinfold-7/pinfold.sock", "/h");
        let socket = |usual: &str, noted: Option<&str>, there: &[(&str, u32)]| {
            let places = Places { socket: usual.into(), state: state.into() };
            let owner =
                |path: &Path| there.iter().find(|(file, _)| path == Path::new(file)).map(|&(_, uid)| uid);
            let listens = |of: &Path| noted.filter(|_| of == Path::new(state)).map(PathBuf::from);
            where_it_listens(7, places, owner, listens).socket.display().to_string()
        };
        assert_eq!(socket(cron, None, &[(login, 7)]), cron, "nothing is noted");
        assert_eq!(socket(cron, Some(login), &[(login, 7)]), login);
        assert_eq!(socket(login, Some(cron), &[(cron, 7)]), cron);
        assert_eq!(socket(cron, Some(login), &[]), cron, "that daemon is gone");
        assert_eq!(socket(cron, Some(login), &[(login, 8)]), cron, "it is another user's");
        assert_eq!(socket(cron, Some(login), &[(login, 0)]), cron);
        assert_eq!(
            socket(cron, Some(login), &[(login, 7), (cron, 7)]),
            cron,
            "there is one where it belongs"
        );
    }

    #[track_caller]
    fn check(uid: u32, variables: &[(&str, &str)], socket: &str, state: &str) {
        let variable =
            |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
        let want = Places { socket: socket.into(), state: state.into() };
        assert_eq!(
            defaults_by(uid, variable, (|_: &Path| None, |_: &Path| true), std::convert::identity),
            want,
            "user {uid} with {variables:?}"
        );
    }

    #[test]
    fn a_home_that_is_not_there_is_none_unless_it_can_be_made() {
        let dir = tempfile::tempdir().expect("a directory");
        let none = dir.path().join("none/of/it");
        let asked = std::cell::RefCell::new(Vec::new());
        let is = |home: &Path, may: bool| {
            is_home(home, |above| {
                asked.borrow_mut().push(above.to_owned());
                may
            })
        };
        assert!(is(dir.path(), false), "it is there");
        assert!(asked.take().is_empty());
        assert_eq!((is(&none, true), is(&none, false)), (true, false));
        assert_eq!(asked.take(), [dir.path(), dir.path()]);
        assert!(!is(Path::new("relative/of/it"), false));
        // A home that can be made gives the same places before and after.
        let places = |home: &Path| {
            let variable = |name: &str| (name == "HOME").then(|| home.into());
            (defaults(7, variable).state, user_state(variable))
        };
        let before = places(&none);
        assert!(
            before.0.starts_with(&none) && before.1 == Some(none.join(".local/state/pinfold")),
            "{before:?}"
        );
        std::fs::create_dir_all(&none).expect("a directory");
        assert_eq!(places(&none), before);
    }

    #[test]
    fn directories_that_cannot_be_used_are_named() {
        let dir = tempfile::tempdir().expect("a directory");
        let (uid, long) = (crate::peer::own_uid(), "x".repeat(90));
        let error = |path: &Path| usable(uid, path).map_err(|error| error.to_string());
        assert_eq!(error(&dir.path().join("made/of/it")), Ok(()));
        assert!(error(Path::new("/dev/null/pinfold")).unwrap_err().contains("ot a directory"));
        assert!(error(&dir.path().join(long)).unwrap_err().contains("too long"));
        assert!(usable(uid + 1, dir.path()).is_err(), "another user's");
        let named = |name: &str| match name {
            "XDG_RUNTIME_DIR" => Some("/dev/null".into()),
            "HOME" => Some(dir.path().into()),
            _ => None,
        };
        let text = unusable(uid, named);
        assert!(text.starts_with("XDG_RUNTIME_DIR=/dev/null: "), "{text}");
        assert!(text.ends_with("XDG_STATE_HOME is not set"), "{text}");
    }

    #[test]
    fn a_runtime_directory_that_cannot_be_used_is_passed_over() {
        let variable = |name: &str| {
            Some(if name == "HOME" { "/h".into() } else { "/root/x".into() })
                .filter(|_| name == "HOME" || name == "XDG_RUNTIME_DIR")
        };
        let is_usable = |path: &Path| !path.starts_with("/root");
        let places = defaults_by(7, variable, (|_: &Path| None, is_usable), std::convert::identity);
        assert_eq!(places.socket, Path::new("/tmp/pinfold-7/pinfold.sock"));
    }

    #[test]
    fn hosts_that_share_a_home_have_states_of_their_own() {
        let of = |variables: &[(&str, &str)]| {
            let variable = |name: &str| {
                variables.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into())
            };
            let state =
                defaults_by(7, variable, (|_: &Path| None, |_: &Path| true), |dir| dir.join("hosts/one"))
                    .state;
            state.display().to_string()
        };
        let home = ("HOME", "/h");
        assert_eq!(of(&[home]), "/h/.local/state/pinfold/hosts/one");
        assert_eq!(of(&[home, ("XDG_STATE_HOME", "/s")]), "/s/pinfold/hosts/one");
        // A named place is never replaced.
        assert_eq!(of(&[home, ("PINFOLD_STATE_DIR", "/c")]), "/c");
        assert_eq!(of(&[]), "/tmp/pinfold-7/state");
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
