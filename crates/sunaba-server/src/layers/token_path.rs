//! Tokens in addresses: `/w/{token}/…` for workers that cannot send a header.

/// What stands in a log line where a token was.
const REDACTED: &str = "/w/***";

/// Splits `/w/{token}/rest` into the token and `/rest`; `None` for every other path.
pub fn split(path: &str) -> Option<(&str, &str)> {
    let after = path.strip_prefix("/w/")?;
    match after.find('/') {
        Some(slash) => Some((&after[..slash], &after[slash..])),
        None => Some((after, "/")),
    }
}

/// The path as it may be logged.
pub fn redact(path: &str) -> String {
    match split(path) {
        Some((_, rest)) => format!("{REDACTED}{}", without_tokens(rest)),
        None => without_tokens(path),
    }
}

/// Hides anything that looks like a token, wherever it stands.
fn without_tokens(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("sun_") {
        kept.push_str(&rest[..at]);
        kept.push_str("***");
        let word = &rest[at..];
        let end = word.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(word.len());
        rest = &word[end..];
    }
    kept.push_str(rest);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_cut_out() {
        assert_eq!(split("/w/tok/api/v1"), Some(("tok", "/api/v1")));
        assert_eq!(split("/w/tok"), Some(("tok", "/")));
        assert_eq!(split("/w/tok/"), Some(("tok", "/")));
        assert_eq!(split("/worlds/x"), None);
        assert_eq!(split("/api/w/x"), None);
    }

    proptest::proptest! {
        #[test]
        fn what_is_put_in_comes_out(token in "[a-zA-Z0-9_]{1,80}", rest in "(/[a-z0-9_.%-]{0,10}){1,5}") {
            let path = format!("/w/{token}{rest}");
            assert_eq!(split(&path), Some((token.as_str(), rest.as_str())));
        }

        #[test]
        fn no_token_survives(before in "(/[a-z0-9]{0,6}){0,3}/", kind in "admin|personal|sandbox", secret in "[0-9a-f]{64}", after in "(/[a-z]{0,4}){0,2}") {
            let token = format!("sun_{kind}_{secret}");
            for path in [format!("{before}{token}{after}"), format!("/w/{token}{after}"), format!("/w/{secret}{after}")] {
                assert!(!redact(&path).contains(&secret), "{}", redact(&path));
            }
        }
    }
}
