//! Turns what a person types for a sandbox into its id: the id, `last`, or a unique piece of it.

use super::http::Client;
use super::wire::Sandbox;
use crate::failure::{Failure, Outcome};

/// How many of the newest sandboxes a piece is compared with.
const SEARCHED: u32 = 500;

/// Whether this word stands for the newest sandbox.
fn is_last(word: &str) -> bool {
    word == "last"
}

/// The sandbox that a word names.
pub(crate) async fn resolve(client: &Client, word: &str) -> Outcome<String> {
    if !is_last(word) && client.find_sandbox(word).await?.is_some() {
        return Ok(word.to_owned());
    }
    let newest_first = client.sandboxes(None, SEARCHED).await?;
    choose(word, &newest_first)
}

fn choose(word: &str, newest_first: &[Sandbox]) -> Outcome<String> {
    let ids = newest_first.iter().map(|sandbox| sandbox.id.as_str());
    if is_last(word) {
        let newest = ids.into_iter().next();
        return newest.map(str::to_owned).ok_or_else(|| Failure::other("there is no sandbox yet"));
    }
    let matching: Vec<&str> = ids.filter(|id| names(word, id)).collect();
    match matching.as_slice() {
        [one] => Ok((*one).to_owned()),
        [] => Err(Failure::other(format!("no sandbox is called {word}; `sunaba ps --all` lists them"))),
        several => Err(Failure::usage(format!(
            "{word} could be {}; write more of it",
            several.iter().take(5).copied().collect::<Vec<_>>().join(", ")
        ))),
    }
}

/// Whether a word is the beginning or the end of an id, its kind (`sbx_`) aside.
fn names(word: &str, id: &str) -> bool {
    let bare = id.split_once('_').map_or(id, |(_, bare)| bare);
    id.starts_with(word) || bare.starts_with(word) || id.ends_with(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sandboxes(ids: &[&str]) -> Vec<Sandbox> {
        let one = |id: &str| {
            serde_json::from_value(serde_json::json!({
                "id": id, "attempt": 0, "provider": "external", "state": "running",
                "state_entered_at": "2026-01-01T00:00:00Z", "runtime": "native", "model": "m", "prompt": "",
                "resources": {"memory_gb": 1.0, "cpu": 1.0, "disk_gb": 1.0},
                "created_at": "2026-01-01T00:00:00Z",
            }))
            .unwrap()
        };
        ids.iter().map(|id| one(id)).collect()
    }

    fn check(word: &str, wanted: Result<&str, &str>) {
        let known = sandboxes(&["sbx_0199ab44", "sbx_0199ab31", "other"]);
        match (choose(word, &known), wanted) {
            (Ok(id), Ok(wanted)) => assert_eq!(id, wanted),
            (Err(failure), Err(wanted)) => assert!(failure.to_string().contains(wanted), "{failure}"),
            (got, _) => panic!("{word} gave {got:?}"),
        }
    }

    #[test]
    fn a_unique_piece_is_enough() {
        check("last", Ok("sbx_0199ab44"));
        check("31", Ok("sbx_0199ab31"));
        check("sbx_0199ab4", Ok("sbx_0199ab44"));
        check("0199ab4", Ok("sbx_0199ab44"));
        check("oth", Ok("other"));
        check("0199", Err("could be sbx_0199ab44, sbx_0199ab31"));
        check("zz", Err("no sandbox is called zz"));
    }
}
