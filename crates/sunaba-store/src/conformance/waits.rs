//! Tasks that wait without a sandbox: for an answer, for a limit.

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_types::{
    Clock as _, Decision, MessageState, MessageType, NewAnswer, QuestionState, ResumeCause, Sandbox,
    SandboxId, SandboxState, TaskState,
};

use super::questions::{allow, deny};
use super::sessions::{code, completed, follow_up, put, transcript};
use super::world::{World, event, own, types};
use crate::{Result, SandboxChange, Suspension, Waits, Writer};

async fn suspend(world: &World, id: &SandboxId, waits: Waits) -> Result<Sandbox> {
    world.store.suspend(id, Suspension { waits, reason: "waits for an answer".to_owned() }).await
}

/// A task that waits for an answer has no sandbox, and goes on in a new one when it comes.
pub async fn waits_for_an_answer(world: World) {
    let (task, sandbox) = world.running().await;
    let asked = world.ask(&sandbox, "a", "make").await;
    put(&world, &sandbox, "talk", "may I?", 1).await;
    let suspended = suspend(&world, &sandbox.id, Waits::Input).await.expect("suspended");
    assert_eq!(suspended.terms.suspended.as_deref(), Some("waits for an answer"));
    assert_eq!(suspended.state, SandboxState::Running, "its node ends it");
    assert_eq!(world.get_task(&task.id).await.status, TaskState::WaitingInput);
    suspend(&world, &sandbox.id, Waits::Input).await.expect("again changes nothing");
    let log = world.log(&sandbox.id).await;
    assert_eq!(types(&log).iter().filter(|name| **name == "sandbox.suspending").count(), 1);
    world.store.answer_question(&asked.id, allow()).await.expect("open");
    assert_eq!(world.store.due_waits(10).await.expect("up"), vec![], "it still saves its work");
    assert_eq!(world.store.wake(&sandbox.id).await.expect("up"), None);
    put(&world, &sandbox, "talk", "may I? saved", 2).await;
    let ended = event("agent.failed", json!({"error": "told to end"}));
    world.append(&sandbox.id, own(&sandbox), vec![ended]).await;
    let over = world.get_sandbox(&sandbox.id).await;
    assert_eq!((over.state, over.reason.as_deref()), (SandboxState::Completed, Some("waits for an answer")));
    assert_eq!(world.get_task(&task.id).await.status, TaskState::WaitingInput, "nothing failed");
    assert_eq!(world.store.due_waits(10).await.expect("up"), vec![sandbox.id.clone()]);
    let next = world.store.wake(&sandbox.id).await.expect("up").expect("goes on");
    assert_eq!((next.attempt, &next.terms.suspended), (2, &None));
    assert!(next.prompt.contains("use Bash with {\"command\":\"make\"}"), "{}", next.prompt);
    assert!(next.prompt.contains("It is allowed: make the same call again."), "{}", next.prompt);
    assert_eq!(next.terms.resume.as_ref().expect("with its conversation").because, ResumeCause::Answer);
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Assigned);
    assert_eq!(world.store.wake(&sandbox.id).await.expect("up"), None, "once");
    world.step(&next.id, SandboxTrigger::Create).await;
    let again = world.ask(&next, "b", "make").await;
    assert_eq!(
        (again.state, again.answer),
        (QuestionState::Answered, Some(Decision::Allow)),
        "not asked again"
    );
    assert!(suspend(&world, &sandbox.id, Waits::Input).await.is_ok(), "it was suspended");
    let (_, finished) = completed(&world).await;
    assert_eq!(code(suspend(&world, &finished.id, Waits::Input).await), "illegal_transition");
}

