//! Reads everything in one read transaction.

use async_trait::async_trait;
use futures::TryStreamExt as _;
use sqlx::sqlite::SqliteRow;
use sqlx::{AssertSqlSafe, Row as _, Sqlite, SqlitePool, Transaction};
use sunaba_store::Result;
use sunaba_store::transfer::{Cell, Kind, Pace, Row, Source, Table};

use crate::fault::told;

/// The store as it was when this was made.
pub(crate) struct Snapshot {
    sql: Transaction<'static, Sqlite>,
    feed_head: i64,
    pace: Pace,
}

impl Snapshot {
    pub(crate) async fn take(readers: &SqlitePool) -> Result<Self> {
        let mut sql = readers.begin().await.map_err(told)?;
        // The first read decides which moment it is.
        let position = sqlx::query_scalar!("SELECT position FROM feed_counter").fetch_one(&mut *sql).await;
        Ok(Self { sql, feed_head: position.map_err(told)?, pace: Pace::default() })
    }
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
            query = super::target::bound(query, cell);
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
    let places: Vec<String> = (1..=table.key.len()).map(|place| format!("?{place}")).collect();
    match goes_on {
        true => format!(
            "SELECT {columns} FROM {name} WHERE ({key}) > ({}) ORDER BY {key} LIMIT ?{}",
            places.join(", "),
            places.len() + 1
        ),
        false => format!("SELECT {columns} FROM {name} ORDER BY {key} LIMIT ?1"),
    }
}

fn read(table: &Table, row: &SqliteRow) -> Result<Row, sqlx::Error> {
    let cell = |(place, kind)| {
        Ok(match kind {
            Kind::Int => row.try_get::<Option<i64>, _>(place)?.map(Cell::Int),
            Kind::Real => row.try_get::<Option<f64>, _>(place)?.map(Cell::Real),
            // Whatever SQLite thinks it is: what is no text fails.
            Kind::Text | Kind::List => row.try_get_unchecked::<Option<String>, _>(place)?.map(Cell::Text),
            Kind::Bytes => row.try_get::<Option<Vec<u8>>, _>(place)?.map(Cell::Bytes),
        }
        .unwrap_or(Cell::Null))
    };
    table.columns.iter().map(|column| column.kind).enumerate().map(cell).collect()
}
