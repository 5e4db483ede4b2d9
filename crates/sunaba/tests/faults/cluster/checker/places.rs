//! Promise 7: what lies at the servers, and the rows that speak of it.

use std::collections::BTreeSet;

use anyhow::ensure;
use serde_json::Value;

/// One server and the sandboxes whose directories it has, known to anybody or not.
#[derive(Debug)]
pub(in crate::cluster) struct Place {
    pub(in crate::cluster) node: String,
    pub(in crate::cluster) sandboxes: BTreeSet<String>,
}

/// Every directory is that of a living row which names its server, and every living row has its directory there.
pub(in crate::cluster) fn places(places: &[Place], living: &[Value]) -> anyhow::Result<()> {
    let is_named = |place: &Place, id: &str| {
        living.iter().any(|row| row["id"] == id && row["node_id"] == place.node.as_str())
    };
    for place in places {
        for id in &place.sandboxes {
            ensure!(is_named(place, id), "no living row speaks of {id} at {}", place.node);
        }
    }
    for row in living {
        let is_there = places.iter().any(|place| {
            row["node_id"] == place.node.as_str()
                && row["id"].as_str().is_some_and(|id| place.sandboxes.contains(id))
        });
        ensure!(is_there, "nothing is there of {row}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::finds;
    use super::*;

    #[test]
    fn it_finds_a_directory_without_a_row_and_a_row_without_a_directory() {
        let place = |node: &str, ids: &[&str]| Place {
            node: node.to_owned(),
            sandboxes: ids.iter().map(|id| (*id).to_owned()).collect(),
        };
        let row = |id: &str, node: &str| json!({ "id": id, "node_id": node, "state": "running" });
        places(&[place("a", &[]), place("b", &[])], &[]).unwrap();
        places(&[place("a", &["s"]), place("b", &[])], &[row("s", "a")]).unwrap();
        finds(places(&[place("a", &["s"])], &[]), "no living row speaks of s at a");
        finds(places(&[place("a", &["s", "unknown"])], &[row("s", "a")]), "speaks of unknown at a");
        finds(places(&[place("a", &[]), place("b", &["s"])], &[row("s", "a")]), "speaks of s at b");
        finds(places(&[place("a", &["s"]), place("b", &["s"])], &[row("s", "a")]), "speaks of s at b");
        finds(places(&[place("a", &[]), place("b", &[])], &[row("s", "a")]), "nothing is there");
    }
}
