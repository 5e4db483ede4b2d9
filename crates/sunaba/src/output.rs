//! The terminal: what goes to standard output and standard error, and whether in colour.
//!
//! Results go to standard output, words about them to standard error, so that a pipe gets only results.
//! A reader that went away (a closed pipe) is not an error.

use std::io::{IsTerminal, Write};

use serde::Serialize;

/// Whether text may be coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    /// Escape sequences are written.
    On,
    /// Plain text.
    Off,
}

impl Colour {
    /// For standard output: only on a terminal that wants it.
    pub(crate) fn for_stdout() -> Self {
        Self::decide(
            std::io::stdout().is_terminal(),
            std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty()),
            std::env::var("TERM").is_ok_and(|term| term == "dumb"),
        )
    }

    fn decide(is_terminal: bool, no_color: bool, is_dumb: bool) -> Self {
        if is_terminal && !no_color && !is_dumb { Self::On } else { Self::Off }
    }

    fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::On if !text.is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    /// Less important.
    pub(crate) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// More important.
    pub(crate) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Wrong, or taken away.
    pub(crate) fn red(self, text: &str) -> String {
        self.wrap("31", text)
    }

    /// Right, or added.
    pub(crate) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Wants attention.
    pub(crate) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// A tool.
    pub(crate) fn cyan(self, text: &str) -> String {
        self.wrap("36", text)
    }

    /// A person's words.
    pub(crate) fn magenta(self, text: &str) -> String {
        self.wrap("35", text)
    }
}

/// Whether standard output is a terminal, which obeys what it is sent.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Columns of the terminal; none when standard output is something else.
pub(crate) fn width() -> Option<usize> {
    let size = is_terminal().then(|| terminal_size::terminal_size_of(std::io::stdout())).flatten();
    size.map(|(terminal_size::Width(columns), _)| usize::from(columns)).filter(|columns| *columns > 0)
}

/// Writes text to standard output.
pub(crate) fn out(text: &str) {
    let mut stdout = std::io::stdout().lock();
    // A closed pipe ends the reader, not the work.
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
}

/// Writes bytes to standard output as they are.
pub(crate) fn out_bytes(bytes: &[u8]) {
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(bytes).and_then(|()| stdout.flush());
}

/// Writes a line to standard output.
pub(crate) fn line(text: &str) {
    out(&format!("{text}\n"));
}

/// Writes a value as JSON to standard output: one line, for programs.
pub(crate) fn json(value: &impl Serialize) {
    match serde_json::to_string(value) {
        Ok(text) => line(&escaped(&text)),
        Err(error) => note(&format!("cannot be shown as JSON: {error}")),
    }
}

/// JSON with every letter escaped that a terminal would obey; the value stays the same, because such letters
/// only stand in strings.
fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for letter in json.chars() {
        match letter {
            '\u{7f}'..='\u{9f}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}' => {
                text.push_str(&format!("\\u{:04x}", u32::from(letter)));
            }
            plain => text.push(plain),
        }
    }
    text
}

/// Writes a line for the person to standard error.
pub(crate) fn note(text: &str) {
    let mut stderr = std::io::stderr().lock();
    let _ = writeln!(stderr, "{text}").and_then(|()| stderr.flush());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_obeys_no_terminal_and_keeps_its_value() {
        let value = "a\u{9b}2J\u{202e}é";
        let text = escaped(&serde_json::to_string(value).unwrap());
        assert_eq!(text, r#""a\u009b2J\u202eé""#);
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), value);
    }

    #[test]
    fn colour_is_for_terminals_that_want_it() {
        assert_eq!(Colour::decide(true, false, false), Colour::On);
        assert_eq!(Colour::decide(true, true, false), Colour::Off);
        assert_eq!(Colour::decide(false, false, false), Colour::Off);
        assert_eq!(Colour::decide(true, false, true), Colour::Off);
        assert_eq!(Colour::Off.red("x"), "x");
        assert_eq!(Colour::On.red("x"), "\x1b[31mx\x1b[0m");
    }
}
