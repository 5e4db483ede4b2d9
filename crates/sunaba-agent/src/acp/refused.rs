//! Why a turn failed, as far as the agent's words tell.

use super::preset::Preset;
use super::wire::{AUTH_REQUIRED, Refusal};
use crate::text::clip;
use crate::{ErrorClass, RunError};

const MESSAGE_MAX_CHARS: usize = 4_000;
/// What the APIs and the agents call errors. OpenCode has only one name, for what it does not try again.
const WORDS: [(&str, ErrorClass); 6] = [
    ("rate_limit", ErrorClass::RateLimited),
    ("overloaded", ErrorClass::Overloaded),
    ("authentication", ErrorClass::Auth),
    ("permission_error", ErrorClass::Auth),
    ("invalid_request", ErrorClass::InvalidRequest),
    ("APIError", ErrorClass::InvalidRequest),
];

pub(super) fn error(preset: &Preset, refusal: &Refusal) -> RunError {
    let words = refusal.words();
    let class = match refusal.code {
        AUTH_REQUIRED => ErrorClass::Auth,
        // Some give the status of the model's answer for their own.
        code => u16::try_from(code).ok().and_then(of_status).unwrap_or_else(|| class(&words)),
    };
    RunError {
        class,
        message: format!("{} gave up: {}", preset.known.title, clip(&words, MESSAGE_MAX_CHARS)),
    }
}

/// By the HTTP status or by the API's own word for it, one of which every agent mentions.
fn class(words: &str) -> ErrorClass {
    let status = words
        .split(|character: char| !character.is_ascii_digit())
        .filter(|digits| digits.len() == 3)
        .find_map(|digits| digits.parse::<u16>().ok().and_then(of_status));
    status.unwrap_or_else(|| {
        let named = WORDS.iter().find(|(word, _)| words.contains(word));
        named.map_or(ErrorClass::Network, |(_, class)| *class)
    })
}

/// What an HTTP status means, if it is one of an error.
fn of_status(status: u16) -> Option<ErrorClass> {
    match status {
        429 => Some(ErrorClass::RateLimited),
        401 | 403 => Some(ErrorClass::Auth),
        408 | 500..=599 => Some(ErrorClass::Overloaded),
        400..=499 => Some(ErrorClass::InvalidRequest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_in_place_of_a_code_counts() {
        let refusal = serde_json::from_value(serde_json::json!({"code": 400, "message": "no"})).unwrap();
        assert_eq!(error(crate::AcpAgent::Gemini.preset(), &refusal).class, ErrorClass::InvalidRequest);
    }

    #[test]
    fn a_status_in_the_words_says_what_sort_it_is() {
        assert_eq!(class("unexpected status 400 Bad Request: no such thing"), ErrorClass::InvalidRequest);
        assert_eq!(class("exceeded retry limit, last status: 529"), ErrorClass::Overloaded);
        assert_eq!(class("HTTP 429, port 40101"), ErrorClass::RateLimited);
        assert_eq!(class(r#"{"type": "invalid_request_error"}"#), ErrorClass::InvalidRequest);
        assert_eq!(class("stream closed"), ErrorClass::Network);
    }
}
