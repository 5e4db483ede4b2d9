//! Conversations, and how a task goes on with one: after a message, a death, a wait.

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger};
use sunaba_types::limits::SESSIONS_MAX;
use sunaba_types::{
    BlobHash, MessageState, MessageType, NewEvent, NewMessage, Outcome, Resume, ResumeCause, Sandbox,
    SandboxId, SandboxState, Task, TaskState, Terms, TranscriptRecord,
};

use super::world::{World, event, new_sandbox, own};
use crate::{Error, FollowedUp, NewSandbox, NewTranscript, Result, SandboxChange};

const USER: MessageType = MessageType::UserMessage;

pub(super) async fn put(
    world: &World,
    sandbox: &Sandbox,
    session: &str,
    words: &str,
    turns: i64,
) -> Option<BlobHash> {
    let hash = BlobHash::of(words.as_bytes());
    let by = own(sandbox);
    world.store.record_blob(&hash, 1, Some(&sandbox.id), by).await.expect("a blob");
    let new = transcript(sandbox, session, words, turns);
    world.store.put_transcript(new, by).await.expect("kept")
}

pub(super) fn transcript(sandbox: &Sandbox, session: &str, words: &str, turns: i64) -> NewTranscript {
    NewTranscript {
        sandbox_id: sandbox.id.clone(),
        session_id: session.to_owned(),
        hash: BlobHash::of(words.as_bytes()),
        size_bytes: i64::try_from(words.len()).expect("short"),
        turns,
    }
}

async fn kept(world: &World, sandbox: &Sandbox) -> Vec<TranscriptRecord> {
    world.store.list_transcripts(&sandbox.id).await.expect("up")
}

pub(super) fn code<T: std::fmt::Debug>(result: Result<T>) -> &'static str {
    match result {
        Err(Error::Conflict { code, .. } | Error::Full { code, .. }) => code,
        other => panic!("{other:?}"),
    }
}

/// The latest one counts; what it took the place of belongs to nobody.
pub async fn keeps_the_latest_transcript(world: World) {
    let (task, sandbox) = world.running().await;
    assert_eq!(world.store.last_transcript(&task.id).await.expect("up"), None);
    assert_eq!(put(&world, &sandbox, "one", "first", 1).await, None);
    world.pass(1);
    assert_eq!(put(&world, &sandbox, "one", "second", 2).await, Some(BlobHash::of(b"first")));
    assert_eq!(world.store.blob_owners(&BlobHash::of(b"first")).await.expect("up"), vec![]);
    assert_eq!(put(&world, &sandbox, "one", "late", 1).await, Some(BlobHash::of(b"late")), "it came late");
    assert_eq!(put(&world, &sandbox, "one", "second", 2).await, None, "the same again");
    world.pass(1);
    put(&world, &sandbox, "two", "other", 1).await;
    let listed = kept(&world, &sandbox).await;
    assert_eq!(
        listed.iter().map(|one| (&*one.session_id, &one.hash, one.turns)).collect::<Vec<_>>(),
        [("two", &BlobHash::of(b"other"), 1), ("one", &BlobHash::of(b"second"), 2)]
    );
    assert_eq!((listed[0].size_bytes, &*listed[0].runtime), (5, &*sandbox.runtime));
    assert_eq!(world.store.last_transcript(&task.id).await.expect("up").as_ref(), Some(&listed[0]));
    let (_, elsewhere) = world.running().await;
    world.pass(1);
    put(&world, &elsewhere, "one", "gone on", 1).await;
    let found = world.store.find_session("one", None).await.expect("up");
    assert_eq!(
        found.iter().map(|one| &one.sandbox_id).collect::<Vec<_>>(),
        [&elsewhere.id, &sandbox.id],
        "newest first"
    );
    assert_eq!(world.store.find_session("three", None).await.expect("up"), vec![]);
}

