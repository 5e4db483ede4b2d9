//! Events that go the short way, in one statement that compares what the server remembers.

use serde_json::json;
use sunaba_engine::SandboxTrigger;
use sunaba_store::{
    Append, AppendOutcome, EventQuery, EventStore as _, RegistryStore as _, Rejection, SandboxChange, Writer,
};
use sunaba_store_postgres::PostgresStore;
use sunaba_testkit::Postgres;
use sunaba_types::{NewEvent, Sandbox, SandboxId};

use crate::support::{append, assert_chain, event, log, numbered, open, second_connection};
use crate::two_servers::{new_project, new_task, sandbox_for};

/// Runs a statement behind the stores' backs.
async fn meddle(url: &str, sql: &'static str) {
    sqlx::query(sql).execute(&mut second_connection(url).await).await.unwrap();
}

fn of_turn(turn: i64, event_type: &str) -> Vec<NewEvent> {
    vec![event(event_type, json!({"turn": turn}))]
}

/// A running sandbox with a task, of which the store remembers everything.
async fn working(store: &PostgresStore) -> Sandbox {
    let project = store.ensure_project(new_project("/r")).await.unwrap();
    let task = new_task(store, &project).await;
    let sandbox = store.create_sandbox(sandbox_for(&task)).await.unwrap();
    let creating = SandboxChange { trigger: Some(SandboxTrigger::Create), ..SandboxChange::default() };
    store.change_sandbox(&sandbox.id, creating).await.unwrap();
    for _ in 0..2 {
        say(store, &sandbox, numbered(1)).await.remove(0).unwrap();
    }
    sandbox
}

async fn say(store: &PostgresStore, sandbox: &Sandbox, events: Vec<NewEvent>) -> Vec<AppendOutcome> {
    let writer = Writer::Sandbox { attempt: sandbox.attempt };
    store.append(Append { sandbox_id: sandbox.id.clone(), writer, events }).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn counts_and_turns_are_those_of_all_events_whoever_wrote_them() {
    let url = Postgres::shared().database();
    let [one, two] = [open(&url).await, open(&url).await];
    let id = SandboxId::generate();
    let told =
        [(1, "agent.tool_use"), (1, "agent.stream_error"), (2, "agent.tool_use"), (1, "agent.file_edited")];
    for (store, (turn, event_type)) in [&one, &one, &two, &two, &one].into_iter().cycle().zip(told.repeat(5))
    {
        append(store, &id, of_turn(turn, event_type)).await.unwrap()[0].as_ref().unwrap();
    }
    let turns = two.outline(&id, None, 10).await.unwrap();
    let seen: Vec<_> =
        turns.iter().map(|t| (t.turn, t.first_seq, t.last_seq, t.tools, t.errors, t.edits)).collect();
    assert_eq!(seen, [(1, 1, 20, 5, 5, 5), (2, 3, 19, 5, 0, 0)]);
    assert_eq!(two.outline(&id, Some(1), 10).await.unwrap().len(), 1);
    let some =
        EventQuery { event_types: vec!["agent.tool_use".to_owned()], ..EventQuery::newest(id.clone(), 3) };
    assert_eq!(one.list_events(some).await.unwrap().total_count, 10);
    assert_chain(&log(&one, &id).await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_attempt_that_was_superseded_elsewhere_writes_nothing() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let sandbox = working(&store).await;
    meddle(&url, "UPDATE tasks SET attempt = attempt + 1").await;
    let refused = say(&store, &sandbox, numbered(2)).await;
    assert_eq!(refused, vec![Err(Rejection::AttemptSuperseded); 2]);
    meddle(&url, "UPDATE tasks SET attempt = attempt - 1").await;
    say(&store, &sandbox, numbered(1)).await.remove(0).unwrap();
    assert_chain(&log(&store, &sandbox.id).await);
}

/// The server's process goes away between two statements, and in the middle of many.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cut_connection_costs_no_event_and_doubles_none() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let id = SandboxId::generate();
    append(&store, &id, numbered(1)).await.unwrap();
    let cut = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
               WHERE datname = current_database() AND application_name = 'sunaba'";
    let writer = tokio::spawn({
        let (store, id) = (store.clone(), id.clone());
        async move {
            let mut sent = 1;
            for _ in 0..100 {
                // Whoever got no answer sends the same again.
                let events = numbered(1);
                while append(&store, &id, events.clone()).await.is_err() {}
                sent += 1;
            }
            sent
        }
    });
    while !writer.is_finished() {
        meddle(&url, cut).await;
    }
    let sent = writer.await.unwrap();
    // By one whose connections nobody has cut.
    let uncut = open(&url).await;
    let log = log(&uncut, &id).await;
    assert_chain(&log);
    assert_eq!(log.len(), sent);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_server_says_of_a_sandbox_does_not_shorten_its_life() {
    let url = Postgres::shared().database();
    let store = open(&url).await;
    let sandbox = working(&store).await;
    meddle(&url, "UPDATE sandbox_log SET alive_until = alive_until + 1000000").await;
    let until = store.find_sandbox(&sandbox.id).await.unwrap().unwrap().alive_until;
    let append = Append { sandbox_id: sandbox.id.clone(), writer: Writer::Server, events: numbered(1) };
    store.append(append).await.unwrap().remove(0).unwrap();
    assert_eq!(store.find_sandbox(&sandbox.id).await.unwrap().unwrap().alive_until, until);
}

/// What is remembered is whole again after an event that caused something: otherwise every later event would be
/// tried the short way, refused, and tried the long way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_long_way_the_short_one_is_open_again() {
    let server = Postgres::start();
    let url = server.database();
    let store = open(&url).await;
    let sandbox = working(&store).await;
    let kinds = ["agent.tool_use", "agent.tool_result", "agent.thinking", "agent.message"];
    let search = json!({"tool": "Grep", "tool_use_id": "toolu_1", "turn": 1});
    say(&store, &sandbox, vec![event("agent.tool_use", search)]).await.remove(0).unwrap();
    for round in 0..3 {
        for kind in kinds {
            say(&store, &sandbox, vec![event(kind, json!({"turn": round}))]).await.remove(0).unwrap();
        }
        say(&store, &sandbox, vec![event("agent.message_injected", json!({}))]).await.remove(0).unwrap();
    }
    let refused = server.log();
    assert!(!refused.contains("ERROR"), "{refused}");
    assert_chain(&log(&store, &sandbox.id).await);
}
