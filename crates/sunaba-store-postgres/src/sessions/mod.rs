//! Conversations, and how a task goes on with one.

mod go_on;
mod waits;

use async_trait::async_trait;
use sunaba_store::{Error, FollowedUp, NewSandbox, NewTranscript, Result, SessionStore, Suspension, Writer};
use sunaba_types::limits::SESSIONS_MAX;
use sunaba_types::{BlobHash, NewMessage, ProjectId, Sandbox, SandboxId, TaskId, TranscriptRecord};

use crate::PostgresStore;
use crate::fault::Fault;
use crate::page::InTime as _;
use crate::rows::{all, list, readable, transcript_query};
use crate::unit::{Needs, Unit};
use crate::writer::Command;

pub(crate) use waits::note_answer;

/// Selects a living sandbox of the same project that works with a conversation, or is to, but for one.
macro_rules! holder_query {
    ($session:expr, $of:expr, $but:expr) => {
        sqlx::query_scalar!(
            "SELECT s.id FROM sandboxes AS s
             WHERE s.state IN ('pending', 'creating', 'running', 'completing')
               AND (s.terms::jsonb #>> '{resume,session_id}' = $1
                    AND coalesce(s.terms::jsonb #>> '{resume,fork}', 'false') = 'false'
                    OR EXISTS (SELECT 1 FROM transcripts AS x WHERE x.sandbox_id = s.id AND x.session_id = $1))
               AND s.project_id IS NOT DISTINCT FROM (SELECT o.project_id FROM sandboxes AS o WHERE o.id = $2)
               AND s.id <> $3
             LIMIT 1",
            $session,
            $of,
            $but
        )
    };
}

/// No sandbox is called so.
const NOBODY: &str = "";

struct PutTranscript {
    new: NewTranscript,
    by: Writer,
}

#[async_trait]
impl Command<Unit> for PutTranscript {
    type Output = Option<BlobHash>;

    fn needs(&self, needs: &mut Needs) {
        needs.sandbox(&self.new.sandbox_id);
    }

    async fn run(&self, unit: &mut Unit) -> Result<Option<BlobHash>, Fault> {
        let new = &self.new;
        let runtime = unit.draft.standing_sandbox(&new.sandbox_id, self.by)?.row.runtime.clone();
        let (key, session, hash) = (new.sandbox_id.as_str(), new.session_id.as_str(), new.hash.as_str());
        let before = sqlx::query!(
            r#"SELECT (SELECT count(*) FROM transcripts WHERE sandbox_id = $1) AS "count!",
                      (SELECT hash FROM transcripts WHERE sandbox_id = $1 AND session_id = $2) AS "hash?""#,
            key,
            session
        )
        .fetch_one(unit.sql())
        .await?;
        if before.hash.is_none() && before.count >= SESSIONS_MAX {
            let detail = format!("a sandbox has at most {SESSIONS_MAX} conversations kept");
            return Err(Error::Full { code: "too_many_sessions", detail }.into());
        }
        let now = unit.now().as_microsecond();
        sqlx::query!(
            "INSERT INTO transcripts (sandbox_id, session_id, runtime, hash, size_bytes, turns, updated_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7)
             ON CONFLICT (sandbox_id, session_id) DO UPDATE
             SET hash = excluded.hash, size_bytes = excluded.size_bytes, turns = excluded.turns,
                 updated_at = excluded.updated_at
             WHERE excluded.turns >= transcripts.turns",
            key,
            session,
            runtime,
            hash,
            new.size_bytes,
            new.turns,
            now
        )
        .execute(unit.sql())
        .await?;
        let Some(past) = before.hash else { return Ok(None) };
        unit.let_go_of_transcript(&new.sandbox_id, &past, &new.hash).await
    }
}

impl Unit {
    /// Of the two that were there and came, gives up the one that is not kept.
    async fn let_go_of_transcript(
        &mut self,
        id: &SandboxId,
        before: &str,
        came: &BlobHash,
    ) -> Result<Option<BlobHash>, Fault> {
        let key = id.as_str();
        let mut gone = None;
        for hash in [before, came.as_str()] {
            let removed = sqlx::query!(
                "DELETE FROM blobs WHERE hash = $1 AND owner = $2
                   AND NOT EXISTS (SELECT 1 FROM transcripts AS t WHERE t.sandbox_id = $2 AND t.hash = $1)",
                hash,
                key
            )
            .execute(self.sql())
            .await?;
            if removed.rows_affected() > 0 {
                gone = Some(readable(BlobHash::parse(hash), "transcripts", "hash", key)?);
            }
        }
        Ok(gone)
    }

    /// Refuses a sandbox that would write a conversation which another one has. The conversation's name is locked.
    pub(crate) async fn refuse_second_holder(&mut self, new: &NewSandbox) -> Result<(), Fault> {
        let Some(resume) = new.terms.resume.as_ref().filter(|resume| !resume.fork) else { return Ok(()) };
        let (session, of) = (resume.session_id.as_str(), resume.from.as_str());
        match holder_query!(session, of, NOBODY).fetch_optional(self.sql()).await? {
            Some(holder) => Err(sunaba_store::Error::session_in_use(&holder).into()),
            None => Ok(()),
        }
    }

    /// The sandbox that takes the place of a past one. Its conversation may be another's by now; then it has a copy.
    pub(crate) async fn with_own_conversation(
        &mut self,
        past: &SandboxId,
        new: &NewSandbox,
    ) -> Result<NewSandbox, Fault> {
        let mut new = new.clone();
        if let Some(resume) = new.terms.resume.as_mut().filter(|resume| !resume.fork) {
            let (session, of) = (resume.session_id.as_str(), resume.from.as_str());
            // Whoever is about to take it has its name locked; to wait for that would be out of order.
            let name = format!("session {session}");
            let is_free = sqlx::query_scalar!(
                r#"SELECT pg_try_advisory_xact_lock(hashtextextended($1, 5381)) AS "is_free!""#,
                name
            )
            .fetch_one(self.sql())
            .await?;
            let holder = holder_query!(session, of, past.as_str()).fetch_optional(self.sql()).await?;
            resume.fork = !is_free || holder.is_some();
        }
        Ok(new)
    }

    /// The last conversation of a sandbox's task.
    pub(crate) async fn last_transcript_of(
        &mut self,
        id: &SandboxId,
    ) -> Result<Option<TranscriptRecord>, Fault> {
        let Some(task) = self.draft.get_sandbox(id)?.row.task_id.clone() else { return Ok(None) };
        let key = task.as_str();
        let row = transcript_query!(
            "JOIN sandboxes AS s ON s.id = x.sandbox_id WHERE s.task_id = $1
             ORDER BY s.attempt DESC, x.updated_at DESC LIMIT 1",
            key
        )
        .fetch_optional(self.sql())
        .await?;
        Ok(row.map(TranscriptRecord::try_from).transpose()?)
    }
}

#[async_trait]
impl SessionStore for PostgresStore {
    async fn put_transcript(&self, new: NewTranscript, by: Writer) -> Result<Option<BlobHash>> {
        self.writer.run(PutTranscript { new, by }).await
    }

    async fn list_transcripts(&self, sandbox_id: &SandboxId) -> Result<Vec<TranscriptRecord>> {
        let key = sandbox_id.as_str();
        let rows = transcript_query!("WHERE x.sandbox_id = $1 ORDER BY x.updated_at DESC, x.session_id", key)
            .fetch_all(&self.readers)
            .in_time()
            .await?;
        Ok(all(rows)?)
    }

    async fn find_session(
        &self,
        session_id: &str,
        visible: Option<&[ProjectId]>,
    ) -> Result<Vec<TranscriptRecord>> {
        let visible = visible.map(|ids| list(ids.iter().map(ProjectId::as_str)));
        let rows = transcript_query!(
            "JOIN sandboxes AS s ON s.id = x.sandbox_id
             WHERE x.session_id = $1 AND ($2::text[] IS NULL OR s.project_id = ANY($2))
             ORDER BY x.updated_at DESC, x.sandbox_id DESC LIMIT 100",
            session_id,
            visible.as_deref()
        )
        .fetch_all(&self.readers)
        .in_time()
        .await?;
        Ok(all(rows)?)
    }

    async fn session_holder(&self, session_id: &str, of: &SandboxId) -> Result<Option<SandboxId>> {
        let of = of.as_str();
        let holder = holder_query!(session_id, of, NOBODY).fetch_optional(&self.readers).in_time().await?;
        Ok(holder.map(|id| readable(SandboxId::parse(&*id).ok(), "sandboxes", "id", &id)).transpose()?)
    }

    async fn last_transcript(&self, task_id: &TaskId) -> Result<Option<TranscriptRecord>> {
        let key = task_id.as_str();
        let row = transcript_query!(
            "JOIN sandboxes AS s ON s.id = x.sandbox_id WHERE s.task_id = $1
             ORDER BY s.attempt DESC, x.updated_at DESC LIMIT 1",
            key
        )
        .fetch_optional(&self.readers)
        .in_time()
        .await?;
        Ok(row.map(TranscriptRecord::try_from).transpose()?)
    }

    async fn follow_up(&self, message: NewMessage) -> Result<FollowedUp> {
        self.writer.run(go_on::FollowUp(message)).await
    }

    async fn suspend(&self, sandbox_id: &SandboxId, suspension: Suspension) -> Result<Sandbox> {
        self.writer.run(waits::Suspend { id: sandbox_id.clone(), suspension }).await
    }

    async fn due_waits(&self, limit: u32) -> Result<Vec<SandboxId>> {
        self.read_due_waits(limit).await
    }

    async fn wake(&self, sandbox_id: &SandboxId) -> Result<Option<Sandbox>> {
        self.writer.run(waits::Wake(sandbox_id.clone())).await
    }

    async fn replace_died_sandbox(
        &self,
        sandbox_id: &SandboxId,
        reason: &str,
        most_deaths: i64,
    ) -> Result<Option<Sandbox>> {
        let id = sandbox_id.clone();
        self.writer.run(go_on::ReplaceDied { id, reason: reason.to_owned(), most_deaths }).await
    }
}
