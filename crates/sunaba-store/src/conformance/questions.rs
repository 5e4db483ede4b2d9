//! Questions: asked once, answered once, decided by time.

use serde_json::{Value, json};
use sunaba_engine::SandboxTrigger;
use sunaba_types::{
    Decision, ExecutionConfig, NewAnswer, NewQuestion, ProjectId, Question, QuestionPolicy, QuestionState,
    Remember, Sandbox, SandboxId, Terms,
};

use super::world::{World, event, own};
use crate::{Error, QuestionFilter, Writer};

fn call(sandbox: &SandboxId, name: &str, command: &str) -> NewQuestion {
    NewQuestion {
        sandbox_id: sandbox.clone(),
        client_id: name.to_owned(),
        tool: "Bash".to_owned(),
        tool_use_id: format!("toolu_{name}"),
        input: json!({ "command": command }),
    }
}

pub(super) fn allow() -> NewAnswer {
    NewAnswer {
        decision: Decision::Allow,
        updated_input: None,
        message: None,
        remember: None,
        answered_by: "ada".to_owned(),
    }
}

pub(super) fn deny(message: &str) -> NewAnswer {
    NewAnswer { decision: Decision::Deny, message: Some(message.to_owned()), ..allow() }
}

fn code(result: Result<Question, Error>) -> &'static str {
    match result {
        Err(Error::Conflict { code, .. } | Error::Full { code, .. }) => code,
        other => panic!("no refusal but {other:?}"),
    }
}

impl World {
    /// A running sandbox whose questions wait a minute and then do this.
    async fn asking(&self, policy: QuestionPolicy) -> Sandbox {
        let execution_config = ExecutionConfig {
            question_hold_seconds: Some(60),
            question_policy: Some(policy),
            ..ExecutionConfig::default()
        };
        let task = self.task().await;
        let sandbox = self.assign_on(&task.id, Terms { execution_config, ..Terms::default() }).await;
        self.step(&sandbox.id, SandboxTrigger::Create).await;
        self.step(&sandbox.id, SandboxTrigger::Heard).await
    }

    pub(super) async fn ask(&self, sandbox: &Sandbox, name: &str, command: &str) -> Question {
        let question = call(&sandbox.id, name, command);
        self.store.ask_question(own(sandbox), question).await.expect("it may ask")
    }

    pub(super) async fn question(&self, question: &Question) -> Question {
        self.store.find_question(&question.id).await.expect("the store is up").expect("it was asked")
    }

    /// The types and payloads of what the log says of questions.
    async fn told(&self, sandbox: &Sandbox) -> Vec<(String, Value)> {
        let log = self.log(&sandbox.id).await;
        let about = log.into_iter().filter(|event| event.event_type.contains(".question_"));
        about.map(|event| (event.event_type.clone(), event.payload.to_value())).collect()
    }

    async fn listed(&self, filter: QuestionFilter) -> Vec<String> {
        let filter = QuestionFilter { limit: 10, ..filter };
        let found = self.store.list_questions(filter).await.expect("the store is up");
        found.into_iter().map(|question| question.client_id).collect()
    }
}

/// Asking again under the same name is the same question; something else under it is refused.
pub async fn asks_once(world: World) {
    let sandbox = world.asking(QuestionPolicy::Deny).await;
    let asked = world.ask(&sandbox, "a", "ls").await;
    assert_eq!((asked.state, asked.policy, asked.attempt), (QuestionState::Open, QuestionPolicy::Deny, 1));
    assert_eq!(asked.expires_at.as_second() - asked.asked_at.as_second(), 60);
    assert_eq!((&asked.project_id, &asked.task_id), (&sandbox.project_id, &sandbox.task_id));
    let feed = world.store.feed_head().await.expect("up");
    assert_eq!(world.ask(&sandbox, "a", "ls").await, asked);
    assert_eq!(world.store.feed_head().await.expect("up"), feed, "nothing is told twice");
    assert_eq!(world.question(&asked).await, asked);
    let other = world.store.ask_question(own(&sandbox), call(&sandbox.id, "a", "rm")).await;
    assert_eq!(code(other), "question_id_conflict");
    let told = world.told(&sandbox).await;
    assert_eq!(told.len(), 1);
    assert_eq!(told[0].0, "agent.question_asked");
    assert_eq!(told[0].1["question_id"], asked.id.as_str());
    assert_eq!(told[0].1["input"], json!({"command": "ls"}));
    let published = world.feed(0).await;
    assert!(published.iter().any(|entry| entry.event_type == "SANDBOX_agent.question_asked"));
}

