//! What a call needs to be allowed for, and by whom.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use tokio_util::sync::CancellationToken;

use crate::text::clip;
use crate::tools::{ToolCall, ToolReply};
use crate::{Answer, Asks, PermissionMode, Question};

/// Of changed arguments, in what the model is told.
const CHANGED_MAX_CHARS: usize = 2_000;

/// Stands before the tools.
pub(super) struct Guard {
    pub(super) mode: PermissionMode,
    pub(super) asks: Arc<dyn Asks>,
    pub(super) cwd: PathBuf,
}

/// What became of a question.
pub(super) enum Verdict {
    /// It may run as it is.
    Free,
    /// It may run, with other arguments.
    Changed(ToolCall),
    /// It may not; this is what the model is told.
    Refused(ToolReply),
}

impl Guard {
    /// Decides, or asks whoever decides; gives up when the agent is to stop.
    pub(super) async fn judge(&self, call: &ToolCall, halt: &CancellationToken) -> Verdict {
        if !self.must_ask(call) {
            return Verdict::Free;
        }
        let question =
            Question { tool_use_id: call.id.clone(), tool: call.name.clone(), input: call.input.clone() };
        let answer = tokio::select! {
            biased;
            () = halt.cancelled() => return Verdict::Refused(ToolReply::error(super::hands::NOT_RUN)),
            answer = self.asks.ask(question) => answer,
        };
        match answer {
            Answer::Allow { instead: None } => Verdict::Free,
            Answer::Allow { instead: Some(input) } => {
                Verdict::Changed(ToolCall { id: call.id.clone(), name: call.name.clone(), input })
            }
            Answer::Deny { message } => Verdict::Refused(ToolReply::error(message)),
        }
    }

    fn must_ask(&self, call: &ToolCall) -> bool {
        let changes_files = matches!(call.name.as_str(), "Write" | "Edit");
        match self.mode {
            PermissionMode::Bypass => false,
            PermissionMode::AcceptEdits if changes_files => !self.is_in_work_tree(&call.input),
            PermissionMode::AcceptEdits | PermissionMode::Ask => changes_files || call.name == "Bash",
        }
    }

    /// Whether the file lies in the work tree for sure. What git itself keeps there does not count: a hook that is
    /// written is a command that will run.
    fn is_in_work_tree(&self, input: &Value) -> bool {
        let Some(path) = input.get("file_path").and_then(Value::as_str) else { return false };
        let (Some(path), Ok(root)) = (real(&self.cwd.join(path)), self.cwd.canonicalize()) else {
            return false;
        };
        path.strip_prefix(root).is_ok_and(|inside| inside.components().all(|part| part.as_os_str() != ".git"))
    }
}

/// Where a path really leads, through every link on the way; also when its end does not exist yet. None when that
/// cannot be told.
fn real(path: &Path) -> Option<PathBuf> {
    let mut missing = Vec::new();
    let mut existing = path;
    loop {
        match existing.symlink_metadata() {
            Ok(_) => break,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(_) => return None,
        }
        match existing.components().next_back()? {
            Component::Normal(name) => missing.push(name.to_owned()),
            _ => return None,
        }
        existing = existing.parent()?;
    }
    let mut whole = existing.canonicalize().ok()?;
    whole.extend(missing.into_iter().rev());
    Some(whole)
}

/// The result of a call whose arguments were changed; the model asked for something else and should know.
pub(super) fn with_note(mut reply: ToolReply, ran: &ToolCall) -> ToolReply {
    let input = clip(&ran.input.to_string(), CHANGED_MAX_CHARS);
    reply.content = format!("[the arguments were changed before it ran: {input}]\n{}", reply.content);
    reply
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::NobodyToAsk;

    #[test]
    fn only_what_surely_lies_in_the_work_tree_is_free_to_edit() {
        let dir = tempfile::TempDir::new().unwrap();
        let cwd = dir.path().join("tree");
        std::fs::create_dir_all(cwd.join("src/.git")).unwrap();
        std::os::unix::fs::symlink("/etc", cwd.join("away")).unwrap();
        std::os::unix::fs::symlink("/nowhere/at/all", cwd.join("dangling")).unwrap();
        std::os::unix::fs::symlink("src", cwd.join("within")).unwrap();
        let guard =
            Guard { mode: PermissionMode::AcceptEdits, asks: Arc::new(NobodyToAsk), cwd: cwd.clone() };
        let must_ask = |path: &str| {
            let input = json!({ "file_path": path });
            guard.must_ask(&ToolCall { id: "t".to_owned(), name: "Write".to_owned(), input })
        };
        for free in ["a.txt", "src/new/deep.rs", "within/x", cwd.join("b").to_str().unwrap()] {
            assert!(!must_ask(free), "{free}");
        }
        let asked = [
            "../a.txt",
            "/etc/passwd",
            "away/passwd",
            "dangling",
            "src/.git/config",
            "no/../../x",
            "src/../../x",
        ];
        for asked in asked {
            assert!(must_ask(asked), "{asked}");
        }
    }
}
