//! `POST /api/v1/sandboxes`: asks for a sandbox. The orchestrator takes it from there.
//!
//! Everything is checked before anything is made: a refused request leaves nothing behind.

use axum::extract::State;
use serde::Deserialize;
use sunaba_store::NewSandbox;
use sunaba_types::{Project, ProjectId, ResourcesWanted, Task, TaskId};
use utoipa::ToSchema;

use super::{fitness, prompt_task, resume, terms};
use crate::api::execution::ExecutionBody;
use crate::api::views::SandboxView;
use crate::api::{ApiResult, PROMPT_BYTES, SMALL_BODY, TITLE_BYTES, created, models, projects, tasks};
use crate::auth::{Editor, Identity};
use crate::extract::{Fields, JsonBody, Text};
use crate::{ApiError, AppState};

pub(super) const PROMPT: Text = Text { min: 1, max: PROMPT_BYTES };
pub(super) const WORD: Text = Text { min: 1, max: 200 };

/// A sandbox to be made: for a task, or for a project and a prompt (ticket and task are made for it).
/// What is absent is the project's setting, else the server's.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct SandboxBody {
    /// The project; not needed with `task_id` or `resume_session_id`.
    #[schema(min_length = 1, max_length = 100)]
    project_id: Option<String>,
    /// The task, which must be pending.
    #[schema(min_length = 1, max_length = 100)]
    task_id: Option<String>,
    /// The title of the ticket and the task that are made; the prompt's first line when absent. Not with `task_id`.
    #[schema(min_length = 1, max_length = 300)]
    title: Option<String>,
    /// What the agent is told; the task's description when absent.
    #[schema(min_length = 1, max_length = 102_400)]
    prompt: Option<String>,
    /// Which agent drives it.
    runtime: Option<String>,
    /// Which model it speaks to; `script:<hash>` for a script stored as a blob.
    model: Option<String>,
    /// What makes it.
    provider: Option<String>,
    /// Some of `memory_gb`, `cpu`, `disk_gb`.
    #[schema(value_type = Option<Object>)]
    resources: Option<serde_json::Value>,
    /// Variables added to its environment, at most 100 and 64 KiB in all. No place for secrets. Those that say how
    /// the agent works (`PERMISSION_MODE`, `ALLOWED_TOOLS`, …) are read like `execution_config`, which goes first.
    #[schema(value_type = Option<Object>)]
    env: Option<serde_json::Value>,
    /// How its agent works.
    execution_config: Option<ExecutionBody>,
    /// What its task may spend on models, all attempts together; 0 is nothing.
    #[schema(minimum = 0)]
    budget_usd: Option<f64>,
    /// How long its agent may work in it, all rounds together.
    #[schema(minimum = 1, maximum = 2_592_000)]
    timeout_seconds: Option<i64>,
    /// The least isolation it accepts: `strict`, `sampled` or `any`. Less than its project's or the
    /// server's: administrators only.
    isolation: Option<String>,
    /// The conversation that its agent goes on with, on the branch of the sandbox that it was of (on a new branch from
    /// there, without `task_id`). Unknown or not to be read: 422; in use by a living sandbox: 409, unless it is forked.
    #[schema(min_length = 1, max_length = 100)]
    resume_session_id: Option<String>,
    /// Goes on under another name, so that the conversation stays as it was.
    fork: Option<bool>,
    /// How long it waits for a follow-up when its agent is done; 0 ends it at once.
    #[schema(minimum = 0, maximum = 1440)]
    follow_up_minutes: Option<f64>,
}

#[derive(Debug)]
pub(super) struct Wanted {
    pub(super) project_id: Option<ProjectId>,
    pub(super) task_id: Option<TaskId>,
    pub(super) title: Option<String>,
    pub(super) prompt: Option<String>,
    pub(super) runtime: Option<String>,
    pub(super) model: Option<String>,
    pub(super) provider: Option<String>,
    pub(super) terms: terms::Asked,
    pub(super) resume: Option<resume::Asked>,
}

/// Asks for a sandbox.
#[utoipa::path(post, path = "/api/v1/sandboxes", tag = "sandboxes", operation_id = "create_sandbox",
    request_body = SandboxBody, responses((status = 201, body = SandboxView)))]
