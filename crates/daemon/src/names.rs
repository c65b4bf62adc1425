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
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant as Moment};

use pinfold_proto::view::FindingView;
use pinfold_proto::wire::Request;
use pinfold_sys::peer;

use crate::daemon::Daemon;
use crate::event::ConnectionId;
use crate::poller::Ready;
use crate::reports::{Reporter, Reports};

/// How often what is known is looked up again.
const AGAIN: Duration = Duration::from_secs(300);
/// How long an answer is good while there is no newer one.
const GOOD: Duration = Duration::from_secs(3600);
/// How long a start waits for the names of the configuration.
const START_WAIT: Duration = Duration::from_secs(2);
/// How long a client waits for a name, in microseconds.
const CLIENT_WAIT_US: u64 = 2_000_000;
/// More names than these are forgotten, and looked up again when they are wanted.
const KNOWN_MAX: usize = 10_000;
/// So many requests wait for names.
const PARKED_MAX: usize = 64;

/// Numbers by name: rights are asked for by functions that have the configuration alone.
static NUMBERS: RwLock<BTreeMap<String, Known<u32>>> = RwLock::new(BTreeMap::new());

/// An answer of the system's databases, and when it came; `None`: there is no such user.
#[derive(Debug, Clone)]
struct Known<T> {
    found: Option<T>,
    at: Moment,
    /// It gives rights, and is not forgotten for want of room.
    kept: bool,
}

/// What is known of a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Number {
    User(u32),
    /// The system surely knows no such user.
    Nobody,
    /// There is no answer yet.
    Unknown,
}

/// Whose number a name is, as far as that is known; never waits for an answer.
pub(crate) fn number_of(name: &str) -> Number {
    let numbers = NUMBERS.read().unwrap_or_else(PoisonError::into_inner);
    match numbers.get(name) {
        Some(known) if known.at.elapsed() < GOOD => known.found.map_or(Number::Nobody, Number::User),
        _ => Number::Unknown,
    }
}

#[derive(Debug)]
enum Wanted {
    /// The number of a name, with the key of the configuration in which it is, if it is.
    Number(String, Option<String>),
    Name(u32),
}

#[derive(Debug)]
enum Word {
    /// A name's number is in the table, or cannot be found out.
    Number(String),
    Name(u32, Option<String>),
}

