//! Every bound that more than one crate has to agree on.

/// Longest identifier, in characters.
pub const ID_MAX_CHARS: usize = 100;
/// Longest event type, in characters.
pub const EVENT_TYPE_MAX_CHARS: usize = 100;
/// Largest event payload, in bytes as received.
pub const EVENT_PAYLOAD_MAX_BYTES: usize = 1024 * 1024;
/// Most events in one batch request.
pub const BATCH_MAX_EVENTS: usize = 500;
/// Largest batch request body, in bytes.
pub const BATCH_MAX_BYTES: usize = 16 * 1024 * 1024;
/// Longest message content, in bytes.
pub const MESSAGE_MAX_BYTES: usize = 64 * 1024;
/// Most messages that may wait for one sandbox.
pub const MESSAGES_MAX_WAITING: usize = 1000;
/// Most questions of one sandbox that may be open.
pub const QUESTIONS_MAX_OPEN: i64 = 100;
/// Longest input of a tool that is asked about, in bytes of JSON.
pub const QUESTION_INPUT_MAX_BYTES: usize = 1024 * 1024;
/// How long a handed-over message stays with the worker before it is offered again, in seconds.
pub const MESSAGE_REDELIVERY_SECONDS: i64 = 30;
/// Longest long poll, in seconds.
pub const LONG_POLL_MAX_SECONDS: u64 = 60;
/// How long events of an ended sandbox are still recorded, in seconds.
pub const ENDED_GRACE_SECONDS: i64 = 600;
/// How often a worker heartbeats unless it is told otherwise, in seconds.
pub const HEARTBEAT_SECONDS: f64 = 30.0;
/// How long a sandbox that heartbeats continuously, and so often, may be silent, in seconds.
pub const CONTINUOUS_SILENCE_SECONDS: i64 = 75;
/// However often one heartbeats, so long it may be silent, in seconds.
pub const SILENCE_MIN_SECONDS: i64 = 10;
/// How long any other sandbox may be silent unless the server is told otherwise, in seconds.
pub const LEGACY_SILENCE_SECONDS: i64 = 15 * 60;
/// Largest blob, in bytes.
pub const BLOB_MAX_BYTES: usize = 64 * 1024 * 1024;
/// Most conversations that one sandbox may have the server keep.
pub const SESSIONS_MAX: i64 = 100;
/// Largest list page.
pub const EVENTS_PAGE_MAX: u32 = 500;
/// Largest trajectory page.
pub const TRAJECTORY_PAGE_MAX: u32 = 1000;
/// Payloads above this are left out of frames on outside buses, in bytes.
pub const FRAME_PAYLOAD_MAX_BYTES: usize = 64 * 1024;
/// How often a node says that it is there.
pub const NODE_BEAT: std::time::Duration = std::time::Duration::from_secs(3);
/// A node that has said nothing for so long is not asked for anything.
pub const NODE_SILENCE: std::time::Duration = std::time::Duration::from_secs(15);
