//! What may be set on a project: which keys there are, what each may hold, and who may set it.
//!
//! A given key replaces what was set, `null` clears it, an absent one leaves it. Keys that show sandboxes a
//! part of the server's machine (`toolchains`, `root_fs`, `image`) are an administrator's, and so is less
//! isolation than the server asks for.

use serde::Deserialize;
use serde_json::{Map, Value};
use sunaba_types::ProjectSettings;
use utoipa::ToSchema;

use super::toolchains;
use crate::api::execution::{self, ExecutionBody};
use crate::api::{models, sandboxes::terms};
use crate::auth::Identity;
use crate::extract::Fields;
use crate::{ApiError, AppState};

const WORD_CHARS: usize = 500;
const TOOLCHAINS_MAX: usize = 50;
const SETUP_COMMAND_BYTES: usize = 16 * 1024;
const IMAGE_CHARS: usize = 300;

/// Settings of a project. A given key replaces what was set, `null` clears it.
#[derive(Debug, Deserialize, ToSchema)]
#[schema(as = ProjectSettings)]
#[expect(dead_code, reason = "documents the body, which is read key by key")]
pub(crate) struct SettingsBody {
    /// Which agent drives its sandboxes unless a call says otherwise.
    runtime: Option<String>,
    /// Which model it speaks to unless a call says otherwise.
    model: Option<String>,
    /// Directories on the server with toolchains, shown to sandboxes read-only. Administrators only.
    toolchains: Option<Vec<String>>,
    /// What makes its sandboxes unless a call says otherwise.
    provider: Option<String>,
    /// `memory_gb`, `cpu`, `disk_gb`; those given are its sandboxes' unless a call says otherwise.
    #[schema(value_type = Option<Object>)]
    resources: Option<Value>,
    /// The least isolation: `strict`, `sampled` or `any`. Less than the server's own: administrators only.
    isolation: Option<String>,
    /// What one task may spend on models, all its attempts together.
    #[schema(minimum = 0)]
    budget_usd: Option<f64>,
    /// What all its tasks together may spend on models.
    #[schema(minimum = 0)]
    total_budget_usd: Option<f64>,
    /// What its sandboxes may reach: `preset` (`none`, `registries`, `open`) and `allow`, a list of
    /// `example.org`, `*.example.org`, each with `:port` or without.
    #[schema(value_type = Option<Object>)]
    egress: Option<Value>,
    /// Prepares a fresh clone; guessed from lock files when absent, nothing when empty.
    setup_command: Option<String>,
    /// What the setup command may reach, when it is not what sandboxes may.
    #[schema(value_type = Option<Object>)]
    setup_egress: Option<Value>,
    /// A directory on the server that is the root file system of its local sandboxes. Administrators only.
    root_fs: Option<String>,
    /// The image of its container sandboxes. Administrators only.
    image: Option<String>,
    /// How its agents work unless a call or a task says otherwise; given, it replaces the whole object.
    execution_config: Option<ExecutionBody>,
}

/// The keys, and what each must be.
const KEYS: [(&str, &str); 14] = [
    ("runtime", "a string"),
    ("model", "a string"),
    ("toolchains", "a list of strings"),
    ("provider", "a string"),
    ("resources", "an object with some of memory_gb, cpu, disk_gb as numbers"),
    ("isolation", "strict, sampled or any"),
    ("budget_usd", "a number"),
    ("total_budget_usd", "a number"),
    ("egress", "an object with preset (none, registries or open) and allow (a list of hosts)"),
    ("setup_command", "a string"),
    ("setup_egress", "an object with preset (none, registries or open) and allow (a list of hosts)"),
    ("root_fs", "a string"),
    ("image", "a string"),
    ("execution_config", "an object"),
];

/// The field `settings` of a body, as far as its keys are known; empty when it is absent.
pub(super) fn given(fields: &mut Fields<'_>) -> Map<String, Value> {
    let mut given: Map<String, Value> = fields.optional("settings", "an object").unwrap_or_default();
    given.retain(|key, _| KEYS.iter().any(|(known, _)| known == key));
    given
}

