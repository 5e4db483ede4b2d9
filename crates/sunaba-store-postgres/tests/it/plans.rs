//! Every query has an index that fits, while its tables are empty and when they are full.
//!
//! The queries are those in `.sqlx`, planned as the store's own sessions plan them, for any values. A plan that reads
//! a table as a whole, or walks over all of an index, is a defect unless it is said here why it is none.

use std::collections::BTreeSet;
use std::str::FromStr as _;

use serde_json::Value;
use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions as _, Executor as _, PgConnection, Row as _};
use sunaba_store::Store as _;
use sunaba_store_postgres::session;
use sunaba_testkit::Postgres;

use crate::offline_data::queries;
use crate::support::{open, second_connection};

const FILLED: &str = include_str!("filled.sql");

/// Readers plan a list for the values that it is asked with, until that has proved useless.
const PAGE: &str = "a page, newest first, that ends at its limit; readers plan it for the values at hand";

/// What a query says, which table or index it may read as a whole, and why.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("FROM layout", "layout", "one row"),
    ("feed_counter", "feed_counter", "one row"),
    ("FROM nodes AS n", "nodes_pkey", "a handful of rows, and all are wanted"),
    ("k.kind <> 'sandbox'", "tokens_of_people", "has what is wanted and nothing else"),
    ("settled_at IS NULL AND ($1", "model_calls_open", "has what is wanted and nothing else"),
    ("UPDATE sandbox_log AS l", "sandbox_log", "once, at the end of a move"),
    ("FROM tickets\n", "tickets_by_time", PAGE),
    ("FROM tasks AS t WHERE ($1", "tasks_by_time", PAGE),
    ("WHERE ($1::text[] IS NULL OR s.state = ANY($1))", "sandboxes_by_time", PAGE),
    ("s.node_id = $1 AND ($2::text[] IS NULL", "sandboxes_by_time", PAGE),
];

/// What is asked often, and by which indexes it is answered whatever the tables hold.
const NAMED: &[(&str, &[&str])] = &[
    ("FROM model_calls WHERE sandbox_id = $1", &["model_calls_by_sandbox"]),
    ("FROM model_calls WHERE task_id = $1", &["model_calls_by_task"]),
    ("FROM model_calls WHERE project_id = $1", &["model_calls_by_project"]),
    ("WHERE settled_at IS NULL AND ($1", &["model_calls_open"]),
    ("FROM tokens AS k WHERE k.hash = $1", &["tokens_hash_key"]),
    ("k.kind <> 'sandbox'", &["tokens_of_people"]),
    ("UPDATE tokens SET revoked_at = $2 WHERE id = $1", &["tokens_pkey"]),
    ("UPDATE tokens SET revoked_at = $2 WHERE sandbox_id = $1", &["tokens_of_sandbox"]),
    ("seq + 0 < $4", &["events_by_class", "events_pkey"]),
    ("next.event_id >= asked.event_id", &["events_by_event_id"]),
    ("e.event_type = wanted.event_type AND e.seq + 0 < $3", &["events_by_type"]),
    ("FROM questions WHERE sandbox_id = $1 AND answered_at IS NULL", &["questions_unanswered"]),
    ("WHERE answered_at IS NULL AND sandbox_id = ANY($1)", &["questions_unanswered"]),
    ("q.sandbox_id = $1 AND q.tool = $2", &["questions_remembered_by_sandbox"]),
    (
        "q.task_id = $1 AND q.tool = $2 AND q.state = 'answered' AND q.remember",
        &["questions_remembered_by_task"],
    ),
    ("q.carried_to = ''", &["questions_by_task"]),
    ("n.project_id = seen.project_id", &["questions_by_project", "questions_pkey"]),
    ("SELECT w.sandbox_id FROM waits", &["waits_by_moment", "sandboxes_pkey", "questions_unanswered"]),
    ("m.acknowledged_at IS NULL\n             ORDER BY", &["messages_outstanding"]),
];

/// Lists, the values that they are asked with here, and by which index they are answered in full tables.
const LISTED: &[(&str, &str, &str)] = &[
    ("OR s.state = ANY($1))", "'{running}', NULL, NULL, NULL, NULL, 50, 'local'", "sandboxes_by_provider"),
    ("OR s.state = ANY($1))", "NULL, NULL, NULL, 'task_7', NULL, 50, NULL", "sandboxes_by_task"),
    ("FROM tasks AS t WHERE ($1", "'running', NULL, NULL, NULL, 50", "tasks_by_status"),
    ("FROM tasks AS t WHERE ($1", "NULL, 'ticket_7', NULL, NULL, 50", "tasks_by_ticket"),
    ("s.node_id = $1 AND ($2::text[]", "'node_1', '{pending,running}', NULL, 50", "sandboxes_by_node"),
];

/// One look at a table within a plan.
#[derive(Debug)]
struct Look {
    kind: String,
    /// The index, or the table itself.
    at: String,
    /// The whole of it.
    whole: bool,
}

