//! People signed in by a proxy: the proxy stands before the hub, asks for a password (or does OpenID Connect), and
//! sends the name in a header. The header counts from the proxy's own addresses alone, and only with the proxy's secret
//! if a secret is set; from other senders it is ignored. Each request is checked anew, so that a sign-out at the proxy
//! ends the access here. Absent here: signing in by a link ([`super::auth`]).

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use sha2::{Digest as _, Sha256};

use super::auth::SESSION_US;
use super::problem::Problem;
use super::takers::{self, Taker};
use super::vouched::Trust;
use crate::hub::{Counters, Hub};
use crate::secret;
use crate::store::{Session, now_us};

/// The longest name, in bytes.
const NAME_MAX: usize = 64;

/// The most remembered names, for an audit row per name in half a day.
const NOTED_MAX: usize = 10_000;

/// The other end of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Peer(pub SocketAddr);

/// The parts of a request that identify the requester.
#[derive(Debug)]
pub struct Asker {
    /// Headers of the request.
    pub headers: HeaderMap,
    peer: Option<IpAddr>,
}

impl<S: Sync> FromRequestParts<S> for Asker {
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Self::Rejection> {
        let peer = parts.extensions.get::<Peer>().map(|peer| peer.0.ip().to_canonical());
        Ok(Self { headers: parts.headers.clone(), peer })
    }
}

/// Addresses with a common prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Net {
    first: IpAddr,
    bits: u8,
}

impl Net {
    /// Reads `ADDRESS` or `ADDRESS/BITS`.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (address, bits) =
            text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let first: IpAddr = address.parse().ok()?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Some(most), |bits| bits.parse().ok())?;
        (bits <= most).then_some(Self { first, bits })
    }

    fn has(self, address: IpAddr) -> bool {
        let differ = match (self.first, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => u128::from(own.to_bits() ^ other.to_bits()) << 96,
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        differ.leading_zeros() >= u32::from(self.bits)
    }

    /// Whether every user of the hub's own machine may send from these addresses.
    #[must_use]
    pub fn has_loopback(self) -> bool {
        self.first.is_loopback()
            || self.has(IpAddr::from([127, 0, 0, 1]))
            || self.has(std::net::Ipv6Addr::LOCALHOST.into())
    }
}

/// The proxy's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proxy {
    /// The header with the user's name.
    pub user_header: HeaderName,
    /// The proxy's addresses.
    pub peers: Vec<Net>,
    /// The header with the proxy's secret, and the secret.
    pub secret: Option<(HeaderName, String)>,
    /// Users of the proxy that are operators of the hub.
    pub operators: Vec<String>,
}

/// The proxy of a running hub.
#[derive(Debug)]
pub struct Proxied {
    proxy: Proxy,
    /// The root of users' form secrets, shared by all hubs of a database.
    form_secret: String,
    noted: Mutex<BTreeMap<String, u64>>,
}

impl Proxied {
    /// A proxy with the database's form secret.
    #[must_use]
    pub fn new(proxy: Proxy, form_secret: String) -> Self {
        Self { proxy, form_secret, noted: Mutex::default() }
    }

    /// The secret that a user's forms repeat.
    fn csrf(&self, name: &str) -> String {
        let hash =
            Sha256::new().chain_update(&self.form_secret).chain_update([0]).chain_update(name).finalize();
        hash.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Whether to audit a sign-in: the first of this user in half a day.
    fn is_new(&self, name: &str, now_us: u64) -> bool {
        let mut noted = self.noted.lock().unwrap_or_else(PoisonError::into_inner);
        if noted.get(name).is_some_and(|until_us| *until_us > now_us) {
            return false;
        }
        if noted.len() >= NOTED_MAX {
            noted.clear();
        }
        noted.insert(name.to_owned(), now_us.saturating_add(SESSION_US));
        true
    }
}

/// A header's only value.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, &'static str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(value), None) => value.to_str().map(Some).map_err(|_| "it is no plain text"),
        (Some(_), Some(_)) => Err("it is there more than once"),
    }
}