/// What is set with the given keys over what was; faults name each key.
pub(super) fn merged(
    fields: &mut Fields<'_>,
    before: &ProjectSettings,
    given: Map<String, Value>,
) -> ProjectSettings {
    let Ok(Value::Object(mut all)) = serde_json::to_value(before) else { return before.clone() };
    for (key, value) in given {
        let expected =
            KEYS.iter().find(|(known, _)| *known == key).map_or("something else", |(_, text)| text);
        if value.is_null() {
            all.remove(&key);
        } else if let ("execution_config", Value::Object(object)) = (&*key, &value) {
            let config = execution::read_object(fields, "settings.execution_config", object.clone());
            all.insert(key, serde_json::to_value(config).unwrap_or_default());
        } else if fits(&key, &value) {
            all.insert(key, value);
        } else {
            fields.fault(&format!("settings.{key}"), format!("must be {expected}"));
        }
    }
    serde_json::from_value(Value::Object(all)).unwrap_or_else(|_| before.clone())
}

fn fits(key: &str, value: &Value) -> bool {
    let one = Map::from_iter([(key.to_owned(), value.clone())]);
    serde_json::from_value::<ProjectSettings>(Value::Object(one)).is_ok()
}

/// Notes what cannot be right, without looking at the disk.
pub(super) fn check(fields: &mut Fields<'_>, state: &AppState, settings: &ProjectSettings) {
    let mut fault = |key: &str, detail: String| fields.fault(&format!("settings.{key}"), detail);
    let runtimes = &state.config().runtimes;
    if settings.runtime.as_ref().is_some_and(|runtime| !crate::is_runtime(runtimes, runtime)) {
        fault("runtime", crate::runtime_choices(runtimes));
    }
    let providers = &state.config().providers;
    if settings.provider.as_ref().is_some_and(|provider| !providers.contains(provider)) {
        fault("provider", format!("must be one of {}", providers.join(", ")));
    }
    if settings.model.as_deref().is_some_and(|model| !is_word(model)) {
        fault("model", format!("must have 1 to {WORD_CHARS} characters and no NUL"));
    }
    if settings.toolchains.len() > TOOLCHAINS_MAX || settings.toolchains.iter().any(|path| !is_word(path)) {
        fault(
            "toolchains",
            format!("must be at most {TOOLCHAINS_MAX} paths of 1 to {WORD_CHARS} characters"),
        );
    }
    for (name, number) in settings.resources.iter().flat_map(terms::numbers) {
        if !terms::is_amount(number) {
            fault(&format!("resources.{name}"), "must be above 0 and at most 4096".to_owned());
        }
    }
    for (key, budget) in
        [("budget_usd", settings.budget_usd), ("total_budget_usd", settings.total_budget_usd)]
    {
        if budget.is_some_and(|usd| !terms::is_budget(usd)) {
            fault(key, terms::BUDGET_WORDS.to_owned());
        }
    }
    for (key, policy) in [("egress", &settings.egress), ("setup_egress", &settings.setup_egress)] {
        if let Some(Err(why)) = policy.as_ref().map(sunaba_engine::egress::check) {
            fault(key, why.to_string());
        }
    }
    if settings
        .setup_command
        .as_ref()
        .is_some_and(|text| text.len() > SETUP_COMMAND_BYTES || text.contains('\0'))
    {
        fault("setup_command", format!("must have at most {SETUP_COMMAND_BYTES} bytes and no NUL"));
    }
    if settings.root_fs.as_deref().is_some_and(|path| !is_word(path)) {
        fault("root_fs", format!("must have 1 to {WORD_CHARS} characters and no NUL"));
    }
    if settings.image.as_deref().is_some_and(|image| !is_image(image)) {
        fault("image", "must be an image's name, such as registry.example.org/team/tools:1.2".to_owned());
    }
}

/// What is an administrator's to set, and is set anew.
pub(super) fn may_set(
    identity: &Identity,
    state: &AppState,
    before: &ProjectSettings,
    after: &ProjectSettings,
) -> Result<(), ApiError> {
    if identity.is_admin() {
        return Ok(());
    }
    let refuse = |code, detail: &str| Err(ApiError::forbidden(code, detail));
    if before.toolchains != after.toolchains {
        return refuse("toolchains_admin_only", "only an admin token may set toolchains");
    }
    if before.root_fs != after.root_fs {
        return refuse("root_fs_admin_only", "only an admin token may set root_fs");
    }
    if before.image != after.image {
        return refuse("image_admin_only", "only an admin token may set image");
    }
    let floor = before.isolation.unwrap_or(state.config().default_isolation);
    let wanted = after.isolation.unwrap_or(state.config().default_isolation);
    if before.isolation != after.isolation && terms::is_weaker(wanted, floor) {
        return refuse("isolation_admin_only", "only an admin token may accept less isolation");
    }
    Ok(())
}