/// The looks of a plan, in its order.
fn looks(node: &Value, into: &mut Vec<Look>) {
    let text = |key: &str| node[key].as_str().map(str::to_owned);
    let kind = text("Node Type").unwrap_or_default();
    let whole = node.get("Index Cond").is_none();
    if let Some(at) = text("Index Name") {
        into.push(Look { kind, at, whole });
    } else if kind == "Seq Scan" {
        into.extend(text("Relation Name").map(|at| Look { kind, at, whole: true }));
    }
    for part in node["Plans"].as_array().into_iter().flatten() {
        looks(part, into);
    }
}

/// How this session plans a query with these values, or for any.
async fn plan(session: &mut PgConnection, query: &str, values: Option<&str>) -> Vec<Look> {
    // Whatever is called $12 comes after $11, so the first that is missing tells how many there are.
    let count = (1..).take_while(|n| query.contains(&format!("${n}"))).count();
    let values = values.map_or_else(|| vec!["NULL"; count].join(", "), str::to_owned);
    let values = if count == 0 { String::new() } else { format!("({values})") };
    let prepare = format!("DEALLOCATE ALL; PREPARE asked AS {query}");
    let prepared = sqlx::raw_sql(AssertSqlSafe(prepare)).execute(&mut *session).await;
    prepared.unwrap_or_else(|error| panic!("{query}\n{error}"));
    let explain = format!("EXPLAIN (FORMAT JSON) EXECUTE asked{values}");
    let row = sqlx::raw_sql(AssertSqlSafe(explain)).fetch_one(session).await.unwrap();
    let told: Value = serde_json::from_str(&row.get_unchecked::<String, _>(0)).unwrap();
    let mut found = Vec::new();
    looks(&told[0]["Plan"], &mut found);
    found
}

/// A session with the store's settings.
async fn session_with(
    url: &str,
    settings: impl Iterator<Item = (&'static str, &'static str)>,
) -> PgConnection {
    let options = PgConnectOptions::from_str(url).unwrap().disable_statement_logging().options(settings);
    options.connect().await.unwrap()
}

/// Both kinds of the store's sessions, planning for any values.
async fn sessions(url: &str) -> [PgConnection; 2] {
    let any = [("plan_cache_mode", "force_generic_plan")];
    [session_with(url, session::writing()).await, session_with(url, session::reading().chain(any)).await]
}

/// The address of a database with the store's layout in it.
async fn laid_out() -> String {
    let url = Postgres::shared().database();
    open(&url).await.close().await;
    url
}

async fn fill(url: &str) {
    second_connection(url).await.execute(FILLED).await.unwrap();
}

/// Whether this was expected; if so it is noted.
fn is_allowed(query: &str, look: &Look, used: &mut BTreeSet<usize>) -> bool {
    let fits = |(said, at, _): &(&str, &str, &str)| query.contains(said) && look.at == *at;
    let found = ALLOWED.iter().position(fits);
    used.extend(found);
    found.is_some()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_query_has_an_index_that_fits() {
    let url = laid_out().await;
    let (mut used, mut wrong) = (BTreeSet::new(), Vec::new());
    for filled in [false, true] {
        if filled {
            fill(&url).await;
        }
        for mut session in sessions(&url).await {
            for (_, query) in queries() {
                for look in plan(&mut session, &query, None).await {
                    if look.whole && !is_allowed(&query, &look, &mut used) {
                        wrong.push(format!("{} of {} (filled: {filled}) in\n{query}", look.kind, look.at));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let useless: Vec<_> = ALLOWED.iter().enumerate().filter(|(n, _)| !used.contains(n)).collect();
    assert!(useless.is_empty(), "allowed and not there: {useless:?}");
}

/// The only query that says this.
fn saying(said: &str) -> String {
    let mut found = queries().into_iter().map(|(_, query)| query).filter(|query| query.contains(said));
    let query = found.next().unwrap_or_else(|| panic!("no query says {said}"));
    assert_eq!(found.next(), None, "{said}");
    query
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_asked_often_uses_its_index() {
    let url = laid_out().await;
    for filled in [false, true] {
        if filled {
            fill(&url).await;
        }
        for mut session in sessions(&url).await {
            for (said, indexes) in NAMED {
                let looks = plan(&mut session, &saying(said), None).await;
                let used: BTreeSet<&str> = looks.iter().map(|look| look.at.as_str()).collect();
                assert_eq!(used, indexes.iter().copied().collect(), "{said}, filled: {filled}");
            }
        }
    }
}

/// For any values a list walks from the newest on. Readers know the values.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_is_planned_for_its_values() {
    let url = laid_out().await;
    fill(&url).await;
    let mut session = session_with(&url, session::reading()).await;
    for (said, values, index) in LISTED {
        let looks = plan(&mut session, &saying(said), Some(values)).await;
        assert!(looks.iter().any(|look| look.at == *index && !look.whole), "{said} {values}\n{looks:?}");
    }
}
