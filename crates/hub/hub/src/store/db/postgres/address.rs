//! A database's address and the connection's security: the supported part of libpq's `postgres://...`. A connection
//! that third parties can read or forge is refused unless the address demands it.

use std::path::Path;
use std::time::Duration;

use postgres::Config;
use postgres::config::{Host, SslMode, TargetSessionAttrs};

use super::tls::Tls;

/// Time limit of a connection attempt.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// The silence after which a connection counts as lost, and interval and number of probes.
const SILENT_MAX: Duration = Duration::from_secs(10);
const ASKED_EVERY: Duration = Duration::from_secs(2);
const ASKED: u32 = 3;

/// The default of libpq and of this program.
const IDLE_DEFAULT: Duration = Duration::from_secs(2 * 3_600);

/// The socket directory of Debian's server.
const SOCKETS: &str = "/var/run/postgresql";

/// The address of a database.
#[derive(Debug, Clone)]
pub(in super::super::super) struct Address {
    pub(super) config: Config,
    /// `None`: without TLS.
    pub(super) tls: Option<Tls>,
}

impl Address {
    /// The number of servers named.
    pub(super) fn servers(&self) -> usize {
        self.config.get_hosts().len().max(self.config.get_hostaddrs().len())
    }
}

/// An address without the parameters that this program reads itself, and these parameters.
struct Divided {
    rest: String,
    sslmode: Option<String>,
    sslrootcert: Option<String>,
}

fn divided(url: &str) -> Result<Divided, String> {
    // A password may have any character but `@`.
    let user = url.find('@').map_or(0, |at| at + 1);
    let query = url[user..].find('?').map_or(url.len(), |at| user + at);
    let mut divided = Divided { rest: url[..query].to_owned(), sslmode: None, sslrootcert: None };
    let mut sign = '?';
    for pair in url[query..].trim_start_matches('?').split('&').filter(|pair| !pair.is_empty()) {
        let place = match pair.split_once('=').map(|(key, _)| key) {
            Some("sslmode") => &mut divided.sslmode,
            Some("sslrootcert") => &mut divided.sslrootcert,
            _ => {
                divided.rest.push(sign);
                divided.rest.push_str(pair);
                sign = '&';
                continue;
            }
        };
        let (key, value) = pair.split_once('=').unwrap_or_default();
        if place.replace(decoded(value)?).is_some() {
            return Err(format!("{key} is there twice"));
        }
    }
    Ok(divided)
}

/// `%2F` as `/`.
fn decoded(text: &str) -> Result<String, String> {
    let bad =
        || format!("{text}: that cannot be read; signs other than letters and digits may be written as %2F");
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let mut digit =
                    || rest.next().and_then(|digit| char::from(digit).to_digit(16)).ok_or_else(bad);
                u8::try_from(digit()? * 16 + digit()?).map_err(|_| bad())?
            }
            other => other,
        });
    }
    String::from_utf8(bytes).map_err(|_| bad())
}

/// Reads `postgres://...`. A missing password comes from `PGPASSWORD`.
///
/// # Errors
/// When the address cannot be read, or the connection is open to the network.
pub(in super::super::super) fn address(url: &str) -> Result<Address, String> {
    let divided = divided(url)?;
    let mut config: Config = divided.rest.parse().map_err(|error: postgres::Error| {
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}")).unwrap_or_default();
        format!("that is no address of a PostgreSQL database: {error}{cause}")
    })?;
    if config.get_hosts().is_empty() && config.get_hostaddrs().is_empty() {
        config.host_path(SOCKETS);
    }
    let tls = way(&config, &divided)?;
    config.ssl_mode(if tls.is_some() { SslMode::Require } else { SslMode::Disable });
    if config.get_connect_timeout().is_none() {
        config.connect_timeout(CONNECT_MAX);
    }
    // A server on a dead machine sends nothing at all.
    if config.get_tcp_user_timeout().is_none() {
        config.tcp_user_timeout(SILENT_MAX);
    }
    if config.get_keepalives_idle() == IDLE_DEFAULT {
        config.keepalives_idle(SILENT_MAX);
    }
    if config.get_keepalives_interval().is_none() {
        config.keepalives_interval(ASKED_EVERY);
    }
    if config.get_keepalives_retries().is_none() {
        config.keepalives_retries(ASKED);
    }
    if config.get_password().is_none()
        && let Ok(password) = std::env::var("PGPASSWORD")
    {
        config.password(password);
    }
    config.application_name("pinfold-hub");
    let address = Address { config, tls };
    Ok(match address.servers() {
        0 | 1 => address,
        // The primary among them may change.
        _ => {
            let Address { mut config, tls } = address;
            config.target_session_attrs(TargetSessionAttrs::ReadWrite);
            Address { config, tls }
        }
    })
}

