//! What a command writes while it runs: told piece by piece, or again and again as a whole that grows.

use serde_json::Value;

use super::translate;
use super::wire::ToolNews;
use crate::text::HeadAndTail;
use crate::{AgentEvent, OutputStream};

/// As the contract bounds them.
const CHUNK_MAX_BYTES: usize = 16 * 1024;
const CALL_MAX_BYTES: usize = 1024 * 1024;
/// Of what is kept for the end of the call.
const KEPT_MAX_CHARS: usize = 50_000;

#[derive(Debug)]
pub(super) struct Output {
    /// All so far, of an agent that tells it as a whole.
    whole: String,
    told_bytes: usize,
    is_cut: bool,
    kept: HeadAndTail,
}

impl Default for Output {
    fn default() -> Self {
        Self { whole: String::new(), told_bytes: 0, is_cut: false, kept: HeadAndTail::new(KEPT_MAX_CHARS) }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Chunk {
    text: String,
    offset: usize,
    truncated: bool,
}

impl Chunk {
    pub(super) fn event(self, tool_use_id: &str) -> AgentEvent {
        AgentEvent::ToolOutput {
            tool_use_id: tool_use_id.to_owned(),
            // Agents tell both streams as one.
            stream: OutputStream::Stdout,
            chunk: self.text,
            offset: self.offset as u64,
            truncated: self.truncated,
        }
    }
}

impl Output {
    /// What is new.
    pub(super) fn take(&mut self, kind: &str, news: &ToolNews) -> Vec<Chunk> {
        let piece = news.meta.as_ref().and_then(|meta| meta.pointer("/terminal_output/data"));
        if let Some(piece) = piece.and_then(Value::as_str) {
            return self.grow(piece);
        }
        if kind != "execute" {
            return Vec::new();
        }
        let Some(whole) = translate::content(news).filter(|whole| whole.len() <= CALL_MAX_BYTES) else {
            return Vec::new();
        };
        let Some(piece) = whole.strip_prefix(&self.whole).map(str::to_owned) else { return Vec::new() };
        self.whole = whole;
        self.grow(&piece)
    }

    fn grow(&mut self, piece: &str) -> Vec<Chunk> {
        self.kept.push(piece);
        let mut chunks = Vec::new();
        let mut rest = piece;
        while !rest.is_empty() && !self.is_cut {
            let room = CHUNK_MAX_BYTES.min(CALL_MAX_BYTES - self.told_bytes);
            let end = rest.floor_char_boundary(room);
            let (text, after) = rest.split_at(end);
            self.is_cut = end == 0 || self.told_bytes + end >= CALL_MAX_BYTES;
            chunks.push(Chunk { text: text.to_owned(), offset: self.told_bytes, truncated: self.is_cut });
            self.told_bytes += end;
            rest = after;
        }
        chunks
    }

    /// The beginning and the end of everything.
    pub(super) fn all(&mut self) -> String {
        std::mem::replace(&mut self.kept, HeadAndTail::new(0)).finish()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn whole(text: &str) -> ToolNews {
        let content = json!([{"type": "content", "content": {"type": "text", "text": text}}]);
        ToolNews { content: content.as_array().cloned(), ..ToolNews::default() }
    }

    #[test]
    fn a_whole_that_grows_is_told_in_pieces() {
        let mut output = Output::default();
        let told: Vec<_> = ["a\n", "a\n", "a\nbä\n"]
            .iter()
            .flat_map(|text| output.take("execute", &whole(text)))
            .map(|chunk| (chunk.text, chunk.offset))
            .collect();
        assert_eq!(told, [("a\n".to_owned(), 0), ("bä\n".to_owned(), 2)]);
        assert_eq!(output.all(), "a\nbä\n");
    }

    #[test]
    fn too_much_is_cut_and_said_to_be() {
        let piece = "ä".repeat(CALL_MAX_BYTES);
        let meta = Some(json!({"terminal_output": {"data": piece}}));
        let mut output = Output::default();
        let chunks = output.take("execute", &ToolNews { meta, ..ToolNews::default() });
        assert_eq!(chunks.iter().map(|chunk| chunk.text.len()).sum::<usize>(), CALL_MAX_BYTES);
        assert!(chunks.iter().all(|chunk| chunk.text.len() <= CHUNK_MAX_BYTES));
        assert!(chunks.last().unwrap().truncated && !chunks[0].truncated);
        assert!(output.all().contains("characters left out"));
    }
}
