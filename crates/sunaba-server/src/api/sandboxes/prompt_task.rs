//! A ticket, a task and a sandbox for a bare prompt.

use sunaba_store::{NewSandbox, NewTicket, NewWork};
use sunaba_types::{Priority, ProjectId, Sandbox, TicketType};

use crate::auth::Identity;
use crate::{ApiError, AppState};

/// Makes all three, or none; the prompt's first line is their title unless another is given.
pub(super) async fn make(
    state: &AppState,
    identity: &Identity,
    project_id: &ProjectId,
    title: Option<String>,
    sandbox: NewSandbox,
) -> Result<Sandbox, ApiError> {
    let ticket = NewTicket {
        project_id: project_id.clone(),
        title: title.unwrap_or_else(|| title_of(&sandbox.prompt)),
        description: sandbox.prompt.clone(),
        ticket_type: TicketType::Feature,
        priority: Priority::Medium,
        owner: identity.name.to_string(),
    };
    let work = NewWork { ticket, task_type: "implement".to_owned(), sandbox };
    Ok(state.store().create_work(work).await?)
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
