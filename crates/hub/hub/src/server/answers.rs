//! Answers: made on the queries' threads, within a bound, and held until their reader has taken them, within bounds by
//! viewer, by vouching host, for all viewers with limited access, and in total. A slow reader takes its own room, and
//! no room of others.

use std::io::{self, Write};
use std::sync::Arc;

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
pub use pinfold_hubwire::courier::ANSWER_MAX_BYTES;
use serde::Serialize;

use super::problem::Problem;
use super::shares::{Full, Share, Shares};
use super::takers::{self, Taker};
use crate::store::StoreError;

/// Long answers held for a viewer, in bytes.
pub const OF_A_VIEWER_MAX_BYTES: usize = 96 << 20;

/// Long answers held for all users that a host vouches for, in bytes: the host chooses their names.
pub const OF_A_HOST_MAX_BYTES: usize = 256 << 20;

/// Long answers held for all viewers with limited access, in bytes.
pub const OF_LIMITED_MAX_BYTES: usize = 512 << 20;

/// Long answers held in total, in bytes.
pub const HELD_MAX_BYTES: usize = 768 << 20;

/// Answers up to this size are not counted, in bytes: the bound of connections bounds them.
const SHORT_BYTES: usize = 64 << 10;

/// Holds a long answer until its reader has taken it, within the bounds.
pub async fn held(State(shares): State<Arc<Shares>>, request: Request, next: Next) -> Response {
    let reads = request.method().is_safe();
    let (answer, taker) = takers::during(reads, next.run(request)).await;
    let (head, body) = answer.into_parts();
    if body.size_hint().exact().is_some_and(|bytes| bytes <= SHORT_BYTES as u64) {
        return Response::from_parts(head, body);
    }
    // All bodies here are in memory as a whole, so that this copies no bytes.
    let Ok(bytes) = to_bytes(body, ANSWER_MAX_BYTES).await else { return too_long().into_response() };
    match share(&shares, &taker, bytes.len()) {
        Ok(share) => Response::from_parts(head, Body::from(Bytes::from_owner(Held { bytes, _share: share }))),
        Err(problem) => problem.into_response(),
    }
}

/// Room for a long answer of this many bytes.
///
/// # Errors
/// When there is no room; the message names the exceeded bound.
pub fn share(shares: &Arc<Shares>, taker: &Taker, bytes: usize) -> Result<Share, Problem> {
    let of_host = taker.of_host();
    let mut bounds = vec![(taker.viewer.as_str(), OF_A_VIEWER_MAX_BYTES)];
    bounds.extend(of_host.as_deref().map(|of_host| (of_host, OF_A_HOST_MAX_BYTES)));
    bounds.extend((!taker.sees_all).then_some(("limited", OF_LIMITED_MAX_BYTES)));
    bounds.push(("all", HELD_MAX_BYTES));
    shares.take(&bounds, bytes).map_err(|Full(at)| match (at, of_host) {
        (0, _) => Problem::new(StatusCode::TOO_MANY_REQUESTS, UNREAD),
        (1, Some(of_host)) => {
            let words = format!("too many long answers to {of_host} are under way: ask again in a moment");
            Problem::new(StatusCode::TOO_MANY_REQUESTS, words)
        }
        _ => {
            let words = "too many long answers are under way: ask again in a moment, or for less at once";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, words)
        }
    })
}

/// Whether a long answer would find room, before the query is run for an answer that is then refused.
///
/// # Errors
/// When the viewer has as many answers under way as allowed.
pub fn check_room(shares: &Shares, taker: &Taker) -> Result<(), StoreError> {
    if shares.left((&taker.viewer, OF_A_VIEWER_MAX_BYTES)) > SHORT_BYTES {
        return Ok(());
    }
    Err(StoreError::TooMany(UNREAD.to_owned()))
}

const UNREAD: &str = "too many long answers to you are under way: read those first, or ask for less at once";

/// An answer and its share, which ends after the last byte is written.
struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// The answer is longer than answers may be.
pub fn too_long() -> Problem {
    let mib = ANSWER_MAX_BYTES >> 20;
    Problem::wrong(format!("the answer is longer than {mib} MiB: ask for less at once, as for one host"))
}

