//! The server's face: HTTP, WebSocket, server-sent events, tokens and the OpenAPI document.
//!
//! Whoever composes a server makes an [`AppState`] from its store and clock,
//! starts its [`AppState::spawn_background`] work, puts it together with [`app`](fn@app), and hands that to
//! [`serve`] and [`Doors`].
//!
//! What never happens here: SQL, a decision about states (that is the engine's),
//! an answer of 200 before the store says that it is durable, a token in a log line.

mod alarm;
mod api;
mod app;
pub mod auth;
mod blobs;
mod config;
mod counted;
mod descriptors;
mod doors;
mod expiry;
mod extract;
mod files;
mod hub;
mod internal;
mod layers;
mod liveness;
mod openapi;
mod problem;
mod providers;
mod room;
mod router;
mod serve;
mod sources;
mod state;
pub mod telemetry;
mod tunnel;

pub use app::App;
pub use blobs::{BlobError, BlobFiles};
pub use config::{
    AuthMode, Limits, LiveLimits, RUNTIMES, RoomLimits, ServerConfig, is_runtime, runtime_choices,
};
pub use doors::{BoxedStream, ByteStream, Doors, StreamHandler};
pub use extract::list::{parse_cursor, parse_position};
pub use files::{Between, Content, Entry, FileChange, FileSource, MirrorFiles, Patch, Shown};
pub use hub::{Filters, Hub};
pub use layers::token_path;
pub use liveness::Liveness;
pub use openapi::document as openapi_document;
pub use problem::{ApiError, FieldError, Problem};
pub use router::{GatewayRoutes, app};
pub use serve::serve;
pub use sources::{
    AgentProgram, BusReport, DutyError, HomeDuties, LiveUsage, LogSource, ProviderReport, ProviderReports,
    ReadyCheck, SourceError,
};
pub use state::{AppState, Parts};
pub use tunnel::Tunnels;
