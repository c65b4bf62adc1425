//! A hub over HTTP, from a host or from a person's command line. Absent here: what is sent, and where the token is kept.

use std::io::Read as _;
use std::net::IpAddr;
use std::time::Duration;

use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::{Response, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};

use crate::bundle::Receipt;
use crate::push::{Uplink, UplinkError};

/// How long one exchange may take. A bundle is at most 4 MiB.
const EXCHANGE_MAX: Duration = Duration::from_secs(60);

/// The longest answer that is read, in bytes.
const ANSWER_MAX_BYTES: u64 = 64 << 20;

/// The longest refusal that is shown, in bytes.
const WORDS_MAX_BYTES: u64 = 2_000;

/// Why a hub cannot be talked to.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The address is none that may be used.
    #[error("{url}: {what}")]
    Address {
        /// As it was given.
        url: String,
        /// What is wrong with it, and the way out.
        what: &'static str,
    },
    /// The certificates given cannot be read.
    #[error("the certificates of the hub's authority: {0}")]
    Certificates(String),
    /// Nothing came back.
    #[error("{url}: {source}")]
    Unreachable {
        /// What was asked for.
        url: String,
        /// The cause.
        source: Box<ureq::Error>,
    },
    /// The hub said no.
    #[error("the hub says: {words} ({status})")]
    Refused {
        /// The status of HTTP.
        status: u16,
        /// The hub's words.
        words: String,
    },
    /// The answer is not what was asked for.
    #[error("the hub's answer cannot be read: {0}")]
    Answer(String),
}

/// A hub.
#[derive(Debug)]
pub struct HubClient {
    agent: Agent,
    /// Without a slash at the end.
    url: String,
    authorization: String,
}

impl HubClient {
    /// The hub at this address, for whoever holds the token. `authority`: PEM certificates that the hub's own is signed by,
    /// in place of those of public authorities.
    ///
    /// # Errors
    /// When the address is not `https://...` or `http://` to a loopback address, or the certificates cannot be read.
    pub fn new(url: &str, token: &str, authority: Option<&str>) -> Result<Self, ClientError> {
        let url = url.trim_end_matches('/');
        let plain = check_address(url)?;
        let roots = match authority {
            None => RootCerts::WebPki,
            Some(pem) => RootCerts::from(certificates(pem)?),
        };
        let tls = TlsConfig::builder().root_certs(roots).build();
        let mut config = Agent::config_builder()
            .timeout_global(Some(EXCHANGE_MAX))
            .timeout_connect(Some(Duration::from_secs(10)))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("pinfold/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls);
        if plain {
            // A proxy would see the token.
            config = config.proxy(None);
        }
        Ok(Self {
            agent: config.build().into(),
            url: url.to_owned(),
            authorization: format!("Bearer {token}"),
        })
    }

    /// The address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Asks for something at this path, query included.
    ///
    /// # Errors
    /// When the hub cannot be reached, refuses, or answers something else.
    pub fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, ClientError> {
        let url = format!("{}{path}", self.url);
        let response = self.agent.get(&url).header("Authorization", &self.authorization).call();
        self.json(url, response)
    }

    /// Sends bytes to this path.
    ///
    /// # Errors
    /// When the hub cannot be reached, refuses, or answers something else.
    pub fn post<T: DeserializeOwned>(&self, path: &str, body: &[u8]) -> Result<T, ClientError> {
        let url = format!("{}{path}", self.url);
        let request = self.agent.post(&url).header("Authorization", &self.authorization);
        let response = request.content_type("application/gzip").send(body);
        self.json(url, response)
    }

    fn json<T: DeserializeOwned>(
        &self,
        url: String,
        response: Result<Response<ureq::Body>, ureq::Error>,
    ) -> Result<T, ClientError> {
        let mut response =
            response.map_err(|source| ClientError::Unreachable { url, source: Box::new(source) })?;
        let status = response.status().as_u16();
        if !(200..300).contains(&status) {
            let mut words = Vec::new();
            let _ = response.body_mut().as_reader().take(WORDS_MAX_BYTES).read_to_end(&mut words);
            let words = String::from_utf8_lossy(&words).trim().to_owned();
            let words = if words.is_empty() { "no reason given".to_owned() } else { words };
            return Err(ClientError::Refused { status, words });
        }
        let body = response.body_mut().as_reader().take(ANSWER_MAX_BYTES);
        serde_json::from_reader(std::io::BufReader::new(body))
            .map_err(|error| ClientError::Answer(error.to_string()))
    }
}

impl ClientError {
    /// What it means for something that was sent.
    fn as_uplink(&self) -> UplinkError {
        let words = self.to_string();
        match self {
            Self::Refused { status: 401 | 403, .. } => UplinkError::Denied(words),
            Self::Refused { status: 400 | 413 | 422, .. } => UplinkError::Refused(words),
            _ => UplinkError::Later(words),
        }
    }
}

impl Uplink for HubClient {
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
        self.post("/api/v1/bundles", packed).map_err(|error| error.as_uplink())
    }

