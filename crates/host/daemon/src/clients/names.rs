//! Users' names and numbers, looked up by a thread: a directory service that gives no answer holds up nothing but what
//! needs that very answer.
//!
//! The loop reads what is known and asks for what is not. A name of the configuration that is not known yet gives no
//! rights. What is known is looked up again every few minutes; where there is no answer then, the last one is good for an
//! hour. A connection of a user whose name is not known waits for it, a moment at most, and then is the number's; so does
//! a reservation that names users. Owns both tables. Absent here: who has which rights (`rights`).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant as Moment};

use pinfold_proto::view::FindingView;
use pinfold_proto::wire::Request;

use crate::clients::lookup::{KNOWN_MAX, Number, Wanted, Word, look_up, number_of};
use crate::clients::server::Server;
use crate::core::reports::Reports;
use crate::core::{ConnectionId, Ctx};

/// How long a start waits for the names of the configuration.
const START_WAIT: Duration = Duration::from_secs(2);
/// How long a client waits for a name, in microseconds,
const CLIENT_WAIT_US: u64 = 2_000_000;
/// and one that changes who has rights: its change is refused then.
const CHANGE_WAIT_US: u64 = 20_000_000;
/// So many requests wait for names, and so many of one user.
const PARKED_MAX: usize = 64;
const PARKED_OF_A_USER_MAX: usize = 8;

/// A request that waits for the numbers of these names, and until when.
#[derive(Debug)]
struct Parked {
    id: ConnectionId,
    uid: u32,
    request: Request,
    missing: BTreeSet<String>,
    until_us: u64,
}

/// The loop's end of the thread.
#[derive(Debug)]
pub(crate) struct Names {
    wanted: Option<Sender<Wanted>>,
    reports: Reports<Word>,
    /// Names by number; that of a user whom nobody knows is the number.
    names: BTreeMap<u32, String>,
    /// What was asked for and not answered.
    asked_names: BTreeSet<u32>,
    asked_numbers: BTreeSet<String>,
    /// Names that give rights.
    kept: BTreeSet<String>,
    /// Connections that are not heard before their user's name is known, and until when they wait.
    arriving: BTreeMap<ConnectionId, (u32, u64)>,
    parked: Vec<Parked>,
}

impl Names {
    /// The thread starts with the first name.
    ///
    /// # Errors
    /// When no pair of sockets can be made.
    pub(crate) fn new() -> io::Result<Self> {
        let (names, asked_names, asked_numbers, kept, arriving, parked) = Default::default();
        let reports = Reports::new()?;
        Ok(Self { wanted: None, reports, names, asked_names, asked_numbers, kept, arriving, parked })
    }

    fn want(&mut self, wanted: Wanted) {
        if self.wanted.is_none() {
            let (orders, received) = channel();
            let reporter = self.reports.reporter();
            let thread = std::thread::Builder::new().name("names".to_owned());
            if let Err(error) = thread.spawn(move || look_up(&received, &reporter)) {
                return tracing::error!(%error, "names of users cannot be looked up");
            }
            self.wanted = Some(orders);
        }
        if let Some(orders) = &self.wanted {
            let _ = orders.send(wanted);
        }
    }

    fn want_name(&mut self, uid: u32) {
        if self.asked_names.len() < KNOWN_MAX && self.asked_names.insert(uid) {
            self.want(Wanted::Name(uid));
        }
    }

    /// A name gives rights, by this key.
    fn keep(&mut self, name: &str, key: &str) {
        if self.kept.insert(name.to_owned()) {
            self.asked_numbers.remove(name);
            self.want_number(name, Some(key.to_owned()));
        }
    }

    fn want_number(&mut self, name: &str, key: Option<String>) {
        if self.asked_numbers.len() < KNOWN_MAX && self.asked_numbers.insert(name.to_owned()) {
            self.want(Wanted::Number(name.to_owned(), key));
        }
    }

