//! Nodes: who serves this database. Their silence is measured by the database's own clock.

use std::time::Duration;

use async_trait::async_trait;
use sunaba_store::{Error, NodeStore, Result};
use sunaba_store_sql::draft::Again;
use sunaba_store_sql::rows::node::{FormerProcess, NodeRow, ReportText, may_enter, overtaken};
use sunaba_types::{Node, NodeId, NodeReport, ProjectId, Sandbox, SandboxId};

use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::all;
use crate::unit::{Needs, Unit};
use crate::writer::Command;

struct Enter(NodeReport);

#[async_trait]
impl Command<Unit> for Enter {
    type Output = ();

    fn needs(&self, needs: &mut Needs) {
        needs.name("node", self.0.id.as_str());
    }

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        let report = &self.0;
        let (id, started) = (report.id.as_str(), report.started_at.as_microsecond());
        let before = sqlx::query_as!(
            FormerProcess,
            r#"SELECT host, left_at, now_micros() - beat_at AS "silent_micros!"
               FROM nodes WHERE id = $1"#,
            id
        )
        .fetch_optional(unit.sql())
        .await?;
        may_enter(report, before.as_ref())?;
        let ReportText { roles, providers, loops } = ReportText::of(report);
        sqlx::query!(
            "INSERT INTO nodes (id, instance, host, address, version, roles, providers, max_sandboxes, loops,
                                started_at, beat_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10,
                     now_micros())
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
            started
        )
        .execute(unit.sql())
        .await?;
        Ok(unit.say_hello().await?)
    }
}

struct Beat(NodeReport);

#[async_trait]
impl Command<Unit> for Beat {
    type Output = ();

    async fn run(&self, unit: &mut Unit) -> Result<(), Fault> {
        let report = &self.0;
        let id = report.id.as_str();
        let ReportText { roles, providers, loops } = ReportText::of(report);
        let beaten = sqlx::query!(
            "UPDATE nodes SET address = $3, version = $4, roles = $5, providers = $6, max_sandboxes = $7,
                              loops = $8, beat_at = now_micros(),
                              left_at = NULL, lost_at = NULL
             WHERE id = $1 AND instance = $2",
            id,
            report.instance,
            report.address,
            report.version,
            roles,
            providers,
            report.max_sandboxes,
            loops
        )
        .execute(unit.sql())
        .await?;
        if beaten.rows_affected() == 0 {
            return Err(overtaken(&report.id).into());
        }
        Ok(unit.say_hello().await?)
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
        sqlx::query!(
            "UPDATE nodes SET left_at = now_micros()
             WHERE id = $1 AND instance = $2",
            self.id.as_str(),
            self.instance
        )
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
        let given_up = sqlx::query!(
            "UPDATE nodes SET lost_at = now_micros()
             WHERE id = $1 AND lost_at IS NULL
               AND now_micros() - beat_at >= $2",
            self.id.as_str(),
            self.silent_micros
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

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Option<Sandbox>, Fault> {
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

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Option<Sandbox>, Fault> {
        let Some(node) = unit.draft.get_sandbox(&self.id)?.row.node_id.clone() else { return Ok(None) };
        let node = node.as_str();
        let lost = sqlx::query_scalar!("SELECT id FROM nodes WHERE id = $1 AND lost_at IS NOT NULL", node)
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

    fn needs(&self, needs: &mut Needs) {
        needs.project(&self.project);
    }

    async fn run(&self, unit: &mut Unit) -> Result<NodeId, Fault> {
        let (project, node) = (self.project.as_str(), self.node.as_str());
        let home = sqlx::query_scalar!(
            // A lost home is replaced where its mirror can be made again; a repository on its disk cannot.
            r#"UPDATE projects AS p
               SET home_node = CASE
                   WHEN p.home_node IS NULL THEN $2
                   WHEN p.repo_path IS NULL
                        AND EXISTS (SELECT 1 FROM nodes AS n WHERE n.id = p.home_node AND n.lost_at IS NOT NULL) THEN $2
                   ELSE p.home_node END
               WHERE p.id = $1 RETURNING p.home_node AS "home!""#,
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
impl NodeStore for PostgresStore {
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
        let rows = sqlx::query_as!(
            NodeRow,
            r#"SELECT id, instance, host, address, version, roles, providers, max_sandboxes, loops, started_at,
                      beat_at, left_at, lost_at, now_micros() - beat_at AS "silent_micros!",
                      (SELECT count(*) FROM sandboxes AS s
                       WHERE s.node_id = n.id AND s.state IN ('pending', 'creating', 'running', 'completing'))
                        AS "sandboxes!"
               FROM nodes AS n ORDER BY id"#
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        Ok(all(rows)?)
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
