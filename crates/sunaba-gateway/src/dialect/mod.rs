//! How vendors word requests and answers. The script and the recording speak none of these.

mod anthropic;

use bytes::Bytes;
use serde_json::Value;

use crate::script::{Conversation, Reply};

pub(crate) use anthropic::Anthropic;

/// A vendor's way of wording requests and answers.
pub(crate) trait Dialect: Send + Sync + 'static {
    /// Its name in events.
    fn name(&self) -> &'static str;
    /// Reads a request; the error says what is wrong with it.
    fn read(&self, body: &[u8]) -> Result<Conversation, String>;
    /// An error's body.
    fn error(&self, kind: &str, message: &str) -> Value;
    /// An answer in one piece.
    fn whole(&self, model: &str, reply: &Reply) -> Value;
    /// An answer as a stream, in the pieces in which it is sent.
    fn stream(&self, model: &str, reply: &Reply) -> Vec<Bytes>;
}
