//! What the agent asks before it does it, and what the answer makes of it.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use serde_json::{Value, json};
use sunaba_agent::{Answer, Asks, PermissionMode, Question};
use sunaba_types::MessageType;
use tokio::sync::Notify;

use crate::fake_model::{asks, says};
use crate::harness::{Harness, Setup, tool_result};

/// Answers by a rule and keeps what it was asked.
struct Somebody {
    asked: Mutex<Vec<Question>>,
    rule: fn(&Question) -> Answer,
}

impl Somebody {
    fn who(rule: fn(&Question) -> Answer) -> Arc<Self> {
        Arc::new(Self { asked: Mutex::default(), rule })
    }

    fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|question| question.tool_use_id.clone()).collect()
    }
}

#[async_trait]
impl Asks for Somebody {
    async fn ask(&self, question: Question) -> Answer {
        let answer = (self.rule)(&question);
        self.asked.lock().unwrap().push(question);
        answer
    }
}

fn allow(_: &Question) -> Answer {
    Answer::Allow { instead: None }
}

fn deny(_: &Question) -> Answer {
    Answer::Deny { message: "not today".to_owned() }
}

fn setup(permission_mode: PermissionMode, asks: Arc<dyn Asks>) -> Setup {
    Setup { permission_mode, asks, ..Setup::default() }
}

fn every_tool() -> Vec<(&'static str, Value)> {
    vec![
        ("Write", json!({"file_path": "a", "content": "x"})),
        ("Edit", json!({"file_path": "a", "old_string": "x", "new_string": "y"})),
        ("Write", json!({"file_path": "../outside-of-the-tree/b", "content": "x"})),
        ("Bash", json!({"command": "echo hello"})),
        ("Read", json!({"file_path": "a"})),
        ("Glob", json!({"pattern": "*"})),
        ("Grep", json!({"pattern": "x"})),
    ]
}

#[tokio::test]
async fn each_mode_asks_for_what_it_says() {
    for (mode, asked) in [
        (PermissionMode::Bypass, &[][..]),
        (PermissionMode::AcceptEdits, &["t2", "t3"]),
        (PermissionMode::Ask, &["t0", "t1", "t2", "t3"]),
    ] {
        let somebody = Somebody::who(deny);
        let setup = setup(mode, Arc::clone(&somebody) as Arc<dyn Asks>);
        let mut tools = every_tool();
        if mode == PermissionMode::Bypass {
            tools.remove(2);
        }
        let mut harness = Harness::start_with(vec![asks(&tools), says("done")], setup, |_| ()).await;
        assert!(harness.outcome().await.success());
        assert_eq!(somebody.asked(), asked, "{mode:?}");
        let request = &harness.model.requests()[1];
        for id in asked {
            assert_eq!(tool_result(request, id), ("not today".to_owned(), true), "{mode:?}");
        }
        assert_eq!(harness.dir.path().join("a").exists(), mode != PermissionMode::Ask);
    }
}

#[tokio::test]
async fn what_is_allowed_runs_as_it_was_asked_for() {
    let somebody = Somebody::who(allow);
    let setup = setup(PermissionMode::Ask, Arc::clone(&somebody) as Arc<dyn Asks>);
    let acts = vec![asks(&[("Bash", json!({"command": "echo hello"}))]), says("done")];
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    assert!(harness.outcome().await.success());
    assert_eq!(tool_result(&harness.model.requests()[1], "t0"), ("hello\n".to_owned(), false));
    let question = somebody.asked.lock().unwrap()[0].clone();
    let expected = Question {
        tool_use_id: "t0".to_owned(),
        tool: "Bash".to_owned(),
        input: json!({"command": "echo hello"}),
    };
    assert_eq!(question, expected);
}

#[tokio::test]
async fn what_is_rewritten_runs_as_rewritten_and_the_model_knows() {
    let rule = |_: &Question| Answer::Allow { instead: Some(json!({"command": "echo safe"})) };
    let setup = setup(PermissionMode::AcceptEdits, Somebody::who(rule));
    let acts = vec![asks(&[("Bash", json!({"command": "touch danger"}))]), says("done")];
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    assert!(harness.outcome().await.success());
    assert!(!harness.dir.path().join("danger").exists());
    let (content, is_error) = tool_result(&harness.model.requests()[1], "t0");
    let note = "[the arguments were changed before it ran: {\"command\":\"echo safe\"}]\nsafe\n";
    assert_eq!((content.as_str(), is_error), (note, false));
    assert_eq!(harness.told_of("agent.tool_use")[0]["input"], json!({"command": "touch danger"}));
    assert_eq!(harness.told_of("agent.tool_completed")[0]["tool_input"], json!({"command": "echo safe"}));
}

/// Never answers.
#[derive(Default)]
struct Nobody {
    asked: Notify,
}

#[async_trait]
impl Asks for Nobody {
    async fn ask(&self, _: Question) -> Answer {
        self.asked.notify_one();
        std::future::pending().await
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_question_too() {
    let nobody = Arc::new(Nobody::default());
    let setup = setup(PermissionMode::Ask, Arc::clone(&nobody) as Arc<dyn Asks>);
    let acts = vec![asks(&[("Bash", json!({"command": "touch x"}))]), says("as you say")];
    let mut harness = Harness::start_with(acts, setup, |_| ()).await;
    nobody.asked.notified().await;
    harness.send("message_1", MessageType::Interrupt, "leave it").await;
    assert_eq!(harness.outcome().await.final_output, "as you say");
    let (content, is_error) = tool_result(&harness.model.requests()[1], "t0");
    assert!(is_error && content.contains("interrupted before it ran"), "{content}");
    assert!(!harness.dir.path().join("x").exists());
}
