//! The same settings as variables of an environment.

use super::{ExecutionConfig, ExecutionMode, PermissionMode, TURNS_MAX};

/// Every variable that is read here.
pub const NAMES: [&str; 9] = [
    "PERMISSION_MODE",
    "ALLOWED_TOOLS",
    "DISALLOWED_TOOLS",
    "ENABLE_SKILLS",
    "ENABLE_SUBAGENTS",
    "SYSTEM_PROMPT",
    "SYSTEM_PROMPT_APPEND",
    "MAX_TURNS",
    "EXECUTION_MODE",
];

/// A variable that is set to something impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name} cannot be {value:?}: {why}")]
pub struct Impossible {
    /// Which.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it may be.
    pub why: &'static str,
}

/// Reads the variables; blank counts as not set.
pub fn read(lookup: &dyn Fn(&str) -> Option<String>) -> Result<ExecutionConfig, Impossible> {
    let given = |name: &str| lookup(name).filter(|value| !value.trim().is_empty());
    let list = |name: &str| given(name).map(|text| names(&text)).filter(|names| !names.is_empty());
    Ok(ExecutionConfig {
        permission_mode: word(&given, "PERMISSION_MODE", PermissionMode::read, PermissionMode::WORDS)?,
        allowed_tools: list("ALLOWED_TOOLS"),
        disallowed_tools: list("DISALLOWED_TOOLS"),
        enable_skills: word(&given, "ENABLE_SKILLS", flag, "true or false")?,
        enable_subagents: word(&given, "ENABLE_SUBAGENTS", flag, "true or false")?,
        system_prompt: given("SYSTEM_PROMPT"),
        system_prompt_append: given("SYSTEM_PROMPT_APPEND"),
        max_turns: word(&given, "MAX_TURNS", turns, "a whole number from 1 to 100000")?,
        execution_mode: word(
            &given,
            "EXECUTION_MODE",
            ExecutionMode::parse,
            "exploration, implementation or validation",
        )?,
        question_hold_seconds: None,
        question_policy: None,
    })
}

/// The variables that say this. How long questions are held is the server's own business.
pub fn of(config: &ExecutionConfig) -> Vec<(&'static str, String)> {
    let list = |tools: &Option<Vec<String>>| tools.as_ref().map(|tools| tools.join(","));
    let pairs = [
        ("PERMISSION_MODE", config.permission_mode.map(|mode| mode.to_string())),
        ("ALLOWED_TOOLS", list(&config.allowed_tools)),
        ("DISALLOWED_TOOLS", list(&config.disallowed_tools)),
        ("ENABLE_SKILLS", config.enable_skills.map(|on| on.to_string())),
        ("ENABLE_SUBAGENTS", config.enable_subagents.map(|on| on.to_string())),
        ("SYSTEM_PROMPT", config.system_prompt.clone()),
        ("SYSTEM_PROMPT_APPEND", config.system_prompt_append.clone()),
        ("MAX_TURNS", config.max_turns.map(|turns| turns.to_string())),
        ("EXECUTION_MODE", config.execution_mode.map(|mode| mode.to_string())),
    ];
    pairs.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

/// Names with commas between them; a comma inside of parentheses belongs to the name.
pub fn names(text: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_u32;
    for character in text.chars() {
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

fn word<T>(
    given: &dyn Fn(&str) -> Option<String>,
    name: &'static str,
    read: impl Fn(&str) -> Option<T>,
    why: &'static str,
) -> Result<Option<T>, Impossible> {
    let Some(value) = given(name) else { return Ok(None) };
    match read(value.trim()) {
        Some(found) => Ok(Some(found)),
        None => Err(Impossible { name, value, why }),
    }
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "1" | "yes" | "on" => Some(true),
        "false" | "0" | "no" | "off" => Some(false),
        _ => None,
    }
}

fn turns(text: &str) -> Option<u32> {
    text.parse().ok().filter(|turns| (1..=TURNS_MAX).contains(turns))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_pairs(pairs: &[(&str, &str)]) -> Result<ExecutionConfig, Impossible> {
        let pairs: Vec<(String, String)> =
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        read(&|name| pairs.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone()))
    }

    #[test]
    fn everything_that_is_said_in_variables_is_read_back() {
        let names = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        let full = ExecutionConfig {
            permission_mode: Some(PermissionMode::AcceptEdits),
            allowed_tools: names(&["Read", "Bash(git add, git commit)"]),
            disallowed_tools: names(&["Skill"]),
            enable_skills: Some(false),
            enable_subagents: Some(true),
            system_prompt: Some("You are\nsomebody.".to_owned()),
            system_prompt_append: Some("Be brief.".to_owned()),
            max_turns: Some(7),
            execution_mode: Some(ExecutionMode::Validation),
            question_hold_seconds: None,
            question_policy: None,
        };
        let said = of(&full);
        assert_eq!(said.iter().map(|(name, _)| *name).collect::<Vec<_>>(), NAMES);
        assert_eq!(read(&|name| said.iter().find(|(key, _)| *key == name).map(|(_, v)| v.clone())), Ok(full));
        assert!(of(&ExecutionConfig::default()).is_empty());
    }

    #[test]
    fn lists_and_flags_are_read_as_people_write_them() {
        let read = of_pairs(&[
            ("ALLOWED_TOOLS", "Read, Bash(git add, git commit),,Grep"),
            ("DISALLOWED_TOOLS", " "),
            ("ENABLE_SKILLS", "True"),
            ("ENABLE_SUBAGENTS", "0"),
            ("PERMISSION_MODE", "default"),
        ])
        .unwrap();
        assert_eq!(read.allowed_tools.unwrap(), ["Read", "Bash(git add, git commit)", "Grep"]);
        assert_eq!((read.disallowed_tools, read.enable_skills), (None, Some(true)));
        assert_eq!((read.enable_subagents, read.permission_mode), (Some(false), Some(PermissionMode::Ask)));
    }

    #[test]
    fn what_is_impossible_is_named_with_what_is_possible() {
        for (name, value, why) in [
            ("PERMISSION_MODE", "plan", "bypass, acceptEdits or ask"),
            ("ENABLE_SKILLS", "maybe", "true or false"),
            ("ENABLE_SUBAGENTS", "2", "true or false"),
            ("MAX_TURNS", "0", "a whole number from 1 to 100000"),
            ("MAX_TURNS", "100001", "a whole number from 1 to 100000"),
            ("MAX_TURNS", "many", "a whole number from 1 to 100000"),
            ("EXECUTION_MODE", "play", "exploration, implementation or validation"),
        ] {
            let error = of_pairs(&[(name, value)]).unwrap_err();
            assert_eq!(error.to_string(), format!("{name} cannot be {value:?}: {why}"));
        }
    }
}
