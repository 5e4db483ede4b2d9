//! The object `execution_config`, wherever it is said: in a call, on a task, on a project.

use serde::Deserialize;
use serde_json::{Map, Value};
use sunaba_types::{ExecutionConfig, PermissionMode};
use utoipa::ToSchema;

use crate::extract::Fields;

const FIELD: &str = "execution_config";

/// How an agent is to work. A call counts before its task, that before the project, and that before the server.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ExecutionConfig)]
#[expect(dead_code, reason = "documents the object, which is read key by key")]
pub(crate) struct ExecutionBody {
    /// What the agent may do without being allowed to: `bypass` (everything), `acceptEdits` (read, and edit files of
    /// the work tree), `ask` (read). `bypassPermissions` and `default` are taken for `bypass` and `ask`.
    permission_mode: Option<String>,
    /// Only these tools; none named means all.
    allowed_tools: Option<Vec<String>>,
    /// None of these tools.
    disallowed_tools: Option<Vec<String>>,
    /// Whether it has skills.
    enable_skills: Option<bool>,
    /// Whether it has helpers.
    enable_subagents: Option<bool>,
    /// Takes the place of its system prompt.
    #[schema(max_length = 65_536)]
    system_prompt: Option<String>,
    /// Comes after its system prompt.
    #[schema(max_length = 65_536)]
    system_prompt_append: Option<String>,
    /// Most turns it may take.
    #[schema(minimum = 1, maximum = 100_000)]
    max_turns: Option<u32>,
    /// `implementation`, or `exploration` or `validation`: then it has no tools that edit files.
    execution_mode: Option<String>,
    /// How long a permission question waits before `question_policy` decides.
    #[schema(maximum = 2_592_000)]
    question_hold_seconds: Option<u32>,
    /// What becomes of a question that nobody answered in time: `deny`, `allow`, `suspend` (it stays open).
    question_policy: Option<String>,
}

/// The keys, and what each must be.
const KEYS: [(&str, &str); 11] = [
    ("permission_mode", "bypass, acceptEdits or ask"),
    ("allowed_tools", "a list of strings"),
    ("disallowed_tools", "a list of strings"),
    ("enable_skills", "true or false"),
    ("enable_subagents", "true or false"),
    ("system_prompt", "a string"),
    ("system_prompt_append", "a string"),
    ("max_turns", "a whole number"),
    ("execution_mode", "exploration, implementation or validation"),
    ("question_hold_seconds", "a whole number"),
    ("question_policy", "deny, allow or suspend"),
];

/// Reads the field of a body; nothing is said when it is absent.
pub(crate) fn read(fields: &mut Fields<'_>) -> ExecutionConfig {
    let given: Map<String, Value> = fields.optional(FIELD, "an object").unwrap_or_default();
    read_object(fields, FIELD, given)
}

/// Reads an object that was found at `place`; faults name each key. Unknown keys are ignored, `null` is absent.
pub(crate) fn read_object(
    fields: &mut Fields<'_>,
    place: &str,
    given: Map<String, Value>,
) -> ExecutionConfig {
    let mut known = Map::new();
    for (key, value) in given {
        let Some((_, expected)) = KEYS.iter().find(|(known, _)| *known == key) else { continue };
        let value = if key == "permission_mode" { by_our_name(value) } else { value };
        let one = Map::from_iter([(key.clone(), value.clone())]);
        if serde_json::from_value::<ExecutionConfig>(Value::Object(one)).is_ok() {
            known.insert(key, value);
        } else {
            fields.fault(&format!("{place}.{key}"), format!("must be {expected}"));
        }
    }
    let config: ExecutionConfig = serde_json::from_value(Value::Object(known)).unwrap_or_default();
    for (key, why) in config.faults() {
        fields.fault(&format!("{place}.{key}"), why);
    }
    config
}

fn by_our_name(value: Value) -> Value {
    match value.as_str().and_then(PermissionMode::read) {
        Some(mode) => mode.as_str().into(),
        None => value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_body(body: &Value) -> Result<ExecutionConfig, String> {
        let text = body.to_string();
        let mut fields = Fields::of_body(text.as_bytes()).unwrap();
        let config = read(&mut fields);
        fields.finish().map(|()| config).map_err(|error| error.detail())
    }

    #[test]
    fn every_setting_there_is_can_be_said() {
        let full = serde_json::json!({
            "permission_mode": "ask", "allowed_tools": ["Read"], "disallowed_tools": ["Bash"],
            "enable_skills": true, "enable_subagents": false, "system_prompt": "a",
            "system_prompt_append": "b", "max_turns": 3, "execution_mode": "validation",
            "question_hold_seconds": 60, "question_policy": "deny",
        });
        let read = read_body(&serde_json::json!({ "execution_config": full })).unwrap();
        assert_eq!(serde_json::to_value(read).unwrap(), full);
        let mut said: Vec<&String> = full.as_object().unwrap().keys().collect();
        let mut known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
        said.sort_unstable();
        known.sort_unstable();
        assert_eq!(said, known);
    }

    #[test]
    fn each_wrong_key_is_named_and_the_rest_ignored() {
        let said = |config: Value| read_body(&serde_json::json!({ "execution_config": config }));
        for (key, value) in [
            ("permission_mode", serde_json::json!("plan")),
            ("allowed_tools", serde_json::json!("Read")),
            ("disallowed_tools", serde_json::json!(["a,b"])),
            ("enable_skills", serde_json::json!("yes")),
            ("max_turns", serde_json::json!(0)),
            ("max_turns", serde_json::json!(-1)),
            ("execution_mode", serde_json::json!("play")),
            ("question_hold_seconds", serde_json::json!(2_592_001)),
            ("question_policy", serde_json::json!("maybe")),
        ] {
            let error = said(serde_json::json!({ key: value })).unwrap_err();
            assert!(error.contains(&format!("execution_config.{key} must be")), "{error}");
        }
        assert!(said(serde_json::json!("ask")).unwrap_err().contains("must be an object"));
        let spelled = said(serde_json::json!({"permission_mode": "default", "colour": 1, "max_turns": null}));
        assert_eq!(spelled.unwrap().permission_mode, Some(PermissionMode::Ask));
    }
}
