//! What is the Gemini CLI's own: how it is set up, what it leaves out of the protocol, and what it writes down.
//!
//! It tells of a tool neither its arguments nor what a command wrote; the first are in the call's name and title, the
//! second is in its record of the conversation. When it takes a session up it begins a record of its own under a name
//! made of the minute, and one that was begun in the same minute is emptied by that: so a record is given another name
//! before. What it was not allowed to finish stays in its memory as a call without a result, which the model's API
//! refuses; after that it takes the session up from its record, where no such call is.

mod news;
mod ready;
mod record;
mod settings;

pub(super) use news::complete;
pub(super) use ready::make_ready;
pub(super) use record::{Record, usage};
pub(super) use settings::{arguments, configure, env, preamble};
