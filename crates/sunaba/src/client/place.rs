//! Finds the server: by `SUNABA_URL` and `SUNABA_TOKEN`, or by what a server left in its data directory.

use std::io::Read;
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::http::Client;
use crate::failure::{Failure, Outcome};

/// Where a server says how it is reached.
pub(crate) const SERVER_FILE: &str = "server.json";
/// What a server locks while it serves the directory; it also says who holds the lock.
pub(crate) const LOCK_FILE: &str = "serve.lock";
/// Where a server leaves the admin token.
pub(crate) const TOKEN_FILE: &str = "admin-token";

/// What a running server says of itself in [`SERVER_FILE`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Announcement {
    /// Its address.
    pub(crate) url: String,
    /// Its process.
    pub(crate) pid: u32,
}

/// Where to look for the server.
#[derive(Debug, Clone)]
pub(crate) enum Place {
    /// At this address.
    Named {
        /// The address.
        url: String,
        /// The token, if one is needed.
        token: Option<SecretString>,
    },
    /// Wherever the server of this data directory is.
    DataDir {
        /// The directory.
        dir: PathBuf,
        /// A token to use in place of the admin token.
        token: Option<SecretString>,
    },
}

impl Place {
    /// Decides by the environment; a data directory named on the command line wins over `SUNABA_URL`.
    pub(crate) fn from_process(data_flag: Option<&Path>) -> Self {
        let outside = crate::config::Outside::from_process();
        let set = |name: &str| outside.env.get(name).filter(|value| !value.is_empty()).cloned();
        let token = set("SUNABA_TOKEN").map(SecretString::from);
        match (data_flag, set("SUNABA_URL")) {
            (None, Some(url)) => Self::Named { url: url.trim_end_matches('/').to_owned(), token },
            (Some(dir), _) => {
                let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
                Self::DataDir { dir, token }
            }
            (None, None) => Self::DataDir { dir: crate::config::data_dir(&outside), token },
        }
    }

    /// A client for the server that is there now, which is not asked yet.
    pub(crate) fn client(&self) -> Outcome<Client> {
        match self {
            Self::Named { url, token } => {
                check_address(url)?;
                Client::new(url, token.clone())
            }
            Self::DataDir { dir, token } => {
                let announced = announcement(dir).ok_or_else(|| not_running(dir))?;
                let token = token.clone().or_else(|| admin_token(dir));
                Client::new(&announced.url, token)
            }
        }
    }
}

/// Who serves a data directory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Holder {
    /// Nobody.
    Nobody,
    /// A server that has not said yet how it is reached.
    Starting,
    /// This one.
    Server(Announcement),
}

/// Looks who holds the lock on a data directory, without keeping it.
pub(crate) fn holder(dir: &Path) -> Holder {
    let Ok(mut file) = std::fs::File::open(dir.join(LOCK_FILE)) else { return Holder::Nobody };
    let mut text = String::new();
    let read = file.read_to_string(&mut text);
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Err((_, Errno::EWOULDBLOCK)) => {
            let announced = read.ok().and_then(|_| serde_json::from_str(&text).ok());
            announced.map_or(Holder::Starting, Holder::Server)
        }
        Ok(_) | Err(_) => Holder::Nobody,
    }
}

/// What the server of a data directory announced, if it did.
pub(super) fn announcement(dir: &Path) -> Option<Announcement> {
    let text = std::fs::read_to_string(dir.join(SERVER_FILE)).ok()?;
    serde_json::from_str(&text).ok()
}

fn check_address(url: &str) -> Outcome<()> {
    let usable = reqwest::Url::parse(url)
        .is_ok_and(|url| matches!(url.scheme(), "http" | "https") && url.host_str().is_some());
    if usable {
        return Ok(());
    }
    Err(Failure::usage(format!("SUNABA_URL is {url:?}, which is no address; write http://host:port")))
}

fn admin_token(dir: &Path) -> Option<SecretString> {
    let text = std::fs::read_to_string(dir.join(TOKEN_FILE)).ok()?;
    Some(SecretString::from(text.trim().to_owned()))
}

fn not_running(dir: &Path) -> Failure {
    Failure::Unreachable(format!(
        "no server is running for {}; start one with `sunaba serve`, name another directory with --data, \
         or set SUNABA_URL and SUNABA_TOKEN",
        dir.display()
    ))
}

/// A client for a server that answers.
pub(crate) async fn connect(place: &Place) -> Outcome<Client> {
    let client = place.client()?;
    client.check_alive().await?;
    Ok(client)
}
