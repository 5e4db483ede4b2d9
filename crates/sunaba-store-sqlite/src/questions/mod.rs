//! Questions: asking, answering, and what time does to them.

use async_trait::async_trait;
use sunaba_store::{Error, QuestionFilter, QuestionStore, Result, Writer};
use sunaba_store_sql::draft::{Precedent, refuse_other_question};
use sunaba_types::{
    Decision, NewAnswer, NewQuestion, ProjectId, Question, QuestionId, QuestionState, Remember, SandboxId,
    Timestamp,
};

use crate::SqliteStore;
use crate::fault::{Fault, told};
use crate::page::{gather, in_time};
use crate::rows::{all, list};
use crate::sessions::note_answer;
use crate::unit::Unit;
use crate::writer::Command;

/// Selects whole questions (`q`).
macro_rules! question_query {
    ($tail:tt $(, $arg:expr)* $(,)?) => {
        sqlx::query_as!(
            sunaba_store_sql::rows::QuestionRow,
            r#"SELECT q.id AS "id!", q.sandbox_id AS "sandbox_id!", q.project_id, q.task_id, q.attempt AS "attempt!",
                      q.client_id AS "client_id!", q.tool AS "tool!", q.tool_use_id AS "tool_use_id!",
                      q.input AS "input!", q.policy AS "policy!", q.asked_at AS "asked_at!",
                      q.expires_at AS "expires_at!", q.state AS "state!", q.answer, q.updated_input, q.message,
                      q.remember, q.answered_by, q.answered_at, q.reason
               FROM questions AS q "# + $tail
            $(, $arg)*
        )
    };
}

mod precedent;

use precedent::precedent;

struct Ask {
    by: Writer,
    new: NewQuestion,
}

#[async_trait]
impl Command<Unit> for Ask {
    type Output = Question;

    async fn run(&self, unit: &mut Unit) -> Result<Question, Fault> {
        let new = &self.new;
        unit.standing_sandbox(&new.sandbox_id, self.by).await?;
        let (key, name) = (new.sandbox_id.as_str(), new.client_id.as_str());
        let held = question_query!("WHERE q.sandbox_id = ?1 AND q.client_id = ?2", key, name)
            .fetch_optional(unit.sql())
            .await?;
        if let Some(held) = held {
            let held = Question::try_from(held)?;
            refuse_other_question(&held, new)?;
            return Ok(held);
        }
        let open = sqlx::query_scalar!(
            r#"SELECT count(*) AS "open!: i64" FROM questions WHERE sandbox_id = ?1 AND answered_at IS NULL"#,
            key
        )
        .fetch_one(unit.sql())
        .await?;
        let planned = unit.draft.plan_question(new, self.by, open)?;
        let precedent = precedent(unit, &planned).await?;
        let late = match &precedent {
            Some(Precedent::Late(before)) => Some(before.id.clone()),
            _ => None,
        };
        let question = unit.draft.question_asked(planned, precedent);
        insert(unit, &question).await?;
        if let Some(before) = late {
            let (before, after) = (before.as_str(), question.id.as_str());
            sqlx::query!("UPDATE questions SET carried_to = ?2 WHERE id = ?1", before, after)
                .execute(unit.sql())
                .await?;
        }
        Ok(question)
    }
}

async fn insert(unit: &mut Unit, question: &Question) -> Result<(), Fault> {
    let (id, sandbox) = (question.id.as_str(), question.sandbox_id.as_str());
    let project = question.project_id.as_ref().map(ProjectId::as_str);
    let task = question.task_id.as_ref().map(|id| id.as_str());
    let (input, policy) = (question.input.to_string(), question.policy.as_str());
    let (asked, expires) = (question.asked_at.as_microsecond(), question.expires_at.as_microsecond());
    sqlx::query!(
        "INSERT INTO questions (id, sandbox_id, project_id, task_id, attempt, client_id, tool, tool_use_id, input,
                                policy, asked_at, expires_at, state)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, 'open')",
        id,
        sandbox,
        project,
        task,
        question.attempt,
        question.client_id,
        question.tool,
        question.tool_use_id,
        input,
        policy,
        asked,
        expires
    )
    .execute(unit.sql())
    .await?;
    if question.state == QuestionState::Open { Ok(()) } else { update(unit, question).await }
}

/// Writes what has become of a question.
async fn update(unit: &mut Unit, question: &Question) -> Result<(), Fault> {
    let (id, state) = (question.id.as_str(), question.state.as_str());
    let answer = question.answer.map(Decision::as_str);
    let input = question.updated_input.as_ref().map(ToString::to_string);
    let remember = question.remember.map(Remember::as_str);
    let at = question.answered_at.map(Timestamp::as_microsecond);
    sqlx::query!(
        "UPDATE questions SET state = ?2, answer = ?3, updated_input = ?4, message = ?5, remember = ?6,
                              answered_by = ?7, answered_at = ?8, reason = ?9
         WHERE id = ?1",
        id,
        state,
        answer,
        input,
        question.message,
        remember,
        question.answered_by,
        at,
        question.reason
    )
    .execute(unit.sql())
    .await?;
    Ok(())
}

/// What is to become of a question.
enum Fate {
    Answered(NewAnswer),
    Withdrawn { by: Writer, reason: String },
    Expired,
}

struct Decide {
    id: QuestionId,
    sandbox_id: SandboxId,
    fate: Fate,
}

#[async_trait]
impl Command<Unit> for Decide {
    type Output = Question;

