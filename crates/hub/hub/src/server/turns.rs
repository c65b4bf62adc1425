//! Turns: bounds on concurrent queries of the store, in all, by viewer, and by vouching host. A viewer's further
//! queries wait in the viewer's own line, and take no place in the line of all.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::takers::Taker;
use crate::store::StoreError;

/// Questions to the store at a time.
pub const ASKED_AT_ONCE: usize = 8;

/// The bounds for a viewer, and for all users that a host vouches for: the host chooses their names.
pub const OF_A_VIEWER_AT_ONCE: usize = 3;
const OF_A_HOST_AT_ONCE: usize = 6;

/// Time limit of a query's wait for a turn.
const TURN_MAX: Duration = Duration::from_secs(10);

/// There was no turn in time.
pub(crate) fn busy() -> StoreError {
    StoreError::Refused("the hub is busy: ask again in a moment".to_owned())
}

/// Waits for a turn, for a bounded time.
///
/// # Errors
/// When no turn comes in time.
pub(crate) async fn turn(turns: &Arc<Semaphore>, size: u32) -> Result<OwnedSemaphorePermit, StoreError> {
    let turn = Arc::clone(turns).acquire_many_owned(size);
    tokio::time::timeout(TURN_MAX, turn).await.map_err(|_| busy())?.map_err(|_| busy())
}

/// Turns of queries.
#[derive(Debug)]
pub struct Turns {
    all: Arc<Semaphore>,
    lines: Arc<Lines>,
}

impl Default for Turns {
    fn default() -> Self {
        Self { all: Arc::new(Semaphore::new(ASKED_AT_ONCE)), lines: Arc::default() }
    }
}

impl Turns {
    /// Waits for a query's turn, for a bounded time; `None`: a query of the hub itself.
    ///
    /// # Errors
    /// When no turn comes in time.
    pub async fn turn(&self, taker: Option<&Taker>) -> Result<Turn, StoreError> {
        let turn = async {
            let mut places = Vec::new();
            if let Some(taker) = taker {
                places.push(Lines::turn(&self.lines, &taker.viewer, OF_A_VIEWER_AT_ONCE).await?);
                if let Some(of_host) = taker.of_host() {
                    places.push(Lines::turn(&self.lines, &of_host, OF_A_HOST_AT_ONCE).await?);
                }
            }
            let of_all = Arc::clone(&self.all).acquire_owned().await.map_err(|_| busy())?;
            Ok(Turn { _of_all: of_all, _places: places })
        };
        tokio::time::timeout(TURN_MAX, turn).await.map_err(|_| busy())?
    }

    /// Free turns.
    #[cfg(test)]
    pub(crate) fn left(&self) -> usize {
        self.all.available_permits()
    }
}

/// A turn, until it is dropped.
#[derive(Debug)]
pub struct Turn {
    _of_all: OwnedSemaphorePermit,
    _places: Vec<Place>,
}

/// Lines by name. An empty line is removed.
#[derive(Debug, Default)]
struct Lines(Mutex<BTreeMap<String, Line>>);

#[derive(Debug)]
struct Line {
    /// The number of waiting and running queries.
    places: usize,
    turns: Arc<Semaphore>,
}

impl Lines {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Line>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits in the line of this name, which has this number of turns at a time.
    async fn turn(lines: &Arc<Self>, of: &str, at_once: usize) -> Result<Place, StoreError> {
        let turns = {
            let mut all = lines.all();
            let new = || Line { places: 0, turns: Arc::new(Semaphore::new(at_once)) };
            let line = all.entry(of.to_owned()).or_insert_with(new);
            line.places += 1;
            Arc::clone(&line.turns)
        };
        // A client that hangs up meanwhile leaves the line too.
        let mut place = Place { lines: Arc::clone(lines), of: of.to_owned(), turn: None };
        place.turn = Some(turns.acquire_owned().await.map_err(|_| busy())?);
        Ok(place)
    }
}

/// A place in a line, with its turn once it comes.
#[derive(Debug)]
struct Place {
    lines: Arc<Lines>,
    of: String,
    turn: Option<OwnedSemaphorePermit>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.turn = None;
        let mut all = self.lines.all();
        if let Some(line) = all.get_mut(&self.of) {
            line.places -= 1;
            if line.places == 0 {
                all.remove(&self.of);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    use super::*;

    fn user(name: &str, host: &str) -> Taker {
        Taker::user(&format!("{name}@{host}"), host, false)
    }

    /// The immediate result; `None`: it waits.
    fn at_once<T>(waits: impl Future<Output = T>) -> Option<T> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _entered = runtime.enter();
        match pin!(waits).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        }
    }

    #[test]
    fn one_viewer_and_one_host_leave_turns_for_others() {
        let turns = Turns::default();
        let ask = |taker: &Taker| at_once(turns.turn(Some(taker))).map(Result::unwrap);
        let (ann, bea, cyn) = (user("ann", "n1"), user("bea", "n1"), user("cyn", "n1"));
        let mut of_ann: Vec<Turn> = (0..OF_A_VIEWER_AT_ONCE).filter_map(|_| ask(&ann)).collect();
        assert!(of_ann.len() == OF_A_VIEWER_AT_ONCE && ask(&ann).is_none());
        // Waiting queries take no turn of all, and names made up by the host count for the host.
        let of_bea: Vec<Turn> = (0..OF_A_VIEWER_AT_ONCE).filter_map(|_| ask(&bea)).collect();
        assert!(of_bea.len() == OF_A_VIEWER_AT_ONCE && ask(&cyn).is_none());
        assert_eq!(turns.left(), ASKED_AT_ONCE - OF_A_HOST_AT_ONCE);
        let other = ask(&user("ann", "n2")).unwrap();
        let own = at_once(turns.turn(None)).unwrap().unwrap();
        assert!(ask(&user("ann", "n3")).is_none(), "all have a bound");
        drop(own);
        of_ann.pop();
        assert!(ask(&ann).is_some());
        drop((of_ann, of_bea, other));
        assert_eq!((turns.left(), turns.lines.all().len()), (ASKED_AT_ONCE, 0));
    }

    #[test]
    fn a_question_gets_its_turn_once_one_of_the_same_viewer_is_over() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (turns, ann) = (Turns::default(), user("ann", "n1"));
            let mut held = Vec::new();
            for _ in 0..OF_A_VIEWER_AT_ONCE {
                held.push(turns.turn(Some(&ann)).await.unwrap());
            }
            let mut fourth = pin!(turns.turn(Some(&ann)));
            tokio::select! {
                biased;
                _ = &mut fourth => panic!("it is one too many"),
                () = std::future::ready(()) => {}
            }
            drop(held.pop());
            fourth.await.unwrap();
            drop(held);
            assert!(turns.lines.all().is_empty());
        });
    }
}
