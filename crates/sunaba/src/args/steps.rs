//! What looks at files and goes on from them: diff, files, fork.

use clap::Args;

/// `sunaba diff`
#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// Beginning or end of a sandbox id, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// Since when: base, latest, the number of an event or its id [default: base, where the sandbox started]
    #[arg(long, value_name = "EVENT")]
    pub(crate) from: Option<String>,
    /// Until when [default: what the sandbox came to, or its latest step]
    #[arg(long, value_name = "EVENT")]
    pub(crate) to: Option<String>,
    /// Only this file, or what is below this folder
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
}

/// `sunaba files`
#[derive(Debug, Args)]
pub(crate) struct FilesArgs {
    /// Beginning or end of a sandbox id, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// A file to print or a folder to list [default: the top of the repository]
    #[arg(value_name = "PATH", default_value = "")]
    pub(crate) path: String,
    /// After which event: base, latest, the number of an event or its id
    #[arg(long, value_name = "EVENT", default_value = "latest")]
    pub(crate) at: String,
}

/// `sunaba fork`
#[derive(Debug, Args)]
pub(crate) struct ForkArgs {
    /// Beginning or end of a sandbox id, or `last`
    #[arg(value_name = "ID")]
    pub(crate) id: String,
    /// What the agent shall do
    pub(crate) prompt: String,
    /// After which event: base, latest, the number of an event or its id
    #[arg(long, value_name = "EVENT", default_value = "latest")]
    pub(crate) at: String,
    /// Take only the files, and begin a new conversation
    #[arg(long)]
    pub(crate) new_conversation: bool,
    /// Which agent [default: the same]
    #[arg(long, value_name = "NAME")]
    pub(crate) runtime: Option<String>,
    /// Which model [default: the same]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}