impl Proxy {
    /// The user that the proxy names; `None`: the request is not the proxy's.
    fn named<'a>(&self, asker: &'a Asker) -> Result<Option<&'a str>, String> {
        let known = asker.peer.is_some_and(|peer| self.peers.iter().any(|net| net.has(peer)));
        if !known || !asker.headers.contains_key(&self.user_header) {
            return Ok(None);
        }
        if let Some((header, secret)) = &self.secret {
            let sent = one(&asker.headers, header).map_err(|what| format!("the header {header}: {what}"))?;
            if !sent.is_some_and(|sent| secret::same(sent, secret)) {
                return Err(format!(
                    "the header {} counts with the proxy's secret in {header} only",
                    self.user_header
                ));
            }
        }
        let wrong = |what: &str| format!("the header {} of the proxy: {what}", self.user_header);
        let name = one(&asker.headers, &self.user_header).map_err(wrong)?.unwrap_or_default();
        if !is_user(name) {
            return Err(wrong("it has no name of a user"));
        }
        // Each machine has its own root account, which is no person.
        if name == "root" {
            return Err(wrong("root is not signed in by a proxy"));
        }
        Ok(Some(name))
    }
}

fn is_user(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '+');
    (1..=NAME_MAX).contains(&name.len())
        && name.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && name.chars().all(fits)
}

/// The session of a user signed in by the proxy; `None`: no user. Marks the request as the user's.
///
/// # Errors
/// When the proxy's headers are wrong.
pub async fn session(hub: &Arc<Hub>, asker: &Asker) -> Result<Option<Session>, Problem> {
    let Some(proxied) = &hub.proxied else { return Ok(None) };
    let name = proxied.proxy.named(asker).map_err(|words| {
        Counters::count(&hub.counters.denied);
        tracing::warn!(words, "a proxy's sign-in is refused");
        Problem::new(StatusCode::FORBIDDEN, words)
    })?;
    let Some(name) = name else { return Ok(None) };
    let access = hub.trust.access_of_name(name, &proxied.proxy.operators);
    let (via, csrf) = (String::new(), proxied.csrf(name));
    let session = Session { name: name.to_owned(), via, csrf, access, by_proxy: true };
    takers::is(Taker::session(&session));
    if proxied.is_new(name, now_us()) {
        let name = name.to_owned();
        let noted =
            hub.ask(move |hub| hub.store.note(&name, "login", "signed in by the proxy", now_us())).await;
        if let Ok(Err(error)) | Err(error) = noted {
            // A full disk must not prevent reading.
            tracing::warn!(%error, "a sign-in by the proxy is not noted");
        }
    }
    Ok(Some(session))
}

/// Access of the proxy's users: as of a trusted host's users.
impl Trust {
    pub(super) fn access_of_name(&self, name: &str, operators: &[String]) -> crate::store::Access {
        use crate::store::{Access, Grant};
        if operators.iter().any(|operator| operator == name) {
            return Access::All;
        }
        let own = Grant { user: Some(name.to_owned()), ..Grant::default() };
        let managed = self.managers.iter().filter(|(_, manager)| manager == name);
        let managed =
            managed.map(|(project, _)| Grant { project: Some(project.clone()), ..Grant::default() });
        Access::Some(std::iter::once(own).chain(managed).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_begin_alike_or_not() {
        let has = |net: &str, address: &str| Net::read(net).unwrap().has(address.parse().unwrap());
        assert!(has("10.0.0.7", "10.0.0.7") && !has("10.0.0.7", "10.0.0.8"));
        assert!(
            has("10.0.0.0/8", "10.9.9.9") && !has("10.0.0.0/8", "11.0.0.0") && has("0.0.0.0/0", "1.2.3.4")
        );
        assert!(has("2001:db8::/32", "2001:db8:1::1") && !has("2001:db8::/32", "2001:db9::1"));
        assert!(!has("10.0.0.0/8", "::1") && !has("::/0", "10.0.0.1"));
        for bad in ["", "10.0.0", "10.0.0.1/33", "::/129", "10.0.0.1/", "proxy.example", "10.0.0.1/-1"] {
            assert_eq!(Net::read(bad), None, "{bad}");
        }
        for loopback in ["127.0.0.1", "127.0.0.0/8", "::1", "0.0.0.0/0", "::/0", "127.9.9.9"] {
            assert!(Net::read(loopback).unwrap().has_loopback(), "{loopback}");
        }
        assert!(!Net::read("10.0.0.0/8").unwrap().has_loopback());
    }

    #[test]
    fn each_sign_in_is_noted_once_in_half_a_day() {
        let proxy = Proxy {
            user_header: HeaderName::from_static("x-user"),
            peers: Vec::new(),
            secret: None,
            operators: Vec::new(),
        };
        let proxied = Proxied::new(proxy, "s".into());
        assert!(proxied.is_new("ann", 1) && !proxied.is_new("ann", 2) && proxied.is_new("bea", 2));
        assert!(proxied.is_new("ann", SESSION_US + 2));
        assert_ne!(proxied.csrf("ann"), proxied.csrf("bea"));
    }
}
