//! Two servers on one database: whatever one of them decides holds for the other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::json;
use sunaba_store::{
    Error, EventQuery, EventStore as _, FeedStore as _, MessageStore as _, NewProject, NewSandbox, NewTask,
    NewTicket, RegistryStore as _, Reserve, SECRETS_MAX, SandboxChange, SecretStore as _, Spender,
    SpendingStore as _, Store as _, TakeMode, Writer,
};
use sunaba_store_postgres::PostgresStore;
use sunaba_testkit::{Postgres, within};
use sunaba_types::{
    MessageType, NewMessage, Priority, Project, ProjectSettings, Resources, SandboxId, Task, Terms,
    TicketType,
};

use crate::support::{append, assert_chain, event, log, numbered, open};

async fn pair() -> [Arc<PostgresStore>; 2] {
    let url = Postgres::shared().database();
    let (one, two) = tokio::join!(open(&url), open(&url));
    [one, two]
}

pub(crate) fn new_project(path: &str) -> NewProject {
    NewProject {
        name: "p".to_owned(),
        repo_path: Some(path.to_owned()),
        repo_url: None,
        default_branch: "main".to_owned(),
        settings: ProjectSettings { total_budget_usd: Some(1.0), ..ProjectSettings::default() },
    }
}

pub(crate) async fn new_task(store: &PostgresStore, project: &Project) -> Task {
    let ticket = NewTicket {
        project_id: project.id.clone(),
        title: "a ticket".to_owned(),
        description: String::new(),
        ticket_type: TicketType::Feature,
        priority: Priority::Medium,
        owner: "tester".to_owned(),
    };
    let ticket = store.create_ticket(ticket).await.unwrap();
    let task = NewTask {
        ticket_id: ticket.id,
        task_type: "implement".to_owned(),
        title: "a task".to_owned(),
        description: "do it".to_owned(),
        priority: Priority::High,
        execution_config: sunaba_types::ExecutionConfig::default(),
    };
    store.create_task(task).await.unwrap()
}

pub(crate) fn sandbox_for(task: &Task) -> NewSandbox {
    NewSandbox {
        project_id: None,
        task_id: Some(task.id.clone()),
        provider: "local".to_owned(),
        runtime: "native".to_owned(),
        model: "m".to_owned(),
        prompt: "do it".to_owned(),
        resources: Resources::default(),
        terms: Terms::default(),
    }
}

