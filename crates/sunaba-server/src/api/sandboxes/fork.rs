//! `POST /api/v1/sandboxes/{id}/fork`: goes on from another sandbox's files and conversation, as they were after an
//! event.

use axum::extract::State;
use serde::Deserialize;
use sunaba_store::EventQuery;
use sunaba_types::{FilesFrom, ResourcesWanted, Resume, ResumeCause, Sandbox, SandboxId};
use utoipa::ToSchema;

use super::create::{self, PROMPT, WORD, Wanted};
use super::diff::{absent, unreadable};
use super::steps::{At, Moment, base, resolve};
use super::{prompt_task, terms};
use crate::api::views::SandboxView;
use crate::api::{ApiResult, PROMPT_BYTES, SMALL_BODY, created, projects};
use crate::auth::{Editor, visible_sandbox};
use crate::extract::{Fields, IdPath, JsonBody};
use crate::{ApiError, AppState};

/// Where to go on from, and with what.
#[derive(Debug, Deserialize, ToSchema)]
#[expect(dead_code, reason = "documents the body, which is read field by field")]
pub(crate) struct ForkBody {
    /// After which event: `latest` (default), `base`, its place or its id.
    at: Option<String>,
    /// What the agent is told.
    #[schema(min_length = 1, max_length = 102_400)]
    prompt: String,
    /// Which agent drives it; the same as before when absent.
    runtime: Option<String>,
    /// Which model it speaks to; the same as before when absent.
    model: Option<String>,
    /// Whether its agent goes on with the conversation up to there, where one is kept that its runtime can cut
    /// (default); otherwise it begins a new one.
    conversation: Option<bool>,
}

/// Runtimes whose conversations can be cut after a tool call.
const CUTTABLE: [&str; 2] = ["native", "claude"];
/// Told when a tool call has its result.
const TOOL_COMPLETED: &str = "agent.tool_completed";
/// Calls of helpers that may have come between a place and the last call of the agent itself.
const CALLS_LOOKED_AT: u32 = 200;

#[derive(Debug)]
struct Asked {
    at: At,
    prompt: String,
    runtime: Option<String>,
    model: Option<String>,
    conversation: bool,
}

/// Makes a ticket, a task and a sandbox whose branch starts from the files of another one, on the same terms.
#[utoipa::path(post, path = "/api/v1/sandboxes/{id}/fork", tag = "sandboxes", operation_id = "fork_sandbox",
    params(("id" = String, Path)), request_body = ForkBody, responses((status = 201, body = SandboxView)))]
pub(crate) async fn fork(
    State(state): State<AppState>,
    Editor(identity): Editor,
    IdPath(id): IdPath<SandboxId>,
    JsonBody(body): JsonBody<SMALL_BODY>,
) -> ApiResult {
    // Whoever may not see it is not told what would be wrong with the wish.
    let origin = visible_sandbox(&state, &identity, &id).await?;
    let asked = read(&body)?;
    let project = origin.project_id.as_ref();
    let project = project.ok_or_else(|| absent("this sandbox has no repository of ours"))?;
    let project = projects::visible(&state, &identity, project).await?;
    let moment = resolve(&state, &origin, &asked.at).await?;
    let files = files_from(&state, &origin, &moment).await?;
    let wanted = wanted(&origin, &asked);
    let mut sandbox = create::decide(&state, &identity, &wanted, &project).await?;
    sandbox.terms.files_from = Some(files);
    if asked.conversation {
        sandbox.terms.resume = conversation(&state, &origin, &sandbox.runtime, &asked.at).await?;
    }
    sandbox.prompt = asked.prompt;
    let made = prompt_task::make(&state, &identity, &project.id, None, sandbox).await?;
    created(&SandboxView::from(made))
}

