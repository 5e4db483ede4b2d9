//! What keeps and moves everything: backup, restore, migrate.

use std::path::PathBuf;

use clap::Args;

/// `sunaba backup`
#[derive(Debug, Args)]
#[command(
    after_help = "The secret key is not in a backup: keep it elsewhere. Living sandboxes are not kept, what they \
    have said is. With several servers the rows come with any of them, and each server's files with its own backup."
)]
pub(crate) struct BackupArgs {
    /// The file to make [default: sunaba-backup-TIME.tar here]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) out: Option<PathBuf>,
    /// Only the blobs and mirrors of the server that is asked, for the further ones of several servers
    #[arg(long)]
    pub(crate) files_only: bool,
}

/// `sunaba restore`
#[derive(Debug, Args)]
pub(crate) struct RestoreArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// An empty database to put the rows in: postgres://… (with a password better as $DATABASE_URL) or sqlite:FILE [default: a file in the data directory]
    #[arg(long, value_name = "URL", env = "DATABASE_URL", hide_env = true)]
    pub(crate) database_url: Option<String>,
}

/// `sunaba migrate`
#[derive(Debug, Args)]
#[command(
    after_help = "The target must be empty. A move that broke off goes on where it was with the same command; \
    until it is finished no server opens the target. The source is not changed."
)]
pub(crate) struct MigrateArgs {
    /// What to move: sqlite:FILE, a data directory, or postgres://… [default: the data directory]
    #[arg(long, value_name = "DATABASE")]
    pub(crate) from: Option<String>,
    /// Where to: postgres://… (with a password better as $DATABASE_URL, which no list of processes shows) or sqlite:FILE
    #[arg(long, value_name = "DATABASE", env = "DATABASE_URL", hide_env = true)]
    pub(crate) to: String,
}
