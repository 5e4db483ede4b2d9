//! How much of a story is shown, and how wide.

use crate::output::{self, Colour};

/// Longest line of output shown where there is no terminal to fit.
const LINE_MAX_CHARS: usize = 500;
/// A terminal narrower than this is not worth fitting.
const NARROWEST: usize = 20;

/// How a story is told.
#[derive(Debug, Clone)]
pub(crate) struct Look {
    /// Whether in colour.
    pub(crate) colour: Colour,
    /// Columns of the terminal; none when there is no terminal.
    pub(crate) width: Option<usize>,
    /// Whether nothing is left out.
    pub(crate) full: bool,
    /// The command that shows what was left out.
    pub(crate) rest: String,
}

impl Look {
    /// For standard output, long output cut short.
    pub(crate) fn for_stdout(colour: Colour, rest: String) -> Self {
        Self { colour, width: output::width(), full: false, rest }
    }

    /// Most characters of a line, after so many that stand before it.
    pub(super) fn room_after(&self, before: usize) -> usize {
        match self.width {
            _ if self.full => usize::MAX,
            Some(width) => width.max(NARROWEST).saturating_sub(before),
            None => LINE_MAX_CHARS,
        }
    }
}
