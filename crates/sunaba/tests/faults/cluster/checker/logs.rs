//! Promises 1, 2 and 3: logs, what is published of them, and who watches.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cluster::stream::Line;
use crate::cluster::watcher::{Filter, Frame, published};
use crate::cluster::writer::{TYPE, Written, fingerprint};

/// Promises 1, 2 and 3: every acknowledged event is in the log, as it was sent, where it was said to be, once;
/// and the log has no gap.
pub(in crate::cluster) fn log(log: &[Value], told: &[Written]) -> anyhow::Result<()> {
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
pub(in crate::cluster) fn feed(
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
pub(in crate::cluster) fn subscriber(filter: &Filter, seen: &[Frame], feed: &[Frame]) -> anyhow::Result<()> {
    let wanted: Vec<Frame> = feed.iter().filter(|frame| filter.lets(frame)).cloned().collect();
    same(&format!("the feed and a subscriber to {filter:?}"), &wanted, seen)
}

/// Promise 3 for whoever follows one log over SSE: the whole of it, each event once and in its place.
pub(in crate::cluster) fn stream(seen: &[Line], log: &[Value]) -> anyhow::Result<()> {
    for (line, seq) in seen.iter().zip(1i64..) {
        ensure!(line.id == seq, "after {} of a stream came {}", seq - 1, line.id);
    }
    ensure!(seen.len() == log.len(), "a stream showed {} of {} events", seen.len(), log.len());
    let differ = seen.iter().zip(log).find(|(line, event)| line.data != **event);
    if let Some((line, event)) = differ {
        anyhow::bail!("a stream showed {} and the log {event}", line.data);
    }
    Ok(())
}

fn same(who: &str, one: &[Frame], other: &[Frame]) -> anyhow::Result<()> {
    let differ = one.iter().zip(other).position(|(one, other)| one != other);
    if let Some(at) = differ {
        anyhow::bail!("{who} differ at {at}: {:?} and {:?}", one[at], other[at]);
    }
    ensure!(one.len() == other.len(), "{who} differ in length: {} and {}", one.len(), other.len());
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finds;
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
    fn it_finds_what_a_stream_left_out_repeated_or_changed() {
        let log = [event("a", 1), event("b", 2)];
        let line = |id: i64, event: &Value| Line { id, data: event.clone() };
        let good = [line(1, &log[0]), line(2, &log[1])];
        stream(&good, &log).unwrap();
        finds(stream(&good[..1], &log), "showed 1 of 2");
        finds(stream(&good[1..], &log), "after 0 of a stream came 2");
        finds(stream(&[good[0].clone(), good[0].clone()], &log), "after 1 of a stream came 1");
        finds(stream(&[line(1, &log[0]), line(2, &event("c", 2))], &log), "and the log");
    }
}
