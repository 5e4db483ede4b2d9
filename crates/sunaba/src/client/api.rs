//! The server's routes as calls: one method a question, typed answers.

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use sunaba_types::limits::EVENTS_PAGE_MAX;
use sunaba_types::{MessageType, Project, Question, QuestionState, Task, TokenRecord};

use super::http::Client;
use super::wire::{Event, EventPage, MessageFate, Sandbox, SentMessage};
use crate::failure::{Failure, Outcome};

/// The states of sandboxes that have not ended.
pub(crate) const LIVING: &str = "pending,creating,running,completing";
/// How many projects are asked for at once.
const PROJECTS_PAGE: usize = 500;

/// A sandbox to be asked for.
#[derive(Debug, Serialize)]
pub(crate) struct SandboxRequest<'a> {
    /// The project of the task that is made for it.
    pub(crate) project_id: &'a str,
    /// That task's title.
    pub(crate) title: &'a str,
    /// What the agent is told.
    pub(crate) prompt: &'a str,
    /// Which model; none leaves it to the server.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) model: Option<String>,
    /// On what terms.
    #[serde(flatten)]
    pub(crate) terms: Value,
}

impl Client {
    /// Makes a project for a repository on the server's disk, or gives the one there is.
    pub(crate) async fn ensure_project(&self, name: &str, repo_path: &str, branch: &str) -> Outcome<Project> {
        let body = json!({ "name": name, "repo_path": repo_path, "default_branch": branch });
        self.post("/api/v1/projects", &body).await
    }