/// However many others have a conversation of that name, who looks finds those that they may see.
pub async fn finds_sessions_where_one_may_look(world: World) {
    let (mine, theirs) = (world.project("/mine").await, world.project("/theirs").await);
    let make = async |project| {
        let task = world.task_in(project).await;
        let sandbox = world.assign(&task.id).await;
        put(&world, &sandbox, "talk", "x", 1).await;
        world.pass(1);
        sandbox
    };
    let own_one = make(&mine).await;
    for _ in 0..101 {
        make(&theirs).await;
    }
    let visible = [mine.id.clone()];
    let found = world.store.find_session("talk", Some(&visible)).await.expect("up");
    assert_eq!(found.iter().map(|one| &one.sandbox_id).collect::<Vec<_>>(), [&own_one.id]);
    assert_eq!(world.store.find_session("talk", Some(&[])).await.expect("up"), vec![]);
    assert_eq!(world.store.find_session("talk", None).await.expect("up").len(), 100);
}

/// Of two that would write one conversation at a time, one is refused; a copy is not.
pub async fn lets_one_hold_a_session(world: World) {
    let (_, past) = completed(&world).await;
    assert_eq!(world.store.session_holder("talk", &past.id).await.expect("up"), None);
    let asks = async |fork| {
        let resume = Resume {
            session_id: "talk".to_owned(),
            from: past.id.clone(),
            fork,
            because: ResumeCause::Asked,
            until: None,
        };
        let terms = Terms { resume: Some(resume), ..Terms::default() };
        let task = world.task().await;
        world.store.create_sandbox(NewSandbox { terms, ..new_sandbox(Some(task.id)) }).await
    };
    asks(true).await.expect("a copy");
    let (one, two) = tokio::join!(asks(false), asks(false));
    let (won, lost) = if one.is_ok() { (one, two) } else { (two, one) };
    let won = won.expect("one of them");
    assert_eq!(code(lost), "session_in_use");
    let told = follow_up(&world, &past.id, "one more thing").await.expect("goes on").sandbox;
    assert!(told.terms.resume.expect("with its conversation").fork, "another one has it");
    assert_eq!(world.store.session_holder("talk", &past.id).await.expect("up").as_ref(), Some(&won.id));
    let task = world.task_in(&world.project("/theirs").await).await;
    let elsewhere = world.assign(&task.id).await;
    put(&world, &elsewhere, "talk", "x", 1).await;
    let (theirs, ours) = (&elsewhere.id, &past.id);
    assert_eq!(world.store.session_holder("talk", theirs).await.expect("up").as_ref(), Some(theirs));
    assert_eq!(world.store.session_holder("talk", ours).await.expect("up").as_ref(), Some(&won.id));
    asks(true).await.expect("another copy");
    world.step(&won.id, SandboxTrigger::Cancel).await;
    asks(false).await.expect("nobody has it any more");
}

/// A sandbox cannot have any number of conversations kept.
pub async fn bounds_transcripts(world: World) {
    let (_, sandbox) = world.running().await;
    for number in 0..SESSIONS_MAX {
        put(&world, &sandbox, &format!("s{number}"), "x", 1).await;
    }
    let one_more = world.store.put_transcript(transcript(&sandbox, "more", "x", 1), own(&sandbox)).await;
    assert_eq!(code(one_more), "too_many_sessions");
    put(&world, &sandbox, "s0", "y", 2).await;
    assert_eq!(kept(&world, &sandbox).await.len(), usize::try_from(SESSIONS_MAX).expect("small"));
}

/// A task and its sandbox, which is completed with a branch.
pub(super) async fn completed(world: &World) -> (Task, Sandbox) {
    let (task, sandbox) = world.running().await;
    put(world, &sandbox, "talk", "what was said", 3).await;
    done(world, &sandbox).await;
    world.store.change_sandbox(&sandbox.id, recorded()).await.expect("completed");
    (world.get_task(&task.id).await, world.get_sandbox(&sandbox.id).await)
}

