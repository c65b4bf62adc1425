//! Users by name and number: a thread that asks the system's databases, and what is known of numbers by name.
//!
//! What gives rights is asked for again every few minutes; where there is no answer then, the last one is good for an
//! hour. What gives none is forgotten then, and looked up when it is wanted again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant as Moment};

use pinfold_sys::peer;

use crate::core::reports::Reporter;

/// How often what is known is looked up again, or forgotten.
const AGAIN: Duration = Duration::from_secs(300);
/// How often a name that gives rights is looked up again for which there was no answer.
const SOON: Duration = Duration::from_secs(30);
/// How long an answer is good while there is no newer one.
const GOOD: Duration = Duration::from_secs(3600);
/// More names than these are forgotten, and looked up again when they are wanted.
pub(super) const KNOWN_MAX: usize = 10_000;

/// No user has a longer name, in bytes: the host's own programs take 32, directories up to 256.
const NAME_MAX: usize = 256;

/// Numbers by name: rights are asked for by functions that have the configuration alone.
static NUMBERS: RwLock<BTreeMap<String, Known<u32>>> = RwLock::new(BTreeMap::new());

/// An answer of the system's databases, and when it came; `None`: there is no such user.
#[derive(Debug, Clone)]
pub(super) struct Known<T> {
    pub(super) found: Option<T>,
    pub(super) at: Moment,
    /// It gives rights, and is not forgotten for want of room.
    pub(super) kept: bool,
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
    if name.len() > NAME_MAX {
        return Number::Nobody;
    }
    let numbers = NUMBERS.read().unwrap_or_else(PoisonError::into_inner);
    match numbers.get(name) {
        Some(known) if known.at.elapsed() < GOOD => known.found.map_or(Number::Nobody, Number::User),
        _ => Number::Unknown,
    }
}

/// What the thread is asked for.
#[derive(Debug)]
pub(super) enum Wanted {
    /// The number of a name, with the key of the configuration in which it is, if it is.
    Number(String, Option<String>),
    Name(u32),
}

/// What it says.
#[derive(Debug)]
pub(super) enum Word {
    /// A name's number is in the table, or cannot be found out.
    Number(String),
    Name(u32, Option<String>),
}

/// The thread's life.
pub(super) fn look_up(wanted: &Receiver<Wanted>, tell: &Reporter<Word>) {
    obey(wanted, tell, look_up_number, SOON);
}

/// The same over these databases.
fn obey(
    wanted: &Receiver<Wanted>,
    tell: &Reporter<Word>,
    look_up_number: impl Fn(&str, bool) -> Number,
    soon: Duration,
) {
    let mut names: BTreeMap<u32, Known<String>> = BTreeMap::new();
    // A directory service may come up after the daemon.
    let mut unanswered: BTreeSet<String> = BTreeSet::new();
    let mut again = Moment::now() + AGAIN;
    loop {
        let pause = again.saturating_duration_since(Moment::now());
        let pause = if unanswered.is_empty() { pause } else { pause.min(soon) };
        match wanted.recv_timeout(pause) {
            Ok(Wanted::Number(name, key)) => {
                let found = look_up_number(&name, key.is_some());
                if let (Number::Nobody, Some(key)) = (found, &key) {
                    tracing::warn!(key, name, "the configuration names a user whom this host does not know");
                }
                if found == Number::Unknown && key.is_some() {
                    unanswered.insert(name.clone());
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
                unanswered.retain(|name| look_up_number(name, true) == Number::Unknown);
                if Moment::now() < again {
                    continue;
                }
                let known = kept(&mut NUMBERS.write().unwrap_or_else(PoisonError::into_inner), Moment::now());
                for name in &known {
                    look_up_number(name, true);
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

/// The names that give rights. Others that were looked up some time ago are forgotten: what users named once would be
/// asked for again and again.
fn kept(numbers: &mut BTreeMap<String, Known<u32>>, now: Moment) -> Vec<String> {
    numbers.retain(|_, known| known.kept || now.saturating_duration_since(known.at) < AGAIN);
    numbers.iter().filter(|(_, known)| known.kept).map(|(name, _)| name.clone()).collect()
}

pub(super) fn look_up_number(name: &str, keep: bool) -> Number {
    if name.len() > NAME_MAX {
        return Number::Nobody;
    }
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::core::reports::Reports;

    #[test]
    fn what_gives_no_rights_is_not_asked_for_again() {
        let now = Moment::now();
        let then = |secs| now.checked_sub(Duration::from_secs(secs)).unwrap();
        let known = |kept, secs| Known { found: None, at: then(secs), kept };
        let names = [("old", known(false, 300)), ("new", known(false, 299)), ("gives", known(true, 900))];
        let mut numbers = names.into_iter().map(|(name, known)| (name.to_owned(), known)).collect();
        assert_eq!(kept(&mut numbers, now), ["gives"]);
        assert_eq!(numbers.keys().collect::<Vec<_>>(), ["gives", "new"]);
    }

    /// It is neither looked up nor kept, and nobody waits for an answer.
    #[test]
    fn a_name_that_nobody_can_have_is_nobodys() {
        let name = "x".repeat(NAME_MAX + 1);
        assert_eq!(number_of(&name), Number::Nobody);
        assert_eq!(look_up_number(&name, true), Number::Nobody);
        assert!(!NUMBERS.read().unwrap().contains_key(&name));
        assert_eq!(number_of(&name[1..]), Number::Unknown);
    }

    /// It gives rights once there is an answer, though nobody asks for it again.
    #[test]
    fn a_name_that_gives_rights_is_asked_for_until_there_is_an_answer() {
        let (orders, received) = channel();
        let (asked, heard) = channel();
        let mut words: Reports<Word> = Reports::new().unwrap();
        let reporter = words.reporter();
        // No answer three times.
        let answers = Mutex::new(0..3);
        let number = move |name: &str, kept: bool| {
            asked.send((name.to_owned(), kept)).unwrap();
            answers.lock().unwrap().next().map_or(Number::User(7), |_| Number::Unknown)
        };
        let thread = std::thread::spawn(move || obey(&received, &reporter, number, Duration::from_millis(1)));
        orders.send(Wanted::Number("ann".to_owned(), Some("access.operators".to_owned()))).unwrap();
        for _ in 0..4 {
            let asked = heard.recv_timeout(Duration::from_secs(180)).expect("it is looked up");
            assert_eq!(asked, ("ann".to_owned(), true));
        }
        // One that gives none is not, and one that is known is not: the next that is heard of is this one.
        orders.send(Wanted::Number("bob".to_owned(), None)).unwrap();
        let asked = heard.recv_timeout(Duration::from_secs(180)).expect("it is looked up");
        assert_eq!(asked, ("bob".to_owned(), false));
        assert!(words.wait(Duration::from_secs(180)).is_some(), "an answer is told");
        drop(orders);
        thread.join().unwrap();
    }
}
