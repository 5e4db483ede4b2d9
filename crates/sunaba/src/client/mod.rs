//! The client side: speaks HTTP and SSE to a server, and nothing else.
//!
//! Owns how a server is found ([`Place`]), how it is asked ([`Client`]), how its log is followed
//! ([`Follower`]) and how one is started in the background. It never opens the database.

mod api;
mod background;
mod follow;
mod http;
mod place;
mod resolve;
mod sse;
mod wire;

pub(crate) use api::{LIVING, SandboxRequest, query};
pub(crate) use background::{ensure_server, start, wait_ready};
pub(crate) use follow::{Follower, News};
pub(crate) use http::Client;
pub(crate) use place::{Announcement, Holder, LOCK_FILE, Place, SERVER_FILE, TOKEN_FILE, connect, holder};
pub(crate) use resolve::resolve;
pub(crate) use wire::{Event, MessageFate, Sandbox};
