//! How vendors word requests and answers. The script and the recording speak none of these.

mod anthropic;
mod gather;
mod google;
mod openai;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};

use crate::script::{Conversation, Reply};
use crate::usage::Seen;

pub(crate) use anthropic::Anthropic;
pub(crate) use google::Google;
pub(crate) use openai::{Chat, Responses};

/// Into how many pieces a text is cut when it is streamed.
const PIECES: usize = 4;

/// Whose models speak a dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vendor {
    Anthropic,
    OpenAi,
    Google,
}

impl Vendor {
    /// What its key is called, in the server's environment and among a project's secrets.
    pub(crate) fn key_name(self) -> &'static str {
        match self {
            Self::Anthropic => "ANTHROPIC_API_KEY",
            Self::OpenAi => "OPENAI_API_KEY",
            Self::Google => "GEMINI_API_KEY",
        }
    }
}

/// How much of a request is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Detail {
    /// What a script looks at: every word.
    Whole,
    /// What is needed to pass it on.
    Outline,
}

/// A vendor's way of wording requests and answers.
pub(crate) trait Dialect: std::fmt::Debug + Send + Sync {
    /// Its name in events.
    fn name(&self) -> &'static str;
    /// Whose it is.
    fn vendor(&self) -> Vendor;
    /// The fields that bound an answer's tokens; the first is the one to add. `a.b` is the field `b` of `a`.
    fn output_fields(&self) -> &'static [&'static str];
    /// Reads a request, keeping no more of it than its text; the error says what is wrong with it.
    fn read(&self, body: &[u8], detail: Detail) -> Result<Conversation, String>;
    /// The body of an error with this status.
    fn error(&self, status: StatusCode, kind: &str, message: &str) -> Value;
    /// An answer in one piece.
    fn whole(&self, model: &str, reply: &Reply) -> Value;
    /// An answer as a stream, in the pieces in which it is sent.
    fn stream(&self, asked: &Conversation, reply: &Reply) -> Vec<Bytes>;
    /// Takes token counts and errors from an answer, or from one event of a streamed one.
    fn look(&self, value: &Value, seen: &mut Seen);
    /// The answer to the question how many tokens a request has.
    fn token_count(&self, tokens: u64) -> Value {
        json!({"input_tokens": tokens})
    }
    /// The number in such an answer.
    fn counted(&self, value: &Value) -> Option<u64> {
        value["input_tokens"].as_u64()
    }
}

/// An event of a stream, named by its type.
fn frame(event: &Value) -> Bytes {
    Bytes::from(format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default()))
}

/// A text in a few pieces, cut between characters.
fn pieces(text: &str) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    let size = characters.len().div_ceil(PIECES).max(1);
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}

fn add_line(text: &mut String, line: &str) {
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(line);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn pieces_put_together_are_the_text(text in ".{0,100}") {
            prop_assert_eq!(pieces(&text).concat(), text);
        }
    }
}