async fn done(world: &World, sandbox: &Sandbox) {
    let done = event("agent.completed", json!({"success": true}));
    world.append(&sandbox.id, own(sandbox), vec![done]).await;
}

fn recorded() -> SandboxChange {
    SandboxChange {
        trigger: Some(SandboxTrigger::ResultRecorded),
        task_trigger: Some(TaskTrigger::ResultRecorded),
        outcome: Some(Outcome::Branch),
        ..SandboxChange::default()
    }
}

pub(super) async fn follow_up(world: &World, id: &SandboxId, content: &str) -> Result<FollowedUp> {
    let (content, sender) = (content.to_owned(), "tester".to_owned());
    let message = NewMessage { sandbox_id: id.clone(), content, message_type: USER, sender };
    world.store.follow_up(message).await
}

/// What is said after the end is the prompt of the next attempt, which goes on with the conversation.
pub async fn follows_up_what_is_over(world: World) {
    let (task, past) = completed(&world).await;
    assert_eq!((task.status, past.state), (TaskState::Completed, SandboxState::Completed));
    let FollowedUp { sandbox: next, queued } =
        follow_up(&world, &past.id, "and tests").await.expect("goes on");
    assert_eq!((next.state, next.attempt, &*next.prompt), (SandboxState::Pending, 2, "and tests"));
    let resume = next.terms.resume.clone().expect("with its conversation");
    assert_eq!(
        (&*resume.session_id, &resume.from, resume.fork, resume.because),
        ("talk", &past.id, false, ResumeCause::Message)
    );
    assert_eq!(next.terms.prompt_message.as_ref(), Some(&queued.message.id));
    assert_eq!((&queued.message.sandbox_id, queued.message.state), (&next.id, MessageState::Queued));
    let held = world.get_task(&task.id).await;
    assert_eq!((held.status, held.attempt, held.outcome), (TaskState::Assigned, 2, None));
    assert_eq!(world.get_sandbox(&past.id).await, past, "what is over stays as it was");
    assert_eq!(code(follow_up(&world, &past.id, "more").await), "newer_attempt");
    assert_eq!(code(follow_up(&world, &next.id, "more").await), "sandbox_lives");
    world.step(&next.id, SandboxTrigger::Cancel).await;
    let (_, alone) = world.running().await;
    world.step(&alone.id, SandboxTrigger::Cancel).await;
    let cancelled = SandboxChange { task_trigger: Some(TaskTrigger::Cancel), ..SandboxChange::default() };
    world.store.change_sandbox(&alone.id, cancelled).await.expect("cancelled");
    let fresh = follow_up(&world, &alone.id, "do it after all").await.expect("goes on").sandbox;
    assert_eq!(fresh.terms.resume, None, "nothing was kept");
    assert_eq!(fresh.prompt, format!("{}\n\ndo it after all", alone.prompt));
    let without_task = world.external(vec![event("agent.completed", json!({"success": true}))]).await;
    assert_eq!(code(follow_up(&world, &without_task, "hello").await), "sandbox_ended");
    let unknown = follow_up(&world, &SandboxId::generate(), "hello").await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })), "{unknown:?}");
}

/// What comes between the agent's last look and the end of its sandbox is a follow-up too.
pub async fn goes_on_with_what_nobody_read(world: World) {
    let (task, sandbox) = world.running().await;
    done(&world, &sandbox).await;
    let first = world.say(&sandbox.id, USER, "one more thing").await;
    let second = world.say(&sandbox.id, USER, "and another").await;
    let stop = world.say(&sandbox.id, MessageType::Interrupt, "stop").await;
    world.poll(&sandbox.id, &[]).await;
    world.store.change_sandbox(&sandbox.id, recorded()).await.expect("completed");
    assert_eq!(world.get_sandbox(&sandbox.id).await.state, SandboxState::Completed);
    let held = world.get_task(&task.id).await;
    assert_eq!((held.status, held.attempt), (TaskState::Assigned, 2));
    let next = world.get_sandbox(&held.sandbox_id.expect("a sandbox")).await;
    assert!(next.prompt.ends_with("one more thing"), "{}", next.prompt);
    assert_eq!(next.terms.prompt_message, Some(first.id.clone()));
    let moved = world.store.message_history(&next.id, 0, 10).await.expect("up");
    assert_eq!(moved.iter().map(|message| &message.id).collect::<Vec<_>>(), [&first.id, &second.id]);
    assert!(moved.iter().all(|message| message.state == MessageState::Queued), "{moved:?}");
    let stopped = world.store.find_message(&stop.id).await.expect("up").expect("it exists");
    assert_eq!(stopped.state, MessageState::Expired, "there is nothing left to stop");
}

