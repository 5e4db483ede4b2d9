//! Where a stream is cut makes no difference.

use proptest::prelude::*;
use sunaba_llm::{SseEvent, SseParser};

fn parse(pieces: &[&[u8]]) -> Vec<SseEvent> {
    let mut parser = SseParser::default();
    let mut events = Vec::new();
    for piece in pieces {
        parser.push(piece, &mut events).expect("no bound is reached");
    }
    events
}

fn cut<'a>(bytes: &'a [u8], lengths: &[usize]) -> Vec<&'a [u8]> {
    let mut rest = bytes;
    let mut pieces = Vec::new();
    for length in lengths {
        let (piece, later) = rest.split_at((*length).min(rest.len()));
        pieces.push(piece);
        rest = later;
    }
    pieces.push(rest);
    pieces
}

proptest! {
    #[test]
    fn any_cutting_of_any_bytes_gives_the_same_events(
        bytes in proptest::collection::vec(
            prop_oneof![Just(b'\n'), Just(b'\r'), Just(b':'), Just(b' '), Just(b'd'), any::<u8>()], 0..200,
        ),
        lengths in proptest::collection::vec(0_usize..20, 0..40),
    ) {
        prop_assert_eq!(parse(&cut(&bytes, &lengths)), parse(&[&bytes]));
    }

    #[test]
    fn what_was_written_is_read(
        sent in proptest::collection::vec(("[a-z_]{0,12}", "[ -~äß€\n]{0,60}"), 0..12),
        ending in prop_oneof![Just("\n"), Just("\r\n"), Just("\r")],
        lengths in proptest::collection::vec(0_usize..9, 0..120),
    ) {
        let mut stream = String::new();
        for (event, data) in &sent {
            stream.push_str(&format!(": comment{ending}event: {event}{ending}"));
            for line in data.split('\n') {
                stream.push_str(&format!("data: {line}{ending}"));
            }
            stream.push_str(ending);
        }
        let read = parse(&cut(stream.as_bytes(), &lengths));
        let expected: Vec<_> =
            sent.into_iter().map(|(event, data)| SseEvent { event, data }).collect();
        prop_assert_eq!(read, expected);
    }

    #[test]
    fn memory_stays_bounded(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..64), 0..64),
    ) {
        let mut parser = SseParser::with_limits(32, 64);
        let mut events = Vec::new();
        for piece in &pieces {
            if parser.push(piece, &mut events).is_err() {
                break;
            }
        }
        // A byte that is no UTF-8 becomes a character of three bytes.
        prop_assert!(events.iter().all(|event| event.data.len() <= 64 && event.event.len() <= 96));
    }
}
