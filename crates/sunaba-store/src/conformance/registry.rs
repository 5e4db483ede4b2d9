//! Projects, tickets, tasks, sandboxes.

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_types::limits::LEGACY_SILENCE_SECONDS;
use sunaba_types::{
    Clock as _, Outcome, Priority, ProjectId, Resume, ResumeCause, SandboxId, SandboxState, TaskId,
    TaskState, Terms, TicketId, TicketStatus, TicketType,
};

use super::world::{World, event, new_sandbox, numbered, own};
use crate::{Error, NewSandbox, NewTicket, NewWork, SandboxChange, SandboxFilter, TaskFilter};

/// The same repository is the same project.
pub async fn keeps_one_project_a_repository(world: World) {
    let one = world.project("/a").await;
    let again = world.project("/a").await;
    let other = world.project("/b").await;
    assert_eq!(one, again);
    assert_ne!(one.id, other.id);
    let at = async |path, url| world.store.find_project_at(path, url).await.expect("up");
    assert_eq!(at(Some("/b"), None).await, Some(other));
    assert_eq!(
        (at(Some("/c"), None).await, at(None, Some("/a")).await, at(None, None).await),
        (None, None, None)
    );
    assert_eq!(world.store.find_project(&one.id).await.expect("up"), Some(one));
    assert_eq!(world.store.find_project(&ProjectId::generate()).await.expect("up"), None);
}

/// A ticket, a task and a sandbox are made together; what is refused leaves none of them.
pub async fn makes_all_of_a_work_or_nothing(world: World) {
    let project = world.project("/a").await;
    let work = |project_id: &ProjectId, sandbox: NewSandbox| NewWork {
        ticket: NewTicket {
            project_id: project_id.clone(),
            title: "a flag".to_owned(),
            description: "add a flag".to_owned(),
            ticket_type: TicketType::Feature,
            priority: Priority::High,
            owner: "ada".to_owned(),
        },
        task_type: "implement".to_owned(),
        sandbox,
    };
    let made = world.store.create_work(work(&project.id, new_sandbox(None))).await.expect("all three");
    let task = world.get_task(made.task_id.as_ref().expect("a task")).await;
    assert_eq!(
        (made.attempt, made.project_id.as_ref(), made.state),
        (1, Some(&project.id), SandboxState::Pending)
    );
    assert_eq!(
        (task.status, task.sandbox_id.as_ref(), task.attempt),
        (TaskState::Assigned, Some(&made.id), 1)
    );
    assert_eq!((task.title.as_str(), task.description.as_str()), ("a flag", "add a flag"));
    assert_eq!(task.priority, Priority::High);
    let count = async || {
        let tasks = world.store.list_tasks(TaskFilter { limit: 10, ..TaskFilter::default() }).await;
        let tickets = world.store.list_tickets(None, None, 10).await;
        (tasks.expect("up").len(), tickets.expect("up").len())
    };
    assert_eq!(count().await, (1, 1));
    let resume = Resume {
        session_id: "talk".to_owned(),
        from: made.id.clone(),
        fork: false,
        because: ResumeCause::Asked,
        until: None,
    };
    let terms = Terms { resume: Some(resume), ..Terms::default() };
    let same = || work(&project.id, NewSandbox { terms: terms.clone(), ..new_sandbox(None) });
    world.store.create_work(same()).await.expect("nobody has the conversation");
    assert_eq!(super::sessions::code(world.store.create_work(same()).await), "session_in_use");
    let nowhere = world.store.create_work(work(&ProjectId::generate(), new_sandbox(None))).await;
    assert!(matches!(nowhere, Err(Error::NotFound { .. })), "{nowhere:?}");
    assert_eq!(count().await, (2, 2), "what was refused left nothing");
}

