//! Reads token counts out of an answer that passes by, without holding it back.

use serde_json::Value;

use crate::dialect::Dialect;

/// Longest line or body that is looked at; a longer one is passed on unread.
const LOOKED_AT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Tokens of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    /// Input that the cache had no part in.
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cache_read_tokens: u64,
    /// Input written to the cache, for however long.
    pub(crate) cache_write_tokens: u64,
    /// The part of it that is kept for long, at a price of its own.
    pub(crate) cache_write_long_tokens: u64,
}

/// What an answer has told so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) usage: Usage,
    /// Whether the counts of the input are known.
    pub(crate) has_input: bool,
    /// Whether the counts are those of the whole answer.
    pub(crate) is_final: bool,
    /// The error that the answer carried.
    pub(crate) error: Option<String>,
    /// How many bytes the answer had.
    pub(crate) size_bytes: u64,
}

impl Seen {
    /// Takes the words of a vendor's error object.
    pub(crate) fn take_error(&mut self, error: &Value) {
        self.error = Some(error["message"].as_str().unwrap_or("unnamed error").to_owned());
    }
}

/// Watches an answer, streamed or whole.
#[derive(Debug)]
pub(crate) struct Meter {
    dialect: &'static dyn Dialect,
    seen: Seen,
    streamed: bool,
    pending: Vec<u8>,
    overlong: bool,
}

impl Meter {
    pub(crate) fn new(dialect: &'static dyn Dialect, streamed: bool) -> Self {
        Self { dialect, seen: Seen::default(), streamed, pending: Vec::new(), overlong: false }
    }

