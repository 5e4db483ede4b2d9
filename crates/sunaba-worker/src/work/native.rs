//! The native runtime's settings, as the environment has them.

use sunaba_agent::{NativeConfig, ToolPolicy};

use super::config::{ConfigError, Lookup};

/// Reads them.
pub(super) fn read(lookup: Lookup<'_>) -> Result<NativeConfig, ConfigError> {
    let tools = ToolPolicy {
        allowed: names(lookup, "ALLOWED_TOOLS"),
        disallowed: names(lookup, "DISALLOWED_TOOLS"),
        skills: flag(lookup, "ENABLE_SKILLS")?,
        subagents: flag(lookup, "ENABLE_SUBAGENTS")?,
    };
    Ok(NativeConfig { tools, ..NativeConfig::default() })
}

/// Names with commas between them; a comma inside of parentheses belongs to the name.
fn names(lookup: Lookup<'_>, name: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_u32;
    for character in lookup(name).unwrap_or_default().chars() {
        match character {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match names.last_mut() {
            Some(last) if character != ',' || depth > 0 => last.push(character),
            _ => names.push(String::new()),
        }
    }
    names.iter().map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect()
}

fn flag(lookup: Lookup<'_>, name: &'static str) -> Result<Option<bool>, ConfigError> {
    let Some(value) = lookup(name).filter(|value| !value.trim().is_empty()) else { return Ok(None) };
    match value.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Ok(Some(true)),
        "false" | "0" | "no" | "off" => Ok(Some(false)),
        _ => Err(ConfigError::Impossible { name, value, why: "true or false" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_and_flags_are_read_as_people_write_them() {
        let pairs = [
            ("ALLOWED_TOOLS", "Read, Bash(git add, git commit),,Grep"),
            ("DISALLOWED_TOOLS", " "),
            ("ENABLE_SKILLS", "True"),
            ("ENABLE_SUBAGENTS", "0"),
        ];
        let value =
            |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned());
        let expected = ToolPolicy {
            allowed: vec!["Read".to_owned(), "Bash(git add, git commit)".to_owned(), "Grep".to_owned()],
            disallowed: Vec::new(),
            skills: Some(true),
            subagents: Some(false),
        };
        assert_eq!(read(&value).unwrap().tools, expected);
        assert_eq!(read(&|_| None).unwrap().tools, ToolPolicy::default());
        let error = read(&|name| (name == "ENABLE_SKILLS").then(|| "maybe".to_owned())).unwrap_err();
        assert_eq!(error.to_string(), "ENABLE_SKILLS cannot be \"maybe\": true or false");
    }
}
