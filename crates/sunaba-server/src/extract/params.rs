//! Reads query parameters one by one, gathering what is wrong with each. Unknown ones are ignored.

use std::ops::RangeInclusive;

use axum::extract::{FromRequestParts, Query};
use http::request::Parts;
use http::{StatusCode, Uri};
use sunaba_types::topic::split_list;

use crate::{ApiError, AppState, FieldError};

const VALUE_MAX_CHARS: usize = 4096;

/// The parameters of a request.
#[derive(Debug)]
pub(crate) struct Params {
    pairs: Vec<(String, String)>,
    errors: Vec<FieldError>,
}

impl FromRequestParts<AppState> for Params {
    type Rejection = ApiError;
    async fn from_request_parts(parts: &mut Parts, _: &AppState) -> Result<Self, ApiError> {
        Self::of_uri(&parts.uri)
    }
}

impl Params {
    /// Reads the query string of an address.
    pub(crate) fn of_uri(uri: &Uri) -> Result<Self, ApiError> {
        let Query(pairs) = Query::<Vec<(String, String)>>::try_from_uri(uri).map_err(|_| {
            ApiError::new(StatusCode::BAD_REQUEST, "invalid_query", "the query string cannot be read")
        })?;
        Ok(Self { pairs, errors: Vec::new() })
    }

    /// The value of a parameter; the last one counts.
    pub(crate) fn text(&mut self, name: &str) -> Option<String> {
        let value = self.pairs.iter().rev().find(|(key, _)| key == name).map(|(_, value)| value.clone())?;
        if value.contains('\0') || value.chars().count() > VALUE_MAX_CHARS {
            self.fault(name, format!("must have at most {VALUE_MAX_CHARS} characters and no NUL"));
            return None;
        }
        Some(value)
    }

    /// Whether it was given at all.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.pairs.iter().any(|(key, _)| key == name)
    }

    /// A whole number within a range.
    pub(crate) fn number(&mut self, name: &str, range: RangeInclusive<i64>) -> Option<i64> {
        let text = self.text(name)?;
        match text.parse::<i64>() {
            Ok(number) if range.contains(&number) => Some(number),
            _ => {
                self.fault(name, format!("must be a whole number from {} to {}", range.start(), range.end()));
                None
            }
        }
    }

    /// How many to return.
    pub(crate) fn limit(&mut self, default: u32, most: u32) -> u32 {
        let limit = self.number("limit", 1..=i64::from(most));
        limit.and_then(|limit| u32::try_from(limit).ok()).unwrap_or(default)
    }

    /// A comma list, of all values given for the name.
    pub(crate) fn list(&mut self, name: &str) -> Vec<String> {
        let all: Vec<String> =
            self.pairs.iter().filter(|(key, _)| key == name).map(|(_, value)| value.clone()).collect();
        let list = split_list(&all.join(","));
        if list.len() > 200 || list.iter().any(|item| item.contains('\0') || item.chars().count() > 200) {
            self.fault(name, "must be a comma list of at most 200 names of at most 200 characters");
            return Vec::new();
        }
        list
    }

    /// A value that some parser understands; its error is the fault.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Option<T> {
        let text = self.text(name)?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(name, error.to_string());
                None
            }
        }
    }

    /// Notes that a parameter is at fault.
    pub(crate) fn fault(&mut self, field: &str, detail: impl Into<String>) {
        self.errors.push(FieldError { field: field.to_owned(), detail: detail.into() });
    }

    /// What is wrong so far, as an error.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        if self.errors.is_empty() { Ok(()) } else { Err(ApiError::validation(self.errors)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn params(query: &str) -> Params {
        Params::of_uri(&format!("/x?{query}").parse().unwrap()).unwrap()
    }

    #[test]
    fn numbers_outside_their_range_are_faults() {
        for query in ["limit=0", "limit=501", "limit=x", "limit=-1", "limit=1.5", "limit="] {
            let mut params = params(query);
            params.limit(100, 500);
            assert!(params.finish().is_err(), "{query}");
        }
        assert_eq!(params("limit=500").limit(100, 500), 500);
        assert_eq!(params("").limit(100, 500), 100);
    }

    #[test]
    fn a_list_may_be_given_in_pieces() {
        assert_eq!(params("t=a,b&t=c&t=").list("t"), ["a", "b", "c"]);
    }

    proptest::proptest! {
        #[test]
        fn any_query_gives_values_or_a_client_error(query in "[!-~]{0,80}") {
            let Ok(uri) = format!("/x?{query}").parse::<Uri>() else { return Ok(()) };
            let Ok(mut params) = Params::of_uri(&uri) else { return Ok(()) };
            let limit = params.limit(7, 50);
            assert!((1..=50).contains(&limit));
            assert!(params.list("event_types").iter().all(|item| !item.is_empty() && !item.contains(',')));
        }
    }
}
