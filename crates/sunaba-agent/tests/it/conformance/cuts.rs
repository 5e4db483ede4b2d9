//! Calls whose connection breaks when the answer has begun.

use super::stage::Kind;
use crate::fake_model::{Act, head, says, tail, text};

/// Half of an answer is none: the agent asks for the rest or for another one, and goes on.
pub(super) async fn call_cut_in_the_middle(kind: Kind) {
    let mut harness = kind.start(vec![Act::Cut(head() + &text(0, "let me think")), says("done")]).await;
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "the run failed: {outcome:?}");
    assert!(outcome.final_output.ends_with("done"), "{outcome:?}");
    assert_eq!(harness.model.requests().len(), 2, "the call was not made once more");
}

/// The last word was said, and only the connection's own end is missing.
pub(super) async fn call_cut_at_its_end(kind: Kind) {
    let whole = head() + &text(0, "all done") + &tail("end_turn");
    let mut harness = kind.start(vec![Act::Cut(whole), says("all done")]).await;
    let outcome = harness.outcome().await;
    assert!(outcome.success(), "the run failed: {outcome:?}");
    assert_eq!(outcome.final_output, "all done");
}
