//! Model calls that were cut in the middle of an answer. A program tries a call again that was never answered, and may
//! give up one that was cut later; the conversation is whole up to there, so it is asked to go on.

/// So many calls may be cut one after the other. Each of them has been answered in part, so the line is not dead.
const IN_A_ROW: u32 = 5;
/// What the agent is asked.
pub(crate) const GO_ON: &str = "The connection to the model was cut in the middle of your last answer, and the end of \
                                it is lost. Go on from where you were; what was done before is still done.";
/// What is told of a tool call that was asked for in the lost answer.
pub(crate) const LOST_CALL: &str = "[the connection to the model was cut]";

/// How often it was cut without getting any further.
#[derive(Debug, Default)]
pub(crate) struct Cuts {
    in_a_row: u32,
    last_turn: u32,
}

impl Cuts {
    /// Counts one more; whether it is worth to go on.
    pub(crate) fn another(&mut self, turn: u32) -> bool {
        let is_next = turn <= self.last_turn + 1;
        self.in_a_row = if is_next { self.in_a_row + 1 } else { 1 };
        self.last_turn = turn;
        self.in_a_row <= IN_A_ROW
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
