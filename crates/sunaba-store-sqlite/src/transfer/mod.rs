//! The whole of the store, out and in. The only statements that are put together here: from the fixed names of
//! [`sunaba_store::transfer::TABLES`], never from data.

mod source;
mod target;

pub(crate) use source::Snapshot;
pub use target::Target;
