//! Keeps publishing and hints going for as long as the server runs.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use sunaba_store::Store;
use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoff;
use crate::connection::Connector;
use crate::handle::{Handle, Status};
use crate::hints::Hints;
use crate::names::Names;
use crate::publisher::{Publisher, Wire};
use crate::{Config, Error};

/// Under this name the database keeps the id of the installation.
const INSTALLATION: &str = "installation_id";
/// How long after a failure the store is asked for it again.
const ASK_AGAIN: Duration = Duration::from_secs(1);
/// A connection that held for this long was a good one.
const GOOD: Duration = Duration::from_secs(10);
/// How long giving up the lease may take at the end; it runs out by itself soon after.
const LEAVE_TIMEOUT: Duration = Duration::from_millis(500);

/// The bus. It never holds up anybody: it reads the feed as any other reader does.
#[derive(Debug)]
pub struct Service {
    config: Config,
    publisher: Publisher,
    hints: Hints,
}

impl Service {
    /// Puts it together; nothing happens before [`Service::run`].
    pub fn new(config: Config, store: Arc<dyn Store>) -> (Self, Handle) {
        let (status, status_seen) = watch::channel(Status::default());
        let feed = store.hints();
        let (heard, heard_seen) = watch::channel(0);
        let handle = Handle { status: status_seen, feed, heard: heard_seen };
        let publisher = Publisher {
            store: Arc::clone(&store),
            name: uuid::Uuid::new_v4().to_string(),
            backlog: config.backlog,
            status,
        };
        (Self { config, publisher, hints: Hints { store, heard } }, handle)
    }

    /// Works until `stop`. Whatever is wrong with Redis is said once, kept in the status, and tried again.
    pub async fn run(self, stop: CancellationToken) {
        let connector = match Connector::new(&self.config) {
            Ok(connector) => connector,
            Err(error) => {
                tracing::error!(%error, "the bus cannot start");
                self.publisher.status.send_modify(|status| status.last_error = Some(error.to_string()));
                return;
            }
        };
        let Some(names) = stop.run_until_cancelled(self.names()).await else { return };
        let _ = stop.run_until_cancelled(self.keep_going(&connector, &names)).await;
        if self.publisher.status.borrow().leads {
            let _ = tokio::time::timeout(LEAVE_TIMEOUT, self.leave(&connector, &names)).await;
        }
    }

    /// The names of this installation, once the store can be asked.
    async fn names(&self) -> Names {
        let fresh = uuid::Uuid::new_v4().to_string();
        loop {
            match self.hints.store.set_setting_once(INSTALLATION, &fresh).await {
                Ok(installation) => return Names::of(&installation),
                Err(error) => tracing::debug!(%error, "the store does not give the id of the installation"),
            }
            tokio::time::sleep(ASK_AGAIN).await;
        }
    }

    async fn keep_going(&self, connector: &Connector, names: &Names) -> Infallible {
        let (mut backoff, mut said) = (Backoff::default(), Said::Nothing);
        loop {
            let began = Instant::now();
            let mut session = std::pin::pin!(self.session(connector, names));
            let Err(error) = tokio::select! {
                ended = &mut session => ended,
                () = self.connected() => {
                    said.connected(&self.config);
                    session.await
                }
            };
            if began.elapsed() >= GOOD {
                backoff.reset();
            }
            said.lost(&error);
            self.publisher.status.send_modify(|status| {
                (status.connected, status.leads) = (false, false);
                status.last_error = Some(error.to_string());
            });
            tokio::time::sleep(backoff.next(rand::random())).await;
        }
    }

    async fn connected(&self) {
        let _ = self.publisher.status.subscribe().wait_for(|status| status.connected).await;
    }

    /// One life of the connections; ends with the first thing that is wrong on any of them.
    async fn session(&self, connector: &Connector, names: &Names) -> Result<Infallible, Error> {
        let (listening, telling) = (connector.listen(&names.hint).await?, connector.commands().await?);
        let wire = Wire { connector, names, connection: connector.commands().await? };
        tokio::select! {
            ended = self.publisher.run(wire) => ended,
            ended = self.hints.run(connector, names, telling, listening) => ended,
        }
    }

    async fn leave(&self, connector: &Connector, names: &Names) -> Result<(), Error> {
        Wire { connector, names, connection: connector.commands().await? }.leave(&self.publisher.name).await
    }
}

/// One line when Redis goes, one when it is back.
enum Said {
    Nothing,
    Connected,
    Lost,
}

impl Said {
    fn connected(&mut self, config: &Config) {
        let address = config.url.address();
        match std::mem::replace(self, Self::Connected) {
            Self::Nothing => tracing::info!(address, "events are also published on Redis"),
            Self::Lost => tracing::info!(address, "Redis is back; events are published on it again"),
            Self::Connected => {}
        }
    }

    fn lost(&mut self, error: &Error) {
        if !matches!(std::mem::replace(self, Self::Lost), Self::Lost) {
            tracing::warn!(%error, "Redis cannot be used for now; nothing is lost, hints come by other ways");
        }
    }
}
