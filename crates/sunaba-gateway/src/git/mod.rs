//! A project's mirror over smart HTTP, for the sandboxes of that project.

mod guard;
mod handlers;
mod spool;

pub(crate) use handlers::{busy, info_refs, receive_pack, upload_pack};
