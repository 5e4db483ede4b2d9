//! Takes everything of another store into an empty file.

use std::sync::Arc;

use async_trait::async_trait;
use sqlx::query::Query;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Connection as _, Sqlite, SqliteConnection};
use sunaba_store::transfer::{self, Cell, Reached, Row, TABLES, Table, encode, not_empty, other_move};
use sunaba_store::{Error, Result, Store};

use crate::fault::told;
use crate::open::{self, Marked};
use crate::{OpenError, Options, SqliteStore};

/// A database file that takes everything of another store.
#[derive(Debug)]
pub struct Target {
    options: Options,
    sql: SqliteConnection,
}

impl Target {
    /// Opens the file, which is made if it is missing, and brings its layout up to date.
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

    async fn mark(&mut self, source: &str) -> Result<()> {
        let mut sql = self.sql.begin_with("BEGIN IMMEDIATE").await.map_err(told)?;
        for table in &TABLES {
            let any = format!("SELECT EXISTS (SELECT 1 FROM {})", table.name);
            if sqlx::query_scalar(AssertSqlSafe(any)).fetch_one(&mut *sql).await.map_err(told)? {
                return Err(not_empty(table.name));
            }
        }
        let make = "CREATE TABLE unfinished_move (source TEXT NOT NULL, at_table TEXT, at_key TEXT)";
        sqlx::query(make).execute(&mut *sql).await.map_err(told)?;
        sqlx::query("INSERT INTO unfinished_move (source) VALUES (?1)")
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
        match self.noted().await.map_err(told)? {
            None => self.mark(source).await.map(|()| None),
            Some((other, ..)) if other != source => Err(other_move()),
            Some((_, Some(table), Some(key))) => Reached::read(&table, &key).map(Some),
            Some(_) => Ok(None),
        }
    }

    async fn write(&mut self, table: &'static Table, rows: Vec<Row>) -> Result<()> {
        let Some(last) = rows.last() else { return Ok(()) };
        let key = encode(&table.key_of(last));
        let insert = insert(table);
        let mut sql = self.sql.begin_with("BEGIN IMMEDIATE").await.map_err(told)?;
        for row in &rows {
            let query = row.iter().fold(sqlx::query(AssertSqlSafe(insert.clone())), bound);
            query.execute(&mut *sql).await.map_err(told)?;
        }
        sqlx::query("UPDATE unfinished_move SET at_table = ?1, at_key = ?2")
            .bind(table.name)
            .bind(key)
            .execute(&mut *sql)
            .await
            .map_err(told)?;
        sql.commit().await.map_err(told)
    }

    async fn settle(&mut self, feed_head: i64) -> Result<()> {
        sqlx::query!("UPDATE feed_counter SET position = ?1", feed_head)
            .execute(&mut self.sql)
            .await
            .map_err(told)?;
        Ok(())
    }

    async fn open(&mut self) -> Result<Arc<dyn Store>> {
        let opened = SqliteStore::open_even_if(Marked::Taken, self.options.clone()).await;
        Ok(opened.map_err(|error| Error::Unavailable(Box::new(error)))?)
    }

    async fn finish(&mut self) -> Result<()> {
        sqlx::query("DROP TABLE unfinished_move").execute(&mut self.sql).await.map_err(told)?;
        Ok(())
    }
}

fn insert(table: &Table) -> String {
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let places: Vec<String> = (1..=columns.len()).map(|place| format!("?{place}")).collect();
    format!("INSERT INTO {} ({}) VALUES ({})", table.name, columns.join(", "), places.join(", "))
}

/// The query with one more value.
pub(super) fn bound<'q>(
    query: Query<'q, Sqlite, SqliteArguments>,
    cell: &Cell,
) -> Query<'q, Sqlite, SqliteArguments> {
    match cell {
        Cell::Null => query.bind(None::<i64>),
        Cell::Int(number) => query.bind(*number),
        Cell::Real(number) => query.bind(*number),
        Cell::Text(text) => query.bind(text.clone()),
        Cell::Bytes(bytes) => query.bind(bytes.clone()),
    }
}
