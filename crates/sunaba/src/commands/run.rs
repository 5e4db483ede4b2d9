//! `sunaba run`: give an agent a task on a repository, and follow it to its end.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};
use sunaba_gateway::{Script, ScriptError};
use sunaba_git::Repo;
use sunaba_types::execution::variables;
use sunaba_types::limits::BLOB_MAX_BYTES;
use sunaba_types::{ExecutionConfig, Project};

use super::{Context, egress, live, summary};
use crate::args::{AgentTerms, RunArgs, RunTerms};
use crate::client::{Client, Place, Sandbox, SandboxRequest, ensure_server};
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
    /// The task's title.
    pub(crate) title: String,
    /// The repository.
    pub(crate) repo: PathBuf,
}

/// Gives the task and follows it.
pub(crate) async fn run(context: &Context, args: RunArgs) -> Outcome {
    let request = Request::read(&args).await?;
    let client = ensure_server(&context.place).await?;
    let project = request.project(&client).await?;
    egress::settle(context, &client, &project, &args.terms).await?;
    let given = give_to(&client, &project, request).await?;
    announce(context, &given);
    if args.detach {
        if context.json {
            let task = match &given.sandbox.task_id {
                Some(id) => Some(client.task(id.as_str()).await?),
                None => None,
            };
            output::json(&serde_json::json!({ "sandbox": given.sandbox, "task": task }));
        } else {
            output::line(given.sandbox.id.as_str());
        }
        return Ok(ExitCode::SUCCESS);
    }
    let id = given.sandbox.id.as_str();
    let ended = live::watch(context, id, live::Manners::conversation(args.stdin)).await?;
    summary::finish(context, id, ended, local_repo(context, &given)).await
}

/// The repository, when the branch appears in it on this machine.
fn local_repo<'a>(context: &Context, given: &'a Given) -> Option<&'a Path> {
    matches!(context.place, Place::DataDir { .. }).then_some(given.repo.as_path())
}

fn announce(context: &Context, given: &Given) {
    if !context.json {
        let title = clean_line(&given.title);
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
    terms: Value,
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
        check_local(&args.repo)?;
        let repo = Repo::discover(&args.repo).await.map_err(|error| Failure::usage(error.to_string()))?;
        let branch = repo.default_branch().await.map_err(|error| Failure::usage(error.to_string()))?;
        if repo.is_dirty().await.map_err(|error| Failure::Other(error.into()))? {
            output::note(&format!(
                "{} has uncommitted changes; the agent works on the last commit of {branch} and will not see them",
                repo.path().display()
            ));
        }
        let title = args.title.clone().unwrap_or_else(|| title_of(&prompt));
        let terms = terms(&args.terms);
        Ok(Self { repo: repo.path().to_owned(), branch, title, prompt, model, terms })
    }

    /// The repository's project, made if there is none.
    async fn project(&self, client: &Client) -> Outcome<Project> {
        let path = self.repo.to_str().ok_or_else(|| Failure::usage("the repository's path is not text"))?;
        let name = self.repo.file_name().and_then(|name| name.to_str()).unwrap_or("repository");
        client.ensure_project(name, path, &self.branch).await
    }
}

/// The terms as the server takes them; what was not given is left to it.
fn terms(args: &RunTerms) -> Value {
    let mut terms = Map::new();
    let mut set = |name: &str, value: Option<Value>| {
        if let Some(value) = value {
            terms.insert(name.to_owned(), value);
        }
    };
    set("runtime", args.runtime.as_ref().map(|name| json!(name)));
    set("provider", args.provider.as_ref().map(|name| json!(name)));
    set("budget_usd", args.budget.map(|usd| json!(usd)));
    set("timeout_seconds", args.timeout.map(|seconds| json!(seconds)));
    set("follow_up_minutes", args.once.then(|| json!(0)));
    set("isolation", args.isolation.map(|wanted| json!(wanted)));
    let mut env: Map<String, Value> =
        args.env.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
    if args.continuous {
        env.insert("CONTINUOUS_MODE".to_owned(), json!("true"));
    }
    set("env", (!env.is_empty()).then_some(Value::Object(env)));
    let mut resources = Map::new();
    for (name, number) in [("memory_gb", args.memory), ("cpu", args.cpu), ("disk_gb", args.disk)] {
        if let Some(number) = number {
            resources.insert(name.to_owned(), json!(number));
        }
    }
    set("resources", (!resources.is_empty()).then_some(Value::Object(resources)));
    let execution = execution(&args.agent);
    set("execution_config", (!execution.is_empty()).then(|| json!(execution)));
    Value::Object(terms)
}

fn execution(args: &AgentTerms) -> ExecutionConfig {
    let list = |text: &Option<String>| text.as_deref().map(variables::names);
    ExecutionConfig {
        permission_mode: args.permission_mode,
        allowed_tools: list(&args.allowed_tools),
        disallowed_tools: list(&args.disallowed_tools),
        system_prompt_append: args.append_system_prompt.clone(),
        max_turns: args.max_turns,
        execution_mode: args.mode,
        question_hold_seconds: args.question_hold.map(|seconds| u32::try_from(seconds).unwrap_or(u32::MAX)),
        question_policy: args.question_policy,
        ..ExecutionConfig::default()
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
            let script = std::fs::read(file).map_err(|error| unreadable(file, &error))?;
            check_script(file, &script)?;
            Ok(Model::Script(script))
        }
        None => Ok(Model::Named(model.to_owned())),
    }
}

