//! How a task goes on in another sandbox: after a message, a death or a wait.

use serde_json::json;
use sunaba_engine::{SandboxTrigger, TaskTrigger, next_sandbox_state, next_task_state};
use sunaba_store::{Error, NewSandbox, Result, Suspension, Waits};
use sunaba_types::{
    MessageId, NewEvent, Resume, ResumeCause, Sandbox, SandboxId, TaskState, Terms, TranscriptRecord,
    bus_name,
};

use super::{Draft, EXTERNAL};

/// Says in a sandbox's log that it is being suspended.
const SUSPENDING: &str = "sandbox.suspending";

/// A prompt goes over in an environment, which bounds it; a little more than what may be asked for in a call.
const PROMPT_MAX_BYTES: usize = 112 * 1024;
/// Of the answers that a task waited for, in what its next agent is told. The rest is found when it asks again.
const WORDS_MAX_BYTES: usize = 48 * 1024;
const LEFT_OUT: &str = " [… the rest is left out]";
/// When what was asked was taken back before anybody answered.
const TAKEN_BACK: &str = "[Your sandbox was given up while a question of yours was open; the question was withdrawn. \
                          You are in a new one, on the same branch. Go on.]";

/// How often what died is tried again. What somebody says to a task, or what it waited for, begins a new row.
#[derive(Debug, Clone, Copy)]
pub enum Again {
    /// Until so many tries were lost in a row with the machines they were on.
    Lost(i64),
    /// Until so many died in a row.
    Deaths(i64),
}

/// What the agent in the next sandbox is told.
#[derive(Debug)]
struct Words {
    because: ResumeCause,
    said: String,
    message: Option<MessageId>,
}

/// The sandbox that takes the place of one that is over. An agent that cannot go on with the conversation is told
/// what the one before was told, too.
fn next_sandbox(past: &Sandbox, last: Option<&TranscriptRecord>, words: Words) -> NewSandbox {
    let Words { because, said, message } = words;
    let resume = last.filter(|last| last.runtime == past.runtime).map(|last| Resume {
        session_id: last.session_id.clone(),
        from: last.sandbox_id.clone(),
        fork: false,
        because,
        until: None,
    });
    let prompt = if resume.is_some() { said } else { joined(&past.prompt, &said) };
    let quota_wait_ms = if because == ResumeCause::Message { 0 } else { past.terms.quota_wait_ms };
    let fresh = Terms { deaths: 0, losses: 0, quota_wait_ms, ..carried(&past.terms) };
    let terms = Terms { resume, prompt_message: message, ..fresh };
    same(past, prompt, terms)
}

/// What of its terms goes over to the next one: all but what is true of one sandbox only. What it may reach is decided
/// where it is brought up.
fn carried(terms: &Terms) -> Terms {
    Terms { egress: None, suspended: None, crashed: None, worked_ms: 0, ..terms.clone() }
}

/// Both, as far as there is room: of what was said before the end is left out.
fn joined(before: &str, said: &str) -> String {
    let room = PROMPT_MAX_BYTES.saturating_sub(said.len() + LEFT_OUT.len() + 4);
    if before.len() <= room {
        return format!("{before}\n\n{said}");
    }
    format!("{}{LEFT_OUT}\n\n{said}", &before[..before.floor_char_boundary(room)])
}

fn same(past: &Sandbox, prompt: String, terms: Terms) -> NewSandbox {
    // One that never came to have files leaves those of the one before it.
    let after = if past.base_commit.is_some() { None } else { past.terms.after.clone() };
    let terms = Terms { after: Some(after.unwrap_or_else(|| past.id.clone())), ..terms };
    NewSandbox {
        project_id: past.project_id.clone(),
        task_id: past.task_id.clone(),
        provider: past.provider.clone(),
        runtime: past.runtime.clone(),
        model: past.model.clone(),
        prompt,
        resources: past.resources,
        terms,
    }
}

impl Draft {
    /// Fails a sandbox that died, with its task. Gives the sandbox that is to take its place, if the task may be
    /// tried again: then the task is pending. `last` is the task's last conversation.
    pub fn fail_and_retry(
        &mut self,
        id: &SandboxId,
        reason: &str,
        again: Again,
        last: Option<&TranscriptRecord>,
    ) -> Result<Option<NewSandbox>> {
        let row = self.get_sandbox(id)?.row.clone();
        let reason = row.terms.crashed.as_deref().unwrap_or(reason);
        if row.terms.suspended.is_some() {
            // It was to end in any case, and its task goes on when it has what it waits for.
            if let Ok(over) = next_sandbox_state(row.state, SandboxTrigger::Suspend) {
                self.enter_sandbox_state(id, over, row.terms.suspended.clone());
                return Ok(None);
            }
        }
        let Ok(failed) = next_sandbox_state(row.state, SandboxTrigger::Fail) else { return Ok(None) };
        self.enter_sandbox_state(id, failed, Some(reason.to_owned()));
        let Some(status) = self.task_of(id).map(|task| task.status) else { return Ok(None) };
        let Ok(failed) = next_task_state(status, TaskTrigger::Fail) else { return Ok(None) };
        self.enter_task_state(id, failed, Some(reason.to_owned()));
        let spent = match again {
            Again::Lost(most) => row.terms.losses + 1 >= most,
            Again::Deaths(most) => row.terms.deaths >= most,
        };
        if spent {
            return Ok(None);
        }
        let pending = next_task_state(TaskState::Failed, TaskTrigger::Retry)?;
        self.enter_task_state(id, pending, None);
        let mut next = next_after_death(&row, reason, last);
        // A lost machine says nothing of what ran on it.
        let is_lost = matches!(again, Again::Lost(_));
        next.terms.losses = row.terms.losses + i64::from(is_lost);
        next.terms.deaths = row.terms.deaths + i64::from(!is_lost);
        Ok(Some(next))
    }