pub(crate) async fn create(
    State(state): State<AppState>,
    Editor(identity): Editor,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    let mut wanted = read(&body)?;
    let session = match &wanted.resume {
        Some(asked) => Some(resume::find(&state, &identity, asked).await?),
        None => None,
    };
    if let Some(session) = &session {
        wanted.project_id = wanted.project_id.or_else(|| session.of.project_id.clone());
        wanted.runtime = Some(session.runtime(wanted.runtime.as_deref())?);
        wanted.model = wanted.model.or_else(|| Some(session.of.model.clone()));
    }
    let (project, task) = subject(&state, &identity, &wanted).await?;
    if let Some(task) = &task {
        wanted.terms.execution_config = wanted.terms.execution_config.or(&task.execution_config);
    }
    let mut sandbox = decide(&state, &identity, &wanted, &project).await?;
    if let Some(session) = &session {
        session.check_project(&project.id)?;
        sandbox.terms.resume = Some(session.terms());
    }
    let made = match task {
        Some(task) => {
            sandbox.prompt = wanted.prompt.unwrap_or(task.description);
            sandbox.task_id = Some(task.id);
            state.store().create_sandbox(sandbox).await?
        }
        None => {
            sandbox.prompt = wanted.prompt.unwrap_or_default();
            prompt_task::make(&state, &identity, &project.id, wanted.title, sandbox).await?
        }
    };
    created(&SandboxView::from(made))
}

fn read(body: &[u8]) -> Result<Wanted, ApiError> {
    let mut fields = Fields::of_body(body)?;
    let wanted = Wanted {
        project_id: fields.parsed("project_id", ProjectId::parse),
        task_id: fields.parsed("task_id", TaskId::parse),
        title: fields.bounded_text("title", Text { min: 1, max: 300 }, TITLE_BYTES),
        prompt: fields.bounded_text("prompt", PROMPT, PROMPT_BYTES),
        runtime: fields.text("runtime", WORD),
        model: fields.text("model", WORD),
        provider: fields.text("provider", WORD),
        terms: terms::read(&mut fields),
        resume: resume::read(&mut fields),
    };
    if fields.raw("task_id").is_none() {
        if fields.raw("resume_session_id").is_none() {
            fields.require("project_id");
        }
        fields.require("prompt");
    } else if fields.raw("title").is_some() {
        fields.fault("title", "is the task's own: leave it out, or leave out task_id");
    }
    fields.finish()?;
    Ok(wanted)
}

/// What the call, the project and the server say together; task and prompt are still missing.
pub(super) async fn decide(
    state: &AppState,
    identity: &Identity,
    wanted: &Wanted,
    project: &Project,
) -> Result<NewSandbox, ApiError> {
    let (config, settings) = (state.config(), &project.settings);
    let choose = |asked: &Option<String>, set: &Option<String>, default: &String| {
        asked.as_ref().or(set.as_ref()).unwrap_or(default).clone()
    };
    let provider = choose(&wanted.provider, &settings.provider, &config.default_provider);
    let runtime = choose(&wanted.runtime, &settings.runtime, &config.default_runtime);
    let model = choose(&wanted.model, &settings.model, &config.default_model);
    check_runtime(state, &runtime)?;
    match &wanted.model {
        Some(model) => models::check(state, identity, model, "model").await?,
        None => models::check_there(state, &model, "model").await?,
    }
    let terms = terms::settle(&wanted.terms, settings, config);
    let floor = terms::isolation_unasked(settings, config);
    if terms::is_weaker(terms.isolation, floor) && !identity.is_admin() {
        let detail = format!("only an admin token may accept less isolation than `{floor}`");
        return Err(ApiError::forbidden("isolation_admin_only", detail));
    }
    let resources = over(wanted.terms.resources, settings.resources.unwrap_or_default());
    let fit = fitness::Wanted { provider: &provider, resources, isolation: terms.isolation };
    let resources = fitness::check(state, &fit).await?;
    let (project_id, prompt) = (Some(project.id.clone()), String::new());
    Ok(NewSandbox { project_id, task_id: None, provider, runtime, model, prompt, resources, terms })
}

fn over(asked: ResourcesWanted, set: ResourcesWanted) -> ResourcesWanted {
    ResourcesWanted {
        memory_gb: asked.memory_gb.or(set.memory_gb),
        cpu: asked.cpu.or(set.cpu),
        disk_gb: asked.disk_gb.or(set.disk_gb),
    }
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
    if crate::is_runtime(known, runtime) {
        return Ok(());
    }
    Err(ApiError::field("runtime", crate::runtime_choices(known)))
}
