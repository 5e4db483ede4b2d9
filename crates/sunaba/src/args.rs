//! The command line: what may be asked, not how it is done.

mod agent;
mod agents;
mod keeping;
mod questions;
mod steps;
mod tokens;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use sunaba_types::{Decision, EgressPreset, ExecutionMode, IsolationWanted, QuestionPolicy};

pub(crate) use self::agent::AgentTerms;
pub(crate) use self::agents::{AgentCommand, AgentTestArgs};
pub(crate) use self::keeping::{BackupArgs, MigrateArgs, RestoreArgs};
pub(crate) use self::questions::{AnswerArgs, QuestionsArgs};
pub(crate) use self::steps::{DiffArgs, FilesArgs, ForkArgs};
pub(crate) use self::tokens::{TokenArgs, TokenCommand, TokenCreateArgs, TokenKindArg};

/// Runs coding agents in isolated sandboxes on your own git repositories.
#[derive(Debug, Parser)]
#[command(name = "sunaba", version, about, propagate_version = true, arg_required_else_help = true)]
#[command(after_help = "Environment:\n  \
    SUNABA_DATA   data directory, in place of --data\n  \
    SUNABA_URL    address of a server elsewhere, such as http://host:18000 (--data wins over it)\n  \
    SUNABA_TOKEN  token for it (`sunaba token create`); here the data directory's admin token is used")]
pub(crate) struct Cli {
    /// Data directory of the server [default: $SUNABA_DATA, else ~/.local/share/sunaba]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Answer in JSON, for programs
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// What to do
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run the server, or stop the one that runs (--stop)
    Serve(ServeArgs),
    /// Give an agent a task on a repository and follow it
    Run(RunArgs),
    /// Follow a sandbox and talk to its agent
    Attach(AttachArgs),
    /// List sandboxes
    Ps(PsArgs),
    /// Show the servers of this installation and whether anything is behind
    Status,
    /// Look after the servers of this installation
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show a sandbox: state, task, messages, turns
    Show(SandboxArg),
    /// Show what happened in a sandbox
    Logs(LogsArgs),
    /// Say something to an agent
    Send(SendArgs),
    /// Stop what an agent is doing now; it reads the text (if any) and goes on
    Interrupt(InterruptArgs),
    /// Show what agents ask and nobody has answered
    Questions(QuestionsArgs),
    /// Allow or deny what an agent asks
    Answer(AnswerArgs),
    /// End a sandbox, several, or all that have not ended
    Stop(StopArgs),
    /// Show what a sandbox changed, in all or between two events
    Diff(DiffArgs),
    /// Show a sandbox's files as they were after an event
    Files(FilesArgs),
    /// Start another sandbox from the files that one had after an event
    Fork(ForkArgs),
    /// Check that a log was not tampered with
    Verify(VerifyArgs),
    /// List the agents that can drive sandboxes, or try one
    #[command(subcommand)]
    Agent(AgentCommand),
    /// Make, list and revoke tokens
    Token(TokenArgs),
    /// List projects, change their settings, their egress and their secrets
    Project(ProjectArgs),
    /// Say what this host can enforce, what is missing and what mends it
    Doctor,
    /// Show every setting and where it comes from
    Config(ConfigArgs),
    /// Keep everything of a running server in one file
    Backup(BackupArgs),
    /// Restore a backup into an empty data directory, and an empty database if one is named
    Restore(RestoreArgs),
    /// Move everything into another database, while no server runs
    Migrate(MigrateArgs),
    /// Show everything at work on a small made-up repository
    Demo(DemoArgs),
}