    /// Lets the task of a sandbox that is over go on with what somebody says; it is pending then.
    pub fn follow_up(
        &mut self,
        id: &SandboxId,
        said: &str,
        message: &MessageId,
        last: Option<&TranscriptRecord>,
    ) -> Result<NewSandbox> {
        let row = self.get_sandbox(id)?.row.clone();
        if !row.state.is_terminal() {
            return Err(Error::conflict("sandbox_lives", format!("sandbox {id} is {}", row.state)));
        }
        if row.task_id.is_none() || row.provider == EXTERNAL {
            let detail = format!("sandbox {id} is {}; nobody will take the message", row.state);
            return Err(Error::conflict("sandbox_ended", detail));
        }
        let Some(status) = self.task_of(id).map(|task| task.status) else {
            let detail = format!("a later attempt has taken the place of sandbox {id}");
            return Err(Error::conflict("newer_attempt", detail));
        };
        let pending = next_task_state(status, TaskTrigger::FollowUp)?;
        self.enter_task_state(id, pending, None);
        let (because, said) = (ResumeCause::Message, said.to_owned());
        Ok(next_sandbox(&row, last, Words { because, said, message: Some(message.clone()) }))
    }

    /// Lets the task of a sandbox wait; its node ends the sandbox. Whether that is new.
    ///
    /// `asks` says whether a question of it is open. Without one nothing would end a wait for input, so there is none:
    /// the answer may have come in this very moment.
    pub fn suspend(&mut self, id: &SandboxId, suspension: &Suspension, asks: bool) -> Result<bool> {
        let row = self.get_sandbox(id)?.row.clone();
        if row.terms.suspended.is_some() {
            return Ok(false);
        }
        if row.provider == EXTERNAL {
            let detail = format!("sandbox {id} is run by somebody else and cannot be suspended");
            return Err(Error::conflict("sandbox_external", detail));
        }
        next_sandbox_state(row.state, SandboxTrigger::Suspend)?;
        let trigger = match suspension.waits {
            Waits::Input => TaskTrigger::AwaitInput,
            Waits::Quota { .. } => TaskTrigger::AwaitQuota,
        };
        let waiting = next_task_state(self.current_task(id)?.status, trigger)?;
        if waiting == TaskState::WaitingInput && !asks {
            return Err(Error::conflict("nothing_asked", format!("no question of sandbox {id} is open")));
        }
        let loaded = self.sandbox(id);
        loaded.row.terms.suspended = Some(suspension.reason.clone());
        loaded.row_changed = true;
        let mut told = json!({"reason": suspension.reason, "task_status": waiting});
        if let Waits::Quota { until } = suspension.waits {
            told["until"] = json!(until);
            let wait = until.as_millisecond().saturating_sub(self.now.as_millisecond());
            self.sandbox(id).row.terms.quota_wait_ms += wait.max(0);
        }
        self.record(id, &NewEvent::by_server(SUSPENDING, &told), bus_name(SUSPENDING));
        self.enter_task_state(id, waiting, None);
        Ok(true)
    }

    /// Lets the task of a suspended sandbox go on; it is pending then. Nothing when it does not wait. `for_input` says
    /// whether it waited for answers, and `words` what was answered.
    pub fn wake(
        &mut self,
        id: &SandboxId,
        for_input: bool,
        words: Option<String>,
        last: Option<&TranscriptRecord>,
    ) -> Result<Option<NewSandbox>> {
        let row = self.get_sandbox(id)?.row.clone();
        let status = self.task_of(id).map(|task| task.status);
        let Some(status) = status.filter(|_| row.state.is_terminal()) else { return Ok(None) };
        let Ok(pending) = next_task_state(status, TaskTrigger::WakeUp) else { return Ok(None) };
        self.enter_task_state(id, pending, None);
        let (because, said) = match (for_input, words) {
            (true, Some(words)) => (ResumeCause::Answer, bounded(words)),
            (true, None) => (ResumeCause::Answer, TAKEN_BACK.to_owned()),
            (false, _) => (ResumeCause::Quota, "[The limit that stopped you is reset. Go on.]".to_owned()),
        };
        Ok(Some(next_sandbox(&row, last, Words { because, said, message: None })))
    }
}

fn bounded(mut words: String) -> String {
    if words.len() > WORDS_MAX_BYTES {
        words.truncate(words.floor_char_boundary(WORDS_MAX_BYTES));
        words.push_str(LEFT_OUT);
    }
    words
}

/// What the sandbox that died had been told may not be in the conversation that it left: then it is told again.
fn next_after_death(row: &Sandbox, reason: &str, last: Option<&TranscriptRecord>) -> NewSandbox {
    match last.filter(|last| last.sandbox_id == row.id && last.runtime == row.runtime) {
        Some(last) => {
            let said = format!(
                "[Your sandbox ended in the middle of the work: {reason}. You are in a new one, on the same branch. \
                 Look at what is there and go on.]"
            );
            next_sandbox(row, Some(last), Words { because: ResumeCause::Died, said, message: None })
        }
        None => same(row, row.prompt.clone(), carried(&row.terms)),
    }
}
