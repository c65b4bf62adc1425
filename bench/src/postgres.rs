//! A private PostgreSQL server for one measurement: on a socket in a directory of its own, with Debian's usual settings but for
//! its memory. Owns the child process; a server that was there before is not touched.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use postgres::{Client, NoTls};
use rustix::process::{Pid, Signal, kill_process};

use crate::usage;

/// Debian's user `nobody`: the server refuses to be root.
const NOBODY: u32 = 65_534;

/// How long it may take to start and to stop.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server.
#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    home: PathBuf,
}

/// Where the server's programs are: on the path, or where Debian puts them.
fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let debian = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let places = std::env::split_paths(&path).chain(debian.map(|version| version.path().join("bin")));
    places.map(|place| place.join(name)).find(|file| file.is_file())
}

fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    if rustix::process::getuid().is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command.env("LC_ALL", "C").current_dir("/").stdin(Stdio::null()).stdout(Stdio::null());
    command
}

impl Server {
    /// Starts one below `scratch`; `None`: PostgreSQL is not installed.
    pub(crate) fn start(scratch: &Path) -> anyhow::Result<Option<Self>> {
        let (Some(initdb), Some(postgres)) = (program("initdb"), program("postgres")) else {
            return Ok(None);
        };
        let home = tempfile::Builder::new().prefix("pg-").tempdir_in(scratch)?.keep();
        fs::set_permissions(scratch, Permissions::from_mode(0o755))
            .context("failed to open the scratch directory")?;
        if rustix::process::getuid().is_root() {
            chown(&home, Some(NOBODY), Some(NOBODY)).context("failed to give the server its directory")?;
        }
        let data = home.join("data");
        let made = unprivileged(&initdb)
            .args(["--auth=trust", "--username=hub", "--encoding=UTF8", "-D"])
            .arg(&data)
            .output()
            .context("failed to start initdb")?;
        ensure!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let log = fs::File::create(home.join("log")).context("failed to create the server's log")?;
        let child = unprivileged(&postgres)
            .args(["-c", "listen_addresses=", "-c", "shared_buffers=512MB", "-c", "max_wal_size=4GB", "-k"])
            .arg(&home)
            .arg("-D")
            .arg(&data)
            .stderr(log)
            .spawn()
            .context("failed to start postgres")?;
        let server = Self { child, home };
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = server.client("postgres") {
            if Instant::now() > deadline {
                return Err(error.context("the server does not answer"));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(Some(server))
    }

    /// One of its databases, as hubs name it.
    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres:///{database}?user=hub&host={}", self.home.display())
    }

    /// A connection to one of its databases.
    pub(crate) fn client(&self, database: &str) -> anyhow::Result<Client> {
        Client::connect(&self.url(database), NoTls).context("failed to connect to PostgreSQL")
    }

    /// Makes a database.
    pub(crate) fn create(&self, database: &str) -> anyhow::Result<()> {
        let make = format!("CREATE DATABASE {database}");
        self.client("postgres")?.batch_execute(&make).context("failed to make a database")
    }

    /// Its version.
    pub(crate) fn version(&self) -> anyhow::Result<String> {
        Ok(self.client("postgres")?.query_one("SHOW server_version", &[])?.get(0))
    }

    /// Processor time so far, of all its processes, those that ended included.
    pub(crate) fn cpu_s(&self) -> f64 {
        let Ok(pid) = i32::try_from(self.child.id()) else { return 0.0 };
        usage::whole_s(pid) + usage::children(pid).into_iter().map(usage::whole_s).sum::<f64>()
    }

    /// Ends it.
    pub(crate) fn stop(mut self) -> anyhow::Result<()> {
        self.signal(Signal::INT);
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            if self.child.try_wait().context("failed to wait for postgres")?.is_some() {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("postgres did not stop within {} s", PATIENCE.as_secs())
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw) {
            let _answer = kill_process(pid, signal);
        }
    }
}

impl Drop for Server {
    /// Only on the way out of an error: it has ended otherwise.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            self.signal(Signal::QUIT);
            let _gone = self.child.wait();
        }
    }
}
