//! Reaching a daemon: the socket, the first words, and a private daemon (`starting`) where none runs.
//! Absent here: what is said after that.

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

/// The variable that forbids to start a private daemon, as `--no-autostart` does: what a command starts inherits it.
pub const NO_AUTOSTART: &str = "PINFOLD_NO_AUTOSTART";

/// Where the daemon is and whether one may be started.
#[derive(Debug, Clone)]
pub struct Dial {
    places: Places,
    /// Whether a private daemon may be started: not on a socket named by option.
    autostart: bool,
}

/// Whether the host's service manager starts the daemon that belongs here: root's usual places are the service's. A
/// private daemon would keep it out when it comes back, and take its jobs to other control groups.
fn is_service_s(places: &Places) -> bool {
    const MANAGED: &str = "/run/systemd/system";
    const ENABLED: &str = "/etc/systemd/system/multi-user.target.wants/pinfoldd.service";
    places.socket == paths::defaults(0, |_| None).socket
        && Path::new(MANAGED).is_dir()
        && std::fs::symlink_metadata(ENABLED).is_ok()
}

/// A connection that asks one thing at a time.
#[derive(Debug)]
pub struct Client {
    stream: UnixStream,
    decoder: Decoder,
    /// What the daemon said of itself.
    pub welcome: Welcome,
}

/// A connection on which a greeting was said, and whose answer is still to be heard.
#[derive(Debug)]
pub struct Greeting(Client);

/// The daemon's first words.
#[derive(Debug, Clone, Default)]
pub struct Welcome {
    /// Slots there are.
    pub slots: u64,
    /// Whether starts come with doors.
    pub doors: bool,
    /// Its instance, as its jobs have it in their environment.
    pub instance: String,
    /// The directory that it keeps its state in.
    pub state: PathBuf,
    /// What the user should know.
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

    /// Connects and greets; starts a private daemon when there is none and one may be started.
    pub fn connect(&self) -> Result<Client, Failure> {
        Client::greet(self.stream()?)
    }

    /// As [`Dial::connect`], without waiting for the daemon's first words.
    pub fn greet(&self) -> Result<Greeting, Failure> {
        Greeting::say(self.stream()?)
    }

    /// Connects if a daemon is there; never starts one.
    pub fn connect_if_there(&self) -> Option<Client> {
        self.stream_if_there().and_then(|stream| Client::greet(stream).ok())
    }

    /// Connects if a daemon is there; never starts one. No answer is waited for longer than this.
    pub fn connect_within(&self, limit: Duration) -> Option<Client> {
        let stream = self.stream_if_there()?;
        stream.set_read_timeout(Some(limit)).ok()?;
        Client::greet(stream).ok()
    }

    /// A connection on which nothing has been said; a private daemon is started for it when there is none and one may
    /// be.
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

    /// The words for a daemon that is not there, and that is not started from here.
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

    /// The state directory for a private daemon that is started from here: where the daemon before it kept its state, if a
    /// command started that one too.
    ///
    /// # Errors
    /// One was started otherwise, on another state, and may have left jobs: only that state has them, and only its owner
    /// knows how it is started.
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

    /// The same with a private daemon that is started for it. On a busy host it may have found itself idle, and have
    /// ended, before it was asked anything: then another one is started, once.
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

    /// Where the state is kept: by the daemon's word, or where one of this user's would keep it; and, if a daemon is there,
    /// how many jobs wait to be written to it.
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

    /// A connection on which nothing has been said, if a daemon is there.
    pub fn stream_if_there(&self) -> Option<UnixStream> {
        self.stream_on(&self.places.socket)
    }

    /// The socket that the daemon of this state noted, if it is another one than this.
    pub fn elsewhere(&self, state: &Path) -> Option<PathBuf> {
        occupied::elsewhere(&self.places.socket, state)
    }

    /// As [`Self::stream_if_there`], on a socket that was noted.
    pub fn stream_on(&self, socket: &Path) -> Option<UnixStream> {
        UnixStream::connect(socket).ok().and_then(|stream| self.trusted(stream).ok())
    }

    /// The connection, if who listens is root or this user: anybody else could put a socket where a daemon's would be,
    /// and would then say what is in the environment of this user's commands.
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

    /// The directory in which a private daemon started from here would keep its state.
    pub fn state(&self) -> &Path {
        &self.places.state
    }

    /// Whether a private daemon is started from here where none is.
    pub fn starts_daemons(&self) -> bool {
        self.autostart
    }

    /// Whether a private daemon started from here would take over from one with this state directory.
    pub fn could_replace(&self, state: &Path) -> bool {
        self.autostart
            && (whereabouts::is_same(&self.places.state, state)
                || self.state_to_start_on().is_ok_and(|next| whereabouts::is_same(&next, state)))
    }
}

/// The daemon's program: beside this one, else in the search path.
pub fn daemon_program() -> PathBuf {
    let beside = std::env::current_exe().ok().map(|own| own.with_file_name("pinfoldd"));
    beside.filter(|path| path.is_file()).unwrap_or_else(|| PathBuf::from("pinfoldd"))
}

/// Whether this process may be part of some daemon's job.
#[must_use]
pub fn inside_any() -> bool {
    ["PINFOLD_INSTANCE", "PINFOLD_JOB_ID"].iter().all(|name| std::env::var_os(name).is_some())
}

impl Welcome {
    /// What a daemon says to a greeting.
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

/// The failure of a daemon that is gone while it is asked.
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

    /// Waits for the daemon's first words; a daemon of another version, or one that is gone, is a failure.
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

    /// Asks for jobs in pieces, and hands each over as it comes.
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
            // A daemon that hung up may have said why before.
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

/// The failure of an answer that does not fit the question: a daemon with a fault, or not one of ours.
pub fn unexpected(reply: &Reply) -> Failure {
    let mut text = format!("{reply:?}");
    text.truncate(text.char_indices().nth(80).map_or(text.len(), |(at, _)| at));
    Failure::new(ExitCode::Failed, format!("the daemon answered something else than was asked: {text}"))
}
