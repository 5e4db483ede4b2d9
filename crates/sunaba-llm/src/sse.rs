//! A parser for `text/event-stream`, fed with bytes as they come.
//!
//! Where the bytes are cut makes no difference to what comes out. A line or an event above its bound is an
//! error, and after an error the parser gives nothing more: the stream cannot be trusted from there on.
//! `id:` and `retry:` are read and dropped, because a model call is never resumed.

/// One event of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SseEvent {
    /// The event's name; empty when the stream gave none.
    pub event: String,
    /// Its data lines, joined by line feeds.
    pub data: String,
}

/// Why a stream cannot be read on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SseError {
    /// A line is too long.
    #[error("a line is longer than {0} bytes")]
    LineTooLong(usize),
    /// An event is too large.
    #[error("an event is larger than {0} bytes")]
    EventTooLarge(usize),
}

const LINE_MAX_BYTES: usize = 4 * 1024 * 1024;
const EVENT_MAX_BYTES: usize = 8 * 1024 * 1024;
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The parser's state between two pieces of a stream.
#[derive(Debug)]
pub struct SseParser {
    line_max_bytes: usize,
    event_max_bytes: usize,
    line: Vec<u8>,
    event: String,
    data: Option<String>,
    /// The last byte was a carriage return: a line feed that follows belongs to it.
    after_return: bool,
    at_start: bool,
    failed: Option<SseError>,
}

impl Default for SseParser {
    fn default() -> Self {
        Self::with_limits(LINE_MAX_BYTES, EVENT_MAX_BYTES)
    }
}

impl SseParser {
    /// A parser with its own bounds.
    pub fn with_limits(line_max_bytes: usize, event_max_bytes: usize) -> Self {
        Self {
            line_max_bytes,
            event_max_bytes,
            line: Vec::new(),
            event: String::new(),
            data: None,
            after_return: false,
            at_start: true,
            failed: None,
        }
    }

    /// Takes the next bytes and puts the events that they complete at the end of `events`.
    ///
    /// # Errors
    /// When a bound is passed, now or before. Events completed before that stand in `events`.
    pub fn push(&mut self, mut bytes: &[u8], events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        while !bytes.is_empty() {
            if std::mem::take(&mut self.after_return) && bytes[0] == b'\n' {
                bytes = &bytes[1..];
                continue;
            }
            let end = bytes.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            let piece = &bytes[..end.unwrap_or(bytes.len())];
            if self.line.len() + piece.len() > self.line_max_bytes {
                return Err(self.fail(SseError::LineTooLong(self.line_max_bytes)));
            }
            self.line.extend_from_slice(piece);
            let Some(end) = end else { break };
            self.after_return = bytes[end] == b'\r';
            bytes = &bytes[end + 1..];
            self.end_line(events)?;
        }
        Ok(())
    }

    fn fail(&mut self, error: SseError) -> SseError {
        self.failed = Some(error);
        self.line = Vec::new();
        error
    }

    fn end_line(&mut self, events: &mut Vec<SseEvent>) -> Result<(), SseError> {
        let mut raw = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.at_start) && raw.starts_with(BYTE_ORDER_MARK) {
            raw.drain(..BYTE_ORDER_MARK.len());
        }
        if raw.is_empty() {
            let event = std::mem::take(&mut self.event);
            events.extend(self.data.take().map(|data| SseEvent { event, data }));
        } else {
            self.take_field(&String::from_utf8_lossy(&raw))?;
        }
        // The buffer goes back, so that a stream of short lines allocates once.
        raw.clear();
        self.line = raw;
        Ok(())
    }

    fn take_field(&mut self, line: &str) -> Result<(), SseError> {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match name {
            "event" => value.clone_into(&mut self.event),
            "data" => {
                let held = self.data.as_ref().map_or(0, |data| data.len() + 1);
                if held + value.len() > self.event_max_bytes {
                    return Err(self.fail(SseError::EventTooLarge(self.event_max_bytes)));
                }
                match &mut self.data {
                    Some(data) => {
                        data.push('\n');
                        data.push_str(value);
                    }
                    None => self.data = Some(value.to_owned()),
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Vec<(String, String)> {
        let mut events = Vec::new();
        SseParser::default().push(text.as_bytes(), &mut events).unwrap();
        events.into_iter().map(|event| (event.event, event.data)).collect()
    }

    #[test]
    fn names_data_comments_and_joined_lines() {
        let got =
            parse(": hello\nevent: a\ndata: one\ndata:two\nid: 7\n\ndata\n\nevent: unsent\n\ndata: cut off");
        assert_eq!(got, [("a".into(), "one\ntwo".into()), (String::new(), String::new())]);
    }

    #[test]
    fn every_line_ending_and_a_byte_order_mark() {
        let got = parse("\u{feff}data: a\r\rdata: b\r\n\r\ndata: c\n\n");
        assert_eq!(got.iter().map(|(_, data)| data.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    }

    #[test]
    fn bounds_hold_and_the_error_stays() {
        let mut events = Vec::new();
        let mut parser = SseParser::with_limits(16, 20);
        parser.push(b"data: ok\n\n", &mut events).unwrap();
        assert_eq!(parser.push(&[b'x'; 17], &mut events), Err(SseError::LineTooLong(16)));
        assert_eq!(parser.push(b"\n\ndata: no\n\n", &mut events), Err(SseError::LineTooLong(16)));
        assert_eq!(events.len(), 1);

        let mut parser = SseParser::with_limits(16, 20);
        let lines = b"data: 0123456789\ndata: 0123456789\n";
        assert_eq!(parser.push(lines, &mut events), Err(SseError::EventTooLarge(20)));
    }
}
