//! Reads server-sent events from pieces of bytes. Knows the framing, not what is framed.

/// Largest single event, in bytes: an event of the log is at most 1 MiB, and its JSON is escaped once more.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;

/// One event of a stream.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its id, if it has one.
    pub(super) id: Option<String>,
    /// Its name, if it has one.
    pub(super) event: Option<String>,
    /// Its data; lines joined by line feeds.
    pub(super) data: String,
}

/// Collects bytes until they are frames.
#[derive(Debug, Default)]
pub(super) struct Parser {
    buffer: Vec<u8>,
    frame: Frame,
    has_data: bool,
}

/// The stream sent more in one event than anybody may.
#[derive(Debug, thiserror::Error)]
#[error("an event of the stream is larger than {MAX_EVENT_BYTES} bytes")]
pub(super) struct TooLarge;

impl Parser {
    /// Takes the next bytes and gives the frames that they complete.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Frame>, TooLarge> {
        self.buffer.extend_from_slice(bytes);
        let mut frames = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = String::from_utf8_lossy(&self.buffer[start..start + length]).into_owned();
            start += length + 1;
            if let Some(frame) = self.line(line.trim_end_matches('\r')) {
                frames.push(frame);
            }
        }
        self.buffer.drain(..start);
        if self.buffer.len() + self.frame.data.len() > MAX_EVENT_BYTES {
            return Err(TooLarge);
        }
        Ok(frames)
    }

    fn line(&mut self, line: &str) -> Option<Frame> {
        if line.is_empty() {
            let frame = std::mem::take(&mut self.frame);
            return std::mem::take(&mut self.has_data).then_some(frame);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.frame.id = Some(value.to_owned()),
            "event" => self.frame.event = Some(value.to_owned()),
            "data" => {
                if self.has_data {
                    self.frame.data.push('\n');
                }
                self.frame.data.push_str(value);
                self.has_data = true;
            }
            // Comments keep the connection open; unknown fields are for others.
            _ => {}
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_out_whole_however_the_bytes_are_cut() {
        let text = ": hello\n\nid: 1\nevent: a\ndata: {\"x\":\ndata: 1}\n\nid: 2\r\ndata: ü\r\n\r\n";
        let wanted = vec![
            Frame { id: Some("1".into()), event: Some("a".into()), data: "{\"x\":\n1}".into() },
            Frame { id: Some("2".into()), event: None, data: "ü".into() },
        ];
        for size in 1..text.len() {
            let mut parser = Parser::default();
            let frames: Vec<Frame> =
                text.as_bytes().chunks(size).flat_map(|piece| parser.push(piece).unwrap()).collect();
            assert_eq!(frames, wanted, "cut every {size} bytes");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = Parser::default();
        let piece = vec![b'x'; MAX_EVENT_BYTES / 2 + 1];
        assert!(parser.push(&piece).is_ok());
        assert!(parser.push(&piece).is_err());
    }
}