    async fn run(&self, unit: &mut Unit) -> Result<Question, Fault> {
        let by = match &self.fate {
            Fate::Withdrawn { by, .. } => *by,
            Fate::Answered(_) | Fate::Expired => Writer::Operator,
        };
        unit.standing_sandbox(&self.sandbox_id, by).await?;
        let id = self.id.as_str();
        let held = question_query!("WHERE q.id = ?1", id).fetch_optional(unit.sql()).await?;
        let held = Question::try_from(held.ok_or_else(|| Error::not_found("question", &self.id))?)?;
        let decided = match &self.fate {
            Fate::Answered(answer) => unit.draft.question_answered(&held, answer)?,
            Fate::Withdrawn { reason, .. } => unit.draft.question_withdrawn(&held, reason),
            Fate::Expired => unit.draft.question_expired(&held),
        };
        let Some(decided) = decided else { return Ok(held) };
        update(unit, &decided).await?;
        if unit.draft.is_answered_late(&decided) {
            sqlx::query!("UPDATE questions SET carried_to = '' WHERE id = ?1", id)
                .execute(unit.sql())
                .await?;
        }
        if let Some(words) = unit.draft.answer_in_words(&decided) {
            note_answer(unit, &self.sandbox_id, &words).await?;
        }
        Ok(decided)
    }
}

impl SqliteStore {
    async fn decide(&self, id: &QuestionId, fate: Fate) -> Result<Question> {
        let held = self.find_question(id).await?.ok_or_else(|| Error::not_found("question", id))?;
        self.writer.run(Decide { id: id.clone(), sandbox_id: held.sandbox_id, fate }).await
    }
}

#[async_trait]
impl QuestionStore for SqliteStore {
    async fn ask_question(&self, by: Writer, question: NewQuestion) -> Result<Question> {
        self.writer.run(Ask { by, new: question }).await
    }

    async fn find_question(&self, id: &QuestionId) -> Result<Option<Question>> {
        let key = id.as_str();
        let row =
            question_query!("WHERE q.id = ?1", key).fetch_optional(&self.readers).await.map_err(told)?;
        Ok(row.map(Question::try_from).transpose()?)
    }

    async fn list_questions(&self, filter: QuestionFilter) -> Result<Vec<Question>> {
        let state = filter.state.map(QuestionState::as_str);
        let before = filter.before.as_ref().map(QuestionId::as_str);
        let limit = i64::from(filter.limit);
        let visible = filter.visible_projects.as_ref().map(|ids| list(ids.iter().map(ProjectId::as_str)));
        let read = async {
            let (rows, _) = match (filter.sandbox_id.as_ref().map(SandboxId::as_str), state) {
                (Some(key), state) => gather(
                    question_query!(
                        "WHERE q.sandbox_id = ?1 AND (?2 IS NULL OR q.state = ?2)
                           AND (?3 IS NULL OR q.project_id IN (SELECT value FROM json_each(?3)))
                           AND (?4 IS NULL OR q.id < ?4)
                         ORDER BY q.id DESC LIMIT ?5",
                        key,
                        state,
                        visible,
                        before,
                        limit
                    )
                    .fetch(&self.readers),
                )
                .await,
                (None, Some(state)) => gather(
                    question_query!(
                        "WHERE q.state = ?1 AND (?2 IS NULL OR q.project_id IN (SELECT value FROM json_each(?2)))
                           AND (?3 IS NULL OR q.id < ?3)
                         ORDER BY q.id DESC LIMIT ?4",
                        state,
                        visible,
                        before,
                        limit
                    )
                    .fetch(&self.readers),
                )
                .await,
                (None, None) => gather(
                    question_query!(
                        "WHERE (?1 IS NULL OR q.project_id IN (SELECT value FROM json_each(?1))) AND (?2 IS NULL OR q.id < ?2)
                         ORDER BY q.id DESC LIMIT ?3",
                        visible,
                        before,
                        limit
                    )
                    .fetch(&self.readers),
                )
                .await,
            }
            .map_err(told)?;
            Ok(all(rows)?)
        };
        in_time(read).await
    }

    async fn answer_question(&self, id: &QuestionId, answer: NewAnswer) -> Result<Question> {
        self.decide(id, Fate::Answered(answer)).await
    }

    async fn came_late(&self, id: &QuestionId) -> Result<bool> {
        let key = id.as_str();
        let late = sqlx::query_scalar!(
            r#"SELECT carried_to IS NOT NULL AS "late!: bool" FROM questions WHERE id = ?1"#,
            key
        )
        .fetch_optional(&self.readers)
        .await
        .map_err(told)?;
        Ok(late.unwrap_or(false))
    }

    async fn withdraw_question(&self, id: &QuestionId, by: Writer, reason: &str) -> Result<Question> {
        self.decide(id, Fate::Withdrawn { by, reason: reason.to_owned() }).await
    }

    async fn overdue_questions(&self, limit: u32) -> Result<Vec<Question>> {
        let (now, limit) = (self.clock.now().as_microsecond(), i64::from(limit));
        let rows = question_query!(
            "JOIN sandboxes AS s ON s.id = q.sandbox_id
             WHERE q.state = 'open' AND q.expires_at <= ?1 AND s.ended_at IS NULL
               AND (q.policy <> 'suspend'
                    OR s.provider <> 'external'
                       AND EXISTS (SELECT 1 FROM tasks AS t WHERE t.id = s.task_id AND t.attempt = s.attempt
                                                              AND t.status IN ('assigned', 'running')))
             ORDER BY q.expires_at LIMIT ?2",
            now,
            limit
        )
        .fetch(&self.readers);
        in_time(async {
            let (rows, _) = gather(rows).await.map_err(told)?;
            Ok(all(rows)?)
        })
        .await
    }

    async fn expire_question(&self, id: &QuestionId) -> Result<Question> {
        self.decide(id, Fate::Expired).await
    }
}