/// Only the present attempt asks, and only while it runs; the number of open questions is bounded.
pub async fn refuses_to_be_asked(world: World) {
    let sandbox = world.asking(QuestionPolicy::Deny).await;
    let stale = Writer::Sandbox { attempt: sandbox.attempt + 1 };
    assert_eq!(
        code(world.store.ask_question(stale, call(&sandbox.id, "a", "ls")).await),
        "attempt_superseded"
    );
    for n in 0..100 {
        world.ask(&sandbox, &format!("q{n}"), "ls").await;
    }
    let one_more = world.store.ask_question(own(&sandbox), call(&sandbox.id, "a", "ls")).await;
    assert_eq!(code(one_more), "questions_full");
    world.step(&sandbox.id, SandboxTrigger::Cancel).await;
    let late = world.store.ask_question(own(&sandbox), call(&sandbox.id, "a", "ls")).await;
    assert_eq!(code(late), "sandbox_ended");
    let nobody = SandboxId::generate();
    let unknown = world.store.ask_question(own(&sandbox), call(&nobody, "a", "ls")).await;
    assert!(matches!(unknown, Err(Error::NotFound { .. })));
}

/// The first answer counts; the same one again is harmless and another one a conflict.
pub async fn takes_one_answer(world: World) {
    let sandbox = world.asking(QuestionPolicy::Deny).await;
    let asked = world.ask(&sandbox, "a", "ls").await;
    let given = NewAnswer { updated_input: Some(json!({"command": "pwd"})), ..allow() };
    world.pass(5);
    let answered = world.store.answer_question(&asked.id, given.clone()).await.expect("it is open");
    assert_eq!((answered.state, answered.answer), (QuestionState::Answered, Some(Decision::Allow)));
    assert_eq!(answered.answered_by.as_deref(), Some("ada"));
    assert_eq!(answered.updated_input, given.updated_input);
    assert_eq!(world.question(&asked).await, answered);
    let again = NewAnswer { answered_by: "bob".to_owned(), ..given };
    assert_eq!(world.store.answer_question(&asked.id, again).await.expect("the same"), answered);
    assert_eq!(code(world.store.answer_question(&asked.id, allow()).await), "question_answered");
    assert_eq!(code(world.store.answer_question(&asked.id, deny("no")).await), "question_answered");
    assert_eq!(world.ask(&sandbox, "a", "ls").await, answered, "who asks again finds the answer");
    let told = world.told(&sandbox).await;
    assert_eq!(told.len(), 2, "{told:?}");
    assert_eq!(told[1].0, "sandbox.question_answered");
    assert_eq!(told[1].1["answer"], "allow");
    assert_eq!(told[1].1["answered_by"], "ada");
    let missing = sunaba_types::QuestionId::generate();
    assert!(matches!(world.store.answer_question(&missing, allow()).await, Err(Error::NotFound { .. })));
}

/// When its time is over the policy decides, and then nobody else.
pub async fn lets_time_decide(world: World) {
    for (policy, expected) in
        [(QuestionPolicy::Deny, Decision::Deny), (QuestionPolicy::Allow, Decision::Allow)]
    {
        let sandbox = world.asking(policy).await;
        let asked = world.ask(&sandbox, "a", "ls").await;
        world.pass(59);
        assert_eq!(world.store.expire_question(&asked.id).await.expect("too early"), asked);
        assert!(world.store.overdue_questions(10).await.expect("up").is_empty());
        world.pass(1);
        assert_eq!(world.store.overdue_questions(10).await.expect("up"), std::slice::from_ref(&asked));
        let expired = world.store.expire_question(&asked.id).await.expect("in time");
        assert_eq!((expired.state, expired.answer), (QuestionState::Expired, Some(expected)));
        assert_eq!(world.store.expire_question(&asked.id).await.expect("again"), expired);
        assert_eq!(code(world.store.answer_question(&asked.id, allow()).await), "question_expired");
        assert!(world.store.overdue_questions(10).await.expect("up").is_empty());
        let told = world.told(&sandbox).await;
        assert_eq!(told.last().expect("told").0, "sandbox.question_expired");
    }
}

