//! Lists of questions.

use sunaba_store::{QuestionFilter, Result};
use sunaba_store_sql::rows::QuestionRow;
use sunaba_types::{ProjectId, Question, QuestionId, QuestionState, SandboxId};

use crate::PostgresStore;
use crate::fault::told;
use crate::page::{gather, in_time};
use crate::rows::{all, list};

/// Comes after every id.
const LAST: &str = "~";

impl PostgresStore {
    pub(super) async fn read_questions(&self, filter: &QuestionFilter) -> Result<Vec<Question>> {
        let state = filter.state.map(QuestionState::as_str);
        let before = filter.before.as_ref().map_or(LAST, QuestionId::as_str);
        let limit = i64::from(filter.limit);
        let visible = filter.visible_projects.as_ref().map(|ids| list(ids.iter().map(ProjectId::as_str)));
        let read = async {
            let rows = match (filter.sandbox_id.as_ref().map(SandboxId::as_str), visible, state) {
                (Some(key), visible, state) => {
                    self.questions_of_sandbox(key, visible.as_deref(), state, before, limit).await
                }
                (None, Some(visible), state) => {
                    self.questions_of_projects(visible, state, before, limit).await
                }
                (None, None, Some(state)) => self.questions_in_state(state, before, limit).await,
                (None, None, None) => self.newest_questions(before, limit).await,
            };
            Ok(all(rows.map_err(told)?)?)
        };
        in_time(read).await
    }

    async fn questions_of_sandbox(
        &self,
        key: &str,
        visible: Option<&[String]>,
        state: Option<&str>,
        before: &str,
        limit: i64,
    ) -> Result<Vec<QuestionRow>, sqlx::Error> {
        let rows = question_query!(
            "WHERE q.sandbox_id = $1 AND ($2::text IS NULL OR q.state = $2)
               AND ($3::text[] IS NULL OR q.project_id = ANY($3)) AND q.id < $4
             ORDER BY q.id DESC LIMIT $5",
            key,
            state,
            visible,
            before,
            limit
        )
        .fetch(&self.readers);
        Ok(gather(rows).await?.0)
    }

    /// The newest ones are looked for in every project and every state by itself, and the newest of those are read:
    /// what other projects have asked costs nothing.
    async fn questions_of_projects(
        &self,
        mut visible: Vec<String>,
        state: Option<&str>,
        before: &str,
        limit: i64,
    ) -> Result<Vec<QuestionRow>, sqlx::Error> {
        visible.sort_unstable();
        visible.dedup();
        let every = || QuestionState::ALL.iter().map(|state| state.as_str());
        let states = state.map_or_else(|| list(every()), |state| list([state]));
        let rows = question_query!(
            "JOIN (SELECT found.id FROM unnest($1::text[]) AS seen (project_id)
                   CROSS JOIN unnest($2::text[]) AS wanted (state)
                   CROSS JOIN LATERAL (SELECT n.id FROM questions AS n
                                       WHERE n.project_id = seen.project_id AND n.state = wanted.state AND n.id < $3
                                       ORDER BY n.id DESC LIMIT $4) AS found
                   ORDER BY found.id DESC LIMIT $4) AS page ON page.id = q.id
             ORDER BY q.id DESC",
            &visible,
            &states,
            before,
            limit
        )
        .fetch(&self.readers);
        Ok(gather(rows).await?.0)
    }

    async fn questions_in_state(
        &self,
        state: &str,
        before: &str,
        limit: i64,
    ) -> Result<Vec<QuestionRow>, sqlx::Error> {
        let rows = question_query!(
            "WHERE q.state = $1 AND q.id < $2 ORDER BY q.id DESC LIMIT $3",
            state,
            before,
            limit
        )
        .fetch(&self.readers);
        Ok(gather(rows).await?.0)
    }

    async fn newest_questions(&self, before: &str, limit: i64) -> Result<Vec<QuestionRow>, sqlx::Error> {
        let rows = question_query!("WHERE q.id < $1 ORDER BY q.id DESC LIMIT $2", before, limit)
            .fetch(&self.readers);
        Ok(gather(rows).await?.0)
    }
}
