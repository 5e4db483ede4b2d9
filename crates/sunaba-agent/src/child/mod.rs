//! An agent's program as a child process: its pipes, its lines, everything that it starts, and when it is
//! worth to ask it to go on.

mod cuts;
mod family;
mod lines;
mod process;
mod unreadable;

pub(crate) use cuts::{Cuts, GO_ON, LOST_CALL};
pub(crate) use family::{Family, MARK};
pub(crate) use lines::Read;
pub(crate) use process::Process;
pub(crate) use unreadable::Unreadable;
