//! The command line of `pinfoldd`, and how it becomes places and a configuration.

use std::os::fd::RawFd;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context as _;
use clap::Parser;
use pinfold_proto::config::Config;
use pinfold_proto::quantity::parse_duration;
use pinfold_sys::mode::Mode;
use pinfold_sys::paths::{self, Places};
use pinfold_sys::peer;

/// The daemon of pinfold: decides which job runs now, on which cores, in which class.
#[derive(Debug, Clone, Parser)]
#[command(name = "pinfoldd", version, max_term_width = 100)]
pub(crate) struct Options {
    /// Configuration file [default: /etc/pinfold/pinfold.toml for root, if it is there; for a private daemon
    /// ~/.config/pinfold/pinfold.toml]
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

    /// The configuration file: the one named; or for root the usual one if it is there; or for a private daemon its
    /// user's own, which need not be there.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        let usual = PathBuf::from("/etc/pinfold/pinfold.toml");
        let there = || (peer::own_uid() == 0 && usual.exists()).then(|| usual.clone());
        self.config.clone().or_else(there).or_else(|| self.user_config())
    }

    /// The user's own file, which `pinfold config save` makes.
    fn user_config(&self) -> Option<PathBuf> {
        self.private.then(|| paths::user_config(|name| std::env::var_os(name))).flatten()
    }

    /// The text of the configuration file; `None`: there is none.
    fn config_text(&self) -> anyhow::Result<Option<(PathBuf, String)>> {
        let Some(file) = self.config_file() else { return Ok(None) };
        match std::fs::read_to_string(&file) {
            Ok(text) => Ok(Some((file, text))),
            Err(error)
                if error.kind() == std::io::ErrorKind::NotFound
                    && self.user_config().as_ref() == Some(&file) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("failed to read {}", file.display())),
        }
    }

    /// File and flags together.
    pub(crate) fn configured(&self) -> anyhow::Result<Configured> {
        let mut configured = Configured::default();
        if let Some((file, text)) = self.config_text()? {
            let (config, set) =
                configured.config.with_file(&text).with_context(|| file.display().to_string())?;
            configured.config = config;
            configured.origins.extend(set.into_iter().map(|key| (key, "file")));
        }
        let (config, set) =
            configured.config.with_changes(self.set.iter().map(String::as_str)).context("--set")?;
        configured.config = config;
        configured.origins.extend(set.into_iter().map(|key| (key, "flag")));
        Ok(configured)
    }
}
