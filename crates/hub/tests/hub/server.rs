//! A private PostgreSQL server: on a socket in a directory of its own, for as long as a test lasts.
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pinfold_hub::store::{Location, location};

/// Debian's user `nobody`: the server refuses to be root.
const NOBODY: u32 = 65_534;

/// A server.
#[derive(Debug)]
pub(crate) struct Server {
    dir: tempfile::TempDir,
    child: Child,
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

impl Server {
    /// Starts one; `None`, with the reason printed: it is not installed.
    pub(crate) fn start() -> Option<Self> {
        let (Some(initdb), Some(postgres)) = (program("initdb"), program("postgres")) else {
            println!("skipped: PostgreSQL is not here (apt-get install postgresql)");
            return None;
        };
        // Short: the path of a socket has 107 bytes.
        let dir = tempfile::Builder::new().prefix("pf-pg").tempdir_in("/tmp").unwrap();
        if rustix::process::getuid().is_root() {
            chown(dir.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let data = dir.path().join("data");
        let made = unprivileged(&initdb)
            .args(["--auth=trust", "--username=hub", "--encoding=UTF8", "--no-sync", "-D"])
            .arg(&data)
            .output()
            .unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let child = serve(&postgres, dir.path());
        let server = Self { dir, child };
        server.wait();
        Some(server)
    }

    /// Its database, as hubs name it.
    pub(crate) fn url(&self) -> String {
        format!("postgres:///postgres?user=hub&host={}", self.dir.path().display())
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
        self.child = serve(&program("postgres").unwrap(), self.dir.path());
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

fn serve(postgres: &Path, dir: &Path) -> Child {
    let log = std::fs::File::create(dir.join("log")).unwrap();
    unprivileged(postgres)
        .args(["-c", "listen_addresses=", "-c", "shared_buffers=16MB", "-c", "max_connections=40", "-k"])
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
