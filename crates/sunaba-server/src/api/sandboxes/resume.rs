//! The conversation that a new sandbox is asked to go on with.

use sunaba_types::{ProjectId, Resume, ResumeCause, Sandbox, TranscriptRecord};

use crate::auth::{Identity, may_see_sandbox};
use crate::extract::{Fields, Text};
use crate::{ApiError, AppState};

const NAME: Text = Text { min: 1, max: 100 };

/// What a body says of it.
#[derive(Debug)]
pub(super) struct Asked {
    session_id: String,
    fork: bool,
}

/// A conversation that may be gone on with.
#[derive(Debug)]
pub(super) struct Session {
    record: TranscriptRecord,
    /// The sandbox that sent it.
    pub(super) of: Sandbox,
    fork: bool,
}

/// Reads `resume_session_id` and `fork`.
pub(super) fn read(fields: &mut Fields<'_>) -> Option<Asked> {
    let session_id = fields.text("resume_session_id", NAME);
    let fork: Option<bool> = fields.optional("fork", "true or false");
    if fork == Some(true) && fields.raw("resume_session_id").is_none() {
        fields.fault("fork", "needs resume_session_id: the conversation that is forked");
    }
    Some(Asked { session_id: session_id?, fork: fork.unwrap_or(false) })
}

/// Finds it where the caller may look; the newest, if several sandboxes went on with it.
pub(super) async fn find(state: &AppState, identity: &Identity, asked: &Asked) -> Result<Session, ApiError> {
    let visible = identity.visible_projects();
    for record in state.store().find_session(&asked.session_id, visible.as_deref()).await? {
        let Some(of) = state.store().find_sandbox(&record.sandbox_id).await? else { continue };
        if !may_see_sandbox(identity, &of) {
            continue;
        }
        // Looked at again when the sandbox is made, and then nobody comes in between.
        if !asked.fork
            && let Some(holder) = state.store().session_holder(&asked.session_id, &of.id).await?
        {
            return Err(sunaba_store::Error::session_in_use(holder.as_str()).into());
        }
        return Ok(Session { record, of, fork: asked.fork });
    }
    Err(ApiError::field(
        "resume_session_id",
        "names no conversation that is kept where this token may read; GET /api/v1/sandboxes/{id}/transcripts lists \
         those of a sandbox, and without this field a new one is begun",
    ))
}

impl Session {
    /// The runtime, which must be the one that can read it.
    pub(super) fn runtime(&self, asked: Option<&str>) -> Result<String, ApiError> {
        let own = &self.record.runtime;
        match asked {
            Some(other) if other != own => Err(ApiError::field(
                "runtime",
                format!("must be {own}, which alone can go on with this conversation"),
            )),
            _ => Ok(own.clone()),
        }
    }

    /// Refuses a project that is not the conversation's.
    pub(super) fn check_project(&self, project: &ProjectId) -> Result<(), ApiError> {
        if self.of.project_id.as_ref() == Some(project) {
            return Ok(());
        }
        Err(ApiError::field("resume_session_id", "is a conversation about another project"))
    }

    /// As it stands in the terms of a sandbox.
    pub(super) fn terms(&self) -> Resume {
        Resume {
            session_id: self.record.session_id.clone(),
            from: self.of.id.clone(),
            fork: self.fork,
            because: ResumeCause::Asked,
            until: None,
        }
    }
}
