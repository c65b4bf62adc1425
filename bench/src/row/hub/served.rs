//! A hub that serves a database of its own, with the tokens of hosts that nobody has to wait for: rows, put there by
//! SQL.

use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, bail, ensure};
use sha2::{Digest, Sha256};

use super::http::Connection;
use crate::postgres::Server;
use crate::usage::{self, Memory};

/// Rows of one statement.
const ROWS: usize = 500;

/// A database.
#[derive(Debug)]
pub(super) enum Database<'a> {
    Sqlite(PathBuf),
    Postgres(&'a Server, String),
}

/// A way to put rows into it.
pub(super) enum Sql {
    Sqlite(rusqlite::Connection),
    Postgres(Box<postgres::Client>),
}

impl Sql {
    pub(super) fn batch(&mut self, text: &str) -> anyhow::Result<()> {
        match self {
            Self::Sqlite(connection) => connection.execute_batch(text).context("SQLite"),
            Self::Postgres(client) => client.batch_execute(text).context("PostgreSQL"),
        }
    }
}

impl Database<'_> {
    pub(super) const fn name(&self) -> &'static str {
        match self {
            Self::Sqlite(_) => "SQLite",
            Self::Postgres(..) => "PostgreSQL",
        }
    }

    /// As the hub names it.
    pub(super) fn url(&self) -> String {
        match self {
            Self::Sqlite(file) => format!("sqlite:{}", file.display()),
            Self::Postgres(server, database) => server.url(database),
        }
    }

    pub(super) fn sql(&self) -> anyhow::Result<Sql> {
        Ok(match self {
            Self::Sqlite(file) => {
                Sql::Sqlite(rusqlite::Connection::open(file).context("failed to open the database")?)
            }
            Self::Postgres(server, database) => Sql::Postgres(Box::new(server.client(database)?)),
        })
    }

    /// A literal of bytes.
    pub(super) fn bytes(&self, bytes: &[u8]) -> String {
        let digits = bytes.iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        });
        match self {
            Self::Sqlite(_) => format!("X'{digits}'"),
            Self::Postgres(..) => format!("'\\x{digits}'"),
        }
    }

    /// Has the hub do something with the database.
    pub(super) fn has_done(&self, hub: &Path, command: &[&str]) -> anyhow::Result<()> {
        let made = Command::new(hub).args(command).args(["--database", &self.url()]).output();
        let made = made.context("failed to start the hub")?;
        let said = || String::from_utf8_lossy(&made.stderr);
        ensure!(made.status.success(), "pinfold-hub {}: {}", command.join(" "), said());
        Ok(())
    }

    /// Has the hub make its tables, and so many hosts known.
    pub(super) fn prepare(&self, hub: &Path, hosts: usize) -> anyhow::Result<()> {
        // A token of nobody's that is here: the first one has the tables made.
        self.has_done(hub, &["token", "--reader", "nobody"])?;
        let mut sql = self.sql()?;
        let all: Vec<usize> = (1..=hosts).collect();
        for some in all.chunks(ROWS) {
            let hosts: Vec<String> =
                some.iter().map(|host| format!("({host}, '{}', 1)", host_name(*host))).collect();
            let tokens = some.iter().map(|host| {
                let hash = self.bytes(&Sha256::digest(token(*host).as_bytes()));
                format!("({hash}, 'host', '{}', 1)", host_name(*host))
            });
            let tokens: Vec<String> = tokens.collect();
            sql.batch(&format!(
                "BEGIN; INSERT INTO hosts (id, name, made_us) VALUES {}; \
                 INSERT INTO tokens (hash, kind, name, made_us) VALUES {}; COMMIT",
                hosts.join(", "),
                tokens.join(", ")
            ))?;
        }
        Ok(())
    }

    /// Processor time of its server so far; SQLite has none.
    fn cpu_s(&self) -> f64 {
        match self {
            Self::Sqlite(_) => 0.0,
            Self::Postgres(server, _) => server.cpu_s(),
        }
    }
}

/// The name of a simulated host, and its token.
pub(super) fn host_name(number: usize) -> String {
    format!("node{number:05}")
}

pub(super) fn token(number: usize) -> String {
    format!("pfh-{number:064x}")
}

/// The program, serving.
#[derive(Debug)]
pub(super) struct Hub {
    child: Child,
    pub(super) address: String,
}

impl Hub {
    pub(super) fn start(program: &Path, database: &Database<'_>) -> anyhow::Result<Self> {
        let mut child = Command::new(program)
            .args(["serve", "--database", &database.url(), "--listen", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .with_context(|| format!("failed to start {}", program.display()))?;
        let mut said = BufReader::new(child.stderr.take().context("no standard error")?);
        let mut hub = Self { child, address: String::new() };
        let mut line = String::new();
        while !line.contains("http://") {
            line.clear();
            ensure!(said.read_line(&mut line)? > 0, "the hub ended before it served");
        }
        let (_, address) = line.trim().rsplit_once("http://").context("the hub names no address")?;
        address.clone_into(&mut hub.address);
        // So that it never waits for a reader of what it says.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::stderr()));
        Ok(hub)
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Processor time so far of hub and database, seconds.
    pub(super) fn cpu_s(&self, database: &Database<'_>) -> (f64, f64) {
        (usage::whole_s(self.pid()), database.cpu_s())
    }

    pub(super) fn memory(&self) -> Memory {
        usage::memory(&[self.pid()])
    }

    fn pid(&self) -> i32 {
        i32::try_from(self.child.id()).unwrap_or(0)
    }

    /// Signs an operator in: the line with the cookie.
    pub(super) fn sign_in(&self, program: &Path, database: &Database<'_>) -> anyhow::Result<String> {
        let args = ["login", "--database", &database.url(), "--url", &self.url()];
        let made = Command::new(program).args(args).output().context("failed to start the hub")?;
        let link = String::from_utf8_lossy(&made.stdout).trim().to_owned();
        let (_, code) = link.split_once("code=").context("the hub gives no link")?;
        let mut connection = Connection::new(&self.address);
        let kind = "Content-Type: application/x-www-form-urlencoded";
        let answer = connection.post("/login", kind, format!("code={code}").as_bytes())?;
        for line in &answer.head {
            if let Some((name, value)) = line.split_once(':')
                && name.eq_ignore_ascii_case("set-cookie")
            {
                let cookie = value.trim().split(';').next().unwrap_or_default();
                return Ok(format!("Cookie: {cookie}"));
            }
        }
        bail!("nobody was signed in: {}", answer.status)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        // What it acknowledged is on disk whatever its end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
