//! Other users' daemons on this host, where none of them is root's: who of them has jobs.
//!
//! A thread says what this daemon has and reads what others say, about once a second while there are jobs; the loop only
//! hands numbers over and takes numbers back, and never waits. That costs at most a hundredth of a core, however many files
//! somebody plants. A user who was seen active counts as active for some seconds more, so that no neighbour can have jobs
//! moved and suspended as often as it likes.
//!
//! Owner of state: which users were seen active, and when. What follows of it is `core/share.rs`'s. Absent here: any trust in a
//! neighbour beyond whether it wants a slot.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant as Moment};

use pinfold_proto::view::{FindingView, NeighboursView};
use pinfold_sys::neighbours::{Board, Entry};
use pinfold_sys::peer;

use crate::core::Ctx;
use crate::core::share::Share;
use crate::meters::memory;

/// The directory in which daemons find each other, where it is not the host's.
const DIR_VARIABLE: &str = "PINFOLD_NEIGHBOURS_DIR";
/// How often is looked while there are jobs, and while there are none.
const LOOK_BUSY_US: u64 = 1_000_000;
const LOOK_IDLE_US: u64 = 10_000_000;
/// So many times as long as a look took passes before the next.
const LOOK_RESTS: u64 = 100;
/// The thread is asked for its answer after this time, and then at longer intervals, up to the second.
const ANSWER_US: u64 = 5_000;
const ANSWER_MAX_US: u64 = 2_000_000;
/// So long counts a user who was seen active.
const LINGER_US: u64 = 5_000_000;
/// A daemon that ends waits for its file to be struck off, so long at most.
const STRIKE_WAIT: Duration = Duration::from_millis(200);

/// The loop's side.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    looker: Option<Looker>,
    /// Why nobody is found.
    trouble: Option<String>,
    /// Where daemons find each other.
    place: Option<PathBuf>,
    /// Users who were seen active: when last, and what their daemons said then.
    active: BTreeMap<u32, (u64, Entry)>,
    due_us: u64,
    /// No look before, whatever asks for one: the last one took too long.
    rests_until_us: u64,
}

#[derive(Debug)]
struct Looker {
    orders: Sender<Entry>,
    answers: Receiver<Found>,
    /// Since when an answer is awaited.
    asked_us: Option<u64>,
}

/// What a look found.
#[derive(Debug)]
struct Found {
    others: Result<(PathBuf, Vec<(u32, Entry)>), String>,
    took: Duration,
}

/// Whether this daemon shares the host with others' at all: root's does not, unless it is told to.
fn is_wanted(ctx: &Ctx) -> bool {
    ctx.configured.config.host_neighbours.unwrap_or(peer::own_uid() != 0)
}

impl Neighbours {
    /// When to look next, or to take what was found.
    pub(crate) fn due_us(&self, ctx: &Ctx) -> Option<u64> {
        (is_wanted(ctx) || self.looker.is_some()).then_some(self.due_us)
    }

    /// A job comes: the other active users are to be known soon.
    pub(crate) fn hurry(&mut self, now_us: u64) {
        if self.looker.as_ref().is_none_or(|looker| looker.asked_us.is_none()) {
            self.due_us = self.due_us.min(now_us.max(self.rests_until_us));
        }
    }

    /// Takes what was found and looks again; gives what is this user's part of the host by that.
    pub(crate) fn on_due(&mut self, ctx: &Ctx, own: Entry, busy: bool) -> Share {
        let now_us = ctx.clock.now_us();
        if !is_wanted(ctx) {
            self.stop();
            return Share::default();
        }
        match self.answer() {
            None => self.look(own, now_us),
            Some(found) => {
                let took_us = u64::try_from(found.took.as_micros()).unwrap_or(u64::MAX);
                self.rests_until_us = now_us.saturating_add(took_us.saturating_mul(LOOK_RESTS));
                let every_us = if busy { LOOK_BUSY_US } else { LOOK_IDLE_US };
                self.due_us = self.rests_until_us.max(now_us + every_us);
                self.take(found, now_us);
            }
        }
        Share::of(peer::own_uid(), self.active.keys().copied())
    }

