//! What is told of a run's beginning and of its end.

use serde_json::{Map, Value, json};
use sunaba_agent::RunOutcome;
use sunaba_types::{Clock as _, SystemClock};

use super::config::{Agent, Assignment, Identity};
use super::repository::Captured;

/// The conversation that the first run goes on with.
pub(super) fn resumed(assignment: Option<&Assignment>) -> Option<&str> {
    assignment?.resumption.as_ref().map(|resumption| resumption.session_id.as_str())
}

/// `agent.started`.
pub(super) fn started(
    identity: &Identity,
    agent: Option<Agent>,
    assignment: Option<&Assignment>,
    resumed: Option<&str>,
) -> Map<String, Value> {
    object(json!({
        "timestamp": SystemClock.now().to_string(),
        "sdk": agent.as_ref().map(Agent::sdk),
        "runtime": agent.as_ref().map(Agent::name),
        "heartbeat": "continuous",
        "heartbeat_seconds": identity.heartbeat.as_secs_f64(),
        "model": assignment.map(|assignment| &assignment.model),
        "task": assignment.map(|assignment| &assignment.title),
        "branch_name": assignment.map(|assignment| &assignment.branch),
        "resumed_session_id": resumed,
        "is_resuming": resumed.is_some(),
        "continuous": assignment.is_some_and(|assignment| assignment.continuous.is_some()),
    }))
}

/// `agent.completed`.
pub(super) fn completed(
    assignment: &Assignment,
    outcome: &RunOutcome,
    captured: &Captured,
    pushed: bool,
    success: bool,
) -> Map<String, Value> {
    let undelivered: Vec<_> = outcome.undelivered.iter().map(|message| &message.message_id).collect();
    object(json!({
        "success": success,
        "turns": outcome.turns,
        "session_id": outcome.session_id,
        "stop_reason": outcome.stop_reason(),
        "input_tokens": outcome.usage.input_tokens,
        "output_tokens": outcome.usage.output_tokens,
        "cache_read_tokens": outcome.usage.cache_read_tokens,
        "cache_write_tokens": outcome.usage.cache_write_tokens,
        "cost_usd": null,
        "final_output": outcome.final_output,
        "branch_name": assignment.branch,
        "agent_type": assignment.agent_type,
        "files_changed": captured.files_changed,
        "changed_files": captured.files,
        "head_commit": captured.head,
        "tests_passed": null,
        "code_committed": captured.committed,
        "code_pushed": pushed,
        "pr_created": false,
        "pr_url": null,
        "pr_number": null,
        "undelivered_messages": undelivered,
    }))
}

/// The fields of an object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}
