//! The tools that the model may ask for, named and shaped as coding agents know them.
//!
//! Nothing is refused here: what may be touched is the sandbox's business. A tool that cannot do what it was
//! asked answers with words that let the model do better. Every tool ends soon after it is told to halt.

mod bash;
mod before;
mod diff;
mod edit;
mod glob;
mod grep;
mod pattern;
mod read;
mod schema;
mod todo;
mod walk;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::Value;
use sunaba_llm::{ToolDefinition, Usage};
use tokio_util::sync::CancellationToken;

use crate::EventSink;
pub(crate) use before::Before;
pub(crate) use diff::FileEdit;
pub(crate) use schema::tool as definition;

/// How long a tool that works on files may take.
const FILE_TOOL_TIMEOUT: Duration = Duration::from_secs(60);
/// How long such a tool may take to notice that it is to halt.
const HALT_TIMEOUT: Duration = Duration::from_millis(500);

/// What the model asks for.
#[derive(Debug, Clone)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) input: Value,
}

/// What it is told.
#[derive(Debug, Clone)]
pub(crate) struct ToolReply {
    pub(crate) content: String,
    pub(crate) is_error: bool,
    pub(crate) edit: Option<FileEdit>,
    /// What a helper used for it.
    pub(crate) used: Option<Usage>,
}

impl ToolReply {
    pub(crate) fn ok(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: false, edit: None, used: None }
    }

    pub(crate) fn edited(content: impl Into<String>, edit: Option<FileEdit>) -> Self {
        Self { edit, ..Self::ok(content) }
    }

    pub(crate) fn error(content: impl Into<String>) -> Self {
        Self { content: content.into(), is_error: true, edit: None, used: None }
    }
}

/// A tool's work: words for the model, or words that say why not.
type ToolResult = Result<ToolReply, String>;

/// The tools of one run, and the processes that its commands left running.
pub(crate) struct Toolbox {
    cwd: PathBuf,
    bash: bash::Bash,
}

impl Toolbox {
    pub(crate) fn new(cwd: PathBuf, events: Arc<dyn EventSink>, grace: Duration) -> Self {
        Self { bash: bash::Bash::new(cwd.clone(), events, grace), cwd }
    }

    /// As the model is told of them.
    pub(crate) fn definitions() -> Vec<ToolDefinition> {
        schema::definitions()
    }

    /// Does what the model asks for. Never dropped half-way by the loop: it cancels `halt` and waits.
    pub(crate) async fn run(&self, call: &ToolCall, halt: &CancellationToken) -> ToolReply {
        let result = match call.name.as_str() {
            "Bash" => match parse(call) {
                Ok(input) => self.bash.run(&call.id, input, halt).await,
                Err(reason) => Err(reason),
            },
            "Read" => self.on_files(call, halt, |cwd, input, _| read::run(cwd, &input)).await,
            "Write" => self.on_files(call, halt, |cwd, input, _| write::run(cwd, &input)).await,
            "Edit" => self.on_files(call, halt, |cwd, input, _| edit::run(cwd, &input)).await,
            "Glob" => self.on_files(call, halt, |cwd, input, halt| glob::run(cwd, &input, halt)).await,
            "Grep" => self.on_files(call, halt, |cwd, input, halt| grep::run(cwd, &input, halt)).await,
            "TodoWrite" => self.on_files(call, halt, |cwd, input, _| todo::run(cwd, &input)).await,
            other => Err(format!("there is no tool named {other}")),
        };
        result.unwrap_or_else(ToolReply::error)
    }

    /// Runs blocking work beside the loop.
    async fn on_files<Input: DeserializeOwned + Send + 'static>(
        &self,
        call: &ToolCall,
        halt: &CancellationToken,
        work: fn(&Path, Input, &CancellationToken) -> ToolResult,
    ) -> ToolResult {
        let input = parse(call)?;
        let cwd = self.cwd.clone();
        let work_halt = halt.child_token();
        // Also when this future is dropped: a walk through a large tree must not go on for nobody.
        let stop_work = work_halt.clone().drop_guard();
        let mut done = tokio::task::spawn_blocking(move || work(&cwd, input, &work_halt));
        let ended = tokio::select! {
            ended = &mut done => Some(ended),
            () = halt.cancelled() => tokio::time::timeout(HALT_TIMEOUT, done).await.ok(),
            () = tokio::time::sleep(FILE_TOOL_TIMEOUT) => {
                return Err(format!("{} took longer than {} s", call.name, FILE_TOOL_TIMEOUT.as_secs()));
            }
        };
        drop(stop_work);
        match ended {
            Some(Ok(result)) => result,
            Some(Err(_)) => Err(format!("{} broke on this input", call.name)),
            None => Err("[interrupted]".to_owned()),
        }
    }
}

fn parse<Input: DeserializeOwned>(call: &ToolCall) -> Result<Input, String> {
    serde_json::from_value(call.input.clone())
        .map_err(|error| format!("the arguments of {} do not fit: {error}", call.name))
}

/// Where a path that the model wrote leads.
fn resolve(cwd: &Path, path: &str) -> PathBuf {
    cwd.join(path)
}

/// A path as people and the model read it: from the work tree where it lies in it.
pub(crate) fn shown(cwd: &Path, path: &Path) -> String {
    path.strip_prefix(cwd).unwrap_or(path).display().to_string()
}

/// The reason in words for the model.
fn describe(error: &std::io::Error, action: &str, path: &str) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => format!("{path} does not exist"),
        std::io::ErrorKind::PermissionDenied => format!("no permission to {action} {path}"),
        _ => format!("cannot {action} {path}: {error}"),
    }
}

/// The whole of a regular file of sensible size.
fn read_regular(path: &Path, name: &str, max_bytes: u64) -> Result<Vec<u8>, String> {
    let metadata = std::fs::metadata(path).map_err(|error| describe(&error, "read", name))?;
    if metadata.is_dir() {
        return Err(format!("{name} is a directory"));
    }
    if !metadata.is_file() {
        return Err(format!("{name} is not a regular file"));
    }
    if metadata.len() > max_bytes {
        return Err(format!(
            "{name} has {} bytes, more than the {max_bytes} that this tool takes; use Bash to look at parts",
            metadata.len()
        ));
    }
    std::fs::read(path).map_err(|error| describe(&error, "read", name))
}

fn looks_binary(bytes: &[u8]) -> bool {
    bytes.iter().take(8192).any(|byte| *byte == 0)
}