/// Lists show only the projects that may be seen, newest first or by cursor.
pub async fn lists_what_may_be_seen(world: World) {
    let (one, two) = (world.project("/a").await, world.project("/b").await);
    let (first, second) = (world.task_in(&one).await, world.task_in(&two).await);
    let sandbox = world.assign(&first.id).await;
    world.assign(&second.id).await;
    let external = world.external(numbered("x", 1..=1)).await;
    let seen = std::slice::from_ref(&one.id);
    let store = &world.store;
    assert_eq!(store.list_projects(None, None, 10).await.expect("up").len(), 2);
    assert_eq!(store.list_projects(Some(seen), None, 10).await.expect("up"), vec![one.clone()]);
    assert_eq!(store.list_projects(None, Some(&one.id), 10).await.expect("up"), vec![two.clone()]);
    assert_eq!(store.list_projects(Some(&[]), None, 10).await.expect("up"), vec![]);
    let tickets = store.list_tickets(None, Some(seen), 10).await.expect("up");
    assert_eq!(tickets.iter().map(|ticket| &ticket.id).collect::<Vec<_>>(), vec![&first.ticket_id]);
    let visible_projects = Some(seen.to_vec());
    let tasks = TaskFilter { visible_projects: visible_projects.clone(), limit: 10, ..TaskFilter::default() };
    let tasks = store.list_tasks(tasks).await.expect("up");
    assert_eq!(tasks.iter().map(|task| &task.id).collect::<Vec<_>>(), vec![&first.id]);
    let pending = TaskFilter { status: Some(TaskState::Pending), limit: 10, ..TaskFilter::default() };
    assert_eq!(store.list_tasks(pending).await.expect("up"), vec![]);
    let ids = async |filter: SandboxFilter| {
        let found = store.list_sandboxes(filter).await.expect("up");
        found.into_iter().map(|sandbox| sandbox.id).collect::<Vec<_>>()
    };
    let base = SandboxFilter { limit: 10, ..SandboxFilter::default() };
    assert_eq!(ids(base.clone()).await.len(), 3);
    assert_eq!(ids(SandboxFilter { visible_projects, ..base.clone() }).await, vec![sandbox.id.clone()]);
    assert_eq!(
        ids(SandboxFilter { task_id: Some(first.id), ..base.clone() }).await,
        vec![sandbox.id.clone()]
    );
    let running = SandboxFilter { states: vec![SandboxState::Running], ..base.clone() };
    assert_eq!(ids(running.clone()).await, vec![external.clone()]);
    let made_by = |provider: &str, filter: &SandboxFilter| SandboxFilter {
        provider: Some(provider.to_owned()),
        ..filter.clone()
    };
    assert_eq!(ids(made_by("external", &base)).await, vec![external.clone()]);
    assert_eq!(ids(made_by("local", &base)).await.len(), 2);
    assert_eq!(ids(made_by("external", &running)).await, vec![external]);
    assert_eq!(ids(made_by("local", &running)).await, vec![]);
    assert_eq!(ids(SandboxFilter { project_id: Some(one.id), ..base }).await, vec![sandbox.id]);
}

/// A task gets one sandbox; whoever comes second changes nothing.
pub async fn claims_a_task_once(world: World) {
    let task = world.task().await;
    assert_eq!((task.status, task.attempt), (TaskState::Pending, 0));
    let sandbox = world.assign(&task.id).await;
    assert_eq!((sandbox.state, sandbox.attempt), (SandboxState::Pending, 1));
    assert_eq!(sandbox.project_id, Some(task.project_id.clone()));
    let before = world.store.feed_head().await.expect("up");
    let second = world.store.create_sandbox(new_sandbox(Some(task.id.clone()))).await;
    assert!(matches!(second, Err(Error::Conflict { code: "task_not_ready", .. })), "{second:?}");
    assert_eq!(world.store.feed_head().await.expect("up"), before);
    let held = world.get_task(&task.id).await;
    assert_eq!((held.status, held.attempt), (TaskState::Assigned, 1));
    assert_eq!(held.sandbox_id, Some(sandbox.id));
    let ticket = world.store.find_ticket(&task.ticket_id).await.expect("up").expect("it exists");
    assert_eq!(ticket.status, TicketStatus::InProgress);
}

