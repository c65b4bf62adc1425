//! A hub: handing what this host's jobs used over to it, and asking it about other hosts.
//!
//! The pusher is a process of its own ([`push`]), with no rights but an operator's on the daemon's socket.
//! Absent here: the bundles ([`pinfold_hubwire`]), and the questions to the daemon ([`source`]).

pub(crate) mod ask;
pub(crate) mod far;
mod identity;
mod learned;
mod push;
mod source;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::{Args, Subcommand};
use pinfold_hubwire::courier::{ClientError, Courier};
use pinfold_hubwire::settings::{Joined, Settings, SettingsError};
use pinfold_hubwire::spool::SPOOL_BYTES;
use pinfold_profile::report::plain;
use pinfold_proto::ExitCode;
use pinfold_proto::quantity::parse_size;
use pinfold_proto::voucher::JOIN;
use pinfold_sys::{peer, shared};
use serde::Deserialize;

use crate::input;
use crate::print::say;
use pinfold_client::{Dial, Failure};

pub(crate) use ask::Elsewhere;
use identity::Address;

/// The settings of a joined host, and the settings of a reader.
const JOINED: &str = "hub.json";

#[derive(Debug, Args)]
pub(crate) struct HubArgs {
    #[command(subcommand)]
    verb: HubVerb,
}

#[derive(Debug, Subcommand)]
enum HubVerb {
    /// Have this host's jobs told to a hub, from now on; for operators
    Join(JoinArgs),
    /// Tell this host's jobs to no hub any more
    Leave(LeaveArgs),
    /// Show whether this host tells a hub, and what waits to be sent
    Status(crate::print::JsonArgs),
    /// Send to the hub that was joined, until `leave`; `join` starts this, or a unit does
    Push(PushArgs),
    /// Have `pinfold --host NAME` ask this hub as the user one is, by the word of this host's daemon; root: for all users
    Use(UseArgs),
    /// Keep a reader's token, for `pinfold --host NAME` and `hub login`
    Reader(ReaderArgs),
    /// Print a link that signs one in on the hub's page, once
    Login,
}

#[derive(Debug, Args)]
struct JoinArgs {
    /// The hub: https://HOST[:PORT]; several hubs with one database: with commas between them
    url: String,
    #[command(flatten)]
    token: TokenArgs,
    /// Start no pusher: a unit does
    #[arg(long)]
    no_start: bool,
}

