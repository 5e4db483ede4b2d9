//! The end of a continuous run, and why it was no good one.

use serde_json::{Map, Value};
use sunaba_agent::{Ending, ErrorClass, RunError, RunOutcome, Usage};

use super::progress::{State, StopReason};
use super::prompts::Why;
use crate::work::repository::Captured;

/// How a continuous run ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(super) state: State,
    pub(super) stop: StopReason,
    /// Whether everything is committed and at the remote, so that nothing has to be made safe.
    pub(crate) is_safe: bool,
    /// Why it did not come to a good end.
    pub(crate) error: Option<RunError>,
    pub(crate) tests_passed: Option<bool>,
}

impl Ended {
    /// What is told of it, once the work is safe.
    pub(crate) fn told(mut self, success: bool, captured: &Captured, pushed: bool) -> Map<String, Value> {
        self.state.validation_passed &= success;
        self.state.code_committed = captured.committed;
        self.state.code_pushed = pushed;
        self.state.files_changed = captured.files_changed;
        let mut fields = self.state.fields();
        fields.insert("stop_reason".to_owned(), self.stop.as_str().into());
        fields
    }
}

/// Why a run is over that nobody ended and that is not done.
pub(super) fn not_done(stop: StopReason, state: &State, why: &Why) -> Option<RunError> {
    let words = match stop {
        StopReason::MaxIterations => format!("{} iterations", state.iteration_num),
        StopReason::MaxCost => format!("spending {:.2} US dollars", state.total_cost_usd.unwrap_or_default()),
        StopReason::MaxDuration => format!("{} s", state.elapsed_seconds.round()),
        StopReason::Completed
        | StopReason::MaxConsecutiveErrors
        | StopReason::Interrupted
        | StopReason::Cancelled => return None,
    };
    let missing = match why {
        Why::Missing(missing) => format!("; still missing: {}", missing.join("; ")),
        Why::First | Why::NotDone | Why::SayAgain | Why::Failed(_) => String::new(),
    };
    let message = format!("not done after {words}{missing}");
    Some(RunError { class: ErrorClass::MaxTurns, message })
}

/// The outcome of a run without an iteration.
pub(super) fn nothing_done() -> RunOutcome {
    RunOutcome {
        ending: Ending::Cancelled,
        turns: 0,
        usage: Usage::default(),
        session_id: String::new(),
        transcript: None,
        final_output: String::new(),
        undelivered: Vec::new(),
    }
}
