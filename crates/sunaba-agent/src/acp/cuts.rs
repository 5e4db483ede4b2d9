//! The agent gave up a turn: the end, or only a call that was cut in the middle of its answer.

use super::refused;
use super::run::{Progress, Run};
use super::wire::Refusal;
use crate::child::{GO_ON, LOST_CALL};
use crate::{Ending, ErrorClass, Incoming, RunError, StreamErrorType};

impl Run {
    /// Asks for the rest of an answer that was cut. What the agent was told and the model never heard is said again,
    /// here or in another run.
    pub(super) fn gave_up(
        &mut self,
        refusal: &Refusal,
        unheard: Vec<Incoming>,
    ) -> Result<Progress, RunError> {
        let was_answering = self.story.is_answering();
        self.story.end_answer();
        self.outbox.hold_first(unheard);
        let error = refused::error(self.config.agent.preset(), refusal);
        let is_cut = was_answering && error.class == ErrorClass::Network;
        if !is_cut || !self.cuts.another(self.story.turns) {
            return Ok(Progress::Over(Ending::Failed(error)));
        }
        self.story.calls.give_up(LOST_CALL);
        self.story.stream_error(error.message, StreamErrorType::Unknown, true);
        self.outbox.remark(GO_ON.to_owned());
        // Others that it was given have a turn of their own before it.
        self.between();
        self.flush().map(|()| Progress::On)
    }
}
