//! On what terms a sandbox is asked for: budget, time, isolation, environment, resources.
//!
//! What the call says counts before what its project says, and that before what the server is set to.

use std::collections::BTreeMap;

use sunaba_types::{ExecutionConfig, IsolationWanted, ProjectSettings, ResourcesWanted, Terms};

use super::env;
use crate::ServerConfig;
use crate::api::execution;
use crate::extract::Fields;

/// The longest a sandbox may be asked to run: thirty days.
const TIMEOUT_MAX_SECONDS: i64 = 30 * 24 * 3600;
/// The longest a sandbox may wait for a follow-up: a day.
const FOLLOW_UP_MAX_MINUTES: f64 = 1440.0;
const BUDGET_MAX_USD: f64 = 1_000_000_000.0;
/// What a budget must be.
pub(crate) const BUDGET_WORDS: &str = "must be 0 or more and at most 1000000000";

/// The terms a body names.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) budget_usd: Option<f64>,
    pub(super) timeout_seconds: Option<i64>,
    pub(super) isolation: Option<IsolationWanted>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) execution_config: ExecutionConfig,
    pub(super) resources: ResourcesWanted,
    pub(super) follow_up_seconds: Option<i64>,
}

/// Reads the terms of a body.
pub(super) fn read(fields: &mut Fields<'_>) -> Asked {
    let budget_usd: Option<f64> = fields.optional("budget_usd", "a number");
    if budget_usd.is_some_and(|usd| !is_budget(usd)) {
        fields.fault("budget_usd", BUDGET_WORDS);
    }
    let timeout_seconds: Option<i64> = fields.optional("timeout_seconds", "a whole number");
    if timeout_seconds.is_some_and(|seconds| !(1..=TIMEOUT_MAX_SECONDS).contains(&seconds)) {
        fields.fault("timeout_seconds", format!("must be from 1 to {TIMEOUT_MAX_SECONDS}"));
    }
    let isolation = fields.word("isolation", IsolationWanted::ALL, IsolationWanted::as_str);
    let mut env = env::read(fields);
    let in_variables = env::take_execution(fields, &mut env);
    let execution_config = execution::read(fields).or(&in_variables);
    let resources: ResourcesWanted = fields.optional("resources", "an object of numbers").unwrap_or_default();
    for (name, number) in numbers(&resources) {
        if !is_amount(number) {
            fields.fault(&format!("resources.{name}"), "must be above 0 and at most 4096");
        }
    }
    let follow_up_seconds = follow_up(fields);
    Asked { budget_usd, timeout_seconds, isolation, env, execution_config, resources, follow_up_seconds }
}

#[expect(clippy::cast_possible_truncation, reason = "within a day")]
fn follow_up(fields: &mut Fields<'_>) -> Option<i64> {
    let minutes: Option<f64> = fields.optional("follow_up_minutes", "a number");
    if minutes.is_some_and(|minutes| !(0.0..=FOLLOW_UP_MAX_MINUTES).contains(&minutes)) {
        fields.fault("follow_up_minutes", format!("must be from 0 to {FOLLOW_UP_MAX_MINUTES}"));
        return None;
    }
    minutes.map(|minutes| (minutes * 60.0).ceil() as i64)
}

/// What holds in the end.
pub(super) fn settle(asked: &Asked, project: &ProjectSettings, config: &ServerConfig) -> Terms {
    Terms {
        budget_usd: asked.budget_usd.or(project.budget_usd).or(config.default_budget_usd),
        timeout_seconds: asked.timeout_seconds.or(config.default_timeout_seconds),
        isolation: asked.isolation.unwrap_or_else(|| isolation_unasked(project, config)),
        env: asked.env.clone(),
        execution_config: asked
            .execution_config
            .or(&project.execution_config)
            .or(&config.default_execution_config),
        follow_up_seconds: asked.follow_up_seconds,
        ..Terms::default()
    }
}

/// The isolation that holds when a call does not say.
pub(super) fn isolation_unasked(project: &ProjectSettings, config: &ServerConfig) -> IsolationWanted {
    project.isolation.unwrap_or(config.default_isolation)
}

/// Whether one accepts less than the other.
pub(crate) fn is_weaker(one: IsolationWanted, other: IsolationWanted) -> bool {
    let rank = |wanted| match wanted {
        IsolationWanted::Strict => 2,
        IsolationWanted::Sampled => 1,
        IsolationWanted::Any => 0,
    };
    rank(one) < rank(other)
}

/// The resources that are given, by name.
pub(crate) fn numbers(given: &ResourcesWanted) -> impl Iterator<Item = (&'static str, f64)> + use<> {
    let all = [("memory_gb", given.memory_gb), ("cpu", given.cpu), ("disk_gb", given.disk_gb)];
    all.into_iter().filter_map(|(name, number)| Some((name, number?)))
}

/// Whether a number can be an amount of a resource.
pub(crate) fn is_amount(number: f64) -> bool {
    number.is_finite() && number > 0.0 && number <= 4096.0
}

/// Whether a number can be a budget.
pub(crate) fn is_budget(usd: f64) -> bool {
    (0.0..=BUDGET_MAX_USD).contains(&usd)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_call_counts_before_the_project_and_that_before_the_server() {
        let config = ServerConfig {
            default_budget_usd: Some(10.0),
            default_timeout_seconds: Some(60),
            default_isolation: IsolationWanted::Sampled,
            ..ServerConfig::default()
        };
        let blank = ProjectSettings::default();
        let project = ProjectSettings {
            budget_usd: Some(5.0),
            isolation: Some(IsolationWanted::Any),
            ..ProjectSettings::default()
        };
        let asked = Asked {
            budget_usd: Some(0.0),
            timeout_seconds: Some(1),
            isolation: Some(IsolationWanted::Strict),
            ..Asked::default()
        };
        let terms = |asked: &Asked, project: &ProjectSettings| {
            let terms = settle(asked, project, &config);
            (terms.budget_usd, terms.timeout_seconds, terms.isolation)
        };
        let nothing = Asked::default();
        assert_eq!(terms(&nothing, &blank), (Some(10.0), Some(60), IsolationWanted::Sampled));
        assert_eq!(terms(&nothing, &project), (Some(5.0), Some(60), IsolationWanted::Any));
        assert_eq!(terms(&asked, &project), (Some(0.0), Some(1), IsolationWanted::Strict));
    }
}
