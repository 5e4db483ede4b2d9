//! Reads a configuration file into dotted keys, each with its line.
//!
//! Owns the YAML; knows nothing of which keys exist. A list as a value is written as a comma list.

use std::fmt;
use std::path::Path;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::Spanned;

/// Largest configuration file that is read, in bytes.
const MAX_BYTES: u64 = 1024 * 1024;

/// One setting in a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Line {
    /// Its key, sections joined by dots.
    pub(super) key: String,
    /// Its value as text.
    pub(super) value: String,
    /// The line it stands on, from 1.
    pub(super) number: u64,
}

/// Reads a file; the error is one line that names it.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, String> {
    let at = path.display();
    let size = std::fs::metadata(path).map_err(|error| format!("{at}: cannot be read: {error}"))?.len();
    if size > MAX_BYTES {
        return Err(format!("{at}: has {size} bytes; a configuration file has at most {MAX_BYTES}"));
    }
    let text = std::fs::read_to_string(path).map_err(|error| format!("{at}: cannot be read: {error}"))?;
    parse(&text).map_err(|(line, why)| format!("{at}:{line}: {why}"))
}

/// Parses the text of a file; the error has its line.
pub(super) fn parse(text: &str) -> Result<Vec<Line>, (u64, String)> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let root: Node = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |at| at.line());
        let words = error.without_snippet().to_string();
        (line, format!("is not YAML: {}", words.lines().next().unwrap_or_default()))
    })?;
    let Node::Section(entries) = root else {
        return Err((1, "must hold `key: value` lines".to_owned()));
    };
    let mut lines = Vec::new();
    flatten("", entries, &mut lines)?;
    Ok(lines)
}

fn flatten(section: &str, entries: Vec<Entry>, lines: &mut Vec<Line>) -> Result<(), (u64, String)> {
    for (name, node) in entries {
        let key = if section.is_empty() { name.value } else { format!("{section}.{}", name.value) };
        let number = name.referenced.line();
        match node {
            Node::Section(inner) => flatten(&key, inner, lines)?,
            Node::Scalar(value) => lines.push(Line { key, value, number }),
            Node::Nothing => return Err((number, format!("{key} has no value; remove the line or set it"))),
        }
    }
    Ok(())
}

type Entry = (Spanned<String>, Node);

/// A piece of YAML as far as configuration needs it.
#[derive(Debug)]
enum Node {
    Section(Vec<Entry>),
    Scalar(String),
    Nothing,
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value, a list of values or a section")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_string()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut parts = Vec::new();
        while let Some(item) = items.next_element::<Node>()? {
            match item {
                Node::Scalar(value) => parts.push(value),
                Node::Section(_) | Node::Nothing => {
                    return Err(serde::de::Error::custom("a list here may only hold plain values"));
                }
            }
        }
        Ok(Node::Scalar(parts.join(",")))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<Spanned<String>>()? {
            entries.push((name, map.next_value::<Node>()?));
        }
        Ok(Node::Section(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(key: &str, value: &str, number: u64) -> Line {
        Line { key: key.into(), value: value.into(), number }
    }

    #[test]
    fn sections_become_dotted_keys_with_lines() {
        let text =
            "# head\nlisten: 127.0.0.1:1\nsandbox:\n  cpu: 2\n  memory_gb: 1.5\nroles: [api, orchestrator]\n";
        assert_eq!(
            parse(text).unwrap(),
            [
                line("listen", "127.0.0.1:1", 2),
                line("sandbox.cpu", "2", 4),
                line("sandbox.memory_gb", "1.5", 5),
                line("roles", "api,orchestrator", 6),
            ]
        );
    }

    #[test]
    fn an_empty_file_sets_nothing() {
        assert_eq!(parse("").unwrap(), []);
        assert_eq!(parse("# only words\n\n").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_has_its_line() {
        assert_eq!(parse("a: 1\nb:\n").unwrap_err(), (2, "b has no value; remove the line or set it".into()));
        assert_eq!(parse("a: 1\na: 2\n").unwrap_err().0, 2, "a key that stands twice");
        assert!(parse("a: [\n").is_err());
        assert_eq!(parse("- a\n").unwrap_err().0, 1);
    }
}
