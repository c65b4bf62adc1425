//! Connects to a daemon: the socket, the greeting, and a private daemon (`starting`) if no daemon runs. Absent here:
//! later requests.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pinfold_proto::ExitCode;
use pinfold_proto::wire::{self, Decoder, Piece, REPLY_MAX_BYTES, Reply, Request, WIRE_VERSION};
use pinfold_sys::paths::{self, Places};
use pinfold_sys::{peer, whereabouts};
use pinfold_topo::CpuSet;

use crate::failure::Failure;
use crate::occupied;

mod starting;

/// The variable that forbids starting a private daemon, like `--no-autostart`; inherited by the command's children.
pub const NO_AUTOSTART: &str = "PINFOLD_NO_AUTOSTART";

/// The daemon's place, and whether a daemon may be started.
#[derive(Debug, Clone)]
pub struct Dial {
    places: Places,
    /// Whether a private daemon may be started: not on a socket named by option.
    autostart: bool,
}

/// Whether the host's service manager is responsible for the daemon: root's default places belong to the service. A
/// private daemon would keep the service out when it returns, and move its jobs to other control groups.
fn is_service_s(places: &Places) -> bool {
    const MANAGED: &str = "/run/systemd/system";
    const ENABLED: &str = "/etc/systemd/system/multi-user.target.wants/pinfoldd.service";
    places.socket == paths::defaults(0, |_| None).socket
        && Path::new(MANAGED).is_dir()
        && std::fs::symlink_metadata(ENABLED).is_ok()
}

/// A connection with a single request at a time.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
    /// The daemon's greeting.
    pub welcome: Welcome,
}

/// A connection with a sent greeting, not yet answered.
#[derive(Debug)]
pub struct Greeting(Client);

/// The daemon's first words.
#[derive(Debug, Clone, Default)]
pub struct Welcome {
    /// The number of slots.
    pub slots: u64,
    /// Whether starts pass door files.
    pub doors: bool,
    /// Its instance, as in the environment of its jobs.
    pub instance: String,
    /// Its state directory.
    pub state: PathBuf,
    /// Warnings for the user.
    pub warnings: Vec<String>,
    /// The PUs that jobs may use.
    pub cpus: CpuSet,
}

impl Dial {
    /// The daemon meant by `--socket` and `--no-autostart` (or [`NO_AUTOSTART`]).
    pub fn new(socket: Option<&Path>, no_autostart: bool) -> Self {
        let mut places = paths::for_commands(peer::own_uid(), |name| std::env::var_os(name));
        if let Some(socket) = socket {
            places = Places { socket: socket.to_owned(), state: paths::beside(socket) };
        }
        let served = socket.is_none() && is_service_s(&places);
        let no_autostart = no_autostart || std::env::var_os(NO_AUTOSTART).is_some_and(|set| !set.is_empty());
        Self { places, autostart: socket.is_none() && !no_autostart && !served }
    }

