//! Projects, tickets, tasks, sandboxes and the index of blobs.

mod blobs;
mod projects;
mod sandboxes;
mod tasks;
mod tickets;
mod work;

use async_trait::async_trait;
use sunaba_store::{
    NewProject, NewSandbox, NewTask, NewTicket, NewWork, ProjectPatch, RegistryStore, Result, SandboxChange,
    SandboxFilter, TaskFilter, Writer,
};
use sunaba_types::{Project, ProjectId, Sandbox, SandboxId, Task, TaskId, Ticket, TicketId, Timestamp};

use crate::PostgresStore;
use crate::page::InTime as _;
use crate::rows::{list, sandbox_query, task_query};

/// The projects a caller may see, as one argument; none means all.
fn visible_list(visible: Option<&[ProjectId]>) -> Option<Vec<String>> {
    visible.map(|ids| list(ids.iter().map(ProjectId::as_str)))
}

#[async_trait]
impl RegistryStore for PostgresStore {
    async fn ensure_project(&self, project: NewProject) -> Result<Project> {
        self.writer.run(projects::EnsureProject(project)).await
    }

    async fn find_project_at(
        &self,
        repo_path: Option<&str>,
        repo_url: Option<&str>,
    ) -> Result<Option<Project>> {
        self.read_project_at(repo_path, repo_url).await
    }

    async fn find_project(&self, id: &ProjectId) -> Result<Option<Project>> {
        self.read_project(id).await
    }

    async fn update_project(&self, id: &ProjectId, patch: ProjectPatch) -> Result<Project> {
        self.writer.run(projects::UpdateProject { id: id.clone(), patch }).await
    }

    async fn list_projects(
        &self,
        visible: Option<&[ProjectId]>,
        after: Option<&ProjectId>,
        limit: u32,
    ) -> Result<Vec<Project>> {
        self.read_projects(visible_list(visible), after, limit).await
    }

    async fn create_ticket(&self, ticket: NewTicket) -> Result<Ticket> {
        self.writer.run(tickets::CreateTicket(ticket)).await
    }

    async fn find_ticket(&self, id: &TicketId) -> Result<Option<Ticket>> {
        self.read_ticket(id).await
    }

    async fn list_tickets(
        &self,
        project_id: Option<&ProjectId>,
        visible: Option<&[ProjectId]>,
        limit: u32,
    ) -> Result<Vec<Ticket>> {
        self.read_tickets(project_id, visible_list(visible), limit).await
    }

    async fn create_task(&self, task: NewTask) -> Result<Task> {
        self.writer.run(tasks::CreateTask(task)).await
    }

    async fn find_task(&self, id: &TaskId) -> Result<Option<Task>> {
        let row = task_query!("WHERE t.id = $1", id.as_str()).fetch_optional(&self.readers).in_time();
        Ok(row.await?.map(Task::try_from).transpose()?)
    }

    async fn list_tasks(&self, filter: TaskFilter) -> Result<Vec<Task>> {
        self.read_tasks(filter).await
    }

    async fn create_work(&self, work: NewWork) -> Result<Sandbox> {
        self.writer.run(work::CreateWork(work)).await
    }

    async fn create_sandbox(&self, sandbox: NewSandbox) -> Result<Sandbox> {
        self.writer.run(sandboxes::CreateSandbox(sandbox)).await
    }

    async fn find_sandbox(&self, id: &SandboxId) -> Result<Option<Sandbox>> {
        let row = sandbox_query!("WHERE s.id = $1", id.as_str()).fetch_optional(&self.readers).in_time();
        Ok(row.await?.map(Sandbox::try_from).transpose()?)
    }

    async fn check_standing(&self, id: &SandboxId, by: Writer) -> Result<()> {
        self.read_standing(id, by).await
    }

    async fn list_sandboxes(&self, filter: SandboxFilter) -> Result<Vec<Sandbox>> {
        self.read_sandboxes(filter).await
    }

    async fn change_sandbox(&self, id: &SandboxId, change: SandboxChange) -> Result<Sandbox> {
        self.writer.run(sandboxes::ChangeSandbox { id: id.clone(), change }).await
    }

    async fn touch_sandboxes(&self, heard: &[(SandboxId, Timestamp)]) -> Result<()> {
        if heard.is_empty() {
            return Ok(());
        }
        self.writer.run(sandboxes::Touch(heard.to_vec())).await
    }
}
