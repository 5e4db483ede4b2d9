//! The event log: append, read, page, verify.

use async_trait::async_trait;
use sunaba_types::chain::Hash;
use sunaba_types::{NewEvent, SandboxId, SandboxState, Step, StoredEvent, Timestamp};

use crate::Result;

/// On whose behalf events are appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer {
    /// The sandbox itself, by a token bound to this attempt.
    Sandbox {
        /// The attempt its token is bound to.
        attempt: i64,
    },
    /// Somebody who may write for any sandbox that exists.
    Operator,
    /// Somebody who may also register an `external` sandbox by its first event.
    Registrar,
    /// The server itself: recorded whatever state the sandbox is in, and no state changes are derived.
    Server,
}

/// Events for one sandbox, in order.
#[derive(Debug, Clone)]
pub struct Append {
    /// Whose log.
    pub sandbox_id: SandboxId,
    /// Who writes.
    pub writer: Writer,
    /// What is written.
    pub events: Vec<NewEvent>,
}

/// An event that is durable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Appended {
    /// Its place in the log.
    pub seq: i64,
    /// Its id.
    pub event_id: String,
    /// When it was stored.
    pub created_at: Timestamp,
    /// Whether it had been stored before, by an earlier request with the same id.
    pub duplicate: bool,
}

/// Why one event was not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Rejection {
    /// There is no such sandbox and the writer may not register one.
    UnknownSandbox,
    /// A later attempt has taken this one's place.
    AttemptSuperseded,
    /// The sandbox ended more than ten minutes ago.
    SandboxEnded,
    /// The id was used before, for another event.
    EventIdConflict,
    /// The log has as many types of events as it may have, and this would be one more.
    TooManyTypes,
    /// The store refused this event; its neighbours are not affected.
    Refused(String),
}

/// Most types of events that one sandbox may use.
pub const EVENT_TYPES_MAX: usize = 1000;

/// What became of one event.
pub type AppendOutcome = std::result::Result<Appended, Rejection>;

/// Which events to list, newest first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EventQuery {
    /// Whose log.
    pub sandbox_id: SandboxId,
    /// Types to show (`agent.*` allowed); empty means all.
    pub event_types: Vec<String>,
    /// Types to leave out (`agent.*` allowed).
    pub exclude_types: Vec<String>,
    /// A piece of text that the payload must contain.
    pub contains: Option<String>,
    /// Only later than this.
    pub after_seq: Option<i64>,
    /// Only earlier than this.
    pub before_seq: Option<i64>,
    /// How many to skip.
    pub offset: u64,
    /// How many to return.
    pub limit: u32,
}

impl EventQuery {
    /// The newest events of a sandbox.
    pub fn newest(sandbox_id: SandboxId, limit: u32) -> Self {
        Self {
            sandbox_id,
            event_types: Vec::new(),
            exclude_types: Vec::new(),
            contains: None,
            after_seq: None,
            before_seq: None,
            offset: 0,
            limit,
        }
    }
}

/// A page of the list.
#[derive(Debug, Clone)]
pub struct EventPage {
    /// Newest first.
    pub events: Vec<StoredEvent>,
    /// How many events of the wanted types the sandbox has (cursor, offset and text aside).
    pub total_count: i64,
    /// Where to go on (`before_seq`) when a text search ran out of time or the page is full.
    pub next_before_seq: Option<i64>,
}

/// Which way a trajectory page goes from its cursor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TrajectoryDirection {
    /// Back in time.
    Older,
    /// Forward in time.
    Newer,
}

/// Whether search noise is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noise {
    /// Left out.
    Hidden,
    /// Shown.
    Shown,
}

/// Which part of the trajectory to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrajectoryQuery {
    /// Whose log.
    pub sandbox_id: SandboxId,
    /// The event (by id) to go on from; none starts at the newest.
    pub cursor: Option<String>,
    /// Which way.
    pub direction: TrajectoryDirection,
    /// Whether search noise is shown.
    pub noise: Noise,
    /// How many to return.
    pub limit: u32,
}

