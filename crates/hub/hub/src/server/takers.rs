//! The viewer or host of a request. It becomes known while the request is answered; bounds on queries
//! ([`super::turns`]) and answers ([`super::answers`]) use it. Absent here: the authentication ([`super::auth`]).

use std::sync::{Arc, OnceLock};

use crate::store::{Holder, Kind, Session};

/// A viewer or a host; by default unknown.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Taker {
    /// The name behind its kind: a reader and a host may share a name. A host chooses the names of its users.
    pub viewer: String,
    /// The vouching host.
    pub host: Option<String>,
    /// Whether the viewer may see everything.
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

    /// `USER@HOST`, vouched for by this host.
    #[must_use]
    pub fn user(name: &str, host: &str, sees_all: bool) -> Self {
        Self { viewer: format!("user {name}"), host: Some(host.to_owned()), sees_all }
    }

    /// A person on the page. The link's token shows whether a host vouches: a link made at the hub may have any name,
    /// even `ann@n1`.
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

    /// The group of a host and all users that it vouches for.
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

/// Answers a request, and returns its taker too; `reads`: the request changes nothing.
pub async fn during<T>(reads: bool, answered: impl Future<Output = T>) -> (T, Taker) {
    let request = Request { taker: Arc::default(), reads };
    let taker = Arc::clone(&request.taker);
    let answer = REQUEST.scope(request, answered).await;
    (answer, taker.get().cloned().unwrap_or_default())
}

/// Sets the current request's taker, unless it is set.
pub fn is(taker: Taker) {
    let _ = REQUEST.try_with(|request| request.taker.set(taker));
}

/// Whether the current request's taker is known.
#[must_use]
pub fn is_known() -> bool {
    REQUEST.try_with(|request| request.taker.get().is_some()).unwrap_or(false)
}

/// The current request's taker, and whether the request changes nothing; `None`: the hub acts for itself.
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
        // A session vouched for by a host belongs to the host, whatever its name. A proxy's names may be addresses, and
        // so may names of links made at the hub or with a reader's token.
        assert_eq!(session("a@b@n1", "host n1", false).of_host(), Taker::user("x@n1", "n1", true).of_host());
        for (via, by_proxy) in [("", true), ("", false), ("reader host", false)] {
            assert_eq!(session("a@n1", via, by_proxy).of_host(), None, "{via}");
        }
        assert_eq!(holder(Kind::Host).of_host().as_deref(), Some("users of host ops"));
    }
}
