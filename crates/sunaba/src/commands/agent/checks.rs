//! What is looked for while an agent is tried, event by event. No input or output: what to do about it is said.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use sunaba_types::SandboxState;
use tokio::time::Instant;

use crate::client::Event;

/// What is said to the agent; the script refuses to end without it.
pub(super) const MESSAGE: &str = "turn-left-at-the-dune";
/// What it is told with the interrupt.
pub(super) const INTERRUPT: &str = "leave-it-and-finish";

/// One thing that was tried.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
pub(super) struct Check {
    pub(super) name: &'static str,
    pub(super) ok: bool,
    /// How long it took.
    pub(super) ms: Option<u64>,
    /// What was seen.
    pub(super) detail: String,
}

/// Something to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    Message,
    Interrupt,
}

/// What has been seen so far.
#[derive(Debug)]
pub(super) struct Watch {
    asked: Instant,
    started: Option<Duration>,
    tool_began: Option<Instant>,
    tool: Option<Duration>,
    message: Said,
    interrupt: Said,
    done: Option<Duration>,
    error: Option<String>,
}

/// Something that was said to the agent.
#[derive(Debug, Default)]
struct Said {
    sent: Option<(Instant, String)>,
    heard: Option<Duration>,
}

impl Said {
    fn is_about(&self, event: &Event) -> bool {
        self.sent.as_ref().is_some_and(|(_, id)| event.text("message_id") == Some(id))
    }

    fn hear(&mut self, now: Instant) {
        if let Some((sent, _)) = &self.sent {
            self.heard.get_or_insert(now - *sent);
        }
    }
}

impl Watch {
    pub(super) fn new(asked: Instant) -> Self {
        Self {
            asked,
            started: None,
            tool_began: None,
            tool: None,
            message: Said::default(),
            interrupt: Said::default(),
            done: None,
            error: None,
        }
    }

    /// Takes the next event; says what is to be done about it.
    pub(super) fn see(&mut self, event: &Event, now: Instant) -> Option<Act> {
        match event.event_type.as_str() {
            "agent.tool_use" => return self.tool_use(event, now),
            "agent.tool_completed" if event.event_data.to_string().contains("sand-42") => {
                let began = self.tool_began.unwrap_or(now);
                self.tool.get_or_insert(now - began);
            }
            "agent.message_injected" if self.message.is_about(event) => self.message.hear(now),
            "agent.interrupted" if self.interrupt.is_about(event) => self.interrupt.hear(now),
            "agent.completed" => _ = self.done.get_or_insert(now - self.asked),
            "agent.error" => self.error = event.text("error").map(str::to_owned).or_else(|| told(event)),
            _ => {}
        }
        None
    }

    fn tool_use(&mut self, event: &Event, now: Instant) -> Option<Act> {
        let asked = event.event_data.to_string();
        self.tool_began.get_or_insert(now);
        self.started.get_or_insert(now - self.asked);
        let is_new = |said: &Said| said.sent.is_none();
        if asked.contains("waited-for-a-message") && is_new(&self.message) {
            return Some(Act::Message);
        }
        (asked.contains("waited-for-an-interrupt") && is_new(&self.interrupt)).then_some(Act::Interrupt)
    }

    /// Something was said, and has this id.
    pub(super) fn sent(&mut self, act: Act, id: String, now: Instant) {
        let said = match act {
            Act::Message => &mut self.message,
            Act::Interrupt => &mut self.interrupt,
        };
        said.sent = Some((now, id));
    }

    /// What came of everything. The diff is that of the branch; none when there is no branch.
    pub(super) fn verdict(
        self,
        ended: Option<SandboxState>,
        reason: Option<&str>,
        diff: Option<&str>,
    ) -> Vec<Check> {
        let made = diff.is_some_and(|diff| {
            diff.contains("+++ b/agent-test.txt") && diff.contains("+three") && !diff.contains("+two")
        });
        let why = self.error.as_deref().or(reason);
        let completed = ended == Some(SandboxState::Completed);
        let end = match (ended, why) {
            (Some(SandboxState::Completed), _) => "the script was played to its end".to_owned(),
            (Some(state), Some(why)) => format!("{state}: {why}"),
            (Some(state), None) => state.to_string(),
            (None, _) => "not ended in time".to_owned(),
        };
        vec![
            timed("start", self.started, "the agent is up and has asked the model"),
            timed("tool", self.tool, "a command ran, and its output was told"),
            Check {
                name: "edit",
                ok: made,
                ms: None,
                detail: if made {
                    "a file was made and changed"
                } else {
                    "the branch does not have the file as it should be"
                }
                .to_owned(),
            },
            timed("message", self.message.heard, "said during a command of 2 s, taken into the conversation"),
            timed("interrupt", self.interrupt.heard, "a command of 300 s was stopped, and the agent went on"),
            Check { name: "end", ok: completed, ms: self.done.map(millis), detail: end },
        ]
    }
}

