//! Messages to agents and their fate.
//!
//! Whoever takes messages as the sandbox itself ([`Writer::Sandbox`]) is fenced like any other write:
//! [`crate::Error::Conflict`] `attempt_superseded` or, ten minutes after the end, `sandbox_ended`.

use async_trait::async_trait;
use sunaba_types::{Message, MessageId, NewMessage, SandboxId};

use crate::{Result, Writer};

/// How a worker takes messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TakeMode {
    /// Handed over until acknowledged, offered again after 30 s.
    Explicit {
        /// Messages the worker now says it has.
        acknowledged: Vec<MessageId>,
        /// Whether what it has not acknowledged is offered again at once: it lost an answer, or has just begun.
        again: bool,
    },
    /// Handed over once; the next legacy poll acknowledges.
    Legacy,
}

/// A message that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Queued {
    /// The message.
    pub message: Message,
    /// How many wait now, this one included.
    pub queue_size: i64,
}

/// Messages.
#[async_trait]
pub trait MessageStore {
    /// Queues a message. [`crate::Error::Full`] (`message_queue_full`) at 1,000 waiting;
    /// [`crate::Error::Conflict`] (`sandbox_ended`) when nobody will ever take it.
    async fn queue_message(&self, message: NewMessage) -> Result<Queued>;

    /// Hands over what waits: interrupts first, then oldest first. Acknowledges what the mode says.
    /// Empty when nothing waits; such a call writes nothing.
    async fn take_messages(&self, sandbox_id: &SandboxId, by: Writer, mode: TakeMode)
    -> Result<Vec<Message>>;

    /// What a legacy poll gets: acknowledges what earlier legacy polls took and shows what waits, which
    /// [`MessageStore::hand_over`] then hands over.
    async fn offer_messages(&self, sandbox_id: &SandboxId, by: Writer) -> Result<Vec<Message>>;

    /// Hands over what a legacy poll was shown, once it surely has it.
    async fn hand_over(&self, sandbox_id: &SandboxId, by: Writer, ids: Vec<MessageId>) -> Result<()>;

    /// What waits or is handed over and not acknowledged, without effect; at most [`crate::PAGE_BYTES`].
    async fn peek_messages(&self, sandbox_id: &SandboxId) -> Result<Vec<Message>>;

    /// Every message with its fate, oldest first, after message number `after_seq`.
    async fn message_history(
        &self,
        sandbox_id: &SandboxId,
        after_seq: i64,
        limit: u32,
    ) -> Result<Vec<Message>>;

    /// A message by id.
    async fn find_message(&self, id: &MessageId) -> Result<Option<Message>>;
}
