//! `.sunaba.yaml` of a repository, as it is at the commit that work starts from.
//!
//! It is read from the mirror, so that no work tree and no link can stand in for it. What it says may narrow
//! what the project allows and never widen it. A key that is not known is said and left out; a value that cannot
//! be is an error with its line.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::Spanned;
use sunaba_git::{Mirror, TreeFile};
use sunaba_types::{Egress, EgressPreset};

use crate::Error;

/// Its name, at the top of the repository.
pub(crate) const NAME: &str = ".sunaba.yaml";
const MAX_BYTES: u64 = 64 * 1024;
const COMMAND_MAX_BYTES: usize = 16 * 1024;
const KEYS: &str = "setup, check, toolchains and egress";

/// What a repository says about its sandboxes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct RepositoryFile {
    /// Prepares a fresh clone; empty means that nothing does.
    pub(crate) setup: Option<String>,
    /// Tells whether the work is good.
    pub(crate) check: Option<String>,
    /// The toolchains it needs, of those that the project allows; none means all of them.
    pub(crate) toolchains: Option<Vec<String>>,
    /// What it wants to reach, at most.
    pub(crate) egress: Option<Egress>,
    /// What in it is not known, each with its line.
    pub(crate) unknown: Vec<String>,
}

/// Reads the file among those of a commit; nothing is set where there is none.
pub(crate) async fn read(mirror: &Mirror, files: &[TreeFile]) -> Result<RepositoryFile, Error> {
    let Some(bytes) = mirror.read_file(files, NAME, MAX_BYTES).await? else {
        return Ok(RepositoryFile::default());
    };
    let text =
        String::from_utf8(bytes).map_err(|_| Error::Missing(format!("{NAME} is not text in UTF-8")))?;
    parse(&text).map_err(|(line, why)| Error::Missing(format!("{NAME}:{line}: {why}")))
}

type Fault = (u64, String);

fn parse(text: &str) -> Result<RepositoryFile, Fault> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(RepositoryFile::default());
    }
    let Entries(entries) = serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |at| at.line());
        let words = error.without_snippet().to_string();
        (line, format!("cannot be read: {}", words.lines().next().unwrap_or_default()))
    })?;
    let mut file = RepositoryFile::default();
    for (key, value) in entries {
        let line = key.referenced.line();
        let fault = |why: &str| (line, format!("{}: {why}", key.value));
        match key.value.as_str() {
            "setup" => file.setup = Some(command(&value).map_err(fault)?),
            "check" => file.check = Some(command(&value).map_err(fault)?),
            "toolchains" => {
                file.toolchains = Some(texts(&value).ok_or_else(|| fault("must be a list of paths"))?);
            }
            "egress" => file.egress = Some(egress(&value).map_err(fault)?),
            other => file.unknown.push(format!("line {line}: {other:?} is not known; there are {KEYS}")),
        }
    }
    Ok(file)
}

fn command(value: &Value) -> Result<String, &'static str> {
    match value {
        Value::Null => Ok(String::new()),
        Value::String(text) if text.len() <= COMMAND_MAX_BYTES && !text.contains('\0') => Ok(text.clone()),
        Value::String(_) => Err("is too long"),
        _ => Err("must be a command for the shell"),
    }
}

fn texts(value: &Value) -> Option<Vec<String>> {
    value.as_array()?.iter().map(|item| item.as_str().map(str::to_owned)).collect()
}

/// `none`, or `{preset: none, allow: [example.org]}`.
fn egress(value: &Value) -> Result<Egress, &'static str> {
    const PRESET: &str = "the preset must be none, registries or open";
    let preset = |word: &Value| word.as_str().and_then(EgressPreset::parse).ok_or(PRESET);
    let Some(fields) = value.as_object() else {
        return Ok(Egress { preset: preset(value)?, allow: Vec::new() });
    };
    if fields.keys().any(|name| name != "preset" && name != "allow") {
        return Err("has preset and allow, and nothing else");
    }
    Ok(Egress {
        preset: fields.get("preset").map_or(Ok(EgressPreset::None), preset)?,
        allow: fields.get("allow").map_or(Some(Vec::new()), texts).ok_or("allow must be a list of hosts")?,
    })
}

/// The keys at the top, in order, each with its place.
struct Entries(Vec<(Spanned<String>, Value)>);

impl<'de> Deserialize<'de> for Entries {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EntriesVisitor)
    }
}

struct EntriesVisitor;

impl<'de> Visitor<'de> for EntriesVisitor {
    type Value = Entries;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`key: value` lines")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Entries, A::Error> {
        let mut entries = Vec::new();
        while let Some(name) = map.next_key::<Spanned<String>>()? {
            entries.push((name, map.next_value::<Value>()?));
        }
        Ok(Entries(entries))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_it_can_say() {
        let text = "# ours\nsetup: make deps\ncheck: make test\ntoolchains: [/opt/node]\n\
                    egress:\n  preset: registries\n  allow: [example.org]\nsetpu: x\n";
        let file = parse(text).unwrap();
        assert_eq!(file.setup.as_deref(), Some("make deps"));
        assert_eq!(file.check.as_deref(), Some("make test"));
        assert_eq!(file.toolchains, Some(vec!["/opt/node".to_owned()]));
        let egress = file.egress.unwrap();
        assert_eq!((egress.preset, egress.allow), (EgressPreset::Registries, vec!["example.org".to_owned()]));
        assert_eq!(file.unknown.len(), 1);
        assert!(file.unknown[0].starts_with("line 8: \"setpu\""), "{:?}", file.unknown);
        assert_eq!(parse("egress: none\n").unwrap().egress, Some(Egress::default()));
        assert_eq!(parse("\n# nothing\n").unwrap(), RepositoryFile::default());
    }

    #[test]
    fn what_cannot_be_has_its_line() {
        let cases = [
            ("setup: x\negress: all\n", 2),
            ("setup: [a]\n", 1),
            ("check: ok\n\ntoolchains: /opt\n", 3),
            ("setup: x\nsetup: y\n", 2),
            ("egress: {presets: open}\n", 1),
            ("a: [\n", 2),
        ];
        for (text, line) in cases {
            let (at, why) = parse(text).unwrap_err();
            assert!(at == line || text.starts_with("a:"), "{text:?}: {at} {why}");
        }
        assert!(parse("- a\n").is_err());
    }
}
