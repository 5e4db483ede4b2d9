//! Takes everything of another store into an empty database.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use sunaba_store::transfer::{self, Reached, Row, TABLES, Table, encode, not_empty, other_move};
use sunaba_store::{Error, Result, Store};
use tokio::time::{Instant, sleep};

use super::columns::{Form, follows, kept_in, with_column};
use crate::fault::told;
use crate::open::{self, Marked};
use crate::{OpenError, Options, PostgresStore};

/// Held by whoever moves something into a database, so that two do not at once.
const LOCK: i64 = 0x73_75_6e_61_62_61;
/// How long the database may take to see that whoever held it is gone.
const LOCK_PATIENCE: Duration = Duration::from_secs(5);
const LOCK_POLL: Duration = Duration::from_millis(100);

/// A database that takes everything of another store.
#[derive(Debug)]
pub struct Target {
    options: Options,
    sql: PgConnection,
}

impl Target {
    /// Connects, and brings the layout up to date.
    pub async fn connect(options: Options) -> Result<Self, OpenError> {
        let sql = open::connect_for_move(&options).await?;
        Ok(Self { options, sql })
    }

    async fn noted(&mut self) -> Result<Option<(String, Option<String>, Option<String>)>, sqlx::Error> {
        if !open::is_marked(&mut self.sql).await? {
            return Ok(None);
        }
        sqlx::query_as("SELECT source, at_table, at_key FROM unfinished_move")
            .fetch_optional(&mut self.sql)
            .await
    }

    /// Takes the lock that only one move has. Of one that was killed the database keeps it until it has seen that.
    async fn is_alone(&mut self) -> sqlx::Result<bool> {
        let deadline = Instant::now() + LOCK_PATIENCE;
        loop {
            let taken = sqlx::query_scalar("SELECT pg_try_advisory_lock($1)").bind(LOCK);
            let taken: bool = taken.fetch_one(&mut self.sql).await?;
            if taken || Instant::now() >= deadline {
                return Ok(taken);
            }
            sleep(LOCK_POLL).await;
        }
    }

    async fn mark(&mut self, source: &str) -> Result<()> {
        let mut sql = self.sql.begin().await.map_err(told)?;
        for table in &TABLES {
            let any = format!("SELECT EXISTS (SELECT 1 FROM {})", table.name);
            if sqlx::query_scalar(AssertSqlSafe(any)).fetch_one(&mut *sql).await.map_err(told)? {
                return Err(not_empty(table.name));
            }
        }
        let make = "CREATE TABLE unfinished_move (source text NOT NULL, at_table text, at_key text)";
        sqlx::query(make).execute(&mut *sql).await.map_err(told)?;
        sqlx::query("INSERT INTO unfinished_move (source) VALUES ($1)")
            .bind(source)
            .execute(&mut *sql)
            .await
            .map_err(told)?;
        sql.commit().await.map_err(told)
    }
}

#[async_trait]
impl transfer::Target for Target {
    async fn begin(&mut self, source: &str) -> Result<Option<Reached>> {
        if !self.is_alone().await.map_err(told)? {
            let detail = "another program is moving something into this database right now";
            return Err(Error::conflict("other_move", detail));
        }
        match self.noted().await.map_err(told)? {
            None => self.mark(source).await.map(|()| None),
            Some((other, ..)) if other != source => Err(other_move()),
            Some((_, Some(table), Some(key))) => Reached::read(&table, &key).map(Some),
            Some(_) => Ok(None),
        }
    }

    async fn write(&mut self, table: &'static Table, mut rows: Vec<Row>) -> Result<()> {
        let Some(last) = rows.last() else { return Ok(()) };
        let key = encode(&table.key_of(last));
        let mut sql = self.sql.begin().await.map_err(told)?;
        let mut query = sqlx::query(AssertSqlSafe(insert(table)));
        for (place, _) in table.columns.iter().enumerate().filter(|(_, column)| !follows(table, column)) {
            query = with_column(query, table, place, &mut rows)?;
        }
        query.execute(&mut *sql).await.map_err(told)?;
        sqlx::query("UPDATE unfinished_move SET at_table = $1, at_key = $2")
            .bind(table.name)
            .bind(key)
            .execute(&mut *sql)
            .await
            .map_err(told)?;
        sql.commit().await.map_err(told)
    }

    async fn settle(&mut self, feed_head: i64) -> Result<()> {
        sqlx::query!("UPDATE feed_counter SET position = $1", feed_head)
            .execute(&mut self.sql)
            .await
            .map_err(told)?;
        sqlx::query!(
            "UPDATE sandbox_log AS l
             SET type_count = (SELECT count(*) FROM event_types AS c WHERE c.sandbox_id = l.sandbox_id),
                 noisy_count = (SELECT count(*) FROM noisy_calls AS n WHERE n.sandbox_id = l.sandbox_id)"
        )
        .execute(&mut self.sql)
        .await
        .map_err(told)?;
        // So many rows at once: the planner should know of them before the first question.
        sqlx::query("ANALYZE").execute(&mut self.sql).await.map_err(told)?;
        Ok(())
    }

    async fn open(&mut self) -> Result<Arc<dyn Store>> {
        let opened = PostgresStore::open_even_if(Marked::Taken, self.options.clone()).await;
        Ok(opened.map_err(|error| Error::Unavailable(Box::new(error)))?)
    }

    async fn finish(&mut self) -> Result<()> {
        sqlx::query("DROP TABLE unfinished_move").execute(&mut self.sql).await.map_err(told)?;
        Ok(())
    }
}

fn insert(table: &Table) -> String {
    let (mut names, mut given, mut kept) = (Vec::new(), Vec::new(), Vec::new());
    for (column, place) in table.columns.iter().filter(|column| !follows(table, column)).zip(1..) {
        let form = Form::of(table, column);
        names.push(column.name);
        given.push(format!("${place}::{}", form.array()));
        kept.push(form.kept(column.name));
    }
    let names = names.join(", ");
    format!(
        "INSERT INTO {} ({names}) SELECT {} FROM unnest({}) AS u ({names})",
        kept_in(table),
        kept.join(", "),
        given.join(", ")
    )
}
