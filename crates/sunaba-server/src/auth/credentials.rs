//! Where a request may carry its token.

use base64::Engine as _;
use http::{HeaderMap, header};

/// The token in the headers: `Authorization: Bearer`, `Authorization: Basic` (the password, as git
/// sends it), `x-api-key` or `x-goog-api-key` (as model clients send it).
pub(crate) fn from_headers(headers: &HeaderMap) -> Option<String> {
    let authorization = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if let Some(token) = authorization.and_then(from_authorization) {
        return Some(token);
    }
    let mut keys =
        ["x-api-key", "x-goog-api-key"].into_iter().filter_map(|name| headers.get(name)?.to_str().ok());
    keys.find_map(|key| (!key.trim().is_empty()).then(|| key.trim().to_owned()))
}

fn from_authorization(value: &str) -> Option<String> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return (!rest.is_empty()).then(|| rest.to_owned());
    }
    if scheme.eq_ignore_ascii_case("basic") {
        let decoded = base64::engine::general_purpose::STANDARD.decode(rest).ok()?;
        let text = String::from_utf8(decoded).ok()?;
        let (_user, password) = text.split_once(':')?;
        return (!password.is_empty()).then(|| password.to_owned());
    }
    None
}

/// The value of `token=` in a query string.
pub fn from_query(query: Option<&str>) -> Option<String> {
    let value = query?.split('&').find_map(|pair| pair.strip_prefix("token="))?;
    // Tokens consist of letters, digits and underscores, so nothing in one is ever escaped.
    (!value.is_empty()).then(|| value.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, value: &str) -> HeaderMap {
        HeaderMap::from_iter([(http::HeaderName::from_static(name), value.parse().unwrap())])
    }

    #[test]
    fn every_place_is_looked_at() {
        assert_eq!(from_headers(&headers("authorization", "Bearer t")).as_deref(), Some("t"));
        assert_eq!(from_headers(&headers("authorization", "bearer  t ")).as_deref(), Some("t"));
        assert_eq!(from_headers(&headers("authorization", "Basic eDp0")).as_deref(), Some("t"));
        assert_eq!(from_headers(&headers("x-api-key", "t")).as_deref(), Some("t"));
        assert_eq!(from_headers(&headers("x-goog-api-key", "t")).as_deref(), Some("t"));
        assert_eq!(from_headers(&headers("authorization", "Basic !!")), None);
        assert_eq!(from_headers(&headers("authorization", "Bearer")), None);
        assert_eq!(from_query(Some("a=1&token=t&b=2")).as_deref(), Some("t"));
        assert_eq!(from_query(Some("token=")), None);
    }

    proptest::proptest! {
        #[test]
        fn nothing_in_a_header_makes_it_fail(value in "[ -~]{0,60}") {
            let _ = from_authorization(&value);
            let _ = from_query(Some(&value));
        }
    }
}
