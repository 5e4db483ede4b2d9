//! Where a conversation begins.

/// A conversation as its runtime stores it; only that runtime can read it.
#[derive(Clone, PartialEq, Eq)]
pub struct Transcript(Vec<u8>);

impl Transcript {
    /// What a runtime stored.
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Whether it holds these words anywhere.
    pub(crate) fn mentions(&self, words: &str) -> bool {
        self.0.windows(words.len().max(1)).any(|window| window == words.as_bytes())
    }

    /// As it was stored.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The conversation up to the result of a tool call, with it; none when that is not in it. Native and Claude Code
    /// both keep one JSON object a line, in order, with the blocks of the Messages API.
    pub fn until(&self, tool_use_id: &str) -> Option<Self> {
        let mut length = 0;
        let mut found = None;
        for line in self.0.split_inclusive(|byte| *byte == b'\n') {
            length += line.len();
            if answers(line, tool_use_id) {
                found = Some(length);
            }
        }
        found.map(|end| Self(self.0[..end].to_vec()))
    }
}

/// Whether a line of a conversation holds the result of a tool call.
fn answers(line: &[u8], tool_use_id: &str) -> bool {
    let Ok(line) = serde_json::from_slice::<serde_json::Value>(line) else { return false };
    let said = line.get("message").unwrap_or(&line);
    let blocks = said.get("content").and_then(|content| content.as_array());
    blocks.into_iter().flatten().any(|block| {
        let is = |name: &str, value: &str| block.get(name).is_some_and(|word| word == value);
        is("type", "tool_result") && is("tool_use_id", tool_use_id)
    })
}

// It holds everything that was said, which is nothing for a log.
impl std::fmt::Debug for Transcript {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Transcript({} bytes)", self.0.len())
    }
}

/// Where a conversation begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionStart {
    /// With nothing.
    New,
    /// Where it was left.
    Resume {
        /// All of it so far.
        transcript: Transcript,
    },
    /// Where another one was left, which stays as it is.
    Fork {
        /// The name of the other one.
        from: String,
        /// All of the other one.
        transcript: Transcript,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    fn until(lines: &[&str], id: &str) -> Option<Vec<u8>> {
        Transcript::new(lines.concat().into_bytes()).until(id).map(|kept| kept.0)
    }

    #[test]
    fn a_conversation_is_cut_after_the_result_of_a_call() {
        let native = [
            "{\"type\":\"session\"}\n",
            "{\"type\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"a\"}]}\n",
            "{\"type\":\"user\",\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"a\"}]}\n",
            "{\"type\":\"assistant\",\"content\":[{\"type\":\"tool_use\",\"id\":\"b\"}]}\n",
        ];
        assert_eq!(until(&native, "a"), Some(native[..3].concat().into_bytes()));
        assert_eq!(until(&native, "b"), None, "it has no result yet");
        let claude = [
            "{\"type\":\"user\",\"message\":{\"content\":\"do it\"}}\n",
            "{\"type\":\"user\",\"message\":{\"content\":[{\"type\":\"tool_result\",\"tool_use_id\":\"x\"}]}}\n",
            "no json\n",
        ];
        assert_eq!(until(&claude, "x"), Some(claude[..2].concat().into_bytes()));
        assert_eq!(until(&["\u{1}"], "x"), None);
    }
}
