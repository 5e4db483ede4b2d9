//! Nodes. On SQLite there is one, and what older versions left without a node is its own.

use std::time::Duration;

use async_trait::async_trait;
use sunaba_store::{Error, NodeStore, Result};
use sunaba_store_sql::draft::Again;
use sunaba_store_sql::rows::node::{FormerProcess, NodeRow, ReportText, may_enter, overtaken};
use sunaba_types::{Node, NodeId, NodeReport, ProjectId, Sandbox, SandboxId};

use crate::SqliteStore;
use crate::fault::{Fault, told};
use crate::rows::all;
use crate::unit::Unit;
use crate::writer::Command;

struct Enter(NodeReport);

#[async_trait]
impl Command<Unit> for Enter {
    type Output = ();

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        let (report, now) = (&self.0, unit.now().as_microsecond());
        let (id, started) = (report.id.as_str(), report.started_at.as_microsecond());
        let before = sqlx::query_as!(
            FormerProcess,
            r#"SELECT host, left_at, ?2 - beat_at AS "silent_micros!: i64" FROM nodes WHERE id = ?1"#,
            id,
            now
        )
        .fetch_optional(unit.sql())
        .await?;
        may_enter(report, before.as_ref())?;
        let ReportText { roles, providers, loops } = ReportText::of(report);
        sqlx::query!(
            "INSERT INTO nodes (id, instance, host, address, version, roles, providers, max_sandboxes, loops,
                                started_at, beat_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
             ON CONFLICT (id) DO UPDATE
             SET instance = excluded.instance, host = excluded.host, address = excluded.address,
                 version = excluded.version, roles = excluded.roles, providers = excluded.providers,
                 max_sandboxes = excluded.max_sandboxes, loops = excluded.loops,
                 started_at = excluded.started_at, beat_at = excluded.beat_at, left_at = NULL, lost_at = NULL",
            id,
            report.instance,
            report.host,
            report.address,
            report.version,
            roles,
            providers,
            report.max_sandboxes,
            loops,
            started,
            now
        )
        .execute(unit.sql())
        .await?;
        take_over(unit, &report.id).await
    }
}

/// What an older version began belongs to the only node there is.
async fn take_over(unit: &mut Unit, id: &NodeId) -> Result<(), Fault> {
    let node = id.as_str();
    sqlx::query!(
        "UPDATE sandboxes SET node_id = ?1
         WHERE node_id IS NULL AND state IN ('creating', 'running', 'completing') AND provider <> 'external'",
        node
    )
    .execute(unit.sql())
    .await?;
    sqlx::query!("UPDATE model_calls SET node_id = ?1 WHERE node_id IS NULL AND settled_at IS NULL", node)
        .execute(unit.sql())
        .await?;
    unit.draft.take_over_begun(id);
    Ok(())
}

struct Beat(NodeReport);

#[async_trait]
impl Command<Unit> for Beat {
    type Output = ();

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        let (report, now) = (&self.0, unit.now().as_microsecond());
        let id = report.id.as_str();
        let ReportText { roles, providers, loops } = ReportText::of(report);
        let beaten = sqlx::query!(
            "UPDATE nodes SET address = ?3, version = ?4, roles = ?5, providers = ?6, max_sandboxes = ?7,
                              loops = ?8, beat_at = ?9, left_at = NULL, lost_at = NULL
             WHERE id = ?1 AND instance = ?2",
            id,
            report.instance,
            report.address,
            report.version,
            roles,
            providers,
            report.max_sandboxes,
            loops,
            now
        )
        .execute(unit.sql())
        .await?;
        if beaten.rows_affected() == 0 {
            return Err(overtaken(&report.id).into());
        }
        Ok(())
    }
}

struct Leave {
    id: NodeId,
    instance: String,
}

#[async_trait]
impl Command<Unit> for Leave {
    type Output = ();

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        let (id, now) = (self.id.as_str(), unit.now().as_microsecond());
        sqlx::query!("UPDATE nodes SET left_at = ?3 WHERE id = ?1 AND instance = ?2", id, self.instance, now)
            .execute(unit.sql())
            .await?;
        Ok(())
    }
}

struct GiveUp {
    id: NodeId,
    silent_micros: i64,
}

#[async_trait]
impl Command<Unit> for GiveUp {
    type Output = bool;

    async fn run(&self, unit: &mut Unit) -> Result<bool, Fault> {
        let (id, now) = (self.id.as_str(), unit.now().as_microsecond());
        let given_up = sqlx::query!(
            "UPDATE nodes SET lost_at = ?3 WHERE id = ?1 AND lost_at IS NULL AND ?3 - beat_at >= ?2",
            id,
            self.silent_micros,
            now
        )
        .execute(unit.sql())
        .await?;
        Ok(given_up.rows_affected() > 0)
    }
}

