//! A token for a private repository, for the one git that fetches it.
//!
//! Git asks a helper for it, and the helper answers from git's own environment: the token is in no file, no
//! URL, no argument and no log. The helper is bound to the repository's host, so that a redirect elsewhere
//! gets nothing.

use secrecy::{ExposeSecret as _, SecretString};

use crate::command::Git;

/// The variable of the git process that holds the token.
const VARIABLE: &str = "SUNABA_GIT_TOKEN";
/// Any name goes with a token at the hosts that take one.
const USER: &str = "x-access-token";

/// What opens a repository.
#[derive(Debug, Clone)]
pub struct Credential {
    token: SecretString,
    /// Whether it may also go over a connection that others of the same network can read.
    in_the_open: bool,
}

impl Credential {
    /// A token as the repository's host gave it.
    pub fn token(token: SecretString) -> Self {
        Self { token, in_the_open: false }
    }

    /// The token between nodes. Their operator chose the address, and with it the network that it is safe on.
    pub fn of_node(token: SecretString) -> Self {
        Self { token, in_the_open: true }
    }

    /// Lets git find the token, if it may be sent to this address at all.
    pub(crate) fn lend(&self, git: Git, url: &str) -> Git {
        let Some(place) = place(url, self.in_the_open) else { return git };
        let helper = format!(
            "!f() {{ test \"$1\" = get && printf 'username={USER}\\npassword=%s\\n' \"${VARIABLE}\"; }}; f"
        );
        let settings =
            [("credential.helper", String::new()), (&*format!("credential.{place}.helper"), helper)];
        let mut git =
            git.env(VARIABLE, self.token.expose_secret()).env("GIT_CONFIG_COUNT", settings.len().to_string());
        for (index, (key, value)) in settings.into_iter().enumerate() {
            git = git.env(&format!("GIT_CONFIG_KEY_{index}"), key);
            git = git.env(&format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        git
    }
}

/// Scheme and host, where a token may be sent: never over a connection that others can read.
fn place(url: &str, in_the_open: bool) -> Option<String> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?', '#']).next()?;
    if authority.contains('@') || authority.is_empty() {
        return None;
    }
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    let loopback = matches!(host, "127.0.0.1" | "localhost" | "[::1]");
    let may = scheme == "https" || (scheme == "http" && (loopback || in_the_open));
    may.then(|| format!("{scheme}://{authority}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_only_where_nobody_else_reads_it() {
        assert_eq!(place("https://example.org/a/b.git", false).as_deref(), Some("https://example.org"));
        assert_eq!(place("http://127.0.0.1:80/x", false).as_deref(), Some("http://127.0.0.1:80"));
        for url in
            ["http://example.org/a", "git@example.org:a", "/a/b", "https://joe@example.org/a", "ssh://h/a"]
        {
            assert_eq!(place(url, false), None, "{url}");
        }
        assert_eq!(place("http://10.0.0.7:80/x", true).as_deref(), Some("http://10.0.0.7:80"));
        assert_eq!(place("ssh://h/a", true), None);
    }
}