fn millis(took: Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

fn timed(name: &'static str, took: Option<Duration>, what: &str) -> Check {
    let detail = if took.is_some() { what.to_owned() } else { format!("not seen: {what}") };
    Check { name, ok: took.is_some(), ms: took.map(millis), detail }
}

fn told(event: &Event) -> Option<String> {
    event.event_data.get("message").and_then(Value::as_str).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DIFF: &str = "+++ b/agent-test.txt\n+one\n+three\n";

    fn event(event_type: &str, data: Value) -> Event {
        Event {
            id: "e".into(),
            seq: 1,
            sandbox_id: "s".into(),
            event_type: event_type.into(),
            event_data: data,
            source: "agent".into(),
            created_at: "2026-01-01T00:00:00Z".parse().unwrap(),
        }
    }

    fn names(checks: &[Check], ok: bool) -> Vec<&'static str> {
        checks.iter().filter(|check| check.ok == ok).map(|check| check.name).collect()
    }

    #[test]
    fn a_run_in_which_everything_happened_passes() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut watch = Watch::new(began);
        let bash = |command: &str| json!({"tool": "Bash", "input": {"command": command}});
        watch.see(&event("agent.started", json!({})), at(100));
        assert_eq!(watch.see(&event("agent.tool_use", bash("echo sand-$((40 + 2))")), at(200)), None);
        watch.see(&event("agent.tool_completed", json!({"tool_response": "sand-42"})), at(230));
        let waits = event("agent.tool_use", bash("sleep 2; echo waited-for-a-message"));
        assert_eq!(watch.see(&waits, at(300)), Some(Act::Message));
        watch.sent(Act::Message, "m1".to_owned(), at(310));
        assert_eq!(watch.see(&waits, at(320)), None, "it is said once");
        watch.see(&event("agent.message_injected", json!({"message_id": "another"})), at(400));
        watch.see(&event("agent.message_injected", json!({"message_id": "m1"})), at(2310));
        let long = event("agent.tool_use", bash("sleep 300; echo waited-for-an-interrupt"));
        assert_eq!(watch.see(&long, at(2400)), Some(Act::Interrupt));
        watch.sent(Act::Interrupt, "m2".to_owned(), at(2400));
        watch.see(&event("agent.interrupted", json!({"message_id": "m2"})), at(2450));
        watch.see(&event("agent.completed", json!({})), at(2600));
        let checks = watch.verdict(Some(SandboxState::Completed), None, Some(DIFF));
        assert_eq!(names(&checks, false), Vec::<&str>::new(), "{checks:?}");
        let times: Vec<_> = checks.iter().map(|check| check.ms).collect();
        assert_eq!(times, [Some(200), Some(30), None, Some(2000), Some(50), Some(2600)]);
    }

    #[test]
    fn what_did_not_happen_fails_and_says_why() {
        let mut watch = Watch::new(Instant::now());
        watch.see(&event("agent.started", json!({})), Instant::now());
        watch.see(&event("agent.error", json!({"error": "the program is not there"})), Instant::now());
        let checks = watch.verdict(Some(SandboxState::Failed), Some("agent_failed"), None);
        assert_eq!(names(&checks, true), Vec::<&str>::new());
        assert!(checks.last().unwrap().detail.contains("the program is not there"), "{checks:?}");
        let unchanged = "+++ b/agent-test.txt\n+one\n+two\n";
        let checks = Watch::new(Instant::now()).verdict(None, None, Some(unchanged));
        assert_eq!(names(&checks, true), Vec::<&str>::new(), "the change is missing");
    }
}
