//! Every query has an index that fits.
//!
//! The queries are those in `.sqlx`. SQLite knows nothing of how full a table is, so it plans them the same on every
//! file. A plan that reads a table as a whole, or walks over all of an index, is a defect unless it is said here why it
//! is none.

use std::collections::BTreeSet;

use sqlx::{AssertSqlSafe, Row as _, SqliteConnection};

use crate::offline_data::queries;
use crate::support::{open, second_connection};

const PAGE: &str = "a page, newest first, that ends at its limit";

/// What SQLite says of a plan, and why that may be.
const ALLOWED: &[(&str, &str)] = &[
    ("SCAN CONSTANT ROW", "no table"),
    ("SCAN (subquery-1)", "what the query has made itself"),
    ("SCAN (subquery-3)", "what the query has made itself"),
    ("SCAN search", "what the query has made itself"),
    ("SCAN told", "what the query has made itself"),
    ("SCAN others", "what the query has made itself"),
    ("SCAN feed_counter", "one row"),
    ("SCAN n", "nodes: a handful of rows, and all are wanted"),
    ("SCAN k USING INDEX tokens_of_people", "has what is wanted and nothing else"),
    ("SCAN model_calls USING INDEX model_calls_open", "has what is wanted and nothing else"),
    ("SCAN tickets USING INDEX tickets_by_time", PAGE),
    ("SCAN t USING INDEX tasks_by_time", PAGE),
    ("SCAN s USING INDEX sandboxes_by_time", PAGE),
    ("SCAN q USING INDEX sqlite_autoindex_questions_1", PAGE),
];

/// What is asked often, and the index by which it is answered.
const NAMED: &[(&str, &str)] = &[
    ("FROM model_calls WHERE sandbox_id = ?1", "model_calls_by_sandbox (sandbox_id=?)"),
    ("FROM model_calls WHERE task_id = ?1", "model_calls_by_task (task_id=?)"),
    ("FROM model_calls WHERE project_id = ?1", "model_calls_by_project (project_id=?)"),
    ("UPDATE tokens SET revoked_at = ?2 WHERE sandbox_id = ?1", "tokens_of_sandbox (sandbox_id=?)"),
    ("FROM questions WHERE sandbox_id = ?1 AND answered_at IS NULL", "questions_unanswered (sandbox_id=?)"),
    ("WHERE answered_at IS NULL AND sandbox_id IN", "questions_unanswered (sandbox_id=?)"),
    ("q.sandbox_id = ?1 AND q.tool = ?2", "questions_remembered_by_sandbox (sandbox_id=? AND tool=?)"),
    (
        "q.task_id = ?1 AND q.tool = ?2 AND q.state = 'answered' AND q.remember",
        "questions_remembered_by_task (task_id=? AND tool=?)",
    ),
    ("SELECT w.sandbox_id FROM waits", "waits_by_moment (until<?)"),
];

/// How SQLite would answer a query, line by line.
async fn plan(connection: &mut SqliteConnection, query: &str) -> Vec<String> {
    let explain = format!("EXPLAIN QUERY PLAN {query}");
    let rows = sqlx::query(AssertSqlSafe(explain)).fetch_all(connection).await.unwrap();
    rows.iter().map(|row| row.get("detail")).collect()
}

#[tokio::test]
async fn every_query_has_an_index_that_fits() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("sunaba.db");
    drop(open(&path).await);
    let mut connection = second_connection(&path).await;
    let mut used = BTreeSet::new();
    for (_, query) in queries() {
        let plan = plan(&mut connection, &query).await;
        // A list in the arguments is a table that only looks like one.
        for line in plan.iter().filter(|line| line.starts_with("SCAN") && !line.contains("VIRTUAL TABLE")) {
            let found = ALLOWED.iter().position(|(said, _)| line == said);
            assert!(found.is_some(), "{line} in\n{query}");
            used.extend(found);
        }
        for (_, index) in NAMED.iter().filter(|(said, _)| query.contains(said)) {
            assert!(plan.iter().any(|line| line.ends_with(index)), "{plan:?}\n{query}");
        }
    }
    let useless: Vec<_> = ALLOWED.iter().enumerate().filter(|(n, _)| !used.contains(n)).collect();
    assert!(useless.is_empty(), "allowed and not there: {useless:?}");
    for (said, _) in NAMED {
        assert!(queries().iter().any(|(_, query)| query.contains(said)), "no query says {said}");
    }
}
