//! Which headers pass, and which way. The sandbox's token is not among them.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret as _, SecretString};

use crate::dialect::Vendor;

/// The request's headers that concern the model, with the real key.
pub(super) fn passed_on(vendor: Vendor, headers: &HeaderMap, key: &SecretString) -> Option<HeaderMap> {
    let mut kept = only(headers, |name| {
        matches!(name, "content-type" | "accept" | "user-agent")
            || match vendor {
                Vendor::Anthropic => name.starts_with("anthropic-"),
                // Not the organisation or the project: who pays is not the sandbox's to say.
                Vendor::OpenAi => matches!(name, "openai-beta" | "x-client-request-id"),
            }
    });
    let (name, value) = match vendor {
        Vendor::Anthropic => (HeaderName::from_static("x-api-key"), key.expose_secret().to_owned()),
        Vendor::OpenAi => (header::AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
    };
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    kept.insert(name, value);
    Some(kept)
}

/// The answer's headers that concern the client.
pub(super) fn passed_back(vendor: Vendor, headers: &HeaderMap) -> HeaderMap {
    only(headers, |name| {
        matches!(name, "content-type" | "cache-control" | "retry-after" | "retry-after-ms" | "request-id")
            || match vendor {
                Vendor::Anthropic => name.starts_with("anthropic-"),
                Vendor::OpenAi => {
                    matches!(
                        name,
                        "x-request-id" | "openai-processing-ms" | "openai-version" | "openai-model"
                    ) || name.starts_with("x-ratelimit-")
                }
            }
    })
}

fn only(headers: &HeaderMap, wanted: impl Fn(&str) -> bool) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| wanted(name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}
