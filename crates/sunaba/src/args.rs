//! The command line: what may be asked, not how it is done.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

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
    /// Show a sandbox: state, task, messages, turns
    Show(SandboxArg),
    /// Show what happened in a sandbox
    Logs(LogsArgs),
    /// Say something to an agent
    Send(SendArgs),
    /// Stop what an agent is doing now; it reads the text (if any) and goes on
    Interrupt(InterruptArgs),
    /// End a sandbox
    Stop(SandboxArg),
    /// Show what a sandbox changed
    Diff(SandboxArg),
    /// Check that a log was not tampered with
    Verify(VerifyArgs),
    /// Make, list and revoke tokens
    Token(TokenArgs),
    /// Show every setting and where it comes from
    Config(ConfigArgs),
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
    /// Database [default: sqlite file in the data directory]
    #[arg(long, value_name = "URL")]
    pub(crate) database_url: Option<String>,
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
    #[arg(long, conflicts_with_all = ["config", "listen", "public_url", "database_url", "auth"])]
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
    /// End when the agent is done, without waiting for a follow-up (always so in this version)
    #[arg(long)]
    pub(crate) once: bool,
    /// Say every line of standard input to the agent, even when it is no terminal
    #[arg(long)]
    pub(crate) stdin: bool,
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

/// `sunaba token`
#[derive(Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    pub(crate) command: TokenCommand,
}

/// What to do with tokens.
#[derive(Debug, Subcommand)]
pub(crate) enum TokenCommand {
    /// Make one; it is shown once
    Create(TokenCreateArgs),
    /// List them
    List,
    /// Make one open nothing any more
    Revoke {
        /// Its id (`tok_…`), a unique beginning or end of it, or its name
        id: String,
    },
}

/// `sunaba token create`
#[derive(Debug, Args)]
pub(crate) struct TokenCreateArgs {
    /// What it is called
    pub(crate) name: String,
    /// What it opens
    #[arg(long, value_enum, default_value_t = TokenKindArg::Personal)]
    pub(crate) kind: TokenKindArg,
    /// What a personal token may do: read, write, or both as `read,write`
    #[arg(long, value_delimiter = ',', default_values = ["read", "write"])]
    pub(crate) scopes: Vec<String>,
    /// Projects that a personal token is for, by id or name; several with commas [default: all]
    #[arg(long, value_delimiter = ',')]
    pub(crate) projects: Vec<String>,
    /// Days after which it opens nothing [default: never]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..=36_500))]
    pub(crate) days: Option<u32>,
}

/// What a token opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TokenKindArg {
    /// Everything
    Admin,
    /// Its scopes in its projects
    Personal,
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
}
