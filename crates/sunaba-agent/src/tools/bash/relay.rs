//! Passes a command's output on as events, in bounded number and size, and keeps what the model is told.
//!
//! The two streams are joined at line ends: the beginning of a line waits for its end, so that what the other
//! stream says meanwhile does not stand in the middle of a word. It does not wait for ever, and a very long
//! line is passed on in parts.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::text::HeadAndTail;
use crate::{AgentEvent, EventSink, OutputStream};

const CHUNK_MAX_BYTES: usize = 16 * 1024;
const CHUNK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the beginning of a line waits for its end: a prompt has none, and is to be seen all the same.
const LINE_PATIENCE: Duration = Duration::from_secs(1);
const CALL_MAX_BYTES: u64 = 1024 * 1024;
const CUT_MARK: &str = "\n[output cut here: more than 1 MiB]\n";

pub(super) struct Relay {
    tool_use_id: String,
    events: Arc<dyn EventSink>,
    kept: HeadAndTail,
    kept_seam: Seam,
    sent_seam: Seam,
    stdout: Lane,
    stderr: Lane,
    offset: u64,
    cut: bool,
    next_flush: Instant,
    /// Which stream goes first when both wait, so that neither starves.
    stderr_is_next: bool,
}

/// One stream's bytes on their way to text and events.
#[derive(Default)]
struct Lane {
    /// The beginning of a character whose end has not come.
    partial: Vec<u8>,
    /// The beginning of a line whose end has not come, and since when it waits.
    line: String,
    line_since: Option<Instant>,
    unsent: String,
}

/// Where one stream's words follow the other's.
#[derive(Default)]
struct Seam {
    unfinished: Option<OutputStream>,
}

impl Seam {
    /// Whether a line end has to come before this text, because the other stream stopped within a line.
    fn needs_line_end(&mut self, stream: OutputStream, text: &str) -> bool {
        let torn = self.unfinished.is_some_and(|unfinished| unfinished != stream);
        self.unfinished = (!text.ends_with('\n')).then_some(stream);
        torn
    }
}

impl Relay {
    pub(super) fn new(tool_use_id: &str, events: Arc<dyn EventSink>, keep_chars: usize) -> Self {
        Self {
            tool_use_id: tool_use_id.to_owned(),
            events,
            kept: HeadAndTail::new(keep_chars),
            kept_seam: Seam::default(),
            sent_seam: Seam::default(),
            stdout: Lane::default(),
            stderr: Lane::default(),
            offset: 0,
            cut: false,
            next_flush: Instant::now(),
            stderr_is_next: false,
        }
    }

    /// Takes bytes as they were read.
    pub(super) fn take(&mut self, stream: OutputStream, bytes: &[u8]) {
        let lane = self.lane(stream);
        let text = lane.decode(bytes);
        let whole = lane.whole_lines(&text);
        self.add(stream, &whole);
    }

    /// When the next event is due; none when nothing waits.
    pub(super) fn flush_at(&self) -> Option<Instant> {
        let lanes = [&self.stdout, &self.stderr];
        if lanes.iter().any(|lane| !lane.unsent.is_empty()) {
            return Some(self.next_flush);
        }
        let since = lanes.iter().filter_map(|lane| lane.line_since).min()?;
        Some((since + LINE_PATIENCE).max(self.next_flush))
    }

    /// Sends what waits of one stream.
    pub(super) fn flush_one(&mut self) {
        let (first, second) = match self.stderr_is_next {
            true => (OutputStream::Stderr, OutputStream::Stdout),
            false => (OutputStream::Stdout, OutputStream::Stderr),
        };
        for stream in [first, second] {
            if self.lane(stream).line_since.is_some_and(|since| since.elapsed() >= LINE_PATIENCE) {
                let line = self.lane(stream).begun_line();
                self.add(stream, &line);
            }
        }
        let stream = if self.lane(first).unsent.is_empty() { second } else { first };
        self.stderr_is_next = stream == OutputStream::Stdout;
        let chunk = std::mem::take(&mut self.lane(stream).unsent);
        self.send(stream, chunk);
    }

