//! `POST /api/v1/sandboxes`: asks for a sandbox. The orchestrator takes it from there.

use axum::extract::State;
use serde::Deserialize;
use sunaba_store::{NewSandbox, NewTask, NewTicket};
use sunaba_types::{BlobHash, Priority, Project, ProjectId, Resources, Task, TaskId, TicketType};
use utoipa::ToSchema;

use crate::api::views::SandboxView;
use crate::api::{ApiResult, PROMPT_BYTES, SMALL_BODY, blobs, created, projects, tasks};
use crate::auth::{Editor, Identity};
use crate::extract::{Fields, JsonBody, Text};
use crate::{ApiError, AppState};

const PROMPT: Text = Text { min: 1, max: PROMPT_BYTES };
const WORD: Text = Text { min: 1, max: 200 };
/// Part of the contract, not of this server: refused rather than silently left undone.
const NOT_YET: [&str; 5] = ["env", "budget_usd", "timeout_seconds", "resume_session_id", "fork"];

/// A sandbox to be made: for a task, or for a project and a prompt (ticket and task are made for it).
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct SandboxBody {
    /// The project; not needed with `task_id`.
    #[schema(min_length = 1, max_length = 100)]
    project_id: Option<String>,
    /// The task, which must be pending.
    #[schema(min_length = 1, max_length = 100)]
    task_id: Option<String>,
    /// What the agent is told; the task's description when absent.
    #[schema(min_length = 1, max_length = 102_400)]
    prompt: Option<String>,
    /// Which agent drives it.
    runtime: Option<String>,
    /// Which model it speaks to; `script:<hash>` for a script stored as a blob.
    model: Option<String>,
    /// What makes it.
    provider: Option<String>,
    /// `memory_gb`, `cpu`, `disk_gb`.
    #[schema(value_type = Option<Object>)]
    resources: Option<serde_json::Value>,
}

#[derive(Debug)]
struct Wanted {
    project_id: Option<ProjectId>,
    task_id: Option<TaskId>,
    prompt: Option<String>,
    runtime: Option<String>,
    model: Option<String>,
    provider: String,
    resources: Resources,
}

/// Asks for a sandbox.
#[utoipa::path(post, path = "/api/v1/sandboxes", tag = "sandboxes", operation_id = "create_sandbox",
    request_body = SandboxBody, responses((status = 201, body = SandboxView)))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Editor(identity): Editor,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let wanted = read(&state, &body)?;
    let (project, task) = subject(&state, &identity, &wanted).await?;
    let runtime =
        wanted.runtime.or(project.settings.runtime).unwrap_or(state.config().default_runtime.clone());
    if let Some(model) = &wanted.model {
        may_use_model(&state, &identity, model).await?;
    }
    let model = wanted.model.or(project.settings.model).unwrap_or(state.config().default_model.clone());
    check_runtime(&state, &runtime)?;
    check_model(&state, &model).await?;
    let task = match task {
        Some(task) => task,
        None => {
            make_task(&state, &identity, &project.id, wanted.prompt.as_deref().unwrap_or_default()).await?
        }
    };
    let sandbox = NewSandbox {
        project_id: Some(project.id),
        task_id: Some(task.id),
        provider: wanted.provider,
        runtime,
        model,
        prompt: wanted.prompt.unwrap_or(task.description),
        resources: wanted.resources,
        terms: sunaba_types::Terms::default(),
    };
    created(&SandboxView::from(state.store().create_sandbox(sandbox).await?))
}

fn read(state: &AppState, body: &[u8]) -> Result<Wanted, ApiError> {
    let mut fields = Fields::of_body(body)?;
    for name in NOT_YET {
        if fields.raw(name).is_some() {
            fields.fault(name, "is not supported by this server yet");
        }
    }
    let project_id = fields.parsed("project_id", ProjectId::parse);
    let task_id = fields.parsed("task_id", TaskId::parse);
    let prompt = fields.bounded_text("prompt", PROMPT, PROMPT_BYTES);
    let runtime = fields.text("runtime", WORD);
    let model = fields.text("model", WORD);
    let provider = fields.text("provider", WORD).unwrap_or_else(|| state.config().default_provider.clone());
    let resources = read_resources(&mut fields, state.config().default_resources);
    if fields.raw("task_id").is_none() {
        fields.require("project_id");
        fields.require("prompt");
    }
    if !state.config().providers.contains(&provider) {
        fields.fault("provider", format!("must be one of {}", state.config().providers.join(", ")));
    }
    fields.finish()?;
    Ok(Wanted { project_id, task_id, prompt, runtime, model, provider, resources })
}

