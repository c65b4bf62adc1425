//! Private PostgreSQL servers: on a socket in a directory of their own, for as long as a test lasts; one with a certificate; one
//! with a standby.
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pinfold_hub::store::{Location, location};
use pinfold_testkit::free_port;

/// Debian's user `nobody`: the server refuses to be root.
const NOBODY: u32 = 65_534;

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    dir: tempfile::TempDir,
    child: Child,
    /// On loopback as well, if it is not 0.
    port: u16,
}

/// Where the server's programs are: on the path, or where Debian puts them.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let dirs = std::env::split_paths(&path).chain(debian.map(|version| version.path().join("bin")));
    dirs.map(|dir| dir.join(name)).find(|file| file.is_file())
}

fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    if rustix::process::getuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null());
    command
}

fn own_directory() -> tempfile::TempDir {
    // Short: the path of a socket has 107 bytes.
    let dir = tempfile::Builder::new().prefix("pf-pg").tempdir_in("/tmp").unwrap();
    if rustix::process::getuid().is_root() {
        chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    dir
}

/// Runs one of the server's programs to its end.
fn done(name: &str, args: &[&str], data: &Path) {
    let ended = unprivileged(&program(name).unwrap()).args(args).arg("-D").arg(data).output().unwrap();
    assert!(ended.status.success(), "{name}: {}", String::from_utf8_lossy(&ended.stderr));
}

impl Server {
    /// Starts one; `None`, with the reason printed: it is not installed.
    pub(crate) fn start() -> Option<Self> {
        Self::begin(0, |_| ())
    }

    /// The same, also on a loopback address, and by TLS alone: with this certificate and key, PEM.
    pub(crate) fn with_certificate(certificate: &str, key: &str) -> Option<Self> {
        Self::begin(free_port(), |data| {
            for (name, text) in [("server.crt", certificate), ("server.key", key)] {
                written(&data.join(name), text);
            }
            added(&data.join("postgresql.conf"), "ssl = on\n");
            written(&data.join("pg_hba.conf"), "local all all trust\nhostssl all all 127.0.0.1/32 trust\n");
        })
    }

    /// The same on a loopback address, with a standby that has what is acknowledged before it is.
    pub(crate) fn with_standby() -> Option<(Self, Self)> {
        let settings = "wal_level = replica\nmax_wal_senders = 4\nsynchronous_standby_names = '*'\n\
                        synchronous_commit = local\n";
        let primary = Self::begin(free_port(), |data| added(&data.join("postgresql.conf"), settings))?;
        let (dir, port) = (own_directory(), free_port());
        let data = dir.path().join("data");
        let from = format!("--dbname=user=hub host={} port={}", primary.dir.path().display(), primary.port);
        done("pg_basebackup", &["--write-recovery-conf", "--checkpoint=fast", "--no-sync", &from], &data);
        let child = serve(&program("postgres").unwrap(), dir.path(), port);
        let standby = Self { dir, child, port };
        standby.wait();
        let streams = "SELECT 1 FROM pg_stat_replication WHERE sync_state = 'sync' AND state = 'streaming'";
        let until = Instant::now() + Duration::from_secs(120);
        while primary.client().query(streams, &[]).unwrap().is_empty() {
            assert!(Instant::now() < until, "the standby does not follow");
            std::thread::sleep(Duration::from_millis(20));
        }
        Some((primary, standby))
    }

    fn begin(port: u16, settings: impl FnOnce(&Path)) -> Option<Self> {
        let (Some(_), Some(postgres)) = (program("initdb"), program("postgres")) else {
            println!("skipped: PostgreSQL is not here (apt-get install postgresql)");
            return None;
        };
        let dir = own_directory();
        let data = dir.path().join("data");
        done("initdb", &["--auth=trust", "--username=hub", "--encoding=UTF8", "--no-sync"], &data);
        settings(&data);
        let child = serve(&postgres, dir.path(), port);
        let server = Self { dir, child, port };
        server.wait();
        Some(server)
    }

    /// Its address on loopback.
    pub(crate) fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Ends at once, as the loss of its machine would, for good.
    pub(crate) fn kill(&mut self) {
        self.signal(rustix::process::Signal::QUIT);
        let _ = self.child.wait();
    }

    /// From a standby to the server that takes changes.
    pub(crate) fn promote(&self) {
        self.client().batch_execute("SELECT pg_promote(false)").unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        let recovers = "SELECT pg_is_in_recovery()";
        while self.client().query_one(recovers, &[]).unwrap().get::<_, bool>(0) {
            assert!(Instant::now() < until, "the standby is not promoted");
            std::thread::sleep(Duration::from_millis(20));
        }
        // It has no standby of its own.
        self.set("synchronous_standby_names", "");
    }

    /// Changes a setting of the running server.
    pub(crate) fn set(&self, name: &str, value: &str) {
        let mut client = self.client();
        client.batch_execute(&format!("ALTER SYSTEM SET {name} = '{value}'")).unwrap();
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
        let until = Instant::now() + Duration::from_secs(120);
        while client.query_one(&format!("SHOW {name}"), &[]).unwrap().get::<_, String>(0) != value {
            assert!(Instant::now() < until, "the server does not take {name} up");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Its database, as hubs name it.
    pub(crate) fn url(&self) -> String {
        let port = if self.port == 0 { 5432 } else { self.port };
        format!("postgres:///postgres?user=hub&host={}&port={port}", self.dir.path().display())
    }

    pub(crate) fn at(&self) -> Location {
        location(&self.url()).unwrap()
    }

    pub(crate) fn client(&self) -> postgres::Client {
        postgres::Client::connect(&self.url(), postgres::NoTls).unwrap()
    }

    /// Ends at once, as a power cut would, and starts again.
    pub(crate) fn crash(&mut self) {
        // SIGQUIT: without a word to anybody.
        self.signal(rustix::process::Signal::QUIT);
        let _ = self.child.wait();
        self.child = serve(&program("postgres").unwrap(), self.dir.path(), self.port);
        self.wait();
    }

    fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, signal);
    }

    fn wait(&self) {
        let until = Instant::now() + Duration::from_secs(120);
        while let Err(error) = postgres::Client::connect(&self.url(), postgres::NoTls) {
            assert!(Instant::now() < until, "the server does not come: {error:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A file of the server's own user.
fn written(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    if rustix::process::getuid().is_root() {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn added(path: &Path, text: &str) {
    let before = std::fs::read_to_string(path).unwrap();
    written(path, &(before + text));
}

fn serve(postgres: &Path, dir: &Path, port: u16) -> Child {
    let log = std::fs::File::create(dir.join("log")).unwrap();
    let listen = if port == 0 { "listen_addresses=" } else { "listen_addresses=127.0.0.1" };
    let port = format!("port={}", if port == 0 { 5432 } else { port });
    unprivileged(postgres)
        .args(["-c", listen, "-c", &port, "-c", "shared_buffers=16MB", "-c", "max_connections=40", "-k"])
        .arg(dir)
        .arg("-D")
        .arg(dir.join("data"))
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap()
}

impl Drop for Server {
    fn drop(&mut self) {
        self.signal(rustix::process::Signal::QUIT);
        let _ = self.child.wait();
    }
}