    fn answer(&mut self) -> Option<Found> {
        let looker = self.looker.as_mut()?;
        let found = looker.answers.try_recv().ok()?;
        looker.asked_us = None;
        Some(found)
    }

    fn take(&mut self, found: Found, now_us: u64) {
        match found.others {
            Ok((place, others)) => {
                (self.trouble, self.place) = (None, Some(place));
                let mut said: BTreeMap<u32, Entry> = BTreeMap::new();
                for (uid, entry) in others {
                    let of_user = said.entry(uid).or_default();
                    *of_user = sum(*of_user, entry);
                }
                said.retain(|_, entry| entry.slots_wanted > 0);
                self.active.retain(|_, (seen_us, _)| now_us.saturating_sub(*seen_us) < LINGER_US);
                self.active.extend(said.into_iter().map(|(uid, entry)| (uid, (now_us, entry))));
            }
            Err(error) => {
                if self.trouble.as_ref() != Some(&error) {
                    tracing::warn!(error, "daemons of other users are not found");
                }
                self.trouble = Some(error);
            }
        }
    }

    /// Has the thread look, or waits a little longer for it.
    fn look(&mut self, own: Entry, now_us: u64) {
        let looker = match &mut self.looker {
            Some(looker) => looker,
            none => match start() {
                Ok(looker) => none.insert(looker),
                Err(error) => {
                    self.trouble = Some(error.to_string());
                    self.due_us = now_us + LOOK_IDLE_US;
                    return;
                }
            },
        };
        let since_us = match looker.asked_us {
            Some(asked_us) => now_us.saturating_sub(asked_us),
            None => {
                if looker.orders.send(own).is_err() {
                    self.looker = None;
                    self.due_us = now_us + LOOK_IDLE_US;
                    return;
                }
                looker.asked_us = Some(now_us);
                0
            }
        };
        self.due_us = now_us + since_us.clamp(ANSWER_US, ANSWER_MAX_US);
    }

    /// Strikes the own file off, and forgets all others.
    pub(crate) fn stop(&mut self) {
        self.active.clear();
        let Some(Looker { orders, answers, .. }) = self.looker.take() else { return };
        drop(orders);
        let until = Moment::now() + STRIKE_WAIT;
        // The thread ends with what it has to say.
        while answers.recv_timeout(until.saturating_duration_since(Moment::now())).is_ok() {}
    }

    /// What users are told; `None`: the host is not shared.
    pub(crate) fn view(&self, ctx: &Ctx) -> Option<NeighboursView> {
        self.looker.as_ref()?;
        let cores = ctx.topology.cores_within(&ctx.topology.usable()).len();
        let memory = memory::most_bytes(ctx);
        let others = self.active.values().fold(Entry::default(), |all, (_, entry)| sum(all, *entry));
        Some(NeighboursView {
            users: ctx.share.users() as u64,
            cores: ctx.share.cores(cores).len() as u64,
            host_cores: cores as u64,
            memory_bytes: ctx.share.bytes(memory),
            host_memory_bytes: memory,
            others_slots_wanted: others.slots_wanted,
            others_cores_held: others.cores_held,
            others_memory_held_bytes: others.memory_held_bytes,
        })
    }

    /// The share in words, where others are active.
    pub(crate) fn words(&self, ctx: &Ctx) -> Option<String> {
        self.view(ctx).filter(|view| view.users > 1).map(|view| view.to_string())
    }

    /// What doctor says.
    pub(crate) fn finding(&self, ctx: &Ctx) -> FindingView {
        let (ok, found, change) = if !is_wanted(ctx) {
            (
                true,
                "off: jobs may have the whole host, also while other users' daemons have jobs on it"
                    .to_owned(),
                None,
            )
        } else if let Some(trouble) = &self.trouble {
            let change = "have root make the directory, or run one daemon as root for all users";
            (false, format!("other users' daemons are not found: {trouble}"), Some(change.to_owned()))
        } else {
            let place =
                self.place.as_ref().map_or_else(String::new, |place| format!(" by {}", place.display()));
            let words = self.words(ctx).unwrap_or_else(|| "no other user has jobs".to_owned());
            (true, format!("on{place}: {words}"), None)
        };
        FindingView { subject: "neighbours".to_owned(), ok, found, change }
    }
}

