//! The committed offline data of the compile-checked queries fits the migrations.

use serde_json::Value;
use sqlx::{AssertSqlSafe, Column as _, Executor as _, PgConnection, SqlSafeStr as _, Statement as _};
use sunaba_testkit::Postgres;

use crate::support::{open, second_connection};

/// Every query in `.sqlx` can be prepared on a fresh database and gives the columns it says.
///
/// That each query of the source is in `.sqlx` is what the build itself checks;
/// `prepare.sh --check` compares both directions byte for byte.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offline_data_is_not_stale() {
    let url = Postgres::shared().database();
    drop(open(&url).await);
    assert_fits(&mut second_connection(&url).await).await;
}

/// Every query in `.sqlx` can be prepared there and gives the columns it says.
pub(crate) async fn assert_fits(connection: &mut PgConnection) {
    for (data, query) in queries() {
        let statement = (&mut *connection).prepare(AssertSqlSafe(query.clone()).into_sql_str()).await;
        let statement = statement.unwrap_or_else(|error| panic!("{query}\n{error}"));
        let columns: Vec<&str> = statement.columns().iter().map(|column| column.name()).collect();
        let described = data["describe"]["columns"].as_array().unwrap();
        let described: Vec<&str> = described.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(columns, described, "{query}");
    }
}

/// What is known of every query in `.sqlx`, and the query.
pub(crate) fn queries() -> Vec<(Value, String)> {
    let files = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.sqlx")).unwrap();
    let data = files.map(|file| std::fs::read(file.unwrap().path()).unwrap());
    let data = data.map(|data| serde_json::from_slice::<Value>(&data).unwrap());
    let found: Vec<_> = data.map(|data| (data.clone(), data["query"].as_str().unwrap().to_owned())).collect();
    assert!(found.len() > 50, "{}", found.len());
    found
}
