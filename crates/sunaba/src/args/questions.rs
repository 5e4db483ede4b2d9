//! What agents ask, as commands.

use clap::Args;
use sunaba_types::Decision;

use super::one_of;

/// `sunaba questions`
#[derive(Debug, Args)]
pub(crate) struct QuestionsArgs {
    /// Only of this sandbox: its id, a unique beginning or end of it, or `last`
    #[arg(value_name = "SANDBOX")]
    pub(crate) sandbox: Option<String>,
    /// Also those that are answered, expired or withdrawn
    #[arg(long)]
    pub(crate) all: bool,
}

/// `sunaba answer`
#[derive(Debug, Args)]
pub(crate) struct AnswerArgs {
    /// The question's id, a unique beginning or end of it, or `last` for the newest open one
    #[arg(value_name = "QUESTION")]
    pub(crate) question: String,
    /// allow or deny
    #[arg(value_parser = one_of::<Decision>)]
    pub(crate) decision: Decision,
    /// What the agent is told (with deny)
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) message: Option<String>,
    /// What the tool is to do instead, as a JSON object (with allow)
    #[arg(long, value_name = "JSON")]
    pub(crate) input: Option<String>,
    /// The same answer for every later call of this tool in the same task
    #[arg(long)]
    pub(crate) always: bool,
}