/// Looks at the disk and the blobs for what is set anew.
pub(super) async fn check_places(
    state: &AppState,
    identity: &Identity,
    before: &ProjectSettings,
    after: &ProjectSettings,
) -> Result<(), ApiError> {
    let protected = &state.config().protected_paths;
    for path in after.toolchains.iter().filter(|path| !before.toolchains.contains(path)) {
        if let Some(why) = toolchains::refusal(path, protected).await {
            return Err(ApiError::field("settings.toolchains", why));
        }
    }
    if let Some(path) = after.root_fs.as_ref().filter(|_| before.root_fs != after.root_fs) {
        if let Some(why) = toolchains::refusal(path, protected).await {
            return Err(ApiError::field("settings.root_fs", why));
        }
        if !tokio::fs::metadata(path).await.is_ok_and(|place| place.is_dir()) {
            return Err(ApiError::field("settings.root_fs", "there is no such directory on the server"));
        }
    }
    match after.model.as_ref().filter(|_| before.model != after.model) {
        Some(model) => models::check(state, identity, model, "settings.model").await,
        None => Ok(()),
    }
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().count() <= WORD_CHARS && !text.contains('\0')
}

/// `[registry[:port]/]path[:tag][@sha256:digest]`, loosely: the daemon decides, this keeps options and
/// other mischief out.
fn is_image(image: &str) -> bool {
    let bytes = image.as_bytes();
    (1..=IMAGE_CHARS).contains(&bytes.len())
        && bytes[0].is_ascii_alphanumeric()
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-/:@".contains(byte))
        && !["//", "..", "::", "@@"].iter().any(|bad| image.contains(bad))
        && !image.ends_with(['/', ':', '@', '-', '.'])
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use sunaba_types::{Egress, ExecutionConfig, IsolationWanted, ResourcesWanted};

    use super::*;

    #[test]
    fn every_setting_there_is_can_be_set() {
        let text = || Some("x".to_owned());
        let full = ProjectSettings {
            runtime: text(),
            model: text(),
            toolchains: vec!["/opt".to_owned()],
            provider: text(),
            resources: Some(ResourcesWanted::default()),
            isolation: Some(IsolationWanted::Any),
            budget_usd: Some(1.0),
            total_budget_usd: Some(1.0),
            egress: Some(Egress::default()),
            setup_command: text(),
            setup_egress: Some(Egress::default()),
            root_fs: text(),
            image: text(),
            execution_config: ExecutionConfig { max_turns: Some(1), ..ExecutionConfig::default() },
        };
        let Value::Object(all) = json!(full) else { panic!("an object") };
        let mut known: Vec<&str> = KEYS.iter().map(|(key, _)| *key).collect();
        let mut held: Vec<&str> = all.keys().map(String::as_str).collect();
        known.sort_unstable();
        held.sort_unstable();
        assert_eq!(known, held);
    }

    #[test]
    fn a_key_is_replaced_cleared_or_left() {
        let before = ProjectSettings {
            model: Some("a".to_owned()),
            budget_usd: Some(1.0),
            runtime: Some("native".to_owned()),
            ..ProjectSettings::default()
        };
        let body = br#"{"settings": {"model": "b", "budget_usd": null, "colour": "red", "image": 7}}"#;
        let mut fields = Fields::of_body(body).unwrap();
        let keys = given(&mut fields);
        let after = merged(&mut fields, &before, keys);
        let model = Some("b".to_owned());
        assert_eq!(after, ProjectSettings { model, budget_usd: None, ..before });
        assert!(fields.finish().unwrap_err().detail().contains("settings.image must be a string"));
    }

    #[test]
    fn image_names_hold_no_mischief() {
        for good in ["debian", "debian:13-slim", "ghcr.io/a/b_c:1.2", "localhost:5000/x@sha256:0123abcd"] {
            assert!(is_image(good), "{good}");
        }
        for bad in ["", "-v", "a b", "a//b", "a:", "--privileged", "a\n", "a;b", &"a".repeat(301)] {
            assert!(!is_image(bad), "{bad}");
        }
    }
}
