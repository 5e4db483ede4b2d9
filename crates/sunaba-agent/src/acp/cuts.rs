//! The agent gave up a turn: the end, or only a call that was cut in the middle of its answer.

use super::refused;
use super::run::{Progress, Run};
use super::wire::Refusal;
use crate::child::{Cuts, GO_ON, LOST_CALL};
use crate::{Ending, ErrorClass, Incoming, RunError, StreamErrorType};

/// What was cut so far in this run.
#[derive(Debug, Default)]
pub(super) struct CutTurns {
    cuts: Cuts,
    /// Prompts before this one were of the turn that was cut last.
    pub(super) before: u64,
}

impl Run {
    /// Asks for the rest of an answer that was cut. What the agent was told and the model never heard is said again,
    /// here or in another run.
    pub(super) fn gave_up(
        &mut self,
        prompt: u64,
        refusal: &Refusal,
        unheard: Vec<Incoming>,
    ) -> Result<Progress, RunError> {
        let had_begun = self.story.has_begun();
        self.story.end_answer();
        self.outbox.hold_first(unheard);
        let error = refused::error(self.config.agent.preset(), refusal);
        // One that is being stopped gives up because of that.
        let may_go_on = error.class == ErrorClass::Network && !self.is_stopping;
        if may_go_on && prompt < self.cut.before {
            // It was in the same turn, and the agent is asked to go on already.
            return self.go_on_after_cut();
        }
        if !(may_go_on && had_begun && self.cut.cuts.another(self.story.turns)) {
            return Ok(Progress::Over(Ending::Failed(error)));
        }
        self.cut.before = self.next_id;
        self.withdraw_questions()?;
        self.story.calls.give_up(LOST_CALL);
        self.story.stream_error(error.message, StreamErrorType::Unknown, true);
        self.outbox.remark(GO_ON.to_owned());
        self.go_on_after_cut()
    }

    fn go_on_after_cut(&mut self) -> Result<Progress, RunError> {
        // Others that it was given may have a turn of their own before it.
        self.between();
        self.flush().map(|()| Progress::On)
    }

    /// Says again what the agent was given in a turn that was cut, and never answered. Whether there was something.
    pub(super) fn say_again_after_cut(&mut self) -> Result<bool, RunError> {
        if !self.outbox.has_older_than(self.cut.before) {
            return Ok(false);
        }
        self.outbox.dropped();
        self.flush()?;
        Ok(self.outbox.is_under_way())
    }
}