/// The security of the connection to the servers.
fn way(config: &Config, divided: &Divided) -> Result<Option<Tls>, String> {
    match (divided.sslmode.as_deref(), divided.sslrootcert.as_deref()) {
        (Some("verify-full"), Some(file)) => {
            if let Some(path) = sockets(config).next() {
                return Err(format!(
                    "sslmode=verify-full: the socket in {path} has no TLS and needs none: leave sslmode out, or name a host"
                ));
            }
            Tls::new(Path::new(file)).map(Some)
        }
        (Some("verify-full"), None) => {
            Err("sslmode=verify-full: sslrootcert=FILE is wanted as well, with the certificate \
             of the authority that signed the server's (PEM)"
                .to_owned())
        }
        (_, Some(_)) => Err("sslrootcert: sslmode=verify-full is wanted as well".to_owned()),
        (Some("disable"), None) => Ok(None),
        (Some(mode), None) => Err(format!(
            "sslmode={mode}: that does not show which server answers: verify-full is wanted (with sslrootcert=FILE), or \
             disable for a network that nobody else reads"
        )),
        (None, None) => match elsewhere(config) {
            None => Ok(None),
            Some(host) => Err(format!(
                "{host}: the way to this server is open to the network: say sslmode=verify-full&sslrootcert=FILE, with the \
                 certificate of its authority; or sslmode=disable if nobody else reads that network. A socket \
                 (postgres:///DATABASE) and loopback addresses need neither"
            )),
        },
    }
}

fn sockets(config: &Config) -> impl Iterator<Item = String> {
    config.get_hosts().iter().filter_map(|host| match host {
        Host::Unix(path) => Some(path.display().to_string()),
        Host::Tcp(_) => None,
    })
}

/// The first server on another host.
fn elsewhere(config: &Config) -> Option<String> {
    let addresses = config.get_hostaddrs();
    if let Some(address) = addresses.iter().find(|address| !address.is_loopback()) {
        return Some(address.to_string());
    }
    let here = |name: &str| {
        name == "localhost" || name.parse().is_ok_and(|address: std::net::IpAddr| address.is_loopback())
    };
    config.get_hosts().iter().find_map(|host| match host {
        // Numeric addresses, if present, decide where the server is.
        Host::Tcp(name) if addresses.is_empty() && !here(name) => Some(name.clone()),
        _ => None,
    })
}

/// The database's name for messages, without the secrets of its address.
pub(in super::super::super) fn name_of(url: &str) -> String {
    let Ok(config) =
        divided(url).map_err(drop).and_then(|divided| divided.rest.parse::<Config>().map_err(drop))
    else {
        return "postgres".to_owned();
    };
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) => name.clone(),
            Host::Unix(path) => path.display().to_string(),
        })
        .collect();
    format!("postgres database {} at {}", config.get_dbname().unwrap_or("of its user"), hosts.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn refused(url: &str, words: &str) {
        let said = address(url).unwrap_err();
        assert!(said.contains(words), "{url}: {said}");
    }

    #[test]
    fn only_ways_that_nobody_reads_are_taken() {
        for good in [
            "postgres:///hub",
            "postgres://hub@localhost/hub",
            "postgresql:///hub?host=/tmp/x&user=hub",
            "postgres://hub:a?b@127.0.0.1,[::1]/hub?sslmode=disable&target_session_attrs=read-write",
            "postgres://db.example/hub?sslmode=disable",
            "postgres://db.example/hub?hostaddr=127.0.0.1",
        ] {
            assert!(address(good).is_ok_and(|address| address.tls.is_none()), "{good}: {:?}", address(good));
        }
        refused("postgres://db.example/hub", "db.example: the way");
        refused("postgres://localhost,db.example/hub", "db.example: the way");
        refused("postgres://localhost/hub?hostaddr=192.0.2.1", "192.0.2.1: the way");
        refused("postgres:///hub?zz=1", "zz");
        refused("postgres://db.example/hub?sslcert=/x", "sslcert");
        for mode in ["allow", "prefer", "require", "verify-ca", "", "VERIFY-FULL"] {
            refused(
                &format!("postgres://db.example/hub?sslmode={mode}"),
                &format!("sslmode={mode}: that does not show"),
            );
        }
        refused("postgres://db.example/hub?sslmode=verify-full", "sslrootcert=FILE");
        refused("postgres://db.example/hub?sslrootcert=/x", "sslmode=verify-full is wanted");
        refused("postgres://db.example/hub?sslmode=disable&sslmode=disable", "twice");
        refused("postgres://db.example/hub?sslmode=verify-full&sslrootcert=/no%20where", "/no where");
        refused("postgres://db.example/hub?sslmode=%zz", "%zz");
        refused("postgres:///hub?host=/tmp/x&sslmode=verify-full&sslrootcert=/etc/hosts", "/tmp/x");
    }

    #[test]
    fn of_several_servers_the_one_that_takes_changes_is_asked() {
        let attributes = |url: &str| address(url).unwrap().config.get_target_session_attrs();
        assert_eq!(attributes("postgres://127.0.0.1:1,127.0.0.1:2/hub"), TargetSessionAttrs::ReadWrite);
        assert_eq!(attributes("postgres://127.0.0.1/hub"), TargetSessionAttrs::Any);
        assert!(
            !name_of("postgres://u:secret@a,b/hub?sslmode=verify-full&sslrootcert=/x").contains("secret")
        );
        assert_eq!(name_of("postgres://u@a,b/hub?sslmode=disable"), "postgres database hub at a,b");
    }
}