    /// Connects and greets; starts a private daemon if needed and allowed.
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::greet(self.stream()?)
    }

    /// As [`Dial::connect`], without waiting for the daemon's first words.
    pub fn greet(&self) -> Result<Greeting, Failure> {
        Greeting::say(self.stream()?)
    }

    /// Connects to a running daemon; never starts a daemon.
    pub fn connect_if_there(&self) -> Option<Client> {
        self.stream_if_there().and_then(|stream| Client::greet(stream).ok())
    }

    /// Connects to a running daemon; never starts a daemon. Each answer must arrive within `limit`.
    pub fn connect_within(&self, limit: Duration) -> Option<Client> {
        let stream = self.stream_if_there()?;
        stream.set_read_timeout(Some(limit)).ok()?;
        Client::greet(stream).ok()
    }

    /// A connection before the greeting; starts a private daemon if needed and allowed.
    pub fn stream(&self) -> Result<UnixStream, Failure> {
        match UnixStream::connect(&self.places.socket) {
            Ok(stream) => self.trusted(stream),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Failure::new(ExitCode::Permission, format!("{}: {error}", self.places.socket.display())))
            }
            Err(error) if !self.autostart => Err(Failure::new(ExitCode::NoDaemon, self.no_daemon(&error))),
            Err(_) => self.stream_to_a_new_one(),
        }
    }

    /// The message for an absent daemon that may not be started.
    fn no_daemon(&self, error: &io::Error) -> String {
        let socket = self.places.socket.display();
        if is_service_s(&self.places) {
            return format!(
                "no daemon on {socket}: {error}; the host's service has that place: systemctl status pinfoldd"
            );
        }
        let noted = whereabouts::noted(&self.places.socket);
        let state = noted.map_or_else(|| self.places.state.clone(), |noted| noted.state);
        format!(
            "no daemon on {socket}: {error}; start one with `{}`",
            whereabouts::command(&self.places.socket, &state)
        )
    }

    /// The state directory for a private daemon: the previous daemon's state, if a command started that daemon too.
    ///
    /// # Errors
    /// When the previous daemon was started otherwise on another state: only its owner can start it for its jobs.
    fn state_to_start_on(&self) -> Result<PathBuf, Failure> {
        let own = &self.places.state;
        let Some(before) = whereabouts::noted(&self.places.socket) else { return Ok(own.clone()) };
        if whereabouts::is_same(&before.state, own) {
            return Ok(own.clone());
        }
        if before.private && before.uid == peer::own_uid() {
            return Ok(if before.state.is_dir() { before.state } else { own.clone() });
        }
        let socket = &self.places.socket;
        let text = format!(
            "no daemon on {}: the one before has its jobs in {}, and a command would start another one on {}; start it \
             again as it was started, with `{}`, or remove {} if it is gone for good",
            socket.display(),
            before.state.display(),
            own.display(),
            whereabouts::command(socket, &before.state),
            whereabouts::file(socket).display(),
        );
        Err(Failure::new(ExitCode::NoDaemon, text))
    }

    /// As [`Self::stream`], after starting a private daemon. On a busy host the daemon may end as idle before the
    /// first request; it is then started once more.
    fn stream_to_a_new_one(&self) -> Result<UnixStream, Failure> {
        self.start_daemon()?;
        let connect = || UnixStream::connect(&self.places.socket);
        if let Ok(stream) = connect() {
            return self.trusted(stream);
        }
        self.start_daemon()?;
        let stream = connect().map_err(|error| {
            let socket = self.places.socket.display();
            Failure::new(ExitCode::NoDaemon, format!("the daemon was started, but {socket}: {error}"))
        })?;
        self.trusted(stream)
    }

    /// The state directory: reported by the daemon, or the default of this user; and from a running daemon the number
    /// of jobs not yet written to it.
    pub fn state_dir(&self) -> Result<(PathBuf, Option<u64>), Failure> {
        let Some(mut client) = self.connect_if_there() else {
            let noted = whereabouts::noted(&self.places.socket);
            return Ok((noted.map_or_else(|| self.places.state.clone(), |noted| noted.state), None));
        };
        match client.ask(&Request::Where)? {
            Reply::Where { state, unwritten } => Ok((PathBuf::from(state), Some(unwritten))),
            other => Err(unexpected(&other)),
        }
    }

    /// A connection before the greeting, to a running daemon.
    pub fn stream_if_there(&self) -> Option<UnixStream> {
        self.stream_on(&self.places.socket)
    }

    /// The socket noted by the daemon of this state, if it differs from this socket.
    pub fn elsewhere(&self, state: &Path) -> Option<PathBuf> {
        occupied::elsewhere(&self.places.socket, state)
    }

    /// As [`Self::stream_if_there`], on a noted socket.
    pub fn stream_on(&self, socket: &Path) -> Option<UnixStream> {
        UnixStream::connect(socket).ok().and_then(|stream| self.trusted(stream).ok())
    }

    /// Accepts a connection only if root or this user listens: another user could listen in the daemon's place, and
    /// would then control the environment of this user's commands.
    fn trusted(&self, stream: UnixStream) -> Result<UnixStream, Failure> {
        let listens = peer::of(&stream).map(|peer| peer.uid);
        if listens.as_ref().is_ok_and(|&user| user == 0 || user == peer::own_uid() || peer::is_unmapped(user))
        {
            return Ok(stream);
        }
        let who = match listens {
            Ok(user) => peer::user(user).map_or_else(|| format!("user {user}"), |user| user.name),
            Err(error) => format!("somebody unknown ({error})"),
        };
        let socket = self.places.socket.display();
        let text =
            format!("{who} listens on {socket}, who is neither root nor you: that daemon is not trusted");
        Err(Failure::new(ExitCode::NoDaemon, text))
    }

    /// The socket.
    pub fn socket(&self) -> &Path {
        &self.places.socket
    }

    /// The state directory of a private daemon started from here.
    pub fn state(&self) -> &Path {
        &self.places.state
    }

    /// Whether a private daemon is started when no daemon runs.
    pub fn starts_daemons(&self) -> bool {
        self.autostart
    }

    /// Whether a private daemon started from here could take over this state directory.
    pub fn could_replace(&self, state: &Path) -> bool {
        self.autostart
            && (whereabouts::is_same(&self.places.state, state)
                || self.state_to_start_on().is_ok_and(|next| whereabouts::is_same(&next, state)))
    }
}

