//! Reservations, settlements and their sums. The sums stand on the rows of sandbox, task and project and
//! move in the transaction that moves the call, which holds the locks of all three.

use async_trait::async_trait;
use sunaba_store::{
    Error, OpenCall, Reserve, Reserved, Result, Settlement, Spender, Spending, SpendingStore,
};
use sunaba_store_sql::draft::{Cap, Grant};
use sunaba_store_sql::rows::OpenCallRow;
use sunaba_types::{CallId, NodeId, ProjectSettings, Sandbox, SandboxId};

use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::{all, readable};
use crate::unit::{Needs, Unit};
use crate::writer::Command;

/// Sums calls; each way to choose them has an index of its own.
macro_rules! spending_query {
    ($tail:tt, $key:expr) => {{
        let key = $key;
        sqlx::query_as!(
            Spending,
            r#"SELECT count(settled_at) AS "calls!",
                      coalesce(sum(CASE WHEN settled_at IS NULL THEN reserved_micros END), 0)::bigint AS "reserved_micros!",
                      coalesce(sum(cost_micros), 0)::bigint AS "cost_micros!",
                      coalesce(sum(input_tokens), 0)::bigint AS "input_tokens!",
                      coalesce(sum(output_tokens), 0)::bigint AS "output_tokens!",
                      coalesce(sum(cache_read_tokens), 0)::bigint AS "cache_read_tokens!",
                      coalesce(sum(cache_write_tokens), 0)::bigint AS "cache_write_tokens!"
               FROM model_calls "# + $tail,
            key
        )
    }};
}

struct ReserveCall(Reserve);

#[async_trait]
impl Command<Unit> for ReserveCall {
    type Output = Reserved;

    fn needs(&self, needs: &mut Needs) {
        needs.spender(&self.0.sandbox_id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Reserved, Fault> {
        let ask = &self.0;
        let sandbox = unit.draft.get_sandbox(&ask.sandbox_id)?.row.clone();
        unit.draft.refuse_to_spend(&sandbox, ask.attempt)?;
        let grant = Grant::decide(ask, caps(unit, &sandbox).await?)?;
        let id = CallId::generate();
        insert(unit, &id, ask, &sandbox, grant.micros).await?;
        add(unit, &sandbox, 0, grant.micros).await?;
        Ok(Reserved { id, micros: grant.micros, left_micros: grant.left_micros })
    }
}

/// What is left under each cap that applies.
async fn caps(unit: &mut Unit, sandbox: &Sandbox) -> Result<Vec<Cap>, Fault> {
    let mut caps = Vec::new();
    if let Some(usd) = sandbox.terms.budget_usd {
        let (whose, used) = match &sandbox.task_id {
            Some(task) => {
                let key = task.as_str();
                let used = sqlx::query_scalar!(
                    r#"SELECT cost_micros + reserved_micros AS "used!" FROM tasks WHERE id = $1"#,
                    key
                );
                ("task", used.fetch_one(unit.sql()).await?)
            }
            None => {
                let key = sandbox.id.as_str();
                let used = sqlx::query_scalar!(
                    r#"SELECT cost_micros + reserved_micros AS "used!" FROM sandboxes WHERE id = $1"#,
                    key
                );
                ("sandbox", used.fetch_one(unit.sql()).await?)
            }
        };
        caps.push(Cap::new(whose, usd, used));
    }
    if let Some(project) = &sandbox.project_id {
        let key = project.as_str();
        let row = sqlx::query!(
            r#"SELECT settings, cost_micros + reserved_micros AS "used!" FROM projects WHERE id = $1"#,
            key
        )
        .fetch_one(unit.sql())
        .await?;
        let settings: ProjectSettings =
            readable(serde_json::from_str(&row.settings).ok(), "projects", "settings", key)?;
        if let Some(usd) = settings.total_budget_usd {
            caps.push(Cap::new("project", usd, row.used));
        }
    }
    Ok(caps)
}

async fn insert(
    unit: &mut Unit,
    id: &CallId,
    ask: &Reserve,
    sandbox: &Sandbox,
    granted: i64,
) -> Result<(), Fault> {
    let (id, sandbox_id, now) = (id.as_str(), sandbox.id.as_str(), unit.now().as_microsecond());
    let task_id = sandbox.task_id.as_ref().map(|id| id.as_str());
    let project_id = sandbox.project_id.as_ref().map(|id| id.as_str());
    let node_id = ask.node_id.as_ref().map(NodeId::as_str);
    sqlx::query!(
        "INSERT INTO model_calls (id, sandbox_id, task_id, project_id, dialect, model, reserved_micros, created_at,
                                  node_id)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        id,
        sandbox_id,
        task_id,
        project_id,
        ask.dialect,
        ask.model,
        granted,
        now,
        node_id
    )
    .execute(unit.sql())
    .await?;
    Ok(())
}

/// Moves the sums of sandbox, task and project.
async fn add(unit: &mut Unit, sandbox: &Sandbox, cost: i64, reserved: i64) -> Result<(), Fault> {
    let sandbox_id = sandbox.id.as_str();
    sqlx::query!(
        "UPDATE sandboxes SET cost_micros = cost_micros + $2, reserved_micros = reserved_micros + $3 WHERE id = $1",
        sandbox_id,
        cost,
        reserved
    )
    .execute(unit.sql())
    .await?;
    if let Some(task) = sandbox.task_id.as_ref().map(|id| id.as_str()) {
        sqlx::query!(
            "UPDATE tasks SET cost_micros = cost_micros + $2, reserved_micros = reserved_micros + $3 WHERE id = $1",
            task,
            cost,
            reserved
        )
        .execute(unit.sql())
        .await?;
    }
    if let Some(project) = sandbox.project_id.as_ref().map(|id| id.as_str()) {
        sqlx::query!(
            "UPDATE projects SET cost_micros = cost_micros + $2, reserved_micros = reserved_micros + $3
             WHERE id = $1",
            project,
            cost,
            reserved
        )
        .execute(unit.sql())
        .await?;
    }
    // What the transaction knows must stay true.
    unit.draft.get_sandbox(&sandbox.id)?.row.cost_micros += cost;
    Ok(())
}

struct SettleCall {
    id: CallId,
    settlement: Settlement,
}

#[async_trait]
impl Command<Unit> for SettleCall {
    type Output = bool;