/// Polls the feed until it is told to stop and has seen everything; positions have no gaps, so a later one
/// that became visible first would show.
async fn follow(store: Arc<PostgresStore>, stop: Arc<AtomicBool>) -> i64 {
    let mut last = 0;
    loop {
        let done = stop.load(Ordering::SeqCst);
        let head = store.feed_head().await.unwrap();
        let page = store.feed_after(last, 500).await.unwrap();
        for entry in &page {
            assert_eq!(entry.position, last + 1, "positions become visible in their order");
            last = entry.position;
        }
        assert!(!page.is_empty() || last >= head, "what the counter says is there");
        if done && page.is_empty() {
            return last;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writers_on_both_keep_every_log_and_the_feed_in_order() {
    let stores = pair().await;
    // Four that both write to, and one of each writer's own; most are made by whoever comes first.
    let common: Arc<Vec<SandboxId>> = Arc::new((0..4).map(|_| SandboxId::generate()).collect());
    let stop = Arc::new(AtomicBool::new(false));
    let readers: Vec<_> =
        stores.iter().map(|store| tokio::spawn(follow(Arc::clone(store), Arc::clone(&stop)))).collect();
    let until = Instant::now() + Duration::from_secs(4);
    let writers: Vec<_> = (0..24)
        .map(|n| {
            let (store, common) = (Arc::clone(&stores[n % 2]), Arc::clone(&common));
            tokio::spawn(async move {
                let (own, mut sent) = (SandboxId::generate(), Vec::new());
                for round in n.. {
                    if Instant::now() > until {
                        break;
                    }
                    let id = if round % 3 == 0 { &own } else { &common[round % 4] };
                    let outcomes = append(&store, id, numbered(1 + round % 7)).await.unwrap();
                    sent.extend(outcomes.into_iter().map(|outcome| (id.clone(), outcome.unwrap().event_id)));
                }
                (own, sent)
            })
        })
        .collect();
    let mut sent = Vec::new();
    let mut ids: Vec<SandboxId> = common.to_vec();
    for writer in writers {
        let (own, more) = writer.await.unwrap();
        ids.push(own);
        sent.extend(more);
    }
    stop.store(true, Ordering::SeqCst);
    let mut ends = Vec::new();
    for reader in readers {
        ends.push(reader.await.unwrap());
    }
    assert_eq!(ends, vec![stores[0].feed_head().await.unwrap(); 2]);
    let mut stored = 0;
    for id in &ids {
        let log = log(&stores[1], id).await;
        assert_chain(&log);
        stored += log.len();
    }
    println!("{} events to {} sandboxes by two stores", sent.len(), ids.len());
    assert_eq!(stored, sent.len());
    assert!(stored > 100, "{stored}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_retry_through_the_other_is_stored_once() {
    let [one, two] = pair().await;
    let id = SandboxId::generate();
    let events = numbered(50);
    for _ in 0..5 {
        let (a, b) = tokio::join!(append(&one, &id, events.clone()), append(&two, &id, events.clone()));
        let places = |outcomes: &[sunaba_store::AppendOutcome]| -> Vec<i64> {
            outcomes.iter().map(|outcome| outcome.as_ref().unwrap().seq).collect()
        };
        assert_eq!(places(&a.unwrap()), places(&b.unwrap()));
    }
    assert_eq!(log(&one, &id).await.len(), 50);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repository_has_one_project_and_a_task_one_attempt() {
    let stores = pair().await;
    for round in 0..10 {
        let path = format!("/repo/{round}");
        let made = stores.iter().map(|store| store.ensure_project(new_project(&path)));
        let made = futures_join(made).await;
        let projects: Vec<Project> = made.into_iter().map(Result::unwrap).collect();
        assert_eq!(projects[0], projects[1]);
        let task = new_task(&stores[0], &projects[0]).await;
        let claims = (0..8).map(|n| stores[n % 2].create_sandbox(sandbox_for(&task)));
        let claims = futures_join(claims).await;
        assert_eq!(claims.iter().filter(|claim| claim.is_ok()).count(), 1, "{claims:?}");
        for refused in claims.iter().filter_map(|claim| claim.as_ref().err()) {
            assert!(matches!(refused, Error::Conflict { code: "task_not_ready", .. }), "{refused:?}");
        }
    }
}

async fn futures_join<F: Future>(futures: impl IntoIterator<Item = F>) -> Vec<F::Output> {
    futures::future::join_all(futures).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_on_both_never_pass_a_cap() {
    let stores = pair().await;
    for round in 0..5 {
        let project = stores[0].ensure_project(new_project(&format!("/repo/{round}"))).await.unwrap();
        let mut sandboxes = Vec::new();
        for _ in 0..4 {
            let task = new_task(&stores[0], &project).await;
            sandboxes.push(stores[0].create_sandbox(sandbox_for(&task)).await.unwrap());
        }
        let asks = (0..40).map(|n| {
            stores[n % 2].reserve_call(Reserve {
                sandbox_id: sandboxes[n % 4].id.clone(),
                attempt: 1,
                node_id: None,
                dialect: "anthropic".to_owned(),
                model: "m".to_owned(),
                least_micros: 100_000,
                most_micros: 100_000,
            })
        });
        let granted = futures_join(asks).await;
        assert_eq!(granted.iter().filter(|ask| ask.is_ok()).count(), 10, "a dollar is ten times ten cents");
        let sum = stores[1].spending(&Spender::Project(project.id.clone())).await.unwrap();
        assert_eq!(sum.reserved_micros, 1_000_000);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_and_settings_are_bounded_together() {
    let stores = pair().await;
    let project = stores[0].ensure_project(new_project("/repo")).await.unwrap();
    for n in 1..SECRETS_MAX {
        stores[0].put_secret(&project.id, &format!("S{n}"), b"x").await.unwrap();
    }
    // One more fits. Of two that come at once one is told that it does not.
    for _ in 0..20 {
        let puts = ["A", "B", "C", "D"].into_iter().zip([0, 1, 0, 1]);
        let puts = puts.map(|(name, n)| stores[n].put_secret(&project.id, name, b"x"));
        let put: Vec<_> = futures_join(puts).await.into_iter().flatten().collect();
        assert_eq!(put.len(), 1, "{put:?}");
        assert!(stores[0].delete_secret(&project.id, &put[0].name).await.unwrap());
    }
    let set = futures_join((0..8).map(|n| stores[n % 2].set_setting_once("node", ["a", "b"][n % 2]))).await;
    let set: Vec<String> = set.into_iter().map(Result::unwrap).collect();
    assert!(set.iter().all(|value| *value == set[0]), "{set:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_handed_over_once() {
    let stores = pair().await;
    let id = SandboxId::generate();
    append(&stores[0], &id, numbered(1)).await.unwrap();
    for n in 0..20 {
        let message = NewMessage {
            sandbox_id: id.clone(),
            content: n.to_string(),
            message_type: MessageType::UserMessage,
            sender: "tester".to_owned(),
        };
        assert_eq!(stores[n % 2].queue_message(message).await.unwrap().message.seq, 1 + n as i64);
        let mode = || TakeMode::Explicit { acknowledged: Vec::new(), again: false };
        let polls = (0..4).map(|n| stores[n % 2].take_messages(&id, Writer::Operator, mode()));
        let taken: usize = futures_join(polls).await.into_iter().map(|taken| taken.unwrap().len()).sum();
        assert_eq!(taken, 1);
    }
}

/// What one remembers of a sandbox counts only as long as the other has not changed it, with an event or without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_remembered_is_not_believed_against_the_database() {
    let [one, two] = pair().await;
    let id = SandboxId::generate();
    for store in [&one, &one, &two, &one, &two, &two, &one] {
        append(store, &id, numbered(3)).await.unwrap();
    }
    let of_type = EventQuery {
        sandbox_id: id.clone(),
        event_types: vec!["agent.message".to_owned()],
        exclude_types: Vec::new(),
        contains: None,
        after_seq: None,
        before_seq: None,
        offset: 0,
        limit: 1,
    };
    assert_eq!(one.list_events(of_type).await.unwrap().total_count, 21);
    let change = SandboxChange { branch_name: Some("by-the-other".to_owned()), ..SandboxChange::default() };
    two.change_sandbox(&id, change).await.unwrap();
    // A change that writes the whole row, on the one that read the row before.
    let change = SandboxChange { provider_ref: Some("mine".to_owned()), ..SandboxChange::default() };
    one.change_sandbox(&id, change).await.unwrap();
    let row = two.find_sandbox(&id).await.unwrap().unwrap();
    assert_eq!(row.branch_name.as_deref(), Some("by-the-other"));
    assert_eq!(row.provider_ref.as_deref(), Some("mine"));
    let cancel =
        SandboxChange { trigger: Some(sunaba_engine::SandboxTrigger::Cancel), ..SandboxChange::default() };
    two.change_sandbox(&id, cancel).await.unwrap();
    append(&one, &id, vec![event("agent.started", json!({}))]).await.unwrap();
    assert!(
        two.find_sandbox(&id).await.unwrap().unwrap().ended_at.is_some(),
        "nothing revives what has ended"
    );
    assert_chain(&log(&two, &id).await);
}

/// Of two that end a sandbox, one does; its story says so once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_is_taken_once() {
    let stores = pair().await;
    for _ in 0..10 {
        let id = SandboxId::generate();
        append(&stores[0], &id, numbered(1)).await.unwrap();
        let steps = stores.iter().map(|store| {
            let trigger = Some(sunaba_engine::SandboxTrigger::Cancel);
            store.change_sandbox(&id, SandboxChange { trigger, ..SandboxChange::default() })
        });
        let taken = futures_join(steps).await.into_iter().filter(Result::is_ok).count();
        assert_eq!(taken, 1);
        let log = log(&stores[1], &id).await;
        assert_chain(&log);
        let told = log.iter().filter(|event| event.event_type == "sandbox.state_changed").count();
        assert_eq!(told, 1);
    }
}

/// A commit on one server wakes whoever follows the feed on the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_is_told_to_the_other() {
    let [one, two] = pair().await;
    let mut hints = two.hints();
    let id = SandboxId::generate();
    for _ in 0..20 {
        append(&one, &id, numbered(1)).await.unwrap();
        let head = one.feed_head().await.unwrap();
        within("a hint", hints.wait_for(|position| *position >= head)).await.unwrap();
        assert!(!two.feed_after(head - 1, 10).await.unwrap().is_empty());
    }
}

/// A word from elsewhere wakes, and moves nothing: the next commit is told as ever.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_nudge_wakes_and_is_not_believed() {
    let [one, two] = pair().await;
    let mut hints = two.hints();
    let head = *hints.borrow_and_update();
    two.nudge(head);
    assert!(!hints.has_changed().unwrap(), "known already");
    two.nudge(i64::MAX);
    assert!(hints.has_changed().unwrap());
    assert_eq!(*hints.borrow_and_update(), head);
    append(&one, &SandboxId::generate(), numbered(1)).await.unwrap();
    within("a hint", hints.wait_for(|position| *position > head)).await.unwrap();
}