/// A task that waits for a limit goes on by itself when its time has come.
pub async fn waits_for_a_limit(world: World) {
    let (task, sandbox) = world.running().await;
    let until = world.clock.now() + jiff::SignedDuration::from_secs(600);
    suspend(&world, &sandbox.id, Waits::Quota { until }).await.expect("suspended");
    assert_eq!(world.get_task(&task.id).await.status, TaskState::WaitingQuota);
    let died = world.store.replace_died_sandbox(&sandbox.id, "it was killed", 9).await.expect("up");
    assert_eq!(died, None, "it was to end in any case");
    assert_eq!(world.get_sandbox(&sandbox.id).await.state, SandboxState::Completed);
    world.pass(599);
    assert_eq!(world.store.due_waits(10).await.expect("up"), vec![]);
    assert_eq!(world.store.wake(&sandbox.id).await.expect("up"), None);
    world.pass(1);
    assert_eq!(world.store.due_waits(10).await.expect("up"), vec![sandbox.id.clone()]);
    let next = world.store.wake(&sandbox.id).await.expect("up").expect("goes on");
    assert_eq!(next.terms.quota_wait_ms, 600_000, "what it waited adds up");
    assert!(next.prompt.starts_with(&sandbox.prompt), "nothing was kept: {}", next.prompt);
    let foreign = world.external(vec![event("x", json!({}))]).await;
    assert_eq!(code(suspend(&world, &foreign, Waits::Input).await), "sandbox_external");
    let stranger = world.store.put_transcript(transcript(&next, "s", "x", 1), Writer::Operator).await;
    assert_eq!(stranger.expect("an operator may"), None);
}

/// An agent that was done before its place was given up, and is told something more, goes on where it is; it may have to
/// wait again.
pub async fn goes_on_in_place_of_waiting(world: World) {
    let until = world.clock.now() + jiff::SignedDuration::from_secs(600);
    let done = || event("agent.completed", json!({"success": true}));
    let again = || event("agent.started", json!({"is_resuming": true}));
    for is_recorded in [false, true] {
        let (task, sandbox) = world.running().await;
        suspend(&world, &sandbox.id, Waits::Quota { until }).await.expect("suspended");
        world.append(&sandbox.id, own(&sandbox), vec![done()]).await;
        let said = world.say(&sandbox.id, MessageType::UserMessage, "one more thing").await;
        if is_recorded {
            let task_trigger = Some(TaskTrigger::ResultRecorded);
            let recorded = SandboxChange { task_trigger, ..SandboxChange::default() };
            world.store.change_sandbox(&sandbox.id, recorded).await.expect("recorded");
        }
        let said = world.store.find_message(&said.id).await.expect("up").expect("it exists");
        assert_eq!(said.state, MessageState::Queued, "its agent is about to read it");
        world.append(&sandbox.id, own(&sandbox), vec![again()]).await;
        let held = world.get_sandbox(&sandbox.id).await;
        assert_eq!((held.state, &held.terms.suspended), (SandboxState::Running, &None));
        assert_eq!(world.get_task(&task.id).await.status, TaskState::Running);
        suspend(&world, &sandbox.id, Waits::Quota { until }).await.expect("suspended again");
        assert_eq!(world.get_task(&task.id).await.status, TaskState::WaitingQuota);
    }
}

/// Suspends a sandbox, whose node then ends it.
async fn given_up(world: &World, sandbox: &Sandbox) {
    suspend(world, &sandbox.id, Waits::Input).await.expect("suspended");
    let over = SandboxChange { trigger: Some(SandboxTrigger::Suspend), ..SandboxChange::default() };
    world.store.change_sandbox(&sandbox.id, over).await.expect("ended");
}

/// Who asked several things goes on when all are answered, and is told all of it.
pub async fn waits_for_every_answer(world: World) {
    let (_, sandbox) = world.running().await;
    let (one, two) = (world.ask(&sandbox, "a", "make").await, world.ask(&sandbox, "b", "rm -r .").await);
    given_up(&world, &sandbox).await;
    assert_eq!(world.question(&one).await.state, QuestionState::Open, "it stays open");
    assert!(world.store.overdue_questions(10).await.expect("up").is_empty(), "its time is over once");
    let instead = NewAnswer { updated_input: Some(json!({"command": "make test"})), ..allow() };
    world.store.answer_question(&one.id, instead).await.expect("open");
    assert_eq!(world.store.due_waits(10).await.expect("up"), vec![], "one is open");
    assert_eq!(world.store.wake(&sandbox.id).await.expect("up"), None);
    world.store.answer_question(&two.id, deny("never")).await.expect("open");
    assert_eq!(world.store.due_waits(10).await.expect("up"), vec![sandbox.id.clone()]);
    let next = world.store.wake(&sandbox.id).await.expect("up").expect("goes on");
    let told = next.prompt.find("done with {\"command\":\"make test\"}").expect("the first");
    assert!(told < next.prompt.find("It is not allowed: never").expect("the second"), "{}", next.prompt);
}

