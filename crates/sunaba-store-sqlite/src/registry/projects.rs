//! Projects.

use async_trait::async_trait;
use serde_json::json;
use sunaba_store::{Error, NewProject, ProjectPatch, Result};
use sunaba_store_sql::draft::Notice;
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
            "SELECT id, name, repo_path, repo_url, default_branch, settings, created_at FROM projects
             WHERE repo_path = ?1 OR repo_url = ?2 LIMIT 1",
            new.repo_path,
            new.repo_url
        )
        .fetch_optional(unit.sql())
        .await?;
        if let Some(held) = held {
            return Ok(held.try_into()?);
        }
        let project = Project {
            id: ProjectId::generate(),
            name: new.name.clone(),
            repo_path: new.repo_path.clone(),
            repo_url: new.repo_url.clone(),
            default_branch: new.default_branch.clone(),
            settings: new.settings.clone(),
            created_at: unit.now(),
        };
        insert(unit, &project).await?;
        unit.draft.publish(Notice {
            project_id: Some(&project.id),
            event_type: "PROJECT_CREATED",
            entity_type: "project",
            entity_id: project.id.as_str(),
            sandbox_id: None,
            payload: json!({"project_id": project.id, "name": project.name}),
        });
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
            "SELECT id, name, repo_path, repo_url, default_branch, settings, created_at FROM projects
             WHERE id = ?1",
            key
        )
        .fetch_optional(unit.sql())
        .await?;
        let mut project: Project = held.ok_or_else(|| Error::not_found("project", &self.id))?.try_into()?;
        let patch = self.patch.clone();
        if patch.settings_before.is_some_and(|before| before != project.settings) {
            let detail = "somebody else changed the settings meanwhile; look at them and try again";
            return Err(Error::conflict("project_changed", detail).into());
        }
        project.name = patch.name.unwrap_or(project.name);
        project.default_branch = patch.default_branch.unwrap_or(project.default_branch);
        project.settings = patch.settings.unwrap_or(project.settings);
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
        unit.draft.publish(Notice {
            project_id: Some(&project.id),
            event_type: "PROJECT_UPDATED",
            entity_type: "project",
            entity_id: project.id.as_str(),
            sandbox_id: None,
            payload: json!({"project_id": project.id, "name": project.name}),
        });
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
            "SELECT id, name, repo_path, repo_url, default_branch, settings, created_at FROM projects
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
            "SELECT id, name, repo_path, repo_url, default_branch, settings, created_at FROM projects
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
            "SELECT id, name, repo_path, repo_url, default_branch, settings, created_at FROM projects
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
