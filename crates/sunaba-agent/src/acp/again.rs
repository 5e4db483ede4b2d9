//! The same process takes its session up again, from what it wrote down.

use serde_json::json;
use tokio::time::timeout;

use super::run::Run;
use super::wire::{self, Heard};
use super::{AcpAgent, gemini};
use crate::RunError;
use crate::child::Read;

impl Run {
    /// Has the agent forget what it could not finish; another process does it when this one does not.
    pub(super) async fn take_up_again(&mut self) -> Result<(), RunError> {
        if self.config.agent == AcpAgent::Gemini
            && let Err(error) = gemini::make_ready(&self.dir, &self.session)
        {
            tracing::warn!(%error, "the conversation's record cannot be made ready");
        }
        let asked = self.next_id;
        self.next_id += 1;
        let params = json!({"sessionId": self.session, "cwd": self.ctx.cwd, "mcpServers": []});
        self.process.send(&wire::request(asked, "session/load", &params))?;
        match timeout(self.config.interrupt_patience, self.is_loaded(asked)).await {
            Ok(Ok(true)) => Ok(()),
            Ok(Err(error)) => Err(error),
            Ok(Ok(false)) | Err(_) => {
                tracing::warn!("the agent's program did not take its session up again; it is ended");
                self.replace_process().await
            }
        }
    }

    /// Reads on until it is known. What it tells meanwhile is the past.
    async fn is_loaded(&mut self, asked: u64) -> Result<bool, RunError> {
        loop {
            let bytes = match self.process.next_line().await {
                Some(Read::Whole(bytes)) => bytes,
                Some(Read::TooLong { .. }) => continue,
                None => return Ok(false),
            };
            match Heard::read(&bytes) {
                Ok(Heard::Answered { id, answer }) if id == asked => return Ok(answer.is_ok()),
                Ok(Heard::Asked { id, .. }) => self.process.send(&wire::refusal(&id, "not now"))?,
                Ok(_) | Err(_) => {}
            }
        }
    }
}
