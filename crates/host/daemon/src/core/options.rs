//! The command line of `pinfoldd`, and how it becomes places and a configuration.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::RawFd;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use pinfold_proto::config::Config;
use pinfold_proto::quantity::parse_duration;
use pinfold_sys::files;
use pinfold_sys::mode::Mode;
use pinfold_sys::paths::{self, Places};
use pinfold_sys::peer;

/// Root's configuration file.
const USUAL: &str = "/etc/pinfold/pinfold.toml";

/// The largest configuration file.
const CONFIG_MAX_BYTES: u64 = 1 << 20;

/// The daemon of pinfold: decides which job runs now, on which cores, in which class.
#[derive(Debug, Clone, Parser)]
#[command(name = "pinfoldd", version, max_term_width = 100)]
pub(crate) struct Options {
    /// Configuration file [default: /etc/pinfold/pinfold.toml for root, if it is there; for a user
    /// ~/.config/pinfold/pinfold.toml; with --socket or --state-dir, pinfold.toml in the state directory]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,

    /// Where the state is kept
    #[arg(long, value_name = "DIR")]
    pub state_dir: Option<PathBuf>,

    /// The socket to listen on
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,

    /// Set a key over the file's value; may be given again
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,

    /// How jobs are contained; auto takes the best that this host offers
    #[arg(long, value_name = "auto|v2|hybrid|rootless", default_value = "auto", value_parser = parse_mode)]
    pub mode: WantedMode,

    /// Log as JSON lines
    #[arg(long)]
    pub log_json: bool,

    /// Print what this host allows, as JSON, and end
    #[arg(long, hide = true)]
    pub examine: bool,

    /// Write the manual page into this directory, and end
    #[arg(long, hide = true, value_name = "DIR")]
    pub manual: Option<PathBuf>,

    /// A private daemon, started by the first command: it ends when nothing has been asked of it for a while
    #[arg(long, hide = true)]
    pub private: bool,

    /// How long a private daemon stays without a job and without a client
    #[arg(long, hide = true, env = "PINFOLD_PRIVATE_IDLE", value_name = "DURATION", default_value = "60s",
          value_parser = parse_duration)]
    pub private_idle: Duration,

    /// Write `ready`, or what went wrong, to this descriptor
    #[arg(long, hide = true, value_name = "FD")]
    pub ready_fd: Option<RawFd>,
}

/// `--mode`: a mode, or whichever is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantedMode(pub Option<Mode>);

fn parse_mode(text: &str) -> Result<WantedMode, String> {
    if text == "auto" {
        return Ok(WantedMode(None));
    }
    text.parse()
        .map(|mode| WantedMode(Some(mode)))
        .map_err(|_| "it is auto, v2, hybrid or rootless".to_owned())
}

/// The configuration as it was put together: the values, and where each that is no default came from.
#[derive(Debug, Clone, Default)]
pub(crate) struct Configured {
    /// The values.
    pub config: Config,
    /// Key and origin (`file`, `flag`, `set`) of each that was set.
    pub origins: std::collections::BTreeMap<String, &'static str>,
}

/// The text of a configuration file. One that is larger than people write is a device or another file, named by mistake.
pub(crate) fn read_config(file: File) -> io::Result<String> {
    let mut text = String::new();
    let length = file.take(CONFIG_MAX_BYTES + 1).read_to_string(&mut text)? as u64;
    if length > CONFIG_MAX_BYTES {
        let words = format!("it is larger than {} MiB", CONFIG_MAX_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, words));
    }
    Ok(text)
}

/// How a configuration file is opened.
type Open = fn(&Path) -> io::Result<File>;

fn open_but_no_pipe(path: &Path) -> io::Result<File> {
    if std::fs::metadata(path)?.file_type().is_fifo() {
        return Err(io::Error::other("it is a FIFO, which is read at the start alone"));
    }
    File::open(path)
}

impl Options {
    /// Where socket and state are.
    pub(crate) fn places(&self) -> Places {
        let defaults = paths::defaults(peer::own_uid(), |name| std::env::var_os(name));
        let socket = self.socket.clone().unwrap_or(defaults.socket);
        let state = match (&self.state_dir, &self.socket) {
            (Some(state), _) => state.clone(),
            // A socket named by hand has a state of its own.
            (None, Some(socket)) => paths::beside(socket),
            (None, None) => defaults.state,
        };
        Places { socket, state }
    }

    /// Where a private daemon listens while the directory of its socket cannot be had: where commands look that have no
    /// `$XDG_RUNTIME_DIR`. `None`: its socket is not below that.
    pub(crate) fn socket_meanwhile(&self) -> Option<PathBuf> {
        let unnamed = |name: &str| std::env::var_os(name).filter(|_| !name.starts_with("PINFOLD_"));
        let (uid, own) = (peer::own_uid(), self.places().socket);
        let other = paths::defaults(uid, |name| unnamed(name).filter(|_| name != "XDG_RUNTIME_DIR")).socket;
        // Also while that directory is gone, and commands look elsewhere.
        let runtime = unnamed("XDG_RUNTIME_DIR").map(PathBuf::from);
        let is_usual = uid != 0 && runtime.is_some_and(|dir| paths::socket_in(&dir) == own);
        (self.private && is_usual && other != own).then_some(other)
    }