/// What runs somewhere else is not waited for.
pub async fn takes_an_external_sandbox_as_running(world: World) {
    let task = world.task().await;
    let elsewhere = NewSandbox { provider: "external".to_owned(), ..new_sandbox(Some(task.id.clone())) };
    let sandbox = world.store.create_sandbox(elsewhere).await.expect("a sandbox");
    assert_eq!(sandbox.state, SandboxState::Running);
    assert_eq!(world.get_sandbox(&sandbox.id).await, sandbox);
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Assigned);
}

/// An illegal step of sandbox or task changes neither, nor any field, and publishes nothing.
pub async fn refuses_illegal_steps_whole(world: World) {
    let (task, sandbox) = world.creating().await;
    let before = world.store.feed_head().await.expect("up");
    for (trigger, task_trigger) in [
        (SandboxTrigger::ResultRecorded, None),
        (SandboxTrigger::Fail, Some(TaskTrigger::Retry)),
        (SandboxTrigger::AgentDone, Some(TaskTrigger::Fail)),
    ] {
        let change = SandboxChange {
            trigger: Some(trigger),
            task_trigger,
            reason: Some("no".to_owned()),
            isolation: Some("none".to_owned()),
            ..SandboxChange::default()
        };
        let refused = world.store.change_sandbox(&sandbox.id, change).await;
        assert!(matches!(refused, Err(Error::Conflict { code: "illegal_transition", .. })), "{refused:?}");
    }
    assert_eq!(world.get_sandbox(&sandbox.id).await, sandbox);
    assert_eq!(world.get_task(&task.id).await, task);
    assert_eq!(world.store.feed_head().await.expect("up"), before);
}

/// Branch, commits, outcome and result are kept where they belong.
pub async fn records_results(world: World) {
    let (task, sandbox) = world.running().await;
    let fields = SandboxChange {
        provider_ref: Some("box-1".to_owned()),
        isolation: Some("namespaces".to_owned()),
        branch_name: Some("feature/x".to_owned()),
        base_commit: Some("aaa".to_owned()),
        ..SandboxChange::default()
    };
    let changed = world.store.change_sandbox(&sandbox.id, fields).await.expect("legal");
    assert_eq!(changed.state, SandboxState::Running);
    world.append(&sandbox.id, own(&sandbox), vec![event("agent.completed", json!({"success": true}))]).await;
    world.pass(1);
    let done = SandboxChange {
        trigger: Some(SandboxTrigger::ResultRecorded),
        task_trigger: Some(TaskTrigger::ResultRecorded),
        head_commit: Some("bbb".to_owned()),
        outcome: Some(Outcome::Branch),
        result: Some(json!({"files_changed": 2})),
        ..SandboxChange::default()
    };
    let given = world.store.change_sandbox(&sandbox.id, done).await.expect("legal");
    let held = world.get_sandbox(&sandbox.id).await;
    assert_eq!(given, held);
    assert_eq!((held.state, held.ended_at), (SandboxState::Completed, Some(world.clock.now())));
    assert_eq!(held.provider_ref.as_deref(), Some("box-1"));
    assert_eq!(held.isolation.as_deref(), Some("namespaces"));
    assert_eq!((held.base_commit.as_deref(), held.head_commit.as_deref()), (Some("aaa"), Some("bbb")));
    let task = world.get_task(&task.id).await;
    assert_eq!((task.status, task.outcome), (TaskState::Completed, Some(Outcome::Branch)));
    assert_eq!(task.result, Some(json!({"files_changed": 2})));
    let ticket = world.store.find_ticket(&task.ticket_id).await.expect("up").expect("it exists");
    assert_eq!(ticket.branch_name.as_deref(), Some("feature/x"));
}