/// Settings that may be given as flags.
#[derive(Debug, Default, Args)]
pub(crate) struct SettingArgs {
    /// Configuration file; may be given several times, a later one wins [default: sunaba.yaml and then sunaba.local.yaml in the data directory]
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// Address to listen on [default: 127.0.0.1:18000]
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) listen: Option<String>,
    /// Address under which others reach the server
    #[arg(long, value_name = "URL")]
    pub(crate) public_url: Option<String>,
    /// Database: postgres://… (with a password better as $DATABASE_URL, which no list of processes shows) or sqlite:FILE [default: sqlite file in the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,
    /// Redis, for hints between servers: redis://… or rediss://…
    #[arg(long, value_name = "URL")]
    pub(crate) redis_url: Option<String>,
    /// What this process does: api, orchestrator or both [default: api,orchestrator]
    #[arg(long, value_name = "ROLES")]
    pub(crate) roles: Option<String>,
    /// Address under which other servers of the same database reach this one [default: http:// and --listen]
    #[arg(long, value_name = "URL")]
    pub(crate) node_address: Option<String>,
    /// Whether callers need a token: required or off (only on loopback)
    #[arg(long, value_name = "MODE")]
    pub(crate) auth: Option<String>,
    /// How log lines look: pretty or json
    #[arg(long, value_name = "FORMAT")]
    pub(crate) log_format: Option<String>,
    /// What is logged: error, warn, info, debug, trace
    #[arg(long, value_name = "LEVEL")]
    pub(crate) log_level: Option<String>,
}

/// `sunaba serve`
#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Stop the server of the data directory instead, also one that `run` started; sandboxes live on
    #[arg(long, conflicts_with_all = ["config", "listen", "public_url", "database_url", "redis_url", "roles", "node_address", "auth"])]
    pub(crate) stop: bool,
    /// Leave the terminal's session, so that its end does not end the server
    #[arg(long, hide = true)]
    pub(crate) detach_session: bool,
}

/// `sunaba run`
#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The git repository to work on
    #[arg(long, value_name = "PATH", default_value = ".")]
    pub(crate) repo: PathBuf,
    /// What the agent shall do
    pub(crate) prompt: String,
    /// Model name, or script:FILE for a scripted one [default: the server's]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// Title of the ticket [default: the first line of the prompt]
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Do not follow: print the sandbox's id and return
    #[arg(long, short)]
    pub(crate) detach: bool,
    /// Say every line of standard input to the agent, even when it is no terminal
    #[arg(long)]
    pub(crate) stdin: bool,
    #[command(flatten)]
    pub(crate) terms: RunTerms,
}

/// On what terms a sandbox is asked for. What is absent is the project's setting, else the server's.
#[derive(Debug, Default, Args)]
pub(crate) struct RunTerms {
    /// Which agent works: native, claude, codex, …, or acp: and a command line; `sunaba agent list` has them
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,
    /// What makes the sandbox: local, docker
    #[arg(long, value_name = "NAME")]
    pub(crate) provider: Option<String>,
    /// What the task may spend on models, in US dollars
    #[arg(long, value_name = "USD")]
    pub(crate) budget: Option<f64>,
    /// How long the sandbox may run: 90s, 15m, 2h
    #[arg(long, value_name = "DURATION", value_parser = seconds)]
    pub(crate) timeout: Option<i64>,
    /// End the sandbox when its agent is done, instead of waiting some minutes for a follow-up
    #[arg(long)]
    pub(crate) once: bool,
    /// Memory, in GiB
    #[arg(long, value_name = "GIB")]
    pub(crate) memory: Option<f64>,
    /// Processor cores
    #[arg(long, value_name = "CORES")]
    pub(crate) cpu: Option<f64>,
    /// Disk, in GiB
    #[arg(long, value_name = "GIB")]
    pub(crate) disk: Option<f64>,
    /// The least isolation that is accepted: strict, sampled, any
    #[arg(long, value_name = "LEVEL", value_parser = one_of::<IsolationWanted>)]
    pub(crate) isolation: Option<IsolationWanted>,
    /// Go on in iterations until the work is committed, pushed and checked; limits by --env, see docs/continuous.md
    #[arg(long)]
    pub(crate) continuous: bool,
    /// A variable for the sandbox, never a secret; may be given several times
    #[arg(long, value_name = "NAME=VALUE", value_parser = pair)]
    pub(crate) env: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) agent: AgentTerms,
    /// What sandboxes of this project may reach from now on: none, registries, open
    #[arg(long, value_name = "PRESET", value_parser = one_of::<EgressPreset>)]
    pub(crate) egress: Option<EgressPreset>,
    /// A host that sandboxes of this project may reach besides (example.org, *.example.org:8443); may be given several times
    #[arg(long, value_name = "HOST")]
    pub(crate) allow: Vec<String>,
}

