//! What can be wrong with a Redis, in words that say what to do.

use redis::{ErrorKind, RedisError, ServerErrorKind};

/// Why Redis cannot be used.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The address makes no sense.
    #[error("REDIS_URL {0}")]
    Url(&'static str),
    /// Nobody answers.
    #[error("no Redis can be reached at {address} ({reason}): is it running, and does REDIS_URL name it?")]
    Unreachable {
        /// Host and port.
        address: String,
        /// What the connection said.
        reason: String,
    },
    /// It was reached and then did not answer.
    #[error(
        "nothing at {address} answered as a Redis in time: is it stopped or overloaded, and does REDIS_URL ask \
         for TLS (rediss://) exactly where it has it?"
    )]
    Silent {
        /// Host and port.
        address: String,
    },
    /// It does not know us.
    #[error(
        "the Redis at {address} does not accept these credentials: give them as redis://USER:PASSWORD@{address} \
         (redis://:PASSWORD@{address} when it has no users)"
    )]
    Credentials {
        /// Host and port.
        address: String,
    },
    /// Something else listens there.
    #[error(
        "what answers at {address} is not a Redis: does REDIS_URL name its port, and TLS (rediss://) where it has it?"
    )]
    NotRedis {
        /// Host and port.
        address: String,
    },
    /// It is a part of a cluster, and not the one that has our keys.
    #[error(
        "the Redis at {address} is a part of a cluster, and another one has the keys: name {to} in REDIS_URL, or use a \
         Redis that is no cluster"
    )]
    Moved {
        /// Host and port.
        address: String,
        /// Host and port of the right one.
        to: String,
    },
    /// It refuses what is asked.
    #[error("the Redis at {address} refuses a command: {reason}")]
    Command {
        /// Host and port.
        address: String,
        /// What it said.
        reason: String,
    },
}

impl Error {
    pub(crate) fn of(error: &RedisError, address: &str) -> Self {
        let address = address.to_owned();
        if error.is_timeout() {
            return Self::Silent { address };
        }
        match error.kind() {
            ErrorKind::AuthenticationFailed => Self::Credentials { address },
            ErrorKind::Parse => Self::NotRedis { address },
            _ if matches!(error.code(), Some("NOAUTH" | "WRONGPASS")) => Self::Credentials { address },
            // Its answer to a password though it has none, and to a name though it has no users.
            ErrorKind::Server(ServerErrorKind::ResponseError) if mentions(error, "AUTH") => {
                Self::Credentials { address }
            }
            ErrorKind::Server(ServerErrorKind::Moved) => {
                let to = error.redirect_node().map_or("the right one", |(to, _)| to).to_owned();
                Self::Moved { address, to }
            }
            ErrorKind::Io => Self::Unreachable { address, reason: error.to_string() },
            _ => Self::Command { address, reason: error.to_string() },
        }
    }
}

fn mentions(error: &RedisError, word: &str) -> bool {
    error.detail().is_some_and(|detail| detail.contains(word))
}
