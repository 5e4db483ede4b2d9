//! The head of a Markdown file: `key: value` lines between two lines of three dashes.
//!
//! That much of YAML, and no more, is what these files have: plain and quoted values, lists in either form, and
//! folded or literal text. Everything is read as text; a list becomes its items with commas between them.

use std::collections::BTreeMap;

/// A file's head and the rest of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Document {
    fields: BTreeMap<String, String>,
    pub(super) body: String,
}

impl Document {
    /// A file without a head is all body.
    pub(super) fn parse(text: &str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut lines = text.lines();
        if lines.next().map(str::trim_end) != Some("---") {
            return Self { fields: BTreeMap::new(), body: text.trim().to_owned() };
        }
        let mut head = Vec::new();
        for line in lines.by_ref() {
            if line.trim_end() == "---" {
                let body = lines.collect::<Vec<_>>().join("\n").trim().to_owned();
                return Self { fields: fields(&head), body };
            }
            head.push(line);
        }
        // A head without an end is none.
        Self { fields: BTreeMap::new(), body: text.trim().to_owned() }
    }

    /// A value that says something.
    pub(super) fn field(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// The items of a list.
    pub(super) fn list(&self, name: &str) -> Option<Vec<String>> {
        let items = self.field(name)?.split(',').map(|item| unquoted(item.trim()));
        Some(items.filter(|item| !item.is_empty()).collect())
    }
}

fn fields(head: &[&str]) -> BTreeMap<String, String> {
    let mut fields = BTreeMap::new();
    let mut lines = head.iter().peekable();
    while let Some(line) = lines.next() {
        let Some((name, value)) = line.split_once(':').filter(|_| is_top_level(line)) else { continue };
        let mut deeper = Vec::new();
        while let Some(next) = lines.next_if(|next| !is_top_level(next)) {
            deeper.push(next.trim());
        }
        fields.insert(name.trim().to_owned(), joined(value.trim(), &deeper));
    }
    fields
}

fn is_top_level(line: &str) -> bool {
    !line.is_empty() && !line.starts_with([' ', '\t', '-', '#'])
}

fn joined(value: &str, deeper: &[&str]) -> String {
    let items: Vec<&str> = deeper.iter().filter_map(|line| line.strip_prefix("- ")).collect();
    match value {
        "" if !items.is_empty() => items.join(", "),
        "|" | "|-" | "|+" => deeper.join("\n").trim().to_owned(),
        "" | ">" | ">-" | ">+" => deeper.join(" ").trim().to_owned(),
        _ => match value.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            Some(items) => items.to_owned(),
            None => unquoted(value),
        },
    }
}

fn unquoted(value: &str) -> String {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner.replace(&format!("\\{quote}"), &quote.to_string());
        }
    }
    value.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_form_that_such_files_have_is_read() {
        let text = "---\nname: reviewer\ndescription: \"Looks: twice\"\n# a remark\ntools: [Read, 'Grep']\n\
more:\n  - one\n  - two\nfolded: >\n  first\n  second\nliteral: |\n  a\n  b\nempty:\n---\n\nDo it.\n\nWell.\n";
        let document = Document::parse(text);
        assert_eq!(document.field("name"), Some("reviewer"));
        assert_eq!(document.field("description"), Some("Looks: twice"));
        assert_eq!(document.list("tools").unwrap(), ["Read", "Grep"]);
        assert_eq!(document.list("more").unwrap(), ["one", "two"]);
        assert_eq!(document.field("folded"), Some("first second"));
        assert_eq!(document.field("literal"), Some("a\nb"));
        assert_eq!((document.field("empty"), document.field("missing")), (None, None));
        assert_eq!(document.body, "Do it.\n\nWell.");
    }

    #[test]
    fn a_file_without_a_head_is_all_body() {
        for text in ["just words", "---\nname: no end\n", "", "----\nname: x\n---\n"] {
            let document = Document::parse(text);
            assert_eq!((document.field("name"), document.body.as_str()), (None, text.trim()));
        }
    }
}
