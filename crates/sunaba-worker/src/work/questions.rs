//! Asks people, through the server, whether the agent may use a tool.
//!
//! A question is asked under a name made of the call itself, so that a repeated request, another connection or
//! another worker in the same sandbox finds the same question. The server holds it, decides by its policy when nobody
//! answers, and may be away for as long as the bridge is patient; after that the answer is no.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use serde::Deserialize;
use serde_json::{Value, json};
use sunaba_agent::{Answer, Asks, Question};
use sunaba_types::limits::QUESTION_INPUT_MAX_BYTES;
use sunaba_types::{BlobHash, Decision, QuestionState};
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::config::Identity;
use super::http::{self as wire, Client};

const WAIT_SECONDS: u64 = 25;
/// A poll that takes longer than this has met a dead connection.
const POLL_PATIENCE: Duration = Duration::from_secs(WAIT_SECONDS + 35);
/// Longer than the bridge holds a request while the server is away.
const AWAY_PATIENCE: Duration = Duration::from_secs(65 * 60);
const WITHDRAW_PATIENCE: Duration = Duration::from_secs(10);
const PAUSE_FIRST: Duration = Duration::from_millis(50);
const PAUSE_MAX: Duration = Duration::from_secs(5);
const DENIED: &str = "somebody was asked and does not allow this";
const OVER: &str = "this sandbox is over, and nobody can be asked any more";

/// Whoever answers at the other end.
#[derive(Debug, Clone)]
pub(super) struct Questions {
    callback_url: String,
    token: String,
    path: String,
    /// Whether the agent waits for somebody; told in heartbeats.
    waiting: Arc<AtomicBool>,
    /// The server wants nothing more of this sandbox.
    over: CancellationToken,
    /// This process is told to end. Its questions stay: whoever goes on with the work may need the answers.
    terminated: CancellationToken,
}

/// A question as the server tells it.
#[derive(Debug, Deserialize)]
struct Asked {
    id: String,
    state: QuestionState,
    answer: Option<Decision>,
    updated_input: Option<Value>,
    message: Option<String>,
}

/// Why there will be no answer; this is what the model is told.
#[derive(Debug)]
struct Hopeless(String);

impl Questions {
    pub(super) fn new(
        identity: &Identity,
        waiting: &Arc<AtomicBool>,
        over: &CancellationToken,
        terminated: &CancellationToken,
    ) -> Self {
        Self {
            callback_url: identity.callback_url.clone(),
            token: identity.token.clone(),
            path: format!("/api/v1/sandboxes/{}/questions", identity.sandbox_id),
            waiting: Arc::clone(waiting),
            over: over.clone(),
            terminated: terminated.clone(),
        }
    }

    async fn answer_to(&self, question: Question) -> Result<Answer, Hopeless> {
        let body = body(&question)?;
        let mut line = Line::new(self)?;
        let mut asked = line.until_told(Request::Ask(body)).await?;
        let mut open = Open { questions: self, id: Some(asked.id.clone()) };
        while asked.state == QuestionState::Open {
            asked = line.until_told(Request::Wait(asked.id)).await?;
        }
        open.id = None;
        Ok(asked.into_answer())
    }

    async fn withdraw(self, id: String) {
        let Ok(mut client) = Client::new(&self.callback_url, &self.token) else { return };
        let body = Bytes::from_static(br#"{"reason": "the agent was interrupted"}"#);
        let path = format!("{}/{id}/withdraw", self.path);
        let told = client.post(&path, body, WITHDRAW_PATIENCE).await;
        if !matches!(told, Ok(answer) if answer.status.is_success()) {
            // It ends with its sandbox, or by its policy; nobody waits for it.
            tracing::warn!(question = id, "a question could not be withdrawn");
        }
    }
}

#[async_trait]
impl Asks for Questions {
    async fn ask(&self, question: Question) -> Answer {
        self.waiting.store(true, Ordering::Relaxed);
        let answer = self.answer_to(question).await;
        self.waiting.store(false, Ordering::Relaxed);
        answer.unwrap_or_else(|Hopeless(message)| Answer::Deny { message })
    }
}

/// A question somebody waits for; withdrawn when nobody does any more.
struct Open<'a> {
    questions: &'a Questions,
    id: Option<String>,
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let questions = self.questions.clone();
        if questions.over.is_cancelled() || questions.terminated.is_cancelled() {
            return;
        }
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { timeout(WITHDRAW_PATIENCE, questions.withdraw(id)).await });
        }
    }
}

/// What is asked of the server.
enum Request {
    Ask(Bytes),
    Wait(String),
}

/// A connection of its own, so that no other question waits for this one.
struct Line<'a> {
    questions: &'a Questions,
    client: Client,
}

impl<'a> Line<'a> {
    fn new(questions: &'a Questions) -> Result<Self, Hopeless> {
        let client = Client::new(&questions.callback_url, &questions.token);
        let client = client.map_err(|error| Hopeless(format!("nobody can be asked: {error}")))?;
        Ok(Self { questions, client })
    }

