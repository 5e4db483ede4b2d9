//! Tickets.

use sunaba_types::{Priority, ProjectId, Ticket, TicketId, TicketStatus, TicketType};

use super::{Unreadable, readable, time};

/// A row of `tickets`.
#[derive(Debug)]
pub struct TicketRow {
    pub id: String,
    pub project_id: String,
    pub title: String,
    pub description: String,
    pub ticket_type: String,
    pub priority: String,
    pub status: String,
    pub branch_name: Option<String>,
    pub owner: String,
    pub created_at: i64,
    pub updated_at: i64,
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