    fn needs(&self, needs: &mut Needs) {
        needs.call(&self.id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<bool, Fault> {
        let (id, by) = (self.id.as_str(), &self.settlement);
        let held =
            sqlx::query!("SELECT sandbox_id, reserved_micros, settled_at FROM model_calls WHERE id = $1", id)
                .fetch_optional(unit.sql())
                .await?
                .ok_or_else(|| Error::not_found("model call", &self.id))?;
        if held.settled_at.is_some() {
            return Ok(false);
        }
        let sandbox_id = readable(SandboxId::parse(held.sandbox_id).ok(), "model_calls", "sandbox_id", id)?;
        let now = unit.now().as_microsecond();
        sqlx::query!(
            "UPDATE model_calls SET cost_micros = $2, input_tokens = $3, output_tokens = $4,
                    cache_read_tokens = $5, cache_write_tokens = $6, known_by = $7, settled_at = $8
             WHERE id = $1",
            id,
            by.cost_micros,
            by.input_tokens,
            by.output_tokens,
            by.cache_read_tokens,
            by.cache_write_tokens,
            by.known_by,
            now
        )
        .execute(unit.sql())
        .await?;
        let sandbox = unit.draft.get_sandbox(&sandbox_id)?.row.clone();
        add(unit, &sandbox, by.cost_micros, -held.reserved_micros).await?;
        Ok(true)
    }
}

#[async_trait]
impl SpendingStore for PostgresStore {
    async fn reserve_call(&self, reserve: Reserve) -> Result<Reserved> {
        self.writer.run(ReserveCall(reserve)).await
    }

    async fn settle_call(&self, id: &CallId, settlement: Settlement) -> Result<bool> {
        self.writer.run(SettleCall { id: id.clone(), settlement }).await
    }

    async fn open_calls(&self, node: Option<&NodeId>) -> Result<Vec<OpenCall>> {
        let node = node.map(NodeId::as_str);
        let rows = sqlx::query_as!(
            OpenCallRow,
            "SELECT id, sandbox_id, dialect, model, reserved_micros, created_at FROM model_calls
             WHERE settled_at IS NULL AND ($1::text IS NULL OR node_id = $1) ORDER BY created_at",
            node
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        Ok(all(rows)?)
    }

    async fn spending(&self, of: &Spender) -> Result<Spending> {
        match of {
            Spender::Sandbox(id) => {
                spending_query!("WHERE sandbox_id = $1", id.as_str()).fetch_one(&self.readers).in_time().await
            }
            Spender::Task(id) => {
                spending_query!("WHERE task_id = $1", id.as_str()).fetch_one(&self.readers).in_time().await
            }
            Spender::Project(id) => {
                spending_query!("WHERE project_id = $1", id.as_str()).fetch_one(&self.readers).in_time().await
            }
        }
    }
}
