//! A project's mirror over smart HTTP, for the sandboxes of that project.

mod guard;
mod handlers;
mod push;
mod quarantine;
mod room;
mod spool;

pub(crate) use handlers::{busy, info_refs, receive_pack, upload_pack};
pub use room::PushRoom;