fn read(body: &[u8]) -> Result<Asked, ApiError> {
    let mut fields = Fields::of_body(body)?;
    let at = fields.parsed("at", |text| At::parse(&text)).unwrap_or(At::Latest);
    fields.require("prompt");
    let prompt = fields.bounded_text("prompt", PROMPT, PROMPT_BYTES).unwrap_or_default();
    let conversation: Option<bool> = fields.optional("conversation", "true or false");
    let asked = Asked {
        at,
        prompt,
        runtime: fields.text("runtime", WORD),
        model: fields.text("model", WORD),
        conversation: conversation.unwrap_or(true),
    };
    fields.finish()?;
    Ok(asked)
}

/// The conversation as it was there; none where a new one is begun.
async fn conversation(
    state: &AppState,
    origin: &Sandbox,
    runtime: &str,
    at: &At,
) -> Result<Option<Resume>, ApiError> {
    let kept = state.store().list_transcripts(&origin.id).await?.into_iter().next();
    let Some(kept) = kept.filter(|kept| kept.runtime == runtime) else { return Ok(None) };
    let place = match at {
        At::Base => return Ok(None),
        At::Latest => None,
        At::Seq(seq) => Some(*seq),
        At::Event(id) => state.store().find_seq(&origin.id, id).await?,
    };
    let until = match place {
        None => None,
        Some(_) if !CUTTABLE.contains(&runtime) => return Ok(None),
        Some(seq) => match last_call(state, origin, seq).await? {
            None => return Ok(None),
            call => call,
        },
    };
    Ok(Some(Resume {
        session_id: kept.session_id,
        from: origin.id.clone(),
        fork: true,
        because: ResumeCause::Asked,
        until,
    }))
}

/// The last tool call of the agent itself that had its result by then.
async fn last_call(state: &AppState, origin: &Sandbox, seq: i64) -> Result<Option<String>, ApiError> {
    let mut query = EventQuery::newest(origin.id.clone(), CALLS_LOOKED_AT);
    query.event_types = vec![TOOL_COMPLETED.to_owned()];
    query.before_seq = Some(seq.saturating_add(1));
    let page = state.store().list_events(query).await?;
    let own =
        page.events.iter().filter(|event| event.payload.field::<String>("parent_tool_use_id").is_none());
    let last = own.max_by_key(|event| event.seq);
    Ok(last.and_then(|event| event.payload.field("tool_use_id")))
}

/// The files, which must be there: a fork that could not start would only be found out later.
async fn files_from(state: &AppState, origin: &Sandbox, moment: &Moment) -> Result<FilesFrom, ApiError> {
    let source = state.parts.files.as_ref().ok_or_else(|| absent("this server holds no repositories"))?;
    let tree = moment.tree.clone().unwrap_or_default();
    source.show(origin, &tree, "").await.map_err(unreadable)?;
    let base_commit = base(origin)?;
    Ok(FilesFrom { sandbox_id: origin.id.clone(), seq: moment.seq, tree, base_commit })
}

/// The same as the sandbox it comes from, but for what is asked otherwise.
fn wanted(origin: &Sandbox, asked: &Asked) -> Wanted {
    let resources = ResourcesWanted {
        memory_gb: Some(origin.resources.memory_gb),
        cpu: Some(origin.resources.cpu),
        disk_gb: Some(origin.resources.disk_gb),
    };
    let same = terms::Asked {
        budget_usd: origin.terms.budget_usd,
        timeout_seconds: origin.terms.timeout_seconds,
        isolation: Some(origin.terms.isolation),
        env: origin.terms.env.clone(),
        execution_config: origin.terms.execution_config.clone(),
        resources,
        follow_up_seconds: origin.terms.follow_up_seconds,
    };
    Wanted {
        project_id: origin.project_id.clone(),
        task_id: None,
        title: None,
        prompt: None,
        runtime: asked.runtime.clone().or_else(|| Some(origin.runtime.clone())),
        model: asked.model.clone().or_else(|| Some(origin.model.clone())),
        provider: Some(origin.provider.clone()),
        terms: same,
        resume: None,
    }
}
