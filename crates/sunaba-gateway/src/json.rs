//! JSON that is read only as far as it is asked about.
//!
//! A request's body is whatever a sandbox sends. Read into a tree, ten megabytes of small objects become a
//! gigabyte; so nothing of it is kept here but where its parts begin and end.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// A value, as the text that it is. What is not there is null.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lazy<'a>(&'a str);

impl<'a> Lazy<'a> {
    pub(crate) const NULL: Self = Self("null");

    /// Checks that a body is JSON; the error says where it is not.
    pub(crate) fn parse(body: &'a [u8]) -> Result<Self, String> {
        let raw: &RawValue = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
        Ok(Self(raw.get()))
    }

    /// The values of some fields; null for each when this is no object. Of a field that is named twice the last.
    pub(crate) fn pick<const N: usize>(self, names: [&str; N]) -> Result<[Self; N], String> {
        let mut picked = [Self::NULL; N];
        if self.0.starts_with('{') {
            let visitor = Picking { names: &names, picked: &mut picked };
            let mut reader = serde_json::Deserializer::from_str(self.0);
            reader.deserialize_map(visitor).map_err(|error| format!("not JSON: {error}"))?;
        }
        Ok(picked)
    }

    /// Goes through a list; `false` when this is none.
    pub(crate) fn each(self, mut step: impl FnMut(Self) -> Result<(), String>) -> Result<bool, String> {
        if !self.0.starts_with('[') {
            return Ok(false);
        }
        let mut wrong = None;
        let visitor = Going { step: &mut step, wrong: &mut wrong };
        let gone = serde_json::Deserializer::from_str(self.0).deserialize_seq(visitor);
        match (wrong, gone) {
            (Some(words), _) => Err(words),
            (None, Err(error)) => Err(format!("not JSON: {error}")),
            (None, Ok(())) => Ok(true),
        }
    }

    /// Goes through a list, or takes an object for a list of one; `false` when this is neither.
    pub(crate) fn each_or_one(
        self,
        mut step: impl FnMut(Self) -> Result<(), String>,
    ) -> Result<bool, String> {
        if self.is_object() {
            return step(self).map(|()| true);
        }
        self.each(step)
    }

    /// The name and value of each field of an object, until `step` has seen enough.
    pub(crate) fn each_field(self, mut step: impl FnMut(String, Self) -> bool) -> Result<(), String> {
        if !self.0.starts_with('{') {
            return Ok(());
        }
        let mut reader = serde_json::Deserializer::from_str(self.0);
        reader.deserialize_map(Naming(&mut step)).map_err(|error| format!("not JSON: {error}"))
    }

    /// The text, if it is one.
    pub(crate) fn text(self) -> Option<Cow<'a, str>> {
        let inside = self.0.strip_prefix('"')?.strip_suffix('"')?;
        if inside.contains('\\') {
            serde_json::from_str(self.0).ok().map(Cow::Owned)
        } else {
            Some(Cow::Borrowed(inside))
        }
    }

    pub(crate) fn is_text(self, words: &str) -> bool {
        self.text().is_some_and(|text| text == words)
    }

    pub(crate) fn is_null(self) -> bool {
        self.0 == "null"
    }

    pub(crate) fn is_true(self) -> bool {
        self.0 == "true"
    }

    pub(crate) fn is_object(self) -> bool {
        self.0.starts_with('{')
    }

    /// The object with a field set to what is JSON already; an object of that field alone when this is none.
    pub(crate) fn with(self, name: &str, json: &str) -> String {
        let mut text = String::from("{");
        let mut push = |name: &str, value: &str| {
            text.push_str(if text.len() > 1 { "," } else { "" });
            text.push_str(&serde_json::Value::from(name).to_string());
            text.push(':');
            text.push_str(value);
        };
        // What is no object has no fields, and what was read before is JSON.
        let _ = self.each_field(|known, value| {
            if known != name {
                push(&known, value.raw());
            }
            true
        });
        push(name, json);
        text.push('}');
        text
    }

    /// The bytes as they were sent.
    pub(crate) fn raw(self) -> &'a str {
        self.0
    }
}

/// Which of some names a key is.
struct Key<'n>(&'n [&'n str]);

impl<'de> DeserializeSeed<'de> for Key<'_> {
    type Value = Option<usize>;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Key<'_> {
    type Value = Option<usize>;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }
    fn visit_str<E>(self, key: &str) -> Result<Self::Value, E> {
        Ok(self.0.iter().position(|name| *name == key))
    }
}

struct Picking<'p, 'a> {
    names: &'p [&'p str],
    picked: &'p mut [Lazy<'a>],
}

impl<'a> Visitor<'a> for Picking<'_, 'a> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(wanted) = map.next_key_seed(Key(self.names))? {
            match wanted {
                Some(index) => self.picked[index] = Lazy(map.next_value::<&RawValue>()?.get()),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

struct Going<'p, F> {
    step: &'p mut F,
    wrong: &'p mut Option<String>,
}

impl<'a, F: FnMut(Lazy<'a>) -> Result<(), String>> Visitor<'a> for Going<'_, F> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }
    fn visit_seq<A: SeqAccess<'a>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(raw) = list.next_element::<&RawValue>()? {
            if let Err(words) = (self.step)(Lazy(raw.get())) {
                *self.wrong = Some(words);
                return Err(A::Error::custom("refused"));
            }
        }
        Ok(())
    }
}

struct Naming<'p, F>(&'p mut F);

impl<'a, F: FnMut(String, Lazy<'a>) -> bool> Visitor<'a> for Naming<'_, F> {
    type Value = ();
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }
    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<(), A::Error> {
        let mut wants_more = true;
        while let Some(name) = map.next_key::<String>()? {
            let raw = map.next_value::<&RawValue>()?;
            if wants_more {
                wants_more = (self.0)(name, Lazy(raw.get()));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_about_is_found_however_it_is_written() {
        let body = br#" {"a": {"x": [1, {"y": "z\u0021"}]}, "\u0062": "w", "t": true, "a2": null} "#;
        let whole = Lazy::parse(body).unwrap();
        let [a, b, t, none] = whole.pick(["a", "b", "t", "none"]).unwrap();
        assert!(b.is_text("w") && t.is_true() && none.is_null() && a.is_object());
        let [list] = a.pick(["x"]).unwrap();
        let mut seen = Vec::new();
        let is_list = list.each(|item| {
            let [y] = item.pick(["y"])?;
            seen.push((item.raw().to_owned(), y.text().map(Cow::into_owned)));
            Ok(())
        });
        assert!(is_list.unwrap() && !a.each(|_| Ok(())).unwrap());
        assert_eq!(seen[1].1.as_deref(), Some("z!"));
        assert_eq!(seen[0], ("1".to_owned(), None));
        assert_eq!(list.each(|_| Err("words".to_owned())).unwrap_err(), "words");
        let mut names = Vec::new();
        whole
            .each_field(|name, _| {
                names.push(name);
                names.len() < 2
            })
            .unwrap();
        assert_eq!(names, ["a", "b"]);
        assert!(Lazy::parse(b"{\"a\": }").unwrap_err().contains("not JSON"));
    }
}
