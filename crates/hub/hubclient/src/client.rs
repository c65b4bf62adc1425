//! A hub over HTTP, from a host or from a person's command line. Absent here: what is sent, and where the token is kept.

use std::io::Read as _;
use std::net::IpAddr;
use std::time::Duration;

use pinfold_hubwire::bundle::{LiveReceipt, Receipt};
use pinfold_hubwire::courier::{ANSWER_MAX_BYTES, ClientError, Errand, Method};
use pinfold_hubwire::push::{Uplink, UplinkError};
use pinfold_hubwire::turns::Turns;
use serde::de::DeserializeOwned;
use ureq::Agent;
use ureq::http::Uri;
use ureq::tls::{Certificate, RootCerts, TlsConfig};

/// How long one exchange may take. A bundle is at most 4 MiB.
const EXCHANGE_MAX: Duration = Duration::from_secs(60);

/// How long it may take to reach a hub; after that another one is asked, where there is one.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// The longest refusal that is shown, in bytes.
const WORDS_MAX_BYTES: u64 = 2_000;

/// A hub.
#[derive(Debug)]
pub struct HubClient {
    agent: Agent,
    /// Without a slash at the end.
    url: String,
}

impl HubClient {
    /// The hub at this address. `authority`: PEM certificates that the hub's own is signed by,
    /// in place of those of public authorities.
    ///
    /// # Errors
    /// When the address is not `https://...` or `http://` to a loopback address, or the certificates cannot be read.
    pub fn new(url: &str, authority: Option<&str>) -> Result<Self, ClientError> {
        let plain = check_address(url)?;
        Self::with(url.trim_end_matches('/'), authority, plain)
    }

    /// Any server at this address, which gets no token.
    ///
    /// # Errors
    /// None so far.
    pub fn without_token(url: &str) -> Result<Self, ClientError> {
        Self::with(url, None, false)
    }

    fn with(url: &str, authority: Option<&str>, plain: bool) -> Result<Self, ClientError> {
        let roots = match authority {
            None => RootCerts::WebPki,
            Some(pem) => RootCerts::from(certificates(pem)?),
        };
        let tls = TlsConfig::builder().root_certs(roots).build();
        let mut config = Agent::config_builder()
            .timeout_global(Some(EXCHANGE_MAX))
            .timeout_connect(Some(CONNECT_MAX))
            .http_status_as_error(false)
            .max_redirects(0)
            .user_agent(concat!("pinfold/", env!("CARGO_PKG_VERSION")))
            .tls_config(tls);
        if plain {
            // A proxy would see the token.
            config = config.proxy(None);
        }
        Ok(Self { agent: config.build().into(), url: url.to_owned() })
    }

    /// Does an errand.
    ///
    /// # Errors
    /// When the hub cannot be reached, or refuses.
    pub fn exchange(&self, errand: &Errand, body: &[u8]) -> Result<Vec<u8>, ClientError> {
        self.send(errand.method, &errand.path, &errand.authorization, body)
    }

    fn send(
        &self,
        method: Method,
        path: &str,
        authorization: &str,
        body: &[u8],
    ) -> Result<Vec<u8>, ClientError> {
        let url = format!("{}{path}", self.url);
        let sent = match method {
            Method::Get => self.agent.get(&url).header("Authorization", authorization).call(),
            Method::Post if authorization.is_empty() => {
                self.agent.post(&url).content_type("application/json").send(body)
            }
            Method::Post => {
                let request = self.agent.post(&url).header("Authorization", authorization);
                request.content_type("application/gzip").send(body)
            }
        };
        let mut response =
            sent.map_err(|error| ClientError::Unreachable { url, why: with_way_out(chain(&error)) })?;
        let status = response.status().as_u16();
        let mut answer = Vec::new();
        if !(200..300).contains(&status) {
            let _ = response.body_mut().as_reader().take(WORDS_MAX_BYTES).read_to_end(&mut answer);
            let words = String::from_utf8_lossy(&answer).trim().to_owned();
            let words = if words.is_empty() { "no reason given".to_owned() } else { words };
            return Err(ClientError::Refused { status, words });
        }
        let read = response.body_mut().as_reader().take(ANSWER_MAX_BYTES as u64 + 1).read_to_end(&mut answer);
        match read {
            Ok(bytes) if bytes > ANSWER_MAX_BYTES => {
                Err(ClientError::Answer(format!("it is longer than {ANSWER_MAX_BYTES} bytes")))
            }
            Ok(_) => Ok(answer),
            Err(error) => Err(ClientError::Answer(error.to_string())),
        }
    }
}

/// An error and its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut words = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        words.push_str(&format!(": {cause}"));
        next = cause.source();
    }
    words
}

/// What the TLS library says of a server whose own certificate is one of an authority.
const IS_AUTHORITY: &str = "CaUsedAsEndEntity";

/// Why a hub was not reached, and what to do where the library's words do not tell.
fn with_way_out(why: String) -> String {
    if !why.contains(IS_AUTHORITY) {
        return why;
    }
    format!(
        "{why}: the hub's certificate is that of an authority (CA:TRUE), as a plain `openssl req -x509` makes it, and a \
         server's must not be; make one with `-addext basicConstraints=critical,CA:FALSE -addext \
         subjectAltName=DNS:HOST`, or one that the authority signed"
    )
}

impl HubClient {
    /// For the holder of a token, in a process that has HTTP itself.
    #[must_use]
    pub fn with_token(self, token: &str) -> TokenClient {
        let hubs = Turns::new(&self.url);
        TokenClient { clients: vec![self], hubs, authorization: format!("Bearer {token}") }
    }
}

impl TokenClient {
    /// The same with another hub that has the same database.
    #[must_use]
    pub fn or(mut self, other: HubClient) -> Self {
        self.clients.push(other);
        let urls: Vec<&str> = self.clients.iter().map(|client| client.url.as_str()).collect();
        self.hubs = Turns::new(&urls.join(","));
        self
    }
}

/// A hub, for the holder of a token.
#[derive(Debug)]
pub struct TokenClient {
    clients: Vec<HubClient>,
    hubs: Turns,
    authorization: String,
}

impl TokenClient {
    fn post<T: DeserializeOwned>(&mut self, path: &str, body: &[u8]) -> Result<T, UplinkError> {
        let (clients, authorization) = (&self.clients, &self.authorization);
        let answer = self.hubs.ask(|url| match clients.iter().find(|client| client.url == url) {
            Some(client) => client.send(Method::Post, path, authorization, body),
            None => Err(ClientError::Answer("no such hub".to_owned())),
        });
        let answer = answer.and_then(|answer| {
            serde_json::from_slice(&answer).map_err(|error| ClientError::Answer(error.to_string()))
        });
        answer.map_err(|error| error.as_uplink())
    }
}

impl Uplink for TokenClient {
    fn bundle(&mut self, packed: &[u8]) -> Result<Receipt, UplinkError> {
        self.post("/api/v1/bundles", packed)
    }

    fn live(&mut self, packed: &[u8]) -> Result<LiveReceipt, UplinkError> {
        self.post("/api/v1/live", packed)
    }
}

/// Whether it is plain HTTP to this host.
fn check_address(url: &str) -> Result<bool, ClientError> {
    let wrong = |what: &str| ClientError::Address { url: url.to_owned(), what: what.to_owned() };
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
        assert!(HubClient::new("https://hub.example", Some("no certificate")).is_err());
        assert!(HubClient::new("https://hub.example", None).is_ok());
    }
}
