//! How far a continuous run is, and what that means for it. No clock, no processes: only the decisions.

use serde::Serialize;
use serde_json::{Map, Value};

use super::evidence::Evidence;
use super::settings::Continuous;

/// What every event of a continuous run carries.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub(super) struct State {
    pub(super) iteration_num: u32,
    pub(super) successful_iterations: u32,
    pub(super) error_count: u32,
    /// None as long as nobody could say.
    pub(super) total_cost_usd: Option<f64>,
    pub(super) completion_signal_count: u32,
    pub(super) elapsed_seconds: f64,
    pub(super) last_session_id: Option<String>,
    pub(super) validation_passed: bool,
    pub(super) tests_passed: Option<bool>,
    pub(super) code_committed: bool,
    pub(super) code_pushed: bool,
    pub(super) pr_created: bool,
    pub(super) pr_url: Option<String>,
    pub(super) pr_number: Option<u64>,
    pub(super) files_changed: usize,
    pub(super) ci_status: Option<String>,
}

impl State {
    pub(super) fn fields(&self) -> Map<String, Value> {
        match serde_json::to_value(self) {
            Ok(Value::Object(fields)) => fields,
            _ => Map::new(),
        }
    }
}

/// Why it is over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StopReason {
    Completed,
    MaxIterations,
    MaxCost,
    MaxDuration,
    MaxConsecutiveErrors,
    Interrupted,
    Cancelled,
}

impl StopReason {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Completed => "completed",
            Self::MaxIterations => "max_iterations",
            Self::MaxCost => "max_cost",
            Self::MaxDuration => "max_duration",
            Self::MaxConsecutiveErrors => "max_consecutive_errors",
            Self::Interrupted => "interrupted",
            Self::Cancelled => "cancelled",
        }
    }
}

/// What comes after an iteration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    GoOn,
    /// It says that it is done, often enough.
    Validate,
    Stop(StopReason),
}

#[derive(Debug, Default)]
pub(super) struct Progress {
    pub(super) state: State,
    consecutive_errors: u32,
}

impl Progress {
    /// Why no further iteration may begin.
    pub(super) fn limit(&self, settings: &Continuous) -> Option<StopReason> {
        let state = &self.state;
        if state.elapsed_seconds >= settings.max_duration.as_secs_f64() {
            Some(StopReason::MaxDuration)
        } else if state.total_cost_usd.is_some_and(|cost| cost >= settings.max_total_cost_usd) {
            Some(StopReason::MaxCost)
        } else if state.iteration_num >= settings.max_iterations {
            Some(StopReason::MaxIterations)
        } else {
            None
        }
    }

    /// An iteration came to its end; `says_done` is whether the signal was in its last words.
    pub(super) fn worked(&mut self, settings: &Continuous, says_done: bool) -> Next {
        self.state.successful_iterations += 1;
        self.consecutive_errors = 0;
        self.state.completion_signal_count =
            if says_done { self.state.completion_signal_count + 1 } else { 0 };
        if self.state.completion_signal_count >= settings.threshold { Next::Validate } else { Next::GoOn }
    }

    /// An iteration failed.
    pub(super) fn failed(&mut self, settings: &Continuous) -> Next {
        self.state.error_count += 1;
        self.state.completion_signal_count = 0;
        self.consecutive_errors += 1;
        match self.consecutive_errors >= settings.max_consecutive_errors {
            true => Next::Stop(StopReason::MaxConsecutiveErrors),
            false => Next::GoOn,
        }
    }

    /// Evidence was looked for; whether all of it is there.
    pub(super) fn seen(&mut self, evidence: &Evidence, is_all_there: bool) {
        let state = &mut self.state;
        state.validation_passed = is_all_there;
        state.tests_passed = evidence.tests_passed();
        state.code_committed = evidence.captured.committed;
        state.code_pushed = evidence.pushed;
        state.files_changed = evidence.captured.files_changed;
        if !is_all_there {
            // Its word did not hold; it has to give it anew.
            state.completion_signal_count = 0;
        }
    }
}

