//! The conversation that the agent goes on with.

use std::time::Duration;

use anyhow::{Context as _, bail};
use base64::Engine as _;
use sunaba_agent::{SessionStart, Transcript};
use sunaba_types::limits::BLOB_MAX_BYTES;
use tokio::time::{Instant, sleep};

use super::config::{ConfigError, Identity, Lookup};
use super::http::{Answer, Client, Error};
use super::native;

/// Longer than the bridge holds a request while the server is away.
const PATIENCE: Duration = Duration::from_secs(65 * 60);
const PAUSE: Duration = Duration::from_millis(500);

/// A conversation that the environment names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resumption {
    /// Its name.
    pub session_id: String,
    /// Whether it goes on under another name.
    pub fork: bool,
    /// The tool call whose result is the last of it that counts.
    until: Option<String>,
    /// The conversation itself, from servers that give it so.
    transcript_b64: Option<String>,
}

impl Resumption {
    /// Reads it.
    pub(super) fn read(lookup: Lookup<'_>) -> Result<Option<Self>, ConfigError> {
        let set = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
        let Some(session_id) = set("RESUME_SESSION_ID") else { return Ok(None) };
        let fork = native::flag(lookup, "FORK_SESSION")?.unwrap_or(false);
        let (until, transcript_b64) = (set("SUNABA_RESUME_UNTIL"), set("SESSION_TRANSCRIPT_B64"));
        Ok(Some(Self { session_id, fork, until, transcript_b64 }))
    }

    /// Where the conversation begins, and under which name; none when it, or the part that counts, is nowhere any more:
    /// it was lost with its node, or compacted.
    pub(super) async fn begin(&self, identity: &Identity) -> anyhow::Result<Option<(String, SessionStart)>> {
        let found = match self.fetch(identity).await? {
            Some(bytes) => Some(Transcript::new(bytes)),
            None => self.given()?,
        };
        let Some(transcript) = found.and_then(|whole| self.cut(whole)) else { return Ok(None) };
        let name = self.session_id.clone();
        Ok(Some(match self.fork {
            true => (uuid::Uuid::new_v4().to_string(), SessionStart::Fork { from: name, transcript }),
            false => (name, SessionStart::Resume { transcript }),
        }))
    }

    /// What of it counts.
    fn cut(&self, whole: Transcript) -> Option<Transcript> {
        match &self.until {
            Some(call) => whole.until(call),
            None => Some(whole),
        }
    }

    /// What the server has kept; none if it has nothing of that name.
    async fn fetch(&self, identity: &Identity) -> anyhow::Result<Option<Vec<u8>>> {
        let client = Client::new(&identity.callback_url, &identity.token)?;
        let mut client = client.with_answers_of(BLOB_MAX_BYTES);
        let path = format!("/api/v1/sandboxes/{}/transcripts/{}", identity.sandbox_id, self.session_id);
        let until = Instant::now() + PATIENCE;
        loop {
            match client.get(&path, PATIENCE).await {
                Ok(answer) if answer.status.is_success() => return Ok(Some(answer.body.into())),
                Ok(answer) if answer.status.as_u16() == 404 => return Ok(None),
                Ok(answer) if answer.status.is_client_error() => bail!("{}", refused(&answer)),
                answer if Instant::now() >= until => bail!("{}", why(answer)),
                answer => {
                    tracing::warn!(error = why(answer), "the conversation is not there yet; trying again");
                }
            }
            sleep(PAUSE).await;
        }
    }

    fn given(&self) -> anyhow::Result<Option<Transcript>> {
        let Some(text) = self.transcript_b64.as_deref() else { return Ok(None) };
        let bytes = base64::engine::general_purpose::STANDARD.decode(text.trim());
        Ok(Some(Transcript::new(bytes.context("SESSION_TRANSCRIPT_B64 is not base64")?)))
    }
}

fn refused(answer: &Answer) -> String {
    format!("the server answered {} ({})", answer.status, answer.code().unwrap_or_default())
}

fn why(answer: Result<Answer, Error>) -> String {
    answer.map_or_else(|error| error.to_string(), |answer| refused(&answer))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_conversation_is_named_or_given() {
        let lookup = |pairs: &'static [(&'static str, &'static str)]| {
            move |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        assert_eq!(Resumption::read(&lookup(&[("FORK_SESSION", "true")])).unwrap(), None);
        let pairs = &[("RESUME_SESSION_ID", "s"), ("FORK_SESSION", "1"), ("SESSION_TRANSCRIPT_B64", "aGk=")];
        let given = Resumption::read(&lookup(pairs)).unwrap().unwrap();
        assert!(given.fork);
        assert_eq!(given.given().unwrap().unwrap().as_bytes(), b"hi");
        let cut = Resumption { until: Some("t".to_owned()), ..given };
        assert!(cut.cut(Transcript::new(b"{}".to_vec())).is_none());
        let named = Resumption::read(&lookup(&pairs[..1])).unwrap().unwrap();
        assert!(!named.fork);
        assert!(named.given().unwrap().is_none());
    }
}
