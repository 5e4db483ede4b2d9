//! Which headers pass, and which way. The sandbox's token is not among them.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use secrecy::{ExposeSecret as _, SecretString};

use crate::dialect::Vendor;

/// Kinds of trial features that let the vendor sample more than once, have others answer, or work outside. What
/// they would switch on is not passed on either; without them it cannot be.
const BETAS_LEFT_OUT: &[&str] = &[
    "compact-",
    "fast-mode-",
    "server-side-fallback",
    "fallback-",
    "mcp-client-",
    "code-execution-",
    "advisor-",
];

/// The request's headers that concern the model, with the real key.
pub(super) fn passed_on(vendor: Vendor, headers: &HeaderMap, key: &SecretString) -> Option<HeaderMap> {
    let mut kept = only(headers, |name| {
        matches!(name, "content-type" | "accept" | "user-agent")
            || match vendor {
                Vendor::Anthropic => matches!(name, "anthropic-version" | "anthropic-beta"),
                // Not the organisation or the project: who pays is not the sandbox's to say.
                Vendor::OpenAi => matches!(name, "openai-beta" | "x-client-request-id"),
                // Likewise not the project that is to be charged.
                Vendor::Google => name == "x-goog-api-client",
            }
    });
    keep_plain_betas(&mut kept);
    let (name, value) = match vendor {
        Vendor::Anthropic => (HeaderName::from_static("x-api-key"), key.expose_secret().to_owned()),
        Vendor::OpenAi => (header::AUTHORIZATION, format!("Bearer {}", key.expose_secret())),
        Vendor::Google => (HeaderName::from_static("x-goog-api-key"), key.expose_secret().to_owned()),
    };
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    kept.insert(name, value);
    Some(kept)
}

fn keep_plain_betas(headers: &mut HeaderMap) {
    let said: Vec<&str> =
        headers.get_all("anthropic-beta").iter().filter_map(|value| value.to_str().ok()).collect();
    let is_plain = |beta: &&str| !BETAS_LEFT_OUT.iter().any(|start| beta.starts_with(start));
    let plain: Vec<&str> =
        said.iter().flat_map(|value| value.split(',')).map(str::trim).filter(is_plain).collect();
    let kept = HeaderValue::from_str(&plain.join(",")).ok().filter(|value| !value.is_empty());
    headers.remove("anthropic-beta");
    if let Some(kept) = kept {
        headers.insert("anthropic-beta", kept);
    }
}

/// The answer's headers that concern the client.
pub(super) fn passed_back(vendor: Vendor, headers: &HeaderMap) -> HeaderMap {
    only(headers, |name| {
        matches!(name, "content-type" | "cache-control" | "retry-after" | "retry-after-ms" | "request-id")
            || match vendor {
                // Not who pays: `anthropic-organization-id` is the operator's own business.
                Vendor::Anthropic => name.starts_with("anthropic-ratelimit-"),
                Vendor::OpenAi => {
                    matches!(
                        name,
                        "x-request-id" | "openai-processing-ms" | "openai-version" | "openai-model"
                    ) || name.starts_with("x-ratelimit-")
                }
                Vendor::Google => false,
            }
    })
}

fn only(headers: &HeaderMap, wanted: impl Fn(&str) -> bool) -> HeaderMap {
    let kept = headers.iter().filter(|(name, _)| wanted(name.as_str()));
    kept.map(|(name, value)| (name.clone(), value.clone())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        all.iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    #[test]
    fn only_what_concerns_the_model_goes_on() {
        let sent = headers(&[
            ("anthropic-version", "2023-06-01"),
            ("anthropic-beta", "claude-code-20250219, compact-2026-01-12"),
            ("anthropic-beta", "fast-mode-2026-02-01,context-management-2025-06-27"),
            ("anthropic-workspace", "other"),
            ("x-api-key", "sandbox"),
        ]);
        let passed = passed_on(Vendor::Anthropic, &sent, &"real".into()).unwrap();
        assert_eq!(passed["anthropic-beta"], "claude-code-20250219,context-management-2025-06-27");
        assert_eq!(
            (&passed["anthropic-version"], &passed["x-api-key"]),
            (&"2023-06-01".parse().unwrap(), &"real".parse().unwrap())
        );
        assert_eq!(passed.len(), 3);
    }

    #[test]
    fn who_pays_is_not_told_to_the_sandbox() {
        let answered = headers(&[
            ("request-id", "r"),
            ("anthropic-ratelimit-unified-reset", "1"),
            ("anthropic-organization-id", "secret"),
            ("set-cookie", "x"),
        ]);
        let passed = passed_back(Vendor::Anthropic, &answered);
        assert_eq!(passed, headers(&[("request-id", "r"), ("anthropic-ratelimit-unified-reset", "1")]));
    }
}