/// A question that is to wait stays open, however long it takes.
pub async fn keeps_what_is_to_wait(world: World) {
    let sandbox = world.asking(QuestionPolicy::Suspend).await;
    let asked = world.ask(&sandbox, "a", "ls").await;
    world.pass(3600);
    assert_eq!(world.store.overdue_questions(10).await.expect("up"), std::slice::from_ref(&asked));
    assert_eq!(world.store.expire_question(&asked.id).await.expect("stays"), asked);
    let answered = world.store.answer_question(&asked.id, deny("too late today")).await.expect("open");
    assert_eq!(answered.message.as_deref(), Some("too late today"));
}

/// A question is withdrawn by its agent, and with the end of its sandbox.
pub async fn withdraws(world: World) {
    let sandbox = world.asking(QuestionPolicy::Suspend).await;
    let (one, two) = (world.ask(&sandbox, "a", "ls").await, world.ask(&sandbox, "b", "ls").await);
    let done = world.ask(&sandbox, "c", "ls").await;
    let done = world.store.answer_question(&done.id, allow()).await.expect("open");
    let stale = Writer::Sandbox { attempt: 7 };
    assert_eq!(code(world.store.withdraw_question(&one.id, stale, "x").await), "attempt_superseded");
    let withdrawn = world.store.withdraw_question(&one.id, own(&sandbox), "interrupted").await.expect("open");
    assert_eq!((withdrawn.state, withdrawn.answer), (QuestionState::Withdrawn, None));
    assert_eq!(withdrawn.reason.as_deref(), Some("interrupted"));
    let again = world.store.withdraw_question(&one.id, own(&sandbox), "again").await;
    assert_eq!(again.expect("nothing changes"), withdrawn);
    assert_eq!(code(world.store.answer_question(&one.id, allow()).await), "question_withdrawn");
    let kept = world.store.withdraw_question(&done.id, own(&sandbox), "x").await.expect("nothing changes");
    assert_eq!(kept, done);
    world.step(&sandbox.id, SandboxTrigger::Cancel).await;
    let ended = world.question(&two).await;
    assert_eq!(ended.state, QuestionState::Withdrawn);
    assert_eq!(ended.reason.as_deref(), Some("the sandbox ended before it was answered"));
    assert_eq!(world.question(&done).await, done);
    assert_eq!(code(world.store.answer_question(&two.id, allow()).await), "question_withdrawn");
}

/// A remembered answer counts for every later call of the tool in the same task, also in its next attempt.
pub async fn remembers_for_a_tool(world: World) {
    let sandbox = world.asking(QuestionPolicy::Suspend).await;
    let first = world.ask(&sandbox, "a", "ls").await;
    let always = NewAnswer {
        remember: Some(Remember::Tool),
        updated_input: Some(json!({"command": "ls -l"})),
        ..allow()
    };
    world.store.answer_question(&first.id, always).await.expect("open");
    let next = world.ask(&sandbox, "b", "pwd").await;
    assert_eq!((next.state, next.answer), (QuestionState::Answered, Some(Decision::Allow)));
    assert_eq!((next.updated_input, next.answered_by.as_deref()), (None, Some("ada")));
    let other = NewQuestion { tool: "Write".to_owned(), ..call(&sandbox.id, "c", "x") };
    let other = world.store.ask_question(own(&sandbox), other).await.expect("it may ask");
    assert_eq!(other.state, QuestionState::Open, "another tool is asked for");
    world.fail_and_retry(&sandbox.id).await;
    let task = sandbox.task_id.clone().expect("a task");
    let second = world.assign(&task).await;
    world.step(&second.id, SandboxTrigger::Create).await;
    assert_eq!(world.ask(&second, "d", "pwd").await.state, QuestionState::Answered);
    let stranger = world.asking(QuestionPolicy::Suspend).await;
    assert_eq!(world.ask(&stranger, "e", "pwd").await.state, QuestionState::Open);
}

