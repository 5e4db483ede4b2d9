//! Takes the usage that only we asked for out of a chat stream.

use bytes::{Bytes, BytesMut};

/// Longest line that is held back until its end is there; a longer one is passed on unread.
const LINE_MAX_BYTES: usize = 1024 * 1024;

/// Passes a stream on line by line, without the chunk that has usage and no words.
#[derive(Debug, Default)]
pub(super) struct Strip {
    pending: BytesMut,
    /// The empty line after a chunk that was left out goes with it.
    skips_empty: bool,
}

impl Strip {
    /// What of these bytes, and of those held back, goes on.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Bytes {
        self.pending.extend_from_slice(bytes);
        let mut passed = BytesMut::with_capacity(self.pending.len());
        while let Some(at) = self.pending.iter().position(|byte| *byte == b'\n') {
            let line = self.pending.split_to(at + 1);
            let is_empty = line.iter().all(u8::is_ascii_whitespace);
            if is_usage(&line) {
                self.skips_empty = true;
            } else if !(is_empty && self.skips_empty) {
                self.skips_empty = false;
                passed.extend_from_slice(&line);
            } else {
                self.skips_empty = false;
            }
        }
        if self.pending.len() > LINE_MAX_BYTES {
            passed.extend_from_slice(&self.pending.split());
        }
        passed.freeze()
    }

    /// What is left at the end.
    pub(super) fn finish(&mut self) -> Bytes {
        self.pending.split().freeze()
    }
}

fn is_usage(line: &[u8]) -> bool {
    let Some(data) = line.strip_prefix(b"data:") else { return false };
    let Ok(text) = std::str::from_utf8(data) else { return false };
    if !text.contains("\"usage\"") {
        return false;
    }
    let Ok(chunk) = serde_json::from_str::<serde_json::Value>(text) else { return false };
    chunk["usage"].is_object() && chunk["choices"].as_array().is_some_and(Vec::is_empty)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_usage_chunk_is_left_out_however_the_stream_is_cut() {
        let word = "data: {\"choices\":[{\"delta\":{\"content\":\"\\\"usage\\\"\"}}],\"usage\":null}\n\n";
        let usage = "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":1}}\n\n";
        let end = "data: [DONE]\n\n";
        let stream = format!("{word}{word}{usage}{end}tail");
        for size in [1, 5, 64, 10_000] {
            let mut strip = Strip::default();
            let mut passed = Vec::new();
            for part in stream.as_bytes().chunks(size) {
                passed.extend_from_slice(&strip.push(part));
            }
            passed.extend_from_slice(&strip.finish());
            assert_eq!(String::from_utf8(passed).unwrap(), format!("{word}{word}{end}tail"), "{size}");
        }
    }

    #[test]
    fn nothing_whole_is_held_back() {
        let mut strip = Strip::default();
        assert_eq!(strip.push(b"data: {\"a\":1}\n\nda"), "data: {\"a\":1}\n\n");
        let long = vec![b'x'; LINE_MAX_BYTES + 1];
        assert_eq!(strip.push(&long).len(), LINE_MAX_BYTES + 3);
    }
}
