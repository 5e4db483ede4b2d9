//! Projects.

use sunaba_types::{NodeId, Project, ProjectId};

use super::{Unreadable, readable, time};

/// A row of `projects`.
#[derive(Debug)]
pub struct ProjectRow {
    pub id: String,
    pub name: String,
    pub repo_path: Option<String>,
    pub repo_url: Option<String>,
    pub default_branch: String,
    pub settings: String,
    pub home_node: Option<String>,
    pub created_at: i64,
}

impl TryFrom<ProjectRow> for Project {
    type Error = Unreadable;

    fn try_from(row: ProjectRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "projects";
        let key = row.id.clone();
        Ok(Self {
            id: readable(ProjectId::parse(row.id).ok(), TABLE, "id", &key)?,
            name: row.name,
            repo_path: row.repo_path,
            repo_url: row.repo_url,
            default_branch: row.default_branch,
            settings: readable(serde_json::from_str(&row.settings).ok(), TABLE, "settings", &key)?,
            home_node: row.home_node.and_then(|id| NodeId::parse(id).ok()),
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
        })
    }
}
