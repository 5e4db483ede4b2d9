//! The live feed over a WebSocket.

mod session;
mod wire;
pub(crate) mod ws;
