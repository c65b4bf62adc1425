//! The hub's configuration file.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use axum::http::HeaderName;
use pinfold_proto::quantity::parse_size;
use serde::Deserialize;

use crate::server::proxied::{Net, Proxy};
use crate::server::vouched::Trust;
use crate::store::{Keep, Whose};

/// Contents of the configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    /// Retention.
    pub keep: Keep,
    /// Bound on the database, in bytes; `None`: the disk.
    pub database_max_bytes: Option<u64>,
    /// The page's address for people, if it differs from the address listened on.
    pub public_url: Option<String>,
    /// Hosts trusted about users, and users with more access.
    pub trust: Trust,
    /// The scope of learning across hosts; `None`: off.
    pub learning: Option<Whose>,
    /// The proxy that signs people in.
    pub proxy: Option<Proxy>,
}

/// A proxy, in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawProxy {
    user_header: String,
    addresses: Vec<String>,
    secret_header: Option<String>,
    secret_file: Option<PathBuf>,
    #[serde(default)]
    operators: Vec<String>,
}

/// The default header of a proxy's secret.
const SECRET_HEADER: &str = "X-Pinfold-Proxy-Secret";

/// The shortest secret of a proxy, in characters.
const SECRET_MIN: usize = 32;

impl RawProxy {
    fn read(self) -> Result<Proxy, String> {
        let header = |key: &str, name: &str| match name.parse::<HeaderName>() {
            Ok(name) if !matches!(name.as_str(), "cookie" | "authorization" | "host" | "origin") => Ok(name),
            _ => Err(format!(
                "`proxy.{key}` is `{name}`, and that is no header for it; X-Auth-Request-User is one"
            )),
        };
        let user_header = header("user_header", &self.user_header)?;
        if self.addresses.is_empty() {
            return Err("`proxy.addresses` is empty: name the addresses of the proxy, as in [\"10.1.2.3\"]"
                .to_owned());
        }
        let net = |text: &String| {
            Net::read(text).ok_or_else(|| {
                format!("`proxy.addresses`: {text} is no address; 10.1.2.3 and 10.1.0.0/16 are")
            })
        };
        let peers = self.addresses.iter().map(net).collect::<Result<Vec<_>, _>>()?;
        let secret = match &self.secret_file {
            Some(file) => {
                let name = self.secret_header.as_deref().unwrap_or(SECRET_HEADER);
                Some((header("secret_header", name)?, secret_of(file)?))
            }
            None if self.secret_header.is_some() => {
                return Err(
                    "`proxy.secret_header` goes with `proxy.secret_file`, which is missing".to_owned()
                );
            }
            None => None,
        };
        if secret.is_none() && peers.iter().any(|net| net.has_loopback()) {
            let words = "`proxy.addresses` has a loopback address, from which each user of this machine can send: \
                         `proxy.secret_file` is wanted as well";
            return Err(words.to_owned());
        }
        if self.operators.iter().any(|name| name.trim().is_empty() || name == "root") {
            return Err("`proxy.operators` are names of people: none is empty, and none is root".to_owned());
        }
        Ok(Proxy { user_header, peers, secret, operators: self.operators })
    }
}

/// Reads a secret from a file, which must be unreadable for other users.
fn secret_of(file: &Path) -> Result<String, String> {
    use std::os::unix::fs::MetadataExt as _;
    let of = |error: &dyn std::fmt::Display| format!("`proxy.secret_file`: {}: {error}", file.display());
    let mode = std::fs::metadata(file).map_err(|error| of(&error))?.mode();
    if mode & 0o007 != 0 {
        return Err(of(&"others can read it: chmod 600"));
    }
    let text = std::fs::read_to_string(file).map_err(|error| of(&error))?;
    let secret = text.trim();
    if secret.len() < SECRET_MIN || !secret.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(of(&format!("at least {SECRET_MIN} letters, digits and signs are wanted, in one line")));
    }
    Ok(secret.to_owned())
}

