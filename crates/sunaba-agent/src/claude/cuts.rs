//! The CLI gave up a call in the middle of its answer: it is asked for the rest.

use tokio::time::Instant;

use super::run::{NEXT_TURN_PATIENCE, Phase, Run};
use crate::child::{GO_ON, LOST_CALL};
use crate::{Ending, RunError, StreamErrorType};

impl Run {
    /// Asks for the rest of an answer, unless that was of no use again and again.
    pub(super) fn cut_off(&mut self, error: RunError) -> Result<Option<Ending>, RunError> {
        if !self.cuts.another(self.story.turns) {
            return Ok(Some(Ending::Failed(error)));
        }
        self.story.calls.give_up(LOST_CALL);
        self.story.stream_error(error.message, StreamErrorType::Unknown, true);
        // What somebody has said meanwhile is in the CLI's hands already and comes after this.
        let line = self.outbox.say(GO_ON);
        self.phase = Phase::Between(Instant::now() + NEXT_TURN_PATIENCE);
        self.process.send(&line).map(|()| None)
    }
}
