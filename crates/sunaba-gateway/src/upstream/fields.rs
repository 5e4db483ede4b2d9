//! The fields of a request, changed one by one without touching the bytes of the others: a vendor's cache goes
//! by those bytes. They are parts of the body as it arrived; nothing is copied until something is changed.

use std::fmt;

use bytes::Bytes;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use super::known::{self, Fate};
use crate::dialect::Dialect;
use crate::json::Lazy;

/// Longest field that is read as a whole.
const SMALL_BYTES: usize = 16 * 1024;
/// How many of the fields that were left out are named, and by how much of their names.
const NAMED_MAX: usize = 20;
const NAME_MAX_CHARS: usize = 60;

/// The top-level fields of a JSON object that are passed on, in their order.
#[derive(Debug, Clone)]
pub(super) struct Fields {
    passed: Vec<(String, Bytes)>,
    left_out: Vec<String>,
    is_changed: bool,
}

impl Fields {
    /// Reads an object; a field that is named twice is an error, because readers differ in which one counts.
    pub(super) fn parse(dialect: &dyn Dialect, body: &Bytes) -> Result<Self, String> {
        let mut fields = Self { passed: Vec::new(), left_out: Vec::new(), is_changed: false };
        let mut wrong = None;
        let reading = Reading { dialect, body, fields: &mut fields, wrong: &mut wrong };
        let mut reader = serde_json::Deserializer::from_slice(body);
        let read = reading.deserialize(&mut reader).and_then(|()| reader.end());
        match (wrong, read) {
            (Some(words), _) => Err(words),
            (None, Err(error)) => Err(format!("not a JSON object: {error}")),
            (None, Ok(())) => Ok(fields),
        }
    }

    /// A field as it was sent.
    pub(super) fn lazy(&self, name: &str) -> Lazy<'_> {
        let found = self.passed.iter().find(|(known, _)| known == name);
        found.and_then(|(_, raw)| Lazy::parse(raw).ok()).unwrap_or(Lazy::NULL)
    }

    /// The value of a field that has no reason to be long, or of the field `b` of `a` by `a.b`; null when there is
    /// none.
    pub(super) fn small(&self, name: &str) -> Result<Value, String> {
        if let Some((outer, inner)) = name.split_once('.') {
            let [found] = self.lazy(outer).pick([inner])?;
            if found.raw().len() > SMALL_BYTES {
                return Err(format!("{name}: is too long"));
            }
            return serde_json::from_str(found.raw()).map_err(|error| format!("{name}: {error}"));
        }
        match self.passed.iter().find(|(known, _)| known == name) {
            None => Ok(Value::Null),
            Some((_, raw)) if raw.len() > SMALL_BYTES => Err(format!("{name}: is too long")),
            Some((_, raw)) => serde_json::from_slice(raw).map_err(|error| format!("{name}: {error}")),
        }
    }

    /// Sets a field, in its place or at the end; by `a.b` the field `b` of `a`.
    pub(super) fn set(&mut self, name: &str, value: &Value) {
        match name.split_once('.') {
            Some((outer, inner)) => {
                let raw = self.lazy(outer).with(inner, &value.to_string());
                self.set_raw(outer, raw);
            }
            None => self.set_raw(name, value.to_string()),
        }
    }

    /// Sets a field to what is JSON already.
    pub(super) fn set_raw(&mut self, name: &str, json: String) {
        self.is_changed = true;
        let raw = Bytes::from(json);
        match self.passed.iter_mut().find(|(known, _)| known == name) {
            Some((_, held)) => *held = raw,
            None => self.passed.push((name.to_owned(), raw)),
        }
    }

    /// Keeps some fields only.
    pub(super) fn only(&self, names: &[&str]) -> Self {
        let passed = self.passed.iter().filter(|(name, _)| names.contains(&name.as_str())).cloned();
        Self { passed: passed.collect(), left_out: Vec::new(), is_changed: true }
    }

    /// Leaves a field out.
    pub(super) fn remove(&mut self, name: &str) {
        self.passed.retain(|(known, _)| known != name);
        self.is_changed = true;
    }

    /// Names something that was left out.
    pub(super) fn note_left_out(&mut self, name: &str) {
        self.is_changed = true;
        if self.left_out.len() < NAMED_MAX {
            self.left_out.push(name.chars().take(NAME_MAX_CHARS).collect());
        }
    }

    /// What was left out because it is not known.
    pub(super) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Whether the object is another than the one that was read.
    pub(super) fn is_changed(&self) -> bool {
        self.is_changed
    }

    /// The object as bytes.
    pub(super) fn to_bytes(&self) -> Bytes {
        let size = self.passed.iter().map(|(name, raw)| name.len() + raw.len() + 8).sum();
        let mut text = Vec::with_capacity(size);
        text.push(b'{');
        for (index, (name, raw)) in self.passed.iter().enumerate() {
            if index > 0 {
                text.push(b',');
            }
            text.extend_from_slice(Value::from(name.as_str()).to_string().as_bytes());
            text.push(b':');
            text.extend_from_slice(raw);
        }
        text.push(b'}');
        Bytes::from(text)
    }
}

