//! PostgreSQL, Redis, two servers with a data directory each, and the network between them.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use anyhow::Context;
use sunaba_testkit::{Postgres, Proxy, Redis};

use super::clock::FakeClock;
use super::door::Door;
use crate::server::Server;

/// 32 bytes in base64.
const KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// One server and what lies between it and the rest.
pub(super) struct Node {
    pub(super) server: Server,
    pub(super) to_postgres: Proxy,
    pub(super) to_redis: Proxy,
    /// Before the address under which the other server reaches it. Clients ask it directly.
    pub(super) from_the_other: Proxy,
    /// If its time of day can be set.
    pub(super) clock: Option<FakeClock>,
    _data: tempfile::TempDir,
}

/// Everything.
pub(super) struct World {
    // Servers go before what they need.
    pub(super) nodes: [Node; 2],
    pub(super) postgres: Postgres,
    pub(super) redis: Redis,
}

impl World {
    /// Starts all of it; the second server's clock can be set if there is a means to.
    pub(super) async fn start() -> anyhow::Result<Self> {
        let (postgres, redis) = tokio::task::block_in_place(|| (Postgres::start(), Redis::start()));
        let database = tokio::task::block_in_place(|| postgres.database());
        let nodes = [
            Node::start(&postgres, &database, &redis, Clock::OfTheMachine).await?,
            Node::start(&postgres, &database, &redis, Clock::OfItsOwn).await?,
        ];
        Ok(Self { nodes, postgres, redis })
    }

    /// The data directories.
    pub(super) fn data(&self) -> [&Path; 2] {
        let [one, two] = &self.nodes;
        [one.server.data(), two.server.data()]
    }

    /// Whether any server's time of day can be set.
    pub(super) fn has_a_clock_to_set(&self) -> bool {
        self.nodes.iter().any(|node| node.clock.is_some())
    }

    /// A client of both servers.
    pub(super) fn door(&self) -> anyhow::Result<Door> {
        let [one, two] = &self.nodes;
        Ok(Door::new([one.server.url(), two.server.url()], one.server.token()?))
    }
}

#[derive(PartialEq)]
enum Clock {
    OfTheMachine,
    OfItsOwn,
}

impl Node {
    async fn start(postgres: &Postgres, database: &str, redis: &Redis, clock: Clock) -> anyhow::Result<Self> {
        let at = SocketAddr::from((Ipv4Addr::LOCALHOST, postgres.port()));
        let (to_postgres, to_redis) = (Proxy::start(at).await, Proxy::start(redis.address()).await);
        let from_the_other = Proxy::start_without_target().await;
        let data = tempfile::tempdir()?;
        let name = database.rsplit('/').next().context("a database's name")?;
        let mut environment = vec![
            ("DATABASE_URL", format!("postgres://postgres@{}/{name}", to_postgres.address())),
            ("REDIS_URL", format!("redis://{}", to_redis.address())),
            ("SUNABA_SECRET_KEY", KEY.to_owned()),
            ("SUNABA_NODE_ADDRESS", format!("http://{}", from_the_other.address())),
        ];
        let clock = match clock {
            Clock::OfTheMachine => None,
            Clock::OfItsOwn => match FakeClock::new(data.path()) {
                Ok(clock) => Some(clock),
                Err(why) => {
                    sunaba_testkit::left_out("clock jumps", &format!("{why:#}"));
                    None
                }
            },
        };
        environment.extend(clock.iter().flat_map(FakeClock::environment));
        let server = Server::start_with(data.path(), &environment).await?;
        from_the_other.lead_to(server.address());
        Ok(Self { server, to_postgres, to_redis, from_the_other, clock, _data: data })
    }
}