    fn live(&mut self, packed: &[u8]) -> Result<(), UplinkError> {
        self.post::<serde_json::Value>("/api/v1/live", packed).map(drop).map_err(|error| error.as_uplink())
    }
}

/// Whether it is plain HTTP to this host.
fn check_address(url: &str) -> Result<bool, ClientError> {
    let wrong = |what| ClientError::Address { url: url.to_owned(), what };
    let uri: Uri = url.parse().map_err(|_| wrong("that is no address; https://HOST[:PORT] is wanted"))?;
    let host = uri.host().filter(|host| !host.is_empty()).ok_or_else(|| wrong("it names no host"))?;
    if !matches!(uri.path(), "" | "/") || uri.query().is_some() || url.contains('@') {
        return Err(wrong("https://HOST[:PORT] is wanted, and nothing behind it"));
    }
    match uri.scheme_str() {
        Some("https") => Ok(false),
        Some("http") if is_loopback(host) => Ok(true),
        Some("http") => Err(wrong("plain HTTP would show the token to the network; https://... is wanted")),
        _ => Err(wrong("https://HOST[:PORT] is wanted")),
    }
}

fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

fn certificates(pem: &str) -> Result<Vec<Certificate<'static>>, ClientError> {
    let mut found = Vec::new();
    for item in ureq::tls::parse_pem(pem.as_bytes()) {
        match item.map_err(|error| ClientError::Certificates(error.to_string()))? {
            ureq::tls::PemItem::Certificate(certificate) => found.push(certificate),
            _ => {
                return Err(ClientError::Certificates(
                    "a key is among them; certificates alone are wanted".to_owned(),
                ));
            }
        }
    }
    if found.is_empty() {
        return Err(ClientError::Certificates("there is none in PEM form".to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, plain: Option<bool>) {
        assert_eq!(check_address(url).ok(), plain, "{url}");
    }

    #[test]
    fn plain_http_stays_on_the_host() {
        check("https://hub.example", Some(false));
        check("https://hub.example:8443", Some(false));
        check("http://127.0.0.1:8080", Some(true));
        check("http://[::1]:8080", Some(true));
        check("http://localhost:8080", Some(true));
        check("http://hub.example", None);
        check("http://127.0.0.1.evil.example", None);
        check("http://127.0.0.1@evil.example", None);
        check("https://hub.example/path", None);
        check("https://hub.example?x=1", None);
        check("ftp://hub.example", None);
        check("hub.example", None);
        check("", None);
    }

    #[test]
    fn certificates_are_read_or_refused_with_words() {
        assert!(HubClient::new("https://hub.example", "t", Some("no certificate")).is_err());
        assert!(HubClient::new("https://hub.example", "t", None).is_ok());
    }
}
