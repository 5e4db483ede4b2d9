//! The fields of a request, changed one by one without touching the bytes of the others: a vendor's cache goes
//! by those bytes.

use std::collections::HashSet;
use std::fmt;

use bytes::Bytes;
use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

/// The top-level fields of a JSON object, in their order.
#[derive(Debug, Clone)]
pub(super) struct Fields(Vec<(String, Box<RawValue>)>);

impl Fields {
    /// Reads an object; a field that is named twice is an error, because readers differ in which one counts.
    pub(super) fn parse(body: &[u8]) -> Result<Self, String> {
        let fields: Self =
            serde_json::from_slice(body).map_err(|error| format!("not a JSON object: {error}"))?;
        let mut names = HashSet::new();
        match fields.0.iter().find(|(name, _)| !names.insert(name.as_str())) {
            Some((name, _)) => Err(format!("{name}: is named twice")),
            None => Ok(fields),
        }
    }

    /// A field's value; null when there is none.
    pub(super) fn get(&self, name: &str) -> Value {
        let found = self.0.iter().find(|(known, _)| known == name);
        found.and_then(|(_, raw)| serde_json::from_str(raw.get()).ok()).unwrap_or(Value::Null)
    }

    /// Sets a field, in its place or at the end.
    pub(super) fn set(&mut self, name: &str, value: &Value) {
        let raw = to_raw_value(value).expect("a JSON value is written as JSON");
        match self.0.iter_mut().find(|(known, _)| known == name) {
            Some((_, held)) => *held = raw,
            None => self.0.push((name.to_owned(), raw)),
        }
    }

    /// Keeps some fields only.
    pub(super) fn only(&self, names: &[&str]) -> Self {
        Self(self.0.iter().filter(|(name, _)| names.contains(&name.as_str())).cloned().collect())
    }

    /// Leaves a field out.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.retain(|(known, _)| known != name);
    }

    /// The object as bytes.
    pub(super) fn to_bytes(&self) -> Bytes {
        let mut text = String::from("{");
        for (index, (name, raw)) in self.0.iter().enumerate() {
            if index > 0 {
                text.push(',');
            }
            text.push_str(&Value::from(name.as_str()).to_string());
            text.push(':');
            text.push_str(raw.get());
        }
        text.push('}');
        Bytes::from(text)
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Vec::new();
                while let Some(field) = map.next_entry()? {
                    fields.push(field);
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_not_changed_keeps_its_bytes_and_its_place() {
        let body = r#"{"b": {"z": 1.50,  "a": [ ]}, "max_tokens": 9, "a\"": "ü"}"#;
        let mut fields = Fields::parse(body.as_bytes()).unwrap();
        fields.set("max_tokens", &json!(5));
        fields.set("new", &json!({"x": true}));
        fields.remove("none");
        let expected = r#"{"b":{"z": 1.50,  "a": [ ]},"max_tokens":5,"a\"":"ü","new":{"x":true}}"#;
        assert_eq!(fields.to_bytes(), expected);
        assert_eq!((fields.get("max_tokens"), fields.get("none")), (json!(5), Value::Null));
        assert_eq!(fields.only(&["new"]).to_bytes(), r#"{"new":{"x":true}}"#);
    }

    #[test]
    fn a_field_that_is_named_twice_is_refused() {
        let error = Fields::parse(br#"{"max_tokens": 1, "m": 2, "max_tokens": 3}"#).unwrap_err();
        assert_eq!(error, "max_tokens: is named twice");
        assert!(Fields::parse(b"[]").is_err());
    }
}
