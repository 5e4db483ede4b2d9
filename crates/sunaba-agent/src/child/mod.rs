//! An agent's program as a child process: its pipes, its lines, and everything that it starts.

mod family;
mod lines;
mod process;
mod unreadable;

pub(crate) use family::{Family, MARK};
pub(crate) use lines::Read;
pub(crate) use process::Process;
pub(crate) use unreadable::Unreadable;
