//! Tokens for people and programs.

use clap::{Args, Subcommand, ValueEnum};

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
