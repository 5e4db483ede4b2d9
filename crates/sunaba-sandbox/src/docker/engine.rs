//! The daemon's door: connecting, agreeing on a version, and a bound on every answer.

use std::io;
use std::time::Duration;

use bollard::Docker;
use bollard::errors::Error as DaemonError;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::Error;

/// How long one answer of the daemon may take. Making a container pulls files around, on a busy host slowly.
const ANSWER: Duration = Duration::from_secs(120);
/// How long finding out whether it is there may take.
const GREETING: Duration = Duration::from_secs(10);

/// A container daemon, found when it is first needed and kept.
#[derive(Debug)]
pub(super) struct Engine {
    host: String,
    connected: OnceCell<Docker>,
}

impl Engine {
    /// Takes an address; nothing is asked yet.
    pub(super) fn new(host: &str) -> Result<Self, Error> {
        let known = ["unix://", "tcp://", "http://"].iter().any(|scheme| host.starts_with(scheme));
        if !known {
            return Err(Error::Unsupported(format!(
                "{host}: a container daemon's address begins with unix:// or tcp://; set DOCKER_HOST to one"
            )));
        }
        Ok(Self { host: host.to_owned(), connected: OnceCell::new() })
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// The daemon. One that is not there is looked for again the next time.
    pub(super) async fn docker(&self) -> Result<&Docker, Error> {
        self.connected.get_or_try_init(|| self.connect()).await
    }

    async fn connect(&self) -> Result<Docker, Error> {
        let docker = Docker::connect_with_host(&self.host).map_err(|error| self.away(&error))?;
        match timeout(GREETING, docker.with_timeout(ANSWER).negotiate_version()).await {
            Ok(Ok(docker)) => Ok(docker),
            Ok(Err(error)) => Err(self.away(&error)),
            Err(_) => Err(self.away(&"no answer")),
        }
    }

    fn away(&self, why: &dyn std::fmt::Display) -> Error {
        Error::Unsupported(format!(
            "the container daemon at {} does not answer ({why}): start it, set DOCKER_HOST, or let this user use its socket",
            self.host
        ))
    }

    /// Asks something; an answer that does not come in time is an error.
    pub(super) async fn ask<T>(
        &self,
        what: &'static str,
        answer: impl Future<Output = Result<T, DaemonError>>,
    ) -> Result<T, Error> {
        match timeout(ANSWER, answer).await {
            Ok(answer) => answer.map_err(failed(what)),
            Err(_) => Err(Error::backend(what)(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Asks for something that may not be there.
    pub(super) async fn find<T>(
        &self,
        what: &'static str,
        answer: impl Future<Output = Result<T, DaemonError>>,
    ) -> Result<Option<T>, Error> {
        match timeout(ANSWER, answer).await {
            Ok(Ok(found)) => Ok(Some(found)),
            Ok(Err(error)) if status(&error) == Some(404) => Ok(None),
            Ok(Err(error)) => Err(failed(what)(error)),
            Err(_) => Err(Error::backend(what)(io::ErrorKind::TimedOut.into())),
        }
    }
}

/// Wraps what the daemon said, naming what was asked.
pub(super) fn failed(what: impl Into<String>) -> impl FnOnce(DaemonError) -> Error {
    let what = what.into();
    move |source| Error::Backend { what, source: Box::new(source) }
}

/// The status of a refusal.
pub(super) fn status(error: &DaemonError) -> Option<u16> {
    match error {
        DaemonError::DockerResponseServerError { status_code, .. } => Some(*status_code),
        _ => None,
    }
}

/// What the daemon said, in its own words.
pub(super) fn words(error: &DaemonError) -> String {
    match error {
        DaemonError::DockerResponseServerError { message, .. } => message.clone(),
        other => other.to_string(),
    }
}