    /// The configuration file that this daemon reads, and that `pinfold config save` makes where it is not there: the one
    /// named; or for root the usual one if it is there; or for a private daemon its user's own; or the one of its places.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        let there = || (peer::own_uid() == 0).then(|| PathBuf::from(USUAL)).filter(|usual| usual.exists());
        self.config.clone().or_else(there).or_else(|| match self.private {
            true => paths::user_config(|name| std::env::var_os(name)),
            false => self.config_of_places(),
        })
    }

    /// Of a daemon that somebody starts by hand: at the usual places its user's own, else one beside its state, for what
    /// is tried on one daemon is not for the others of that user.
    fn config_of_places(&self) -> Option<PathBuf> {
        let variable = |name: &str| std::env::var_os(name);
        let unnamed = |name: &str| if name.starts_with("PINFOLD_") { None } else { variable(name) };
        let (places, uid) = (self.places(), peer::own_uid());
        match (places == paths::defaults(uid, unnamed), uid) {
            (true, 0) => Some(PathBuf::from(USUAL)),
            (true, _) => paths::user_config(variable),
            (false, _) => Some(places.state.join("pinfold.toml")),
        }
    }

    /// Where a private daemon keeps the changes of `config set`, for it ends whenever it is idle; `None`: another daemon,
    /// which `config save` is for.
    pub(crate) fn settings(&self) -> Option<PathBuf> {
        self.private.then(|| self.places().state.join(paths::SETTINGS))
    }

    /// The text of the configuration file, which is opened so where it was named; `None`: there is none.
    fn config_text(&self, named: Open) -> anyhow::Result<Option<(PathBuf, String)>> {
        let Some(file) = self.config_file() else { return Ok(None) };
        // A link to there is how one is masked.
        if self.config.is_none()
            && std::fs::canonicalize(&file).is_ok_and(|path| path == Path::new("/dev/null"))
        {
            return Ok(None);
        }
        // At a place where nobody named any, nobody writes to a pipe.
        let open = if self.config.is_some() { named } else { files::open_regular };
        match open(&file).and_then(read_config) {
            Ok(text) => Ok(Some((file, text))),
            // One that nobody named need not be there.
            Err(error) if error.kind() == io::ErrorKind::NotFound && self.config.is_none() => Ok(None),
            Err(error) => Err(error).with_context(|| format!("failed to read {}", file.display())),
        }
    }

    /// File and flags together. The file may be a pipe, whose writer is waited for.
    pub(crate) fn configured(&self) -> anyhow::Result<Configured> {
        self.configured_by(|file| File::open(file))
    }

    /// The same while the daemon runs, which waits for nobody.
    pub(crate) fn configured_again(&self) -> anyhow::Result<Configured> {
        self.configured_by(open_but_no_pipe)
    }

    fn configured_by(&self, named: Open) -> anyhow::Result<Configured> {
        let mut configured = Configured::default();
        if let Some((file, text)) = self.config_text(named)? {
            let (config, set) =
                configured.config.with_file(&text).with_context(|| file.display().to_string())?;
            configured.config = config;
            configured.origins.extend(set.into_iter().map(|key| (key, "file")));
        }
        let (config, set) =
            configured.config.with_changes(self.set.iter().map(String::as_str)).context("--set")?;
        configured.config = config;
        configured.origins.extend(set.into_iter().map(|key| (key, "flag")));
        if let Some(file) = self.settings() {
            let text = match files::open_regular(&file).and_then(read_config) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                read => read.with_context(|| format!("failed to read {}", file.display()))?,
            };
            let (config, set) = configured.config.with_changes(text.lines()).with_context(|| {
                format!("{} (made by `pinfold config set`; remove it to do without)", file.display())
            })?;
            configured.config = config;
            configured.origins.extend(set.into_iter().map(|key| (key, "set")));
        }
        Ok(configured)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_without_an_end_is_no_configuration() {
        let configured = |file: &str| Options::parse_from(["pinfoldd", "--config", file]).configured();
        let error = format!("{:#}", configured("/dev/zero").unwrap_err());
        assert_eq!(error, "failed to read /dev/zero: it is larger than 1 MiB");
        assert!(configured("/dev/null").is_ok());
    }

    #[test]
    fn a_daemon_at_places_of_its_own_has_a_file_of_its_own() {
        let file =
            |arguments: &[&str]| Options::parse_from([&["pinfoldd"], arguments].concat()).config_file();
        assert_eq!(file(&["--config", "/c", "--state-dir", "/s"]), Some("/c".into()));
        if peer::own_uid() == 0 && std::path::Path::new(USUAL).exists() {
            return println!("skipped: root's file is there");
        }
        assert_eq!(file(&["--state-dir", "/s"]), Some("/s/pinfold.toml".into()));
        assert_eq!(file(&["--socket", "/r/own.sock"]), Some("/r/own.state/pinfold.toml".into()));
    }
}
