//! Finds the server: by `SUNABA_URL` and `SUNABA_TOKEN`, or by what a server left in its data directory.

use std::path::{Path, PathBuf};

use secrecy::SecretString;
use serde::{Deserialize, Serialize};

use super::http::Client;
use crate::failure::{Failure, Outcome};

/// Where a server says how it is reached.
pub(crate) const SERVER_FILE: &str = "server.json";
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
            Self::Named { url, token } => Client::new(url, token.clone()),
            Self::DataDir { dir, token } => {
                let announced = announcement(dir).ok_or_else(|| not_running(dir))?;
                let token = token.clone().or_else(|| admin_token(dir));
                Client::new(&announced.url, token)
            }
        }
    }
}

/// What the server of a data directory announced, if it did.
pub(super) fn announcement(dir: &Path) -> Option<Announcement> {
    let text = std::fs::read_to_string(dir.join(SERVER_FILE)).ok()?;
    serde_json::from_str(&text).ok()
}

fn admin_token(dir: &Path) -> Option<SecretString> {
    let text = std::fs::read_to_string(dir.join(TOKEN_FILE)).ok()?;
    Some(SecretString::from(text.trim().to_owned()))
}

fn not_running(dir: &Path) -> Failure {
    Failure::Unreachable(format!(
        "no server is running for {}; start one with `sunaba serve`, or set SUNABA_URL",
        dir.display()
    ))
}

/// A client for a server that answers.
pub(crate) async fn connect(place: &Place) -> Outcome<Client> {
    let client = place.client()?;
    client.check_alive().await?;
    Ok(client)
}