    /// A user's name as far as it is known; else the number, and it is asked for.
    pub(crate) fn name(&mut self, uid: u32) -> String {
        match self.names.get(&uid) {
            Some(name) => name.clone(),
            None => {
                self.want_name(uid);
                uid.to_string()
            }
        }
    }

    /// The name in a view, where nothing can be asked for.
    pub(crate) fn known(&self, uid: u32) -> String {
        self.names.get(&uid).cloned().unwrap_or_else(|| uid.to_string())
    }

    /// When a waiting request has waited long enough.
    pub(crate) fn due_us(&self) -> Option<u64> {
        let arriving = self.arriving.values().map(|&(_, until_us)| until_us);
        arriving.chain(self.parked.iter().map(|parked| parked.until_us)).min()
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.arriving.remove(&id);
        self.parked.retain(|parked| parked.id != id);
    }

    /// What doctor says, where there is something to say.
    pub(crate) fn finding(&self) -> Option<FindingView> {
        let asked = self.asked_names.len() + self.asked_numbers.len();
        (asked > 0).then(|| FindingView {
            subject: "names".to_owned(),
            ok: false,
            found: format!(
                "the system's user databases gave no answer yet for {asked} users; names without one give no rights"
            ),
            change: Some("look after the directory service (`getent passwd`)".to_owned()),
        })
    }

    fn take_in(&mut self, word: Word) {
        match word {
            Word::Number(name) => drop(self.asked_numbers.remove(&name)),
            Word::Name(uid, name) => {
                if self.names.len() >= KNOWN_MAX {
                    self.names.clear();
                }
                self.asked_names.remove(&uid);
                self.names.insert(uid, name.unwrap_or_else(|| uid.to_string()));
            }
        }
    }
}

impl AsFd for Names {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.reports.as_fd()
    }
}

impl Names {
    /// Has the names of the configuration looked up.
    pub(crate) fn look_up_configured(&mut self, ctx: &Ctx) {
        let named = crate::clients::rights::users_named(&ctx.configured.config);
        let named: Vec<_> = named.into_iter().map(|(key, name)| (key, name.to_owned())).collect();
        for (key, name) in named {
            self.keep(&name, &key);
        }
    }