    /// Every project that this client may see.
    pub(crate) async fn projects(&self) -> Outcome<Vec<Project>> {
        let mut all: Vec<Project> = Vec::new();
        loop {
            let after = all.last().map(|project| format!("&after={}", project.id)).unwrap_or_default();
            let page: Vec<Project> =
                self.list(&format!("/api/v1/projects?limit={PROJECTS_PAGE}{after}"), "projects").await?;
            let is_last = page.len() < PROJECTS_PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    /// A project as the server shows it.
    pub(crate) async fn project(&self, id: &str) -> Outcome<Value> {
        self.get(&format!("/api/v1/projects/{}", segment(id))).await
    }

    /// Changes settings of a project.
    pub(crate) async fn update_project(&self, id: &str, settings: &Value) -> Outcome<Value> {
        self.patch(&format!("/api/v1/projects/{}", segment(id)), &json!({ "settings": settings })).await
    }

    /// Sets a secret of a project.
    pub(crate) async fn put_secret(&self, id: &str, name: &str, value: &str) -> Outcome<Value> {
        let path = format!("/api/v1/projects/{}/secrets/{}", segment(id), segment(name));
        self.put(&path, &json!({ "value": value })).await
    }

    /// The names of a project's secrets.
    pub(crate) async fn secrets(&self, id: &str) -> Outcome<Vec<Value>> {
        self.list(&format!("/api/v1/projects/{}/secrets", segment(id)), "secrets").await
    }

    /// Forgets a secret of a project.
    pub(crate) async fn delete_secret(&self, id: &str, name: &str) -> Outcome<()> {
        self.forget(&format!("/api/v1/projects/{}/secrets/{}", segment(id), segment(name))).await
    }

    /// What each provider of the server enforces.
    pub(crate) async fn isolation(&self) -> Outcome<Value> {
        self.get("/api/v1/system/isolation").await
    }

    /// The agents that are known, and whether each is there.
    pub(crate) async fn agents(&self) -> Outcome<Value> {
        self.get("/api/v1/agents").await
    }

    /// The nodes, and how far behind anything is.
    pub(crate) async fn status(&self) -> Outcome<Value> {
        self.get("/api/v1/system/status").await
    }

    /// Gives up a node that will not come back.
    pub(crate) async fn give_up_node(&self, id: &str) -> Outcome<Value> {
        self.post(&format!("/api/v1/system/nodes/{}/lost", segment(id)), &json!({})).await
    }

    /// What a sandbox used.
    pub(crate) async fn usage(&self, id: &str) -> Outcome<Value> {
        self.get(&format!("/api/v1/sandboxes/{}/usage", segment(id))).await
    }

    /// A task.
    pub(crate) async fn task(&self, id: &str) -> Outcome<Task> {
        self.get(&format!("/api/v1/tasks/{}", segment(id))).await
    }

    /// Asks for a sandbox.
    pub(crate) async fn create_sandbox(&self, request: &SandboxRequest<'_>) -> Outcome<Sandbox> {
        self.post("/api/v1/sandboxes", request).await
    }

    /// A sandbox, if there is one of this id.
    pub(crate) async fn find_sandbox(&self, id: &str) -> Outcome<Option<Sandbox>> {
        match self.sandbox(id).await {
            Ok(sandbox) => Ok(Some(sandbox)),
            Err(Failure::Refused(problem)) if matches!(problem.status, 404 | 422) => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// A sandbox.
    pub(crate) async fn sandbox(&self, id: &str) -> Outcome<Sandbox> {
        self.get(&format!("/api/v1/sandboxes/{}", segment(id))).await
    }

    /// Sandboxes, newest first; `states` is a comma list.
    pub(crate) async fn sandboxes(&self, states: Option<&str>, limit: u32) -> Outcome<Vec<Sandbox>> {
        let states = states.map(|states| format!("&state={states}")).unwrap_or_default();
        self.list(&format!("/api/v1/sandboxes?limit={limit}{states}"), "sandboxes").await
    }

    /// Sandboxes older than this one, newest first.
    pub(crate) async fn sandboxes_before(&self, id: Option<&str>, limit: u32) -> Outcome<Vec<Sandbox>> {
        let before = id.map(|id| format!("&before={}", segment(id))).unwrap_or_default();
        self.list(&format!("/api/v1/sandboxes?limit={limit}{before}"), "sandboxes").await
    }

    /// Ends a sandbox.
    pub(crate) async fn stop(&self, id: &str) -> Outcome<Sandbox> {
        self.delete(&format!("/api/v1/sandboxes/{}", segment(id))).await
    }

    /// The place of the newest event; 0 when there is none.
    pub(crate) async fn last_seq(&self, id: &str) -> Outcome<i64> {
        let page: EventPage = self.get(&format!("/api/v1/sandboxes/{}/events?limit=1", segment(id))).await?;
        Ok(page.events.first().map_or(0, |event| event.seq))
    }

    /// The next events from a place on, oldest first. Places have no gaps, so a window of them is a page.
    pub(crate) async fn events_from(&self, id: &str, first_seq: i64) -> Outcome<Vec<Event>> {
        let after = first_seq - 1;
        let before = after + i64::from(EVENTS_PAGE_MAX) + 1;
        let path = format!(
            "/api/v1/sandboxes/{}/events?limit={EVENTS_PAGE_MAX}&after_seq={after}&before_seq={before}",
            segment(id)
        );
        let mut page: EventPage = self.get(&path).await?;
        page.events.reverse();
        Ok(page.events)
    }

    /// What a sandbox's processes printed.
    pub(crate) async fn raw_output(&self, id: &str) -> Outcome<String> {
        self.get_text(&format!("/api/v1/sandboxes/{}/logs", segment(id))).await
    }

    /// What a sandbox changed, as a unified diff; `from`, `to` and `path` say which part.
    pub(crate) async fn diff(&self, id: &str, between: &[(&str, Option<&str>)]) -> Outcome<String> {
        self.get_text(&format!("/api/v1/sandboxes/{}/diff?{}", segment(id), query(between))).await
    }

    /// The same, with a summary of each file.
    pub(crate) async fn diff_summary(&self, id: &str, between: &[(&str, Option<&str>)]) -> Outcome<Value> {
        self.get(&format!("/api/v1/sandboxes/{}/diff?format=json&{}", segment(id), query(between))).await
    }

    /// What is at a path after an event.
    pub(crate) async fn files(&self, id: &str, at: &str, path: &str) -> Outcome<Value> {
        let query = query(&[("at", Some(at)), ("path", Some(path))]);
        self.get(&format!("/api/v1/sandboxes/{}/files?{query}", segment(id))).await
    }

    /// Starts another sandbox from the files that one had.
    pub(crate) async fn fork(&self, id: &str, body: &Value) -> Outcome<Value> {
        self.post(&format!("/api/v1/sandboxes/{}/fork", segment(id)), body).await
    }

    /// A file's content after an event.
    pub(crate) async fn file_bytes(&self, id: &str, at: &str, path: &str) -> Outcome<Vec<u8>> {
        let query = query(&[("format", Some("raw")), ("at", Some(at)), ("path", Some(path))]);
        self.get_bytes(&format!("/api/v1/sandboxes/{}/files?{query}", segment(id))).await
    }

    /// Turns at a glance.
    pub(crate) async fn outline(&self, id: &str) -> Outcome<Value> {
        self.get(&format!("/api/v1/sandboxes/{}/outline", segment(id))).await
    }

    /// Whether the chain of a sandbox's log holds.
    pub(crate) async fn verify(&self, id: &str) -> Outcome<Value> {
        self.get(&format!("/api/v1/sandboxes/{}/verify", segment(id))).await
    }

    /// Says something to an agent.
    pub(crate) async fn send(&self, id: &str, text: &str, kind: MessageType) -> Outcome<SentMessage> {
        let body = json!({ "content": text, "message_type": kind });
        self.post(&format!("/api/v1/sandboxes/{}/messages", segment(id)), &body).await
    }

    /// Every message with its fate, oldest first.
    pub(crate) async fn message_history(&self, id: &str) -> Outcome<Vec<MessageFate>> {
        self.list(&format!("/api/v1/sandboxes/{}/messages/history", segment(id)), "messages").await
    }

    /// What agents ask, newest first.
    pub(crate) async fn questions(
        &self,
        sandbox: Option<&str>,
        state: Option<QuestionState>,
        limit: u32,
    ) -> Outcome<Vec<Question>> {
        let place = sandbox.map(|id| format!("/sandboxes/{}", segment(id))).unwrap_or_default();
        let state = state.map(|state| format!("&state={state}")).unwrap_or_default();
        self.list(&format!("/api/v1{place}/questions?limit={limit}{state}"), "questions").await
    }

    /// Answers a question.
    pub(crate) async fn answer(&self, sandbox: &str, question: &str, body: &Value) -> Outcome<Question> {
        let (sandbox, question) = (segment(sandbox), segment(question));
        self.post(&format!("/api/v1/sandboxes/{sandbox}/questions/{question}/answer"), body).await
    }

    /// Stores bytes; gives their hash.
    pub(crate) async fn put_blob(&self, bytes: Vec<u8>) -> Outcome<String> {
        let answer: Value = self.post_bytes("/api/v1/blobs", bytes).await?;
        let hash = answer.get("hash").and_then(Value::as_str);
        hash.map(str::to_owned).ok_or_else(|| Failure::other("the server did not say the blob's hash"))
    }

    /// Makes a token; the answer holds it, this once.
    pub(crate) async fn create_token(&self, body: &Value) -> Outcome<Value> {
        self.post("/api/v1/tokens", body).await
    }

    /// Every token, without the tokens themselves.
    pub(crate) async fn tokens(&self) -> Outcome<Vec<TokenRecord>> {
        self.list("/api/v1/tokens", "tokens").await
    }

    /// Revokes a token.
    pub(crate) async fn revoke_token(&self, id: &str) -> Outcome<TokenRecord> {
        self.delete(&format!("/api/v1/tokens/{}", segment(id))).await
    }

    /// A list that stands under `key` of the answer.
    async fn list<T: DeserializeOwned>(&self, path: &str, key: &str) -> Outcome<Vec<T>> {
        let mut answer: Value = self.get(path).await?;
        let list = answer.get_mut(key).map(Value::take);
        let list = list.ok_or_else(|| Failure::other(format!("the server's answer has no {key}")))?;
        Ok(serde_json::from_value(list)?)
    }
}

/// A piece of a path; a word that a person typed may hold anything.
pub(crate) fn segment(word: &str) -> String {
    let mut text = String::new();
    for byte in word.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.:@+=".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// The part of an address that holds what is given.
pub(crate) fn query(given: &[(&str, Option<&str>)]) -> String {
    let pairs =
        given.iter().filter_map(|(name, value)| value.map(|value| format!("{name}={}", segment(value))));
    pairs.collect::<Vec<_>>().join("&")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_cannot_leave_its_place_in_the_path() {
        assert_eq!(segment("sbx_01"), "sbx_01");
        assert_eq!(segment("a/../b?c#d e"), "a%2F..%2Fb%3Fc%23d%20e");
    }
}
