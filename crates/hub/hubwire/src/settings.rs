//! Which hub, and by which token: on disk, for their owner alone.

use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::courier::{Bearer, Courier};
use crate::disk::{Disk as _, RealDisk};

/// A configured hub.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Its address, or comma-separated addresses of hubs with a common database.
    pub url: String,
    /// The token: a host's own, or a reader's.
    pub token: String,
    /// PEM certificates of a private authority that signed the hub's certificate.
    pub authority: Option<String>,
    /// The hub's name for the holder of the token.
    pub name: String,
    /// The hub's public key when the host joined, in hexadecimal, for signatures of learned figures. `None` for a
    /// reader.
    #[serde(default)]
    pub hub_key: Option<String>,
    /// The daemon that sends its jobs; `None` for a reader, and after joining with an earlier version.
    #[serde(default)]
    pub daemon: Option<Joined>,
}

/// A daemon that joined a hub.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Joined {
    /// Its host's name; empty after joining with an earlier version.
    #[serde(default)]
    pub host: String,
    /// Its socket.
    pub socket: PathBuf,
    /// Its instance.
    pub instance: String,
}

impl Joined {
    /// Whether both are the same daemon, or its successor. Hosts that share a home each have a daemon with the same
    /// socket path.
    #[must_use]
    pub fn is(&self, other: &Self) -> bool {
        self.instance == other.instance || self.host == other.host && self.socket == other.socket
    }
}

impl std::fmt::Debug for Settings {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings").field("url", &self.url).field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why settings could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    /// The disk refused.
    #[error("failed to {what} {}", .path.display())]
    Disk {
        /// The failed operation.
        what: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Other users can read the token.
    #[error("{} can be read by others, and holds a token: chmod 600 it, and have the hub issue a new token", .0.display())]
    Open(PathBuf),
    /// The file is malformed.
    #[error("{}: {source}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: serde_json::Error,
    },
}

impl Settings {
    /// Reads the settings from a file; `None`: missing.
    ///
    /// # Errors
    /// When the file cannot be read, or other users can read it.
    pub fn load(path: &Path) -> Result<Option<Self>, SettingsError> {
        let failed = |source| SettingsError::Disk { what: "read", path: path.to_owned(), source };
        let Some(text) = RealDisk.read(path).map_err(failed)? else { return Ok(None) };
        if std::fs::metadata(path).map_err(failed)?.mode() & 0o077 != 0 {
            return Err(SettingsError::Open(path.to_owned()));
        }
        let malformed = |source| SettingsError::Malformed { path: path.to_owned(), source };
        serde_json::from_slice(&text).map(Some).map_err(malformed)
    }

    /// Writes the settings to a file with mode 0600, and makes its directory.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn save(&self, path: &Path) -> Result<(), SettingsError> {
        let failed = |source| SettingsError::Disk { what: "write", path: path.to_owned(), source };
        path.parent().map_or(Ok(()), |dir| RealDisk.list(dir).map(drop)).map_err(failed)?;
        RealDisk.write(path, &serde_json::to_vec(self).unwrap_or_default()).map_err(failed)
    }

    /// The hub.
    #[must_use]
    pub fn courier(&self) -> Courier<Bearer> {
        Courier::with_token(&self.url, &self.token, self.authority.as_deref())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_means_a_daemon_on_its_own_host_alone() {
        let joined = |host: &str, socket: &str, instance: &str| Joined {
            host: host.to_owned(),
            socket: socket.into(),
            instance: instance.to_owned(),
        };
        let own = joined("node1", "/run/user/1000/pinfold.sock", "one");
        for (other, is) in [
            (joined("node1", "/run/user/1000/pinfold.sock", "one"), true),
            // It began anew, it has another socket, its host has another name.
            (joined("node1", "/run/user/1000/pinfold.sock", "two"), true),
            (joined("node1", "/tmp/other.sock", "one"), true),
            (joined("node7", "/run/user/1000/pinfold.sock", "one"), true),
            (joined("node2", "/run/user/1000/pinfold.sock", "two"), false),
            (joined("node1", "/tmp/other.sock", "two"), false),
        ] {
            assert_eq!((own.is(&other), other.is(&own)), (is, is), "{other:?}");
        }
        let earlier = r#"{"socket":"/run/user/1000/pinfold.sock","instance":"one"}"#;
        let earlier: Joined = serde_json::from_str(earlier).expect("what an earlier version kept");
        assert_eq!((earlier.is(&own), earlier.host.as_str()), (true, ""));
    }
}
