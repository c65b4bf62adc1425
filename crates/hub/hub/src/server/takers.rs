//! Whom a request is for. It is found out while the request is answered, and it counts for its questions
//! ([`super::turns`]) and for its answer ([`super::answers`]). Absent here: how it is found out ([`super::auth`]).

use std::sync::{Arc, OnceLock};

use crate::store::{Holder, Kind, Session};

/// A viewer or a host. By default one that is not known.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taker {
    /// Its name behind the word for its kind: a reader and a host may have one name. A host chooses the names of its
    /// users.
    pub viewer: String,
    /// The host that vouches for it.
    pub host: Option<String>,
    /// Whether it may see everything.
    pub sees_all: bool,
}

impl Taker {
    /// The holder of a token.
    #[must_use]
    pub fn holder(holder: &Holder) -> Self {
        let host = (holder.kind == Kind::Host).then(|| holder.name.clone());
        let sees_all = host.is_none();
        Self { viewer: format!("{} {}", holder.kind.word(), holder.name), host, sees_all }
    }

    /// `USER@HOST`, for whom this host vouches.
    #[must_use]
    pub fn user(name: &str, host: &str, sees_all: bool) -> Self {
        Self { viewer: format!("user {name}"), host: Some(host.to_owned()), sees_all }
    }

    /// A person on the page. Whether a host vouches is said by the token of the link: a link that is made at the hub may
    /// be for any name, also for `ann@n1`.
    #[must_use]
    pub fn session(session: &Session) -> Self {
        let host = session.via.strip_prefix("host ").filter(|_| !session.by_proxy);
        let kind = match (session.by_proxy, host) {
            (true, _) => "proxied",
            (false, Some(_)) => "vouched",
            (false, None) => "session",
        };
        Self {
            viewer: format!("{kind} {}", session.name),
            host: host.map(str::to_owned),
            sees_all: session.access.is_all(),
        }
    }

    /// All for whom the same host vouches, and the host itself.
    #[must_use]
    pub fn of_host(&self) -> Option<String> {
        self.host.as_ref().map(|host| format!("users of host {host}"))
    }
}

/// A request that is being answered.
#[derive(Debug, Clone)]
struct Request {
    taker: Arc<OnceLock<Taker>>,
    reads: bool,
}

tokio::task_local! {
    static REQUEST: Request;
}

/// Answers a request; `reads`: it changes nothing. Gives whom it was for as well.
pub async fn during<T>(reads: bool, answered: impl Future<Output = T>) -> (T, Taker) {
    let request = Request { taker: Arc::default(), reads };
    let taker = Arc::clone(&request.taker);
    let answer = REQUEST.scope(request, answered).await;
    (answer, taker.get().cloned().unwrap_or_default())
}

/// It is known whom the request is for that is being answered here. What was known before stays.
pub fn is(taker: Taker) {
    let _ = REQUEST.try_with(|request| request.taker.set(taker));
}

/// Whether it is known whom the request is for that is being answered here.
#[must_use]
pub fn is_known() -> bool {
    REQUEST.try_with(|request| request.taker.get().is_some()).unwrap_or(false)
}

/// Whom the request is for that is being answered here, and whether it changes nothing; `None`: the hub does this for
/// itself.
#[must_use]
pub fn asking() -> Option<(Taker, bool)> {
    let told = |request: &Request| (request.taker.get().cloned().unwrap_or_default(), request.reads);
    REQUEST.try_with(told).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Access;

    #[test]
    fn names_of_different_kinds_are_different_takers() {
        let holder = |kind| Taker::holder(&Holder { kind, name: "ops".into(), host: 1 });
        let session = |name: &str, via: &str, by_proxy| {
            let (name, via, csrf) = (name.to_owned(), via.to_owned(), String::new());
            Taker::session(&Session { name, via, csrf, access: Access::default(), by_proxy })
        };
        let all = [
            holder(Kind::Host),
            holder(Kind::Reader),
            Taker::user("ops", "n1", false),
            session("ops", "", false),
            session("ops", "host n1", false),
            session("ops", "", true),
            Taker::default(),
        ];
        let names: std::collections::BTreeSet<&str> = all.iter().map(|taker| taker.viewer.as_str()).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
        // A session by a host's word is of that host, whatever its name says. A proxy's names may be addresses, and so may
        // those of links that were made at the hub or with a reader's token.
        assert_eq!(session("a@b@n1", "host n1", false).of_host(), Taker::user("x@n1", "n1", true).of_host());
        for (via, by_proxy) in [("", true), ("", false), ("reader host", false)] {
            assert_eq!(session("a@n1", via, by_proxy).of_host(), None, "{via}");
        }
        assert_eq!(holder(Kind::Host).of_host().as_deref(), Some("users of host ops"));
    }
}
