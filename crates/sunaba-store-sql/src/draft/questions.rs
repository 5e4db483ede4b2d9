//! What the rules say of questions; which ones there are, the store knows.

use serde_json::{Value, json};
use sunaba_store::{Error, Result, Writer};
use sunaba_types::limits::QUESTIONS_MAX_OPEN;
use sunaba_types::{
    Decision, NewAnswer, NewEvent, NewQuestion, Question, QuestionId, QuestionPolicy, QuestionState,
    SandboxId, Source, TaskState, Timestamp, bus_name,
};

use super::Draft;
const ASKED: &str = "agent.question_asked";
const ANSWERED: &str = "sandbox.question_answered";
const EXPIRED: &str = "sandbox.question_expired";
const WITHDRAWN: &str = "agent.question_withdrawn";

/// How long a question waits when its sandbox's terms do not say.
const HOLD_SECONDS: u32 = 15 * 60;
/// Of an input or a message, in an event: longer ones are in the question itself.
const TOLD_MAX_BYTES: usize = 64 * 1024;
/// Of a call, what it is replaced by, and why not, in what an agent that goes on is told.
const CALL_TOLD_CHARS: usize = 2000;
/// What the agent is told when nobody answered and the policy is to deny.
const NOBODY_ANSWERED: &str = "nobody answered in time whether this is allowed, so it is not";

/// What was answered before and counts for a new question too.
#[derive(Debug)]
pub enum Precedent {
    /// An answer for every call of the tool.
    Remembered(Question),
    /// An answer to the same call, which came when the sandbox that had asked was gone.
    Late(Question),
}

impl Draft {
    /// The question that may be asked now. `open` says how many are open in its sandbox.
    pub fn plan_question(&mut self, new: &NewQuestion, by: Writer, open: i64) -> Result<Question> {
        let now = self.now;
        let row = &self.standing_sandbox(&new.sandbox_id, by)?.row;
        if row.state.is_terminal() {
            let detail = format!("sandbox {} is {}; nobody would wait for the answer", row.id, row.state);
            return Err(Error::conflict("sandbox_ended", detail));
        }
        if open >= QUESTIONS_MAX_OPEN {
            let detail = format!("{QUESTIONS_MAX_OPEN} questions of sandbox {} are open already", row.id);
            return Err(Error::Full { code: "questions_full", detail });
        }
        let terms = &row.terms.execution_config;
        let hold = i64::from(terms.question_hold_seconds.unwrap_or(HOLD_SECONDS));
        Ok(Question {
            id: QuestionId::generate(),
            sandbox_id: row.id.clone(),
            project_id: row.project_id.clone(),
            task_id: row.task_id.clone(),
            attempt: row.attempt,
            client_id: new.client_id.clone(),
            tool: new.tool.clone(),
            tool_use_id: new.tool_use_id.clone(),
            input: new.input.clone(),
            policy: terms.question_policy.unwrap_or(QuestionPolicy::Suspend),
            asked_at: now,
            expires_at: later(now, hold),
            state: QuestionState::Open,
            answer: None,
            updated_input: None,
            message: None,
            remember: None,
            answered_by: None,
            answered_at: None,
            reason: None,
        })
    }

    /// Tells a new question, or what it was answered with at once.
    pub fn question_asked(&mut self, mut question: Question, precedent: Option<Precedent>) -> Question {
        let Some(precedent) = precedent else {
            self.tell(&question, ASKED, Source::Agent, json!({"expires_at": question.expires_at}));
            return question;
        };
        let (before, reason) = match precedent {
            Precedent::Remembered(before) => (before, "the answer for this tool is remembered"),
            Precedent::Late(before) => (before, "it was answered when the sandbox that had asked was gone"),
        };
        if question.input == before.input {
            question.updated_input = before.updated_input;
        }
        question.state = QuestionState::Answered;
        question.answer = before.answer;
        question.message = before.message;
        question.answered_by = before.answered_by;
        question.answered_at = Some(self.now);
        question.reason = Some(reason.to_owned());
        self.tell_answer(&question);
        question
    }

