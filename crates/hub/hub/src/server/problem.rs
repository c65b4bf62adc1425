//! Failures of requests: a status and a message that names the fault.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use pinfold_hubwire::bundle::DecodeError;

use crate::store::{IngestError, StoreError};

/// A failed request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The HTTP status.
    pub status: StatusCode,
    /// The message for the client.
    pub words: String,
}

impl Problem {
    /// A failure with this status and message.
    pub fn new(status: StatusCode, words: impl Into<String>) -> Self {
        Self { status, words: words.into() }
    }

    /// The question makes no sense.
    pub fn wrong(words: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, words)
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let text = [(header::CONTENT_TYPE, "text/plain; charset=utf-8")];
        (self.status, text, format!("{}\n", self.words)).into_response()
    }
}

impl From<StoreError> for Problem {
    fn from(error: StoreError) -> Self {
        let status = match &error {
            StoreError::Full => StatusCode::INSUFFICIENT_STORAGE,
            StoreError::TooMany(_) => StatusCode::TOO_MANY_REQUESTS,
            StoreError::Taken(_) => StatusCode::CONFLICT,
            StoreError::TooLong | StoreError::Refused(_) => StatusCode::SERVICE_UNAVAILABLE,
            StoreError::Away { .. } => {
                tracing::warn!(error = %chain(&error), "the database");
                StatusCode::SERVICE_UNAVAILABLE
            }
            _ => {
                // The database's message may reveal paths: it goes to the log.
                tracing::error!(error = %chain(&error), "the store");
                let words = "the hub's store failed; its log says why";
                return Self::new(StatusCode::INTERNAL_SERVER_ERROR, words);
            }
        };
        Self::new(status, error.to_string())
    }
}

impl From<IngestError> for Problem {
    fn from(error: IngestError) -> Self {
        match error {
            IngestError::Store(error) => error.into(),
            part @ IngestError::Part { .. } => Self::new(StatusCode::UNPROCESSABLE_ENTITY, part.to_string()),
        }
    }
}

impl From<DecodeError> for Problem {
    fn from(error: DecodeError) -> Self {
        let status = match error {
            DecodeError::TooLong { .. } => StatusCode::PAYLOAD_TOO_LARGE,
            // A bundle of a later version: the host keeps it until the hub is updated.
            DecodeError::Version { .. } => StatusCode::CONFLICT,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        Self::new(status, error.to_string())
    }
}

/// An error and its causes.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        next = cause.source();
    }
    text
}

/// The answer for an unknown path.
pub async fn not_found() -> Problem {
    Problem::new(StatusCode::NOT_FOUND, "there is nothing at this address")
}
