//! Promise 4: what was said, and what became of it.

use std::collections::{BTreeSet, HashMap};

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::cluster::inbox::Sent;

/// Every acknowledged message was taken by the worker, and its fate says so.
pub(in crate::cluster) fn inbox(
    sent: &[&Sent],
    taken: &BTreeSet<String>,
    history: &[Value],
) -> anyhow::Result<()> {
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

/// What one poll gave: interrupts first, then the oldest first, and none twice.
pub(in crate::cluster) fn polled(messages: &[Value]) -> anyhow::Result<()> {
    let place = |message: &Value| {
        let seq = message["seq"].as_i64().with_context(|| format!("a message without seq: {message}"))?;
        anyhow::Ok((!is_interrupt(message), seq))
    };
    for pair in messages.windows(2) {
        ensure!(place(&pair[0])? < place(&pair[1])?, "a poll gave {} before {}", pair[0], pair[1]);
    }
    Ok(())
}

fn is_interrupt(message: &Value) -> bool {
    message["message_type"] == "interrupt"
}

/// Agents that completed their work had read everything that was acknowledged: here, or in the attempt that was
/// made because the one before ended first. The histories are those of all attempts.
pub(in crate::cluster) fn to_runs(sent: &[Sent], histories: &[Value]) -> anyhow::Result<()> {
    let fates = fates(histories)?;
    for Sent { sandbox, id } in sent {
        let fate = fates.get(id.as_str()).with_context(|| format!("{sandbox}: nothing is known of {id}"))?;
        ensure!(fate["state"] == "consumed", "{sandbox} is completed and nobody read {fate}");
    }
    Ok(())
}

fn fates(history: &[Value]) -> anyhow::Result<HashMap<&str, &Value>> {
    let mut fates = HashMap::new();
    for message in history {
        let id = message["id"].as_str().context("a message without id")?;
        ensure!(fates.insert(id, message).is_none(), "{id} is there twice");
    }
    Ok(fates)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finds;
    use super::*;

    #[test]
    fn it_finds_a_message_that_was_lost_or_whose_fate_is_unknown() {
        let sent = Sent { sandbox: "x".to_owned(), id: "m".to_owned() };
        let taken = BTreeSet::from(["m".to_owned()]);
        let history = |state: &str| vec![json!({ "id": "m", "state": state })];
        inbox(&[&sent], &taken, &history("consumed")).unwrap();
        finds(inbox(&[&sent], &BTreeSet::new(), &history("queued")), "never handed over");
        finds(inbox(&[&sent], &taken, &history("handed_over")), "the worker was told");
        finds(inbox(&[&sent], &taken, &[]), "nothing is known");
        let to_it = [sent];
        to_runs(&to_it, &history("consumed")).unwrap();
        for state in ["queued", "handed_over", "expired", "superseded"] {
            finds(to_runs(&to_it, &history(state)), "nobody read");
        }
        finds(to_runs(&to_it, &[]), "nothing is known");
        finds(to_runs(&to_it, &[history("consumed"), history("consumed")].concat()), "there twice");
    }

    #[test]
    fn it_finds_an_interrupt_that_waits_behind_others_and_what_is_out_of_order() {
        let message = |seq: i64, kind: &str| json!({ "id": "m", "seq": seq, "message_type": kind });
        let (one, two) = (message(1, "user_message"), message(2, "user_message"));
        let (stop, stop_again) = (message(3, "interrupt"), message(4, "interrupt"));
        polled(&[]).unwrap();
        polled(&[stop.clone(), stop_again.clone(), one.clone(), two.clone()]).unwrap();
        finds(polled(&[one.clone(), stop.clone()]), "before");
        finds(polled(&[stop.clone(), one.clone(), stop_again.clone()]), "before");
        finds(polled(&[stop_again, stop]), "before");
        finds(polled(&[two, one.clone()]), "before");
        finds(polled(&[one.clone(), one]), "before");
    }
}
