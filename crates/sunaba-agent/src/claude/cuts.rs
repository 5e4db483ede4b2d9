//! Calls that were cut in the middle of an answer. The CLI tries a call again that was never answered, and gives up
//! one that was cut later; the conversation is whole up to there, so it goes on.

use tokio::time::Instant;

use super::run::{NEXT_TURN_PATIENCE, Phase, Run};
use crate::{Ending, RunError, StreamErrorType};

/// So many calls may be cut one after the other. Each of them has been answered in part, so the line is not dead.
const IN_A_ROW: u32 = 5;
const WORDS: &str = "The connection to the model was cut in the middle of your last answer, and the end of it is lost. \
                     Go on from where you were; what was done before is still done.";

/// How often it was cut without getting any further.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    in_a_row: u32,
    last_turn: u32,
}

impl Cuts {
    /// Counts one more; whether it is worth to go on.
    fn another(&mut self, turn: u32) -> bool {
        let is_next = turn <= self.last_turn + 1;
        self.in_a_row = if is_next { self.in_a_row + 1 } else { 1 };
        self.last_turn = turn;
        self.in_a_row <= IN_A_ROW
    }
}

impl Run {
    /// Asks for the rest of an answer, unless that was of no use again and again.
    pub(super) fn cut_off(&mut self, error: RunError) -> Result<Option<Ending>, RunError> {
        if !self.cuts.another(self.story.turns) {
            return Ok(Some(Ending::Failed(error)));
        }
        self.story.calls.give_up("[the connection to the model was cut]");
        self.story.stream_error(error.message, StreamErrorType::Unknown, true);
        // What somebody has said meanwhile is in the CLI's hands already and comes after this.
        let line = self.outbox.say(WORDS);
        self.phase = Phase::Between(Instant::now() + NEXT_TURN_PATIENCE);
        self.process.send(&line).map(|()| None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_gives_up_when_it_gets_no_further_and_not_before() {
        let mut cuts = Cuts::default();
        assert!((1..=IN_A_ROW).all(|turn| cuts.another(turn)));
        assert!(!cuts.another(IN_A_ROW + 1));
        assert!(cuts.another(IN_A_ROW + 3), "it had got further");
    }
}
