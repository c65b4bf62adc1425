//! Errors as people read them, and refusals.

use pinfold_profile::store::StoreError;
use pinfold_proto::wire::ErrorCode;

/// A refusal: the code and the words for it.
pub(crate) type Refusal = (ErrorCode, String);

/// An error with its causes, in one line.
pub(crate) fn in_full(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}

/// A refusal for want of rights.
pub(crate) fn denied(text: &str) -> Refusal {
    (ErrorCode::Permission, text.to_owned())
}

/// A refusal of what makes no sense.
pub(crate) fn usage(text: String) -> Refusal {
    (ErrorCode::Usage, text)
}

/// A refusal for a store that cannot be read.
pub(crate) fn store_failed(error: &StoreError) -> Refusal {
    (ErrorCode::Failed, format!("the job store cannot be read: {}", in_full(error)))
}