    /// Repeats a request until the server tells the question, or says that it never will.
    async fn until_told(&mut self, request: Request) -> Result<Asked, Hopeless> {
        let (mut pause, begun) = (PAUSE_FIRST, Instant::now());
        loop {
            let trouble = match self.once(&request).await {
                Ok(answer) if answer.status.is_success() => match serde_json::from_slice(&answer.body) {
                    Ok(asked) => return Ok(asked),
                    Err(error) => error.to_string(),
                },
                Ok(answer) if answer.says_stop() => {
                    self.questions.over.cancel();
                    return Err(Hopeless(OVER.to_owned()));
                }
                Ok(answer) if is_final(answer.status) => {
                    let code = answer.code().unwrap_or_else(|| answer.status.to_string());
                    return Err(Hopeless(format!("nobody could be asked whether this is allowed ({code})")));
                }
                Ok(answer) => format!("status {}", answer.status),
                Err(error) => error.to_string(),
            };
            if begun.elapsed() > AWAY_PATIENCE {
                return Err(Hopeless("nobody could be asked: the server is away".to_owned()));
            }
            tracing::warn!(error = trouble, "cannot ask; trying again");
            sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn once(&mut self, request: &Request) -> Result<wire::Answer, wire::Error> {
        let path = &self.questions.path;
        match request {
            Request::Ask(body) => self.client.post(path, body.clone(), POLL_PATIENCE).await,
            Request::Wait(id) => {
                self.client.get(&format!("{path}/{id}?wait={WAIT_SECONDS}"), POLL_PATIENCE).await
            }
        }
    }
}

impl Asked {
    fn into_answer(self) -> Answer {
        match self.answer {
            Some(Decision::Allow) => Answer::Allow { instead: self.updated_input },
            Some(Decision::Deny) => {
                Answer::Deny { message: self.message.unwrap_or_else(|| DENIED.to_owned()) }
            }
            None => Answer::Deny { message: "the question was withdrawn before it was answered".to_owned() },
        }
    }
}

/// Whether asking again would be told the same.
fn is_final(status: StatusCode) -> bool {
    status.is_client_error()
        && ![StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS].contains(&status)
}

/// The question as it is sent. Its name is made of everything it says.
fn body(question: &Question) -> Result<Bytes, Hopeless> {
    let Question { tool_use_id, tool, input } = question;
    let text = input.to_string();
    if text.len() > QUESTION_INPUT_MAX_BYTES {
        return Err(Hopeless(format!(
            "this call has {} bytes, and nobody can be asked about more than {QUESTION_INPUT_MAX_BYTES}; make it smaller",
            text.len()
        )));
    }
    let name = BlobHash::of(format!("{tool_use_id}\0{tool}\0{text}").as_bytes());
    let body = json!({"client_id": name, "tool": tool, "tool_use_id": tool_use_id, "input": input});
    Ok(Bytes::from(body.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn question(tool_use_id: &str, input: Value) -> Question {
        Question { tool_use_id: tool_use_id.to_owned(), tool: "Bash".to_owned(), input }
    }

    #[test]
    fn the_same_call_has_the_same_name_and_no_other_has() {
        let name = |question: &Question| -> Value {
            serde_json::from_slice::<Value>(&body(question).unwrap()).unwrap()["client_id"].clone()
        };
        let one = question("t1", json!({"command": "ls"}));
        assert_eq!(name(&one), name(&one.clone()));
        assert_ne!(name(&one), name(&question("t2", json!({"command": "ls"}))));
        assert_ne!(name(&one), name(&question("t1", json!({"command": "pwd"}))));
        let long = question("t1", json!({"command": "x".repeat(QUESTION_INPUT_MAX_BYTES)}));
        assert!(body(&long).unwrap_err().0.contains("make it smaller"));
    }

    #[test]
    fn what_will_not_change_is_not_asked_again() {
        for (status, expected) in
            [(400, true), (404, true), (422, true), (408, false), (429, false), (503, false)]
        {
            assert_eq!(is_final(StatusCode::from_u16(status).unwrap()), expected, "{status}");
        }
    }

    #[test]
    fn every_answer_reaches_the_agent_in_its_own_words() {
        let asked = |answer, updated_input: Option<Value>, message: Option<&str>| Asked {
            id: "q".to_owned(),
            state: QuestionState::Answered,
            answer,
            updated_input,
            message: message.map(str::to_owned),
        };
        let instead = Some(json!({"command": "true"}));
        assert_eq!(
            asked(Some(Decision::Allow), instead.clone(), None).into_answer(),
            Answer::Allow { instead }
        );
        assert_eq!(
            asked(Some(Decision::Deny), None, Some("no")).into_answer(),
            Answer::Deny { message: "no".to_owned() }
        );
        let silent = asked(Some(Decision::Deny), None, None).into_answer();
        assert_eq!(silent, Answer::Deny { message: DENIED.to_owned() });
    }
}