/// Whether these words say the signal, as a word of its own.
pub(super) fn says(words: &str, signal: &str) -> bool {
    let is_part = |character: Option<char>| character.is_some_and(|c| c.is_alphanumeric() || c == '_');
    words.match_indices(signal).any(|(at, found)| {
        !is_part(words[..at].chars().next_back()) && !is_part(words[at + found.len()..].chars().next())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::work::continuous::check::Check;
    use crate::work::continuous::settings::tests::settings;
    use crate::work::repository::Captured;

    fn at(change: impl FnOnce(&mut State)) -> Progress {
        let mut progress = Progress::default();
        change(&mut progress.state);
        progress
    }

    #[test]
    fn each_limit_ends_it() {
        let settings = settings(&[("MAX_DURATION_SECONDS", "60"), ("MAX_ITERATIONS", "2")]).unwrap();
        let limit = |progress: Progress| progress.limit(&settings);
        assert_eq!(limit(Progress::default()), None);
        assert_eq!(limit(at(|state| state.iteration_num = 1)), None);
        assert_eq!(limit(at(|state| state.iteration_num = 2)), Some(StopReason::MaxIterations));
        assert_eq!(limit(at(|state| state.elapsed_seconds = 60.0)), Some(StopReason::MaxDuration));
        assert_eq!(limit(at(|state| state.total_cost_usd = Some(19.9))), None);
        assert_eq!(limit(at(|state| state.total_cost_usd = Some(20.0))), Some(StopReason::MaxCost));
    }

    #[test]
    fn errors_count_in_a_row_and_in_all() {
        let settings = settings(&[("MAX_CONSECUTIVE_ERRORS", "2")]).unwrap();
        let mut progress = Progress::default();
        assert_eq!(progress.failed(&settings), Next::GoOn);
        assert_eq!(progress.worked(&settings, false), Next::GoOn);
        assert_eq!(progress.failed(&settings), Next::GoOn);
        assert_eq!(progress.failed(&settings), Next::Stop(StopReason::MaxConsecutiveErrors));
        assert_eq!((progress.state.error_count, progress.state.successful_iterations), (3, 1));
    }

    #[test]
    fn its_word_counts_when_it_is_given_often_enough_in_a_row() {
        let settings = settings(&[("COMPLETION_THRESHOLD", "2")]).unwrap();
        let mut progress = Progress::default();
        assert_eq!(progress.worked(&settings, true), Next::GoOn);
        assert_eq!(progress.worked(&settings, false), Next::GoOn);
        assert_eq!(progress.worked(&settings, true), Next::GoOn);
        assert_eq!(progress.worked(&settings, true), Next::Validate);
        let nothing =
            Evidence { clean: None, captured: Captured::default(), pushed: false, check: Check::NotRun };
        progress.seen(&nothing, false);
        assert_eq!(progress.state.completion_signal_count, 0, "a word that did not hold is none");
    }

    #[test]
    fn the_signal_is_a_word_of_its_own() {
        for words in ["TASK_COMPLETE", "All done.\n**TASK_COMPLETE**", "TASK_COMPLETE!"] {
            assert!(says(words, "TASK_COMPLETE"), "{words}");
        }
        for words in ["", "TASK_COMPLETED", "NOT_TASK_COMPLETE", "task_complete"] {
            assert!(!says(words, "TASK_COMPLETE"), "{words}");
        }
    }

    #[test]
    fn the_block_is_the_contract_s() {
        let fields = State::default().fields();
        let names: Vec<_> = fields.keys().map(String::as_str).collect();
        let mut expected = [
            "iteration_num",
            "successful_iterations",
            "error_count",
            "total_cost_usd",
            "completion_signal_count",
            "elapsed_seconds",
            "last_session_id",
            "validation_passed",
            "tests_passed",
            "code_committed",
            "code_pushed",
            "pr_created",
            "pr_url",
            "pr_number",
            "files_changed",
            "ci_status",
        ];
        let mut names = names;
        names.sort_unstable();
        expected.sort_unstable();
        assert_eq!(names, expected);
    }
}
