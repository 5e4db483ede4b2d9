//! The hash chain that makes a sandbox's log tamper-evident.
//!
//! `hash = SHA-256(prev ‖ seq ‖ event_id ‖ type ‖ source ‖ created_at µs ‖ SHA-256(payload))`
//!
//! Variable-length fields are preceded by their length (u32, big endian), so
//! that no two different events can give the same bytes.

use sha2::{Digest, Sha256};

/// A SHA-256 value.
pub type Hash = [u8; 32];

/// What the first event of a sandbox is chained to.
pub const GENESIS: Hash = [0; 32];

/// SHA-256 of some bytes.
pub fn sha256(bytes: &[u8]) -> Hash {
    Sha256::digest(bytes).into()
}

/// Lower-case hexadecimal.
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// The fields of an event that its hash covers.
#[derive(Debug, Clone, Copy)]
pub struct Link<'a> {
    /// Position in the sandbox's log, from 1.
    pub seq: i64,
    /// The event's id.
    pub event_id: &'a str,
    /// The event's type.
    pub event_type: &'a str,
    /// Who said it, as its wire name.
    pub source: &'a str,
    /// When the server stored it, in microseconds since 1970.
    pub created_at_micros: i64,
    /// SHA-256 of the payload bytes as they were received.
    pub payload_hash: &'a Hash,
}

impl Link<'_> {
    /// The hash of this event, chained to the one before.
    pub fn hash(&self, previous: &Hash) -> Hash {
        let mut hasher = Sha256::new();
        hasher.update(previous);
        hasher.update(self.seq.to_be_bytes());
        for text in [self.event_id, self.event_type, self.source] {
            let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
            hasher.update(length.to_be_bytes());
            hasher.update(text.as_bytes());
        }
        hasher.update(self.created_at_micros.to_be_bytes());
        hasher.update(self.payload_hash);
        hasher.finalize().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link<'a>(payload_hash: &'a Hash, event_id: &'a str, event_type: &'a str) -> Link<'a> {
        Link { seq: 1, event_id, event_type, source: "agent", created_at_micros: 5, payload_hash }
    }

    #[test]
    fn moving_a_byte_between_fields_changes_the_hash() {
        let payload = sha256(b"{}");
        let one = link(&payload, "ab", "c").hash(&GENESIS);
        let other = link(&payload, "a", "bc").hash(&GENESIS);
        assert_ne!(one, other);
    }

    #[test]
    fn hex_is_lower_case() {
        assert_eq!(hex(&[0x0f, 0xa0]), "0fa0");
    }
}