fn read_resources(fields: &mut Fields<'_>, default: Resources) -> Resources {
    #[derive(Deserialize)]
    struct Some3 {
        memory_gb: Option<f64>,
        cpu: Option<f64>,
        disk_gb: Option<f64>,
    }
    let Some(given) = fields.optional::<Some3>("resources", "an object of numbers") else { return default };
    let resources = Resources {
        memory_gb: given.memory_gb.unwrap_or(default.memory_gb),
        cpu: given.cpu.unwrap_or(default.cpu),
        disk_gb: given.disk_gb.unwrap_or(default.disk_gb),
    };
    let sane = |value: f64| value.is_finite() && value > 0.0 && value <= 4096.0;
    if !(sane(resources.memory_gb) && sane(resources.cpu) && sane(resources.disk_gb)) {
        fields.fault("resources", "every number must be above 0 and at most 4096");
    }
    resources
}

/// The project, and the task if one is named.
async fn subject(
    state: &AppState,
    identity: &Identity,
    wanted: &Wanted,
) -> Result<(Project, Option<Task>), ApiError> {
    let Some(task_id) = &wanted.task_id else {
        let id = wanted.project_id.as_ref().ok_or_else(ApiError::internal)?;
        return Ok((projects::visible(state, identity, id).await?, None));
    };
    let task = tasks::visible(state, identity, task_id).await?;
    if wanted.project_id.as_ref().is_some_and(|id| *id != task.project_id) {
        return Err(ApiError::field("project_id", "is not the task's project"));
    }
    Ok((projects::visible(state, identity, &task.project_id).await?, Some(task)))
}

fn check_runtime(state: &AppState, runtime: &str) -> Result<(), ApiError> {
    let known = &state.config().runtimes;
    if known.iter().any(|name| name == runtime) {
        return Ok(());
    }
    Err(ApiError::field("runtime", format!("must be one of {}", known.join(", "))))
}

/// A script that the caller itself names must be one that it may read.
async fn may_use_model(state: &AppState, identity: &Identity, model: &str) -> Result<(), ApiError> {
    match model.strip_prefix("script:").and_then(BlobHash::parse) {
        Some(hash) if !blobs::fetch::may_read(state, identity, &hash).await? => Err(no_such_script()),
        _ => Ok(()),
    }
}

fn no_such_script() -> ApiError {
    ApiError::field("model", "no blob with this hash was stored")
}

/// A script must be there before anything is started for it.
async fn check_model(state: &AppState, model: &str) -> Result<(), ApiError> {
    let Some(script) = model.strip_prefix("script:").filter(|name| *name != "default") else { return Ok(()) };
    let Some(hash) = BlobHash::parse(script) else {
        return Err(ApiError::field("model", "must be script:default or script:<hash of a stored blob>"));
    };
    if state.store().blob_owners(&hash).await?.is_empty() {
        return Err(no_such_script());
    }
    Ok(())
}

/// A ticket and a task for a bare prompt.
async fn make_task(
    state: &AppState,
    identity: &Identity,
    project_id: &ProjectId,
    prompt: &str,
) -> Result<Task, ApiError> {
    let title = title_of(prompt);
    let ticket = NewTicket {
        project_id: project_id.clone(),
        title: title.clone(),
        description: prompt.to_owned(),
        ticket_type: TicketType::Feature,
        priority: Priority::Medium,
        owner: identity.name.to_string(),
    };
    let ticket = state.store().create_ticket(ticket).await?;
    let task = NewTask {
        ticket_id: ticket.id,
        task_type: "implement".to_owned(),
        title,
        description: prompt.to_owned(),
        priority: Priority::Medium,
    };
    Ok(state.store().create_task(task).await?)
}

/// The first line that says something, cut to a title's length.
fn title_of(prompt: &str) -> String {
    const MOST: usize = 100;
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Untitled");
    if line.chars().count() <= MOST {
        return line.to_owned();
    }
    let cut: String = line.chars().take(MOST - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_that_says_something() {
        assert_eq!(title_of("\n  Fix it \nnow"), "Fix it");
        assert_eq!(title_of(" \n"), "Untitled");
        assert_eq!(title_of(&"ä".repeat(300)).chars().count(), 100);
    }
}
