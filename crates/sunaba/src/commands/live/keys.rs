//! What a person types: lines from standard input, and the meaning of Ctrl-C pressed once or twice.

use std::io::BufRead;
use std::time::{Duration, Instant};

use sunaba_types::limits::MESSAGE_MAX_BYTES;
use tokio::sync::mpsc;

/// How soon a second Ctrl-C must follow to mean more than the first.
const TWICE_WITHIN: Duration = Duration::from_secs(2);
/// Most lines that wait to be sent; after that the reader waits.
const LINES_MAX: usize = 16;

/// Something typed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Typed {
    /// A line.
    Line(String),
    /// The end of input (Ctrl-D, or the end of a pipe).
    End,
}

/// Reads lines on a thread of its own: a terminal cannot be read without waiting, and the wait for a
/// line must not hold up the end of the program.
pub(super) fn read_lines() -> mpsc::Receiver<Typed> {
    let (sender, lines) = mpsc::channel(LINES_MAX);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = Vec::new();
            let read = read_bounded(&mut input, &mut line);
            let typed = match read {
                Ok(0) | Err(_) => Typed::End,
                Ok(_) => {
                    Typed::Line(String::from_utf8_lossy(&line).trim_end_matches(['\n', '\r']).to_owned())
                }
            };
            let ended = typed == Typed::End;
            if sender.blocking_send(typed).is_err() || ended {
                return;
            }
        }
    });
    lines
}

/// One line, or as much of it as a message may hold.
fn read_bounded(input: &mut impl BufRead, line: &mut Vec<u8>) -> std::io::Result<usize> {
    use std::io::Read;
    input.by_ref().take(MESSAGE_MAX_BYTES as u64).read_until(b'\n', line)
}

/// Nothing is ever typed.
pub(super) fn silence() -> mpsc::Receiver<Typed> {
    mpsc::channel(1).1
}

/// What pressing Ctrl-C means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Press {
    /// Interrupt the agent.
    Interrupt,
    /// Ask what to do with the sandbox.
    Ask,
    /// Stop the sandbox.
    Stop,
}

/// What was answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Stop the sandbox.
    Stop,
    /// Leave it running.
    Detach,
    /// Neither.
    GoOn,
}

/// Remembers presses of Ctrl-C, and whether the person was asked.
#[derive(Debug, Default)]
pub(super) struct Interrupts {
    last: Option<Instant>,
    asked: bool,
}

impl Interrupts {
    /// Ctrl-C was pressed.
    pub(super) fn press(&mut self, now: Instant, can_ask: bool) -> Press {
        let again = self.last.is_some_and(|last| now.duration_since(last) <= TWICE_WITHIN);
        self.last = Some(now);
        match (self.asked, again, can_ask) {
            (true, _, _) | (false, true, false) => Press::Stop,
            (false, true, true) => {
                self.asked = true;
                Press::Ask
            }
            (false, false, _) => Press::Interrupt,
        }
    }

    /// A line was typed: the answer, if a question is open.
    pub(super) fn answer(&mut self, line: &str) -> Option<Choice> {
        if !std::mem::take(&mut self.asked) {
            return None;
        }
        self.last = None;
        Some(match line.trim().to_ascii_lowercase().as_str() {
            "s" | "stop" => Choice::Stop,
            "d" | "detach" => Choice::Detach,
            _ => Choice::GoOn,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn once_interrupts_and_twice_asks() {
        let start = Instant::now();
        let mut interrupts = Interrupts::default();
        assert_eq!(interrupts.press(start, true), Press::Interrupt);
        assert_eq!(interrupts.press(start + Duration::from_secs(3), true), Press::Interrupt, "too late");
        assert_eq!(interrupts.press(start + Duration::from_secs(4), true), Press::Ask);
        assert_eq!(interrupts.answer("d"), Some(Choice::Detach));
        assert_eq!(interrupts.answer("d"), None, "a word for the agent again");
        assert_eq!(interrupts.press(start + Duration::from_secs(5), true), Press::Interrupt);
    }

    #[test]
    fn without_a_terminal_twice_stops() {
        let start = Instant::now();
        let mut interrupts = Interrupts::default();
        assert_eq!(interrupts.press(start, false), Press::Interrupt);
        assert_eq!(interrupts.press(start, false), Press::Stop);
    }

    #[test]
    fn a_third_press_at_the_question_stops() {
        let start = Instant::now();
        let mut interrupts = Interrupts::default();
        interrupts.press(start, true);
        interrupts.press(start, true);
        assert_eq!(interrupts.press(start + Duration::from_secs(60), true), Press::Stop);
    }

    #[test]
    fn an_endless_line_is_cut() {
        let long = vec![b'x'; MESSAGE_MAX_BYTES + 10];
        let mut line = Vec::new();
        assert_eq!(read_bounded(&mut long.as_slice(), &mut line).unwrap(), MESSAGE_MAX_BYTES);
    }
}
