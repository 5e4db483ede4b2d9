//! What SQLite itself commits on this machine, with the settings the store
//! uses and rows of the size of an event: the yardstick of `make bench`.

use std::io::Write;
use std::time::{Duration, Instant};

use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, SqliteConnection};

const SECONDS: f64 = 3.0;
const ROW: &str = "INSERT INTO rows (sandbox, seq, id, kind, payload, hash) VALUES (?, ?, ?, ?, ?, ?)";

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    let mut connection = SqliteConnectOptions::new()
        .filename(directory.path().join("limits.db"))
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Full)
        .busy_timeout(Duration::from_secs(2))
        .connect()
        .await?;
    sqlx::query(
        "CREATE TABLE rows (sandbox TEXT, seq INTEGER, id TEXT UNIQUE, kind TEXT, payload TEXT, hash BLOB, \
         UNIQUE (sandbox, seq))",
    )
    .execute(&mut connection)
    .await?;
    let single = rows_per_second(&mut connection, 1).await?;
    let hundred = rows_per_second(&mut connection, 100).await?;
    writeln!(
        std::io::stdout(),
        "{}",
        serde_json::json!({ "single_commits_per_s": single, "hundred_row_rows_per_s": hundred })
    )?;
    Ok(())
}

/// Commits transactions of `size` rows, one statement a row, as SQLite's users usually do.
async fn rows_per_second(connection: &mut SqliteConnection, size: i64) -> Result<f64, sqlx::Error> {
    let started = Instant::now();
    let payload = "x".repeat(350);
    let mut seq = 0i64;
    while started.elapsed().as_secs_f64() < SECONDS {
        let mut transaction = connection.begin_with("BEGIN IMMEDIATE").await?;
        for _ in 0..size {
            seq += 1;
            sqlx::query(ROW)
                .bind(format!("sandbox-{size}"))
                .bind(seq)
                .bind(uuid::Uuid::now_v7().to_string())
                .bind("agent.tool_completed")
                .bind(&payload)
                .bind(&[7u8; 32][..])
                .execute(&mut *transaction)
                .await?;
        }
        transaction.commit().await?;
    }
    Ok(seq as f64 / started.elapsed().as_secs_f64())
}