fn sum(one: Entry, other: Entry) -> Entry {
    Entry {
        slots_wanted: one.slots_wanted.saturating_add(other.slots_wanted),
        cores_held: one.cores_held.saturating_add(other.cores_held),
        memory_wanted_bytes: one.memory_wanted_bytes.saturating_add(other.memory_wanted_bytes),
        memory_held_bytes: one.memory_held_bytes.saturating_add(other.memory_held_bytes),
    }
}

fn start() -> std::io::Result<Looker> {
    let (orders, received) = channel::<Entry>();
    let (tell, answers) = channel();
    let named = std::env::var_os(DIR_VARIABLE).map(PathBuf::from);
    std::thread::Builder::new().name("neighbours".to_owned()).spawn(move || {
        let mut board = None;
        // The thread ends with the loop's side only, and strikes its file off.
        while let Ok(entry) = received.recv() {
            let began = Moment::now();
            let others = look(&mut board, named.as_deref(), entry);
            if tell.send(Found { others, took: began.elapsed() }).is_err() {
                return;
            }
        }
    })?;
    Ok(Looker { orders, answers, asked_us: None })
}

fn look(
    board: &mut Option<Board>,
    named: Option<&std::path::Path>,
    entry: Entry,
) -> Result<(PathBuf, Vec<(u32, Entry)>), String> {
    let full = |error| crate::core::in_full(&error);
    let board = match board {
        Some(board) => board,
        none => none.insert(Board::open(named).map_err(full)?),
    };
    board.publish(entry).map_err(full)?;
    Ok((board.path().to_owned(), board.others()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(neighbours: &mut Neighbours, others: &[(u32, u64)], now_us: u64) -> Vec<u32> {
        let entry = |slots_wanted| Entry { slots_wanted, ..Entry::default() };
        let others = others.iter().map(|&(uid, slots)| (uid, entry(slots))).collect();
        let found = Found { others: Ok((PathBuf::from("/"), others)), took: Duration::ZERO };
        neighbours.take(found, now_us);
        neighbours.active.keys().copied().collect()
    }

    #[test]
    fn idle_users_have_no_share_and_come_back_at_once() {
        let mut neighbours = Neighbours::default();
        assert_eq!(said(&mut neighbours, &[(7, 0), (8, 3)], 1), [8]);
        assert_eq!(said(&mut neighbours, &[(7, 1), (7, 0), (8, u64::MAX), (8, 9)], 2), [7, 8]);
        assert_eq!(neighbours.active[&8].1.slots_wanted, u64::MAX, "nothing overflows");
    }

    #[test]
    fn who_comes_and_goes_has_a_share_all_the_time() {
        let mut neighbours = Neighbours::default();
        assert_eq!(said(&mut neighbours, &[(7, 1)], 1), [7]);
        assert_eq!(said(&mut neighbours, &[(7, 0)], LINGER_US), [7]);
        assert_eq!(said(&mut neighbours, &[], LINGER_US), [7]);
        assert_eq!(said(&mut neighbours, &[], LINGER_US + 1), [0; 0]);
        // However seldom is looked, a user who was there at the last look is there until the next.
        assert_eq!(said(&mut neighbours, &[(7, 1)], 9 * LINGER_US), [7]);
        assert_eq!(said(&mut neighbours, &[(7, 1)], 99 * LINGER_US), [7]);
    }

    #[test]
    fn what_cannot_be_found_out_changes_nothing() {
        let mut neighbours = Neighbours::default();
        said(&mut neighbours, &[(7, 1)], 1);
        neighbours.take(Found { others: Err("no".into()), took: Duration::ZERO }, LINGER_US * 9);
        assert!(neighbours.active.contains_key(&7) && neighbours.trouble.is_some());
        neighbours.stop();
        assert!(neighbours.active.is_empty());
    }

    /// A look that took long, whatever was planted, is not repeated because somebody submits.
    #[test]
    fn nobody_can_have_it_look_all_the_time() {
        let mut neighbours = Neighbours { due_us: 900, rests_until_us: 700, ..Neighbours::default() };
        neighbours.hurry(10);
        assert_eq!(neighbours.due_us, 700);
        neighbours.hurry(800);
        assert_eq!(neighbours.due_us, 700);
    }
}
