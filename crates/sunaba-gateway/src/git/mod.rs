//! A project's mirror over smart HTTP, for the sandboxes of that project.

mod elsewhere;
mod for_nodes;
mod guard;
mod handlers;
mod push;
mod quarantine;
mod room;
mod spool;

pub(crate) use elsewhere::pass_on;
pub(crate) use for_nodes::{be_meant, know_caller, replica_pack, replica_refs};
pub(crate) use handlers::{busy, info_refs, receive_pack, upload_pack};
pub use room::PushRoom;