/// Where there is no task an answer is remembered in its sandbox; the one to the newest question counts.
pub async fn remembers_without_a_task(world: World) {
    let alone = world.external(vec![event("agent.started", json!({}))]).await;
    let alone = world.get_sandbox(&alone).await;
    assert_eq!(alone.task_id, None);
    let (older, newer) = (world.ask(&alone, "a", "ls").await, world.ask(&alone, "b", "ls").await);
    let always = |answer| NewAnswer { remember: Some(Remember::Tool), ..answer };
    world.store.answer_question(&newer.id, always(deny("no"))).await.expect("open");
    world.store.answer_question(&older.id, always(allow())).await.expect("open");
    let next = world.ask(&alone, "c", "pwd").await;
    assert_eq!((next.state, next.answer), (QuestionState::Answered, Some(Decision::Deny)));
    let other = world.external(vec![event("agent.started", json!({}))]).await;
    let other = world.get_sandbox(&other).await;
    assert_eq!(world.ask(&other, "d", "pwd").await.state, QuestionState::Open);
}

/// Lists by sandbox, by state and by what may be seen, newest first, in pages.
pub async fn lists_questions(world: World) {
    let (one, two) = (world.asking(QuestionPolicy::Deny).await, world.asking(QuestionPolicy::Deny).await);
    let a = world.ask(&one, "a", "ls").await;
    world.ask(&two, "b", "ls").await;
    let c = world.ask(&one, "c", "ls").await;
    world.store.answer_question(&a.id, allow()).await.expect("open");
    let elsewhere = world.project("/elsewhere").await;
    let task = world.task_in(&elsewhere).await;
    let third = world.assign(&task.id).await;
    world.step(&third.id, SandboxTrigger::Create).await;
    world.ask(&third, "d", "ls").await;
    let here = one.project_id.clone().expect("a project");
    let all = QuestionFilter::default;
    let of_one = || QuestionFilter { sandbox_id: Some(one.id.clone()), ..all() };
    let of = |ids: Vec<&ProjectId>| {
        let visible_projects = Some(ids.into_iter().cloned().collect());
        QuestionFilter { visible_projects, ..all() }
    };
    let (open, answered) = (Some(QuestionState::Open), Some(QuestionState::Answered));
    assert_eq!(world.listed(all()).await, ["d", "c", "b", "a"]);
    assert_eq!(world.listed(of_one()).await, ["c", "a"]);
    assert_eq!(world.listed(QuestionFilter { state: open, ..of_one() }).await, ["c"]);
    assert_eq!(world.listed(QuestionFilter { state: open, ..all() }).await, ["d", "c", "b"]);
    assert_eq!(world.listed(of(vec![&here])).await, ["c", "b", "a"]);
    assert_eq!(world.listed(of(vec![&here, &elsewhere.id, &here])).await, ["d", "c", "b", "a"]);
    assert_eq!(world.listed(QuestionFilter { state: open, ..of(vec![&here]) }).await, ["c", "b"]);
    for filter in [all(), of_one(), QuestionFilter { state: answered, ..all() }, of(vec![&here])] {
        let older = QuestionFilter { before: Some(c.id.clone()), ..filter.clone() };
        assert_eq!(world.listed(older).await.last().map(String::as_str), Some("a"));
        let beyond = QuestionFilter { before: Some(a.id.clone()), ..filter.clone() };
        assert!(world.listed(beyond).await.is_empty());
        let hidden = QuestionFilter { visible_projects: Some(Vec::new()), ..filter.clone() };
        assert!(world.listed(hidden).await.is_empty());
        let seen = QuestionFilter { visible_projects: Some(vec![here.clone()]), ..filter };
        assert!(!world.listed(seen).await.is_empty());
    }
    for filter in [all(), of(vec![&here, &elsewhere.id])] {
        let short = QuestionFilter { limit: 1, ..filter };
        assert_eq!(world.store.list_questions(short).await.expect("up")[0].client_id, "d");
    }
}
