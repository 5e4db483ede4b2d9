//! A ticket, a task and a sandbox at once.

use async_trait::async_trait;
use sunaba_store::{NewSandbox, NewWork, Result};
use sunaba_types::Sandbox;

use super::tasks::CreateTask;
use super::tickets::CreateTicket;
use crate::fault::Fault;
use crate::unit::{Needs, Unit};
use crate::writer::Command;

pub(super) struct CreateWork(pub(super) NewWork);

#[async_trait]
impl Command<Unit> for CreateWork {
    type Output = Sandbox;

    fn needs(&self, needs: &mut Needs) {
        if let Some(resume) = &self.0.sandbox.terms.resume {
            needs.name("session", &resume.session_id);
        }
    }

    async fn run(&self, unit: &mut Unit) -> Result<Sandbox, Fault> {
        let NewWork { ticket, sandbox, .. } = &self.0;
        // Whatever may be refused comes before anything is written.
        unit.refuse_second_holder(sandbox).await?;
        let ticket = CreateTicket(ticket.clone()).run(unit).await?;
        let task = CreateTask(self.0.task(ticket.id)).run(unit).await?;
        // Nobody else can have seen it yet, so there was nothing to lock.
        unit.draft.know_task(task.clone());
        unit.make_sandbox(&NewSandbox { task_id: Some(task.id), ..sandbox.clone() }).await
    }
}
