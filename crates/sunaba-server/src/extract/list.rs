//! Positions that clients hand back: feed positions and places in a log.

/// Reads a place in the feed or in a log: a whole number from 0.
pub fn parse_position(text: &str) -> Result<i64, &'static str> {
    match text.trim().parse::<i64>() {
        Ok(position) if position >= 0 => Ok(position),
        _ => Err("must be a whole number from 0"),
    }
}

/// Reads an event id used as a cursor.
pub fn parse_cursor(text: String) -> Result<String, sunaba_types::IdError> {
    sunaba_types::validate_id(&text).map(|()| text)
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        #[test]
        fn every_place_survives_the_way_out_and_back(place in 0..i64::MAX) {
            assert_eq!(parse_position(&place.to_string()), Ok(place));
        }

        #[test]
        fn no_text_is_taken_for_a_place_before_the_first(text in ".{0,30}") {
            if let Ok(place) = parse_position(&text) {
                assert!(place >= 0);
            }
        }

        #[test]
        fn a_cursor_is_taken_as_it_is_or_refused(text in ".{0,120}") {
            if let Ok(cursor) = parse_cursor(text.clone()) {
                assert_eq!(cursor, text);
                assert!(cursor.chars().count() <= 100);
            }
        }
    }
}