/// JSON of an answer.
///
/// # Errors
/// When the answer exceeds the bound.
pub fn json(answer: &impl Serialize) -> Result<Response, Problem> {
    json_within(answer, ANSWER_MAX_BYTES)
}

fn json_within(answer: &impl Serialize, max_bytes: usize) -> Result<Response, Problem> {
    let mut bounded = Bounded::new(max_bytes);
    match serde_json::to_writer(&mut bounded, answer) {
        Ok(()) => Ok(([(header::CONTENT_TYPE, "application/json")], bounded.bytes).into_response()),
        Err(error) if error.is_io() => Err(too_long()),
        Err(error) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

/// Bytes up to a bound.
#[derive(Debug)]
pub struct Bounded {
    /// The bytes written.
    pub bytes: Vec<u8>,
    room: usize,
}

impl Bounded {
    /// An empty buffer with a bound.
    #[must_use]
    pub fn new(max_bytes: usize) -> Self {
        Self { bytes: Vec::new(), room: max_bytes }
    }

    /// Appends bytes.
    ///
    /// # Errors
    /// When the bound would be exceeded; then no byte is appended.
    pub fn add(&mut self, more: &[u8]) -> Result<(), Problem> {
        self.room = self.room.checked_sub(more.len()).ok_or_else(too_long)?;
        self.bytes.extend_from_slice(more);
        Ok(())
    }
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        self.add(more).map_err(|_| io::ErrorKind::FileTooLarge)?;
        Ok(more.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_at_its_bound() {
        // JSON adds two quotes.
        let within = |max_bytes: usize| json_within(&"x".repeat(98), max_bytes);
        assert!(within(100).is_ok());
        assert_eq!(within(99).expect_err("one too many").status, StatusCode::BAD_REQUEST);
    }

    #[test]
    fn one_host_s_users_leave_room_for_others_whatever_their_names() {
        let shares = Arc::new(Shares::default());
        let take = |taker: &Taker, bytes| share(&shares, taker, bytes).map_err(|problem| problem.status);
        let user = |name: &str, host: &str| Taker::user(&format!("{name}@{host}"), host, false);
        let ops = Taker { viewer: "reader ops".into(), host: None, sees_all: true };
        let most = OF_A_VIEWER_MAX_BYTES;
        let of_host = [take(&user("a", "n1"), most), take(&user("b", "n1"), most)];
        assert!(of_host.iter().all(Result::is_ok));
        assert_eq!(take(&user("a", "n1"), 1).err(), Some(StatusCode::TOO_MANY_REQUESTS));
        let (left, c) = (OF_A_HOST_MAX_BYTES - 2 * most, user("c", "n1"));
        let problem = share(&shares, &c, left + 1).expect_err("the host has as much as it may have");
        assert_eq!(problem.status, StatusCode::TOO_MANY_REQUESTS);
        assert!(problem.words.contains("users of host n1"), "{}", problem.words);
        let rest = take(&c, left);
        let others =
            [take(&user("a", "n2"), most), take(&user("b", "n2"), most), take(&user("c", "n2"), left)];
        assert!(rest.is_ok() && others.iter().all(Result::is_ok));
        // Hosts cannot take the room of viewers with full access.
        assert_eq!(take(&user("a", "n3"), 1).err(), Some(StatusCode::SERVICE_UNAVAILABLE));
        assert!(take(&ops, most).is_ok());
        assert!(check_room(&shares, &ops).is_ok() && check_room(&shares, &user("a", "n1")).is_err());
    }

    #[test]
    fn all_together_have_a_bound() {
        let shares = Arc::new(Shares::default());
        let reader = |at: usize| Taker { viewer: format!("reader {at}"), host: None, sees_all: true };
        let take = |at, bytes| share(&shares, &reader(at), bytes).map_err(|problem| problem.status);
        let all: Vec<_> =
            (0..HELD_MAX_BYTES / OF_A_VIEWER_MAX_BYTES).map(|at| take(at, OF_A_VIEWER_MAX_BYTES)).collect();
        assert!(all.iter().all(Result::is_ok));
        assert_eq!(take(all.len(), 1).err(), Some(StatusCode::SERVICE_UNAVAILABLE));
    }
}
