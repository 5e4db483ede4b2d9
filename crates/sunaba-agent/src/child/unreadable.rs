//! Lines that make no sense.

use serde_json::{Value, json};

use crate::text::clip;

/// Of lines that make no sense, so many are told; the rest is counted.
const TOLD_MAX: u64 = 20;
const SHOWN_CHARS: usize = 500;

/// Counts what could not be understood.
#[derive(Debug, Default)]
pub(crate) struct Unreadable(u64);

impl Unreadable {
    /// One more; what is to be told of it.
    pub(crate) fn count(&mut self, size_bytes: usize, beginning: &[u8], reason: &str) -> Option<Value> {
        self.0 += 1;
        (self.0 <= TOLD_MAX).then(|| {
            json!({
                "subtype": "unreadable_output",
                "reason": reason,
                "size_bytes": size_bytes,
                "beginning": clip(&String::from_utf8_lossy(beginning), SHOWN_CHARS),
                "count": self.0,
            })
        })
    }
}
