//! Secrets: drawn from the kernel, shown once, and later known by their hash alone.

use ring::rand::{SecureRandom as _, SystemRandom};
use sha2::{Digest as _, Sha256};

use crate::store::Kind;

/// Draws a secret from the kernel: 256 bits in hexadecimal.
///
/// # Errors
/// When the kernel gives no random bytes.
pub fn draw() -> std::io::Result<String> {
    let mut bytes = [0u8; 32];
    SystemRandom::new()
        .fill(&mut bytes)
        .map_err(|_| std::io::Error::other("the kernel gives no random bytes"))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A token of this kind around a secret; its prefix shows the kind.
#[must_use]
pub fn token(kind: Kind, secret: &str) -> String {
    let mark = match kind {
        Kind::Host => "pfh",
        Kind::Reader => "pfr",
    };
    format!("{mark}-{secret}")
}

/// The stored hash of a token; `None`: not a token by its form.
#[must_use]
pub fn hash_of_token(token: &str) -> Option<[u8; 32]> {
    let secret = token.strip_prefix("pfh-").or_else(|| token.strip_prefix("pfr-"))?;
    is_secret(secret).then(|| hash(token))
}

/// The stored hash of a code or a session; `None`: not a secret by its form.
#[must_use]
pub fn hash_of_secret(secret: &str) -> Option<[u8; 32]> {
    is_secret(secret).then(|| hash(secret))
}

fn is_secret(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

fn hash(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Whether two texts are equal, in constant time for texts of equal length.
#[must_use]
pub fn same(a: &str, b: &str) -> bool {
    a.len() == b.len() && a.bytes().zip(b.bytes()).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_differ_and_have_one_form() {
        let (one, other) = (draw().unwrap(), draw().unwrap());
        assert_ne!(one, other);
        assert!(hash_of_secret(&one).is_some());
        let token = token(Kind::Host, &one);
        assert!(hash_of_token(&token).is_some());
        for bad in ["", "pfh-", "pfh", &one, &token[1..], &token.to_uppercase(), &format!("{token} ")] {
            assert_eq!(hash_of_token(bad), None, "{bad:?}");
        }
        assert!(same("abc", "abc") && !same("abc", "abd") && !same("abc", "ab") && !same("", "a"));
    }
}