    /// Has the names looked up that reservations give rights to, and those of their owners.
    pub(crate) fn look_up_reserved<'a>(&mut self, sets: impl Iterator<Item = (&'a [String], u32)>) {
        for (users, owner) in sets {
            users.iter().filter(|name| *name != "*").for_each(|name| self.keep(name, "a set's users"));
            self.name(owner);
        }
    }

    /// A daemon that starts waits for them, a moment at most: rights should hold from the first request on.
    pub(crate) fn await_configured(&mut self) {
        let until = Moment::now() + START_WAIT;
        while !self.asked_numbers.is_empty()
            && let Some(word) = self.reports.wait(until.saturating_duration_since(Moment::now()))
        {
            self.take_in(word);
        }
        if !self.asked_numbers.is_empty() {
            tracing::warn!("the system's user databases give no answer; names without one give no rights");
        }
    }

    /// Hears a new connection, once its user's name is known.
    pub(crate) fn arrived(&mut self, ctx: &Ctx, server: &Server, id: ConnectionId) -> bool {
        let Some(peer) = server.peer(id) else { return false };
        if self.names.contains_key(&peer.uid) {
            return true;
        }
        self.want_name(peer.uid);
        let until_us = ctx.clock.now_us().saturating_add(CLIENT_WAIT_US);
        self.arriving.insert(id, (peer.uid, until_us));
        false
    }

    /// Lets a request wait for the names in it, if any is not known; says whether it does.
    pub(crate) fn waits_for_names(
        &mut self,
        now_us: u64,
        (id, uid): (ConnectionId, u32),
        names: &[String],
        request: &Request,
    ) -> bool {
        let unknown = |name: &&String| *name != "*" && number_of(name) == Number::Unknown;
        let missing: BTreeSet<String> = names.iter().filter(unknown).cloned().collect();
        let own = self.parked.iter().filter(|parked| parked.uid == uid).count();
        if missing.is_empty() || own >= PARKED_OF_A_USER_MAX || self.parked.len() >= PARKED_MAX {
            return false;
        }
        missing.iter().for_each(|name| self.want_number(name, None));
        let wait_us = if let Request::ConfigSet { .. } = request { CHANGE_WAIT_US } else { CLIENT_WAIT_US };
        let until_us = now_us.saturating_add(wait_us);
        self.parked.push(Parked { id, uid, request: request.clone(), missing, until_us });
        true
    }

    /// Names were looked up, or were waited for long enough: the connections and requests that go on.
    pub(crate) fn known_now(&mut self, ctx: &Ctx) -> (Vec<ConnectionId>, Vec<(ConnectionId, Request)>) {
        for word in self.reports.take() {
            self.take_in(word);
        }
        let now_us = ctx.clock.now_us();
        let (names, open) = (&self.names, &self.asked_numbers);
        let is_ready = |(uid, until_us): &(u32, u64)| names.contains_key(uid) || *until_us <= now_us;
        let heard: Vec<ConnectionId> =
            self.arriving.iter().filter(|(_, wait)| is_ready(wait)).map(|(&id, _)| id).collect();
        let answered = |missing: &BTreeSet<String>| missing.iter().all(|name| !open.contains(name));
        let (ready, parked): (Vec<Parked>, Vec<Parked>) = std::mem::take(&mut self.parked)
            .into_iter()
            .partition(|parked| answered(&parked.missing) || parked.until_us <= now_us);
        self.parked = parked;
        self.arriving.retain(|id, _| !heard.contains(id));
        (heard, ready.into_iter().map(|parked| (parked.id, parked.request)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::lookup::look_up_number;

    /// What is not looked up yet is not known, and a service that gives no answer makes nobody wait but for it.
    #[test]
    fn a_name_is_known_once_it_was_looked_up() {
        let name = "no such user, surely";
        assert_eq!(number_of(name), Number::Unknown);
        assert_eq!(look_up_number(name, false), Number::Nobody);
        assert_eq!(number_of(name), Number::Nobody);
        assert_eq!((look_up_number("root", false), number_of("root")), (Number::User(0), Number::User(0)));
    }

    /// Beyond its own places a user's request is answered by what is known.
    #[test]
    fn a_user_leaves_places_for_others() {
        let mut names = Names::new().unwrap();
        let request = Request::ConfigSet { changes: Vec::new() };
        let mut waits = |id: u64, uid| {
            let unknown = [format!("surely no user either, {id}")];
            names.waits_for_names(0, (ConnectionId(id), uid), &unknown, &request)
        };
        let each = PARKED_OF_A_USER_MAX as u64;
        assert!((0..each).all(|id| waits(id, 5)));
        assert!(!waits(each, 5) && waits(each + 1, 6));
        names.forget(ConnectionId(0));
        assert!(names.waits_for_names(0, (ConnectionId(99), 5), &["not even this one".to_owned()], &request));
    }

    #[test]
    fn the_thread_tells_what_it_found() {
        let mut names = Names::new().unwrap();
        assert_eq!(names.name(0), "0", "not known yet");
        assert!(names.finding().is_some(), "and doctor says so");
        let word = names.reports.wait(Duration::from_secs(180)).expect("an answer");
        names.take_in(word);
        assert_eq!((names.name(0), names.finding()), ("root".to_owned(), None));
        let unknown = u32::MAX - 7;
        names.name(unknown);
        let word = names.reports.wait(Duration::from_secs(180)).expect("an answer");
        names.take_in(word);
        assert_eq!(names.known(unknown), unknown.to_string());
    }
}