/// The daemon's program: beside this program, else in the search path.
pub fn daemon_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("pinfoldd"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("pinfoldd"))
}

/// Whether this process may be part of a daemon's job.
#[must_use]
pub fn inside_any() -> bool {
    ["PINFOLD_INSTANCE", "PINFOLD_JOB_ID"].iter().all(|name| std::env::var_os(name).is_some())
}

impl Welcome {
    /// Parses a daemon's answer to the greeting.
    pub fn of(reply: Reply) -> Result<Self, Failure> {
        match reply {
            Reply::Welcome { slots, doors, instance, state, warnings, cpus, .. } => {
                let cpus = cpus.parse().unwrap_or_default();
                Ok(Self { slots, doors, instance, state: state.into(), warnings, cpus })
            }
            Reply::Error { code, message } => Err(Failure::refused(code, message)),
            other => Err(unexpected(&other)),
        }
    }
}

/// The failure when the daemon disappears during a request.
pub fn gone(error: &io::Error) -> Failure {
    Failure::new(ExitCode::NoDaemon, format!("the daemon went away while it was asked: {error}"))
}

impl Greeting {
    fn say(stream: UnixStream) -> Result<Self, Failure> {
        let mut client =
            Client { stream, decoder: Decoder::new(REPLY_MAX_BYTES), welcome: Welcome::default() };
        client.say(&Request::Hello { version: WIRE_VERSION })?;
        Ok(Self(client))
    }

    /// Waits for the daemon's greeting; a daemon of another version, or a vanished daemon, is a failure.
    pub fn answered(mut self) -> Result<Client, Failure> {
        self.0.welcome = Welcome::of(self.0.hear()?)?;
        Ok(self.0)
    }
}

impl Client {
    fn greet(stream: UnixStream) -> Result<Self, Failure> {
        Greeting::say(stream)?.answered()
    }

    /// Asks and waits for the answer; a refusal is a failure.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, Failure> {
        self.say(request)?;
        self.hear()
    }

    /// Requests jobs in pieces, and passes each piece to `take` as it arrives.
    pub fn ask_in_pieces(
        &mut self,
        request: &Request,
        mut take: impl FnMut(Piece) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        self.say(request)?;
        loop {
            match self.hear()? {
                Reply::Piece(Piece::Last) => return Ok(()),
                Reply::Piece(piece) => take(piece)?,
                other => return Err(unexpected(&other)),
            }
        }
    }

    fn say(&mut self, request: &Request) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        wire::encode(request, &mut bytes).map_err(|error| Failure::doing("the request", &error))?;
        match self.stream.write_all(&bytes) {
            // A daemon that hung up may have sent the reason before.
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(gone(&error)),
            _ => Ok(()),
        }
    }

    fn hear(&mut self) -> Result<Reply, Failure> {
        let gone = |error: io::Error| gone(&error);
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match self.decoder.take() {
                Ok(Some(Reply::Error { code, message })) => return Err(Failure::refused(code, message)),
                Ok(Some(reply)) => return Ok(reply),
                Ok(None) => {}
                Err(error) => return Err(Failure::doing("the daemon's answer", &error)),
            }
            match self.stream.read(&mut buffer).map_err(gone)? {
                0 => return Err(gone(io::ErrorKind::UnexpectedEof.into())),
                count => self.decoder.push(&buffer[..count]),
            }
        }
    }
}

/// The failure for an answer that does not fit the request: a faulty or foreign daemon.
pub fn unexpected(reply: &Reply) -> Failure {
    let mut text = format!("{reply:?}");
    text.truncate(text.char_indices().nth(80).map_or(text.len(), |(at, _)| at));
    Failure::new(ExitCode::Failed, format!("the daemon answered something else than was asked: {text}"))
}
