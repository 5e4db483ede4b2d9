//! A ticket and a task for a bare prompt.

use sunaba_store::{NewTask, NewTicket};
use sunaba_types::{ExecutionConfig, Priority, ProjectId, Task, TicketType};

use crate::auth::Identity;
use crate::{ApiError, AppState};

/// Makes both; the prompt's first line is their title.
pub(super) async fn make(
    state: &AppState,
    identity: &Identity,
    project_id: &ProjectId,
    prompt: &str,
) -> Result<Task, ApiError> {
    let title = title_of(prompt);
    let ticket = NewTicket {
        project_id: project_id.clone(),
        title: title.clone(),
        description: prompt.to_owned(),
        ticket_type: TicketType::Feature,
        priority: Priority::Medium,
        owner: identity.name.to_string(),
    };
    let ticket = state.store().create_ticket(ticket).await?;
    let task = NewTask {
        ticket_id: ticket.id,
        task_type: "implement".to_owned(),
        title,
        description: prompt.to_owned(),
        priority: Priority::Medium,
        execution_config: ExecutionConfig::default(),
    };
    Ok(state.store().create_task(task).await?)
}

/// The first line that says something, cut to a title's length.
fn title_of(prompt: &str) -> String {
    const MOST: usize = 100;
    let line = prompt.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("Untitled");
    if line.chars().count() <= MOST {
        return line.to_owned();
    }
    let cut: String = line.chars().take(MOST - 1).collect();
    format!("{}…", cut.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_the_first_line_that_says_something() {
        assert_eq!(title_of("\n  Fix it \nnow"), "Fix it");
        assert_eq!(title_of(" \n"), "Untitled");
        assert_eq!(title_of(&"ä".repeat(300)).chars().count(), 100);
    }
}
