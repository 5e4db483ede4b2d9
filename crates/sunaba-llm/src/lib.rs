//! The Messages API as an agent needs it: wire types, a stream parser, a streaming client.
//!
//! The client speaks plain HTTP/1.1, because inside a sandbox the only door is the loopback bridge: no TLS,
//! no proxy, no connection pool. Every call opens one connection, and dropping the call closes it, so an
//! interrupt ends the model call at the other side too.
//!
//! This crate never retries. It says of each error whether another try may help ([`Error::is_retryable`]);
//! whoever owns the conversation decides, because only it can show the retry and be interrupted in it.

mod client;
mod error;
mod hints;
mod reply;
mod sse;
mod stream;
mod types;

pub use client::{ApiKey, Client, ClientConfig, ReplyStream};
pub use error::Error;
pub use reply::{Accumulator, Reply};
pub use sse::{SseError, SseEvent, SseParser};
pub use stream::{BlockDelta, MessageDelta, MessageHead, StreamError, StreamEvent, UsageReport};
pub use types::{
    CacheControl, ContentBlock, Message, MessagesRequest, Role, SystemBlock, Thinking, ToolDefinition, Usage,
};