struct Reading<'r> {
    dialect: &'r dyn Dialect,
    body: &'r Bytes,
    fields: &'r mut Fields,
    /// What is wrong beyond the JSON, in words for the client.
    wrong: &'r mut Option<String>,
}

impl Reading<'_> {
    fn respelled(&mut self, name: String) -> String {
        let spelled = known::spelled(self.dialect, name.clone());
        self.fields.is_changed |= spelled != name;
        spelled
    }

    fn take(&mut self, name: String, raw: &RawValue) -> Result<(), String> {
        let is_null = raw.get() == "null";
        let name = self.respelled(name);
        match known::fate(self.dialect, &name) {
            Fate::Passed if self.fields.passed.iter().any(|(known, _)| *known == name) => {
                return Err(format!("{name}: is named twice"));
            }
            Fate::Passed => {
                let raw = self.body.slice_ref(raw.get().as_bytes());
                self.fields.passed.push((name, raw));
            }
            Fate::Refused(why) if !is_null => return Err(format!("{name}: {why}; leave it out")),
            Fate::LeftOut if !is_null => self.fields.note_left_out(&name),
            Fate::Refused(_) | Fate::LeftOut => self.fields.is_changed = true,
        }
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Reading<'_> {
    type Value = ();
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Reading<'_> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(name) = map.next_key::<String>()? {
            let raw: &'de RawValue = map.next_value()?;
            if let Err(words) = self.take(name, raw) {
                *self.wrong = Some(words);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::dialect::Anthropic;

    fn parse(body: &str) -> Result<Fields, String> {
        Fields::parse(&Anthropic, &Bytes::from(body.to_owned()))
    }

    #[test]
    fn what_is_not_changed_keeps_its_bytes_and_its_place() {
        let body = r#"{"metadata": {"z": 1.50,  "a": [ ]}, "max_tokens": 9, "syst\u0065m": "ü"}"#;
        let mut fields = parse(body).unwrap();
        assert!(!fields.is_changed());
        fields.set("max_tokens", &json!(5));
        fields.set("thinking", &json!({"x": true}));
        fields.remove("none");
        let expected =
            r#"{"metadata":{"z": 1.50,  "a": [ ]},"max_tokens":5,"system":"ü","thinking":{"x":true}}"#;
        assert_eq!(fields.to_bytes(), expected);
        assert_eq!(fields.small("max_tokens"), Ok(json!(5)));
        assert_eq!(fields.small("none"), Ok(Value::Null));
        assert_eq!(fields.only(&["thinking"]).to_bytes(), r#"{"thinking":{"x":true}}"#);
        assert!(fields.is_changed());
    }

    #[test]
    fn a_field_that_is_named_twice_is_refused() {
        let error = parse(r#"{"max_tokens": 1, "model": 2, "max_token\u0073": 3}"#).unwrap_err();
        assert_eq!(error, "max_tokens: is named twice");
        assert!(parse("[]").is_err() && parse("{} {}").is_err());
        let long = format!(r#"{{"thinking": "{}"}}"#, "x".repeat(SMALL_BYTES));
        assert_eq!(parse(&long).unwrap().small("thinking").unwrap_err(), "thinking: is too long");
    }
}
