//! Identifiers. Ours are prefixed UUIDv7 strings; foreign ones are any short
//! printable string, because outside workers bring their own.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::limits::ID_MAX_CHARS;

/// Why a string cannot be an identifier.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum IdError {
    /// It holds no characters.
    #[error("an id cannot be empty")]
    Empty,
    /// It is longer than [`ID_MAX_CHARS`].
    #[error("an id has at most {ID_MAX_CHARS} characters, this one has {0}")]
    TooLong(usize),
    /// It holds a control character, white space or a slash.
    #[error("an id cannot contain {0:?}; use letters, digits, '-', '_', '.' or ':'")]
    BadCharacter(char),
}

/// Checks that a string can serve as an identifier in a path and in a log line.
pub fn validate_id(raw: &str) -> Result<(), IdError> {
    if raw.is_empty() {
        return Err(IdError::Empty);
    }
    let length = raw.chars().count();
    if length > ID_MAX_CHARS {
        return Err(IdError::TooLong(length));
    }
    match raw.chars().find(|c| !(c.is_ascii_alphanumeric() || "-_.:@+=".contains(*c))) {
        Some(bad) => Err(IdError::BadCharacter(bad)),
        None if raw.chars().all(|c| c == '.') => Err(IdError::BadCharacter('.')),
        None => Ok(()),
    }
}

/// A fresh id for an event that arrived without one.
pub fn new_event_id() -> String {
    Uuid::now_v7().to_string()
}

// A clone shares the text: an event hands its sandbox's id to half a dozen others.
macro_rules! string_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Makes a new id that sorts by time of creation.
            pub fn generate() -> Self {
                Self(format!(concat!($prefix, "_{}"), Uuid::now_v7().simple()).into())
            }

            /// Takes an id that came from outside.
            pub fn parse(raw: impl Into<String>) -> Result<Self, IdError> {
                let raw = raw.into();
                validate_id(&raw)?;
                Ok(Self(raw.into()))
            }

            /// The id as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        /// Compares as its text does, so that a text finds it in a map.
        impl std::borrow::Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $name {
            type Error = IdError;
            fn try_from(raw: String) -> Result<Self, IdError> {
                Self::parse(raw)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }

        impl std::str::FromStr for $name {
            type Err = IdError;
            fn from_str(raw: &str) -> Result<Self, IdError> {
                Self::parse(raw)
            }
        }
    };
}

string_id!(
    /// A git repository with its settings.
    ProjectId, "proj");
string_id!(
    /// A piece of wanted work.
    TicketId, "tkt");
string_id!(
    /// One unit that an agent does.
    TaskId, "task");
string_id!(
    /// One attempt at one task in one isolated machine.
    SandboxId, "sbx");
string_id!(
    /// Something said to an agent.
    MessageId, "msg");
string_id!(
    /// Something an agent asks a person.
    QuestionId, "qst");
string_id!(
    /// A token's public name (never the token itself).
    TokenId, "tok");
string_id!(
    /// One call to a model, from its reservation to its settlement.
    CallId, "call");
string_id!(
    /// One server process's identity.
    NodeId, "node");

/// The SHA-256 of a blob, as 64 lower-case hexadecimal digits.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct BlobHash(String);

impl BlobHash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(crate::chain::hex(&crate::chain::sha256(bytes)))
    }

    /// Takes a hash that came from outside; `None` if it is not one.
    pub fn parse(raw: &str) -> Option<Self> {
        let well_formed =
            raw.len() == 64 && raw.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        well_formed.then(|| Self(raw.to_owned()))
    }

    /// The hash as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for BlobHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl TryFrom<String> for BlobHash {
    type Error = String;
    fn try_from(raw: String) -> Result<Self, String> {
        Self::parse(&raw).ok_or_else(|| "a blob hash is 64 lower-case hexadecimal digits".to_owned())
    }
}

impl From<BlobHash> for String {
    fn from(hash: BlobHash) -> String {
        hash.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_are_prefixed_and_valid() {
        let id = SandboxId::generate();
        assert!(id.as_str().starts_with("sbx_"));
        assert_eq!(SandboxId::parse(id.as_str()), Ok(id));
    }

    #[test]
    fn foreign_ids_are_bounded() {
        assert!(SandboxId::parse("daytona-1.2:x").is_ok());
        assert_eq!(SandboxId::parse(""), Err(IdError::Empty));
        assert_eq!(SandboxId::parse("a/b"), Err(IdError::BadCharacter('/')));
        assert_eq!(SandboxId::parse(".."), Err(IdError::BadCharacter('.')));
        assert_eq!(SandboxId::parse("a".repeat(101)), Err(IdError::TooLong(101)));
    }
}