#[derive(Debug, Args)]
struct UseArgs {
    /// The hub: https://HOST[:PORT], as its own `public_url` says it; several with one database: with commas between them
    url: String,
    /// Certificates that the hub's own is signed by, as PEM, where no public authority did
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct ReaderArgs {
    /// The hub: https://HOST[:PORT]
    url: String,
    #[command(flatten)]
    token: TokenArgs,
}

#[derive(Debug, Args)]
struct TokenArgs {
    /// The token that the hub's operator made; - reads it from standard input, where other users do not see it
    #[arg(long, value_name = "TOKEN|-")]
    token: String,
    /// Certificates that the hub's own is signed by, as PEM, where no public authority did
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
}

#[derive(Debug, Args)]
struct LeaveArgs {
    /// Leave although something waits to be sent; it is removed
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
struct PushArgs {
    /// How much may wait on this host's disk while the hub is away [default: 256MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    spool: Option<u64>,
    /// Send what there is, and end
    #[arg(long)]
    once: bool,
}

/// `pinfold hub`.
pub(crate) fn hub(dial: &Dial, args: &HubArgs) -> Result<(), Failure> {
    match &args.verb {
        HubVerb::Join(args) => join(dial, args),
        HubVerb::Leave(args) => leave(args),
        HubVerb::Status(args) => push::status(args.json),
        HubVerb::Push(args) => push::push(dial, args.spool.unwrap_or(SPOOL_BYTES), args.once),
        HubVerb::Use(args) => use_hub(dial, args),
        HubVerb::Reader(args) => reader(args),
        HubVerb::Login => ask::login(dial),
    }
}

/// Where the pusher keeps its settings, its cursor and its spool: `$PINFOLD_HUB_DIR`, else `/var/lib/pinfold-push` for
/// root, else below `$XDG_STATE_HOME` or `~/.local/state`, in this host's own directory where several hosts may share
/// it.
fn push_dir() -> Result<PathBuf, Failure> {
    let own = "PINFOLD_HUB_DIR";
    let dir =
        directory(own, Some("/var/lib/pinfold-push"), "XDG_STATE_HOME", ".local/state", "pinfold-push")?;
    let is_named = std::env::var_os(own).is_some_and(|path| dir.as_os_str() == path);
    Ok(if is_named || peer::own_uid() == 0 { dir } else { shared::of_host_if(dir, JOINED, may_be_of) })
}

/// The same for a command that works there. If other hosts may share it, and an earlier version joined there, a note
/// claims it for this host: two hosts would share a cursor and a spool.
fn taken_push_dir() -> Result<PathBuf, Failure> {
    let dir = push_dir()?;
    take(&dir, shared::is_shared(&dir), &peer::host_name())?;
    // Another host may have been first.
    push_dir()
}

fn take(dir: &Path, shared: bool, host: &str) -> Result<(), Failure> {
    if !shared || !dir.join(JOINED).exists() {
        return Ok(());
    }
    shared::claim(dir, host)
        .map_err(|error| Failure::doing(format!("failed to note whose {} is", dir.display()), &error))
}

/// Whether a directory in which a hub was joined may be the host's: a note says so; or without a note, no other host's
/// daemon joined there, as far as an earlier version named the owner.
fn may_be_of(dir: &Path, host: &str) -> bool {
    let joined = || Settings::load(&dir.join(JOINED)).ok().flatten()?.daemon.map(|daemon| daemon.host);
    shared::whose(dir).or_else(|| joined().filter(|of| !of.is_empty())).is_none_or(|of| of == host)
}

/// Where a reader's token is: `$PINFOLD_HUB_READER_DIR`, else below `$XDG_CONFIG_HOME` or `~/.config`, also root's.
fn reader_file() -> Result<PathBuf, Failure> {
    reader_dir().map(|dir| dir.join("hub-reader.json"))
}

fn reader_dir() -> Result<PathBuf, Failure> {
    directory("PINFOLD_HUB_READER_DIR", None, "XDG_CONFIG_HOME", ".config", "pinfold")
}

fn directory(
    own: &str,
    of_root: Option<&str>,
    base: &str,
    home: &str,
    name: &str,
) -> Result<PathBuf, Failure> {
    let path =
        |variable: &str| std::env::var_os(variable).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(dir) = path(own) {
        return Ok(dir);
    }
    if let Some(dir) = of_root.filter(|_| peer::own_uid() == 0) {
        return Ok(PathBuf::from(dir));
    }
    let below = path(base).or_else(|| path("HOME").map(|dir| dir.join(home)));
    let none = || Failure::new(ExitCode::Usage, format!("there is no HOME: say a directory by {own}"));
    below.map(|dir| dir.join(name)).ok_or_else(none)
}

/// The failure of a hub that was asked.
#[expect(clippy::needless_pass_by_value, reason = "map_err hands it over")]
fn of_hub(error: ClientError) -> Failure {
    let code = match &error {
        ClientError::Address { .. } | ClientError::Certificates(_) => ExitCode::Usage,
        ClientError::Refused { status: 401 | 403, .. } => ExitCode::Permission,
        // A proxy's answer while the hub is away, or the hub's own while busy.
        ClientError::Refused { status: 502..=504, .. } => ExitCode::NoDaemon,
        ClientError::Unreachable { .. } | ClientError::Identity(_) => ExitCode::NoDaemon,
        _ => ExitCode::Failed,
    };
    let mut failure = Failure::doing("the hub", &error);
    failure.code = code;
    // The words are the hub's, or of a server that answers in its place: no control characters reach the terminal.
    failure.message = plain(&failure.message);
    failure
}

/// The failure of a hub's settings that cannot be read or written.
#[expect(clippy::needless_pass_by_value, reason = "map_err hands it over")]
fn of_settings(error: SettingsError) -> Failure {
    Failure::doing("the hub's settings", &error)
}

/// The user by the hub's word.
#[derive(Debug, Deserialize)]
struct Me {
    kind: String,
    name: String,
    /// The visible part, in words; not of tokens.
    #[serde(default)]
    sees: Option<String>,
    /// The hub's own key; not of an earlier hub.
    #[serde(default)]
    key: Option<String>,
}

/// Looks whether the hub knows the token, and its use.
fn known(url: &str, args: &TokenArgs, kind: &str) -> Result<Settings, Failure> {
    let token = match args.token.as_str() {
        "-" => input::text(std::io::stdin(), input::BY_HAND_MAX)
            .map_err(|error| Failure::doing("failed to read the token from standard input", &error))?,
        token => token.to_owned(),
    };
    let authority = certificates(args.ca.as_deref())?;
    let token = token.trim().to_owned();
    let me: Me = Courier::with_token(url, &token, authority.as_deref()).get("/api/v1/me").map_err(of_hub)?;
    if me.kind != kind {
        let text = format!("this is the token of a {}, and a {kind}'s is wanted", me.kind);
        return Err(Failure::new(ExitCode::Usage, text));
    }
    Ok(Settings {
        url: url.trim_end_matches('/').to_owned(),
        token,
        authority,
        name: me.name,
        hub_key: me.key,
        daemon: None,
    })
}

fn certificates(file: Option<&Path>) -> Result<Option<String>, Failure> {
    let read = |path: &Path| {
        std::fs::File::open(path)
            .and_then(|file| input::text(file, input::BY_HAND_MAX))
            .map_err(|error| Failure::new(ExitCode::Usage, format!("--ca {}: {error}", path.display())))
    };
    file.map(read).transpose()
}

fn use_hub(dial: &Dial, args: &UseArgs) -> Result<(), Failure> {
    let address = Address { url: args.url.clone(), authority: certificates(args.ca.as_deref())? };
    let me: Me = address.courier(dial).get("/api/v1/me").map_err(of_hub)?;
    address.save()?;
    let sees = me.sees.map(|sees| format!(", who sees: {}", plain(&sees))).unwrap_or_default();
    say(&format!("asks {} as {}{sees}", args.url, plain(&me.name)));
    Ok(())
}

fn join(dial: &Dial, args: &JoinArgs) -> Result<(), Failure> {
    // A user without an operator's rights would push own jobs alone, as if they were all.
    source::check_operator(dial)?;
    let dir = taken_push_dir()?;
    let mut daemon = dial.connect()?;
    let own = Joined {
        host: peer::host_name(),
        socket: absolute(dial)?,
        instance: daemon.welcome.instance.clone(),
    };
    check_free(&dir, &own)?;
    let settings = known(&args.url, &args.token, "host")?;
    let settings = Settings { daemon: Some(own), ..settings };
    // The hub then knows users by a voucher of this host's daemon.
    let made = |url: &str| {
        let voucher = identity::vouch(&mut daemon, url, JOIN);
        let failed = |failure: Failure| ClientError::Identity(failure.message);
        voucher.map(|voucher| serde_json::to_vec(&voucher).unwrap_or_default()).map_err(failed)
    };
    settings.courier().post_made::<serde_json::Value>("/api/v1/key", made).map_err(of_hub)?;
    settings.save(&dir.join(JOINED)).map_err(of_settings)?;
    say(&format!("this host is {} to {}", settings.name, settings.url));
    if let Some(key) = &settings.hub_key {
        say(&format!("to take its estimates: pinfold config set learning.from_hub={}", plain(key)));
    }
    if args.no_start {
        return Ok(());
    }
    start(dial)
}

/// The daemon's socket, for a process that works elsewhere.
fn absolute(dial: &Dial) -> Result<PathBuf, Failure> {
    std::path::absolute(dial.socket()).map_err(|error| Failure::doing(dial.socket().display(), &error))
}

/// Refuses a directory in which another daemon joined a hub: its pusher would report that daemon's jobs as this
/// daemon's.
fn check_free(dir: &Path, own: &Joined) -> Result<(), Failure> {
    let Some(settings) = Settings::load(&dir.join(JOINED)).map_err(of_settings)? else { return Ok(()) };
    match settings.daemon {
        Some(other) if !other.is(own) => {
            let (socket, name) = (other.socket.display(), plain(&settings.name));
            let on_host = match other.host.as_str() {
                host if host.is_empty() || host == own.host => String::new(),
                host => format!(" of host {}", plain(host)),
            };
            let text = format!(
                "{} is in use for the daemon on {socket}{on_host}, which is {name} to {}: `pinfold hub leave` ends that, and \
                 PINFOLD_HUB_DIR names another directory",
                dir.display(),
                settings.url
            );
            Err(Failure::new(ExitCode::Refused, text))
        }
        _ => Ok(()),
    }
}

/// Starts the pusher, which outlives this command. A pusher that runs already keeps its place.
fn start(dial: &Dial) -> Result<(), Failure> {
    use std::os::unix::process::CommandExt as _;
    let program =
        std::env::current_exe().map_err(|error| Failure::doing("failed to find pinfold", &error))?;
    let mut command = Command::new(program);
    command.arg("--socket").arg(absolute(dial)?).args(["hub", "push"]);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .current_dir("/")
        .process_group(0);
    command.spawn().map(drop).map_err(|error| Failure::doing("failed to start the pusher", &error))?;
    say(
        "the pusher runs until `pinfold hub leave` or the host's restart; a unit starts it each time (docs/hub.md)",
    );
    Ok(())
}

fn leave(args: &LeaveArgs) -> Result<(), Failure> {
    let dir = push_dir()?;
    let settings = Settings::load(&dir.join(JOINED)).map_err(of_settings)?;
    let waiting = push::waiting(&dir)?;
    match &settings {
        // At an earlier warning, the pusher had not ended.
        None if push::left_something(&dir) => {}
        None => return Err(Failure::new(ExitCode::Failed, "this host has joined no hub")),
        Some(settings) if waiting.bundles > 0 && !args.force => {
            let text = format!(
                "{} bundles wait to be sent to {}; --force leaves without them",
                waiting.bundles, settings.url
            );
            return Err(Failure::new(ExitCode::Failed, text));
        }
        Some(_) => {}
    }
    let gone = |path: &Path| match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::doing(format!("failed to remove {}", path.display()), &error))
        }
        _ => Ok(()),
    };
    // The pusher looks for its settings each time, and ends without them. Files that it writes before would be there
    // when this host joins again: a new hub would not be told of jobs that another hub has.
    gone(&dir.join(JOINED))?;
    let _ended = push::ended(&dir, push::LEFT_WITHIN)?;
    push::remove_spool(&dir)?;
    let hub = settings.map_or_else(|| "the hub".to_owned(), |settings| settings.url);
    say(&format!("this host tells {hub} nothing any more; have its token revoked there"));
    Ok(())
}

