//! Tickets.

use async_trait::async_trait;
use sunaba_store::{Error, NewTicket, Result};
use sunaba_store_sql::rows::TicketRow;
use sunaba_types::{ProjectId, Ticket, TicketId};

use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::all;
use crate::unit::Unit;
use crate::writer::Command;

pub(super) struct CreateTicket(pub(super) NewTicket);

#[async_trait]
impl Command<Unit> for CreateTicket {
    type Output = Ticket;

    async fn run(&self, unit: &mut Unit) -> Result<Ticket, Fault> {
        let new = &self.0;
        let project = new.project_id.as_str();
        let held = sqlx::query_scalar!("SELECT id FROM projects WHERE id = $1", project)
            .fetch_optional(unit.sql())
            .await?;
        if held.is_none() {
            return Err(Error::not_found("project", project).into());
        }
        let ticket = unit.draft.new_ticket(new);
        insert(unit, &ticket).await?;
        unit.draft.announce_ticket(&ticket);
        Ok(ticket)
    }
}

async fn insert(unit: &mut Unit, ticket: &Ticket) -> Result<(), Fault> {
    let (id, project) = (ticket.id.as_str(), ticket.project_id.as_str());
    let (kind, priority) = (ticket.ticket_type.as_str(), ticket.priority.as_str());
    let (status, created) = (ticket.status.as_str(), ticket.created_at.as_microsecond());
    sqlx::query!(
        "INSERT INTO tickets (id, project_id, title, description, ticket_type, priority, status, owner,
                              created_at, updated_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $9)",
        id,
        project,
        ticket.title,
        ticket.description,
        kind,
        priority,
        status,
        ticket.owner,
        created
    )
    .execute(unit.sql())
    .await?;
    Ok(())
}

impl PostgresStore {
    pub(super) async fn read_ticket(&self, id: &TicketId) -> Result<Option<Ticket>> {
        let key = id.as_str();
        let row = sqlx::query_as!(
            TicketRow,
            "SELECT id, project_id, title, description, ticket_type, priority, status, branch_name, owner,
                    created_at, updated_at
             FROM tickets WHERE id = $1",
            key
        )
        .fetch_optional(&self.readers)
        .in_time()
        .await?;
        Ok(row.map(Ticket::try_from).transpose()?)
    }

    pub(super) async fn read_tickets(
        &self,
        project_id: Option<&ProjectId>,
        visible: Option<Vec<String>>,
        limit: u32,
    ) -> Result<Vec<Ticket>> {
        let project = project_id.map(ProjectId::as_str);
        let rows = sqlx::query_as!(
            TicketRow,
            "SELECT id, project_id, title, description, ticket_type, priority, status, branch_name, owner,
                    created_at, updated_at
             FROM tickets
             WHERE ($1::text IS NULL OR project_id = $1)
               AND ($2::text[] IS NULL OR project_id = ANY($2))
             ORDER BY created_at DESC, id DESC LIMIT $3",
            project,
            visible.as_deref(),
            i64::from(limit)
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        Ok(all(rows)?)
    }
}