/// A project, in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Project {
    managers: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    #[serde(default)]
    trusted_hosts: Vec<String>,
    #[serde(default)]
    operators: Vec<String>,
    #[serde(default)]
    projects: BTreeMap<String, Project>,
    keep_series_months: Option<u32>,
    keep_job_months: Option<u32>,
    database_max: Option<String>,
    public_url: Option<String>,
    learning: Option<String>,
    proxy: Option<RawProxy>,
}

/// The longest retention, in months: a hundred years.
const MONTHS_MAX: u32 = 1_200;

/// The smallest bound on a database, in bytes.
const DATABASE_MIN_BYTES: u64 = 16 << 20;

impl Settings {
    /// Loads the settings from a file.
    ///
    /// # Errors
    /// The file, the key and the bound, as a message.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Self::parse(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let raw: Raw = toml::from_str(text).map_err(|error| error.to_string())?;
        let empty = |names: &[String]| names.iter().any(|name| name.trim().is_empty());
        if empty(&raw.trusted_hosts) || empty(&raw.operators) {
            return Err(
                "`trusted_hosts` and `operators` are lists of names, and one of them is empty".to_owned()
            );
        }
        if !raw.operators.is_empty() && raw.trusted_hosts.is_empty() {
            let words = "`operators` are users of `trusted_hosts`, and none is said: name the hosts where people log in";
            return Err(words.to_owned());
        }
        let learning = match raw.learning.as_deref() {
            None | Some("off") => None,
            Some("users") => Some(Whose::Users),
            Some("site") => Some(Whose::Site),
            Some(other) => {
                return Err(format!("`learning` is `{other}`, and it is `off`, `users` or `site`"));
            }
        };
        if learning.is_some() && raw.trusted_hosts.is_empty() {
            let words = "`learning` is from jobs of `trusted_hosts`, and none is said: name those whose users are the same people";
            return Err(words.to_owned());
        }
        let managers = raw.projects.into_iter().flat_map(|(name, project)| {
            project.managers.into_iter().map(move |manager| (name.clone(), manager))
        });
        let managers = managers.collect();
        let trust = Trust { hosts: raw.trusted_hosts, operators: raw.operators, managers };
        let usual = Keep::default();
        let months = |key: &str, value: Option<u32>, usual: u32| match value {
            Some(months) if months > MONTHS_MAX => {
                Err(format!("`{key}` is {months}, and the most is {MONTHS_MAX}"))
            }
            value => Ok(value.unwrap_or(usual)),
        };
        let keep = Keep {
            series_months: months("keep_series_months", raw.keep_series_months, usual.series_months)?,
            jobs_months: months("keep_job_months", raw.keep_job_months, usual.jobs_months)?,
        };
        let size = |text: String| match parse_size(&text) {
            Ok(bytes) if bytes >= DATABASE_MIN_BYTES => Ok(bytes),
            Ok(_) => Err(format!("`database_max` is {text}, and the least is 16MiB")),
            Err(error) => Err(format!("`database_max`: {error}")),
        };
        Ok(Self {
            keep,
            trust,
            learning,
            proxy: raw.proxy.map(RawProxy::read).transpose()?,
            database_max_bytes: raw.database_max.map(size).transpose()?,
            public_url: raw
                .public_url
                .map(|url| public_url(&url))
                .transpose()
                .map_err(|error| format!("`public_url`: {error}"))?,
        })
    }
}

