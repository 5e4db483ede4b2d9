//! The runtime port, the native agent loop with its tools, and the Claude Code CLI.
//!
//! A [`Runtime`] does one task: it gets a [`RunContext`], tells every step to an [`EventSink`], takes messages
//! while it works and ends with a [`RunOutcome`]. It never talks to the server: who it works for, how events
//! are kept and sent and what becomes of the files is the worker's business.

mod acp;
mod child;
mod claude;
mod event;
mod native;
mod runtime;
mod text;
mod tools;

pub use acp::{AcpAgent, AcpConfig, AcpRuntime};
pub use claude::{ClaudeConfig, ClaudeRuntime};
pub use event::{AgentEvent, ChangeType, Completed, Invoked, OutputStream, StreamErrorType};
pub use native::{NativeConfig, NativeRuntime, RetryPolicy, SubagentLimits, ToolPolicy};
pub use runtime::{
    Answer, Asks, Capabilities, Ending, ErrorClass, EventSink, Incoming, NobodyToAsk, PermissionMode,
    Question, RunContext, RunError, RunOutcome, Runtime, SessionStart, Steer, Transcript,
};
pub use sunaba_llm::{ApiKey, Thinking, Usage};
