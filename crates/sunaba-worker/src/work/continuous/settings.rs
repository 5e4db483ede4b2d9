//! What continuous mode is told through the environment.

use std::str::FromStr;
use std::time::Duration;

use crate::work::config::{ConfigError, Lookup};
use crate::work::native::flag;

const MAX_ITERATIONS_DEFAULT: u32 = 10;
const MAX_TOTAL_COST_USD_DEFAULT: f64 = 20.0;
const MAX_DURATION_SECONDS_DEFAULT: f64 = 3600.0;
const MAX_CONSECUTIVE_ERRORS_DEFAULT: u32 = 3;
const SIGNAL_DEFAULT: &str = "TASK_COMPLETE";
const THRESHOLD_DEFAULT: u32 = 1;
/// Longer is as good as no limit, and a moment in time has to exist.
const DURATION_MAX_SECONDS: f64 = 365.0 * 24.0 * 3600.0;

/// When a continuous run is over, and what has to be there.
#[derive(Debug, Clone, PartialEq)]
pub struct Continuous {
    /// Most iterations.
    pub max_iterations: u32,
    /// What all of it may cost; looked at between iterations.
    pub max_total_cost_usd: f64,
    /// How long all of it may take.
    pub max_duration: Duration,
    /// Most iterations in a row that fail.
    pub max_consecutive_errors: u32,
    /// What the agent says when it believes that it is done.
    pub signal: String,
    /// In how many iterations in a row it has to say so before evidence is looked for.
    pub threshold: u32,
    /// Nothing is left uncommitted.
    pub require_clean_git: bool,
    /// The commits are on the remote's branch.
    pub require_code_pushed: bool,
    /// The check passes.
    pub require_tests: bool,
    /// How the repository tells whether the work is good.
    pub check_command: Option<String>,
}

impl Continuous {
    /// Reads it; none when the mode is not wanted.
    pub(crate) fn read(lookup: Lookup<'_>) -> Result<Option<Self>, ConfigError> {
        if flag(lookup, "CONTINUOUS_MODE")? != Some(true) {
            return Ok(None);
        }
        let check_command = said(lookup, "CHECK_COMMAND");
        let asked = |name, otherwise: bool| Ok::<_, ConfigError>(flag(lookup, name)?.unwrap_or(otherwise));
        let seconds = number(lookup, "MAX_DURATION_SECONDS", MAX_DURATION_SECONDS_DEFAULT, is_positive)?;
        let settings = Self {
            max_iterations: number(lookup, "MAX_ITERATIONS", MAX_ITERATIONS_DEFAULT, |count| *count > 0)?,
            max_total_cost_usd: number(
                lookup,
                "MAX_TOTAL_COST_USD",
                MAX_TOTAL_COST_USD_DEFAULT,
                is_positive,
            )?,
            max_duration: Duration::from_secs_f64(seconds.min(DURATION_MAX_SECONDS)),
            max_consecutive_errors: number(
                lookup,
                "MAX_CONSECUTIVE_ERRORS",
                MAX_CONSECUTIVE_ERRORS_DEFAULT,
                |count| *count > 0,
            )?,
            signal: said(lookup, "COMPLETION_SIGNAL").unwrap_or_else(|| SIGNAL_DEFAULT.to_owned()),
            threshold: number(lookup, "COMPLETION_THRESHOLD", THRESHOLD_DEFAULT, |count| *count > 0)?,
            require_clean_git: asked("REQUIRE_CLEAN_GIT", true)?,
            require_code_pushed: asked("REQUIRE_CODE_PUSHED", true)?,
            require_tests: asked("REQUIRE_TESTS", check_command.is_some())?,
            check_command,
        };
        let impossible = |name, why| ConfigError::Impossible { name, value: "true".to_owned(), why };
        if settings.require_tests && settings.check_command.is_none() {
            return Err(impossible("REQUIRE_TESTS", "the repository names no check in .sunaba.yaml"));
        }
        if asked("REQUIRE_PR_CREATED", false)? {
            return Err(impossible("REQUIRE_PR_CREATED", "a pull request cannot be observed in a sandbox"));
        }
        Ok(Some(settings))
    }
}

fn said(lookup: Lookup<'_>, name: &str) -> Option<String> {
    lookup(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn is_positive(number: &f64) -> bool {
    number.is_finite() && *number > 0.0
}

fn number<T: FromStr>(
    lookup: Lookup<'_>,
    name: &'static str,
    otherwise: T,
    fits: impl Fn(&T) -> bool,
) -> Result<T, ConfigError> {
    let Some(value) = said(lookup, name) else { return Ok(otherwise) };
    match value.parse() {
        Ok(number) if fits(&number) => Ok(number),
        _ => Err(ConfigError::Impossible { name, value, why: "a number above 0" }),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Settings of these variables, besides the one that switches the mode on.
    pub(crate) fn settings(pairs: &[(&str, &str)]) -> Result<Continuous, ConfigError> {
        let pairs: Vec<_> = pairs.iter().chain(&[("CONTINUOUS_MODE", "true")]).collect();
        let lookup = |name: &str| pairs.iter().find(|(key, _)| *key == name).map(|pair| pair.1.to_owned());
        Continuous::read(&lookup).map(Option::unwrap)
    }

    #[test]
    fn the_contract_s_defaults_hold_and_what_cannot_be_is_refused() {
        assert_eq!(Continuous::read(&|_| None), Ok(None));
        let plain = settings(&[]).unwrap();
        assert_eq!((plain.max_iterations, plain.max_consecutive_errors, plain.threshold), (10, 3, 1));
        assert_eq!((plain.signal.as_str(), plain.max_duration.as_secs()), ("TASK_COMPLETE", 3600));
        assert!(plain.require_clean_git && plain.require_code_pushed && !plain.require_tests);
        assert!(settings(&[("CHECK_COMMAND", "make test")]).unwrap().require_tests);
        for (name, value) in [
            ("MAX_ITERATIONS", "0"),
            ("MAX_TOTAL_COST_USD", "NaN"),
            ("MAX_DURATION_SECONDS", "-1"),
            ("COMPLETION_THRESHOLD", "many"),
            ("REQUIRE_TESTS", "true"),
            ("REQUIRE_PR_CREATED", "1"),
            ("REQUIRE_CLEAN_GIT", "perhaps"),
        ] {
            let error = settings(&[(name, value)]).unwrap_err().to_string();
            assert!(error.starts_with(name), "{error}");
        }
    }
}
