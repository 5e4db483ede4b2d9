//! The committed offline data of the compile-checked queries fits the migrations.

use std::collections::BTreeSet;

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
    let mut checked = BTreeSet::new();
    for file in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/.sqlx")).unwrap() {
        let file = file.unwrap().path();
        let data: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let query = data["query"].as_str().unwrap().to_owned();
        let statement = (&mut *connection).prepare(AssertSqlSafe(query).into_sql_str()).await;
        let statement = statement.unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let columns: Vec<&str> = statement.columns().iter().map(|column| column.name()).collect();
        let described = data["describe"]["columns"].as_array().unwrap();
        let described: Vec<&str> = described.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(columns, described, "{}", file.display());
        checked.insert(file);
    }
    assert!(checked.len() > 50, "{}", checked.len());
}
