//! Compares what clients were told with what the servers show. It asks nobody and knows nothing else.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use anyhow::{Context, ensure};
use serde_json::Value;

use super::inbox::Sent;
use super::watcher::{Filter, Frame, published};
use super::writer::{TYPE, Written, fingerprint};

/// Promises 1, 2 and 3: every acknowledged event is in the log, as it was sent, where it was said to be, once;
/// and the log has no gap.
pub(super) fn log(log: &[Value], told: &[Written]) -> anyhow::Result<()> {
    let mut by_id: HashMap<&str, &Value> = HashMap::new();
    for (event, seq) in log.iter().zip(1i64..) {
        ensure!(event["seq"] == seq, "a gap before {event}");
        let id = event["id"].as_str().context("an event without id")?;
        ensure!(by_id.insert(id, event).is_none(), "{id} was stored twice");
    }
    for Written { id, seq, fingerprint: sent } in told {
        let event = by_id.get(id.as_str()).with_context(|| format!("{id} was acknowledged and is lost"))?;
        ensure!(event["seq"] == *seq, "{id} was acknowledged as {seq}: {event}");
        ensure!(fingerprint(&event["event_data"]) == *sent, "{id} is not what was sent: {event}");
    }
    Ok(())
}

/// The same of what is published: both servers tell the same story, in order, and it holds each log.
pub(super) fn feed(
    one: &[Frame],
    other: &[Frame],
    logs: &BTreeMap<String, Vec<Value>>,
) -> anyhow::Result<()> {
    ensure!(one.windows(2).all(|pair| pair[0].position < pair[1].position), "positions do not rise");
    same("the two servers", one, other)?;
    let mut told: HashMap<&str, Vec<&str>> = HashMap::new();
    for frame in one.iter().filter(|frame| frame.event_type == published(TYPE)) {
        told.entry(&frame.entity_id).or_default().push(&frame.id);
    }
    for (sandbox, log) in logs {
        let stored = log.iter().filter(|event| event["event_type"] == TYPE);
        let stored: Vec<&str> = stored.filter_map(|event| event["id"].as_str()).collect();
        let told = told.remove(sandbox.as_str()).unwrap_or_default();
        ensure!(
            told == stored,
            "{sandbox}: {} events stored, {} published, or in another order",
            stored.len(),
            told.len()
        );
    }
    Ok(())
}

/// Promise 3 for one subscriber: every position of its filter exactly once and in order.
pub(super) fn subscriber(filter: &Filter, seen: &[Frame], feed: &[Frame]) -> anyhow::Result<()> {
    let wanted: Vec<Frame> = feed.iter().filter(|frame| filter.lets(frame)).cloned().collect();
    same(&format!("the feed and a subscriber to {filter:?}"), &wanted, seen)
}

fn same(who: &str, one: &[Frame], other: &[Frame]) -> anyhow::Result<()> {
    let differ = one.iter().zip(other).position(|(one, other)| one != other);
    if let Some(at) = differ {
        anyhow::bail!("{who} differ at {at}: {:?} and {:?}", one[at], other[at]);
    }
    ensure!(one.len() == other.len(), "{who} differ in length: {} and {}", one.len(), other.len());
    Ok(())
}

/// Promise 4: every acknowledged message was taken by the worker, and its fate says so.
pub(super) fn inbox(sent: &[&Sent], taken: &BTreeSet<String>, history: &[Value]) -> anyhow::Result<()> {
    let fates = fates(history)?;
    for Sent { sandbox, id } in sent {
        ensure!(
            taken.contains(id),
            "{sandbox}: {id} was acknowledged and never handed over: {:?}",
            fates.get(id.as_str())
        );
        let fate = fates.get(id.as_str()).with_context(|| format!("{sandbox}: nothing is known of {id}"))?;
        ensure!(fate["state"] == "consumed", "{sandbox}: the worker was told and the server says {fate}");
    }
    Ok(())
}

/// Promise 4 for a sandbox that is over: no acknowledged message still waits.
pub(super) fn fates_of_ended(sent: &[&Sent], history: &[Value]) -> anyhow::Result<()> {
    let fates = fates(history)?;
    for Sent { sandbox, id } in sent {
        let fate = fates.get(id.as_str()).with_context(|| format!("{sandbox}: nothing is known of {id}"))?;
        let known = fate["state"].as_str().is_some_and(|state| ENDS_OF_MESSAGES.contains(&state));
        ensure!(known, "{sandbox} is over and its message waits: {fate}");
    }
    Ok(())
}

const ENDS_OF_MESSAGES: [&str; 2] = ["consumed", "expired"];

fn fates(history: &[Value]) -> anyhow::Result<HashMap<&str, &Value>> {
    let mut fates = HashMap::new();
    for message in history {
        let id = message["id"].as_str().context("a message without id")?;
        ensure!(fates.insert(id, message).is_none(), "{id} is there twice");
    }
    Ok(fates)
}

/// Promises 5 and 6: of every task one attempt, the first, which came to its end; nobody failed it for an outage.
pub(super) fn runs(rows: &[Value], asked: &[String]) -> anyhow::Result<()> {
    let mut tasks: BTreeMap<&str, &Value> = BTreeMap::new();
    let mut ids = BTreeSet::new();
    for row in rows {
        ids.insert(row["id"].as_str().context("id")?);
        let task = row["task_id"].as_str().context("task_id")?;
        let before = tasks.insert(task, row);
        ensure!(before.is_none(), "{task} has two attempts: {} and {row}", before.unwrap_or(&Value::Null));
        ensure!(row["attempt"] == 1, "it was tried again: {row}");
        ensure!(row["state"] == "completed", "it was healthy and is {}: {row}", row["state"]);
    }
    for id in asked {
        ensure!(ids.contains(id.as_str()), "{id} was acknowledged and is not known");
    }
    Ok(())
}