/// A page of the trajectory.
#[derive(Debug, Clone)]
pub struct TrajectoryPage {
    /// Newest first, no heartbeats.
    pub events: Vec<StoredEvent>,
    /// Whether the direction holds more.
    pub has_more: bool,
    /// Cursor to older events, if there are any.
    pub next_cursor: Option<String>,
    /// Cursor to newer events, if there are any.
    pub prev_cursor: Option<String>,
    /// How many trajectory events there are in all.
    pub trajectory_events: i64,
    /// The log as a whole.
    pub head: LogHead,
}

/// The state of a sandbox's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHead {
    /// The last event's place; also how many there are.
    pub last_seq: i64,
    /// The last event's hash.
    pub last_hash: Hash,
    /// How many heartbeats.
    pub heartbeat_count: i64,
    /// When the first came.
    pub first_heartbeat: Option<Timestamp>,
    /// When the last came.
    pub last_heartbeat: Option<Timestamp>,
}

/// One turn at a glance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutlineTurn {
    /// The turn's number.
    pub turn: i64,
    /// Its first event.
    pub first_seq: i64,
    /// Its last event.
    pub last_seq: i64,
    /// When it began.
    pub started_at: Timestamp,
    /// When it was last heard of.
    pub ended_at: Timestamp,
    /// How many tools were used.
    pub tools: i64,
    /// How many went wrong.
    pub errors: i64,
    /// How many files were edited.
    pub edits: i64,
    /// How many messages came in.
    pub messages: i64,
}

/// How far from a place a step is looked for when it does not come with `agent.step`, as our worker's do.
pub const STEP_REACH: i64 = 2000;

/// A step and the event that carries it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StepAt {
    /// The event's place in the log.
    pub seq: i64,
    /// The event's id.
    pub event_id: String,
    /// The step.
    pub step: Step,
}

/// The event log.
#[async_trait]
pub trait EventStore {
    /// Appends events and answers once they are durable.
    ///
    /// Requests from all callers are committed together. `Err` means that
    /// nothing of this request was stored; an `Ok` has one outcome an event,
    /// in order. The same `event_id` with the same content is stored once.
    async fn append(&self, append: Append) -> Result<Vec<AppendOutcome>>;

    /// Lists events, newest first.
    async fn list_events(&self, query: EventQuery) -> Result<EventPage>;

    /// A page of the story without heartbeats.
    async fn trajectory(&self, query: TrajectoryQuery) -> Result<TrajectoryPage>;

    /// Turns at a glance, first turn first; at most `limit` after turn `after`.
    async fn outline(
        &self,
        sandbox_id: &SandboxId,
        after: Option<i64>,
        limit: u32,
    ) -> Result<Vec<OutlineTurn>>;

    /// The next events after a place, oldest first; fewer than `limit` where [`crate::PAGE_BYTES`] are reached.
    async fn events_after(
        &self,
        sandbox_id: &SandboxId,
        after_seq: i64,
        limit: u32,
    ) -> Result<Vec<StoredEvent>>;

    /// The place of an event in its sandbox's log.
    async fn find_seq(&self, sandbox_id: &SandboxId, event_id: &str) -> Result<Option<i64>>;

    /// The last step that an event at this place or before it carries: with `agent.step` wherever it is, with
    /// other events within [`STEP_REACH`].
    async fn step_before(&self, sandbox_id: &SandboxId, at_seq: i64) -> Result<Option<StepAt>>;

    /// The first step that an event after this place carries, within [`STEP_REACH`].
    async fn step_after(&self, sandbox_id: &SandboxId, seq: i64) -> Result<Option<StepAt>>;

    /// The state of a log; not found if the sandbox does not exist.
    async fn log_head(&self, sandbox_id: &SandboxId) -> Result<LogHead>;

    /// The state a sandbox is in, cheaply (for streams that end when it ends).
    async fn sandbox_state(&self, sandbox_id: &SandboxId) -> Result<SandboxState>;
}
