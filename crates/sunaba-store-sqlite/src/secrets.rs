//! Sealed secrets of projects.

use async_trait::async_trait;
use sunaba_store::{Error, Result, SECRETS_MAX, SecretName, SecretStore};
use sunaba_store_sql::rows::SecretNameRow;
use sunaba_types::ProjectId;

use crate::SqliteStore;
use crate::fault::{Fault, told};
use crate::rows::all;
use crate::unit::Unit;
use crate::writer::Command;

struct Put {
    project_id: ProjectId,
    name: String,
    sealed: Vec<u8>,
}

#[async_trait]
impl Command<Unit> for Put {
    type Output = SecretName;

    async fn run(&self, unit: &mut Unit) -> Result<SecretName, Fault> {
        let (project, now) = (self.project_id.as_str(), unit.now());
        sqlx::query_scalar!("SELECT id FROM projects WHERE id = ?1", project)
            .fetch_optional(unit.sql())
            .await?
            .ok_or_else(|| Error::not_found("project", &self.project_id))?;
        let others = sqlx::query_scalar!(
            r#"SELECT count(*) AS "others!: i64" FROM secrets WHERE project_id = ?1 AND name <> ?2"#,
            project,
            self.name
        )
        .fetch_one(unit.sql())
        .await?;
        if others >= SECRETS_MAX {
            let detail = format!("a project has at most {SECRETS_MAX} secrets; delete one first");
            return Err(Error::Full { code: "too_many_secrets", detail }.into());
        }
        let at = now.as_microsecond();
        sqlx::query!(
            "INSERT INTO secrets (project_id, name, sealed, updated_at) VALUES (?1, ?2, ?3, ?4)
             ON CONFLICT (project_id, name) DO UPDATE SET sealed = excluded.sealed, updated_at = excluded.updated_at",
            project,
            self.name,
            self.sealed,
            at
        )
        .execute(unit.sql())
        .await?;
        Ok(SecretName { name: self.name.clone(), updated_at: now })
    }
}

struct Delete {
    project_id: ProjectId,
    name: String,
}

#[async_trait]
impl Command<Unit> for Delete {
    type Output = bool;

    async fn run(&self, unit: &mut Unit) -> Result<bool, Fault> {
        let project = self.project_id.as_str();
        let done =
            sqlx::query!("DELETE FROM secrets WHERE project_id = ?1 AND name = ?2", project, self.name)
                .execute(unit.sql())
                .await?;
        Ok(done.rows_affected() > 0)
    }
}

#[async_trait]
impl SecretStore for SqliteStore {
    async fn put_secret(&self, project_id: &ProjectId, name: &str, sealed: &[u8]) -> Result<SecretName> {
        let put = Put { project_id: project_id.clone(), name: name.to_owned(), sealed: sealed.to_vec() };
        self.writer.run(put).await
    }

    async fn delete_secret(&self, project_id: &ProjectId, name: &str) -> Result<bool> {
        self.writer.run(Delete { project_id: project_id.clone(), name: name.to_owned() }).await
    }

    async fn list_secrets(&self, project_id: &ProjectId) -> Result<Vec<SecretName>> {
        let project = project_id.as_str();
        let rows = sqlx::query_as!(
            SecretNameRow,
            "SELECT name, updated_at FROM secrets WHERE project_id = ?1 ORDER BY name",
            project
        )
        .fetch_all(&self.readers)
        .await
        .map_err(told)?;
        Ok(all(rows)?)
    }

    async fn find_secret(&self, project_id: &ProjectId, name: &str) -> Result<Option<Vec<u8>>> {
        let project = project_id.as_str();
        sqlx::query_scalar!("SELECT sealed FROM secrets WHERE project_id = ?1 AND name = ?2", project, name)
            .fetch_optional(&self.readers)
            .await
            .map_err(told)
    }
}
