//! What an agent may do without asking, and how it asks.

use async_trait::async_trait;
use serde_json::Value;

pub use sunaba_types::PermissionMode;

/// An agent asks whether it may use a tool.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// The call that waits for the answer.
    pub tool_use_id: String,
    /// The tool.
    pub tool: String,
    /// What it is to do.
    pub input: Value,
}

/// The answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Answer {
    /// It may.
    Allow {
        /// What it is to do instead of what it asked for.
        instead: Option<Value>,
    },
    /// It may not.
    Deny {
        /// What the model is told.
        message: String,
    },
}

/// Whoever allows.
#[async_trait]
pub trait Asks: Send + Sync {
    /// Asks and waits for the answer. Every implementation bounds its wait and answers by its own policy when
    /// nobody else did. Dropped when the question no longer matters.
    async fn ask(&self, question: Question) -> Answer;
}

/// Allows nothing, at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct NobodyToAsk;

#[async_trait]
impl Asks for NobodyToAsk {
    async fn ask(&self, question: Question) -> Answer {
        let message = format!("{} is not allowed here, and there is nobody to ask", question.tool);
        Answer::Deny { message }
    }
}
