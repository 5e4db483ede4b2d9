//! Which Redis, and the bounds of what is asked of it.

use std::fmt;
use std::time::Duration;

use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo as _};

use crate::Error;

/// The address of a Redis, checked. Shown without its credentials.
#[derive(Clone)]
pub struct RedisUrl {
    pub(crate) info: ConnectionInfo,
    address: String,
}

impl RedisUrl {
    /// Reads `redis://[[USER]:PASSWORD@]HOST[:PORT][/NUMBER]`, or `rediss://…` for TLS. The error says what to
    /// write and repeats nothing of the text, which may hold a password.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let text = text.trim();
        if text.is_empty() {
            return Err(Error::Url("is empty: write redis://HOST:6379, or leave it out to do without Redis"));
        }
        if !text.starts_with("redis://") && !text.starts_with("rediss://") {
            return Err(Error::Url(
                "must begin with redis:// (or rediss:// for TLS), as in redis://HOST:6379",
            ));
        }
        if text.contains('#') {
            return Err(Error::Url(
                "has a # in it: in a password write it as %23 (and @ / ? % as %40 %2F %3F %25)",
            ));
        }
        let unreadable = "cannot be read: write redis://[[USER]:PASSWORD@]HOST[:PORT][/NUMBER]; in a password \
                          write @ / ? # % as %40 %2F %3F %23 %25";
        let info = text.into_connection_info().map_err(|_| Error::Url(unreadable))?;
        let address = match info.addr() {
            ConnectionAddr::Tcp(host, port) | ConnectionAddr::TcpTls { host, port, .. } => {
                format!("{host}:{port}")
            }
            _ => return Err(Error::Url(unreadable)),
        };
        Ok(Self { info, address })
    }

    /// Host and port.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RedisUrl({})", self.address)
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

/// What the bus is given.
#[derive(Debug, Clone)]
pub struct Config {
    /// Where Redis is.
    pub url: RedisUrl,
    /// How long connecting may take.
    pub connect_timeout: Duration,
    /// How long one command may take.
    pub command_timeout: Duration,
    /// How far back publishing goes on after an outage, in positions; what is further back is left out.
    pub backlog: i64,
}

impl Config {
    /// The usual bounds.
    pub fn new(url: RedisUrl) -> Self {
        Self {
            url,
            connect_timeout: Duration::from_secs(2),
            command_timeout: Duration::from_secs(2),
            backlog: 100_000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_without_credentials() {
        for text in [
            "redis://:hunter2@db.example:7000/3",
            "rediss://me:hunter2@db.example:7000",
            " redis://db.example:7000 ",
        ] {
            let url = RedisUrl::parse(text).unwrap();
            assert_eq!(url.to_string(), "db.example:7000");
            assert_eq!(format!("{url:?}"), "RedisUrl(db.example:7000)");
        }
        assert_eq!(RedisUrl::parse("redis://h").unwrap().address(), "h:6379");
    }

    #[test]
    fn what_is_wrong_is_said_without_the_secret() {
        let check = |text: &str, expected: &str| {
            let error = RedisUrl::parse(text).unwrap_err().to_string();
            assert!(error.starts_with("REDIS_URL ") && error.contains(expected), "{text}: {error}");
            assert!(!error.contains("hunter2"), "{error}");
        };
        check("", "leave it out");
        check("hunter2", "must begin with redis://");
        check("http://:hunter2@h", "must begin with redis://");
        check("unix:///run/redis.sock", "must begin with redis://");
        check("redis://:hunter2#x@h", "%23");
        check("redis://:hunter2/x@h:6379", "%2F");
        check("redis://h:port", "[:PORT]");
        check("redis://h/hunter2", "/NUMBER");
        check("redis://", "HOST");
    }
}
