//! Tickets.

use async_trait::async_trait;
use serde_json::json;
use sunaba_store::{Error, NewTicket, Result};
use sunaba_types::{Priority, ProjectId, Ticket, TicketId, TicketStatus, TicketType};

use crate::PostgresStore;
use crate::fault::{Fault, Unreadable};
use crate::page::InTime as _;
use crate::rows::{all, readable, time};
use crate::unit::{Notice, Unit};
use crate::writer::Command;

#[derive(Debug)]
struct TicketRow {
    id: String,
    project_id: String,
    title: String,
    description: String,
    ticket_type: String,
    priority: String,
    status: String,
    branch_name: Option<String>,
    owner: String,
    created_at: i64,
    updated_at: i64,
}

impl TryFrom<TicketRow> for Ticket {
    type Error = Unreadable;

    fn try_from(row: TicketRow) -> Result<Self, Unreadable> {
        const TABLE: &str = "tickets";
        let key = row.id.clone();
        Ok(Self {
            id: readable(TicketId::parse(row.id).ok(), TABLE, "id", &key)?,
            project_id: readable(ProjectId::parse(row.project_id).ok(), TABLE, "project_id", &key)?,
            title: row.title,
            description: row.description,
            ticket_type: readable(TicketType::parse(&row.ticket_type), TABLE, "ticket_type", &key)?,
            priority: readable(Priority::parse(&row.priority), TABLE, "priority", &key)?,
            status: readable(TicketStatus::parse(&row.status), TABLE, "status", &key)?,
            branch_name: row.branch_name,
            owner: row.owner,
            created_at: time(row.created_at, TABLE, "created_at", &key)?,
            updated_at: time(row.updated_at, TABLE, "updated_at", &key)?,
        })
    }
}

pub(super) struct CreateTicket(pub(super) NewTicket);

#[async_trait]
impl Command for CreateTicket {
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
        let ticket = Ticket {
            id: TicketId::generate(),
            project_id: new.project_id.clone(),
            title: new.title.clone(),
            description: new.description.clone(),
            ticket_type: new.ticket_type,
            priority: new.priority,
            // Approval is off by default: what is asked for may be worked on.
            status: TicketStatus::Approved,
            branch_name: None,
            owner: new.owner.clone(),
            created_at: unit.now(),
            updated_at: unit.now(),
        };
        insert(unit, &ticket).await?;
        unit.publish(Notice {
            project_id: Some(&ticket.project_id),
            event_type: "TICKET_CREATED",
            entity_type: "ticket",
            entity_id: ticket.id.as_str(),
            sandbox_id: None,
            payload: json!({
                "ticket_id": ticket.id, "project_id": ticket.project_id, "title": ticket.title,
                "status": ticket.status, "priority": ticket.priority,
            }),
        });
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