/// An agent that is told something while its sandbox waits goes on in it; a result that was being recorded is not.
pub async fn goes_on_in_the_same_sandbox(world: World) {
    let (task, sandbox) = world.running().await;
    done(&world, &sandbox).await;
    let only_since = Some(world.get_sandbox(&sandbox.id).await.state_entered_at);
    let only_then = SandboxChange { only_since, trigger: None, ..recorded() };
    let held = world.store.change_sandbox(&sandbox.id, only_then.clone()).await.expect("still waiting");
    assert_eq!(held.state, SandboxState::Completing);
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Completed);
    let again = event("agent.started", json!({"is_resuming": true, "heartbeat": "continuous"}));
    world.pass(1);
    world.append(&sandbox.id, own(&sandbox), vec![again]).await;
    assert_eq!(world.get_sandbox(&sandbox.id).await.state, SandboxState::Running);
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Running);
    assert_eq!(code(world.store.change_sandbox(&sandbox.id, only_then.clone()).await), "sandbox_moved_on");
    done(&world, &sandbox).await;
    assert_eq!(
        code(world.store.change_sandbox(&sandbox.id, only_then).await),
        "sandbox_moved_on",
        "once more"
    );
    world.store.change_sandbox(&sandbox.id, recorded()).await.expect("completed");
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Completed);
}

fn crashed() -> NewEvent {
    event("agent.failed", json!({"error": "it ended", "error_class": "crashed"}))
}

/// A crash is no failure before it is decided whether the task is tried again: nothing is lost in between.
pub async fn decides_a_crash_with_its_end(world: World) {
    let (task, sandbox) = world.running().await;
    let told = event("agent.error", json!({"error": "it was killed", "error_class": "crashed"}));
    world.append(&sandbox.id, own(&sandbox), vec![told, crashed()]).await;
    let held = world.get_sandbox(&sandbox.id).await;
    assert_eq!((held.state, held.terms.crashed.as_deref()), (SandboxState::Running, Some("it was killed")));
    assert_eq!(world.get_task(&task.id).await.status, TaskState::Running);
    let next = world.store.replace_died_sandbox(&sandbox.id, "it is gone", 1).await.expect("up");
    let next = next.expect("tried again");
    assert_eq!((&next.terms.crashed, next.terms.deaths), (&None, 1));
    let over = world.get_sandbox(&sandbox.id).await;
    assert_eq!((over.state, over.reason.as_deref()), (SandboxState::Failed, Some("it was killed")));
    // Nobody watches over one that somebody else runs.
    let foreign = world.external(vec![crashed()]).await;
    assert_eq!(world.get_sandbox(&foreign).await.state, SandboxState::Failed);
}

/// What nobody has read is no reason to go on when somebody wants it to end.
pub async fn ends_for_good(world: World) {
    let (task, sandbox) = world.running().await;
    done(&world, &sandbox).await;
    let early = SandboxChange { trigger: None, ..recorded() };
    world.store.change_sandbox(&sandbox.id, early).await.expect("recorded");
    let said = world.say(&sandbox.id, USER, "one more thing").await;
    let trigger = Some(SandboxTrigger::ResultRecorded);
    let stop = SandboxChange { trigger, for_good: true, ..SandboxChange::default() };
    world.store.change_sandbox(&sandbox.id, stop).await.expect("ended");
    let held = world.get_task(&task.id).await;
    assert_eq!((held.status, held.attempt), (TaskState::Completed, 1));
    let said = world.store.find_message(&said.id).await.expect("up").expect("it exists");
    assert_eq!(said.state, MessageState::Expired);
}

