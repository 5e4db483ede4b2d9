//! Reads everything in one transaction that sees one moment.

use async_trait::async_trait;
use futures::TryStreamExt as _;
use sqlx::postgres::PgRow;
use sqlx::{AssertSqlSafe, PgConnection, PgPool, Postgres, Transaction};
use sunaba_store::transfer::{Cell, Pace, Row, Source, Table};
use sunaba_store::{Error, Result};

use super::columns::{Form, with_key};
use crate::fault::told;
use crate::open::known_layout;

/// The store as it was when this was made.
pub(crate) struct Snapshot {
    sql: Transaction<'static, Postgres>,
    feed_head: i64,
    pace: Pace,
}

impl Snapshot {
    pub(crate) async fn take(readers: &PgPool) -> Result<Self> {
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        let mut sql = readers.begin_with(begin).await.map_err(told)?;
        // A batch, or a count of a large table, may take longer than what a person waits for.
        sqlx::query("SET LOCAL statement_timeout = '10min'").execute(&mut *sql).await.map_err(told)?;
        refuse_newer(&mut sql).await?;
        let position = sqlx::query_scalar!("SELECT position FROM feed_counter").fetch_one(&mut *sql).await;
        Ok(Self { sql, feed_head: position.map_err(told)?, pace: Pace::default() })
    }
}

/// A copy by this program would leave out what a newer one has added.
async fn refuse_newer(sql: &mut PgConnection) -> Result<()> {
    let newest: Option<i64> =
        sqlx::query_scalar("SELECT max(version) FROM _sqlx_migrations").fetch_one(sql).await.map_err(told)?;
    let (newest, known) = (newest.unwrap_or_default(), known_layout());
    if newest <= known {
        return Ok(());
    }
    let detail = format!(
        "the database has layout {newest} and this program knows {known}: a copy would leave out what the newer \
         program has added; make it with that one"
    );
    Err(Error::conflict("newer_layout", detail))
}

#[async_trait]
impl Source for Snapshot {
    async fn count(&mut self, table: &'static Table) -> Result<i64> {
        let sql = format!("SELECT count(*) FROM {}", table.name);
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *self.sql).await.map_err(told)
    }

    async fn batch(&mut self, table: &'static Table, after: Option<&[Cell]>) -> Result<Vec<Row>> {
        let mut query = sqlx::query(AssertSqlSafe(select(table, after.is_some())));
        for cell in after.unwrap_or_default() {
            query = with_key(query, cell);
        }
        let mut rows = query.bind(self.pace.limit()).fetch(&mut *self.sql);
        while let Some(row) = rows.try_next().await.map_err(told)? {
            if !self.pace.take(read(table, &row).map_err(told)?) {
                break;
            }
        }
        drop(rows);
        Ok(self.pace.batch())
    }

    async fn feed_head(&mut self) -> Result<i64> {
        Ok(self.feed_head)
    }
}

fn select(table: &Table, goes_on: bool) -> String {
    let columns: Vec<&str> = table.columns.iter().map(|column| column.name).collect();
    let (name, columns, key) = (table.name, columns.join(", "), table.key.join(", "));
    let places: Vec<String> = (1..=table.key.len()).map(|place| format!("${place}")).collect();
    match goes_on {
        true => format!(
            "SELECT {columns} FROM {name} WHERE ({key}) > ({}) ORDER BY {key} LIMIT ${}",
            places.join(", "),
            places.len() + 1
        ),
        false => format!("SELECT {columns} FROM {name} ORDER BY {key} LIMIT $1"),
    }
}

fn read(table: &Table, row: &PgRow) -> Result<Row, sqlx::Error> {
    let columns = table.columns.iter().enumerate();
    columns.map(|(place, column)| Form::of(table, column).read(row, place)).collect()
}