/// A retry starts anew with a higher attempt; the old sandbox can no longer step the task.
pub async fn retries_with_a_higher_attempt(world: World) {
    let (task, first) = world.running().await;
    world.fail_and_retry(&first.id).await;
    let waiting = world.get_task(&task.id).await;
    assert_eq!((waiting.status, waiting.attempt, waiting.error_message), (TaskState::Pending, 1, None));
    let second = world.assign(&task.id).await;
    assert_eq!(second.attempt, 2);
    let late = SandboxChange { task_trigger: Some(TaskTrigger::Cancel), ..SandboxChange::default() };
    let refused = world.store.change_sandbox(&first.id, late).await;
    assert!(matches!(refused, Err(Error::Conflict { code: "attempt_superseded", .. })), "{refused:?}");
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Assigned);
}

/// A cursor does not skip sandboxes that were made in the same instant.
pub async fn pages_sandboxes_of_one_instant(world: World) {
    for _ in 0..7 {
        world.store.create_sandbox(new_sandbox(None)).await.expect("a sandbox");
    }
    let base = SandboxFilter { limit: 100, ..SandboxFilter::default() };
    let whole = world.store.list_sandboxes(base.clone()).await.expect("up");
    let mut walked = Vec::new();
    loop {
        let before = walked.last().map(|sandbox: &sunaba_types::Sandbox| sandbox.id.clone());
        let part = SandboxFilter { before, limit: 3, ..base.clone() };
        let part = world.store.list_sandboxes(part).await.expect("up");
        if part.is_empty() {
            break;
        }
        walked.extend(part);
    }
    assert_eq!((walked.len(), walked), (7, whole));
}

/// A sign of life moves `alive_until` on, never back, and never for an ended sandbox.
pub async fn touches_only_forward(world: World) {
    let (_, sandbox) = world.running().await;
    let now = world.clock.now();
    world.pass(10);
    let later = world.clock.now();
    let heard = [(sandbox.id.clone(), later), (sandbox.id.clone(), now), (SandboxId::generate(), later)];
    world.store.touch_sandboxes(&heard).await.expect("up");
    let until = world.get_sandbox(&sandbox.id).await.alive_until.expect("it was heard");
    assert_eq!(until.duration_since(later).as_secs(), LEGACY_SILENCE_SECONDS);
    world.step(&sandbox.id, SandboxTrigger::Cancel).await;
    let ended = world.get_sandbox(&sandbox.id).await;
    world.pass(10);
    world.store.touch_sandboxes(&[(sandbox.id.clone(), world.clock.now())]).await.expect("up");
    assert_eq!(world.get_sandbox(&sandbox.id).await, ended);
}

/// What does not exist is named.
pub async fn says_what_is_missing(world: World) {
    let missing =
        |result: Result<(), Error>| assert!(matches!(result, Err(Error::NotFound { .. })), "{result:?}");
    let change = SandboxChange::default();
    missing(world.store.change_sandbox(&SandboxId::generate(), change).await.map(drop));
    missing(world.store.create_sandbox(new_sandbox(Some(TaskId::generate()))).await.map(drop));
    let nowhere = NewSandbox { project_id: Some(ProjectId::generate()), ..new_sandbox(None) };
    missing(world.store.create_sandbox(nowhere).await.map(drop));
    let external = world.external(numbered("x", 1..=1)).await;
    let taskless = SandboxChange { task_trigger: Some(TaskTrigger::Fail), ..SandboxChange::default() };
    missing(world.store.change_sandbox(&external, taskless).await.map(drop));
    assert_eq!(world.store.find_task(&TaskId::generate()).await.expect("up"), None);
    assert_eq!(world.store.find_ticket(&TicketId::generate()).await.expect("up"), None);
    assert_eq!(world.store.find_sandbox(&SandboxId::generate()).await.expect("up"), None);
}