/// A request that waits for the numbers of these names, and until when.
type Parked = (ConnectionId, Request, BTreeSet<String>, u64);

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

    /// When whoever waits has waited long enough.
    pub(crate) fn due_us(&self) -> Option<u64> {
        let arriving = self.arriving.values().map(|&(_, until_us)| until_us);
        arriving.chain(self.parked.iter().map(|&(.., until_us)| until_us)).min()
    }

    /// A connection is gone.
    pub(crate) fn forget(&mut self, id: ConnectionId) {
        self.arriving.remove(&id);
        self.parked.retain(|(whose, ..)| *whose != id);
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

/// The thread's life.
fn look_up(wanted: &Receiver<Wanted>, tell: &Reporter<Word>) {
    let mut names: BTreeMap<u32, Known<String>> = BTreeMap::new();
    let mut again = Moment::now() + AGAIN;
    loop {
        match wanted.recv_timeout(again.saturating_duration_since(Moment::now())) {
            Ok(Wanted::Number(name, key)) => {
                let found = look_up_number(&name, key.is_some());
                if let (Number::Nobody, Some(key)) = (found, &key) {
                    tracing::warn!(key, name, "the configuration names a user whom this host does not know");
                }
                if !tell.say(Word::Number(name)) {
                    return;
                }
            }
            Ok(Wanted::Name(uid)) => {
                let found = look_up_name(&mut names, uid);
                if !tell.say(Word::Name(uid, found)) {
                    return;
                }
            }
            Err(RecvTimeoutError::Timeout) => {
                let known: Vec<String> =
                    NUMBERS.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect();
                for name in &known {
                    look_up_number(name, false);
                }
                for uid in names.keys().copied().collect::<Vec<_>>() {
                    let before = names.get(&uid).and_then(|known| known.found.clone());
                    let found = look_up_name(&mut names, uid);
                    if found != before && !tell.say(Word::Name(uid, found)) {
                        return;
                    }
                }
                again = Moment::now() + AGAIN;
            }
            Err(RecvTimeoutError::Disconnected) => return,
        }
    }
}

fn look_up_number(name: &str, keep: bool) -> Number {
    let found = peer::look_up_name(name);
    let mut numbers = NUMBERS.write().unwrap_or_else(PoisonError::into_inner);
    if let Ok(found) = found {
        if numbers.len() >= KNOWN_MAX {
            numbers.retain(|_, known| known.kept);
        }
        let found = found.map(|user| user.uid);
        let kept = keep || numbers.get(name).is_some_and(|known| known.kept);
        numbers.insert(name.to_owned(), Known { found, at: Moment::now(), kept });
        return found.map_or(Number::Nobody, Number::User);
    }
    drop(numbers);
    number_of(name)
}

fn look_up_name(names: &mut BTreeMap<u32, Known<String>>, uid: u32) -> Option<String> {
    if let Ok(found) = peer::look_up(uid) {
        if names.len() >= KNOWN_MAX {
            names.clear();
        }
        names.insert(uid, Known { found: found.map(|user| user.name), at: Moment::now(), kept: false });
    }
    let known = names.get(&uid).filter(|known| known.at.elapsed() < GOOD);
    known.and_then(|known| known.found.clone())
}

impl Daemon {
    /// Has the names of the configuration looked up.
    pub(crate) fn look_up_configured(&mut self) {
        let named = crate::rights::users_named(&self.configured.config);
        let named: Vec<_> = named.into_iter().map(|(key, name)| (key, name.to_owned())).collect();
        for (key, name) in named {
            self.names.keep(&name, &key);
        }
        self.look_up_reserved();
    }

    /// Has the names looked up that reservations give rights to, and those of their owners.
    pub(crate) fn look_up_reserved(&mut self) {
        for set in self.sets.iter() {
            set.users
                .iter()
                .filter(|name| *name != "*")
                .for_each(|name| self.names.keep(name, "a set's users"));
            self.names.name(set.owner_uid);
        }
    }

    /// A daemon that starts waits for them, a moment at most: rights should hold from the first request on.
    pub(crate) fn await_configured(&mut self) {
        let until = Moment::now() + START_WAIT;
        while !self.names.asked_numbers.is_empty()
            && let Some(word) = self.names.reports.wait(until.saturating_duration_since(Moment::now()))
        {
            self.names.take_in(word);
        }
        if !self.names.asked_numbers.is_empty() {
            tracing::warn!("the system's user databases give no answer; names without one give no rights");
        }
    }

    /// Hears a new connection, once its user's name is known.
    pub(crate) fn arrived(&mut self, id: ConnectionId) -> bool {
        let Some(peer) = self.server.peer(id) else { return false };
        if self.names.names.contains_key(&peer.uid) {
            return true;
        }
        self.names.want_name(peer.uid);
        let until_us = self.clock.now_us().saturating_add(CLIENT_WAIT_US);
        self.names.arriving.insert(id, (peer.uid, until_us));
        false
    }

    /// Lets a request wait for the names in it, if any is not known; says whether it does.
    pub(crate) fn waits_for_names(&mut self, id: ConnectionId, names: &[String], request: &Request) -> bool {
        let unknown = |name: &&String| *name != "*" && number_of(name) == Number::Unknown;
        let missing: BTreeSet<String> = names.iter().filter(unknown).cloned().collect();
        if missing.is_empty() || self.names.parked.len() >= PARKED_MAX {
            return false;
        }
        missing.iter().for_each(|name| self.names.want_number(name, None));
        let until_us = self.clock.now_us().saturating_add(CLIENT_WAIT_US);
        self.names.parked.push((id, request.clone(), missing, until_us));
        true
    }

    /// Names were looked up, or were waited for long enough: what waited for them goes on.
    pub(crate) fn names_known(&mut self) {
        for word in self.names.reports.take() {
            self.names.take_in(word);
        }
        let now_us = self.clock.now_us();
        let (names, open) = (&self.names.names, &self.names.asked_numbers);
        let is_ready = |(uid, until_us): &(u32, u64)| names.contains_key(uid) || *until_us <= now_us;
        let heard: Vec<ConnectionId> =
            self.names.arriving.iter().filter(|(_, wait)| is_ready(wait)).map(|(&id, _)| id).collect();
        let answered = |missing: &BTreeSet<String>| missing.iter().all(|name| !open.contains(name));
        let (ready, parked): (Vec<Parked>, Vec<Parked>) = std::mem::take(&mut self.names.parked)
            .into_iter()
            .partition(|(_, _, missing, until_us)| answered(missing) || *until_us <= now_us);
        self.names.parked = parked;
        for id in heard {
            self.names.arriving.remove(&id);
            self.watch_connection(id);
            self.backlog.insert(id);
        }
        for (id, request, ..) in ready {
            self.requested_with_names(id, request);
        }
    }

    /// Hears what a connection says from now on.
    pub(crate) fn watch_connection(&mut self, id: ConnectionId) {
        if let Some(descriptor) = self.server.descriptor(id)
            && self.poller.watch(Ready::Connection(id), descriptor).is_err()
        {
            self.server.close(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is not looked up yet is not known, and a service that gives no answer makes nobody wait but for it.
    #[test]
    fn a_name_is_known_once_it_was_looked_up() {
        let name = "no such user, surely";
        assert_eq!(number_of(name), Number::Unknown);
        assert_eq!(look_up_number(name, false), Number::Nobody);
        assert_eq!(number_of(name), Number::Nobody);
        assert_eq!((look_up_number("root", false), number_of("root")), (Number::User(0), Number::User(0)));
    }

    #[test]
    fn the_thread_tells_what_it_found() {
        let mut names = Names::new().unwrap();
        assert_eq!(names.name(0), "0", "not known yet");
        assert!(names.finding().is_some(), "and doctor says so");
        let word = names.reports.wait(Duration::from_secs(60)).expect("an answer");
        names.take_in(word);
        assert_eq!((names.name(0), names.finding()), ("root".to_owned(), None));
        let unknown = u32::MAX - 7;
        names.name(unknown);
        let word = names.reports.wait(Duration::from_secs(60)).expect("an answer");
        names.take_in(word);
        assert_eq!(names.known(unknown), unknown.to_string());
    }
}
