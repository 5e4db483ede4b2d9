//! The words nodes use between each other.

use serde::{Deserialize, Serialize};
use sunaba_types::Outcome;

/// Where the routes for other nodes begin.
pub const PREFIX: &str = "/internal/v1";
/// Says which node is meant: an address may have come to belong to another one.
pub const NODE_HEADER: &str = "x-sunaba-node";
/// Says for which attempt a sandbox's git request is passed on.
pub const ATTEMPT_HEADER: &str = "x-sunaba-attempt";
/// Says for which project.
pub const PROJECT_HEADER: &str = "x-sunaba-project";

/// Where a ticket's work starts, as its project's home laid it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ground {
    /// The branch.
    pub branch: String,
    /// The commit it is at. Its length says which kind of ids the repository has, and a replica is made alike.
    pub commit: String,
    /// Whether the source's own branch has the commit: then no agent wrote any of it.
    pub is_of_source: bool,
    /// What is there of the files of the attempt before; none when there was none, or its result is there.
    #[serde(default)]
    pub left: Option<Left>,
}

/// What is there of the files that an attempt left in the middle of its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Left {
    /// All of its last step.
    Whole,
    /// What it had pushed itself.
    Pushed,
}

/// What arrived at a project's home from a sandbox, and is published now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Published {
    /// What came of it.
    pub outcome: Outcome,
    /// The commit the branch is at.
    pub head: String,
}

/// An error as it is said on the wire (RFC 9457), as far as nodes read it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Problem {
    #[serde(default)]
    pub(crate) code: String,
    #[serde(default)]
    pub(crate) detail: String,
}