/// An answer that comes a moment before leaves nothing to wait for; a question that is taken back lets the task go on.
pub async fn waits_for_nothing_else(world: World) {
    let (task, sandbox) = world.running().await;
    let asked = world.ask(&sandbox, "a", "make").await;
    world.store.answer_question(&asked.id, allow()).await.expect("open");
    assert_eq!(code(suspend(&world, &sandbox.id, Waits::Input).await), "nothing_asked");
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Running, "it goes on here");
    let asked = world.ask(&sandbox, "b", "rm").await;
    suspend(&world, &sandbox.id, Waits::Input).await.expect("suspended");
    world.store.withdraw_question(&asked.id, own(&sandbox), "interrupted").await.expect("open");
    let over = SandboxChange { trigger: Some(SandboxTrigger::Suspend), ..SandboxChange::default() };
    world.store.change_sandbox(&sandbox.id, over).await.expect("ended");
    assert_eq!(world.store.due_waits(10).await.expect("up"), vec![sandbox.id.clone()]);
    let next = world.store.wake(&sandbox.id).await.expect("up").expect("goes on");
    assert!(next.prompt.contains("the question was withdrawn"), "{}", next.prompt);
}

/// What was said while the task waits, or just before, is read by whoever goes on; a cancelled task reads nothing.
pub async fn keeps_what_is_said_meanwhile(world: World) {
    let (_, sandbox) = world.running().await;
    let asked = world.ask(&sandbox, "a", "make").await;
    let said = world.say(&sandbox.id, MessageType::UserMessage, "mind the gap").await;
    suspend(&world, &sandbox.id, Waits::Input).await.expect("suspended");
    let stop = world.say(&sandbox.id, MessageType::Interrupt, "not that one").await;
    given_up(&world, &sandbox).await;
    world.store.answer_question(&asked.id, allow()).await.expect("open");
    let next = world.store.wake(&sandbox.id).await.expect("up").expect("goes on");
    let moved = world.store.find_message(&stop.id).await.expect("up").expect("it exists");
    assert_eq!((moved.sandbox_id, moved.message_type), (next.id.clone(), MessageType::UserMessage));
    let message = async || world.store.find_message(&said.id).await.expect("up").expect("it exists");
    assert_eq!((message().await.sandbox_id, message().await.state), (next.id, MessageState::Queued));
    let (_, sandbox) = world.running().await;
    let said = world.say(&sandbox.id, MessageType::UserMessage, "mind the gap").await;
    let until = world.clock.now() + jiff::SignedDuration::from_secs(600);
    suspend(&world, &sandbox.id, Waits::Quota { until }).await.expect("suspended");
    let over = SandboxChange { trigger: Some(SandboxTrigger::Suspend), ..SandboxChange::default() };
    world.store.change_sandbox(&sandbox.id, over).await.expect("ended");
    let message = async || world.store.find_message(&said.id).await.expect("up").expect("it exists").state;
    assert_eq!(message().await, MessageState::Queued);
    let cancel = SandboxChange { task_trigger: Some(TaskTrigger::Cancel), ..SandboxChange::default() };
    world.store.change_sandbox(&sandbox.id, cancel).await.expect("cancelled");
    assert_eq!(message().await, MessageState::Expired);
}

/// A message in place of an answer, and a cancelled task, withdraw what was asked.
pub async fn waits_no_longer(world: World) {
    let (task, sandbox) = world.running().await;
    let asked = world.ask(&sandbox, "a", "make").await;
    given_up(&world, &sandbox).await;
    let next = follow_up(&world, &sandbox.id, "rather not").await.expect("goes on").sandbox;
    assert_eq!(world.get_task(&task.id).await.attempt, next.attempt);
    assert_eq!(world.question(&asked).await.state, QuestionState::Withdrawn);
    let (_, sandbox) = world.running().await;
    let asked = world.ask(&sandbox, "a", "make").await;
    given_up(&world, &sandbox).await;
    let cancel = SandboxChange { task_trigger: Some(TaskTrigger::Cancel), ..SandboxChange::default() };
    world.store.change_sandbox(&sandbox.id, cancel).await.expect("cancelled");
    assert_eq!(world.question(&asked).await.state, QuestionState::Withdrawn);
    assert_eq!(code(world.store.answer_question(&asked.id, allow()).await), "question_withdrawn");
    for id in world.store.due_waits(10).await.expect("up") {
        assert_eq!(world.store.wake(&id).await.expect("up"), None, "nothing waits there any more");
    }
    assert_eq!(world.store.due_waits(10).await.expect("up"), vec![]);
}
