//! `sunaba run`: give an agent a task on a repository, and follow it to its end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use sunaba_git::Repo;
use sunaba_types::limits::BLOB_MAX_BYTES;
use sunaba_types::{Sandbox, Task};

use super::{Context, live, summary};
use crate::args::RunArgs;
use crate::client::{Client, Place, SandboxRequest, ensure_server};
use crate::failure::{Failure, Outcome};
use crate::output;
use crate::render::{clean_line, shorten};

/// Longest title made from a prompt.
const TITLE_MAX_CHARS: usize = 72;
/// What marks a scripted model.
const SCRIPT: &str = "script:";

/// A task that was given.
#[derive(Debug)]
pub(crate) struct Given {
    /// The sandbox that works on it.
    pub(crate) sandbox: Sandbox,
    /// The task.
    pub(crate) task: Task,
    /// The repository.
    pub(crate) repo: PathBuf,
}

/// Gives the task and follows it.
pub(crate) async fn run(context: &Context, args: RunArgs) -> Outcome {
    let request = Request::read(&args).await?;
    let client = ensure_server(&context.place).await?;
    let given = give(&client, request).await?;
    announce(context, &given);
    if args.detach {
        if context.json {
            output::json(&serde_json::json!({ "sandbox": given.sandbox, "task": given.task }));
        } else {
            output::line(given.sandbox.id.as_str());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let id = given.sandbox.id.as_str();
    let ended = live::watch(context, id, live::Manners::conversation()).await?;
    summary::finish(context, id, ended, local_repo(context, &given)).await
}

/// The repository, when the branch appears in it on this machine.
fn local_repo<'a>(context: &Context, given: &'a Given) -> Option<&'a Path> {
    matches!(context.place, Place::DataDir { .. }).then_some(given.repo.as_path())
}

fn announce(context: &Context, given: &Given) {
    if !context.json {
        let title = clean_line(&given.task.title);
        output::note(&format!("{} on {}: {title}", given.sandbox.id, given.repo.display()));
    }
}

/// What is asked for, checked as far as this side can.
#[derive(Debug)]
pub(crate) struct Request {
    repo: PathBuf,
    branch: String,
    title: String,
    prompt: String,
    model: Model,
}

#[derive(Debug)]
enum Model {
    Default,
    Named(String),
    Script(Vec<u8>),
}

impl Request {
    /// Reads the repository and the script; warns about uncommitted work.
    pub(crate) async fn read(args: &RunArgs) -> Outcome<Self> {
        let prompt = args.prompt.trim().to_owned();
        if prompt.is_empty() {
            return Err(Failure::usage("the prompt is empty; say what the agent shall do"));
        }
        let model = read_model(args.model.as_deref())?;
        let repo = Repo::discover(&args.repo).await.map_err(|error| Failure::usage(error.to_string()))?;
        let branch = repo.default_branch().await.map_err(|error| Failure::usage(error.to_string()))?;
        if repo.is_dirty().await.map_err(|error| Failure::Other(error.into()))? {
            output::note(&format!(
                "{} has uncommitted changes; the agent works on the last commit of {branch} and will not see them",
                repo.path().display()
            ));
        }
        let title = args.title.clone().unwrap_or_else(|| title_of(&prompt));
        Ok(Self { repo: repo.path().to_owned(), branch, title, prompt, model })
    }
}

fn title_of(prompt: &str) -> String {
    shorten(&clean_line(prompt.lines().next().unwrap_or_default().trim()), TITLE_MAX_CHARS)
}

fn read_model(model: Option<&str>) -> Outcome<Model> {
    let Some(model) = model else { return Ok(Model::Default) };
    match model.strip_prefix(SCRIPT) {
        // A script that is built in, or stored already, goes by its name.
        Some("default") => Ok(Model::Named(model.to_owned())),
        Some(word) if sunaba_types::BlobHash::parse(word).is_some() => Ok(Model::Named(model.to_owned())),
        Some(file) => {
            let size = std::fs::metadata(file).map_err(|error| unreadable(file, &error))?.len();
            if size > BLOB_MAX_BYTES as u64 {
                return Err(Failure::usage(format!("the script {file} is too large")));
            }
            std::fs::read(file).map(Model::Script).map_err(|error| unreadable(file, &error))
        }
        None => Ok(Model::Named(model.to_owned())),
    }
}

fn unreadable(file: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("the script {file} cannot be read: {error}"))
}

/// Creates project, ticket, task and sandbox.
pub(crate) async fn give(client: &Client, request: Request) -> Outcome<Given> {
    let Request { repo, branch, title, prompt, model } = request;
    let model = match model {
        Model::Default => None,
        Model::Named(name) => Some(name),
        Model::Script(bytes) => Some(format!("{SCRIPT}{}", client.put_blob(bytes).await?)),
    };
    let path = repo.to_str().ok_or_else(|| Failure::usage("the repository's path is not text"))?;
    let name = repo.file_name().and_then(|name| name.to_str()).unwrap_or("repository");
    let project = client.ensure_project(name, path, &branch).await?;
    let ticket = client.create_ticket(project.id.as_str(), &title, &prompt).await?;
    let task = client.create_task(ticket.id.as_str(), &title, &prompt).await?;
    let request = SandboxRequest { task_id: task.id.as_str(), prompt: &prompt, model };
    let sandbox = client.create_sandbox(&request).await?;
    Ok(Given { sandbox, task, repo })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line() {
        assert_eq!(title_of("Add a flag\nand test it"), "Add a flag");
        assert_eq!(title_of(&"x".repeat(100)).chars().count(), TITLE_MAX_CHARS);
    }

    #[test]
    fn models_are_told_apart() {
        assert!(matches!(read_model(None), Ok(Model::Default)));
        assert!(matches!(read_model(Some("script:default")), Ok(Model::Named(_))));
        assert!(matches!(read_model(Some("claude-x")), Ok(Model::Named(_))));
        let missing = read_model(Some("script:/nowhere/a.yaml")).unwrap_err();
        assert_eq!(missing.exit_code(), 2);
    }
}