/// Promise 6 for sandboxes of outside workers: they were heard all the time.
pub(super) fn heard(row: &Value) -> anyhow::Result<()> {
    ensure!(row["state"] == "running", "its worker never stopped and it is {}: {row}", row["state"]);
    Ok(())
}

#[cfg(test)]
mod tests {
    //! A checker that finds nothing must be one that would.

    use serde_json::json;

    use super::*;

    fn event(id: &str, seq: i64) -> Value {
        json!({ "id": id, "seq": seq, "event_type": TYPE, "event_data": { "content": id } })
    }

    fn written(id: &str, seq: i64) -> Written {
        Written { id: id.to_owned(), seq, fingerprint: fingerprint(&json!({ "content": id })) }
    }

    fn frame(position: i64, entity: &str, id: &str) -> Frame {
        let event_type = published(TYPE);
        Frame { position, entity_id: entity.to_owned(), event_type, id: id.to_owned(), fingerprint: 0 }
    }

    #[track_caller]
    fn finds(found: anyhow::Result<()>, what: &str) {
        let error = format!("{:#}", found.expect_err("it must not pass"));
        assert!(error.contains(what), "{error}");
    }

    #[test]
    fn it_finds_what_a_log_lost_moved_changed_or_repeated() {
        let stored = [event("a", 1), event("b", 2)];
        log(&stored, &[written("a", 1), written("b", 2)]).unwrap();
        finds(log(&stored, &[written("c", 3)]), "c was acknowledged and is lost");
        finds(log(&stored, &[written("a", 2)]), "acknowledged as 2");
        let changed = Written { fingerprint: 1, ..written("a", 1) };
        finds(log(&stored, &[changed]), "not what was sent");
        finds(log(&[event("a", 1), event("b", 3)], &[]), "a gap");
        finds(log(&[event("a", 1), event("a", 2)], &[]), "stored twice");
    }

    #[test]
    fn it_finds_what_a_subscriber_missed_or_saw_twice() {
        let feed = [frame(1, "x", "a"), frame(2, "y", "b"), frame(4, "x", "c")];
        let of_x = Filter::Entities(vec!["x".to_owned()]);
        subscriber(&Filter::Everything, &feed, &feed).unwrap();
        subscriber(&of_x, &[feed[0].clone(), feed[2].clone()], &feed).unwrap();
        finds(subscriber(&of_x, &feed[..1], &feed), "differ in length");
        finds(subscriber(&of_x, &[feed[0].clone(), feed[0].clone()], &feed), "differ at 1");
        let swapped = [feed[1].clone(), feed[0].clone(), feed[2].clone()];
        finds(subscriber(&Filter::Everything, &swapped, &feed), "differ at 0");
    }

    #[test]
    fn it_finds_a_feed_that_disagrees_with_the_logs() {
        let logs = BTreeMap::from([("x".to_owned(), vec![event("a", 1), event("b", 2)])]);
        let good = [frame(1, "x", "a"), frame(2, "x", "b")];
        feed(&good, &good, &logs).unwrap();
        finds(feed(&good, &good[..1], &logs), "differ in length");
        finds(feed(&good[..1], &good[..1], &logs), "2 events stored, 1 published");
        let back = [frame(2, "x", "a"), frame(1, "x", "b")];
        finds(feed(&back, &back, &logs), "do not rise");
    }

    #[test]
    fn it_finds_a_message_that_was_lost_or_whose_fate_is_unknown() {
        let sent = Sent { sandbox: "x".to_owned(), id: "m".to_owned() };
        let taken = BTreeSet::from(["m".to_owned()]);
        let history = |state: &str| vec![json!({ "id": "m", "state": state })];
        inbox(&[&sent], &taken, &history("consumed")).unwrap();
        finds(inbox(&[&sent], &BTreeSet::new(), &history("queued")), "never handed over");
        finds(inbox(&[&sent], &taken, &history("handed_over")), "the worker was told");
        finds(inbox(&[&sent], &taken, &[]), "nothing is known");
        fates_of_ended(&[&sent], &history("expired")).unwrap();
        finds(fates_of_ended(&[&sent], &history("queued")), "its message waits");
    }

    #[test]
    fn it_finds_a_second_attempt_a_failure_and_a_forgotten_sandbox() {
        let row = |id: &str, task: &str, attempt: i64, state: &str| json!({ "id": id, "task_id": task, "attempt": attempt, "state": state });
        let good = [row("s", "t", 1, "completed")];
        runs(&good, &["s".to_owned()]).unwrap();
        finds(runs(&good, &["r".to_owned()]), "r was acknowledged");
        finds(runs(&[row("s", "t", 1, "failed")], &[]), "it was healthy");
        finds(runs(&[row("s", "t", 2, "completed")], &[]), "tried again");
        finds(runs(&[good[0].clone(), row("r", "t", 2, "running")], &[]), "two attempts");
        finds(heard(&json!({ "state": "failed" })), "never stopped");
    }
}
