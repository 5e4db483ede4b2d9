//! The routes of Google's dialect: the model and what is wanted of it are one part of the address, `MODEL:VERB`.

use axum::extract::{Path, State};
use axum::response::Response;

use super::call::{self, Address, Named};
use super::{Asked, Refusal, busy, unknown};
use crate::GatewayState;
use crate::dialect::Google;

/// `POST /google/v1beta/models/MODEL:generateContent`, `:streamGenerateContent` and `:countTokens`.
pub(crate) async fn google(
    State(state): State<GatewayState>,
    Path(wanted): Path<String>,
    mut asked: Asked,
) -> Response {
    let Some((model, verb)) = wanted.rsplit_once(':').filter(|(model, _)| is_model(model)) else {
        return unknown_to_google().await;
    };
    let streamed = verb == "streamGenerateContent";
    let query = asked.query.take();
    // Nothing else of it is passed on: a key may stand there too.
    if streamed {
        if !query.as_deref().unwrap_or_default().split('&').any(|part| part == "alt=sse") {
            let words = "a streamed answer is served as events only; ask for it with ?alt=sse";
            return Refusal::invalid(words).response(&Google);
        }
        asked.query = Some("alt=sse".to_owned());
    }
    let path = format!("/v1beta/models/{wanted}").into();
    match verb {
        "generateContent" | "streamGenerateContent" => {
            let named = Some(Named { model: model.to_owned(), streamed });
            call::answer(state, &Google, Address { path, named }, asked).await
        }
        "countTokens" => call::count_tokens(state, &Google, path, asked).await,
        _ => unknown_to_google().await,
    }
}

/// Whether a name can stand in an address as it is; a script's has a colon.
fn is_model(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b':');
    !name.is_empty() && !name.starts_with('.') && name.bytes().all(is_plain)
}

/// Any other route below Google's base address.
pub(crate) async fn unknown_to_google() -> Response {
    let verbs = "/v1beta/models/MODEL:generateContent, :streamGenerateContent and :countTokens";
    unknown(&Google, verbs)
}

/// The answer when a sandbox has too many calls under way, in Google's words.
pub(crate) fn google_busy(words: String) -> Response {
    busy(&Google, words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_names_are_models() {
        for name in ["gemini-2.5-pro", "a_b", "x", "script:default"] {
            assert!(is_model(name), "{name}");
        }
        for name in ["", "..", "../v1/files", "a/b", "a?b", "a b", "a%2f"] {
            assert!(!is_model(name), "{name}");
        }
    }
}
