//! The same lines on PostgreSQL, with one node and with two, beside what PostgreSQL itself does in the same run.

pub(crate) mod claim;
pub(crate) mod ingest;
pub(crate) mod latency;
pub(crate) mod pages;
mod pgbench;
pub(crate) mod start;

use sunaba_testkit::{Postgres, Redis};

use crate::server::{Server, Setup};

/// Any key will do: nothing secret is kept here.
const SECRET_KEY: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

/// How nodes tell each other that there is something to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hints {
    /// Through PostgreSQL alone.
    Postgres,
    /// Through Redis too.
    Redis,
}

/// A PostgreSQL as its package sets it up, which has on disk what it acknowledges, and a Redis.
#[derive(Debug)]
pub(crate) struct Ground {
    pub(crate) postgres: Postgres,
    redis: Redis,
}

/// An empty database on it.
#[derive(Debug, Clone)]
pub(crate) struct Database {
    pub(crate) url: String,
}

impl Database {
    /// Its name on its server.
    pub(crate) fn name(&self) -> &str {
        self.url.rsplit('/').next().unwrap_or_default()
    }
}

impl Ground {
    pub(crate) fn start() -> Self {
        Self { postgres: Postgres::start(), redis: Redis::start() }
    }

    pub(crate) fn database(&self) -> Database {
        Database { url: self.postgres.database() }
    }

    /// What a node on a database is started with.
    pub(crate) fn node(&self, database: &Database, hints: Hints) -> Setup {
        let setup =
            Setup::default().with("DATABASE_URL", &database.url).with("SUNABA_SECRET_KEY", SECRET_KEY);
        match hints {
            Hints::Postgres => setup,
            Hints::Redis => setup.with("REDIS_URL", self.redis.url()),
        }
    }

    /// So many nodes on a database, each with a directory of its own; several of them with Redis, one alone without,
    /// as it would be run.
    pub(crate) async fn nodes(&self, database: &Database, count: usize) -> anyhow::Result<Vec<Server>> {
        let hints = if count == 1 { Hints::Postgres } else { Hints::Redis };
        let mut nodes = Vec::new();
        for _ in 0..count {
            nodes.push(self.node(database, hints).start().await?);
        }
        Ok(nodes)
    }

    /// Writes out what is dirty, so that nobody pays for what was done before.
    pub(crate) fn settle(&self) {
        self.postgres.execute("postgres", "CHECKPOINT");
    }
}

/// `1 node`, `2 nodes`.
pub(crate) fn nodes_text(count: usize) -> String {
    if count == 1 { "1 node".to_owned() } else { format!("{count} nodes") }
}