struct Claim {
    id: SandboxId,
    node: NodeId,
}

#[async_trait]
impl Command<Unit> for Claim {
    type Output = Option<Sandbox>;

    async fn run(&self, unit: &mut Unit) -> Result<Option<Sandbox>, Fault> {
        unit.find_sandbox(&self.id).await?;
        Ok(unit.draft.claim_sandbox(&self.id, &self.node)?)
    }
}

struct Replace {
    id: SandboxId,
    reason: String,
    most_attempts: i64,
}

#[async_trait]
impl Command<Unit> for Replace {
    type Output = Option<Sandbox>;

    async fn run(&self, unit: &mut Unit) -> Result<Option<Sandbox>, Fault> {
        unit.find_sandbox(&self.id).await?;
        let Some(node) = unit.draft.get_sandbox(&self.id)?.row.node_id.clone() else { return Ok(None) };
        let node = node.as_str();
        let lost = sqlx::query_scalar!("SELECT id FROM nodes WHERE id = ?1 AND lost_at IS NOT NULL", node)
            .fetch_optional(unit.sql())
            .await?;
        if lost.is_none() {
            return Ok(None);
        }
        unit.fail_and_retry(&self.id, &self.reason, Again::Lost(self.most_attempts)).await
    }
}

struct EnsureHome {
    project: ProjectId,
    node: NodeId,
}

#[async_trait]
impl Command<Unit> for EnsureHome {
    type Output = NodeId;

    async fn run(&self, unit: &mut Unit) -> Result<NodeId, Fault> {
        let (project, node) = (self.project.as_str(), self.node.as_str());
        let home = sqlx::query_scalar!(
            // A lost home is replaced where its mirror can be made again; a repository on its disk cannot.
            r#"UPDATE projects
               SET home_node = CASE
                   WHEN home_node IS NULL THEN ?2
                   WHEN repo_path IS NULL
                        AND EXISTS (SELECT 1 FROM nodes AS n WHERE n.id = home_node AND n.lost_at IS NOT NULL) THEN ?2
                   ELSE home_node END
               WHERE id = ?1 RETURNING home_node AS "home!""#,
            project,
            node
        )
        .fetch_optional(unit.sql())
        .await?
        .ok_or_else(|| Error::not_found("project", &self.project))?;
        Ok(crate::rows::readable(NodeId::parse(home).ok(), "projects", "home_node", project)?)
    }
}

#[async_trait]
impl NodeStore for SqliteStore {
    async fn enter_node(&self, report: &NodeReport) -> Result<()> {
        self.writer.run(Enter(report.clone())).await
    }

    async fn beat_node(&self, report: &NodeReport) -> Result<()> {
        self.writer.run(Beat(report.clone())).await
    }

    async fn leave_node(&self, id: &NodeId, instance: &str) -> Result<()> {
        self.writer.run(Leave { id: id.clone(), instance: instance.to_owned() }).await
    }

    async fn list_nodes(&self) -> Result<Vec<Node>> {
        let now = self.clock.now().as_microsecond();
        let rows = sqlx::query_as!(
            NodeRow,
            r#"SELECT id, instance, host, address, version, roles, providers, max_sandboxes, loops, started_at,
                      beat_at, left_at, lost_at, ?1 - beat_at AS "silent_micros!: i64",
                      (SELECT count(*) FROM sandboxes AS s
                       WHERE s.node_id = n.id AND s.state IN ('pending', 'creating', 'running', 'completing'))
                        AS "sandboxes!: i64"
               FROM nodes AS n ORDER BY id"#,
            now
        )
        .fetch_all(&self.readers)
        .await;
        Ok(all(rows.map_err(told)?)?)
    }

    async fn give_up_node(&self, id: &NodeId, silent_for: Duration) -> Result<bool> {
        let silent_micros = i64::try_from(silent_for.as_micros()).unwrap_or(i64::MAX);
        self.writer.run(GiveUp { id: id.clone(), silent_micros }).await
    }

    async fn claim_sandbox(&self, id: &SandboxId, node: &NodeId) -> Result<Option<Sandbox>> {
        self.writer.run(Claim { id: id.clone(), node: node.clone() }).await
    }

    async fn replace_lost_sandbox(
        &self,
        id: &SandboxId,
        reason: &str,
        most_attempts: i64,
    ) -> Result<Option<Sandbox>> {
        self.writer.run(Replace { id: id.clone(), reason: reason.to_owned(), most_attempts }).await
    }

    async fn ensure_home(&self, project: &ProjectId, node: &NodeId) -> Result<NodeId> {
        self.writer.run(EnsureHome { project: project.clone(), node: node.clone() }).await
    }
}
