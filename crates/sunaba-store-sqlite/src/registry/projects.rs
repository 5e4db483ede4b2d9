//! Projects.

use async_trait::async_trait;
use serde_json::json;
use sunaba_store::{Error, NewProject, ProjectPatch, Result};
use sunaba_store_sql::draft::patched;
use sunaba_store_sql::rows::ProjectRow;
use sunaba_types::{Project, ProjectId};

use crate::SqliteStore;
use crate::fault::{Fault, told};
use crate::rows::all;
use crate::unit::Unit;
use crate::writer::Command;

pub(super) struct EnsureProject(pub(super) NewProject);

#[async_trait]
impl Command<Unit> for EnsureProject {
    type Output = Project;

    async fn run(&self, unit: &mut Unit) -> Result<Project, Fault> {
        let new = &self.0;
        let held = sqlx::query_as!(
            ProjectRow,
            "SELECT id, name, repo_path, repo_url, default_branch, settings, home_node, created_at FROM projects
             WHERE repo_path = ?1 OR repo_url = ?2 LIMIT 1",
            new.repo_path,
            new.repo_url
        )
        .fetch_optional(unit.sql())
        .await?;
        if let Some(held) = held {
            return Ok(held.try_into()?);
        }
        let project = unit.draft.new_project(new);
        insert(unit, &project).await?;
        unit.draft.announce_project(&project, "PROJECT_CREATED");
        Ok(project)
    }
}

pub(super) struct UpdateProject {
    pub(super) id: ProjectId,
    pub(super) patch: ProjectPatch,
}

#[async_trait]
impl Command<Unit> for UpdateProject {
    type Output = Project;

    async fn run(&self, unit: &mut Unit) -> Result<Project, Fault> {
        let key = self.id.as_str();
        let held = sqlx::query_as!(
            ProjectRow,
            "SELECT id, name, repo_path, repo_url, default_branch, settings, home_node, created_at FROM projects
             WHERE id = ?1",
            key
        )
        .fetch_optional(unit.sql())
        .await?;
        let held = held.ok_or_else(|| Error::not_found("project", &self.id))?;
        let project = patched(held.try_into()?, self.patch.clone())?;
        let settings = json!(project.settings).to_string();
        sqlx::query!(
            "UPDATE projects SET name = ?2, default_branch = ?3, settings = ?4 WHERE id = ?1",
            key,
            project.name,
            project.default_branch,
            settings
        )
        .execute(unit.sql())
        .await?;
        unit.draft.announce_project(&project, "PROJECT_UPDATED");
        Ok(project)
    }
}

async fn insert(unit: &mut Unit, project: &Project) -> Result<(), Fault> {
    let (id, created) = (project.id.as_str(), project.created_at.as_microsecond());
    let settings = json!(project.settings).to_string();
    sqlx::query!(
        "INSERT INTO projects (id, name, repo_path, repo_url, default_branch, settings, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        id,
        project.name,
        project.repo_path,
        project.repo_url,
        project.default_branch,
        settings,
        created
    )
    .execute(unit.sql())
    .await?;
    Ok(())
}

impl SqliteStore {
    pub(super) async fn read_project_at(
        &self,
        repo_path: Option<&str>,
        repo_url: Option<&str>,
    ) -> Result<Option<Project>> {
        let row = sqlx::query_as!(
            ProjectRow,
            "SELECT id, name, repo_path, repo_url, default_branch, settings, home_node, created_at FROM projects
             WHERE repo_path = ?1 OR repo_url = ?2 LIMIT 1",
            repo_path,
            repo_url
        )
        .fetch_optional(&self.readers)
        .await
        .map_err(told)?;
        Ok(row.map(Project::try_from).transpose()?)
    }

    pub(super) async fn read_project(&self, id: &ProjectId) -> Result<Option<Project>> {
        let key = id.as_str();
        let row = sqlx::query_as!(
            ProjectRow,
            "SELECT id, name, repo_path, repo_url, default_branch, settings, home_node, created_at FROM projects
             WHERE id = ?1",
            key
        )
        .fetch_optional(&self.readers)
        .await
        .map_err(told)?;
        Ok(row.map(Project::try_from).transpose()?)
    }

    pub(super) async fn read_projects(
        &self,
        visible: Option<String>,
        after: Option<&ProjectId>,
        limit: u32,
    ) -> Result<Vec<Project>> {
        let after = after.map_or("", ProjectId::as_str);
        let rows = sqlx::query_as!(
            ProjectRow,
            "SELECT id, name, repo_path, repo_url, default_branch, settings, home_node, created_at FROM projects
             WHERE id > ?1 AND (?2 IS NULL OR id IN (SELECT value FROM json_each(?2)))
             ORDER BY id LIMIT ?3",
            after,
            visible,
            limit
        )
        .fetch_all(&self.readers)
        .await
        .map_err(told)?;
        Ok(all(rows)?)
    }
}
