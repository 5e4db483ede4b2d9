//! Reads token counts out of an answer that passes by, without holding it back.

use serde_json::Value;

/// Longest line or body that is looked at; a longer one is passed on unread.
const LOOKED_AT_MAX_BYTES: usize = 4 * 1024 * 1024;

/// Tokens of one call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) input_tokens: u64,
    pub(crate) output_tokens: u64,
    pub(crate) cache_read_tokens: u64,
    pub(crate) cache_write_tokens: u64,
}

impl Usage {
    /// Takes over the counts that an Anthropic `usage` object names.
    fn take(&mut self, usage: &Value) {
        let fields = [
            ("input_tokens", &mut self.input_tokens),
            ("output_tokens", &mut self.output_tokens),
            ("cache_read_input_tokens", &mut self.cache_read_tokens),
            ("cache_creation_input_tokens", &mut self.cache_write_tokens),
        ];
        for (name, count) in fields {
            if let Some(seen) = usage.get(name).and_then(Value::as_u64) {
                *count = seen;
            }
        }
    }
}

/// Watches an answer in the Anthropic dialect, streamed or whole.
#[derive(Debug)]
pub(crate) struct Meter {
    usage: Usage,
    error: Option<String>,
    streamed: bool,
    pending: Vec<u8>,
    overlong: bool,
}

impl Meter {
    pub(crate) fn new(streamed: bool) -> Self {
        Self { usage: Usage::default(), error: None, streamed, pending: Vec::new(), overlong: false }
    }

    /// Looks at the next bytes.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
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

    /// The counts, and the error that the answer carried.
    pub(crate) fn finish(mut self) -> (Usage, Option<String>) {
        if !self.streamed && !self.overlong {
            let body = std::mem::take(&mut self.pending);
            if let Ok(value) = serde_json::from_slice::<Value>(&body) {
                self.read(&value);
            }
        }
        (self.usage, self.error)
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
        if !text.contains("\"usage\"") && !text.contains("\"error\"") {
            return;
        }
        if let Ok(value) = serde_json::from_str::<Value>(text) {
            self.read(&value);
        }
    }

    fn read(&mut self, value: &Value) {
        match value.get("type").and_then(Value::as_str) {
            Some("message_start") => self.usage.take(&value["message"]["usage"]),
            Some("message" | "message_delta") => self.usage.take(&value["usage"]),
            Some("error") => {
                let message = value["error"]["message"].as_str().unwrap_or("unnamed error");
                self.error = Some(message.to_owned());
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &str = "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":12,\"cache_read_input_tokens\":3,\"output_tokens\":1}}}\n\nevent: message_delta\ndata: {\"type\":\"message_delta\",\"usage\":{\"output_tokens\":40}}\n\n";

    #[test]
    fn a_stream_is_counted_however_it_is_cut() {
        let expected =
            Usage { input_tokens: 12, output_tokens: 40, cache_read_tokens: 3, cache_write_tokens: 0 };
        for size in [1, 7, 1000] {
            let mut meter = Meter::new(true);
            STREAM.as_bytes().chunks(size).for_each(|part| meter.push(part));
            assert_eq!(meter.finish(), (expected, None), "chunks of {size}");
        }
    }

    #[test]
    fn an_error_and_a_whole_answer_are_read() {
        let mut meter = Meter::new(false);
        meter.push(br#"{"type":"error","error":{"message":"overloaded"}}"#);
        assert_eq!(meter.finish().1.as_deref(), Some("overloaded"));
        let mut meter = Meter::new(false);
        meter.push(br#"{"type":"message","usage":{"input_tokens":5,"output_tokens":6}}"#);
        assert_eq!(meter.finish().0.output_tokens, 6);
    }
}
