//! What the other side says about another try.

use std::time::Duration;

use http::header::{DATE, RETRY_AFTER};
use http::{HeaderMap, StatusCode};
use jiff::Timestamp;
use jiff::fmt::rfc2822;

/// The limits that the API counts separately; each has a `-remaining` and a `-reset`.
const LIMITS: [&str; 4] = [
    "anthropic-ratelimit-requests",
    "anthropic-ratelimit-tokens",
    "anthropic-ratelimit-input-tokens",
    "anthropic-ratelimit-output-tokens",
];

/// How long the other side asks to wait: in its own words, or until the limits that are used up are filled again.
///
/// Points in time are counted from the answer's own `Date`, because nobody promises that the two clocks agree.
pub(crate) fn retry_after(status: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let asked = number(headers, "retry-after-ms")
        .map(|milliseconds| milliseconds / 1000.0)
        .or_else(|| number(headers, RETRY_AFTER.as_str()))
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    asked.or_else(|| {
        let now = date(headers, DATE.as_str())?;
        let named = date(headers, RETRY_AFTER.as_str()).map(|then| until(now, then));
        named.or_else(|| (status == StatusCode::TOO_MANY_REQUESTS).then(|| limits_reset(headers, now))?)
    })
}

/// Whether the other side says outright that another try helps, or does not.
pub(crate) fn should_retry(headers: &HeaderMap) -> Option<bool> {
    text(headers, "x-should-retry")?.parse().ok()
}

/// Until the last of the limits that are used up is filled again.
fn limits_reset(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let used_up = |limit: &&&str| number(headers, &format!("{limit}-remaining")) == Some(0.0);
    let reset = |limit: &&str| text(headers, &format!("{limit}-reset"))?.parse::<Timestamp>().ok();
    LIMITS.iter().filter(used_up).filter_map(reset).map(|then| until(now, then)).max()
}

fn until(now: Timestamp, then: Timestamp) -> Duration {
    Duration::try_from(then.duration_since(now)).unwrap_or_default()
}

fn date(headers: &HeaderMap, name: &str) -> Option<Timestamp> {
    rfc2822::DateTimeParser::new().parse_timestamp(text(headers, name)?).ok()
}

fn number(headers: &HeaderMap, name: &str) -> Option<f64> {
    text(headers, name)?.parse().ok()
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    Some(headers.get(name)?.to_str().ok()?.trim())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;

    const NOON: (&str, &str) = ("date", "Mon, 16 Nov 2026 12:00:00 GMT");

    fn asked(status: u16, pairs: &[(&str, &str)]) -> Option<f64> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            headers.insert(name, HeaderValue::from_str(value).unwrap());
        }
        retry_after(StatusCode::from_u16(status).unwrap(), &headers).map(|pause| pause.as_secs_f64())
    }

    #[test]
    fn every_way_to_ask_for_a_pause_is_understood() {
        assert_eq!(asked(529, &[("retry-after", "2.5")]), Some(2.5));
        assert_eq!(asked(429, &[("retry-after-ms", "250"), ("retry-after", "9")]), Some(0.25));
        assert_eq!(asked(503, &[NOON, ("retry-after", "Mon, 16 Nov 2026 12:00:30 GMT")]), Some(30.0));
        assert_eq!(asked(503, &[NOON, ("retry-after", "Mon, 16 Nov 2026 11:00:00 GMT")]), Some(0.0));
        for senseless in ["soon", "-4", "NaN", "inf"] {
            assert_eq!(asked(429, &[NOON, ("retry-after", senseless)]), None, "{senseless}");
        }
    }

    #[test]
    fn a_limit_that_is_used_up_says_when_it_is_filled_again() {
        let limits = [
            NOON,
            ("anthropic-ratelimit-requests-remaining", "0"),
            ("anthropic-ratelimit-requests-reset", "2026-11-16T12:00:10Z"),
            ("anthropic-ratelimit-input-tokens-remaining", "0"),
            ("anthropic-ratelimit-input-tokens-reset", "2026-11-16T12:00:40Z"),
            ("anthropic-ratelimit-output-tokens-remaining", "8000"),
            ("anthropic-ratelimit-output-tokens-reset", "2026-11-16T13:00:00Z"),
        ];
        assert_eq!(asked(429, &limits), Some(40.0));
        assert_eq!(asked(529, &limits), None, "an overload has nothing to do with the limits");
        assert_eq!(asked(429, &limits[1..]), None, "without a date there is nothing to count from");
    }
}