/// `sunaba project`
#[derive(Debug, Args)]
pub(crate) struct ProjectArgs {
    #[command(subcommand)]
    pub(crate) command: ProjectCommand,
}

/// What to do with projects. A project is named by its id, its name or its repository.
#[derive(Debug, Subcommand)]
pub(crate) enum ProjectCommand {
    /// List them
    List,
    /// Show one with its settings
    Show {
        /// Its id, name or repository
        project: String,
    },
    /// Change settings; null clears one
    Set {
        /// Its id, name or repository
        project: String,
        /// KEY VALUE, as many as wanted: setup_command "make deps" resources.memory_gb 8 budget_usd 5
        #[arg(required = true, value_name = "KEY VALUE")]
        pairs: Vec<String>,
    },
    /// Decide what its sandboxes may reach
    Egress {
        /// Its id, name or repository
        project: String,
        /// none, registries (public package registries) or open (every public address)
        #[arg(value_parser = one_of::<EgressPreset>)]
        preset: EgressPreset,
        /// A host that is open besides: example.org, *.example.org, each with :port or without
        #[arg(long, value_name = "HOST")]
        allow: Vec<String>,
    },
    /// Keep secrets: keys and tokens that the server uses for the project and no sandbox ever sees
    Secret {
        #[command(subcommand)]
        command: SecretCommand,
    },
}

/// What to do with a project's secrets.
#[derive(Debug, Subcommand)]
pub(crate) enum SecretCommand {
    /// Set one; its value is read from standard input, never from the command line
    Set {
        /// The project's id, name or repository
        project: String,
        /// The secret's name: ANTHROPIC_API_KEY, OPENAI_API_KEY, GEMINI_API_KEY, GIT_TOKEN
        name: String,
    },
    /// List the names
    List {
        /// The project's id, name or repository
        project: String,
    },
    /// Forget one
    Rm {
        /// The project's id, name or repository
        project: String,
        /// The secret's name
        name: String,
    },
}

/// A word of a fixed list.
fn one_of<T: Word>(text: &str) -> Result<T, String> {
    T::read(text).ok_or_else(|| format!("must be one of {}", T::words().join(", ")))
}

/// What is one of a fixed list of words.
trait Word: Sized {
    fn read(text: &str) -> Option<Self>;
    fn words() -> Vec<&'static str>;
}

macro_rules! words {
    ($($name:ty),+) => {
        $(impl Word for $name {
            fn read(text: &str) -> Option<Self> {
                Self::parse(text)
            }

            fn words() -> Vec<&'static str> {
                Self::ALL.iter().map(|word| word.as_str()).collect()
            }
        })+
    };
}
words!(Decision, EgressPreset, IsolationWanted, ExecutionMode, QuestionPolicy);

/// `90`, `90s`, `15m`, `2h`, `1d`, in seconds.
fn seconds(text: &str) -> Result<i64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "" | "s" => 1,
        "m" | "min" => 60,
        "h" => 3600,
        "d" => 86_400,
        _ => return Err("must be a duration such as 90s, 15m or 2h".to_owned()),
    };
    let number: i64 = digits.parse().map_err(|_| "must be a duration such as 90s, 15m or 2h".to_owned())?;
    number.checked_mul(unit).filter(|all| *all > 0).ok_or_else(|| "must be longer than nothing".to_owned())
}

/// `NAME=VALUE`.
fn pair(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.split_once('=').ok_or("must be NAME=VALUE")?;
    Ok((name.to_owned(), value.to_owned()))
}