    /// The question as it is with this answer; none when that is what it is already.
    pub fn question_answered(&mut self, held: &Question, given: &NewAnswer) -> Result<Option<Question>> {
        if is_the_answer(held, given) {
            return Ok(None);
        }
        refuse_answer(held)?;
        let answered = Question {
            state: QuestionState::Answered,
            answer: Some(given.decision),
            updated_input: given.updated_input.clone(),
            message: given.message.clone(),
            remember: given.remember,
            answered_by: Some(given.answered_by.clone()),
            answered_at: Some(self.now),
            ..held.clone()
        };
        self.tell_answer(&answered);
        Ok(Some(answered))
    }

    /// Whether this was answered when the sandbox that had asked was gone or is about to go: then the answer waits for
    /// whoever goes on with its task and asks the same.
    pub fn is_answered_late(&mut self, question: &Question) -> bool {
        let row = &self.sandbox(&question.sandbox_id).row;
        question.state == QuestionState::Answered
            && (row.state.is_terminal() || row.terms.suspended.is_some())
    }

    /// What the agent that goes on is told, if a task waits for this answer.
    pub fn answer_in_words(&mut self, question: &Question) -> Option<String> {
        let id = &question.sandbox_id;
        self.sandbox(id).row.terms.suspended.as_ref()?;
        let waits = self.task_of(id).is_some_and(|task| task.status == TaskState::WaitingInput);
        (waits && question.state == QuestionState::Answered).then(|| answered_words(question))
    }

    /// The question as its policy has decided; none when that has nothing to decide.
    pub fn question_expired(&mut self, held: &Question) -> Option<Question> {
        if held.state != QuestionState::Open || self.now < held.expires_at {
            return None;
        }
        let (answer, message) = match held.policy {
            QuestionPolicy::Deny => (Decision::Deny, Some(NOBODY_ANSWERED.to_owned())),
            QuestionPolicy::Allow => (Decision::Allow, None),
            QuestionPolicy::Suspend => return None,
        };
        let expired = Question {
            state: QuestionState::Expired,
            answer: Some(answer),
            message,
            answered_at: Some(self.now),
            reason: Some("nobody answered in time".to_owned()),
            ..held.clone()
        };
        self.tell(&expired, EXPIRED, Source::System, json!({"answer": answer, "policy": held.policy}));
        Some(expired)
    }

    /// The question as it is when nobody waits for it any more; none when it was not open.
    pub fn question_withdrawn(&mut self, held: &Question, reason: &str) -> Option<Question> {
        if held.state != QuestionState::Open {
            return None;
        }
        let withdrawn = Question {
            state: QuestionState::Withdrawn,
            answered_at: Some(self.now),
            reason: Some(reason.to_owned()),
            ..held.clone()
        };
        self.tell(&withdrawn, WITHDRAWN, Source::Agent, json!({"reason": reason}));
        Some(withdrawn)
    }

    /// The sandboxes whose questions nobody will wait for since this transaction: those that ended, except a suspended
    /// one whose task waits for the answer, and those whose task does so no longer.
    pub fn no_longer_asking(&mut self) -> Vec<SandboxId> {
        self.nobody_waits_at(&[TaskState::WaitingInput])
    }

    /// The same of messages, which a task that waits for anything takes along when it goes on, and which a sandbox that
    /// was to wait and is still there reads itself. Each sandbox is given once.
    pub fn take_no_longer_told(&mut self) -> Vec<SandboxId> {
        let mut over = self.nobody_waits_at(&[TaskState::WaitingInput, TaskState::WaitingQuota]);
        over.retain(|id| self.sandbox(id).row.state.is_terminal());
        self.ended.clear();
        self.no_longer_waited_for.clear();
        over
    }

    fn nobody_waits_at(&mut self, waiting: &[TaskState]) -> Vec<SandboxId> {
        let mut ended = self.no_longer_waited_for.clone();
        ended.extend(self.ended.iter().cloned());
        let waits = |draft: &mut Self, id: &SandboxId| {
            draft.task_of(id).is_some_and(|task| waiting.contains(&task.status))
        };
        ended.into_iter().filter(|id| !waits(self, id)).collect()
    }