fn reader(args: &ReaderArgs) -> Result<(), Failure> {
    let settings = known(&args.url, &args.token, "reader")?;
    settings.save(&reader_file()?).map_err(of_settings)?;
    say(&format!("reads {} as {}", settings.url, settings.name));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_host_has_a_directory_that_an_earlier_version_joined_in() {
        let joined = |host: &str| {
            let dir = tempfile::tempdir().expect("a directory");
            let daemon = Joined { host: host.into(), socket: "/s".into(), instance: "i".into() };
            let settings = Settings {
                url: "https://hub".into(),
                token: "t".into(),
                authority: None,
                name: "n".into(),
                hub_key: None,
                daemon: Some(daemon),
            };
            settings.save(&dir.path().join(JOINED)).expect("it is kept");
            dir
        };
        let dir = joined("");
        let of = |dir: &Path| (may_be_of(dir, "one"), may_be_of(dir, "two"));
        take(dir.path(), false, "one").expect("no other host has it");
        assert_eq!(of(dir.path()), (true, true));
        take(dir.path(), true, "one").expect("nobody has it");
        take(dir.path(), true, "two").expect("one has it");
        assert_eq!(of(dir.path()), (true, false), "the first one has it");
        let dir = joined("two");
        assert_eq!(of(dir.path()), (false, true), "two's daemon joined");
        let dir = tempfile::tempdir().expect("a directory");
        take(dir.path(), true, "one").expect("nothing is there to be taken");
        assert_eq!(shared::whose(dir.path()), None);
    }

    #[test]
    fn a_hub_that_is_away_is_told_from_one_that_refuses() {
        let refused = |status| ClientError::Refused { status, words: "\u{1b}[2J".to_owned() };
        let unreachable =
            ClientError::Unreachable { url: "http://hub".to_owned(), why: "refused".to_owned() };
        assert_eq!(of_hub(unreachable).code, ExitCode::NoDaemon);
        for (status, code) in [
            (401, ExitCode::Permission),
            (404, ExitCode::Failed),
            (500, ExitCode::Failed),
            (502, ExitCode::NoDaemon),
            (503, ExitCode::NoDaemon),
            (504, ExitCode::NoDaemon),
        ] {
            let failure = of_hub(refused(status));
            assert_eq!(failure.code, code, "{status}");
            assert!(!failure.message.contains('\u{1b}'), "{failure}");
        }
    }
}