    /// Sends the rest and gives what the model is told.
    pub(super) fn finish(mut self) -> String {
        for stream in [OutputStream::Stdout, OutputStream::Stderr] {
            let lane = self.lane(stream);
            let rest = std::mem::take(&mut lane.partial);
            let mut text = lane.begun_line();
            text.push_str(&String::from_utf8_lossy(&rest));
            self.add(stream, &text);
            let chunk = std::mem::take(&mut self.lane(stream).unsent);
            self.send(stream, chunk);
        }
        self.kept.finish()
    }

    fn lane(&mut self, stream: OutputStream) -> &mut Lane {
        match stream {
            OutputStream::Stdout => &mut self.stdout,
            OutputStream::Stderr => &mut self.stderr,
        }
    }

    fn add(&mut self, stream: OutputStream, text: &str) {
        if text.is_empty() {
            return;
        }
        if self.kept_seam.needs_line_end(stream, text) {
            self.kept.push("\n");
        }
        self.kept.push(text);
        if self.cut {
            return;
        }
        self.lane(stream).unsent.push_str(text);
        while self.lane(stream).unsent.len() >= CHUNK_MAX_BYTES {
            let unsent = &mut self.lane(stream).unsent;
            let most = unsent.floor_char_boundary(CHUNK_MAX_BYTES);
            let end = unsent[..most].rfind('\n').map_or(most, |line_end| line_end + 1);
            let rest = unsent.split_off(end);
            let chunk = std::mem::replace(unsent, rest);
            self.send(stream, chunk);
        }
    }

    fn send(&mut self, stream: OutputStream, mut chunk: String) {
        if chunk.is_empty() || self.cut {
            return;
        }
        if self.sent_seam.needs_line_end(stream, &chunk) {
            chunk.insert(0, '\n');
        }
        let room = CALL_MAX_BYTES - self.offset;
        let bytes = chunk.len() as u64;
        if bytes > room {
            chunk.truncate(chunk.floor_char_boundary(usize::try_from(room).unwrap_or(usize::MAX)));
            chunk.push_str(CUT_MARK);
            self.cut = true;
            self.stdout.unsent.clear();
            self.stderr.unsent.clear();
        }
        self.events.emit(AgentEvent::ToolOutput {
            tool_use_id: self.tool_use_id.clone(),
            stream,
            chunk,
            offset: self.offset,
            truncated: self.cut,
        });
        self.offset += bytes.min(room);
        self.next_flush = Instant::now() + CHUNK_INTERVAL;
    }
}

impl Lane {
    /// Text of whole characters; what cannot be one becomes a replacement character.
    fn decode(&mut self, bytes: &[u8]) -> String {
        self.partial.extend_from_slice(bytes);
        let whole = self.partial.len() - unfinished_bytes(&self.partial);
        let rest = self.partial.split_off(whole);
        let complete = std::mem::replace(&mut self.partial, rest);
        String::from_utf8(complete)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
    }

    /// Everything up to the last line end; what follows waits, unless it is too long to.
    fn whole_lines(&mut self, text: &str) -> String {
        // A carriage return ends a line too: progress bars are drawn with nothing else.
        let end = text.rfind(['\n', '\r']).map_or(0, |end| end + 1);
        let mut whole = String::new();
        if end > 0 {
            whole = self.begun_line();
            whole.push_str(&text[..end]);
        }
        self.line.push_str(&text[end..]);
        if self.line.len() >= CHUNK_MAX_BYTES {
            whole.push_str(&self.begun_line());
        } else if !self.line.is_empty() {
            self.line_since.get_or_insert_with(Instant::now);
        }
        whole
    }

    /// Takes the beginning of the line that has not ended.
    fn begun_line(&mut self) -> String {
        self.line_since = None;
        std::mem::take(&mut self.line)
    }
}