    /// Looks at the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.seen.size_bytes += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if !self.streamed {
            self.keep(bytes);
            return;
        }
        let mut rest = bytes;
        while let Some(at) = rest.iter().position(|byte| *byte == b'\n') {
            self.keep(&rest[..at]);
            let line = std::mem::take(&mut self.pending);
            if !std::mem::take(&mut self.overlong) {
                self.read_line(&line);
            }
            rest = &rest[at + 1..];
        }
        self.keep(rest);
    }

    /// What was seen of the answer.
    pub(crate) fn finish(mut self) -> Seen {
        if !self.streamed && !self.overlong {
            let body = std::mem::take(&mut self.pending);
            if let Ok(value) = serde_json::from_slice::<Value>(&body) {
                self.dialect.look(&value, &mut self.seen);
            }
        }
        self.seen
    }

    fn keep(&mut self, bytes: &[u8]) {
        if self.overlong || self.pending.len() + bytes.len() > LOOKED_AT_MAX_BYTES {
            self.overlong = true;
            self.pending.clear();
        } else {
            self.pending.extend_from_slice(bytes);
        }
    }

    fn read_line(&mut self, line: &[u8]) {
        let Some(data) = line.strip_prefix(b"data:") else { return };
        // Most events carry text only; parsing those would be for nothing.
        let Ok(text) = std::str::from_utf8(data) else { return };
        // `usage`, or `usageMetadata`.
        if !text.contains("\"usage") && !text.contains("\"error\"") {
            return;
        }
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            self.dialect.look(&value, &mut self.seen);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{Anthropic, Chat, Google, Responses};

    const MESSAGES: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":12,\"cache_read_input_tokens\":3,\"output_tokens\":1}}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":40}}\n\n";
    const RESPONSE: &str = "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"say \\\"usage\\\"\"}\n\nevent: response.completed\ndata: {\"type\":\"response.completed\",\"response\":{\"object\":\"response\",\"usage\":{\"input_tokens\":15,\"input_tokens_details\":{\"cached_tokens\":3},\"output_tokens\":40}}}\n\n";
    const CHAT: &str = "data: {\"choices\":[{}],\"usage\":null}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":15,\"prompt_tokens_details\":{\"cached_tokens\":3},\"completion_tokens\":40}}\n\ndata: [DONE]\n\n";

    const GENERATED: &str = "data: {\"candidates\":[{\"content\":{}}],\"usageMetadata\":{\"promptTokenCount\":15}}\r\n\r\ndata: {\"candidates\":[{\"finishReason\":\"STOP\"}],\"usageMetadata\":{\"promptTokenCount\":15,\"cachedContentTokenCount\":3,\"candidatesTokenCount\":30,\"thoughtsTokenCount\":10}}\r\n\r\n";

    fn watched(dialect: &'static dyn Dialect, streamed: bool, parts: &[&[u8]]) -> Seen {
        let mut meter = Meter::new(dialect, streamed);
        parts.iter().for_each(|part| meter.push(part));
        meter.finish()
    }

    #[test]
    fn a_stream_is_counted_however_it_is_cut() {
        let expected =
            Usage { input_tokens: 12, output_tokens: 40, cache_read_tokens: 3, ..Usage::default() };
        let streams: [(&'static dyn Dialect, &str); 4] =
            [(&Anthropic, MESSAGES), (&Responses, RESPONSE), (&Chat, CHAT), (&Google, GENERATED)];
        for (dialect, stream) in streams {
            for size in [1, 7, 1000] {
                let parts: Vec<&[u8]> = stream.as_bytes().chunks(size).collect();
                let seen = watched(dialect, true, &parts);
                assert_eq!(seen.usage, expected, "{} in chunks of {size}", dialect.name());
                assert!(seen.is_final && seen.has_input && seen.error.is_none(), "{seen:?}");
            }
        }
    }

    #[test]
    fn a_stream_that_ended_early_has_told_no_final_counts() {
        let start = MESSAGES.split("event: message_delta").next().unwrap();
        let seen = watched(&Anthropic, true, &[start.as_bytes()]);
        assert!(seen.has_input && !seen.is_final, "{seen:?}");
        let seen = watched(&Chat, true, &[b"data: {\"choices\":[{}],\"usage\":null}\n\n"]);
        assert!(!seen.has_input && !seen.is_final, "{seen:?}");
    }

    #[test]
    fn errors_and_whole_answers_are_read() {
        let cases: [(&'static dyn Dialect, &str); 4] = [
            (&Google, r#"{"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}"#),
            (&Anthropic, r#"{"type":"error","error":{"message":"overloaded"}}"#),
            (&Responses, r#"{"error":{"message":"overloaded","type":"server_error"}}"#),
            (&Chat, r#"{"error":{"message":"overloaded","type":"server_error"}}"#),
        ];
        for (dialect, body) in cases {
            let seen = watched(dialect, false, &[body.as_bytes()]);
            assert_eq!(seen.error.as_deref(), Some("overloaded"), "{}", dialect.name());
        }
        let in_stream = br#"data: {"type":"error","code":"x","message":"overloaded","error":null}"#;
        let seen = watched(&Responses, true, &[in_stream, b"\n"]);
        assert_eq!(seen.error.as_deref(), Some("overloaded"));
        let cases: [(&'static dyn Dialect, &str); 3] = [
            (&Anthropic, r#"{"type":"message","usage":{"input_tokens":5,"output_tokens":6}}"#),
            (
                &Responses,
                r#"{"object":"response","error":null,"usage":{"input_tokens":5,"output_tokens":6}}"#,
            ),
            (&Chat, r#"{"object":"chat.completion","usage":{"prompt_tokens":5,"completion_tokens":6}}"#),
        ];
        for (dialect, body) in cases {
            let seen = watched(dialect, false, &[body.as_bytes()]);
            assert_eq!((seen.usage.input_tokens, seen.usage.output_tokens), (5, 6), "{}", dialect.name());
            assert!(seen.is_final);
        }
    }

    #[test]
    fn what_is_kept_in_the_cache_for_long_is_told_apart() {
        let body = r#"{"type":"message","usage":{"input_tokens":5,"output_tokens":6,"cache_creation_input_tokens":10,
            "cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":6}}}"#;
        let usage = watched(&Anthropic, false, &[body.as_bytes()]).usage;
        assert_eq!((usage.cache_write_tokens, usage.cache_write_long_tokens), (10, 6));
    }

    #[test]
    fn every_pass_of_a_vendor_that_sampled_more_than_once_is_counted() {
        let body = r#"{"type":"message","usage":{"input_tokens":5,"output_tokens":6,"iterations":[
            {"type":"compaction","input_tokens":1000,"output_tokens":300,"cache_read_input_tokens":7},
            {"type":"message","input_tokens":5,"output_tokens":6}]}}"#;
        let usage = watched(&Anthropic, false, &[body.as_bytes()]).usage;
        assert_eq!((usage.input_tokens, usage.output_tokens, usage.cache_read_tokens), (1005, 306, 7));
        let start =
            r#"data: {"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}"#;
        let delta = r#"data: {"type":"message_delta","usage":{"output_tokens":6,"iterations":[{"input_tokens":1000,"output_tokens":300},{"input_tokens":5,"output_tokens":6}]}}"#;
        let seen = watched(&Anthropic, true, &[start.as_bytes(), b"\n", delta.as_bytes(), b"\n"]);
        assert_eq!((seen.usage.input_tokens, seen.usage.output_tokens), (1005, 306));
        assert!(seen.is_final);
    }
}
