//! Reads from an answer until when a vendor takes no more calls.

use std::time::Duration;

use http::{HeaderMap, StatusCode};
use sunaba_types::Timestamp;

/// When a limit that was reached ends; none when it was not reached or does not say.
pub(super) fn until(status: StatusCode, headers: &HeaderMap, now: Timestamp) -> Option<Timestamp> {
    if status != StatusCode::TOO_MANY_REQUESTS {
        return None;
    }
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let in_seconds = text("retry-after").and_then(|value| value.trim().parse::<u64>().ok());
    let waited = in_seconds.map(Duration::from_secs);
    if let Some(at) = waited.and_then(|wait| now.checked_add(wait).ok()) {
        return Some(at);
    }
    let resets = headers.iter().filter_map(|(name, value)| {
        let name = name.as_str();
        let (kind, value) = (name.strip_suffix("-reset")?, value.to_str().ok()?);
        // A limit that has something left is not the one that was reached.
        let used_up = text(&format!("{kind}-remaining")).is_none_or(|left| left.trim() == "0");
        (name.starts_with("anthropic-ratelimit-") && used_up).then(|| moment(value)).flatten()
    });
    resets.max()
}

/// A moment as it is written out, or in seconds since 1970.
fn moment(value: &str) -> Option<Timestamp> {
    let value = value.trim();
    value.parse().ok().or_else(|| Timestamp::from_second(value.parse().ok()?).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(status: u16, headers: &[(&'static str, &'static str)]) -> Option<String> {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap()));
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        until(StatusCode::from_u16(status).unwrap(), &headers.collect(), now).map(|at| at.to_string())
    }

    #[test]
    fn the_end_of_a_limit_is_read_where_the_vendor_says_it() {
        assert_eq!(seen(429, &[("retry-after", "90")]).as_deref(), Some("2026-01-01T00:01:30Z"));
        let tokens = [
            ("anthropic-ratelimit-tokens-remaining", "0"),
            ("anthropic-ratelimit-tokens-reset", "2026-01-01T05:00:00Z"),
            ("anthropic-ratelimit-requests-remaining", "9"),
            ("anthropic-ratelimit-requests-reset", "2026-01-02T05:00:00Z"),
        ];
        assert_eq!(seen(429, &tokens).as_deref(), Some("2026-01-01T05:00:00Z"));
        let unified = [("anthropic-ratelimit-unified-reset", "1767243600")];
        assert_eq!(seen(429, &unified).as_deref(), Some("2026-01-01T05:00:00Z"));
        assert_eq!(seen(200, &tokens), None);
        assert_eq!(seen(429, &[("retry-after", "soon")]), None);
    }
}
