//! Git by subprocess: mirrors, clones, branches and serving packs.
//!
//! Every call runs the `git` program with a fixed environment: no prompt, no
//! hook, no system or personal configuration, a time limit, and the child is
//! ended when its future is dropped. When the server is root and a
//! repository belongs to somebody else, git runs as that somebody, so that no
//! file of theirs changes hands and no setting of theirs runs as root.
//!
//! Nothing here writes a credential to a file or touches a person's work tree.

mod changes;
mod command;
mod credential;
mod error;
mod fetching;
mod follow;
mod format;
mod locks;
mod mirror;
mod names;
mod pktline;
mod publish;
mod repo;
mod report;
mod running;
mod scratch;
mod serve;
mod stale;
mod tree;
mod unfinished;
mod workspace;

pub use changes::{Change, ChangeKind, Changes};
pub use credential::Credential;
pub use error::{Error, Result};
pub use fetching::FetchProblem;
pub use format::ObjectFormat;
pub use locks::ProjectLocks;
pub use mirror::{ChangedFile, Commit, DIFF_MAX_BYTES, Mirror};
pub use names::{slug, validate_branch_name};
pub use pktline::{
    MAX_COMMANDS, MAX_COMMANDS_BYTES, PktError, ReceiveCommands, RefUpdate, parse_receive_commands,
};
pub use publish::{Published, publish_branch};
pub use repo::Repo;
pub use report::{RefReport, read_report, refusal_report};
pub use scratch::{Scratch, Seen};
pub use serve::Service;
pub use tree::{EntryKind, TreeEntry, TreeFile};
pub use unfinished::{LeftBy, Unfinished};
pub use workspace::{WorkspaceSpec, chown_tree, prepare_workspace};