/// Reads the page's address for people.
///
/// # Errors
/// When the text is no address.
pub fn public_url(url: &str) -> Result<String, String> {
    let name = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let name = name.map(|name| name.trim_end_matches('/'));
    match name {
        Some(name) if !name.is_empty() && !name.contains(['/', '?', '#', '@', ' ']) => {
            Ok(url.trim_end_matches('/').to_owned())
        }
        _ => Err(format!("{url} is no address of a page: https://HOST[:PORT] is wanted")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_refused(text: &str, words: &str) {
        let error = Settings::parse(text).unwrap_err();
        assert!(error.contains(words), "{text}: {error}");
    }

    #[test]
    fn a_proxy_is_named_by_its_addresses_and_has_a_secret_where_others_share_them() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("secret");
        let proxy = |rest: &str| format!("[proxy]\nuser_header = \"X-Auth-Request-User\"\n{rest}");
        let read =
            Settings::parse(&proxy("addresses = [\"10.1.2.3\", \"2001:db8::/64\"]\noperators = [\"ann\"]"));
        let read = read.unwrap().proxy.unwrap();
        assert_eq!(
            (read.user_header.as_str(), read.peers.len(), read.secret),
            ("x-auth-request-user", 2, None)
        );
        check_refused(&proxy("addresses = []"), "proxy.addresses");
        check_refused(&proxy("addresses = [\"proxy\"]"), "no address");
        check_refused(&proxy("addresses = [\"127.0.0.1\"]"), "proxy.secret_file");
        check_refused(&proxy("addresses = [\"10.1.2.3\"]\nsecret_header = \"X-S\""), "proxy.secret_file");
        check_refused(&proxy("addresses = [\"10.1.2.3\"]\noperators = [\"root\"]"), "none is root");
        check_refused("[proxy]\nuser_header = \"Cookie\"\naddresses = [\"10.1.2.3\"]", "no header");
        let local = proxy(&format!("addresses = [\"127.0.0.1\"]\nsecret_file = {file:?}"));
        check_refused(&local, "secret");
        std::fs::write(&file, "short\n").unwrap();
        check_refused(&local, "others can read it");
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        check_refused(&local, "at least 32");
        std::fs::write(&file, format!("{}\n", "x".repeat(40))).unwrap();
        let secret = Settings::parse(&local).unwrap().proxy.unwrap().secret.unwrap();
        assert_eq!((secret.0.as_str(), secret.1.len()), ("x-pinfold-proxy-secret", 40));
    }

    #[test]
    fn files_are_read_or_refused_by_key() {
        assert_eq!(Settings::parse("").unwrap(), Settings::default());
        let all = "keep_series_months = 3\nkeep_job_months = 24\ndatabase_max = \"20GiB\"\npublic_url = \"https://hub.example/\"";
        let read = Settings::parse(all).unwrap();
        assert_eq!(read.keep, Keep { series_months: 3, jobs_months: 24 });
        assert_eq!(read.database_max_bytes, Some(20 << 30));
        assert_eq!(read.public_url.as_deref(), Some("https://hub.example"));
        check_refused("keep_series_months = 9999", "keep_series_months");
        check_refused("database_max = \"1MiB\"", "16MiB");
        check_refused("database_max = \"many\"", "database_max");
        check_refused("public_url = \"hub\"", "public_url");
        check_refused("public_url = \"https://hub/path\"", "public_url");
        check_refused("kep_job_months = 1", "kep_job_months");
        check_refused("operators = [\"ann\"]", "trusted_hosts");
        check_refused("trusted_hosts = [\"\"]", "empty");
        check_refused("learning = \"users\"", "trusted_hosts");
        check_refused("learning = \"all\"\ntrusted_hosts = [\"*\"]", "`users` or `site`");
        let site = Settings::parse("learning = \"site\"\ntrusted_hosts = [\"*\"]").unwrap();
        assert_eq!(site.learning, Some(Whose::Site));
        check_refused("[projects.web]\nmanager = [\"ann\"]", "manager");
        let people = "trusted_hosts = [\"login1\"]\noperators = [\"root\"]\n[projects.web]\nmanagers = [\"ann\", \"bea\"]";
        let trust = Settings::parse(people).unwrap().trust;
        assert_eq!(
            trust.managers,
            [("web".to_owned(), "ann".to_owned()), ("web".to_owned(), "bea".to_owned())]
        );
    }
}
