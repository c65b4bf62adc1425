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

    /// A person on the page. One whom a host has signed in is `USER@HOST`, and no host has an `@` in its name.
    #[must_use]
    pub fn session(session: &Session) -> Self {
        let kind = if session.by_proxy { "proxied" } else { "session" };
        let host = session.name.rsplit_once('@').filter(|_| !session.by_proxy).map(|(_, host)| host);
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
        let session = |name: &str, by_proxy| {
            let (name, csrf) = (name.to_owned(), String::new());
            Taker::session(&Session { name, csrf, access: Access::default(), by_proxy })
        };
        let all = [
            holder(Kind::Host),
            holder(Kind::Reader),
            Taker::user("ops", "n1", false),
            session("ops", false),
            session("ops", true),
            Taker::default(),
        ];
        let names: std::collections::BTreeSet<&str> = all.iter().map(|taker| taker.viewer.as_str()).collect();
        assert_eq!(names.len(), all.len(), "{names:?}");
        // A session by a host's word is of that host, and a proxy's names may be addresses.
        assert_eq!(session("a@b@n1", false).of_host(), Taker::user("x@n1", "n1", true).of_host());
        assert_eq!(session("a@n1", true).of_host(), None);
        assert_eq!(holder(Kind::Host).of_host().as_deref(), Some("users of host ops"));
    }
}
