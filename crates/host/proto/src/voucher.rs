//! What a host's daemon vouches for: who asks, by the kernel's word, and what may be seen by that user on this host. Signed
//! by the daemon's own key, for one reader elsewhere and one request, so that nobody sends a password. Absent here: keys and
//! signatures; the daemon makes them, a hub looks at them.

use serde::{Deserialize, Serialize};

/// The version of the statement.
pub const VERSION: u32 = 1;

/// What is signed begins so, that no other text the key may ever sign is taken for a statement.
pub const SIGNED_BEFORE: &[u8] = b"pinfold voucher 1\n";

/// The longest audience or request, in bytes.
pub const WORD_MAX_BYTES: usize = 3_000;

/// What the request of a voucher says that makes the daemon's key known.
pub const JOIN: &str = "join";

/// What is vouched for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// [`VERSION`].
    pub version: u32,
    /// For whom: the address of a hub. Nobody else believes it.
    pub audience: String,
    /// For what: method and path of a request, or [`JOIN`]. It is good for nothing else.
    pub request: String,
    /// When, by the host's clock, in microseconds since the Unix epoch.
    pub signed_us: u64,
    /// The user's number, by the kernel's word.
    pub uid: u32,
    /// The user's name on this host, as its jobs have it.
    pub user: String,
    /// Whether the user may see all jobs of this host.
    pub operator: bool,
    /// Projects whose jobs of this host the user may see.
    pub projects: Vec<String>,
}

/// A statement and its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voucher {
    /// The [`Statement`] as JSON, letter for letter as it was signed.
    pub statement: String,
    /// The Ed25519 signature of [`SIGNED_BEFORE`] and the statement, in hexadecimal.
    pub signature: String,
    /// The public key, in hexadecimal.
    pub key: String,
}

/// What is signed.
#[must_use]
pub fn signed_text(statement: &str) -> Vec<u8> {
    [SIGNED_BEFORE, statement.as_bytes()].concat()
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes that were written in hexadecimal, small letters; `None`: they were not.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    rest.is_empty()
        .then(|| pairs.iter().map(|&[high, low]| Some(digit(high)? * 16 + digit(low)?)).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_there_and_back() {
        let bytes: Vec<u8> = (0..=255).collect();
        assert_eq!(unhex(&hex(&bytes)), Some(bytes));
        for bad in ["0", "0g", "AB", " 00", "é"] {
            assert_eq!(unhex(bad), None, "{bad}");
        }
        assert_eq!(unhex(""), Some(Vec::new()));
    }
}
