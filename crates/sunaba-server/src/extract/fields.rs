//! Reads the fields of a JSON object one by one, gathering what is wrong with each.
//!
//! Unknown fields are ignored; `null` is the same as absent.

use std::borrow::Cow;
use std::collections::HashMap;

use http::StatusCode;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use crate::{ApiError, FieldError};

/// How long a text may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Text {
    /// Fewest characters.
    pub(crate) min: usize,
    /// Most characters.
    pub(crate) max: usize,
}

/// The fields of a body.
#[derive(Debug)]
pub(crate) struct Fields<'a> {
    values: HashMap<Key<'a>, &'a RawValue>,
    errors: Vec<FieldError>,
}

/// A name that is borrowed from the body unless it is escaped there.
#[derive(Debug, Deserialize)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Key<'_> {}
impl std::hash::Hash for Key<'_> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl std::borrow::Borrow<str> for Key<'_> {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl<'a> Fields<'a> {
    /// Reads a body: 400 if it is not JSON, 422 if it is not an object.
    pub(crate) fn of_body(body: &'a [u8]) -> Result<Self, ApiError> {
        let text = std::str::from_utf8(body).map_err(|_| not_json("it is not UTF-8"))?;
        Self::of_text(text).map_err(|_| match serde_json::from_str::<&RawValue>(text) {
            Ok(_) => ApiError::field("body", "must be a JSON object"),
            Err(error) => not_json(&error.to_string()),
        })
    }

    /// Reads one JSON value; `None` if it is not an object.
    pub(crate) fn of_value(raw: &'a RawValue) -> Option<Self> {
        Self::of_text(raw.get()).ok()
    }

    fn of_text(text: &'a str) -> Result<Self, serde_json::Error> {
        let values: HashMap<Key<'a>, &'a RawValue> = serde_json::from_str(text)?;
        Ok(Self { values, errors: Vec::new() })
    }

    /// The bytes of a field as they came; `None` if it is absent or `null`.
    pub(crate) fn raw(&self, name: &str) -> Option<&'a RawValue> {
        self.values.get(name).copied().filter(|raw| raw.get() != "null")
    }

    /// Notes that a field is at fault.
    pub(crate) fn fault(&mut self, field: &str, detail: impl Into<String>) {
        self.errors.push(FieldError { field: field.to_owned(), detail: detail.into() });
    }

    /// A field of some type; `expected` names the type in the error.
    pub(crate) fn optional<T: DeserializeOwned>(&mut self, name: &str, expected: &str) -> Option<T> {
        let raw = self.raw(name)?;
        match serde_json::from_str(raw.get()) {
            Ok(value) => Some(value),
            Err(_) => {
                self.fault(name, format!("must be {expected}"));
                None
            }
        }
    }

    /// A text within bounds and without NUL.
    pub(crate) fn text(&mut self, name: &str, bounds: Text) -> Option<String> {
        let text: String = self.optional(name, "a string")?;
        let length = text.chars().count();
        if length < bounds.min || length > bounds.max {
            self.fault(name, format!("must have {} to {} characters, has {length}", bounds.min, bounds.max));
            return None;
        }
        if text.contains('\0') {
            self.fault(name, "cannot contain the NUL character");
            return None;
        }
        Some(text)
    }

    /// A text within bounds, also counted in bytes: it travels where the kernel counts them.
    pub(crate) fn bounded_text(&mut self, name: &str, bounds: Text, most_bytes: usize) -> Option<String> {
        let text = self.text(name, bounds)?;
        if text.len() > most_bytes {
            self.fault(name, format!("must have at most {most_bytes} bytes, has {}", text.len()));
            return None;
        }
        Some(text)
    }

    /// A text that must be there.
    pub(crate) fn required_text(&mut self, name: &str, bounds: Text) -> Option<String> {
        self.require(name);
        self.text(name, bounds)
    }

    /// Notes a fault if the field is absent.
    pub(crate) fn require(&mut self, name: &str) {
        if self.raw(name).is_none() {
            self.fault(name, "is required");
        }
    }

    /// A text that some parser understands; its error is the fault.
    pub(crate) fn parsed<T, E: std::fmt::Display>(
        &mut self,
        name: &str,
        parse: impl FnOnce(String) -> Result<T, E>,
    ) -> Option<T> {
        let text: String = self.optional(name, "a string")?;
        match parse(text) {
            Ok(value) => Some(value),
            Err(error) => {
                self.fault(name, error.to_string());
                None
            }
        }
    }

    /// One of a few words.
    pub(crate) fn word<T: Copy>(
        &mut self,
        name: &str,
        all: &[T],
        name_of: impl Fn(T) -> &'static str,
    ) -> Option<T> {
        let text: String = self.optional(name, "a string")?;
        let found = all.iter().copied().find(|value| name_of(*value) == text);
        if found.is_none() {
            let words: Vec<&str> = all.iter().map(|value| name_of(*value)).collect();
            self.fault(name, format!("must be one of {}", words.join(", ")));
        }
        found
    }

    /// What is wrong so far, as an error.
    pub(crate) fn finish(self) -> Result<(), ApiError> {
        if self.errors.is_empty() { Ok(()) } else { Err(ApiError::validation(self.errors)) }
    }

    #[cfg(test)]
    fn into_errors(self) -> Vec<FieldError> {
        self.errors
    }
}

fn not_json(why: &str) -> ApiError {
    ApiError::new(StatusCode::BAD_REQUEST, "invalid_json", format!("the body is not JSON: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: Text = Text { min: 1, max: 3 };

    #[test]
    fn every_fault_is_named() {
        let mut fields = Fields::of_body(br#"{"a": 1, "b": "long", "c": "x\u0000"}"#).unwrap();
        for name in ["a", "b", "c", "d"] {
            assert_eq!(fields.required_text(name, NAME), None);
        }
        let names: Vec<String> = fields.into_errors().into_iter().map(|error| error.field).collect();
        assert_eq!(names, ["a", "b", "c", "d"]);
    }

    #[test]
    fn not_json_is_400_and_not_an_object_is_422() {
        assert_eq!(Fields::of_body(b"{").unwrap_err().status(), StatusCode::BAD_REQUEST);
        assert_eq!(Fields::of_body(b"\xff").unwrap_err().status(), StatusCode::BAD_REQUEST);
        assert_eq!(Fields::of_body(b"[]").unwrap_err().status(), StatusCode::UNPROCESSABLE_ENTITY);
    }

    #[test]
    fn escaped_names_are_the_same_names() {
        let mut fields = Fields::of_body(br#"{"\u0061": "x"}"#).unwrap();
        assert_eq!(fields.text("a", NAME).as_deref(), Some("x"));
    }

    proptest::proptest! {
        #[test]
        fn any_bytes_give_fields_or_a_client_error(body in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            match Fields::of_body(&body) {
                Ok(fields) => drop(fields.finish()),
                Err(error) => assert!(error.status().is_client_error()),
            }
        }
    }
}