/// A script that cannot be played is refused before anything is made.
fn check_script(file: &str, script: &[u8]) -> Outcome<()> {
    Script::parse(script).map(|_| ()).map_err(|error| {
        Failure::usage(match error {
            ScriptError::Syntax { line, column, message } => {
                // The reader names the place again.
                let message = message.replace(&format!(" at line {line}, column {column}"), "");
                format!("{file}:{line}:{column}: {message}")
            }
            other => format!("{file}: {other}"),
        })
    })
}

/// Repositories elsewhere are not fetched.
fn check_local(repo: &Path) -> Outcome<()> {
    let text = repo.to_string_lossy();
    let is_remote = text.contains("://") || (text.starts_with("git@") && text.contains(':'));
    if is_remote && !repo.exists() {
        return Err(Failure::usage(format!(
            "--repo takes a directory on this machine; clone {text} first and name the clone"
        )));
    }
    Ok(())
}

fn unreadable(file: &str, error: &std::io::Error) -> Failure {
    Failure::usage(format!("the script {file} cannot be read: {error}"))
}

/// Creates the project, and a sandbox with its task.
pub(crate) async fn give(client: &Client, request: Request) -> Outcome<Given> {
    let project = request.project(client).await?;
    give_to(client, &project, request).await
}

/// Creates a sandbox with its task, all or nothing.
async fn give_to(client: &Client, project: &Project, request: Request) -> Outcome<Given> {
    let Request { repo, title, prompt, model, terms, .. } = request;
    let model = match model {
        Model::Default => None,
        Model::Named(name) => Some(name),
        Model::Script(bytes) => Some(format!("{SCRIPT}{}", client.put_blob(bytes).await?)),
    };
    let request =
        SandboxRequest { project_id: project.id.as_str(), title: &title, prompt: &prompt, model, terms };
    let sandbox = client.create_sandbox(&request).await?;
    Ok(Given { sandbox, title, repo })
}

#[cfg(test)]
mod tests {
    use sunaba_types::PermissionMode;

    use super::*;

    #[test]
    fn a_title_is_the_first_line() {
        assert_eq!(title_of("Add a flag\nand test it"), "Add a flag");
        assert_eq!(title_of(&"x".repeat(100)).chars().count(), TITLE_MAX_CHARS);
    }

    #[test]
    fn only_terms_that_were_given_are_sent() {
        assert_eq!(terms(&RunTerms::default()), json!({}));
        let given = RunTerms {
            budget: Some(2.0),
            memory: Some(1.5),
            env: vec![("A".to_owned(), "b".to_owned())],
            agent: AgentTerms {
                permission_mode: Some(PermissionMode::Ask),
                allowed_tools: Some("Read, Bash".to_owned()),
                ..AgentTerms::default()
            },
            ..RunTerms::default()
        };
        assert_eq!(
            terms(&given),
            json!({
                "budget_usd": 2.0, "resources": { "memory_gb": 1.5 }, "env": { "A": "b" },
                "execution_config": { "permission_mode": "ask", "allowed_tools": ["Read", "Bash"] },
            })
        );
        let on = RunTerms { continuous: true, ..RunTerms::default() };
        assert_eq!(terms(&on), json!({ "env": { "CONTINUOUS_MODE": "true" } }));
    }

    #[test]
    fn models_are_told_apart() {
        assert!(matches!(read_model(None), Ok(Model::Default)));
        assert!(matches!(read_model(Some("script:default")), Ok(Model::Named(_))));
        assert!(matches!(read_model(Some("claude-x")), Ok(Model::Named(_))));
        let missing = read_model(Some("script:/nowhere/a.yaml")).unwrap_err();
        assert_eq!(missing.exit_code(), 2);
    }

    #[test]
    fn a_broken_script_is_refused_with_its_place() {
        let refused = check_script("s.yaml", b"- text: a\n- txt: b\n").unwrap_err();
        assert_eq!(refused.exit_code(), 2);
        assert!(refused.to_string().starts_with("s.yaml:2:"), "{refused}");
        assert!(!refused.to_string().contains(" line "), "the place is named once: {refused}");
        let empty = check_script("s.yaml", b"- {}\n").unwrap_err().to_string();
        assert!(empty.starts_with("s.yaml: turn 1: needs"), "{empty}");
    }

    #[test]
    fn a_repository_elsewhere_is_refused() {
        for remote in ["https://example.org/a.git", "git@example.org:a.git"] {
            let refused = check_local(Path::new(remote)).unwrap_err().to_string();
            assert!(refused.contains("clone "), "{refused}");
        }
        assert!(check_local(Path::new(".")).is_ok());
    }
}
