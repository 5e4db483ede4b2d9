//! A sandbox's story for terminals: one event in, a few readable lines out.
//!
//! Whatever comes from a sandbox passes through the `clean` module first: an agent must not be able to move the cursor,
//! change colours, set a title or fake another line. Only this module adds escape sequences, and only
//! when colour is wanted.

mod calls;
mod clean;
mod diff;
mod look;
mod questions;
mod story;
mod table;
#[cfg(test)]
mod tests;
mod tools;
mod words;

pub(crate) use clean::{clean, clean_line};
pub(crate) use diff::{coloured_diff, diffstat};
pub(crate) use look::Look;
pub(crate) use questions::question_input;
pub(crate) use story::{Story, message_line, state_word};
pub(crate) use table::table;
pub(crate) use words::{ago, counted, dollars, shorten};
