//! New projects, tickets and tasks, and what is said of them.

use serde_json::json;
use sunaba_store::{Error, NewProject, NewTask, NewTicket, ProjectPatch, Result};
use sunaba_types::{Project, ProjectId, Task, TaskId, TaskState, Ticket, TicketId, TicketStatus};

use super::{Draft, Notice};

impl Draft {
    /// A project as it was asked for.
    pub fn new_project(&self, new: &NewProject) -> Project {
        Project {
            id: ProjectId::generate(),
            name: new.name.clone(),
            repo_path: new.repo_path.clone(),
            repo_url: new.repo_url.clone(),
            default_branch: new.default_branch.clone(),
            settings: new.settings.clone(),
            home_node: None,
            created_at: self.now,
        }
    }

    /// Says that a project was made or changed.
    pub fn announce_project(&mut self, project: &Project, event_type: &str) {
        self.publish(Notice {
            project_id: Some(&project.id),
            event_type,
            entity_type: "project",
            entity_id: project.id.as_str(),
            sandbox_id: None,
            payload: json!({"project_id": project.id, "name": project.name}),
        });
    }

    /// A ticket as it was asked for.
    pub fn new_ticket(&self, new: &NewTicket) -> Ticket {
        Ticket {
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
            created_at: self.now,
            updated_at: self.now,
        }
    }

    /// Says that a ticket was made.
    pub fn announce_ticket(&mut self, ticket: &Ticket) {
        self.publish(Notice {
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
    }

    /// A task as it was asked for, in the ticket's project.
    pub fn new_task(&self, new: &NewTask, project_id: ProjectId) -> Task {
        let now = self.now;
        Task {
            id: TaskId::generate(),
            ticket_id: new.ticket_id.clone(),
            project_id,
            phase_id: None,
            task_type: new.task_type.clone(),
            title: new.title.clone(),
            description: new.description.clone(),
            priority: new.priority,
            status: TaskState::Pending,
            sandbox_id: None,
            assigned_agent_id: None,
            attempt: 0,
            outcome: None,
            result: None,
            error_message: None,
            execution_config: new.execution_config.clone(),
            created_at: now,
            updated_at: now,
            started_at: None,
            completed_at: None,
        }
    }
}

/// The project with what the patch changes, unless somebody was faster.
pub fn patched(project: Project, patch: ProjectPatch) -> Result<Project> {
    if patch.settings_before.is_some_and(|before| before != project.settings) {
        let detail = "somebody else changed the settings meanwhile; look at them and try again";
        return Err(Error::conflict("project_changed", detail));
    }
    Ok(Project {
        name: patch.name.unwrap_or(project.name),
        default_branch: patch.default_branch.unwrap_or(project.default_branch),
        settings: patch.settings.unwrap_or(project.settings),
        ..project
    })
}
