//! A daemon's signed statement of a user's identity, from the kernel, and of the jobs that the user may see on this
//! host. Signed with the daemon's own key for a single reader and a single request, so that no password is sent.
//! Absent here: keys and signatures; the daemon makes them, a hub verifies them.

use serde::{Deserialize, Serialize};

/// The version of the statement.
pub const VERSION: u32 = 1;

/// Prefix of the signed text, so that no other text signed with the key passes as a statement.
pub const SIGNED_BEFORE: &[u8] = b"pinfold voucher 1\n";

/// The longest audience or request, in bytes.
pub const WORD_MAX_BYTES: usize = 3_000;

/// The request of a voucher that registers the daemon's key.
pub const JOIN: &str = "join";

/// The content of a voucher.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statement {
    /// [`VERSION`].
    pub version: u32,
    /// The reader: the address of a hub. Other readers refuse the voucher.
    pub audience: String,
    /// The request: method and path, or [`JOIN`]. The voucher is invalid for other requests.
    pub request: String,
    /// When, by the host's clock, in microseconds since the Unix epoch.
    pub signed_us: u64,
    /// The user's number, by the kernel's word.
    pub uid: u32,
    /// The user's name on this host.
    pub user: String,
    /// Whether the user may see all jobs of this host.
    pub operator: bool,
    /// Projects whose jobs of this host the user may see.
    pub projects: Vec<String>,
}

/// A statement and its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Voucher {
    /// The [`Statement`] as JSON, byte for byte as signed.
    pub statement: String,
    /// The Ed25519 signature of [`SIGNED_BEFORE`] and the statement, in hexadecimal.
    pub signature: String,
    /// The public key, in hexadecimal.
    pub key: String,
}

/// The signed bytes.
#[must_use]
pub fn signed_text(statement: &str) -> Vec<u8> {
    [SIGNED_BEFORE, statement.as_bytes()].concat()
}

/// Bytes in hexadecimal.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes from lower-case hexadecimal; `None`: invalid.
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
