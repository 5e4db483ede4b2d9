//! Shows the effective configuration, and writes the reference page. Secrets are never shown.

use std::fmt::Write as _;

use serde_json::json;

use super::address::without_password;
use super::keys::Shown;
use super::{KEYS, Key, Loaded};

/// What stands in the place of a secret.
const REDACTED: &str = "(set, not shown)";

/// A value as it may be shown.
pub(super) fn shown(key: &Key, text: &str) -> String {
    match key.shown {
        Shown::Whole => text.to_owned(),
        Shown::WithoutPassword => without_password(text),
        Shown::Never => REDACTED.to_owned(),
    }
}

/// A table for people.
pub(crate) fn to_text(loaded: &Loaded) -> String {
    let rows: Vec<[String; 3]> = KEYS
        .iter()
        .map(|key| match loaded.values.get(key.name) {
            Some(value) => [key.name.into(), shown(key, &value.text), value.origin.to_string()],
            None => [key.name.into(), "-".into(), "not set".into()],
        })
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let (name_width, value_width) = (width(0), width(1).min(50));
    let mut text = String::new();
    for [name, value, origin] in &rows {
        let _ = writeln!(text, "{name:name_width$}  {value:value_width$}  {origin}");
    }
    text
}

/// The same for programs.
pub(crate) fn to_json(loaded: &Loaded) -> serde_json::Value {
    let entries = KEYS.iter().map(|key| {
        let value = loaded.values.get(key.name);
        json!({
            "key": key.name,
            "value": value.map(|value| shown(key, &value.text)),
            "origin": value.map_or_else(|| "not set".to_owned(), |value| value.origin.to_string()),
            "secret": key.shown == Shown::Never,
        })
    });
    json!({ "settings": entries.collect::<Vec<_>>() })
}

/// The reference page, in Markdown.
pub(crate) fn reference() -> String {
    let mut page = String::from(REFERENCE_HEAD);
    for key in KEYS {
        let _ = writeln!(page, "\n### `{}`\n\n{}\n", key.name, key.help);
        let default = key.default.map_or_else(|| "see above, or none".to_owned(), |text| format!("`{text}`"));
        let _ = writeln!(page, "- default: {default}");
        if let Some(flag) = key.flag {
            let _ = writeln!(page, "- flag: `--{flag}`");
        }
        if !key.env.is_empty() {
            let names: Vec<_> = key.env.iter().map(|name| format!("`{name}`")).collect();
            let _ = writeln!(page, "- environment: {}", names.join(", "));
        }
        match key.shown {
            Shown::Whole => {}
            Shown::WithoutPassword => page.push_str("- a password in it is never shown, never logged\n"),
            Shown::Never => page.push_str("- secret: never shown, never logged\n"),
        }
    }
    page
}

const REFERENCE_HEAD: &str = "\
# Configuration

Settings are read in this order; a later one wins: built-in defaults, files, environment, flags.
Files are those named with `--config` (it may be given several times), else `sunaba.yaml` and then
`sunaba.local.yaml` in the data directory. A dot in a key's name is a section in the file:

```yaml
listen: 127.0.0.1:18000
sandbox:
  memory_gb: 2
```

An unknown key in a file, or an impossible value anywhere, stops the start with its place and, where
there is one, the key that was probably meant. Unknown environment variables are ignored.
`sunaba config` shows every effective value and where it came from.

This page is generated from the program by `sunaba config --reference`.

## Keys
";
