//! Promises 5 and 6: tasks, their attempts, and who was failed for nothing.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::Place;

/// Every sandbox that was acknowledged is there and came to its end; nobody failed it for an outage, and no task was
/// tried again. Only something that was `said` to a sandbox may have come so late that another one goes on with it.
pub(in crate::cluster) fn runs(rows: &[Value], asked: &[String], said: &[String]) -> anyhow::Result<()> {
    let mut tasks: BTreeMap<&str, BTreeMap<i64, &Value>> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for row in rows {
        ids.insert(text(row, "id")?);
        let attempt = row["attempt"].as_i64().context("attempt")?;
        let attempts = tasks.entry(text(row, "task_id")?).or_default();
        let before = attempts.insert(attempt, row);
        ensure!(before.is_none(), "twice the same attempt: {} and {row}", before.unwrap_or(&Value::Null));
        ensure!(row["state"] == "completed", "it was healthy and is {}: {row}", row["state"]);
    }
    for (task, attempts) in tasks {
        let counted = attempts.keys().copied().eq(1..=attempts.len() as i64);
        ensure!(counted, "{task} has the attempts {:?}", attempts.keys());
        let is_of_it = |id: &&String| attempts.values().any(|row| row["id"] == **id);
        let most = said.iter().filter(is_of_it).count();
        for row in attempts.values().skip(1) {
            let why = &row["terms"]["resume"]["because"];
            ensure!(why == "message" && attempts.len() <= 1 + most, "it was tried again: {row}");
        }
    }
    for id in asked {
        ensure!(ids.contains(id.as_str()), "{id} was acknowledged and is not known");
    }
    Ok(())
}

/// What was seen at one moment: no task has two sandboxes that are not over, and no sandbox is at two servers.
pub(in crate::cluster) fn one_at_a_time(living: &[Value], places: &[Place]) -> anyhow::Result<()> {
    let mut tasks: BTreeMap<&str, &Value> = BTreeMap::new();
    for row in living {
        let task = text(row, "task_id")?;
        let other = tasks.insert(task, row);
        ensure!(other.is_none(), "{task} has two at once: {} and {row}", other.unwrap_or(&Value::Null));
    }
    let mut homes: BTreeMap<&str, &str> = BTreeMap::new();
    for place in places {
        for id in &place.sandboxes {
            let other = homes.insert(id, &place.node);
            ensure!(other.is_none(), "{id} is at {} and at {}", other.unwrap_or_default(), place.node);
        }
    }
    Ok(())
}

/// The log of one attempt: its agent was begun once.
pub(in crate::cluster) fn begun(sandbox: &str, log: &[Value]) -> anyhow::Result<()> {
    let times = log.iter().filter(|event| event["event_type"] == "agent.started").count();
    ensure!(times == 1, "{sandbox} was begun {times} times");
    Ok(())
}

/// Promise 6 for sandboxes of outside workers: they were heard all the time.
pub(in crate::cluster) fn heard(row: &Value) -> anyhow::Result<()> {
    ensure!(row["state"] == "running", "its worker never stopped and it is {}: {row}", row["state"]);
    Ok(())
}

fn text<'a>(row: &'a Value, name: &str) -> anyhow::Result<&'a str> {
    row[name].as_str().with_context(|| format!("no {name}: {row}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finds;
    use super::*;

    fn row(id: &str, attempt: i64, state: &str) -> Value {
        json!({ "id": id, "task_id": "t", "attempt": attempt, "state": state })
    }

    fn for_a_message(id: &str, attempt: i64) -> Value {
        let resume = json!({ "because": "message" });
        json!({ "id": id, "task_id": "t", "attempt": attempt, "state": "completed", "terms": { "resume": resume } })
    }

    #[test]
    fn it_finds_another_attempt_a_failure_and_a_forgotten_sandbox() {
        let good = [row("s", 1, "completed")];
        let s = ["s".to_owned()];
        runs(&good, &s, &[]).unwrap();
        finds(runs(&good, &["r".to_owned()], &[]), "r was acknowledged");
        finds(runs(&[row("s", 1, "failed")], &[], &[]), "it was healthy");
        finds(runs(&[row("s", 2, "completed")], &[], &[]), "has the attempts");
        finds(runs(&[good[0].clone(), row("r", 1, "completed")], &[], &[]), "twice the same");
        finds(runs(&[good[0].clone(), row("r", 2, "completed")], &[], &s), "tried again");
        finds(heard(&json!({ "state": "failed" })), "never stopped");
    }

    #[test]
    fn it_lets_a_message_be_gone_on_with_once() {
        let (s, two) = (["s".to_owned()], [row("s", 1, "completed"), for_a_message("r", 2)]);
        runs(&two, &s, &s).unwrap();
        finds(runs(&two, &s, &[]), "tried again");
        let three = [two[0].clone(), two[1].clone(), for_a_message("q", 3)];
        finds(runs(&three, &s, &s), "tried again");
    }

    #[test]
    fn it_finds_two_at_once_and_an_agent_that_was_begun_twice() {
        let place = |node: &str, ids: &[&str]| Place {
            node: node.to_owned(),
            sandboxes: ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        one_at_a_time(&[row("s", 1, "running")], &[place("a", &["s"]), place("b", &["r"])]).unwrap();
        finds(one_at_a_time(&[row("s", 1, "running"), row("r", 2, "pending")], &[]), "two at once");
        finds(one_at_a_time(&[], &[place("a", &["s"]), place("b", &["s"])]), "s is at a and at b");
        let started = json!({ "event_type": "agent.started" });
        begun("s", std::slice::from_ref(&started)).unwrap();
        finds(begun("s", &[]), "begun 0 times");
        finds(begun("s", &[started.clone(), json!({ "event_type": "x" }), started]), "begun 2 times");
    }
}
