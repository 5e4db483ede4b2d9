//! The end of a story: what came of it, where it is, how to look at it; and the exit code.

use std::path::Path;
use std::process::ExitCode;

use sunaba_types::{SandboxState, Task, TaskState};

use super::live::Ended;
use super::{Context, quoted};
use crate::client::{Client, Sandbox};
use crate::failure::{CANCELLED, Failure, Outcome, WAITS};
use crate::output;
use crate::render::{clean_line, counted, diffstat};

/// Most files listed one by one.
const FILES_MAX: usize = 12;

/// Shows what came of a sandbox and gives the exit code that says so.
pub(crate) async fn finish(context: &Context, id: &str, ended: Ended, repo: Option<&Path>) -> Outcome {
    let state = match ended {
        Ended::Detached => {
            let attach = context.hint(&format!("attach {id}"));
            output::note(&format!("left running; `{attach}` takes it up again"));
            return Ok(ExitCode::SUCCESS);
        }
        Ended::In(state) => state,
    };
    let client = context.client().await?;
    let sandbox = client.sandbox(id).await?;
    let task = match &sandbox.task_id {
        Some(task_id) => Some(client.task(task_id.as_str()).await?),
        None => None,
    };
    if context.json {
        output::json(&serde_json::json!({ "sandbox": sandbox, "task": task }));
    } else {
        output::out(&text(context, &client, &sandbox, task.as_ref(), repo).await?);
    }
    Ok(exit_code(state, waits_for(&sandbox, task.as_ref()).is_some()))
}

fn exit_code(state: SandboxState, waits: bool) -> ExitCode {
    match state {
        SandboxState::Completed if waits => ExitCode::from(WAITS),
        SandboxState::Completed => ExitCode::SUCCESS,
        SandboxState::Cancelled => ExitCode::from(CANCELLED),
        _ => ExitCode::FAILURE,
    }
}

/// What the task waits for since this sandbox was given up.
fn waits_for(sandbox: &Sandbox, task: Option<&Task>) -> Option<&'static str> {
    let task = task.filter(|task| task.attempt == sandbox.attempt)?;
    match task.status {
        TaskState::WaitingInput => Some("your answer"),
        TaskState::WaitingQuota => Some("the limit to be reset"),
        _ => None,
    }
}

async fn text(
    context: &Context,
    client: &Client,
    sandbox: &Sandbox,
    task: Option<&Task>,
    repo: Option<&Path>,
) -> Outcome<String> {
    let colour = context.colour;
    let mut lines = vec![String::new()];
    // A reason of the sandbox stands in the story, with the end of it.
    let reason = task.and_then(|task| task.error_message.as_deref()).filter(|_| sandbox.reason.is_none());
    if let Some(reason) = reason.filter(|_| sandbox.state != SandboxState::Completed) {
        lines.push(format!("reason  {}", clean_line(reason)));
    }
    let waits = waits_for(sandbox, task);
    if let Some(what) = waits {
        let see = context.hint(&format!("show {}", sandbox.id));
        lines.push(format!("waits   for {what}, and goes on then; {see} tells when it has"));
    }
    match (&sandbox.branch_name, &sandbox.head_commit) {
        (Some(branch), Some(commit)) if sandbox.head_commit != sandbox.base_commit => {
            lines.push(format!("branch  {}", colour.bold(&clean_line(branch))));
            lines.push(format!("commit  {}", clean_line(commit).get(..12).unwrap_or(commit)));
            lines.extend(changes(context, client, sandbox).await?);
            lines.push(look(context, sandbox, branch, repo));
        }
        _ if waits.is_none()
            && matches!(sandbox.state, SandboxState::Completed | SandboxState::Completing) =>
        {
            lines.push("nothing was changed".to_owned());
        }
        _ => {}
    }
    lines.push(colour.dim(&format!("story   {}", context.hint(&format!("logs {}", sandbox.id)))));
    Ok(lines.join("\n") + "\n")
}

async fn changes(context: &Context, client: &Client, sandbox: &Sandbox) -> Outcome<Vec<String>> {
    let diff = match client.diff(sandbox.id.as_str(), &[]).await {
        Ok(diff) => diff,
        // The branch is there; that its diff cannot be shown is no reason to fail.
        Err(Failure::Refused(problem)) => return Ok(vec![format!("changes cannot be shown: {problem}")]),
        Err(failure) => return Err(failure),
    };
    let files = diffstat(&diff);
    let (added, removed) =
        files.iter().fold((0, 0), |(added, removed), file| (added + file.added, removed + file.removed));
    let colour = context.colour;
    let counts = |added: usize, removed: usize| {
        format!("{} {}", colour.green(&format!("+{added}")), colour.red(&format!("-{removed}")))
    };
    let files_word = counted(files.len(), "file", "files");
    let mut lines = vec![format!("changes {files_word} {}", counts(added, removed))];
    let width = files.iter().take(FILES_MAX).map(|file| file.path.chars().count()).max().unwrap_or(0);
    for file in files.iter().take(FILES_MAX) {
        lines.push(format!("        {:width$}  {}", file.path, counts(file.added, file.removed)));
    }
    if files.len() > FILES_MAX {
        lines.push(format!("        … {} more", files.len() - FILES_MAX));
    }
    Ok(lines)
}

fn look(context: &Context, sandbox: &Sandbox, branch: &str, repo: Option<&Path>) -> String {
    let branch = clean_line(branch);
    match (repo, &sandbox.base_commit) {
        (Some(repo), Some(base)) => {
            let base = clean_line(base);
            let base = base.get(..12).unwrap_or(&base);
            format!("look    git -C {} diff {base}..{branch}", quoted(&repo.to_string_lossy()))
        }
        _ => format!("look    {}", context.hint(&format!("diff {}", sandbox.id))),
    }
}
