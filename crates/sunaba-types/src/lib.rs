//! The words everything else speaks: ids, states, events, messages, limits.
//!
//! Pure data and pure functions. Nothing here reads a clock, a file or a socket.

pub mod agents;
pub mod chain;
mod clock;
mod egress;
mod event;
pub mod execution;
mod ids;
mod isolation;
pub mod limits;
mod message;
mod node;
mod question;
mod records;
mod session;
pub mod shim;
mod state;
pub mod topic;

pub use clock::{Clock, FakeClock, SystemClock};
pub use egress::{Egress, EgressPreset};
pub use event::{
    EventClass, EventPayload, NewEvent, PayloadError, Source, Step, StoredEvent, bus_name, is_heartbeat,
    reserved_for_server, validate_event_type,
};
pub use execution::{ExecutionConfig, ExecutionMode, PermissionMode, QuestionPolicy};
pub use ids::{
    BlobHash, CallId, IdError, MessageId, NodeId, ProjectId, QuestionId, SandboxId, TaskId, TicketId,
    TokenId, new_event_id, validate_id,
};
pub use isolation::{Enforcement, Finding, FindingStatus, Isolation, IsolationWanted};
pub use message::{Message, MessageState, MessageType, NewMessage};
pub use node::{Node, NodeReport, Role};
pub use question::{Decision, NewAnswer, NewQuestion, Question, QuestionState, Remember};
pub use records::{
    FilesFrom, Outcome, Priority, Project, ProjectSettings, Resources, ResourcesWanted, Sandbox, Task, Terms,
    Ticket, TicketType, TokenKind, TokenRecord,
};
pub use session::{Resume, ResumeCause, TranscriptRecord};
pub use state::{SandboxState, TaskState, TicketStatus};

/// Points in time everywhere in Sunaba: UTC, kept to the microsecond.
pub use jiff::Timestamp;
