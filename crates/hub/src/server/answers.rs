//! Answers: made on the threads of questions, within a bound, and held until their reader has taken them, within a bound of
//! one viewer and one of all. A slow reader keeps its own answers, and no room of others.

use std::io::{self, Write};
use std::sync::{Arc, OnceLock};

use axum::body::{Body, Bytes, HttpBody as _, to_bytes};
use axum::extract::{Request, State};
use axum::http::{Extensions, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::Serialize;

use super::problem::Problem;
use super::shares::{Full, Share, Shares};

/// The longest answer, in bytes.
pub const ANSWER_MAX_BYTES: usize = 96 << 20;

/// Long answers that are held for one viewer, in bytes.
pub const OF_A_VIEWER_MAX_BYTES: usize = 2 * ANSWER_MAX_BYTES;

/// Long answers that are held for all, in bytes.
pub const HELD_MAX_BYTES: usize = 8 * ANSWER_MAX_BYTES;

/// An answer up to so many bytes is not counted: the bound of connections bounds those.
const SHORT_BYTES: u64 = 64 << 10;

/// Whom an answer is for, which is found out while it is made.
#[derive(Debug, Clone, Default)]
pub struct Taker(Arc<OnceLock<String>>);

impl Taker {
    /// That of a request.
    #[must_use]
    pub fn of(extensions: &Extensions) -> Self {
        extensions.get().cloned().unwrap_or_default()
    }

    /// It is known: a viewer or a host of this name.
    pub fn is(&self, name: &str) {
        self.0.get_or_init(|| name.to_owned());
    }
}

/// Holds a long answer until its reader has taken it, if there is room for it.
pub async fn held(State(shares): State<Arc<Shares>>, mut request: Request, next: Next) -> Response {
    let taker = Taker::default();
    request.extensions_mut().insert(taker.clone());
    let (head, body) = next.run(request).await.into_parts();
    if body.size_hint().exact().is_some_and(|bytes| bytes <= SHORT_BYTES) {
        return Response::from_parts(head, body);
    }
    // All bodies here are whole already: that copies nothing.
    let Ok(bytes) = to_bytes(body, ANSWER_MAX_BYTES).await else { return too_long().into_response() };
    match shares.take(taker.0.get().map_or("", String::as_str), bytes.len()) {
        Ok(share) => Response::from_parts(head, Body::from(Bytes::from_owner(Held { bytes, _share: share }))),
        Err(full) => no_room(full).into_response(),
    }
}

/// An answer and its share, which ends once the last byte was written.
struct Held {
    bytes: Bytes,
    _share: Share,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

fn no_room(full: Full) -> Problem {
    let (status, words) = match full {
        Full::Own => (
            StatusCode::TOO_MANY_REQUESTS,
            "too many long answers to you are under way: read those first, or ask for less at once",
        ),
        Full::All => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many long answers are under way: ask again in a moment, or for less at once",
        ),
    };
    Problem::new(status, words)
}

fn too_long() -> Problem {
    let mib = ANSWER_MAX_BYTES >> 20;
    Problem::wrong(format!("the answer is longer than {mib} MiB: ask for less at once, as for one host"))
}

/// JSON of an answer.
///
/// # Errors
/// When it would be longer than answers may be.
pub fn json(answer: &impl Serialize) -> Result<Response, Problem> {
    json_within(answer, ANSWER_MAX_BYTES)
}

fn json_within(answer: &impl Serialize, max_bytes: usize) -> Result<Response, Problem> {
    let mut bounded = Bounded { bytes: Vec::new(), room: max_bytes };
    match serde_json::to_writer(&mut bounded, answer) {
        Ok(()) => Ok(([(header::CONTENT_TYPE, "application/json")], bounded.bytes).into_response()),
        Err(error) if error.is_io() => Err(too_long()),
        Err(error) => Err(Problem::new(StatusCode::INTERNAL_SERVER_ERROR, error.to_string())),
    }
}

/// Bytes up to a bound.
struct Bounded {
    bytes: Vec<u8>,
    room: usize,
}

impl Write for Bounded {
    fn write(&mut self, more: &[u8]) -> io::Result<usize> {
        self.room = self.room.checked_sub(more.len()).ok_or(io::ErrorKind::FileTooLarge)?;
        self.bytes.extend_from_slice(more);
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
        // Two quotes are around it.
        let within = |max_bytes: usize| json_within(&"x".repeat(98), max_bytes);
        assert!(within(100).is_ok());
        assert_eq!(within(99).expect_err("one too many").status, StatusCode::BAD_REQUEST);
    }
}