/// The time in which the agent works is added up over its rounds; what it waits in between is not.
pub async fn adds_up_the_time_of_work(world: World) {
    let (_, sandbox) = world.running().await;
    let again = || event("agent.started", json!({"is_resuming": true}));
    for worked in [30_000, 60_000] {
        world.pass(30);
        done(&world, &sandbox).await;
        assert_eq!(world.get_sandbox(&sandbox.id).await.terms.worked_ms, worked);
        world.pass(500);
        world.append(&sandbox.id, own(&sandbox), vec![again()]).await;
    }
    world.pass(7);
    let next = world.store.replace_died_sandbox(&sandbox.id, "gone", 9).await.expect("up");
    assert_eq!(next.expect("tried again").terms.worked_ms, 0, "another sandbox has its own time");
}

/// What died is tried again, with its conversation, and not for ever.
pub async fn retries_what_died(world: World) {
    let (task, first) = world.running().await;
    let unread = world.say(&first.id, USER, "mind the gap").await;
    let turn = world.say(&first.id, MessageType::Interrupt, "turn left").await;
    let stop = world.say(&first.id, MessageType::Interrupt, " \n").await;
    let replace = async |id: &SandboxId| {
        let replaced = world.store.replace_died_sandbox(id, "it was killed", 2).await;
        replaced.expect("up")
    };
    let second = replace(&first.id).await.expect("tried again");
    assert_eq!((second.attempt, &second.prompt, &second.terms.resume), (2, &first.prompt, &None));
    assert_eq!(second.terms.deaths, 1);
    let moved = world.store.find_message(&unread.id).await.expect("up").expect("it exists");
    assert_eq!((&moved.sandbox_id, moved.state), (&second.id, MessageState::Queued));
    let moved = world.store.find_message(&turn.id).await.expect("up").expect("it exists");
    assert_eq!((&moved.sandbox_id, moved.state), (&second.id, MessageState::Queued), "its words count");
    assert_eq!(moved.message_type, USER, "there is nothing to stop yet");
    let expired = world.store.find_message(&stop.id).await.expect("up").expect("it exists");
    assert_eq!(expired.state, MessageState::Expired, "there is nothing left to stop");
    assert_eq!(replace(&first.id).await, None, "once");
    put(&world, &second, "talk", "x", 1).await;
    let third = replace(&second.id).await.expect("tried again");
    let resume = third.terms.resume.clone().expect("with its conversation");
    assert_eq!((&resume.from, resume.because, resume.fork), (&second.id, ResumeCause::Died, false));
    assert!(
        third.prompt.contains("it was killed") && !third.prompt.contains(&first.prompt),
        "{}",
        third.prompt
    );
    world.step(&third.id, SandboxTrigger::Create).await;
    world.step(&third.id, SandboxTrigger::Heard).await;
    let unread = world.say(&third.id, USER, "and the other one").await;
    world.append(&third.id, own(&third), vec![crashed()]).await;
    assert_eq!(replace(&third.id).await, None, "two died before");
    let failed = world.get_task(&task.id).await;
    assert_eq!((failed.status, failed.error_message.as_deref()), (TaskState::Failed, Some("it ended")));
    let told = follow_up(&world, &third.id, "once more").await.expect("goes on").sandbox;
    let moved = world.store.find_message(&unread.id).await.expect("up").expect("it exists");
    assert_eq!((&moved.sandbox_id, moved.state), (&told.id, MessageState::Queued), "nobody had read it");
    assert_eq!(told.terms.deaths, 0, "somebody wants it");
}