/// How many bytes at the end may yet become a character.
fn unfinished_bytes(bytes: &[u8]) -> usize {
    for back in 1..=bytes.len().min(3) {
        let byte = bytes[bytes.len() - back];
        let needed = match byte {
            0xC2..=0xDF => 2,
            0xE0..=0xEF => 3,
            0xF0..=0xF4 => 4,
            0x80..=0xBF => continue,
            _ => return 0,
        };
        return if needed > back { back } else { 0 };
    }
    0
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use proptest::prelude::*;

    use super::*;

    #[derive(Default)]
    struct Chunks(Mutex<Vec<(u64, String, bool)>>);

    impl EventSink for Chunks {
        fn emit(&self, event: AgentEvent) {
            let AgentEvent::ToolOutput { chunk, offset, truncated, .. } = event else { panic!("{event:?}") };
            self.0.lock().unwrap().push((offset, chunk, truncated));
        }
    }

    #[test]
    fn more_than_the_bound_is_cut_with_a_mark() {
        let chunks = Arc::new(Chunks::default());
        let mut relay = Relay::new("t", Arc::clone(&chunks) as Arc<dyn EventSink>, 1000);
        for _ in 0..200 {
            relay.take(OutputStream::Stdout, &[b'x'; 10_000]);
        }
        let kept = relay.finish();
        assert!(kept.chars().count() < 1100 && kept.contains("characters left out"));
        let chunks = chunks.0.lock().unwrap();
        assert!(chunks.len() <= 66, "{} events", chunks.len());
        let (last, before) = chunks.split_last().unwrap();
        assert!(last.2 && last.1.ends_with(CUT_MARK));
        assert!(before.iter().all(|chunk| !chunk.2));
        let sent: usize = chunks.iter().map(|chunk| chunk.1.len()).sum();
        assert_eq!(sent, 1024 * 1024 + CUT_MARK.len());
    }

    #[test]
    fn the_streams_are_joined_at_line_ends() {
        let chunks = Arc::new(Chunks::default());
        let mut relay = Relay::new("t", Arc::clone(&chunks) as Arc<dyn EventSink>, 1000);
        for (stream, text) in [
            (OutputStream::Stdout, "first ha"),
            (OutputStream::Stderr, "warn"),
            (OutputStream::Stdout, "lf\nsec"),
            (OutputStream::Stderr, "ing\n"),
            (OutputStream::Stdout, "ond"),
            (OutputStream::Stderr, "last"),
        ] {
            relay.take(stream, text.as_bytes());
            relay.flush_one();
        }
        let expected = "first half\nwarning\nsecond\nlast";
        assert_eq!(relay.finish(), expected);
        let chunks = chunks.0.lock().unwrap();
        assert_eq!(chunks.iter().map(|chunk| chunk.1.as_str()).collect::<String>(), expected);
    }

    #[test]
    fn large_output_is_parted_at_line_ends() {
        let chunks = Arc::new(Chunks::default());
        let mut relay = Relay::new("t", Arc::clone(&chunks) as Arc<dyn EventSink>, 1000);
        relay.take(OutputStream::Stdout, "one line of many\n".repeat(5000).as_bytes());
        relay.finish();
        let chunks = chunks.0.lock().unwrap();
        assert!(chunks.len() > 4);
        assert!(chunks.iter().all(|chunk| chunk.1.ends_with('\n') && chunk.1.len() <= CHUNK_MAX_BYTES));
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_seen_after_a_while() {
        let chunks = Arc::new(Chunks::default());
        let mut relay = Relay::new("t", Arc::clone(&chunks) as Arc<dyn EventSink>, 1000);
        relay.take(OutputStream::Stdout, b"Password: ");
        let due = relay.flush_at().expect("it will be sent");
        assert!(due >= Instant::now() + Duration::from_millis(900));
        tokio::time::sleep_until(due).await;
        relay.flush_one();
        assert_eq!(chunks.0.lock().unwrap()[0].1, "Password: ");
        assert_eq!(relay.flush_at(), None);
    }

    proptest! {
        #[test]
        fn cutting_reads_anywhere_changes_no_character(
            text in "[a-zäß€😀]{0,40}", cuts in proptest::collection::vec(1_usize..6, 1..40),
        ) {
            let chunks = Arc::new(Chunks::default());
            let mut relay = Relay::new("t", Arc::clone(&chunks) as Arc<dyn EventSink>, 1000);
            let mut rest = text.as_bytes();
            for cut in cuts.iter().cycle() {
                if rest.is_empty() { break; }
                let (now, later) = rest.split_at((*cut).min(rest.len()));
                relay.take(OutputStream::Stdout, now);
                relay.flush_one();
                rest = later;
            }
            prop_assert_eq!(relay.finish(), text.clone());
            let chunks = chunks.0.lock().unwrap();
            let mut expected = 0;
            for (offset, chunk, _) in chunks.iter() {
                prop_assert_eq!(*offset, expected);
                expected += chunk.len() as u64;
            }
            prop_assert_eq!(chunks.iter().map(|chunk| chunk.1.as_str()).collect::<String>(), text);
        }
    }
}
