//! Questions.

use serde_json::Value;
use sunaba_types::{
    Decision, ProjectId, Question, QuestionId, QuestionPolicy, QuestionState, Remember, SandboxId, TaskId,
};

use super::{Unreadable, maybe_time, readable, time};
use crate::page::Weight;

/// A row of `questions`.
#[derive(Debug)]
pub struct QuestionRow {
    pub id: String,
    pub sandbox_id: String,
    pub project_id: Option<String>,
    pub task_id: Option<String>,
    pub attempt: i64,
    pub client_id: String,
    pub tool: String,
    pub tool_use_id: String,
    pub input: String,
    pub policy: String,
    pub asked_at: i64,
    pub expires_at: i64,
    pub state: String,
    pub answer: Option<String>,
    pub updated_input: Option<String>,
    pub message: Option<String>,
    pub remember: Option<String>,
    pub answered_by: Option<String>,
    pub answered_at: Option<i64>,
    pub reason: Option<String>,
}

impl Weight for QuestionRow {
    fn weight(&self) -> usize {
        self.input.len() + self.updated_input.as_ref().map_or(0, String::len)
    }
}

impl TryFrom<QuestionRow> for Question {
    type Error = Unreadable;

    fn try_from(row: QuestionRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "questions";
        let key = row.id.clone();
        let answer = row.answer.map(|text| readable(Decision::parse(&text), TABLE, "answer", &key));
        let remember = row.remember.map(|text| readable(Remember::parse(&text), TABLE, "remember", &key));
        Ok(Self {
            id: readable(QuestionId::parse(row.id).ok(), TABLE, "id", &key)?,
            sandbox_id: readable(SandboxId::parse(row.sandbox_id).ok(), TABLE, "sandbox_id", &key)?,
            project_id: row
                .project_id
                .map(|id| readable(ProjectId::parse(id).ok(), TABLE, "project_id", &key))
                .transpose()?,
            task_id: row
                .task_id
                .map(|id| readable(TaskId::parse(id).ok(), TABLE, "task_id", &key))
                .transpose()?,
            attempt: row.attempt,
            client_id: row.client_id,
            tool: row.tool,
            tool_use_id: row.tool_use_id,
            input: object(&row.input, "input", &key)?,
            policy: readable(QuestionPolicy::parse(&row.policy), TABLE, "policy", &key)?,
            asked_at: time(row.asked_at, TABLE, "asked_at", &key)?,
            expires_at: time(row.expires_at, TABLE, "expires_at", &key)?,
            state: readable(QuestionState::parse(&row.state), TABLE, "state", &key)?,
            answer: answer.transpose()?,
            updated_input: row.updated_input.map(|text| object(&text, "updated_input", &key)).transpose()?,
            message: row.message,
            remember: remember.transpose()?,
            answered_by: row.answered_by,
            answered_at: maybe_time(row.answered_at, TABLE, "answered_at", &key)?,
            reason: row.reason,
        })
    }
}

fn object(text: &str, column: &'static str, key: &str) -> Result<Value, Unreadable> {
    readable(serde_json::from_str(text).ok(), "questions", column, key)
}