/// `sunaba attach`
#[derive(Debug, Args)]
pub(crate) struct AttachArgs {
    #[command(flatten)]
    pub(crate) sandbox: SandboxArg,
    /// Say every line of standard input to the agent, even when it is no terminal
    #[arg(long)]
    pub(crate) stdin: bool,
}

/// A sandbox.
#[derive(Debug, Args)]
pub(crate) struct SandboxArg {
    /// Its id, a unique beginning or end of it, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
}

/// `sunaba node`
#[derive(Debug, Subcommand)]
pub(crate) enum NodeCommand {
    /// Give up a server that will not come back: its sandboxes fail and their tasks are tried again elsewhere
    Lost {
        /// Its id, as `sunaba status` shows it
        #[arg(value_name = "NODE")]
        id: String,
    },
}

/// `sunaba ps`
#[derive(Debug, Args)]
pub(crate) struct PsArgs {
    /// Also those that have ended
    #[arg(long, short)]
    pub(crate) all: bool,
    /// How many at most
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=500))]
    pub(crate) limit: u32,
}

/// `sunaba stop`
#[derive(Debug, Args)]
pub(crate) struct StopArgs {
    /// The beginning or the end of an id, or `last`; several are all looked up before the first is ended
    #[arg(value_name = "ID", required_unless_present = "all")]
    pub(crate) ids: Vec<String>,
    /// Every sandbox that has not ended; tasks that wait for an answer or a limit go on waiting
    #[arg(long, conflicts_with = "ids")]
    pub(crate) all: bool,
}

/// `sunaba logs`
#[derive(Debug, Args)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    pub(crate) sandbox: SandboxArg,
    /// Go on until it ends
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// What its processes printed (mostly the worker's own log), instead of the events
    #[arg(long, conflicts_with = "follow")]
    pub(crate) raw: bool,
    /// All of a command's output, in whole lines
    #[arg(long, conflicts_with = "raw")]
    pub(crate) full: bool,
    /// Only the last events
    #[arg(long, short = 'n', value_name = "COUNT")]
    pub(crate) tail: Option<u32>,
}

/// `sunaba send`
#[derive(Debug, Args)]
pub(crate) struct SendArgs {
    #[command(flatten)]
    pub(crate) sandbox: SandboxArg,
    /// What to say
    pub(crate) text: String,
}

/// `sunaba interrupt`
#[derive(Debug, Args)]
pub(crate) struct InterruptArgs {
    #[command(flatten)]
    pub(crate) sandbox: SandboxArg,
    /// What to do instead; without it the agent stops and waits for the next message
    pub(crate) text: Option<String>,
}

/// `sunaba verify`
#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The sandbox's id, a unique beginning or end of it, or `last`
    #[arg(value_name = "ID", required_unless_present = "all", conflicts_with = "all")]
    pub(crate) id: Option<String>,
    /// Every sandbox
    #[arg(long)]
    pub(crate) all: bool,
}

/// `sunaba config`
#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) settings: SettingArgs,
    /// Print the reference page instead, in Markdown
    #[arg(long)]
    pub(crate) reference: bool,
}

/// `sunaba demo`
#[derive(Debug, Args)]
pub(crate) struct DemoArgs {
    /// Where to keep the repository and the server's data [default: a directory for temporary files]
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
    /// End when the task is done, instead of staying up
    #[arg(long)]
    pub(crate) exit: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_and_pairs_are_read_or_refused() {
        for (text, expected) in [("90", 90), ("90s", 90), ("15m", 900), ("2h", 7200), ("1d", 86_400)] {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "0", "-5", "5 minutes", "h", "99999999999999999h"] {
            assert!(seconds(text).is_err(), "{text}");
        }
        assert_eq!(pair("A=b=c"), Ok(("A".to_owned(), "b=c".to_owned())));
        assert!(pair("A").is_err());
    }
}