    fn tell_answer(&mut self, question: &Question) {
        let more = json!({
            "answer": question.answer, "message": told(question.message.as_ref().map(|text| json!(text))),
            "updated_input": told(question.updated_input.clone()), "remember": question.remember,
            "answered_by": question.answered_by, "reason": question.reason,
        });
        self.tell(question, ANSWERED, Source::System, more);
    }

    fn tell(&mut self, question: &Question, event_type: &str, source: Source, more: Value) {
        let input = told(Some(question.input.clone()));
        let mut payload = json!({
            "question_id": question.id, "tool": question.tool, "tool_use_id": question.tool_use_id,
            "input_left_out": input.is_none(), "input": input,
            "task_id": question.task_id, "sandbox_id": question.sandbox_id, "attempt": question.attempt,
        });
        if let (Value::Object(payload), Value::Object(more)) = (&mut payload, more) {
            payload.extend(more);
        }
        let event = NewEvent { source, ..NewEvent::by_server(event_type, &payload) };
        self.record(&question.sandbox_id, &event, bus_name(event_type));
    }
}

fn answered_words(question: &Question) -> String {
    let Question { tool, input, .. } = question;
    let call = cut(&input.to_string());
    let answer = match (question.answer, &question.updated_input) {
        (Some(Decision::Allow), None) => "It is allowed: make the same call again.".to_owned(),
        (Some(Decision::Allow), Some(instead)) => {
            let instead = cut(&instead.to_string());
            format!(
                "It is allowed with other arguments: make the same call again, and it is done with {instead}."
            )
        }
        _ => match &question.message {
            Some(why) => format!("It is not allowed: {}", cut(why)),
            None => "It is not allowed.".to_owned(),
        },
    };
    format!(
        "[You asked whether you may use {tool} with {call}. While nobody answered, your sandbox was given up; you are in \
         a new one, on the same branch. {answer}]"
    )
}

/// The beginning of something that may be long.
fn cut(text: &str) -> String {
    match text.char_indices().nth(CALL_TOLD_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// What an event says of something that may be long.
fn told(value: Option<Value>) -> Option<Value> {
    value.filter(|value| value.to_string().len() <= TOLD_MAX_BYTES)
}

fn later(now: Timestamp, seconds: i64) -> Timestamp {
    Timestamp::from_microsecond(now.as_microsecond().saturating_add(seconds.saturating_mul(1_000_000)))
        .unwrap_or(Timestamp::MAX)
}

fn is_the_answer(held: &Question, given: &NewAnswer) -> bool {
    held.state == QuestionState::Answered
        && held.answer == Some(given.decision)
        && held.updated_input == given.updated_input
        && held.message == given.message
        && held.remember == given.remember
}

fn refuse_answer(held: &Question) -> Result<()> {
    let id = &held.id;
    let answer = held.answer.map_or("nothing", Decision::as_str);
    let refuse = |code, detail| Err(Error::conflict(code, detail));
    match held.state {
        // Also when its time is over: the policy has not decided yet.
        QuestionState::Open => Ok(()),
        QuestionState::Answered => {
            let who = held.answered_by.as_deref().unwrap_or("somebody");
            refuse("question_answered", format!("{who} has answered question {id} already: {answer}"))
        }
        QuestionState::Expired => refuse(
            "question_expired",
            format!("nobody answered question {id} by {}; the agent was told: {answer}", held.expires_at),
        ),
        QuestionState::Withdrawn => {
            let why = held.reason.as_deref().unwrap_or("the agent no longer waits");
            refuse("question_withdrawn", format!("question {id} was withdrawn: {why}"))
        }
    }
}

/// Why a name cannot be used again: it stands for another question.
pub fn refuse_other_question(held: &Question, new: &NewQuestion) -> Result<()> {
    if held.tool == new.tool && held.tool_use_id == new.tool_use_id && held.input == new.input {
        return Ok(());
    }
    Err(Error::conflict("question_id_conflict", "this id was used before, for another question"))
}
