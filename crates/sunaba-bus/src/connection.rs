//! Connections to Redis: every one has a time limit on connecting and on each command.

use std::time::Duration;

use redis::aio::{MultiplexedConnection, PubSub};
use redis::{AsyncConnectionConfig, Client, RedisError, RedisResult, Script};

use crate::{Config, Error};

/// Makes connections, and words for what goes wrong on them.
#[derive(Debug, Clone)]
pub(crate) struct Connector {
    client: Client,
    address: String,
    connect_timeout: Duration,
    command_timeout: Duration,
}

impl Connector {
    pub(crate) fn new(config: &Config) -> Result<Self, Error> {
        let address = config.url.address().to_owned();
        let client = Client::open(config.url.info.clone()).map_err(|error| Error::of(&error, &address))?;
        let (connect_timeout, command_timeout) = (config.connect_timeout, config.command_timeout);
        Ok(Self { client, address, connect_timeout, command_timeout })
    }

    /// A connection for commands. One that failed or was too slow once is not to be used again: an answer
    /// that comes late must not be taken for another one's.
    pub(crate) async fn commands(&self) -> Result<MultiplexedConnection, Error> {
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(self.connect_timeout))
            .set_response_timeout(Some(self.command_timeout));
        self.client
            .get_multiplexed_async_connection_with_config(&config)
            .await
            .map_err(|error| self.say(&error))
    }

    /// A connection that listens on a channel.
    pub(crate) async fn listen(&self, channel: &str) -> Result<PubSub, Error> {
        let opened = tokio::time::timeout(self.connect_timeout, self.client.get_async_pubsub());
        let mut pubsub = opened.await.map_err(|_| self.silent())?.map_err(|error| self.say(&error))?;
        self.in_time(pubsub.subscribe(channel)).await?;
        Ok(pubsub)
    }

    /// Bounds a command on a connection that does not do so by itself.
    pub(crate) async fn in_time<T>(&self, command: impl Future<Output = RedisResult<T>>) -> Result<T, Error> {
        let answer = tokio::time::timeout(self.command_timeout, command);
        answer.await.map_err(|_| self.silent())?.map_err(|error| self.say(&error))
    }

    pub(crate) fn say(&self, error: &RedisError) -> Error {
        Error::of(error, &self.address)
    }

    /// A connection that ended by itself.
    pub(crate) fn cut(&self) -> Error {
        Error::Unreachable { address: self.address.clone(), reason: "the connection ended".to_owned() }
    }

    fn silent(&self) -> Error {
        Error::Silent { address: self.address.clone() }
    }
}

/// Tries whether Redis can be used: connects, shows the credentials and runs a script. The error says what to do.
pub async fn check(config: &Config) -> Result<(), Error> {
    let connector = Connector::new(config)?;
    let mut connection = connector.commands().await?;
    let pong: String = connector.in_time(redis::cmd("PING").query_async(&mut connection)).await?;
    let script = Script::new("return ARGV[1]");
    let echoed: String = connector.in_time(script.arg(&pong).invoke_async(&mut connection)).await?;
    if echoed != "PONG" {
        return Err(Error::NotRedis { address: config.url.address().to_owned() });
    }
    Ok(())
}
